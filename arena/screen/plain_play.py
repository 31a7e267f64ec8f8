"""A sitting without pictures: every change said in words, every command typed. For pipes, for terminals of any width
and for screen readers.

The board is drawn as plain text where that is wished for, or told row by row.
"""

from __future__ import annotations

import queue
import re
from collections.abc import Callable
from dataclasses import replace
from os.path import expanduser
from pathlib import Path
from threading import Thread
from typing import TextIO

from rich.console import Console
from rich.text import Text

from arena import IllegalMove
from arena.contract.settings import suggest
from arena.go.moves import GTP_COLUMNS, move_from_gtp
from arena.people.sitting import Refused, Sitting
from arena.people.snapshot import Phase, Snapshot
from arena.screen import style
from arena.screen.sentences import (
    Manner,
    advice_words,
    count_words,
    dead_words,
    drawn,
    estimate_words,
    introduction,
    listed,
    result_words,
    sentence,
    side,
    some,
    time_left,
    told,
)

LONGEST_ECHO = 40
"""Signs of a wrong line that are said again."""

SLOW = 1.0
"""Seconds after which it is said that the bot thinks."""

_POINT = re.compile(r"[a-z]\d{1,2}")

COMMANDS = {
    "d4": "play there: a letter and a number, as on the board",
    "pass": "leave your turn out; two passes end the game",
    "undo": "take back your last move and the answer (unrated then)",
    "hint": "what a bot would play (unrated then)",
    "score": "how the game would come out (unrated then)",
    "board": "the position; board on, or board off: after every answer",
    "resign": "give the game up",
    "save": "where the game is kept; save FILE: a copy of it",
    "quit": "leave; arena play --resume goes on",
    "help": "these commands",
}

COUNTING = {
    "d4": "the group there is alive, or dead after all",
    "done": "agree, and count",
    "continue": "take the passes back and play on",
    **{name: COMMANDS[name] for name in ("undo", "board", "resign", "save", "quit", "help")},
}


def show_plainly(sitting: Sitting, console: Console, manner: Manner, lines: TextIO) -> None:
    """Play a sitting until it is over, the person leaves or the input ends.

    At a terminal, commands are heard while the bot thinks, too; from a pipe, each when the one before is done.
    """
    talk = Talk(sitting, _sayer(console, manner.ascii_only), manner)
    talk.begin()
    if lines.isatty():
        _converse(sitting, talk, console, lines)
        return
    while True:
        sitting.wait(_is_settled)
        talk.report()
        line = "" if sitting.snapshot().phase is Phase.OVER else lines.readline()
        if not line or not talk.obey(line):
            return


def _is_settled(now: Snapshot) -> bool:
    """Whether nothing is under way that a person would wait for."""
    looks = now.phase is Phase.COUNT and now.dead is None
    return now.thinking is None and not now.advising and not now.estimating and not looks


def _converse(sitting: Sitting, talk: Talk, console: Console, lines: TextIO) -> None:
    """What happens and what is typed come as they come."""
    heard: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    sitting.subscribe(lambda: heard.put(None))

    def listen() -> None:
        while line := lines.readline():
            heard.put(line)
        heard.put("")

    Thread(target=listen, name="lines", daemon=True).start()
    prompted = False
    while True:
        if talk.has_news:
            if prompted:
                console.print()
            prompted = False
            talk.report()
        now = sitting.snapshot()
        if now.phase is Phase.OVER:
            return
        if not prompted and _is_settled(now):
            console.print(talk.prompt, end="", markup=False, highlight=False)
            prompted = True
        try:
            line = heard.get(timeout=SLOW)
        except queue.Empty:
            sitting.tick()
            talk.say_who_thinks()
            continue
        if line is not None:
            prompted = False
            if not line or not talk.obey(line):
                return


def _sayer(console: Console, ascii_only: bool) -> Callable[[str], None]:
    ascii_only = ascii_only or console.options.ascii_only

    def say(text: str) -> None:
        for line in text.split("\n"):
            console.print(Text(style.spell(line, ascii_only)), soft_wrap=not console.is_terminal)

    return say


