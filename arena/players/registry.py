"""Who can play: kinds of bots, the entries that ship, arena.toml, installed packages, settings typed inline."""

from __future__ import annotations

import os
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import bots
from arena import ConfigError, UserError
from arena.contract.bot import Limits
from arena.contract.code import code_of, load_kind
from arena.contract.settings import conceal, plain, quoted, read_value, split_settings, suggest, unquoted
from arena.players.player import ARENA, COMMAND_LINE, PACKAGE, Player
from arena.players.tables import ClusterTable, TournamentTable, read_config, read_table
from bots.nets.checkpoint import AUTO, find, precision_here

GROUP = "arena.bots"
"""The entry point group under which installed packages offer kinds of bots."""

BUILT_IN: dict[str, tuple[str, dict[str, Any]]] = {
    "mcts": ("uct", {}),
    "sl": ("policy", {"checkpoint": "sl-9x9"}),
    "rl": ("policy", {"checkpoint": "rl-9x9"}),
    "zero": ("alphago", {"checkpoint": "zero-9x9", "search": "gumbel", "rollout_weight": 0.0}),
    "level-1": ("policy", {"checkpoint": "sl-9x9", "temperature": 4.0}),
    "level-2": ("policy", {"checkpoint": "sl-9x9", "temperature": 2.5}),
    "level-3": ("policy", {"checkpoint": "sl-9x9", "temperature": 1.7}),
    "level-4": ("policy", {"checkpoint": "sl-9x9", "temperature": 1.0}),
}
"""Entries that ship: name -> (kind, settings). Each kind is an entry under its own name besides."""

LIMITS = re.compile(rf"@(?=(?:{'|'.join(Limits.settings())})=)")
"""Where limits begin in a name as it is typed; any other '@' belongs to a path or command."""


