"""Work that takes a while: bars on a terminal, plain lines elsewhere; for training figures and a curve, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from arena.contract.finding import Finding, Verdict
from arena.report import style
from arena.report.chart import Canvas, Scale

if TYPE_CHECKING:
    from trainers import progress as training
    from trainers.progress import Iteration, Rating, Round


SHARE_ROWS = 11
"""Lines of the curve of shares: an odd number, so that one half has a line."""

NARROWEST = 16
"""Columns below which no curve is drawn."""

LINE_EVERY = 30.0
"""Seconds between two plain lines."""


@contextmanager
def show_bar(name: str, total: int, console: Console) -> Iterator[tuple[Progress, TaskID]]:
    """A bar while the block lasts; nothing in a pipe."""
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar, bar.add_task(name, total=total)


@contextmanager
def show_counting(name: str, total: int, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """A bar with the count while the block lasts; the function that it yields is to be called with what is done."""
    console = console or style.Console(stderr=True)
    named = TextColumn("{task.description}")
    columns = (SpinnerColumn(), named, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=total)
        yield lambda done: bar.update(task, completed=done)


# --- Compiling ---


@contextmanager
def show_start(console: Console) -> Iterator[None]:
    """Say on a terminal that kernels may be compiled while the block lasts."""
    if not console.is_terminal:
        yield
        return
    with console.status(Text("Getting ready; the first run on a machine compiles for up to a minute", style.LABEL)):
        yield


# --- Training ---


@contextmanager
def show_training(
    name: str, console: Console | None = None, right: str = "top-1"
) -> Iterator[Callable[[training.Progress], None]]:
    """Show a run while the block lasts; the function that it yields is to be called with every step's progress.

    ``right`` names the share that was predicted."""
    losses: list[float] = []

    def figures(progress: training.Progress) -> str:
        losses.append(progress.loss)
        return _training_words(progress, right)

    with _showing(
        name,
        "reading the records",
        console or style.Console(stderr=True),
        figures=figures,
        below=lambda progress: [LossCurve(losses)],
    ) as show:
        yield show


@contextmanager
def show_self_play(name: str, console: Console | None = None) -> Iterator[Callable[[Iteration], None]]:
    """Show a run that learns from its own games while the block lasts, with the curve of its matches against the net it
    began with and a bot; in a pipe each match is a line. The function that it yields is to be called after every
    iteration."""
    with _showing(
        name,
        "the first games",
        console or style.Console(stderr=True),
        figures=_self_play_words,
        events=lambda progress: [_match_words(match) for match in progress.ratings],
        below=lambda progress: [ShareCurve(progress.ratings)],
    ) as show:
        yield show


@contextmanager
def show_zero(name: str, console: Console | None = None) -> Iterator[Callable[[Round], None]]:
    """Show a run that learns from its own searches while the block lasts, with the curve of its Elo; in a
    pipe each match is a line. The function that it yields is to be called after every round."""
    with _showing(
        name,
        "the first games",
        console or style.Console(stderr=True),
        figures=_round_words,
        events=lambda progress: [_match_words(match) for match in progress.ratings],
        below=lambda progress: [EloCurve(progress.ratings)],
    ) as show:
        yield show


@contextmanager
def _showing(
    name: str,
    first: str,
    console: Console,
    figures: Callable[[Any], str],
    events: Callable[[Any], Sequence[str]] = lambda progress: (),
    below: Callable[[Any], list[RenderableType]] = lambda progress: [],
) -> Iterator[Callable[[Any], None]]:
    """On a terminal a bar, called ``first`` until the first progress, the figures and what is ``below``; elsewhere a
    line with the figures once in a while, and every one of the ``events`` when it is new."""
    begun = monotonic()
    if not console.is_terminal:
        written, told = begun, 0

        def write(progress: Any) -> None:
            nonlocal written, told
            lines = list(events(progress)[told:])
            told += len(lines)
            if monotonic() - written >= LINE_EVERY:
                written = monotonic()
                lines.append(figures(progress))
            with suppress(OSError, SystemExit):  # nobody reads it any more: Rich would end a run that isn't saved
                for line in lines:
                    console.print(f"{name}: {line}", soft_wrap=True, highlight=False)

        yield write
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), TimeElapsedColumn())
    bar = Progress(*columns, console=console, expand=True)
    task = bar.add_task(f"{name}: {first}", total=None)
    with Live(bar, console=console) as live:

        def draw(progress: Any) -> None:
            done, left = (monotonic() - begun) / 60, progress.minutes_left
            bar.update(task, completed=done, total=None if left is None else done + left, description=name)
            parts = Columns([Text(style.spell(part)) for part in figures(progress).split(" · ")], padding=(0, 3))
            live.update(Group(bar, parts, *below(progress)))

        yield draw


def _training_words(progress: training.Progress, right: str) -> str:
    return (
        f"{progress.rows:,} rows · {progress.rows_per_second:,.0f}/s · loss {progress.loss:.3f} · "
        f"{right} {progress.right:.1%} · waiting for data {progress.waiting:.0%}{_left(progress.minutes_left)}"
    )


def _self_play_words(progress: Iteration) -> str:
    return (
        f"{progress.iteration:,} iterations · {progress.games_per_second:.2g} games/s · against the pool "
        f"{progress.share:.0%} · entropy {progress.entropy:.2f} · from the start {progress.divergence:.3f} nats · "
        f"{progress.length:.0f} moves · Black {progress.black:.0%}{_left(progress.minutes_left)}"
    )


def _round_words(progress: Round) -> str:
    return (
        f"{progress.games:,} games · {progress.games_per_second:.3g}/s · {progress.rows:,} rows · "
        f"{progress.evaluations_per_second:,.0f} evaluations/s, {progress.net_share:.0%} of the time in the net, "
        f"batches of {progress.batch:.0f} · learns {progress.learned_per_second:,.0f} rows/s, "
        f"{progress.age:,.0f} old · "
        f"loss {progress.loss:.3f} · top-1 {progress.right:.1%} · {progress.length:.0f} moves · "
        f"Black {progress.black:.0%} at komi {progress.komi:.1f}{_left(progress.minutes_left)}"
    )


def _left(minutes: float | None) -> str:
    return "" if minutes is None else f" · {minutes:.0f} min left"


def _match_words(match: Rating) -> str:
    return (
        f"step {match.iteration:,}: {match.share:.1%} against {match.against} "
        f"({match.low:.0%} to {match.high:.0%}, {match.games} games)"
    )


@dataclass(frozen=True, slots=True)
class LossCurve:
    """The loss since the run began; a column is the mean of its steps."""

    losses: Sequence[float]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if len(self.losses) < 2 or options.max_width < NARROWEST:
            return
        columns = min(len(self.losses), options.max_width - 10)
        parts = np.array_split(np.asarray(self.losses), columns)
        means = [float(part.mean()) for part in parts]
        low, high = min(means), max(means)
        scale = Scale(low, high + max(1e-9, high - low) * 1e-3, SHARE_ROWS)
        canvas = Canvas(scale, options.max_width, {SHARE_ROWS - 1: f"{high:.3f}", 0: f"{low:.3f}"})
        for column, mean in enumerate(means[: canvas.columns]):
            canvas.put(column, mean, canvas.signs.point)
        yield from canvas.lines("loss", "")


@dataclass(frozen=True, slots=True)
class ShareCurve:
    """Shares of the points over iterations: a point each with its 95 % interval, from 0 to 100 %; half is a line. Other
    opponents than that of the first match have another sign."""

    ratings: Sequence[Rating]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.ratings or options.max_width < NARROWEST:
            return
        last = max(match.iteration for match in self.ratings)
        latest = {match.against: match for match in self.ratings}
        labels = {SHARE_ROWS - 1: "100 %", SHARE_ROWS // 2: "50 %", 0: "0 %"}
        canvas = Canvas(Scale(0.0, 1.0, SHARE_ROWS), options.max_width, labels)
        signs = canvas.signs
        points = dict(zip(latest, signs.point + signs.other * len(latest), strict=False))
        for column in range(canvas.columns):
            canvas.put(column, 0.5, signs.line)
        for match in reversed(self.ratings):
            beside = points[match.against] != signs.point  # the interval of the first match stays in sight
            column = round(match.iteration / max(1, last) * (canvas.columns - 2)) + beside
            canvas.fill(column, match.low, match.high, signs.axis)
            canvas.put(column, match.share, points[match.against])
        yield from canvas.lines("0", f"{last:,} iterations")
        for against, match in latest.items():
            yield Text(f"{points[against]} {_match_words(match)}")


@dataclass(frozen=True, slots=True)
class EloCurve:
    """Elo over the steps of a run, with 95 % intervals, measured from its first opponent; below it the latest match
    with each opponent. An arrow: the games don't bound that side."""

    ratings: Sequence[Rating]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from trainers.progress import strengths

        curve = strengths(tuple(self.ratings))
        latest = {match.against: match for match in self.ratings}
        if curve and options.max_width >= NARROWEST:
            values = [end for elo in curve.values() for end in elo.known]
            canvas = Canvas(Scale.over([*values, 0.0], SHARE_ROWS), options.max_width)
            last = max(curve)
            for step, elo in curve.items():
                canvas.put_estimate(round(step / max(1, last) * (canvas.columns - 1)), elo, canvas.signs.point)
            yield from canvas.lines("0", f"{last:,} steps")
            yield Text(style.spell(f"Elo {curve[last]}; 0 is {next(iter(latest))}"))
        for match in latest.values():
            yield Text(_match_words(match))


