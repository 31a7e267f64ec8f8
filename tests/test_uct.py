"""The UCT player: pondering, first-play urgency, the margin in a result, and what its playouts know."""

from __future__ import annotations

import threading
from contextlib import closing

import numba
import numpy as np
import pytest

from arena import ConfigError
from arena.contract.bot import Limits
from arena.go.game import Game, Rules
from arena.go.kernels import CELLS, longest_playout, point_of, seeded
from arena.go.moves import BLACK, WHITE, move_from_gtp
from arena.players.registry import Registry
from bots.search import tree, uct
from bots.search.playouts import EYE_SPACE, HABITS, answering_playout, vital_point
from bots.search.rollouts import unlearned
from bots.uct import Config, Uct

Point = tuple[int, int]

VITAL = ("o*o", "*o o.", "o*o .o.", ".o. o*o .o.", "oo. o*o", "oo. o*o .o.")
"""The eye spaces with a vital point, up to symmetry."""


@numba.njit
def vital_points(boards, move, colour, region):
    return vital_point(boards[0], point_of(boards[0], move), colour, region)


@numba.njit
def play_out(boards, colour, last, seed, when, habits):
    margin, moves, _ = answering_playout(
        boards[0], colour, last, seeded(seed), when, 1, longest_playout(boards[0]), habits
    )
    return margin, moves


def shapes_with_a_vital_point() -> dict[frozenset[Point], Point]:
    """Each of VITAL in all its symmetries, from (0, 0) on."""
    known = {}
    for shape in VITAL:
        cells = {(r, c): word for r, line in enumerate(shape.split()) for c, word in enumerate(line) if word != "."}
        for _ in range(2):
            cells = {(c, r): word for (r, c), word in cells.items()}
            for _ in range(4):
                cells = {(c, -r): word for (r, c), word in cells.items()}
                top, left = min(r for r, _ in cells), min(c for _, c in cells)
                moved = {(r - top, c - left): word for (r, c), word in cells.items()}
                known[frozenset(moved)] = next(point for point, word in moved.items() if word == "*")
    return known


def regions(most: int) -> set[frozenset[Point]]:
    """All connected shapes of up to so many points, from (0, 0) on."""
    found = layer = {frozenset({(0, 0)})}
    for _ in range(most - 1):
        larger = set()
        for shape in layer:
            for row, column in shape:
                for point in {(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)} - shape:
                    grown = shape | {point}
                    top, left = min(r for r, _ in grown), min(c for _, c in grown)
                    larger.add(frozenset((r - top, c - left) for r, c in grown))
        layer = larger
        found = found | larger
    return found


def game_of(moves: str, size: int = 9, seed: int = 1) -> Game:
    """A game after moves in GTP coordinates."""
    game = Game(Rules.preset("cgos", size), seed=seed)
    for word in moves.split():
        game.play(move_from_gtp(word, size))
    return game


def visits_after_an_answer(ponder: bool) -> int:
    """The visits that a bot has when it is asked for a second move, one simulation on, and the answer took a while."""
    game = game_of("E5 C3")
    with closing(Uct(Config(playouts=200, ponder=ponder))) as bot, closing(Uct(Config(stop_early=False))) as other:
        move = bot.choose(game, Limits()).move
        assert move is not None
        game.play(move)
        answer = other.choose(game, Limits(simulations=6000)).move
        assert answer is not None
        game.play(answer)
        return bot.choose(game, Limits(simulations=1)).visits or 0


def test_a_bot_that_ponders_goes_on_while_the_other_side_thinks() -> None:
    resting, pondering = visits_after_an_answer(False), visits_after_an_answer(True)
    assert resting <= 201
    assert pondering > resting + 100


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bot_that_ponders_plays_a_game_to_its_end_against_itself(threads: int) -> None:
    """One player for both sides: the copy it ponders on is overtaken by each move of the game, whatever it is."""
    game = game_of("", size=5)
    with closing(Uct(Config(playouts=30, threads=threads, ponder=True, memory=4))) as bot:
        while not game.is_over:
            decision = bot.choose(game, Limits())
            assert decision.move is not None and game.legal_moves()[decision.move]
            game.play(decision.move)
    assert game.is_passed_out or len(game.moves) == game.rules.move_limit


def test_pondering_ends_when_the_bot_is_asked_in_another_game_or_closed() -> None:
    before = threading.active_count()
    bot = Uct(Config(playouts=50, ponder=True))
    first, second = game_of("E5"), game_of("C3 G7", seed=2)
    for game in (first, second, first, second):
        move = bot.choose(game, Limits()).move
        assert move is not None
        game.play(move)
    assert bot.analyse(first, Limits(simulations=50))
    bot.choose(first, Limits())
    bot.close()
    assert threading.active_count() <= before


