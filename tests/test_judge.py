"""A match's games count in the order in which they were planned, so that a sequential test errs no more often than it
promises, however many games are played at once. Nothing is played here: the games are made up.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from arena.events.tally import Judge
from arena.go.game import Ending, Outcome, Rules
from arena.go.moves import BLACK, WHITE
from arena.go.record import Record
from arena.ratings import PairCounts, Sprt, SprtState, WinDrawLoss

NEW, OLD = PLAYERS = ("new", "old")

OUTCOMES = {colour: Outcome(colour, Ending.RESIGN) for colour in (BLACK, WHITE)} | {
    None: Outcome(None, Ending.MOVE_LIMIT, 0.0)
}

GAME = Record(Rules(), (), None, event="match-1", black_seconds=0.1, white_seconds=0.3)

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
    for record in records:
        judge.add(record)
    return judge


def figures(judge: Judge) -> tuple[Any, ...]:
    """All that is told of a match."""
    tally = judge.tally
    spent = [tally.spent(player) for player in PLAYERS]
    return tally.results(), tally.counts, tally.repeats, spent, judge.state, judge.date, judge.waiting


# --- What counts ---


def number_of(record: Record) -> int:
    return int(record.id[-5:])


def slowly(records: Sequence[Record], planned: int, test: Sprt) -> tuple[list[Record], PairCounts, SprtState | None]:
    """What counts, by the slow twin of the judge: all games sorted, cut at the first gap, and taken pair by pair."""
    in_order = sorted(records, key=number_of)
    left = [record for place, record in enumerate(in_order, 1) if number_of(record) == place <= planned]
    counted: list[Record] = []
    points: list[float] = []
    state = None
    while left and (state is None or not state.is_decided):
        pair, left = left[:2], left[2:]
        if len(pair) == 2:
            points.append(sum(map(points_of, pair)))
            state = test.state(PairCounts.of(points))
        elif number_of(pair[0]) != planned:
            break
        counted += pair
    return counted, PairCounts.of(points), state


def points_of(record: Record) -> float:
    black = record.outcome.black_score
    return black if record.black == NEW else 1 - black


@st.composite
def stored(draw: st.DrawFn) -> list[Record]:
    """Some games of a match as they came in, not all of them there."""
    played = games(*draw(st.lists(st.sampled_from([NEW, NEW, NEW, OLD, None]), max_size=30)))
    missing = draw(st.sets(st.integers(1, 30), max_size=2))
    return draw(st.permutations([record for record in played if number_of(record) not in missing]))


@settings(max_examples=300, deadline=None)
@given(stored(), st.integers(0, 32))
def test_games_that_arrive_in_any_order_are_judged_as_by_a_slow_twin(records: list[Record], planned: int) -> None:
    judge = Judge(NEW, OLD, planned, QUICK)
    returned = [counted for record in records for counted in judge.add(record)]
    counted, pairs, state = slowly(records, planned, QUICK)
    assert returned == counted
    assert (judge.tally.games, judge.tally.counts, judge.state) == (len(counted), pairs, state)
    assert judge.tally.points == sum(map(points_of, counted))
    assert judge.date == (counted[-1].date if counted else "")
    assert figures(judge) == figures(judged(sorted(records, key=number_of), planned, QUICK))
    wanted = sum(number_of(record) <= planned for record in records)
    assert judge.waiting == (0 if judge.is_decided else wanted - len(counted))


def test_a_pair_counts_only_when_all_earlier_pairs_are_complete() -> None:
    one, two, three, four, five, _ = played = games(NEW, OLD, NEW, NEW, None, OLD)
    judge = Judge(NEW, OLD, 6, QUICK)
    assert judge.add(four) == judge.add(three) == judge.add(two) == judge.add(five) == []
    assert (judge.tally.games, judge.waiting, judge.state, judge.date) == (0, 4, None, "")
    assert judge.add(one) == [one, two, three, four]
    assert (judge.tally.games, judge.waiting, judge.date) == (4, 1, "day 4")
    assert judge.tally.counts == PairCounts(0, 0, 1, 0, 1)
    judge.add(played[5])
    assert judge.tally.results() == WinDrawLoss(3, 1, 2) and judge.waiting == 0


def test_without_a_test_nothing_is_decided_and_without_a_plan_pairs_count() -> None:
    judge = judged(games(*[NEW] * 61))
    assert judge.state is None and not judge.is_decided
    assert (judge.tally.games, judge.waiting) == (60, 1)
