"""A person's game in a pipe, or with ``--plain``: every change said in words, the board as text, commands typed."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from arena import IllegalMove, plural
from arena.go.coords import gtp_from_move
from arena.people.saved_game import Phase, Snapshot
from arena.people.session import GameSession, Refused
from arena.report.board import AREAS, SMALL, Overlay, draw_board
from arena.report.sentences import (
    UNRATED,
    Commands,
    Left,
    advice_words,
    clock_words,
    command_words,
    count_words,
    dead_words,
    ending_words,
    estimate_words,
    introduction,
    move_words,
    side,
)
from arena.report.style import Console


def show_plainly(session: GameSession, console: Console, file: TextIO, kept: Path | None = None) -> None:
    """Play a session by the lines of ``file`` until it is over, the person leaves or the input ends. Each line is read
    when it is asked for: what follows a game is the next one's."""
    if isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="replace")  # whatever comes through a pipe, it is wrong input at worst
    talk = Talk(session, console, kept, asks=file.isatty())
    talk.begin()
    while True:
        session.wait(lambda now: now.is_settled)
        talk.report()
        if session.snapshot().is_over:
            return
        if file.isatty():
            console.print(talk.prompt, end="", markup=False, highlight=False)
        line = file.readline()
        session.tick()  # time may have run out meanwhile
        if not line or not talk.obey(line):
            return


class Talk:
    """Says what has happened in a session since it was last asked, and carries out what is typed."""

    def __init__(self, session: GameSession, console: Console, kept: Path | None, asks: bool):
        """``asks`` is for people, who confirm what can't be taken back."""
        self._session = session
        self._console = console
        front = {
            "": self._nothing,
            "help": self._help,
            "?": self._help,
            "score": self._score,
            "board": lambda: self._show(session.snapshot()),
        }
        self._commands = Commands(session, kept, front, asks)
        self._reported = session.snapshot()

    def _say(self, text: str) -> None:
        for line in text.split("\n"):
            self._console.say(line)

    def _show(self, now: Snapshot, ownership: bytes | None = None) -> None:
        """The position, and what its signs mean."""
        dead = set(now.dead or ())
        for line in draw_board(now.stones, now.last, ownership=ownership, overlay=Overlay(taken=dead), colours=False):
            self._say(line.plain.rstrip())
        if now.turns:
            self._say(f"Last move: {side(now.turns[-1].colour)} {gtp_from_move(now.turns[-1].move, now.size)}.")
        if any(now.prisoners):
            black, white = now.prisoners
            self._say(f"Taken off so far: {plural(black, 'black stone')}, {plural(white, 'white stone')}.")
        if dead:
            self._say(f"{SMALL[1]} and {SMALL[2]} are dead stones.")
        elif ownership is not None:
            self._say(f"{AREAS[1]} is likely to be Black's, {AREAS[2]} White's.")

    def begin(self) -> None:
        """What is played, and what was played so far."""
        now = self._reported
        self._say(introduction(now))
        known = now.turns if any(turn.colour in now.people for turn in now.turns) else ()  # else the bot was quick
        if now.is_of_event:
            known = now.turns[: now.record.opening]
        if len(known) > now.record.opening:
            self._say(f"It continues after move {len(known)}. {move_words(known[-1], now.size)}")
        elif known:
            self._say(f"It begins after an opening of {plural(len(known), 'move')}.")
        self._say("Type a point such as d4, or: pass, undo, hint, score, board, resign, save, quit, help.")
        if known or not now.turns:
            self._show(now)
        begun = replace(now.record, moves=(), outcome=None)
        self._reported = replace(now, turns=known, record=begun, version=now.version - 1)
        self.report()

    @property
    def prompt(self) -> str:
        now = self._session.snapshot()
        if now.phase is Phase.COUNT:
            return "dead stones: "
        clock = now.clocks[now.to_play - 1]
        left = "" if clock is None else f", {clock_words(clock)}"
        return f"{side(now.to_play)}, move {len(now.turns) + 1}{left}: "

    def report(self) -> None:
        """Say all that has changed."""
        before, now = self._reported, self._session.snapshot()
        self._reported = now
        same = [one == other for one, other in zip(before.turns, now.turns, strict=False)]
        common = [*same, False].index(False)
        back = len(before.turns) - common
        if back:
            self._say(f"{plural(back, 'move')} taken back. {side(now.to_play)} is to play move {len(now.turns) + 1}.")
        for turn in now.turns[common:]:
            self._say(move_words(turn, now.size))
        if now.unrated != before.unrated and now.helps != before.helps and now.phase is not Phase.OVER:
            self._say(f"The game is unrated now ({now.unrated}).")
        answered = now.turns[common:] and now.turns[-1].colour not in now.people
        if (answered or back) and now.phase is Phase.PLAY:
            self._show(now)
        if now.trouble and now.trouble != before.trouble:
            self._say(f"Beware: {now.trouble}.")
        if now.advice is not None and now.advice is not before.advice:
            self._say(advice_words(now.advice, now.size))
        if now.estimate is not None and now.estimate is not before.estimate:
            self._say(estimate_words(now.estimate))
            self._show(now, now.estimate.ownership)
        if now.phase is Phase.COUNT:
            self._report_count(before, now)
        if now.phase is Phase.OVER and before.phase is not Phase.OVER:
            if before.phase is Phase.PLAY and now.count is not None:
                self._show(now)
            self._say(ending_words(now))

    def _report_count(self, before: Snapshot, now: Snapshot) -> None:
        if before.phase is not Phase.COUNT:
            self._say("Both sides have passed. The program looks for dead stones.")
        if now.dead is None or (before.phase is Phase.COUNT and before.dead == now.dead):
            return
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
        known = command_words(self._session.snapshot().phase)
        wide = max(map(len, known))
        return "\n".join([*(f"{name:<{wide}}  {words}" for name, words in known.items()), UNRATED])

    def _score(self) -> str:
        now = self._session.snapshot()
        if now.phase is Phase.COUNT and now.dead is not None:
            return count_words(now)
        self._session.score()
        return ""
