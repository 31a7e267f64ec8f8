"""Limits on a bot's decisions; the clock of a game, with main time and byo-yomi; time management."""

from __future__ import annotations

from dataclasses import Field, dataclass, fields, replace
from math import inf
from typing import Any

from arena import ConfigError
from arena.contract.settings import format_value, read_settings, setting, split_pairs
from arena.go.coords import Move

LAG = 0.2
"""Seconds of each move's time that are left unused, for the delay between the bot and the clock. By default, a bot's
moves may also overrun its clock by this much in a whole game."""
LONGEST = 1_000_000  # seconds that any limit may be at most: over eleven days


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """Seconds of main time, then byo-yomi periods of ``stones`` moves; without stones main time only."""

    main: float
    period: float = 0.0
    stones: int = 0


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The state of a clock: seconds left and moves left in the period; 0 stones mean main time."""

    seconds: float
    stones: int


class Clock:
    """The time that one side has left. The caller measures each move and charges it by ``spend``."""

    def __init__(self, settings: TimeSettings, allowance: float = LAG):
        """``allowance`` is the number of seconds by which all moves of the game together may overrun the clock."""
        self._settings = settings
        self.allowance = allowance
        self.left = TimeLeft(settings.main, 0)
        if settings.main <= 0:
            self._begin_period()

    @property
    def available(self) -> float:
        """Seconds that the next move may take before it loses on time."""
        return max(self.left.seconds, 0.0) + (0.0 if self.left.stones else self._settings.period)

    def spend(self, seconds: float) -> None:
        """Charge a move. The move in which main time runs out is the first of a period; there is always another one.

        The caller decides whether the move lost on time: what it took beyond ``available`` is taken off the allowance.
        """
        self.allowance = max(0.0, self.allowance - max(0.0, seconds - self.available))
        left, stones = self.left.seconds - seconds, self.left.stones
        in_period = stones > 0
        if not in_period and left <= 0 and self._settings.stones:
            in_period = left < 0
            left, stones = self._settings.period + left, self._settings.stones
        self.left = TimeLeft(max(left, 0.0), stones - in_period)
        if in_period and stones == 1:
            self._begin_period()

    def _begin_period(self) -> None:
        if self._settings.stones:
            self.left = TimeLeft(self._settings.period, self._settings.stones)

    def share(self, size: int, played: int) -> float:
        """Seconds to spend on the next move, after ``played`` moves of a game on a board of this size; more than 0.

        Main time is spread evenly over this side's remaining moves in a game of 0.8 size² moves, at least ``size``.
        """
        if self.left.stones:
            seconds = self.left.seconds / self.left.stones
        else:
            seconds = self.left.seconds / max((0.8 * size * size - played) / 2, size)
            if self._settings.stones:
                seconds += self._settings.period / self._settings.stones
        return max(seconds - LAG, seconds / 2, 0.001)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a decision. None leaves it to the bot; all times are in seconds.

    The bot stops at ``simulations`` or ``seconds``, whichever comes first. ``main`` and ``byoyomi`` are the clock of a
    game, which the arena keeps: it passes the bot the ``seconds`` for this move, and in ``left`` the state of the
    clock. The arena enforces ``allowed``. ``moves``, if given, are the only candidates.
    """

    seconds: float | None = setting(None, "seconds per move; only lag and deadline enforce them", 0.001, LONGEST)
    simulations: int | None = setting(None, "playouts or visits per move, for bots that search", 1, 1_000_000_000)
    main: float | None = setting(None, "main time: seconds for the whole game", 0, LONGEST)
    byoyomi: float | None = setting(None, "byo-yomi: seconds of each period after main time", 0.001, LONGEST)
    stones: int = setting(1, "moves in each byo-yomi period (Canadian byo-yomi)", 1, 1000)
    lag: float | None = setting(
        None, "seconds by which all moves may overrun a game's clock (default 0.2), or each its seconds", 0, LONGEST
    )
    deadline: float | None = setting(
        None, "seconds after which a move forfeits (default without a clock: 60 plus twice its seconds)", 0.001, LONGEST
    )
    left: TimeLeft | None = None
    moves: frozenset[Move] | None = None

    @classmethod
    def read(cls, text: str, where: str) -> Limits:
        """``seconds=1`` or ``main=60,byoyomi=5``, as text. Raises ConfigError, beginning with ``where``."""
        pairs = split_pairs(text, where, "limit", "seconds=1 or main=600")
        given = read_settings(pairs, cls.settings(), where, "limit")
        timed = "main" in given or "byoyomi" in given
        if timed and "seconds" in given:
            raise ConfigError(f"{where}: give seconds for each move, or main and byoyomi for the game, not both")
        if "stones" in given and "byoyomi" not in given:
            raise ConfigError(f"{where}: stones needs byoyomi, as in byoyomi=30,stones=5")
        if "lag" in given and not timed and "seconds" not in given:
            raise ConfigError(f"{where}: lag needs seconds, main or byoyomi, which it lets a move overrun")
        if given.get("main") == 0:
            if "byoyomi" not in given:
                raise ConfigError(f"{where}: main = 0 leaves no time; give more, or byoyomi, as in byoyomi=5")
            del given["main"]
        return cls(**given)

    @classmethod
    def settings(cls) -> dict[str, Field[Any]]:
        """The limits that can be typed, in the order in which they are shown."""
        return {field.name: field for field in fields(cls) if field.metadata}

    def __str__(self) -> str:
        """As they are typed, without those that have their default."""
        values = ((name, getattr(self, name), field.default) for name, field in self.settings().items())
        return ",".join(f"{name}={format_value(value)}" for name, value, default in values if value != default)

    @property
    def time(self) -> TimeSettings | None:
        """The clock of a game, if there is one."""
        if self.main is None and self.byoyomi is None:
            return None
        return TimeSettings(self.main or 0.0, self.byoyomi or 0.0, self.stones if self.byoyomi else 0)

    def start_clock(self) -> Clock | None:
        """The clock of a new game, if there is one."""
        return None if self.time is None else Clock(self.time, LAG if self.lag is None else self.lag)

    @property
    def allowed(self) -> float:
        """Seconds after which a move forfeits, with or without a clock; infinite where only the clock decides."""
        return self.allowed_for(1)

    def allowed_for(self, boards: int) -> float:
        """Seconds that one call may take when it decides a move on each of ``boards`` boards.

        Each board adds its ``seconds`` and ``lag``; the rest of the deadline counts once, as on a single board.
        """
        if self.time is not None:
            return inf if self.deadline is None else self.deadline
        each = self.seconds or 0.0
        deadline = (60.0 + 2 * each if self.deadline is None else self.deadline) + (boards - 1) * each
        return deadline if self.seconds is None or self.lag is None else min(deadline, boards * (each + self.lag))

    def at(self, clock: Clock, size: int, played: int, spent: float = 0.0) -> Limits:
        """These limits for the next move, after ``played`` moves by this clock and ``spent`` seconds of the move."""
        allowed = max(0.001, min(self.allowed, clock.available + clock.allowance) - spent)
        left = replace(clock.left, seconds=max(0.0, clock.left.seconds - spent))
        return replace(self, seconds=min(clock.share(size, played), allowed), deadline=allowed, left=left)
