"""Matches with handicap stones: who gets them, openings around them, statistics, resuming, and what is shown."""

from pathlib import Path

import numpy as np
import pytest
from helpers.commandline import arena, refused
from helpers.events import finished, planned, player

from arena import ConfigError
from arena.cli.events import store_event
from arena.go.coords import WHITE
from arena.go.game import Rules, handicap_points
from arena.go.record import opening_keys
from arena.match.game_loop import LiveGame
from arena.match.schedule import Match
from arena.ratings import Sprt
from arena.results.league import read_report
from arena.results.store import Store


def match(size: int = 9, stones: int = 2, games: int = 40, **more: object) -> Match:
    rules = Rules.preset("cgos", size, 0.5)
    return planned(Match, first=player("a"), second=player("b"), rules=rules, handicap=stones, games=games, **more)


@pytest.mark.parametrize(("size", "stones"), [(7, 4), (8, 4), (9, 2), (9, 5), (9, 9), (13, 9), (19, 9)])
def test_the_second_player_has_the_stones_in_all_games_and_no_two_games_begin_alike(size: int, stones: int) -> None:
    pairings, short = match(size, stones, 100).pairings(), match(size, stones, 7).pairings()
    assert pairings[:7] == short
    assert {(pairing.black, pairing.white) for pairing in pairings} == {("b", "a")}
    keys = {opening_keys(size, np.array([pairing.opening]))[0] for pairing in pairings}
    assert len(keys) == 100
    points = handicap_points(size, stones)
    for pairing in pairings:
        live = LiveGame.begin(pairing, match(size, stones).terms.rules)
        assert live.game.handicap == stones and [*live.game.setup[0]] == points and live.game.first is WHITE
        assert not live.game.captured_stones(WHITE) and all(move not in points for move in pairing.opening)
        for one in (*points, *pairing.opening):
            around = [abs(one // size - other // size) + abs(one % size - other % size) for other in pairing.opening]
            assert sorted(around)[:1] != [1] and sum(distance == 0 for distance in around) <= 1


@pytest.mark.parametrize("winner", ["a", "b"])
def test_a_test_and_the_ratings_are_of_the_first_player_who_never_has_black(winner: str, tmp_path: Path) -> None:
    event = match(games=60, test=Sprt(0, 50))
    with Store.of(tmp_path, write=True) as store:
        store_event(store, event)
        store.append([finished(event, pairing, winner) for pairing in event.pairings()])
        report = read_report(store, event.event)
    sign = 1 if winner == "a" else -1
    assert report.test is not None and report.test.state is not None
    assert report.test.state.llr * sign > 0 and report.is_decided
    assert report.openings == report.games and report.comparison is not None
    assert report.comparison.elo.value * sign > 200 and report.tally is not None
    assert report.tally.points == (report.games if sign > 0 else 0) and report.black_advantage is None


@pytest.mark.parametrize(("size", "stones", "more"), [(5, 2, {}), (8, 5, {}), (9, 1, {}), (9, 2, {"openings": 3})])
def test_stones_that_do_not_fit_and_openings_that_repeat_are_refused(size: int, stones: int, more: dict) -> None:
    with pytest.raises(ConfigError, match="handicap"):
        match(size, stones, **more)


def test_a_match_with_stones_is_played_and_named_everywhere(tmp_path: Path) -> None:
    typed = ("match", "random", "fast-random", "--workers", "1", "--size", "7", "--handicap")
    done = arena(*typed, "2", "-n", "4", folder=tmp_path)
    assert "komi 0.5, 2 handicap stones" in done.stdout and "always White; fast-random has" in done.stdout
    assert "4 of 4 games were played earlier" in arena(*typed, "2", "-n", "4", folder=tmp_path).stdout
    assert "2 handicap stones" in arena("report", folder=tmp_path).stdout
    assert "2 handicap stones" in arena("elo", folder=tmp_path).stdout
    assert "fast-random (+2 stones)" in arena("games", folder=tmp_path).stdout
    assert "komi 0.5, 2 handicap stones" in arena("show", "1", folder=tmp_path).stdout
    arena("games", "--sgf", "out", folder=tmp_path)
    sgf = next((tmp_path / "out").rglob("*.sgf")).read_text()
    assert "HA[2]" in sgf and "AB[ec][ce]" in sgf and "KM[0.5]" in sgf
    assert "komi 3.5, 2 handicap" in arena(*typed, "2", "-n", "2", "--komi", "3.5", folder=tmp_path).stdout
    refused(arena(*typed, "9", folder=tmp_path), "9 handicap stones can't be placed on 7x7; there are from 2 to 4")
    refused(arena(*typed, "2", "--openings", "3", folder=tmp_path), "leave out --openings and --book")
