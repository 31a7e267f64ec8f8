"""Shows a training run: one bar with rows, speed, loss and accuracy; plain lines where there is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol

from rich.console import Console, Group
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
    columns = (SpinnerColumn(), BarColumn(bar_width=20), TimeElapsedColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=console)
    task = bar.add_task(f"{name}: reading the records", total=None)
    begun = monotonic()
    with Live(bar, console=console) as live:

        def draw(progress: Training) -> None:
            done = (monotonic() - begun) / 60
            total = None if progress.minutes_left is None else done + progress.minutes_left
            bar.update(task, completed=done, total=total, description=name)
            figures = Text(style.spell(_text(progress, right), console.options.ascii_only), overflow="fold")
            live.update(Group(bar, figures))

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
