"""What is known of a running event at a moment: figures, pace, the games under way and the one that is watched.

Nothing is drawn here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from statistics import NormalDist
from typing import Generic, TypeVar

from arena.go.coords import Move
from arena.go.record import GameRecord, Played
from arena.match.runner import Update
from arena.match.schedule import Event, Pairing
from arena.match.standings import MatchTally, Standings
from arena.match.worker import Snapshot
from arena.report import style
from arena.report.progress import Start
from arena.results.event import Findings

Counted = TypeVar("Counted", MatchTally, Standings)


NORMAL = NormalDist()

FARTHEST = 8.0
"""Standard deviations above the mean beyond which a length is as unlikely as there."""

ENOUGH = 4
"""Games that tell how long the others take, however many they are."""

SOME_MOVES = 4
"""Moves on a board that tell how long one takes there; a look may come just before or just after one."""


class Lengths:
    """How many moves games take, from those that are over: as if normal, with a spread of a tenth at least."""

    def __init__(self, expected: float):
        """``expected`` is a guess, for as long as no game is over."""
        self._expected = expected
        self._games, self._sum, self._squares = 0, 0, 0

    def add(self, *lengths: int) -> None:
        """Count games."""
        self._games += len(lengths)
        self._sum += sum(lengths)
        self._squares += sum(length * length for length in lengths)

    @property
    def mean(self) -> float:
        return self._sum / self._games if self._games else self._expected

    def rest(self, moves: int, boards: int = 1) -> float:
        """The likely number of moves of the longest of the running games, given how far each has come: half the
        time it takes more. It is 1 at least."""
        mean = self.mean
        spread = 0.1 * mean
        if self._games > 1:
            spread = max(spread, math.sqrt(max(0.0, self._squares / self._games - mean * mean)))
        longer = math.erfc(min(FARTHEST, (moves - mean) / spread) / math.sqrt(2)) / 2  # the chance of a game so long
        return max(1.0, mean - spread * NORMAL.inv_cdf(longer / (boards + 1)) - moves)


class EventView(ABC, Generic[Counted]):
    """A running event as its updates tell it; ``tally`` counts the games.

    Times are seconds of ``clock``, but for those in which the event was paused.
    """

    def __init__(self, event: Event, tally: Counted, clock: Callable[[], float]):
        self.event = event
        self.clock = clock
        self.tally: Counted = tally
        self.boards = Boards()
        self.start = Start(entry.kind for entry in event.players.values())
        self.workers = 0
        self.nodes: Mapping[str, float] | None = None  # of a cluster, with games a second
        self.news = ""  # of these, the last
        self.stored = 0  # games
        self.resumed = 0
        self._moves = 0  # of these games, openings counted
        self.finished = False
        self.is_paused = False
        self.waiting = 0  # finished games that can't be stored yet
        self.may_end_early = False  # the number of games is only the most there can be
        self._pauses = 0.0  # seconds, of those that are over
        self._paused_at = 0.0
        self.began = self.now
        self._ended = 0.0
        self._playing_since: float | None = None
        self._resumed_moves = 0
        self._lengths = Lengths(0.9 * event.terms.rules.size**2)
        self._first_looks: dict[str, tuple[float, int]] = {}  # of the games under way: when, and moves made then

    def add(self, update: Update) -> None:
        """Take in what has happened."""
        self.waiting = update.waiting
        if update.paused is not None:
            self.pause(update.paused)
        self._count(update.records)
        lengths = [record.length for record in update.records]
        self._lengths.add(*lengths)
        self.stored += len(lengths)
        self._moves += sum(lengths)
        if update.resumed:
            self.resumed, self._resumed_moves = self.stored, self._moves
            return
        if (update.records or update.snapshots) and self._playing_since is None:
            self._playing_since = self.now
            self.start.end()
        self.workers, self.nodes = max(self.workers, update.workers), update.nodes
        self.news = (self.news, *update.news)[-1]
        self.boards.add(update.records, update.snapshots, self.now)
        looks = {snapshot.pairing.id: (self.now, len(snapshot.moves)) for snapshot in self.boards.snapshots}
        self._first_looks = {id: self._first_looks.get(id, look) for id, look in looks.items()}

    @abstractmethod
    def _count(self, games: Sequence[Played]) -> None:
        """Take games into the tally."""

    @property
    @abstractmethod
    def stage(self) -> str:
        """How far it has come, in words, where it has stages."""

    @property
    @abstractmethod
    def warning(self) -> str:
        """What should be known before the event is over, in a line."""

    @property
    @abstractmethod
    def head(self) -> str:
        """Who plays what, in a line."""

    @property
    @abstractmethod
    def progress(self) -> str:
        """Where it stands, in a line for a log."""

    @abstractmethod
    def findings(self) -> Findings:
        """Its statistics."""

    @property
    def pace(self) -> list[str]:
        """How fast it goes and how long it will take, for a line."""
        rate = [] if self.games_a_second is None else [style.rate(self.games_a_second, "games")]
        return rate + ([] if self.seconds_left is None else [f"about {style.duration(self.seconds_left)} left"])

    def finish(self) -> None:
        """No more updates come: the clock stands still."""
        self.pause(False)
        self.finished = True
        self._ended = self.now

    @property
    def now(self) -> float:
        """Seconds, pauses left out."""
        return (self._paused_at if self.is_paused else self.clock()) - self._pauses

    def pause(self, paused: bool) -> None:
        """Have time stand still, or go on."""
        if paused and not self.is_paused:
            self._paused_at = self.clock()
        elif self.is_paused and not paused:
            self._pauses += self.clock() - self._paused_at
        self.is_paused = paused

    @property
    def is_starting(self) -> bool:
        """Whether no game has been seen yet, though some are to be played."""
        return self._playing_since is None and self.stored < self.event.games

    @property
    def elapsed(self) -> float:
        return (self._ended if self.finished else self.now) - self.began

    @property
    def _spent(self) -> float:
        """Seconds since the first game was seen."""
        since = self.began if self._playing_since is None else self._playing_since
        return (self._ended if self.finished else self.now) - since

    @property
    def played(self) -> int:
        """Games that were finished since the view began."""
        return self.stored - self.resumed

    @property
    def games_a_second(self) -> float | None:
        """None before the first game is over."""
        return self._rate(self.played)

    @property
    def moves_a_second(self) -> float | None:
        """Of finished games; None before the first."""
        return self._rate(self._moves - self._resumed_moves)

    def _rate(self, number: int) -> float | None:
        too_early = not self.played or (self._spent < 1 and not self.finished)
        return None if too_early else number / max(0.01, self._spent)

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the games finished and how far those under way have come, where it can be told.

        Before the end some boards are free and help no more: it takes as long as the longest game at its own pace.
        """
        missing = self.event.games - self.resumed
        left = missing - self.played
        if left <= 0 or self.finished:
            return None
        far = [self._how_far(snapshot) for snapshot in self.boards.snapshots]
        under_way = min(left, self._at_once(missing)) if far else 0
        work = self.played + under_way * sum(far) / max(1, len(far))
        seconds = None if self.is_starting else seconds_for_rest(self._spent, work, missing)
        return None if seconds is None else max(seconds, self._moves_in_a_row(left) * self._seconds_a_move)

    def _how_far(self, snapshot: Snapshot) -> float:
        """How much of a game is played, as far as can be told, in [0, 1). Its opening takes no time."""
        moves = len(snapshot.moves)
        made = max(0, moves - len(snapshot.pairing.opening))
        return made / (made + self._lengths.rest(moves))

    def _moves_in_a_row(self, left: int) -> float:
        """The moves of the longest game under way, and where games are left that have no board yet, of one more after
        the game that is over first."""
        snapshots = self.boards.snapshots
        longest = max((self._lengths.rest(len(snapshot.moves), len(snapshots)) for snapshot in snapshots), default=0.0)
        if left <= len(snapshots):
            return longest
        free = min((self._lengths.rest(len(snapshot.moves)) for snapshot in snapshots), default=0.0)
        return max(longest, free + self._lengths.mean)

    @property
    def _seconds_a_move(self) -> float:
        """Of the boards under way on which some moves were seen made, each by itself; 0 while there are none."""
        made, spent = 0, 0.0
        for snapshot in self.boards.snapshots:
            since, before = self._first_looks[snapshot.pairing.id]
            moves = len(snapshot.moves) - before
            if moves >= SOME_MOVES:
                made += moves
                spent += self.now - since
        return spent / made if made else 0.0

    def _at_once(self, missing: int) -> int:
        """How many games are under way at once, at most."""
        workers = max(1, self.workers)
        boards = min(entry.bot_kind.boards for entry in self.event.players.values())
        return workers * min(boards, -(-missing // workers))


def seconds_for_rest(spent: float, work: float, whole: float) -> float | None:
    """Seconds for the rest of ``whole`` games, when ``work`` took what is ``spent``; None while that tells little."""
    return None if spent < 1 or work < min(ENOUGH, 0.02 * whole) else spent * (whole - work) / work


# --- The games under way ---

HOLD = 1.5
"""Seconds that a finished game stays on the board before another one is watched."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The game that is watched. ``record`` is there once it is over; ``until`` is when another may take its place.

    ``win_rates`` are those of the side that made each move, where it told. ``ownership`` is that of ``Snapshot``.
    ``board`` tells the boards apart on which games are under way at once, from 0.
    """

    pairing: Pairing
    moves: tuple[Move, ...]
    win_rates: tuple[float | None, ...]
    ownership: bytes | None = None
    board: int = 0
    record: GameRecord | None = None
    until: float = 0.0

    def ended(self, record: GameRecord, now: float) -> Watched:
        """The same with its end, to be seen for a moment."""
        return replace(self, moves=record.moves, ownership=None, record=record, until=now + HOLD)


class Boards:
    """Where each game under way is played. A game stays on the first board that was free when it was first seen."""

    def __init__(self) -> None:
        self.watched: Watched | None = None
        self._snapshots: dict[str, Snapshot] = {}  # the last look at each game under way
        self._boards: dict[str, int] = {}  # the board of each of these

    @property
    def snapshots(self) -> list[Snapshot]:
        """The last look at each game under way."""
        return list(self._snapshots.values())

    @property
    def seated(self) -> list[Snapshot]:
        """The same in the order of their boards."""
        return [self._snapshots[id] for id in sorted(self._boards, key=self._boards.__getitem__)]

    def add(self, records: Sequence[Played], snapshots: Sequence[Snapshot], now: float) -> None:
        """Take in which games are over, and looks at others, some of which may be over too."""
        ended = {record.id: record for record in records if isinstance(record, GameRecord)}
        for snapshot in snapshots:
            self._snapshots[snapshot.pairing.id] = snapshot
        for record in records:
            self._snapshots.pop(record.id, None)
        self._seat(self._snapshots)
        self._watch(ended, snapshots, now)

    def _seat(self, games: Iterable[str]) -> None:
        self._boards = {id: board for id, board in self._boards.items() if id in self._snapshots}
        taken = set(self._boards.values())
        free = (board for board in count() if board not in taken)
        for id in games:
            if id not in self._boards:
                self._boards[id] = next(free)

    def _watch(self, ended: dict[str, GameRecord], snapshots: Sequence[Snapshot], now: float) -> None:
        """Stay with one game to its end, and a moment longer; then take the next on this board, or that which was
        looked at last."""
        watched = self.watched
        if watched is not None and watched.record is None:
            id = watched.pairing.id
            if id in ended:
                self.watched = watched.ended(ended[id], now)
            elif id in self._snapshots:
                self.watched = self._look(self._snapshots[id])
        elif watched is None or now >= watched.until:
            here = [id for id, board in self._boards.items() if watched is not None and board == watched.board]
            if here:
                self.watched = self._look(self._snapshots[here[0]])
            elif snapshots:
                seen, record = self._look(snapshots[-1]), ended.get(snapshots[-1].pairing.id)
                self.watched = seen if record is None else seen.ended(record, now)

    def _look(self, snapshot: Snapshot) -> Watched:
        board = self._boards.get(snapshot.pairing.id, 0)
        return Watched(snapshot.pairing, snapshot.moves, snapshot.win_rates, snapshot.ownership, board)

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
            self.watched = self._look(self._snapshots[id])
