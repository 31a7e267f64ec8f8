"""Games in slots, each with a search tree where one is wanted: kernels over ranges of slots, which release the GIL, and
who works on which range when. No nets, no files.

Kernels that are inlined into others stay in this file: Numba looks for changes in a kernel's own file only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from arena import ConfigError, IllegalMove
from arena.go import kernels
from arena.go.game import Rules, Scoring
from arena.go.jit import inlined, kernel
from arena.go.kernels import (
    BOARD,
    CELLS,
    LEGAL,
    area_score,
    clear,
    move_of,
    next_random,
    play_any,
    point_of,
    seeded,
    sensible_mask,
)
from arena.go.planes import HISTORY, NO_MOVE, Positions
from bots.search.puct import Leaves, prune_pass_alive, select_leaves
from bots.search.tree import ROOT, Nodes, best_child, clear_tree, kept_nodes, set_root

LEVELS = 65535
"""Visit shares are stored in this many steps."""

_SHARE = 2.0**-53
_STEP = np.uint64(0x9E3779B97F4A7C15)
_S11 = np.uint64(11)
_ASIDE = np.uint64(1)  # tells the draws for a move from those of whoever thinks about it, which have its seed


# --- Games ---


class Tables(NamedTuple):
    """Games in progress, one a slot, as kernels take them."""

    boards: np.ndarray  # (slots,) BOARD
    hashes: np.ndarray  # (slots, limit + 1 or more) uint64: of all positions so far; a search writes behind them
    moves: np.ndarray  # (slots, limit) uint16
    lengths: np.ndarray  # (slots,) int64: moves played; Black is to move when it's even
    seeds: np.ndarray  # (slots,) uint64

    @classmethod
    def empty(cls, slots: int, limit: int, behind: int = 0) -> Tables:
        return cls(
            np.zeros(slots, BOARD),
            np.zeros((slots, limit + 1 + behind), np.uint64),
            np.zeros((slots, limit), np.uint16),
            np.zeros(slots, np.int64),
            np.zeros(slots, np.uint64),
        )


class Law(NamedTuple):
    """What kernels must know of the rules."""

    komi: float
    superko: bool
    suicide: bool
    limit: int

    @classmethod
    def of(cls, rules: Rules) -> Law:
        """Raises ConfigError for rules that count prisoners."""
        if rules.scoring is not Scoring.AREA:
            raise ConfigError(f"{rules.name} rules count prisoners, which self-play doesn't; choose cgos")
        return cls(rules.komi, rules.superko, rules.suicide, rules.move_limit)


@inlined
def write_sensible(boards, index, colour, hashes, count, law, mask):
    """``sensible_mask`` by these rules; see there."""
    margin = area_score(boards[index]) - law.komi
    sensible_mask(boards, index, colour, hashes, count, law.superko, law.suicide, margin, mask)


@kernel
def draw(logits, mask, temperature, share):
    """The move at which the summed probabilities of the masked moves, by logit / ``temperature``, pass ``share`` in
    [0, 1); at temperature 0 the likeliest one, of equals the first."""
    best = -1
    for move in range(mask.shape[0]):
        if mask[move] and (best < 0 or logits[move] > logits[best]):
            best = move
    if temperature == 0:
        return best
    total = 0.0
    for move in range(mask.shape[0]):
        if mask[move]:
            total += np.exp((np.float64(logits[move]) - np.float64(logits[best])) / temperature)
    left = share * total
    for move in range(mask.shape[0]):
        if mask[move]:
            left -= np.exp((np.float64(logits[move]) - np.float64(logits[best])) / temperature)
            if left < 0:
                return move
    return best


@kernel
def look(tables, which, komi, positions):
    """Copy the positions of the slots ``which`` to where encoders take them from."""
    for i in range(which.shape[0]):
        slot = which[i]
        length = tables.lengths[slot]
        positions.boards[i] = tables.boards[slot]
        positions.colours[i] = 1 + length % 2
        positions.komis[i] = komi
        positions.symmetries[i] = 0
        for age in range(HISTORY):
            positions.recent[i, age] = np.int64(tables.moves[slot, length - 1 - age]) if age < length else NO_MOVE


@inlined
def play_move(tables, slot, move, law):
    """Play a move that is allowed; whether the game is over, by two passes or at the limit."""
    board, moves = tables.boards[slot], tables.moves[slot]
    length = tables.lengths[slot]
    passing = np.int64(board.side) * np.int64(board.side)
    if move == passing:
        board.ko = 0
    else:
        play_any(board, point_of(board, move), 1 + length % 2)
    moves[length] = move
    length += 1
    tables.hashes[slot, length] = board.hash
    tables.lengths[slot] = length
    passed_out = length > 1 and moves[length - 1] == passing and moves[length - 2] == passing
    return passed_out or length >= law.limit


@kernel
def take_turns(tables, which, logits, temperature, law, margins, over):
    """Draw a sensible move for each of the slots ``which`` and play it. ``over`` (len(which), bool) tells which games
    have ended, by two passes or at the limit; ``margins`` (len(which),) gets Black's margin of those."""
    mask = np.empty(logits.shape[1], np.bool_)
    for i in range(which.shape[0]):
        slot = which[i]
        board, hashes = tables.boards[slot], tables.hashes[slot]
        length = tables.lengths[slot]
        write_sensible(tables.boards, slot, 1 + length % 2, hashes, length + 1, law, mask)
        state = next_random(seeded(tables.seeds[slot] + np.uint64(length + 1) * _STEP))
        move = draw(logits[i], mask, temperature, np.float64(state >> _S11) * _SHARE)
        over[i] = play_move(tables, slot, move, law)
        margins[i] = area_score(board) - law.komi if over[i] else np.nan


