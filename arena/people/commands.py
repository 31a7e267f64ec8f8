"""The words that a person can type in a game, and what they do to its session."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from arena.contract.settings import suggest
from arena.go.coords import Move, gtp_from_move, move_from_gtp
from arena.people.saved_game import Phase
from arena.people.session import ActionRefused, GameSession

LONGEST_ECHO = 40  # characters of a wrong line that are repeated


@dataclass(frozen=True, slots=True)
class Command:
    """A word that can be typed in some phases; the method of the session and the key that do the same."""

    word: str
    help: str
    phases: tuple[Phase, ...]
    carry_out: Callable[[GameSession], None] | None = None
    key: str = ""


PLAY, COUNT, OVER = Phase

COMMANDS = (
    Command("help", "these commands", tuple(Phase), key="question_mark"),
    Command("d4", "play there", (PLAY,)),
    Command("d4", "the group is dead, or alive", (COUNT,)),
    Command("done", "agree, and count", (COUNT,), GameSession.accept, "ctrl+d"),
    Command("continue", "take the passes back", (COUNT,), GameSession.play_on, "ctrl+o"),
    Command("hint", "the bot's best moves", (PLAY,), GameSession.hint, "exclamation_mark"),
    Command("score", "estimate the score", (PLAY,), GameSession.score, "equals_sign"),
    Command("undo", "take back your last move", (PLAY, COUNT), GameSession.undo, "ctrl+u"),
    Command("pass", "two passes end the game", (PLAY,), GameSession.pass_turn, "ctrl+p"),
    Command("board", "show the position", (PLAY, COUNT)),
    Command("resign", "resign the game", (PLAY, COUNT), GameSession.resign, "ctrl+r"),
    Command("rematch", "play another game, colours changed", (OVER,), key="n"),
    Command("review", "step through the game while a bot analyses it", (OVER,), key="r"),
    Command("quit", "leave (q); play --resume continues", tuple(Phase), key="ctrl+q"),
)

UNRATED = "Undo, hints and scores make a game unrated."

QUESTIONS = {
    "resign": "Resign the game?",
    "hint": "A hint makes this game unrated.",
    "score": "A score makes this game unrated.",
}
"""Asked before these commands; for hint and score only in a rated game."""


def command_words(phase: Phase) -> dict[str, str]:
    """The commands of a phase and what they do."""
    return {command.word: command.help for command in COMMANDS if phase in command.phases}


class Left(Exception):
    """The person has left."""


class CommandReader:
    """Carries out typed lines. ``own`` are commands that the screen carries out. ``confirm`` tells how to confirm, such
    as "Press y"; if it is empty, nothing is confirmed. ``question`` is the command to be confirmed."""

    def __init__(self, session: GameSession, own: Mapping[str, Callable[[], str | None]], confirm: str):
        self._session, self._own, self._confirm = session, own, confirm
        self.question = ""

    def apply(self, line: str) -> str:
        """Carry out a line and return a message, often an empty one. Raises ActionRefused, IllegalMove, and Left."""
        typed = " ".join(line.split())
        word, asked, self.question = {"q": "quit", "?": "help"}.get(typed.lower(), typed.lower()), self.question, ""
        now = self._session.snapshot()
        if asked and not word:
            return ""
        if asked and word in ("y", "yes"):
            word = asked
        elif self._confirm and word in QUESTIONS and not now.is_over:
            if word == "resign" or (not (now.unrated or now.is_of_event) and now.phase is PLAY):
                self.question = word
                return f"{QUESTIONS[word]} {self._confirm} to go ahead; anything else plays on."
        command = next((each for each in COMMANDS if each.word == word), None)
        if word == "quit":
            raise Left
        if command is not None and command.phases == (OVER,) and not now.is_over:
            raise ActionRefused(f"A {word} is available when the game is over.")
        if word in self._own:
            return self._own[word]() or ""
        if command is not None and command.carry_out is not None:
            command.carry_out(self._session)
        else:
            self.choose(self._read_point(typed))
        return ""

    def choose(self, move: Move) -> None:
        """Play there; while dead stones are marked, change the group there."""
        is_counted = self._session.snapshot().phase is COUNT
        (self._session.toggle if is_counted else self._session.play)(move)

    def _read_point(self, typed: str) -> Move:
        """Raises ActionRefused."""
        size, word = self._session.snapshot().size, "".join(typed.lower().split())
        with suppress(ValueError):
            return move_from_gtp(word, size)
        typed = typed if len(typed) <= LONGEST_ECHO else f"{typed[: LONGEST_ECHO - 1]}…"
        last = gtp_from_move(size - 1, size)
        if re.fullmatch(r"[a-z]\d{1,2}", word):
            no_i = "; the letter I is left out" if word[0] == "i" else ""
            raise ActionRefused(f"There is no point {typed.upper()} on this board, which goes from A1 to {last}{no_i}.")
        meant = suggest(word, [command.word for command in COMMANDS if command.word.isalpha()])
        raise ActionRefused(f"'{typed}' is not a point (A1 to {last}) or a command{meant or '; help lists them.'}")
