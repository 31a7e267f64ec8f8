"""A finished game on a board: stepped through at a terminal, also while a bot evaluates it; a diagram elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.console import Console, Group
from rich.text import Text

from arena import RecordError, UserError
from arena.go.coords import BLACK, WHITE, Colour, Move, gtp_from_move, pass_move
from arena.go.record import GameRecord
from arena.go.sgf import Remark
from arena.report import style
from arena.report.chart import draw_curve
from arena.results.analysis import (
    MISTAKE,
    Evaluation,
    PlayedMove,
    evaluation_count,
    judge,
    mistakes,
    positions,
    spelled,
)
from arena.screen.board import (
    DARK,
    SMALLEST,
    Block,
    Cell,
    Overlay,
    Picture,
    Scene,
    Theme,
    captures,
    draw_board,
    lead,
    result_words,
    stone_sign,
)
from arena.screen.terminal import Act, Gone, Mouse, Paste, Press, Stage, Typed

STRIDE = 10
"""Moves that PgUp and PgDn go."""

MOST_MISTAKES = 3

SHOWN_NEXT = 10
"""Moves that follow which are told."""

KEYS = (
    "← → a move · PgUp PgDn ten · Home End · g to a move · m next mistake · v instead · o owners · q leave",
    "← → move · PgUp PgDn ten · Home End · g go to · m mistake · v instead · o owners · q leave",
    "← → move · g go to · m mistake · q leave",
    "← → move · q leave",
)
"""What can be pressed, the longest wording first."""

Evaluate = Callable[[GameRecord], Iterator[Evaluation]]
"""What a bot thinks of each position of a game, one after the other, as soon as it is known."""

LETTERS = "ABC"

PATIENCE = 2.0
"""Seconds that a bot has to finish when its result is no longer wanted."""


# --- A game position by position ---


def costs(record: GameRecord, win_rates: Sequence[float | None], by_players: bool = False) -> dict[int, float]:
    """What moves cost those who played them, by their numbers, where the win rates (Black's) before and after are
    known. ``by_players`` have each win rate from who has just moved: then a move costs what its player reports less at
    its next move, as two players' win rates can't be compared."""
    found = {}
    steps = zip(win_rates[1:], win_rates[3:], strict=False) if by_players else pairwise(win_rates)
    for number, (before, after) in enumerate(steps, 1):
        if before is not None and after is not None:
            found[number] = (before - after) * (1 if record.mover(number) is BLACK else -1)
    return found


def ended(record: GameRecord) -> str:
    """How a game ended, in words."""
    outcome = record.outcome
    if outcome is None:
        return "no result"
    return f"{result_words(outcome)} ({record.reason})" if record.reason else result_words(outcome)


def move_lines(record: GameRecord, start: int, end: int, width: int) -> list[str]:
    """The moves after ``start`` up to number ``end`` in columns: ``1 ● E5    2 ○ C3``, as many as fit."""
    size, digits = record.rules.size, len(str(end))
    items = [
        f"{number:>{digits}} {stone_sign(record.mover(number))} {gtp_from_move(move, size):<4}"
        for number, move in enumerate(record.moves[start:end], start + 1)
    ]
    row = max(1, (width + 2) // (digits + 9))
    return ["  ".join(items[at : at + row]).rstrip() for at in range(0, len(items), row)]


_Position = tuple[np.ndarray, tuple[int, int]]
"""The stones, and the prisoners that Black and White have taken."""


def _positions(record: GameRecord) -> list[_Position]:
    """Before the first move, after it, and so on. Raises RecordError."""
    return [
        (game.board.stones, (game.captured_stones(BLACK), game.captured_stones(WHITE))) for game in positions(record)
    ]


# --- The viewer ---


class Viewer:
    """One game on a board.

    ``remarks`` has one for each position, or none, ``by_players`` from who has just moved. ``mistakes`` are the
    numbers of moves that were bad, the worst first (default: found from the win rates of the remarks).
    """

    def __init__(
        self,
        record: GameRecord,
        remarks: Sequence[Remark] = (),
        *,
        at: int = 0,
        mistakes: Sequence[int] | None = None,
        by_players: bool = False,
        theme: Theme = DARK,
    ):
        self.record = record
        self.by_players = by_players
        self.remark_on(remarks, mistakes)
        self.number = min(max(0, at), len(record.moves))
        self.theme = theme
        self._positions = _positions(record)
        self._line: list[_Position] = []  # of the variation that is shown: before its first move, after it, and so on
        self._step = 0  # how many of its moves
        self._number_typed: str | None = None  # what is typed of a move's number
        self._message = ""
        self._shows_owners = True

    def remark_on(self, remarks: Sequence[Remark], mistakes: Sequence[int] | None = None) -> None:
        """Put other remarks, and mistakes, in place of those that there are; positions beyond them have none."""
        self.remarks = [*remarks, *[Remark()] * (len(self.record.moves) + 1 - len(remarks))]
        self.costs = costs(self.record, [remark.win_rate for remark in self.remarks], self.by_players)
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
        if self._line and self._press_in_line(key.lower()):
            return True
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
            case "v":
                self._show_instead()
            case "o":
                self._shows_owners = not self._shows_owners
            case "q" | "escape" | "ctrl-d":
                return False
        return True

    def _press_in_line(self, key: str) -> bool:
        """Whether a key was for the variation that is shown; another one leaves it."""
        match key:
            case "right" | " " | "enter" | "n":
                self._step = min(self._step + 1, len(self._line) - 1)
            case "left" | "backspace" | "p" if self._step > 1:
                self._step -= 1
            case "left" | "backspace" | "p" | "v" | "escape" | "q":
                self._line = []
            case _:
                self._line = []
                return False
        return True

    def _show_instead(self) -> None:
        """Show the variation in place of the move that led here, from its first move on."""
        if not self.remark.instead:
            self._message = "No variation stands beside this move."
            return
        try:
            self._line = _positions(self._varied)[self.number - 1 :]
            self._step = 1
        except RecordError as error:
            self._message = f"The variation can't be shown: {error}."

    @property
    def _varied(self) -> GameRecord:
        """The game with the variation in place of what was played."""
        return replace(self.record, moves=self.record.moves[: self.number - 1] + self.remark.instead)

    def _go(self, number: int) -> None:
        self._line = []
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
                self._message = f"The game has {style.some(last, 'move')}."
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
            self._message = "No move cost much." if known else "This game has no win rates; arena analyze adds them."
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

    def learn(self, told: object) -> None:
        """Take in what another thread has found out."""

    # --- What is seen ---

    @property
    def remark(self) -> Remark:
        """What is said about the position."""
        return self.remarks[self.number]

    def board(self, cell: Cell = SMALLEST) -> list[Text]:
        """The position, with what the remark has to show on it; or one of a variation."""
        if self._line:
            last = self.remark.instead[self._step - 1]
            return draw_board(self._line[self._step][0], last, theme=self.theme, cell=cell)
        remark = self.remark
        letters = {move: style.spell(sign) for move, sign in remark.letters.items()}
        return draw_board(
            self._positions[self.number][0],
            self.record.moves[self.number - 1] if self.number else None,
            ownership=remark.ownership if self._shows_owners else None,
            overlay=Overlay(letters=letters),
            theme=self.theme,
            cell=cell,
        )

    def scene(self) -> Scene:
        return Scene(
            size=self.record.rules.size,
            board=self.board,
            title=self.title,
            facts=self.facts,
            blocks=self.blocks(),
            status=lambda width: style.said(self._message, width, style.WARNING) if self._message else [],
            prompt=self._prompt,
            hint=self._hint,
            theme=self.theme,
        )

    def title(self, width: int) -> list[Text]:
        """Who played, and how it ended."""
        record = self.record
        names = [
            _named(name, rank, width // 2 - 2)
            for name, rank in ((record.black, record.black_rank), (record.white, record.white_rank))
        ]
        signs = [stone_sign(colour) for colour in Colour]
        who = Text().append(style.spell(f"{signs[0]} {names[0] or 'Black'}"), "bold")
        who.append(style.spell(f"  {signs[1]} {names[1] or 'White'}"), "bold")
        rules = record.rules
        about = [ended(record), f"{rules.name} rules, komi {rules.komi:g}", record.date, record.id]
        return [who, *style.said(style.joined(about, width), width, self.theme.label)]

    def facts(self, width: int) -> list[Text]:
        """Which move, what was taken, whose turn it is, who is ahead."""
        record, number = self.record, self.number
        if self._line:
            return self._facts_of_line(width)
        _, taken = self._positions[number]
        if number:
            colour = record.mover(number)
            move = gtp_from_move(record.moves[number - 1], record.rules.size)
            words = f"move {number} of {len(record.moves)}: {stone_sign(colour)} {move}"
        else:
            words = f"the beginning; {style.some(len(record.moves), 'move')} follow"
        lines = style.said(words, width, "bold")
        lines += style.said(captures(*taken), width)
        remark = self.remark
        if remark.win_rate is not None:
            ahead = "" if remark.margin is None else f", {lead(remark.margin)}"
            lines += style.said(f"Black wins {remark.win_rate:.0%}{ahead}", width)
        if self.costs.get(number, 0.0) >= MISTAKE:
            cost = f"{self.costs[number]:.0%} of win rate"
            words = f"{cost} less reported at its player's next move" if self.by_players else f"this move cost {cost}"
            lines += style.said(words, width, style.WARNING)
        return lines

    def _facts_of_line(self, width: int) -> list[Text]:
        """What was played, what is shown instead, what was taken."""
        varied, at = self._varied, self.number + self._step - 1
        moves = (self.record.moves[self.number - 1], varied.moves[at - 1])
        played, move = (gtp_from_move(one, varied.rules.size) for one in moves)
        step = f"move {self._step} of {len(self._line) - 1}"
        words = f"instead of {played}, {step}: {stone_sign(varied.mover(at))} {move}"
        return style.said(words, width, "bold") + style.said(captures(*self._line[self._step][1]), width)

    def blocks(self) -> list[Block]:
        """What stands beside or below the board where there is room, the most important first."""
        return [self._comment, self._curve, self._list_of_mistakes, self._next_moves]

    def _comment(self, width: int, height: int) -> list[Text]:
        return style.folded(self.remark.comment, width, height)

    def _curve(self, width: int, height: int) -> list[Text]:
        rates = [remark.win_rate for remark in self.remarks]
        return draw_curve(
            rates,
            self.number,
            width,
            height,
            mistakes=self.mistakes,
            label=self.theme.label,
        )

    def _list_of_mistakes(self, width: int, height: int) -> list[Text]:
        if not self.mistakes or height < 2:
            return []
        lines = style.said("Largest mistakes (m):", width, self.theme.label)
        for number in self.mistakes[: height - 1]:
            move = gtp_from_move(self.record.moves[number - 1], self.record.rules.size)
            sign = stone_sign(self.record.mover(number))
            cost = self.costs.get(number)
            told = "" if cost is None else f"  {cost:.0%}"
            lines += style.said(f"  move {number}: {sign} {move}{told}", width)
        return lines

    def _next_moves(self, width: int, height: int) -> list[Text]:
        """The moves of the game that follow."""
        last = min(len(self.record.moves), self.number + SHOWN_NEXT)
        found = move_lines(self.record, self.number, last, width)
        return [line for words in found[: min(2, height)] for line in style.said(words, width, self.theme.label)]

    def _prompt(self, width: int) -> list[Text]:
        if self._number_typed is None:
            return []
        return style.said(f"to move: {self._number_typed}_", width, "bold")

    def _hint(self, width: int) -> list[Text]:
        wordings = list(KEYS)
        if not self.mistakes:
            wordings = [words.replace(" · m next mistake", "").replace(" · m mistake", "") for words in wordings]
        if not any(remark.instead for remark in self.remarks):
            wordings = [words.replace(" · v instead", "") for words in wordings]
        if all(remark.ownership is None for remark in self.remarks):
            wordings = [words.replace(" · o owners", "") for words in wordings]
        words = next((words for words in wordings if cell_len(words) <= width), "")
        return style.said(words, width, self.theme.label) if words else []


def _named(name: str, rank: str, width: int) -> str:
    return style.shorten(f"{name} {rank}".strip(), max(6, width))


def step_through(viewer: Viewer, stage: Stage) -> bool:
    """Let a person look at a game until he leaves it; False when the terminal is gone, which ``stage`` says again."""
    picture = viewer.scene().fit(*stage.size)
    while True:
        if not stage.is_behind:
            picture = viewer.scene().fit(*stage.size)
            stage.draw(Group(*picture.lines))
        told: Any = stage.next()
        if isinstance(told, Gone):
            stage.tell(told)
            return False
        if not isinstance(told, Press | Paste | Mouse):
            viewer.learn(told)
        elif not viewer.do(told, picture):
            return True


def print_game(viewer: Viewer, console: Console) -> None:
    """The position as a diagram, what is known of it, and the moves that led to it."""
    width = console.width
    lines = [*viewer.title(width), Text(), *viewer.board(), Text(), *viewer.facts(width)]
    if viewer.remark.comment:
        lines += [Text(), *(Text(style.spell(line)) for line in viewer.remark.comment.splitlines())]
    for line in lines:
        console.print(line, soft_wrap=not console.is_terminal)
    if viewer.number:
        console.print()
    for words in move_lines(viewer.record, 0, viewer.number, width):
        console.print(Text(words))


def remarks_of_players(record: GameRecord) -> list[Remark]:
    """What the players of a stored game reported of its positions, none where they reported nothing."""
    remarks = [Remark()] * bool(record.facts)
    for number, fact in enumerate(record.facts, 1):
        black = record.mover(number) is BLACK
        rate, score = fact.win_rate, fact.score
        words = [] if fact.visits is None else [style.some(fact.visits, "visit")]
        words += [] if fact.seconds is None else [style.seconds(fact.seconds)]
        remarks.append(
            Remark(
                comment=", ".join(words),
                win_rate=rate if rate is None or black else 1 - rate,
                margin=score if score is None or black else -score,
            )
        )
    return remarks


# --- Evaluated while it is looked at ---


def remarks_of(record: GameRecord, evaluations: Sequence[Evaluation]) -> list[Remark]:
    """What a bot's evaluations say, for the positions from the first on that it has evaluated."""
    played = {move.number: move for move in judge(record, evaluations)}
    return [_remark(evaluation, played.get(evaluation.number), record.rules.size) for evaluation in evaluations]


def _remark(evaluation: Evaluation, move: PlayedMove | None, size: int) -> Remark:
    best = [candidate.move for candidate in evaluation.candidates] or [evaluation.best]
    ownership = None
    if evaluation.ownership is not None:
        ownership = np.rint(100 * np.clip(evaluation.ownership, -1, 1)).astype(np.int8).tobytes()
    words = []
    if move is not None and move.is_mistake:
        words.append(f"instead of {gtp_from_move(move.move, size)}: {spelled(move.before.line, size)}")
    words.append(f"expected: {spelled(evaluation.line, size)}")
    return Remark(
        comment="\n".join(words),
        win_rate=evaluation.win_rate,
        margin=evaluation.margin,
        letters={one: letter for one, letter in zip(best, LETTERS, strict=False) if one != pass_move(size)},
        ownership=ownership,
        instead=() if move is None or move.is_best else tuple(move.before.line),
    )


class Review(Viewer):
    """A game that is stepped through while its evaluations come in."""

    def __init__(self, record: GameRecord, colour: Colour | None = None, *, theme: Theme = DARK):
        """Of whose moves mistakes are told: of one colour, or of both."""
        super().__init__(record, theme=theme, at=len(record.moves), mistakes=[])
        self.colour = colour
        self.evaluations: list[Evaluation] = []
        self.fault = ""

    @property
    def is_complete(self) -> bool:
        return len(self.evaluations) == evaluation_count(self.record)

    def learn(self, told: object) -> None:
        """Take in the evaluation of the next position, or why there are no more."""
        if isinstance(told, UserError):
            self.fault = str(told)
        if not isinstance(told, Evaluation):
            return
        self.evaluations.append(told)
        worst = mistakes(judge(self.record, self.evaluations), colour=self.colour)
        self.remark_on(remarks_of(self.record, self.evaluations), [move.number for move in worst])

    def scene(self) -> Scene:
        scene = super().scene()
        if self.is_complete and not self.fault:
            return scene
        words = self.fault or f"evaluated {len(self.evaluations)} of {evaluation_count(self.record)} positions"

        def status(width: int) -> list[Text]:
            return scene.status(width) or style.said(words, width, style.WARNING if self.fault else self.theme.label)

        return replace(scene, status=status)


def show_review(review: Review, evaluate: Evaluate, stage: Stage) -> bool:
    """Let a person look back at a game while it is evaluated; False when the terminal is gone."""
    over = threading.Event()

    def work() -> None:
        try:
            for evaluation in evaluate(review.record):
                if over.is_set():
                    return
                stage.tell(evaluation)
        except UserError as error:
            stage.tell(error)

    thread = threading.Thread(target=work, name="review", daemon=True)
    thread.start()
    try:
        return step_through(review, stage)
    finally:
        over.set()
        thread.join(PATIENCE)
