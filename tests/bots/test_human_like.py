"""The bot that plays like a person of a rank: who it takes itself for, how it passes and resigns, what it refuses."""

from pathlib import Path

import numpy as np
import pytest
from commandline import arena, refused
from reference import position

from arena.contract.bot import Limits
from arena.go.coords import pass_move
from arena.go.game import Game, Rules
from bots.human_like import Config, HumanLike, resign_chance

WON = """
...XO....
...XO....
...XO....
...XO....
...XO....
..XXO....
.X.XOO...
...XO.O..
...XO....
"""

DEAD = WON.replace("...XO....\n..XX", "...XO.X..\n..XX")
"""A Black stone lies dead on White's side."""

BESIDE_DEAD = {33, 41, 43, 51}


def test_moves_below_the_share_are_not_played_and_the_same_game_is_played_alike() -> None:
    bot = HumanLike(Config(rank="15k", min_share=0.1))  # at a temperature of 1.05
    games = [Game(Rules.preset(size=9), seed) for seed in range(300)]
    moves = [decision.move for decision in bot.choose_all(games, Limits())]
    policy = bot.raw_nn(games[:1])[0].policy
    assert np.abs(policy - HumanLike(Config(rank="3d")).raw_nn(games[:1])[0].policy).sum() > 0.05  # of another rank
    assert {move for move in moves if move is not None} <= set(np.flatnonzero(policy > 0.08 * policy.max()).tolist())
    assert len(set(moves)) > 3
    assert moves == [decision.move for decision in bot.choose_all(games, Limits())]


@pytest.mark.parametrize("rules", ["cgos", "chinese"])
def test_where_no_stone_counts_as_dead_it_captures_before_it_passes(rules: str) -> None:
    bot = HumanLike(Config(rank="3d", min_share=1.0))  # always the likeliest move
    games = [position(diagram, rules, komi=7.0) for diagram in (WON, DEAD)]
    for game in games:
        game.play(pass_move(9))
    settled, dead = (bot.choose(game, Limits()).move for game in games)
    assert settled == pass_move(9)
    assert dead == pass_move(9) if rules == "chinese" else dead in BESIDE_DEAD


def test_the_chance_of_a_resignation_rises_as_the_game_is_lost_and_fills_up() -> None:
    for rank in (-24, -4, 3):
        chances = [resign_chance(rate, rank, 0.6) for rate in (0.0, 0.01, 0.1, 0.5, 1.0)]
        assert chances == sorted(chances, reverse=True) and chances[0] > 0.03 and chances[-2] < 0.01
        assert resign_chance(0.05, rank, 0.1) < resign_chance(0.05, rank, 0.7)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("match", "human-like:rank=40k", "sl"), "rank = 40k is not a rank; write 30k to 1k or 1d to 6d, such as 12k"),
        (("play", "--rank", "12k", "--size", "7"), "human-9x9 knows how people play on 9x9 only; use --size 9"),
        (("play", "alphago", "--rank", "12k"), "--rank 12k picks the bot; leave out alphago"),
    ],
)
def test_a_wrong_rank_or_size_is_one_line(tmp_path: Path, words: tuple[str, ...], line: str) -> None:
    refused(arena(*words, folder=tmp_path, columns=200), line)
