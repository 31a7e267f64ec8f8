"""Evaluates policy, value, ownership and score on held-out games, by ply.

Beside each figure stands what knows nothing would score: the constant for values; for ownership the colour of the
nearest stone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from arena.go.planes import Encoder, find_encoder
from arena.go.ranks import STRONGEST, UNRANKED, WEAKEST
from bots.nets.catalogue import Net
from bots.nets.network import SCORE_UNIT, Outputs, expected_result, win_rates
from trainers.losses import moved
from trainers.records import (
    LATE,
    NO_RESULT,
    TEST,
    Batch,
    Games,
    Split,
    SplitRule,
    encode_positions,
    in_order,
    some_games,
)
from trainers.settings import Supervised

PLIES = 120  # moves that are told apart; later ones count with the last of them
PHASES = ((0, 14), (15, 38), (39, 58), (59, PLIES - 1))  # first and last ply of each phase of a 9x9 game
VALIDATION_POSITIONS, TEST_POSITIONS = 8_000, 60_000  # positions of a validation and of a test, about, in whole games


@dataclass(frozen=True, slots=True)
class Figures:
    """What was found over some positions; a figure is NaN without a head that tells it, or anything to judge it by."""

    positions: int
    games: int
    top1: float
    top3: float
    top5: float
    policy_loss: float  # mean cross entropy of the move, in nats
    value_error: float  # mean squared error of the expected result, on the scale from -1 (lost) to 1 (won)
    value_floor: float  # that of the best constant
    value_loss: float  # mean cross entropy of win, draw and loss, in nats
    value_loss_floor: float  # that of the best constant
    results: int  # positions of games whose winner is known, and these games
    result_games: int
    score_error: float  # mean absolute error of the margin, in points
    score_floor: float  # that of who calls every game even
    scored: int
    """Positions of games whose last position gives the recorded margin, and these games; ownership rests on them."""
    scored_games: int
    ownership: float  # the share of owned points whose owner was predicted; neutral points don't count
    brier: float  # mean squared error of a point's probability
    by_nearest: float  # ``ownership`` of who calls a point its nearest stone's, and tosses a coin between equals


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The sums behind the figures, by ply."""

    sums: Mapping[str, np.ndarray]  # (PLIES,) float64 each; some are missing without a head
    by_game: np.ndarray  # (games, 2): positions whose move was predicted, and all positions

    @property
    def top1_error(self) -> float:
        """Half the 95 % interval of ``top1`` over all plies, whole games being what was drawn; NaN for one game."""
        right, positions = self.by_game.T
        if len(right) < 2:
            return float("nan")
        off = right - right.sum() / positions.sum() * positions
        return float(1.96 * np.sqrt((off**2).sum() * len(off) / (len(off) - 1)) / positions.sum())

    def figures(self, first: int = 0, last: int = PLIES - 1) -> Figures:
        """Over the positions before plies ``first`` to ``last``. A game counts that has the first of them."""
        g = Counter({name: column[first] for name, column in self.sums.items()})  # 0 where one is missing
        s = Counter({name: column[first : last + 1].sum() for name, column in self.sums.items()})

        def mean(name: str, count: str) -> float:
            return float(s[name] / s[count]) if s[count] else float("nan")

        average = mean("result", "results")
        return Figures(
            positions=int(s["positions"]),
            games=int(g["positions"]),
            top1=mean("top1", "moves"),
            top3=mean("top3", "moves"),
            top5=mean("top5", "moves"),
            policy_loss=mean("policy_loss", "moves"),
            value_error=mean("value_error", "results"),
            value_floor=mean("result_squared", "results") - average**2,
            value_loss=mean("value_loss", "results"),
            value_loss_floor=_entropy([s["won"], s["drawn"], s["lost"]]),
            results=int(s["results"]),
            result_games=int(g["results"]),
            score_error=mean("score_error", "scored"),
            score_floor=mean("score_size", "scored"),
            scored=int(s["counted"]),
            scored_games=int(g["counted"]),
            ownership=mean("owned", "points"),
            brier=mean("brier", "points"),
            by_nearest=mean("by_nearest", "points"),
        )


def _entropy(counts: Sequence[float]) -> float:
    """Of the shares that these counts are, in nats; NaN of none."""
    total = sum(counts)
    return float(-sum(n / total * np.log(n / total) for n in counts if n)) if total else float("nan")


