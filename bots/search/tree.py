"""The search trees of many games as flat arrays, and their reuse after moves are played."""

from __future__ import annotations

from collections.abc import Collection
from mmap import mmap
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from arena.contract.bot import Candidate, Decision
from arena.go import kernels
from arena.go.board import move_from_point, point_from_move
from arena.go.coords import BLACK, Move
from arena.go.game import Game
from arena.go.jit import inlined, kernel
from arena.go.kernels import AREA_SCORED, BOARD, CELLS, HAS_SUPERKO, WIDTH, U, area_score, below, play, repeats, seeded
from arena.go.planes import HISTORY, NO_MOVE, write_earlier

MAX_DEPTH = 400  # moves of a simulation below the root
UNEXPANDED, AWAITED = -1, -2  # values of ``Nodes.first``: no children yet; waiting for the net's evaluation
FORBIDDEN = -1  # the value of ``Nodes.visits`` for a move that superko forbids
UNLIMITED = 2**31 - 1  # the value of ``budget`` of a root without a budget
CHILDREN = 19 * 19 + 1  # of a node, at most
MIN_VISIT_PROP = 0.15  # of the most visits: with fewer, a move isn't chosen by its confidence bound
PRIOR_VARIANCE = 0.5  # of results; after one visit half of it counts, after three a 28th

Params = TypeVar("Params", bound=NamedTuple)


def params_of(config: object, kind: type[Params]) -> Params:
    """The settings of a bot's Config that have the names of the fields of ``kind``; other fields get their defaults."""
    return kind._make(getattr(config, name, kind._field_defaults.get(name)) for name in kind._fields)


class Nodes(NamedTuple):
    """The nodes of all trees; every array is (slots, capacity), and node 0 is the root. The children of a node are
    consecutive. ``value`` is the mean result in [0, 1] for the player who moved to the node. Only PUCT uses ``square``,
    only UCT the last three."""

    visits: np.ndarray  # int32: simulations through the node
    pending: np.ndarray  # int32: simulations that wait for an evaluation (virtual losses)
    value: np.ndarray  # float32
    prior: np.ndarray  # float32: in PUCT the move's probability under the policy, in UCT a prior win rate
    first: np.ndarray  # int32: the first child, or UNEXPANDED, AWAITED
    children: np.ndarray  # int16: how many
    point: np.ndarray  # int16: the move to this node as a point of the padded board; 0 passes
    square: np.ndarray  # float32: the mean squared result
    weight: np.ndarray  # float32: the prior's weight in simulations
    later_visits: np.ndarray  # int32: simulations through the parent in which the move was played then or later (AMAF)
    later_value: np.ndarray  # float32: their mean result

    @classmethod
    def empty(cls, slots: int, capacity: int, rave: bool = False) -> Nodes:
        """Without ``rave`` the last three are empty. ``mmap`` takes memory in small pages as they are written; NumPy's
        allocator takes huge pages of two megabytes for each column of each tree, most of which stay empty."""
        columns = []
        for number, code in enumerate("i4 i4 f4 f4 i4 i2 i2 f4 f4 i4 f4".split()):
            room = capacity if number < 8 or rave else 0
            size = slots * room * int(code[1])
            columns.append(np.frombuffer(mmap(-1, size) if size else bytearray(), code).reshape(slots, room))
        return cls(*columns)


ROOT = np.dtype(
    (
        np.record,
        [
            ("random", "u8"),  # the state of the slot's random numbers
            ("colour", "i4"),  # the side to move
            ("passes", "i4"),  # passes played in a row
            ("rules", "i4"),  # ``Rules.bits``
            ("last", "i4"),  # the point of the last move, 0 for a pass or none
            ("positions", "i4"),  # the number of the slot's hashes that are the game's
            ("used", "i4"),  # nodes in use
            ("budget", "i4"),  # visits of the root, at most
            ("simulations", "i4"),  # for sequential halving: the simulations of a move
            ("komi", "f4"),
            ("recent", "i8", (HISTORY,)),  # the last moves, the latest first
            ("alive", "u1", (2 * CELLS,)),  # Black's, then White's marks by ``mark_alive``, if the search prunes
            ("noise", "f4", (CHILDREN,)),  # Gumbel noise of the children, if the search draws it
            ("earlier", BOARD, (2,)),  # the positions one and two moves ago, if the encoder needs them
        ],
    ),
    align=True,
)


