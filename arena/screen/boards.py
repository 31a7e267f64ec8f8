"""The games under way, each on a board of its own, and the one that is watched. Nothing is drawn here."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from arena.events.schedule import Pairing
from arena.events.worker import Glance
from arena.go.moves import Move
from arena.go.record import Played, Record

HOLD = 1.5
"""Seconds that a finished game stays on the board before another one is watched."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The game that is watched. ``record`` is there once it is over; ``until`` is when another may take its place.

    ``win_rates`` are those of the side that made each move, where it told. ``ownership`` is that of ``Glance``.
    ``board`` tells the boards apart on which games are under way at once, from 0.
    """

    pairing: Pairing
    moves: tuple[Move, ...]
    win_rates: tuple[float | None, ...]
    ownership: bytes | None = None
    board: int = 0
    record: Record | None = None
    until: float = 0.0

    def ended(self, record: Record, now: float) -> Watched:
        """The same with its end, to be seen for a moment."""
        return replace(self, moves=record.moves, ownership=None, record=record, until=now + HOLD)


class Boards:
    """Where each game under way is played. A game stays on the first board that was free when it was first seen."""

    def __init__(self) -> None:
        self.watched: Watched | None = None
        self._glances: dict[str, Glance] = {}  # the last look at each game under way
        self._boards: dict[str, int] = {}  # the board of each of these

    @property
    def glances(self) -> list[Glance]:
        """The last look at each game under way."""
        return list(self._glances.values())

    def add(self, records: Sequence[Played], glances: Sequence[Glance], now: float) -> None:
        """Take in which games are over, and looks at others, some of which may be over too."""
        ended = {record.id: record for record in records if isinstance(record, Record)}
        for glance in glances:
            self._glances[glance.pairing.id] = glance
        for record in records:
            self._glances.pop(record.id, None)
        self._seat(self._glances)
        self._watch(ended, glances, now)

    def _seat(self, games: Iterable[str]) -> None:
        self._boards = {id: board for id, board in self._boards.items() if id in self._glances}
        taken = set(self._boards.values())
        free = (board for board in count() if board not in taken)
        for id in games:
            if id not in self._boards:
                self._boards[id] = next(free)

    def _watch(self, ended: dict[str, Record], glances: Sequence[Glance], now: float) -> None:
        """Stay with one game to its end, and a moment longer; then take the next on this board, or that which was
        looked at last."""
        watched = self.watched
        if watched is not None and watched.record is None:
            id = watched.pairing.id
            if id in ended:
                self.watched = watched.ended(ended[id], now)
            elif id in self._glances:
                self.watched = self._look(self._glances[id])
        elif watched is None or now >= watched.until:
            here = [id for id, board in self._boards.items() if watched is not None and board == watched.board]
            if here:
                self.watched = self._look(self._glances[here[0]])
            elif glances:
                seen, record = self._look(glances[-1]), ended.get(glances[-1].pairing.id)
                self.watched = seen if record is None else seen.ended(record, now)

    def _look(self, glance: Glance) -> Watched:
        board = self._boards.get(glance.pairing.id, 0)
        return Watched(glance.pairing, glance.moves, glance.win_rates, glance.ownership, board)

    @property
    def place(self) -> tuple[int, int] | None:
        """Which of how many games under way is watched, from 1; None when it is over."""
        if self.watched is None or self.watched.pairing.id not in self._boards:
            return None
        return sum(board <= self.watched.board for board in self._boards.values()), len(self._boards)

    def choose(self, step: int) -> None:
        """Watch the next (1) or the previous (-1) of the games under way."""
        games = sorted((board, id) for id, board in self._boards.items())
        if games:
            boards = [board for board, _ in games]
            here = -1 if self.watched is None else self.watched.board
            index = bisect(boards, here) if step > 0 else bisect(boards, here - 1) - 1
            _, id = games[index % len(games)]
            self.watched = self._look(self._glances[id])