def evaluate(
    network: Net, encoder: Encoder, games: Games, on_progress: Callable[[int], None] = lambda _: None
) -> Evaluation:
    """Evaluate every position of ``games`` by ``network``; ``on_progress`` gets the number of positions done."""
    sums, right = defaultdict[str, np.ndarray](lambda: np.zeros(PLIES)), np.zeros(len(games))
    owners = np.repeat(np.arange(len(games)), games.lengths)
    done = 0
    for batch in in_order(games, encoder, np.arange(len(games.moves)), 256):
        answer, places = outputs(network, batch.planes), np.arange(done, done + len(batch))
        stones = encode_positions(games, find_encoder("stones-1"), places, np.zeros_like(places)).planes
        for name, column in _judge(answer, batch, stones.reshape(len(batch), -1)).items():
            np.add.at(sums[name], np.minimum(batch.plies, PLIES - 1), column)
        if answer.policy is not None:
            np.add.at(right, owners[places], answer.policy.argmax(1).numpy() == batch.moves)
        done += len(batch)
        on_progress(done)
    return Evaluation(sums, np.stack([right, games.lengths], 1))


def of_records(network: Net, encoder: Encoder, split: Split, part: str, config: Supervised) -> dict[str, float]:
    """The figures that trainers log of a net, over whole games of ``part`` (validation or test), which their names
    begin with; none without test games. Those that no head tells are 0."""
    count = VALIDATION_POSITIONS if part == "validation" else TEST_POSITIONS
    games = some_games(getattr(split, part), count, config.seed)
    if part == "test" and not len(games):
        return {}
    found = evaluate(network, encoder, games)
    whole, late = found.figures(), found.figures(LATE)
    same = "positions top1 policy_loss results value_loss scored ownership brier score_error".split()
    told = {name: getattr(whole, name) for name in same} | {"value_floor": whole.value_loss_floor}
    told |= {"late_positions": late.positions, "late_top1": late.top1}
    return {f"{part}_{name}": 0.0 if np.isnan(figure) else figure for name, figure in told.items()}


def of_rows(network: Net, batches: Iterable[Batch]) -> dict[str, float]:
    """How well a net predicts the moves and results of some rows and, where they have them, what searches found. Errors
    of the value are mean squares on a scale from -1 to 1: from the result, from the search's win rate, and of the
    search's from the result. The floor of the policy loss is the entropy of the shares."""
    sums, counts = Counter[str](), Counter[str]()

    def add(name: str, values: np.ndarray | Tensor, mask: np.ndarray | slice = slice(None)) -> None:
        counted = np.asarray(values)[mask]
        sums[name] += counted.sum(dtype=np.float64)
        counts[name] += len(counted)

    for batch in batches:
        policy, value, *_ = outputs(network, batch.planes)
        assert policy is not None and value is not None  # what ``train.check`` makes sure of
        guess, result, decided = (
            expected_result(value.double()).numpy(),
            1.0 - batch.results,
            batch.results != NO_RESULT,
        )
        add("top1", policy.argmax(1).numpy() == batch.moves)
        add("value_mse", (guess - result) ** 2, decided)
        if batch.shares is not None and batch.win_rates is not None:
            shares, rate = torch.from_numpy(batch.shares), 2.0 * batch.win_rates - 1
            judged = ~np.isnan(rate)
            add("policy_loss", -(shares * policy.log_softmax(1)).sum(1))
            add("policy_floor", -torch.xlogy(shares, shares).sum(1))
            add("teacher_mse", (rate - result) ** 2, decided & judged)
            add("win_rate_mse", (guess - rate) ** 2, judged)
    return {"positions": float(counts["top1"])} | {name: sums[name] / max(1, counts[name]) for name in sums}


def outputs(network: Net, planes: np.ndarray) -> Outputs:
    """The outputs of a net, which is set to evaluation, for planes (B, P, n, n); on the CPU."""
    with torch.no_grad():
        given = moved(planes, next(network.parameters()).device).to(memory_format=torch.channels_last)
        answer: Outputs = network.eval()(given)
        return answer.to(torch.device("cpu"))


