"""Settings as they are typed or stand in TOML, read as the types they have. What settings there are is not here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import Field
from difflib import get_close_matches
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


def read_value(value: Any, field: Field[Any], where: str) -> Any:
    """A setting's value as its field's type, from TOML or from text. Raises ConfigError, beginning with ``where``."""
    wanted = field.type.__name__ if type(field.type) is type else str(field.type)
    wanted = wanted.removesuffix(" | None").removeprefix("collections.abc.")
    word = WORDS.get(wanted)
    if word is None:
        raise ConfigError(f"{where}: {field.name} can't be set: its type is {wanted}; it can be {', '.join(WORDS)}")
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
    elif wanted == "Mapping[str, str]":
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise refusal
        result = dict(sorted(value.items()))  # the order in the file changes nothing
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
            bounds = [f"from {plain(low)}"] * (low is not None) + [f"to {plain(high)}"] * (high is not None)
            raise ConfigError(f"{where}: {field.name} = {plain(result)} is out of range; it goes {' '.join(bounds)}")
    choices = field.metadata.get("choices")
    if choices and result not in choices:
        raise ConfigError(f"{where}: {field.name} = {result!r} is none of {', '.join(choices)}")
    return result


def plain(value: Any) -> str:
    """A value as it may be typed."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {json.dumps(text)}' for key, text in value.items())}}}"
    return str(value)


def suggest(word: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of an error; empty when nothing is close."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
