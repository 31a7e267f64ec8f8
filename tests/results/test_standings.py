"""Standings against a slow, obvious twin. With a sequential test games count in the order in which they were planned,
so that it errs no more often than it promises, however many games are played at once. The games are made up.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from helpers.games import match_of
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.go.coords import BLACK, WHITE, symmetry_table
from arena.go.game import Ending, Outcome, Rules
from arena.go.record import GameRecord
from arena.match.standings import Standings
from arena.ratings import PairCounts, Sprt, SprtState, WinDrawLoss, share_interval

NEW, OLD = PLAYERS = ("new", "old")
BOTH = (PLAYERS, PLAYERS[::-1])

ENDINGS = [Ending.SCORE, Ending.RESIGN, Ending.TIME, Ending.CRASH, Ending.ADJUDICATED]

QUICK = Sprt(0, 400)
"""A test that a few pairs decide."""

Games = Sequence[GameRecord]


@st.composite
def stored(draw: st.DrawFn) -> list[GameRecord]:
    """Some games of a match as they came in, not all of them there, some identical, one without an outcome at times."""
    records = []
    for number in range(1, draw(st.integers(0, 30)) + 1):
        winner, ending = draw(st.sampled_from([BLACK, WHITE, None])), draw(st.sampled_from(ENDINGS))
        moves = draw(st.sampled_from([(0, 1, 2), (0, 1, 3), (0, 8, 80), (0, 1, *divmod(number, 81))]))
        outcome = Outcome(winner, ending if winner is not None else Ending.MOVE_LIMIT)
        change: dict[str, Any] = {
            "opening": draw(st.integers(0, len(moves))),
            "first": draw(st.sampled_from([BLACK, BLACK, WHITE])),
            "adjudged": draw(st.sampled_from([None, None, BLACK, WHITE])),
            "black_seconds": draw(st.floats(0, 10)),
        }
        black, white = BOTH[1 if change["first"] is WHITE else (number - 1) % 2]  # White begins after handicap stones
        record = GameRecord(Rules(), moves, outcome, event="match-1", id=f"match-1/{number:05d}", **change)
        record = replace(record, black=black, white=white, date=f"day {number}", white_seconds=0.3)
        records.append(replace(record, outcome=None) if draw(st.integers(0, 30)) == 30 else record)
    missing = draw(st.sets(st.integers(1, 30), max_size=2))
    return draw(st.permutations([record for record in records if number_of(record) not in missing]))


# --- The slow twin: game after game, and all that was seen in sets ---


def number_of(game: GameRecord) -> int:
    return int(game.id.rpartition("/")[2])


def points_of(game: GameRecord, player: str) -> float:
    assert game.outcome is not None
    black = game.outcome.black_score
    return black if game.black == player else 1 - black


def counted_pairs(games: Games, test: Sprt) -> list[Games]:
    """The games of a match with a test that count, in pairs: sorted, cut at the first gap and where it is decided."""
    in_order = sorted(games, key=number_of)
    left = [game for place, game in enumerate(in_order, 1) if number_of(game) == place]
    pairs: list[Games] = []
    while len(left) > 1 and not ((state := state_of(pairs, test)) and state.is_decided):
        pairs, left = [*pairs, left[:2]], left[2:]
    return pairs


def pairs_in_order(games: Games) -> list[Games]:
    """Sorted, and cut at the first gap."""
    in_order = sorted(games, key=number_of)
    left = [game for place, game in enumerate(in_order, 1) if number_of(game) == place]
    return [left[at : at + 2] for at in range(0, len(left) - 1, 2)]


def all_pairs(games: Games) -> list[Games]:
    by_number = {number_of(game): game for game in games}
    first = sorted(number for number in by_number if number % 2 and number + 1 in by_number)
    return [[by_number[number], by_number[number + 1]] for number in first]


def opening_of(game: GameRecord) -> frozenset[tuple[int, ...]]:
    """The moves of the opening under the 8 symmetries; without one, of the first 8 moves."""
    return frozenset(tuple(int(table[move]) for move in game.moves[: game.opening or 8]) for table in symmetry_table(9))


def scores_of(pairs: Sequence[Games]) -> list[float]:
    """Of pairs of which no outcome is missing, unless both their openings were met before."""
    seen: set[Any] = set()
    scores = []
    for pair in pairs:
        openings = {opening_of(game) for game in pair}
        if all(game.outcome is not None for game in pair) and not openings <= seen:
            seen |= openings
            scores.append(sum(points_of(game, NEW) for game in pair) / 2)
    return scores


def state_of(pairs: Sequence[Games], test: Sprt) -> SprtState | None:
    scores = scores_of(pairs)
    return test.state(PairCounts.of(2 * score for score in scores)) if scores else None


def figures(games: Games) -> dict[str, Any]:
    """What the games of the match add up to."""
    results = Counter((BLACK if game.black == NEW else WHITE, points_of(game, NEW)) for game in games)
    seconds, turns, endings = Counter[str](), Counter[str](), dict[Ending, Counter[str]]()
    played_on = []
    for game in games:
        outcome, names = game.outcome, {BLACK: game.black, WHITE: game.white, None: ""}
        assert outcome is not None
        if game.adjudged is not None and outcome.ending is not Ending.ADJUDICATED and not outcome.ending.is_forfeit:
            played_on.append(game.adjudged is not outcome.winner)
        to_play = game.first
        for move in range(game.length):
            turns[names[to_play]] += move >= game.opening
            to_play = to_play.opponent
        if outcome.winner is not None and outcome.ending not in (Ending.SCORE, Ending.MOVE_LIMIT, Ending.ADJUDICATED):
            turns[names[outcome.winner.opponent]] += 1
        seconds[game.black] += game.black_seconds  # type: ignore[assignment]
        seconds[game.white] += game.white_seconds  # type: ignore[assignment]
        endings.setdefault(outcome.ending, Counter())[names[outcome.winner]] += 1
    return {
        "results": [WinDrawLoss(*(results[colour, points] for points in (1, 0.5, 0))) for colour in (BLACK, WHITE)],
        "rated": [(game.black, points_of(game, game.black), game.opening_key) for game in games],
        "lengths": Counter(game.length for game in games),
        "played on": (len(played_on), sum(played_on)),
        "forfeits": [game for game in games if game.outcome is not None and game.outcome.ending.is_forfeit],
        "endings": endings,
        "times": [seconds[one] / turns[one] if turns[one] else None for one in PLAYERS],
    }


def figures_of(table: Standings) -> dict[str, Any]:
    """The same of the standings."""
    tally, rated = table.between(NEW, OLD), table.rated
    columns = rated.black.tolist(), rated.points.tolist(), rated.opening.tolist()
    return {
        "results": [tally.results(colour) for colour in (BLACK, WHITE)],
        "rated": [(rated.players[at], *known) for at, *known in zip(*columns, strict=True)],
        "lengths": table.lengths,
        "played on": (table.played_on, table.overturned),
        "forfeits": table.forfeits,
        "endings": table.endings,
        "times": [table.seconds_a_move(name) for name in PLAYERS],
    }


@pytest.mark.smoke
@settings(max_examples=80)
@given(stored(), st.data(), st.sampled_from([QUICK, QUICK, None]))
def test_games_count_as_in_the_slow_twin_whatever_the_order_in_which_they_end(
    records: list[GameRecord], data: st.DataObject, sprt: Sprt | None
) -> None:
    """With a sequential test in pairs, when all earlier ones are complete, up to its decision; else at once."""
    table = Standings({NEW: NEW, OLD: OLD}, "match-1", replace(match_of(NEW, OLD), test=sprt), is_match=True)
    cuts = [0, *sorted(data.draw(st.sets(st.integers(0, len(records))))), len(records)]
    returned = [counted for begin, end in pairwise(cuts) for counted in table.add(records[begin:end])]
    known = [record for record in records if record.outcome is not None]
    pairs = counted_pairs(records, sprt) if sprt else all_pairs(known)
    counted = [record for pair in pairs for record in pair if record.outcome is not None] if sprt else known
    assert returned == counted
    assert figures_of(table) == figures(counted)
    complete = [pair for pair in pairs if all(game.outcome is not None for game in pair)]
    tally = table.between(NEW, OLD)
    assert tally.counts == PairCounts.of(sum(points_of(game, NEW) for game in pair) for pair in complete)
    if all(record.outcome is not None for record in records):
        assert tally.scores == scores_of(pairs_in_order(counted))
    assert table.date == (counted[-1].date if counted else "")
    if sprt is not None:
        test = table.tests["match-1"]
        assert test.state == state_of(pairs, sprt)
        assert test.waiting == (0 if table.is_decided else len(records) - sum(map(len, pairs)))


def test_a_share_has_the_jeffreys_interval() -> None:
    """R: binom::binom.confint(x, n, methods = "bayes", prior.shape1 = 0.5, prior.shape2 = 0.5, type = "central")."""
    for hits, interval in ((0, (0, 0.217)), (5, (0.224, 0.776)), (10, (0.783, 1))):
        assert share_interval(hits, 10) == pytest.approx(interval, abs=0.001)
    assert share_interval(0, 0) == (0.0, 1.0)
