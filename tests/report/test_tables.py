"""Tables, labelled facts, words and numbers, as they are printed at any width."""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyte
import pytest
from played import lines_of, match_of, record_of, records_of, whole_match, words_of
from rich.cells import cell_len

from arena.go.game import Ending
from arena.go.record import GameRecord
from arena.match.schedule import Match
from arena.match.standings import Standings
from arena.players.player import Player
from arena.ratings import Estimate
from arena.report import style
from arena.report.progress import show_training, training_words
from arena.report.style import Console
from arena.report.tables import Facts, Sheet, bots_table, elo_table, games_table
from arena.report.text import first_sections, title
from arena.results.league import league
from arena.results.store import Store
from trainers.progress import Progress


def test_a_table_in_a_pipe_has_a_line_for_each_row_however_long() -> None:
    row = ("a", "word " * 40 + "end", "7")
    shown = io.StringIO()
    Console(file=shown, width=40).print(Sheet(("name", "what", "n"), [row, row], "x" * 100, flexible=(1,)))
    lines = [line.split() for line in shown.getvalue().splitlines()]
    assert lines == [["name", "what", "n"], lines[1], *[" ".join(row).split()] * 2, [], ["x" * 100]]


def standings_of(match: Match, *records: GameRecord) -> Standings:
    standings = match.standings()
    standings.add(records)
    return standings


def facts_of(found: Standings) -> dict[str, str]:
    """The labelled lines of what is shown at the end."""
    bodies = [body for _, body in first_sections(found)]
    return {label: text for body in bodies if isinstance(body, Facts) for label, text in body.rows}


def test_the_end_tells_what_happened():
    match = match_of(games=8)
    found = standings_of(match, *(record for update in whole_match(match) for record in update.records))
    lines = facts_of(found)
    assert re.fullmatch(r"\+338 \(-\d+ to \+\d+\) \(95 %\) for alphago, from 4 pairs; LOS 9\d\.\d %", lines["Elo"])
    assert lines["Score"] == "+7 =0 -1, 87.5 %"
    assert lines["By colour"] == "as Black +3 =0 -1 (75.0 %), as White +4 =0 -0 (100.0 %)"
    assert lines["Black"].startswith("scored 37.5 %")
    assert lines["Endings"] == "score 7, 87.5 % (alphago 6, sl 1), crash 1, 12.5 % (alphago 1)"
    assert lines["Length"].startswith("24.0 moves per game") and "Warning" not in lines
    assert lines["Time"].startswith("alphago 0.") and lines["Time"].endswith(" per move")
    (crash,) = (body for name, body in first_sections(found) if name == "Forfeits")
    assert crash.rows == [(f"{match.event}/00004", "crash", "sl: ValueError: no such point\n")]


def test_the_headline_is_of_the_first_player_and_the_first_forfeits_are_listed():
    match = match_of(games=8)
    games = [record_of(match, n, winner) for n, winner in enumerate(("alphago", "alphago", "sl", None, "sl", "sl"))]
    assert title(standings_of(match, *games[:4])) == "alphago beat sl 2.5-1.5 in 4 games"
    assert title(standings_of(match, *games)) == "alphago lost to sl 2.5-3.5 in 6 games"
    assert title(standings_of(match, *records_of(match, range(2), None))) == "alphago and sl drew 1-1 in 2 games"
    found = standings_of(match, *(record_of(match, n, "sl", Ending.ILLEGAL, f"alphago: {n}") for n in range(8)))
    forfeits = first_sections(found)[-1][1]
    assert [row[2] for row in forfeits.rows] == [f"alphago: {n}" for n in range(5)]
    assert forfeits.note.startswith("And 3 more forfeits.")


def test_the_table_of_bots_has_nets_ratings_and_what_was_changed():
    plain = Player("fast-random", "fast-random", "bots.fast_random:BOT", {}, "arena")
    net = Player("sl", "policy", "bots.policy:BOT", {"checkpoint": "sl-9x9", "temperature": 0.5}, "arena", "ab")
    ratings = {plain.identity: Estimate(910.0, 223.0, None)}
    rows = [line.split() for line in lines_of(bots_table([plain, net], ratings), 100, 40)]
    assert ["fast-random", *plain.bot_kind.summary.split(), "+910", "(+223", "to", "∞)"] in rows
    assert ["sl", "policy:", "temperature=0.5", "sl-9x9"] in rows


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    match = match_of(games=20)
    with Store.open(tmp_path / "arena.db", write=True) as opened:
        opened.add_players({"A": Player("alphago", "alphago"), "S": Player("sl", "policy")})
        ids = {"alphago": "A", "sl": "S"}
        for number in range(20):
            record = record_of(match, number, "sl" if number % 5 == 0 else "alphago")
            opened.append([replace(record, black_player=ids[record.black], white_player=ids[record.white])])
        yield opened


