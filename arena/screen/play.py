"""A person's seat at a game: what keys, mouse and typed words do, and the loop that keeps the screen alive meanwhile.

How it looks is ``play_frame``'s; the game itself, and that nothing of it is lost, is the sitting's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from arena import IllegalMove
from arena.go.coords import GTP_COLUMNS, Colour, Move, gtp_from_move, move_from_gtp, pass_move
from arena.go.game import Game
from arena.people.counting import estimated
from arena.people.kifu import Phase, Preview
from arena.people.sitting import Refused, Sitting
from arena.report import style
from arena.report.progress import show_start
from arena.report.sentences import COUNTING, PLAYING, UNRATED, Commands, Left, Manner, listed, result_words
from arena.report.style import folded
from arena.screen.board import DARK, Picture, Theme
from arena.screen.plain_play import Lines, show_plainly
from arena.screen.play_frame import PlayFrame
from arena.screen.terminal import Act, Gone, Mouse, Paste, Press, Stage, Typed, has_stage
from arena.screen.viewer import Evaluate, Review, show_review

BUSY_EVERY = 0.1
"""Seconds between two frames while somebody thinks; and while clocks run."""
CLOCK_EVERY = 0.2

ALONE = 0.6
"""Seconds after which a typed q leaves instead of beginning a word."""

LONGEST_LINE = 100
"""Signs that can be typed, or pasted, into the line."""

STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}

HELP = f"""\
Arrows or the mouse move the cursor; Enter, space or a second click plays there.
!  =    turn hints or scores at every move on or off
q       quit

{{}}

{UNRATED} Shift lets the mouse select text.

