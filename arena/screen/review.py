"""A look back at a game while a bot evaluates it: what it thinks of each position, as remarks for a viewer.

Nothing is evaluated or read here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event, Thread
from typing import Any

import numpy as np
from rich.text import Text

from arena import UserError
from arena.go.moves import Colour, gtp_from_move, pass_move
from arena.go.record import Record
from arena.go.remarks import Remark
from arena.results.analysis import Evaluation, PlayedMove, evaluation_count, judge, mistakes, spelled
from arena.screen import style
from arena.screen.scene import Scene
from arena.screen.terminal import Gone, Stage
from arena.screen.themes import DARK, Theme
from arena.screen.viewer import Viewer

Evaluate = Callable[[Record], Iterator[Evaluation]]
"""What a bot thinks of each position of a game, one after the other, as soon as it is known."""

LETTERS = "ABC"

PATIENCE = 2.0
"""Seconds that a bot has to come to an end when nobody wants to know any more."""


def remarks_of(record: Record, evaluations: Sequence[Evaluation]) -> list[Remark]:
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
    )


class Review(Viewer):
    """A game that is stepped through while its evaluations come in."""

    def __init__(self, record: Record, colour: Colour | None = None, *, theme: Theme = DARK, ascii_only: bool = False):
        """Of whose moves mistakes are told: of one colour, or of both."""
        super().__init__(record, theme=theme, ascii_only=ascii_only, at=len(record.moves), mistakes=[])
        self.colour = colour
        self.evaluations: list[Evaluation] = []
        self.fault = ""

    @property
    def is_complete(self) -> bool:
        return len(self.evaluations) == evaluation_count(self.record)

    def learn(self, evaluation: Evaluation) -> None:
        """Take in what is thought of the next position."""
        self.evaluations.append(evaluation)
        worst = mistakes(judge(self.record, self.evaluations), colour=self.colour)
        self.remark_on(remarks_of(self.record, self.evaluations), [move.number for move in worst])

    def scene(self) -> Scene:
        scene = super().scene()
        if self.is_complete and not self.fault:
            return scene
        words = self.fault or f"evaluated {len(self.evaluations)} of {evaluation_count(self.record)} positions"

        def status(width: int) -> list[Text]:
            return scene.status(width) or self.said(words, width, style.WARNING if self.fault else self.theme.label)

        return Scene(scene.size, scene.board, scene.title, scene.facts, scene.blocks, status, scene.prompt, scene.hint)


def show_review(review: Review, evaluate: Evaluate, stage: Stage) -> bool:
    """Let a person look back at a game while it is evaluated; False when the terminal is gone."""
    over = Event()

    def work() -> None:
        try:
            for evaluation in evaluate(review.record):
                if over.is_set():
                    return
                stage.tell(evaluation)
        except UserError as error:
            stage.tell(error)

    thread = Thread(target=work, name="review", daemon=True)
    thread.start()
    try:
        picture = review.scene().fit(*stage.size)
        while True:
            if not stage.is_behind:
                picture = review.scene().fit(*stage.size)
                stage.draw(picture.lines)
            told: Any = stage.next()
            if isinstance(told, Evaluation):
                review.learn(told)
            elif isinstance(told, UserError):
                review.fault = str(told)
            elif isinstance(told, Gone):
                stage.tell(told)
                return False
            elif told is not None and not review.do(told, picture):
                return True
    finally:
        over.set()
        thread.join(PATIENCE)
