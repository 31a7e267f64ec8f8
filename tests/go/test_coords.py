"""Coordinates, the eight symmetries and the handicap points."""

import numpy as np
import pytest

from arena import ConfigError
from arena.go import coords
from arena.go.coords import apply_symmetry, gtp_from_move, move_from_gtp, pass_move, star_points, symmetry_table
from arena.go.game import handicap_points

SIZES = (5, 8, 9, 19)


@pytest.mark.parametrize("size", SIZES)
def test_every_move_survives_the_way_through_gtp_and_sgf(size: int) -> None:
    moves = range(size * size + 1)
    gtp = [gtp_from_move(move, size) for move in moves]
    sgf = [coords.sgf_from_move(move, size) for move in moves]
    assert [move_from_gtp(name, size) for name in gtp] == list(moves)
    by_name = {name.encode(): move for move, name in enumerate(sgf)}
    assert coords.moves_by_sgf(size) == by_name | {b"tt": pass_move(size)}
    assert gtp[-1] == "pass" and sgf[-1] == "" and pass_move(size) == size * size


@pytest.mark.parametrize("text", ["", " ", "D", "4D", "D0", "D10", "K4", "D-1", "D4.0", "D 4", "dd", "²3", "A²"])
def test_what_names_no_gtp_point_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        move_from_gtp(text, 9)
    assert str(caught.value) == f"'{text}' is not a point of a 9x9 board (A1 to J9, or pass)"


def test_the_eight_symmetries_look_like_this() -> None:
    rows = ("abc cba ghi ihg adg gda cfi ifc", "def fed def fed beh heb beh heb", "ghi ihg abc cba cfi ifc adg gda")
    drawn = [np.array([list(row) for row in square]) for square in zip(*map(str.split, rows), strict=True)]
    for symmetry, expected in enumerate(drawn):
        assert apply_symmetry(drawn[0], symmetry).tolist() == expected.tolist()


@pytest.mark.parametrize("size", SIZES)
def test_the_shared_table_moves_points_as_the_planes_are_moved(size: int) -> None:
    planes = np.random.default_rng(size).random((2, 3, size, size))
    for symmetry, targets in enumerate(symmetry_table(size)):
        by_table = np.empty_like(planes).reshape(2, 3, -1)
        by_table[..., targets[:-1]] = planes.reshape(2, 3, -1)
        assert (apply_symmetry(planes, symmetry).reshape(2, 3, -1) == by_table).all()
        assert targets[-1] == pass_move(size)
    with pytest.raises(ValueError, match="read-only"):
        symmetry_table(size)[0, 0] = 1


# The vertices of GTP 2, section 4.1.1, in the order in which handicap stones are added; the centre is the last.
STARS = {
    19: "D4 Q16 D16 Q4 D10 Q10 K4 K16 K10",
    12: "C3 K10 C10 K3",
    9: "C3 G7 C7 G3 C5 G5 E3 E7 E5",
    7: "C3 E5 C5 E3 D4",
    6: "",
}


@pytest.mark.parametrize("size", STARS)
def test_star_points_come_in_the_order_of_gtp_and_handicap_stones_stand_on_them(size: int) -> None:
    stars = star_points(size)
    assert [gtp_from_move(move, size) for move in stars] == STARS[size].split()
    most = {9: 9, 5: 4}.get(len(stars), len(stars))
    expected = {stones: stars[:stones] for stones in range(2, most + 1)}
    expected |= {stones: [*stars[: stones - 1], stars[8]] for stones in (5, 7) if most == 9}
    assert {stones: handicap_points(size, stones) for stones in range(2, most + 1)} == expected
    for stones in (-1, 0, 1, most + 1, 10):
        with pytest.raises(ConfigError, match=f"^{stones} handicap stones can't be placed on {size}x{size}; there are"):
            handicap_points(size, stones)
