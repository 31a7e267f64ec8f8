"""PUCT with a policy net's priors, in batches over many trees (Silver et al. 2016, Methods, "Searching with policy and
value networks"). The net is called between ``select_leaves`` and ``expand_leaves``, from Python or in the kernel of
``bots.nets.search``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arena.go import kernels
from arena.go.alive import SAFE, mark_alive
from arena.go.jit import inlined, kernel
from arena.go.katago_planes import mark_superko
from arena.go.kernels import (
    BOARD,
    CELLS,
    WIDTH,
    U,
    area_score,
    below,
    is_eye,
    is_legal,
    move_of,
    next_random,
    play,
    point_of,
)
from arena.go.planes import HISTORY, Positions
from bots.search import tree
from bots.search.gumbel import choose_inside, choose_root
from bots.search.playouts import answering_playout
from bots.search.rollouts import policy_playout

ROLLOUTS = 4  # per leaf: 4 with 63 visits took as long and played as well as 8 with 60
RISE = 0.1  # increase in the share of occupied points over which the weight of rollouts rises from 0 to its full value


class PuctParams(NamedTuple):
    """The settings of ``bots.alphago.Config`` that the kernels need, and those of Gumbel that self-play changes."""

    c_puct: float
    fpu_reduction: float  # is multiplied by the root of the total prior of visited moves
    rollout_weight: float
    rollouts_full: float
    stop_early: bool
    gumbel: bool  # whether ``gumbel`` chooses the children
    symmetries: bool = True  # whether each position is evaluated under a random symmetry
    gumbel_sample_size: int = 16  # moves considered at the root
    gumbel_c_visit: float = 50.0  # of the scale of Q (equation 8), as in the paper
    gumbel_c_scale: float = 1.0


class Leaves(NamedTuple):
    """The positions of one batch that wait for the net."""

    slots: np.ndarray  # (batch,) int64: the slot of each leaf's tree
    paths: np.ndarray  # (batch, MAX_DEPTH + 1) int32: nodes from the root to the leaf
    depths: np.ndarray  # (batch,) int64: the number of nodes in each path
    positions: Positions

    @classmethod
    def empty(cls, batch: int, has_past: bool = False) -> Leaves:
        paths = np.zeros((batch, tree.MAX_DEPTH + 1), np.int32)
        return cls(np.zeros(batch, np.int64), paths, np.zeros(batch, np.int64), Positions.empty(batch, has_past))


def select_options(params: PuctParams, leaves: Leaves) -> tuple[PuctParams | None, Leaves | None]:
    """The arguments ``gumbel`` and ``past`` of ``select_leaves``."""
    return params if params.gumbel else None, leaves if len(leaves.positions.earlier) else None


@inlined
def _select(nodes, root, slot, node, params, gumbel):
    """The child with the highest Q + U, or the child chosen by Gumbel search; -1 if all are forbidden or scores NaN."""
    if gumbel is not None:
        if params.gumbel:
            return choose_inside(nodes, slot, node, params) if node else choose_root(nodes, root, slot, params)
    family = tree.children_of(nodes, slot, node)
    explored = np.float32(0)
    for child in family:
        if nodes.visits[slot, child] > 0:
            explored += nodes.prior[slot, child]
    # A node's value is for the player who moved to it; its children's values are for the other player.
    parent = np.float32(1) - nodes.value[slot, node]
    unvisited = parent - np.float32(params.fpu_reduction) * np.sqrt(explored)
    total = np.float32(nodes.visits[slot, node] + nodes.pending[slot, node])
    scale = np.float32(params.c_puct) * np.sqrt(total)
    best, best_score = np.int64(-1), np.float32(-1e30)
    for child in family:
        visits = nodes.visits[slot, child]
        if visits == tree.FORBIDDEN:
            continue
        score = scale * nodes.prior[slot, child]
        tried = visits + nodes.pending[slot, child]
        if tried == 0:
            score += unvisited
        else:  # a pending simulation counts as lost until its result is in
            value = nodes.value[slot, child] * np.float32(visits) / np.float32(tried)
            score = value + score / np.float32(1 + tried)
        if score > best_score:
            best, best_score = child, score
    return best


@inlined
def _back_up(nodes, slot, path, depth, mover, result):
    """Add a result for Black in [0, 1] to the nodes of a path; ``mover`` moved to its first node."""
    for i in range(depth):
        node, own = np.int64(path[i]), result if mover == 1 else np.float32(1) - result
        tree.add_result(nodes, slot, node, own)
        nodes.square[slot, node] += (own * own - nodes.square[slot, node]) / np.float32(nodes.visits[slot, node])
        mover = 3 - mover


@kernel
def select_leaves(boards, roots, hashes, nodes, slots, budget, per_game, params, leaves, gumbel=None, past=None):
    """Select leaves for the net in each slot's tree, and return their number; 0 when every slot has ``budget`` visits,
    or its root's own budget if that is lower. A slot gets ``per_game`` leaves, or fewer when a simulation ends at one
    that already waits. Simulations that end in a finished game are backed up at once. ``gumbel`` and ``past`` come from
    ``select_options``; if they are None, Numba leaves out the code for them."""
    positions = leaves.positions
    count = np.int64(0)
    for s in range(slots.shape[0]):
        slot = slots[s]
        root = roots[slot]
        visits = min(budget, np.int64(root.budget))
        if params.stop_early and tree.lead(nodes, slot) > visits - nodes.visits[slot, 0]:  # nothing can overtake it
            continue
        found = 0
        while found < per_game and nodes.visits[slot, 0] + nodes.pending[slot, 0] < visits:
            positions.boards[count] = boards[slot]
            board = positions.boards[count]
            path = leaves.paths[count]
            colour, passes = np.int64(root.colour), np.int64(root.passes)
            node = child = np.int64(0)
            path[0] = 0
            depth, is_allowed = np.int64(1), True
            while passes < 2 and nodes.first[slot, node] >= 0 and depth <= tree.MAX_DEPTH:
                child = _select(nodes, root, slot, node, params, gumbel)
                if child < 0:
                    break
                p, is_allowed = tree.play_child(board, root, hashes, nodes, slot, child, colour, depth)
                if not is_allowed:
                    break
                passes = 0 if p else passes + 1
                path[depth] = child
                depth += 1
                colour = 3 - colour
                node = child
            if not is_allowed:
                continue
            mover = 3 - np.int64(root.colour)
            over = passes >= 2 or depth > tree.MAX_DEPTH or child < 0  # without a move, score the board as it stands
            if over or (depth > 1 and passes and tree.is_won(board, root, colour)):
                _back_up(nodes, slot, path, depth, mover, tree.result_of(board, root, area_score(board)))
                continue
            if nodes.first[slot, node] == tree.AWAITED:  # the next simulation would end here, too
                break
            nodes.first[slot, node] = tree.AWAITED
            for i in range(depth):
                nodes.pending[slot, path[i]] += 1
            leaves.slots[count] = slot
            leaves.depths[count] = depth
            positions.colours[count] = colour
            positions.symmetries[count] = 0
            if params.symmetries:
                root.random = next_random(root.random)
                positions.symmetries[count] = below(root.random, np.int64(8))
            positions.komis[count] = root.komi
            positions.rules[count] = root.rules
            if past is not None:
                if positions.earlier.shape[0]:
                    _write_past(boards, root, hashes, nodes, slot, path, depth, positions, count)
            for age in range(HISTORY):  # the last moves: those of the path, then the game's
                step = depth - 1 - age
                if step > 0:
                    p = np.int64(nodes.point[slot, path[step]])
                    positions.recent[count, age] = move_of(board, p) if p else board.side * board.side
                else:
                    positions.recent[count, age] = root.recent[-step]
            count += 1
            found += 1
    return count


@inlined
def _write_past(boards, root, hashes, nodes, slot, path, depth, positions, leaf):
    """Write the fields ``earlier`` and ``banned`` of ``positions`` for a leaf."""
    earlier = positions.earlier[leaf]
    earlier[0] = boards[slot] if depth > 1 else root.earlier[0]
    earlier[1] = root.earlier[0] if depth > 1 else root.earlier[1]
    colour = np.int64(root.colour)
    for step in range(1, depth - 1):
        if step == depth - 2:
            earlier[1] = earlier[0]
        p = np.int64(nodes.point[slot, path[step]])
        if p:
            play(earlier[0], p, colour)
        else:
            earlier[0].ko = 0
        colour = 3 - colour
    mark_superko(positions, leaf, hashes[slot], np.int64(root.positions) + depth - 1)


@inlined
def fills_own(board, root, colour):
    """Whether there are no stones of the other side in the pass-alive territory of ``colour``, so that moves in it are
    pointless."""
    for p in range(WIDTH + 1, WIDTH * (board.side + 1) - 1):
        if root.alive[U((colour - 1) * CELLS + p)] == SAFE and board.colour[U(p)] == 3 - colour:
            return False
    return True


@inlined
def is_pointless(board, root, p, colour, own):
    """Whether a stone at ``p`` can't change the score by area: it fills pass-alive territory of ``colour``, if ``own``
    (``fills_own``), or is dead in that of the other side, unless there is a ko, for which it may be a threat."""
    if root.alive[U((colour - 1) * CELLS + p)] == SAFE:
        return own
    return root.alive[U((2 - colour) * CELLS + p)] != 0 and board.ko == 0


@kernel
def prune_pass_alive(boards, roots, nodes, slots):
    """Mark pass-alive points at these roots by area scoring, and remove children that are pointless. The marks prune
    later positions, too: pass-alive points stay pass-alive."""
    for s in range(slots.shape[0]):
        slot = slots[s]
        root = roots[slot]
        board = boards[slot]
        root.alive[:] = 0
        for colour in range(1, 3 if root.rules & kernels.AREA_SCORED else 1):
            mark_alive(board, colour, True, root.alive[(colour - 1) * CELLS : colour * CELLS])
        if nodes.first[slot, 0] < 0:
            continue
        colour = np.int64(root.colour)
        own = fills_own(board, root, colour)
        child = np.int64(nodes.first[slot, 0])
        while child < nodes.first[slot, 0] + nodes.children[slot, 0]:
            p = np.int64(nodes.point[slot, child])
            if p and is_pointless(board, root, p, colour, own):
                nodes.children[slot, 0] -= 1
                tree.copy_child(nodes, slot, nodes.first[slot, 0] + nodes.children[slot, 0], child)
            else:
                child += 1


@inlined
def _expand(board, root, nodes, slot, node, colour, passes, logits, table):
    """Add the children of ``node``: moves that may matter, shuffled, then the pass, with the softmax of ``logits`` as
    priors. A second pass that wins is the only child; one that loses has prior 0 if there are other moves."""
    own = fills_own(board, root, colour)
    first = np.int64(root.used)
    used = first
    points = board.side * board.side
    state = root.random
    top = np.float32(-np.inf)
    over = passes and tree.is_won(board, root, colour)
    for i in range(0 if over else board.empty_count):
        p = np.int64(board.empties[U(i)])
        if is_eye(board, p, colour) or not is_legal(board, p, colour) or is_pointless(board, root, p, colour, own):
            continue
        logit = np.float32(logits[table[move_of(board, p)]])
        top = max(top, logit)
        state = next_random(state)
        other = first + below(state, used - first + 1)
        tree.add_child(nodes, slot, used, nodes.point[slot, other], nodes.prior[slot, other])
        nodes.point[slot, other] = p
        nodes.prior[slot, other] = logit
        used += 1
    passing = np.float32(logits[points])
    if passes and used > first and tree.is_won(board, root, 3 - colour):
        passing = np.float32(-np.inf)
    top = max(top, passing)
    tree.add_child(nodes, slot, used, np.int16(0), passing)
    used += 1
    total = np.float32(0)
    for child in range(first, used):
        weight = np.exp(nodes.prior[slot, child] - top)
        nodes.prior[slot, child] = weight
        total += weight
    for child in range(first, used):
        nodes.prior[slot, child] /= total
    root.random = state
    root.used = used
    nodes.first[slot, node] = first
    nodes.children[slot, node] = used - first


@inlined
def _mix_rollouts(board, root, owners, colour, last, previous, params, weights, result):
    """Black's result, mixed with the mean of rollouts by their weight (lambda), which rises as the board fills up. They
    are heuristic, or by the rollout policy with ``weights``."""
    points = np.int64(board.side) * np.int64(board.side)
    occupied = (points - np.int64(board.empty_count)) / points
    risen = min(1.0, max(0.0, 1.0 - (params.rollouts_full - occupied) / RISE))
    weight = np.float32(params.rollout_weight * risen)
    if weight == 0:
        return result
    scratch, when = np.empty(1, BOARD), np.zeros(CELLS, np.uint16)
    total, state = np.float32(0), root.random
    for _ in range(ROLLOUTS):
        scratch[0] = board
        if weights is None:
            margin, _, state = answering_playout(scratch[0], colour, last, state, when, 1)
        else:
            margin, _, state = policy_playout(scratch[0], colour, last, previous, weights, state)
        tree.count_ownership(scratch[0], owners)
        total += tree.result_of(scratch[0], root, margin)
    root.random = state
    return (np.float32(1) - weight) * result + weight * total / np.float32(ROLLOUTS)


@kernel
def expand_leaves(roots, nodes, owners, params, tables, leaves, count, logits, win_rates, rollouts=None, weights=None):
    """Expand the first ``count`` leaves by the net's outputs and back up their results. ``logits`` (batch, size² + 1)
    are in each leaf's symmetry; ``win_rates`` (batch,) are for its side to move. ``rollouts`` is ``params``, or None if
    rollouts have no weight; ``weights`` are those of a rollout policy, or None for heuristic rollouts."""
    capacity = nodes.visits.shape[1]
    for i in range(count):
        slot = leaves.slots[i]
        root = roots[slot]
        path = leaves.paths[i]
        depth = leaves.depths[i]
        colour = leaves.positions.colours[i]
        node = np.int64(path[depth - 1])
        board = leaves.positions.boards[i]
        if np.int64(root.used) + board.empty_count + 1 <= capacity:
            passes = nodes.point[slot, node] == 0 if depth > 1 else root.passes > 0
            table = tables[leaves.positions.symmetries[i]]
            _expand(board, root, nodes, slot, node, colour, passes, logits[i], table)
        else:
            nodes.first[slot, node] = tree.UNEXPANDED
        result = win_rates[i] if colour == 1 else np.float32(1) - win_rates[i]
        if rollouts is not None:
            last = np.int64(nodes.point[slot, node]) if depth > 1 else np.int64(root.last)
            earlier = leaves.positions.recent[i, 1]
            has_previous = 0 <= earlier < np.int64(board.side) * np.int64(board.side)
            previous = np.int64(point_of(board, earlier)) if has_previous else np.int64(0)
            result = _mix_rollouts(board, root, owners[slot], colour, last, previous, rollouts, weights, result)
        for j in range(depth):
            nodes.pending[slot, path[j]] -= 1
        _back_up(nodes, slot, path, depth, 3 - np.int64(root.colour), result)
