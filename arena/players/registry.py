"""Who can play: kinds of bots, the entries that ship, arena.toml, installed packages, settings typed inline."""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import bots
from arena import ConfigError, UserError
from arena.contract.bot import Bot, BotKind, Limits
from arena.contract.code import Player, code_of, digest_of, load_kind, with_imported
from arena.contract.settings import conceal, plain, quoted, read_value, setting, split_settings, suggest, unquoted
from arena.players.tables import ClusterTable, TournamentTable, read_config, read_table
from bots.nets.checkpoint import AUTO, MANIFEST, Checkpoint, find, precision_here

GROUP = "arena.bots"
"""The entry point group under which installed packages offer kinds of bots."""

ARENA, COMMAND_LINE, PACKAGE = "arena", "the command line", "the package "
"""Sources of entries; a package's is followed by its name. Any other source is a file."""

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


@dataclass(frozen=True, slots=True)
class Entry:
    """One player: a name, a kind and its settings. Plain data; it travels to workers, which build the bot there.

    ``factory`` is where the kind is found, see ``load_kind``; ``net`` is the sha256 of its net, if any; ``limits`` are
    its own, whatever event it plays in; ``code`` tells the bot's code from others, see ``code_of``; ``gpus`` is the
    part of a GPU that it takes on a cluster.
    """

    name: str
    kind: str
    factory: str
    settings: tuple[tuple[str, Any], ...]
    source: str
    net: str = ""
    limits: Limits = field(default_factory=Limits)
    code: str = ""
    gpus: float = setting(0.0, low=0.0, high=1.0)

    @property
    def bot_kind(self) -> BotKind:
        return load_kind(self.factory)

    @property
    def is_person(self) -> bool:
        """Whether somebody at the terminal makes the moves."""
        return self.bot_kind.interactive

    @property
    def missing(self) -> list[str]:
        """The settings without which it can't play, as far as they aren't given."""
        given = dict(self.settings)
        wanted = (one for one in self.bot_kind.settings if one.default_factory is MISSING)
        return [one.name for one in wanted if one.name not in given]

    @property
    def config(self) -> Any:
        """The kind's typed configuration."""
        return self.bot_kind.config(**dict(self.settings))

    @property
    def identity(self) -> str:
        """What tells this player from all others: kind, settings, net, code, and the limits that it thinks within,
        whatever its name; 12 hex digits."""
        counted = [pair for pair in conceal(self.settings) if pair[0] != "checkpoint"]  # the net itself counts
        player: list[Any] = [self.kind, counted, self.net]
        thinking = replace(self.limits, lag=None, deadline=None)
        if thinking != Limits():
            player.append(str(thinking))
        if self.code:
            player.append({"code": self.code})
        return hashlib.sha256(json.dumps(player).encode()).hexdigest()[:12]

    @property
    def player(self) -> Player:
        """This player as it is stored."""
        config = json.dumps(dict(conceal(self.settings)))
        return Player(self.identity, self.name, self.kind, config, self.net, self.code)

    def identify(self, folder: Path) -> str:
        """The sha256 of the weights in a checkpoint's folder. Raises CheckpointError when they are not what this kind
        plays with."""
        checkpoint = Checkpoint.open(folder)
        checkpoint.require(*self.bot_kind.heads)
        return checkpoint.identity

    def with_limits(self, limits: Limits) -> Entry:
        """This player within ``limits``, as if they were typed behind its name; one with limits of its own keeps
        them, and a person only minds a clock."""
        if self.limits != Limits() or limits == Limits() or (self.is_person and limits.time is None):
            return self
        return replace(self, name=f"{self.name}@{limits}", limits=limits)

    def build(self) -> Bot:
        """The bot. Raises a UserError when it can't be had, or its net or code isn't that of this player any more: what
        was loaded then is somebody else."""
        self._require_same()
        bot = self.bot_kind.build(self.config)
        try:
            self._require_same()  # it was the same before and after it was loaded
        except UserError:
            bot.close()
            raise
        return bot

    def _require_same(self) -> None:
        if self.net:
            folder = dict(self.settings)["checkpoint"]
            net = self.identify(find(folder))
            if net != self.net:
                raise UserError(
                    f"the net of {self.name} in {folder} was replaced ({self.net[:8]}, now {net[:8]}); "
                    "run the same command again to play the new one"
                )
        if self.code:
            code = code_of(self.factory, self.config)
            if not self.code.startswith(code):
                raise UserError(
                    f"the code of {self.name} was changed ({self.code[:4]}, now {code[:4]}); "
                    "run the same command again to play the new one"
                )

    def files_to_ship(self) -> dict[str, list[Path]]:
        """What another machine needs to build it, besides what is installed: the files of its net, and of a bot that is
        one file that; by the names of the folders where ``moved`` looks for them, which tell what is in them."""
        found = {}
        if self.net:
            checkpoint = Checkpoint.open(dict(self.settings)["checkpoint"])
            found[self.net] = [checkpoint.folder / name for name in (*checkpoint.manifest.files, MANIFEST)]
        if self._file is not None:
            found[self._code_folder] = with_imported(self._file)
        return found

    def packed(self) -> Entry:
        """This player as it travels: a bot that is one file is named by its place in the luggage."""
        if self._file is None:
            return self
        return replace(self, factory=f"{self._code_folder}/{self._file.name}:{self.factory.rpartition(':')[2]}")

    def moved(self, place: Path) -> Entry:
        """A packed player, the same, with what lies of its luggage in folders of ``place``."""
        net, settings, factory = place / self.net, self.settings, self.factory
        if self.net and net.is_dir():
            settings = tuple((dict(settings) | {"checkpoint": str(net)}).items())
        if self._file is not None:
            factory = str(place / factory)
        return replace(self, settings=settings, factory=factory)

    @property
    def _code_folder(self) -> str:
        return f"code-{digest_of(with_imported(self._file) if self._file else [])}"

    @property
    def _file(self) -> Path | None:
        """The bot, where it is one file."""
        file, _, attribute = self.factory.rpartition(":")
        return Path(file) if attribute and file.endswith(".py") else None

    def checked(self, size: int) -> Entry:
        """This player, once it is sure that it can play on a board of this size, with what has been learnt of its code.
        Raises the UserError that would stop it, which begins with the player's name or its table in arena.toml."""
        kind, player = self.bot_kind, self.on(size)
        if kind.check is None:
            return player
        try:
            code = kind.check(player.config, size)
        except UserError as error:
            raise type(error)(f"{_where(self.name, self.source)}: {error}") from error
        return replace(player, code=f"{self.code} {code}") if code else player

    def doubt_on(self, size: int) -> str:
        """Why it may be weak on boards of this size: they are larger than those that its net learned from. Else
        empty."""
        player = self.on(size)
        if not player.net or "policy" not in player.bot_kind.heads:
            return ""
        net = Checkpoint.open(dict(player.settings)["checkpoint"]).manifest
        if size <= net.size:
            return ""
        return f"{self.name}: its net {net.name} learned on {net.size}x{net.size} and may be weak on {size}x{size}"

    def on(self, size: int) -> Entry:
        """This player with the net that it has on boards of this size, if that depends on the size."""
        settings = dict(self.settings)
        if settings.get("checkpoint") != AUTO:
            return self
        folder = find(AUTO, size=size)
        settings["checkpoint"] = str(folder.absolute())
        return replace(self, settings=tuple(settings.items()), net=self.identify(folder))


