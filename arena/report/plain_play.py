"""A session without pictures: every change said in words, every command typed. For pipes, for terminals of any width
and for screen readers.

The board is drawn as plain text where that is wished for, or told row by row.
"""

from __future__ import annotations

import io
import queue
from collections.abc import Callable
from dataclasses import replace
from threading import Thread
from typing import TextIO

from rich.console import Console

from arena import IllegalMove
from arena.people.saved_game import Phase, Snapshot
from arena.people.session import GameSession, Refused
from arena.report import style
from arena.report.sentences import (
    UNRATED,
    Commands,
    Left,
    Manner,
    advice_words,
    count_words,
    dead_words,
    drawn,
    estimate_words,
    introduction,
    list_commands,
    result_words,
    sentence,
    side,
    some,
    time_left,
    told,
)

SLOW = 1.0
"""Seconds after which it is said that the bot thinks."""


class Lines:
    """Lines of a terminal or a pipe. Each is read when it is asked for: what follows a game is the next one's."""

    def __init__(self, file: TextIO):
        self.at_terminal = file.isatty()
        if isinstance(file, io.TextIOWrapper):
            file.reconfigure(errors="replace")  # whatever comes through a pipe, it is wrong input at worst
        self._file = file
        self._heard: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reads = False

    def wake(self) -> None:
        """Have ``next`` return: there is something to say."""
        self._heard.put(None)

    def next(self, seconds: float) -> str | None:
        """The next line, empty when there are no more; None after the timeout in seconds, or when woken."""
        if not self._reads:
            self._reads = True
            Thread(target=lambda: self._heard.put(self._file.readline()), name="lines", daemon=True).start()
        try:
            line = self._heard.get(timeout=seconds)
        except queue.Empty:
            return None
        self._reads = self._reads and line is None
        return line


def show_plainly(session: GameSession, console: Console, manner: Manner, lines: Lines) -> None:
    """Play a session until it is over, the person leaves or the input ends.

    At a terminal, commands are heard while the bot thinks, too; from a pipe, each when the one before is done.
    """
    talk = Talk(session, _sayer(console), manner, asks=lines.at_terminal)
    session.subscribe(lines.wake)
    talk.begin()
    prompted = False
    while True:
        if not lines.at_terminal:
            session.wait(lambda now: now.is_settled)
        elif prompted and talk.has_news:
            console.print()
            prompted = False
        talk.report()
        now = session.snapshot()
        if now.is_over:
            return
        if lines.at_terminal and now.is_settled and not prompted:
            console.print(talk.prompt, end="", markup=False, highlight=False)
            prompted = True
        line = lines.next(SLOW)
        if line is None:
            session.tick()
            if lines.at_terminal:
                talk.say_who_thinks()
        else:
            prompted = False
            if not line or not talk.obey(line):
                return


def _sayer(console: Console) -> Callable[[str], None]:
    def say(text: str) -> None:
        for line in text.split("\n"):
            style.say(line, console)

    return say


class Talk:
    """Says what has happened in a session since it was last asked, and carries out what is typed."""

    def __init__(self, session: GameSession, say: Callable[[str], None], manner: Manner, asks: bool = False):
        """``asks`` is for people, who confirm what can't be taken back."""
        self._session = session
        self._say = say
        self._manner = manner
        more: dict[str, Callable[[], str | None]] = {
            "": self._nothing,
            "help": self._help,
            "?": self._help,
            "score": self._score,
            "board": lambda: self._show(session.snapshot()),
            "board on": lambda: self._show_always(True),
            "board off": lambda: self._show_always(False),
        }
        self._commands = Commands(session, manner.kept, more, asks)
        self._told = session.snapshot()
        self._thinks = -1  # the number of turns when it was said that the bot thinks

    def begin(self) -> None:
        """What is played, and what was played so far."""
        now = self._told
        self._say(introduction(now))
        known = now.turns if any(turn.colour in now.people for turn in now.turns) else ()  # else the bot was quick
        if now.is_of_event:
            known = now.turns[: now.record.opening]
        if known:
            if len(known) <= now.record.opening:
                self._say(f"It begins after an opening of {some(len(known), 'move')}.")
            else:
                self._say(f"It continues after move {len(known)}. {sentence(known[-1], now.size)}")
        self._say("Type a point such as d4, or: pass, undo, hint, score, board, resign, save, quit, help.")
        if known or (not now.turns and (now.handicap or self._manner.with_board)):
            self._show(now)
        begun = replace(now.record, moves=(), outcome=None)
        self._told = replace(now, turns=known, record=begun, version=now.version - 1)
        self.report()

    @property
    def has_news(self) -> bool:
        return self._session.snapshot().version != self._told.version

    @property
    def prompt(self) -> str:
        now = self._session.snapshot()
        if now.phase is Phase.COUNT:
            return "dead stones: "
        clock = now.clocks[now.to_play - 1]
        left = "" if clock is None else f", {time_left(clock.seconds, clock.stones)}"
        return f"{side(now.to_play)}, move {len(now.turns) + 1}{left}: "

    def say_who_thinks(self) -> None:
        now = self._session.snapshot()
        if now.thinking is not None and self._thinks != len(now.turns):
            self._thinks = len(now.turns)
            self._say(f"{now.name(now.thinking)} thinks.")

    def report(self) -> None:
        """Say all that has changed."""
        before, now = self._told, self._session.snapshot()
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
        try:
            if words := self._commands.obey(line):
                self._say(words)
        except Left:
            return False
        except (Refused, IllegalMove) as error:
            self._say(str(error))
        return True

    def _nothing(self) -> str:
        if self._session.snapshot().phase is not Phase.PLAY:
            return ""
        return self.prompt.removesuffix(": ") + ": type a point such as d4, or help."

    def _help(self) -> str:
        return f"{list_commands(self._session.snapshot().phase)}\n{UNRATED}"

    def _score(self) -> str:
        now = self._session.snapshot()
        if now.phase is Phase.COUNT and now.dead is not None:
            return count_words(now)
        self._session.score()
        return ""

    def _show_always(self, always: bool) -> str:
        self._manner = replace(self._manner, with_board=always)
        return f"The board is shown {'after every answer' if always else 'when asked for'}."

    def _show(self, now: Snapshot) -> None:
        self._say(told(now) if self._manner.in_words else drawn(now, self._manner))
