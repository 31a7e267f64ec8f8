"""Kernels that play and search many games at once, one a slot, by CGOS rules; they release the GIL.

Inlined kernels stay in the file of their callers: Numba's cache looks for changes in a kernel's own file only.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from arena import IllegalMove
from arena.go import kernels
from arena.go.jit import inlined, kernel
from arena.go.katago_planes import mark_superko, play_earlier
from arena.go.kernels import (
    BOARD,
    CELLS,
    CGOS_RULES,
    area_score,
    legal_mask,
    move_of,
    next_random,
    play_any,
    point_of,
    seeded,
)
from arena.go.planes import HISTORY, NO_MOVE
from bots.search.gumbel import best_move, draw_gumbel, improved_policy
from bots.search.puct import prune_pass_alive, select_leaves
from bots.search.tree import MAX_DEPTH, ROOT, Nodes, best_child, clear_tree, kept_nodes, set_root
from trainers.games import Games

SUPERKO, SUICIDE = True, False

LINE = 12  # most moves of a line
DRAWN, CHEAP, FULL = range(3)  # a move is drawn from the policy, or decided by a cheap or a full search
LEVELS = 65535  # steps in which shares of visits are stored
LEVELS_OF_BEST = 255  # steps in which an improved policy is stored, relative to its largest share
GUMBEL_SCALE = 1.0

DECIDED_MARGIN, DECIDED_TURNS, DECIDED_FULL_SEARCH_FACTOR = 0.05, 5, 0.25
"""After DECIDED_TURNS turns in a row with a win rate within DECIDED_MARGIN of 0 or 1 a game counts as decided, and
``full_search_prob`` is multiplied by the factor."""

_SHARE = 2.0**-53
_STEP = np.uint64(0x9E3779B97F4A7C15)
_S11 = np.uint64(11)
_ASIDE, _LINES = np.uint64(1), np.uint64(2)  # added to a move's seed: random numbers apart from those of its search


class SelfPlayParams(NamedTuple):
    visits: int  # of a full search, including the root's own
    cheap_search_visits: int
    full_search_prob: float
    temperature: float = 0.0  # PUCT: moves before ``temperature_moves`` are drawn from visits ^ (1 / temperature)
    temperature_moves: int = 0  # later the most visited move is played
    virtual_loss_batch: int = 1  # leaves of one tree in a batch
    reuse: bool = False  # keep the subtree of the move that is played
    first_pass: int = 0  # passing is forbidden before this move


class GameSlots(NamedTuple):
    """Games in progress, one a slot, with at most ``limit`` moves, and the results of their full searches."""

    playing: np.ndarray  # (slots,) bool: the slot has an unfinished game
    is_new: np.ndarray  # (slots,) bool: no move of the game was searched yet
    boards: np.ndarray  # (slots,) BOARD
    hashes: np.ndarray  # (slots, limit + MAX_DEPTH + 2) uint64: of all positions so far, then scratch for a search
    moves: np.ndarray  # (slots, limit) uint16
    lengths: np.ndarray  # (slots,) int64: moves played; Black is to move if even
    seeds: np.ndarray  # (slots,) uint64
    komis: np.ndarray  # (slots,) float64
    drawn: np.ndarray  # (slots,) int64: earlier moves are drawn from the policy
    counts: np.ndarray  # (slots,) int64: full searches so far; the arrays below have one entry for each
    plies: np.ndarray  # (slots, limit) int64
    levels: np.ndarray  # (slots, limit, size² + 1) uint16: visits, or the improved policy, up to a factor
    win_rates: np.ndarray  # (slots, limit) float32: of the side to move
    lines: np.ndarray  # (slots, limit, most, LINE) int16: moves from the root to some nodes, then NO_MOVE

    @classmethod
    def empty(cls, slots: int, limit: int, searched: int = 0, lines: int = 0) -> Self:
        """``searched`` is size² + 1 if moves are searched, else 0; ``lines`` is the number drawn from each tree."""
        game: Any = ((np.bool_,), (np.bool_,), (BOARD,), (np.uint64, limit + MAX_DEPTH + 2), (np.uint16, limit))
        more: Any = ((np.int64,), (np.uint64,), (np.float64,), (np.int64,))
        found: Any = ((np.int64,), (np.int64, limit), (np.uint16, limit, searched), (np.float32, limit))
        found = (*found, (np.int16, limit, lines, LINE))
        return cls(*(np.zeros((slots, *shape), kind) for kind, *shape in (*game, *more, *found)))


class SearchSlots(NamedTuple):
    """The search tree of each slot."""

    nodes: Nodes
    roots: np.ndarray  # (slots,) ROOT
    owners: np.ndarray  # (slots, CELLS) int32: sums over rollouts of the owners of points
    kinds: np.ndarray  # (slots,) int64: DRAWN, CHEAP or FULL, of the current move
    shares: np.ndarray  # (slots,) float64 in [0, 1): the random number that draws the current move
    decided: np.ndarray  # (slots,) int64: turns in a row with a win rate near 0 or 1
    is_over: np.ndarray  # (slots,) bool: the search of the current move found no more leaves

    @classmethod
    def empty(cls, slots: int, capacity: int) -> Self:
        kinds: Any = ((ROOT,), (np.int32, CELLS), (np.int64,), (np.float64,), (np.int64,), (np.bool_,))
        return cls(Nodes.empty(slots, capacity), *(np.zeros((slots, *shape), kind) for kind, *shape in kinds))


# --- Games ---


def put_game(games: GameSlots, slot: int, size: int, komi: float, seed: int = 0, opening: Sequence[int] = ()) -> None:
    """Begin a game in a slot. Raises IllegalMove for an opening that is illegal or ends the game."""
    kernels.clear(games.boards[slot], size)
    hashes = games.hashes[slot]
    hashes[0] = games.boards["hash"][slot]
    games.seeds[slot], games.komis[slot], games.lengths[slot] = seed, komi, len(opening)
    games.playing[slot] = games.is_new[slot] = True
    games.counts[slot] = 0
    passing = size**2
    ends = len(opening) >= games.moves.shape[1] or (passing, passing) in pairwise(opening)
    for ply, move in enumerate(opening):
        reason, _ = kernels.referee(games.boards, slot, move, 1 + ply % 2, hashes, ply + 1, SUPERKO, SUICIDE)
        if reason != kernels.LEGAL or ends:
            raise IllegalMove(f"the opening {opening} can't be played, or ends the game")
        games.moves[slot, ply] = move


@inlined
def _write_earlier(games, slot, earlier):
    """Write the positions of a slot one and two moves ago to ``earlier`` (2,) BOARD."""
    kernels.clear(earlier[0], np.int64(games.boards[slot].side))
    play_earlier(earlier, games.moves[slot, : games.lengths[slot]], 1, games.hashes[slot, :0])


@kernel
def copy_positions(games, which, positions):
    """Copy the positions of the slots ``which`` to ``positions``, a ``planes.Positions``."""
    for i in range(which.shape[0]):
        slot = which[i]
        length = games.lengths[slot]
        positions.boards[i] = games.boards[slot]
        positions.colours[i] = 1 + length % 2
        positions.komis[i] = games.komis[slot]
        positions.symmetries[i] = 0
        positions.rules[i] = CGOS_RULES
        if positions.earlier.shape[0]:
            _write_earlier(games, slot, positions.earlier[i])
            mark_superko(positions, i, games.hashes[slot], length + 1)
        for age in range(HISTORY):
            positions.recent[i, age] = np.int64(games.moves[slot, length - 1 - age]) if age < length else NO_MOVE


@inlined
def play_in_slot(games, slot, move):
    """Play a legal move; two passes or the limit end the game."""
    board, moves = games.boards[slot], games.moves[slot]
    length = games.lengths[slot]
    passing = np.int64(board.side) * np.int64(board.side)
    if move == passing:
        board.ko = 0
    else:
        play_any(board, point_of(board, move), 1 + length % 2)
    moves[length] = move
    length += 1
    games.hashes[slot, length] = board.hash
    games.lengths[slot] = length
    passed_out = length > 1 and moves[length - 1] == passing and moves[length - 2] == passing
    games.playing[slot] = not (passed_out or length >= games.moves.shape[1])


# --- Moves of a policy ---


@inlined
def write_sensible(games, slot, mask):
    """Write ``Game.sensible_moves`` of a slot to ``mask`` (size² + 1,)."""
    colour, count = 1 + games.lengths[slot] % 2, games.lengths[slot] + 1
    legal_mask(games.boards, slot, colour, games.hashes[slot], count, SUPERKO, SUICIDE, False, mask)
    margin = area_score(games.boards[slot]) - games.komis[slot]
    if margin < 0 if colour == 1 else margin > 0:
        mask[-1] = not mask[:-1].any()


@kernel
def sample_move(weights, temperature, share):
    """Draw a move from ``weights`` (moves,) ^ (1 / ``temperature``) by the random number ``share`` in [0, 1). At
    temperature 0 it is the first of those with the largest weight."""
    best = np.argmax(weights)
    if temperature == 0:
        return best
    odds = (weights / weights[best]) ** (1 / temperature)
    total = 0.0
    for move in range(odds.shape[0]):
        total += odds[move]
    left, passed = share * total, 0.0
    for move in range(odds.shape[0]):
        passed += odds[move]
        if passed > left:
            return move
    return best


@kernel
def play_policies(games, which, logits):
    """Draw a sensible move by ``logits`` (len(which), size² + 1) for each of the slots ``which``, and play it."""
    mask, weights = np.empty(logits.shape[1], np.bool_), np.empty(logits.shape[1])
    for i in range(which.shape[0]):
        slot = which[i]
        write_sensible(games, slot, mask)
        top = np.float64(logits[i][mask].max())
        for move in range(mask.shape[0]):
            weights[move] = np.exp(np.float64(logits[i, move]) - top) if mask[move] else 0.0
        state = next_random(seeded(games.seeds[slot] + np.uint64(games.lengths[slot] + 1) * _STEP))
        play_in_slot(games, slot, sample_move(weights, 1.0, np.float64(state >> _S11) * _SHARE))


def all_sensible(games: Games) -> np.ndarray:
    """``Game.sensible_moves`` before each move of some games; (all moves, size² + 1) bool."""
    masks = np.empty((len(games.moves), games.size**2 + 1), np.bool_)
    room = GameSlots.empty(1, int(games.lengths.max(initial=0)))
    mark_sensible(room, games.size, games.moves, games.starts, games.komis, masks, True)
    return masks


@kernel
def mark_sensible(room, size, moves, starts, komis, masks, everywhere):
    """Write ``Game.sensible_moves`` to ``masks`` for a list of games (see ``planes.encode_rows``): before every move,
    (all moves, size² + 1), or else at the end of each game, (games, size² + 1). ``room`` has one slot."""
    for i in range(komis.shape[0]):
        kernels.clear(room.boards[0], size)
        room.hashes[0, 0] = room.boards[0].hash
        room.lengths[0], room.komis[0] = 0, komis[i]
        for place in range(starts[i], starts[i + 1]):
            if everywhere:
                write_sensible(room, 0, masks[place])
            play_in_slot(room, 0, np.int64(moves[place]))
        if not everywhere:
            write_sensible(room, 0, masks[i])


# --- Moves of a search ---


@inlined
def move_seed(games, slot):
    """``Game.move_seed``."""
    value = games.seeds[slot] + _STEP * np.uint64(games.lengths[slot] + 1)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((value ^ (value >> np.uint64(31))) >> np.uint64(1))


@inlined
def follow(searches, slot, point, keep):
    """Make the child that plays ``point`` the root. Its subtree stays if ``keep``; else the tree is cleared."""
    nodes, roots = searches.nodes, searches.roots
    kept = np.empty(np.int64(roots[slot].used), np.int32)
    used = kept_nodes(nodes, slot, point, kept) if keep else 0
    if used == 0:
        clear_tree(nodes, roots, slot)
        return
    kept = kept[:used]
    nodes.visits[slot, :used] = nodes.visits[slot][kept]
    nodes.pending[slot, :used] = nodes.pending[slot][kept]
    nodes.value[slot, :used] = nodes.value[slot][kept]
    nodes.prior[slot, :used] = nodes.prior[slot][kept]
    nodes.first[slot, :used] = nodes.first[slot][kept]
    nodes.children[slot, :used] = nodes.children[slot][kept]
    nodes.point[slot, :used] = nodes.point[slot][kept]
    roots[slot].used = used


@kernel
def chances(seed):
    """Two random numbers in [0, 1) from a move's seed, apart from those of its search."""
    state = next_random(seeded(np.uint64(seed) + _ASIDE))
    first = np.float64(state >> _S11) * _SHARE
    return first, np.float64(next_random(state) >> _S11) * _SHARE


