"""The encoder katago-22 against a slow twin."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from helpers.reference import Point, ReferenceBoard, follow, position, slow_map, wild_game

from arena.go.coords import BLACK, Colour, apply_symmetry, pass_move
from arena.go.game import PRESETS, Game, Rules, Scoring, handicap_points
from arena.go.planes import encode_game, find_encoder

ENCODER = find_encoder("katago-22")
met = Counter[str]()
"""What the ladders of the twin met, to see that it was compared."""


def captures(board: ReferenceBoard, stone: Point) -> set[Point]:
    """Where the group of ``stone`` captures a group next to it."""
    others = [other for other in board.group(stone)[1] if other in board.stones]
    return set().union(*(board.open_points(other) for other in others if board.liberties(other) == 1))


def is_caught(board: ReferenceBoard, stone: Point, at_root: bool = True) -> bool:
    """Whether a group in atari, on the move, is lost. At the root it may retake a ko; later a ko is its way out."""
    if board.ko is not None:
        met["retaken" if at_root and board.ko in captures(board, stone) else "ko"] += 1
        if not at_root:
            return False
        board = board.copy()
        board.ko = None
    colour = board.stones[stone]
    for reply in board.open_points(stone) | captures(board, stone):
        saved = board.played(reply, colour)
        if saved is not None and saved.liberties(stone) > 1:
            if saved.liberties(stone) > 2 or not (is_double_ko_death(saved, stone) or chasers(saved, stone)):
                return False
    return True


def chasers(board: ReferenceBoard, stone: Point, at_root: bool = False) -> list[Point]:
    """The ataris by which a group with two liberties is caught."""
    played = {point: board.played(point, 3 - board.stones[stone]) for point in board.open_points(stone)}
    return [point for point, atari in played.items() if atari is not None and is_caught(atari, stone, at_root)]


def is_double_ko_death(board: ReferenceBoard, stone: Point) -> bool:
    colour = board.stones[stone]
    for point in board.open_points(stone):
        around = board.neighbours(point)
        taken = [other for other in around if other in board.stones and board.liberties(other) == 1]
        if any(board.stones.get(other) != colour for other in around) or len(taken) != 1:
            return False
        joined = board.copy()
        joined.put(point, colour)
        if len(board.group(taken[0])[0]) > 1 or joined.liberties(point) > 2:
            return False
    found = not captures(board, stone)
    met["double ko"] += found
    return found


def slow_ladders(board: ReferenceBoard, colour: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, n) each: the stones that a ladder catches, and where one on the other side of ``colour`` begins."""
    caught, starts = np.zeros((2, board.size, board.size), np.float32)
    for point, stone in board.stones.items():
        if board.liberties(point) == 1:
            caught[point] = is_caught(board, point)
        elif board.liberties(point) == 2:
            ataris = chasers(board, point, at_root=True)
            caught[point] = bool(ataris)
            for atari in ataris if stone != colour else ():
                starts[atari] = 1
    return caught, starts


def slow_planes(game: Game, boards: list[ReferenceBoard]) -> np.ndarray:
    """(41, n, n) of a game's present position; ``boards`` are all positions, the present one last."""
    rules, size, colour, board = game.rules, game.rules.size, int(game.to_play), boards[-1]
    passing, is_area = pass_move(size), rules.scoring is Scoring.AREA
    planes = np.zeros((41, size, size), np.float32)
    planes[0] = 1
    for point, stone in board.stones.items():
        planes[1 if stone == colour else 2][point] = 1
        if board.liberties(point) <= 3:
            planes[2 + board.liberties(point)][point] = 1
    seen = {earlier.position() for earlier in boards} if rules.superko else set()
    for point in np.ndindex(size, size):
        played = board.after(point, colour, rules.suicide)
        repeats = isinstance(played, ReferenceBoard) and played.position() in seen
        met["superko"] += repeats
        planes[6][point] = point == board.ko or repeats
    turns = min(5, len(game.moves))
    for age, pair in enumerate(zip(game.moves[::-1][:turns], game.moves[::-1][1:], strict=False)):
        if pair == (passing, passing):
            turns = age + 1
            break
    for age, move in enumerate(game.moves[::-1][:turns]):
        if move == passing:
            planes[22 + age] = 1
        else:
            planes[9 + age][divmod(move, size)] = 1
    planes[14], planes[17] = slow_ladders(board, colour)
    for age in (1, 2):
        planes[14 + age] = slow_ladders(boards[-1 - min(age, turns)], colour)[0]
    komi = game.compensation
    if is_area:
        owners = np.array([[board.stones.get((row, column), 0) for column in range(size)] for row in range(size)])
        for point, owner in board.territory().items():
            owners[point] = owner
        for side in (1, 2):
            owners[slow_map(board, side, rules.suicide) != 0] = side
        planes[18], planes[19] = owners == colour, owners == 3 - colour
    else:
        komi += game.placed_stones(Colour.BLACK) - game.placed_stones(Colour.WHITE)
    komi = komi if colour != BLACK else -komi
    komi = max(-(size**2) - 20, min(size**2 + 20, komi))
    planes[27] = komi / 20
    planes[28], planes[29], planes[30] = rules.superko, rules.superko / 2, rules.suicide
    planes[31] = not is_area
    planes[36] = game.moves[-1:] == [passing]
    above = (komi - size) % 2  # a draw is possible where the points are as many as komi, by twos
    planes[40] = (above if above < 0.5 else 1 - above if above < 1.5 else above - 2) if is_area else 0
    return planes


