"""Coordinates, the eight symmetries and the handicap points. No rules: those are in test_game.py."""

import numpy as np
import pytest

from arena import ConfigError, RecordError
from arena.go.game import handicap_points
from arena.go.moves import (
    MAX_SIZE,
    MIN_SIZE,
    SYMMETRIES,
    apply_symmetry,
    gtp_from_move,
    move_from_gtp,
    move_from_sgf,
    pass_move,
    sgf_from_move,
    star_points,
    symmetry_table,
)

SIZES = (MIN_SIZE, 8, 9, MAX_SIZE)


@pytest.mark.parametrize("size", SIZES)
def test_every_move_survives_the_way_through_gtp_and_sgf(size: int) -> None:
    moves = range(size * size + 1)
    gtp = [gtp_from_move(move, size) for move in moves]
    sgf = [sgf_from_move(move, size) for move in moves]
    assert len(set(gtp)) == len(set(sgf)) == size * size + 1
    assert [move_from_gtp(name, size) for name in gtp] == list(moves)
    assert [move_from_sgf(name, size) for name in sgf] == list(moves)
    assert move_from_sgf("tt", size) == pass_move(size)  # the old way
    assert gtp[-1] == "pass" and sgf[-1] == "" and pass_move(size) == size * size


@pytest.mark.parametrize(
    ("size", "row", "column", "gtp", "sgf"),
    [
        (19, 0, 0, "A19", "aa"),
        (19, 0, 18, "T19", "sa"),
        (19, 18, 0, "A1", "as"),
        (19, 3, 15, "Q16", "pd"),
        (19, 15, 3, "D4", "dp"),
        (19, 9, 9, "K10", "jj"),
        (9, 8, 8, "J1", "ii"),
        (9, 0, 7, "H9", "ha"),
        (5, 2, 3, "D3", "dc"),
    ],
)
def test_points_have_the_names_that_players_use(size: int, row: int, column: int, gtp: str, sgf: str) -> None:
    move = row * size + column
    assert (gtp_from_move(move, size), sgf_from_move(move, size)) == (gtp, sgf)


def test_gtp_is_read_in_either_case_and_with_spaces_around() -> None:
    assert move_from_gtp("d4", 9) == move_from_gtp(" D4\n", 9) == 5 * 9 + 3
    assert move_from_gtp("PASS", 9) == move_from_gtp("Pass", 9) == 81


@pytest.mark.parametrize(
    "text",
    ["", " ", "D", "4", "4D", "D0", "D10", "K4", "D-1", "D+4", "D4.0", "D 4", "D4E5", "dd", "resign", "Z3", "²3", "A²"],
)
def test_what_names_no_gtp_point_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        move_from_gtp(text, 9)
    assert str(caught.value) == f"'{text}' is not a point of a 9x9 board (A1 to J9, or pass)"


@pytest.mark.parametrize("text", ["a", "aaa", "ja", "aj", "AA", "a1", "11", " aa", "a ", "{a", "zz", "äa"])
def test_what_names_no_sgf_point_is_refused(text: str) -> None:
    with pytest.raises(RecordError) as caught:
        move_from_sgf(text, 9)
    assert str(caught.value) == f"'{text}' is not an SGF point of a 9x9 board"


SYMMETRY_DIAGRAMS = """
    abc   cba   ghi   ihg   adg   gda   cfi   ifc
    def   fed   def   fed   beh   heb   beh   heb
    ghi   ihg   abc   cba   cfi   ifc   adg   gda
"""


def test_the_eight_symmetries_look_like_this() -> None:
    columns = zip(*(line.split() for line in SYMMETRY_DIAGRAMS.strip().splitlines()), strict=True)
    drawn = [np.array([list(row) for row in rows]) for rows in columns]
    assert len(drawn) == SYMMETRIES
    for symmetry, expected in enumerate(drawn):
        assert apply_symmetry(drawn[0], symmetry).tolist() == expected.tolist()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("symmetry", range(8))
def test_the_table_moves_points_as_the_planes_are_moved(size: int, symmetry: int) -> None:
    planes = np.random.default_rng(size).random((2, 3, size, size))
    moved = apply_symmetry(planes, symmetry)
    by_table = np.empty_like(planes).reshape(2, 3, -1)
    by_table[..., symmetry_table(size)[symmetry][:-1]] = planes.reshape(2, 3, -1)
    assert (moved.reshape(2, 3, -1) == by_table).all()
    assert symmetry_table(size)[symmetry][-1] == pass_move(size)


def test_the_shared_table_can_not_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        symmetry_table(9)[0, 0] = 1
    assert symmetry_table(9) is symmetry_table(9)


# The vertices of GTP 2, section 4.1.1, in the order in which handicap stones are added; the centre is the last.
STARS = {
    19: "D4 Q16 D16 Q4 D10 Q10 K4 K16 K10",
    13: "D4 K10 D10 K4 D7 K7 G4 G10 G7",
    12: "C3 K10 C10 K3",
    11: "C3 J9 C9 J3 C6 J6 F3 F9 F6",
    9: "C3 G7 C7 G3 C5 G5 E3 E7 E5",
    8: "C3 F6 C6 F3",
}


def test_star_points_come_in_the_order_of_gtp() -> None:
    """A 7x7 board has four corners and a centre, smaller ones nothing."""
    for size, points in (STARS | {7: "C3 E5 C5 E3 D4", 6: "", 5: ""}).items():
        assert [gtp_from_move(move, size) for move in star_points(size)] == points.split()


@pytest.mark.parametrize("size", [9, 11, 13, 15, 17, 19])
def test_two_to_nine_handicap_stones_are_placed_as_gtp_says(size: int) -> None:
    stars = star_points(size)
    expected = {stones: stars[:stones] for stones in range(2, 10)}
    expected |= {stones: [*stars[: stones - 1], stars[8]] for stones in (5, 7)}
    assert {stones: handicap_points(size, stones) for stones in range(2, 10)} == expected


def test_even_boards_and_7x7_take_up_to_four_handicap_stones_and_what_does_not_fit_is_refused() -> None:
    for size in (7, 8, 10, 12, 14, 16, 18):
        assert handicap_points(size, 4) == star_points(size)[:4]
        with pytest.raises(ConfigError, match=f"5 handicap stones can't be placed on {size}x{size}; .* from 2 to 4"):
            handicap_points(size, 5)
    for size, stones in ((19, 10), (19, 1), (19, 0), (9, -1), (6, 2), (5, 2), (5, 5)):
        with pytest.raises(ConfigError, match=f"^{stones} handicap stones can't be placed on {size}x{size}"):
            handicap_points(size, stones)
