"""The time that a controller gives, shared out over moves. No protocol, and nothing is measured."""

from __future__ import annotations

from dataclasses import dataclass

LAG = 0.2
"""Seconds of each move's time that are left unused, for what lies between the bot and the clock."""


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """Seconds of main time, then ``stones`` moves in each period of so many seconds; without stones main time only.

    With ``japanese`` byo-yomi the controller counts periods, not stones, and each is good for one move.
    """

    main: float
    period: float = 0.0
    stones: int = 0
    japanese: bool = False


class Clock:
    """What one side has left. It is as good as the controller's last word on it and the server's own measuring."""

    def __init__(self, settings: TimeSettings):
        self._settings = settings
        self.set(settings.main, 0)
        self.spend(0.0)

    def set(self, seconds: float, stones: int) -> None:
        """Take the controller's word: seconds left, for so many moves; 0 stones stand for main time."""
        self._left = seconds
        self._stones = min(stones, 1) if self._settings.japanese else stones

    def spend(self, seconds: float) -> None:
        """Charge a move. After the last of a period comes another; whether time is over isn't judged here."""
        settings = self._settings
        self._left -= seconds
        if self._stones:
            self._stones -= 1
            over = self._stones == 0
        else:
            over = self._left <= 0
        if over and settings.stones:
            self._left, self._stones = settings.period, settings.stones

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
