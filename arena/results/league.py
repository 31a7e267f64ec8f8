"""Standings read from the store: of a pool of games, the league, and of an event, with all that is stored about it."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import bots
from arena import ConfigError, StoreError
from arena.contract.settings import DECODE_ERRORS
from arena.go.record import GameRecord
from arena.match.standings import RatedGames, SequentialTest, Standings, counted_games
from arena.players.player import Player
from arena.players.registry import Registry
from arena.ratings import EloEstimate, Ends, Ratings, Sprt

if TYPE_CHECKING:
    from arena.match.event import Event as AnyEvent
    from arena.results.store import Pool, Store, StoredEvent

SHIPPED_RATINGS = Path(bots.__file__).with_name("elo.csv")
NO_ANCHORS: Mapping[str, float] = {}
MOMENTS = 30  # points of a rating's course, at most
EMBEDDED = 200  # games that a page of an event takes in


# --- A pool of games ---


def league(store: Store, pool: Pool | None = None, anchors: Mapping[str, float] = NO_ANCHORS) -> Ratings | None:
    """Rate all players by the games of a pool (default: the one with the most games). None without games. ``anchors``
    are Elo by name of players that fix the scale if they have rated games. Raises ConfigError if the games exclude
    them."""
    found = _league(store, pool)
    known = {} if found is None else {name: elo for name, elo in anchors.items() if name in found.players}
    try:
        return found.relative_to(known) if found is not None and known else found
    except ValueError as error:
        raise ConfigError(f"anchors contradict the games: {error}; leave one out") from None


def _league(store: Store, pool: Pool | None) -> Ratings | None:
    pool = pool or next(iter(store.pools()), None)
    if pool is None:
        return None
    names = distinct_names(store.players())
    games = store.events_of(pool)
    events = [event for event in store.events() if event.id in games]
    if len(games) == len(events) == 1:  # the figures are those of the event's report
        from arena.match.event import event_from_json  # loads the compiler

        with suppress(ConfigError):  # the plan is of an earlier version
            plan = event_from_json(events[0].plan)
            players = {one.identity: names.get(one.identity, one.name) for one in plan.players.values()} | names
            standings = Standings(players, events[0].id, plan)
            for some in store.game_summaries(pool=pool):
                standings.add(some)
            return standings.league
    rated, sequential = RatedGames(), {id: SequentialTest(test) for id, test in sequential_tests(events).items()}
    for some in store.game_summaries(pool=pool):
        rated.add(counted_games(some, sequential))
    ratings = rated.rate(names | {key: key for key in rated.players if key not in names})
    return ratings and ratings.of_plan(all(_has_ended(event, games[event.id]) for event in events), {})


def _has_ended(event: StoredEvent, games: int) -> bool:
    """Whether an event with so many games has ended as it was planned before any was played. A Swiss tournament
    with a precision may have. The plan is read as JSON: its classes load the compiler."""
    try:
        plan = json.loads(event.plan)["event"]
        players = len(plan.get("entries", ()))
        pairs = players - 1 if plan.get("style") == "gauntlet" else players * (players - 1) // 2
        planned = plan["games_each"] * pairs if "games_each" in plan else plan["games"]
        return (games >= planned or plan.get("precision", 0) > 0) and not (plan.get("grown") or plan.get("test"))
    except DECODE_ERRORS:
        return True  # the plan is of an earlier version


def player_ratings(
    store: Store, anchors: Mapping[str, float] = NO_ANCHORS
) -> tuple[Pool | None, dict[str, EloEstimate]]:
    """The pool with the most games, and everybody's Elo in it by identity; ``anchors`` as in ``league``."""
    pool = next(iter(store.pools()), None)
    found = league(store, pool, anchors=anchors)
    names = distinct_names(store.players())
    known = {} if found is None else found.estimates
    return pool, {one: known[name] for one, name in names.items() if name in known}


def shipped_ratings() -> dict[str, EloEstimate]:
    """The Elo of players that ship, by identity, from the ladder of docs/measurements.md, whose games were rated by
    ``arena elo --csv bots/elo.csv``."""
    identities = {entry.name: entry.identity for entry in Registry().entries}
    found = {}
    with SHIPPED_RATINGS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            low, high = (float(row[end]) if row[end] else None for end in ("low", "high"))
            if row["player"] in identities:
                found[identities[row["player"]]] = EloEstimate(float(row["elo"]), low, high)
    return found


def sequential_tests(events: Iterable[StoredEvent]) -> dict[str, Sprt]:
    """The tests of stored matches, by event."""
    tests = {}
    for event in events:
        with suppress(*DECODE_ERRORS):  # a plan that can't be read has no test
            if test := json.loads(event.plan)["event"].get("test"):
                tests[event.id] = Sprt(**test)
    return tests