@kernel
def to_levels(weights, levels):
    """Write the shares of ``weights`` (moves,) to ``levels`` (moves,) uint16 in ``LEVELS`` steps."""
    total = weights.sum()
    for move in range(weights.shape[0]):
        levels[move] = np.uint16(np.rint(weights[move] / total * LEVELS))


@inlined
def _move_of_child(board, nodes, slot, child, passing):
    p = np.int64(nodes.point[slot, child])
    return move_of(board, p) if p else passing


@inlined
def _child_weights(games, searches, slot, by_priors, weights):
    """Write the visits of the root's children, or their priors, to ``weights`` (size² + 1,) float64."""
    nodes, board = searches.nodes, games.boards[slot]
    passing = weights.shape[0] - 1
    weights[:] = 0
    first = np.int64(nodes.first[slot, 0])
    for child in range(first, first + np.int64(nodes.children[slot, 0]) if first >= 0 else first):
        weight = np.float64(nodes.prior[slot, child] if by_priors else max(0, nodes.visits[slot, child]))
        weights[_move_of_child(board, nodes, slot, child, passing)] = weight
    if not weights.any():  # the tree had no room
        child = best_child(nodes, searches.roots, slot) if first >= 0 else -1
        weights[_move_of_child(board, nodes, slot, child, passing) if child >= 0 else passing] = 1