Any key goes back."""


AFTER = {
    "r": "review the game with the bot",
    "n": "play another game, colours changed",
    "undo": "undo the end of the game",
    "score": PLAYING["score"],
    "save": PLAYING["save"],
    "save FILE": PLAYING["save FILE"],
    "q": "leave",
}
"""The commands after the end."""


class Seat:
    """A person at a game: what was typed, where the cursor is, what is to be shown. It reads no terminal."""

    def __init__(
        self,
        sitting: Sitting,
        *,
        kept: Path | None = None,
        can_review: bool = True,
        theme: Theme = DARK,
        clock: Callable[[], float] = monotonic,
    ):
        """``kept`` is the game's file."""
        self.snapshot = sitting.snapshot()
        self.line = ""
        self.message = ""
        self.cursor: Move | None = None
        self.shows_hints = False
        self.shows_score = False
        self.shows_help = False
        self.wants_review = False
        self.wants_rematch = False
        self._sitting = sitting
        more: dict[str, Callable[[], str | None]] = {
            "hint": self._hint,
            "score": self._score,
            "!": self._switch_hints,
            "=": self._switch_score,
            "help": self._help,
            "review": self._review,
            "rematch": self._rematch,
            "q": lambda: self._commands.obey("quit"),
        }
        self._commands = Commands(sitting, kept, more, asks=True)
        self._can_review = can_review
        self._theme = theme
        self._clock = clock
        self._busy_with: tuple[Colour | None, int] | None = None  # who is waited for, and after which move
        self._busy_since = 0.0
        self._asked: tuple[int, ...] = ()  # the position that overlays were asked for last, and which
        self._leaves_at: float | None = None  # a q that stays alone leaves then
        self._previewed: tuple[int, Preview] | None = None
        self.look()

    # --- The game goes on by itself ---

    def look(self) -> None:
        """See what has become of the game, and have overlays that stay on follow it."""
        self._sitting.tick()
        before, self.snapshot = self.snapshot, self._sitting.snapshot()
        if self.snapshot.phase is not before.phase:
            self.message, self._commands.asked = "", ""
        busy = (self.snapshot.thinking, len(self.snapshot.turns)) if self._is_busy else None
        if busy != self._busy_with:
            self._busy_with, self._busy_since = busy, self._clock()
        self._follow()

    @property
    def has_left(self) -> bool:
        """Whether a q has stayed alone for long enough to mean that."""
        return self.line == "q" and self._leaves_at is not None and self._clock() >= self._leaves_at

    @property
    def _is_busy(self) -> bool:
        """Whether something goes on that a person waits for."""
        return not self.snapshot.is_settled

    @property
    def patience(self) -> float | None:
        """Seconds after which there is something new to see; None where nothing moves by itself."""
        if self._is_busy or self._leaves_at is not None:
            return BUSY_EVERY
        runs = self.snapshot.phase is Phase.PLAY and any(self.snapshot.clocks)
        return CLOCK_EVERY if runs else None

    def _follow(self) -> None:
        """Ask for what is to be shown of each position in which it is the person's turn."""
        snapshot = self.snapshot
        position = (len(snapshot.turns), int(self.shows_hints), int(self.shows_score))
        if not snapshot.is_persons_turn or position == self._asked:
            return
        self._asked = position
        if self.shows_score and snapshot.estimate is None and not snapshot.estimating:
            self._try(self._sitting.score)
        if self.shows_hints and snapshot.advice is None and not snapshot.advising:
            self._try(self._sitting.hint)
        self.snapshot = self._sitting.snapshot()

    def _try(self, what: Callable[[], str | None]) -> bool:
        """Do something with the game; says whether that went well, and has told why not."""
        try:
            self.message = what() or self.message
        except (Refused, IllegalMove) as error:
            self.message = str(error)
            return False
        finally:
            self.snapshot = self._sitting.snapshot()
        return True

    # --- What a person does ---

    def do(self, typed: Typed, picture: Picture | None = None) -> bool:
        """Do what was asked for; False when it is to leave. ``picture`` is what was clicked on."""
        match typed:
            case Gone():
                return False
            case Press() | Paste() if self.shows_help:
                self.shows_help = False
            case Press(key):
                self.message = ""
                return self._press(key)
            case Paste(text):
                self.message = ""
                words = " ".join(text.split())
                self.line = (self.line + words)[:LONGEST_LINE]
                if len(words) > LONGEST_LINE:
                    self.message = "That is too long for a move; the end was dropped."
            case Mouse(act, row, column) if picture is not None and not self.shows_help:
                point = picture.point_at(row, column)
                if point is not None:
                    self._point(act, point)
        return True

    def _point(self, act: Act, point: Move) -> None:
        """The mouse is over a point, or was clicked there."""
        if act is Act.MOVE and self._typed_move is None:
            self.cursor = point
        elif act is Act.CLICK:
            self.message, self.line = "", ""
            if self.cursor == point or self.snapshot.phase is Phase.COUNT:
                self.cursor = point
                self._enter_at(point)
            else:
                self.cursor = point
                preview = self._preview(point)
                if preview is None or preview.refusal:
                    self.message = "" if preview is None else preview.refusal
                    return
                self.message = f"Click {gtp_from_move(point, self.snapshot.size)} again to play there."

    def _press(self, key: str) -> bool:
        self._leaves_at = None
        if self._commands.asked:
            if key.lower() == "y":
                self.cursor = None  # an Enter behind the y plays nowhere
                return self._obey("y")
            self._commands.asked = ""
            if key in ("enter", " "):
                return True
        if key in STEPS:
            self.line = ""
            self._move_cursor(*STEPS[key])
        elif key == "enter" or (key == " " and not self.line):
            if not self.line:
                return self._enter()
            words, self.line = self.line.strip(), ""
            return self._obey(words)
        elif key in ("backspace", "delete"):
            self.line = self.line[:-1]
        elif key == "escape":
            if not self.line:
                self.cursor = None
            self.line = ""
        elif key == "ctrl-d":
            return False
        elif key == "ctrl-u":
            self.line = ""
        elif word := self._shortcut(key):
            return self._obey(word)
        elif len(key) == 1:
            self.line = (self.line + key)[:LONGEST_LINE]
            if self.line == "q":
                self._ask_to_leave()
        return True

    def _ask_to_leave(self) -> None:
        """A q leaves, unless it is the first letter of something: on a wide board, of a point."""
        if self.snapshot.size <= GTP_COLUMNS.index("Q"):
            self._leaves_at = self._clock() + ALONE
        self.message = "Leaving; the game is saved." if self._leaves_at else "Enter leaves; the game is saved."

    def _shortcut(self, key: str) -> str:
        """The word that a key stands for, if any. While a line is typed, keys are text."""
        if self.line:
            return ""
        words = {"?": "help", "!": "!", "=": "="}
        if self.snapshot.phase is Phase.OVER:
            words |= {"q": "quit", "r": "review", "n": "rematch"}
        return words.get(key, "")

    def _enter(self) -> bool:
        """Enter without a word: what lies nearest."""
        if self.cursor is not None and self.snapshot.phase is not Phase.OVER:
            self._enter_at(self.cursor)
        elif self.snapshot.phase is Phase.OVER:
            return self._obey("review")
        else:
            self._move_cursor(0, 0)
        return True

    def _enter_at(self, point: Move) -> None:
        """What a point is chosen for: a stone is placed there, or the group there dies or lives."""
        if self.snapshot.phase is not Phase.OVER:
            self._try(lambda: self._commands.choose(point))

    def _move_cursor(self, down: int, right: int) -> None:
        """One point further, and where it was nowhere, to where the game is."""
        size = self.snapshot.size
        if self.cursor is None:
            last = self.snapshot.last
            self.cursor = last if last is not None and last < size * size else size * size // 2
            return
        row, column = divmod(self.cursor, size)
        self.cursor = min(max(0, row + down), size - 1) * size + min(max(0, column + right), size - 1)

    # --- Words ---

    def _obey(self, words: str) -> bool:
        """Do what a typed word asks for; False when that is to leave. No word is one letter: that begins a point."""
        if self._named(words) is not None:
            self.cursor = self._named(words)
        try:
            self._try(lambda: self._commands.obey(words))
        except Left:
            return False
        self._follow()
        return True

    def _switch_hints(self) -> None:
        self.shows_hints = not self.shows_hints
        self._asked = ()

    def _switch_score(self) -> None:
        self.shows_score = not self.shows_score
        self._asked = ()
        if self.shows_score and self.snapshot.is_over:
            self._sitting.score()

    def _hint(self) -> None:
        """Show hints for this position; where they are shown, have the bot think on."""
        goes_on = self.shows_hints and self.snapshot.advice is not None
        self._sitting.hint()
        if not goes_on:
            self.shows_hints = True
            self._asked = (len(self.snapshot.turns), 1, int(self.shows_score))

    def _score(self) -> None:
        self._sitting.score()
        self.shows_score = True
        self._asked = (len(self.snapshot.turns), int(self.shows_hints), 1)

    def _help(self) -> None:
        self.shows_help = True

    def _rematch(self) -> str:
        self.wants_rematch = self.snapshot.is_over
        return "" if self.wants_rematch else "A rematch is available when the game is over."

    def _review(self) -> str:
        self.wants_review = self.snapshot.is_over and self._can_review
        if self.wants_review:
            return ""
        return "The review is available when the game is over." if self._can_review else "No bot here can review games."

    # --- What is seen ---

    def _named(self, words: str) -> Move | None:
        """The point that these words name, if they do."""
        try:
            move = move_from_gtp(words, self.snapshot.size)
        except ValueError:
            return None
        return None if move == pass_move(self.snapshot.size) else move

    @property
    def _typed_move(self) -> Move | None:
        return self._named(self.line)

    def _preview(self, target: Move | None) -> Preview | None:
        if target is None or not self.snapshot.is_persons_turn:
            return None
        version = self.snapshot.version
        if self._previewed is None or (version, target) != (self._previewed[0], self._previewed[1].move):
            self._previewed = version, self._sitting.preview(target)
        return self._previewed[1]

    def picture(self, width: int, height: int) -> Picture:
        """What is to be shown on a terminal of this size."""
        if self.shows_help:
            known = AFTER if self.snapshot.is_over else COUNTING if self.snapshot.phase is Phase.COUNT else PLAYING
            words = HELP.format(listed({name: what for name, what in known.items() if name not in ("board", "help")}))
            lines = folded(words, width, height)
            for line in lines:
                line.truncate(width, overflow="crop")
            return Picture(lines, self.snapshot.size, None)
        typed = self._typed_move
        target = self.cursor if typed is None else typed
        frame = PlayFrame(
            self.snapshot,
            target,
            self._preview(target),
            style.spell(self.line),
            typed is not None,
            self.message,
            self.shows_hints,
            self.shows_score,
            self._clock() - self._busy_since,
            self._can_review,
            self._theme,
        )
        return frame.scene().fit(width, height)


