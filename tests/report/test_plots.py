"""Pages of an event or a training run: plots as SVG, the report, the games; and that they need nothing else."""

import json
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

from helpers.commandline import arena, refused
from helpers.events import earlier_wins, finished, games_of, player, store_event
from rich.cells import cell_len

from arena.go.game import Ending, Rules
from arena.go.sgf import write_sgf
from arena.match.schedule import Match, Terms, Tournament
from arena.ratings import EloEstimate
from arena.report.chart import draw_course
from arena.report.page import LONGEST_NAME, render_page, write_page
from arena.results.league import EMBEDDED, EventReport, RatingPoint, last_games, read_report
from arena.results.store import Store
from trainers.ratings import Rating, write_rating
from trainers.settings import METRICS_FILE, choose_preset, write_file

RULES = Rules.preset("cgos", 7)
NASTY = '<b>x</b> & $y "z" 碁'


def move_report(store: Store, *names: str, games_each: int = 10) -> EventReport:
    league = Tournament("league", tuple(map(player, names)), Terms(RULES), games_each)
    store_event(store, league, games_of(league, earlier_wins(league)))
    return read_report(store)


def plots_of(html: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall("<svg role.*?</svg>", html, re.DOTALL)]


def test_a_page_needs_nothing_else(store: Store, tmp_path: Path) -> None:
    report = move_report(store, "a", "b", "c")
    html = write_page(report, last_games(store, report.event), tmp_path / "deep" / "page.html").read_text("utf-8")
    assert not re.search("<(img|iframe|object)|@import", html)
    assert not re.sub(r"url\((#|%23|[\"']?data:)", "", html).count("url(")
    assert {found for found in re.findall(r"https?://[\w.]+", html)} <= {"http://www.w3.org"}  # names, not addresses
    assert all(link.startswith(("#", "data:")) for link in re.findall(r'<\w+[^>]* (?:src|href)="([^"]*)', html))


def test_plots_take_the_pages_colour_and_draw_a_sweep_with_an_open_end(store: Store) -> None:
    match = Match(player(NASTY), player("plain"), Terms(RULES), 10)
    store_event(store, match, games_of(match, lambda pairing: NASTY))
    html = render_page(read_report(store), [])
    intervals, course = plots_of(html)
    assert f"{NASTY}: +830 (-15 to ∞) in 10 games" in [title.text for title in intervals.iter("title")]
    assert f"{NASTY} after 10 games: +830 (-15 to ∞)" in [title.text for title in course.iter("title")]
    assert intervals.get("fill") == "currentColor" and "nan" not in html


def test_a_drawn_curve_has_a_colour_a_sign_and_the_last_interval_of_each_player() -> None:
    for count in (3, 40):
        elo = {f"bot {n}": EloEstimate(50.0 * n, 50.0 * n - 20, None) for n in range(count)}
        lines = draw_course([RatingPoint(games, elo) for games in (10, 20)], [*elo], 120, 30)
        drawn = "\n".join(line.plain for line in lines)
        assert all(name in lines[-1].plain for name in elo) and drawn.count("3") > 10
        assert len({span.style for line in lines for span in line.spans} - {"", "not dim", "dim"}) == min(6, count)
        assert (max(line.plain.count("│") for line in lines) > 3) is (count == 3)


def test_long_wide_names_fit_beside_their_intervals_and_scales_have_whole_numbers(store: Store) -> None:
    name = f"{'碁' * 40}:visits=200"
    match = Match(player(name), player("plain"), Terms(RULES), 2)
    store_event(store, match, games_of(match, lambda pairing: pairing.black))
    plots = plots_of(render_page(read_report(store), []))
    intervals, course = ([text.text or "" for text in plot.iter("text")] for plot in plots)
    (shown,) = (words for words in intervals if "碁" in words)
    assert cell_len(shown) <= LONGEST_NAME and shown.endswith("visits=200")
    assert [words for words in course if words.isdigit()][:4] == ["0", "0", "1", "2"]


