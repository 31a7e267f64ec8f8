"""Reinforcement learning in small: signs and masks of the loss, the pool, and what a run promises."""

import math
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.nets import untrained
from helpers.selfplay import random_games
from helpers.training import Killed, steps_logged

from arena import BotFault, CheckpointError
from arena.contract.bot import Bot, Decision, Limits
from arena.go.coords import BLACK
from arena.go.game import Game, Rules
from arena.go.planes import find_encoder
from arena.players.registry import Registry
from bots.nets.catalogue import Net, load_network
from bots.nets.checkpoint import Checkpoint
from bots.nets.inference import Evaluator
from trainers import rl
from trainers.games import BLACK_WON, WHITE_WON
from trainers.live_inference import TorchEvaluator
from trainers.ratings import PolicyBot, SelfPlayProgress
from trainers.replay import make_chunk, searched_games
from trainers.rl import Config

SIZE = 5
MOVES = SIZE * SIZE + 1
ENCODER = find_encoder("arena-17")
RULES = Rules.preset("cgos", SIZE, 0.5)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    """Nets as small as these are slower on two."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def beginner(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A net that knows nothing yet."""
    return Checkpoint.open(untrained(tmp_path_factory.mktemp("nets") / "beginner", 3, SIZE))


@pytest.fixture(autouse=True)
def parted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An iteration's gradients are added up from several parts."""
    monkeypatch.setattr(rl, "MICRO_BATCH", 64)


@pytest.fixture
def small(beginner: Checkpoint) -> Config:
    played: Any = {"komi": 0.5, "games": 4, "plies": 2, "eval_games": 4, "eval_opponents": ("mcts:playouts=10",)}
    short: Any = {"pool_every": 2, "max_iterations": 4, "learning_rate": 0.003, "device": "cpu"}
    return Config("small", SIZE, start=str(beginner.folder), **played, **short)


def test_the_loss_is_that_of_the_definition_and_leaves_out_what_is_not_sensible() -> None:
    random = np.random.default_rng(2)
    logits = torch.from_numpy(random.normal(size=(5, MOVES))).requires_grad_()
    could, gained = random.random((5, MOVES)) < 2 / 3, np.array([0.8, -1.2, -0.2, 0.8, -1.2])
    moves = np.array([random.choice(np.flatnonzero(row)) for row in could])
    policy = entropy = 0.0
    for row, (move, sensible) in enumerate(zip(moves, could, strict=True)):
        odds = np.where(sensible, np.exp(logits[row].detach().numpy()), 0)
        shares = odds / odds.sum()
        policy -= gained[row] * math.log(shares[move]) / 5
        entropy -= (shares[sensible] * np.log(shares[sensible])).sum() / 5
    sensible = torch.from_numpy(could)
    found = rl.policy_loss(logits, torch.from_numpy(moves), sensible, torch.from_numpy(gained))
    assert float(found[0].detach()) == pytest.approx(policy) and float(found[1].detach()) == pytest.approx(entropy)
    (found[0] - found[1]).backward()
    assert logits.grad is not None and logits.grad.isfinite().all()
    assert (logits.grad[~sensible] == 0).all() and (logits.grad[sensible] != 0).any()


@pytest.mark.parametrize("trace", [0.0, 0.5, 1.0])
def test_a_move_is_credited_with_what_the_forecasts_after_it_say(trace: float) -> None:
    """Against the sums of the definition, game by game; every move that was played could have been drawn."""
    games = searched_games(SIZE, make_chunk(random_games(RULES, 6, seed=4, plies=0), SIZE)).games
    forecasts = np.random.default_rng(1).uniform(-1, 1, len(games.moves)).astype(np.float32)
    found = rl.advantages(games, forecasts, trace)
    assert rl.all_sensible(games)[np.arange(len(games.moves)), games.moves].all()
    for game in range(6):
        own = forecasts[games.starts[game] : games.starts[game + 1]].astype(float)
        of_black = [value if ply % 2 == 0 else -value for ply, value in enumerate(own)]
        of_black.append({BLACK_WON: 1.0, WHITE_WON: -1.0}[int(games.winners[game])])
        for ply in range(len(own)):
            gain = sum(trace ** (k - ply) * (of_black[k + 1] - of_black[k]) for k in range(ply, len(own)))
            assert found[games.starts[game] + ply] == pytest.approx(gain if ply % 2 == 0 else -gain, abs=1e-5)


def test_the_pool_has_the_first_net_and_the_latest() -> None:
    members = [rl.pool_of(iteration, 5, 3) for iteration in (0, 4, 5, 12, 27)]
    assert members == [[0], [0], [0, 5], [0, 5, 10], [0, 20, 25]]


MATCH = rl.RatingMatch(RULES, 6, 2, (1, 2))


def bot_of(network: Net, temperature: float = 1.0) -> PolicyBot:
    return PolicyBot(TorchEvaluator(network, ENCODER, torch.device("cpu")), temperature)


class Faulty(Bot):
    """Resigns with Black; with White it raises, or plays where Black has just played."""

    def __init__(self, error: Exception | None = None, resigns: bool = True):
        self._error, self._resigns = error, resigns

    def choose(self, game: Game, limits: Limits) -> Decision:
        if game.to_play is BLACK and self._resigns:
            return Decision(None)
        if self._error:
            raise self._error
        return Decision(game.moves[-1])


