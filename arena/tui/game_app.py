"""A finished game on the full screen: stepped through, also while a bot evaluates it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.message import Message

from arena import UserError
from arena.go.coords import Colour, gtp_from_move
from arena.go.record import GameRecord
from arena.go.sgf import Remark
from arena.report import style
from arena.report.board import SIGNS, Overlay, draw_board, legend
from arena.report.chart import draw_curve
from arena.report.game import costs, game_title, move_lines, position_facts, remarks_of, replayed
from arena.results.analysis import MISTAKE, Evaluation, evaluation_count, judge, mistakes, spelled
from arena.tui.board import NUMBERS, Block, BoardApp, BoardPane, signs_at

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
        Binding("q", "close", "Leave"),
        Binding("question_mark", "keys", "Keys"),
        Binding("right,space,enter,n", "step(1)", "Next move"),
        Binding("left,backspace,p", "step(-1)", "Back"),
        Binding("pagedown,down", "step(10)", "Ten on", show=False),
        Binding("pageup,up", "step(-10)", "Ten back", show=False),
        Binding("home", "go(0)", "Beginning", show=False),
        Binding("end", "go(9999)", "End", show=False),
        Binding("m", "next_mistake", "Mistake"),
        Binding("v", "vary", "Instead"),
        Binding("o", "owners", "Owners"),
        Binding("escape", "close", "Leave", show=False),
    ]
    MORE_KEYS = (("Click", "Go to the move at a point"), ("Ctrl-Z", "Suspend"))

    class Evaluated(Message):
        """A bot has evaluated the next position, or can't."""

        def __init__(self, found: Evaluation | UserError):
            super().__init__()
            self.found = found

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
        self._fault = ""
        self._positions = replayed(record)
        self._shows_instead = False
        self._message = ""
        self._shows_owners = True
        self._is_left = threading.Event()
        self.remark_on(remarks)

    def remark_on(self, remarks: Sequence[Remark], mistakes: Sequence[int] | None = None) -> None:
        """Put other remarks in place of those that there are; without ``mistakes``, these follow from win rates."""
        self.remarks = [*remarks, *[Remark()] * (len(self.record.moves) + 1 - len(remarks))]
        self.costs = costs(self.record, [remark.win_rate for remark in self.remarks], self._by_players)
        worst = sorted((cost, number) for number, cost in self.costs.items() if cost >= MISTAKE)[::-1]
        self.mistakes = [number for _, number in worst[:MOST_MISTAKES]] if mistakes is None else list(mistakes)

    def on_mount(self) -> None:
        super().on_mount()
        if self._evaluate is not None:
            threading.Thread(target=self._evaluate_all, name="review", daemon=True).start()

    def _evaluate_all(self) -> None:
        assert self._evaluate is not None
        try:
            for evaluation in self._evaluate(self.record):
                if self._is_left.is_set():
                    return
                self.post_message(self.Evaluated(evaluation))
        except UserError as error:
            self.post_message(self.Evaluated(error))

    def on_game_app_evaluated(self, message: Evaluated) -> None:
        if isinstance(message.found, UserError):
            self._fault = str(message.found)
        else:
            self._evaluations.append(message.found)
            worst = mistakes(judge(self.record, self._evaluations), colour=self._colour)
            self.remark_on(remarks_of(self.record, self._evaluations), [move.number for move in worst])
        self.redraw()

    def on_unmount(self) -> None:
        self._is_left.set()

    # --- What a person does ---

    def action_close(self) -> None:
        if self._shows_instead:
            self.action_vary()
        else:
            self.leave()

    def action_step(self, step: int) -> None:
        self.action_go(self.number + step)

    def action_go(self, number: int) -> None:
        self._shows_instead, self._message = False, ""
        self.number = min(max(0, number), len(self.record.moves))
        self.redraw()

    def action_next_mistake(self) -> None:
        """Go to the next of them in the order of the game, and from the last to the first."""
        if self.mistakes:
            self.action_go(min([number for number in self.mistakes if number > self.number] or self.mistakes))
            return
        known = any(remark.win_rate is not None for remark in self.remarks)
        self._say("No move cost much." if known else "This game has no win rates; arena analyze adds them.")

    def action_vary(self) -> None:
        """Number what the bot would have played instead of the move that led here, on the board before it; or not."""
        if not self._shows_instead and not self.remark.instead:
            self._say("No variation stands beside this move.")
            return
        self._shows_instead = not self._shows_instead
        self._say("")

    def action_owners(self) -> None:
        self._shows_owners = not self._shows_owners
        self.redraw()

    def on_board_pane_pointed(self, message: BoardPane.Pointed) -> None:
        """A click goes to the move that was played at a point last."""
        if not message.is_click:
            return
        played = [number for number, move in enumerate(self.record.moves, 1) if move == message.move]
        earlier = [number for number in played if number <= self.number]
        if played:
            self.action_go(max(earlier) if earlier else played[0])
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

    def title_lines(self, width: int) -> Sequence[Text]:
        return game_title(self.record, width)

    def board_lines(self, cell: int) -> Sequence[Text]:
        number, ownership, letters = self.number, None, self.remark.letters
        if self._shows_instead:
            number -= 1
            letters = signs_at(self.remark.instead, NUMBERS, self.record.rules.size)
        elif self._shows_owners:
            ownership = self.remark.ownership
        last = self.record.moves[number - 1] if number else None
        stones, overlay = self._positions[number][0], Overlay(letters=letters)
        return draw_board(stones, last, ownership=ownership, overlay=overlay, cell=cell, colours=self.colours)

    def blocks(self) -> Sequence[Block]:
        return [self._facts, self._comment, self._curve, self._list_of_mistakes, self._next_moves, self._legend]

    def _facts(self, width: int, height: int) -> Sequence[Text]:
        """Which move, what was taken, who is ahead."""
        if self._shows_instead:
            size = self.record.rules.size
            words = f"instead of {gtp_from_move(self.record.moves[self.number - 1], size)}:"
            return style.folded(f"{words} {spelled(self.remark.instead, size, 9)}", width, height, "bold")
        position, cost = self._positions[self.number], self.costs.get(self.number, 0.0)
        return position_facts(self.record, self.number, position, self.remark, cost, self._by_players, width)

    def _comment(self, width: int, height: int) -> Sequence[Text]:
        return style.folded(self.remark.comment, width, height)

    def _curve(self, width: int, height: int) -> Sequence[Text]:
        rates = [remark.win_rate for remark in self.remarks]
        return draw_curve(rates, self.number, width, height, mistakes=self.mistakes)

    def _list_of_mistakes(self, width: int, height: int) -> Sequence[Text]:
        if not self.mistakes or height < 2:
            return []
        lines = style.said("Largest mistakes (m):", width, style.LABEL)
        for number in self.mistakes[: height - 1]:
            move = gtp_from_move(self.record.moves[number - 1], self.record.rules.size)
            cost = f"  {self.costs[number]:.0%}" if number in self.costs else ""
            lines += style.said(f"  move {number}: {SIGNS[self.record.mover(number)]} {move}{cost}", width)
        return lines

    def _next_moves(self, width: int, height: int) -> Sequence[Text]:
        last = min(len(self.record.moves), self.number + SHOWN_NEXT)
        found = move_lines(self.record, self.number, last, width)
        return [line for words in found[: min(2, height)] for line in style.said(words, width, style.LABEL)]

    def _legend(self, width: int, height: int) -> Sequence[Text]:
        return [legend(self.colours)] if self._shows_owners and self.remark.ownership is not None else []

    def status_lines(self, width: int) -> Sequence[Text]:
        total = evaluation_count(self.record)
        if self._message or self._fault:
            return style.said(self._message or self._fault, width, style.WARNING)
        is_busy = self._evaluate is not None and len(self._evaluations) < total
        words = f"evaluated {len(self._evaluations)} of {total} positions" if is_busy else ""
        return style.said(words, width, style.LABEL)
