"""arena.toml: its tables, reading it, and changing a setting of a bot in it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from arena import ConfigError, files
from arena.contract.settings import read_object, read_settings, setting, suggest

T = TypeVar("T")

STYLES = ("round-robin", "gauntlet", "swiss")  # of a tournament

MOST_ELO = 10_000.0  # of an anchor
RULES = ("cgos", "tromp-taylor", "chinese", "japanese")


# --- Tables; a key that isn't given is None ---


@dataclass(frozen=True, slots=True)
class ClusterTable:
    """The ``[cluster]`` of an arena.toml."""

    address: str | None = setting(None, "Ray cluster on which events are played: HOST:PORT or auto")


@dataclass(frozen=True, slots=True)
class BotTable:
    """One ``[bots.NAME]`` of an arena.toml; all other keys are ``settings`` of the bot's kind."""

    kind: str | None = setting(None, "Kind of bot, or mybot.py:BOT; a table without one changes a bot that exists.")
    limits: str | None = setting(None, "Limits of the bot: seconds=1, or main=60,byoyomi=5.")
    gpus: float = setting(0.0, "Part of a GPU that each worker on a cluster takes for the bot.", low=0, high=1)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TermsTable:
    """The terms of an event as options of a command or keys of a table."""

    size: int | None = setting(None, "Board size, 5 to 19 (default 9).", 5, 19)
    komi: float | None = setting(None, "Komi (default 7 on 9x9, 7.5 on larger boards).")
    rules: str | None = setting(None, "cgos, tromp-taylor, chinese or japanese (default cgos).", choices=RULES)
    openings: int | None = setting(None, "Distinct openings (default 0: never repeat one).", 0)
    plies: int | None = setting(None, "Moves of an opening (default 4, or all of a book).", 0)
    book: str | None = setting(None, "Openings from an SGF file, a folder or an archive.")
    seed: int | None = setting(None, "Random seed (default 1).")
    limits: str | None = setting(None, "For bots without: seconds=1, or main=60,byoyomi=5.")
    adjudicate: str | None = setting(None, "Early ends: off, or agree=0.02,turns=3,play-on=0.05.")
    referee: str | None = setting(None, "Engine that names the dead stones (default: none).")

    def over(self, table: Self) -> Self:
        """These terms; those that aren't given come from ``table``."""
        own = {item.name: getattr(self, item.name) for item in fields(self)}
        return replace(table, **{name: value for name, value in own.items() if value not in (None, ())})


@dataclass(frozen=True, slots=True)
class TournamentTable(TermsTable):
    """One ``[tournaments.NAME]`` of an arena.toml, or the same as options."""

    bots: tuple[str, ...] = setting((), "The bots, as they are typed.")
    style: str | None = setting(None, "round-robin, gauntlet or swiss (default round-robin).", choices=STYLES)
    games: int | None = setting(None, "Games of a pair (default 20); with swiss, in all.")
    precision: float | None = setting(None, "Swiss: stop when neighbours are this well known.", 1, 1000)


class Config(NamedTuple):
    """An arena.toml."""

    bots: dict[str, BotTable]
    tournaments: dict[str, TournamentTable]
    cluster: ClusterTable
    anchors: dict[str, float]  # Elo by name of a player: they fix the scale of ratings


def read_config(path: Path) -> Config:
    """Read an arena.toml. Raises ConfigError, which names the file, the table and the key. The settings of its bots are
    not checked here, as they depend on the kind."""
    content = read_object(path, error=ConfigError, hint="correct it, or name another file with --config")
    for key in content.keys() - Config._fields:
        there_are = f"; there are {list(Config._fields)}"
        raise ConfigError(f"{path}: unknown table [{key}]{suggest(key, Config._fields) or there_are}")
    bots, tournaments = {}, {}
    for name, table in _table(content.get("bots", {}), f"{path}: [bots]").items():
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name) or name == "checkpoint":
            raise ConfigError(f"{path}: '{name}' is not a name for a bot; use letters, digits, '-', '_' and '.'")
        settings = dict(_table(table, where := f"{path}: [bots.{name}]"))
        own = {key: settings.pop(key) for key in ("kind", "limits", "gpus") if key in settings}
        bots[name] = replace(_read(BotTable, own, where), settings=settings)
    for name, table in _table(content.get("tournaments", {}), f"{path}: [tournaments]").items():
        tournaments[name] = _read(TournamentTable, table, f"{path}: [tournaments.{name}]")
    anchors = _table(content.get("anchors", {}), f"{path}: [anchors]")
    for name, elo in anchors.items():
        if isinstance(elo, bool) or not isinstance(elo, int | float) or not abs(elo) <= MOST_ELO:
            raise ConfigError(f"{path}: [anchors]: {name} = {elo!r} is not an Elo; give a number such as 1946")
    cluster = _read(ClusterTable, content.get("cluster", {}), f"{path}: [cluster]")
    return Config(bots, tournaments, cluster, {name: float(elo) for name, elo in anchors.items()})


def _table(content: Any, where: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ConfigError(f"{where} is not a table of settings")
    return content


def _read(kind: type[T], content: Any, where: str) -> T:
    known = {declared.name: declared for declared in fields(kind)}  # type: ignore[arg-type]
    return kind(**read_settings(_table(content, where), known, where))


def default(value: Any, fallback: Any) -> Any:
    """The value, or the fallback if it is None."""
    return fallback if value is None else value


# --- Changing the file ---


class Change(NamedTuple):
    """A change of a bot's setting in a file: the value now, and before, None if the file had none."""

    path: Path
    bot: str
    setting: str
    value: str
    before: str | None


def require_writable(path: Path) -> None:
    """Raise ConfigError when the file can't be replaced."""
    place = path.resolve()
    if place.exists() and not place.is_file():
        raise ConfigError(f"{path} is not a file; name another with --config")
    if not os.access(place.parent, os.W_OK) or (place.exists() and not os.access(place, os.W_OK)):
        raise ConfigError(f"{path} can't be written; make it and its folder writable, or name another with --config")


def set_bot(path: Path, name: str, setting: str, value: str) -> Change:
    """Change a setting of a bot, in its table or a new one; a missing file is made. Comments and everything else stay
    as they are. Raises ConfigError, and then has changed nothing."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    require_writable(path)
    before = read_config(path).bots if path.exists() else {}
    text = path.read_bytes().decode("utf-8-sig") if path.exists() else ""
    try:
        if name in before:
            document: Any = tomlkit.parse(text)
            document["bots"][name][setting] = value
            new = tomlkit.dumps(document)
        else:
            table = tomlkit.dumps({"bots": {name: {setting: value}}})
            new = "\n\n".join(filter(None, (text.rstrip("\n"), table)))
        is_right = tomllib.loads(new)["bots"][name][setting] == value
    except (TOMLKitError, tomllib.TOMLDecodeError):
        is_right = False  # the file writes its tables in a way that isn't supported here
    if not is_right:
        raise ConfigError(f'{path} can\'t be changed automatically; set {setting} = "{value}" for {name} there')
    files.write(path, new, error=ConfigError, hint="the file is unchanged")
    return Change(path, name, setting, value, before[name].settings.get(setting) if name in before else None)
