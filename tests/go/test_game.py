"""The rules on known positions, drawn as diagrams, and coordinates; the kernels' slow twin is in test_kernels.py."""

import json
from typing import Any

import numpy as np
import pytest
from helpers.reference import position

from arena import ConfigError, IllegalMove
from arena.go import coords
from arena.go.coords import BLACK, WHITE, Colour, Move, gtp_from_move, move_from_gtp, pass_move
from arena.go.game import PRESETS, Ending, Game, Outcome, Rules, handicap_points


def points(game: Game, names: str) -> list[Move]:
    return [move_from_gtp(name, game.rules.size) for name in names.split()]


def play(game: Game, names: str) -> Game:
    for move in points(game, names):
        game.play(move)
    return game


def whole_state(game: Game) -> tuple[object, ...]:
    arrays = game.board.array, game.hashes, game.legal_moves()
    known = game.rules, game.seed, game.setup, game.to_play, tuple(game.moves), game.outcome
    return *known, *(array.tobytes() for array in arrays)


KO = ".XO.. XO.O. .XO.. ..... ....."
TRIPLE_KO = "XO.O.X.XO .XO...XO. ......... ......... ......... ......... ......... .XO...... XO.O....."
SUICIDE_OF_TWO = "X.O.. OO... ..... ..... ....."
# White's second stone is taken together with the first; White takes one back: the same board, with Black to play.
SENDING_TWO = ".O.O. XXOO. .XO.. .XO.. .XO.."

# A game that its player asked others to count: https://boardgames.stackexchange.com/questions/41936
# The answer: 95 points for Black (59 stones, 36 territory), 72 for White (49 and 23) by area, dead stones removed.
PUBLISHED = """
    . X . X . X . X X X O X .
    X . . X . X X X . X O O O
    X X . X . X O X X X O . .
    . X . . X X O X . . X O O
    . . X X O O O X . X X X O
    . X X . X O . O X X X O .
    X . X X X O . O O . . O O
    . . X X O O O . . O O O O
    X X X . X O O . . O . . O
    . . X X X X O O . O X X X
    X X O O X X X O . O O X O
    X O O O O X O O O O O O O
    . X O . O X O . O . O . .
"""
PUBLISHED_DEAD_WHITE = "C3 D3 B2 C2 D2 E2 C1 E1"
PUBLISHED_DEAD_BLACK = "M13 L4 M4 N4 M3"


def test_a_published_end_position_counts_as_its_answer_says() -> None:
    area, territory = position(PUBLISHED), position(PUBLISHED, "japanese", komi=6.5)
    dead = points(area, f"{PUBLISHED_DEAD_WHITE} {PUBLISHED_DEAD_BLACK}")
    assert area.margin(dead) == (59 + 36) - (49 + 23)
    assert territory.margin(dead) == (36 + 8) - (23 + 5) - 6.5
    assert area.margin() == area.board.area_margin() != area.margin(dead)


@pytest.mark.parametrize(
    ("options", "moves", "outcome", "sgf", "black_score"),
    [
        ({}, "E5 pass C3 pass pass", Outcome(BLACK, Ending.SCORE, 81 - 7), "B+74", 1),
        ({"komi": 0}, "pass pass", Outcome(None, Ending.SCORE, 0), "0", 0.5),
        ({"move_limit": 3}, "E5 pass E6", Outcome(BLACK, Ending.MOVE_LIMIT, 81 - 7), "B+74", 1),
    ],
)
def test_two_passes_or_the_move_limit_end_the_game_and_it_is_scored(
    options: Any, moves: str, outcome: Outcome, sgf: str, black_score: float
) -> None:
    *before, last = moves.split()
    game = play(Game(Rules.preset("cgos", 9, **options)), " ".join(before))
    assert not game.is_over and game.outcome is None
    play(game, last)
    assert game.is_over and game.is_passed_out == (outcome.ending is Ending.SCORE)
    assert (game.outcome, game.outcome.sgf, game.outcome.black_score) == (outcome, sgf, black_score)


