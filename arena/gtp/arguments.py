"""Reads the number and the arguments of a GTP command. Raises CommandError for an argument that can't be read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from arena import ArenaError
from arena.go.coords import BLACK, WHITE, Colour, Move, move_from_gtp
from arena.go.game import Rules
from arena.go.rule_names import find_preset


class CommandError(ArenaError):
    """A command fails; the text is the GTP error message."""


COLOURS = {"b": BLACK, "black": BLACK, "w": WHITE, "white": WHITE}
NUMBER = re.compile(r"[+-]?([0-9]{1,10}(\.[0-9]{0,20})?|\.[0-9]{1,20})")
WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_CONTROL_SIGNS = {**dict.fromkeys([*range(32), 127]), ord("\t"): " "}


def read_line(line: str) -> tuple[str | None, list[str]]:
    """The number of a command, None without one, and its words (GTP 2, section 3.1)."""
    words = line.translate(_CONTROL_SIGNS).partition("#")[0].split(" ")
    words = [word for word in words if word]
    if words and re.fullmatch("[0-9]+", words[0]):
        return words[0], words[1:]
    return None, words


def parse_colour(words: Sequence[str], index: int) -> Colour:
    try:
        return COLOURS[words[index].lower()]
    except LookupError:
        raise CommandError("syntax error") from None


def parse_move(words: Sequence[str], index: int, size: int) -> Move:
    try:
        return move_from_gtp(words[index], size)
    except (IndexError, ValueError):
        raise CommandError("syntax error") from None


def parse_number(words: Sequence[str], index: int) -> float:
    if index >= len(words) or not NUMBER.fullmatch(words[index]):
        raise CommandError("syntax error")
    return float(words[index])


def parse_whole(words: Sequence[str], index: int) -> int:
    if index < len(words) and WHOLE.fullmatch(words[index]):
        return int(words[index])
    number = parse_number(words, index)
    if not number.is_integer():
        raise CommandError("syntax error")
    return int(number)


def parse_rules(given: str | Mapping[str, object], rules: Rules) -> Rules:
    """The preset nearest to rules given as KataGo does, by name or as JSON, with the size and komi of ``rules``. Raises
    CommandError."""
    if isinstance(given, str):
        with suppress(ValueError, RecursionError):
            given = json.loads(given)
    name = find_preset(given) if isinstance(given, str | Mapping) else None
    if name is None:
        raise CommandError("unknown rules" if isinstance(given, str) else "rules not supported")
    return replace(Rules.preset(name, move_limit=rules.move_limit), size=rules.size, komi=rules.komi)
