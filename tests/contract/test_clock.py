"""Main time and Canadian byo-yomi: against a twin that counts every tick, and what is never handed out."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.contract.bot import Limits
from arena.contract.limits import Clock, TimeLeft, TimeSettings


@dataclass
class Ticking:
    """A clock that is watched: each tick takes one off main time, or off the period when that is over."""

    settings: TimeSettings
    main: int
    period: int = 0
    stones: int = 0

    def tick(self) -> bool:
        """Whether there was a tick left to take."""
        if self.main > 0:
            self.main -= 1
            return True
        self.begin_period()
        if self.period == 0:
            return False
        self.period -= 1
        return True

    def begin_period(self) -> None:
        if self.stones == 0 and self.settings.stones:
            self.period, self.stones = int(self.settings.period), self.settings.stones

    def move(self, ticks: int) -> bool:
        """Whether a move of so many ticks was made in time; one in byo-yomi is a stone."""
        in_time = all([self.tick() for _ in range(ticks)])
        if self.main == 0 and self.stones:
            self.stones -= 1
        if self.main == 0:
            self.begin_period()
        return in_time

    @property
    def shows(self) -> TimeLeft:
        return TimeLeft(self.main or self.period, 0 if self.main else self.stones)


SETTINGS = st.one_of(
    st.builds(TimeSettings, st.integers(1, 30)),
    st.builds(TimeSettings, st.integers(0, 30), st.integers(1, 10), st.integers(1, 4)),
)


@given(SETTINGS, st.lists(st.integers(0, 15), max_size=40))
def test_a_clock_shows_what_one_that_is_watched_shows(settings: TimeSettings, moves: list[int]) -> None:
    clock, twin = Clock(settings), Ticking(settings, int(settings.main))
    if settings.main == 0:
        twin.begin_period()
    for ticks in moves:
        assert clock.left == twin.shows
        in_time = ticks <= clock.available
        assert twin.move(ticks) == in_time
        if not in_time:
            return
        clock.spend(ticks)


@given(SETTINGS, st.lists(st.floats(0, 15), max_size=40), st.floats(0, 5), st.integers(5, 19))
def test_no_more_is_overrun_than_the_allowance_and_no_more_is_shared_out_than_the_clock_has(
    settings: TimeSettings, moves: list[float], lag: float, size: int
) -> None:
    clock, overrun = Clock(settings, lag), 0.0
    for played, seconds in enumerate(moves):
        assert 0 < clock.share(size, played) <= max(clock.available, 0.001)
        seconds = min(seconds, clock.available + clock.allowance)
        overrun += max(0.0, seconds - clock.available)
        clock.spend(seconds)
        assert overrun <= lag + 1e-9
        assert clock.left.seconds >= 0 and 0 <= clock.left.stones <= settings.stones
        assert clock.available <= settings.main + settings.period


def test_limits_for_a_move_are_what_the_clock_gives_and_has() -> None:
    limits = Limits.read("main=10,byoyomi=4,lag=0.5,simulations=50", "here")
    clock = limits.start_clock()
    assert clock is not None
    clock.spend(9)
    now = limits.at(clock, size=9, played=30)
    assert (now.left, now.simulations, now.allowed) == (TimeLeft(1, 0), 50, 5.5)
    spent = limits.at(clock, size=9, played=30, spent=0.75)
    assert (spent.left, spent.allowed) == (TimeLeft(0.25, 0), 4.75)
    assert now.seconds == pytest.approx(1 / 17.4 + 4 - 0.2)


@given(
    st.builds(
        Limits, st.floats(0.001, 1e6), st.none() | st.integers(1, 10**9), deadline=st.none() | st.floats(0.001, 1e6)
    )
    | st.builds(Limits, st.none(), st.none(), st.floats(0.001, 1e6), st.floats(0.001, 1e6), st.integers(1, 1000))
    | st.builds(Limits, main=st.floats(0.001, 1e6), lag=st.none() | st.floats(0, 1e6))
)
def test_limits_as_text_are_read_as_the_same_limits(limits: Limits) -> None:
    assert Limits.read(str(limits), "here") == limits
