"""A finished game position by position: stones, who moved, what moves cost, in numbers and words. Nothing is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from arena.go.moves import BLACK, Colour, gtp_from_move
from arena.go.record import Record
from arena.screen.board import stone_sign
from arena.screen.words import result_words


def costs(record: Record, win_rates: Sequence[float | None]) -> dict[int, float]:
    """What moves cost those who played them, by their numbers, where the win rates (Black's) before and after are
    known."""
    found = {}
    for number, (before, after) in enumerate(pairwise(win_rates), 1):
        if before is not None and after is not None:
            found[number] = (before - after) * (1 if mover(record, number) is BLACK else -1)
    return found


def positions(record: Record) -> list[tuple[np.ndarray, tuple[int, int]]]:
    """The stones after each number of moves, and how many of each colour were taken. Raises RecordError."""
    room = max(record.rules.move_limit, len(record.moves) + 1)  # the limit would end the game
    whole = replace(record, rules=replace(record.rules, move_limit=room), outcome=None)
    whole.replay()  # says what is wrong
    game = replace(whole, moves=()).replay()
    found = [(game.board.stones, (0, 0))]
    for move in record.moves:
        game.outcome = None
        game.play(move)
        found.append((game.board.stones, (game.prisoners(Colour.BLACK), game.prisoners(Colour.WHITE))))
    return found


def mover(record: Record, number: int) -> Colour:
    """Who made the move of this number."""
    return record.first if number % 2 else record.first.opponent


def ended(record: Record) -> str:
    """How a game ended, in words."""
    outcome = record.outcome
    if outcome is None:
        return "no result"
    return f"{result_words(outcome)} ({record.reason})" if record.reason else result_words(outcome)


def move_lines(record: Record, start: int, end: int, width: int) -> list[str]:
    """The moves after ``start`` up to number ``end`` in columns: ``1 ● E5    2 ○ C3``, as many as fit."""
    size, digits = record.rules.size, len(str(end))
    items = [
        f"{number:>{digits}} {stone_sign(mover(record, number))} {gtp_from_move(move, size):<4}"
        for number, move in enumerate(record.moves[start:end], start + 1)
    ]
    row = max(1, (width + 2) // (digits + 9))
    return ["  ".join(items[at : at + row]).rstrip() for at in range(0, len(items), row)]
