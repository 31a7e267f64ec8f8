"""UCT (Kocsis and Szepesvari 2006) with RAVE, heuristic priors (Gelly and Silver 2011) and MoGo-style playouts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arena.go.jit import inlined, kernel
from arena.go.kernels import BOARD, CELLS, WIDTH, U, area_score, below, is_eye, is_legal, next_random, point_of
from bots.search import tree
from bots.search.playouts import answering_playout
from bots.search.rollouts import policy_priors
from bots.search.tactics import is_lonely, is_self_atari, is_shape, measure_distances, rescue

EXPAND_AFTER = 8  # visits that a leaf needs before it is expanded; 2 cost 5 % more time a simulation and scored 20-20
FPU_VALUE = 1.1  # of moves without a prior or RAVE statistics: more than a win, so that each is tried once

# The parts of a prior, in simulations that count as won unless stated otherwise.
EVEN = 10.0  # for every move, half of them won
RESCUE = 15.0  # a capture, or an escape from atari; twice for several stones
SHAPE = 10.0  # one of the patterns
SELF_ATARI = 10.0  # lost
NEAR, NEARLY = 20.0, 7.0  # up to 2 steps from the last move, and 3 (``measure_distances``)
ALONE = 10.0  # no stone within 3 steps: lost on the first two lines, won on the third


class UctParams(NamedTuple):
    """The settings of ``bots.uct.Config`` that the kernel needs."""

    c_uct: float
    rave: float
    priors: float
    policy: float


@inlined
def _prior(board, p, colour, steps):
    """The prior from shapes, atari and distance to the last move (``steps``): (win rate, weight in simulations)."""
    won, weight = EVEN / 2, EVEN
    if p == 0:
        return won / (2 * weight), 2 * weight
    gain = RESCUE * rescue(board, p, colour) + NEAR * (steps[p] <= 2) + NEARLY * (steps[p] == 3)
    if is_shape(np.int64(board.ring[U(p)])):
        gain += SHAPE
    won += gain
    weight += gain
    if is_self_atari(board, p, colour):
        weight += SELF_ATARI
    side = np.int64(board.side)
    row, column = p // WIDTH, p % WIDTH
    line = min(row, column, side + 1 - row, side + 1 - column)
    if line <= 3 and is_lonely(board, p):
        won += ALONE if line == 3 else 0.0
        weight += ALONE
    return won / weight, weight


@inlined
def _mix_prior(nodes, slot, child, win_rate, weight):
    """Average a win rate with the weight of ``weight`` simulations into a child's prior."""
    total = nodes.weight[slot, child] + weight
    nodes.prior[slot, child] += (win_rate - nodes.prior[slot, child]) * (weight / total)
    nodes.weight[slot, child] = total


@inlined
def _expand(board, root, colour, last, previous, nodes, slot, node, state, params, weights, chances):
    """Add the children of ``node``: legal moves that fill no own eye, shuffled, then the pass; the random state."""
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
        tree.add_child(nodes, slot, child, nodes.point[slot, child], np.float32(0))
        nodes.weight[slot, child] = 0
        nodes.later_visits[slot, child] = 0
        nodes.later_value[slot, child] = 0
    if params.priors > 0:
        steps, reached = np.empty(CELLS, np.int64), np.empty(CELLS, np.int64)
        measure_distances(board, last, steps, reached)
        for child in range(first, first + count):
            win_rate, weight = _prior(board, np.int64(nodes.point[slot, child]), colour, steps)
            _mix_prior(nodes, slot, child, np.float32(win_rate), np.float32(params.priors * weight))
    if params.policy > 0:
        policy_priors(board, colour, last, previous, weights, chances)
        highest = chances.max()
        for child in range(first, first + count - 1):  # all but the pass
            win_rate = np.sqrt(chances[U(nodes.point[slot, child])] / highest)
            _mix_prior(nodes, slot, child, np.float32(win_rate), np.float32(params.policy))
    nodes.first[slot, node] = first
    nodes.children[slot, node] = count
    root.used = first + count
    return state


