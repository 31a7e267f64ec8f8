"""Evaluates policy, value, ownership and score on held-out games, by ply, next to trivial baselines."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
import torch
from torch.nn import functional

from arena import CheckpointError
from arena.go.planes import Encoder
from bots.nets.catalogue import Net
from bots.nets.network import SCORE_UNIT, Outputs, expected_result
from trainers.games import LATE, NO_RESULT, Batch, Games, in_order, some_games
from trainers.losses import to_device
from trainers.records import Split

PLIES = 120  # plies with figures of their own; later ones count as the last
PHASES = ((0, 14), (15, 38), (39, 58), (59, PLIES - 1))  # first and last ply of each phase of a 9x9 game
VALIDATION_POSITIONS, TEST_POSITIONS = 8_000, 60_000  # about, in whole games
LOGGED = "positions top1 policy_loss results value_loss scored ownership brier score_error".split()


def _mean(column: np.ndarray) -> float:
    """The mean of the numbers that aren't NaN; NaN if there are none."""
    known = column[~np.isnan(column)]
    return float(known.mean()) if len(known) else nan


def _joined(batches: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([np.float64(batch[name]) for batch in batches]) for name in batches[0]}


@dataclass(frozen=True, slots=True)
class NetEvaluation:
    """Figures of each position; arrays are (positions,)."""

    games: np.ndarray  # number of the game
    plies: np.ndarray  # at most PLIES - 1
    columns: Mapping[str, np.ndarray]  # float64, NaN if unknown; columns of missing heads are left out

    @property
    def top1_error(self) -> float:
        """Half the 95 % interval of ``top1``, by games; NaN for one game or without a policy."""
        positions = np.bincount(self.games)
        if len(positions) < 2 or "top1" not in self.columns:
            return nan
        right = np.bincount(self.games, self.columns["top1"])
        off = right - right.sum() / positions.sum() * positions
        return float(1.96 * np.sqrt((off**2).sum() * len(off) / (len(off) - 1)) / positions.sum())

    def figures(self, first: int = 0, last: int = PLIES - 1) -> dict[str, float]:
        """Figures of plies ``first`` to ``last``; NaN for a missing head or without data.

        - top1, top3, top5, and policy_loss, the cross entropy of the move in nats;
        - results, result_games: positions and games with a known winner; value_error, the mean squared error on a scale
          from -1 to 1; value_loss, the cross entropy; value_floor and value_loss_floor, those of the best constant;
        - scored, scored_games: positions and games whose last position gives the recorded margin; score_error, the mean
          absolute error in points; score_floor, that of a margin of 0;
        - ownership, the share of owned points that were predicted, and brier, their squared error.
        """
        within = (self.plies >= first) & (self.plies <= last)
        games, nothing = self.games[within], np.full(int(within.sum()), nan)
        known = {name: column[within] for name, column in self.columns.items()}
        points, result = known.get("points", nothing).sum(), known.get("result", nothing)
        found: dict[str, float] = {"positions": len(games), "games": len(np.unique(games))}
        for name, title, column in (("result", "results", result), ("scored", "scored", known["score"])):
            judged = games[~np.isnan(column)]
            found |= {title: len(judged), f"{name}_games": len(np.unique(judged))}
        for name in ("top1", "top3", "top5", "policy_loss", "value_error", "value_loss", "score_error"):
            found[name] = _mean(known.get(name, nothing))
        for name in ("ownership", "brier"):
            found[name] = known[name].sum() / points if points > 0 else nan
        _, counts = np.unique(result[~np.isnan(result)], return_counts=True)
        shares = counts / counts.sum()
        return found | {
            "value_floor": _mean((result - _mean(result)) ** 2),
            "value_loss_floor": float(-(shares * np.log(shares)).sum()) if len(shares) else nan,
            "score_floor": _mean(np.abs(known["score"])) if "score_error" in known else nan,
        }


def evaluate(
    network: Net, encoder: Encoder, games: Games, on_progress: Callable[[int], None] = lambda _: None
) -> NetEvaluation:
    """Evaluate every position of ``games``; ``on_progress`` gets the number of positions done."""
    found, done = [], 0
    for batch in in_order(games, encoder, np.arange(len(games.moves)), 256):
        found.append(_judge(network, batch)[0])
        done += len(batch)
        on_progress(done)
    owners = np.repeat(np.arange(len(games)), games.lengths)
    return NetEvaluation(owners, np.minimum(games.plies, PLIES - 1), _joined(found))


