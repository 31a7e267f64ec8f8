"""What can be typed at a game: one table of commands for the full screen, the plain prompt and the pipe.

Nothing is drawn here; the game itself is the sitting's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from os.path import expanduser
from pathlib import Path

from arena.contract.settings import suggest
from arena.go.moves import Move, gtp_from_move, move_from_gtp
from arena.people.kifu import Phase
from arena.people.sitting import Refused, Sitting
from arena.screen import style

LONGEST_ECHO = 40
"""Characters of a wrong line that are repeated."""

_POINT = re.compile(r"[a-z]\d{1,2}")

POINT = "d4"
"""What stands for all points in the lists."""

PLAYING = {
    POINT: "play there",
    "pass": "two passes end the game",
    "undo": "take back your last move",
    "hint": "the bot's best moves",
    "score": "who will have what",
    "board": "show the position",
    "resign": "give up the game",
    "save": "where it is kept",
    "save FILE": "write a copy",
    "quit": "leave; play --resume goes on",
    "help": "these commands",
}
"""The commands and what they do."""

COUNTING = {
    POINT: "the group is dead, or alive",
    "done": "agree, and count",
    "continue": "take the passes back",
    **{name: PLAYING[name] for name in ("undo", "board", "resign", "save", "quit", "help")},
}
"""The same while dead stones are marked."""

UNRATED = "With undo, hints or scores, a game counts for no rating."


class Left(Exception):
    """The person has left."""


class Commands:
    """Carries out what is typed. ``more`` are the commands of one front, by their words."""

    def __init__(self, sitting: Sitting, kept: Path | None = None, more: Mapping[str, Callable[[], str | None]] = {}):
        """``kept`` is the game's file."""
        self._sitting = sitting
        self._kept = kept
        self._table: dict[str, Callable[[], str | None]] = {
            "pass": sitting.pass_turn,
            "undo": sitting.undo,
            "hint": sitting.hint,
            "score": sitting.score,
            "resign": sitting.resign,
            "done": sitting.accept,
            "accept": sitting.accept,
            "continue": sitting.play_on,
            "save": self._where,
            "quit": _leave,
            "exit": _leave,
            **more,
        }

    def obey(self, line: str) -> str:
        """Carry out a line. Returns what there is to say, often nothing. Raises Refused or IllegalMove with a sentence
        on what can't be done, and Left when the person leaves."""
        typed = " ".join(line.split())
        command = self._table.get(typed.lower())
        if command is not None:
            return command() or ""
        if typed.lower().startswith("save "):
            return self._save(Path(expanduser(typed[5:])))
        self.choose(self.point(typed))
        return ""

    def choose(self, move: Move) -> None:
        """Place a stone there; while dead stones are marked, let the group there die or live."""
        if self._sitting.snapshot().phase is Phase.COUNT:
            self._sitting.toggle(move)
        else:
            self._sitting.play(move)

    def point(self, typed: str) -> Move:
        """The point that was typed. Raises Refused."""
        size = self._sitting.snapshot().size
        word = "".join(typed.lower().split())
        try:
            return move_from_gtp(word, size)
        except ValueError:
            pass
        typed, last = style.clip(typed, LONGEST_ECHO), gtp_from_move(size - 1, size)
        if _POINT.fullmatch(word):
            no_i = "; the letter I is left out" if word[0] == "i" else ""
            raise Refused(f"There is no point {typed.upper()} on this board, which goes from A1 to {last}{no_i}.")
        meant = suggest(word, [name for name in self._table | COUNTING | PLAYING if name.isalpha()])
        raise Refused(f"'{typed}' is not a point (A1 to {last}) or a command{meant or '; help lists them.'}")

    def _where(self) -> str:
        if trouble := self._sitting.snapshot().trouble:
            return trouble
        return f"The game is kept{f' in {self._kept}' if self._kept else ''} after every move."

    def _save(self, path: Path) -> str:
        """Write a copy of the game as it stands."""
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(self._sitting.record().to_sgf() + "\n")
        except OSError as error:
            return f"{path} can't be written: {error.strerror}."
        return f"Written to {path}."


def _leave() -> None:
    raise Left


def listed(commands: Mapping[str, str]) -> str:
    """A line for each command and what it does."""
    wide = max(map(len, commands))
    return "\n".join(f"{name:<{wide}}  {what}" for name, what in commands.items())
