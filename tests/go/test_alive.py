"""Pass-alive stones and territory: the kernel beside its slow twin, known positions, and that nothing breaks them."""

import numba
import numpy as np
import pytest
from reference import ReferenceBoard

from arena.go.board import Board
from arena.go.coords import Colour, pass_move
from arena.go.game import Game, Rules
from arena.go.kernels import CELLS, point_of, random_move
from bots.search.alive import SAFE, TAKEN, mark_alive

Point = tuple[int, int]


def board_of(rows: list[str]) -> ReferenceBoard:
    """A position from rows of ``X`` (Black), ``O`` (White) and ``.``."""
    board = ReferenceBoard(len(rows))
    for row, line in enumerate(rows):
        for column, mark in enumerate(line):
            if mark != ".":
                board.stones[row, column] = "XO".index(mark) + 1
    return board


@numba.njit
def alive_map(boards, index, colour, owned):
    """Write to ``owned`` (size², uint8) what of the board is SAFE or TAKEN for ``colour``, else 0."""
    board = boards[index]
    marks = np.zeros(CELLS, np.uint8)
    mark_alive(board, colour, marks)
    for move in range(len(owned)):
        owned[move] = marks[point_of(board, move)]


def kernel_map(twin: ReferenceBoard, colour: int) -> np.ndarray:
    """(size, size): what the kernel finds of ``colour`` in a position where every group has a liberty."""
    board = Board(twin.size)
    for (row, column), stone in twin.stones.items():
        board.put(row * twin.size + column, Colour(stone))
    owned = np.zeros(twin.size**2, np.uint8)
    alive_map(board.array, 0, int(colour), owned)
    return owned.reshape(twin.size, twin.size)


def groups(board: ReferenceBoard, colours: set[int]) -> list[set[Point]]:
    """The connected sets of points whose contents are among ``colours``."""
    left = {point for point in np.ndindex(board.size, board.size) if board.stones.get(point, 0) in colours}
    found = []
    while left:
        inside, todo = set(), [left.pop()]
        while todo:
            point = todo.pop()
            inside.add(point)
            for other in board.neighbours(point):
                if other in left:
                    left.discard(other)
                    todo.append(other)
        found.append(inside)
    return found


def touches(board: ReferenceBoard, point: Point, stones: set[Point]) -> bool:
    return any(other in stones for other in board.neighbours(point))


def slow_map(board: ReferenceBoard, colour: int) -> np.ndarray:
    """Benson's algorithm as it is told: take away chains and regions until none has to go."""
    chains = groups(board, {colour})
    regions = groups(board, {0, 3 - colour})
    changed = True
    while changed:
        vital = [
            [region for region in regions if all(touches(board, point, chain) for point in region)] for chain in chains
        ]
        staying = [chain for chain, eyes in zip(chains, vital, strict=True) if len(eyes) >= 2]
        lost = {point for point, stone in board.stones.items() if stone == colour} - set().union(*staying)
        enclosed = [region for region in regions if not any(touches(board, point, lost) for point in region)]
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
        if sum(not touches(board, point, stones) for point in region) <= 1:
            for point in region:
                owned[point] = TAKEN if any(other in board.stones for other in region) else SAFE
    return owned


def crowded(size: int, seed: int, preset: str = "cgos") -> Game:
    """A random game late, where pass-alive shapes are common; some points are left empty."""
    game = Game(Rules.preset(preset, size, move_limit=10_000), seed)
    for _ in range(size * size + 7 * (seed % 9)):
        hashes, colour = game.hashes, int(game.to_play)
        move = int(random_move(game.board.array, 0, colour, hashes, len(hashes), True, game.move_seed()))
        if move == pass_move(size):
            break
        game.play(move)
    return game


def twin_of(game: Game) -> ReferenceBoard:
    return board_of(
        ["".join(".XO"[stone] for stone in row) for row in game.board.stones.reshape(2 * (game.rules.size,))]
    )


@pytest.mark.parametrize("size", [5, 9])
def test_the_kernel_finds_what_the_slow_twin_finds(size: int) -> None:
    found = 0
    for seed in range(60 if size == 5 else 20):
        board = twin_of(crowded(size, seed))
        for colour in (1, 2):
            expected = slow_map(board, colour)
            assert kernel_map(board, colour).tolist() == expected.tolist()
            found += expected.any()
    assert found > 15


def test_two_eyes_live_and_one_does_not() -> None:
    rows = ["XXX.O", ".X.XO", "XXXXO", "OOOOO", "....."]
    assert (kernel_map(board_of(rows), 1) == slow_map(board_of(rows), 1)).all()
    living = [".X.XO", "XXXXO", "OOOOO", ".....", "....."]
    owned = kernel_map(board_of(living), 1)
    assert owned[:2].tolist() == [[SAFE] * 4 + [0]] * 2
    dead = ["XX.XO", "XXXXO", "OOOOO", ".....", "....."]
    assert not kernel_map(board_of(dead), 1).any()


@pytest.mark.parametrize("preset", ["cgos", "tromp-taylor"])
def test_pass_alive_stones_are_never_captured_though_their_owner_only_passes(preset: str) -> None:
    """With and without suicide."""
    attacks = 0
    for seed in range(40):
        game = crowded(7, seed, preset)
        random = np.random.default_rng(seed)
        owner = game.to_play.opponent
        owned = np.zeros(49, np.uint8)
        alive_map(game.board.array, 0, int(owner), owned)
        stones = (owned > 0) & (game.board.stones.reshape(-1) == owner)
        while stones.any() and not game.is_over and len(game.moves) < 400:
            moves = np.flatnonzero(game.legal_moves()[:-1])
            if len(moves) == 0:
                break
            game.play(int(random.choice(moves)))
            game.play(pass_move(7))
            attacks += 1
        assert (game.board.stones.reshape(-1)[stones] == owner).all()
    assert attacks > 50