def of_records(network: Net, encoder: Encoder, split: Split, part: str, seed: int) -> dict[str, float]:
    """The logged figures of a net on ``part`` (validation or test), the prefix of their names; without those that are
    NaN."""
    count = VALIDATION_POSITIONS if part == "validation" else TEST_POSITIONS
    games = some_games(getattr(split, part), count, seed)
    if not len(games):
        return {}
    evaluation = evaluate(network, encoder, games)
    whole, late = evaluation.figures(), evaluation.figures(LATE)
    figures = {name: whole[name] for name in LOGGED} | {"value_floor": whole["value_loss_floor"]}
    figures |= {"late_positions": late["positions"], "late_top1": late["top1"]}
    return {f"{part}_{name}": float(figure) for name, figure in figures.items() if not np.isnan(figure)}


def of_rows(network: Net, batches: Iterable[Batch], part: str) -> dict[str, float]:
    """Figures of a net on rows of ``part``, the prefix of their names. Mean squared errors on the scale from -1 to 1:
    value_mse (net to result), win_rate_mse (net to the search's win rate), teacher_mse (win rate to result) and
    value_floor (best constant to result). policy_floor is the entropy of the shares."""
    found = []
    for batch in batches:
        columns, answer = _judge(network, batch)
        assert answer.policy is not None and answer.value is not None  # ensured by ``train.check``
        result = columns["result"]
        columns = {"top1": columns["top1"], "value_mse": columns["value_error"], "result": result}
        if batch.shares is not None and batch.win_rates is not None:
            shares, rate = torch.from_numpy(batch.shares), 2.0 * batch.win_rates - 1
            guess = expected_result(answer.value.double()).numpy()
            columns["policy_loss"] = -(shares * answer.policy.log_softmax(1)).sum(1).numpy()
            columns["policy_floor"] = -torch.xlogy(shares, shares).sum(1).numpy()
            columns |= {"teacher_mse": (rate - result) ** 2, "win_rate_mse": (guess - rate) ** 2}
        found.append(columns)
    joined = _joined(found)
    result = joined.pop("result")
    joined["value_floor"] = (result - _mean(result)) ** 2
    figures = {"positions": float(len(result))} | {name: _mean(column) for name, column in joined.items()}
    return {f"{part}_{name}": figure for name, figure in figures.items() if not np.isnan(figure)}


def _judge(network: Net, batch: Batch) -> tuple[dict[str, np.ndarray], Outputs]:
    """The columns of a batch, and the net's outputs on the CPU. Sets the net to evaluation mode. Equal logits share a
    rank. Raises CheckpointError for outputs that aren't finite."""
    with torch.no_grad():
        planes = to_device(batch.planes, next(network.parameters()).device).to(memory_format=torch.channels_last)
        answer: Outputs = network.eval()(planes).to(torch.device("cpu"))
    if not all(head.isfinite().all() for head in answer if head is not None):
        raise CheckpointError("the net gives numbers that aren't finite; train it again with a lower learning rate")
    columns: dict[str, np.ndarray] = {"score": batch.scores}
    if answer.policy is not None:
        moves = torch.from_numpy(batch.moves)
        played = answer.policy.gather(1, moves[:, None])
        better, equal = ((answer.policy > played).sum(1).numpy(), (answer.policy == played).sum(1).numpy())
        columns |= {f"top{most}": ((most - better) / equal).clip(0, 1) for most in (1, 3, 5)}
        columns["policy_loss"] = functional.cross_entropy(answer.policy, moves, reduction="none").numpy()
    if answer.value is not None:
        result = np.where(batch.results == NO_RESULT, nan, 1.0 - batch.results)
        surprise = functional.cross_entropy(answer.value, torch.from_numpy(batch.results.clip(0)), reduction="none")
        columns |= {"result": result, "value_error": (expected_result(answer.value.double()).numpy() - result) ** 2}
        columns["value_loss"] = np.where(np.isnan(result), nan, surprise.numpy())
    if answer.score is not None:
        columns["score_error"] = np.abs(SCORE_UNIT * answer.score.numpy() - batch.scores)
    if answer.ownership is not None:
        owned, own, ownership = batch.owners != 0, batch.owners > 0, answer.ownership.sigmoid().numpy()
        columns |= {"points": owned.sum(1), "ownership": (((ownership > 0.5) == own) & owned).sum(1)}
        columns["brier"] = ((ownership - own) ** 2 * owned).sum(1)
    return columns, answer


def phases(evaluation: NetEvaluation) -> Sequence[tuple[str, dict[str, float]]]:
    """The figures of all plies, of those from 15 on, and of each phase, with the numbers of their moves as titles."""
    parts = [("all", 0, PLIES), ("16 on", LATE, PLIES)]
    parts += [(f"{first + 1} to {last + 1}", first, last) for first, last in PHASES[:-1]]
    parts += [(f"{PHASES[-1][0] + 1} on", *PHASES[-1])]
    return [(title, evaluation.figures(first, last)) for title, first, last in parts]