@inlined
def _begin_move(games, searches, slots, params, puct, recent):
    """Draw the kind of the current move of a slot, the one in ``slots`` (1,), and begin its search. ``recent``
    (HISTORY,) int64 is scratch."""
    slot = slots[0]
    board, moves, length, root = games.boards[slot], games.moves[slot], games.lengths[slot], searches.roots[slot]
    searches.is_over[slot] = False
    if games.is_new[slot]:
        games.is_new[slot] = False
        searches.decided[slot] = 0
        clear_tree(searches.nodes, searches.roots, slot)
    for age in range(HISTORY):
        recent[age] = np.int64(moves[length - 1 - age]) if age < length else NO_MOVE
    passes = 1 if recent[0] == np.int64(board.side) * np.int64(board.side) else 0
    last = np.int64(point_of(board, recent[0])) if length > 0 and not passes else 0
    seed, komi = move_seed(games, slot), games.komis[slot]
    set_root(searches.roots, slot, 1 + length % 2, passes, last, CGOS_RULES, length + 1, komi, seed, recent)
    prune_pass_alive(games.boards, searches.roots, searches.nodes, slots)
    chance, searches.shares[slot] = chances(seed)
    often = params.full_search_prob
    if searches.decided[slot] >= DECIDED_TURNS:
        often *= DECIDED_FULL_SEARCH_FACTOR
    if length < games.drawn[slot]:
        searches.kinds[slot], root.budget = DRAWN, 1
    elif chance < often:
        searches.kinds[slot], root.budget = FULL, params.visits
    else:
        searches.kinds[slot], root.budget = CHEAP, params.cheap_search_visits
    if puct.gumbel and root.budget > 1:
        root.simulations = root.budget - 1
        draw_gumbel(searches.roots, slot, games.levels.shape[2], GUMBEL_SCALE)


