"""Who can play: kinds of bots, the entries that ship, arena.toml, installed packages, settings typed inline."""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from math import isfinite
from pathlib import Path
from typing import Any

import bots
from arena import ConfigError, UserError
from arena.bot import Bot, BotKind, setting
from bots.nets.checkpoint import Checkpoint, find

GROUP = "arena.bots"
"""The entry point group under which installed packages offer kinds of bots."""

ARENA, COMMAND_LINE, PACKAGE = "arena", "the command line", "the package "
"""Sources of entries; a package's is followed by its name. Any other source is a file."""

BUILT_IN: dict[str, tuple[str, dict[str, Any]]] = {
    "mcts": ("uct", {}),
    "sl": ("policy", {"checkpoint": "sl-9x9"}),
}
"""Entries that ship: name -> (kind, settings). Each kind is an entry under its own name besides."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One player: a name, a kind and its settings. Plain data; it travels to workers, which build the bot there.

    ``factory`` is where the kind is found, as ``module:attribute``; ``net`` is the sha256 of its net, if any.
    """

    name: str
    kind: str
    factory: str
    settings: tuple[tuple[str, Any], ...]
    source: str
    net: str = ""

    @property
    def bot_kind(self) -> BotKind:
        return load_kind(self.factory)

    @property
    def config(self) -> Any:
        """The kind's typed configuration."""
        return self.bot_kind.config(**dict(self.settings))

    @property
    def identity(self) -> str:
        """What tells this player from all others: kind, settings and net, whatever its name; 12 hex digits."""
        settings = [(key, value) for key, value in self.settings if key != "checkpoint"]  # the net itself counts
        text = json.dumps([self.kind, settings, self.net])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def build(self) -> Bot:
        kind = self.bot_kind
        return kind.build(self.config)

    def check(self, size: int) -> None:
        """Raise the UserError that would stop this player on a board of this size, before a game is begun."""
        kind = self.bot_kind
        if kind.check is not None:
            kind.check(self.config, size)


@dataclass(frozen=True, slots=True)
class TournamentTable:
    """One ``[tournaments.NAME]`` of an arena.toml; None is what it doesn't say. ``bots`` are named as when typed."""

    bots: tuple[str, ...] = ()
    games: int | None = setting(None, "games of each two players")
    style: str | None = setting(None, "who meets whom", choices=("round robin", "gauntlet"))
    size: int | None = setting(None, "board size")
    komi: float | None = setting(None, "komi")
    rules: str | None = setting(None, "the name of a rule set")
    openings: int | None = setting(None, "different openings to use")
    plies: int | None = setting(None, "moves of an opening")
    seed: int | None = setting(None, "where openings and all chance start")
    limits: str | None = setting(None, "as behind --limits")


