"""The findings of ``arena check`` and ``arena doctor``, one a step."""

from dataclasses import dataclass
from enum import StrEnum


class StepStatus(StrEnum):
    """The result of a step. A note is not a fault: everything works, but the user should know."""

    OK = "ok"
    NOTE = "note"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one step found, in a line; ``details`` belong below it: a traceback, or what to do."""

    step: str
    status: StepStatus
    text: str
    details: str = ""
