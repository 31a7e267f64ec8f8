"""A board drawn with characters: signs without colours, a grid with discs, and what lies over both."""

import numpy as np
import pytest
from helpers.reference import board_of_diagram

from arena.go.coords import BLACK, WHITE, move_from_gtp
from arena.report.board import Overlay, board_height, board_width, draw_board, point_at

STONES = board_of_diagram(
    """
    . X O . .
    X X O . .
    . . O . .
    . . . . .
    . . . . O
    """
).stones


def at(*points: str) -> list[int]:
    return [move_from_gtp(point, 5) for point in points]


def rows(**what: object) -> list[str]:
    lines = draw_board(STONES, at("C3")[0], overlay=Overlay(**what), colours=False)  # type: ignore[arg-type]
    return [line.plain[3:] for line in lines][1:]


def test_signs_show_stones_stars_coordinates_and_the_last_move() -> None:
    empty = [line.plain for line in draw_board(np.zeros((7, 7), np.uint8), colours=False)]
    assert empty[::3][:2] == ["    A B C D E F G ", " 5  · · + · + · · "]
    assert rows() == [" · ● ○ · · ", " ● ● ○ · · ", " · ·(○)· · ", " · · · · · ", " · · · · ○ "]


@pytest.mark.parametrize(
    ("what", "row", "drawn"),
    [
        ({"cursor": at("B3")[0]}, 2, " ·[·]○ · · "),  # beside the last move, whose brackets would meet these
        ({"cursor": at("D2")[0], "ghost": BLACK}, 3, " · · ·[•]· "),
        ({"cursor": at("E1")[0], "ghost": WHITE}, 4, " · · · ·[○]"),
        ({"dead": frozenset(at("B5", "C5"))}, 0, " · • ◦ · · "),
        ({"letters": {at("D4")[0]: "A"}}, 1, " ● ● ○ A · "),
    ],
)
def test_what_lies_over_the_stones_reads_without_colours(what: dict, row: int, drawn: str) -> None:
    assert rows(**what)[row] == drawn


def test_ownership_marks_empty_points_and_stones_that_will_be_lost() -> None:
    shares = np.zeros(25, np.int8)
    shares[at("A1", "B1")] = 51, 50
    shares[at("E2", "E1")] = -100, 60
    lines = [line.plain for line in draw_board(STONES, ownership=shares.tobytes(), colours=False)]
    assert lines[4:] == [" 2  · · · · ▫ ", " 1  ▪ · · · ◦ "]


@pytest.mark.parametrize(("size", "cell"), [(5, 1), (5, 6), (19, 1), (19, 2), (19, 3)])
def test_a_board_takes_the_room_that_it_says_and_each_point_is_found_where_it_is_drawn(size: int, cell: int) -> None:
    for number in (0, size * size - 1):
        stones = np.zeros(size * size, np.uint8)
        stones[number] = 2
        lines = draw_board(stones.reshape(size, size), number, cell=cell)
        assert len(lines) == board_height(size, cell) and {line.cell_len for line in lines} == {board_width(size, cell)}
        (row,) = (row for row, line in enumerate(lines) if "●" in line.plain)
        assert point_at(size, row, lines[row].plain.index("●"), cell) == number
    assert point_at(size, 1, 1, cell) is None


def test_stones_side_by_side_can_be_counted() -> None:
    stones = np.zeros((5, 5), np.uint8)
    stones[1, 1:4] = 1, 2, 1
    assert draw_board(stones)[2].plain == " 4  ├─● ● ●─┤ "
    centre = next(line.plain for line in draw_board(stones, cell=2) if line.plain.startswith(" 4 "))
    assert centre.count("▀▀▀") == 3  # with a free column between every two
