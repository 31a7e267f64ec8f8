"""The value net: whose view a sign is of, one position a game, games in three phases, and what a run leaves."""

import math
import shutil
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.nets import untrained
from torch.nn import functional

from arena import CheckpointError, ConfigError
from bots.nets.checkpoint import Checkpoint
from bots.nets.inference import Evaluator
from bots.nets.network import Outputs
from trainers import replay, value
from trainers.games import DRAW, LOSS, NO_RESULT, WIN
from trainers.losses import Target
from trainers.records import SplitRule
from trainers.replay import Replay
from trainers.settings import Value as Config
from trainers.train import Progress
from trainers.value import ValueGames

SIZE = 7


@pytest.fixture(scope="module")
def tiny(net: Path) -> Config:
    short: Any = {"batch_size": 16, "max_rows": 8 * 16, "validate_every": 64, "device": "cpu"}
    short |= {"games": 60, "test_split": 0.3, "validation_split": 0.1}
    return Config("tiny", SIZE, policy=str(net), start=str(net), net="arena-1x8", **short)


@pytest.fixture(scope="module")
def recipe(tiny: Config) -> ValueGames:
    return ValueGames.of(tiny, Path())


def test_nets_play_from_a_folder_with_a_comma(tiny: Config, recipe: ValueGames, tmp_path: Path) -> None:
    """Its name was read as settings of a bot."""
    folder = shutil.copytree(tiny.policy, tmp_path / "a,b@c=1")
    assert ValueGames.of(replace(tiny, policy=str(folder)), tmp_path).policy.net == recipe.policy.net


@pytest.fixture(scope="module")
def played(tiny: Config, recipe: ValueGames, results: Path) -> Replay:
    """The games of ``tiny``, in ``results``."""
    return play(tiny, recipe, results)


def play(config: Config, recipe: ValueGames, results: Path) -> Replay:
    return replay.play_games(replace(config, parallel_games=8), recipe, results)


def test_a_net_that_is_sure_of_the_right_result_has_no_loss_and_keeps_its_policy() -> None:
    results = torch.tensor([WIN, DRAW, LOSS, NO_RESULT])
    moves = torch.zeros(4, dtype=torch.int64)
    target = Target(moves, results, torch.zeros(4, 49), torch.full((4,), math.nan))
    sure = 50 * functional.one_hot(results.clamp(min=0), 3).float()
    policy = torch.randn(4, 50, generator=torch.Generator().manual_seed(1))
    right = value.loss(Outputs(policy, sure), target, policy)
    assert abs(float(right.value)) < 1e-6 and right.right == 1 and abs(float(right.policy)) < 1e-6
    wrong = value.loss(Outputs(policy, sure.flip(1)), target, -policy)
    assert float(wrong.value) == pytest.approx(2 * 50 / 3) and wrong.right == 0
    kept, told = policy.softmax(1), (-policy).softmax(1)
    assert torch.isclose(wrong.policy, (told * (told / kept).log()).sum(1).mean())
    played = value.loss(Outputs(policy, sure), target, None)
    assert torch.isclose(played.policy, functional.cross_entropy(policy, target.moves))


def test_a_game_has_three_phases(tiny: Config, recipe: ValueGames, net: Path, tmp_path: Path) -> None:
    """Whoever finishes, the first two phases are the same; the policy itself finishes where nobody else is named."""
    other = untrained(tmp_path / "other", 2)

    def games(finisher: Path | str) -> list[list[int]]:
        (engine,) = ValueGames.of(replace(tiny, finisher=str(finisher)), tmp_path).engines(deque(range(5, 25)), 8, 1)
        return [game.moves.tolist() for game in sorted(engine(lambda: True), key=lambda game: game.number)]

    own, finished = games(""), games(other)
    lengths = [recipe.first_moves(number)[1] for number in range(5, 25)]
    assert min(lengths) >= 1 and max(lengths) <= 36 and len(set(lengths)) > 5
    assert [moves[: u + 1] for moves, u in zip(own, lengths, strict=True)] == [
        moves[: u + 1] for moves, u in zip(finished, lengths, strict=True)
    ]
    assert own == games(net) != finished == games(other)


def test_the_position_after_the_random_move_is_learned_from_with_the_result(
    tiny: Config, recipe: ValueGames, played: Replay
) -> None:
    rules = (SplitRule.of_played(tiny),)
    games, parts = value.read_positions(recipe, played, 60, rules)
    owners = [np.searchsorted(games.starts, places, side="right") - 1 for places in parts]
    assert len(set(np.concatenate(owners).tolist())) == sum(map(len, parts)) > 50 and all(map(len, parts))  # by game
    lengths = {recipe.first_moves(number)[1] + 1 for number in range(60)}
    for places, of in zip(parts, owners, strict=True):
        assert set((places - games.starts[of]).tolist()) <= lengths
    late = replace(recipe, policy_moves=10**6)  # games end before that position
    with pytest.raises(ConfigError, match=r"about 30 % of them .*; play more games"):
        value.read_positions(late, played, 60, rules)


def test_training_lowers_the_error_and_leaves_a_net_that_plays(
    tiny: Config, played: Replay, results: Path, unexported: None
) -> None:
    config = replace(tiny, name="learned", max_rows=60 * 16, ema_decay=0.9, learning_rate=0.02)
    seen: list[Progress] = []
    folder = value.train(config, results, seen.append)
    checkpoint = Checkpoint.open(folder)
    metrics = checkpoint.manifest.metrics
    assert seen[-1].rows == 60 * 16 and seen[-1].loss < seen[4].loss
    assert metrics["train_value_mse"] < metrics["train_value_floor"]
    assert {"start_test_value_mse", "test_value_mse", "validation_value_mse"} <= metrics.keys()
    assert checkpoint.manifest.trainer == "value" and "60 games of first" in checkpoint.manifest.data
    assert Evaluator(checkpoint).encoder.name == "arena-17"


def test_a_run_with_other_settings_is_refused_before_the_games_and_torchrun_is_told_to_wait_for_them(
    tiny: Config, played: Replay, results: Path, unexported: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, seen = replace(tiny, name="parts", max_rows=16), list[str]()
    value.train(parts, results)
    with pytest.raises(CheckpointError, match="this run has games = 60, not 80"):
        value.train(replace(parts, games=80), results, on_made=seen.append)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="20 games are still to be played"):
        value.train(replace(parts, name="other", games=80), results, on_made=seen.append)
    assert seen == []
