"""PUCT with a packed net within one kernel. A single game spends a third of its time between kernels otherwise."""

from __future__ import annotations

import numpy as np

from arena.go.jit import inlined, kernel
from arena.go.planes import encode_in_search
from bots.nets.int8 import forward
from bots.search.puct import expand_leaves, select_leaves


@inlined
def _win_rate(value):
    """The win rate of logits of win, draw and loss."""
    highest = np.float64(max(value[0], value[1], value[2]))
    win, draw, loss = np.exp(value[0] - highest), np.exp(value[1] - highest), np.exp(value[2] - highest)
    return np.float32((win + 0.5 * draw) / (win + draw + loss))


@kernel
def search(trees, slots, budget, per_game, batches, params, leaves, past, tables, packed, planes, found):
    """Select leaves, evaluate and expand them, up to ``batches`` times; returns the number of the last leaves, 0 if
    there were none, or -1 if outputs of the net aren't finite. ``trees`` are boards, roots, hashes, nodes and owners,
    and ``packed`` the first arguments of ``forward``; ``planes`` (batch, P, n²) and ``found`` (batch, n² + 4) float32
    are scratch. The others are those of ``select_leaves`` and ``expand_leaves``."""
    boards, roots, hashes, nodes, owners = trees
    points, rates, count = planes.shape[2], np.empty(planes.shape[0], np.float32), np.int64(0)
    for _ in range(batches):
        count = select_leaves(boards, roots, hashes, nodes, slots, budget, per_game, params, leaves, None, past)
        if count == 0:
            break
        encode_in_search(leaves.positions, count, tables, planes, past)
        forward(packed.net, packed.tokens, packed.config, planes[:count], found)
        for i in range(count):
            rates[i] = _win_rate(found[i, points + 1 :])
            if not np.isfinite(found[i].sum() + rates[i]):
                return np.int64(-1)
        expand_leaves(roots, nodes, owners, params, tables, leaves, count, found, rates)
    return count
