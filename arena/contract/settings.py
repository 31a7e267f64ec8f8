"""Settings as they are typed or stand in TOML, read as the types they have. What settings there are is not here."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, field
from decimal import Decimal
from difflib import get_close_matches
from hashlib import sha256
from math import isfinite
from typing import Any

from arena import ConfigError

WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "Mapping[str, str]": 'a table of strings, as in {NAME = "value"} in arena.toml',
}
"""The types that a setting can have, and what its values are called."""

COMMANDS = ("command", "analysis")
"""The settings that are command lines of engines."""


def setting(
    default: Any = MISSING,
    help: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
    factory: Any = MISSING,
) -> Any:
    """A field of a kind's Config: its default, a sentence on what it does, and what values it takes.

    ``factory`` makes the default of a table. A player's settings list a table only where it is given.
    """
    metadata = {"help": help, "low": low, "high": high, "choices": tuple(choices)}
    return field(default=default, default_factory=factory, metadata=metadata)


def read_value(value: Any, field: Field[Any], where: str) -> Any:
    """A setting's value as its field's type, from TOML or from text. Raises ConfigError, beginning with ``where``."""
    wanted = field.type.__name__ if type(field.type) is type else str(field.type)
    wanted = wanted.removesuffix(" | None").removeprefix("collections.abc.")
    word = WORDS.get(wanted)
    if word is None:
        raise ConfigError(f"{where}: {field.name} can't be set: its type is {wanted}; it can be {', '.join(WORDS)}")
    shown = f" = {value!r}" if wanted != "Mapping[str, str]" else ""  # a table may have secrets
    refusal = ConfigError(f"{where}: {field.name}{shown} is not {word}")
    result: Any
    if wanted == "bool":
        result = {"true": True, "false": False}.get(str(value).lower())
        if result is None:
            raise refusal
    elif wanted == "str":
        if not isinstance(value, str):
            raise refusal
        result = value
    elif wanted == "Mapping[str, str]":
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise refusal
        result = dict(sorted(value.items()))  # the order in the file changes nothing
    else:
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise ValueError
            if wanted == "int":
                number = Decimal(value)  # exact, where a float is not
                if not number.is_finite() or not abs(number) < 2**63 or number != int(number):
                    raise ValueError
                result = int(number)
            elif not isfinite(result := float(value)):
                raise ValueError
        except (ValueError, ArithmeticError):
            raise refusal from None
        low, high = field.metadata.get("low"), field.metadata.get("high")
        if not (low is None or result >= low) or not (high is None or result <= high):
            bounds = [f"from {plain(low)}"] * (low is not None) + [f"to {plain(high)}"] * (high is not None)
            raise ConfigError(f"{where}: {field.name} = {plain(result)} is out of range; allowed: {' '.join(bounds)}")
    choices = field.metadata.get("choices")
    if choices and result not in choices:
        raise ConfigError(f"{where}: {field.name} = {result!r} is not one of {', '.join(choices)}")
    return result


_PART = re.compile(r"""(?:"[^"]*"|'[^']*'|(?!,\w+=).)+""", re.DOTALL)
_QUOTED = re.compile(r""""[^"]*"|'[^']*'""")


def split_settings(text: str) -> list[str]:
    """The parts of ``key=value,...``. A value may hold commas; where a word and "=" follow one, the value or that part
    of it stands in quotes."""
    return _PART.findall(text)


def unquoted(value: str) -> str:
    """A typed value without the quotes around all of it."""
    return value[1:-1] if _QUOTED.fullmatch(value) else value


def quoted(value: str) -> str:
    """A value as ``split_settings`` and ``unquoted`` read it again."""
    if len(split_settings(f"={value}")) == 1 and not _QUOTED.fullmatch(value):
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'


def read_pairs(text: str, known: Mapping[str, Field[Any]], where: str, what: str, example: str) -> dict[str, Any]:
    """``key=value,...`` as values of these fields. ``what`` they are and an ``example`` stand in the ConfigError, which
    begins with ``where``."""
    given: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not key:
            raise ConfigError(f"{where}: a {what} is missing, as in {example}; there are {', '.join(known)}")
        if key not in known:
            listed = f"; there are {', '.join(known)}"
            raise ConfigError(f"{where}: unknown {what} '{key}'{suggest(key, known) or listed}")
        if not equals:
            raise ConfigError(f"{where}: '{part}' is not a {what}=value, as in {example}")
        if key in given:
            raise ConfigError(f"{where}: {key} is given twice")
        given[key] = read_value(value, known[key], where)
    return given


def plain(value: Any) -> str:
    """A value as it may be typed; of a table only the names."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, dict):
        return f"{{{', '.join(value)}}}"  # the values may be secrets
    return str(value)


def describe(name: str, value: Any) -> str:
    """A setting's value for a report. Of an engine's command only the program and the number of arguments are shown:
    an argument may be a secret."""
    if name not in COMMANDS or not value:
        return plain(value)
    try:
        words = shlex.split(value)
    except ValueError:
        words = value.split()
    arguments = f"{len(words) - 1} argument{'s' * (len(words) != 2)}"
    return f"{os.path.basename(words[0])} with {arguments}" if len(words) > 1 else words[0]


def conceal(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are stored. In a table, such as an engine's environment, a digest replaces each value, which may
    be a secret; a digest stays as it is."""
    return {
        name: {key: _digest(text) for key, text in value.items()} if isinstance(value, dict) else value
        for name, value in settings.items()
    }


def _digest(text: str) -> str:
    return text if re.fullmatch("sha256:[0-9a-f]{8}", text) else f"sha256:{sha256(text.encode()).hexdigest()[:8]}"


def suggest(word: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of an error; empty when nothing is close."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
