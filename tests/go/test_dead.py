"""Stones that are pass-alive and stones that are dead: the kernels beside their slow twins, positions whose fates are
known, counts that agree with records, and a score over GTP."""

from itertools import combinations, product

import numba
import numpy as np
import pytest
from helpers.games import FINAL_BOARD, scored_game
from helpers.reference import Point, board_of_diagram, drawn, groups, random_game, slow_map, twin_of

from arena.go.alive import SAFE, TAKEN, mark_alive
from arena.go.board import Board
from arena.go.coords import gtp_from_move
from arena.go.game import Rules
from arena.go.kernels import BOARD, CELLS, point_of
from arena.gtp.server import Server
from arena.people import counting
from bots.nets.rollout import shipped_weights
from bots.random import BOT
from bots.search.dead import judge, mark_dead
from trainers.records import owners_without_dead


@numba.njit
def alive_map(boards, index, colour, suicide, owned):
    """Write to ``owned`` (size², uint8) what of the board is SAFE or TAKEN for ``colour``, else 0."""
    board = boards[index]
    marks = np.zeros(CELLS, np.uint8)
    mark_alive(board, colour, suicide, marks)
    for move in range(len(owned)):
        owned[move] = marks[point_of(board, move)]


def kernel_map(board: Board, colour: int, suicide: bool = True) -> np.ndarray:
    """(size, size): what the kernel finds of ``colour``."""
    owned = np.zeros(board.size**2, np.uint8)
    alive_map(board.array, 0, int(colour), suicide, owned)
    return owned.reshape(board.size, board.size)


@pytest.mark.parametrize("size", [5, 9])
def test_the_kernel_finds_what_the_slow_twin_finds(size: int) -> None:
    found = {True: 0, False: 0}
    for seed in range(60 if size == 5 else 20):
        board = random_game(size, seed, size * size + 7 * (seed % 9)).board
        for colour, suicide in product((1, 2), (True, False)):
            expected = slow_map(twin_of(board), colour, suicide)
            assert kernel_map(board, colour, suicide).tolist() == expected.tolist()
            found[suicide] += np.count_nonzero(expected)
    assert 200 < found[True] < found[False]


ALIVE = ["X.X.", "XXXX", "X.X.", "XXXX", "XXXX", "XXXX", "XXXX", "XXXX", "XXXX"]
"""Black at the right edge, alive whatever White does."""

FATES = {
    "a seki of five points, three of them taken": ".XO.O OXOOO OXO.O OXOOO .XOOO XXOOO OOOOO OOO.O OOOOO",
    "two living groups": "....X XXXXX OOOOO O.O.O OOOOO OOOOO OOOOO OOOOO OOOOO",
    "a stone in an eye": ".X..X XXXXX X.o.X XXXXX OOOOO O.O.O OOOOO OOOOO OOOOO",
    "a bulky five with a stone at its heart": "..xxO .O.xO xxxxO OOOOO O.OOO OOOOO O.OOO OOOOO OOOOO",
    "a corner that makes one eye": ".xxOO xx..O .O..O OOOOO O.O.O OOOOO OOOOO OOOOO OOOOO",
    "a false eye, and stones in atari": ".xOOO xxO.O O.xOO OxxO. OOOOO OOOOO O.O.O OOOOO OOOOO",
    "stones that a snapback holds": "xxO.O OxxOO .OxOO O.xO. .OOOO OOOOO O.OOO OOO.O OOOOO",
    "fewer liberties than the stones inside": "..xOO OOxO. .OxOO xxxOO OOOOO O.OOO OOOOO OOO.O OOOOO",
}
"""Rows of the left side; small letters are dead."""


@pytest.mark.parametrize("left", FATES.values(), ids=FATES)
def test_known_positions_are_judged_right(left: str) -> None:
    """By playouts alone, and with the search of a race that a game is counted by."""
    rows = [one + other for one, other in zip(left.split(), ALIVE, strict=True)]
    board = board_of_diagram("\n".join(rows))
    dead, _ = judge(board, shipped_weights(9))
    assert drawn(board, np.flatnonzero(dead)) == drawn(board, counting.dead_stones(board)) == rows


