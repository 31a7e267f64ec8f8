"""The rules on known positions, drawn as diagrams, and on random games; the kernels' own twin is in test_kernels.py."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import board_of_diagram, position
from sgfmill import boards as sgfmill_boards

from arena import ConfigError, IllegalMove
from arena.go.coords import BLACK, WHITE, Colour, Move, move_from_gtp, pass_move
from arena.go.game import PRESETS, Ending, Game, Outcome, Rules, Scoring, handicap_points


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


# White's second stone is taken together with the first; White takes one back: the same board, with Black to play.
SENDING_TWO = ".O.O. XXOO. .XO.. .XO.. .XO.."


def test_sending_two_returning_one_goes_round_under_japanese_rules() -> None:
    game = position(SENDING_TWO, "japanese", to_play=WHITE)
    for _ in range(3):
        play(game, "A5 C5 B5 pass")
        assert game.board.stones.tolist() == board_of_diagram(SENDING_TWO).stones.tolist()
    assert (game.captured_stones(BLACK), game.captured_stones(WHITE)) == (3, 6)


TRIPLE_KO = "XO.O.X.XO .XO...XO. ......... ......... ......... ......... ......... .XO...... XO.O....."


SUICIDE_OF_TWO = "X.O.. OO... ..... ..... ....."

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
        ({"move_limit": 3}, "E5 pass pass", Outcome(BLACK, Ending.SCORE, 81 - 7), "B+74", 1),
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
    [(Ending.RESIGN, "R"), (Ending.TIME, "T"), (Ending.ILLEGAL, "F"), (Ending.CRASH, "F"), (Ending.ADJUDICATED, "R")],
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
    ("black", "white", "reason"),
    [
        ([3], [3], "two stones on one point of the setup: 3"),
        ([1, 5], [0], "group without liberties"),
        ([0], [1, 5, 0], "group without liberties"),
        (range(25), [], "group without liberties"),
        ([], [25], "25 is not a point of a 5x5 board"),
    ],
)
def test_an_impossible_setup_is_refused(black: list[Move], white: list[Move], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Game(Rules.preset("cgos", 5), black=black, white=white)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "CGOS"}, "unknown rules 'CGOS'; there are cgos, tromp-taylor, chinese, japanese"),
        *(({"size": size}, f"a board of size {size} can't be played; sizes go from 5 to 19") for size in (-9, 4, 20)),
        *(
            ({"komi": komi}, f"komi {komi:g} can't be played; it is a whole or half number of points")
            for komi in (7.25, 81.5, -100.0, float("nan"), float("inf"))
        ),
        ({"move_limit": 0}, "a move limit of 0 leaves no game; it is at least 1"),
    ],
)
def test_rules_that_can_not_be_are_refused_in_words(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Rules.preset(**options)
    assert str(caught.value) == message


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
        (play(position(SENDING_TWO, to_play=WHITE), "A5 C5"), "B5", "B5 repeats the position after move 0 (superko)"),
        # the latest move that made the position is named
        (play(position(SENDING_TWO), "pass A5 C5"), "B5", "B5 repeats the position after move 1 (superko)"),
        (play(position(TRIPLE_KO), "C9 G9 C1 B9 H9"), "B1", "B1 repeats the position after move 0 (superko)"),
        (play(position(TRIPLE_KO), "E5 E4 C9 G9 C1 B9 H9"), "B1", "B1 repeats the position after move 2 (superko)"),
        *((play(position(KO), "C4"), move, f"{move} is not a move on a 5x5 board") for move in (-1, 26, -(2**40))),
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


def test_the_seed_of_a_move_is_splitmix64_of_the_games_seed_and_the_number_of_moves() -> None:
    """The published first outputs from 1234567, a bit shorter."""
    outputs = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    one, other = Game(Rules.preset("cgos", 9), seed=1234567), Game(Rules.preset("japanese", 19), seed=1234567)
    for number, output in enumerate(outputs):
        assert one.move_seed() == other.move_seed() == output >> 1
        one.play(number)
        other.play(2 * number)


@settings(max_examples=60, deadline=None, database=None)
@given(
    preset=st.sampled_from(list(PRESETS)),
    size=st.sampled_from([5, 5, 6, 7, 9]),
    choices=st.lists(st.integers(0, 2**16), max_size=150),
)
def test_random_games_keep_their_books_and_are_what_sgfmill_makes_of_them(
    preset: str, size: int, choices: list[int]
) -> None:
    game, other = Game(Rules.preset(preset, size)), sgfmill_boards.Board(size)
    for number, choice in enumerate(choices):
        colour, legal = game.to_play, np.flatnonzero(game.legal_moves())
        move = int(legal[choice % len(legal)])
        placed = game.placed_stones(colour)
        game.play(move)
        ko = None
        if move != pass_move(size):
            row, column = divmod(move, size)
            ko = other.play(size - 1 - row, column, colour.letter.lower())
            assert not game.rules.superko or game.board.hash not in game.hashes[:-1]
        assert game.board.ko_point == (None if ko is None else (size - 1 - ko[0]) * size + ko[1])
        assert (len(game.hashes), int(game.hashes[-1])) == (number + 2, game.board.hash)
        assert game.placed_stones(colour) == placed + (move != pass_move(size))
        assert game.board.count(colour) == (game.board.stones == colour).sum()
        if game.is_over:
            break
    assert game.board.area_margin() == other.area_score()
    captures = game.captured_stones(WHITE) - game.captured_stones(BLACK)
    by_territory = game.rules.scoring is Scoring.TERRITORY
    points = game.board.territory_margin() + captures if by_territory else other.area_score()
    assert game.margin() == points - game.rules.komi
    assert game.outcome is None or game.outcome == Outcome.scored(game.margin())
