"""A person's game on the whole terminal: the loop that keeps the screen alive while bots think and keys come.

What is done by a key is ``seat``'s, how it looks ``play_frame``'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from arena.go.game import Game
from arena.people.counting import estimated
from arena.people.kifu import Phase
from arena.people.sitting import Sitting
from arena.screen import style
from arena.screen.board import DARK, Theme
from arena.screen.plain_play import Lines, show_plainly
from arena.screen.seat import Seat
from arena.screen.sentences import Manner, result_words
from arena.screen.terminal import Gone, Mouse, Paste, Press, Stage, has_stage
from arena.screen.viewer import Evaluate, Review, show_review

STARTING = "Getting ready; the first time, compiling takes up to a minute."


def sit_down(
    sitting: Sitting,
    console: Console,
    lines: Lines,
    *,
    plain: bool = False,
    ascii_only: bool = False,
    kept: Path | None = None,
    evaluate: Evaluate | None = None,
    theme: Theme = DARK,
) -> None:
    """Let people play in the way that suits where they are: on the whole terminal, or in words with ``plain`` and in a
    pipe. Returns when the game is over, or left. The rest is as for ``show_sitting``."""
    ascii_only = ascii_only or console.options.ascii_only
    if has_stage(console) and not plain:
        show_sitting(sitting, console, kept=kept, evaluate=evaluate, theme=theme, ascii_only=ascii_only)
    else:
        show_plainly(sitting, console, Manner(plain, not plain, ascii_only, console.width, kept), lines)


def show_sitting(
    sitting: Sitting,
    console: Console,
    *,
    kept: Path | None = None,
    evaluate: Evaluate | None = None,
    theme: Theme = DARK,
    ascii_only: bool = False,
) -> None:
    """Let a person play, to the end and as long as it is looked at, or until he leaves or the terminal is gone.

    ``kept`` is the game's file; ``evaluate`` is asked for a review after the end. Ctrl-C comes through as
    KeyboardInterrupt, a signal to end as SystemExit; whatever comes, the game is as the sitting has kept it.
    """
    seat = Seat(sitting, kept=kept, can_review=evaluate is not None, theme=theme, ascii_only=ascii_only)
    with Stage(console, sitting.pause, sitting.go_on) as stage:
        sitting.subscribe(lambda: stage.tell(None))
        seat.message = STARTING
        stage.draw(seat.picture(*stage.size).lines)
        sitting.pause()
        estimated(Game(seat.snapshot.rules), playouts=2)  # a compiler at work would leave the screen dead later
        sitting.go_on()
        seat.message = ""
        while _play(seat, stage) and evaluate is not None:
            people = seat.snapshot.people
            whose = people[0] if len(people) == 1 else None
            review = Review(sitting.record(), whose, theme=theme, ascii_only=ascii_only)
            if not show_review(review, evaluate, stage):
                break
    if seat.snapshot.phase is Phase.OVER:
        console.print(Text(style.spell(result_words(seat.snapshot), ascii_only)))


def _play(seat: Seat, stage: Stage) -> bool:
    """Let a person play until he wants to review the game (True) or to leave."""
    picture = seat.picture(*stage.size)
    while not seat.wants_review:
        seat.look()
        if not stage.is_behind:
            picture = seat.picture(*stage.size)
            stage.draw(picture.lines)
        typed: Any = stage.next(seat.patience)
        if isinstance(typed, Press | Paste | Mouse | Gone) and not seat.do(typed, picture):
            return False
    seat.wants_review = False
    return True
