"""A board drawn with characters: signs without colours, a grid with discs in colours, and what lies over both."""

import re

import numpy as np
import pytest
from reference import board_of_diagram

from arena.go.coords import BLACK, WHITE, move_from_gtp
from arena.report.board import Overlay, board_height, board_width, draw_board, largest_cell, legend, point_at

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


def test_signs_show_stones_stars_coordinates_and_the_last_move():
    assert [line.plain for line in draw_board(np.zeros((7, 7), np.uint8), colours=False)][:4] == [
        "    A B C D E F G ",
        " 7  · · · · · · · ",
        " 6  · · · · · · · ",
        " 5  · · + · + · · ",
    ]
    assert rows() == [" · ● ○ · · ", " ● ● ○ · · ", " · ·(○)· · ", " · · · · · ", " · · · · ○ "]


@pytest.mark.parametrize(
    ("what", "row", "drawn"),
    [
        ({"cursor": "D2"}, 3, " · · ·[·]· "),
        ({"cursor": "E1"}, 4, " · · · ·[○]"),
        ({"cursor": "B3"}, 2, " ·[·]○ · · "),  # beside the last move, whose brackets would meet these
        ({"cursor": "C3"}, 2, " · ·[○]· · "),  # on it
        ({"cursor": "D2", "ghost": BLACK}, 3, " · · ·[•]· "),
        ({"cursor": "E1", "ghost": WHITE}, 4, " · · · ·[○]"),
        ({"dead": frozenset(at("B5", "C5"))}, 0, " · • ◦ · · "),
        ({"letters": {at("D4")[0]: "A", at("A3")[0]: "B"}}, 1, " ● ● ○ A · "),
    ],
)
def test_what_lies_over_the_stones_reads_without_colours(what: dict, row: int, drawn: str):
    cursor = {"cursor": at(what["cursor"])[0]} if "cursor" in what else {}
    assert rows(**what | cursor)[row] == drawn


def test_ownership_marks_empty_points_and_stones_that_will_be_lost():
    shares = np.zeros(25, np.int8)
    shares[at("A1", "B1")] = 51, 50
    shares[at("E2", "E1")] = -100, 60
    lines = [line.plain for line in draw_board(STONES, ownership=shares.tobytes(), colours=False)]
    assert lines[4:] == [" 2  · · · · ▫ ", " 1  ▪ · · · ◦ "]
    assert "▪ Black's" in legend(False).plain and "White's" in legend().plain


@pytest.mark.parametrize("size", [5, 19])
@pytest.mark.parametrize("cell", [1, 2, 3, 6])
def test_a_board_takes_the_room_that_it_says_and_each_point_is_found_where_it_is_drawn(size: int, cell: int):
    for number in (0, size * size - 1):
        stones = np.zeros(size * size, np.uint8)
        stones[number] = 2
        lines = draw_board(stones.reshape(size, size), number, cell=cell)
        assert len(lines) == board_height(size, cell) and {line.cell_len for line in lines} == {board_width(size, cell)}
        (row,) = (row for row, line in enumerate(lines) if "●" in line.plain)
        assert point_at(size, row, lines[row].plain.index("●"), cell) == number
    assert point_at(size, 1, 1, cell) is None


def test_the_largest_board_that_fits_is_chosen():
    assert [largest_cell(9, width, 60) for width in (20, 22, 40, 58, 400)] == [0, 1, 2, 3, 6]
    assert largest_cell(19, 400, 19) == 0 and largest_cell(19, 80, 60) == 2


def test_stones_side_by_side_can_be_counted_and_colours_tell_them_apart():
    stones = np.zeros((5, 5), np.uint8)
    stones[1, 1:4] = 1, 2, 1
    assert draw_board(stones)[2].plain == " 4  ├─● ● ●─┤ "
    wide = draw_board(stones, cell=2)
    centre = next(line.plain for line in wide if line.plain.startswith(" 4 "))
    assert centre.count("▀▀▀") == 3 and any("│" in line.plain for line in wide)  # a free column between two stones
    styles = " ".join(str(span.style) for line in draw_board(stones, cell=6) for span in line.spans)
    assert "#0c0c0c" in styles and "#fafafa" in styles
    greys = {int(red, 16) for red, green, blue in re.findall(r"#(..)(..)(..)", styles) if red == green == blue}
    assert any(0x20 < grey < 0x60 for grey in greys)  # a black stone is lighter at its edge
