"""A finished game on the full screen: its positions, with win rates and comments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from threading import Thread
from typing import Any, ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.binding import Binding

from arena import ArenaError
from arena.go.coords import gtp_from_move
from arena.go.record import GameRecord
from arena.go.sgf import Remark
from arena.report import style
from arena.report.board import SIGNS, Overlay, draw_board
from arena.report.chart import WinRateCurve
from arena.report.game import costs, game_title, move_columns, position_facts, remark_of, replayed
from arena.results.analysis import MISTAKE, Evaluation, evaluation_count
from arena.tui.app import BoardApp

MOST_MISTAKES = 3

SHOWN_NEXT = 10


class GameApp(BoardApp):
    """One game on a board, with a remark on each position, or none; ``by_players`` as in ``report.game.costs``."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("question_mark", "keys", "Keys"),
        Binding("q,escape", "leave", "Leave"),
        Binding("right,space,enter,n", "step(1)", "Next"),
        Binding("left,backspace,p", "step(-1)", "Back"),
        Binding("m", "next_mistake", "Mistake"),
        Binding("pagedown,down", "step(10)", "Ten on", show=False),
        Binding("pageup,up", "step(-10)", "Ten back", show=False),
        Binding("home", "step(-9999)", "Beginning", show=False),
        Binding("end", "step(9999)", "End", show=False),
    ]

    def __init__(
        self,
        record: GameRecord,
        remarks: Sequence[Remark] = (),
        *,
        at: int = 0,
        by_players: bool = False,
        evaluations: Iterator[Evaluation] | None = None,
        colours: bool = True,
    ):
        """``evaluations`` add remarks while the game is on the screen."""
        super().__init__(record.rules.size, colours)
        self.record, self.by_players = record, by_players
        self.title = f"arena: {record.black} vs {record.white}"
        self.number = min(max(0, at), len(record.moves))
        self.remarks = [*remarks, *[Remark()] * (len(record.moves) + 1 - len(remarks))]
        self._positions = replayed(record)
        self._evaluations, self._evaluated = evaluations, 0
        self._message = ""
        self._find_mistakes()

    def on_mount(self) -> None:
        super().on_mount()
        if self._evaluations is not None:
            Thread(target=self._analyse, args=(self._evaluations,), daemon=True).start()
        self.redraw()

    def _analyse(self, evaluations: Iterator[Evaluation]) -> None:
        """Run the analysis in a thread of its own, until the screen closes."""
        try:
            with closing(evaluations):  # type: ignore[type-var]
                for evaluation in evaluations:
                    self.call_later(self._add, evaluation)
                    if not self.is_running:
                        return
        except ArenaError as error:
            self.call_later(self._say, f"The analysis stopped: {error}")

    def _add(self, evaluation: Evaluation) -> None:
        self.remarks[evaluation.number] = remark_of(evaluation, self.record.rules.size)
        self._evaluated += 1
        self._find_mistakes()
        self.redraw()

    def _find_mistakes(self) -> None:
        self.costs = costs(self.record, self.remarks, self.by_players)
        worst = sorted(self.costs, key=lambda number: -self.costs[number])[:MOST_MISTAKES]
        self.mistakes = [number for number in worst if self.costs[number] >= MISTAKE]

    # --- What a person does ---

    def action_step(self, step: int) -> None:
        self.number = min(max(0, self.number + step), len(self.record.moves))
        self._say("")

    def action_next_mistake(self) -> None:
        """Go to the next of them in the order of the game, and from the last to the first."""
        if self.mistakes:
            self.action_step(min(self.mistakes, key=lambda number: (number <= self.number, number)) - self.number)
            return
        self._say("No move cost much." if self.costs else "arena analyze finds the mistakes of this game.")

    def on_mouse_scroll_down(self) -> None:
        self.action_step(1)

    def on_mouse_scroll_up(self) -> None:
        self.action_step(-1)

    def _say(self, words: str) -> None:
        self._message = words
        self.redraw()

    # --- What is seen ---

    def draw(self, cell: int) -> Sequence[Text]:
        last = self.record.moves[self.number - 1] if self.number else None
        stones, remark = self._positions[self.number][0], self.remarks[self.number]
        overlay = Overlay(letters=remark.letters, policy=remark.policy)
        return draw_board(stones, last, ownership=remark.ownership, overlay=overlay, cell=cell, colours=self.colours)

    def words(self) -> tuple[Text, Sequence[RenderableType | None], Text]:
        rates, number = [remark.win_rate for remark in self.remarks], self.number
        remark, cost = self.remarks[number], self.costs.get(number, 0.0)
        worst = style.text("Largest mistakes (m):", style.LABEL)
        for at in self.mistakes:
            move = gtp_from_move(self.record.moves[at - 1], self.record.rules.size)
            worst.append(f"\n  move {at}: {SIGNS[self.record.mover(at)]} {move}  {self.costs[at]:.0%}")
        blocks = [
            position_facts(self.record, number, self._positions[number], remark, cost),
            style.text(remark.comment) if remark.comment else None,
            WinRateCurve(rates, number, self.mistakes) if any(rate is not None for rate in rates) else None,
            worst if self.mistakes else None,
            move_columns(self.record, number, number + SHOWN_NEXT) if number < len(rates) - 1 else None,
        ]
        message, planned = self._message, evaluation_count(self.record)
        if self._evaluations is not None and self._evaluated < planned and not message:
            message = f"Analysing: {self._evaluated} of {planned} positions. q goes back."
        return game_title(self.record), blocks, style.text(message, style.LABEL)