@dataclass(frozen=True, slots=True)
class Look:
    """How a game is shown: ``plain`` in words, else in which colours."""

    plain: bool = False
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
) -> bool:
    """Let people play in the way that suits where they are: on the whole terminal, or in words with ``plain`` and in a
    pipe. Returns when the game is over, or left, and
    whether another one is wanted.

    ``kept`` is the game's file; ``evaluate`` is asked for a review after the end. Ctrl-C comes through as
    KeyboardInterrupt, a signal to end as SystemExit; whatever comes, the game is as the sitting has kept it.
    """
    if has_stage(console) and not look.plain:
        return _show(sitting, console, look, kept, evaluate)
    manner = Manner(look.plain, not look.plain, console.width, kept)
    show_plainly(sitting, console, manner, lines)
    return False


def _show(sitting: Sitting, console: Console, look: Look, kept: Path | None, evaluate: Evaluate | None) -> bool:
    """Play on the whole terminal, as long as the game is looked at or until the terminal is gone."""
    theme = look.theme
    seat = Seat(sitting, kept=kept, can_review=evaluate is not None, theme=theme)
    with show_start(["score"], console):
        sitting.pause()
        estimated(Game(seat.snapshot.rules), playouts=2)  # a compiler at work would leave the screen dead later
        sitting.go_on()
    with Stage(console, sitting.pause, sitting.go_on) as stage:
        sitting.subscribe(lambda: stage.tell(None))
        while _play(seat, stage) and evaluate is not None:
            people = seat.snapshot.people
            whose = people[0] if len(people) == 1 else None
            review = Review(sitting.record(), whose, theme=theme)
            if not show_review(review, evaluate, stage):
                break
    if seat.snapshot.phase is Phase.OVER:
        console.print(Text(style.spell(result_words(seat.snapshot))))
    return seat.wants_rematch


def _play(seat: Seat, stage: Stage) -> bool:
    """Let a person play until he wants to review the game (True) or to leave."""
    picture = seat.picture(*stage.size)
    while not seat.wants_review:
        seat.look()
        if not stage.is_behind:
            picture = seat.picture(*stage.size)
            stage.draw(Group(*picture.lines))
        if seat.has_left or seat.wants_rematch:
            return False
        typed: Any = stage.next(seat.patience)
        if isinstance(typed, Press | Paste | Mouse | Gone) and not seat.do(typed, picture):
            return False
    seat.wants_review = False
    return True
