"""UCT with what makes it strong: RAVE, priors from shapes and atari, playouts that answer. No net.

Kocsis and Szepesvari 2006 (UCT); Gelly and Silver 2011 (RAVE, heuristic priors).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arena.go.jit import inlined, kernel
from arena.go.kernels import (
    BOARD,
    CELLS,
    EDGE,
    WIDTH,
    U,
    area_score,
    below,
    is_eye,
    is_legal,
    next_random,
    play,
    point_of,
    repeats,
)
from bots.search.playouts import answering_playout
from bots.search.rollouts import policy_priors
from bots.search.tactics import is_lonely, is_self_atari, is_shape, rescue
from bots.search.tree import FORBIDDEN, MAX_DEPTH, add_child, add_result, count_ownership, is_won, result_of

EXPAND_AFTER = 8
"""Visits that a leaf needs before it is expanded. 2 cost 5 % more time a simulation and scored 20-20."""

FPU_VALUE = 1.1
"""First-play urgency for moves without a prior or RAVE statistics: more than a win, so that each is tried once."""

# What a prior is made of, in simulations won or lost.
EVEN = 10.0  # half of them won
RESCUE = 15.0  # a capture, or an escape from atari; twice for several stones
SHAPE = 10.0  # one of the patterns
SELF_ATARI = 10.0  # lost
NEAR, NEARLY = 20.0, 7.0  # up to 2 steps from the last move, where a group is one step; 3
FAR = 4  # and from here on nothing
ALONE = 10.0  # no stone around: lost on the first two lines, won on the third


class UctParams(NamedTuple):
    """The settings of ``bots.uct.Config`` that the kernel needs."""

    c_uct: float
    rave: float
    priors: float
    policy: float


@inlined
def _mark_reached(board, p, distance, steps, reached, count):
    """Note that ``p``, and all stones of its group if it has one, are ``distance`` away; how many points are now."""
    stone = np.int64(p)
    while True:
        steps[stone] = distance
        reached[count] = stone
        count += 1
        stone = np.int64(board.next[U(stone)])  # an empty point is a ring of its own
        if stone == p:
            return count


@inlined
def _measure_distances(board, last, steps, reached):
    """Write to ``steps`` (CELLS,) how far each point is from ``last``, a group being crossed in one step: 0 to 3, or
    FAR for more and where ``last`` is 0. ``reached`` (CELLS,) is scratch."""
    for p in range(WIDTH * (board.side + 2)):
        steps[p] = FAR
    if last == 0:
        return
    count = _mark_reached(board, last, 0, steps, reached, 0)
    done = 0
    while done < count:
        p = np.int64(reached[done])
        done += 1
        if steps[p] + 1 == FAR:
            return
        for step in (-WIDTH, np.int64(-1), np.int64(1), WIDTH):
            q = p + step
            if steps[q] == FAR and board.colour[U(q)] != EDGE:
                count = _mark_reached(board, q, steps[p] + 1, steps, reached, count)


@inlined
def _prior(board, p, colour, steps):
    """What shapes, atari and distance from the last move (``steps``) say of a move at ``p``; (win rate, weight in
    simulations)."""
    won = EVEN / 2
    weight = EVEN
    if p == 0:
        return won / (2 * weight), 2 * weight
    rescued = rescue(board, p, colour)
    if rescued:
        won += RESCUE if rescued == 1 else 2 * RESCUE
        weight += RESCUE if rescued == 1 else 2 * RESCUE
    if is_shape(np.int64(board.ring[U(p)])):
        won += SHAPE
        weight += SHAPE
    if is_self_atari(board, p, colour):
        weight += SELF_ATARI
    near = NEAR if steps[p] <= 2 else NEARLY if steps[p] == 3 else 0.0
    won += near
    weight += near
    side = np.int64(board.side)
    row, column = p // WIDTH, p % WIDTH
    line = min(row, column, side + 1 - row, side + 1 - column)
    if line <= 3 and is_lonely(board, p):
        won += ALONE if line == 3 else 0.0
        weight += ALONE
    return won / weight, weight


@inlined
def _mix_prior(nodes, slot, child, win_rate, weight):
    """Mix into a child's prior one more opinion, worth ``weight`` simulations: what tactics say, or a policy."""
    total = nodes.weight[slot, child] + weight
    nodes.prior[slot, child] += (win_rate - nodes.prior[slot, child]) * (weight / total)
    nodes.weight[slot, child] = total


