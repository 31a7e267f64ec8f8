"""What a look at something finds, a line a step. Nothing is looked at here, nothing shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a step came to. A note is no fault: all works, but somebody should know."""

    OK = "ok"
    NOTE = "note"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one step found, in a line; ``details`` are what belongs below it: a traceback, or what to do."""

    step: str
    verdict: Verdict
    text: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """A step begins or goes on, and may take so many seconds until it is heard of again."""

    step: str
    seconds: float