@kernel
def clear_tree(nodes, roots, slot):
    """Make the tree a root without visits."""
    add_child(nodes, slot, np.int64(0), np.int16(0), np.float32(1))
    roots[slot].used = 1


@inlined
def add_child(nodes, slot, node, point, prior):
    """Write a new node, except UCT's columns."""
    nodes.visits[slot, node] = 0
    nodes.pending[slot, node] = 0
    nodes.value[slot, node] = 0
    nodes.prior[slot, node] = prior
    nodes.first[slot, node] = UNEXPANDED
    nodes.children[slot, node] = 0
    nodes.point[slot, node] = point
    nodes.square[slot, node] = 0


@inlined
def copy_child(nodes, slot, source, target):
    """Copy a node, except UCT's columns."""
    add_child(nodes, slot, target, nodes.point[slot, source], nodes.prior[slot, source])
    nodes.visits[slot, target] = nodes.visits[slot, source]
    nodes.pending[slot, target] = nodes.pending[slot, source]
    nodes.value[slot, target] = nodes.value[slot, source]
    nodes.first[slot, target] = nodes.first[slot, source]
    nodes.children[slot, target] = nodes.children[slot, source]
    nodes.square[slot, target] = nodes.square[slot, source]


@inlined
def children_of(nodes, slot, node):
    """The range of the children of an expanded node."""
    first = np.int64(nodes.first[slot, node])
    return range(first, first + np.int64(nodes.children[slot, node]))


@inlined
def play_child(board, root, hashes, nodes, slot, child, colour, depth):
    """Play the move of a child at ``depth``; (its point, whether superko allows it). If not, mark it FORBIDDEN."""
    p = np.int64(nodes.point[slot, child])
    if p == 0:
        board.ko = 0
    else:
        play(board, p, colour)
        if root.rules & HAS_SUPERKO and nodes.visits[slot, child] == 0 and nodes.pending[slot, child] == 0:
            if repeats(hashes[slot], root.positions + depth - 1, board.hash) >= 0:
                nodes.visits[slot, child] = FORBIDDEN
                return p, False
    hashes[slot, root.positions + depth - 1] = board.hash
    return p, True


@kernel
def kept_nodes(nodes, slot, point, kept):
    """The subtree below the root's move ``point``: write the old index of each node to ``kept`` in the order of the new
    indices, set ``first`` to new indices, and return the number of nodes, 0 if the move was not visited."""
    used = 0
    if nodes.first[slot, 0] >= 0:
        for child in children_of(nodes, slot, np.int64(0)):
            if nodes.point[slot, child] == point and nodes.visits[slot, child] > 0:
                kept[0] = child
                used = 1
    done = 0
    while done < used:  # breadth first
        node = np.int64(kept[done])
        if nodes.first[slot, node] >= 0:
            family = children_of(nodes, slot, node)
            nodes.first[slot, node] = used
            for child in family:
                kept[used] = child
                used += 1
        done += 1
    return used


@inlined
def add_result(nodes, slot, node, result):
    """Count a simulation through the node, with a result in [0, 1] for the player who moved to it."""
    visits = nodes.visits[slot, node] + 1
    nodes.visits[slot, node] = visits
    nodes.value[slot, node] += (result - nodes.value[slot, node]) / np.float32(visits)


