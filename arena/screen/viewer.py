"""A game that is stepped through: which position is seen, what keys and the mouse do, what stands beside the board.

No terminal is read or written here, and nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from arena.go.moves import Colour, Move, gtp_from_move
from arena.go.record import Record
from arena.go.remarks import Remark
from arena.screen import style
from arena.screen.board import Overlay, draw_board, stone_sign
from arena.screen.chart import draw_curve
from arena.screen.scene import Block, Picture, Scene
from arena.screen.steps import costs, ended, move_lines, mover, positions
from arena.screen.terminal import Act, Mouse, Paste, Press, Typed
from arena.screen.themes import DARK, Theme
from arena.screen.words import captures, folded, joined, lead

STRIDE = 10
"""Moves that PgUp and PgDn go."""

MISTAKE = 0.05
"""Win rate that a move must cost to be called a mistake."""

MOST_MISTAKES = 3

SHOWN_NEXT = 10
"""Moves that follow which are told."""

KEYS = (
    "← → a move · PgUp PgDn ten · Home End · g to a move · m next mistake · o owners · q leave",
    "← → move · PgUp PgDn ten · Home End · g go to · m mistake · o owners · q leave",
    "← → move · g go to · m mistake · q leave",
    "← → move · q leave",
)
"""What can be pressed, the longest wording first."""


class Viewer:
    """One game on a board.

    ``remarks`` has one for each position, or none; ``mistakes`` are the numbers of moves that were bad, the worst
    first, and found from the win rates of the remarks unless given.
    """

    def __init__(
        self,
        record: Record,
        remarks: Sequence[Remark] = (),
        *,
        at: int = 0,
        mistakes: Sequence[int] | None = None,
        theme: Theme = DARK,
        ascii_only: bool = False,
    ):
        self.record = record
        self.remark_on(remarks, mistakes)
        self.number = min(max(0, at), len(record.moves))
        self.theme = theme
        self.ascii_only = ascii_only
        self._positions = positions(record)
        self._number_typed: str | None = None  # what is typed of a move's number
        self._message = ""
        self._shows_owners = True

    def remark_on(self, remarks: Sequence[Remark], mistakes: Sequence[int] | None = None) -> None:
        """Put other remarks, and mistakes, in place of those that there are; positions beyond them have none."""
        self.remarks = [*remarks, *[Remark()] * (len(self.record.moves) + 1 - len(remarks))]
        self.costs = costs(self.record, [remark.win_rate for remark in self.remarks])
        worst = sorted((cost, number) for number, cost in self.costs.items() if cost >= MISTAKE)[::-1]
        found = [number for _, number in worst[:MOST_MISTAKES]]
        self.mistakes = found if mistakes is None else list(mistakes)

    # --- What a person does ---

    def do(self, typed: Typed, picture: Picture | None = None) -> bool:
        """Do what was asked for; False when it is to leave. ``picture`` is what was clicked on."""
        self._message = ""
        match typed:
            case Press(key):
                return self._press(key)
            case Paste(text):
                for sign in text.strip()[:9]:
                    self._press(sign)
            case Mouse(Act.WHEEL_UP):
                self._go(self.number - 1)
            case Mouse(Act.WHEEL_DOWN):
                self._go(self.number + 1)
            case Mouse(Act.CLICK, row, column) if picture is not None:
                self._find(picture.point_at(row, column))
        return True

    def _press(self, key: str) -> bool:
        last = len(self.record.moves)
        if self._number_typed is not None or key.isdecimal():
            return self._type_number(key)
        match key.lower():
            case "right" | " " | "enter" | "n":
                self._go(self.number + 1)
            case "left" | "backspace" | "p":
                self._go(self.number - 1)
            case "page down" | "down":
                self._go(self.number + STRIDE)
            case "page up" | "up":
                self._go(self.number - STRIDE)
            case "home":
                self._go(0)
            case "end":
                self._go(last)
            case "g":
                self._number_typed = ""
            case "m":
                self._next_mistake()
            case "o":
                self._shows_owners = not self._shows_owners
            case "q" | "escape" | "ctrl-d":
                return False
        return True

    def _go(self, number: int) -> None:
        self.number = min(max(0, number), len(self.record.moves))

    def _type_number(self, key: str) -> bool:
        """A sign of the number that is asked for, its end, or what gives it up."""
        typed = self._number_typed or ""
        if key.isdecimal() and key.isascii():
            self._number_typed = (typed + key)[:4]
        elif key == "backspace":
            self._number_typed = typed[:-1]
        elif key == "enter":
            self._number_typed = None
            last = len(self.record.moves)
            if typed and int(typed) <= last:
                self._go(int(typed))
            elif typed:
                self._message = f"There is no move {int(typed)}: the game has {last}."
        elif key in ("escape", "q"):
            self._number_typed = None
        else:
            self._number_typed = None
            return self._press(key)
        return True

    def _next_mistake(self) -> None:
        """Go to the next of them in the order of the game, and from the last to the first."""
        if not self.mistakes:
            known = any(remark.win_rate is not None for remark in self.remarks)
            self._message = "No move cost much." if known else "This game has no win rates: arena analyze finds them."
            return
        later = [number for number in self.mistakes if number > self.number]
        self._go(min(later or self.mistakes))

    def _find(self, point: Move | None) -> None:
        """Go to the move that was played at a point last."""
        if point is None:
            return
        played = [number for number, move in enumerate(self.record.moves, 1) if move == point]
        earlier = [number for number in played if number <= self.number]
        if played:
            self._go(max(earlier) if earlier else played[0])
        else:
            self._message = f"Nobody played {gtp_from_move(point, self.record.rules.size)}."

    # --- What is seen ---

    @property
    def remark(self) -> Remark:
        """What is said about the position."""
        return self.remarks[self.number]

    def board(self) -> list[Text]:
        """The position, with what the remark has to show on it."""
        remark = self.remark
        letters = {move: style.spell(sign, self.ascii_only) for move, sign in remark.letters.items()}
        return draw_board(
            self._positions[self.number][0],
            self.record.moves[self.number - 1] if self.number else None,
            ascii_only=self.ascii_only,
            ownership=remark.ownership if self._shows_owners else None,
            overlay=Overlay(letters=letters),
            theme=self.theme,
        )

    def scene(self) -> Scene:
        return Scene(
            size=self.record.rules.size,
            board=self.board(),
            title=self.title,
            facts=self.facts,
            blocks=self.blocks(),
            status=lambda width: self.said(self._message, width, style.WARNING) if self._message else [],
            prompt=self._prompt,
            hint=self._hint,
        )

    def title(self, width: int) -> list[Text]:
        """Who played, and how it ended."""
        record = self.record
        names = [
            _named(name, rank, width // 2 - 2)
            for name, rank in ((record.black, record.black_rank), (record.white, record.white_rank))
        ]
        signs = [stone_sign(colour) for colour in Colour]
        who = Text().append(style.spell(f"{signs[0]} {names[0] or 'Black'}", self.ascii_only), "bold")
        who.append(style.spell(f"  {signs[1]} {names[1] or 'White'}", self.ascii_only), "bold")
        rules = record.rules
        about = [ended(record), f"{rules.name} rules, komi {rules.komi:g}", record.date, record.id]
        return [who, *self.said(joined(about, width), width, self.theme.label)]

    def facts(self, width: int) -> list[Text]:
        """Which move, what was taken, whose turn it is, who is ahead."""
        record, number = self.record, self.number
        _, taken = self._positions[number]
        if number:
            colour = mover(record, number)
            move = gtp_from_move(record.moves[number - 1], record.rules.size)
            words = f"move {number} of {len(record.moves)}: {stone_sign(colour)} {move}"
        else:
            words = f"the beginning; {len(record.moves)} moves follow"
        lines = self.said(words, width, "bold")
        lines += self.said(captures(*taken), width)
        remark = self.remark
        if remark.win_rate is not None:
            ahead = "" if remark.margin is None else f", {lead(remark.margin)}"
            lines += self.said(f"Black wins {remark.win_rate:.0%}{ahead}", width)
        if self.costs.get(number, 0.0) >= MISTAKE:
            lines += self.said(f"this move cost {self.costs[number]:.0%} of win rate", width, style.WARNING)
        return lines

    def blocks(self) -> list[Block]:
        """What stands beside or below the board where there is room, the most important first."""
        return [self._comment, self._curve, self._list_of_mistakes, self._next_moves]

    def _comment(self, width: int, height: int) -> list[Text]:
        return folded(self.remark.comment, width, height, self.ascii_only)

    def _curve(self, width: int, height: int) -> list[Text]:
        rates = [remark.win_rate for remark in self.remarks]
        return draw_curve(
            rates,
            self.number,
            width,
            height,
            mistakes=self.mistakes,
            ascii_only=self.ascii_only,
            label=self.theme.label,
        )

    def _list_of_mistakes(self, width: int, height: int) -> list[Text]:
        if not self.mistakes or height < 2:
            return []
        lines = self.said("What cost the most (m):", width, self.theme.label)
        for number in self.mistakes[: height - 1]:
            move = gtp_from_move(self.record.moves[number - 1], self.record.rules.size)
            sign = stone_sign(mover(self.record, number))
            cost = self.costs.get(number)
            told = "" if cost is None else f"  {cost:.0%}"
            lines += self.said(f"  move {number}: {sign} {move}{told}", width)
        return lines

    def _next_moves(self, width: int, height: int) -> list[Text]:
        """The moves of the game that follow."""
        last = min(len(self.record.moves), self.number + SHOWN_NEXT)
        found = move_lines(self.record, self.number, last, width)
        return [line for words in found[: min(2, height)] for line in self.said(words, width, self.theme.label)]

    def _prompt(self, width: int) -> list[Text]:
        if self._number_typed is None:
            return []
        return self.said(f"to move: {self._number_typed}_", width, "bold")

    def _hint(self, width: int) -> list[Text]:
        wordings = list(KEYS)
        if not self.mistakes:
            wordings = [words.replace(" · m next mistake", "").replace(" · m mistake", "") for words in wordings]
        if all(remark.ownership is None for remark in self.remarks):
            wordings = [words.replace(" · o owners", "") for words in wordings]
        words = next((words for words in wordings if cell_len(words) <= width), "")
        return self.said(words, width, self.theme.label) if words else []

    def said(self, words: str, width: int, text_style: str = "") -> list[Text]:
        """A line, cut where it is too long."""
        return [Text(style.spell(style.clip(words, width), self.ascii_only), text_style)]


def _named(name: str, rank: str, width: int) -> str:
    return style.shorten(f"{name} {rank}".strip(), max(6, width))
