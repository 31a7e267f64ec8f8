"""A person's game in words, and the commands that can be typed in it, on every front."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from os.path import expanduser
from pathlib import Path

import numpy as np

from arena import plural
from arena.contract.limits import TimeLeft
from arena.contract.settings import suggest
from arena.go.coords import Colour, Move, gtp_from_move, move_from_gtp, pass_move
from arena.go.game import Ending
from arena.go.sgf import write_sgf
from arena.people.counting import Count, Estimate
from arena.people.saved_game import Advice, Phase, Snapshot, Turn
from arena.people.session import GameSession, Refused
from arena.report import style
from arena.report.board import OWNED, ended

SHOWN_CANDIDATES, SHOWN_MOVES = 3, 6
"""Of a hint: candidates, and moves of the line of play of each."""

SCARCE = 10
"""Seconds below which a clock shows tenths."""

LONGEST_ECHO = 40
"""Characters of a wrong line that are repeated."""


def introduction(now: Snapshot) -> str:
    """Who plays whom, by what rules."""
    stones = f", {now.handicap} handicap stones" if now.handicap else ""
    unrated = f" It is unrated: {now.unrated}." if now.unrated else ""
    game = f"Game {now.id}: " if now.id else ""
    return f"{game}{now.names[0]} (Black) against {now.names[1]} (White), {style.setting(now.rules)}{stones}.{unrated}"


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
    for number, candidate in enumerate(advice.candidates[:SHOWN_CANDIDATES], 1):
        line = " ".join(gtp_from_move(move, size) for move in candidate.line[:SHOWN_MOVES])
        move, share = gtp_from_move(candidate.move, size), style.per_cent(candidate.win_rate)
        lines.append(f"{number}. {move}: wins {share}, {plural(candidate.visits, 'visit')}; {line}")
    return "\n".join(lines)


def estimate_words(estimate: Estimate) -> str:
    """Who leads, and how much of the board is likely to be whose."""
    margin, shares = estimate.margin, np.frombuffer(estimate.ownership, np.int8)
    lead = f"{'Black' if margin > 0 else 'White'} leads by about {abs(margin):.1f} points"
    if abs(margin) < 0.5:
        lead = "The game is about even"
    black, white = int((shares > OWNED).sum()), int((shares < -OWNED).sum())
    return (
        f"{lead}, komi included, by {plural(estimate.playouts, 'playout')}. Black is likely to have "
        f"{plural(black, 'point')} of the board and White {white}; {len(shares) - black - white} are open."
    )


def dead_words(now: Snapshot) -> str:
    """Which stones count as dead."""
    parts = []
    for colour in Colour:
        dead = [move for move in now.dead or () if now.points[move] == colour]
        if dead:
            parts.append(f"{side(colour)}'s {_stones_at(dead, now.size)}")
    return f"Dead: {'; '.join(parts)}." if parts else "No stones are dead."


def count_words(now: Snapshot) -> str:
    """The score of the board with the marked dead stones."""
    return "" if now.count is None else f"{points_words(now.count)} {_verdict(now.count.margin)}"


def points_words(count: Count) -> str:
    """``Black has 45 points, White 36 and komi 7.``"""
    white = [f"{count.white:g}", f"komi {count.komi:g}", *([f"{count.bonus} for handicap"] if count.bonus else [])]
    return f"Black has {plural(count.black, 'point')}, White {' and '.join(white)}."


def ending_words(now: Snapshot) -> str:
    """How the game ended, and whether it counts."""
    outcome = now.outcome
    if outcome is None:
        return "The game continues."
    if outcome.margin is not None:
        text = count_words(now) or _verdict(outcome.margin)
        if outcome.ending is Ending.MOVE_LIMIT:
            text = f"The game has reached its limit of {now.rules.move_limit} moves. {text}"
    else:
        text = f"{ended(now.record)}."
    return f"{text} The game is unrated: {now.unrated}." if now.unrated else text


def _verdict(margin: float) -> str:
    if not margin:
        return "The game is a draw."
    return f"{'Black' if margin > 0 else 'White'} wins by {plural(abs(margin), 'point')}."


def side(colour: Colour) -> str:
    return colour.name.title()


def _stones_at(points: Sequence[Move], size: int) -> str:
    return f"{plural(len(points), 'stone')}: {', '.join(gtp_from_move(point, size) for point in points)}"


def clock_words(left: TimeLeft) -> str:
    """``9:41``, tenths below ten seconds, and in byo-yomi for how many moves: ``0:25/5``."""
    seconds = max(0.0, left.seconds)
    words = f"{seconds:.1f}" if seconds < SCARCE else style.duration(seconds)
    return f"{words}/{left.stones}" if left.stones else words


# --- What can be typed ---

POINT = "d4"
"""What stands for all points in the lists."""

_PLAY, _COUNT, _OVER = Phase.PLAY, Phase.COUNT, Phase.OVER

COMMANDS = (
    (POINT, "play there", (_PLAY,)),
    (POINT, "the group is dead, or alive", (_COUNT,)),
    ("pass", "two passes end the game", (_PLAY,)),
    ("done", "agree, and count", (_COUNT,)),
    ("continue", "take the passes back", (_COUNT,)),
    ("undo", "take back your last move", (_PLAY, _COUNT, _OVER)),
    ("hint", "the bot's best moves", (_PLAY,)),
    ("score", "estimate the score", (_PLAY, _OVER)),
    ("board", "show the position", (_PLAY, _COUNT)),
    ("resign", "resign the game", (_PLAY, _COUNT)),
    ("review", "review the game with the bot (r)", (_OVER,)),
    ("rematch", "play another game, colours changed (n)", (_OVER,)),
    ("save", "show where the game is saved", (_PLAY, _COUNT, _OVER)),
    ("save FILE", "write a copy", (_PLAY, _COUNT, _OVER)),
    ("quit", "leave; play --resume continues", (_PLAY, _COUNT)),
    ("quit", "leave (q)", (_OVER,)),
    ("help", "these commands", (_PLAY, _COUNT, _OVER)),
)
"""What a person can type, what it does, and when."""

UNRATED = "Undo, hints and scores make a game unrated."

UNRATING = {"hint": "A hint", "!": "A hint", "score": "A score", "=": "A score"}
"""The commands that are asked about where they would make a game unrated, and what they are called."""


def command_words(phase: Phase) -> dict[str, str]:
    """The commands of a phase and what they do."""
    return {name: words for name, words, phases in COMMANDS if phase in phases}


class Left(Exception):
    """The person has left."""


class Commands:
    """Carries out what is typed. ``more`` are the commands of one front, by their words."""

    def __init__(
        self, session: GameSession, kept: Path | None, more: Mapping[str, Callable[[], str | None]], asks: bool
    ):
        """``kept`` is the game's file. With ``asks``, what ends a game or its rating has to be confirmed."""
        self._session = session
        self._kept = kept
        self._asks = asks
        self.asked = ""
        """What waits for a yes."""
        self._table: dict[str, Callable[[], str | None]] = {
            "pass": session.pass_turn,
            "undo": session.undo,
            "hint": session.hint,
            "score": session.score,
            "resign": session.resign,
            "done": session.accept,
            "continue": session.play_on,
            "save": self._where,
            "quit": _leave,
            "q": _leave,
            **more,
        }

    def obey(self, line: str) -> str:
        """Carry out a line. Returns what there is to say, often nothing. Raises Refused or IllegalMove with a sentence
        on what can't be done, and Left when the person leaves."""
        typed = " ".join(line.split())
        word, asked = typed.lower(), self.asked
        self.asked = ""
        if asked and word in ("y", "yes"):
            return self._table[asked]() or ""
        if question := self._question(word):
            self.asked = word
            return question
        if word in self._table:
            return self._table[word]() or ""
        if word.startswith("save "):
            return self._save(Path(expanduser(typed[5:])))
        self.choose(self._point(typed))
        return ""

    def _question(self, word: str) -> str:
        """What is asked before this is done, if anything is."""
        now = self._session.snapshot()
        if not self._asks or now.is_over:
            return ""
        if word == "resign":
            return "Resign the game? y resigns, anything else plays on."
        if word in UNRATING and now.is_rated and now.phase is Phase.PLAY:
            return f"{UNRATING[word]} makes this game unrated. y goes ahead, anything else doesn't."
        return ""

    def choose(self, move: Move) -> None:
        """Place a stone there; while dead stones are marked, let the group there die or live."""
        if self._session.snapshot().phase is Phase.COUNT:
            self._session.toggle(move)
        else:
            self._session.play(move)

    def _point(self, typed: str) -> Move:
        """The point that was typed. Raises Refused."""
        size = self._session.snapshot().size
        word = "".join(typed.lower().split())
        try:
            return move_from_gtp(word, size)
        except ValueError:
            pass
        typed, last = style.clip(typed, LONGEST_ECHO), gtp_from_move(size - 1, size)
        if re.fullmatch(r"[a-z]\d{1,2}", word):
            no_i = "; the letter I is left out" if word[0] == "i" else ""
            raise Refused(f"There is no point {typed.upper()} on this board, which goes from A1 to {last}{no_i}.")
        known = dict.fromkeys([*self._table, *(name for name, _, _ in COMMANDS)])
        meant = suggest(word, [name for name in known if name.isalpha()])
        raise Refused(f"'{typed}' is not a point (A1 to {last}) or a command{meant or '; help lists them.'}")

    def _where(self) -> str:
        if trouble := self._session.snapshot().trouble:
            return trouble
        return f"The game is saved{f' in {self._kept}' if self._kept else ''} after every move."

    def _save(self, path: Path) -> str:
        """Write a copy of the game as it stands."""
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(write_sgf(self._session.record()) + "\n")
        except OSError as error:
            return f"{path} can't be written: {error.strerror}."
        return f"Written to {path}."


def _leave() -> None:
    raise Left
