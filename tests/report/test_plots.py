"""Pictures of ratings: in the terminal, as SVG in a page that needs nothing else; and the page itself."""

import json
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

from played import lines_of
from rich.console import Group
from stored_events import earlier_wins, finished, games_of, player, store_event

from arena.go.game import Ending, Rules
from arena.go.sgf import write_sgf
from arena.match.schedule import Match, Terms, Tournament
from arena.ratings import Estimate
from arena.report.chart import draw_course
from arena.report.page import render_page, write_page
from arena.results.league import EMBEDDED, Moment, Report, last_games, read_report
from arena.results.store import Store

RULES = Rules.preset("cgos", 7)
NASTY = '<b>x</b> & $y "z" 碁'


def report_of(store: Store, *names: str, games_each: int = 10) -> Report:
    league = Tournament("league", tuple(map(player, names)), Terms(RULES), games_each)
    store_event(store, league, games_of(league, earlier_wins(league)))
    return read_report(store)


def drawn(moments: list[Moment], names: list[str], width: int = 80) -> list[str]:
    return lines_of(Group(*draw_course(moments, names, width, 14)), width, 40)


def known(value: float, half: float) -> Estimate:
    return Estimate(value, value - half, value + half)


def test_a_course_has_a_sign_for_each_player_and_a_band_for_a_single_one() -> None:
    moments = [Moment(games, {"a": known(200, 50), "b": known(100 * games / 30, 50)}) for games in (10, 20, 30)]
    lines = drawn(moments, ["a", "b", "zero"])
    height_of = {mark: next(row for row, line in enumerate(lines) if mark in line.partition("│")[2]) for mark in "12"}
    assert height_of["1"] < height_of["2"] and lines[-1] == "1 a  2 b" and "░" not in "".join(lines)
    swept = [Moment(games, {"a": Estimate(50.0 * games, 10.0 * games, None)}) for games in (1, 5, 10)]
    lines = drawn(swept, ["a", "zero"])  # its band is open above
    assert "░" in lines[0] and any("●" in line for line in lines)
    assert drawn([], ["a", "zero"]) == ["Nobody is rated yet."]
    long = {NASTY: known(100, 50), "mcts:playouts=5000,c_uct=0.9@seconds=1": known(50, 50)}
    assert any("1" in line for line in drawn([Moment(1, long), Moment(9, long)], [*long, "c"], 40))


# --- The page ---


def text_of(html: str) -> str:
    """What a page says, without its tags."""
    return unescape(re.sub("<[^>]*>", "", html))


def test_a_page_needs_nothing_else(store: Store, tmp_path: Path) -> None:
    report = report_of(store, "a", "b", "c")
    path = write_page(report, last_games(store, report.event), tmp_path / "deep" / "league.html")
    assert list(path.parent.iterdir()) == [path]
    html = path.read_text("utf-8")
    assert not re.search("<(img|iframe|object)|@import", html)
    assert not re.sub(r"url\((#|%23|[\"']?data:)", "", html).count("url(")
    assert {found for found in re.findall(r"https?://[\w.]+", html)} <= {"http://www.w3.org"}  # names, not addresses
    assert all(link.startswith(("#", "data:")) for link in re.findall(r'<\w+[^>]* (?:src|href)="([^"]*)', html))
    assert "prefers-color-scheme: dark" in html and "width=device-width" in html


def test_plots_take_the_pages_colour_and_draw_a_sweep_with_an_open_end(store: Store) -> None:
    match = Match(player(NASTY), player("plain"), Terms(RULES), 10)
    store_event(store, match, games_of(match, lambda pairing: NASTY))
    html = render_page(read_report(store), [])
    intervals, course = (ElementTree.fromstring(svg) for svg in re.findall("<svg role.*?</svg>", html, re.DOTALL))
    tips = [[title.text for title in svg.iter("title")] for svg in (intervals, course)]
    assert f"{NASTY}: +802 (+63 to ∞) in 10 games" in tips[0] and "▸" in "".join(intervals.itertext())
    assert f"{NASTY} after 10 games: +802 (+63 to ∞)" in tips[1]
    assert intervals.get("role") == "img" and intervals.get("fill") == "currentColor" and "nan" not in html


def test_names_and_reasons_are_text_in_a_page_and_no_folder_of_this_machine_is_named(store: Store) -> None:
    league = Tournament("league", (player(NASTY), player("net:checkpoint=/home/ada/nets/strong")), Terms(RULES), 4)
    records = games_of(league, earlier_wins(league))
    pairing = league.pairings()[0]
    reason = "<script>alert(1)</script> \x1b[31m ~/bin/engine and C:\\go\\bot.exe"
    records[0] = finished(league, pairing, pairing.black, Ending.CRASH, reason=reason)
    store_event(store, league, records)
    report = read_report(store)
    html = render_page(report, last_games(store, report.event))
    found = text_of(html)
    assert "<b>" not in html and "<script>alert" not in html and "\x1b" not in html
    assert NASTY in found and "<script>alert(1)</script>" in found and "checkpoint=strong" in found
    assert "/home" not in html and "~/bin" not in html and "C:\\" not in html


def test_a_page_has_the_report_the_players_and_the_last_games(store: Store) -> None:
    store_event(store, Match(player("a"), player("b"), Terms(RULES), 10))
    empty = read_report(store)
    assert "<svg role" not in render_page(empty, []) and "no game is finished yet" in render_page(empty, [])
    report = report_of(store, "a", "b", games_each=EMBEDDED + 2)
    html = render_page(report, last_games(store, report.event))
    found = text_of(html)
    for words in ("Standings", "Points", "Who is stronger", "Endings", "Time", "Players", "name=a"):
        assert words in found
    assert html.count("<svg role") == 2 and re.search(r"<title>a: \+.+ in 202 games</title>", html)
    assert f"The last {EMBEDDED} of {EMBEDDED + 2} games." in found and "arena games --event league --sgf" in found
    games = [json.dumps(write_sgf(game)) in html for game in store.games(event="league")]
    assert games == [False, False, *[True] * EMBEDDED]
