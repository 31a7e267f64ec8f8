"""The nets of others, by name: as large as they were described, exported, played, trained."""

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.commandline import arena
from helpers.games import random_game

from arena.contract.bot import Limits
from arena.go.game import Game, Rules
from arena.go.planes import find_encoder
from arena.go.sgf import write_sgf
from arena.players.registry import Registry
from bots.nets.catalogue import named_network, usual_encoder
from bots.nets.checkpoint import Checkpoint
from bots.nets.network import expected_result
from trainers import ownership, sl
from trainers.losses import Target


def test_the_nets_are_as_large_as_they_were_described() -> None:
    trencseni = (81 * 1 + 1) * 32 + (49 * 32 + 1) * 32 + (25 * 32 + 1) * 32
    trencseni += (32 * 361 + 1) * 361 + (361 + 1) * 362  # with one output more, for the pass
    alphago = (25 * 48 + 1) * 192 + 11 * (9 * 192 + 1) * 192 + 192 + 361 + (192 + 1)
    gocnn = (25 * 8 + 1) * 64 + 4 * (25 * 64 + 1) * 64 + 25 * 64 + 1
    nets = ("trencseni-cnn", 1, trencseni), ("alphago-12x192", 48, alphago), ("gocnn-5x64", 8, gocnn)
    for name, planes, expected in nets:
        assert find_encoder(usual_encoder(name)).planes == planes
        assert sum(part.numel() for part in named_network(name, planes, 19).parameters()) == expected


def test_the_ownership_loss_knows_only_scored_rows() -> None:
    owners = torch.tensor([[1, -1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.int8)
    scores = torch.tensor([3.0, -2.0, float("nan")])
    target = Target(torch.zeros(3), torch.zeros(3), owners, scores)
    squared, figures = ownership.loss(ownership.Outputs(ownership=torch.zeros(3, 4)), target)
    assert float(squared) == pytest.approx((0.25 * 3 / 4 + 0.25) / 2)  # a point of no one's is half of each
    assert figures["right"] == pytest.approx(1 / 7)  # a logit of 0 says: not mine


def small_run(folder: Path, net: str) -> dict[str, Any]:
    """Settings of a run that learns from two dozen random games."""
    path = folder / "random.sgfs"
    games = (random_game(seed, f"20{17 + seed % 2}-05-{1 + seed:02}") for seed in range(24))
    path.write_text("".join(f"{write_sgf(game)}\n" for game in games))
    return {"name": "small", "data": (str(path),), "size": 7, "batch_size": 32, "device": "cpu", "net": net}


@pytest.mark.parametrize("net", ["trencseni-cnn", "alphago-3x12", "alphagonet-2x16"])
def test_a_net_of_others_learns_moves_is_exported_and_plays(net: str, tmp_path: Path) -> None:
    folder = sl.train(sl.Config(**small_run(tmp_path, net), max_rows=128, test_from=""), tmp_path)
    assert Checkpoint.open(folder).manifest.encoder == usual_encoder(net)
    bot = Registry(results=tmp_path).resolve(f"checkpoint:{folder}").build()
    decision = bot.choose(Game(Rules.preset("cgos", 7)), Limits())
    assert decision.move is not None and (decision.win_rate is not None) == (net == "alphagonet-2x16")


def test_alphagonet_has_a_tanh_value() -> None:
    net = named_network("alphagonet-4x192", 17, 9).eval()
    convolutions = (9 * 17 + 1 + 2) * 192 + 3 * (9 * 192 + 1 + 2) * 192
    dense = (81 * 192 + 1 + 2) * 1024 + (1024 + 1 + 2) * 512 + 513 * 82 + 513
    assert sum(part.numel() for part in net.parameters()) == convolutions + dense
    planes, seen = torch.randn(3, 17, 9, 9), list[torch.Tensor]()
    net.get_submodule("result").register_forward_hook(lambda _, __, out: seen.append(out))
    value = net(planes).value
    assert torch.allclose(expected_result(value), seen[0].flatten().tanh(), atol=1e-4)


def test_an_ownership_net_learns_is_measured_and_does_not_play(tmp_path: Path) -> None:
    config = small_run(tmp_path, "gocnn-3x16") | {"optimizer": "adamw", "learning_rate": 0.003, "ema_decay": 0.9}
    config, seen = config | {"max_rows": 60 * 32, "test_from": "2018-01-01"}, []
    folder = ownership.train(ownership.Config(**config), tmp_path, seen.append)
    metrics = Checkpoint.open(folder).manifest.metrics
    assert metrics["test_ownership"] > 0.6 and metrics["test_brier"] < 0.24
    assert seen[-1].loss < seen[0].loss and seen[-1].right > 0.6
    match = arena("match", f"checkpoint:{folder}", "random", "-n", "2", "--size", "7", folder=tmp_path)
    assert match.returncode == 2 and match.stderr.count("\n") == 1 and "no policy" in match.stderr