@inlined
def _draw_lines(games, searches, slot, lines):
    """Write the moves to randomly drawn expanded nodes below the root to ``lines`` (most, LINE)."""
    nodes, board, passing = searches.nodes, games.boards[slot], games.levels.shape[2] - 1
    used, count = np.int64(searches.roots[slot].used), 0
    parents, expanded = np.full(used, -1, np.int64), np.empty(used, np.int64)
    for node in range(used):  # children have higher numbers
        first = np.int64(nodes.first[slot, node])
        if first >= 0 and (node == 0 or parents[node] >= 0):
            parents[first : first + np.int64(nodes.children[slot, node])] = node
            if node:
                expanded[count] = node
                count += 1
    state = next_random(seeded(np.uint64(move_seed(games, slot)) + _LINES))
    lines[:] = NO_MOVE
    for i in range(min(lines.shape[0], count)):
        state = next_random(state)
        other = i + np.int64(np.float64(state >> _S11) * _SHARE * (count - i))
        node = expanded[other]
        expanded[other] = expanded[i]
        depth, above = 0, node
        while above:
            depth, above = depth + 1, parents[above]
        while node:
            depth -= 1
            if depth < LINE:
                lines[i, depth] = _move_of_child(board, nodes, slot, node, passing)
            node = parents[node]


