"""Shows a finished game: stepped through at a terminal, as a diagram elsewhere. What is seen comes from its viewer."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from arena.screen import style
from arena.screen.steps import move_lines
from arena.screen.terminal import Gone, Stage
from arena.screen.viewer import Viewer


def step_through(viewer: Viewer, stage: Stage) -> None:
    """Let a person look at a game, until he has enough of it or the terminal is gone."""
    picture = viewer.scene().fit(*stage.size)
    while True:
        if not stage.is_behind:
            picture = viewer.scene().fit(*stage.size)
            stage.draw(picture.lines)
        typed = stage.next()
        if isinstance(typed, Gone) or (typed is not None and not viewer.do(typed, picture)):
            return


def print_game(viewer: Viewer, console: Console) -> None:
    """The position as a diagram, what is known of it, and the moves that led to it."""
    width = console.width
    lines = [*viewer.title(width), Text(), *viewer.board(), Text(), *viewer.facts(width)]
    if viewer.remark.comment:
        lines += [Text(), *(Text(style.spell(line, viewer.ascii_only)) for line in viewer.remark.comment.splitlines())]
    for line in lines:
        console.print(line, soft_wrap=not console.is_terminal)
    if viewer.number:
        console.print()
    for words in move_lines(viewer.record, 0, viewer.number, width):
        console.print(Text(style.spell(words, viewer.ascii_only)))