@pytest.mark.parametrize(
    ("ending", "sgf"),
    [(Ending.RESIGN, "R"), (Ending.TIME, "T"), (Ending.ILLEGAL, "F"), (Ending.CRASH, "F"), (Ending.ADJUDICATED, "")],
)
def test_a_resignation_and_a_forfeit_say_so_and_nothing_happens_after(ending: Ending, sgf: str) -> None:
    for colour in Colour:
        game = play(Game(Rules.preset()), "E5")
        if ending is Ending.RESIGN:
            game.resign(colour)
        else:
            game.end(Outcome(colour.opponent, ending))
        assert game.outcome == Outcome(colour.opponent, ending, None)
        assert (game.outcome.sgf, game.outcome.black_score) == (f"{colour.opponent.letter}+{sgf}", colour is WHITE)
        before = whole_state(game)
        for act, what in ((game.play, 0), (game.resign, BLACK), (game.end, Outcome(WHITE, ending))):
            with pytest.raises(IllegalMove, match="the game is over"):
                act(what)  # type: ignore[operator]
        assert whole_state(game) == before


def test_a_game_is_over_at_its_move_limit_in_a_look_ahead_too() -> None:
    game = Game(Rules.preset("cgos", 5, move_limit=3))
    for move in (0, 25, 25):
        game = game.after(move)
    assert game.outcome is not None and game.outcome.ending is Ending.SCORE
    with pytest.raises(IllegalMove, match="the game is over"):
        game.after(7)
    game.outcome = None  # as a bot may do that wants to look further
    with pytest.raises(IllegalMove, match="at its limit of 3 moves"):
        game.play(7)
    assert (len(game.hashes), len(game.moves)) == (4, 3)