def test_who_resigns_or_can_not_go_on_has_lost_but_a_fault_of_the_net_that_learns_is_no_lost_game(
    beginner: Checkpoint,
) -> None:
    for error in (BotFault("no more"), None):
        points = MATCH.play(bot_of(load_network(beginner)), Faulty(error), Limits(), slots=2)
        assert points.tolist() == [1] * 6
    with pytest.raises(RuntimeError, match="net: "):
        MATCH.play(Faulty(ValueError("no net"), resigns=False), Faulty())


def test_a_match_against_a_bot_is_that_of_the_exported_net(beginner: Checkpoint) -> None:
    """Whatever is played beside its games; points are the net's own."""
    mcts, net = Registry().resolve("mcts:playouts=4"), bot_of(load_network(beginner), 0.0)
    policy = Registry().resolve(f"checkpoint:{beginner.folder},precision=fp32").build()
    one, four = (MATCH.play(net, mcts.build(), slots=slots).tolist() for slots in (1, 4))
    assert one == four == MATCH.play(policy, mcts.build()).tolist()
    assert MATCH.play(mcts.build(), policy).tolist() != one


def train(config: Config, results: Path, on_progress: Callable[[SelfPlayProgress], None] = lambda _: None) -> Path:
    return rl.train(config, results, Registry(results=results), on_progress)


def test_a_run_leaves_a_player_and_its_figures_and_one_that_is_killed_and_resumed_the_same(
    small: Config, beginner: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, seen = replace(small, gae_lambda=0.9, entropy_weight=0.01), list[SelfPlayProgress]()
    folder = train(config, tmp_path, seen.append)
    whole = Checkpoint.open(folder)
    manifest, metrics = whole.manifest, whole.manifest.metrics
    assert (manifest.trainer, manifest.parent, manifest.komi) == ("rl", beginner.identity, 0.5)
    assert metrics["share_games"] == 16 and metrics["iterations"] == 4 and metrics["fp32_difference"] < 1e-4
    assert str(tmp_path) not in str(manifest.settings) and manifest.settings["start"] == "beginner"
    assert [progress.step for progress in seen] == [1, 2, 3, 4]
    matches = [(step, name, 4) for step in (2, 4) for name in ("beginner", "mcts:playouts=10")]
    assert [(rating.iteration, rating.against, rating.games) for rating in seen[-1].ratings] == matches
    training = tmp_path / "training" / "small"
    assert manifest.rows > 4 * 4 * 5
    assert sorted(path.stem for path in (training / "pool").iterdir()) == ["000000", "000002", "000004"]

    def killed(progress: SelfPlayProgress) -> None:
        if progress.step == 3:
            raise Killed

    monkeypatch.setattr("trainers.export.write_models", lambda *_: {})
    with pytest.raises(Killed):
        train(replace(config, save_minutes=0, snapshot_minutes=1e-9), tmp_path / "parts", killed)
    Evaluator(Checkpoint.open(tmp_path / "parts" / "checkpoints" / "small-step2"))
    seen.clear()
    parts = Checkpoint.open(train(config, tmp_path / "parts", seen.append))
    assert [progress.step for progress in seen] == [4] and len(seen[-1].ratings) == 4
    assert steps_logged(tmp_path / "parts" / "training" / "small") == [1, 2, 3, 4]
    assert parts.identity == whole.identity and parts.manifest.rows == manifest.rows
    of_export = {"fp32_difference", "int8_agreement", "int8_win_rate_difference"}
    assert parts.manifest.metrics == {name: value for name, value in metrics.items() if name not in of_export}


def test_a_signal_ends_the_iteration_and_leaves_a_good_checkpoint(
    small: Config, tmp_path: Path, unexported: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _number: signal.SIG_DFL)  # the tests may run under nohup

    def stop(progress: SelfPlayProgress) -> None:
        if progress.step == 2:
            signal.raise_signal(signal.SIGHUP)

    endless = replace(small, eval_opponents=(), pool_every=100, max_iterations=None, max_minutes=60.0)
    stopped = Checkpoint.open(train(endless, tmp_path, stop)).manifest
    assert stopped.metrics["iterations"] == 2 and stopped.metrics["share_games"] == 16
    further = replace(endless, max_iterations=3, max_minutes=None)
    assert Checkpoint.open(train(further, tmp_path)).manifest.metrics["iterations"] == 3


def test_a_run_that_has_another_start_is_refused(small: Config, tmp_path: Path, unexported: None) -> None:
    short = replace(small, max_iterations=1, eval_opponents=())
    folder = train(short, tmp_path)
    with pytest.raises(CheckpointError, match="this run has start"):
        train(replace(short, start=str(folder.rename(tmp_path / "checkpoints" / "other"))), tmp_path)


@pytest.mark.slow
def test_a_net_that_knows_nothing_learns_to_beat_what_it_was(small: Config, tmp_path: Path) -> None:
    """On 5x5, in seconds: more than half against the net it began with, by the interval of its last match."""
    config = replace(small, games=24, max_iterations=16, learning_rate=0.02, eval_games=26, eval_opponents=())
    metrics = Checkpoint.open(train(config, tmp_path)).manifest.metrics
    assert metrics["share_against_start_low"] > 0.5, metrics
