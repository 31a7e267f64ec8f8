"""The clocks of a person's game: what both sides have left while a turn runs or is taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy

from arena.contract.bot import Limits
from arena.contract.limits import Clock, TimeLeft
from arena.go.coords import Colour


class Clocks:
    """The clocks of the sides that have one, and the seconds of the running turn."""

    def __init__(
        self, limits: Mapping[Colour, Limits], shown: Iterable[TimeLeft | None], now: Callable[[], float]
    ) -> None:
        """``shown`` is what the clocks of Black and White show already, None for a new game."""
        self._limits = limits
        self._now = now
        self._since: float | None = None  # when the running turn began
        self._clocks: dict[Colour, Clock] = {}
        for colour, left in zip(Colour, shown, strict=True):
            if (clock := limits[colour].start_clock()) is not None:
                self._clocks[colour] = clock
                if left is not None:
                    clock.left = left

    def of(self, colour: Colour) -> Clock | None:
        """A copy of a side's clock as it stood before the running turn."""
        return copy(self._clocks.get(colour))

    @property
    def elapsed(self) -> float:
        """Seconds of the running turn."""
        return 0.0 if self._since is None else self._now() - self._since

    def begin(self, since: float | None) -> None:
        """Begin a turn at this time; None for one that isn't timed yet."""
        self._since = since

    def end(self, colour: Colour, *, has_moved: bool, seconds: float | None = None) -> float:
        """End the running turn after ``seconds``, or those timed here, and return them. Without a move the clock
        stops."""
        seconds = self.elapsed if seconds is None else seconds
        if has_moved and colour in self._clocks:
            self._clocks[colour].spend(seconds)
        elif left := self.left(colour, is_running=True):
            self._clocks[colour].left = left
        self._since = None
        return seconds

    def run_out(self, colour: Colour) -> None:
        """A side has lost on time: its clock stands at 0."""
        if clock := self._clocks.get(colour):
            clock.left = TimeLeft(0.0, clock.left.stones)

    def is_late(self, colour: Colour) -> bool:
        """Whether the running turn has used up this side's time."""
        clock = self._clocks.get(colour)
        return clock is not None and self.elapsed > clock.available

    def left(self, colour: Colour, is_running: bool) -> TimeLeft | None:
        """What a side's clock shows now."""
        clock = self._clocks.get(colour)
        if clock is None or not is_running:
            return None if clock is None else clock.left
        left, elapsed = clock.left, self.elapsed
        if elapsed > left.seconds and not left.stones and clock.available > left.seconds:  # it runs into byo-yomi
            return TimeLeft(max(0.0, clock.available - elapsed), self._limits[colour].stones)
        return TimeLeft(max(0.0, left.seconds - elapsed), left.stones)