@inlined
def _select(nodes, slot, node, params):
    """The child with the highest score, or -1 when superko forbids them all: the mean of results and prior, mixed with
    the RAVE value, plus the exploration term of UCB1."""
    constant = np.float32(params.c_uct)
    log_visits = constant * constant * np.log(np.float32(nodes.visits[slot, node] + 1))
    equal = np.float32(params.rave)
    best, best_bound = np.int64(-1), np.float32(-1)
    for child in tree.children_of(nodes, slot, node):
        visits = nodes.visits[slot, child]
        if visits == tree.FORBIDDEN:
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
            best, best_bound = child, bound
    return best


@inlined
def _add_rave_result(nodes, slot, node, colour, time, when, result):
    """Update the RAVE statistics of the children of ``node`` that ``colour`` played first, at ``time`` or later."""
    for child in tree.children_of(nodes, slot, node):
        stamp = np.int64(when[U(nodes.point[slot, child])])
        if stamp >= 2 * time and (stamp & 1) == colour - 1:
            count = nodes.later_visits[slot, child] + 1
            nodes.later_visits[slot, child] = count
            nodes.later_value[slot, child] += (result - nodes.later_value[slot, child]) / np.float32(count)


@inlined
def _simulate(board, root, hashes, nodes, owners, slot, params, path, when, state, weights, chances):
    """One simulation from the root's position, which is on ``board``; (False if superko ended it, the random state).
    ``when`` (CELLS,) is scratch: 2 * time + colour - 1 of the first stone played on each point, where time counts moves
    from 1; 0 for point 0, the pass."""
    when[:] = 0
    colour, passes, last = np.int64(root.colour), np.int64(root.passes), np.int64(root.last)
    has_previous = 0 <= root.recent[1] < board.side * board.side
    previous = np.int64(point_of(board, root.recent[1])) if has_previous else np.int64(0)  # the last move but one
    node = np.int64(0)
    path[0] = 0
    depth = np.int64(1)
    while passes < 2 and depth <= tree.MAX_DEPTH:
        if nodes.first[slot, node] < 0:
            is_full = root.used + board.empty_count + 1 > nodes.visits.shape[1]
            if is_full or (node != 0 and nodes.visits[slot, node] < EXPAND_AFTER):
                break
            state = _expand(board, root, colour, last, previous, nodes, slot, node, state, params, weights, chances)
        child = _select(nodes, slot, node, params)
        if child < 0:
            break
        p, is_allowed = tree.play_child(board, root, hashes, nodes, slot, child, colour, depth)
        if not is_allowed:
            return False, state
        if p and when[U(p)] == 0:
            when[U(p)] = 2 * depth + colour - 1
        passes = 0 if p else passes + 1
        path[depth] = child
        depth += 1
        colour = 3 - colour
        previous, last = last, p
        node = child
        if passes == 1 and tree.is_won(board, root, colour):
            passes = 2  # a second pass wins
    if passes >= 2:
        points = np.int64(area_score(board))
    else:
        points, _, state = answering_playout(board, colour, last, state, when, depth)
    tree.count_ownership(board, owners[slot])
    result = tree.result_of(board, root, points)  # for Black
    mover = 3 - np.int64(root.colour)
    for i in range(depth):
        own = result if mover == 1 else np.float32(1) - result
        tree.add_result(nodes, slot, path[i], own)
        mover = 3 - mover
        if params.rave > 0 and nodes.first[slot, path[i]] >= 0:
            _add_rave_result(nodes, slot, path[i], mover, i + 1, when, np.float32(1) - own)
    return True, state


@kernel
def search(boards, roots, hashes, nodes, owners, slot, simulations, params, weights):
    """Run ``simulations`` simulations from the root of ``slot``, with the ``weights`` of a rollout policy."""
    scratch = np.empty(1, BOARD)
    chances = np.zeros(CELLS, np.float32)
    path = np.empty(tree.MAX_DEPTH + 1, np.int64)
    when = np.zeros(CELLS, np.uint16)
    root, board = roots[slot], scratch[0]
    state = root.random
    done = 0
    while done < simulations:
        scratch[0] = boards[slot]
        counts, state = _simulate(board, root, hashes, nodes, owners, slot, params, path, when, state, weights, chances)
        done += counts
    root.random = state
