"""The nets of others, by name: as large as they were described, exported, played, trained."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commandline import arena
from played import random_game

from arena import CheckpointError, ConfigError
from arena.contract.bot import Limits
from arena.go.game import Game, Rules
from arena.go.planes import find_encoder
from arena.go.sgf import write_sgf
from arena.players.registry import Registry
from bots.nets.catalogue import load_network, named_network, parameters, usual_encoder
from bots.nets.checkpoint import Checkpoint
from bots.nets.inference import Evaluator
from trainers import ownership, sl
from trainers.export import describe, export
from trainers.losses import Target

SIZE = 7


def test_the_nets_are_as_large_as_they_were_described() -> None:
    trencseni = (81 * 1 + 1) * 32 + (49 * 32 + 1) * 32 + (25 * 32 + 1) * 32
    trencseni += (32 * 361 + 1) * 361 + (361 + 1) * 362  # with one output more, for the pass
    alphago = (25 * 48 + 1) * 192 + 11 * (9 * 192 + 1) * 192 + 192 + 361 + (192 + 1)
    gocnn = (25 * 8 + 1) * 64 + 2 * (25 * 64 + 1) * 64 + (25 * 64 + 1) * 48 + (25 * 48 + 1) * 48 + 25 * 48 + 1
    nets = ("trencseni-cnn", 1, trencseni), ("alphago-12x192", 48, alphago), ("gocnn-5x64", 8, gocnn)
    for name, planes, expected in nets:
        assert find_encoder(usual_encoder(name)).planes == planes
        assert parameters(named_network(name, planes, 19)) == expected
    for name in ("arena", "arena-0x8", "alphago-12", "resnet-6x64", "gocnn-5x", "arena-6x64 "):
        with pytest.raises(ConfigError, match="name one like arena-6x56"):
            named_network(name, 17, 9)


@pytest.mark.parametrize("name", ["trencseni-cnn", "alphago-3x12", "gocnn-1x4"])
def test_an_exported_net_answers_as_torch_does(name: str, tmp_path: Path) -> None:
    encoder = find_encoder(usual_encoder(name))
    with torch.random.fork_rng():
        torch.manual_seed(5)
        network = named_network(name, encoder.planes, 7).eval()
    rules, planes = Rules.preset("cgos", 7), np.random.default_rng(1).random((32, encoder.planes, 7, 7), np.float32)
    made = export(network, tmp_path / name, describe(network, name, encoder, rules), planes, planes)
    assert made.manifest.metrics["fp32_difference"] < 1e-4 and made.manifest.metrics["int8_agreement"] > 0.7
    again = load_network(made).eval()
    said, once = (net(torch.from_numpy(planes)) for net in (again, network))
    assert all(torch.equal(a, b) for a, b in zip(said, once, strict=True) if a is not None)
    assert asdict(again.config) == asdict(network.config)
    if name.startswith("gocnn"):
        with pytest.raises(CheckpointError, match="no policy"):
            Evaluator(made)
        return
    policy, win_rates = Evaluator(made, "fp32").evaluate(planes)
    assert policy.shape == (32, 50) and np.isnan(win_rates).all()
    with pytest.raises(CheckpointError, match="7x7 to 7x7"):
        Evaluator(made).evaluate(planes[:, :, :5, :5])


def test_the_ownership_loss_knows_only_scored_rows() -> None:
    logits = torch.zeros(3, 4, requires_grad=True)
    owners = torch.tensor([[1, -1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.int8)
    scores = torch.tensor([3.0, -2.0, float("nan")])
    target = Target(torch.zeros(3), torch.zeros(3), owners, scores)
    said = ownership.Outputs(ownership=logits)
    squared, right = ownership.loss(said, target)
    assert float(squared.detach()) == pytest.approx((0.25 * 3 / 4 + 0.25) / 2)  # a point of no one's is half of each
    assert right == pytest.approx(1 / 7)  # a logit of 0 says: not mine
    squared.backward()
    assert logits.grad is not None and not logits.grad[2].any() and logits.grad[:2].any()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "random.sgfs"
    games = (random_game(seed, f"20{17 + seed % 2}-05-{1 + seed:02}") for seed in range(24))
    path.write_text("".join(f"{write_sgf(game)}\n" for game in games))
    return path


def common(archive: Path) -> dict[str, Any]:
    """Settings of a small run."""
    return {"name": "small", "data": (str(archive),), "size": SIZE, "batch_size": 32, "max_rows": 128, "device": "cpu"}


def test_an_ownership_net_learns_and_is_measured(archive: Path, tmp_path: Path) -> None:
    learning = {"optimizer": "adamw", "learning_rate": 0.003, "ema_decay": 0.9, "max_rows": 60 * 32}
    config, seen = common(archive) | learning | {"net": "gocnn-3x16", "test_from": "2018-01-01"}, []
    folder = ownership.train(ownership.Config(**config), tmp_path, seen.append)
    metrics = Checkpoint.open(folder).manifest.metrics
    assert metrics["test_ownership"] > 0.6 and metrics["test_brier"] < 0.24
    assert seen[-1].loss < seen[0].loss and seen[-1].right > 0.6
    run = arena("eval", str(folder), "--data", str(archive), "--size", str(SIZE), folder=tmp_path)
    assert run.returncode == 0 and "owners predicted" in run.stdout and "top-1" not in run.stdout
    match = arena("match", f"checkpoint:{folder}", "random", "-n", "2", "--size", str(SIZE), folder=tmp_path)
    assert match.returncode == 2 and match.stderr.count("\n") == 1 and "no policy" in match.stderr


def test_a_plain_stack_learns_moves_and_plays(archive: Path, tmp_path: Path) -> None:
    folder = sl.train(sl.Config(**common(archive), test_from="", net="trencseni-cnn"), tmp_path)
    manifest = Checkpoint.open(folder).manifest
    assert manifest.encoder == "stones-1" and manifest.metrics["test_results"] == 0
    bot = Registry(results=tmp_path).resolve(f"checkpoint:{folder}").build()
    assert bot.choose(Game(Rules.preset("cgos", SIZE)), Limits()).move is not None


def test_a_net_without_a_head_is_refused_by_the_trainer_that_needs_it(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="gocnn-5x64 has no policy"):
        sl.train(sl.Config(net="gocnn-5x64", **common(archive)), tmp_path)
    with pytest.raises(ConfigError, match="trencseni-cnn has no ownership"):
        ownership.train(ownership.Config(net="trencseni-cnn", **common(archive)), tmp_path)
    assert not (tmp_path / "training").exists()