class Registry:
    """All the names that can play, and the grammar that reads them: ``NAME``, ``NAME:setting=value,...``,
    ``checkpoint:PATH``, ``mybot.py``, each with ``@limit=value,...`` behind it."""

    def __init__(self, config: Path | None = None, results: Path = Path("results")):
        """Collect kinds and entries; ``config`` is an arena.toml, ``results`` where checkpoints are looked for first.

        Raises ConfigError when two sources give one name, and for anything unknown in the file.
        """
        self._results = results
        self._kinds: dict[str, tuple[str, str]] = {}  # kind -> (factory, source)
        self._entries: dict[str, Entry] = {}
        self._files: dict[str, Entry] = {}  # not loaded yet
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
    def files(self) -> list[Entry]:
        """The bots of arena.toml whose kind is a Python file that hasn't run. One that was named is among the
        ``entries`` from then on."""
        return list(self._files.values())

    def of_kind(self, kind: str) -> list[Entry]:
        """The entries of this kind; a file that arena.toml names as that kind is loaded. Raises ConfigError."""
        for entry in self.files:
            if entry.kind == kind:
                self.entry(entry.name)
        return [entry for entry in self.entries if entry.kind == kind]

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
            hint = suggest(name, self._tournaments)
            words = f"no tournament '{name}' is declared in arena.toml{hint}"
            raise ConfigError(f"{words}{'' if hint else ';'} name its bots, as in: arena tournament {name} A B C")
        return self._tournaments[name]

    @property
    def tournaments(self) -> dict[str, TournamentTable]:
        """What arena.toml declares, by name."""
        return dict(self._tournaments)

    def entry(self, name: str) -> Entry:
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

    def resolve(self, spec: str) -> Entry:
        """The player that ``spec`` names. Raises ConfigError with a suggestion for an unknown name, setting or limit,
        and CheckpointError for a net that can't be used."""
        self._take_file(re.split("[:@]", spec, maxsplit=1)[0])
        return self._with_net(self._read(spec))

    def resolve_stored(self, spec: str) -> Entry:
        """The player that a saved game, a database or an SGF file names. Raises as ``resolve`` and ``trusted`` do."""
        return self._with_net(self._require_own(self._read(spec)))

    def trusted(self, stored: Entry) -> Entry:
        """A player of a stored plan, to be built. Such a file may come from anywhere, so it names nothing that is run:
        the kind is looked up here, and an engine must be one of the user's own arena.toml. Raises ConfigError."""
        return self._require_own(self.with_own_kind(stored))

    def with_own_kind(self, stored: Entry) -> Entry:
        """A player of a stored plan, with what is installed here as its kind. Raises ConfigError."""
        own = self.of_kind(stored.kind)
        if not own:
            raise ConfigError(f"there is no kind of bot called {stored.kind} any more")
        return replace(stored, factory=own[0].factory)

    def _require_own(self, entry: Entry) -> Entry:
        """The player with all its settings, those that aren't stored from arena.toml. Raises ConfigError for an engine
        that isn't there."""
        stored = conceal(entry.settings)
        own = next((one for one in self.of_kind(entry.kind) if conceal(one.settings) == stored), None)
        if own is not None or entry.bot_kind.code is None:
            return replace(entry, settings=entry.settings if own is None else own.settings)
        command = dict(entry.settings).get("command", "")
        raise ConfigError(f"no bot of yours runs '{command}'; put it into arena.toml if you trust that command")

    def _read(self, spec: str) -> Entry:
        """The player without its net."""
        player, *limits = LIMITS.split(spec, maxsplit=1)
        entry = self._read_player(player)
        if not limits:
            return entry
        own = Limits.read(limits[0], player)
        return entry if own == entry.limits else replace(entry, limits=Limits()).with_limits(own)

    def _read_player(self, spec: str) -> Entry:
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
        full = self._make(base.name, base.kind, {**dict(base.settings), **given}, COMMAND_LINE)
        changed = [key for key, value in full.settings if key in given and value != dict(base.settings).get(key)]
        listed = ",".join(f"{key}={quoted(plain(dict(full.settings)[key]))}" for key in changed)
        separator = "," if name == "checkpoint" else ":"
        label = f"{base.name}{separator}{listed}" if listed else base.name
        return replace(base, name=label, settings=full.settings)

    def _take_file(self, name: str) -> None:
        """Have a Python file that was typed as a bot be one. Raises ConfigError."""
        if name.endswith(".py") and name not in self._entries and name not in self._files:
            if not Path(name).is_file():
                raise ConfigError(f"there is no file {name}")
            self._add(name, f"{name}:BOT", {}, COMMAND_LINE)

    def _make(self, name: str, kind: str, settings: Mapping[str, Any], source: str) -> Entry:
        if kind not in self._kinds:
            hint = suggest(kind, self._kinds) or "; a Python file is written as mybot.py:BOT"
            raise ConfigError(f"{_where(name, source)}: unknown kind '{kind}'{hint}")
        factory, _ = self._kinds[kind]
        known = {wanted.name: wanted for wanted in load_kind(factory).settings}
        where = _where(name, source)
        for key, value in settings.items():
            if key not in known and key in Limits.settings():
                there = f'limits = "{key}={value}"' if where != name else f"{name}@{key}={value}"
                raise ConfigError(f"{where}: '{key}' is a limit, not a setting; write {there}")
            if key not in known:
                there = f"; it has {', '.join(known)}" if known else "; it has none"
                raise ConfigError(f"{where}: unknown setting '{key}'{suggest(key, known) or there}")
        values = []
        for key, wanted in known.items():
            if key in settings:
                values.append((key, read_value(settings[key], wanted, where)))
            elif wanted.default is not MISSING:
                values.append((key, wanted.default))
        return Entry(name, kind, factory, tuple(values), source)

    def _with_net(self, entry: Entry) -> Entry:
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
        return replace(entry, settings=tuple(settings.items()), net=entry.identify(folder))

    def _add(self, name: str, kind: str, settings: Mapping[str, Any], source: str) -> None:
        if name in self._entries:
            raise ConfigError(f"two bots are called '{name}': one from {self._entries[name].source}, one from {source}")
        place, _, attribute = kind.partition(":")
        if place.endswith(".py") and attribute.isidentifier() and kind not in self._kinds:
            path = (Path(source).parent / Path(place)).absolute()
            self._files[name] = Entry(name, kind, f"{path}:{attribute}", tuple(settings.items()), source)
        else:
            self._entries[name] = self._make(name, kind, settings, source)

    def _load(self, entry: Entry) -> None:
        """Run the file of a bot. Raises ConfigError where it isn't there, or isn't the user's own choice."""
        file = Path(entry.factory.rpartition(":")[0])
        where = _where(entry.name, entry.source)
        if not file.is_file():
            raise ConfigError(f"{where}: kind = {entry.kind!r}: there is no file {file}")
        for path in [file] if entry.source == COMMAND_LINE else [Path(entry.source), file]:
            if path.stat().st_uid not in (0, os.getuid()):
                raise ConfigError(
                    f"{where}: kind = {entry.kind!r} is refused: {path} belongs to another user; "
                    "check what it does, then copy it to use it"
                )
        self._kinds[entry.kind] = (entry.factory, entry.source)
        made = self._make(entry.name, entry.kind, dict(entry.settings), entry.source)
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
            self._entries[name] = self._make(name, known.kind, {**dict(known.settings), **settings}, source)
        else:
            raise ConfigError(f"{source}: [bots.{name}] needs a kind, one of {', '.join(self.kinds)}")
        listed = self._files if name in self._files else self._entries
        if "limits" in table:
            where = f"{_where(name, source)}: limits"
            if not isinstance(table["limits"], str):
                raise ConfigError(f'{where} = {table["limits"]!r} is not text, as in "seconds=1"')
            listed[name] = replace(listed[name], limits=Limits.read(table["limits"], where))
        if "gpus" in table:
            wanted = next(wanted for wanted in fields(Entry) if wanted.name == "gpus")
            listed[name] = replace(listed[name], gpus=read_value(table["gpus"], wanted, _where(name, source)))


def _find_kinds() -> Iterator[tuple[str, str, str]]:
    """Every kind there is as (name, factory, source): the modules of bots/, then installed packages."""
    for module in pkgutil.iter_modules(bots.__path__):
        if not module.ispkg:
            yield module.name.replace("_", "-"), f"bots.{module.name}:BOT", ARENA
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        yield point.name, point.value, PACKAGE + (point.dist.name if point.dist else point.module)


def _where(name: str, source: str) -> str:
    """Who has to act on an error: the file's table, or the name as it was typed."""
    if source in (ARENA, COMMAND_LINE) or source.startswith(PACKAGE):
        return name
    return f"{source}: [bots.{re.split('[:@]', name)[0]}]"