def distinct_names(players: Mapping[str, Player]) -> dict[str, str]:
    """Names by identity. A name that several players share is followed by the beginning of the identity."""
    shared = Counter(player.name for player in players.values())
    return {
        identity: f"{player.name} ({identity[:6]})" if shared[player.name] > 1 else player.name
        for identity, player in players.items()
    }


# --- An event ---


def kind_of(settings: dict[str, Any]) -> str:
    """The kind of the event with these settings: match, tournament or swiss tournament."""
    return "tournament" if "tournament" in settings else "swiss tournament" if "ladder" in settings else "match"


class RatingPoint(NamedTuple):
    """The ratings after a number of games, by name, without a player who is always at 0."""

    games: int
    elo: dict[str, EloEstimate]


class EventReport(Standings):
    """The standings of a stored event, with its settings and dates. ``stored`` counts all finished games."""

    def __init__(self, store: Store, event: StoredEvent):
        from arena.go.game import Rules
        from arena.match.event import event_from_json

        self.settings = event.settings
        self.created = event.created
        self.kind = kind_of(event.settings)
        self.rules = Rules.from_json(event.settings["rules"])
        plan = event_from_json(event.plan)
        self.participants = _participants(store, event, plan)
        names = {key: one.name for key, one in self.participants.items()}
        super().__init__(names, event.id, plan, is_match=self.kind == "match")
        seconds = {one.name: one.limits.seconds for one in self.participants.values()}
        self.limits = {name: limit for name, limit in seconds.items() if limit is not None}
        self.stored = 0
        self.dates: tuple[str, str] | None = None  # the first and the last
        self._stages: list[tuple[int, int, dict[str, Ends]]] = []  # games, how many are rated, and the ``ends``
        for games in store.game_summaries(event=event.id, at_once=-(-store.count(event=event.id) // MOMENTS)):
            self.stored += sum(game.outcome is not None for game in games)
            if counted := self.add(games):
                self._stages.append((self.games, self.rated_games, self.ends))
            if dates := [*(self.dates or ()), *(game.date for game in counted if game.date)]:
                self.dates = min(dates), max(dates)

    @cached_property
    def course(self) -> list[RatingPoint]:
        """The ratings as the games came in: after each of some equal parts."""
        moments = []
        for games, part, ends in self._stages:
            ratings = self.league if part == self.rated_games else self.rate(part)
            if ratings is not None:
                shown = ratings if part == self.rated_games else ratings.of_plan(False, ends)
                moments.append(RatingPoint(games, elo_of(shown)))
        return moments


def elo_of(ratings: Ratings) -> dict[str, EloEstimate]:
    """Everybody's, the strongest first, without a player who is always at 0."""
    fixed = {*ratings.zero} if len(ratings.zero) == 1 else set()
    return {name: ratings.estimates[name] for name in ratings.ranking() if name not in fixed}


def read_report(store: Store, id: str | None = None) -> EventReport:
    """The report of an event, by default the one played last. Raises StoreError for one that is missing or damaged."""
    event = store.latest_event() if id is None else store.event(id)
    with readable(store, event), store.unchanged():  # while it is played, games and players may grow
        return EventReport(store, store.event(event.id))


def last_games(store: Store, event: str) -> list[GameRecord]:
    """The games of an event that can be stepped through on a page, the newest first."""
    return list(store.games(event=event, limit=EMBEDDED, newest_first=True))


@contextmanager
def readable(store: Store, event: StoredEvent) -> Iterator[None]:
    """Raises StoreError for an event whose settings, players and games don't belong together."""
    try:
        yield
    except (ConfigError, *DECODE_ERRORS) as error:
        detail = f"{type(error).__name__}: {error}"
        raise StoreError(f"event '{event.id}' in {store.path} is damaged ({detail}); restore it from a copy") from error


def _participants(store: Store, event: StoredEvent, plan: AnyEvent) -> dict[str, Player]:
    """The players in the plan, then others that have played, by identity (in a match by name)."""
    is_match = kind_of(event.settings) == "match"
    found = {name if is_match else player.identity: replace(player, name=name) for name, player in plan.players.items()}
    if not is_match:
        players = store.players()
        for identity, name in store.participants(event.id).items():
            found.setdefault(identity, replace(players.get(identity, Player(name)), name=name))
    return {key: replace(found[key], name=name) for key, name in distinct_names(found).items()}


class EventSummary(NamedTuple):
    """One line of the list of events."""

    id: str
    kind: str
    players: tuple[str, ...]
    games: int
    planned: int
    created: str


def event_summaries(store: Store) -> list[EventSummary]:
    """All events, in the order they were added."""
    from arena.match.event import event_from_json

    found = []
    for event in store.events():
        with readable(store, event):
            plan = event_from_json(event.plan)
            players = _participants(store, event, plan)
        names, games = tuple(player.name for player in players.values()), store.count(event=event.id)
        found.append(EventSummary(event.id, kind_of(event.settings), names, games, plan.games, event.created))
    return found
