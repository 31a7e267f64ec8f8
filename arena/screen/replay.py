"""Shows how far games are that are played again, and what came of it. Nothing is played here."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from arena.events.runner import Update
from arena.go.record import Record
from arena.results.replay import Comparison
from arena.screen import style
from arena.screen.dossier import print_position


def show_replay(
    stored: Mapping[str, Record], updates: Generator[Update, None, None], console: Console, show: bool = False
) -> list[Comparison]:
    """Show games by their ids as they are played again, with ``show`` the position where each ends or differs. With
    several, a line for each that differs."""
    compared = []
    with _bar(console) as bar:
        task = bar.add_task("", total=sum(len(record.moves) for record in stored.values()))
        far: dict[str, int] = {}
        for update in updates:
            for glance in update.glances:
                far[glance.pairing.id] = min(len(glance.moves), len(stored[glance.pairing.id].moves))
            for again in update.records:
                assert isinstance(again, Record)  # nothing was played before
                found = Comparison.of(stored[again.id], again)
                far[again.id] = len(found.stored.moves)
                compared.append(found)
                if len(stored) == 1 or not found.is_identical:
                    _print(f"{again.id}  {found}", bar.console)
                if show:
                    print_position(found.again, found.common, bar.console)
            words = f"{len(compared)} of {len(stored)} games" if len(stored) > 1 else "move"
            bar.update(task, completed=sum(far.values()), description=words)
    return compared


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _print(words: str, console: Console) -> None:
    console.print(Text(style.spell(words, console.options.ascii_only)), soft_wrap=not console.is_terminal)
