"""What a whole event comes to: from the store to figures, to frames and CSV, to words in any terminal."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.commandline import arena, refused
from helpers.events import earlier_wins, finished, games_of, store_event
from helpers.games import console_of, match_of, output_of, tournament_of

from arena import StoreError
from arena.contract.limits import Limits
from arena.go.game import Ending
from arena.match.runner import Control, Update, play_event
from arena.match.schedule import Match
from arena.match.standings import rated_places
from arena.ratings import PairCounts, Sprt, compare
from arena.ratings.elo import EloEstimate
from arena.report.tables import Table
from arena.report.text import print_report, sections
from arena.results.event_state import EventState
from arena.results.export import write_elo_csv
from arena.results.league import league as league_of_pool
from arena.results.league import player_ratings, read_report
from arena.results.store import Store


def test_a_matchs_elo_comes_from_its_pairs_and_a_tournaments_from_its_league(store: Store) -> None:
    match, league = match_of("new", "old", 20), tournament_of("a", "b", "c", games_each=20)
    for event in (match, league):
        store_event(store, event, games_of(event, earlier_wins(event)))
    report, counts = read_report(store, match.event), PairCounts(0, 0, 4, 0, 6)
    first, second = report.places
    assert (report.kind, report.planned, report.games) == ("match", 20, 20)
    assert (first.name, first.games, first.score) == ("new", 20, 0.8) and first.elo == pytest.approx(
        compare(counts).elo
    )
    assert (second.name, second.elo.value) == ("old", 0)  # type: ignore[union-attr]
    assert report.los("new", "old") == pytest.approx(compare(counts).los)
    assert report.los("old", "new") == pytest.approx(1 - compare(counts).los)
    report = read_report(store, "league")
    assert (report.anchor, report.planned, report.places[0].score) == ("", 60, 0.8) and report.league is not None
    elo = {place.name: place.elo for place in report.places}
    assert elo == report.league.estimates == report.course[-1].elo
    assert sum(one.value for one in report.league.estimates.values()) == pytest.approx(0)
    assert report.los("a", "c") > 0.95 and report.los("a", "a") is None  # type: ignore[operator]


def test_faults_are_pointed_out_and_games_played_on_that_ended_otherwise_are_counted(store: Store) -> None:
    league = tournament_of("rock", "paper", games_each=20)
    records, pairing = games_of(league, earlier_wins(league)), league.pairings()[5]
    records[5] = finished(league, pairing, pairing.black, Ending.CRASH, reason=f"{pairing.white}: broke")
    records[:6] = [replace(game, adjudged=game.outcome and game.outcome.winner) for game in records[:6]]
    records[6] = replace(records[6], adjudged=records[6].outcome.winner.opponent)  # type: ignore[union-attr]
    store_event(store, league, records)
    print_report(read_report(store), console := console_of(200, 50, terminal=False))
    text = output_of(console)
    assert f"{pairing.white}: broke" in text and f"arena show {pairing.id}" in text
    assert f"crash 1, 5.0 % ({pairing.black} 1)" in text
    assert "6 games played to the end after adjudication, 1 with another winner" in text


def test_two_players_of_a_tournament_have_one_elo_from_their_pairs_everywhere(store: Store) -> None:
    league = tournament_of("a", "b", games_each=30)
    store_event(store, league, games_of(league, earlier_wins(league)))
    report = read_report(store)
    (tally,) = report.tallies
    elo, comparison = {place.name: place.elo for place in report.places}, compare(tally.counts)
    assert elo[tally.second] == EloEstimate(0.0, 0.0, 0.0) and elo[tally.first] == pytest.approx(comparison.elo)
    assert report.los(tally.first, tally.second) == pytest.approx(comparison.los)
    assert league_of_pool(store).estimates == elo  # type: ignore[union-attr]


def test_a_lead_is_marked_as_shown_only_with_the_number_of_pairs_in_mind(store: Store) -> None:
    """Of 28 pairs of equal players one or two have a likelihood of superiority above 97.5 % by chance."""
    league = tournament_of(*"abcd", games_each=60)
    store_event(store, league, games_of(league, earlier_wins(league, upsets=3)))
    report = read_report(store)
    los = sections(report)[-1][1]
    assert isinstance(los, Table) and "6 pairs are compared" in los.note
    names = [place.name for place in report.places]
    cells = {(row[1], other): cell for row in los.rows for other, cell in zip(names, row[2:], strict=True)}
    for (name, other), cell in cells.items():
        chance = report.los(name, other)
        assert cell.endswith("*") == (chance is not None and chance > 1 - 0.025 / 6)
    assert any(cell.endswith("*") for cell in cells.values())


# --- The pool ---


def fill(store: Store, first: str, second: str, games: int, upsets: int) -> Match:
    """Store a match in which ``second`` wins every game whose place divides by ``upsets``, or none if that is 1."""
    match = match_of(first, second, games)
    store_event(store, match, games_of(match, earlier_wins(match, upsets)))
    return match


def test_ratings_are_relative_to_the_mean_of_those_who_have_beaten_each_other(store: Store, tmp_path: Path) -> None:
    for first, second, games, upsets in (("strong", "middle", 40, 4), ("middle", "weak", 40, 4), ("weak", "x", 20, 1)):
        fill(store, first, second, games, upsets)
    found = league_of_pool(store)
    assert found is not None and [*found.zero] == ["middle", "strong", "weak"]
    places = rated_places(found)
    assert [one.name for one in places] == ["strong", "middle", "weak", "x"]
    assert [(one.games, one.score) for one in places] == [(40, 0.75), (80, 0.5), (60, 0.5), (20, 0.0)]
    strong, middle, weak, hopeless = (one.elo for one in places)
    assert strong.value == pytest.approx(190, abs=10) and weak.value == pytest.approx(-190, abs=10)
    assert strong.low < strong.value < strong.high and middle.low < 0 < middle.high
    assert hopeless.value < hopeless.high < weak.value and hopeless.low is None
    write_elo_csv(store, path := tmp_path / "out" / "elo.csv")
    assert [line.split(",")[5] for line in path.read_text("utf-8").splitlines()[1:]] == [one.name for one in places]
    with pytest.raises(StoreError, match=r"^[^\n]*can't be written[^\n]*$"):
        write_elo_csv(store, path / "elo.csv")


def test_players_of_one_name_are_told_apart_and_games_of_a_player_with_itself_rate_nobody(store: Store) -> None:
    itself = match_of("bot", "bot (2)", 2)
    records = games_of(itself, earlier_wins(itself))
    store.append([replace(record, black_player="id-bot", white_player="id-bot") for record in records])
    assert player_ratings(store) == (None, {}) and league_of_pool(store) is None
    bot, rival = fill(store, "bot", "rival", 10, 3).players.values()
    other = fill(store, "other", "rival", 10, 3).first
    store.add_players({other.identity: replace(other, name="bot")})
    found = {f"bot ({one.identity[:6]})" for one in (bot, other)} | {"rival"}
    assert {*league_of_pool(store).players} == found  # type: ignore[union-attr]
    assert player_ratings(store)[1].keys() == {bot.identity, other.identity, rival.identity}


# --- Every form ---

MATCH = match_of("a", "b", 60)
ENDS = {
    "planned": (MATCH, 60, True),
    "stopped": (MATCH, 31, False),
    "raised -n": (replace(MATCH, grown=True), 60, False),
    "accepted": (replace(MATCH, test=Sprt(0, 100)), 60, False),
    "undecided": (replace(MATCH, test=Sprt(0, 100), games=8), 8, False),
    "league": (tournament_of("a", "b", "c", games_each=20), 60, True),
    "stopped league": (tournament_of("a", "b", "c", games_each=20), 31, False),
    "grown league": (replace(tournament_of("a", "b", "c", games_each=20), grown=True), 60, False),
}
"""Events, their games, and whether they ended as they were planned."""


@pytest.mark.parametrize("name", ENDS)
def test_one_elo_stands_in_every_form_and_only_a_planned_end_has_the_ordinary_interval(
    name: str, tmp_path: Path
) -> None:
    event, games, is_final = ENDS[name]
    records = games_of(event, earlier_wins(event))[:games]
    with Store.of(tmp_path / "results", write=True) as store:
        store_event(store, event, records)
        nothing = EventState(event)  # of a command that plays nothing, as all is stored
        for update in play_event(event, store, 1, Control(finishing=True)):
            nothing.add(update)
    (state := EventState(event)).add(Update(tuple(records)))
    for screen in (state, nothing):
        screen.pause(False, finished=True)
    assert nothing.standings.places == state.standings.places
    places = state.standings.places
    estimates = {one.name: str(one.elo) for one in places}
    assert state.standings.is_final is is_final
    text = arena("report", "--html", "page.html", "--csv", ".", folder=tmp_path).stdout
    rated = arena("elo", "--csv", "elo.csv", folder=tmp_path).stdout
    line = json.loads(arena("report", "--json", folder=tmp_path).stdout)
    tables = ["".join((tmp_path / table).read_text("utf-8")) for table in ("elo.csv", "standings.csv", "page.html")]
    for form in (rated, *tables, text if len(places) > 2 else rated):
        for estimate in estimates.values():
            assert estimate in form
    assert {row["player"]: row["estimate"] for row in line["standings"]} == estimates and line["is_final"] is is_final
    assert ("LOS" in text) is is_final and any(line["los"].values()) is is_final
    if len(places) == 2:
        low, high = (end and round(end, 1) for end in state.standings.anytime("a", "b"))
        (row,) = (row for row in line["standings"] if row["player"] == "a")
        assert f"Elo        {estimates['a']} (95 %{'' if is_final else ', valid whenever you stop'}) for a" in text
        assert (row["anytime_low"], row["anytime_high"]) == (low, high) and [low, high] == line["anytime"]["a"]["b"]
        assert row["low"] > row["anytime_low"] or games < 30
    else:
        assert ("provisional" in text, "provisional" in rated) == (not is_final, not is_final)


def test_a_test_that_accepts_beside_an_interval_below_0_is_explained(store: Store) -> None:
    match = replace(match_of("a", "b", 60), test=Sprt(0, 300, 0.2, 0.2))
    store_event(store, match, games_of(match, earlier_wins(match, upsets=4)))
    print_report(read_report(store), console := console_of(200, 50, terminal=False))
    assert "accepted: a is stronger by 300 Elo" in output_of(console)
    assert "the interval has all differences that they allow" in output_of(console)


def test_limits_that_are_not_kept_and_games_lost_on_time_are_pointed_out(store: Store) -> None:
    match = match_of("a", "b", 20)
    first, second = (replace(player, limits=Limits(seconds=0.05)) for player in (match.first, match.second))
    match = replace(match, first=first, second=second)
    times = {"a": {"black_seconds": 2.0, "white_seconds": 0.1}}
    times["b"] = {"black_seconds": 0.1, "white_seconds": 2.0, "black_late": 1}
    games = [replace(game, **times[game.black]) for game in games_of(match, earlier_wins(match))]
    games[4] = finished(match, match.pairings()[4], "a", Ending.TIME, reason="b: out of time")
    store_event(store, match, games)
    print_report(read_report(store), console := console_of(200, 50, terminal=False))
    text = output_of(console)
    assert "a uses 0.20 s per move, and its limit is 50.0 ms" in text
    assert re.search(r"b exceeds its limit of 50.0 ms by a fifth or more in \d\.\d % of its moves", text)
    assert "5.0 % of the games were lost on time: the machine may be too busy" in text


def test_the_command_reports_the_last_event_lists_all_writes_all_forms_and_refuses_in_one_line(tmp_path: Path) -> None:
    league, match = tournament_of("a", "b", "c", games_each=4), match_of("new", "old", 6)
    with Store.of(tmp_path / "results", write=True) as store:
        for event in (match, league):
            store_event(store, event, games_of(event, earlier_wins(event)))
    text = arena("report", folder=tmp_path, columns=120).stdout
    assert text.startswith("This is the last event") and "league: a is first after 12 games" in text
    listed = arena("report", "--list", folder=tmp_path, columns=120).stdout
    assert re.search(rf"{match.event} +match +new, old +6/6 ", listed) and re.search(r"league .* 12/12 ", listed)
    done = arena("report", match.event[:7], "--html", "page.html", "--csv", "tables", folder=tmp_path)
    assert re.match("new beat old", done.stdout) and "<svg" in (tmp_path / "page.html").read_text("utf-8")
    written = re.findall(r"^Written to (.*)\.$", done.stdout, re.MULTILINE)
    assert set(written) == {"tables/standings.csv", "tables/crosstable.csv", "page.html"}
    assert (tmp_path / written[1]).read_text("utf-8").splitlines()[1] == "new,old,6,5,0,1,5.0"
    refused(arena("report", "leage", folder=tmp_path), "there is no event 'leage'", "there are league")
    refused(arena("report", "league", "--html", "page.html/x", folder=tmp_path), "can't be written")
    refused(arena("report", "--results", "none", folder=tmp_path), "no results", "arena match")


@pytest.mark.parametrize(("openings", "plies"), [(5, 4), (0, 0)])
def test_few_openings_are_pointed_out_whatever_made_them_few(openings: int, plies: int, store: Store) -> None:
    """The warning said "use --openings 0" where that was set, and games began on the empty board."""
    match = match_of("a", "b", 60)
    match = replace(match, terms=replace(match.terms, openings=openings, plies=plies, book=()))
    games = games_of(match, earlier_wins(match))
    if not plies:  # all begin with the same moves
        games = [replace(game, moves=games[0].moves, opening=0) for game in games]
    store_event(store, match, games)
    print_report(read_report(store), console := console_of(200, 50, terminal=False))
    text = output_of(console)
    assert f"only {'5 different openings' if openings else '1 different opening'} in 60 games; intervals count" in text
    assert "More openings (--openings, --plies, --book)" in text and "--openings 0" not in text
    assert re.search(r"Normalised +[+-]\d+\.\d nElo: ", text)  # its interval would count pairs