@kernel
def all_sensible(size, moves, starts, law, masks):
    """What could sensibly be played in place of each move of a list of games: ``masks`` (all moves, size² + 1)."""
    boards = np.empty(1, BOARD)
    hashes = np.empty(law.limit + 1, np.uint64)
    passing = size * size
    for game in range(starts.shape[0] - 1):
        board = boards[0]
        clear(board, size)
        hashes[0] = board.hash
        for i in range(starts[game], starts[game + 1]):
            ply = i - starts[game]
            colour = 1 + ply % 2
            write_sensible(boards, 0, colour, hashes, ply + 1, law, masks[i])
            move = np.int64(moves[i])
            if move == passing:
                board.ko = 0
            else:
                play_any(board, point_of(board, move), colour)
            hashes[ply + 1] = board.hash


def put_game(tables: Tables, slot: int, law: Law, size: int, seed: int, opening: Sequence[int]) -> None:
    """A new game in a slot. Raises IllegalMove for an opening that can't be played, or that ends the game."""
    kernels.new_board(tables.boards, slot, size)
    hashes = tables.hashes[slot]
    hashes[0] = tables.boards["hash"][slot]
    tables.seeds[slot] = seed
    tables.lengths[slot] = len(opening)
    passing = size**2
    ends = len(opening) >= law.limit or (passing, passing) in pairwise(opening)
    for ply, move in enumerate(opening):
        reason, _ = kernels.referee(tables.boards, slot, move, 1 + ply % 2, hashes, ply + 1, law.superko, law.suicide)
        if reason != LEGAL or ends:
            raise IllegalMove(f"the opening {opening} can't be played, or ends the game")
        tables.moves[slot, ply] = move


# --- Trees ---


class Trees(NamedTuple):
    """A search tree for each slot, as kernels take them."""

    nodes: Nodes
    roots: np.ndarray  # (slots,) ROOT
    owners: np.ndarray  # (slots, CELLS) int32: where rollouts note whose each point was

    @classmethod
    def empty(cls, slots: int, capacity: int) -> Trees:
        return cls(Nodes.empty(slots, capacity), np.zeros(slots, ROOT), np.zeros((slots, CELLS), np.int32))


@inlined
def move_seed(tables, slot):
    """``Game.move_seed``."""
    value = tables.seeds[slot] + _STEP * np.uint64(tables.lengths[slot] + 1)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((value ^ (value >> np.uint64(31))) >> np.uint64(1))


@inlined
def place_root(tables, trees, slot, law, recent):
    """Let the root of a tree be the present position of its game; ``recent`` (HISTORY,) int64 is scratch."""
    board, moves, length = tables.boards[slot], tables.moves[slot], tables.lengths[slot]
    points = np.int64(board.side) * np.int64(board.side)
    for age in range(HISTORY):
        recent[age] = np.int64(moves[length - 1 - age]) if age < length else NO_MOVE
    passes, last = 0, 0
    if length > 0 and recent[0] == points:
        passes = 1
    elif length > 0:
        last = np.int64(point_of(board, recent[0]))
    seed = move_seed(tables, slot)
    superko = 1 if law.superko else 0
    set_root(trees.roots, slot, 1 + length % 2, passes, last, superko, 1, length + 1, law.komi, seed, recent)


