"""A person's game in words, and the game in a pipe or with ``--plain``."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from arena import IllegalMove, plural
from arena.contract.limits import TimeLeft
from arena.go.coords import Colour, Move, gtp_from_move, pass_move
from arena.go.game import Ending, Outcome
from arena.people.commands import UNRATED, CommandReader, Left, command_words
from arena.people.counting import ScoreEstimate
from arena.people.saved_game import Advice, Phase, SessionState, Turn
from arena.people.session import ActionRefused, GameSession
from arena.report import style
from arena.report.board import AREAS, SMALL, Overlay, draw_board
from arena.report.game import ended, result_words
from arena.report.style import Console

LETTERS, SHOWN_MOVES = "ABCDE", 6
"""How the candidates of a hint are called, the best first, and the moves of the play expected that are listed."""

SCARCE = 10  # seconds below which a clock shows tenths

# --- Words ---


def move_words(turn: Turn, size: int) -> str:
    """``Black plays D4 and captures 2 stones: C4, D5.``"""
    if turn.move == pass_move(size):
        return f"{side(turn.colour)} passes."
    text = f"{side(turn.colour)} plays {gtp_from_move(turn.move, size)}"
    if turn.move in turn.captured:
        return f"{text}, which takes {_stones_at(turn.captured, size)} of its own off the board."
    return f"{text} and captures {_stones_at(turn.captured, size)}." if turn.captured else f"{text}."


def advice_words(advice: Advice, size: int) -> str:
    """A line for each of the best candidates."""
    if advice.fault:
        return f"No hint: {advice.fault}."
    lines = [f"{advice.analyst} would play, as {side(advice.colour)}:"]
    for letter, candidate in zip(LETTERS, advice.candidates, strict=False):
        line = " ".join(gtp_from_move(move, size) for move in candidate.line[:SHOWN_MOVES])
        move, share = gtp_from_move(candidate.move, size), style.per_cent(candidate.win_rate)
        lines.append(f"{letter} {move}: wins {share}, {plural(candidate.visits, 'visit')}; {line}")
    return "\n".join(lines)


def estimate_words(estimate: ScoreEstimate) -> str:
    margin = estimate.margin
    lead = f"{'Black' if margin > 0 else 'White'} leads by about {abs(margin):.1f} points"
    if abs(margin) < 0.5:
        lead = "The game is about even"
    return f"{lead}, komi included, by {plural(estimate.playouts, 'playout')}."


def count_words(now: SessionState) -> str:
    """The score of the board with the marked dead stones: ``Black has 45 points, White 36 and komi 7: ...``"""
    count = now.count
    if count is None:
        return ""
    white = [f"{count.white:g}", f"komi {count.komi:g}", *([f"{count.bonus} for handicap"] if count.bonus else [])]
    result = result_words(Outcome.scored(count.margin))
    return f"Black has {plural(count.black, 'point')}, White {' and '.join(white)}: {result}."


def ending_words(now: SessionState) -> str:
    """How the game ended, and whether it counts."""
    is_counted = now.record.outcome is not None and now.record.outcome.ending is Ending.SCORE
    text = (count_words(now) if is_counted else "") or f"{ended(now.record)}."
    return f"{text} The game is unrated: {now.unrated}." if now.unrated else text


def side(colour: Colour) -> str:
    return colour.name.title()


def _stones_at(points: Sequence[Move], size: int) -> str:
    return f"{plural(len(points), 'stone')}: {', '.join(gtp_from_move(point, size) for point in points)}"


def clock_words(left: TimeLeft) -> str:
    """``9:41``, tenths below ten seconds, and in byo-yomi for how many moves: ``0:25/5``."""
    seconds = max(0.0, left.seconds)
    words = f"{seconds:.1f}" if seconds < SCARCE else style.duration(seconds)
    return f"{words}/{left.stones}" if left.stones else words


def news(before: SessionState, now: SessionState) -> Iterator[str]:
    """A sentence for all that has changed between two looks at a game."""
    same = [one == other for one, other in zip(before.turns, now.turns, strict=False)]
    common = [*same, False].index(False)
    if back := len(before.turns) - common:
        yield f"{plural(back, 'move')} taken back. {side(now.to_play)} is to play move {len(now.turns) + 1}."
    for turn in now.turns[common:]:
        yield move_words(turn, now.size)
    if now.unrated != before.unrated and now.phase is not Phase.OVER:
        yield f"The game is unrated now ({now.unrated})."
    if now.trouble and now.trouble != before.trouble:
        yield f"Beware: {now.trouble}."
    if now.advice is not None and now.advice is not before.advice:
        yield advice_words(now.advice, now.size)
    if now.estimate is not None and now.estimate is not before.estimate:
        yield estimate_words(now.estimate)
    if now.phase is Phase.COUNT:
        if before.phase is not Phase.COUNT:
            yield "Both sides have passed. The program looks for dead stones."
        if now.dead is not None and now.dead != before.dead:
            dead = [(colour, [move for move in now.dead if now.points[move] == colour]) for colour in Colour]
            parts = [f"{side(colour)}'s {_stones_at(stones, now.size)}" for colour, stones in dead if stones]
            yield f"Dead: {'; '.join(parts) or 'no stones'}. {count_words(now)}"
            if before.dead is None:
                yield "Type a point of a group to change it, done to count, continue to play on, or help."
    if now.is_over and not before.is_over:
        yield ending_words(now)


# --- In a pipe ---


def show_plainly(session: GameSession, console: Console, file: TextIO) -> None:
    """Play by the lines of ``file`` until the game is over, the person leaves or the input ends; read no further."""
    if isinstance(file, io.TextIOWrapper) and file.errors != "replace":  # which can't be set after the first line
        file.reconfigure(errors="replace")  # bytes that are not text are wrong input, not an error
    front = _PlainGame(session, console, asks=file.isatty())
    while True:
        session.wait(lambda now: now.is_settled)
        front.report()
        if session.snapshot().is_over:
            return
        if file.isatty():
            console.print(front.prompt, end="", markup=False, highlight=False)
        line = file.readline()
        session.update()  # time may have run out meanwhile
        if not line:
            return
        try:
            front.print_line(front.commands.apply(line))
        except Left:
            return
        except (ActionRefused, IllegalMove) as error:
            front.print_line(str(error))


class _PlainGame:
    """Prints what has changed in a session. With ``asks``, a person confirms what can't be taken back."""

    def __init__(self, session: GameSession, console: Console, asks: bool):
        self._session, self._console = session, console
        front = {"": self._wait, "help": self._help, "board": self._show}
        self.commands = CommandReader(session, front, "Type y" if asks else "")
        now = session.snapshot()
        unrated = f" It is unrated: {now.unrated}." if now.unrated else ""
        players = f"{now.names[0]} (Black) against {now.names[1]} (White)"
        self.print_line(f"Game {now.id}: {players}, {style.rules_words(now.record.rules, now.handicap)}.{unrated}")
        known = now.turns if now.persons_turns else now.turns[: now.record.opening]
        if now.persons_turns:
            self.print_line(f"It continues after move {len(known)}. {move_words(known[-1], now.size)}")
        elif known:
            self.print_line(f"It begins after an opening of {plural(len(known), 'move')}.")
        self.print_line("Type a point such as d4, or: pass, undo, hint, score, board, resign, quit, help.")
        if known or not now.turns:
            self._show()
        self._reported = replace(now, turns=known, record=replace(now.record, moves=(), outcome=None), dead=None)

    def print_line(self, text: str) -> None:
        for line in text.splitlines():
            self._console.print_line(line)

    @property
    def prompt(self) -> str:
        now = self._session.snapshot()
        if now.phase is Phase.COUNT:
            return "dead stones: "
        clock = now.clocks[now.to_play - 1]
        return f"{side(now.to_play)}, move {len(now.turns) + 1}{f', {clock_words(clock)}' if clock else ''}: "

    def report(self) -> None:
        """Say all that has changed, and draw the position if that has."""
        before, self._reported = self._reported, self._session.snapshot()
        for words in news(before, self._reported):
            self.print_line(words)
        old, new = ((now.turns, now.dead, now.estimate) for now in (before, self._reported))
        if new != old and not self._reported.is_over:
            self._show()

    def _show(self) -> None:
        """The position, and what its signs mean."""
        now = self._session.snapshot()
        dead, ownership = set(now.dead or ()), None if now.estimate is None else now.estimate.ownership
        for line in draw_board(now.stones, now.last, ownership=ownership, overlay=Overlay(dead=dead), colours=False):
            self.print_line(line.plain.rstrip())
        if any(now.prisoners):
            black, white = now.prisoners
            self.print_line(f"Taken off so far: {plural(black, 'black stone')}, {plural(white, 'white stone')}.")
        if dead:
            self.print_line(f"{SMALL[1]} and {SMALL[2]} are dead stones.")
        elif ownership is not None:
            self.print_line(f"{AREAS[1]} is likely to be Black's, {AREAS[2]} White's.")

    def _wait(self) -> str:
        return f"{self.prompt}type a point such as d4, or help." if self._session.snapshot().phase is Phase.PLAY else ""

    def _help(self) -> str:
        known = command_words(self._session.snapshot().phase)
        return "\n".join([*(f"{name:<8}  {words}" for name, words in known.items()), UNRATED])
