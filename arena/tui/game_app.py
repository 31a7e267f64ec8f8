"""A finished game on the full screen: stepped through, also while a bot evaluates it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.binding import Binding

from arena import UserError
from arena.go.coords import Colour, gtp_from_move
from arena.go.record import GameRecord
from arena.go.sgf import Remark, read_remarks, write_sgf
from arena.report import style
from arena.report.board import SIGNS, Overlay, draw_board
from arena.report.chart import WinRateCurve
from arena.report.game import costs, game_title, move_columns, position_facts, replayed
from arena.results.analysis import MISTAKE, Evaluation, evaluation_count, notes
from arena.tui.board import BoardApp, BoardPane

MOST_MISTAKES = 3

SHOWN_NEXT = 10
"""Moves that follow which are shown."""

Evaluate = Callable[[GameRecord], Iterator[Evaluation]]
"""What a bot thinks of each position of a game, one after the other, as soon as it is known."""


class GameApp(BoardApp):
    """One game on a board.

    ``remarks`` has one for each position, or none; ``by_players`` those from who has just moved. With ``evaluate``,
    they come while the game is looked at, and mistakes are those of one ``colour``, or of both.
    """

    BINDINGS: ClassVar[list[Any]] = [
        Binding("q,escape", "leave", "Leave"),
        Binding("question_mark", "keys", "Keys"),
        Binding("right,space,enter,n", "step(1)", "Next move"),
        Binding("left,backspace,p", "step(-1)", "Back"),
        Binding("m", "next_mistake", "Mistake"),
        Binding("pagedown,down", "step(10)", "Ten on", show=False),
        Binding("pageup,up", "step(-10)", "Ten back", show=False),
        Binding("home", "go(0)", "Beginning", show=False),
        Binding("end", "go(9999)", "End", show=False),
    ]
    MORE_KEYS = (("Click", "Go to the move at a point"), ("Ctrl-Z", "Suspend"))

    def __init__(
        self,
        record: GameRecord,
        remarks: Sequence[Remark] = (),
        *,
        at: int = 0,
        by_players: bool = False,
        evaluate: Evaluate | None = None,
        colour: Colour | None = None,
        colours: bool = True,
    ):
        super().__init__(record.rules.size, colours)
        self.record = record
        self.number = min(max(0, at), len(record.moves))
        self.mistakes: list[int] = []
        self._by_players = by_players
        self._evaluate, self._colour = evaluate, colour
        self._evaluations: list[Evaluation] = []
        self._positions = replayed(record)
        self._message = ""
        self._is_left = threading.Event()
        self.remark_on(remarks)

    def remark_on(self, remarks: Sequence[Remark]) -> None:
        """Put other remarks in place of those that there are."""
        self.remarks = [*remarks, *[Remark()] * (len(self.record.moves) + 1 - len(remarks))]
        self.costs = costs(self.record, [remark.win_rate for remark in self.remarks], self._by_players)
        own = {number for number in self.costs if self._colour in (None, self.record.mover(number))}
        worst = sorted((self.costs[number], number) for number in own if self.costs[number] >= MISTAKE)[::-1]
        self.mistakes = [number for _, number in worst[:MOST_MISTAKES]]

    def on_mount(self) -> None:
        super().on_mount()
        if self._evaluate is not None:
            threading.Thread(target=self._evaluate_all, args=(self._evaluate,), name="review", daemon=True).start()

    def _evaluate_all(self, evaluate: Evaluate) -> None:
        try:
            for evaluation in evaluate(self.record):
                if self._is_left.is_set():
                    return
                self.call_later(self._add, evaluation)
        except UserError as error:
            self.call_later(self._fail, str(error))

    def _add(self, evaluation: Evaluation) -> None:
        self._evaluations.append(evaluation)
        text = write_sgf(self.record, notes(self.record, self._evaluations, "review"))
        self.remark_on(read_remarks(text, self.record))
        self.redraw()

    def _fail(self, words: str) -> None:
        self._evaluate = None
        self._say(words)

    def on_unmount(self) -> None:
        self._is_left.set()

    # --- What a person does ---

    def action_step(self, step: int) -> None:
        self.action_go(self.number + step)

    def action_go(self, number: int) -> None:
        self.number = min(max(0, number), len(self.record.moves))
        self._say("")

    def action_next_mistake(self) -> None:
        """Go to the next of them in the order of the game, and from the last to the first."""
        if self.mistakes:
            self.action_go(min([number for number in self.mistakes if number > self.number] or self.mistakes))
            return
        known = any(remark.win_rate is not None for remark in self.remarks)
        self._say("No move cost much." if known else "This game has no win rates; arena analyze adds them.")

    def on_board_pane_pointed(self, message: BoardPane.Pointed) -> None:
        """A click goes to the move that was played at a point last."""
        if not message.is_click:
            return
        played = [number for number, move in enumerate(self.record.moves, 1) if move == message.move]
        if played:
            self.action_go(max([number for number in played if number <= self.number] or played[:1]))
        else:
            self._say(f"Nobody played {gtp_from_move(message.move, self.record.rules.size)}.")

    def on_mouse_scroll_down(self) -> None:
        self.action_step(1)

    def on_mouse_scroll_up(self) -> None:
        self.action_step(-1)

    def _say(self, words: str) -> None:
        self._message = words
        self.redraw()

    # --- What is seen ---

    @property
    def remark(self) -> Remark:
        """What is said about the position."""
        return self.remarks[self.number]

    def title_words(self) -> RenderableType:
        return game_title(self.record)

    def draw(self, cell: int) -> Sequence[Text]:
        last = self.record.moves[self.number - 1] if self.number else None
        stones, overlay = self._positions[self.number][0], Overlay(letters=self.remark.letters)
        return draw_board(stones, last, overlay=overlay, cell=cell, colours=self.colours)

    def blocks(self) -> Sequence[RenderableType | None]:
        rates, remark, number = [remark.win_rate for remark in self.remarks], self.remark, self.number
        position, cost = self._positions[number], self.costs.get(number, 0.0)
        return [
            position_facts(self.record, number, position, remark, cost, self._by_players),
            style.text(remark.comment) if remark.comment else None,
            WinRateCurve(rates, number, self.mistakes) if any(rate is not None for rate in rates) else None,
            self._list_of_mistakes() if self.mistakes else None,
            move_columns(self.record, number, number + SHOWN_NEXT) if number < len(rates) - 1 else None,
        ]

    def _list_of_mistakes(self) -> Text:
        lines = style.text("Largest mistakes (m):", style.LABEL)
        for number in self.mistakes:
            move = gtp_from_move(self.record.moves[number - 1], self.record.rules.size)
            lines.append(f"\n  move {number}: {SIGNS[self.record.mover(number)]} {move}  {self.costs[number]:.0%}")
        return lines

    def status(self) -> Text:
        total = evaluation_count(self.record)
        is_busy = self._evaluate is not None and len(self._evaluations) < total
        words = f"evaluated {len(self._evaluations)} of {total} positions" if is_busy else ""
        return style.text(self._message or words, style.WARNING if self._message else style.LABEL)
