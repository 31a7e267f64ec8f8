"""Pass-alive stones and territory: the kernel beside its slow twin, known positions, and that nothing breaks them."""

import numba
import numpy as np
import pytest
from reference import ReferenceBoard, board_of_diagram, random_game, twin_of

from arena.go.board import Board
from arena.go.coords import pass_move
from arena.go.kernels import CELLS, point_of
from bots.search.alive import SAFE, TAKEN, mark_alive

Point = tuple[int, int]


@numba.njit
def alive_map(boards, index, colour, owned):
    """Write to ``owned`` (size², uint8) what of the board is SAFE or TAKEN for ``colour``, else 0."""
    board = boards[index]
    marks = np.zeros(CELLS, np.uint8)
    mark_alive(board, colour, marks)
    for move in range(len(owned)):
        owned[move] = marks[point_of(board, move)]


def kernel_map(board: Board, colour: int) -> np.ndarray:
    """(size, size): what the kernel finds of ``colour``."""
    owned = np.zeros(board.size**2, np.uint8)
    alive_map(board.array, 0, int(colour), owned)
    return owned.reshape(board.size, board.size)


def groups(board: ReferenceBoard, colours: set[int]) -> list[set[Point]]:
    """The connected sets of points whose contents are among ``colours``."""
    left = {point for point in np.ndindex(board.size, board.size) if board.stones.get(point, 0) in colours}
    found = []
    while left:
        todo = [left.pop()]
        for point in todo:
            near = left.intersection(board.neighbours(point))
            todo += near
            left -= near
        found.append(set(todo))
    return found


def slow_map(board: ReferenceBoard, colour: int) -> np.ndarray:
    """Benson's algorithm as it is told: take away chains and regions until none has to go."""

    def touches(point: Point, stones: set[Point]) -> bool:
        return not stones.isdisjoint(board.neighbours(point))

    chains = groups(board, {colour})
    regions = groups(board, {0, 3 - colour})
    changed = True
    while changed:
        vital = [[region for region in regions if all(touches(point, chain) for point in region)] for chain in chains]
        staying = [chain for chain, eyes in zip(chains, vital, strict=True) if len(eyes) >= 2]
        lost = {point for point, stone in board.stones.items() if stone == colour} - set().union(*staying)
        enclosed = [region for region in regions if not any(touches(point, lost) for point in region)]
        changed = (len(staying), len(enclosed)) != (len(chains), len(regions))
        chains, regions = staying, enclosed
    owned = np.zeros((board.size, board.size), np.uint8)
    if not chains:
        return owned
    for chain in chains:
        for point in chain:
            owned[point] = SAFE
    stones = set().union(*chains)
    for region in regions:
        if sum(not touches(point, stones) for point in region) <= 1:
            for point in region:
                owned[point] = TAKEN if any(other in board.stones for other in region) else SAFE
    return owned


def crowded(size: int, seed: int, rules: str = "cgos"):
    """A random game late, where pass-alive shapes are common; some points are left empty."""
    return random_game(size, seed, size * size + 7 * (seed % 9), rules, move_limit=10_000)


@pytest.mark.parametrize("size", [5, 9])
def test_the_kernel_finds_what_the_slow_twin_finds(size: int) -> None:
    found = 0
    for seed in range(60 if size == 5 else 20):
        board = crowded(size, seed).board
        for colour in (1, 2):
            expected = slow_map(twin_of(board), colour)
            assert kernel_map(board, colour).tolist() == expected.tolist()
            found += expected.any()
    assert found > 15


def test_two_eyes_live_and_one_does_not() -> None:
    owned = kernel_map(board_of_diagram(".X.XO XXXXO OOOOO ..... ....."), 1)
    assert owned[:2].tolist() == [[SAFE] * 4 + [0]] * 2
    assert not kernel_map(board_of_diagram("XX.XO XXXXO OOOOO ..... ....."), 1).any()


@pytest.mark.parametrize("rules", ["cgos", "tromp-taylor"])
def test_pass_alive_stones_are_never_captured_though_their_owner_only_passes(rules: str) -> None:
    """With and without suicide."""
    attacks = 0
    for seed in range(40):
        game = crowded(7, seed, rules)
        game.outcome = None
        random, owner = np.random.default_rng(seed), game.to_play.opponent
        stones = (kernel_map(game.board, owner).reshape(-1) > 0) & (game.board.stones.reshape(-1) == owner)
        while stones.any() and not game.is_over and len(game.moves) < 400:
            moves = np.flatnonzero(game.legal_moves()[:-1])
            if len(moves) == 0:
                break
            game.play(int(random.choice(moves)))
            game.play(pass_move(7))
            attacks += 1
        assert (game.board.stones.reshape(-1)[stones] == owner).all()
    assert attacks > 50
