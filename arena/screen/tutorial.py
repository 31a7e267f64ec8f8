"""The lessons on a terminal or in a pipe, a screen each, and the first game. What is taught isn't here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from arena.contract.bot import Bot
from arena.go.game import Game
from arena.go.moves import BLACK, WHITE, Move
from arena.go.record import Record
from arena.people.kifu import Kifu
from arena.people.sitting import Opponent, Sitting
from arena.people.tutorial import LESSONS, RULES, Lesson, described, reply
from arena.screen import style
from arena.screen.board import draw_board
from arena.screen.plain_play import Lines
from arena.screen.play import Look, sit_down

LONGEST_LINE = 76
"""Columns of text that are pleasant to read."""


class Left(Exception):
    """The person has left, or the input has ended, at this screen."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


@dataclass(frozen=True, slots=True)
class Talk:
    """Where the lessons are shown and answered. ``ask`` gets a prompt and returns a line; it raises EOFError at the end
    of the input. ``plain`` says each position in words instead of drawing it; ``waits`` has a person turn the pages."""

    console: Console
    ask: Callable[[str], str]
    plain: bool = False
    waits: bool = False

    def say(self, *paragraphs: str, style_name: str = "") -> None:
        for words in paragraphs:
            self.console.print(
                Text(style.spell(words), style_name), width=min(LONGEST_LINE, self.console.width), soft_wrap=False
            )

    def show(self, game: Game, last: Move | None = None) -> None:
        self.console.print()
        if self.plain:
            self.say(described(game))
            return
        for line in draw_board(game.board.stones, last):
            self.console.print(line)
        self.console.print()


def teach(talk: Talk, first: int = 1) -> None:
    """The lessons from number ``first`` on. Raises Left."""
    number = first
    while number <= len(LESSONS):
        number = _lesson(talk, number, LESSONS[number - 1])


def _lesson(talk: Talk, number: int, lesson: Lesson) -> int:
    """One screen; returns the number of the next."""
    talk.console.print()
    talk.say(f"{number} of {len(LESSONS)}: {lesson.title}", style_name="bold")
    talk.console.print()
    talk.say(*lesson.words)
    talk.show(lesson.game())
    talk.say(lesson.task, style_name=style.FIRST)
    while True:
        answer = _heard(talk, "> ", number)
        match answer.lower():
            case "skip" | "next" | "n":
                return number + 1
            case "back" | "b":
                return max(1, number - 1)
            case "" | "help" | "hint" | "?":
                talk.say(lesson.hint, "Or: skip, back, quit.")
                continue
        said = reply(lesson, answer)
        if said.is_right:
            if said.game.moves:
                talk.show(said.game, said.game.moves[-1])
            talk.say(*said.words)
            if talk.waits:
                _heard(talk, "Enter continues. ", number + 1)
            return number + 1
        talk.say(*said.words)


def play(talk: Talk, bot: Bot, name: str, seed: int, lines: Lines) -> None:
    """A game on the board of the lessons, the person as Black; it isn't kept. Raises Left."""
    talk.console.print()
    talk.say("A game", style_name="bold")
    talk.console.print()
    talk.say(f"You are Black, {name} is White, and komi is {RULES.komi:g}. The middle is a good beginning.")
    record = Record(RULES, (), None, black="beginner", white=name, seed=seed)
    with Sitting(Kifu(record, (BLACK,)), {WHITE: Opponent(bot)}) as sitting:
        sit_down(sitting, talk.console, lines, Look(talk.plain))
        if not sitting.snapshot().is_over:
            raise Left(len(LESSONS) + 1)


def _heard(talk: Talk, prompt: str, number: int) -> str:
    try:
        answer = talk.ask(prompt).strip()
    except EOFError:
        talk.console.print()
        raise Left(number) from None
    if answer.lower() in ("quit", "exit", "q"):
        raise Left(number)
    return answer


def farewell(talk: Talk, words: Sequence[str]) -> None:
    talk.console.print()
    talk.say(*words)
