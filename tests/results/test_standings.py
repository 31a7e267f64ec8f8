"""Standings against their slow twin. With a sequential test games count in the order in which they were planned, so
that it errs no more often than it promises, however many games are played at once. The games are made up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import slow_tally
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_tally import number_of

from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Outcome, Rules
from arena.go.record import GameRecord
from arena.match.standings import Standings
from arena.ratings import PairCounts, Sprt, WinDrawLoss, share_interval

NEW, OLD = PLAYERS = ("new", "old")

OUTCOMES = {colour: Outcome(colour, Ending.RESIGN) for colour in (BLACK, WHITE)} | {
    None: Outcome(None, Ending.MOVE_LIMIT, 0.0)
}

GAME = GameRecord(Rules(), (), None, event="match-1", black_seconds=0.1, white_seconds=0.3)

ENDINGS = [Ending.SCORE, Ending.RESIGN, Ending.TIME, Ending.CRASH, Ending.ADJUDICATED]

QUICK = Sprt(0, 400)
"""A test that a few pairs decide."""


def game(number: int, winner: str | None) -> GameRecord:
    """Game ``number``, from 1; ``new`` has Black in the odd ones. No two are the same up to symmetry."""
    black, white = PLAYERS if number % 2 else PLAYERS[::-1]
    colour = None if winner is None else BLACK if winner == black else WHITE
    return replace(
        GAME,
        id=f"match-1/{number:05d}",
        black=black,
        white=white,
        outcome=OUTCOMES[colour],
        moves=(0, 1, *divmod(number, 81)),
        date=f"day {number}",
    )


def games(*winners: str | None) -> list[GameRecord]:
    return [game(number, winner) for number, winner in enumerate(winners, 1)]


def standings(test: Sprt | None = None) -> Standings:
    return Standings({NEW: NEW, OLD: OLD}, is_match=True, tests={} if test is None else {"match-1": test})


# --- What counts ---


@st.composite
def stored(draw: st.DrawFn) -> list[GameRecord]:
    """Some games of a match as they came in, not all of them there, some identical, one without an outcome at times."""
    ends = st.tuples(st.sampled_from([BLACK, WHITE, None]), st.sampled_from(ENDINGS))
    records = []
    for number in range(1, draw(st.integers(0, 30)) + 1):
        winner, ending = draw(ends)
        ending = ending if winner is not None else Ending.MOVE_LIMIT
        moves = draw(st.sampled_from([(0, 1, 2), (0, 1, 3), (0, 8, 80), (0, 1, *divmod(number, 81))]))
        change: dict[str, Any] = {
            "outcome": None if draw(st.integers(0, 30)) == 30 else Outcome(winner, ending),
            "moves": moves,
            "opening": draw(st.integers(0, len(moves))),
            "first": draw(st.sampled_from([BLACK, BLACK, WHITE])),
            "adjudged": draw(st.sampled_from([None, None, BLACK, WHITE])),
            "reason": draw(st.sampled_from(["", "lost"])),
            "black_seconds": draw(st.floats(0, 10)),
        }
        records.append(replace(game(number, None), **change))
    missing = draw(st.sets(st.integers(1, 30), max_size=2))
    return draw(st.permutations([record for record in records if number_of(record) not in missing]))


def batches_of(draw: st.DataObject, records: Sequence[GameRecord]) -> Iterator[Sequence[GameRecord]]:
    """The records in their order, any number of them at a time."""
    cuts = sorted(draw.draw(st.sets(st.integers(0, len(records)))))
    return (records[begin:end] for begin, end in pairwise([0, *cuts, len(records)]))


@settings(max_examples=60, deadline=None)
@given(stored(), st.data())
def test_a_sequential_test_counts_as_its_slow_twin_whatever_the_order_in_which_games_end(
    records: list[GameRecord], data: st.DataObject
) -> None:
    table = standings(QUICK)
    returned = [counted for some in batches_of(data, records) for counted in table.add(some)]
    test, tally = table.tests["match-1"], table.between(NEW, OLD)
    pairs = slow_tally.counted(records, QUICK, NEW)
    counted = [record for pair in pairs for record in pair if record.outcome is not None]
    assert returned == counted
    assert slow_tally.figures_of(tally) == slow_tally.figures(counted, NEW, OLD)
    assert slow_tally.totals_of(table) == slow_tally.totals(counted, PLAYERS)
    assert tally.counts == slow_tally.counts_of(pairs, NEW)
    assert test.state == (slow_tally.state_of(pairs, QUICK, NEW) if pairs else None)
    assert table.date == (counted[-1].date if counted else "")
    assert table.waiting == (0 if table.is_decided else len(records) - sum(map(len, pairs)))
    points = [slow_tally.points_of(record, NEW) for record in records if record.outcome is not None]
    assert test.results == WinDrawLoss(points.count(1), points.count(0.5), points.count(0))


@settings(max_examples=40, deadline=None)
@given(stored(), st.data())
def test_without_a_test_all_finished_games_count_at_once(records: list[GameRecord], data: st.DataObject) -> None:
    known = [record for record in records if record.outcome is not None]
    table = standings()
    for some in batches_of(data, records):
        table.add(some)
    tally = table.between(NEW, OLD)
    assert slow_tally.figures_of(tally) == slow_tally.figures(known, NEW, OLD)
    assert slow_tally.totals_of(table) == slow_tally.totals(known, PLAYERS)
    assert tally.counts == slow_tally.counts_of(slow_tally.paired(known), NEW)


def test_in_a_test_a_pair_counts_only_when_all_earlier_pairs_are_complete() -> None:
    one, two, three, four, five, six = games(NEW, OLD, NEW, NEW, None, OLD)
    table = standings(QUICK)
    test, tally = table.tests["match-1"], table.between(NEW, OLD)
    assert not any(table.add([game]) for game in (four, three, two, five))
    assert (tally.games, test.waiting, test.state, table.date) == (0, 4, None, "")
    assert test.results == WinDrawLoss(2, 1, 1)
    assert table.add([one]) == [one, two, three, four]
    assert (tally.games, test.waiting, table.date) == (4, 1, "day 4")
    assert tally.counts == PairCounts(0, 0, 1, 0, 1)
    table.add([six])
    assert tally.results() == test.results == WinDrawLoss(3, 1, 2) and test.waiting == 0


def test_a_share_has_the_jeffreys_interval() -> None:
    """R: binom::binom.confint(x, n, methods = "bayes", prior.shape1 = 0.5, prior.shape2 = 0.5, type = "central")."""
    for hits, interval in ((0, (0, 0.217)), (5, (0.224, 0.776)), (10, (0.783, 1))):
        assert share_interval(hits, 10) == pytest.approx(interval, abs=0.001)
    assert share_interval(0, 0) == (0.0, 1.0)
