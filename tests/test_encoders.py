"""The encoders after other programs, and ladder reading, against slow twins that ask one obvious question a point."""

import numpy as np
import pytest
from reference import ReferenceBoard
from test_game import position
from test_planes import random_game

from arena.go.board import Board
from arena.go.coords import BLACK, WHITE, Colour, apply_symmetry, gtp_from_move, move_from_gtp
from arena.go.game import Game, Rules
from arena.go.ladders import DEPTH, EFFORT
from arena.go.planes import encode_game, find_encoder

Point = tuple[int, int]


class Effort:
    """Counts the ataris that were looked at."""

    def __init__(self) -> None:
        self.spent = 0


def after(board: ReferenceBoard, point: Point, colour: int) -> ReferenceBoard | None:
    """The board after a move, None when it's illegal."""
    if board.refusal(point, colour, suicide=False) is not None:
        return None
    twin = board.copy()
    twin.put(point, colour)
    return twin


def liberties(board: ReferenceBoard, point: Point) -> list[Point]:
    return sorted(other for other in board.group(point)[1] if other not in board.stones)


def is_caught(board: ReferenceBoard, stone: Point, effort: Effort, depth: int = 1) -> bool:
    """Whether the group of ``stone``, in atari and on the move, can be chased until it is captured."""
    effort.spent += 1
    colour = board.stones[stone]
    replies = liberties(board, stone)
    for other in board.group(stone)[1]:
        if board.stones.get(other) == 3 - colour and len(liberties(board, other)) == 1:
            replies += liberties(board, other)
    for reply in dict.fromkeys(replies):
        saved = after(board, reply, colour)
        if saved is None or len(liberties(saved, stone)) < 2:
            continue
        if len(liberties(saved, stone)) > 2 or not is_chased(saved, stone, effort, depth):
            return False
    return True


def is_chased(board: ReferenceBoard, stone: Point, effort: Effort, depth: int) -> bool:
    """Whether an atari on the group of ``stone``, which has two liberties, catches it."""
    ataris = [after(board, point, 3 - board.stones[stone]) for point in liberties(board, stone)]
    return any(atari is not None and is_caught(atari, stone, effort, depth + 2) for atari in ataris)


def captures_in_ladder(board: ReferenceBoard, point: Point, colour: int, effort: Effort) -> bool:
    chased = [
        other
        for other in board.neighbours(point)
        if board.stones.get(other) == 3 - colour and len(liberties(board, other)) == 2
    ]
    played = after(board, point, colour)
    return played is not None and any(is_caught(played, other, effort) for other in chased)


def escapes_a_ladder(board: ReferenceBoard, point: Point, colour: int, effort: Effort) -> bool:
    played = after(board, point, colour)
    if played is None:
        return False
    for stone, there in board.stones.items():
        if there != colour or len(liberties(board, stone)) != 1:
            continue
        _group, border = board.group(stone)
        touched = [other for other in border if board.stones.get(other) == 3 - colour]
        captures = any(liberties(board, other) == [point] for other in touched)
        if not captures and liberties(board, stone) != [point]:
            continue
        count = len(liberties(played, stone))
        if count > 2 or (count == 2 and not is_chased(played, stone, effort, 1)):
            return True
    return False


def slow_alphago(board: ReferenceBoard, colour: int, moves: list[int], effort: Effort) -> np.ndarray:
    size = board.size
    planes = np.zeros((49, size, size), np.float32)
    planes[3] = 1
    planes[48] = float(colour == BLACK)
    for point in np.ndindex(size, size):
        stone = board.stones.get(point)
        if stone is not None:
            planes[0 if stone == colour else 1][point] = 1
            ages = [age for age, move in enumerate(reversed(moves)) if move == point[0] * size + point[1]]
            planes[4 + min([*ages, 7])][point] = 1
            planes[11 + min(board.liberties(point), 8)][point] = 1
            continue
        planes[2][point] = 1
        played = after(board, point, colour)
        if played is None:
            continue
        captured = sum(point not in played.stones for point in board.stones)
        planes[20 + min(captured, 7)][point] = 1
        if played.liberties(point) == 1:
            planes[27 + min(len(played.group(point)[0]), 8)][point] = 1
        planes[35 + min(played.liberties(point), 8)][point] = 1
        planes[44][point] = captures_in_ladder(board, point, colour, effort)
        planes[45][point] = escapes_a_ladder(board, point, colour, effort)
        planes[46][point] = not board.is_eye(point, colour)
    return planes


