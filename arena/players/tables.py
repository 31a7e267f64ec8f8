"""What an arena.toml may have, table by table. The bots that it names are not here."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from arena import ConfigError
from arena.contract.bot import setting
from arena.contract.settings import read_value, suggest
from arena.files import read_toml

T = TypeVar("T")

TABLES = {"bots": "[bots.NAME]", "tournaments": "[tournaments.NAME]", "screen": "[screen]"}
"""The tables, and how each is written."""


@dataclass(frozen=True, slots=True)
class ScreenTable:
    """The ``[screen]`` of an arena.toml; None is what it doesn't say."""

    theme: str | None = setting(None, "colours of the board", choices=("dark", "light", "high-contrast"))


@dataclass(frozen=True, slots=True)
class TermsTable:
    """The terms of an event as options of a command or keys of a table; None is what isn't given."""

    size: int | None = setting(None, "Board size, 5 to 19 (default 9).")
    komi: float | None = setting(None, "Komi (default 7 on 9x9, 7.5 on larger boards).")
    rules: str | None = setting(None, "Rules: cgos, tromp-taylor, chinese or japanese (default cgos).")
    openings: int | None = setting(None, "Number of distinct openings to cycle through (default 0: never repeat one).")
    plies: int | None = setting(
        None, "Moves of an opening (default 4, and more when those run out; with --book, all of a game)."
    )
    book: str | None = setting(None, "Openings from games: an SGF file, a folder or an archive.")
    seed: int | None = setting(None, "Random seed (default 1).")
    limits: str | None = setting(None, "Limits for bots that have none of their own: seconds=1, or main=60,byoyomi=5.")
    adjudicate: str | None = setting(
        None,
        "When to end a game early, or off (default agree=0.02,turns=3,play-on=0.05). agree: both bots report such a "
        "win rate for the loser; resign: the loser does. play-on: share of these games that go on, as a check.",
    )

    def over(self, table: TermsTable) -> TermsTable:
        """These terms, with what they lack from ``table``."""
        names = [wanted.name for wanted in fields(TermsTable)]
        return TermsTable(**{name: first_given(getattr(self, name), getattr(table, name)) for name in names})


@dataclass(frozen=True, slots=True)
class TournamentTable(TermsTable):
    """One ``[tournaments.NAME]`` of an arena.toml; None is what it doesn't say. ``bots`` are named as when typed."""

    bots: tuple[str, ...] = ()
    games: int | None = setting(None, "games of each two players; of all together in a ladder")
    style: str | None = setting(None, "who meets whom", choices=("round robin", "gauntlet", "ladder"))
    to_see: float | None = setting(None, "the Elo to which a ladder tells neighbours apart")
    block: int | None = setting(None, "games of a meeting in a round of a ladder")


def first_given(*values: Any) -> Any:
    """The first that isn't None; the last is the default."""
    return next((value for value in values if value is not None), None)


def read_config(path: Path) -> dict[str, dict[str, Any]]:
    """The ``[bots]``, ``[tournaments]`` and ``[screen]`` tables of an arena.toml. Raises ConfigError."""
    data = read_toml(path, error=ConfigError, hint="correct it, or name another file with --config")
    for key in data:
        if key not in TABLES:
            raise ConfigError(f"{path}: unknown table '{key}'; it has {', '.join(TABLES.values())} tables only")
    tables = {key: data.get(key, {}) for key in TABLES}
    for key, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: '{key}' is no table; write {TABLES[key]}")
    return tables


def read_table(kind: type[T], table: Any, where: str) -> T:
    """A table as a dataclass of settings. Raises ConfigError for what it can't have, beginning with ``where``."""
    if not isinstance(table, dict):
        raise ConfigError(f"{where} is no table of settings")
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
            raise ConfigError(f'{where}: bots = {value!r} is no list of names, as in ["sl", "mcts:playouts=500"]')
    return kind(**given)
