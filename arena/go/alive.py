"""Pass-alive stones and territory, which no play can change (Benson 1976, "Life in the game of Go").

A region is a maximal set of connected points without stones of one colour. It is vital to a chain of that colour if
each of its empty points touches the chain; where suicide is allowed, if each of its points does.
"""

from __future__ import annotations

import numpy as np

from arena.go.jit import inlined
from arena.go.kernels import CELLS, EDGE, NEIGHBOURS, WIDTH, U

# Marks: SAFE are pass-alive stones and their empty regions; TAKEN are their regions with dead stones of the other side.
SAFE, TAKEN = 1, 2

FEWEST = 6  # stones that it takes to be pass-alive, in a corner
REGIONS = 192  # more than a board can have


@inlined
def mark_alive(board, colour, suicide, marks):
    """Write SAFE or TAKEN to ``marks`` (CELLS,) uint8, initially 0, where ``colour`` is pass-alive. Points that are
    pass-alive with ``suicide`` are so under all rules. Pass-alive chains own a region that they enclose if the other
    side has no room for two eyes there: at most one point of the region doesn't touch them."""
    if board.stones[colour] < (FEWEST if suicide else 1):
        return
    region = np.zeros(CELLS, np.uint8)  # of a point: its region, from 1
    points = np.empty(CELLS, np.int16)  # region by region
    starts = np.zeros(REGIONS + 1, np.int16)  # the index in `points` of each region's first point
    vital = np.zeros((REGIONS, 4), np.int16)  # the heads of the chains that a region is vital to, else 0
    enclosed = np.ones(REGIONS, np.uint8)  # whether all chains around may still be pass-alive
    inner = np.zeros(REGIONS, np.int16)  # points that touch no chain
    taken = np.zeros(REGIONS, np.uint8)
    eyes = np.zeros(CELLS, np.int16)  # by a chain's head: its number of vital enclosed regions
    around = np.zeros(4, np.int16)
    regions = count = most = 0
    for p in range(WIDTH + 1, WIDTH * (board.side + 1) - 1):
        there = np.int64(board.colour[U(p)])
        if there == EDGE or there == colour or region[U(p)] or (there != 0 and not suicide):
            continue
        regions += 1
        r = regions
        region[U(p)] = r
        starts[r] = count
        points[count] = p
        count += 1
        done = np.int64(starts[r])
        while done < count:
            q = np.int64(points[done])
            taken[r] |= board.colour[U(q)] != 0
            touched = 0
            around[:] = 0
            for i in range(4):
                neighbour = q + NEIGHBOURS[i]
                beside = np.int64(board.colour[U(neighbour)])
                if beside == colour:
                    touched += 1
                    head = board.head[U(neighbour)]
                    if head != around[0] and head != around[1] and head != around[2]:
                        around[i] = head
                elif beside != EDGE and not region[U(neighbour)]:
                    region[U(neighbour)] = r
                    points[count] = neighbour
                    count += 1
            inner[r] += touched == 0
            for i in range(4 if suicide or board.colour[U(q)] == 0 else 0):
                if done == starts[r]:
                    vital[r, i] = around[i]
                else:
                    head = vital[r, i]
                    if head != around[0] and head != around[1] and head != around[2] and head != around[3]:
                        vital[r, i] = 0
            done += 1
        for i in range(4):
            if vital[r, i]:
                eyes[U(vital[r, i])] += 1
                most = max(most, np.int64(eyes[U(vital[r, i])]))
    if most < 2:
        return
    starts[regions + 1] = count
    changed = True
    while changed:
        changed = False
        for r in range(1, regions + 1):
            if not enclosed[r]:
                continue
            for k in range(starts[r], starts[r + 1]):
                for step in NEIGHBOURS:
                    q = U(points[k] + step)
                    if board.colour[q] == colour and eyes[U(board.head[q])] < 2:
                        enclosed[r] = 0
            if not enclosed[r]:
                changed = True
                for i in range(4):
                    if vital[r, i]:
                        eyes[U(vital[r, i])] -= 1
    for r in range(1, regions + 1):
        if enclosed[r] and inner[r] <= 1:
            for k in range(starts[r], starts[r + 1]):
                marks[U(points[k])] = TAKEN if taken[r] else SAFE
    for p in range(WIDTH + 1, WIDTH * (board.side + 1) - 1):
        if board.colour[U(p)] == colour and eyes[U(board.head[U(p)])] >= 2:
            marks[U(p)] = SAFE
