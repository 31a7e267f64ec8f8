"""A sitting at a moment, as frozen data: all that a front shows of a person's game. Nothing is drawn here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from arena.contract.bot import Candidate
from arena.contract.clock import TimeLeft
from arena.go.game import Outcome, Rules
from arena.go.moves import WHITE, Colour, Move
from arena.people.counting import Count, Estimate
from arena.people.kifu import Help


class Phase(StrEnum):
    """Where a game stands. After two passes, by rules that ask for it, dead stones are marked before it is over."""

    PLAY = "play"
    COUNT = "count"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Turn:
    """A move that was played. ``captured`` are the points it took off, of whichever colour; ``win_rate`` in [0, 1] is
    what the bot that made it gave itself, where it told."""

    number: int
    colour: Colour
    move: Move
    captured: tuple[Move, ...] = ()
    win_rate: float | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """What a move would do now, before it is placed: either ``refusal`` says why it can't be, or ``captured`` are the
    points that it would take off."""

    move: Move
    refusal: str = ""
    captured: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """What an analyst thinks of the present position: its candidates, the best first, for ``colour``, who is to move.

    Their win rates are in [0, 1] and of that colour. ``fault`` says in a line why there are none, if it failed.
    """

    analyst: str
    colour: Colour
    candidates: tuple[Candidate, ...]
    fault: str = ""

    @property
    def visits(self) -> int:
        return sum(candidate.visits for candidate in self.candidates)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A sitting at a moment: all that a front shows. Frozen, and without references to what changes.

    ``version`` grows with every change. ``names`` and ``prisoners`` (stones of that colour taken off) are of Black and
    White; so is ``clocks``, what they show now, None without one. ``thinking`` is the colour whose bot is at work.
    ``dead`` are the stones that count as dead in the phases after play, None while the program looks for them, and
    ``count`` is what that comes to. ``advice`` and ``estimate`` are about the present position, or None; ``advising``
    and ``estimating`` tell that they are on their way. ``reason`` says in a line how a forfeit came about, ``unrated``
    why the game won't count for ratings (empty where it will), and ``trouble`` what is wrong with keeping it.
    """

    version: int
    id: str
    rules: Rules
    phase: Phase
    names: tuple[str, str]
    people: tuple[Colour, ...]
    setup: tuple[tuple[Move, ...], tuple[Move, ...]]
    points: bytes
    to_play: Colour
    turns: tuple[Turn, ...]
    prisoners: tuple[int, int]
    thinking: Colour | None
    is_paused: bool
    clocks: tuple[TimeLeft | None, TimeLeft | None]
    advice: Advice | None
    advising: bool
    estimate: Estimate | None
    estimating: bool
    dead: tuple[Move, ...] | None
    count: Count | None
    outcome: Outcome | None
    reason: str
    helps: tuple[Help, ...]
    unrated: str
    trouble: str

    @property
    def size(self) -> int:
        return self.rules.size

    @property
    def stones(self) -> np.ndarray:
        """(size, size) uint8: 0 empty, 1 black, 2 white; read-only."""
        return np.frombuffer(self.points, np.uint8).reshape(self.size, self.size)

    @property
    def moves(self) -> tuple[Move, ...]:
        return tuple(turn.move for turn in self.turns)

    @property
    def last(self) -> Move | None:
        """The last move, where there is one: a point, or the pass."""
        return self.turns[-1].move if self.turns else None

    @property
    def handicap(self) -> int:
        """Black's setup stones when White has none and begins, else 0."""
        black, white = self.setup
        first = self.turns[0].colour if self.turns else self.to_play
        return len(black) if first is WHITE and not white else 0

    @property
    def is_persons_turn(self) -> bool:
        """Whether a move is waited for that a person makes."""
        return self.phase is Phase.PLAY and self.to_play in self.people

    def name(self, colour: Colour) -> str:
        return self.names[colour - 1]
