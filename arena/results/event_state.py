"""The state of a running event, kept up to date by its updates: standings, pace, boards, the games under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from time import monotonic

from arena.go.coords import Colour
from arena.go.record import GameRecord, Played
from arena.match.event import Event
from arena.match.runner import Update
from arena.match.swiss import Swiss, measured_gaps
from arena.match.worker import BoardSnapshot
from arena.results.league import RatingPoint, elo_of

GAMES_FOR_ESTIMATE = 4  # games after which the time left is estimated
CURVE_POINTS = 20  # the curve gets a point when the number of games has grown by 1 / CURVE_POINTS
RECENT = 50  # games that are listed
SHOWN_SECONDS = 2.0  # for which the watched board shows a game that is over
RATING_SECONDS = 1.0  # between two ratings of everybody, at least
RESUME_SECONDS = 1.0  # for which an earlier run's games are rated step by step
RATING_SHARE = 0.05  # of the time that ratings may take while the event runs


@dataclass(frozen=True, slots=True)
class LiveBoard:
    """A board and the game on it: its latest snapshot, and its record and the time once it is over."""

    game: BoardSnapshot
    record: GameRecord | None = None
    ended: float = inf

    def win_rate(self, colour: Colour) -> float | None:
        """The last one that a side reported."""
        return next((rate for rate in self.game.win_rates[colour - 1 :: 2][::-1] if rate is not None), None)


class EventState:
    """What is known of a running event by its updates: standings, pace, the games under way.

    Times are seconds of ``clock``, without those in which the event was paused.
    """

    def __init__(self, event: Event, clock: Callable[[], float] = monotonic):
        self.event = event
        self.clock = clock
        self.standings = event.standings()
        self.standings.rating_share = RATING_SHARE
        self.may_end_early = isinstance(event, Swiss) or event.test is not None  # the number of games is a maximum
        self.boards: list[LiveBoard] = []  # a board for each game, from its first move to its last
        self.watched_at = 0  # which board
        self.is_pinned = False  # whether that board stays watched when its game is over
        self._over: set[int] = set()  # hashes of the ids of games that are over, of which late snapshots may come
        self.recent: deque[GameRecord] = deque(maxlen=RECENT)  # the last first
        self.course: list[RatingPoint] = []  # the Elo as the event went on
        self.workers = 0
        self.nodes: Mapping[str, float] | None = None  # of a cluster, with games a second
        self.news = ""  # the last
        self.stored = self.resumed = 0  # games
        self.waiting = 0  # finished games that can't be stored yet
        self.is_paused = self.finished = False
        self.ranking = list(event.players)  # names, the strongest first
        self.gap: tuple[str, str, float] | None = None
        """Of a Swiss tournament, the neighbours with the widest interval, and its half width in Elo."""
        self._rated = 0, -RATING_SECONDS  # games, and when
        self._resume_seconds = RESUME_SECONDS
        self._spent, self._since = 0.0, clock()  # before the last pause, and since its end
        self._playing_since: float | None = None  # elapsed seconds

    def add(self, update: Update) -> None:
        self.waiting = update.waiting
        self.stored += len(update.records)
        if update.resumed:
            self._resume(update.records)
            self.resumed = self.stored
            return
        self.standings.add(update.records)
        if (update.records or update.snapshots) and self._playing_since is None:
            self._playing_since = self.elapsed
        over = {record.id: record for record in update.records if isinstance(record, GameRecord)}
        self.recent.extendleft(over.values())
        self.workers, self.nodes = max(self.workers, update.workers), update.nodes
        self.news = (self.news, *update.news)[-1]
        for snapshot in update.snapshots:
            if hash(snapshot.pairing.id) not in self._over:
                self._place_snapshot(snapshot)
        self._over |= {hash(id) for id in over}
        for at, board in enumerate(self.boards):
            record = over.get(board.game.pairing.id)
            if record is not None and board.record is None:
                game = replace(board.game, moves=record.moves, ownership=None)
                self.boards[at] = LiveBoard(game, record, self.clock())
        self.watch_live_game()
        self._rate()

    def _resume(self, games: Sequence[Played]) -> None:
        """Count games of an earlier run. The curve gets its points as if they were played now, while that is quick."""
        start, step, first = monotonic(), max(2, len(games) // CURVE_POINTS), 0
        self.standings.rating_share = 1.0
        while first < len(games) and monotonic() < start + self._resume_seconds:
            self.standings.add(games[first : first + step])
            self._rate(at_once=True)
            first += step
        self.standings.add(games[first:])
        self.standings.rating_share = RATING_SHARE
        self._resume_seconds -= monotonic() - start

    @property
    def games_under_way(self) -> list[str]:
        """Their ids."""
        return [board.game.pairing.id for board in self.boards if board.record is None]

    @property
    def watched(self) -> LiveBoard | None:
        return self.boards[self.watched_at] if self.boards else None

    def watch(self, step: int) -> None:
        self.watched_at = (self.watched_at + step) % max(1, len(self.boards))

    def watch_live_game(self) -> None:
        """If the watched game has been over for a while, watch the live one that is closest, latest and rarest."""
        if self.watched is None or self.is_pinned or self.clock() < self.watched.ended + SHOWN_SECONDS:
            return
        if live := [at for at, board in enumerate(self.boards) if board.record is None]:
            self.watched_at = max(live, key=lambda at: self._interest(self.boards[at]))

    def _interest(self, board: LiveBoard) -> float:
        pairing, moves = board.game.pairing, board.game.moves
        rates = [rate for colour in Colour if (rate := board.win_rate(colour)) is not None]
        closeness = 1 - abs(2 * rates[-1] - 1) if rates else 0.5
        met = self.standings.meetings(pairing.black, pairing.white).games
        return closeness + len(moves) / self.event.terms.rules.size**2 + 1 / (1 + met)

    def _place_snapshot(self, snapshot: BoardSnapshot) -> None:
        """Show the snapshot on its game's board. A new game takes the board of a finished game (the watched board last,
        and not before it was seen for a while), or a new board."""
        places = {board.game.pairing.id: at for at, board in enumerate(self.boards)}
        at = places.get(snapshot.pairing.id)
        if at is None:
            may_go = self.clock() - SHOWN_SECONDS if not self.is_pinned else -inf  # when the watched game had to end
            over = [at for at, board in enumerate(self.boards) if board.record is not None]
            free = [at for at in over if at != self.watched_at or self.boards[at].ended <= may_go]
            at = min(free, key=lambda at: at == self.watched_at, default=len(self.boards))
        elif self.boards[at].record is not None:
            return
        self.boards[at : at + 1] = [LiveBoard(snapshot)]

    def _rate(self, at_once: bool = False) -> None:
        games, (known, at) = self.standings.games, self._rated
        if games == known or (self.clock() < at + RATING_SECONDS and not at_once):
            return
        self._rated = games, self.clock()
        ratings = self.standings.league
        self.ranking = [one.name for one in self.standings.places]
        drawn = self.course[-1].games if self.course else 0
        if ratings is not None:
            if games >= drawn + max(2, drawn // CURVE_POINTS):
                self.course.append(RatingPoint(games, elo_of(ratings)))
            if isinstance(self.event, Swiss):
                self.gap = next(iter(measured_gaps(ratings)), None)

    # --- How far it is ---

    @property
    def elapsed(self) -> float:
        is_running = not (self.is_paused or self.finished)
        return self._spent + (self.clock() - self._since if is_running else 0.0)

    def pause(self, paused: bool, finished: bool = False) -> None:
        """Stop the clock or let it run; ``finished`` stops it for good."""
        self._spent, self._since = self.elapsed, self.clock()
        self.is_paused, self.finished = paused, self.finished or finished
        if finished:  # the last ratings have all games
            self.standings.rating_share = 1.0
            self._rated = 0, -inf
            self._rate()

    @property
    def is_starting(self) -> bool:
        """Whether no game has been seen yet, though some are to be played."""
        return self._playing_since is None and self.stored < self.event.games

    @property
    def games_a_second(self) -> float | None:
        """Since the first game was seen; None before the first is over."""
        played, spent = self.stored - self.resumed, self.elapsed - (self._playing_since or 0.0)
        return played / spent if played and spent >= 1 else None

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the games finished so far, once there are some."""
        left = self.event.games - self.stored
        if left <= 0 or self.finished or self.stored - self.resumed < GAMES_FOR_ESTIMATE or not self.games_a_second:
            return None
        return left / self.games_a_second
