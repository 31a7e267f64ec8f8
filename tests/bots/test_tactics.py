"""What the compiled tactics say, against a slow twin, in positions of random games; and playouts that follow them."""

from collections import Counter

import numba
import numpy as np
import pytest
from helpers.reference import Point, ReferenceBoard, follow, is_self_atari, ring, wild_game

from arena.go.board import Board, move_from_point, point_from_move
from arena.go.kernels import CELLS, area_score, last_liberty, point_of, seeded
from bots.search import tactics
from bots.search.playouts import answering_playout
from bots.search.tactics import answer_atari, answer_pattern


@numba.njit
def what_the_kernels_say(boards, move, colour):
    """Of a legal move: its ring, and whether it is a self-atari, what it rescues, whether it is alone."""
    board = boards[0]
    p = point_of(board, move)
    self_atari, rescued = tactics.is_self_atari(board, p, colour), tactics.rescue(board, p, colour)
    return board.ring[p], self_atari, rescued, tactics.is_lonely(board, p)


@numba.njit
def only_liberty(boards, move):
    board = boards[0]
    return last_liberty(board, np.int64(board.head[point_of(board, move)]))


@numba.njit
def answers(boards, last, colour, seed):
    state = np.uint64(seed)
    atari, state = answer_atari(boards[0], last, colour, state)
    pattern, state = answer_pattern(boards[0], last, colour, state)
    return atari, pattern


@numba.njit
def play_out(boards, colour, last, seed, when):
    margin, moves, _ = answering_playout(boards[0], colour, last, seeded(seed), when, 1)
    return margin, moves, area_score(boards[0])


def rescue(board: ReferenceBoard, point: Point, colour: int) -> int:
    sizes = [0]
    for other in board.neighbours(point):
        if other in board.stones and board.open_points(other) == {point}:
            if board.stones[other] != colour or not is_self_atari(board, point, colour):
                sizes.append(len(board.group(other)[0]))
    return min(max(sizes), 2)


def is_lonely(board: ReferenceBoard, point: Point) -> bool:
    return all(abs(row - point[0]) + abs(column - point[1]) > 3 for row, column in board.stones)


def fits(board: ReferenceBoard, point: Point) -> bool:
    """Whether one of the shapes is there, in any symmetry and with either colour as X."""
    allowed = {".": ".", "X": "X", "O": "O", "x": ".O#", "o": ".X#", "?": ".XO#", "#": "#"}
    around = [place for place in np.ndindex(3, 3) if place != (1, 1)]
    colours = ring(board, point)
    for own in (".XO#", ".OX#"):
        seen = np.full((3, 3), "?")
        for number, place in enumerate(around):
            seen[place] = own[colours >> 2 * number & 3]
        for turned in (np.rot90(side, turns) for side in (seen, seen.T) for turns in range(4)):
            for shape in tactics.SHAPES.values():
                if all(turned[row, column] in allowed[shape[row][column]] for row, column in around):
                    return True
    return False


@pytest.mark.parametrize(("size", "seed"), [(5, 1), (7, 2), (9, 3)])
def test_tactics_say_what_the_slow_twin_says(size: int, seed: int) -> None:
    found = Counter[str]()
    for game, board, ply in follow(wild_game(size, "cgos", seed, 3 * size * size)):
        if ply % 3:
            continue
        boards, colour = game.board.array, int(game.to_play)
        for move in np.flatnonzero(game.legal_moves())[:-1].tolist():
            point = divmod(move, size)
            code, self_atari, rescued, lonely = what_the_kernels_say(boards, move, colour)
            assert self_atari == is_self_atari(board, point, colour)
            assert rescued == rescue(board, point, colour)
            assert lonely == is_lonely(board, point)
            assert code == ring(board, point)
            assert tactics.PATTERNS[code] == tactics.is_shape.py_func(code) == fits(board, point)
            found["self-atari"] += self_atari
            found["rescue"] += rescued > 0
            found["shape"] += bool(tactics.PATTERNS[code])
        for point in board.stones:
            only = board.open_points(point)
            move = point[0] * size + point[1]
            expected = point_from_move(np.ravel_multi_index(only.pop(), (size, size)), size) if len(only) == 1 else 0
            assert only_liberty(boards, move) == expected
            found["atari"] += expected > 0
    assert len(+found) == 4, f"something was never met: {found}"


def test_answers_to_an_atari_capture_it_or_take_a_group_out_of_it_and_patterns_are_beside_the_last_move() -> None:
    answered = 0
    for game, board, ply in (step for seed in range(4) for step in follow(wild_game(9, "cgos", seed, 160))):
        if ply == 0 or game.moves[-1] == 81:
            continue
        colour, last = int(game.to_play), divmod(game.moves[-1], 9)
        found = answers(game.board.array, point_from_move(game.moves[-1], 9), colour, ply)
        atari, pattern = (divmod(move_from_point(answer, 9), 9) if answer else None for answer in found)
        if atari:
            assert board.refusal(atari, colour, suicide=False) is None
            after, near = board.copy(), {last, *board.neighbours(last)}
            captured = after.put(atari, colour)
            saved = [own for own in near if board.stones.get(own) == colour and len(board.open_points(own)) == 1]
            assert captured or any(len(after.open_points(own)) > 1 for own in saved)
            answered += 1
        if pattern:
            assert fits(board, pattern) and not is_self_atari(board, pattern, colour)
            assert max(abs(pattern[0] - last[0]), abs(pattern[1] - last[1])) == 1
    assert answered > 20


def test_an_answering_playout_ends_notes_who_was_first_and_is_the_same_again() -> None:
    for seed in range(1, 40):
        results = []
        for _ in range(2):
            when = np.zeros(CELLS, np.uint16)
            margin, moves, area = play_out(Board(9).array, 1, 0, seed, when)
            assert margin == area and moves < 243
            times = when[when > 0] >> 1
            assert len(set(times.tolist())) == len(times)  # one stone a move
            assert set((times % 2 == when[when > 0] % 2).tolist()) == {False}  # time 1 is Black's
            results.append((margin, moves, when.tobytes()))
        assert results[0] == results[1]