def load_kind(factory: str) -> BotKind:
    """Import a kind. Raises ConfigError when the module can't be imported or exports no BotKind."""
    module, _, attribute = factory.partition(":")
    try:
        kind = getattr(importlib.import_module(module), attribute or "BOT")
    except Exception as error:  # whatever a module of somebody's raises at import
        raise ConfigError(f"the bots of {factory} can't be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(kind, BotKind):
        raise ConfigError(f"{factory} is no BotKind but {type(kind).__name__}")
    return kind


class Registry:
    """All the names that can play, and the grammar that reads them: ``NAME``, ``NAME:setting=value,...``,
    ``checkpoint:PATH``."""

    def __init__(self, config: Path | None = None, results: Path = Path("results")):
        """Collect kinds and entries; ``config`` is an arena.toml, ``results`` where checkpoints are looked for first.

        Raises ConfigError when two sources give one name, and for anything unknown in the file.
        """
        self._results = results
        self._kinds: dict[str, tuple[str, str]] = {}  # kind -> (factory, source)
        self._entries: dict[str, Entry] = {}
        for kind, factory, source in _find_kinds():
            if kind in self._kinds:
                raise ConfigError(
                    f"two kinds of bot are called '{kind}': one from {self._kinds[kind][1]}, one from {source}"
                )
            self._kinds[kind] = (factory, source)
        for kind, (_, source) in self._kinds.items():
            if source == ARENA:
                self._entries[kind] = self._make(kind, kind, {}, source)
        for name, (kind, settings) in BUILT_IN.items():
            self._entries[name] = self._make(name, kind, settings, ARENA)
        for kind, (_, source) in self._kinds.items():
            if source != ARENA:
                self._add(kind, kind, {}, source)
        self._tournaments: dict[str, TournamentTable] = {}
        if config is not None:
            tables = _read_config(config)
            for name, table in tables["bots"].items():
                self._add_table(name, table, str(config))
            for name, table in tables["tournaments"].items():
                self._tournaments[name] = _read_tournament(table, f"{config}: [tournaments.{name}]")

    @property
    def kinds(self) -> list[str]:
        return sorted(self._kinds)

    @property
    def entries(self) -> list[Entry]:
        """Every name, in the order of kinds, built-in entries, packages and arena.toml. One that can't play as it is,
        for want of a setting or of its net, is listed without its net."""
        listed = []
        for entry in self._entries.values():
            try:
                listed.append(self._with_net(entry))
            except UserError:
                listed.append(entry)
        return listed

    def tournament(self, name: str) -> TournamentTable:
        """What arena.toml declares under this name. Raises ConfigError with a suggestion."""
        if name not in self._tournaments:
            hint = _suggest(name, self._tournaments)
            words = f"no tournament '{name}' is declared in arena.toml{hint}"
            raise ConfigError(f"{words}{'' if hint else ';'} name its bots, as in: arena tournament {name} A B C")
        return self._tournaments[name]

    @property
    def tournaments(self) -> dict[str, TournamentTable]:
        """What arena.toml declares, by name."""
        return dict(self._tournaments)

    def entry(self, name: str) -> Entry:
        """The entry of this name as it stands in the list. Raises ConfigError with a suggestion."""
        if name not in self._entries:
            raise ConfigError(f"unknown bot '{name}'{_suggest(name, [*self._entries, 'checkpoint'])}; see: arena bots")
        return self._entries[name]

    def resolve(self, spec: str) -> Entry:
        """The player that ``spec`` names. Raises ConfigError with a suggestion for an unknown name or setting, and
        CheckpointError for a net that can't be used."""
        name, _, rest = spec.partition(":")
        if name == "checkpoint":
            path, _, rest = rest.partition(",")
            if not path:
                raise ConfigError("'checkpoint:' wants the name or folder of a net, as in checkpoint:sl-9x9")
            base = self._make(f"checkpoint:{path}", "policy", {"checkpoint": path}, COMMAND_LINE)
        else:
            base = self.entry(name)
        if not rest:
            return self._with_net(base)
        given: dict[str, Any] = {}
        for part in re.split(r",(?=\w+=)", rest):
            key, equals, value = part.partition("=")
            if not equals:
                raise ConfigError(f"'{spec}': '{part}' is no setting=value")
            given[key.strip()] = value.strip()
        full = self._make(base.name, base.kind, {**dict(base.settings), **given}, COMMAND_LINE)
        changed = [key for key, value in full.settings if key in given and value != dict(base.settings).get(key)]
        listed = ",".join(f"{key}={_plain(dict(full.settings)[key])}" for key in changed)
        separator = "," if name == "checkpoint" else ":"
        label = f"{base.name}{separator}{listed}" if listed else base.name
        return self._with_net(Entry(label, full.kind, full.factory, full.settings, base.source))

    def _make(self, name: str, kind: str, settings: Mapping[str, Any], source: str) -> Entry:
        if kind not in self._kinds:
            raise ConfigError(f"{_where(name, source)}: unknown kind '{kind}'{_suggest(kind, self._kinds)}")
        factory, _ = self._kinds[kind]
        known = {field.name: field for field in load_kind(factory).settings}
        for key in settings:
            if key not in known:
                there = f"; it has {', '.join(known)}" if known else "; it has none"
                raise ConfigError(f"{_where(name, source)}: unknown setting '{key}'{_suggest(key, known) or there}")
        values = []
        for key, field in known.items():
            if key in settings:
                values.append((key, _read_value(settings[key], field, _where(name, source))))
            elif field.default is not MISSING:
                values.append((key, field.default))
        return Entry(name, kind, factory, tuple(values), source)

    def _with_net(self, entry: Entry) -> Entry:
        """The entry with its net found. Raises ConfigError when a setting that has no default isn't given."""
        settings = dict(entry.settings)
        missing = [field.name for field in entry.bot_kind.settings if field.name not in settings]
        if missing:
            raise ConfigError(f"{entry.name} needs the setting '{missing[0]}', as in {entry.name}:{missing[0]}=...")
        if "checkpoint" not in settings:
            return entry
        net = Checkpoint.open(find(settings["checkpoint"], self._results))
        settings["checkpoint"] = str(net.folder.absolute())
        return Entry(entry.name, entry.kind, entry.factory, tuple(settings.items()), entry.source, net.identity)

    def _add(self, name: str, kind: str, settings: Mapping[str, Any], source: str) -> None:
        if name in self._entries:
            raise ConfigError(f"two bots are called '{name}': one from {self._entries[name].source}, one from {source}")
        self._entries[name] = self._make(name, kind, settings, source)

    def _add_table(self, name: str, table: Any, source: str) -> None:
        """One ``[bots.NAME]``: a new entry by its ``kind``, or other settings for a known one when it names none."""
        if not isinstance(table, dict):
            raise ConfigError(f"{source}: bots.{name} is no table of settings")
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name) or name == "checkpoint":
            raise ConfigError(f"{source}: '{name}' is no name for a bot; use letters, digits, '-', '_' and '.'")
        settings = {key: value for key, value in table.items() if key != "kind"}
        if "kind" in table:
            self._add(name, str(table["kind"]), settings, source)
        elif name in self._entries:
            known = self._entries[name]
            self._entries[name] = self._make(name, known.kind, {**dict(known.settings), **settings}, source)
        else:
            raise ConfigError(f"{source}: [bots.{name}] needs a kind, one of {', '.join(self.kinds)}")


