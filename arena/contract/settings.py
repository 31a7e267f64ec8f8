"""Settings: their declaration, and reading typed values from text, TOML and JSON."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, field
from difflib import get_close_matches
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from arena import ConfigError, UserError, plural
from arena.files import open_regular, reason

T = TypeVar("T")

DECODE_ERRORS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""The errors that code raises when the data in a file isn't what it expects."""

TYPES: dict[str, tuple[Any, str]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (bool, "true or false"),
    "str": (str, "text"),
    "Mapping[str, str]": (dict[str, str], 'a table of strings, as in {NAME = "value"} in arena.toml'),
    "tuple[str, ...]": (tuple[str, ...], 'a list of names, as in ["sl", "mcts:playouts=500"]'),
}
"""The types that a setting can have, with the name of a value in messages."""


def setting(
    default: Any = MISSING,
    help: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
    factory: Any = MISSING,
) -> Any:
    """A field of a kind's Config: its default, its help, its range (both ends included) or its choices.

    ``factory`` makes the default of a table. A player's settings include a table only if one was given.
    """
    metadata = {"help": help, "low": low, "high": high, "choices": tuple(choices)}
    return field(default=default, default_factory=factory, metadata=metadata)


def read_settings(
    given: Mapping[str, Any], known: Mapping[str, Field[Any]], where: str, what: str = "setting"
) -> dict[str, Any]:
    """Convert values to the types of their fields. Raises ConfigError, beginning with ``where``, for a wrong one."""
    for name in given:
        if name not in known:
            listed = f"; there are {', '.join(known) or 'none'}"
            raise ConfigError(f"{where}: unknown {what} '{name}'{suggest(name, known) or listed}")
    return {name: read_value(value, known[name], where) for name, value in given.items()}


def suggest(word: str, known: Iterable[str]) -> str:
    """The closest known word, as the end of an error; empty when nothing is close."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def read_value(value: Any, field: Field[Any], where: str) -> Any:
    """Convert a value from TOML or from text to the type of its field. Raises ConfigError, beginning with ``where``."""
    wanted = field.type.__name__ if type(field.type) is type else str(field.type)
    if value is None and wanted.endswith(" | None"):
        return None
    wanted = wanted.removesuffix(" | None").removeprefix("collections.abc.")
    if wanted not in TYPES:
        raise ConfigError(f"{where}: {field.name} can't be set: its type is {wanted}; it can be {', '.join(TYPES)}")
    kind, word = TYPES[wanted]
    try:
        typed = float(value) if kind is float and isinstance(value, str) else value  # which takes .5 and 5.
        result = msgspec.convert(typed, kind, strict=False)
        if kind in (int, float) and not abs(result) < (2**63 if kind is int else inf):
            raise OverflowError
    except (ValueError, OverflowError):
        shown = "" if kind == dict[str, str] else f" = {value!r}"  # a table may have secrets
        raise ConfigError(f"{where}: {field.name}{shown} is not {word}") from None
    low, high, choices = (field.metadata.get(key) for key in ("low", "high", "choices"))
    if (low is not None and result < low) or (high is not None and result > high):
        bounds = " ".join(f"{to} {format_value(end)}" for to, end in (("from", low), ("to", high)) if end is not None)
        raise ConfigError(f"{where}: {field.name} = {format_value(result)} is out of range; allowed: {bounds}")
    if choices and result not in choices:
        raise ConfigError(f"{where}: {field.name} = {result!r} is not one of {', '.join(choices)}")
    return dict(sorted(result.items())) if isinstance(result, dict) else result  # the order in the file changes nothing


# --- Settings as text ---

_PART = re.compile(r"""(?:"[^"]*"|'[^']*'|(?!,\s*\w+=).)+""", re.DOTALL)
_QUOTED = re.compile(r""""(?:[^"]|"")*"|'(?:[^']|'')*'""")

COMMANDS = ("command", "analysis")
"""The settings that are command lines of engines, whose arguments may be secrets."""


def split_pairs(text: str, where: str, what: str = "setting", example: str = "visits=100") -> dict[str, str]:
    """Split ``key=value,...``. A value may contain commas; if a word and "=" follow the comma, the value or that part
    of it must be in quotes. Quotes around a whole value are removed, and two of them in it stand for one. Raises
    ConfigError, beginning with ``where``."""
    given: dict[str, str] = {}
    for part in _PART.findall(text):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            raise ConfigError(f"{where}: '{part}' is not a {what}=value, such as {example}")
        if key in given:
            raise ConfigError(f"{where}: {key} is given twice")
        given[key] = value[1:-1].replace(2 * value[0], value[0]) if _QUOTED.fullmatch(value) else value
    return given


def quote_value(value: str) -> str:
    """Quote a value, if needed, so that ``split_pairs`` reads it back."""
    if len(_PART.findall(f"={value}")) == 1 and not re.search("[\"']", value) and value == value.strip():
        return value
    sign = "'" if '"' in value and "'" not in value else '"'
    return f"{sign}{value.replace(sign, 2 * sign)}{sign}"


def format_value(value: Any) -> str:
    """A value as it is typed; of a table only the names, as the values may be secrets."""
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, dict):
        return f"{{{', '.join(value)}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def describe(name: str, value: Any) -> str:
    """A setting's value for a report. Of an engine's command line only the program and the number of arguments are
    shown: an argument may be a secret."""
    if name not in COMMANDS or not isinstance(value, str) or conceal({name: value})[name] == value:
        return format_value(value)
    try:
        program, *arguments = shlex.split(value)
    except ValueError:
        program, *arguments = value.split()
    return f"{os.path.basename(program)} with {plural(len(arguments), 'argument')}"


def conceal(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are stored. A digest replaces what may be a secret: each value of a table, such as an engine's
    environment, and a command line that has arguments, of which the program stays. A digest stays as it is."""

    def digest(text: str) -> str:
        is_digest = re.fullmatch("sha256:[0-9a-f]{8}", text)
        return text if is_digest else f"sha256:{sha256(text.encode()).hexdigest()[:8]}"

    def harmless(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: digest(text) for key, text in value.items()}
        words = value.split(maxsplit=1) if name in COMMANDS and isinstance(value, str) else []
        if len(words) < 2 or digest(words[1]) == words[1]:
            return value
        return f"{os.path.basename(words[0])} {digest(value)}"

    return {name: harmless(name, value) for name, value in settings.items()}


# --- Files ---


def read_object(path: Path, *, error: type[UserError], hint: str) -> dict[str, Any]:
    """Read the object in a JSON file (``.json``), or else the tables in a TOML file, of 64 MB at most. Raises
    ``error``, one line that names the file and ends with ``hint``."""
    parse, form = (json.loads, "JSON") if path.suffix == ".json" else (tomllib.loads, "TOML")
    try:
        with open_regular(path) as file:
            content = parse(file.read(64 << 20).decode("utf-8-sig"))  # some editors write a mark of byte order
    except OSError as problem:
        raise error(f"{path}: can't be read ({reason(problem)}); {hint}") from problem
    except (RecursionError, ValueError) as problem:
        raise error(f"{path}: isn't valid {form} ({reason(problem)}); {hint}") from problem
    if not isinstance(content, dict):
        raise error(f"{path}: holds no {form} object; {hint}")
    return content


def convert(content: Mapping[str, Any], kind: type[T], where: object, *, error: type[UserError], hint: str) -> T:
    """Convert an object of JSON or TOML to a dataclass. Raises ``error``, one line that begins with ``where``, names
    the key and the expected type, and ends with ``hint``."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as problem:
        raise error(f"{where}: {problem}; {hint}") from problem
