"""How often tests and intervals are right: simulated with the classes that the program uses, and players whose strength
is known.

A pair of games may be independent, with half of the games drawn, with openings that are worth 200 Elo to a colour,
mostly decided by the opening (1-1), or half of the time won whole by one side. Beside that, the difference of two
players varies by 100 Elo (standard deviation) from opening to opening.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from statistics import NormalDist

import numpy as np

from arena.go.game import Rules
from arena.match.openings import shipped_book
from arena.match.schedule import OpenEvent, Terms, Tournament
from arena.match.swiss import Swiss, next_matchups
from arena.players.player import Player
from arena.ratings import ConfidenceSequence, Ratings, Results, Sprt, expected_score, rate
from arena.ratings.elo import FloatArray, elo
from arena.report.tables import SHOWN
from benchmarks.speed import describe_machine, print_row

SPREAD = 100.0  # Elo, from opening to opening
PAIRS = 200  # of a match
KINDS = ("independent", "drawn", "coloured", "decided", "whole")
OPENINGS = {"5": 5, "10": 10, "200": 200, "new": PAIRS}
SHIFTS = np.array([NormalDist().inv_cdf((at + 0.5) / 1000) for at in range(1000)])


def pair_chances(kind: str, differences: FloatArray) -> FloatArray:
    """The probabilities of 0, 1/2, 1, 1 1/2 and 2 points in a pair, (n, 5), at these differences in Elo, (n,)."""
    if kind == "coloured":
        sides = [_two_games(differences + side * 200, differences - side * 200, 0.0) for side in (1, -1)]
        return (sides[0] + sides[1]) / 2
    chances = _two_games(differences, differences, 0.5 if kind == "drawn" else 0.0)
    score = 1 / (1 + 10 ** (-differences / 400))
    if kind == "decided":
        chances = 0.2 * chances + 0.8 * np.eye(5)[2]
    elif kind == "whole":
        chances = (chances + np.stack([1 - score, *np.zeros((3, len(score))), score], axis=1)) / 2
    return chances


def _two_games(first: FloatArray, second: FloatArray, drawn: float) -> FloatArray:
    scores = [1 / (1 + 10 ** (-differences / 400)) for differences in (first, second)]
    draws = [np.minimum(drawn, 1.8 * np.minimum(score, 1 - score)) for score in scores]
    a, b = ((1 - score - draw / 2, draw, score - draw / 2) for score, draw in zip(scores, draws, strict=True))
    return np.stack([sum(a[i] * b[k - i] for i in range(3) if 0 <= k - i < 3) for k in range(5)], axis=1)


def true_elo(kind: str, difference: float) -> float:
    """Of the mean score over all openings there could be."""
    return elo(float((pair_chances(kind, difference + SPREAD * SHIFTS) @ np.linspace(0, 1, 5)).mean()))


def draw_pairs(
    kind: str, difference: float, openings: int, pairs: int, rng: np.random.Generator
) -> tuple[FloatArray, np.ndarray]:
    """The points in each pair of a match, 0 to 2, and its opening, (pairs,) each; openings are played in turn."""
    opening = np.arange(pairs) % openings
    chances = pair_chances(kind, difference + SPREAD * rng.standard_normal(openings))[opening]
    points = (rng.random((pairs, 1)) > chances.cumsum(1)).sum(1) / 2
    return points, opening


def match_results(points: FloatArray, opening: np.ndarray) -> Results:
    """Two games for each pair."""
    single = np.concatenate([np.minimum(points, 1.0), np.maximum(points - 1, 0.0)])
    zero = np.zeros(2 * len(points), np.int64)
    return Results(("a", "b"), zero, zero + 1, single, np.tile(opening, 2).astype(np.uint64))


def holds(estimate: tuple[float, float | None, float | None], truth: float) -> bool:
    _, low, high = estimate
    return (low is None or low <= truth + 1e-9) and (high is None or truth - 1e-9 <= high)


# --- Parts: each yields what is measured, in per cent, and for which case ---


def ends(matches: int, rng: np.random.Generator) -> Iterator[tuple[str, str, float]]:
    """Coverage of the ordinary interval at the planned end."""
    for kind in KINDS:
        for name, openings in OPENINGS.items():
            for difference in (0.0, 100.0, 300.0):
                truth, right = true_elo(kind, difference), 0
                for _ in range(matches):
                    ratings = rate(match_results(*draw_pairs(kind, difference, openings, PAIRS, rng)))
                    right += holds(ratings.difference("a", "b"), truth)
                yield "covered at the end", f"{kind}, {name} openings, {difference:+g}", 100 * right / matches


def sequential(matches: int, rng: np.random.Generator) -> Iterator[tuple[str, str, float]]:
    """Errors of a sequential test, 0 against 50 Elo, that counts an opening once; "none" has no error."""
    for kind in KINDS:
        for name, openings in (OPENINGS | {"new": 4_000}).items():
            for truth, accepted in ((0.0, "H1"), (50.0, "H0")):
                difference = _difference_of(kind, truth)
                wrong = 0
                for _ in range(matches):
                    points, _ = draw_pairs(kind, difference, openings, openings, rng)
                    wrong += _decide(Sprt(0, 50), points) == accepted
                yield "SPRT wrong", f"{kind}, {name} openings, {truth:+g} true", 100 * wrong / matches


def _decide(test: Sprt, points: FloatArray) -> str:
    counts = np.eye(5)[(2 * points).astype(int)].cumsum(0)
    for begin in range(0, len(counts), 250):
        _, state = test.first_decision(counts[begin : begin + 250])
        if state.is_decided:
            break
    return str(state.verdict)


def _difference_of(kind: str, truth: float) -> float:
    """The difference on the mean opening with this true Elo."""
    differences = np.linspace(-200, 800, 201)
    return float(np.interp(truth, [true_elo(kind, difference) for difference in differences], differences))


def stops(matches: int, rng: np.random.Generator) -> Iterator[tuple[str, str, float]]:
    """The interval that is valid at every stop: covered at the worst moment; and of equals, ever without 0."""
    for kind in KINDS:
        for difference in (0.0, 35.0, 100.0, 300.0):
            truth, right = true_elo(kind, difference), 0
            for _ in range(matches):
                sequence, points = ConfidenceSequence(), draw_pairs(kind, difference, PAIRS, PAIRS, rng)[0] / 2
                is_right = True
                for score in points:
                    sequence.add([score])
                    is_right = is_right and holds((0.0, *sequence.ends), truth)
                right += is_right
            yield "covered at the worst moment", f"{kind}, {difference:+g}", 100 * right / matches
            if not difference:
                yield "ever excludes 0", f"{kind}, equals", 100 - 100 * right / matches


def leagues(matches: int, rng: np.random.Generator) -> Iterator[tuple[str, str, float]]:
    """Round robins of equals, 20 games a pair: differences and printed intervals, tables with a wrong star."""
    for players in (3, 8, 20):
        for own in (True, False):
            event = Tournament("league", _entries(players), _terms(own), games_each=20)
            table = _schedule(event, rng)
            for kind in ("independent", "whole", "own openings"):
                found = [rate(table(kind)) for _ in range(matches)]
                case = f"{players} players, {kind}, {'openings of each pair' if own else 'openings shared'}"
                yield from _league_figures(found, case)


def ladders(matches: int, rng: np.random.Generator) -> Iterator[tuple[str, str, float]]:
    """Ladders of 8 equals, 800 games."""
    for kind in ("independent", "own openings"):
        found = []
        for _ in range(matches):
            event, games = Swiss("swiss", _entries(8), _terms(True), 800), list[Results]()
            table = _schedule(event, rng)
            names = list(event.players)
            matchups = list(pairwise(names))
            while sum(len(part.points) for part in games) < 800:
                games.append(table(kind, matchups))
                columns = [np.concatenate(column) for column in zip(*(part[1:] for part in games), strict=True)]
                ratings = rate(Results(games[0].players, *columns))
                matchups = next_matchups(ratings, event.block)
            found.append(ratings)
        yield from _league_figures(found, f"ladder of 8, {kind}")


def _league_figures(found: list[Ratings], case: str) -> Iterator[tuple[str, str, float]]:
    differences = [estimate for ratings in found for estimate in ratings.differences(_pairs(ratings))]
    held = [holds(estimate, 0.0) for estimate in differences]
    errors = [estimate.value for estimate in differences[:2000]]
    printed = [holds(estimate, 0.0) for ratings in found for estimate in ratings.estimates.values()]
    number = len(_pairs(found[0]))
    stars = [bool((number * (1 - ratings.los_matrix) < SHOWN / 2).any()) for ratings in found]
    yield "differences covered", case, 100 * float(np.mean(held))
    yield "printed intervals covered", case, 100 * float(np.mean(printed))
    yield "tables with a wrong star", case, 100 * float(np.mean(stars))
    yield "error of a difference (Elo)", case, float(np.std(errors))


def _pairs(ratings: Ratings) -> list[tuple[str, str]]:
    return [*combinations(ratings.players, 2)]


def _entries(players: int) -> tuple[Player, ...]:
    return tuple(Player(f"p{number:02d}", "uct", settings={"playouts": number + 1}) for number in range(players))


def _terms(own: bool) -> Terms:
    rules = Rules.preset("cgos", 9)
    return Terms(rules, book=shipped_book(rules), then_drawn=True, own_openings=own)


def _schedule(event: OpenEvent, rng: np.random.Generator) -> Callable[..., Results]:
    """A function that draws the games of an event between equals, or the next ones of some matchups, by its plan."""
    names, used = list(event.players), dict[tuple[str, str], int]()
    strength = SPREAD * rng.standard_normal((len(names), 4_000))  # of each player on each opening
    identities = {opening: number for number, opening in enumerate(event.terms.book)}

    def draw(kind: str, matchups: list[tuple[str, str]] | None = None) -> Results:
        if matchups is None:
            strength[:] = SPREAD * rng.standard_normal(strength.shape)
            wanted = [(*both, range(event.games_each)) for both in combinations(names, 2)]  # type: ignore[attr-defined]
        else:
            wanted = []
            for one, other in matchups:
                start = used.get((one, other), used.get((other, one), 0))
                used[one, other] = used[other, one] = start + 8
                wanted.append((one, other, range(start, start + 8)))
        rows = []
        for one, other, numbers in wanted:
            series = event.series_between(event.players[one], event.players[other], numbers)
            first, second = names.index(one), names.index(other)
            for number in numbers[::2]:
                opening = event.terms.opening(number // 2, series.order)
                key = identities.setdefault(opening, len(identities))
                gap = strength[first, key] - strength[second, key] if kind == "own openings" else 0.0
                score = expected_score(gap)
                games = (rng.random(2) < score).astype(float)
                if kind == "whole" and rng.random() < 0.5:
                    games[1] = games[0]
                rows += [(first, second, points, key) for points in games]
        firsts, seconds, points, keys = np.array(rows).T
        return Results(tuple(names), firsts.astype(int), seconds.astype(int), points, keys.astype(np.uint64))

    return draw


PARTS: dict[str, tuple[Callable[[int, np.random.Generator], Iterator[tuple[str, str, float]]], int]] = {
    "ends": (ends, 400),
    "sequential": (sequential, 400),
    "stops": (stops, 200),
    "leagues": (leagues, 300),
    "ladders": (ladders, 40),
}
"""Functions, and the matches or leagues of each case."""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks verdicts", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the usual work (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default 1)")
    parser.add_argument("part", nargs="*", help=f"what to simulate (default: {', '.join(PARTS)})")
    arguments = parser.parse_args(words)
    if unknown := set(arguments.part) - PARTS.keys():
        parser.error(f"there is no '{min(unknown)}'; there are {', '.join(PARTS)}")
    print(describe_machine(), "| what | case | per cent |", "|---|---|---|", sep="\n")
    for part in arguments.part or PARTS:
        simulate, matches = PARTS[part]
        for row in simulate(max(1, round(matches * arguments.share)), np.random.default_rng(arguments.seed)):
            print_row((*row[:2], f"{row[2]:.1f}"))
    return 0
