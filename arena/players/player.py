"""A player: a name, a kind, its settings and its net, from which a worker builds the bot."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from arena import UserError
from arena.contract.bot import Bot, BotKind, Limits
from arena.contract.code import code_of, digest_of_files, load_kind, with_imported
from arena.contract.settings import conceal
from bots.nets.checkpoint import AUTO, MANIFEST, Checkpoint, find

# the modules of the bots that ship
SHIPPED_MODULES = {f"bots.{name}" for name in "alphago fast_random gtp human human_like policy random uct".split()}
ARENA, COMMAND_LINE, PACKAGE = "arena", "the command line", "the package "
"""Sources of players; a package's is followed by its name. Any other source is a file."""


@dataclass(frozen=True, slots=True)
class Player:
    """A name, a kind and its settings.

    ``factory`` is where the kind is found, see ``load_kind``; ``net`` is the sha256 of its net, if any; ``limits`` are
    its own and override those of an event; ``code`` identifies the bot's code, see ``code_of``; ``gpus`` is the part of
    a GPU that each worker takes for it on a cluster.
    """

    name: str
    kind: str = ""
    factory: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    source: str = ""
    net: str = ""
    limits: Limits = field(default_factory=Limits)
    code: str = ""
    gpus: float = 0.0

    @property
    def identity(self) -> str:
        """12 hex digits, a digest of the kind, the settings, the net, the code and the limits that change its moves."""
        return _identity_of(self)

    @property
    def stored(self) -> Player:
        """This player as it is stored in files: digests replace what may be secret, and ``factory`` is left out."""
        return replace(self, settings=conceal(self.settings), factory="")

    @property
    def where(self) -> str:
        """How an error begins: with the table in arena.toml, or the name as it was typed."""
        if self.source in ("", ARENA, COMMAND_LINE) or self.source.startswith(PACKAGE):
            return self.name
        return f"{self.source}: [bots.{re.split('[:@]', self.name)[0]}]"

    @property
    def bot_kind(self) -> BotKind:
        return load_kind(self.factory)

    @property
    def is_person(self) -> bool:
        """Whether a person at the terminal makes the moves."""
        return self.bot_kind.interactive

    @property
    def ships(self) -> bool:
        """Whether the bot's code comes with the arena."""
        return self.factory.partition(":")[0] in SHIPPED_MODULES

    @property
    def config(self) -> Any:
        """The kind's typed configuration."""
        return self.bot_kind.config(**self.settings)

    def with_limits(self, limits: Limits) -> Player:
        """This player with ``limits``, unless it has its own; a person gets a clock only. The name shows them."""
        if self.limits != Limits() or limits == Limits() or (self.is_person and limits.time is None):
            return self
        return replace(self, name=f"{self.name}@{limits}", limits=limits)

    # --- Its net ---

    def identify(self, folder: Path) -> str:
        """The sha256 of a checkpoint's weights. Raises CheckpointError when this kind can't play with them."""
        checkpoint = Checkpoint.open(folder)
        checkpoint.require(*self.bot_kind.heads)
        return checkpoint.identity

    def for_size(self, size: int) -> Player:
        """This player with the net that it has on boards of this size, if that depends on the size."""
        if self.settings.get("checkpoint") != AUTO:
            return self
        folder = find(AUTO, size=size).absolute()
        return replace(self, settings={**self.settings, "checkpoint": str(folder)}, net=self.identify(folder))

    def size_warning(self, size: int) -> str:
        """A warning if boards of this size are larger than those that its net was trained on, else empty."""
        player = self.for_size(size)
        if not player.net or "policy" not in player.bot_kind.heads:
            return ""
        net = Checkpoint.open(player.settings["checkpoint"]).manifest
        if size <= net.size:
            return ""
        return f"{self.name}: its net {net.name} learned on {net.size}x{net.size} and may be weak on {size}x{size}"

    # --- Its bot ---

    def checked(self, size: int) -> Player:
        """Check that this player can play on a board of this size, and return it, with what the check returned added to
        its ``code``. Raises a UserError, which begins with the player's name or its table in arena.toml."""
        kind, player = self.bot_kind, self.for_size(size)
        if kind.check is None:
            return player
        try:
            code = kind.check(player.config, size)
        except UserError as error:
            raise type(error)(f"{self.where}: {error}") from error
        return replace(player, code=f"{self.code} {code}") if code else player

    def build(self) -> Bot:
        """Build the bot. Raises a UserError when that fails, or when its net or code has changed since it was read."""
        self._require_same()
        bot = self.bot_kind.build(self.config)
        try:
            self._require_same()  # nothing was replaced while it was loaded
        except UserError:
            bot.close()
            raise
        return bot

    def _require_same(self) -> None:
        again = "run the same command again to play the new one"
        if self.net and (net := self.identify(folder := find(self.settings["checkpoint"]))) != self.net:
            raise UserError(f"the net of {self.name} in {folder} was replaced ({self.net[:8]}, now {net[:8]}); {again}")
        if not self.has_code(code := code_of(self.factory, self.config)):
            raise UserError(f"the code of {self.name} was changed ({self.code[:4]}, now {code[:4]}); {again}")

    def has_code(self, code: str) -> bool:
        """Whether this is the player's code, to which its check may have added. A bot that ships has none in its first
        revision; any other player without code has all."""
        if not self.code:
            return not (self.ships and code)
        return f"{self.code} ".startswith(f"{code} ")

    # --- On another machine ---

    def files_to_ship(self) -> dict[str, list[Path]]:
        """The files that another machine needs besides an installation: those of its net, and the sources of a bot in a
        Python file; by the names of the folders in which ``unpack`` expects them, which are digests of the content."""
        found = {}
        if self.net:
            net = Checkpoint.open(self.settings["checkpoint"])
            found[self.net] = [net.folder / name for name in (*net.manifest.files, MANIFEST)]
        if self._file.endswith(".py"):
            sources = with_imported(Path(self._file))
            found[f"code-{digest_of_files(sources)}"] = sources
        return found

    def pack(self) -> Player:
        """This player with ``factory`` relative to the folder of shipped files, if its bot is a Python file."""
        for folder, (file, *_) in self.files_to_ship().items():
            if str(file) == self._file:
                return replace(self, factory=f"{folder}/{file.name}:{self.factory.rpartition(':')[2]}")
        return self

    def unpack(self, place: Path) -> Player:
        """A packed player with its net and its bot in the folders of ``place``, to which they were shipped."""
        settings = self.settings
        if self.net and (place / self.net).is_dir():
            settings = {**settings, "checkpoint": str(place / self.net)}
        is_file = self._file.endswith(".py")
        return replace(self, settings=settings, factory=str(place / self.factory) if is_file else self.factory)

    @property
    def _file(self) -> str:
        return self.factory.rpartition(":")[0]


@lru_cache(maxsize=4096)  # the plan of an event of many players takes each one's hundreds of times
def _identity_of(player: Player) -> str:
    counted = [pair for pair in conceal(player.settings).items() if pair[0] != "checkpoint"]  # the net itself counts
    parts: list[Any] = [player.kind, counted, player.net]
    thinking = replace(player.limits, lag=None, deadline=None)
    if thinking != Limits():
        parts.append(str(thinking))
    if player.code:
        parts.append({"code": player.code})
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
