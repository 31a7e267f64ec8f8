"""The UCT player: pondering, first-play urgency when playouts end."""

import threading
from contextlib import closing

import numba
import numpy as np
import pytest
from test_search import game_of

from arena.contract.bot import Limits
from arena.go.coords import BLACK
from arena.go.game import Game, Rules
from arena.go.kernels import BOARD, CELLS, run_playouts, seeded
from bots.search.playouts import answering_playout
from bots.uct import Config, Uct


@numba.njit
def play_out(boards, colour, last, seed, when):
    margin, moves, _ = answering_playout(boards[0], colour, last, seeded(seed), when, 1)
    return margin, moves


def visits_after_an_answer(ponder: bool) -> int:
    """The visits that a bot has when it is asked for a second move, one simulation on, and the answer took a while."""
    game = game_of("E5 C3")
    with closing(Uct(Config(playouts=200, ponder=ponder))) as bot, closing(Uct(Config(stop_early=False))) as other:
        move = bot.choose(game, Limits()).move
        game.play(move)
        answer = other.choose(game, Limits(simulations=6000)).move
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
    with closing(Uct(Config(playouts=30, threads=threads, ponder=True, max_tree_mb=4))) as bot:
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


def test_a_playout_is_given_up_when_a_side_has_far_more_stones() -> None:
    wall = [row * 9 + column for row in range(5) for column in range(9) if (row + column) % 4]
    game = Game(Rules.preset(size=9), black=wall, to_play=BLACK)
    lengths = []
    for seed in range(1, 20):
        margin, moves = play_out(game.copy().board.array, int(BLACK), 0, seed, np.zeros(CELLS, np.uint16))
        assert margin > 7
        lengths.append(moves)
    boards, margins = np.zeros(2, BOARD), np.zeros(20, np.int16)
    boards[0] = game.board.array[0]
    assert np.mean(lengths) < run_playouts(boards, int(BLACK), 20, 1, margins) / 20 / 2  # uniform ones, to the end


def test_every_move_is_tried_once_before_any_is_tried_again() -> None:
    with closing(Uct(Config(playouts=70, rave=0.0, priors=0.0, policy=0.0))) as bot:
        visits = [candidate.visits for candidate in bot.analyse(game_of("E5"), Limits())]
    assert max(visits) == 1 and sum(visits) == 70
