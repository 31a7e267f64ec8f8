"""Playouts by a trained linear policy: every move's weight is a product of factors that its surroundings have.

The rollout policy of AlphaGo (Silver et al. 2016, Methods and Extended Data Table 4) in small: a linear softmax over
patterns. A *code* is the index of one feature in a list of all; ``factors`` holds e to the power of what was learned
for each, by ``trainers.rollout``.

Features of a point, all seen by the side to move, equal under the 8 symmetries:

- ring: the colours of the 8 points around;
- cross: the colours of the 4 neighbours, with 1, 2 or more liberties;
- tactics: whether the move captures, saves a group from atari, gives atari or is self-atari, and of how many stones;
- spot: the distance to the two nearest edges, by how full the board is;
- last, previous: how far the opponent's last move is, and one's own;
- response: the ring of a point beside the last move, and where in it that move is;
- answer: the point is one of the last liberties of the stones at the last move or of own ones beside it, or captures
  stones beside own ones in atari;
- nakade: the point is one of those where the last move captured 3 to 6 stones, with so many others beside it;
- pass, the only one that a pass has: how full the board is, and whether the last move was a pass.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from arena.go.coords import symmetry_table
from arena.go.jit import inlined, kernel
from arena.go.kernels import AROUND, CELLS, EDGE, NEIGHBOURS, WIDTH, U, area_score, first_liberties, next_random, place

FEATURES = "rollout-1"  # the name of this set of features; what a code means never changes under it

SIZES = 6  # classes of a number of stones: none, 1, 2, 3, 4 and 5, more
SAFETY = 5  # room for 3 liberties or a capture, for 2; self-atari of a stone, of 2 and 3, of more
GIVEN = 4  # stones put in atari: none, 1, 2, more
PHASES = 8
LINES = 5
SPOTS = LINES * LINES
REACH = 9
OFFSETS = REACH * REACH

# Where the codes of each feature begin, and how many there are.
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

# Answers: capture what moved last, give it atari, save own stones beside it from atari, capture what puts them there,
# mind own stones beside it that have two liberties.
TAKE, CHASE, ESCAPE, COUNTER, EXTEND = range(5)

MAX_FEATURES = 20  # features of one point, at most
_FULL = np.array([2, 5, 10, 17, 26, 38, 54], np.int64)  # percent of the points that hold stones: where phases end


def _eye_rings() -> np.ndarray:
    """(65536,) bool: the rings of an eye of colour 1, as ``is_eye`` has it."""
    around = (np.arange(1 << 16) >> 2 * np.arange(8)[:, None]) & 3  # (8, 65536)
    beside, diagonals = around[[1, 3, 4, 6]], around[[0, 2, 5, 7]]
    lost = (diagonals == 2).sum(0) + (diagonals == EDGE).any(0)
    return ((beside == 1) | (beside == EDGE)).all(0) & (lost < 2)


EYES = _eye_rings()


class Weights(NamedTuple):
    """A trained policy for boards of one size: factors of a move's weight, all float32, by cells of the padded board,
    ``WIDTH * (size + 2)``."""

    factors: np.ndarray  # (CODES,) of each feature but those below; 0 fills an own eye
    spots: np.ndarray  # (PHASES, cells) of a point by how full the board is
    lasts: np.ndarray  # (cells, cells) of a point by the opponent's last move; row 0 for none
    previous: np.ndarray  # (cells, cells) of a point by one's own last move


@inlined
def spot_of(side, p):
    """The place in SPOT of a point of the padded board, less its phase; the same under symmetry."""
    row, column = p // WIDTH, p % WIDTH
    one = min(row - 1, side - row, np.int64(LINES - 1))
    other = min(column - 1, side - column, np.int64(LINES - 1))
    return min(one, other) * LINES + max(one, other)


@inlined
def offset_of(p, q):
    """The place in LAST and PREVIOUS of the distance between two points; the same under symmetry."""
    one = min(abs(p // WIDTH - q // WIDTH), np.int64(REACH - 1))
    other = min(abs(p % WIDTH - q % WIDTH), np.int64(REACH - 1))
    return min(one, other) * REACH + max(one, other)


@cache
def tie() -> np.ndarray:
    """(CODES,) int32: the number of each code's weight; codes that are the same under symmetry share one."""
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
    """The factors for boards of ``size`` from the weights that were learned, one for each number in ``tie()``.
    Probabilities are raised to ``sharpness``."""
    factors = np.exp(sharpness * learned[tie()].astype(np.float64)).astype(np.float32)
    factors[RING : RING + (1 << 16)][EYES] = 0
    cells = WIDTH * (size + 2)
    lasts, previous = np.ones((2, cells, cells), np.float32)
    weights = Weights(factors, np.ones((PHASES, cells), np.float32), lasts, previous)
    _fill_tables(size, weights)
    return weights