def test_names_and_reasons_are_text_in_a_page_and_no_folder_of_this_machine_is_named(store: Store) -> None:
    league = Tournament("league", (player(NASTY), player("net:checkpoint=/home/ada/nets/strong")), Terms(RULES), 4)
    records = games_of(league, earlier_wins(league))
    pairing = league.pairings()[0]
    reason = "<script>alert(1)</script> \x1b[31m ~/bin/engine and C:\\go\\bot.exe"
    records[0] = finished(league, pairing, pairing.black, Ending.CRASH, reason=reason)
    store_event(store, league, records)
    report = read_report(store)
    html = render_page(report, last_games(store, report.event))
    found = unescape(re.sub("<[^>]*>", "", html))
    assert "<b>" not in html and "<script>alert" not in html and "\x1b" not in html
    assert NASTY in found and "<script>alert(1)</script>" in found and "checkpoint=strong" in found
    assert "/home" not in html and "~/bin" not in html and "C:\\" not in html


def test_a_page_has_the_report_the_players_and_the_last_games(store: Store) -> None:
    store_event(store, Match(player("a"), player("b"), Terms(RULES), 10))
    empty = read_report(store)
    assert "<svg role" not in render_page(empty, []) and "no game is finished yet" in render_page(empty, [])
    report = move_report(store, "a", "b", games_each=EMBEDDED + 2)
    html = render_page(report, last_games(store, report.event))
    for words in ("Standings", "Points", "Who is stronger", "Endings", "Time", "Settings of the players", "name=a"):
        assert words in html
    assert html.count("<svg role") == 2 and re.search(r"<title>a: \+.+ in 202 games</title>", html)
    assert f"The last {EMBEDDED} of {EMBEDDED + 2} games." in html and "arena games --event league --sgf" in html
    games = [json.dumps(write_sgf(game)) in html for game in store.games(event="league")]
    assert games == [False, False, *[True] * EMBEDDED]


# --- A training run ---


def test_a_page_has_losses_held_out_figures_and_ratings_of_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "training" / "<mine>"
    write_file(choose_preset("zero", "cpu"), folder)
    rows = [{"step": step, "rows": 9 * step, "minutes": 1.5, "loss": 4 / step, "size": 9} for step in (1, 2, 4)]
    rows[1] |= {"validation_top1": 0.25, "validation_value_loss": 0.7, "validation_value_floor": 0.69}
    rows[2] |= {"validation_top1": 0.5, "validation_value_loss": 0.6, "validation_value_floor": 0.69}
    log = folder / METRICS_FILE
    log.write_text("".join(json.dumps(row) + "\n" for row in rows) + '[1]\n{"step": 5, "lo')
    write_rating(folder, Rating(2, "random", 20, 0.75, 0.6, 0.9))
    write_rating(folder, Rating(4, "step 2", 20, 0.5, 0.3, 0.7))
    assert arena("report", "--training", "<mine>", "--html", "m.html", folder=tmp_path).stdout == "Written to m.html.\n"
    html = (tmp_path / "m.html").read_text("utf-8")
    plots = plots_of(html)
    assert [plot.get("aria-label") for plot in plots] == [
        "Elo over the steps; 0 is random",
        "training, loss: 1",
        "held-out games, top-1: 50.0%",
        "held-out games, result: loss (nats): 0.600; grey: the best constant",
    ]
    loss, _, value = [[one.get("points") for one in plot.iter("polyline")] for plot in plots[1:]]
    assert loss == ["148.0,10.0 236.0,90.0 412.0,130.0", ""] and value[1] == "236.0,22.0 412.0,22.0"
    assert "Training run &lt;mine&gt;" in html and "step 2" in html and "arena-" in html
    sizes = [float(size) for plot in plots for size in [plot.get("font-size")] if size]
    assert min(sizes) * 380 / 420 >= 11  # in pixels, on a page that is 400 wide


def test_a_run_that_is_not_there_and_other_options_are_refused(tmp_path: Path) -> None:
    typed = ("report", "--training", "none")
    refused(arena(*typed, "--html", "m.html", folder=tmp_path), "there is no training run 'none'")
    for wrong in ((), ("--html", "m.html", "--json"), ("--html", "m.html", "league")):
        refused(arena(*typed, *wrong, folder=tmp_path), "--training NAME takes --html FILE")
