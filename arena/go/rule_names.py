"""Names of rules in SGF files and other programs, and the closest preset for each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from arena.go.game import PRESETS, Rules

UNKNOWN = "unknown"  # the name of the rules of a record that names no known rules

_BEGINNINGS = {
    "cgos": ("cgos",),
    "tromp-taylor": ("tromp", "tt", "nz", "newz", "neuseel", "goe", "ing", "應", "应"),
    "chinese": ("chin", "cn", "中", "aga", "bga", "ffg", "french", "british", "stonescoring"),
    "japanese": ("jap", "jp", "日", "kor", "kr", "韓", "韩", "territory", "ancientterritory"),
}
"""Beginnings of names, in lower case without spaces and punctuation. Stone scoring counts stones only; area scoring is
the closest preset, and differs by two points for each group."""

_COMPACT = re.compile(r"ko([A-Z]+)score([A-Z]+)tax([A-Z]+)sui([01])")
"""KataGo's short form, as its self-play games have it in RU."""


def find_preset(given: str | Mapping[str, object]) -> str | None:
    """The closest preset to a name, to KataGo's short form, or to KataGo's settings (JSON or parsed); None if there is
    none."""
    if isinstance(given, Mapping):
        return _closest(given)
    if found := _COMPACT.match(given.strip()):
        ko, scoring, tax, suicide = found.groups()
        return _closest({"ko": ko, "scoring": scoring, "tax": tax, "suicide": suicide == "1"})
    if given.lstrip().startswith("{"):
        try:
            settings = json.loads(given)
        except (ValueError, RecursionError):
            return None
        return _closest(settings)
    word = "".join(character for character in given.lower() if character.isalnum())
    return next((name for name, beginnings in _BEGINNINGS.items() if word.startswith(beginnings)), None)


def _closest(settings: Mapping[str, object]) -> str | None:
    """The preset that agrees with KataGo's settings, else one with the same scoring."""
    exact = next((name for name in PRESETS if Rules.preset(name).agree_with(settings)), None)
    if exact is not None or settings.get("tax", "NONE") not in ("NONE", "SEKI") or settings.get("hasButton"):
        return exact
    if settings.get("scoring") == "TERRITORY":
        return "japanese"
    if settings.get("scoring") != "AREA":
        return None
    if settings.get("suicide"):
        return "tromp-taylor"
    return "cgos" if settings.get("whiteHandicapBonus", "0") == "0" else "chinese"
