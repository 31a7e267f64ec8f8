"""Planning with Gumbel (Danihelka et al. 2022, "Policy improvement by planning with Gumbel"): sequential halving at the
root, the improved policy below it and as a target. Tree, priors and results are those of ``puct``."""

from __future__ import annotations

import numpy as np

from arena.go.jit import inlined, kernel
from arena.go.kernels import move_of, next_random
from bots.search.tree import FORBIDDEN, children_of


@inlined
def considered_visits(moves, simulations, done):
    """The visits that a move must have to get simulation number ``done`` (from 0). Sequential halving divides the
    simulations into rounds of equal length: the first for ``moves`` moves, each later one for half as many, at least
    two."""
    if moves <= 1:
        return done
    rounds = 0
    while 1 << rounds < moves:
        rounds += 1
    visits = 0
    considered = moves
    while True:
        extra = max(1, simulations // (rounds * considered))
        if done < extra * considered:
            return visits + done // considered
        done -= extra * considered
        visits += extra
        considered = max(2, considered // 2)


@inlined
def _completion(nodes, slot, node, params):
    """(value of unvisited moves, scale of results, highest result of a move with a prior), for the side to move. The
    value is v_mix (appendix D): the net's own value averaged with the prior-weighted mean of the visited moves, which
    counts as often as they were visited. Results times the scale are added to logits (equation 8)."""
    visits = np.int64(0)
    most = np.int32(0)
    results = share = weighed = highest = np.float32(0)
    is_complete = True
    for child in children_of(nodes, slot, node):
        count, prior = nodes.visits[slot, child], nodes.prior[slot, child]
        most = max(most, count)
        if count > 0:
            result = nodes.value[slot, child]
            visits += count
            results += np.float32(count) * result
            share += prior
            weighed += prior * result
            highest = max(highest, result) if prior > 0 else highest
        elif count != FORBIDDEN and prior > 0:
            is_complete = False
    # A node's value is the mean of its evaluation by the net and its children's results, as seen by the other side.
    total = np.float32(nodes.visits[slot, node])
    own = max(np.float32(1), total - np.float32(visits))
    mixed = min(np.float32(1), max(np.float32(0), ((np.float32(1) - nodes.value[slot, node]) * total - results) / own))
    if share > 0:
        mixed = (mixed + np.float32(visits) * weighed / share) / np.float32(1 + visits)
    factor = np.float32(params.gumbel_c_scale) * (np.float32(params.gumbel_c_visit) + np.float32(most))
    return mixed, factor, highest if is_complete else max(highest, mixed)


@inlined
def _weight(nodes, slot, child, unvisited, scale, highest):
    """The unnormalized share of a move in the improved policy (equation 11). Subtracting ``highest`` keeps the best
    move's exponential within the range of float32."""
    prior = nodes.prior[slot, child]
    raised = np.exp(scale * (nodes.value[slot, child] - highest)) if nodes.visits[slot, child] > 0 else unvisited
    return prior * raised if prior > 0 else np.float32(0)


@inlined
def _best_scored(nodes, root, slot, params, wanted):
    """The root's child with the highest noise + logit + scaled result: of those with ``wanted`` visits, pending ones
    counted, or of all if there are none; -1 when superko forbids every move."""
    mixed, scale, _ = _completion(nodes, slot, np.int64(0), params)
    best, best_score, fits = np.int64(-1), np.float32(0), False
    for child in children_of(nodes, slot, np.int64(0)):
        if nodes.visits[slot, child] == FORBIDDEN:
            continue
        noise = root.noise[child - np.int64(nodes.first[slot, 0])]
        result = nodes.value[slot, child] if nodes.visits[slot, child] > 0 else mixed
        score = noise + np.log(nodes.prior[slot, child]) + scale * result
        fit = nodes.visits[slot, child] + nodes.pending[slot, child] == wanted
        if best < 0 or fit > fits or (fit == fits and score > best_score):
            best, best_score, fits = child, score, fit
    return best


@inlined
def choose_root(nodes, root, slot, params):
    """The root's child to visit next by sequential halving, or -1 when superko forbids every move."""
    moves = 0
    done = np.int64(0)
    for child in children_of(nodes, slot, np.int64(0)):
        if nodes.visits[slot, child] != FORBIDDEN:
            moves += nodes.prior[slot, child] > 0
            done += nodes.visits[slot, child] + nodes.pending[slot, child]
    considered = min(np.int64(params.gumbel_sample_size), np.int64(moves))
    return _best_scored(nodes, root, slot, params, considered_visits(considered, np.int64(root.simulations), done))


@inlined
def choose_inside(nodes, slot, node, params):
    """The child whose visit brings the visits closest to the improved policy (equation 14); -1 without children."""
    mixed, scale, highest = _completion(nodes, slot, node, params)
    unvisited = np.exp(scale * (mixed - highest))  # once: it takes long, and most moves are unvisited
    total = np.float32(0)
    tried = np.int64(1)
    for child in children_of(nodes, slot, node):
        visits = nodes.visits[slot, child]
        if visits != FORBIDDEN:
            total += _weight(nodes, slot, child, unvisited, scale, highest)
            tried += visits + nodes.pending[slot, child]
    best, best_score = np.int64(-1), np.float32(0)
    for child in children_of(nodes, slot, node):
        visits = nodes.visits[slot, child]
        if visits == FORBIDDEN:
            continue
        score = _weight(nodes, slot, child, unvisited, scale, highest) / max(total, np.float32(1e-38))
        score -= np.float32(visits + nodes.pending[slot, child]) / np.float32(tried)
        if best < 0 or score > best_score:
            best, best_score = child, score
    return best


@kernel
def draw_gumbel(roots, slot, moves, scale):
    """Gumbel noise for up to ``moves`` children of the root, times ``scale``, from the slot's random numbers."""
    root = roots[slot]
    state = root.random
    for i in range(moves):
        state = next_random(state)
        share = (np.float64(state >> np.uint64(11)) + 0.5) * 2.0**-53
        root.noise[i] = np.float32(-np.log(-np.log(share)) * scale)
    root.random = state


@kernel
def best_move(nodes, roots, slot, params):
    """The child to play, or -1: of the root's most visited ones the one that ``_best_scored`` prefers."""
    most = np.int64(0)
    for child in children_of(nodes, slot, np.int64(0)):
        most = max(most, np.int64(nodes.visits[slot, child]))
    return _best_scored(nodes, roots[slot], slot, params, most)


@kernel
def improved_policy(boards, nodes, slot, params, shares):
    """Write to ``shares`` (size² + 1,) the softmax of logit + scaled result over the root's children (equation 11)."""
    shares[:] = 0
    mixed, scale, highest = _completion(nodes, slot, np.int64(0), params)
    unvisited = np.exp(scale * (mixed - highest))  # once: it takes long, and most moves are unvisited
    total = np.float32(0)
    for child in children_of(nodes, slot, np.int64(0)):
        if nodes.visits[slot, child] != FORBIDDEN:
            weight = _weight(nodes, slot, child, unvisited, scale, highest)
            p = np.int64(nodes.point[slot, child])
            shares[move_of(boards[slot], p) if p else shares.shape[0] - 1] = weight
            total += weight
    if total > 0:
        shares /= total
    else:  # superko forbids all but a pass that loses
        shares[shares.shape[0] - 1] = 1