@inlined
def result_of(board, root, area):
    """Black's result in [0, 1] on the board as it stands by the game's rules; ``area`` is Black's margin by area."""
    margin = area - root.komi if root.rules & AREA_SCORED else area - kernels.placed_score(board) - root.komi
    return np.float32(1) if margin > 0 else np.float32(0) if margin < 0 else np.float32(0.5)


@inlined
def is_won(board, root, colour):
    """Whether ``colour`` wins on the board as it stands, so that after a pass it wins by a second pass."""
    return result_of(board, root, area_score(board)) == np.float32(2 - colour)


@inlined
def count_ownership(board, owners):
    """Add the owners of the points at the end of a playout to ``owners`` (CELLS,) of a tree; see ``TreePool``."""
    owners[0] += 1
    for first in range(WIDTH + 1, WIDTH * (board.side + 1), WIDTH):  # of each row
        for p in range(first, first + board.side):
            colour = np.int64(board.colour[U(p)])
            if colour == 1:
                owners[p] += 1
            elif colour == 2:
                owners[p] -= 1
            elif colour == 0:
                around = np.int64(board.around[U(p)])
                owners[p] += int(((around >> 4) & 15) == 4) - int(((around >> 8) & 15) == 4)


@kernel
def lead(nodes, slot):
    """The visits of the root's most visited child minus those of the second."""
    most = second = 0
    for child in children_of(nodes, slot, np.int64(0)):
        visits = nodes.visits[slot, child]
        if visits > most:
            most, second = visits, most
        elif visits > second:
            second = visits
    return most - second


@kernel
def best_child(nodes, roots, slot):
    """The root's most visited child, -1 without children. The value breaks ties, then chance."""
    best = np.int64(-1)
    ties = 0
    state = roots[slot].random
    for i in children_of(nodes, slot, np.int64(0)):
        if nodes.visits[slot, i] == FORBIDDEN:
            continue
        if best >= 0:
            more = nodes.visits[slot, i] - nodes.visits[slot, best]
            better = nodes.value[slot, i] - nodes.value[slot, best]
            if more < 0 or (more == 0 and better < 0):
                continue
            if more == 0 and better == 0:
                ties += 1
                state = kernels.next_random(state)
                best = i if below(state, ties + 1) == 0 else best
                continue
        best = i
        ties = 0
    roots[slot].random = state
    return best


@kernel
def surest_child(nodes, slot, stdevs):
    """The root's child with the highest lower confidence bound, ``stdevs`` standard errors below its value, among those
    with at least ``MIN_VISIT_PROP`` of the most visits; -1 without visits (KataGo, cpp/search/searchresults.cpp)."""
    most = 0
    for child in children_of(nodes, slot, np.int64(0)):
        most = max(most, np.int64(nodes.visits[slot, child]))
    best, best_bound = np.int64(-1), -np.inf
    for child in children_of(nodes, slot, np.int64(0)):
        visits = np.float64(nodes.visits[slot, child])
        if visits < 1 or visits < MIN_VISIT_PROP * most:
            continue
        value = np.float64(nodes.value[slot, child])
        variance = max(0.0, nodes.square[slot, child] - value * value) + PRIOR_VARIANCE / (visits**3 + 1)
        bound = value - stdevs * np.sqrt(variance / visits)
        if bound > best_bound:
            best, best_bound = child, bound
    return best


@kernel
def set_root(roots, slot, colour, passes, last, rules, positions, komi, seed, recent):
    root = roots[slot]
    root.colour, root.passes, root.last = colour, passes, last
    root.rules, root.komi = rules, komi
    root.positions = positions
    root.random = seeded(seed)
    root.budget = UNLIMITED
    for age in range(HISTORY):  # an assignment of slices takes two seconds to compile
        root.recent[age] = recent[age]


