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
from arena.ratings import Sprt, share_interval

NEW, OLD = PLAYERS = ("new", "old")

GAME = GameRecord(Rules(), (), None, event="match-1", black_seconds=0.1, white_seconds=0.3)

ENDINGS = [Ending.SCORE, Ending.RESIGN, Ending.TIME, Ending.CRASH, Ending.ADJUDICATED]

QUICK = Sprt(0, 400)
"""A test that a few pairs decide."""


def game(number: int) -> GameRecord:
    """Game ``number``, from 1; ``new`` has Black in the odd ones. No two are the same up to symmetry."""
    black, white = PLAYERS if number % 2 else PLAYERS[::-1]
    moves = (0, 1, *divmod(number, 81))
    return replace(GAME, id=f"match-1/{number:05d}", black=black, white=white, moves=moves, date=f"day {number}")


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
        records.append(replace(game(number), **change))
    missing = draw(st.sets(st.integers(1, 30), max_size=2))
    return draw(st.permutations([record for record in records if number_of(record) not in missing]))


def batches_of(draw: st.DataObject, records: Sequence[GameRecord]) -> Iterator[Sequence[GameRecord]]:
    """The records in their order, any number of them at a time."""
    cuts = sorted(draw.draw(st.sets(st.integers(0, len(records)))))
    return (records[begin:end] for begin, end in pairwise([0, *cuts, len(records)]))


@settings(max_examples=80, deadline=None)
@given(stored(), st.data(), st.sampled_from([QUICK, QUICK, None]))
def test_games_count_as_in_the_slow_twin_whatever_the_order_in_which_they_end(
    records: list[GameRecord], data: st.DataObject, sprt: Sprt | None
) -> None:
    """With a sequential test in pairs, when all earlier ones are complete, up to its decision; else at once."""
    table = Standings({NEW: NEW, OLD: OLD}, is_match=True, tests={"match-1": sprt} if sprt else {})
    returned = [counted for some in batches_of(data, records) for counted in table.add(some)]
    known = [record for record in records if record.outcome is not None]
    pairs = slow_tally.counted(records, sprt, NEW) if sprt else slow_tally.paired(known)
    counted = [record for pair in pairs for record in pair if record.outcome is not None] if sprt else known
    tally = table.between(NEW, OLD)
    assert returned == counted
    assert slow_tally.figures_of(tally) == slow_tally.figures(counted, NEW, OLD)
    assert slow_tally.totals_of(table) == slow_tally.totals(counted, PLAYERS)
    assert tally.counts == slow_tally.counts_of(pairs, NEW)
    assert table.date == (counted[-1].date if counted else "")
    if sprt is not None:
        test = table.tests["match-1"]
        assert test.state == (slow_tally.state_of(pairs, sprt, NEW) if pairs else None)
        assert test.waiting == (0 if table.is_decided else len(records) - sum(map(len, pairs)))


def test_a_share_has_the_jeffreys_interval() -> None:
    """R: binom::binom.confint(x, n, methods = "bayes", prior.shape1 = 0.5, prior.shape2 = 0.5, type = "central")."""
    for hits, interval in ((0, (0, 0.217)), (5, (0.224, 0.776)), (10, (0.783, 1))):
        assert share_interval(hits, 10) == pytest.approx(interval, abs=0.001)
    assert share_interval(0, 0) == (0.0, 1.0)
