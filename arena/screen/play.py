"""A person's game on the whole terminal: the loop that keeps the screen alive while bots think and keys come.

What is done by a key is ``seat``'s, how it looks ``play_frame``'s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class Look:
    """How a game is shown: ``plain`` in words, else in which characters and colours."""

    plain: bool = False
    ascii_only: bool = False
    theme: Theme = DARK


DEFAULT = Look()


def sit_down(
    sitting: Sitting,
    console: Console,
    lines: Lines,
    look: Look = DEFAULT,
    *,
    kept: Path | None = None,
    evaluate: Evaluate | None = None,
) -> None:
    """Let people play in the way that suits where they are: on the whole terminal, or in words with ``plain`` and in a
    pipe. Returns when the game is over, or left.

    ``kept`` is the game's file; ``evaluate`` is asked for a review after the end. Ctrl-C comes through as
    KeyboardInterrupt, a signal to end as SystemExit; whatever comes, the game is as the sitting has kept it.
    """
    look = replace(look, ascii_only=look.ascii_only or console.options.ascii_only)
    if has_stage(console) and not look.plain:
        _show(sitting, console, look, kept, evaluate)
    else:
        manner = Manner(look.plain, not look.plain, look.ascii_only, console.width, kept)
        show_plainly(sitting, console, manner, lines)


def _show(sitting: Sitting, console: Console, look: Look, kept: Path | None, evaluate: Evaluate | None) -> None:
    """Play on the whole terminal, as long as the game is looked at or until the terminal is gone."""
    theme, ascii_only = look.theme, look.ascii_only
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