@inlined
def _decide(games, searches, slot, params, puct, weights):
    """Play a move of a slot whose search is over, and store the results of a full search."""
    nodes, board, length, kind = searches.nodes, games.boards[slot], games.lengths[slot], searches.kinds[slot]
    win_rate = np.float32(1) - nodes.value[slot, 0]  # a node's value is seen by whoever moved to it
    searches.decided[slot] = searches.decided[slot] + 1 if min(win_rate, 1 - win_rate) < DECIDED_MARGIN else 0
    forced = puct.gumbel and nodes.children[slot, 0] == 1
    if kind == FULL and not forced:
        count = games.counts[slot]
        if puct.gumbel:
            improved_policy(games.boards, nodes, slot, puct, weights)
            highest = weights.max()
            for move in range(weights.shape[0]):
                games.levels[slot, count, move] = np.uint16(LEVELS_OF_BEST * weights[move] / highest + 0.5)
        else:
            _child_weights(games, searches, slot, False, weights)
            to_levels(weights, games.levels[slot, count])
        games.plies[slot, count] = length
        games.win_rates[slot, count] = win_rate
        if games.lines.shape[2]:
            _draw_lines(games, searches, slot, games.lines[slot, count])
        games.counts[slot] = count + 1
    if puct.gumbel and kind != DRAWN:
        child = best_move(nodes, searches.roots, slot, puct)
        move = np.int64(_move_of_child(board, nodes, slot, child, weights.shape[0] - 1))
    else:
        _child_weights(games, searches, slot, kind == DRAWN, weights)
        late = 0.0 if length >= params.temperature_moves else params.temperature
        move = sample_move(weights, 1.0 if kind == DRAWN else late, searches.shares[slot])
    point = point_of(board, move) if move < weights.shape[0] - 1 else 0
    play_in_slot(games, slot, move)
    follow(searches, slot, point, params.reuse)
    if not games.playing[slot]:
        searches.roots[slot].budget = 0  # no leaves


@kernel
def search_on(games, searches, slots, params, puct, leaves):
    """Play the moves of finished searches in ``slots``, and begin the next; then collect ``leaves`` for the net to
    evaluate. Returns their number; a slot may have none."""
    nodes, roots = searches.nodes, searches.roots
    recent, weights = np.empty(HISTORY, np.int64), np.empty(games.levels.shape[2])
    for i in range(slots.shape[0]):
        slot = slots[i]
        while games.playing[slot]:
            if games.is_new[slot] or roots[slot].positions != games.lengths[slot] + 1:
                _begin_move(games, searches, slots[i : i + 1], params, puct, recent)
                if leaves.positions.earlier.shape[0]:
                    _write_earlier(games, slot, roots[slot].earlier)
            first, children = np.int64(nodes.first[slot, 0]), np.int64(nodes.children[slot, 0])
            visits, only = nodes.visits[slot, 0], puct.gumbel and first >= 0 and children == 1
            if visits == 1 and children > 1 and games.lengths[slot] < params.first_pass:
                for child in range(first, first + children):
                    if nodes.point[slot, child] == 0:
                        nodes.prior[slot, child] = 0
            if visits < roots[slot].budget and not only and not searches.is_over[slot]:
                break
            _decide(games, searches, slot, params, puct, weights)
        searches.is_over[slot] = True
    count = select_leaves(
        games.boards, roots, games.hashes, nodes, slots, 2**62, params.virtual_loss_batch, puct, leaves, puct, leaves
    )
    for i in range(count):
        searches.is_over[leaves.slots[i]] = False
    return count
