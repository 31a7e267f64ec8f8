"""One setting of a bot changed in an arena.toml, with every other byte kept. What bots there are is not here."""

from __future__ import annotations

import os
import tomllib
from collections.abc import MutableMapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from arena import ConfigError, files


@dataclass(frozen=True, slots=True)
class Change:
    """A setting of a bot that was changed in a file: its value now, and before, where it had one there.
    ``is_new_table`` and ``is_new_file`` say what was made for it."""

    path: Path
    bot: str
    setting: str
    value: str
    before: str | None
    is_new_table: bool
    is_new_file: bool


def require_writable(path: Path) -> None:
    """Raise ConfigError when the file, or one in its place, can't be written. What it holds isn't looked at."""
    place = path.resolve()
    if place.exists() and not place.is_file():
        raise ConfigError(f"{path} is no file; name another with --config")
    if place.exists() and not os.access(place, os.W_OK):
        raise ConfigError(f"{path} can't be written; make it writable, or name another file with --config")
    if not os.access(place.parent, os.W_OK):
        raise ConfigError(f"{place.parent} can't be written, and {path} lies there; make it writable")


def set_bot(path: Path, name: str, setting: str, value: str) -> Change:
    """Give a bot another value of a setting, in its table or, where there is none, in a new one at the file's end; a
    file that isn't there is made.

    The new file is written aside and renamed. Raises ConfigError, and then has changed nothing.
    """
    require_writable(path)
    is_new_file = not path.exists()
    try:
        content = b"" if is_new_file else path.read_bytes()
        old = content.decode()
        before = tomllib.loads(old)
        document = tomlkit.parse(old)
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, TOMLKitError) as error:
        raise ConfigError(f"{path}: isn't valid TOML ({' '.join(str(error).split())}); correct it") from error
    known = before.get("bots", {})
    try:
        expected = deepcopy(before)
        expected.setdefault("bots", {}).setdefault(name, {})[setting] = value
        new = _changed(old, document, name, setting, value)
        right = tomllib.loads(new) == expected
    except (TOMLKitError, tomllib.TOMLDecodeError, ValueError, TypeError, AttributeError):
        right = False  # a way to write tables that isn't foreseen here
    if not right:
        raise ConfigError(
            f'{path} is written in a way that can\'t be changed; set {setting} = "{value}" for {name} there'
        )
    files.write(path, new, error=ConfigError, hint="nothing of it has changed")
    return Change(path, name, setting, value, known.get(name, {}).get(setting), name not in known, is_new_file)


def _changed(old: str, document: tomlkit.TOMLDocument, name: str, setting: str, value: str) -> str:
    """The text of the file with the setting."""
    newline = "\r\n" if "\r\n" in old else "\n"
    bots: Any = document.get("bots", {})
    if name not in bots and not (isinstance(bots, MutableMapping) and "bots" in document and _is_inline(bots)):
        lines = [f"[bots.{tomlkit.key(name).as_string()}]", f"{setting} = {tomlkit.string(value).as_string()}", ""]
        gap = "" if not old else newline if old.endswith("\n") else 2 * newline
        return old + gap + newline.join(lines)
    if name not in bots:
        bots[name] = tomlkit.inline_table()
    table = bots[name]
    if setting in table or not isinstance(table, Table):
        table[setting] = value
        return tomlkit.dumps(document)
    item = tomlkit.string(value)
    item.trivia.trail = newline
    body = table.value.body
    after = []  # blank lines and comments before the next table stay there
    while body and body[-1][0] is None:
        after.append(body.pop())
    if not after and not old.endswith("\n"):
        return _changed(old + newline, tomlkit.parse(old + newline), name, setting, value)
    table.append(setting, item)
    body.extend(reversed(after))
    return tomlkit.dumps(document)


def _is_inline(bots: Any) -> bool:
    return not isinstance(bots, Table) and type(bots).__name__ == "InlineTable"
