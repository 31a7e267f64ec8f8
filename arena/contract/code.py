"""A bot's code: importing kinds, digests of their sources, and finding engines."""

from __future__ import annotations

import ast
import hashlib
import importlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from arena import ConfigError, files
from arena.contract.bot import BotKind

GAMES_FOLDERS = ("/usr/games", "/usr/local/games")  # where packages install engines; not on root's PATH

SENT = files.cache_folder() / "sent"
"""Where a node of a cluster keeps the nets and bots that were shipped to it, each in a folder named by its digest."""


def load_kind(factory: str) -> BotKind:
    """Import a kind from ``module:attribute`` or ``file.py:attribute``; the attribute is ``BOT`` by default. Raises
    ConfigError when that can't be imported, or isn't a BotKind."""
    place, colon, attribute = factory.rpartition(":")
    try:
        kind = getattr(_module(factory), attribute if colon else "BOT", None)
    except (Exception, SystemExit) as error:  # other people's modules may raise anything, and scripts exit
        words = " ".join(str(error).split())
        raise ConfigError(f"the bots of {factory} can't be loaded: {type(error).__name__}: {words}") from error
    if kind is None:
        missing = attribute if colon else "BOT"
        raise ConfigError(f"{place} defines no {missing}; add {missing} = BotKind(...), see docs/add-a-bot.md")
    if not isinstance(kind, BotKind):
        raise ConfigError(f"{factory} must be a BotKind; it is of type {type(kind).__name__}")
    return kind


def _module(factory: str) -> ModuleType:
    place = factory.rpartition(":")[0] or factory  # a path may have colons
    if not place.endswith(".py"):
        return importlib.import_module(place)
    digest = hashlib.sha256(os.path.abspath(place).encode()).hexdigest()[:8]
    name = f"arena_bot_{re.sub(r'[^0-9A-Za-z]', '_', Path(place).stem)}_{digest}"
    if name not in sys.modules:
        spec: Any = spec_from_file_location(name, place)
        sys.modules[name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[name])
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def code_of(factory: str, config: Any) -> str:
    """A text that identifies a player's code, found without starting the bot: what the kind's own ``code`` returns (as
    for the files of an engine), the revision of a bot that ships (empty for the first), or a digest of its sources.

    The sources of a bot in a package are the whole package; of one in ``bots/`` or in a file of its own they are that
    file, and what it imports from its own folder.
    """
    kind, module = load_kind(factory), _module(factory)
    if kind.code is not None:
        return kind.code(config)
    if kind.revision:
        return f"revision {kind.revision}" if kind.revision > 1 else ""
    top = sys.modules[module.__name__.partition(".")[0]]
    if top is not module and top.__name__ != "bots" and getattr(top, "__path__", None):
        return digest_of_files(sorted(path for folder in top.__path__ for path in Path(folder).rglob("*.py")))
    return digest_of_files(with_imported(Path(module.__file__ or "")))


def digest_of_files(paths: list[Path]) -> str:
    """12 hex digits of the content of these files; those that can't be read are left out."""
    digest = hashlib.sha256()
    for path in paths:
        with suppress(OSError), path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]


def with_imported(file: Path) -> list[Path]:
    """A Python file, then what it imports, directly or not, from its own folder: modules, and packages as a whole."""
    found, unread = {file}, [file]
    while unread:
        for name in _imported(unread.pop()):
            part = name.removeprefix(f"{file.parent.name}.").partition(".")[0]
            place = file.parent / part
            beside = {*place.rglob("*.py")} if place.is_dir() else {place.with_suffix(".py")}
            new = {path for path in beside - found if path.is_file()}
            unread += new
            found |= new
    return [file, *sorted(found - {file})]


def _imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, by their dotted names as seen from its folder; none if it can't be read."""
    with suppress(OSError, SyntaxError, ValueError):
        for each in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(each, ast.ImportFrom) and each.level:
                yield from (each.module or alias.name for alias in each.names)
            elif isinstance(each, ast.Import | ast.ImportFrom):
                stem = f"{each.module}." if isinstance(each, ast.ImportFrom) else ""
                names = [stem + alias.name for alias in each.names]
                yield from (name for name in names if name.partition(".")[0] not in sys.stdlib_module_names)


def find_program(name: str, path: str | None = None) -> str | None:
    """The path of a program on ``path`` (default: PATH) or in ``GAMES_FOLDERS``; None if it isn't there."""
    return shutil.which(name, path=os.pathsep.join([path or os.environ.get("PATH", os.defpath), *GAMES_FOLDERS]))
