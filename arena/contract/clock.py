"""Main time and byo-yomi: what a side has left, and how to share it out over moves. Nothing is measured here."""

from __future__ import annotations

from dataclasses import dataclass

LAG = 0.2
"""Seconds of each move's time that are left unused, for what lies between the bot and the clock. By default, a bot's
moves may also overrun its clock by this much in a whole game."""


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """Seconds of main time, then byo-yomi periods of ``stones`` moves; without stones main time only.

    With ``japanese`` byo-yomi a controller counts periods, not stones, and each is good for one move.
    """

    main: float
    period: float = 0.0
    stones: int = 0
    japanese: bool = False


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The state of a clock: seconds left and moves left in the period; 0 stones mean main time."""

    seconds: float
    stones: int


class Clock:
    """What one side has left. It is as good as the last word on it and the measuring of who charges it."""

    def __init__(self, settings: TimeSettings, allowance: float = LAG):
        """``allowance`` is how many seconds all moves of the game together may overrun the clock by."""
        self._settings = settings
        self.allowance = allowance
        self._left = settings.main
        self._stones = 0
        if self._left <= 0:
            self._begin_period()

    @property
    def left(self) -> TimeLeft:
        return TimeLeft(self._left, self._stones)

    @property
    def available(self) -> float:
        """Seconds that the next move may take before time is over."""
        return max(self._left, 0.0) + (0.0 if self._stones else self._settings.period)

    def set(self, seconds: float, stones: int) -> None:
        """Take a controller's word on what is left."""
        self._left = seconds
        self._stones = min(stones, 1) if self._settings.japanese else stones

    def spend(self, seconds: float) -> None:
        """Charge a move. The one in which main time runs out is the first of a period; after its last comes another.

        Whether time is over isn't judged here: what a move takes beyond ``available`` is taken off the allowance.
        """
        self.allowance = max(0.0, self.allowance - max(0.0, seconds - self.available))
        in_period = self._stones > 0
        self._left -= seconds
        if not in_period and self._left <= 0 and self._settings.stones:
            in_period = self._left < 0
            beyond = -self._left
            self._begin_period()
            self._left -= beyond
        if in_period:
            self._stones -= 1
            if self._stones == 0:
                self._begin_period()
        self._left = max(self._left, 0.0)

    def overrun(self, seconds: float) -> str:
        """The words for a move that took ``seconds``, more than ``available``: the end of a sentence."""
        settings = self._settings
        if self._stones:
            stones = f"{self._stones} move{'s' if self._stones > 1 else ''}"
            return f"{seconds:.2f} s for a move, with {self._left:.2f} s left for {stones} in byo-yomi"
        if settings.stones:
            left = f"{self._left:.2f} s of main time and {settings.period:g} s of byo-yomi"
            return f"{seconds:.2f} s for a move, with {left} left"
        return f"{settings.main - self._left + seconds:.2f} s used of {settings.main:g} s main time"

    def _begin_period(self) -> None:
        if self._settings.stones:
            self._left, self._stones = self._settings.period, self._settings.stones

    def share(self, size: int, played: int) -> float:
        """Seconds for the next move, over 0, where ``played`` moves are on a board of this size already.

        Main time is spread evenly over half of 0.8 size² moves, and never over less than a row of the board.
        """
        if self._stones:
            seconds = self._left / self._stones
        else:
            moves = max((0.8 * size * size - played) / 2, size)
            seconds = self._left / moves
            if self._settings.stones:
                seconds += self._settings.period / self._settings.stones
        return max(seconds - LAG, seconds / 2, 0.001)
