"""A match's games count in the order in which they were planned, so that a sequential test errs no more often than it
promises, however many games are played at once. Nothing is played here: the games are made up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import slow_tally
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_tally import number_of

from arena.events.tally import Judge, Seen, Tally
from arena.go.game import Ending, Outcome, Rules
from arena.go.moves import BLACK, WHITE
from arena.go.record import Record
from arena.ratings import PairCounts, Sprt, WinDrawLoss

NEW, OLD = PLAYERS = ("new", "old")

OUTCOMES = {colour: Outcome(colour, Ending.RESIGN) for colour in (BLACK, WHITE)} | {
    None: Outcome(None, Ending.MOVE_LIMIT, 0.0)
}

GAME = Record(Rules(), (), None, event="match-1", black_seconds=0.1, white_seconds=0.3)

ENDINGS = [Ending.SCORE, Ending.RESIGN, Ending.TIME, Ending.CRASH, Ending.ADJUDICATED]

QUICK = Sprt(0, 400)
"""A test that a few pairs decide."""


def game(number: int, winner: str | None) -> Record:
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


def games(*winners: str | None) -> list[Record]:
    return [game(number, winner) for number, winner in enumerate(winners, 1)]


def judged(records: Sequence[Record], planned: int | None = None, test: Sprt | None = None) -> Judge:
    judge = Judge(NEW, OLD, planned, test)
    judge.add(records)
    return judge


# --- What counts ---


@st.composite
def stored(draw: st.DrawFn) -> list[Record]:
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


def batches_of(draw: st.DataObject, records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """The records in their order, any number of them at a time."""
    cuts = sorted(draw.draw(st.sets(st.integers(0, len(records)))))
    return (records[begin:end] for begin, end in pairwise([0, *cuts, len(records)]))


@settings(max_examples=150, deadline=None)
@given(stored(), st.none() | st.integers(0, 32), st.sampled_from([None, QUICK]), st.data())
def test_games_in_any_order_and_number_are_judged_as_by_a_slow_twin(
    records: list[Record], planned: int | None, test: Sprt | None, data: st.DataObject
) -> None:
    judge = Judge(NEW, OLD, planned, test)
    returned = [counted for some in batches_of(data, records) for counted in judge.add(some)]
    pairs = slow_tally.counted(records, planned, test, NEW)
    counted = [record for pair in pairs for record in pair if record.outcome is not None]
    assert returned == counted
    assert slow_tally.figures_of(judge.tally) == slow_tally.figures(counted, NEW, OLD)
    assert judge.tally.counts == slow_tally.counts_of(pairs, NEW)
    assert judge.state == slow_tally.state_of(pairs, test, NEW)
    assert judge.date == (counted[-1].date if counted else "")
    wanted = sum(planned is None or number_of(record) <= planned for record in records)
    assert judge.waiting == (0 if judge.is_decided else wanted - sum(map(len, pairs)))


@settings(max_examples=100, deadline=None)
@given(stored(), st.data())
def test_a_tally_is_the_same_however_many_games_are_added_at_once(records: list[Record], data: st.DataObject) -> None:
    known = [record for record in records if record.outcome is not None]
    tally = Tally(NEW, OLD)
    for some in batches_of(data, known):
        tally.add(some)
    assert slow_tally.figures_of(tally) == slow_tally.figures(known, NEW, OLD)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1), max_size=900), max_size=9))
def test_numbers_that_were_there_are_known_again(parts: list[list[int]]) -> None:
    seen, known = Seen(), set[int]()
    for numbers in parts:
        new = []
        for number in numbers:
            new.append(number not in known)
            known.add(number)
        assert seen.add(numbers).tolist() == new


def test_a_pair_counts_only_when_all_earlier_pairs_are_complete() -> None:
    one, two, three, four, five, _ = played = games(NEW, OLD, NEW, NEW, None, OLD)
    judge = Judge(NEW, OLD, 6, QUICK)
    assert not any(judge.add([game]) for game in (four, three, two, five))
    assert (judge.tally.games, judge.waiting, judge.state, judge.date) == (0, 4, None, "")
    assert [*judge.add([one])] == [one, two, three, four]
    assert (judge.tally.games, judge.waiting, judge.date) == (4, 1, "day 4")
    assert judge.tally.counts == PairCounts(0, 0, 1, 0, 1)
    judge.add([played[5]])
    assert judge.tally.results() == WinDrawLoss(3, 1, 2) and judge.waiting == 0


def test_without_a_test_nothing_is_decided_and_without_a_plan_pairs_count() -> None:
    judge = judged(games(*[NEW] * 61))
    assert judge.state is None and not judge.is_decided
    assert (judge.tally.games, judge.waiting) == (60, 1)
