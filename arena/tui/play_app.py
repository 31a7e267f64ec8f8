"""A person's game on the full screen: typed commands, keys and the mouse, both players, hints and the count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any, ClassVar

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Input

from arena import IllegalMove
from arena.go.coords import Colour, Move, gtp_from_move, move_from_gtp, pass_move
from arena.people.saved_game import Phase, Preview
from arena.people.session import GameSession, Refused
from arena.report import style
from arena.report.board import SIGNS, Overlay, draw_board, legend
from arena.report.play import (
    LETTERS,
    SCARCE,
    UNRATED,
    Commands,
    Left,
    advice_words,
    clock_words,
    command_words,
    count_words,
    ending_words,
    estimate_words,
    move_words,
)
from arena.tui.app import Keys, run_app
from arena.tui.board import BoardApp, BoardPane
from arena.tui.game_app import Evaluate, GameApp

TICK = 0.2
"""Seconds between two looks at clocks and at who thinks."""

LONGEST_LINE = 100
"""Signs that can be typed, or pasted, into the line."""

WORDS = {
    Phase.PLAY: "d4, pass, undo, resign, help, ...",
    Phase.COUNT: "d4, done, continue, undo, help, ...",
    Phase.OVER: "review, rematch, quit, ...",
}
"""What can be typed, as the empty line shows it."""


class Line(Input):
    """The line that is typed. The screen's keys come first, where its ``check_action`` lets them."""

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return False


