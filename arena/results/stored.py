"""Reads events from the store: the report of one, what its nets have learned from, the list of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from arena import CheckpointError, ConfigError, StoreError
from arena.files import FOREIGN
from arena.go.record import GameRecord
from arena.match.schedule import event_from_json
from arena.players.player import Player
from arena.ratings import Estimate
from arena.results.event import Kind, Report
from arena.results.league import sequential_tests, tell_apart
from arena.results.store import Event, Store
from bots.nets.checkpoint import WEIGHTS, Checkpoint, Manifest, find


@dataclass(frozen=True, slots=True)
class Overview:
    """One line of the list of events; ``planned`` games are None where the plan isn't known."""

    id: str
    kind: Kind
    players: tuple[str, ...]
    stored: int
    planned: int | None
    created: str


def read_report(store: Store, id: str | None = None, *, keep: bool = True) -> Report:
    """The event of this id, or the one that was played last; ``keep`` its games, too. Raises StoreError when there is
    none, or no arena can have stored it."""
    event = store.event(id if id is not None else _latest(store))
    total = store.count(event=event.id)
    with readable(store, event), store.unchanged():  # while it is played, games and players may grow
        participants, planned = _participants(store, store.event(event.id))
        tests = {id: test for id, test in sequential_tests(store).items() if id == event.id}
        return Report(event, participants, store.game_summaries(event=event.id), planned, tests, total=total, keep=keep)


EMBEDDED = 200
"""Games that a page of an event takes in."""


def last_games(store: Store, event: str) -> list[GameRecord]:
    """The games of an event that can be stepped through on a page: the last ones, the newest first."""
    return list(store.games(event=event, limit=EMBEDDED, newest_first=True))


@contextmanager
def readable(store: Store, event: Event) -> Iterator[None]:
    """Raises StoreError for an event whose settings, players and games don't belong together."""
    try:
        yield
    except FOREIGN as error:
        detail = f"{type(error).__name__}: {error}"
        raise StoreError(f"event '{event.id}' in {store.path} is damaged ({detail}); restore it from a copy") from error


def overviews(store: Store) -> list[Overview]:
    """All events, in the order they were added."""
    found = []
    for event in store.events():
        with readable(store, event):
            participants, planned = _participants(store, event)
            names = tuple(one.name for one in participants.values())
            kind = Kind.of(event.settings)
            found.append(Overview(event.id, kind, names, store.count(event=event.id), planned, event.created))
    return found


def _latest(store: Store) -> str:
    known = [event.id for event in store.events()]
    newest = store.latest_event()
    if newest in known:
        return newest
    if not known:
        raise StoreError(f"no event is stored in {store.path}; play one with 'arena match' or 'arena tournament'")
    return known[-1]


def _participants(store: Store, event: Event) -> tuple[dict[str, Player], int | None]:
    """Who is in the plan, then who else has played, by identity, in a match by name; and how many games
    are planned, where the plan can be read."""
    settings = event.settings
    found: dict[str, Player] = {}
    planned = None
    is_match = Kind.of(settings) is Kind.MATCH
    try:
        plan = event_from_json(event.plan)
    except ConfigError:  # of an older arena
        pass
    else:
        planned = plan.games
        for name, player in plan.players.items():
            found[name if is_match else player.identity] = replace(player, name=name)
    players = store.players()
    if is_match and not found:
        first, second = settings.get("names", settings["players"])
        names = (first, second if second != first else f"{second} (2)")
        played = dict(zip(names, settings["players"], strict=True))
        found = {name: replace(players.get(identity, Player(name)), name=name) for name, identity in played.items()}
    elif not is_match:
        for identity, name in store.participants(event.id).items():
            found.setdefault(identity, replace(players.get(identity, Player(name)), name=name))
    names_by_key = tell_apart(found)
    return {key: replace(one, name=names_by_key[key]) for key, one in found.items()}, planned


@dataclass(frozen=True, slots=True)
class Trained:
    """A player whose net's manifest tells its training rows. Players of one ``family`` differ in their nets alone, and
    one trainer made these."""

    name: str
    family: str
    rows: int
    elo: Estimate


def trained_players(report: Report, results: Path) -> list[Trained]:
    """The players of an event with nets that are still there, the least trained first; nobody unless the rows of two
    differ. ``results`` is where checkpoints are looked for first."""
    elo = {place.name: place.elo for place in report.places}
    found = []
    for one in report.participants.values():
        manifest, estimate = _manifest(one, results), elo[one.name]
        if manifest is not None and manifest.rows and estimate is not None:
            others = [f"{key}={value}" for key, value in one.settings.items() if key != "checkpoint"]
            family = " ".join([one.kind, *others, str(one.limits), manifest.trainer])
            found.append(Trained(one.name, family, manifest.rows, estimate))
    return sorted(found, key=lambda one: one.rows) if len({one.rows for one in found}) > 1 else []


def _manifest(one: Player, results: Path) -> Manifest | None:
    """None for a player without a net, and when the folder is gone or holds another net by now."""
    if not one.net:
        return None
    try:
        manifest = Checkpoint.open(find(one.settings["checkpoint"], results)).manifest
    except CheckpointError:
        return None
    return manifest if manifest.files[WEIGHTS] == one.net else None