def check(game: Game, which: range, symmetry: int = 0) -> np.ndarray:
    """Compare the positions ``which`` of a game, and those with a superko; which planes were set in one, (41,) bool."""
    seen, boards = np.zeros(41, bool), list[ReferenceBoard]()
    for again, board, ply in follow(game):
        boards.append(board.copy())
        planes = encode_game(ENCODER, again, (symmetry + ply) % 8)
        if ply in which or planes[6].sum() > (board.ko is not None):
            expected = slow_planes(again, boards)
            wrong = np.argwhere(planes != apply_symmetry(expected, (symmetry + ply) % 8))
            assert not len(wrong), f"{game.rules} {game.moves[:ply]} {wrong}"
            seen |= expected.any(axis=(1, 2))
    return seen


@pytest.mark.parametrize("rules", PRESETS)
def test_the_planes_are_those_of_the_slow_twin(rules: str) -> None:
    """Random games on boards of 5x5 to 9x9, with setup stones and handicap, whole and half komis."""
    met.clear()
    seen = np.zeros(41, bool)
    for seed in range(8):
        seen |= check(wild_game(5, rules, seed, 75, komi=seed / 2 - 2), range(seed, 80, 7))
    for size, seed in product((6, 7, 8), range(2)):
        setup = ([0, 3, 7, size * size - 1], [5, 9][: 2 * seed])
        seen |= check(wild_game(size, rules, seed, 100, komi=size + seed / 2, setup=setup), range(seed, 101, 15), seed)
    handicap = (handicap_points(9, 4), ())
    for seed, setup in enumerate(((), handicap)):
        seen |= check(wild_game(9, rules, seed, 150, komi=seed / 2, setup=setup or ((), ())), range(seed, 150, 20))
    area, superko = rules != "japanese", rules != "japanese"
    never = {7, 8, 20, 21, *range(32, 36), 37, 38, 39}  # for rules and phases of the game that we don't have
    never |= (set() if area else {18, 19, 40}) | (set() if superko else {28, 29}) | ({31} if area else set())
    never |= set() if rules == "tromp-taylor" else {30}
    assert set(np.flatnonzero(~seen).tolist()) == never, "a plane that was never set proves nothing"
    assert min(met["ko"], met["retaken"]) > 3 and (met["superko"] > 0) == superko


@pytest.mark.parametrize("size", range(10, 20))
def test_boards_of_all_larger_sizes(size: int) -> None:
    for number, rules in enumerate(PRESETS):
        ply = size * size * (number + 1) // 8
        check(wild_game(size, rules, size, ply + 1), range(ply, ply + 1))


def test_two_passes_hide_the_moves_before_them() -> None:
    game = wild_game(5, "cgos", 3, 12)
    for _ in range(2):
        for passes in (True, True, False, True, False):
            game = game.after(25 if passes else game.random_move())
            check(game, range(len(game.moves), len(game.moves) + 1))


def test_komi_is_cut_off_beyond_the_board() -> None:
    for komi in (-99.5, 50):
        check(Game(replace(Rules.preset("cgos", 5), komi=komi)), range(1))


def test_a_group_between_two_kos_is_caught() -> None:
    """Black can take the upper ko, and then loses one of the two: connecting gains no liberty."""
    met.clear()
    column = "XO....... " * 7
    check(position(f"O.O...... {column} .XO......"), range(1))
    assert met["double ko"]
