"""The figures of a training run as one HTML page: loss, held-out figures and ratings over its steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from arena import UserError
from arena.report import style
from arena.report.chart import Scale, points_of, scale_of
from arena.report.page import render
from arena.report.progress import strengths
from arena.report.tables import METRICS, FactList, Table
from arena.results.league import RatingPoint
from trainers.ratings import Rating, read_ratings
from trainers.settings import METRICS_FILE, SETTINGS_FILE, read_file

COUNTERS = ("step", "rows", "minutes")
FIRST = ("loss", "right", "validation")  # beginnings of the names of figures, in the order of their charts
FLOORS = {"policy_loss": "policy_floor", "value_loss": "value_floor", "value_mse": "value_floor"}
"""Figures of the best constant, by those of a net."""


def render_training(folder: Path) -> str:
    """The page of the run with its files in ``folder``. Raises UserError for a run without figures."""
    log, rows = folder / METRICS_FILE, list[dict[str, float]]()
    for line in log.read_text("utf-8", "replace").splitlines() if log.exists() else ():
        with suppress(ValueError, TypeError, KeyError):  # a crash may cut off the last line
            rows.append({"step": int(json.loads(line)["step"])} | json.loads(line))
    if not rows:
        raise UserError(f"there is no training run '{folder.name}' with figures: no line in {log}")
    settings, ratings = read_file(folder / SETTINGS_FILE), read_ratings(folder, int(rows[-1]["step"]))
    facts = [(name, f"{rows[-1][name]:,g}") for name in COUNTERS]
    facts += [(name, str(settings[name])) for name in ("net", "start") if settings.get(name)]
    matches = [(f"{one.iteration:,}", one.against, f"{one.share:.1%}", f"{one.games}") for one in reversed(ratings)]
    table = Table(("step", "against", "score", "games"), matches, flexible=(1,), numbers=(0, 2, 3))
    names = dict.fromkeys(name for row in rows for name in row if name not in COUNTERS)
    ordered = sorted(names, key=lambda name: [not name.startswith(first) for first in FIRST])
    return render(
        title=f"Training run {folder.name}",
        terms=[(name, str(value)) for name, value in settings.items()],
        sections=[("Progress", FactList(facts)), *([("Matches", table)] if matches else [])],
        plots=_strength(ratings) if ratings else None,
        charts=[chart for name in ordered if (chart := _chart(rows, name)) is not None],
    )


def _strength(ratings: Sequence[Rating]) -> dict[str, Any]:
    """What the plot of the Elo over the steps shows; see ``page.plots``."""
    course = [RatingPoint(step, {"net": elo}) for step, elo in strengths(tuple(ratings)).items()]
    elo, steps = scale_of(course), Scale(0, max(1, course[-1].games))
    curve = 1, "the net", style.COLOURS[0], points_of(course, "net", elo)
    shown: dict[str, Any] = {"title": f"Elo over the steps; 0 is {ratings[0].against}", "unit": "steps", "rated": []}
    return shown | {"elo": elo, "games": steps, "curves": [curve], "has_open_ends": False}


def _chart(rows: Sequence[dict[str, float]], name: str) -> dict[str, Any] | None:
    """A figure over the steps, and in grey that of the best constant; None where it never changes."""
    field = name.removeprefix("validation_")
    words, spelled = ("predicted", ".1%") if field == "right" else METRICS.get(field, (field.replace("_", " "), ".4g"))
    floor = f"validation_{FLOORS.get(field)}" if name != field else ""
    curves = [[(row["step"], row[key]) for row in rows if key in row] for key in (name, floor)]
    values = [value for curve in curves for _, value in curve]
    if len({value for _, value in curves[0]}) < 2:
        return None
    low, high = min(values), max(values)
    steps, scale = Scale(0, rows[-1]["step"]), Scale(low, high)
    drawn = [
        " ".join(f"{60 + 352 * steps.share(step):.1f},{130 - 120 * scale.share(value):.1f}" for step, value in curve)
        for curve in curves
    ]
    part = "held-out games" if name != field else "training"
    return {
        "title": f"{part}, {words}: {curves[0][-1][1]:{spelled}}" + "; grey: the best constant" * bool(curves[1]),
        "ticks": [(130 - 120 * scale.share(value), f"{value:{spelled}}") for value in (low, (low + high) / 2, high)],
        "curves": zip((style.COLOURS[0], "#808080"), drawn, strict=True),
        "end": f"{rows[-1]['step']:,} steps",
    }
