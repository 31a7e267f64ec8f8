"""What a net was found to know, as tables. Nothing is counted here."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import TYPE_CHECKING

from arena.screen.tables import Sheet

# Torch is behind the evaluation; its figures are enough here.
if TYPE_CHECKING:
    from trainers.evaluation import Evaluation


def _share(value: float) -> str:
    return "" if isnan(value) else f"{value:.1%}"


def _number(value: float) -> str:
    return "" if isnan(value) else f"{value:.3f}"


def evaluation_sheets(evaluation: Evaluation, name: str) -> Iterator[Sheet]:
    """Moves; results and ownership, where the games tell them; how far forecasts can be trusted."""
    from trainers.evaluation import calibration_error, phases

    named = phases(evaluation)
    whole = evaluation.figures()
    if not isnan(whole.top1):
        yield Sheet(
            columns=("moves", "positions", "top-1", "top-3", "top-5", "loss"),
            rows=[
                (
                    part,
                    f"{one.positions:,}",
                    _share(one.top1),
                    _share(one.top3),
                    _share(one.top5),
                    _number(one.policy_loss),
                )
                for part, one in named
            ],
            note=f"{name}: which move was played; the loss is in nats. The 95 % interval of all top-1, by games, is ± "
            f"{_share(evaluation.top1_error) or 'unknown'}. The probability of the likeliest move is off by "
            f"{calibration_error(evaluation.moves):.1%}, the win rate by {calibration_error(evaluation.wins):.1%}.",
            numbers=(1, 2, 3, 4, 5),
        )
    if not isnan(whole.value_error):
        yield Sheet(
            columns=("moves", "value error", "constant", "points off"),
            rows=[
                (part, _number(one.value_error), _number(one.value_floor), _number(one.score_error))
                for part, one in named
            ],
            note="who won: mean squared error from -1 to 1, beside that of the best constant; and by how much.",
            numbers=(1, 2, 3),
        )
    if not isnan(whole.ownership):
        yield Sheet(
            columns=("moves", "owners", "by stone", "by nearest stone", "by playouts", "Brier"),
            rows=[
                (
                    part,
                    _share(one.ownership),
                    _share(one.by_stone),
                    _share(one.by_nearest),
                    _share(one.by_playouts),
                    _number(one.brier),
                )
                for part, one in named
            ],
            note="whose each point was at the end: the share foreseen, beside that of simple guesses.",
            numbers=(1, 2, 3, 4, 5),
        )
