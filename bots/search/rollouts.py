"""Playouts by a trained linear softmax policy: a move's weight is the product of the factors of its features.

A small version of AlphaGo's rollout policy (Silver et al. 2016, Methods and Extended Data Table 4). A *code* is the
index of a feature; ``factors`` has e to the power of each code's weight, learned by ``trainers.rollout``.

Features of a point, as seen by the side to move, equal under the 8 symmetries:

- ring: the colours of the 8 points around;
- cross: the colours of the 4 neighbours, and whether their groups have 1, 2 or more liberties;
- tactics: the numbers of stones captured, saved from atari, put in atari and in self-atari;
- spot: the distances to the two nearest edges, and how full the board is;
- last, previous: the distances to the opponent's last move and to the own last move;
- response: the ring of a point beside the last move, and the direction of that move;
- answer: the point is one of at most two liberties of the last move's group or of an own group beside it, or captures
  a group that puts an own group beside the last move in atari;
- nakade: the last move captured 3 to 6 stones, one of them here; how many of them were beside this point;
- pass, the only feature of a pass: how full the board is, and whether the last move was a pass.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from arena.go.coords import symmetry_table
from arena.go.jit import inlined, kernel
from arena.go.kernels import AROUND, CELLS, EDGE, NEIGHBOURS, WIDTH, U, area_score, first_liberties, next_random, place

FEATURES = "rollout-1"  # the name of this set of features; another meaning of a code needs another name

SIZES = 6  # classes of a number of stones: none, 1, 2, 3, 4 and 5, more
SAFETY = 5  # 3 liberties or a capture, 2 liberties; self-atari of 1 stone, of 2 or 3, of more
GIVEN = 4  # stones put in atari: none, 1, 2, more
PHASES = 8
LINES = 5
SPOTS = LINES * LINES
REACH = 9
OFFSETS = REACH * REACH

# The first code of each feature, and the number of all codes.
RING = 0
CROSS = RING + (1 << 16)
TACTICS = CROSS + (1 << 12)
SPOT = TACTICS + SAFETY * SIZES * SIZES * GIVEN
LAST = SPOT + PHASES * SPOTS
PREVIOUS = LAST + OFFSETS
RESPONSE = PREVIOUS + OFFSETS
ANSWER = RESPONSE + (8 << 16)
NAKADE = ANSWER + 5 * SIZES
PASS = NAKADE + 4 * 5
CODES = PASS + 2 * PHASES

# Answers: capture the last move's group, put it in atari, extend own stones beside it out of atari, capture stones that
# put them in atari, play at one of two liberties of own stones beside it.
TAKE, CHASE, ESCAPE, COUNTER, EXTEND = range(5)

MAX_FEATURES = 20  # features of one point, at most
_FULL = np.array([2, 5, 10, 17, 26, 38, 54], np.int64)  # per cent of occupied points at which each next phase begins


def _eye_rings() -> np.ndarray:
    """(65536,) bool: whether a ring makes an eye of colour 1, as in ``is_eye``."""
    around = (np.arange(1 << 16) >> 2 * np.arange(8)[:, None]) & 3  # (8, 65536)
    beside, diagonals = around[[1, 3, 4, 6]], around[[0, 2, 5, 7]]
    lost = (diagonals == 2).sum(0) + (diagonals == EDGE).any(0)
    return ((beside == 1) | (beside == EDGE)).all(0) & (lost < 2)


EYES = _eye_rings()


class Weights(NamedTuple):
    """A trained policy for boards of one size: factors of a move's weight, float32; the padded board has
    ``WIDTH * (size + 2)`` cells."""

    factors: np.ndarray  # (CODES,) of each feature; 0 for rings of own eyes
    spots: np.ndarray  # (PHASES, cells): the factor of spot, by phase and point
    lasts: np.ndarray  # (cells, cells): the factor of last, by the opponent's last move (0: none) and point
    previous: np.ndarray  # (cells, cells): the factor of previous, by the own last move (0: none) and point


@inlined
def spot_of(side, p):
    """The index of a point within a phase of SPOT; the same under symmetry."""
    row, column = p // WIDTH, p % WIDTH
    one = min(row - 1, side - row, np.int64(LINES - 1))
    other = min(column - 1, side - column, np.int64(LINES - 1))
    return min(one, other) * LINES + max(one, other)


@inlined
def offset_of(p, q):
    """The index within LAST and PREVIOUS of the distance between two points; the same under symmetry."""
    one = min(abs(p // WIDTH - q // WIDTH), np.int64(REACH - 1))
    other = min(abs(p % WIDTH - q % WIDTH), np.int64(REACH - 1))
    return min(one, other) * REACH + max(one, other)


@cache
def tie() -> np.ndarray:
    """(CODES,) int32: the index of each code's weight; codes that are equal under symmetry share a weight."""
    around = [0, 1, 2, 3, 5, 6, 7, 8]
    symmetries = [[around.index(table[place]) for place in around] for table in symmetry_table(3).tolist()]
    crosswise = (1, 3, 4, 6)  # where the neighbours are among the 8 points around
    smallest = np.arange(CODES)
    rings, crosses = np.arange(1 << 16), np.arange(1 << 12)
    turned = [np.array([((rings >> 2 * i) & 3) << 2 * to[i] for i in range(8)]).sum(0) for to in symmetries]
    smallest[RING : RING + len(rings)] = RING + np.minimum.reduce(turned)
    for direction in range(8):
        begin = RESPONSE + (direction << 16)
        twins = [(to[direction] << 16) + ring for to, ring in zip(symmetries, turned, strict=True)]
        smallest[begin : begin + len(rings)] = RESPONSE + np.minimum.reduce(twins)
    places = [[crosswise.index(to[there]) for there in crosswise] for to in symmetries]
    twins = [np.array([((crosses >> 3 * i) & 7) << 3 * to[i] for i in range(4)]).sum(0) for to in places]
    smallest[CROSS : CROSS + len(crosses)] = CROSS + np.minimum.reduce(twins)
    return np.unique(smallest, return_inverse=True)[1].astype(np.int32)


