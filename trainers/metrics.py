"""Evaluates policy, value, ownership and score on held-out games, by ply.

Beside each figure stands what knows nothing would score: the constant for values; for ownership the colour of the
nearest stone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch.nn import functional

from arena.go.planes import Encoder, find_encoder
from bots.nets.catalogue import Net
from bots.nets.network import SCORE_UNIT, Outputs, expected_result, win_rates
from trainers.losses import moved
from trainers.records import LATE, NO_RESULT, Batch, Games, Split, encode_positions, in_order, some_games

PLIES = 120  # moves that are told apart; later ones count with the last of them
PHASES = ((0, 14), (15, 38), (39, 58), (59, PLIES - 1))  # first and last ply of each phase of a 9x9 game
VALIDATION_POSITIONS, TEST_POSITIONS = 8_000, 60_000  # positions of a validation and of a test, about, in whole games


def _mean(column: np.ndarray) -> float:
    """Of what is known; NaN where nothing is."""
    known = column[~np.isnan(column)]
    return float(known.mean()) if len(known) else float("nan")


def _joined(batches: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The columns of all batches, as float64."""
    return {name: np.concatenate([np.float64(batch[name]) for batch in batches]) for name in batches[0]}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was found at each position, (positions,) each."""

    games: np.ndarray  # the number of its game
    plies: np.ndarray  # at most PLIES - 1
    columns: Mapping[str, np.ndarray]  # float64, NaN where there is nothing to judge by; missing without a head

    @property
    def top1_error(self) -> float:
        """Half the 95 % interval of ``top1`` over all plies, whole games being what was drawn; NaN for one game, and
        without a policy."""
        positions = np.bincount(self.games)
        if len(positions) < 2 or "top1" not in self.columns:
            return float("nan")
        right = np.bincount(self.games, self.columns["top1"])
        off = right - right.sum() / positions.sum() * positions
        return float(1.96 * np.sqrt((off**2).sum() * len(off) / (len(off) - 1)) / positions.sum())

    def figures(self, first: int = 0, last: int = PLIES - 1) -> dict[str, float]:
        """Over the positions before plies ``first`` to ``last``; NaN without a head, or anything to judge it by.

        - positions, games;
        - top1, top3, top5, and policy_loss, the mean cross entropy of the move, in nats;
        - results, result_games: positions of games whose winner is known; value_error, the mean squared error of the
          expected result, on the scale from -1 (lost) to 1 (won), value_loss, the mean cross entropy of win, draw and
          loss, and value_floor and value_loss_floor, those of the best constant;
        - scored, scored_games: positions of games whose last position gives the recorded margin; score_error, the mean
          absolute error of the margin, in points, and score_floor, that of who calls every game even;
        - ownership, the share of owned points whose owner was predicted (neutral ones don't count), brier, the mean
          squared error of a point's probability, and by_nearest, what a point's nearest stone predicts.
        """
        within = (self.plies >= first) & (self.plies <= last)
        games, nothing = self.games[within], np.full(int(within.sum()), np.nan)
        known = {name: column[within] for name, column in self.columns.items()}
        points = known.get("points", nothing).sum()
        result = known.get("result", nothing)
        found: dict[str, float] = {"positions": len(games), "games": len(np.unique(games))}
        for name, column in (("result", result), ("scored", known["score"])):
            judged = games[~np.isnan(column)]
            found |= {name: len(judged), f"{name}_games": len(np.unique(judged))}
        for name in ("top1", "top3", "top5", "policy_loss", "value_error", "value_loss", "score_error"):
            found[name] = _mean(known.get(name, nothing))
        for name in ("ownership", "brier", "by_nearest"):
            found[name] = known[name].sum() / points if points > 0 else float("nan")
        _, counts = np.unique(result[~np.isnan(result)], return_counts=True)
        shares = counts / counts.sum()
        return found | {
            "results": found.pop("result"),
            "value_floor": _mean((result - _mean(result)) ** 2),
            "value_loss_floor": float(-(shares * np.log(shares)).sum()) if len(shares) else float("nan"),
            "score_floor": _mean(np.abs(known["score"])) if "score_error" in known else float("nan"),
        }


def evaluate(
    network: Net, encoder: Encoder, games: Games, on_progress: Callable[[int], None] = lambda _: None
) -> Evaluation:
    """Evaluate every position of ``games`` by ``network``; ``on_progress`` gets the number of positions done."""
    found, done = [], 0
    for batch in in_order(games, encoder, np.arange(len(games.moves)), 256):
        places = np.arange(done, done + len(batch))
        stones = encode_positions(games, find_encoder("stones-1"), places, np.zeros_like(places)).planes
        found.append(_judge(outputs(network, batch.planes), batch, stones.reshape(len(batch), -1)))
        done += len(batch)
        on_progress(done)
    owners = np.repeat(np.arange(len(games)), games.lengths)
    return Evaluation(owners, np.minimum(games.plies, PLIES - 1), _joined(found))


def of_records(network: Net, encoder: Encoder, split: Split, part: str, seed: int) -> dict[str, float]:
    """The figures that trainers log of a net, over whole games of ``part`` (validation or test), which their names
    begin with; none without test games. Those that no head tells are 0."""
    count = VALIDATION_POSITIONS if part == "validation" else TEST_POSITIONS
    games = some_games(getattr(split, part), count, seed)
    if not len(games):
        return {}
    evaluation = evaluate(network, encoder, games)
    whole, late = evaluation.figures(), evaluation.figures(LATE)
    same = "positions top1 policy_loss results value_loss scored ownership brier score_error".split()
    told = {name: whole[name] for name in same} | {"value_floor": whole["value_loss_floor"]}
    told |= {"late_positions": late["positions"], "late_top1": late["top1"]}
    return {f"{part}_{name}": 0.0 if np.isnan(figure) else figure for name, figure in told.items()}


def of_rows(network: Net, batches: Iterable[Batch], part: str) -> dict[str, float]:
    """How well a net predicts the moves and results of some rows of ``part``, with which the names of the figures
    begin, and, where they have them, what searches found. Errors of the value are mean squares on a scale from -1 to 1:
    from the result, from the search's win rate, and of the search's from the result; the floor is that of the best
    constant. The floor of the policy loss is the entropy of the shares."""
    found = []
    for batch in batches:
        policy, value, *_ = outputs(network, batch.planes)
        assert policy is not None and value is not None  # what ``train.check`` makes sure of
        guess, result = expected_result(value.double()).numpy(), _results(batch)
        columns = {
            "top1": policy.argmax(1).numpy() == batch.moves,
            "value_mse": (guess - result) ** 2,
            "result": result,
        }
        if batch.shares is not None and batch.win_rates is not None:
            shares, rate = torch.from_numpy(batch.shares), 2.0 * batch.win_rates - 1
            columns["policy_loss"] = -(shares * policy.log_softmax(1)).sum(1).numpy()
            columns["policy_floor"] = -torch.xlogy(shares, shares).sum(1).numpy()
            columns |= {"teacher_mse": (rate - result) ** 2, "win_rate_mse": (guess - rate) ** 2}
        found.append(columns)
    joined = _joined(found)
    result = joined.pop("result")
    joined["value_floor"] = (result - _mean(result)) ** 2
    figures = {name: float(np.nan_to_num(_mean(column))) for name, column in joined.items()}
    return {f"{part}_{name}": figure for name, figure in {"positions": float(len(result)), **figures}.items()}


def outputs(network: Net, planes: np.ndarray) -> Outputs:
    """The outputs of a net, which is set to evaluation, for planes (B, P, n, n); on the CPU."""
    with torch.no_grad():
        given = moved(planes, next(network.parameters()).device).to(memory_format=torch.channels_last)
        answer: Outputs = network.eval()(given)
        return answer.to(torch.device("cpu"))


def _results(batch: Batch) -> np.ndarray:
    """1 where the side to move won, 0 for a draw, -1 where it lost, NaN where that isn't known."""
    return np.where(batch.results == NO_RESULT, np.nan, 1.0 - batch.results)


def _judge(answer: Outputs, batch: Batch, stones: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of some positions; ``stones`` (B, n²) are 1, -1 and 0 for the side to move."""
    columns: dict[str, np.ndarray] = {"score": batch.scores}
    if answer.policy is not None:
        moves = torch.from_numpy(batch.moves)
        rank = (answer.policy > answer.policy.gather(1, moves[:, None])).sum(1).numpy()
        columns |= {f"top{most}": rank < most for most in (1, 3, 5)}
        columns["policy_loss"] = functional.cross_entropy(answer.policy, moves, reduction="none").numpy()
    if answer.value is not None:
        result, classes = _results(batch), torch.from_numpy(batch.results.clip(0))
        surprise = functional.cross_entropy(answer.value, classes, reduction="none").numpy()
        expected = 2 * win_rates(answer.value).numpy() - 1
        columns |= {"result": result, "value_error": (expected - result) ** 2}
        columns["value_loss"] = np.where(np.isnan(result), np.nan, surprise)
    if answer.score is not None:
        columns["score_error"] = np.abs(SCORE_UNIT * answer.score.numpy() - batch.scores)
    if answer.ownership is not None:
        owned, own = batch.owners != 0, batch.owners > 0
        ownership = answer.ownership.sigmoid().numpy()
        columns |= {
            "points": owned.sum(1),
            "ownership": (((ownership > 0.5) == own) & owned).sum(1),
            "brier": ((ownership - own) ** 2 * owned).sum(1),
            "by_nearest": ((1 + nearest_stones(stones) * batch.owners) / 2 * owned).sum(1),  # between equals half right
        }
    return columns


@cache
def _distances(points: int) -> np.ndarray:
    """(n², n²) steps along lines from point to point."""
    size = round(points**0.5)
    row, column = np.divmod(np.arange(points), size)
    return (np.abs(row[:, None] - row) + np.abs(column[:, None] - column)).astype(np.int16)


def nearest_stones(stones: np.ndarray) -> np.ndarray:
    """(B, n²): 1 or -1, whichever stone is nearer to the point; 0 where both are as near. ``stones`` is like it."""
    steps = _distances(stones.shape[1])
    near = [np.where((stones == side)[:, None, :], steps, 999).min(2) for side in (1, -1)]
    return np.sign(near[1] - near[0])


def phases(evaluation: Evaluation) -> Sequence[tuple[str, dict[str, float]]]:
    """The figures of all positions, of those from ply 15 on and of each phase, under the numbers of their moves."""
    parts = [(f"{first + 1} to {last + 1}", evaluation.figures(first, last)) for first, last in PHASES[:-1]]
    last_part = (f"{PHASES[-1][0] + 1} on", evaluation.figures(PHASES[-1][0]))
    return [("all", evaluation.figures()), ("16 on", evaluation.figures(15)), *parts, last_part]