def slow_gocnn(board: ReferenceBoard, colour: int) -> np.ndarray:
    planes = np.zeros((8, board.size, board.size), np.float32)
    planes[7] = 1
    for point, stone in board.stones.items():
        planes[(0 if stone == colour else 3) + min(board.liberties(point), 3) - 1][point] = 1
    if board.ko is not None:
        planes[6][board.ko] = 1
    return planes


@pytest.mark.parametrize(("size", "seeds", "most"), [(5, range(3), 50), (7, range(2), 50), (9, range(1), 70)])
def test_every_position_of_random_games_agrees_with_the_slow_twins(size: int, seeds: range, most: int) -> None:
    seen = np.zeros(49, bool)
    for seed in seeds:
        game = random_game(size, "cgos", seed, most)
        again, board = Game(game.rules), ReferenceBoard(size)
        for ply, move in enumerate([*game.moves, None]):
            colour, symmetry, effort = ply % 2 + 1, ply % 8, Effort()
            expected = slow_alphago(board, colour, game.moves[:ply], effort)
            assert effort.spent < min(EFFORT, DEPTH), "a chase this long is cut short"
            for name, wanted in (("alphago-49", expected), ("alphago-48", expected[:48])):
                planes = encode_game(find_encoder(name), again, symmetry)
                assert (planes == apply_symmetry(wanted, symmetry)).all()
            planes = encode_game(find_encoder("gocnn-8"), again, symmetry)
            assert (planes == apply_symmetry(slow_gocnn(board, colour), symmetry)).all()
            planes = encode_game(find_encoder("stones-1"), again, symmetry)
            assert (planes == apply_symmetry(expected[:1] - expected[1:2], symmetry)).all()
            seen |= expected.any(axis=(1, 2))
            if move is None:
                break
            again.play(move)
            if move == size * size:
                board.ko = None
            else:
                board.put(divmod(move, size), colour)
    rare = {25, 26, 27, 33, 34, 35}  # captures and self-ataris of six stones and more
    assert size > 5 or set(np.flatnonzero(~seen).tolist()) <= rare | {47}, "a plane that was never set proves nothing"


CAPTURES = """
    O . O O O O
    O X X X X X
    O . X X X O
    . O O O O O
    . . . . . .
    . . . . . .
"""


def test_captures_of_seven_stones_and_more_share_a_plane() -> None:
    """A6 to F6 is the top row: White takes 8 stones at B4, where B6 takes none."""
    game = position(CAPTURES, to_play=WHITE)
    planes = encode_game(find_encoder("alphago-48"), game)
    game.play(move_from_gtp("B6", 6))
    assert planes[20, 0, 1] == 1 and not planes[21:28, 0, 1].any()
    game.play(move_from_gtp("A1", 6))
    planes = encode_game(find_encoder("alphago-48"), game)
    assert planes[27, 2, 1] == 1 and not planes[20:27, 2, 1].any()


LADDER = """
    . . . . . . . . .
    . . . . . . . . .
    . . . . . . . . .
    . . . . . . . . .
    . . . . . . . . .
    . X . . . . . . .
    . X O . . . . . .
    . . X . . . . . .
    . . . . . . . . .
"""


def ladder_moves(to_play: Colour, white: str = "", black: str = "") -> tuple[set[str], set[str]]:
    """The points that capture in a ladder and those that escape from one, with more stones on the board above."""
    stones = Board.from_diagram(LADDER).stones.reshape(-1)
    setup = [np.flatnonzero(stones == colour).tolist() for colour in (BLACK, WHITE)]
    for point, side in ((black, 0), (white, 1)):
        setup[side] += [move_from_gtp(point, 9)] if point else []
    game = Game(Rules.preset("cgos", 9), black=setup[0], white=setup[1], to_play=to_play)
    planes = encode_game(find_encoder("alphago-48"), game).reshape(48, -1)
    captures, escapes = ({gtp_from_move(int(move), 9) for move in np.flatnonzero(planes[at])} for at in (44, 45))
    return captures, escapes


def test_a_ladder_runs_across_the_board_until_a_stone_breaks_it() -> None:
    assert ladder_moves(BLACK) == ({"D3"}, set())
    assert ladder_moves(BLACK, white="G7") == (set(), set())
    assert ladder_moves(WHITE, black="D3") == (set(), set())
    assert ladder_moves(WHITE, black="D3", white="G7") == (set(), {"C4"})
