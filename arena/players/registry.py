"""The registry of players: those that ship, those of arena.toml and of packages, and inline settings."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, replace
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path
from shlex import quote
from shutil import which
from typing import Any

import bots
from arena import ConfigError, UserError
from arena.contract.code import code_of, load_kind
from arena.contract.limits import Limits
from arena.contract.settings import conceal, format_value, quote_value, read_settings, split_pairs, suggest
from arena.players.config import BotTable, ClusterTable, Config, TournamentTable, read_config
from arena.players.player import ARENA, COMMAND_LINE, PACKAGE, Player
from bots.nets.checkpoint import AUTO, find, precision_here

GROUP = "arena.bots"  # the entry point group under which installed packages offer kinds of bots

BUILT_IN: dict[str, tuple[str, dict[str, Any]]] = {
    "mcts": ("uct", {}),
    "sl": ("policy", {"checkpoint": "sl-9x9"}),
    "rl": ("policy", {"checkpoint": "rl-9x9"}),
    "zero": ("alphago", {"checkpoint": "zero-9x9", "search": "gumbel"}),
    "alphago-2016": (
        "alphago",
        {"checkpoint": "value-9x9", "rollout_weight": 0.5, "rollouts_full": 0.0, "rollout_policy": "trained"},
    ),
    **{f"kyu-{rank}": ("human-like", {"rank": f"{rank}k"}) for rank in (15, 10, 5)},
    **{f"dan-{rank}": ("human-like", {"rank": f"{rank}d"}) for rank in (1, 3)},
}
"""Players that ship: name -> (kind, settings). Each kind is also a player under its own name."""

GNU_GO = "{program} --mode gtp --level 10 --max-level 10 --chinese-rules --positional-superko --capture-all-dead"
"""GNU Go by the default rules; a player where the program is installed, unless arena.toml has another."""

LIMITS = re.compile(rf"@(?=(?:{'|'.join(Limits.settings())})=)")
"""The start of the limits in a name as it is typed; any other '@' belongs to a path or command."""


class Registry:
    """All players by name, and the grammar for typing them: ``NAME``, ``NAME:setting=value,...``, ``checkpoint:PATH``,
    ``mybot.py``, each optionally followed by ``@limit=value,...``."""

    def __init__(self, config: Path | None = None, results: Path = Path("results")):
        """Collect kinds and players; ``config`` is an arena.toml, ``results`` the first place to look for checkpoints.

        Raises ConfigError when two sources define the same name, and for anything unknown in the file.
        """
        self._results = results
        self._kinds: dict[str, str] = {}  # kind -> factory
        self._entries: dict[str, Player] = {}
        for module in pkgutil.iter_modules(bots.__path__):
            if not module.ispkg:
                self._add_kind(module.name.replace("_", "-"), f"bots.{module.name}:BOT", ARENA)
        for name, (kind, settings) in BUILT_IN.items():
            self._add(name, kind, settings, ARENA)
        for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
            self._add_kind(point.name, point.value, PACKAGE + (point.dist.name if point.dist else point.module))
        read = Config({}, {}, ClusterTable(), {}) if config is None else read_config(config)
        self.cluster, self.tournaments, self.anchors = read.cluster, read.tournaments, read.anchors
        for name, table in read.bots.items():
            self._add_table(name, table, str(config))
        if "gnugo" not in self._entries and (program := which("gnugo") or which("gnugo", path="/usr/games")):
            self._add("gnugo", "gtp", {"command": GNU_GO.format(program=quote(program))}, ARENA)

    @property
    def unloaded(self) -> list[Player]:
        """The bots of arena.toml in a Python file that hasn't been imported: it is imported when one is named."""
        return [entry for entry in self._entries.values() if entry.kind not in self._kinds]

    @property
    def kinds(self) -> list[str]:
        return sorted(self._kinds)

    @property
    def entries(self) -> list[Player]:
        """Every other player, in the order of kinds, players that ship, packages and arena.toml. A player that lacks a
        setting or whose net can't be used is listed without its net."""
        listed = []
        for entry in self._entries.values():
            if entry.kind in self._kinds:
                with suppress(UserError):
                    entry = self._with_net(entry)
                listed.append(entry)
        return listed

    def tournament(self, name: str) -> TournamentTable:
        """The tournament of this name in arena.toml. Raises ConfigError with a suggestion."""
        if name not in self.tournaments:
            hint = suggest(name, self.tournaments)
            words = f"no tournament '{name}' is declared in arena.toml{hint}"
            raise ConfigError(f"{words}{'' if hint else ';'} name its bots, as in: arena tournament {name} A B C")
        return self.tournaments[name]

    def entry(self, name: str) -> Player:
        """The player of this name, without inline settings. Raises ConfigError with a suggestion."""
        if name not in self._entries:
            if name.endswith(".py"):
                raise ConfigError(f"{name} is run only if it was typed here or is in arena.toml")
            bot, at, limit = name.partition("@")
            if at and bot in self._entries:
                Limits.read(limit, bot)  # which raises: a known limit would have been split off
            raise ConfigError(f"unknown bot '{name}'{suggest(name, [*self._entries, 'checkpoint'])}; see: arena bots")
        self._load(self._entries[name].kind)
        return self._entries[name]

    def is_bot(self, spec: str) -> bool:
        """Whether ``spec`` begins with the name of a bot."""
        name = re.split("[:@]", spec, maxsplit=1)[0]
        return name in self._entries or name.endswith(".py") or name == "checkpoint"

    def resolve(self, spec: str) -> Player:
        """The player that ``spec`` names. Raises ConfigError with a suggestion, CheckpointError for an unusable net."""
        name = LIMITS.split(spec, maxsplit=1)[0].partition(":")[0]
        if name.endswith(".py") and name not in self._entries:
            if not Path(name).is_file():
                raise ConfigError(f"there is no file {name}")
            self._add(name, f"{name}:BOT", {}, COMMAND_LINE)
        return self._with_net(self._read(spec))

    def resolve_stored(self, spec: str) -> Player:
        """The player that a saved game or an SGF file names, with the settings that aren't stored taken from
        arena.toml. Raises as ``resolve`` does, and ConfigError for an engine that isn't in arena.toml: the file may
        come from anywhere, so its commands are never run."""
        player = self._read(spec)
        stored = conceal(player.settings)
        for own in self.entries:
            if own.kind == player.kind and conceal(own.settings) == stored:
                return self._with_net(replace(player, settings=own.settings))
        if player.bot_kind.code is None:
            return self._with_net(player)
        command = player.settings.get("command", "")
        raise ConfigError(f"no bot of yours runs '{command}'; put it into arena.toml if you trust that command")

    # --- Reading a name ---

    def _read(self, spec: str) -> Player:
        """The player without its net."""
        typed, *limits = LIMITS.split(spec, maxsplit=1)
        name, _, rest = typed.partition(":")
        if name == "checkpoint":
            path, _, rest = rest.partition(",")
            if not path:
                raise ConfigError("'checkpoint:' needs the name or folder of a net, as in checkpoint:sl-9x9")
            player = self._make(f"checkpoint:{path}", "policy", {"checkpoint": path}, COMMAND_LINE)
        else:
            player = self.entry(name)
        given = split_pairs(rest, f"'{typed}'")
        known = {wanted.name for wanted in player.bot_kind.settings}
        for (before, value), (key, cut) in pairwise(given.items()):
            if key not in known and " " in value:
                raise ConfigError(
                    f"{player.name}: unknown setting '{key}'; if it belongs to the {before}, put that in quotes: "
                    f'{before}="{value},{key}={cut}"'
                )
        full = self._make(player.name, player.kind, {**player.settings, **given}, COMMAND_LINE).settings
        changed = [key for key in full if key in given and full[key] != player.settings.get(key)]
        if changed:
            shown = conceal({key: full[key] for key in changed})
            listed = ",".join(f"{key}={quote_value(format_value(value))}" for key, value in shown.items())
            player = replace(player, name=f"{player.name}{',' if name == 'checkpoint' else ':'}{listed}")
        player = replace(player, settings=full)
        own = Limits.read(limits[0], typed) if limits else player.limits
        return player if own == player.limits else replace(player, limits=Limits()).with_limits(own)

    def _with_net(self, player: Player) -> Player:
        """The player with its net, code and precision here. Raises ConfigError if a required setting isn't given."""
        for wanted in player.bot_kind.settings:
            if wanted.default_factory is MISSING and wanted.name not in player.settings:
                raise ConfigError(
                    f"{player.name} needs the setting '{wanted.name}', as in {player.name}:{wanted.name}=..."
                )
        player = replace(player, code=code_of(player.factory, player.config))
        settings = dict(player.settings)
        if "checkpoint" not in settings:
            return player
        folder = find(settings["checkpoint"], self._results)
        if settings["checkpoint"] != AUTO:
            settings["checkpoint"] = str(folder.absolute())
        if settings.get("precision") == "auto":
            settings["precision"] = precision_here(folder)
        return replace(player, settings=settings, net=player.identify(folder))

    # --- Making players ---

    def _make(self, name: str, kind: str, settings: Mapping[str, Any], source: str) -> Player:
        """Make a player of a kind, with the kind's defaults. Raises ConfigError."""
        where = Player(name, source=source).where
        if kind not in self._kinds:
            hint = suggest(kind, self._kinds) or "; a Python file is written as mybot.py:BOT"
            raise ConfigError(f"{where}: unknown kind '{kind}'{hint}")
        known = {wanted.name: wanted for wanted in load_kind(self._kinds[kind]).settings}
        for key, value in settings.items():
            if key not in known and key in Limits.settings():
                there = f'limits = "{key}={value}"' if where != name else f"{name}@{key}={value}"
                raise ConfigError(f"{where}: '{key}' is a limit, not a setting; write {there}")
        usual = {key: wanted.default for key, wanted in known.items() if wanted.default is not MISSING}
        full = usual | read_settings(settings, known, where)
        return Player(name, kind, self._kinds[kind], {key: full[key] for key in known if key in full}, source)

    def _add_kind(self, kind: str, factory: str, source: str) -> None:
        """Add a kind, which is also a player under its own name."""
        self._kinds.setdefault(kind, factory)
        self._add(kind, kind, {}, source)

    def _add(self, name: str, kind: str, settings: Mapping[str, Any], source: str) -> None:
        if name in self._entries:
            raise ConfigError(f"two bots are called '{name}': one from {self._entries[name].source}, one from {source}")
        place, _, attribute = kind.partition(":")
        if place.endswith(".py") and attribute.isidentifier() and kind not in self._kinds:
            path = (Path(source).parent / place).absolute()
            self._entries[name] = Player(name, kind, f"{path}:{attribute}", settings, source)
        else:
            self._entries[name] = self._make(name, kind, settings, source)

    def _add_table(self, name: str, table: BotTable, source: str) -> None:
        """Add the player of a ``[bots.NAME]`` with a ``kind``; without one, change the settings of a known player."""
        if table.kind is not None:
            self._add(name, table.kind, table.settings, source)
        elif name in self._entries:
            known = self._entries[name]
            self._entries[name] = self._make(name, known.kind, {**known.settings, **table.settings}, source)
        else:
            raise ConfigError(f"{source}: [bots.{name}] needs a kind, one of {', '.join(self.kinds)}")
        entry = self._entries[name]
        self._entries[name] = replace(
            entry, limits=Limits.read(table.limits or "", f"{entry.where}: limits"), gpus=table.gpus
        )

    def _load(self, kind: str) -> None:
        """Import the Python file of a kind, if that hasn't been done. Raises ConfigError when it doesn't exist."""
        for player in self.unloaded:
            if player.kind == kind:
                file = Path(player.factory.rpartition(":")[0])
                if not file.is_file():
                    raise ConfigError(f"{player.where}: kind = {kind!r}: there is no file {file}")
                self._kinds[kind] = player.factory
                made = self._make(player.name, kind, player.settings, player.source)
                self._entries[player.name] = replace(made, limits=player.limits, gpus=player.gpus)
