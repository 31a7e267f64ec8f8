"""A rollout policy: a linear softmax over patterns, fast enough for playouts, that imitates recorded games.

AlphaGo's (Silver et al. 2016, "Mastering the game of Go with deep neural networks and tree search", Methods, "Rollout
policy"), trained with Adagrad (Duchi, Hazan and Singer 2011). ``bots.search.rollouts`` has the features. A run takes
minutes and isn't resumed.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from arena.go.coords import MAX_SIZE, MIN_SIZE
from arena.go.jit import kernel
from arena.go.kernels import BOARD, CELLS, clear, play_any, point_of
from bots.nets.checkpoint import ROLLOUT, Manifest
from bots.nets.rollout import save_policy
from bots.search.rollouts import FEATURES, MAX_FEATURES, list_features, tie
from trainers.games import Games, some_games
from trainers.processes import refuse_torchrun
from trainers.records import read_split
from trainers.settings import Rollout as Config
from trainers.settings import portable_settings
from trainers.train import Progress

CHUNK = 500  # games between two reports
BATCH, DECAY = 32, 1e-4  # positions a step, and the L2 penalty of the weights that a step touches
TEST_POSITIONS = 200_000  # positions of the test, about, in whole games


@kernel
def learn(size, moves, starts, order, tied, learned, squares, batch, rate, shrink):  # type: ignore[no-untyped-def]
    """Measure the policy on the games ``order``, position by position; learn from them if ``rate`` is over 0.

    The loss is the cross entropy of the softmax of the moves' sums of weights. Changes ``learned`` (weights,) and
    ``squares`` (weights,), the sums of squared gradients. Returns (positions, right ones, considered, summed losses,
    summed losses of the uniform policy).
    """
    scratch = np.empty((4, 2 * CELLS), np.int64)
    candidates, counts = np.empty(CELLS, np.int64), np.empty(CELLS, np.int64)
    features = np.empty((CELLS, MAX_FEATURES), np.int64)
    shares = np.empty(CELLS, np.float64)
    gradient = np.zeros(len(learned), np.float64)
    is_touched = np.zeros(len(learned), np.bool_)
    touched = np.empty(len(learned), np.int64)
    touched_count = pending = 0
    positions = right = considered = 0
    loss = uniform_loss = 0.0
    boards = np.empty(1, BOARD)
    board = boards[0]
    for g in order:
        clear(board, size)
        colour, last, previous, captured = 1, np.int64(0), np.int64(0), np.int64(0)
        for i in range(starts[g], starts[g + 1]):
            move = np.int64(moves[i])
            p = np.int64(0)
            if move < size * size:
                p = np.int64(point_of(board, move))
            count = list_features(board, colour, last, previous, captured, candidates, features, counts, scratch)
            likeliest = target = -1
            for k in range(count):
                total = 0.0
                for j in range(counts[k]):
                    total += learned[tied[features[k, j]]]
                shares[k] = total
                if likeliest < 0 or total > shares[likeliest]:
                    likeliest = k
                if candidates[k] == p:
                    target = k
            positions += 1
            if target >= 0:
                considered += 1
                right += likeliest == target
                highest = shares[likeliest]
                total = 0.0
                for k in range(count):
                    shares[k] = np.exp(shares[k] - highest)
                    total += shares[k]
                loss -= np.log(shares[target] / total)
                uniform_loss += np.log(count)
            if rate > 0 and target >= 0:
                for k in range(count):
                    error = shares[k] / total - (k == target)
                    for j in range(counts[k]):
                        weight = tied[features[k, j]]
                        gradient[weight] += error
                        if not is_touched[weight]:
                            is_touched[weight] = True
                            touched[touched_count] = weight
                            touched_count += 1
                pending += 1
                if pending == batch:
                    for t in range(touched_count):
                        weight = touched[t]
                        step = gradient[weight] + shrink * learned[weight]
                        squares[weight] += step * step
                        learned[weight] -= rate * step / np.sqrt(squares[weight] + 1)
                        gradient[weight] = 0
                        is_touched[weight] = False
                    touched_count = pending = 0
            captured = np.int64(0)
            if p:
                before = np.int64(board.empty_count)
                play_any(board, p, colour)
                captured = np.int64(board.empty_count) - before + 1
            else:
                board.ko = 0
            previous, last, colour = last, p, 3 - colour
    return positions, right, considered, loss, uniform_loss


def measure(learned: np.ndarray, games: Games) -> dict[str, float]:
    """How well a policy predicts the moves of all positions of ``games``, the passes included.

    The losses are mean cross entropies in nats of the positions whose move it considers: its own, and that of one that
    finds all considered moves as likely. Moves that fill an own eye or that the rules forbid are not considered, and
    count as wrong.
    """
    every = np.arange(len(games))
    found = learn(games.size, games.moves, games.starts, every, tie(), learned, learned, 1, 0.0, 0.0)
    positions, right, considered, loss, uniform_loss = found
    return {
        "positions": positions,
        "top1": right / max(1, positions),
        "loss": loss / max(1, considered),
        "uniform_loss": uniform_loss / max(1, considered),
        "unconsidered": 1 - considered / max(1, positions),
    }


def untrained() -> np.ndarray:
    """The weights of a policy that finds all moves as likely."""
    return np.zeros(int(tie().max()) + 1, np.float64)


def train(config: Config, results: Path, on_progress: Callable[[Progress], None] = lambda _: None) -> Path:
    """Train, measure and save; the checkpoint's folder, ``results``/checkpoints/NAME. Changes nothing if stopped before
    its end. Raises RecordError or ConfigError."""
    refuse_torchrun("arena train rollout learns in one process: start it without torchrun")
    split = read_split(config, results / "cache")
    games, random = split.train, np.random.default_rng(config.seed)
    total = max(1, round(config.epochs * len(games)))
    order = np.concatenate([random.permutation(len(games)) for _ in range(-(-total // len(games)))])[:total]

    # Learn
    learned, squares = untrained(), untrained()
    positions, began = 0, time.monotonic()
    for first in range(0, total, CHUNK):
        rate, some = config.learning_rate * max(0.02, 1 - first / total), order[first : first + CHUNK]
        given = games.size, games.moves, games.starts, some, tie(), learned, squares
        seen, right, considered, loss, _ = learn(*given, BATCH, rate, DECAY)
        positions, done, spent = positions + seen, first + len(some), time.monotonic() - began
        accuracy, left = right / max(1, seen), spent * (total / done - 1) / 60
        on_progress(Progress(done, positions, positions / spent, loss / max(1, considered), accuracy, left))
    minutes = (time.monotonic() - began) / 60

    # Measure and save
    metrics: dict[str, float] = {}
    for part, held_out in (("validation", split.validation), ("test", split.test)):
        if len(measured := some_games(held_out, TEST_POSITIONS, config.seed)):
            figures = measure(learned, measured)
            metrics |= {f"{part}_{key}": round(value, 5) for key, value in figures.items()}
    manifest = Manifest(
        name=config.name,
        network={"family": ROLLOUT, "features": FEATURES},
        encoder="",
        planes=0,
        smallest=MIN_SIZE,
        largest=MAX_SIZE,
        size=config.size,
        rules="cgos",
        komi=split.komi,
        trainer="rollout",
        data=split.source,
        rows=positions,
        minutes=round(minutes, 2),
        settings=portable_settings(config),
        metrics=metrics,
        splits=tuple(asdict(rule) for rule in split.rules),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return save_policy(results / "checkpoints" / config.name, manifest, learned).checkpoint.folder