class PlayApp(BoardApp):
    """A person at a game: what is typed, where the cursor is, what was said last.

    Win rates and scores are shown only where the person has asked for them. Keys are shortcuts on an empty line only.
    """

    BINDINGS: ClassVar[list[Any]] = [
        Binding("question_mark", "word('help')", "Help", priority=True),
        Binding("exclamation_mark", "word('hint')", "Hint", priority=True),
        Binding("equals_sign", "word('score')", "Score", priority=True),
        Binding("ctrl+u", "word('undo')", "Undo", priority=True),
        Binding("ctrl+p", "word('pass')", "Pass", priority=True),
        Binding("r", "word('review')", "Review", priority=True),
        Binding("n", "word('rematch')", "Rematch", priority=True),
        Binding("q", "word('quit')", "Leave", priority=True),
        Binding("up", "move(-1, 0)", show=False, priority=True),
        Binding("down", "move(1, 0)", show=False, priority=True),
        Binding("left", "move(0, -1)", show=False, priority=True),
        Binding("right", "move(0, 1)", show=False, priority=True),
        Binding("escape", "clear", show=False, priority=True),
    ]

    def __init__(
        self,
        session: GameSession,
        *,
        can_review: bool = True,
        colours: bool = True,
        clock: Callable[[], float] = monotonic,
    ):
        self.snapshot = session.snapshot()
        super().__init__(self.snapshot.size, colours)
        self.input = Line(max_length=LONGEST_LINE, compact=True)
        self.message = ""
        self.cursor: Move | None = None
        self.wants = ""
        self._clicked: Move | None = None
        self._session = session
        front = {"": self._enter, "help": self._help}
        front |= {word: partial(self._want, word) for word in ("review", "rematch")}
        self._commands = Commands(session, front, asks=True)
        self._can_review = can_review
        self._clock = clock
        self._waiting_since = clock()

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield self.input

    def on_mount(self) -> None:
        super().on_mount()
        self.input.focus()
        self._session.subscribe(lambda: self.call_later(self.look))
        self.set_interval(TICK, self._tick)
        self.look()

    def hold(self) -> None:
        self._session.pause()

    def go_on(self) -> None:
        self._session.go_on()

    # --- The game goes on by itself ---

    def look(self) -> None:
        """See what has become of the game."""
        self._session.tick()
        before, self.snapshot = self.snapshot, self._session.snapshot()
        if self.snapshot.phase is not before.phase:
            self.message = ""
        if (self.snapshot.phase, self.snapshot.turns) != (before.phase, before.turns):
            self._waiting_since = self._clock()
        self.redraw()

    def _tick(self) -> None:
        if not self.snapshot.is_settled or (self.snapshot.phase is Phase.PLAY and any(self.snapshot.clocks)):
            self.look()

    def redraw(self) -> None:
        preview = self._preview
        fits = preview is not None and not preview.refusal
        where = "" if self.cursor is None else gtp_from_move(self.cursor, self.snapshot.size)
        words = WORDS[self.snapshot.phase]
        self.input.placeholder = f"Enter plays {where}" if where and fits else words
        self.refresh_bindings()
        super().redraw()

    # --- What a person does ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that type text are shortcuts on an empty line only; some are for the time after the end."""
        is_typing = bool(self.input.value) and action != "clear"
        if action in ("word", "move", "clear") and (is_typing or len(self.screen_stack) > 1):
            return False
        is_over, word = self.snapshot.is_over, parameters[0] if parameters else ""
        if action != "word" or word == "help":
            return True
        if word in ("review", "rematch", "quit"):
            return is_over and (word != "review" or self._can_review)
        return not is_over and (word == "undo" or self.snapshot.phase is Phase.PLAY)

    def action_word(self, word: str) -> None:
        self._obey(word)

    def action_move(self, down: int, right: int) -> None:
        """Move the cursor by a point; where it was nowhere, to where the game is."""
        size, last = self.snapshot.size, self.snapshot.last
        if self.cursor is None:
            self.cursor = last if last is not None and last < size * size else size * size // 2
        else:
            row, column = divmod(self.cursor, size)
            self.cursor = min(max(0, row + down), size - 1) * size + min(max(0, column + right), size - 1)
        self.message = ""
        self.redraw()

    def action_clear(self) -> None:
        """Escape: the typed line goes, then the cursor."""
        self.cursor = self.cursor if self.input.value else None
        self.input.clear()
        self.redraw()

    def on_input_changed(self) -> None:
        self.message = self.message if not self.input.value else ""
        self.redraw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.input.clear()
        self._obey(event.value.strip())

    def on_board_pane_pointed(self, message: BoardPane.Pointed) -> None:
        """The mouse moves the cursor; a second click on a point plays there."""
        point, before = message.move, self.cursor
        self.cursor = point
        if message.is_click and not self.snapshot.is_over:
            self.input.clear()
            self.message = ""
            preview = self._preview
            if self.snapshot.phase is Phase.COUNT or before == self._clicked == point:
                self._try(lambda: self._commands.choose(point))
            elif preview is not None:
                self.message = preview.refusal or f"Click {gtp_from_move(point, self.snapshot.size)} again to play."
            self._clicked = point
        if message.is_click or point != before:
            self.redraw()

    def _obey(self, words: str) -> None:
        """Do what a typed line asks for."""
        if (named := self._named(words)) is not None:
            self.cursor = named
        self._try(lambda: self._commands.obey(words))

    def _enter(self) -> str:
        """Enter without a word: what lies nearest."""
        if self.snapshot.is_over:
            return self._want("review")
        if self.cursor is None:
            self.action_move(0, 0)
        else:
            self._commands.choose(self.cursor)
        return ""

    def _try(self, what: Callable[[], str | None]) -> None:
        """Do something with the game, or show why that can't be done."""
        try:
            self.message = what() or ""
        except Left:
            self.leave()
        except (Refused, IllegalMove) as error:
            self.message = str(error)
        self.snapshot = self._session.snapshot()
        self.redraw()

    def _help(self) -> None:
        keys = [
            ("arrows, mouse", "move the cursor"),
            ("Enter, click", "play there"),
            *(pair for pair in command_words(self.snapshot.phase).items() if pair[0] != "board"),
            ("", UNRATED),
        ]
        self.push_screen(Keys(keys))

    def _want(self, word: str) -> str:
        """Leave for a review or another game."""
        if word == "review" and not self._can_review:
            return "No bot here can review games."
        self.wants = word
        self.leave()
        return ""

    # --- The board ---

    def _named(self, words: str) -> Move | None:
        """The point that these words name, if they do."""
        try:
            move = move_from_gtp(words, self.snapshot.size)
        except ValueError:
            return None
        return None if move == pass_move(self.snapshot.size) else move

    @property
    def _target(self) -> Move | None:
        """The point that the typed line names, or that the cursor is on."""
        typed = self._named(self.input.value)
        return self.cursor if typed is None else typed

    @property
    def _preview(self) -> Preview | None:
        if self._target is None or not self.snapshot.is_persons_turn:
            return None
        return self._session.preview(self._target)

    def draw(self, cell: int) -> Sequence[Text]:
        snapshot, preview, beside = self.snapshot, self._preview, pass_move(self.snapshot.size)
        hinted = () if snapshot.advice is None else (candidate.move for candidate in snapshot.advice.candidates)
        letters = {move: letter for move, letter in zip(hinted, LETTERS, strict=False) if move != beside}
        overlay = Overlay(
            cursor=None if snapshot.is_over else self._target,
            ghost=None if preview is None or preview.refusal else snapshot.to_play,
            taken=frozenset(snapshot.dead or () if preview is None else preview.captured),
            letters=letters,
        )
        owned, last = self._ownership, snapshot.last
        return draw_board(snapshot.stones, last, ownership=owned, overlay=overlay, cell=cell, colours=self.colours)

    @property
    def _ownership(self) -> bytes | None:
        """Whose each point is: by the estimate that was asked for, or by the count."""
        snapshot = self.snapshot
        if snapshot.estimate is not None:
            return snapshot.estimate.ownership
        is_counted = snapshot.outcome is None or snapshot.outcome.margin is not None
        return snapshot.count.ownership if snapshot.count is not None and is_counted else None

    # --- The words ---

    def title_words(self) -> Text:
        """What is played, and whether it counts."""
        handicap, unrated = self.snapshot.handicap, self.snapshot.unrated
        words = style.setting(self.snapshot.rules) + (f", handicap {handicap}" if handicap else "")
        return style.text(f"{words}, unrated: {unrated}" if unrated else words, style.LABEL)

    def blocks(self) -> Sequence[RenderableType | None]:
        snapshot, size, waits = self.snapshot, self.snapshot.size, []
        last = style.text("No move yet.")
        if turns := snapshot.turns:
            last = style.text(f"move {turns[-1].number}: {move_words(turns[-1], size)}")
        waits += ["looking for a hint ..."] * bool(snapshot.advising)
        waits += ["estimating the score ..."] * bool(snapshot.estimating)
        return [
            self._players(),
            last.append("\n").append_text(self._turn()),
            style.text(count_words(snapshot)) if snapshot.phase is Phase.COUNT and snapshot.count else None,
            style.text("\n".join(waits)) if waits else None,
            style.text(f"Score: {estimate_words(snapshot.estimate)}") if snapshot.estimate else None,
            style.text(advice_words(snapshot.advice, size)) if snapshot.advice else None,
            legend(self.colours) if self._ownership is not None else None,
        ]

    def _players(self) -> Table:
        """Name, number of captured stones, clock."""
        snapshot = self.snapshot
        table = Table.grid(padding=(0, 2, 0, 0))
        for colour in Colour:
            is_up = snapshot.phase is Phase.PLAY and snapshot.to_play is colour
            name = style.line(f"{SIGNS[colour]} {snapshot.name(colour)}", "bold" if is_up else "")
            clock = snapshot.clocks[colour - 1]
            words = "" if clock is None else clock_words(clock)
            ink = style.WARNING if clock is not None and is_up and clock.seconds < SCARCE else ""
            table.add_row(name, f"captures {snapshot.prisoners[colour.opponent - 1]}", Text(words, ink))
        return table

    def _turn(self) -> Text:
        """Whose turn it is, what is going on, or how the game ended."""
        snapshot = self.snapshot
        waited = self._clock() - self._waiting_since
        after = f", {style.duration(waited)}" if waited >= 1 else ""
        if snapshot.is_over:
            return style.text(ending_words(snapshot), "bold")
        if snapshot.phase is Phase.COUNT:
            words = f"looking for dead stones{after}" if snapshot.count is None else "which stones are dead?"
            return style.text(words, "bold")
        if snapshot.is_paused:
            return style.text("paused", style.WARNING)
        if snapshot.thinking is not None:
            return style.text(f"{snapshot.name(snapshot.thinking)} thinks{after}")
        turn = "your turn" if len(snapshot.people) == 1 else f"{snapshot.name(snapshot.to_play)} to play"
        return style.text(f"{turn} ({SIGNS[snapshot.to_play]})", "bold")

    def status(self) -> Text:
        """What was said last, or what the move at the cursor would do."""
        preview, size = self._preview, self.snapshot.size
        if self.message or preview is None:
            return style.text(self.message or self.snapshot.trouble, style.WARNING)
        if preview.captured:
            return style.text(f"{gtp_from_move(preview.move, size)} takes {len(preview.captured)}.")
        is_obvious = not self.input.value and self.snapshot.stones.flat[preview.move]
        return style.text("" if is_obvious else preview.refusal, style.WARNING)


def show_play(session: GameSession, console: Console, evaluate: Evaluate | None) -> bool:
    """Let people play on the full screen and review their game; says whether another game is wanted. Raises what ended
    it early."""
    colours = style.has_colours(console)
    while True:
        app = PlayApp(session, can_review=evaluate is not None, colours=colours)
        run_app(app)
        if app.wants != "review":
            break
        record, people = session.record(), app.snapshot.people
        whose = people[0] if len(people) == 1 else None
        run_app(GameApp(record, at=len(record.moves), evaluate=evaluate, colour=whose, colours=colours))
    if app.snapshot.is_over:
        console.print(style.text(ending_words(app.snapshot)))
    return app.wants == "rematch"
