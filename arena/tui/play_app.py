"""A person's game on the full screen: commands, keys and the mouse, both players, hints and the count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Key
from textual.widgets import Input

from arena import IllegalMove
from arena.go.coords import Colour, Move, gtp_from_move, move_from_gtp, pass_move
from arena.go.record import GameRecord
from arena.people.commands import COMMANDS, UNRATED, CommandReader, Left, command_words
from arena.people.saved_game import Phase, SavedGame
from arena.people.session import ActionRefused, GameSession
from arena.report import play, style
from arena.report.board import SIGNS, Overlay, draw_board, legend
from arena.results.analysis import Evaluation
from arena.tui.app import BoardApp, BoardPane, KeyBindings, run_app
from arena.tui.game_app import GameApp

REDRAW_SECONDS = 0.2  # seconds between two drawings while a clock runs
LONGEST_LINE = 100  # maximum length of a typed or pasted line
ARROWS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
EDITING: Any = Input.BINDINGS


class Line(Input, inherit_bindings=False):
    """The line that is typed. The screen's keys come first, where its ``check_action`` lets them."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding(key, one.action, show=False) for one in EDITING for key in one.key.split(",") if "ctrl" not in key
    ]

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return False

    async def on_key(self, event: Key) -> None:
        """Submit the line before the next key, which may have been typed already: a binding would come after it."""
        if event.key in ("enter", "ctrl+j"):  # the latter is an Enter from before the screen opened
            event.stop()
            event.prevent_default()
            await self.action_submit()
            self.clear()


