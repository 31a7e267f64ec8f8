"""Events with made-up games, stored as if they had been played. The test decides who wins."""

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

from helpers.games import entry, record_of

from arena.go.game import Ending
from arena.go.record import GameRecord
from arena.match.event import Event as AnyEvent
from arena.match.event import event_to_json
from arena.match.schedule import Pairing, Terms
from arena.players.player import Player
from arena.results.store import Store, StoredEvent

CREATED = "2026-11-20T10:00:00+00:00"
DATE = "2026-11-21"

Winner = Callable[[Pairing], str | None]
"""The name of who wins a game; None for a draw."""


E = TypeVar("E")
TERMS = frozenset(item.name for item in fields(Terms))


def planned(kind: type[E], **values: Any) -> E:
    """An event of this kind: what isn't one of its terms is its own."""
    terms = Terms(**{name: value for name, value in values.items() if name in TERMS})
    return kind(terms=terms, **{name: value for name, value in values.items() if name not in TERMS})


def player(name: str, **more: Any) -> Player:
    return replace(entry(name), **more)


def finished(
    event: AnyEvent, pairing: Pairing, winner: str | None, ending: Ending = Ending.SCORE, **fields: Any
) -> GameRecord:
    """The game of a pairing, with moves that are like no other's; ``adjudged`` and the like are given by name."""
    return replace(record_of(event, pairing, winner, ending), **({"date": DATE, "seed": pairing.seed} | fields))


def games_of(event: AnyEvent, winner: Winner) -> list[GameRecord]:
    """All games that are planned at first."""
    return [finished(event, pairing, winner(pairing)) for pairing in event.pairings()]


def earlier_wins(event: AnyEvent, upsets: int = 5) -> Winner:
    """Who stands earlier in the list of players, but for every so many games of two."""
    names = list(event.players)

    def winner(pairing: Pairing) -> str:
        strong, weak = sorted((pairing.black, pairing.white), key=names.index)
        return weak if pairing.number % upsets == 1 else strong

    return winner


def store_event(store: Store, event: AnyEvent, records: Iterable[GameRecord] = ()) -> None:
    """As the runner leaves it."""
    store.add_players({entry.identity: entry for entry in event.players.values()})
    store.add_event(StoredEvent(event.event, CREATED, event.settings, event_to_json(event)))
    store.append(list(records))