def test_a_move_that_is_not_played_after_all_is_forgotten() -> None:
    """The controller asks for a move and then plays another one, or asks again: the bot thinks about what is there."""
    game = game_of("E5 C3")
    with closing(Uct(Config(playouts=60, ponder=True))) as bot:
        chosen = bot.choose(game, Limits()).move
        assert bot.choose(game, Limits()).move is not None
        other = next(int(move) for move in np.flatnonzero(game.legal_moves()) if move != chosen)
        game.play(other)
        decision = bot.choose(game, Limits())
        assert decision.move is not None and game.legal_moves()[decision.move]
        assert other not in {candidate.move for candidate in bot.analyse(game, Limits(simulations=60))}


def test_pondering_without_a_tree_that_is_kept_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs reuse=true"):
        Registry().resolve("mcts:ponder=true,reuse=false").checked(9)


def test_the_vital_point_is_found_in_every_eye_space_that_has_one_and_in_no_other() -> None:
    known = shapes_with_a_vital_point()
    region = np.zeros(EYE_SPACE, np.int64)
    found = 0
    for shape in regions(6):
        corner = (2, 2)
        inside = {(row + corner[0], column + corner[1]) for row, column in shape}
        around = {(row + r, column + c) for row, column in inside for r in (-1, 0, 1) for c in (-1, 0, 1)} - inside
        wall = [row * 9 + column for row, column in around]
        game = Game(Rules.preset(size=9), white=wall, to_play=BLACK)
        vital = known.get(shape)
        wanted = None if vital is None else (vital[0] + corner[0]) * 9 + vital[1] + corner[1]
        for row, column in inside:
            point = int(vital_points(game.board.array, row * 9 + column, int(WHITE), region))
            assert (tree.move_from_point(point, 9) if point else None) == wanted
            assert vital_points(game.board.array, row * 9 + column, int(BLACK), region) == 0
        found += vital is not None
    assert found == 2 + 4 + 4 + 1 + 8 + 4


def test_a_playout_plays_the_vital_point_after_a_capture() -> None:
    game = game_of("A2 A1 B2 B1 C2 C1 D2 J9 D1")  # Black has just taken A1, B1 and C1
    vital = tree.point_from_move(move_from_gtp("B1", 9), 9)
    last = tree.point_from_move(game.moves[-1], 9)
    first = {}
    for nakade in (0, 256):
        first[nakade] = set()
        for seed in range(1, 30):
            when = np.zeros(CELLS, np.uint16)
            play_out(game.copy().board.array, int(game.to_play), last, seed, when, HABITS._replace(nakade=nakade))
            first[nakade].add(int(np.flatnonzero(when == 2 + int(game.to_play) - 1)[0]))
    assert first[256] == {vital}
    assert len(first[0]) > 1


def test_a_playout_is_given_up_when_a_side_has_far_more_stones() -> None:
    wall = [row * 9 + column for row in range(5) for column in range(9) if (row + column) % 4]
    game = Game(Rules.preset(size=9), black=wall, to_play=BLACK)
    lengths = {}
    for mercy in (0, 3):
        results = []
        for seed in range(1, 20):
            when = np.zeros(CELLS, np.uint16)
            board = game.copy().board.array
            results.append(play_out(board, int(BLACK), 0, seed, when, HABITS._replace(mercy=mercy)))
        assert all(margin > 7 for margin, _ in results)
        lengths[mercy] = np.mean([moves for _, moves in results])
    assert lengths[3] < lengths[0] / 2


@pytest.mark.parametrize(("urgency", "each"), [(1.1, True), (0.0, False)])
def test_urgency_decides_whether_every_move_is_tried_once(urgency: float, each: bool) -> None:
    plain = Config(playouts=70, rave=0.0, priors=0.0, policy=0.0, answering=False, urgency=urgency, expand_after=1)
    with closing(Uct(plain)) as bot:
        visits = [candidate.visits for candidate in bot.analyse(game_of("E5"), Limits())]
    assert (max(visits) == 1) == each
    assert sum(visits) == 70


def test_priors_count_the_way_through_a_group_as_one_step() -> None:
    """White's last move is at the end of a chain; the other end is as near as any point beside the stone itself."""
    game = game_of("A9 E5 A8 E6 J9 E7")
    forest = tree.Forest(10_000, tree.RaveNodes)
    slot = int(forest.slots_of([game])[0])
    used = np.ones((1, 1), np.int64)
    trees = (forest.boards, forest.roots, forest.hashes, forest.nodes, forest.owners)
    uct.search(*trees, slot, 1, uct.Knowledge(0.0, 3500.0, 1.0, True, 8), used, 0, 1, unlearned(9))
    first = int(forest.nodes.first[slot, 0])
    family = range(first, first + int(forest.nodes.children[slot, 0]))
    prior = {
        tree.move_from_point(int(forest.nodes.point[slot, i]), 9): float(forest.nodes.prior[slot, i]) for i in family
    }
    beside, behind, third, far = (prior[move_from_gtp(word, 9)] for word in ("G7", "E3", "H7", "E1"))
    assert behind == beside > third > far