def slow_dead(board: Board, counts: np.ndarray, staying: float) -> set[int]:
    """What is left of a group when chains with two liberties in common, or alone around a region, live together."""
    twin, chains = twin_of(board), [chain for colour in (1, 2) for chain in groups(twin_of(board), {colour})]
    owned = {colour: kernel_map(board, colour) for colour in (1, 2)}

    def near(points: set[Point]) -> set[Point]:
        return {other for point in points for other in twin.neighbours(point)} - points

    def colour_of(chain: set[Point]) -> int:
        return twin.stones[min(chain)]

    ties = []
    for one, other in combinations(chains, 2):
        if colour_of(one) == colour_of(other) and len((near(one) & near(other)) - twin.stones.keys()) >= 2:
            ties.append(one | other)
    for region in groups(twin, {0}):
        around = [chain for chain in chains if near(chain) & region]
        if len({colour_of(chain) for chain in around}) == 1:
            ties.append(set().union(*around))
    for tie in ties:
        bound = [chain for chain in chains if chain & tie]
        chains = [chain for chain in chains if not chain & tie] + [set().union(*bound)]
    dead: set[int] = set()
    for chain in chains:
        colour, points = colour_of(chain), [row * board.size + column for row, column in chain]
        marks = [{owned[which][point] for point in chain} for which in (colour, 3 - colour)]
        is_weak = counts[colour - 1, points].sum() < staying * len(points)
        if SAFE not in marks[0] and (TAKEN in marks[1] or is_weak):
            dead.update(points)
    return dead


@pytest.mark.parametrize("size", [5, 9])
def test_the_kernel_marks_what_its_slow_twin_does(size: int) -> None:
    dice = np.random.default_rng(size)
    some = 0
    for seed in range(40):
        game = random_game(size, seed, int(dice.integers(10, 2 * size * size)))
        counts = dice.integers(0, 101, (2, size * size)).astype(np.int32)
        boards = np.zeros(2, BOARD)
        boards[0] = game.board.array[0]
        dead = np.zeros(size * size, np.bool_)
        mark_dead(boards, counts, 45.0, dead)
        assert set(np.flatnonzero(dead).tolist()) == slow_dead(game.board, counts, 45.0), str(game.board)
        some += dead.any()
    assert 10 < some < 40


@pytest.mark.parametrize(
    ("rules", "margin", "is_dead"),
    [
        ("chinese", 0.5, True),
        ("chinese", 25 - 22 - 6.5, False),
        ("chinese", 1.5, None),
        ("japanese", 7 + 1 - 3 - 6.5, True),  # the dead stone is a prisoner, too
        ("japanese", 7 - 3 - 6.5, None),
        ("chinese", None, None),
    ],
)
def test_dead_stones_are_believed_where_the_count_is_the_recorded_one(
    rules: str, margin: float | None, is_dead: bool | None
) -> None:
    record = scored_game(rules, margin)
    assert judge(record.replay().board, shipped_weights(7))[0].nonzero()[0].tolist() == [15]
    owners = owners_without_dead(record)
    assert is_dead == (None if owners is None else owners.tolist() == [1, 1, 1, 1, -1, -1, -1] * 7)


@pytest.mark.parametrize(("rules", "told"), [("chinese", ["B+0.5", "B5", ""]), ("cgos", ["W+3.5", "", ""])])
def test_the_score_over_gtp_takes_dead_stones_off_where_the_rules_do(rules: str, told: list[str]) -> None:
    server = Server(BOT.build(BOT.config()), Rules.preset(rules, 7, 6.5), judge=counting.agreed_dead)
    colours = {"X": "black", "O": "white"}
    plays = [
        f"play {colours[sign]} {gtp_from_move(i, 7)}" for i, sign in enumerate("".join(FINAL_BOARD)) if sign != "."
    ]
    asked = ("final_score", "final_status_list dead", "final_status_list seki")
    answers = [server.answer(f"{command}\n") for command in (*plays, *asked)]
    assert [text.strip("= \n") for text, _ in answers[-3:]] == told
