"""The lessons on a terminal or in a pipe, a screen each, and the first game. What is taught isn't here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from arena import IllegalMove
from arena.contract.bot import Bot, Limits
from arena.go.game import Game
from arena.go.moves import BLACK, WHITE, Move, move_from_gtp, pass_move
from arena.people.tutorial import LESSONS, RULES, SIZE, Lesson, counted, described, played, reply
from arena.screen import style
from arena.screen.board import draw_board

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
            text = Text(style.spell(words, self.console.options.ascii_only), style_name)
            self.console.print(text, width=min(LONGEST_LINE, self.console.width))

    def show(self, game: Game, last: Move | None = None) -> None:
        self.console.print()
        if self.plain:
            self.say(described(game))
            return
        ascii_only = self.console.options.ascii_only
        for line in draw_board(game.board.stones, last, ascii_only=ascii_only):
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
                _heard(talk, "Enter goes on. ", number + 1)
            return number + 1
        talk.say(*said.words)


def play(talk: Talk, bot: Bot, name: str, seed: int) -> Game:
    """A game on the board of the lessons, the person as Black. Raises Left."""
    game = Game(RULES, seed)
    talk.console.print()
    talk.say("A game", style_name="bold")
    talk.console.print()
    talk.say(
        f"You are Black, {name} is White, komi is {RULES.komi:g}. Type a point, pass or resign; quit leaves. "
        "The middle is a good beginning."
    )
    talk.show(game)
    while not game.is_over:
        answer = _heard(talk, "Your move: ", len(LESSONS) + 1).lower()
        if answer == "resign":
            game.resign(BLACK)
            break
        if answer in ("", "help", "?"):
            talk.say("Type a point such as C3, pass, resign or quit.")
            continue
        try:
            words = [played(game, move_from_gtp(answer, SIZE))]
        except ValueError as error:
            talk.say(f"{error}.")
            continue
        except IllegalMove as error:
            talk.say(f"That is forbidden: {error}.")
            continue
        if not game.is_over:
            decision = bot.choose(game, Limits())
            if decision.move is None:
                game.resign(WHITE)
                words.append("White resigns.")
            else:
                words.append(played(game, decision.move))
        last = game.moves[-1] if game.moves and game.moves[-1] != pass_move(SIZE) else None
        talk.show(game, last)
        talk.say(" ".join(words))
    talk.say(_ended(game))
    return game


def _ended(game: Game) -> str:
    outcome = game.outcome
    if outcome is None or outcome.margin is not None:
        return f"The game is over. {counted(game)}"
    return "You resign: White has won." if outcome.winner is WHITE else "You have won."


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
