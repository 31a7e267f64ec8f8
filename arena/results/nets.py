"""What the nets of an event's players have learned from, beside how strong they turned out. No net is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from arena import CheckpointError
from arena.ratings import Estimate
from arena.results.event import Participant, Report
from bots.nets.checkpoint import WEIGHTS, Checkpoint, Manifest, find


@dataclass(frozen=True, slots=True)
class Trained:
    """A player whose net's manifest tells its training rows. Players of one ``family`` differ in their nets alone, and
    one trainer made these."""

    name: str
    family: str
    rows: int
    elo: Estimate


def trained_players(report: Report, results: Path) -> list[Trained]:
    """The players of an event with nets that are still there, the least trained first; nobody unless the rows of two
    differ. ``results`` is where checkpoints are looked for first."""
    elo = {place.name: place.elo for place in report.places}
    found = []
    for one in report.participants:
        manifest, estimate = _manifest(one, results), elo[one.name]
        if manifest is not None and manifest.rows and estimate is not None:
            others = [f"{key}={value}" for key, value in one.settings if key != "checkpoint"]
            family = " ".join([one.kind, *others, one.limits, manifest.trainer])
            found.append(Trained(one.name, family, manifest.rows, estimate))
    return sorted(found, key=lambda one: one.rows) if len({one.rows for one in found}) > 1 else []


def _manifest(one: Participant, results: Path) -> Manifest | None:
    """None for a player without a net, and when the folder is gone or holds another net by now."""
    if not one.checkpoint or not one.net:
        return None
    try:
        manifest = Checkpoint.open(find(one.checkpoint, results)).manifest
    except CheckpointError:
        return None
    return manifest if manifest.files[WEIGHTS] == one.net else None