@inlined
def _expand(board, root, colour, last, previous, nodes, slot, node, state, params, weights, chances):
    """Give ``node`` its children in random order: legal points that are no own eyes, and the pass; the random state."""
    first = np.int64(root.used)
    child = first
    for i in range(board.empty_count):
        p = np.int64(board.empties[U(i)])
        if not is_eye(board, p, colour) and is_legal(board, p, colour):
            state = next_random(state)
            other = first + below(state, child - first + 1)
            nodes.point[slot, child] = nodes.point[slot, other]
            nodes.point[slot, other] = p
            child += 1
    nodes.point[slot, child] = 0
    count = child + 1 - first
    for child in range(first, first + count):
        add_child(nodes, slot, child, nodes.point[slot, child], np.float32(0))
        nodes.weight[slot, child] = 0
        nodes.later_visits[slot, child] = 0
        nodes.later_value[slot, child] = 0
    if params.priors > 0:
        steps, reached = np.empty(CELLS, np.int64), np.empty(CELLS, np.int64)
        _measure_distances(board, last, steps, reached)
        for child in range(first, first + count):
            win_rate, weight = _prior(board, np.int64(nodes.point[slot, child]), colour, steps)
            _mix_prior(nodes, slot, child, np.float32(win_rate), np.float32(params.priors * weight))
    if params.policy > 0:
        policy_priors(board, colour, last, previous, weights, chances)
        highest = chances.max()
        for child in range(first, first + count - 1):  # the pass is left to what else is known of it
            win_rate = np.sqrt(chances[U(nodes.point[slot, child])] / highest)
            _mix_prior(nodes, slot, child, np.float32(win_rate), np.float32(params.policy))
    nodes.first[slot, node] = first
    nodes.children[slot, node] = count
    root.used = first + count
    return state


@inlined
def _select(nodes, slot, node, params):
    """The child with the best estimate, or -1 when superko forbids them all.

    The estimate is that of the child's results and its prior, mixed with RAVE's, and a confidence bound (UCB1).
    """
    first = np.int64(nodes.first[slot, node])
    constant = np.float32(params.c_uct)
    log_visits = constant * constant * np.log(np.float32(nodes.visits[slot, node] + 1))
    equal = np.float32(params.rave)
    best = np.int64(-1)
    best_bound = np.float32(-1)
    for child in range(first, first + np.int64(nodes.children[slot, node])):
        visits = nodes.visits[slot, child]
        if visits == FORBIDDEN:
            continue
        own = np.float32(visits)
        weight = nodes.weight[slot, child]
        total = own + weight
        later = np.float32(nodes.later_visits[slot, child])
        if total + later == 0:
            bound = np.float32(FPU_VALUE)
        else:
            bound = np.float32(0)
            if total > 0:
                bound = (own * nodes.value[slot, child] + weight * nodes.prior[slot, child]) / total
            if equal > 0 and later > 0:
                share = later / (later + total + later * total / equal)
                bound += share * (nodes.later_value[slot, child] - bound)
            bound += np.sqrt(log_visits / max(total, np.float32(1)))
        if bound > best_bound:
            best_bound = bound
            best = child
    return best


