"""Shows a training run: one bar with rows, speed, loss and accuracy, or the curve of a net that plays against itself;
plain lines where there is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from arena.screen import style
from arena.screen.chart import Canvas, Scale

SHARE_ROWS = 11
"""Lines of the curve of shares: an odd number, so that one half has a line."""

NARROWEST = 16
"""Columns below which no curve is drawn."""

LINE_EVERY = 30.0
"""Seconds between two plain lines."""


class Training(Protocol):
    """What a trainer tells of its progress."""

    @property
    def rows(self) -> int: ...
    @property
    def rows_per_second(self) -> float: ...
    @property
    def loss(self) -> float: ...
    @property
    def right(self) -> float: ...
    @property
    def minutes_left(self) -> float | None: ...
    @property
    def waiting(self) -> float: ...


def _text(progress: Training, right: str) -> str:
    left = "" if progress.minutes_left is None else f" · {progress.minutes_left:.0f} min left"
    return (
        f"{progress.rows:,} rows · {progress.rows_per_second:,.0f}/s · loss {progress.loss:.3f} · "
        f"{right} {progress.right:.1%} · waiting for data {progress.waiting:.0%}{left}"
    )


@contextmanager
def show_training(
    name: str, console: Console | None = None, right: str = "top-1"
) -> Iterator[Callable[[Training], None]]:
    """Show a run while the block lasts; the function that it gives is to be called with every step's progress.

    ``right`` names the share that was foreseen."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        written = monotonic()

        def write(progress: Training) -> None:
            nonlocal written
            if monotonic() - written >= LINE_EVERY:
                written = monotonic()
                console.print(f"{name}: {_text(progress, right)}", soft_wrap=True, highlight=False)

        yield write
        return
    with _bar(f"{name}: reading the records", name, console) as show:

        def draw(progress: Training) -> None:
            text = style.spell(_text(progress, right), console.options.ascii_only)
            show(progress.minutes_left, Text(text, overflow="fold"))

        yield draw


@contextmanager
def _bar(first: str, name: str, console: Console) -> Iterator[Callable[[float | None, RenderableType], None]]:
    """A bar and a clock while the block lasts, called ``first`` at first; the function that it gives shows the run
    ``name`` with so many minutes left, where they are known, and what is to stand below."""
    columns = (SpinnerColumn(), BarColumn(bar_width=20), TimeElapsedColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=console)
    task = bar.add_task(first, total=None)
    begun = monotonic()
    with Live(bar, console=console) as live:

        def show(minutes_left: float | None, below: RenderableType) -> None:
            done = (monotonic() - begun) / 60
            total = None if minutes_left is None else done + minutes_left
            bar.update(task, completed=done, total=total, description=name)
            live.update(Group(bar, below))

        yield show


# --- Self-play ---


class Match(Protocol):
    """A match against the first net, or a bot."""

    @property
    def iteration(self) -> int: ...
    @property
    def against(self) -> str: ...
    @property
    def games(self) -> int: ...
    @property
    def share(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


class SelfPlay(Protocol):
    """What a trainer tells of its progress that plays against itself."""

    @property
    def iteration(self) -> int: ...
    @property
    def games_per_second(self) -> float: ...
    @property
    def share(self) -> float: ...
    @property
    def entropy(self) -> float: ...
    @property
    def divergence(self) -> float: ...
    @property
    def length(self) -> float: ...
    @property
    def black(self) -> float: ...
    @property
    def minutes_left(self) -> float | None: ...
    @property
    def ratings(self) -> Sequence[Match]: ...


def _self_play_text(progress: SelfPlay) -> str:
    left = "" if progress.minutes_left is None else f" · {progress.minutes_left:.0f} min left"
    return (
        f"{progress.iteration:,} iterations · {progress.games_per_second:.2g} games/s · against the pool "
        f"{progress.share:.0%} · entropy {progress.entropy:.2f} · from the start {progress.divergence:.3f} nats · "
        f"{progress.length:.0f} moves · Black {progress.black:.0%}{left}"
    )


def _match_text(match: Match) -> str:
    return (
        f"iteration {match.iteration:,}: {match.share:.1%} against {match.against} "
        f"({match.low:.0%} to {match.high:.0%}, {match.games} games)"
    )


@dataclass(frozen=True, slots=True)
class ShareCurve:
    """Shares of the points over iterations: a point each with its 95 % interval, from 0 to 100 %; half is a line. Who
    else it played than in the first match stands beside it with another sign."""

    ratings: Sequence[Match]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.ratings or options.max_width < NARROWEST:
            return
        last = max(match.iteration for match in self.ratings)
        latest = {match.against: match for match in self.ratings}
        labels = {SHARE_ROWS - 1: "100 %", SHARE_ROWS // 2: "50 %", 0: "0 %"}
        canvas = Canvas(Scale(0.0, 1.0, SHARE_ROWS), options.max_width, options.ascii_only, labels)
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
            yield Text(style.spell(f"{points[against]} {_match_text(match)}", options.ascii_only), overflow="fold")


@contextmanager
def show_self_play(name: str, console: Console | None = None) -> Iterator[Callable[[SelfPlay], None]]:
    """Show a run that learns from its own games while the block lasts: a line of figures and the curve of its matches
    against the net it began with and a bot; plain lines where there is no terminal. The function that it gives is to be
    called after every iteration."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        written, matches = monotonic(), 0

        def write(progress: SelfPlay) -> None:
            nonlocal written, matches
            for match in progress.ratings[matches:]:
                console.print(f"{name}: {_match_text(match)}", soft_wrap=True, highlight=False)
            matches = len(progress.ratings)
            if monotonic() - written >= LINE_EVERY:
                written = monotonic()
                console.print(f"{name}: {_self_play_text(progress)}", soft_wrap=True, highlight=False)

        yield write
        return
    with _bar(f"{name}: the first games", name, console) as show:

        def draw(progress: SelfPlay) -> None:
            text = style.spell(_self_play_text(progress), console.options.ascii_only)
            show(progress.minutes_left, Group(Text(text, overflow="fold"), ShareCurve(progress.ratings)))

        yield draw


@contextmanager
def show_counting(name: str, total: int, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """Show work that is counted while the block lasts; the function that it gives is to be called with what is done."""
    console = console or Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=total)
        yield lambda done: bar.update(task, completed=done)
