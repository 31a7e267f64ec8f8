"""Playouts that answer beside the last move, after MoGo (Gelly, Wang, Munos and Teytaud 2006, section 3)."""

from __future__ import annotations

import numpy as np

from arena.go.jit import inlined, kernel
from arena.go.kernels import CELLS, U, area_score, below, is_eye, is_legal, next_random, place, put_aside, seeded
from bots.search.tactics import answer_atari, answer_pattern, is_self_atari

# Probabilities, of 256, that a playout
ATARI = 230  # captures, or saves from atari, beside the last move
PATTERN = 243  # plays one of the shapes beside the last move
SELF_ATARI = 230  # refuses a self-atari elsewhere

MERCY = 3  # a playout ends when a side has more stones than the other by 1 / MERCY of the board's points


@inlined
def _chance(state, of_256):
    return np.int64((state >> np.uint64(20)) & np.uint64(255)) < of_256


@kernel
def answering_playout(board, colour, last, state, when, time):
    """Play until both pass, or until one side is far ahead; (Black's margin before komi, moves, state). ``last`` is the
    point of the last move, 0 for a pass. ``when`` (CELLS,) gets ``2 * time + colour - 1`` of the first stone on each
    point where it is 0; ``time`` is that of the playout's first move."""
    passes = moves = 0
    limit = 3 * np.int64(board.side) * np.int64(board.side)  # without superko, positions may repeat for ever
    lead = board.side * board.side // MERCY
    while passes < 2 and moves < limit:
        chosen = np.int64(0)
        if last:
            state = next_random(state)
            if _chance(state, ATARI):
                chosen, state = answer_atari(board, last, colour, state)
            if chosen == 0 and _chance(state >> np.uint64(9), PATTERN):
                chosen, state = answer_pattern(board, last, colour, state)
        if chosen == 0:
            left = np.int64(board.empty_count)
            while left > 0:
                state = next_random(state)
                i = below(state, left)
                p = np.int64(board.empties[U(i)])
                around = np.int64(board.around[U(p)]) & 15
                if around >= 2:
                    if p != board.ko:
                        chosen = p
                        break
                elif not is_eye(board, p, colour) and is_legal(board, p, colour):
                    if not _chance(state, SELF_ATARI) or not is_self_atari(board, p, colour):
                        chosen = p
                        break
                left -= 1
                put_aside(board, i, left)
        taken = np.int64(0)
        if chosen:
            before = np.int64(board.empty_count)
            place(board, chosen, colour, np.bool_(False))
            taken = np.int64(board.empty_count) - before + 1
            if when[U(chosen)] == 0:
                when[U(chosen)] = 2 * (time + moves) + colour - 1
            passes = 0
        else:
            board.ko = 0
            passes += 1
        last = chosen
        colour = 3 - colour
        moves += 1
        if taken and abs(board.stones[1] - board.stones[2]) > lead:
            break
    return area_score(board), moves, state


@kernel
def run_playouts(boards, colour, count, seed, margins):
    """Write Black's margins of ``count`` playouts from ``boards[0]``; ``boards[1]`` is scratch. Returns their moves."""
    state = seeded(seed)
    when = np.zeros(CELLS, np.uint16)
    total = 0
    for i in range(count):
        boards[1] = boards[0]
        margins[i], moves, state = answering_playout(boards[1], colour, 0, state, when, 1)
        total += moves
    return total
