"""UCT: upper confidence bounds in the tree, uniform playouts below it (Kocsis and Szepesvari 2006). No net, no RAVE."""

from __future__ import annotations

import numpy as np

from arena.go.jit import inlined, kernel
from arena.go.kernels import BOARD, U, area_score, below, is_eye, is_legal, next_random, play, playout, repeats
from bots.search.tree import FORBIDDEN, MAX_DEPTH, UNEXPANDED, add_child, add_result

EXPAND_AFTER = 2
"""Visits that a leaf needs before it gets children."""

FIRST_PLAY_URGENCY = 1.1
"""The bound of a child without visits: over any win rate, so each child is tried before one is tried again."""


@inlined
def _expand(board, colour, nodes, slot, node, used, state):
    """Give ``node`` its children in random order: legal points that are no own eyes, and the pass; (used, state)."""
    first = used
    for i in range(board.empty_count):
        p = np.int64(board.empties[U(i)])
        if is_eye(board, p, colour) or not is_legal(board, p, colour):
            continue
        state = next_random(state)
        other = first + below(state, used - first + 1)
        add_child(nodes, slot, used, nodes.point[slot, other] if other < used else p, np.float32(0))
        nodes.point[slot, other] = p
        used += 1
    add_child(nodes, slot, used, 0, np.float32(0))
    used += 1
    nodes.first[slot, node] = first
    nodes.children[slot, node] = used - first
    return used, state


@inlined
def _select(nodes, slot, node, exploration):
    """The child with the highest upper confidence bound (UCB1), or -1 when superko forbids them all."""
    first = np.int64(nodes.first[slot, node])
    log_visits = exploration * exploration * np.log(np.float32(nodes.visits[slot, node] + 1))
    best = np.int64(-1)
    best_bound = np.float32(-1)
    for child in range(first, first + np.int64(nodes.children[slot, node])):
        visits = nodes.visits[slot, child]
        if visits > 0:
            bound = nodes.value[slot, child] + np.sqrt(log_visits / np.float32(visits))
        elif visits == 0:
            bound = np.float32(FIRST_PLAY_URGENCY)
        else:
            continue
        if bound > best_bound:
            best_bound = bound
            best = child
    return best


@kernel
def search(boards, roots, hashes, nodes, slot, simulations, exploration):
    """Run ``simulations`` more simulations from the root of ``slot``; returns the moves played in playouts.

    Results count for the side that moved to a node: 1 for a win, 1/2 for a draw.
    """
    scratch = np.empty(1, BOARD)
    path = np.empty(MAX_DEPTH + 1, np.int64)
    root = roots[slot]
    capacity = nodes.visits.shape[1]
    constant = np.float32(exploration)
    state = root.random
    moves = 0
    done = 0
    while done < simulations:
        scratch[0] = boards[slot]
        board = scratch[0]
        colour = np.int64(root.colour)
        passes = np.int64(root.passes)
        node = np.int64(0)
        path[0] = 0
        depth = 1
        forbidden = False
        while passes < 2 and depth <= MAX_DEPTH:
            if nodes.first[slot, node] == UNEXPANDED:
                if node != 0 and nodes.visits[slot, node] < EXPAND_AFTER:
                    break
                if np.int64(root.used) + board.empty_count + 1 > capacity:
                    break
                root.used, state = _expand(board, colour, nodes, slot, node, np.int64(root.used), state)
            child = _select(nodes, slot, node, constant)
            p = np.int64(nodes.point[slot, child])
            if p:
                play(board, p, colour)
                passes = 0
                if root.superko and nodes.visits[slot, child] == 0:
                    if repeats(hashes[slot], root.positions + depth - 1, board.hash) >= 0:
                        nodes.visits[slot, child] = FORBIDDEN
                        forbidden = True
                        break
            else:
                board.ko = 0
                passes += 1
            hashes[slot, root.positions + depth - 1] = board.hash
            path[depth] = child
            depth += 1
            colour = 3 - colour
            node = child
        if forbidden:
            continue
        if passes >= 2:
            margin = area_score(board) - root.komi
        else:
            points, played, state = playout(board, colour, state)
            margin = points - root.komi
            moves += played
        result = np.float32(1) if margin > 0 else np.float32(0) if margin < 0 else np.float32(0.5)  # for Black
        mover = 3 - np.int64(root.colour)
        for i in range(depth):
            add_result(nodes, slot, path[i], result if mover == 1 else np.float32(1) - result)
            mover = 3 - mover
        done += 1
    root.random = state
    return moves