@inlined
def _add_rave_result(nodes, slot, node, colour, time, when, result):
    """Credit all the children of ``node`` that ``colour`` was the first to play, at ``time`` or later."""
    first = np.int64(nodes.first[slot, node])
    for child in range(first, first + np.int64(nodes.children[slot, node])):
        stamp = np.int64(when[U(nodes.point[slot, child])])
        if stamp >= 2 * time and (stamp & 1) == colour - 1:
            count = nodes.later_visits[slot, child] + 1
            nodes.later_visits[slot, child] = count
            nodes.later_value[slot, child] += (result - nodes.later_value[slot, child]) / np.float32(count)


@inlined
def _simulate(board, root, hashes, nodes, owners, slot, params, path, when, state, weights, chances):
    """One simulation from the root's position, which is on ``board``; (whether it counts, the random state).

    ``when`` (CELLS,) is scratch: 2 * time + colour - 1 of the first stone on each point that was empty, where time
    counts moves from 1. Point 0, the pass, is never written.
    """
    for i in range(board.empty_count):
        when[U(board.empties[U(i)])] = 0
    colour, passes, last = np.int64(root.colour), np.int64(root.passes), np.int64(root.last)
    previous = np.int64(0)  # the last move but one: a point, or 0
    if 0 <= root.recent[1] < board.side * board.side:
        previous = np.int64(point_of(board, np.int64(root.recent[1])))
    node = np.int64(0)
    path[0] = 0
    depth = 1
    while passes < 2 and depth <= MAX_DEPTH:
        if nodes.first[slot, node] < 0:
            if node != 0 and nodes.visits[slot, node] < EXPAND_AFTER:
                break
            if root.used + board.empty_count + 1 > nodes.visits.shape[1]:
                break
            state = _expand(board, root, colour, last, previous, nodes, slot, node, state, params, weights, chances)
        child = _select(nodes, slot, node, params)
        if child < 0:
            break
        p = np.int64(nodes.point[slot, child])
        if p:
            play(board, p, colour)
            if root.superko and nodes.visits[slot, child] == 0:
                if repeats(hashes[slot], root.positions + depth - 1, board.hash) >= 0:
                    nodes.visits[slot, child] = FORBIDDEN
                    return False, state
            if when[U(p)] == 0:
                when[U(p)] = 2 * depth + colour - 1
            passes = 0
        else:
            board.ko = 0
            passes += 1
        hashes[slot, root.positions + depth - 1] = board.hash
        path[depth] = child
        depth += 1
        colour = 3 - colour
        previous = last
        last = p
        node = child
        if passes == 1 and is_won(board, root, colour):
            passes = 2  # the other pass, which wins, is as good as played
    if passes >= 2:
        points = np.int64(area_score(board))
    else:
        points, _, state = answering_playout(board, colour, last, state, when, depth)
    count_ownership(board, owners, slot)
    result = result_of(board, root, points)  # for Black
    mover = 3 - np.int64(root.colour)
    for i in range(depth):
        own = result if mover == 1 else np.float32(1) - result
        add_result(nodes, slot, path[i], own)
        mover = 3 - mover
        if params.rave > 0 and nodes.first[slot, path[i]] >= 0:
            _add_rave_result(nodes, slot, path[i], mover, i + 1, when, np.float32(1) - own)
    return True, state


@kernel
def search(boards, roots, hashes, nodes, owners, slot, simulations, params, weights):
    """Run ``simulations`` more simulations from the root of ``slot``. ``weights`` are a rollout policy's. Results count
    for the side that moved to a node: 1 for a win, 1/2 for a draw."""
    scratch = np.empty(1, BOARD)
    chances = np.zeros(CELLS, np.float32)
    path = np.empty(MAX_DEPTH + 1, np.int64)
    when = np.zeros(CELLS, np.uint16)
    root, board = roots[slot], scratch[0]
    state = root.random
    done = 0
    while done < simulations:
        scratch[0] = boards[slot]
        counts, state = _simulate(board, root, hashes, nodes, owners, slot, params, path, when, state, weights, chances)
        done += counts
    root.random = state
