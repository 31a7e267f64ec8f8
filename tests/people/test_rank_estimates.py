"""Ranks by a record's moves and by a person's results, and the commands that say them."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.commandline import arena

from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Outcome, Rules
from arena.go.record import GameRecord
from arena.go.sgf import write_sgf
from arena.people.ranks import ELO, RANKS, RankEstimate, rank_by_results, ranks_by_moves
from arena.players.registry import Registry
from arena.results.store import Store
from bots.nets.checkpoint import SHIPPED_NETS, Checkpoint
from bots.nets.inference import Evaluator

SHORT = ("-n", "4", "--workers", "1", "--rules", "chinese")
NAMES = ("human-like:rank=25k", "kyu-10", "dan-1")


@pytest.fixture(scope="module")
def players() -> dict:
    registry = Registry()
    return {player.identity: player for player in (registry.resolve(name) for name in NAMES)}


def results_of(players: dict, name: str, wins: int, losses: int, **more: str) -> list[GameRecord]:
    """Games of ada, Black in every other one, against one of the bots."""
    identity = next(identity for identity, player in players.items() if player.name == name)
    games = []
    for number in range(wins + losses):
        ada = (BLACK, WHITE)[number % 2]
        winner = ada if number < wins else ada.opponent
        seats = {"black": "ada", "white": name, "black_player": "a", "white_player": identity}
        if ada is WHITE:
            seats = {"black": name, "white": "ada", "black_player": identity, "white_player": "a"}
        outcome = Outcome(winner, Ending.RESIGN)
        games.append(GameRecord(Rules.preset("chinese", 9), (), outcome, id=f"play/{name}-{number}", **(seats | more)))
    return games


def test_results_against_a_bot_say_the_rank(players: dict) -> None:
    assert [*ELO] == sorted(ELO) and [*ELO.values()] == sorted({*ELO.values()})

    def found(name: str, wins: int, losses: int) -> RankEstimate:
        estimate = rank_by_results(results_of(players, name, wins, losses), players, "ada")
        assert estimate is not None and estimate.count == wins + losses
        return estimate

    even, many = found("kyu-10", 10, 10), found("kyu-10", 100, 100)
    assert even.rank == -9 and even.low < -9 < even.high and many.high - many.low < even.high - even.low
    assert found("kyu-10", 15, 5).rank > -9
    games = results_of(players, "kyu-10", 3, 3)
    other = [replace(game, white_player="sl", black_player="a") for game in games]
    assert rank_by_results([replace(game, unrated="undo") for game in games], players, "ada") is None
    assert rank_by_results(other, players, "ada") is None
    won, lost = found("dan-1", 5, 0), found("human-like:rank=25k", 0, 5)
    assert won.rank == RANKS[-1] and won.low > -24 and lost.rank == RANKS[0] and lost.high < 1
    assert found("dan-1", 0, 3).high == 6  # in one of twelve cases, a 6 dan loses so
    most = found("kyu-10", 1000, 1000)  # the bots' own ranks are known to 50 Elo only
    assert most.low < most.rank < most.high


def test_an_estimate_is_the_likeliest_rank_with_those_that_a_test_at_5_per_cent_keeps() -> None:
    found = RankEstimate.of(-0.5 * ((RANKS + 10) / 4.0) ** 2, 7)
    assert found == RankEstimate(-10, -17, -3, 7)  # less than 1.96 standard deviations of 4 to either side
    assert str(found) == "11k (18k to 4k)"


def test_a_game_without_moves_says_nothing_of_ranks() -> None:
    net = Evaluator(Checkpoint.open(SHIPPED_NETS / "human-9x9"))
    assert ranks_by_moves(GameRecord(Rules.preset("cgos", 9), (), None), net) == {}


def test_the_moves_of_a_strong_player_look_stronger_than_those_of_a_weak_one(tmp_path: Path) -> None:
    told = arena("match", "human-like:rank=25k", "dan-3", *SHORT, folder=tmp_path)
    assert told.returncode == 0, told.stderr
    net = Evaluator(Checkpoint.open(SHIPPED_NETS / "human-9x9"))
    found: dict[str, list[int]] = {"human-like:rank=25k": [], "dan-3": []}
    with Store.of(tmp_path / "results") as store:
        records = list(store.games())
    for record in records:
        for colour, one in ranks_by_moves(record, net).items():
            found[record.black if colour is BLACK else record.white].append(one.rank)
    assert np.mean(found["dan-3"]) > np.mean(found["human-like:rank=25k"]) + 8
    weak = next(record for record in records if record.black == "human-like:rank=25k")
    (tmp_path / "game.sgf").write_text(write_sgf(replace(weak, black_rank="25k")))
    shown = arena("analyze", "game.sgf", "--ranks", folder=tmp_path, columns=120).stdout
    assert "Black human-like:rank=25k" in shown and "25k" in shown and "95 % interval" in shown


def test_after_a_game_play_says_the_rank_and_an_even_opponent(tmp_path: Path) -> None:
    words = ("--rank", "25k", "--as", "ada", "--plain")
    told = arena("play", *words, folder=tmp_path, columns=200, typed="e5\nresign\n")
    assert "against human-like:rank=25k (White)" in told.stdout, told.stderr
    found = re.search(r"ada's results over 1 game fit (\S+) \(30k to ", told.stdout)
    assert found and f"An even opponent: arena play --rank {found[1]}\n" in told.stdout