def expand_weights(learned: np.ndarray, size: int, sharpness: float = 1.0) -> Weights:
    """The factors for boards of ``size`` from the learned weights (tie().max() + 1,). Probabilities are raised to
    ``sharpness``."""
    factors = np.exp(sharpness * learned[tie()].astype(np.float64)).astype(np.float32)
    factors[RING : RING + (1 << 16)][EYES] = 0
    cells = WIDTH * (size + 2)
    lasts, previous = np.ones((2, cells, cells), np.float32)
    weights = Weights(factors, np.ones((PHASES, cells), np.float32), lasts, previous)
    _fill_tables(size, weights)
    return weights


@kernel
def _fill_tables(size, weights):
    """Fill the tables of spot, last and previous from the factors."""
    factors, spots, lasts, previous = weights
    for i in range(size * size):
        p = (i // size + 1) * WIDTH + i % size + 1
        for phase in range(PHASES):
            spots[phase, p] = factors[SPOT + phase * SPOTS + spot_of(size, p)]
        for j in range(size * size):
            q = (j // size + 1) * WIDTH + j % size + 1
            lasts[p, q] = factors[LAST + offset_of(p, q)]
            previous[p, q] = factors[PREVIOUS + offset_of(p, q)]


SHARPNESS = 1.5  # playouts raise the policy's probabilities to this power: their results predict games better


@inlined
def _size_class(stones):
    return stones if stones <= 3 else 4 if stones <= 5 else 5


@inlined
def phase_of(board):
    """How full the board is, from 0 to PHASES - 1."""
    points = np.int64(board.side * board.side)
    percent = (points - np.int64(board.empty_count)) * 100 // points
    phase = np.int64(0)
    for end in _FULL:
        phase += percent >= end
    return phase


@inlined
def measure_groups(board, groups):
    """Write to ``groups`` (CELLS,) int64 at the head of each group: liberties | first liberty << 8 | second << 20 |
    stones << 32; for groups with 3 liberties or more only the number 3."""
    for p in range(WIDTH, WIDTH * (np.int64(board.side) + 1)):
        there = np.int64(board.colour[U(p)])
        if (there == 1 or there == 2) and np.int64(board.head[U(p)]) == p:
            count = first = second = stones = np.int64(3)
            if board.liberties[U(p)] <= 8:  # one point is at most 4 of them
                count, first, second, stones = first_liberties(board, np.int64(p), 3)
            groups[U(p)] = 3 if count == 3 else count | first << 8 | second << 20 | stones << 32


@inlined
def ring_code(board, p, colour):
    """The colours around ``p``: 1 is ``colour``, 2 the other, 3 the edge."""
    ring = np.int64(board.ring[U(p)])
    if colour == 2:
        ring = (ring & 0x5555) << 1 | (ring & 0xAAAA) >> 1
    return ring


@inlined
def near_codes(board, groups, p, colour):
    """The codes of cross and tactics of the empty point ``p``; (-1, -1) if it is suicide for ``colour``."""
    cross = shift = room = np.int64(0)
    breath = other_breath = np.int64(0)  # a liberty afterwards, and another
    captured = rescued = given = joined = np.int64(0)  # stones of the largest group of each kind
    legal = False
    for step in NEIGHBOURS:
        q = p + step
        there = np.int64(board.colour[U(q)])
        liberty = np.int64(0)
        if there == 0:
            kind = np.int64(0)
            liberty = q
            legal = True
        elif there == EDGE:
            kind = np.int64(1)
        else:
            group = groups[U(board.head[U(q)])]
            count, stones = group & 7, group >> 32
            if there == colour:
                kind = 1 + count
                legal = legal or count > 1
                joined = max(joined, stones)
                if count == 1:
                    rescued = max(rescued, stones)
                elif count == 2:
                    liberty = ((group >> 8) & 4095) + ((group >> 20) & 4095) - p
                else:
                    room = np.int64(3)
            else:
                kind = 4 + count
                legal = legal or count == 1
                if count == 1:
                    captured = max(captured, stones)
                elif count == 2:
                    given = max(given, stones)
        if liberty and liberty != breath and liberty != other_breath:
            room += 1
            other_breath = breath
            breath = liberty
        cross |= kind << shift
        shift += 3
    if not legal:
        return np.int64(-1), np.int64(-1)
    safety = np.int64(0) if captured or room >= 3 else np.int64(1)
    if safety and room < 2:
        safety = np.int64(2) if joined == 0 else np.int64(3) if joined <= 2 else np.int64(4)
    tactics = safety * SIZES + _size_class(captured)
    tactics = (tactics * SIZES + _size_class(rescued)) * GIVEN + min(given, np.int64(3))
    return CROSS + cross, TACTICS + tactics


@inlined
def _add(points, codes, count, p, code):
    """Add a pair of point and code if it is new; returns the number of pairs."""
    for i in range(count):
        if points[i] == p and codes[i] == code:
            return count
    points[count], codes[count] = p, code
    return count + 1


@inlined
def _add_liberties(points, codes, count, group, one, two):
    """Add the liberties of a group that has one (the answer ``one``) or two (``two``)."""
    liberties = group & 7
    if liberties < 3:
        code = ANSWER + (one if liberties == 1 else two) * SIZES + _size_class(group >> 32)
        for place in range(liberties):
            count = _add(points, codes, count, (group >> 8 + 12 * place) & 4095, code)
    return count


@kernel
def answer_codes(board, groups, last, captured, colour, points, codes):
    """Write the (point, code) pairs of response, answer and nakade, and return their number. ``last`` is a point, 0 for
    a pass; the points of the ``captured`` stones are the last ones of ``board.empties``."""
    count = 0
    if last == 0:
        return count
    place_in_ring = np.int64(7)
    for step in AROUND:
        p = last + step
        if board.colour[U(p)] == 0:
            points[count], codes[count] = p, RESPONSE + (place_in_ring << 16) + ring_code(board, p, colour)
            count += 1
        place_in_ring -= 1
    count = _add_liberties(points, codes, count, groups[U(board.head[U(last)])], TAKE, CHASE)
    for step in NEIGHBOURS:
        q = last + step
        if board.colour[U(q)] != colour:
            continue
        head = np.int64(board.head[U(q)])
        group = groups[U(head)]
        count = _add_liberties(points, codes, count, group, ESCAPE, EXTEND)
        if group & 7 == 1:
            code = ANSWER + COUNTER * SIZES + _size_class(group >> 32)
            stone = head
            while True:
                for other in NEIGHBOURS:
                    r = stone + other
                    if board.colour[U(r)] == 3 - colour:
                        enemy = groups[U(board.head[U(r)])]
                        if enemy & 7 == 1 and count < CELLS:
                            count = _add(points, codes, count, (enemy >> 8) & 4095, code)
                stone = np.int64(board.next[U(stone)])
                if stone == head:
                    break
    if 3 <= captured <= 6:
        end = np.int64(board.empty_count)
        for i in range(end - captured, end):
            p = np.int64(board.empties[U(i)])
            beside = 0
            for j in range(end - captured, end):
                apart = abs(np.int64(board.empties[U(j)]) - p)
                beside += apart == 1 or apart == WIDTH
            points[count], codes[count] = p, NAKADE + (captured - 3) * 5 + beside
            count += 1
    return count


@inlined
def weigh_moves(board, colour, last, previous, captured, weights, scratch, out):
    """Write the weights of all moves to ``out`` (CELLS,), the pass at 0; ``scratch`` is (3, 2 * CELLS) int64."""
    groups, points, codes = scratch
    factors, phase = weights.factors, phase_of(board)
    spots, lasts, previouses = weights.spots[U(phase)], weights.lasts[U(last)], weights.previous[U(previous)]
    measure_groups(board, groups)
    out[:] = 0
    for i in range(board.empty_count):
        p = np.int64(board.empties[U(i)])
        factor = factors[U(RING + ring_code(board, p, colour))]
        if factor != 0 and p != board.ko:
            cross, tactics = near_codes(board, groups, p, colour)
            if cross >= 0:
                factor = factor * factors[U(cross)] * factors[U(tactics)]
                out[U(p)] = factor * spots[U(p)] * lasts[U(p)] * previouses[U(p)]
    for i in range(answer_codes(board, groups, last, captured, colour, points, codes)):
        out[U(points[i])] *= factors[U(codes[i])]
    out[0] = factors[U(PASS + 2 * phase + (last == 0))]


@inlined
def draw_move(board, weighed, sums, state):
    """A move drawn in proportion to its weight: (point, or 0 for a pass; state)."""
    side = np.int64(board.side)
    for column in range(U(side + 2)):
        sums[column] = 0
    for row in range(1, side + 1):
        base = U(row * WIDTH)
        for column in range(U(side + 2)):
            sums[column] += weighed[base + column]
    total = weighed[0]
    for column in range(1, side + 1):
        total += sums[U(column)]
    state = next_random(state)
    share = np.float32(((state * np.uint64(2685821657736338717)) >> np.uint64(40)) * 2.0**-24) * total
    if share < weighed[0]:
        return np.int64(0), state
    share -= weighed[0]
    chosen = np.int64(0)
    for column in range(1, side + 1):
        if sums[U(column)] > 0:
            chosen = column
            if share < sums[U(column)]:
                break
            share -= sums[U(column)]
    found = np.int64(0)
    for row in range(1, side + 1):
        weight = weighed[U(row * WIDTH + chosen)]
        if weight > 0:
            found = row * WIDTH + chosen
            if share < weight:
                break
            share -= weight
    return found, state


@kernel
def policy_playout(board, colour, last, previous, weights, state):
    """Play until both pass; (Black's margin before komi, moves, state). ``last`` and ``previous`` are the points of the
    last two moves, 0 for a pass."""
    weighed, sums, scratch = np.zeros(CELLS, np.float32), np.empty(32, np.float32), np.zeros((3, 2 * CELLS), np.int64)
    passes = moves = 0
    captured = np.int64(0)
    limit = 3 * np.int64(board.side) * np.int64(board.side)  # without superko, positions may repeat for ever
    while passes < 2 and moves < limit:
        weigh_moves(board, colour, last, previous, captured, weights, scratch, weighed)
        chosen, state = draw_move(board, weighed, sums, state)
        captured = np.int64(0)
        if chosen:
            before = np.int64(board.empty_count)
            place(board, chosen, colour, np.bool_(False))
            captured = np.int64(board.empty_count) - before + 1
            passes = 0
        else:
            board.ko = 0
            passes += 1
        previous, last = last, chosen
        colour = 3 - colour
        moves += 1
    return area_score(board), moves, state


@inlined
def policy_priors(board, colour, last, previous, weights, out):
    """Write the probabilities of all moves to ``out`` (CELLS,), the pass at 0, without the features of nakade."""
    weigh_moves(board, colour, last, previous, np.int64(0), weights, np.zeros((3, 2 * CELLS), np.int64), out)
    out /= out.sum()


@inlined
def list_features(board, colour, last, previous, captured, candidates, features, counts, scratch):
    """For training: write the moves that the policy considers, the pass last, to ``candidates`` (CELLS,), the codes of
    each to ``features`` (CELLS, MAX_FEATURES) and their numbers to ``counts`` (CELLS,), all int64; returns the number
    of moves. ``scratch`` is (4, 2 * CELLS) int64."""
    groups, points, codes, row_of = scratch
    measure_groups(board, groups)
    phase = phase_of(board)
    count = 0
    for i in range(board.empty_count):
        p = np.int64(board.empties[U(i)])
        row_of[U(p)] = -1
        ring = ring_code(board, p, colour)
        if p == board.ko or EYES[U(ring)]:
            continue
        cross, tactics = near_codes(board, groups, p, colour)
        if cross < 0:
            continue
        row_of[U(p)] = count
        candidates[count] = p
        features[count, 0] = RING + ring
        features[count, 1] = cross
        features[count, 2] = tactics
        features[count, 3] = SPOT + phase * SPOTS + spot_of(np.int64(board.side), p)
        counts[count] = 4
        for begin, earlier in ((LAST, last), (PREVIOUS, previous)):
            if earlier:
                features[count, counts[count]] = begin + offset_of(p, earlier)
                counts[count] += 1
        count += 1
    candidates[count] = 0
    counts[count] = 1
    features[count, 0] = PASS + 2 * phase + (last == 0)
    count += 1
    for i in range(answer_codes(board, groups, last, captured, colour, points, codes)):
        row = row_of[U(points[i])]
        if row >= 0 and counts[row] < MAX_FEATURES:
            features[row, counts[row]] = codes[i]
            counts[row] += 1
    return count
