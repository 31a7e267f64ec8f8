"""Dead stones: positions whose fates are known, the kernel beside its slow twin, counts that agree with records,
and a score over GTP."""

import random
from io import StringIO

import numpy as np
import pytest
from reference import board_of_diagram, drawn, random_game, twin_of
from test_alive import groups as connected_groups
from test_alive import kernel_map

from arena.go.board import Board
from arena.go.coords import BLACK, WHITE, gtp_from_move, pass_move
from arena.go.game import Ending, Game, Outcome, Rules
from arena.go.kernels import BOARD
from arena.go.record import GameRecord
from arena.gtp.server import Server, serve
from arena.people import counting
from bots.nets.rollout import shipped_weights
from bots.random import BOT
from bots.search.alive import SAFE, TAKEN
from bots.search.dead import judge, mark_dead
from trainers.records import owners_without_dead

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


# --- The slow twin ---


def slow_dead(board: Board, counts: np.ndarray, staying: float) -> set[int]:
    size, stones = board.size, board.stones.reshape(-1).tolist()
    owned = {colour: kernel_map(board, colour).reshape(-1) for colour in (1, 2)}
    twin = twin_of(board)

    def connected(colour: int) -> list[set[int]]:
        return [{row * size + column for row, column in group} for group in connected_groups(twin, {colour})]

    def near(group: set[int]) -> set[int]:
        points = (other for point in group for other in twin.neighbours(divmod(point, size)))
        return {row * size + column for row, column in points} - group

    groups = [*connected(BLACK), *connected(WHITE)]
    free = {min(group): {point for point in near(group) if not stones[point]} for group in groups}
    pairs = [(one, other) for one in groups for other in groups if stones[min(one)] == stones[min(other)]]
    ties = [one | other for one, other in pairs if len(free[min(one)] & free[min(other)]) >= 2]
    for region in connected(0):
        around = [group for group in groups if near(group) & region]
        if len({stones[min(group)] for group in around}) == 1:
            ties.append(set().union(*around))
    for tie in ties:
        bound = [group for group in groups if group & tie]
        groups = [group for group in groups if not group & tie] + [set().union(*bound)]
    dead: set[int] = set()
    for group in groups:
        colour, points = stones[min(group)], list(group)
        if (owned[colour][points] == SAFE).any():
            continue
        if (owned[3 - colour][points] == TAKEN).any() or counts[colour - 1, points].sum() < staying * len(points):
            dead |= group
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


FINAL = [".X.XO.O", "XXXXOOO", ".O.XO.O", "XXXXOOO", ".X.XO.O", "XXXXOOO", "XXXXOOO"]
"""White's stone at B5 is dead: Black owns 28 points, White 21."""


def record_of(rules: str, margin: float | None, order: int = 0) -> GameRecord:
    """A game that ends as ``FINAL``, by two passes, or with a resignation; ``order`` shuffles its moves."""
    stones = {sign: [i for i, there in enumerate("".join(FINAL)) if there == sign] for sign in "XO"}
    for moves in stones.values():
        random.Random(order).shuffle(moves)
    game = Game(Rules.preset(rules, 7, 6.5))
    while not game.is_over:
        own = stones["X" if game.to_play is BLACK else "O"]
        game.play(own.pop() if own else pass_move(7))
    game.outcome = Outcome.scored(margin) if margin is not None else Outcome(WHITE, Ending.RESIGN)
    return GameRecord.from_game(game)


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
    record = record_of(rules, margin)
    assert judge(record.replay().board, shipped_weights(7))[0].nonzero()[0].tolist() == [15]
    owners = owners_without_dead(record)
    assert (owners is None) == (is_dead is None)
    if owners is not None:
        assert (owners.tolist() == [1, 1, 1, 1, -1, -1, -1] * 7) is is_dead


def score(rules: str, *commands: str) -> list[str]:
    """The answers of a server on the final position of a game, with a judge of dead stones."""
    output, signs = StringIO(), "".join(FINAL)
    plays = [f"play {'bw'[sign == 'O']} {gtp_from_move(i, 7)}" for i, sign in enumerate(signs) if sign != "."]
    server = Server(BOT.build(BOT.config()), Rules.preset(rules, 7, 6.5), judge=counting.agreed_dead)
    serve(server, StringIO("\n".join([*plays, *commands, ""])), output)
    return [answer.removeprefix("=").strip() for answer in output.getvalue().split("\n\n")[len(plays) : -1]]


def test_the_score_over_gtp_takes_dead_stones_off_where_the_rules_do() -> None:
    asked = ("final_score", "final_status_list dead", "final_status_list seki")
    assert score("chinese", *asked) == ["B+0.5", "B5", ""]
    assert score("cgos", *asked) == ["W+3.5", "", ""]
    alive = score("chinese", "final_status_list alive")[0].split()
    assert "B5" not in alive and len(alive) == sum(sign != "." for sign in "".join(FINAL)) - 1