@pytest.mark.parametrize(
    ("rules", "setup", "handicap", "margin"),
    [
        ("chinese", {"black": handicap_points(9, 4)}, 4, 81 - 4),  # White has a point for each stone
        ("cgos", {"black": handicap_points(9, 4)}, 4, 81),
        ("japanese", {"black": handicap_points(9, 4)}, 4, 81 - 4),  # the stones are no territory
        ("chinese", {"black": [20, 24], "white": [40]}, 0, 2 - 1),  # stones of both are a position
        ("chinese", {"black": [20, 24], "to_play": BLACK}, 0, 81),  # nor is it a handicap if Black begins
    ],
)
def test_handicap_stones_count_as_the_rules_have_it(rules: str, setup: Any, handicap: int, margin: float) -> None:
    game = Game(Rules.preset(rules, 9, komi=0), **setup)
    assert (game.to_play, game.handicap) == (WHITE if handicap else BLACK, handicap)
    assert game.margin() == margin


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "CGOS"}, "unknown rules 'CGOS'; there are cgos, tromp-taylor, chinese, japanese"),
        ({"size": 4}, "board size must be 5 to 19, not 4"),
        *(
            ({"komi": komi}, f"komi must be a whole or half number of points from -81 to 81, not {komi:g}")
            for komi in (7.25, 81.5, float("nan"))
        ),
        ({"move_limit": 0}, "the move limit must be at least 1, not 0"),
    ],
)
def test_rules_that_can_not_be_are_refused_in_words(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        Rules.preset(**options)


def test_an_impossible_setup_is_refused() -> None:
    for black, white, reason in (
        ([3], [3], "on one point"),
        ([1, 5], [0], "without liberties"),
        ([], [25], "25 is not"),
    ):
        with pytest.raises(ValueError, match=reason):
            Game(Rules.preset("cgos", 5), black=black, white=white)


def test_the_presets_are_these_and_come_back_from_json_or_are_refused() -> None:
    presets = [Rules.preset(name) for name in PRESETS]
    flags = [(rules.scoring.value, rules.superko, rules.suicide, rules.handicap_points) for rules in presets]
    assert dict(zip(PRESETS, flags, strict=True)) == {
        "cgos": ("area", True, False, False),
        "tromp-taylor": ("area", True, True, False),
        "chinese": ("area", True, False, True),
        "japanese": ("territory", False, False, False),
    }
    for rules in (Rules.preset(name, size) for name in PRESETS for size in (5, 9, 10, 19)):
        assert Rules.from_json(json.loads(rules.to_json())) == rules
        assert rules.komi == (6.5 if rules.name == "japanese" else 7.0 if rules.size <= 9 else 7.5)
    for change in ({"size": 4}, {"size": "9"}, {"komi": None}, {"scoring": "x"}, {"x": 1}):
        with pytest.raises(ValueError):
            Rules.from_json({**json.loads(Rules().to_json()), **change})


@pytest.mark.parametrize(
    ("game", "move", "message"),
    [
        (position(KO), "B5", "B5 is taken"),
        (play(position(KO), "C4"), "B4", "B4 retakes the ko at once"),
        (position(SUICIDE_OF_TWO), "B5", "B5 is suicide"),
        # the latest move that made the position is named
        (play(position(SENDING_TWO), "pass A5 C5"), "B5", "B5 repeats the position after move 1 (superko)"),
        (play(position(TRIPLE_KO), "E5 E4 C9 G9 C1 B9 H9"), "B1", "B1 repeats the position after move 2 (superko)"),
        *((position(KO), move, f"{move} is not a move on a 5x5 board") for move in (-1, 26, -(2**40))),
    ],
)
def test_a_refused_move_changes_nothing(game: Game, move: str | int, message: str) -> None:
    before = whole_state(game)
    point = move_from_gtp(move, game.rules.size) if isinstance(move, str) else move
    with pytest.raises(IllegalMove) as caught:
        game.play(point)
    assert str(caught.value) == message
    assert isinstance(move, int) or not game.legal_moves()[point]
    assert whole_state(game) == before


# --- Coordinates, the eight symmetries and the handicap points ---

SIZES = (5, 8, 9, 19)


@pytest.mark.parametrize("size", SIZES)
def test_every_move_survives_the_way_through_gtp_and_sgf(size: int) -> None:
    moves = range(size * size + 1)
    gtp = [gtp_from_move(move, size) for move in moves]
    sgf = [coords.sgf_from_move(move, size) for move in moves]
    assert [move_from_gtp(name, size) for name in gtp] == list(moves)
    by_name = {name.encode(): move for move, name in enumerate(sgf)}
    beyond = "fghijklmnopqrst"[size - 5].encode() * 2  # the corner of the next larger board
    assert coords.moves_by_sgf(size) == by_name | dict.fromkeys((b"tt", beyond), pass_move(size))
    assert gtp[-1] == "pass" and sgf[-1] == "" and pass_move(size) == size * size


@pytest.mark.parametrize("text", ["", "D", "4D", "D0", "D10", "K4", "D 4", "dd", "A²"])
def test_what_names_no_gtp_point_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        move_from_gtp(text, 9)
    assert str(caught.value) == f"'{text}' is not a point of a 9x9 board (A1 to J9, or pass)"


def test_the_eight_symmetries_look_like_this() -> None:
    rows = ("abc cba ghi ihg adg gda cfi ifc", "def fed def fed beh heb beh heb", "ghi ihg abc cba cfi ifc adg gda")
    drawn = [np.array([list(row) for row in square]) for square in zip(*map(str.split, rows), strict=True)]
    for symmetry, expected in enumerate(drawn):
        assert coords.apply_symmetry(drawn[0], symmetry).tolist() == expected.tolist()


@pytest.mark.parametrize("size", SIZES)
def test_the_shared_table_moves_points_as_the_planes_are_moved(size: int) -> None:
    planes = np.random.default_rng(size).random((2, 3, size, size))
    for symmetry, targets in enumerate(coords.symmetry_table(size)):
        by_table = np.empty_like(planes).reshape(2, 3, -1)
        by_table[..., targets[:-1]] = planes.reshape(2, 3, -1)
        assert (coords.apply_symmetry(planes, symmetry).reshape(2, 3, -1) == by_table).all()
        assert targets[-1] == pass_move(size)


# The vertices of GTP 2, section 4.1.1, in the order in which handicap stones are added; the centre is the last.
STARS = {
    19: "D4 Q16 D16 Q4 D10 Q10 K4 K16 K10",
    12: "C3 K10 C10 K3",
    7: "C3 E5 C5 E3 D4",
    6: "",
}


@pytest.mark.parametrize("size", STARS)
def test_star_points_come_in_the_order_of_gtp_and_handicap_stones_stand_on_them(size: int) -> None:
    stars = coords.star_points(size)
    assert [gtp_from_move(move, size) for move in stars] == STARS[size].split()
    most = 4 if len(stars) == 5 else len(stars)
    for stones in range(2, most + 1):
        centre = [stars[8]] if most == 9 and stones in (5, 7) else []
        assert handicap_points(size, stones) == stars[: stones - len(centre)] + centre
    for stones in (-1, 1, most + 1):
        with pytest.raises(ConfigError, match=f"^{stones} handicap stones can't be placed on {size}x{size}; there are"):
            handicap_points(size, stones)
