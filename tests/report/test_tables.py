"""Tables, the figures at the end of a match and those of a training run, as they are printed at any width."""

import io
import math
import re

import pyte
import pytest
from helpers.events import store_event
from helpers.games import lines_of, match_of, record_of, whole_match, words_of

from arena.players.player import Player
from arena.report.chart import draw_losses
from arena.report.progress import show_counting, show_training, training_words
from arena.report.style import Console
from arena.report.tables import FactList, bots_table, elo_table, games_table, metrics_table
from arena.report.text import first_sections, title
from arena.results.league import league
from arena.results.store import Store
from trainers.train import Progress


def test_the_end_tells_what_happened() -> None:
    match = match_of(games=8)
    found = match.standings()
    found.add(record for update in whole_match(match) for record in update.records)
    assert title(found) == "alphago beat sl 7-1 in 8 games"
    sections = first_sections(found)
    lines = {label: text for _, body in sections if isinstance(body, FactList) for label, text in body.rows}
    assert re.fullmatch(r"\+338\.0 ± \d+\.\d \(95 %\) for alphago, from 4 openings; LOS 8\d\.\d %", lines["Elo"])
    assert lines["Score"] == "+7 =0 -1, 87.5 %"
    assert lines["By colour"] == "as Black +3 =0 -1 (75.0 %), as White +4 =0 -0 (100.0 %)"
    assert lines["Black"].startswith("scored 37.5 %")
    assert lines["Endings"] == "score 7, 87.5 % (alphago 6, sl 1), crash 1, 12.5 % (alphago 1)"
    assert lines["Length"].startswith("24.0 moves per game") and "Warning" not in lines
    assert lines["Time"].startswith("alphago 0.") and lines["Time"].endswith(" per move")
    (crash,) = (body for name, body in sections if name == "Forfeits")
    assert crash.rows == [(f"{match.event}/00004", "crash", "sl: ValueError: no such point\n")]


@pytest.mark.parametrize(("width", "encoding"), [(40, "utf-8"), (80, "ascii"), (200, "utf-8")])
def test_tables_lose_nothing_on_a_narrow_console_and_ratings_have_a_zero(
    width: int, encoding: str, store: Store
) -> None:
    match = match_of(games=20)
    store_event(store, match, [record_of(match, n, "sl" if n % 5 == 0 else "alphago") for n in range(20)])
    settings = {f"setting_{n}": n for n in range(12)} | {"checkpoint": "net"}
    wide = Player("long-name-of-a-bot", "policy", "bots.policy:BOT", settings, "arena")
    sheets = (bots_table([wide], {}), elo_table(league(store)), games_table(list(store.numbered_games(limit=3)), 20))
    bots, elo, _ = ["".join(lines_of(sheet, width, 40, encoding=encoding)) for sheet in sheets]
    assert "…" not in bots + elo and "long-name-of-a-bot" in "".join(bots.split())
    words = words_of(lines_of(sheets[1], 100, 40))
    assert re.search(r"1 alphago \+\d+\.\d ± \d+\.\d 20 80\.0 % 2 sl 0 20 20\.0 %", words)
    assert "Elo above sl, with 95 % intervals from 10 openings." in words


def test_the_figures_of_a_training_run_are_all_there() -> None:
    screen, shown = pyte.Screen(40, 24), io.StringIO()
    progress = Progress(1, 123_456, 1_234.5, 2.345, 0.456, 12.3, 0.01)
    console = Console(file=shown, force_terminal=True, width=40)
    with show_training("sl-9x9", training_words("top-1"), console) as on_progress:
        on_progress(progress)
    pyte.Stream(screen).feed(shown.getvalue().replace("\n", "\r\n"))
    text = " ".join(" ".join(screen.display).split())
    for words in ("123,456 rows", "1,234/s", "loss 2.345", "top-1 45.6%", "waiting for data 1%", "12 min left"):
        assert words in text
    assert "-:--" not in text


def test_the_loss_curve_is_drawn_a_few_times_a_second_without_losses_that_are_not_finite() -> None:
    """It was drawn at every step: up to 1.4 ms of the thread that launches kernels."""
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80, height=40)
    with show_training("net", training_words("top-1"), console) as on_progress:
        for step in range(1, 5001):
            on_progress(Progress(step, step, 1.0, 1 / step if step % 2 else math.nan, 0.5, 0.5, 0.01))
    assert shown.getvalue().count("top-1 50.0%") < 500 and "30 s left" in shown.getvalue()
    assert not draw_losses([1.0], 80, 9) and "0.500" in draw_losses([1.0, 0.5], 80, 9)[-3].plain


def test_the_metrics_of_a_checkpoint_have_titles_and_those_of_the_net_it_began_with() -> None:
    metrics = {
        "test_top1": 0.452,
        "start_test_top1": 0.4,
        "test_brier": 0.1,
        "validation_top1": 1.0,
        "share_against_mcts": 0.7,
    }
    metrics |= {"share_games": 400.0, "test_positions": 9e4}
    rows = [("top-1", "45.2%", "40.0%"), ("ownership: Brier", "0.100", ""), ("share against mcts", "70.0%", "")]
    assert metrics_table(metrics, "test_").rows == rows and not metrics_table({"steps": 9.0}, "None_").rows


def test_a_name_with_brackets_is_text_beside_a_bar() -> None:
    shown = io.StringIO()
    with show_counting("net[/red]", 10, Console(file=shown, force_terminal=True, width=80)) as on_progress:
        on_progress(3)
    assert "net[/red]" in shown.getvalue()
