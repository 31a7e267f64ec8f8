"""Progress of long work: bars on a terminal, plain lines elsewhere; for training, figures and a curve, too."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from math import isfinite
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from arena.contract.finding import Finding, StepStatus
from arena.ratings import EloEstimate, Result, rate
from arena.report import style
from arena.report.chart import draw_course, draw_losses
from arena.results.league import RatingPoint

if TYPE_CHECKING:
    from trainers import train as training
    from trainers.ratings import Rating, SelfPlayProgress


CURVE_ROWS = 11

LINE_EVERY, DRAW_EVERY = 30.0, 0.25  # seconds between two lines in a pipe, and between two drawings on a terminal


@contextmanager
def show_counting(name: str, total: int, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """Show a bar with a count, nothing in a pipe; the yielded function is called with the number done."""
    console = console or style.Console(stderr=True)
    what = TextColumn("{task.description}", markup=False)
    columns = (what, BarColumn(bar_width=None), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=total)
        yield lambda done: bar.update(task, completed=done)


# --- Training ---


@contextmanager
def show_training(
    name: str, figures: Callable[[Any], str], console: Console | None = None
) -> Iterator[Callable[[Any], None]]:
    """Show a run; the yielded function is called with every progress. A terminal gets a bar, the ``figures`` and a
    curve of the Elo (with ``ratings``) or the loss; a pipe gets a line once in a while, and one for each rating."""
    console = console or style.Console(stderr=True)
    begun = written = monotonic()
    drawn, rated, losses = -DRAW_EVERY, 0, array("d")
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), TimeElapsedColumn())
    bar = Progress(*columns, console=console, expand=True, disable=not console.is_terminal)
    task = bar.add_task(f"{name}: starting", total=None)

    def write(progress: Any) -> None:
        nonlocal written, rated
        ratings = getattr(progress, "ratings", ())
        lines = [_match_words(match) for match in ratings[rated:]]
        rated = len(ratings)
        if monotonic() - written >= LINE_EVERY:
            written = monotonic()
            lines.append(figures(progress))
        with suppress(OSError, SystemExit):  # nobody reads it any more: Rich would end a run that isn't saved
            for line in lines:
                console.print(f"{name}: {line}", soft_wrap=True, highlight=False, markup=False)

    def draw(progress: Any) -> None:
        """A step is as quick as its loss is added: the thread that trains calls this."""
        nonlocal drawn
        if isfinite(loss := getattr(progress, "loss", 0.0)):
            losses.append(loss)
        if monotonic() - drawn < DRAW_EVERY and progress.step > 1:
            return
        drawn = monotonic()
        done, left = drawn - begun, progress.minutes_left
        bar.update(task, completed=done, total=None if left is None else done + 60 * left, description=name)
        parts = Columns([style.text(part) for part in figures(progress).split(" · ")], padding=(0, 3))
        is_rated = hasattr(progress, "ratings")
        width = console.width
        curve = draw_ratings(progress.ratings, width) if is_rated else draw_losses(losses, width, CURVE_ROWS)
        live.update(Group(bar, parts, *curve))

    if not console.is_terminal:
        yield write
        return
    with Live(bar, console=console) as live:
        yield draw


def training_words(predicted: str) -> Callable[[training.Progress], str]:
    """The figures of a run that learns from rows; ``predicted`` names the share that the net got right."""
    return lambda progress: (
        f"{progress.rows:,} rows · {progress.rows_per_second:,.0f}/s · loss {progress.loss:.3f} · "
        f"{predicted} {progress.right:.1%} · waiting for data {progress.waiting:.0%}{_left(progress.minutes_left)}"
    )


ITERATION = (
    "{games_per_second:.2g} games/s · against the pool {share:.0%} · entropy {entropy:.2f} · {length:.0f} moves · "
    "Black {black:.0%}"
)
ROUND = (
    "{games:,.0f} games · {games_per_second:.3g}/s · {new_rows:,.0f} rows · learns {learned_per_second:,.0f} rows/s · "
    "loss {loss:.3f} · top-1 {right:.1%} · {length:.0f} moves · Black {black:.0%} at komi {komi:.1f}"
)
"""The figures of a run of ``rl``, and of one of ``zero``."""


def self_play_words(spelled: str) -> Callable[[SelfPlayProgress], str]:
    """The figures of a run that learns from its own games, in the format ``spelled``."""
    unknown = {"loss": float("nan"), "right": float("nan")}
    return lambda progress: (
        f"{progress.step:,} steps · {spelled.format_map({**unknown, **progress.figures})}{_left(progress.minutes_left)}"
    )


def _left(minutes: float | None) -> str:
    if minutes is None:
        return ""
    return f" · {minutes:.0f} min left" if minutes >= 1 else f" · {60 * minutes:.0f} s left"


def _match_words(match: Rating) -> str:
    return (
        f"step {match.iteration:,}: {match.share:.1%} against {match.against} "
        f"({match.low:.0%} to {match.high:.0%}, {match.games} games)"
    )


@lru_cache(maxsize=4)
def strengths(ratings: tuple[Rating, ...]) -> dict[int, EloEstimate]:
    """By iteration, the Elo of a run's nets from a joint fit of all its matches; 0 is the first opponent."""
    if not ratings:
        return {}
    matches = [Result(str(one.iteration), one.opponent, one.share * one.games, one.games) for one in ratings]
    fit, anchor = rate(matches, black_advantage=False), matches[0].white
    return {number: fit.difference(str(number), anchor) for number in sorted({one.iteration for one in ratings})}


def draw_ratings(ratings: Sequence[Rating], width: int) -> list[Text]:
    """Elo of a run's steps above its first opponent, with 95 % intervals; the latest match with each opponent."""
    lines = []
    if curve := strengths(tuple(ratings)):
        first, moments = ratings[0].against, [RatingPoint(step, {"net": elo}) for step, elo in curve.items()]
        lines = draw_course(moments, ("net", first), width, CURVE_ROWS, "steps")
        lines.append(style.text(f"Elo {moments[-1].elo['net']}; 0 is {first}"))
    latest = {one.against if one.step is None else "": one for one in ratings}
    return [*lines, *(style.text(_match_words(match)) for match in latest.values())]


# --- Checks ---

SIGNS = {StepStatus.OK: "✓", StepStatus.NOTE: "!", StepStatus.FAILED: "✗"}
VERDICTS, STEPS = 11, 10


def show_check(name: str, findings: Iterable[Finding], console: Console) -> StepStatus:
    """Show what is found as it comes, a line each, and return the worst."""
    worst = StepStatus.OK
    console.print(Text(style.sanitize(name), "bold"))
    with console.status(""):
        for found in findings:
            worst = max(worst, found.status, key=list(StepStatus).index)
            ink = "" if found.status is StepStatus.OK else style.WARNING
            words = Text(f"  {SIGNS[found.status]} {found.status}".ljust(VERDICTS), ink)
            words.append(found.step.ljust(STEPS), style.LABEL).append(style.sanitize(found.text), "not dim")
            console.print(words)
            for line in found.details.splitlines():  # the terminal breaks what is too long: it can be copied whole
                console.print(Text(style.sanitize(f"    {line}"), style.LABEL), soft_wrap=True)
    return worst