@inlined
def _take(column, kept):
    column[: kept.shape[0]] = column[kept]


@inlined
def follow(trees, slot, point, keep):
    """Let the child that plays ``point`` be the root, with all that is known below it if ``keep``; else, and where it
    isn't known, forget the tree."""
    nodes, roots = trees.nodes, trees.roots
    kept = np.empty(np.int64(roots[slot].used), np.int32)
    used = kept_nodes(nodes, slot, point, kept) if keep else 0
    if used == 0:
        clear_tree(nodes, roots, slot)
        return
    kept = kept[:used]
    _take(nodes.visits[slot], kept)
    _take(nodes.pending[slot], kept)
    _take(nodes.value[slot], kept)
    _take(nodes.prior[slot], kept)
    _take(nodes.first[slot], kept)
    _take(nodes.children[slot], kept)
    _take(nodes.point[slot], kept)
    roots[slot].used = used


@inlined
def weigh(tables, trees, slot, weights):
    """Write the visits of the root's children into ``weights`` (size² + 1,) float64, by moves."""
    nodes, board = trees.nodes, tables.boards[slot]
    passing = weights.shape[0] - 1
    weights[:] = 0
    first = np.int64(nodes.first[slot, 0])
    total = 0.0
    if first >= 0:
        for child in range(first, first + np.int64(nodes.children[slot, 0])):
            if nodes.visits[slot, child] > 0:
                p = np.int64(nodes.point[slot, child])
                weights[move_of(board, p) if p else passing] = nodes.visits[slot, child]
                total += nodes.visits[slot, child]
    if total == 0:  # the tree had no room
        child = best_child(nodes, trees.roots, slot) if first >= 0 else -1
        p = np.int64(nodes.point[slot, child]) if child >= 0 else 0
        weights[move_of(board, p) if p else passing] = 1


# --- Games to learn from ---


class Manner(NamedTuple):
    """How games are searched: the settings of a ``teaching.Recipe`` and of its teacher."""

    visits: int
    cheap_search_visits: int
    full_search_prob: float
    temperature: float
    temperature_moves: int
    leaves: int  # of one tree in a batch
    settled: bool
    reuse: bool


class Found(NamedTuple):
    """Of the game in each slot: how its present move is thought about, and what was found of earlier ones."""

    playing: np.ndarray  # (slots,) bool: whether there is a game that isn't over
    full: np.ndarray  # (slots,) bool: whether the present move is searched in full
    shares: np.ndarray  # (slots,) float64 in [0, 1): where the draw of the present move falls
    counts: np.ndarray  # (slots,) int64: of what was found
    plies: np.ndarray  # (slots, limit) int64
    levels: np.ndarray  # (slots, limit, size² + 1) uint16
    win_rates: np.ndarray  # (slots, limit) float32

    @classmethod
    def empty(cls, slots: int, limit: int, moves: int) -> Found:
        return cls(
            np.zeros(slots, np.bool_),
            np.zeros(slots, np.bool_),
            np.zeros(slots),
            np.zeros(slots, np.int64),
            np.zeros((slots, limit), np.int64),
            np.zeros((slots, limit, moves), np.uint16),
            np.zeros((slots, limit), np.float32),
        )


@kernel
def chances(seed):
    """Two numbers in [0, 1) that chance says of a move, by its seed; those of whoever thinks about it are others."""
    state = next_random(seeded(np.uint64(seed) + _ASIDE))
    first = np.float64(state >> _S11) * _SHARE
    return first, np.float64(next_random(state) >> _S11) * _SHARE


@kernel
def draw_move(weights, temperature, share):
    """The move at which the summed ``weights`` (moves,) ^ (1 / ``temperature``) pass ``share`` in [0, 1) of their sum;
    at temperature 0 the heaviest, of equals the first."""
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
def to_levels(weights, levels):
    """Write the shares of ``weights`` (moves,), in ``LEVELS`` steps, into ``levels`` (moves,) uint16. They are off by
    half a step at most."""
    total = weights.sum()
    for move in range(weights.shape[0]):
        levels[move] = np.uint16(np.rint(weights[move] / total * LEVELS))


@inlined
def _think(tables, trees, found, slots, law, manner, recent):
    """Begin the search of the present move of a slot, which ``slots`` (1,) names."""
    slot = slots[0]
    place_root(tables, trees, slot, law, recent)
    if manner.settled:
        prune_pass_alive(tables.boards, trees.roots, trees.nodes, slots)
    chance, share = chances(move_seed(tables, slot))
    found.full[slot] = chance < manner.full_search_prob
    found.shares[slot] = share