class TreePool:
    """The trees of a bot's games, one slot each; a slot is free once its game is deleted. A tree has up to ``capacity``
    nodes, which ``make_room`` raises up to ``most``; a full tree is searched without growing. ``owners`` (slots, CELLS)
    int32 count, over the playouts of the last search, Black's ownership of a point minus White's; column 0 counts the
    playouts. The best move is ``surest_child`` by ``lcb_stdevs``, or the most visited move if that is 0."""

    def __init__(self, capacity: int, rave: bool = False, most: int = 0, lcb_stdevs: float = 0.0):
        self.capacity = capacity
        self._most, self._rave, self._lcb_stdevs = max(capacity, most), rave, lcb_stdevs
        self._slots: WeakKeyDictionary[Game, int] = WeakKeyDictionary()
        self.slots = 0
        self.nodes = Nodes.empty(0, capacity, rave)
        self.roots = np.zeros(0, ROOT)
        self.hashes = np.zeros((0, 1), np.uint64)
        self._grow(1)

    def make_room(self, slots: np.ndarray, nodes: int) -> None:
        """Make room for this many more nodes in the trees of ``slots``, as far as ``most`` allows."""
        needed = int(self.roots["used"][slots].max()) + nodes
        if needed > self.capacity < self._most:
            self.capacity = min(self._most, max(needed, 2 * self.capacity))
            self._move(self.slots)

    def _move(self, slots: int) -> None:
        """Move the trees to arrays for ``slots`` trees of the present capacity."""
        old, self.nodes = self.nodes, Nodes.empty(slots, self.capacity, self._rave)
        for slot in range(self.slots):  # only nodes in use: untouched pages take no memory
            used = int(self.roots[slot]["used"])
            for before, now in zip(old, self.nodes, strict=True):
                now[slot, :used] = before[slot, :used]

    def _grow(self, slots: int) -> None:
        """Make room for ``slots`` trees and keep the present ones."""
        self._move(slots)
        self.roots = np.concatenate([self.roots, np.zeros(slots - self.slots, ROOT)])
        self.boards = np.zeros(slots, BOARD)
        self.hashes = np.zeros((slots, self.hashes.shape[1]), np.uint64)
        self.owners = np.zeros((slots, CELLS), np.int32)
        self.slots = slots

    def slots_of(self, games: list[Game], keep: bool = True, earlier: bool = False) -> np.ndarray:
        """The slots (int64) of these games, their roots set to the present positions. With ``keep``, subtrees below the
        moves played since are reused, unless an exception ended a search while leaves waited for the net. With
        ``earlier``, the roots get the positions one and two moves ago."""
        live = set(self._slots) | set(games)
        if len(live) > self.slots:
            self._grow(max(2 * self.slots, len(live)))
        needed = max(game.rules.move_limit for game in games) + MAX_DEPTH + 2
        if self.hashes.shape[1] < needed:
            self.hashes = np.zeros((self.slots, needed), np.uint64)
        slots = np.array([self._place(game, keep) for game in games], np.int64)
        for game, slot in zip(games if earlier else (), slots, strict=False):
            write_earlier(game, self.roots[slot]["earlier"])
        return slots

    def _place(self, game: Game, keep: bool) -> int:
        slot = self._slots.get(game)
        if slot is None:
            slot = min(set(range(self.slots)) - set(self._slots.values()))
            self._slots[game] = slot
            keep = False
        if not keep or self.nodes.pending[slot, 0] or not self._follow(game, slot):
            clear_tree(self.nodes, self.roots, slot)
        self.boards[slot] = game.board.array[0]
        self.owners[slot] = 0
        rules, hashes = game.rules, game.hashes
        self.hashes[slot, : len(hashes)] = hashes
        recent = np.full(HISTORY, NO_MOVE, np.int64)
        moves = game.moves[: -HISTORY - 1 : -1]
        recent[: len(moves)] = moves
        last = point_from_move(moves[0], rules.size) if moves else 0
        passes = int(bool(moves) and last == 0)
        position = (int(game.to_play), passes, last, rules.bits, len(hashes), game.compensation)
        set_root(self.roots, slot, *position, game.move_seed(), recent)
        return slot

    def _follow(self, game: Game, slot: int) -> bool:
        """Advance the tree by the moves played since the last search; False if one of them was not visited."""
        known = int(self.roots[slot]["positions"]) - 1
        for move in game.moves[known:]:
            kept = np.empty(self.roots[slot]["used"], np.int32)
            used = kept_nodes(self.nodes, slot, point_from_move(move, game.rules.size), kept)
            for column in self.nodes:
                if column.shape[1]:
                    column[slot, :used] = column[slot, kept[:used]]
            self.roots[slot]["used"] = used
            if not used:
                return False
        return known <= len(game.moves)

    def overview(self, game: Game) -> Decision | None:
        """The result of a game's last search; None for a game without a tree."""
        slot, size = self._slots.get(game), game.rules.size
        return None if slot is None else Decision(*self.best(slot, size), self.ownership(slot, size))

    def allow(self, slot: int, size: int, moves: Collection[Move]) -> None:
        """Forbid all moves but these at the root, which has been expanded."""
        family = self._family(slot, 0)
        allowed = np.isin(self.nodes.point[slot, family], [point_from_move(move, size) for move in moves])
        self.nodes.visits[slot, family][~allowed] = FORBIDDEN

    def best(self, slot: int, size: int, child: int | None = None) -> tuple[Move, float, int]:
        """The move of ``child``, by default the best one; its mean result for the side to move; the root's visits."""
        if child is None:
            sure = self._surest(slot)
            child = sure if sure >= 0 else int(best_child(self.nodes, self.roots, slot))
        visits = int(self.nodes.visits[slot, 0])
        if child < 0:
            return size * size, 0.5, visits
        return move_from_point(int(self.nodes.point[slot, child]), size), float(self.nodes.value[slot, child]), visits

    def _surest(self, slot: int) -> int:
        """``surest_child``, -1 without confidence bounds."""
        return int(surest_child(self.nodes, slot, self._lcb_stdevs)) if self._lcb_stdevs else -1

    def ownership(self, slot: int, size: int) -> np.ndarray | None:
        """(size²,) float32 in [-1, 1], or None: mean ownership in the last playouts, positive for the side to move."""
        playouts = self.owners[slot, 0] * (1 if self.roots[slot]["colour"] == BLACK else -1)
        points = self.owners[slot, : WIDTH * WIDTH].reshape(WIDTH, WIDTH)[1 : size + 1, 1 : size + 1].reshape(-1)
        return (points / np.float32(playouts)).astype(np.float32) if playouts else None

    def candidates(self, slot: int, size: int, priors: bool = False) -> list[Candidate]:
        """The root's visited children, the best first; with their priors if ``priors``."""
        found, nodes, best = [], self.nodes, self._surest(slot)
        for child in sorted(self._children(slot, 0), key=lambda child: child != best):
            nodes_of_line = [child]
            while len(following := self._children(slot, nodes_of_line[-1])):
                nodes_of_line.append(following[0])
            line = tuple(move_from_point(int(point), size) for point in nodes.point[slot, nodes_of_line])
            prior = float(nodes.prior[slot, child]) if priors else None
            visits, win_rate = int(nodes.visits[slot, child]), float(nodes.value[slot, child])
            found.append(Candidate(line[0], visits, win_rate, line, prior))
        return found

    def _children(self, slot: int, node: int) -> list[int]:
        """The visited children of a node, in order of visits, then of value."""
        family = self._family(slot, node)
        visits, value = self.nodes.visits[slot, family], self.nodes.value[slot, family]
        order = np.lexsort((-value, -visits))
        return [family.start + int(child) for child in order if visits[child] > 0]

    def _family(self, slot: int, node: int) -> slice:
        """The children of a node."""
        first = max(0, int(self.nodes.first[slot, node]))
        return slice(first, first + int(self.nodes.children[slot, node]))
