"""Events with made-up games, stored as if they had been played: who wins is what a test says. Nothing is played."""

import random
from collections.abc import Callable, Iterable
from typing import Any

from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Outcome
from arena.go.record import GameRecord
from arena.match.event import Event as AnyEvent
from arena.match.event import event_to_json
from arena.match.schedule import Pairing
from arena.players.player import Player
from arena.results.store import Event, Store

CREATED = "2026-11-20T10:00:00+00:00"
DATE = "2026-11-21"

Winner = Callable[[Pairing], str | None]
"""The name of who wins a game; None for a draw."""


def player(name: str, **more: Any) -> Player:
    """One of many that differ in their names' setting."""
    return Player(name, "fast-random", "bots.fast_random:BOT", {"name": name}, "the tests", **more)


def finished(
    event: AnyEvent,
    pairing: Pairing,
    winner: str | None,
    ending: Ending = Ending.SCORE,
    **fields: Any,
) -> GameRecord:
    """The game of a pairing, with moves that are like no other's; ``adjudged`` and the like are given by name."""
    size = event.terms.rules.size
    dice = random.Random(pairing.id)
    free = [point for point in range(size * size) if point not in pairing.opening]
    colour = None if winner is None else BLACK if winner == pairing.black else WHITE
    scored = ending in (Ending.SCORE, Ending.MOVE_LIMIT)
    margin = None if not scored else 0.0 if colour is None else 2.0 if colour is BLACK else -2.0
    players = event.players
    usual: dict[str, Any] = {"black_seconds": 2.0, "white_seconds": 1.0, "date": DATE}
    return GameRecord(
        event.terms.rules,
        (*pairing.opening, *dice.sample(free, 12)),
        Outcome(colour, ending, margin),
        black=pairing.black,
        white=pairing.white,
        black_player=players[pairing.black].identity,
        white_player=players[pairing.white].identity,
        id=pairing.id,
        event=event.event,
        seed=pairing.seed,
        opening=len(pairing.opening),
        **(usual | fields),
    )


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
    settings = event.settings
    store.add_event(Event(event.event, CREATED, settings, event_to_json(event)))
    store.append(list(records))