class Registry:
    """All the names that can play, and the grammar that reads them: ``NAME``, ``NAME:setting=value,...``,
    ``checkpoint:PATH``, ``mybot.py``, each with ``@limit=value,...`` behind it."""

    def __init__(self, config: Path | None = None, results: Path = Path("results")):
        """Collect kinds and entries; ``config`` is an arena.toml, ``results`` where checkpoints are looked for first.

        Raises ConfigError when two sources give one name, and for anything unknown in the file.
        """
        self._results = results
        self._kinds: dict[str, tuple[str, str]] = {}  # kind -> (factory, source)
        self._entries: dict[str, Player] = {}
        self._files: dict[str, Player] = {}  # not loaded yet
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
        self.cluster = ClusterTable()
        if config is not None:
            tables = read_config(config)
            self.cluster = read_table(ClusterTable, tables["cluster"], f"{config}: [cluster]")
            for name, table in tables["bots"].items():
                self._add_table(name, table, str(config))
            for name, table in tables["tournaments"].items():
                self._tournaments[name] = read_table(TournamentTable, table, f"{config}: [tournaments.{name}]")

    @property
    def files(self) -> list[Player]:
        """The bots of arena.toml whose kind is a Python file that hasn't run. One that was named is among the
        ``entries`` from then on."""
        return list(self._files.values())

    def of_kind(self, kind: str) -> list[Player]:
        """The entries of this kind; a file that arena.toml names as that kind is loaded. Raises ConfigError."""
        for entry in self.files:
            if entry.kind == kind:
                self.entry(entry.name)
        return [entry for entry in self.entries if entry.kind == kind]

    @property
    def kinds(self) -> list[str]:
        return sorted(self._kinds)

    @property
    def entries(self) -> list[Player]:
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
            hint = suggest(name, self._tournaments)
            words = f"no tournament '{name}' is declared in arena.toml{hint}"
            raise ConfigError(f"{words}{'' if hint else ';'} name its bots, as in: arena tournament {name} A B C")
        return self._tournaments[name]

    @property
    def tournaments(self) -> dict[str, TournamentTable]:
        """What arena.toml declares, by name."""
        return dict(self._tournaments)

    def entry(self, name: str) -> Player:
        """The entry of this name as it stands in the list. Raises ConfigError with a suggestion."""
        if name in self._files:
            self._load(self._files[name])
        if name not in self._entries:
            if name.endswith(".py"):
                raise ConfigError(f"{name} is run only if it was typed here or is in arena.toml")
            bot, at, limit = name.partition("@")
            if at and bot in self._entries:
                Limits.read(limit, bot)  # which refuses it: else it had been found
            raise ConfigError(
                f"unknown bot '{name}'{suggest(name, [*self._entries, *self._files, 'checkpoint'])}; see: arena bots"
            )
        return self._entries[name]

    def knows(self, spec: str) -> bool:
        """Whether ``spec`` begins with the name of a bot."""
        name = re.split("[:@]", spec, maxsplit=1)[0]
        return name in self._entries or name in self._files or name.endswith(".py") or name == "checkpoint"

    def resolve(self, spec: str) -> Player:
        """The player that ``spec`` names. Raises ConfigError with a suggestion for an unknown name, setting or limit,
        and CheckpointError for a net that can't be used."""
        self._take_file(re.split("[:@]", spec, maxsplit=1)[0])
        return self._with_net(self._read(spec))

    def resolve_stored(self, spec: str) -> Player:
        """The player that a saved game, a database or an SGF file names. Raises as ``resolve`` and ``trusted`` do."""
        return self._with_net(self._require_own(self._read(spec)))

    def trusted(self, stored: Player) -> Player:
        """A player of a stored plan, to be built. Such a file may come from anywhere, so it names nothing that is run:
        the kind is looked up here, and an engine must be one of the user's own arena.toml. Raises ConfigError."""
        return self._require_own(self.with_own_kind(stored))

    def with_own_kind(self, stored: Player) -> Player:
        """A player of a stored plan, with what is installed here as its kind. Raises ConfigError."""
        own = self.of_kind(stored.kind)
        if not own:
            raise ConfigError(f"there is no kind of bot called {stored.kind} any more")
        return replace(stored, factory=own[0].factory)

    def _require_own(self, entry: Player) -> Player:
        """The player with all its settings, those that aren't stored from arena.toml. Raises ConfigError for an engine
        that isn't there."""
        stored = conceal(entry.settings)
        own = next((one for one in self.of_kind(entry.kind) if conceal(one.settings) == stored), None)
        if own is not None or entry.bot_kind.code is None:
            return replace(entry, settings=entry.settings if own is None else own.settings)
        command = entry.settings.get("command", "")
        raise ConfigError(f"no bot of yours runs '{command}'; put it into arena.toml if you trust that command")

    def _read(self, spec: str) -> Player:
        """The player without its net."""
        player, *limits = LIMITS.split(spec, maxsplit=1)
        entry = self._read_player(player)
        if not limits:
            return entry
        own = Limits.read(limits[0], player)
        return entry if own == entry.limits else replace(entry, limits=Limits()).with_limits(own)

    def _read_player(self, spec: str) -> Player:
        """The player without limits behind it."""
        name, _, rest = spec.partition(":")
        if name == "checkpoint":
            path, _, rest = rest.partition(",")
            if not path:
                raise ConfigError("'checkpoint:' needs the name or folder of a net, as in checkpoint:sl-9x9")
            base = self._make(f"checkpoint:{path}", "policy", {"checkpoint": path}, COMMAND_LINE)
        else:
            base = self.entry(name)
        if not rest:
            return base
        given: dict[str, Any] = {}
        known, before = {wanted.name for wanted in base.bot_kind.settings}, ""
        for part in split_settings(rest):
            key, equals, value = (word.strip() for word in part.partition("="))
            if not equals:
                raise ConfigError(f"'{spec}': '{part}' is not a setting=value")
            if key not in known and " " in given.get(before, ""):
                raise ConfigError(
                    f"{base.name}: unknown setting '{key}'; if it belongs to the {before}, put that in quotes: "
                    f'{before}="{given[before]},{part}"'
                )
            if key in given:
                raise ConfigError(f"{base.name}: {key} is given twice")
            given[key], before = unquoted(value), key
        full = self._make(base.name, base.kind, {**base.settings, **given}, COMMAND_LINE)
        changed = [key for key, value in full.settings.items() if key in given and value != base.settings.get(key)]
        listed = ",".join(f"{key}={quoted(plain(full.settings[key]))}" for key in changed)
        separator = "," if name == "checkpoint" else ":"
        label = f"{base.name}{separator}{listed}" if listed else base.name
        return replace(base, name=label, settings=full.settings)

    def _take_file(self, name: str) -> None:
        """Have a Python file that was typed as a bot be one. Raises ConfigError."""
        if name.endswith(".py") and name not in self._entries and name not in self._files:
            if not Path(name).is_file():
                raise ConfigError(f"there is no file {name}")
            self._add(name, f"{name}:BOT", {}, COMMAND_LINE)

    def _make(self, name: str, kind: str, settings: Mapping[str, Any], source: str) -> Player:
        where = Player(name, source=source).where
        if kind not in self._kinds:
            hint = suggest(kind, self._kinds) or "; a Python file is written as mybot.py:BOT"
            raise ConfigError(f"{where}: unknown kind '{kind}'{hint}")
        factory, _ = self._kinds[kind]
        known = {wanted.name: wanted for wanted in load_kind(factory).settings}
        for key, value in settings.items():
            if key not in known and key in Limits.settings():
                there = f'limits = "{key}={value}"' if where != name else f"{name}@{key}={value}"
                raise ConfigError(f"{where}: '{key}' is a limit, not a setting; write {there}")
            if key not in known:
                there = f"; it has {', '.join(known)}" if known else "; it has none"
                raise ConfigError(f"{where}: unknown setting '{key}'{suggest(key, known) or there}")
        values = {}
        for key, wanted in known.items():
            if key in settings:
                values[key] = read_value(settings[key], wanted, where)
            elif wanted.default is not MISSING:
                values[key] = wanted.default
        return Player(name, kind, factory, values, source)

    def _with_net(self, entry: Player) -> Player:
        """The entry as it plays here: with its net and its code, and numbers that suit the processor. Raises
        ConfigError when a setting that has no default isn't given."""
        settings = dict(entry.settings)
        if entry.missing:
            first = entry.missing[0]
            raise ConfigError(f"{entry.name} needs the setting '{first}', as in {entry.name}:{first}=...")
        entry = replace(entry, code=code_of(entry.factory, entry.config))
        if "checkpoint" not in settings:
            return entry
        folder = find(settings["checkpoint"], self._results)
        if settings["checkpoint"] != AUTO:
            settings["checkpoint"] = str(folder.absolute())
        if settings.get("precision") == "auto":
            settings["precision"] = precision_here(folder)
        return replace(entry, settings=settings, net=entry.identify(folder))

    def _add(self, name: str, kind: str, settings: Mapping[str, Any], source: str) -> None:
        if name in self._entries:
            raise ConfigError(f"two bots are called '{name}': one from {self._entries[name].source}, one from {source}")
        place, _, attribute = kind.partition(":")
        if place.endswith(".py") and attribute.isidentifier() and kind not in self._kinds:
            path = (Path(source).parent / Path(place)).absolute()
            self._files[name] = Player(name, kind, f"{path}:{attribute}", settings, source)
        else:
            self._entries[name] = self._make(name, kind, settings, source)

    def _load(self, entry: Player) -> None:
        """Run the file of a bot. Raises ConfigError where it isn't there, or isn't the user's own choice."""
        file = Path(entry.factory.rpartition(":")[0])
        where = entry.where
        if not file.is_file():
            raise ConfigError(f"{where}: kind = {entry.kind!r}: there is no file {file}")
        for path in [file] if entry.source == COMMAND_LINE else [Path(entry.source), file]:
            if path.stat().st_uid not in (0, os.getuid()):
                raise ConfigError(
                    f"{where}: kind = {entry.kind!r} is refused: {path} belongs to another user; "
                    "check what it does, then copy it to use it"
                )
        self._kinds[entry.kind] = (entry.factory, entry.source)
        made = self._make(entry.name, entry.kind, entry.settings, entry.source)
        self._entries[entry.name] = replace(made, limits=entry.limits, gpus=entry.gpus)
        del self._files[entry.name]

    def _add_table(self, name: str, table: Any, source: str) -> None:
        """One ``[bots.NAME]``: a new entry by its ``kind``, or other settings for a known one when it names none."""
        if not isinstance(table, dict):
            raise ConfigError(f"{source}: bots.{name} is not a table of settings")
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name) or name == "checkpoint":
            raise ConfigError(f"{source}: '{name}' is not a name for a bot; use letters, digits, '-', '_' and '.'")
        settings = {key: value for key, value in table.items() if key not in ("kind", "limits", "gpus")}
        if "kind" in table:
            self._add(name, str(table["kind"]), settings, source)
        elif name in self._entries:
            known = self._entries[name]
            self._entries[name] = self._make(name, known.kind, {**known.settings, **settings}, source)
        else:
            raise ConfigError(f"{source}: [bots.{name}] needs a kind, one of {', '.join(self.kinds)}")
        listed = self._files if name in self._files else self._entries
        at = Player(name, source=source).where
        if "limits" in table:
            where = f"{at}: limits"
            if not isinstance(table["limits"], str):
                raise ConfigError(f'{where} = {table["limits"]!r} is not text, as in "seconds=1"')
            listed[name] = replace(listed[name], limits=Limits.read(table["limits"], where))
        if "gpus" in table:
            wanted = next(wanted for wanted in fields(Player) if wanted.name == "gpus")
            listed[name] = replace(listed[name], gpus=read_value(table["gpus"], wanted, at))


def _find_kinds() -> Iterator[tuple[str, str, str]]:
    """Every kind there is as (name, factory, source): the modules of bots/, then installed packages."""
    for module in pkgutil.iter_modules(bots.__path__):
        if not module.ispkg:
            yield module.name.replace("_", "-"), f"bots.{module.name}:BOT", ARENA
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        yield point.name, point.value, PACKAGE + (point.dist.name if point.dist else point.module)