def _judge(answer: Outputs, batch: Batch, stones: np.ndarray) -> dict[str, np.ndarray]:
    """What each position adds to the sums, (B,) each; ``stones`` (B, n²) are 1, -1 and 0 for the side to move."""
    columns: dict[str, np.ndarray] = {"positions": np.ones(len(batch)), "counted": ~np.isnan(batch.scores)}
    if answer.policy is not None:
        moves = torch.from_numpy(batch.moves)
        best = answer.policy.topk(5, 1).indices == moves[:, None]
        columns |= {
            "moves": np.ones(len(batch)),
            "top1": best[:, 0].numpy(),
            "top3": best[:, :3].any(1).numpy(),
            "top5": best.any(1).numpy(),
            "policy_loss": functional.cross_entropy(answer.policy, moves, reduction="none").numpy(),
        }
    if answer.value is not None:
        known = batch.results != NO_RESULT
        result = np.where(known, 1.0 - batch.results, 0.0)
        expected = 2 * win_rates(answer.value).numpy() - 1
        columns |= {
            "results": known,
            "result": result,
            "result_squared": result**2,
            "value_error": np.where(known, (expected - result) ** 2, 0),
            "value_loss": functional.cross_entropy(
                answer.value, torch.from_numpy(np.where(known, batch.results, -100).astype(np.int64)), reduction="none"
            ).numpy(),
            **{name: batch.results == place for place, name in enumerate(("won", "drawn", "lost"))},
        }
    if answer.score is not None:
        scored = ~np.isnan(batch.scores)
        error = np.abs(SCORE_UNIT * answer.score.numpy() - np.nan_to_num(batch.scores))
        columns |= {
            "scored": scored,
            "score_error": np.where(scored, error, 0),
            "score_size": np.abs(np.nan_to_num(batch.scores)),
        }
    if answer.ownership is not None:
        owned = batch.owners != 0
        own = batch.owners > 0
        ownership = answer.ownership.sigmoid().numpy()
        columns |= {
            "points": owned.sum(1),
            "owned": (((ownership > 0.5) == own) & owned).sum(1),
            "brier": ((ownership - own) ** 2 * owned).sum(1),
            "by_nearest": ((1 + nearest_stones(stones) * batch.owners) / 2 * owned).sum(1),  # between equals half right
        }
    return columns


RANK_GROUPS = (("30k to 20k", WEAKEST, -19), ("19k to 10k", -18, -9), ("9k to 1k", -8, 0), ("dan", 1, STRONGEST))

RANK_CONDITIONS = ("right", "10 stronger", "10 weaker", "none")  # what a net is told of both players' ranks


@dataclass(frozen=True, slots=True)
class ByRank:
    """How well a net that is told who plays predicts the moves of one group of ranks."""

    group: str
    positions: int
    top1: tuple[float, ...]  # by RANK_CONDITIONS
    losses: tuple[float, ...]


def by_rank(
    network: Net,
    encoder: Encoder,
    games: Games,
    rule: SplitRule | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[ByRank]:
    """Evaluate the moves of players whose rank is known, with the right ranks, wrong ones and none. Where ``rule``
    splits by player, only the moves of players in the test count: their opponents may have trained the net."""
    movers = np.repeat(np.arange(len(games)), games.lengths), games.plies % 2
    ranks = games.ranks[movers].clip(WEAKEST, STRONGEST)
    counted = games.ranks[movers] != UNRANKED
    if rule is not None and rule.by_player:
        players = {player for player in games.players.flat if rule.part_of_player(int(player)) == TEST}
        counted &= np.isin(games.players[movers], list(players))
    places, found = np.flatnonzero(counted), []
    for number, shift in enumerate((0, 10, -10, UNRANKED)):
        shifted = (games.ranks + np.int16(shift)).clip(WEAKEST, STRONGEST)
        unranked = (games.ranks == UNRANKED) | (shift == UNRANKED)
        told = replace(games, ranks=np.where(unranked, UNRANKED, shifted).astype(np.int8))
        figures = []
        done = number * len(places)
        for batch in in_order(told, encoder, places, 256):
            policy, moves = outputs(network, batch.planes).policy, torch.from_numpy(batch.moves)
            assert policy is not None
            losses = functional.cross_entropy(policy, moves, reduction="none")
            figures.append(torch.stack([(policy.argmax(1) == moves).float(), losses], 1))
            done += len(batch)
            on_progress(done)
        found.append(torch.cat(figures).numpy())
    rows = []
    for group, low, high in RANK_GROUPS:
        own = (ranks[places] >= low) & (ranks[places] <= high)
        top1, losses = np.stack([each[own].mean(0) for each in found]).T
        rows.append(ByRank(group, int(own.sum()), tuple(top1.tolist()), tuple(losses.tolist())))
    return rows


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


def phases(evaluation: Evaluation) -> Sequence[tuple[str, Figures]]:
    """The figures of all positions, of those from ply 15 on and of each phase, under the numbers of their moves."""
    parts = [(f"{first + 1} to {last + 1}", evaluation.figures(first, last)) for first, last in PHASES[:-1]]
    last_part = (f"{PHASES[-1][0] + 1} on", evaluation.figures(PHASES[-1][0]))
    return [("all", evaluation.figures()), ("16 on", evaluation.figures(15)), *parts, last_part]
