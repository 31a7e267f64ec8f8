"""What an arena.toml may have, table by table. The bots that it names are not here."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from arena import ConfigError
from arena.contract.bot import setting
from arena.contract.settings import read_value, suggest
from arena.files import read_toml

T = TypeVar("T")

TABLES = {"bots": "[bots.NAME]", "tournaments": "[tournaments.NAME]", "cluster": "[cluster]"}
"""The tables, and how each is written."""

STYLES = ("round-robin", "gauntlet", "ladder")
"""Who meets whom in a tournament."""


@dataclass(frozen=True, slots=True)
class ClusterTable:
    """The ``[cluster]`` of an arena.toml; None is what it doesn't say."""

    address: str | None = setting(None, "Ray cluster on which events are played: HOST:PORT, auto or local")


@dataclass(frozen=True, slots=True)
class TermsTable:
    """The terms of an event as options of a command or keys of a table; None is what isn't given."""

    size: int | None = setting(None, "Board size, 5 to 19 (default 9).")
    komi: float | None = setting(None, "Komi (default 7 on 9x9, 7.5 on larger boards).")
    rules: str | None = setting(None, "Rules: cgos, tromp-taylor, chinese or japanese (default cgos).")
    openings: int | None = setting(None, "Number of distinct openings to cycle through (default 0: never repeat one).")
    plies: int | None = setting(
        None,
        "Moves of random openings (default: a balanced book on 9x9 and 13x13, otherwise 4). With --book: moves used of "
        "each game.",
    )
    book: str | None = setting(None, "Openings from games: an SGF file, a folder or an archive.")
    seed: int | None = setting(None, "Random seed (default 1).")
    limits: str | None = setting(None, "Limits for bots that have none of their own: seconds=1, or main=60,byoyomi=5.")
    adjudicate: str | None = setting(
        None,
        "When to end a game early, or off (default agree=0.02,turns=3,play-on=0.05). agree, resign: the loser's "
        "win rate, by both bots or itself; play-on: share checked.",
    )

    def over(self, table: Self) -> Self:
        """These terms, with what they lack from ``table``."""
        own = {item.name: getattr(self, item.name) for item in fields(self)}
        return replace(table, **{name: value for name, value in own.items() if value not in (None, ())})


@dataclass(frozen=True, slots=True)
class TournamentTable(TermsTable):
    """One ``[tournaments.NAME]`` of an arena.toml, or the same as options; None is what isn't given. ``bots`` are named
    as when typed."""

    bots: tuple[str, ...] = ()
    style: str | None = setting(
        None, "Who meets whom: round-robin, gauntlet or ladder (default round-robin).", choices=STYLES
    )
    games: int | None = setting(
        None,
        "Games of each pair of bots (default 20). In a ladder, the maximum for all together (default 100 for each bot; "
        "5000 with --precision).",
    )
    precision: float | None = setting(
        None,
        "Ladder only: stop when the Elo difference of all neighbours is known to within this, with 95 % confidence.",
        low=1,
        high=1000,
    )
    block: int | None = setting(
        None, "Ladder only: games of a pair in a round, an even number (default 8). More keep more workers busy."
    )


def first_given(*values: Any) -> Any:
    """The first that isn't None; the last is the default."""
    return next((value for value in values if value is not None), None)


def read_config(path: Path) -> dict[str, dict[str, Any]]:
    """The ``[bots]``, ``[tournaments]`` and ``[cluster]`` tables of an arena.toml. Raises ConfigError."""
    data = read_toml(path, error=ConfigError, hint="correct it, or name another file with --config")
    for key in data:
        if key not in TABLES:
            raise ConfigError(f"{path}: unknown table '{key}'; it has {', '.join(TABLES.values())} tables only")
    tables = {key: data.get(key, {}) for key in TABLES}
    for key, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: '{key}' is not a table; write {TABLES[key]}")
    return tables


def read_table(kind: type[T], table: Any, where: str) -> T:
    """A table as a dataclass of settings. Raises ConfigError for what it can't have, beginning with ``where``."""
    if not isinstance(table, dict):
        raise ConfigError(f"{where} is not a table of settings")
    known = {declared.name: declared for declared in fields(kind)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            listed = f"; it has {', '.join(known)}"
            raise ConfigError(f"{where}: unknown setting '{key}'{suggest(key, known) or listed}")
        if key != "bots":
            given[key] = read_value(value, known[key], where)
        elif isinstance(value, list) and all(isinstance(bot, str) for bot in value):
            given[key] = tuple(value)
        else:
            raise ConfigError(f'{where}: bots = {value!r} is not a list of names, as in ["sl", "mcts:playouts=500"]')
    return kind(**given)