@kernel
def begin_game(tables, trees, found, slots, law, manner):
    """Begin to think about the game that was put into a slot, which ``slots`` (1,) names."""
    slot = slots[0]
    clear_tree(trees.nodes, trees.roots, slot)
    found.counts[slot] = 0
    found.playing[slot] = True
    _think(tables, trees, found, slots, law, manner, np.empty(HISTORY, np.int64))


@inlined
def _decide(tables, trees, found, slots, law, manner, weights, recent):
    """Note what the search of a slot found where it was in full, and play a move."""
    slot = slots[0]
    length, board = tables.lengths[slot], tables.boards[slot]
    weigh(tables, trees, slot, weights)
    if found.full[slot]:
        count = found.counts[slot]
        found.plies[slot, count] = length
        to_levels(weights, found.levels[slot, count])
        found.win_rates[slot, count] = np.float32(1) - trees.nodes.value[slot, 0]  # seen by whoever moved to it
        found.counts[slot] = count + 1
    temperature = manner.temperature if length < manner.temperature_moves else 0.0
    move = draw_move(weights, temperature, found.shares[slot])
    point = point_of(board, move) if move < weights.shape[0] - 1 else 0
    if play_move(tables, slot, move, law):
        found.playing[slot] = False
    else:
        follow(trees, slot, point, manner.reuse)
        _think(tables, trees, found, slots, law, manner, recent)


@kernel
def search_on(tables, trees, found, slots, law, manner, knowledge, leaves):
    """Walk down the trees of ``slots`` to ``leaves`` that need the net; where a search is over its move is played, and
    the next one begins. Returns the number of leaves. A slot without any is not playing any more."""
    count = 0
    recent = np.empty(HISTORY, np.int64)
    weights = np.empty(found.levels.shape[2])
    for i in range(slots.shape[0]):
        one = slots[i : i + 1]
        slot = slots[i]
        while found.playing[slot]:
            at = leaves.positions
            rest = Leaves(
                leaves.slots[count:],
                leaves.paths[count:],
                leaves.depths[count:],
                Positions(
                    at.boards[count:], at.colours[count:], at.recent[count:], at.komis[count:], at.symmetries[count:]
                ),
            )
            budget = manner.visits if found.full[slot] else manner.cheap_search_visits
            more = select_leaves(
                tables.boards, trees.roots, tables.hashes, trees.nodes, one, budget, manner.leaves, knowledge, rest
            )
            if more:
                count += more
                break
            _decide(tables, trees, found, one, law, manner, weights, recent)
    return count


# --- Who works when ---


Part = TypeVar("Part")
Question = TypeVar("Question")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


class Threads:
    """Threads that share work on slots; with one, whoever asks does it."""

    def __init__(self, count: int):
        self.count = count
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def parts(self, count: int) -> list[slice]:
        """``count`` slots in a range a thread, or in one where that is too little for each."""
        parts = self.count if count >= 2 * self.count else 1
        bounds = [count * part // parts for part in range(parts + 1)]
        return list(map(slice, bounds, bounds[1:]))

    def each(self, work: Callable[[Part], Result], parts: list[Part]) -> list[Result]:
        """What ``work`` gives for each part."""
        if self._pool is None or len(parts) == 1:
            return list(map(work, parts))
        return list(self._pool.map(work, parts))


def in_turn(
    groups: int,
    ask: Callable[[int], Question | None],
    consult: Callable[[Question], Answer],
    take: Callable[[Question, Answer], None],
) -> Iterator[None]:
    """Put the question of each group, as long as it ``ask``s one, to a net, and have it ``take`` the answer; a round of
    one group each time.

    With several groups the net is consulted in a thread of its own about one of them while the answer about another is
    taken and its next question is made, so that neither waits.
    """
    with ThreadPoolExecutor(1, "players") as pool:
        asked: deque[tuple[int, Question, Callable[[], Answer]]] = deque()

        def begin(group: int) -> None:
            question = ask(group)
            if question is not None:
                told = partial(consult, question) if groups == 1 else pool.submit(consult, question).result
                asked.append((group, question, told))

        for group in range(groups):
            begin(group)
        while asked:
            group, question, told = asked.popleft()
            take(question, told())
            begin(group)
            yield
