"""The league of stored games: everybody rated together. Nothing is printed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from arena.files import FOREIGN
from arena.match.standings import League, Standings
from arena.ratings import Estimate, Sprt

if TYPE_CHECKING:
    from arena.results.store import Pool, Store


def league(store: Store, pool: Pool | None = None, *, anchor: str | None = None) -> League | None:
    """Rate all players by the games of a pool (default: the one with the most games), identical ones once. None without
    games. ``anchor`` is a name or identity, see ``rate_all``. Raises StoreError for one without games."""
    pool = pool or next(iter(store.pools()), None)
    if pool is None:
        return None
    standings = Standings(tell_apart(store.players()), tests=sequential_tests(store))
    for games in store.game_summaries(pool=pool):
        for identity in {game.black_player for game in games} | {game.white_player for game in games}:
            standings.players.setdefault(identity, identity)
        standings.add(games)
    return standings.league(anchor)


def sequential_tests(store: Store) -> dict[str, Sprt]:
    """The tests of stored matches, by event."""
    tests = {}
    for event in store.events():
        with suppress(*FOREIGN):  # a plan that can't be read has no test
            if test := json.loads(event.plan)["event"].get("test"):
                tests[event.id] = Sprt(**test)
    return tests


class Named(Protocol):
    """Who has a name and a code."""

    @property
    def name(self) -> str: ...
    @property
    def code(self) -> str: ...


def tell_apart(players: Mapping[str, Named]) -> dict[str, str]:
    """The names by identity. Those that several share have the beginning of their code behind them, as it can be typed,
    or where that doesn't tell them apart, of their identity."""
    shared = Counter(player.name for player in players.values())
    coded = Counter((player.name, player.code) for player in players.values())
    names = {}
    for identity, player in players.items():
        names[identity] = player.name
        if shared[player.name] > 1:
            is_hash = re.fullmatch("[0-9a-f]{12}", player.code) and coded[player.name, player.code] == 1
            names[identity] += f"#{player.code[:4]}" if is_hash else f" ({identity[:6]})"
    return names


def player_ratings(store: Store) -> tuple[Pool | None, dict[str, Estimate]]:
    """The pool with the most games, and everybody's Elo in it by identity; pandas isn't loaded."""
    pool = next(iter(store.pools()), None)
    found = None if pool is None else league(store, pool)
    return pool, {} if found is None else found.elo