SIGNS = {Verdict.OK: "✓", Verdict.NOTE: "!", Verdict.FAILED: "✗"}
STYLES = {Verdict.OK: "", Verdict.NOTE: style.WARNING, Verdict.FAILED: style.WARNING}

VERDICTS, STEPS = 9, 10


def show_check(name: str, findings: Iterable[Finding], console: Console) -> Verdict:
    """Show what is found as it comes, a line each, and return the worst."""
    worst = Verdict.OK
    console.print(Text(style.spell(name), "bold"))
    with console.status(""):
        for found in findings:
            worst = max(worst, found.verdict, key=list(Verdict).index)
            _print(found, console)
    return worst


def _print(found: Finding, console: Console) -> None:
    """A line, on a terminal as many as it takes, and what belongs below it."""
    details = [Text(style.spell(f"    {line}"), style.LABEL) for line in found.details.splitlines()]
    words = (f"  {SIGNS[found.verdict]} {found.verdict}", found.step, style.spell(found.text))
    if not console.is_terminal:
        line = f"{words[0]:{VERDICTS + 2}}{words[1]:{STEPS}}{words[2]}"
        console.print(line, *details, sep="\n", soft_wrap=True, markup=False, highlight=False)
        return
    grid = Table.grid(padding=0)
    grid.add_column(width=VERDICTS + 2)
    grid.add_column(width=STEPS)
    grid.add_column(overflow="fold")
    text = STYLES[found.verdict]
    grid.add_row(Text(words[0], text), Text(words[1], style.LABEL), Text(words[2]))
    console.print(grid)
    for detail in details:  # the terminal breaks what is too long, so that it can be copied whole
        console.print(detail, soft_wrap=True)