class Talk:
    """Says what has happened in a sitting since it was last asked, and carries out what is typed."""

    def __init__(self, sitting: Sitting, say: Callable[[str], None], manner: Manner):
        self._sitting = sitting
        self._say = say
        self._manner = manner
        self._told = sitting.snapshot()
        self._thinks = -1  # the number of turns when it was said that the bot thinks

    def begin(self) -> None:
        """What is played, and what was played so far."""
        now = self._told
        self._say(introduction(now))
        goes_on = any(turn.colour in now.people for turn in now.turns)  # else the bot was quick to begin
        if goes_on:
            self._say(f"It goes on after move {len(now.turns)}. {sentence(now.turns[-1], now.size)}")
        self._say("Type a point such as d4, or: pass, undo, hint, score, board, resign, save, quit, help.")
        if goes_on or (not now.turns and (now.handicap or self._manner.with_board)):
            self._show(now)
        turns = now.turns if goes_on else ()
        self._told = replace(now, turns=turns, phase=Phase.PLAY, outcome=None, version=now.version - 1)
        self.report()

    @property
    def has_news(self) -> bool:
        return self._sitting.snapshot().version != self._told.version

    @property
    def prompt(self) -> str:
        now = self._sitting.snapshot()
        if now.phase is Phase.COUNT:
            return "dead stones: "
        clock = now.clocks[now.to_play - 1]
        left = "" if clock is None else f", {time_left(clock.seconds, clock.stones)}"
        return f"{side(now.to_play)}, move {len(now.turns) + 1}{left}: "

    def say_who_thinks(self) -> None:
        now = self._sitting.snapshot()
        if now.thinking is not None and self._thinks != len(now.turns):
            self._thinks = len(now.turns)
            self._say(f"{now.name(now.thinking)} thinks.")

    def report(self) -> None:
        """Say all that has changed."""
        before, now = self._told, self._sitting.snapshot()
        self._told = now
        common = next(
            (index for index, pair in enumerate(zip(before.turns, now.turns, strict=False)) if pair[0] != pair[1]),
            min(len(before.turns), len(now.turns)),
        )
        if common < len(before.turns):
            back = len(before.turns) - common
            self._say(f"{some(back, 'move')} taken back. {side(now.to_play)} is to play move {len(now.turns) + 1}.")
        for turn in now.turns[common:]:
            self._say(sentence(turn, now.size))
        if now.unrated != before.unrated and now.helps != before.helps and now.phase is not Phase.OVER:
            self._say(f"The game is unrated now ({now.unrated}).")
        answered = now.turns[common:] and now.turns[-1].colour not in now.people
        if (answered or common < len(before.turns)) and self._manner.with_board and now.phase is Phase.PLAY:
            self._show(now)
        if now.trouble and now.trouble != before.trouble:
            self._say(f"Beware: {now.trouble}.")
        if now.advice is not None and now.advice is not before.advice:
            self._say(advice_words(now.advice, now.size))
        if now.estimate is not None and now.estimate is not before.estimate:
            self._say(estimate_words(now.estimate))
            if not self._manner.in_words:
                self._say(drawn(now, self._manner, now.estimate.ownership))
        if now.phase is Phase.COUNT:
            self._report_count(before, now)
        if now.phase is Phase.OVER and before.phase is not Phase.OVER:
            if not self._manner.in_words and before.phase is Phase.PLAY and now.count is not None:
                self._show(now)
            self._say(result_words(now))

    def _report_count(self, before: Snapshot, now: Snapshot) -> None:
        if before.phase is not Phase.COUNT:
            self._say("Both sides have passed. The program looks for dead stones.")
        if now.dead is None or (before.phase is Phase.COUNT and before.dead == now.dead):
            return
        if not self._manner.in_words:
            self._show(now)
        self._say(f"{dead_words(now)} {count_words(now)}")
        if before.dead is None:
            self._say("Type a point of a group to change it, done to count, continue to play on, or help.")

    def obey(self, line: str) -> bool:
        """Carry out a command; False when it is to leave. What can't be done is explained."""
        words = line.strip().split()
        try:
            return self._obey(words)
        except (Refused, IllegalMove) as error:
            self._say(str(error))
        return True

    def _obey(self, words: list[str]) -> bool:
        sitting, now = self._sitting, self._sitting.snapshot()
        match [word.lower() for word in words]:
            case []:
                if now.phase is Phase.PLAY:
                    self._say(self.prompt.removesuffix(": ") + ": type a point such as d4, or help.")
            case ["help" | "?"]:
                self._say(listed(COUNTING if now.phase is Phase.COUNT else COMMANDS))
            case ["quit" | "exit" | "q"]:
                return False
            case ["pass"]:
                sitting.pass_turn()
            case ["resign"]:
                sitting.resign()
            case ["undo"]:
                sitting.undo()
            case ["hint"]:
                sitting.hint()
            case ["score"]:
                if now.phase is Phase.COUNT and now.dead is not None:
                    self._say(count_words(now))
                else:
                    sitting.score()
            case ["board"]:
                self._show(now)
            case ["board", "on" | "off" as switch]:
                self._manner = replace(self._manner, with_board=switch == "on")
                self._say(f"The board is {'shown after every answer' if switch == 'on' else 'shown when asked for'}.")
            case ["save"]:
                where = "" if self._manner.kept is None else f" in {self._manner.kept}"
                self._say(f"The game is kept{where} after every move; quit leaves, and arena play --resume goes on.")
            case ["save", _]:
                self._save(Path(expanduser(words[1])))
            case ["done" | "accept"]:
                sitting.accept()
            case ["continue"]:
                sitting.play_on()
            case lowered:
                self._point("".join(lowered), " ".join(words), now)
        return True

    def _point(self, word: str, typed: str, now: Snapshot) -> None:
        typed = style.clip(typed, LONGEST_ECHO)
        try:
            move = move_from_gtp(word, now.size)
        except ValueError:
            last = f"{GTP_COLUMNS[now.size - 1]}{now.size}"
            if _POINT.fullmatch(word):
                no_i = "; the letter I is left out" if word[0] == "i" else ""
                self._say(f"There is no point {typed.upper()} on this board, which goes from A1 to {last}{no_i}.")
            else:
                meant = suggest(word, [name for name in COMMANDS | COUNTING if name != "d4"])
                self._say(f"'{typed}' is no point (A1 to {last}) and no command{meant or '; help lists them.'}")
            return
        if now.phase is Phase.COUNT:
            self._sitting.toggle(move)
        else:
            self._sitting.play(move)

    def _save(self, path: Path) -> None:
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(self._sitting.record().to_sgf() + "\n")
        except OSError as error:
            self._say(f"{path} can't be written: {error.strerror}.")
        else:
            self._say(f"Written to {path}.")

    def _show(self, now: Snapshot) -> None:
        self._say(told(now) if self._manner.in_words else drawn(now, self._manner))
