"""What lies over a board: cursor, a stone not yet placed, dead stones, letters. It reads without colours."""

from dataclasses import replace

import numpy as np
import pytest
from played import lines_of
from rich.console import Group

from arena.go.board import Board
from arena.go.coords import BLACK, WHITE, move_from_gtp
from arena.report.board import (
    DARK,
    Overlay,
    board_height,
    board_width,
    draw_board,
    largest_cell,
    point_at,
)
from arena.report.style import Console

STONES = Board.from_diagram(
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


def rows(ascii_only: bool = False, **what: object) -> list[str]:
    last = at("C3")[0]
    lines = draw_board(STONES, last, overlay=Overlay(**what))  # type: ignore[arg-type]
    if ascii_only:
        return [line[3:].ljust(11) for line in lines_of(Group(*lines), 40, 20, encoding="ascii")][1:]
    return [line.plain[3:] for line in lines][1:]


def test_the_cursor_stands_in_square_brackets_and_the_last_move_in_round_ones():
    assert rows(cursor=at("D2")[0])[2:4] == [" · ·(○)· · ", " · · ·[·]· "]
    assert rows(cursor=at("E1")[0])[4] == " · · · ·[○]"
    assert rows(cursor=at("A5")[0])[0] == "[·]● ○ · · "
    assert rows(cursor=at("B3")[0])[2] == " ·[·]○ · · "  # beside the last move, whose brackets would meet these
    assert rows(cursor=at("C3")[0])[2] == " · ·[○]· · "  # on it


def test_a_ghost_is_a_small_stone_on_empty_points_only():
    assert rows(cursor=at("D2")[0], ghost=BLACK)[3] == " · · ·[•]· "
    assert rows(cursor=at("D2")[0], ghost=WHITE)[3] == " · · ·[◦]· "
    assert rows(cursor=at("E1")[0], ghost=BLACK)[4] == " · · · ·[○]"
    assert rows(True, cursor=at("D2")[0], ghost=WHITE)[3] == " . . .[w]. "


def test_stones_that_are_taken_are_small_and_keep_their_colour():
    taken = frozenset(at("B5", "A4", "B4", "E1"))
    assert [rows(taken=taken)[row] for row in (0, 1, 4)] == [" · • ○ · · ", " • • ○ · · ", " · · · · ◦ "]
    assert rows(True, taken=taken)[0] == " . b O . . "


def test_letters_stand_on_empty_points_and_the_first_stands_out():
    letters = dict(zip(at("D4", "A1", "E1"), "ABC", strict=True))
    assert [rows(letters=letters)[row] for row in (1, 4)] == [" ● ● ○ A · ", " A · · · ○ ".replace("A", "B")]
    console = Console(force_terminal=True, color_system="truecolor")
    lines = draw_board(STONES, overlay=Overlay(letters=letters))
    styles = {part.text: part.style for line in lines[1:] for part in line.render(console) if part.text in ("A", "B")}
    assert styles["A"].bgcolor != styles["B"].bgcolor  # type: ignore[union-attr]


def test_every_cell_of_the_wood_belongs_to_a_point_and_none_beside_it():
    assert [point_at(5, 1, column) for column in range(board_width(5) + 1)] == [
        None,
        None,
        None,
        *(0, 0, 1, 1, 2, 2, 3, 3, 4, 4),
        None,
        None,
    ]
    assert point_at(5, 0, 5) is None and point_at(5, 6, 5) is None
    assert point_at(5, 5, 3) == 20


def luminance(colour: tuple[int, int, int]) -> float:
    linear = [(c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4) for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("share", [0, 100, -100])
def test_stones_differ_from_what_lies_under_them_in_luminance(share: int):
    console = Console(force_terminal=True, color_system="truecolor")
    stones, owners = np.array([[1, 2, 0, 1, 2]] + [[0] * 5] * 4, np.uint8), bytes([share % 256]) * 25
    for cursor in (None, 3, 4):
        seen = 0
        line = draw_board(stones, ownership=owners, overlay=Overlay(cursor=cursor))[1]
        for part in line.render(console):
            if part.text.strip(" ()[]") in ("●", "○", "•", "◦"):
                seen += 1
                ink, wood = (luminance(colour.triplet) for colour in (part.style.color, part.style.bgcolor))  # type: ignore
                light, dark = max(ink, wood), min(ink, wood)
                assert (light + 0.05) / (dark + 0.05) >= 4.5  # WCAG 2.1, contrast of text
        assert seen == 4


@pytest.mark.parametrize("cell", [(4, 2), (6, 3)])
def test_large_points_are_discs_that_the_mouse_finds(cell: tuple[int, int]):
    theme = replace(DARK, colours=True)
    lines = draw_board(STONES, at("C3")[0], overlay=Overlay(cursor=at("D2")[0]), theme=theme, cell=cell)
    assert len(lines) == board_height(5, cell) and {line.cell_len for line in lines} == {board_width(5, cell)}
    centre = (cell[1] - 1) // 2
    for move in range(25):
        row, column = 1 + move // 5 * cell[1], 3 + move % 5 * cell[0]
        assert {point_at(5, row + r, column + c, cell) for r in range(cell[1]) for c in range(cell[0])} == {move}
        drawn = "".join(line.plain[column : column + cell[0]] for line in lines[row : row + cell[1]])
        assert ("█" in drawn) == bool(STONES.flat[move]) or move == at("C3")[0]
        assert (lines[row + centre].plain[column] == "[") == (move == at("D2")[0])
    assert point_at(5, 0, 5, cell) is None and point_at(5, 1 + 5 * cell[1], 5, cell) is None
    assert [largest_cell(9, 80, 40, one) for one in (theme, DARK)] == [(6, 3), (2, 1)]
    assert largest_cell(9, 50, 20, theme) == (4, 2) and "○" not in "".join(line.plain for line in lines)
