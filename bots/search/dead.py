"""Dead stones of a final position: those that seldom survive playouts of the trained policy, which kills dead shapes
and leaves most of a seki alone."""

from __future__ import annotations

import numpy as np

from arena.go.alive import SAFE, TAKEN, mark_alive
from arena.go.board import Board
from arena.go.jit import inlined, kernel
from arena.go.kernels import BOARD, CELLS, EDGE, NEIGHBOURS, U, owner_map, point_of, region_owner, seeded
from bots.search.rollouts import Weights, policy_playout

PLAYOUTS = 200
STAYING = 0.35  # stones are dead if their colour owns their points in a smaller share of the playouts


def judge(board: Board, weights: Weights, playouts: int = PLAYOUTS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The dead stones (size²,) bool of a position where both sides have passed, and Black's share of each point minus
    White's over the playouts, (size²,) float32 in [-1, 1]. ``weights`` are for the board's size."""
    boards = np.zeros(2, BOARD)
    boards[0] = board.array[0]
    counts = np.zeros((2, board.size**2), np.int32)
    count_owners(boards, 1, 2, weights, playouts, seed, counts)
    dead = np.zeros(board.size**2, np.bool_)
    mark_dead(boards, counts, STAYING * playouts, dead)
    return dead, ((counts[0] - counts[1]) / playouts).astype(np.float32)


@kernel
def count_owners(boards, first, second, weights, count, seed, counts):
    """Add to ``counts`` (2, size²) the playouts, of ``count`` from ``boards[0]``, at whose end Black and White own each
    point; ``boards[1]`` is scratch. The colours ``first`` and ``second`` take turns to begin."""
    state = seeded(seed)
    board = boards[1]
    owners = np.zeros(counts.shape[1], np.uint8)
    for i in range(count):
        boards[1] = boards[0]
        board.ko = 0
        _, _, state = policy_playout(board, second if i % 2 else first, 0, 0, weights, state)
        owner_map(boards, 1, owners)
        for move in range(owners.shape[0]):
            if owners[move]:
                counts[owners[move] - 1, move] += 1


@inlined
def root_of(parent, head):
    while parent[U(head)] != head:
        head = np.int64(parent[U(head)])
    return head


@inlined
def join_by_liberties(board, parent):
    """Join chains of one colour that share two liberties in the union-find forest ``parent`` (CELLS,) of heads."""
    shared = np.zeros((CELLS, CELLS), np.bool_)  # whether the chains of two heads share a liberty
    around = np.empty(4, np.int64)
    for move in range(board.side * board.side):
        p = point_of(board, move)
        if board.colour[U(p)] != 0:
            continue
        near = 0
        for step in NEIGHBOURS:
            q = p + step
            if board.colour[U(q)] == 0 or board.colour[U(q)] == EDGE:
                continue
            head = np.int64(board.head[U(q)])
            if head in around[:near]:
                continue
            for i in range(near):
                if board.colour[U(around[i])] == board.colour[U(head)]:
                    low, high = min(around[i], head), max(around[i], head)
                    if shared[low, high]:
                        parent[root_of(parent, low)] = root_of(parent, high)
                    shared[low, high] = True
            around[near] = head
            near += 1


@kernel
def mark_kin(boards, move, kin):
    """Write to ``kin`` (size², bool) the stones of the chain at ``move`` and of the chains joined with it."""
    board = boards[0]
    parent = np.arange(CELLS)
    join_by_liberties(board, parent)
    root = root_of(parent, np.int64(board.head[U(point_of(board, move))]))
    for other in range(board.side * board.side):
        p = point_of(board, other)
        kin[other] = board.colour[U(p)] != 0 and root_of(parent, np.int64(board.head[U(p)])) == root


@kernel
def mark_dead(boards, counts, staying, dead):
    """Write to ``dead`` (size², bool) the stones whose colour owns their points in fewer than ``staying`` playouts, by
    the ``counts`` of ``count_owners``. The count is the mean over chains of one colour that share two liberties, or
    touch an empty region which the other colour doesn't touch. Pass-alive stones are never dead; stones in the other
    side's pass-alive territory always are."""
    board = boards[0]
    points = board.side * board.side
    marks = np.zeros((3, CELLS), np.uint8)
    mark_alive(board, 1, True, marks[1])
    mark_alive(board, 2, True, marks[2])
    parent = np.arange(CELLS)
    seen = np.zeros(CELLS, np.uint8)
    region = np.empty(CELLS, np.int16)
    join_by_liberties(board, parent)
    for move in range(points):
        p = np.int64(point_of(board, move))
        if board.colour[U(p)] == 0 and not seen[p]:
            empty, reach = region_owner(board, p, seen, region)
            first = np.int64(0)
            for i in range(empty if reach == 1 or reach == 2 else 0):
                for step in NEIGHBOURS:
                    q = U(region[i] + step)
                    if board.colour[q] == reach:
                        first = first or np.int64(board.head[q])
                        parent[root_of(parent, np.int64(board.head[q]))] = root_of(parent, first)
    stones, kept = np.zeros((2, CELLS), np.int64)  # by root
    alive, taken = np.zeros((2, CELLS), np.bool_)
    for move in range(points):
        p = point_of(board, move)
        colour = np.int64(board.colour[U(p)])
        if colour != 0:
            root = root_of(parent, np.int64(board.head[U(p)]))
            stones[root] += 1
            kept[root] += counts[colour - 1, move]
            alive[root] |= marks[colour, p] == SAFE
            taken[root] |= marks[3 - colour, p] == TAKEN
    for move in range(points):
        dead[move] = False
        p = point_of(board, move)
        if board.colour[U(p)] != 0:
            root = root_of(parent, np.int64(board.head[U(p)]))
            dead[move] = not alive[root] and (taken[root] or kept[root] < staying * stones[root])