def test_a_game_is_one_line_with_number_date_result_and_how_it_ended():
    match = match_of(games=4)
    records = [record_of(match, 0, "sl", Ending.RESIGN), record_of(match, 2, "sl", Ending.CRASH, "alphago: broke")]
    games = [(number, replace(record, date="2026-11-24")) for number, record in enumerate(records, 7)]
    words = words_of(lines_of(games_table(games, 340), 80, 40))
    assert "7 2026-11-24 alphago sl W+R 24 resign 8 2026-11-24 alphago sl W+F 24 crash" in words
    assert "2 of 340 games. 'arena show 7' opens the first." in words
    assert "no such games" in words_of(lines_of(games_table([], 0), 80, 40))


@pytest.mark.parametrize(("width", "encoding"), [(40, "utf-8"), (80, "ascii"), (200, "utf-8")])
def test_tables_lose_nothing_on_a_narrow_console_and_ratings_have_a_zero(width: int, encoding: str, store: Store):
    settings = {f"setting_{n}": n for n in range(12)}
    wide = Player("long-name-of-a-bot", "policy", "bots.policy:BOT", settings | {"checkpoint": "net"}, "arena")
    sheets = (bots_table([wide], {}), elo_table(league(store)), games_table(list(store.numbered_games(limit=3)), 20))
    bots, elo, _ = ["".join(lines_of(sheet, width, 40, encoding=encoding)) for sheet in sheets]
    assert "…" not in bots + elo and "long-name-of-a-bot" in "".join(bots.split())
    words = words_of(lines_of(sheets[1], 100, 40))
    assert re.search(r"1 alphago \+\d+ \(\+\d+ to \+\d+\) 20 80\.0 % 2 sl 0 20 20\.0 %", words)
    assert "Elo above sl, with 95 % intervals; 0.2 virtual games a player" in words
    assert "arena match" in words_of(lines_of(elo_table(None), 80, 40))


def test_words_and_numbers_read_well():
    names = (("sl", 2, "sl"), ("mcts:playouts=1000", 11, "mcts:…=1000"), ("碁碁碁碁", 5, "碁…碁"), ("abc", 1, "…"))
    for name, width, short in (*names, ("abc", 0, "")):
        assert style.shorten(name, width) == short and cell_len(short) <= width
    assert [style.duration(n) for n in (0.4, 42, 725, 11045)] == ["0:00", "0:42", "12:05", "3:04:05"]
    seconds = {None: "–", 0.00001: "< 0.1 ms", 0.0021: "2.1 ms", 0.5: "0.50 s", 61.24: "61.24 s"}
    assert {number: style.seconds(number) for number in seconds} == seconds
    assert [style.likelihood(p) for p in (1.0, 0.9996, 0.975, 0.0)] == ["> 99.9 %", "> 99.9 %", "97.5 %", "< 0.1 %"]
    assert style.sparkline([0.9, 0.0, 0.5, 1.0], 3) == "▁▅█" and style.sparkline([], 5) == ""
    assert style.spell("a\x1b[31mb\nc") == "a [31mb c"


def test_the_figures_of_a_training_run_are_all_there() -> None:
    width, screen = 40, pyte.Screen(40, 24)
    shown = io.StringIO()
    progress = Progress(1, 123_456, 1_234.5, 2.345, 0.456, 12.3, 0.01)
    with show_training(
        "sl-9x9", training_words("top-1"), Console(file=shown, force_terminal=True, width=width)
    ) as on_progress:
        on_progress(replace(progress, loss=1.5))
        on_progress(progress)
    pyte.Stream(screen).feed(shown.getvalue().replace("\n", "\r\n"))
    text = " ".join(" ".join(screen.display).split())
    assert "sl-9x9" in text
    for words in ("123,456 rows", "1,234/s", "loss 2.345", "top-1 45.6%", "waiting for data 1%", "12 min left"):
        assert words in text
    assert "2.345│" in text and "1.500│" in text  # the curve of the loss
