"""JSON Lines and what else is for scripts, as real commands print them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.commandline import arena, refused
from helpers.events import store_event
from helpers.games import match_of, record_of, tournament_of

from arena.go.record import UNKNOWN, MoveStats
from arena.match.event import event_from_json
from arena.results.store import Store


def objects(*arguments: str, folder: Path) -> list[dict[str, Any]]:
    done = arena(*arguments, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a match of four games, and a tournament of six."""
    match, league = match_of("alphago", "sl", games=4), tournament_of("a", "b", "c", games_each=2)
    with Store.open(tmp_path / "results" / "arena.db", write=True) as store:
        games = [record_of(match, number, "sl") for number in range(4)]
        facts = [MoveStats(0.25, -3.5, 100, 0.5), *[UNKNOWN] * (len(games[3].moves) - 1)]
        store_event(store, match, [*games[:3], replace(games[3], facts=tuple(facts))])
        store_event(store, league, [record_of(league, number, "a") for number in range(6)])
    return tmp_path


def test_stored_things_are_printed_as_objects_of_stable_keys(folder: Path) -> None:
    event = match_of("alphago", "sl", games=4).event
    (game, *others) = objects("games", "--event", event[:9], folder=folder)
    assert len(others) == 3 and (game["type"], game["format"], game["event"]) == ("game", 1, event)
    assert game["facts"][0] == {"win_rate": 0.25, "score": -3.5, "visits": 100, "seconds": 0.5}
    assert len(game["moves"]) == len(game["facts"]) and others[0]["facts"] == []
    (report,) = objects("report", event, folder=folder)
    assert (report["games"], report["won_drawn_lost"]) == (4, [0, 0, 4])
    assert [place["player"] for place in report["standings"]] == ["sl", "alphago"]
    assert {one["id"] for one in objects("report", "--list", folder=folder)} == {event, "league"}
    assert {one["player"] for one in objects("elo", "--size", "7", folder=folder)} == {"a", "b", "c"}
    listed = (Path(__file__).parents[2] / "docs" / "guide.md").read_text()
    for found in (game, report, report["standings"][0], *objects("elo", "--size", "7", folder=folder)):
        assert {key for key in found if f"`{key}`" not in listed} == set()


def test_a_match_prints_each_game_and_then_its_report_and_all_games_are_listed_unless_told_otherwise(
    tmp_path: Path,
) -> None:
    """The newest 20 of 70 were listed without a word."""
    words = ("match", "random", "fast-random", "-n", "22", "--size", "5", "--workers", "1", "--name", "quick")
    *games, report = objects(*words, folder=tmp_path)
    assert [one["type"] for one in games] == ["game"] * 22 and report["type"] == "report"
    assert [one["type"] for one in objects(*words, folder=tmp_path)] == ["report"]  # nothing is left to play
    assert len(objects("games", folder=tmp_path)) == 22 and len(objects("games", "-n", "3", folder=tmp_path)) == 3
    refused(arena(*words[:-1], "a b", folder=tmp_path), "'a b' is not a name for a match")


def test_a_game_is_shown_by_the_number_that_the_list_has_where_events_share_numbers(folder: Path) -> None:
    listed = arena("games", folder=folder).stdout.splitlines()
    numbers = [line.split()[0] for line in listed if line[:4].strip().isdigit()]
    assert numbers == [str(number) for number in range(10, 0, -1)]  # four games of a match, then six of a league
    shown = [arena("show", number, folder=folder).stdout for number in numbers]
    for number, game, text in zip(numbers, objects("games", folder=folder), shown, strict=True):
        assert game["number"] == int(number) and game["black"] in text
    assert arena("show", folder=folder).stdout == shown[0] and len(set(shown)) == len(shown)
    told = arena("show", "4", "--move", "1", folder=folder).stdout
    assert "Black wins 25%, White leads by 3.5" in told and "100 visits, 0.50 s" in told
    refused(arena("show", "11", folder=folder), "there is no game '11'")


def test_games_are_found_by_event_player_and_ending(folder: Path) -> None:
    both = ("--player", "a", "--event", "league", "--ending", "score")
    assert "4 games." in arena("games", *both, folder=folder).stdout
    assert "no such games" in arena("games", "--ending", "forfeit", folder=folder).stdout
    refused(arena("games", "--ending", "quietly", folder=folder), "--ending quietly: use one of score, resign, ")


def test_a_player_is_found_without_its_settings_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    """`--player mcts` found nothing of mcts:playouts=50, with exit code 0."""
    match = match_of("mcts:playouts=50", "sl@seconds=1", games=2)
    with Store.open(tmp_path / "results" / "arena.db", write=True) as store:
        store_event(store, match, [record_of(match, number, "sl@seconds=1") for number in range(2)])
    assert len(objects("games", "--player", "mcts", folder=tmp_path)) == 2
    assert len(objects("games", "--player", "sl", folder=tmp_path)) == 2
    refused(arena("games", "--player", "mctss", folder=tmp_path), "--player mctss", "there are mcts:playouts=50, sl@")


def test_an_event_is_renamed_and_deleted_and_never_without_being_asked(folder: Path) -> None:
    match = match_of("alphago", "sl", games=4).event
    refused(arena("report", "league", "--delete", folder=folder), "Delete league and its 6 games? Add --yes")
    refused(arena("report", "--delete", "--yes", folder=folder), "take one EVENT")
    assert arena("report", "league", "--rename", "spring", "--yes", folder=folder).returncode == 0
    assert {one["event"] for one in objects("games", folder=folder)} == {match, "spring"}
    assert all(one["id"].startswith("spring/") for one in objects("games", "--event", "spring", folder=folder))
    renamed = arena("report", match, "--rename", "first", "--yes", folder=folder).stdout
    refused(arena("report", "first", "--rename", "a b", "--yes", folder=folder), "'a b' is not a name for a match")
    refused(arena("report", "spring", "--rename", "spring", "--yes", folder=folder), "'spring' already")
    with Store.of(folder / "results") as store:
        new = event_from_json(store.event("first").plan)
        assert new.event in renamed and {pairing.id for pairing in new.pairings()} == store.ids(new.event)
    refused(arena("report", "first", "--delete", "--yes", folder=folder), f"full id only: {new.event}")
    arena("report", new.event, "--delete", "--yes", folder=folder)
    assert [one["id"] for one in objects("report", "--list", folder=folder)] == ["spring"]
    assert "alphago" not in (folder / "results" / "elo.csv").read_text()


def test_what_scripts_write(folder: Path) -> None:
    assert arena("games", "--csv", "games.csv", folder=folder).stdout == "10 games written to games.csv.\n"
    assert len((folder / "games.csv").read_text().splitlines()) == 11
    arena("report", "league", "--html", "league.html", folder=folder)
    assert (folder / "league.html").exists()
    refused(arena("games", "--sgf", "sgf", "--event", "nosuch", folder=folder), "there is no event 'nosuch'")
    refused(arena("report", "league", "--html", "games.csv/x.html", folder=folder), "games.csv is not a folder")
    assert not (folder / "sgf").exists()


def test_the_games_of_a_folder_are_analysed_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "games").mkdir()
    for name, sgf in (("a", "(;SZ[5];B[cc])"), ("b", "(;SZ[7];B[cc];W[dd])"), ("c", "(;GM[2])")):
        (tmp_path / "games" / f"{name}.sgf").write_text(sgf)
    done = arena("analyze", "games", "--bot", "mcts:playouts=10", "--csv", "tables", folder=tmp_path)
    assert done.returncode == 0 and "c.sgf is left out: not Go" in done.stderr
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == ["a.sgf.csv", "b.sgf.csv"]