@kernel
def _fill_tables(size, weights):
    """Write the factors that depend on where a point is, and on how far the last moves are from it."""
    factors, spots, lasts, previous = weights
    for i in range(size * size):
        p = (i // size + 1) * WIDTH + i % size + 1
        for phase in range(PHASES):
            spots[phase, p] = factors[SPOT + phase * SPOTS + spot_of(size, p)]
        for j in range(size * size):
            q = (j // size + 1) * WIDTH + j % size + 1
            lasts[p, q] = factors[LAST + offset_of(p, q)]
            previous[p, q] = factors[PREVIOUS + offset_of(p, q)]


SHARPNESS = 1.5  # playouts raise the policy's probabilities to this power: their results say more than plain ones


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
    """Write what is known of every group to ``groups`` (CELLS,) int64, at its head: liberties | the first << 8 | the
    second << 20 | stones << 32; of one with 3 liberties or more just 3."""
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
    """The codes of cross and tactics of the empty point ``p``, or (-1, -1) where ``colour`` may not play, ko apart."""
    cross = shift = room = np.int64(0)
    breath = other_breath = np.int64(0)  # a liberty afterwards, and another
    captured = rescued = given = joined = np.int64(0)  # stones of the largest such group
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
    """Add a pair, unless it is there."""
    for i in range(count):
        if points[i] == p and codes[i] == code:
            return count
    points[count], codes[count] = p, code
    return count + 1


@inlined
def _add_liberties(points, codes, count, group, one, two):
    """Add the liberties of a group that has one or two, with the answer ``one`` or ``two``."""
    liberties = group & 7
    if liberties < 3:
        code = ANSWER + (one if liberties == 1 else two) * SIZES + _size_class(group >> 32)
        for place in range(liberties):
            count = _add(points, codes, count, (group >> 8 + 12 * place) & 4095, code)
    return count


@kernel
def answer_codes(board, groups, last, captured, colour, points, codes):
    """The features that the last move gives to single points: writes (point, code) pairs, returns how many. ``last`` is
    a point, 0 for a pass; the last move took off ``captured`` stones, which end ``board.empties``."""
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
    """Write the weights of all moves to ``out`` (CELLS,), of the pass at 0; ``scratch`` is (3, 2 * CELLS) int64."""
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
    """A point, or 0 to pass, with the probability of its weight; (point, state)."""
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
    """Play until both pass; (Black's margin before komi, moves, state). ``last`` is the point that was just played,
    ``previous`` the one before, 0 for a pass."""
    weighed, sums, scratch = np.zeros(CELLS, np.float32), np.empty(32, np.float32), np.zeros((3, 2 * CELLS), np.int64)
    passes = moves = 0
    captured = np.int64(0)
    limit = 3 * np.int64(board.side) * np.int64(board.side)  # without superko, it might go in circles
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
    """Write the probabilities of all moves to ``out`` (CELLS,), of the pass at 0, as if nothing had been captured."""
    weigh_moves(board, colour, last, previous, np.int64(0), weights, np.zeros((3, 2 * CELLS), np.int64), out)
    out /= out.sum()


# For learning: what the features of a position are, as codes.


@inlined
def list_features(board, colour, last, previous, captured, candidates, features, counts, scratch):
    """The codes of every move that the policy considers, the pass last; returns how many moves those are. Writes
    ``candidates`` (CELLS,) points and, for each, ``counts`` (CELLS,) codes to ``features`` (CELLS, MAX_FEATURES), all
    int64; ``scratch`` is (4, 2 * CELLS) int64."""
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