class PlayApp(BoardApp):
    """A person's game. Win rates and scores are shown on request only. Keys are shortcuts on an empty line only."""

    BINDINGS: ClassVar[list[Any]] = [
        *(Binding(each.key, f"word('{each.word}')", each.word.title(), priority=True) for each in COMMANDS if each.key),
        *(Binding(key, f"move{step}", show=False, priority=True) for key, step in ARROWS.items()),
        Binding("escape", "clear", show=False, priority=True),
        Binding("y", "word('y')", show=False, priority=True),
        Binding("q", "word('q')", show=False, priority=True),
    ]

    def __init__(
        self, session: GameSession, colours: bool = True, remarks: Callable[[SavedGame], Sequence[str]] = lambda _: ()
    ):
        """``remarks`` has lines to show below the result of a finished game."""
        self.snapshot = session.snapshot()
        super().__init__(self.snapshot.size, colours)
        self.title = f"arena: {' vs '.join(self.snapshot.names)}"
        self.input = Line(max_length=LONGEST_LINE, compact=True)
        self.message = ""
        self.cursor: Move | None = None
        self.choice = ""  # after the end: rematch or review
        self._session, self._remarks = session, remarks
        self._ending: tuple[str, ...] | None = None
        own = {"": self._enter, "help": self._help, "board": lambda: None}
        own |= {word: partial(self._choose, word) for word in ("rematch", "review")}
        self._commands = CommandReader(session, own, "Press y")

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield self.input

    def on_mount(self) -> None:
        super().on_mount()
        self.screen.set_focus(self.input)  # at once: keys may be waiting
        self._session.subscribe(lambda: self.call_later(self.look))
        self.set_interval(REDRAW_SECONDS, self._tick)
        self.look()

    # --- The game goes on by itself ---

    def look(self) -> None:
        self._session.update()
        before, self.snapshot = self.snapshot, self._session.snapshot()
        if self.snapshot.phase is not before.phase:
            self.message = ""
        self.redraw()

    def _tick(self) -> None:
        if self.snapshot.phase is Phase.PLAY and any(self.snapshot.clocks):
            self.look()

    def redraw(self) -> None:
        can_play = self.cursor is not None and self.snapshot.is_persons_turn
        point = gtp_from_move(self.cursor or 0, self.snapshot.size)
        words = ", ".join([*command_words(self.snapshot.phase)][1:6])
        self.input.placeholder = f"Enter plays {point}" if can_play else f"{words}, ..."
        self.refresh_bindings()
        super().redraw()

    # --- What a person does ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are shortcuts on an empty line only: y where a question was asked, q after the end."""
        is_typing = bool(self.input.value) and action != "clear"
        if action in ("word", "move", "clear") and (is_typing or len(self.screen_stack) > 1):
            return False
        letters = {"y": bool(self._commands.question), "q": self.snapshot.is_over}
        words = letters | dict.fromkeys(command_words(self.snapshot.phase), True)
        return action != "word" or words.get(str(parameters[0]), False)

    def action_word(self, word: str) -> None:
        self._try(lambda: self._commands.apply(word))

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
        if self.input.value:
            self.message = self._commands.question = ""
        self.redraw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        named = self._named(event.value)
        self.cursor = self.cursor if named is None else named
        self._try(lambda: self._commands.apply(event.value))

    def on_board_pane_clicked(self, message: BoardPane.Clicked) -> None:
        """A click moves the cursor; one on the cursor plays there, or marks dead stones."""
        point, before, now = message.move, self.cursor, self.snapshot
        self.cursor = point
        self.input.clear()
        if now.phase is Phase.COUNT or point == before:
            self._try(lambda: self._commands.choose(point))
        elif now.is_persons_turn:
            self.message = f"Click {gtp_from_move(point, now.size)} again to play."
        self.redraw()

    def _enter(self) -> None:
        if self.cursor is None:
            self.action_move(0, 0)
        else:
            self._commands.choose(self.cursor)

    def _try(self, what: Callable[[], str | None]) -> None:
        """Carry out an action, or show why it is refused."""
        try:
            self.message = what() or ""
        except Left:
            self.action_leave()
        except (ActionRefused, IllegalMove) as error:
            self.message = str(error)
        self.snapshot = self._session.snapshot()
        self.redraw()

    def _help(self) -> None:
        keys = [
            ("arrows, mouse", "move the cursor"),
            ("Enter, click", "play there"),
            *command_words(self.snapshot.phase).items(),
            ("", UNRATED),
        ]
        self.push_screen(KeyBindings(keys))

    def _choose(self, choice: str) -> None:
        self.choice = choice
        self.action_leave()

    # --- The board ---

    def _named(self, words: str) -> Move | None:
        """The point that was typed; None for anything else."""
        with suppress(ValueError):
            move = move_from_gtp(words.strip(), self.snapshot.size)
            return None if move == pass_move(self.snapshot.size) else move
        return None

    def draw(self, cell: int) -> Sequence[Text]:
        now, typed = self.snapshot, self._named(self.input.value)
        hinted = () if now.advice is None else (candidate.move for candidate in now.advice.candidates)
        letters = zip(hinted, play.LETTERS, strict=False)
        overlay = Overlay(
            cursor=None if now.is_over else self.cursor if typed is None else typed,
            ghost=now.to_play if now.is_persons_turn else None,
            dead=frozenset(now.dead or ()),
            letters={move: sign for move, sign in letters if move != pass_move(now.size)},
        )
        owned, last = self._ownership, now.last
        return draw_board(now.stones, last, ownership=owned, overlay=overlay, cell=cell, colours=self.colours)

    @property
    def _ownership(self) -> bytes | None:
        now = self.snapshot
        if now.estimate is not None:
            return now.estimate.ownership
        is_counted = now.record.outcome is None or now.record.outcome.margin is not None
        return now.count.ownership if now.count is not None and is_counted else None

    # --- The words ---

    def words(self) -> tuple[Text, Sequence[RenderableType | None], Text]:
        now, size, owned = self.snapshot, self.snapshot.size, self._ownership
        title = style.rules_words(now.record.rules, now.handicap)
        title += f", unrated: {now.unrated}" if now.unrated else ""
        last = f"move {now.turns[-1].number}: {play.move_words(now.turns[-1], size)}" if now.turns else "No move yet."
        waits = ["looking for a hint ..."] * now.advising + ["estimating the score ..."] * now.estimating
        blocks = [
            self._players(),
            style.text(last).append("\n").append_text(self._turn()),
            style.text(play.count_words(now)) if now.phase is Phase.COUNT and now.count else None,
            style.text("\n".join(waits)) if waits else None,
            style.text(f"Score: {play.estimate_words(now.estimate)}") if now.estimate else None,
            style.text(play.advice_words(now.advice, size)) if now.advice else None,
            None if owned is None else legend(self.colours),
        ]
        return style.text(title, style.LABEL), blocks, style.text(self.message or now.trouble, style.WARNING)

    def _players(self) -> Table:
        now, table = self.snapshot, Table.grid(padding=(0, 2, 0, 0))
        for colour in Colour:
            is_up = now.phase is Phase.PLAY and now.to_play is colour
            name = style.line(f"{SIGNS[colour]} {now.name(colour)}", "bold" if is_up else "")
            clock = now.clocks[colour - 1]
            ink = style.WARNING if clock is not None and is_up and clock.seconds < play.SCARCE else ""
            words = Text("" if clock is None else play.clock_words(clock), ink)
            table.add_row(name, f"captures {now.prisoners[colour.opponent - 1]}", words)
        return table

    def _turn(self) -> Text:
        now = self.snapshot
        if now.is_over:
            if self._ending is None:
                self._ending = tuple(self._remarks(now))
            return style.text(play.ending_words(now), "bold").append("".join(f"\n{line}" for line in self._ending))
        if now.phase is Phase.COUNT:
            return style.text("looking for dead stones" if now.count is None else "which stones are dead?", "bold")
        if now.thinking is not None:
            return style.text(f"{now.name(now.thinking)} thinks")
        turn = "your turn" if len(now.people) == 1 else f"{now.name(now.to_play)} to play"
        return style.text(f"{turn} ({SIGNS[now.to_play]})", "bold")


def show_play(
    session: GameSession,
    console: Console,
    remarks: Callable[[SavedGame], Sequence[str]],
    analyse: Callable[[GameRecord], Iterator[Evaluation]] | None = None,
) -> bool:
    """Let people play on the full screen; returns whether they want another game. ``analyse`` yields the evaluations
    for a review. Raises the exception that ended the screen early."""
    while True:
        app = PlayApp(session, style.has_colours(console), remarks)
        run_app(app)
        if app.choice != "review":
            break
        record = app.snapshot.record
        run_app(GameApp(record, evaluations=analyse and analyse(record), colours=app.colours))
    if app.snapshot.is_over:
        console.print(style.text(play.ending_words(app.snapshot)))
    return app.choice == "rematch"