def _find_kinds() -> Iterator[tuple[str, str, str]]:
    """Every kind there is as (name, factory, source): the modules of bots/, then installed packages."""
    for module in pkgutil.iter_modules(bots.__path__):
        if not module.ispkg:
            yield module.name.replace("_", "-"), f"bots.{module.name}:BOT", ARENA
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        yield point.name, point.value, PACKAGE + _package_of(point)


def _package_of(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.module


def _read_config(path: Path) -> dict[str, dict[str, Any]]:
    """The ``[bots]`` and ``[tournaments]`` tables of an arena.toml. Raises ConfigError."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no valid TOML: {error}") from error
    for key in data:
        if key not in ("bots", "tournaments"):
            raise ConfigError(f"{path}: unknown table '{key}'; it has [bots.NAME] and [tournaments.NAME] tables only")
    tables = {key: data.get(key, {}) for key in ("bots", "tournaments")}
    for key, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: '{key}' is no table; write [{key}.NAME]")
    return tables


def _read_tournament(table: Any, where: str) -> TournamentTable:
    """One ``[tournaments.NAME]``. Raises ConfigError for what it can't have, beginning with ``where``."""
    if not isinstance(table, dict):
        raise ConfigError(f"{where} is no table of settings")
    known = {field.name: field for field in fields(TournamentTable)}
    given: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            listed = f"; it has {', '.join(known)}"
            raise ConfigError(f"{where}: unknown setting '{key}'{_suggest(key, known) or listed}")
        if key != "bots":
            given[key] = _read_value(value, known[key], where)
        elif isinstance(value, list) and all(isinstance(bot, str) for bot in value):
            given[key] = tuple(value)
        else:
            raise ConfigError(f'{where}: bots = {value!r} is no list of names, as in ["sl", "mcts:playouts=500"]')
    return TournamentTable(**given)


def _read_value(value: Any, field: Field[Any], where: str) -> Any:
    """A setting's value as its field's type, from TOML or from text. Raises ConfigError."""
    wanted = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    wanted = wanted.removesuffix(" | None")
    word = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}.get(wanted)
    if word is None:
        raise ConfigError(f"{where}: {field.name} can't be set: its type is {wanted}, not int, float, bool or str")
    refusal = ConfigError(f"{where}: {field.name} = {value!r} is not {word}")
    result: Any
    if wanted == "bool":
        result = {"true": True, "false": False}.get(str(value).lower())
        if result is None:
            raise refusal
    elif wanted == "str":
        if not isinstance(value, str):
            raise refusal
        result = value
    else:
        try:
            if isinstance(value, bool):
                raise ValueError
            result = float(value)
            if not isfinite(result) or (wanted == "int" and result != int(result)):
                raise ValueError
            if wanted == "int":
                result = int(result)
        except (TypeError, ValueError, OverflowError):
            raise refusal from None
        low, high = field.metadata.get("low"), field.metadata.get("high")
        if not (low is None or result >= low) or not (high is None or result <= high):
            limits = [f"from {low}"] * (low is not None) + [f"to {high}"] * (high is not None)
            raise ConfigError(f"{where}: {field.name} = {_plain(result)} is out of range; it goes {' '.join(limits)}")
    choices = field.metadata.get("choices")
    if choices and result not in choices:
        raise ConfigError(f"{where}: {field.name} = {result!r} is none of {', '.join(choices)}")
    return result


def _plain(value: Any) -> str:
    """A value as it may be typed."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


def _where(name: str, source: str) -> str:
    """Who has to act on an error: the file's table, or the name as it was typed."""
    if source in (ARENA, COMMAND_LINE) or source.startswith(PACKAGE):
        return name
    return f"{source}: [bots.{name}]"


def _suggest(word: str, known: Any) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
