"""Settings as they are typed or stand in TOML, read as the types they have. What settings there are is not here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field
from difflib import get_close_matches
from math import isfinite
from typing import Any

from arena import ConfigError


def read_value(value: Any, field: Field[Any], where: str) -> Any:
    """A setting's value as its field's type, from TOML or from text. Raises ConfigError, beginning with ``where``."""
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
    return str(value)


def suggest(word: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of an error; empty when nothing is close."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
