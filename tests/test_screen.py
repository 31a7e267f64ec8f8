"""The screen shows what happened, on any size of terminal, in a pipe, without colours and in ASCII."""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pyte
import pytest
from arena.screen.events import MatchView, show
from arena.screen.live import show_event
from arena.screen.running import HOLD, SOME_MOVES
from played import (
    CONTROL,
    SIZES,
    Clock,
    console_of,
    lines_of,
    match_of,
    output_of,
    pairings_of,
    record_of,
    screen_of,
    snapshot_of,
    words_of,
)
from rich.cells import cell_len
from rich.console import Group

from arena.go.board import Board
from arena.go.collection import Statistics
from arena.go.coords import move_from_gtp
from arena.go.game import Ending
from arena.go.record import GameRecord
from arena.match.runner import Update
from arena.match.schedule import Match
from arena.match.worker import Snapshot
from arena.players.player import Player
from arena.ratings import Estimate, Interval, Sprt
from arena.report import style
from arena.report.board import DARK, board_height, board_width, draw_board
from arena.report.progress import Start, show_training
from arena.report.style import Console
from arena.report.tables import Sheet, bots_table, elo_table, games_table, statistics_table
from arena.report.text import first_sections, headline, title
from arena.results.event import Findings
from arena.results.league import league
from arena.results.store import Store
from trainers.progress import Progress


def shown(match: Match, *updates: Update, width: int = 80, height: int = 24, **more: Any) -> list[str]:
    """What a screen shows of a match after these updates."""
    view = MatchView(match, Clock())
    for update in updates:
        view.add(update)
    return lines_of(screen_of(view), width, height, **more)


def records_of(match: Match, numbers: range, winner: str | None = "sl") -> tuple[GameRecord, ...]:
    return tuple(record_of(match, number, winner) for number in numbers)


def running_view(match: Match, clock: Clock) -> MatchView:
    """37 games from earlier, then five more, and one to watch."""
    view = MatchView(match, clock)
    first, second = match.players
    view.add(Update(records_of(match, range(37), first), resumed=True))
    clock.now += 10
    view.add(Update(snapshots=(snapshot_of(match, 50, "E5 C3 G7", (0.5, 0.4, 0.625)),), workers=2))
    clock.now += 20
    records = (
        record_of(match, 37, second),
        record_of(match, 38, None),
        record_of(match, 39, first, Ending.RESIGN),
        record_of(match, 40, second, Ending.TIME, "alphago: took 61.0 s for a move"),
        record_of(match, 41, first, Ending.MOVE_LIMIT),
    )
    view.add(Update(records, workers=2))
    return view


# --- The board ---


def test_a_table_in_a_pipe_has_a_line_for_each_row_however_long() -> None:
    row = ("a", "word " * 40 + "end", "7")
    sheet = Sheet(("name", "what", "n"), [row, row], "Run arena " + "x" * 100, flexible=(1,), numbers=(2,))
    shown = io.StringIO()
    Console(file=shown, width=40).print(sheet)
    lines = [line.split() for line in shown.getvalue().splitlines()]
    assert lines[0] == ["name", "what", "n"] and lines[2] == lines[3] == " ".join(row).split()
    assert shown.getvalue().splitlines()[-1] == sheet.note


def test_a_board_shows_stones_stars_coordinates_and_the_last_move_without_colours():
    stones = Board.from_diagram(
        """
        . . . . . . .
        . . X . . . .
        . X O X . . .
        . . . . . . .
        . . . . O . .
        . . . . . . .
        . . . . . . X
        """
    ).stones
    last = move_from_gtp("E3", 7)
    assert [line.plain for line in draw_board(stones, last)] == [
        "    A B C D E F G ",
        " 7  · · · · · · · ",
        " 6  · · ● · · · · ",
        " 5  · ● ○ ● + · · ",
        " 4  · · · + · · · ",
        " 3  · · + ·(○)· · ",
        " 2  · · · · · · · ",
        " 1  · · · · · · ● ",
    ]
    assert lines_of(draw_board(stones, last)[5], 40, 9, encoding="ascii") == [" 3  . . + .(O). ."]


def test_the_last_move_is_marked_at_both_edges_and_a_pass_is_not():
    stones = np.zeros((5, 5), np.uint8)
    stones[0, 4] = 1
    stones[1, 0] = 2
    assert [line.plain for line in draw_board(stones, 4)][1:3] == [" 5  · · · ·(●)", " 4  ○ · · · · "]
    assert [line.plain for line in draw_board(stones, 5)][1:3] == [" 5  · · · · ● ", " 4 (○)· · · · "]
    assert "(" not in "".join(line.plain for line in draw_board(stones, 25))


@pytest.mark.parametrize("size", [5, 9, 13, 19])
def test_a_board_takes_the_room_that_it_says(size: int):
    lines = draw_board(np.ones((size, size), np.uint8), 0)
    assert len(lines) == board_height(size)
    assert {line.cell_len for line in lines} == {board_width(size)}


def owned(*rows: str) -> bytes:
    """Per cent of Black at each point, in rows as ``"90 -80 0"``."""
    return np.array([[int(word) for word in row.split()] for row in rows], np.int8).tobytes()


def test_a_board_shows_whose_each_point_will_be_without_colours():
    stones = np.zeros((5, 5), np.uint8)
    stones[0, 0], stones[4, 4] = 1, 2
    ownership = owned("99 51 50 0 -50", "51 51 0 0 0", "0 0 0 -51 0", "0 0 0 0 -60", "0 0 0 -100 100")
    assert [line.plain for line in draw_board(stones, 1, ownership=ownership)][1:] == [
        " 5  ●(▪)· · · ",
        " 4  ▪ ▪ · · · ",
        " 3  · · · ▫ · ",
        " 2  · · · · ▫ ",
        " 1  · · · ▫ ◦ ",  # a stone that is likely to be lost
    ]
    in_ascii = lines_of(Group(*draw_board(stones, ownership=ownership)), 40, 9, encoding="ascii")
    assert in_ascii[2:5] == [" 4  x x . . .", " 3  . . . o .", " 2  . . . . o"]


def test_the_wood_is_shaded_towards_whoever_will_have_the_point():
    def brightness(share: int) -> float:
        line = draw_board(np.zeros((5, 5), np.uint8), ownership=owned(*[f"{share} 0 0 0 0"] * 5))[1]
        segments = list(line.render(Console(force_terminal=True, color_system="truecolor")))
        return sum(next(segment for segment in segments if segment.text in "·▪▫").style.bgcolor.triplet)

    shades = [brightness(share) for share in (100, 60, 20, 0, -20, -60, -100)]
    assert shades == sorted(shades) and len(set(shades)) == len(shades)


# --- The live screen ---


@pytest.mark.parametrize("size", [9, 13, 19])
@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("names", [("alphago", "sl"), ("checkpoint:runs/long-name,temperature=0.25", "碁" * 30)])
def test_a_frame_fits_the_terminal_and_has_the_figures(width: int, height: int, size: int, names: tuple[str, str]):
    match = match_of(*names, size=size)
    view = running_view(match, Clock())
    lines = lines_of(screen_of(view), width, height)
    assert len(lines) < height
    words = words_of(lines)
    for fact in ("42 of 100", "0:30", "left", "+39 =1 -2", "94.0 %", "LOS > 99.9 %", "games/s"):
        assert fact in words
    labels = ["as Black", "as White", "Black takes", "score", "resign", "time", "move limit"]
    for label in labels[: 1 if height < 20 else None]:
        assert any(line.strip().startswith(label) for line in lines)
    assert not any(line.strip().startswith(("illegal", "crash")) for line in lines)  # no game ended so
    assert f"Elo {view.tally.comparison().elo} 95 %" in words


def test_a_narrow_terminal_shows_whole_figures_or_none():
    view = running_view(match_of(), Clock())
    lines = lines_of(screen_of(view), 20, 24)
    elo = str(view.comparison.elo)
    assert "Elo …" in words_of(lines) and "Score +39 =1 -2" in words_of(lines) and "94." not in words_of(lines)
    assert any(line.endswith("0:30") for line in lines)
    assert f"Elo {elo}" in words_of(lines_of(screen_of(view), 30, 24))


def test_a_wall_shows_many_games_at_once_and_one_key_leads_there_and_back():
    match = match_of()
    view = MatchView(match, Clock())
    view.add(Update(snapshots=tuple(snapshot_of(match, number, "E5 C3") for number in range(20)), workers=1))
    live = screen_of(view)
    live.press("w")
    lines = lines_of(live, 100, 60)
    assert len(lines) < 60 and all(len(line) <= 100 for line in lines)
    assert [words_of(lines).count(words) for words in ("game 1, move 2", "game 16, move 2", "game 17,")] == [1, 1, 0]
    assert sum(line.count("(○)") for line in lines) == 16 and "w one board" in lines[-1]
    assert sum(line.count("(○)") for line in lines_of(live, 40, 20)) == 1
    live.press("w")
    assert sum(line.count("(○)") for line in lines_of(live, 100, 50)) == 1


def test_a_wide_terminal_with_colours_shows_large_points_and_a_high_one_the_curve_of_the_elo():
    view = running_view(match_of(), Clock())
    lines = lines_of(screen_of(view, None, replace(DARK, colours=True)), 120, 40)
    assert len(lines) < 40 and all(len(line) <= 120 for line in lines) and any("▟██▙" in line for line in lines)
    assert not any("▟██▙" in line for line in lines_of(screen_of(view), 120, 40))
    for records in (range(42, 46), range(46, 50)):
        view.add(Update(records_of(view.match, records, "alphago")))
    lines = lines_of(screen_of(view), 120, 50)
    assert any("Elo of alphago over the games" in line for line in lines) and any("50 games" in line for line in lines)


def test_a_start_says_what_is_compiled_and_how_long_that_took_last_time(tmp_path, monkeypatch):
    monkeypatch.setattr("arena.go.jit.CACHE", tmp_path / "kernels-1")
    (tmp_path / "kernels-1").mkdir()
    clock = Clock()
    start = Start(["uct", "uct"], clock)
    assert start.words == "may compile for a minute"
    for number in range(4):
        (tmp_path / "kernels-1" / f"{number}.nbi").touch()
    clock.now += 52
    assert start.words == "compiled 4 kernels in 0:52; may take a minute"
    start.end()
    monkeypatch.setattr("arena.go.jit.CACHE", tmp_path / "kernels-2")
    (tmp_path / "kernels-2").mkdir()
    again = Start(["uct"], clock)
    assert again.words == "compiling took 0:52 last time" and Start(["alphago"], clock).words.startswith("may")
    (tmp_path / "kernels-2" / "0.nbi").touch()
    clock.now += 7
    assert again.words == "compiled 1 of 4 kernels in 0:07; last time 0:52"
    for text in ("[]", "{", '{"uct": [1]}', '{"uct": ["4", 2]}'):
        (tmp_path / "first-starts.json").write_text(text)
        assert Start(["uct"], clock).words == "may compile for a minute"


def test_the_figures_are_those_of_the_records():
    lines = lines_of(screen_of(running_view(match_of(), Clock())), 80, 24)
    facts = {" ".join(line[:50].split()) for line in lines}
    assert facts >= {"as Black +19 =1 -1 92.9 %", "as White +20 =0 -1 95.2 %", "Black takes 20.5 of 42 48.8 %"}
    assert facts >= {"score 37 1 1", "resign 1 – –", "time – 1 –", "move limit 1 – –"}
    assert "37 of 100 played earlier · 2 workers" in words_of(lines)
    assert "0.2 games/s · 6.0 moves/s · 37 earlier" in words_of(
        lines_of(screen_of(running_view(match_of(), Clock())), 40, 20)
    )
    assert "0.2 games/s · 6.0 moves/s" in words_of(lines)  # 5 games of 24 moves in 20 s


@pytest.mark.parametrize(
    ("width", "height", "size", "shown"),
    [
        *((40, 20, 9, False), (60, 24, 9, False), (60, 40, 9, True), (80, 24, 9, True)),
        *((80, 24, 19, False), (120, 40, 19, True), (120, 20, 19, False), (200, 60, 19, True)),
    ],
)
def test_the_board_is_shown_where_there_is_room(width: int, height: int, size: int, shown: bool):
    lines = lines_of(screen_of(running_view(match_of(size=size), Clock())), width, height)
    assert any("A B C D E F G H J" in line for line in lines) is shown
    assert any("game 51, move 3: ● G7" in line for line in lines) is shown


def test_the_watched_game_has_its_players_and_their_win_rates():
    match = match_of()
    lines = lines_of(screen_of(running_view(match, Clock())), 120, 40)
    board = next(n for n, line in enumerate(lines) if "game 51, move 3: ● G7" in line)
    assert "(●)" in lines[board + 4]  # G7
    black, white = (lines[board + n][54:] for n in (11, 12))
    assert re.fullmatch("● alphago.*▅▆.* 62 %", black) and re.fullmatch("○ sl.*▄.* 40 %", white)
    lines = shown(match, Update(snapshots=(snapshot_of(match, 0, "E5 C3"),), workers=1), width=120, height=40)
    for named in ("● alphago", "○ sl"):  # alone, without win rates
        assert any(line.endswith(named) for line in lines)


def test_ownership_is_shown_while_a_game_is_under_way():
    match = match_of()
    view = MatchView(match, Clock())
    view.add(Update(snapshots=(snapshot_of(match, 0, "E5", ownership=bytes([90]) * 81),), workers=1))
    for width, height in ((80, 24), (200, 60)):
        assert sum(line.count("▪") for line in lines_of(screen_of(view), width, height)) == 80
    view.add(Update(snapshots=(snapshot_of(match, 0, "E5 C3"),)))
    assert "▪" not in "".join(lines_of(screen_of(view), 80, 24))


def test_games_that_repeat_raise_a_warning_at_once():
    match = match_of(games=8, openings=1)
    view = MatchView(match, Clock())
    view.add(Update(tuple(record_of(match, n, "sl", seed=n) for n in range(4)), workers=1))
    assert view.warning == ""
    view.add(Update((record_of(match, 4, "sl", seed=0), record_of(match, 5, "sl", seed=5)), workers=1))
    for width, height in SIZES:
        assert "! games repeat: 5 of 6 differ" in lines_of(screen_of(view), width, height)


def test_games_that_can_not_be_stored_yet_are_told_of_until_they_are():
    words = "another program has locked the results; 3 finished games not stored yet"
    view = MatchView(match_of(), Clock())
    view.add(Update(workers=1, waiting=3))
    assert any(f"! {words}" in line for line in lines_of(screen_of(view), 80, 24))
    view.add(Update(workers=1))
    assert not any(words in line for line in lines_of(screen_of(view), 80, 24))
    console, match = console_of(80, 25, terminal=False), match_of(games=4)
    waiting = [Update(waiting=number) for number in (3, 4, 4)]
    show(match, iter([*waiting, Update(records_of(match, range(4)), workers=1)]), console, Clock())
    assert [line for line in output_of(console).splitlines() if "another program" in line] == [words]


def test_the_nodes_of_a_cluster_stand_in_a_line_with_their_pace_the_fastest_first():
    clock, match = Clock(), match_of()
    view = MatchView(match, clock)
    view.add(Update(snapshots=(snapshot_of(match, 0, "E5"),), workers=6, nodes={"a": 0.0}))
    clock.now += 10
    view.add(Update(records_of(match, range(5)), workers=6, nodes={"a": 0.5, "b": 2.0}, news=("c isn't used: why",)))
    lines = lines_of(screen_of(view), 80, 24)
    assert "b 2.0 games/s · a 0.5 games/s" in lines and "! c isn't used: why" in lines
    assert any(line.endswith("6 workers on 2 nodes") for line in lines)
    view.add(Update(workers=6, nodes={f"node-{number:02d}": 10.0 - number for number in range(10)}))
    expected = "node-00 10.0 games/s · node-01 9.0 games/s · node-02 8.0 games/s · 7 more"
    assert expected in lines_of(screen_of(view), 80, 24)
    view.add(Update(workers=6, nodes={}))
    assert "! no node is left; the games wait for one to join" in lines_of(screen_of(view), 80, 24)


def test_before_the_first_game_it_says_that_it_starts_and_the_layout_is_the_later_one():
    clock = Clock()
    match = match_of()
    view = MatchView(match, clock)
    for width, height in SIZES:
        view = MatchView(match, clock)
        view.add(Update(resumed=True))
        before = lines_of(screen_of(view), width, height)
        assert "starting" in words_of(before)
        assert "a minute" in words_of(before)
        view.add(Update((record_of(match, 0, "sl"),), snapshots=(snapshot_of(match, 1, "E5"),), workers=1))
        after = lines_of(screen_of(view), width, height)
        assert "starting" not in words_of(after)
        assert len(before) == len(after)
        assert [line[:8] for line in before if line.startswith("Score")] == ["Score   "]
        for label in ("as White", "Won by")[: 1 if height < 20 else 2]:
            places = [next(n for n, line in enumerate(lines) if line.startswith(label)) for lines in (before, after)]
            assert places[0] == places[1]


def test_resumed_games_count_at_once():
    match = match_of()
    for width, height in SIZES:
        words = words_of(shown(match, Update(records_of(match, range(38)), resumed=True), width=width, height=height))
        assert "38 of 100 played earlier" in words and "+0 =0 -38" in words
    match, console = match_of(games=4), console_of(80, 25, terminal=False)
    show(match, iter([Update(records_of(match, range(4)), resumed=True)]), console, Clock())
    assert output_of(console).splitlines()[1:3] == [
        "4 of 4 games were played earlier",
        "alphago lost to sl 0-4 in 4 games",
    ]


def test_without_a_sequential_test_all_finished_games_count_at_once():
    match = match_of(games=20)
    view = MatchView(match, Clock())
    view.add(Update(records_of(match, range(2, 5), "alphago"), workers=1))
    assert (view.stored, view.tally.games, view.tally.finished_pairs, view.standings.waiting) == (3, 3, 1, 0)
    words = words_of(lines_of(screen_of(view), 80, 24))
    assert "3 of 20" in words and "+3 =0 -0" in words and "Elo from the first" not in words
    assert headline(view.tally) == "alphago beat sl 3-0 in 3 games"


def test_games_that_wait_for_earlier_ones_are_shown_and_do_not_count_in_the_elo_yet():
    match = replace(match_of(games=20), test=Sprt(0, 35))
    view = MatchView(match, Clock())
    view.add(Update(records_of(match, range(2, 5), "alphago"), workers=1))
    for width, height in SIZES:
        words = words_of(lines_of(screen_of(view), width, height))
        assert "3 of 20" in words and "+3 =0 -0" in words and "Elo –" in words
        assert "no Elo before the first pair ends" in words or width < 60
    view.add(Update(records_of(match, range(2), "alphago"), workers=1))
    words = words_of(lines_of(screen_of(view), 80, 24))
    assert "5 of 20" in words and "Elo from the first 4 of 5" in words and "+5 =0 -0" in words


def test_a_pipe_says_how_many_games_count_while_others_wait():
    match = replace(match_of(games=20), test=Sprt(0, 35))
    games = [record_of(match, n, "alphago") for n in (0, 1, 3, 4, 5)]
    console = console_of(80, 25, terminal=False)
    view = show(match, iter([Update((game,), workers=1) for game in games]), console, Clock())
    lines = output_of(console).splitlines()
    assert (view.stored, view.tally.games, view.standings.waiting) == (5, 2, 3)
    assert any(
        line.startswith("4 of 20, +4 =0 -0, 100.0 %, Elo") and "from the first 2 games" in line for line in lines
    )
    assert "alphago beat sl 2-0 in 2 games" in lines
    words = "+5 =0 -0 in 5 games; the figures below are from the first 2 in the planned order"
    assert f"  All games  {words}" in lines


def test_a_finished_game_stays_on_the_board_for_a_moment():
    clock, match = Clock(), match_of()
    view = MatchView(match, clock)

    def caption() -> str:
        return next(line for line in lines_of(screen_of(view), 120, 40) if "game " in line and "games" not in line)[54:]

    view.add(Update(snapshots=(snapshot_of(match, 3, "E5"),), workers=2))
    view.add(Update(snapshots=(snapshot_of(match, 4, "D4 E5"),)))  # another worker's: the screen stays with the first
    assert caption() == "game 4, board 1 of 2, move 1: ● E5"
    view.add(Update((record_of(match, 3, "alphago", Ending.RESIGN),), snapshots=(snapshot_of(match, 4, "D4 E5 F6"),)))
    assert caption() == "game 4: W+R, 24 moves"
    clock.now += HOLD / 2
    view.add(Update(snapshots=(snapshot_of(match, 4, "D4 E5 F6 G7"),)))
    assert caption() == "game 4: W+R, 24 moves"
    clock.now += HOLD
    view.add(Update(snapshots=(snapshot_of(match, 4, "D4 E5 F6 G7 pass"),)))
    assert caption() == "game 5, move 5: ● pass"
    over = Update(records_of(match, range(1), "alphago"), snapshots=(snapshot_of(match, 0, "E5 C3"),), workers=1)
    assert "game 1: B+2.5, 24 moves" in words_of(shown(match, over, width=120, height=40))


def test_the_time_left_follows_from_games_done_and_under_way():
    clock, match = Clock(), match_of(games=10)
    view = MatchView(match, clock)
    view.add(Update(resumed=True))
    assert view.seconds_left is None
    last = pairings_of(match)[9]
    moves = (*last.opening, 81)
    view.add(Update(snapshots=(Snapshot(last, moves, (None,) * len(moves)),), workers=1))
    clock.now += 20
    view.add(Update(records_of(match, range(5)), workers=1))
    work = 5 + 5 * 1 / (1 + 24 - len(moves))  # the other five are one move old, besides an opening that took no time
    assert view.seconds_left == pytest.approx(20 * (10 - work) / work)
    view.add(Update(records_of(match, range(5, 10)), workers=1))
    assert view.seconds_left is None


def test_the_last_games_side_by_side_take_as_long_as_the_longest_of_them():
    """A move a second on each of forty boards: what counts is not how many games are left, but how long they last."""
    clock, match = Clock(), match_of(games=40)
    view = MatchView(match, clock)
    lengths = {n: 48 + (n * 7) % 40 for n in range(40)}  # 48 to 87 moves

    def look(n: int) -> Snapshot:
        return Snapshot(replace(pairings_of(match)[n], opening=()), tuple(range(second)), (None,) * second)

    for second in range(1, 87):
        clock.now += 1
        over = [n for n, length in lengths.items() if length == second]
        going = [n for n, length in lengths.items() if length > second]
        records = tuple(replace(record_of(match, n, "sl"), moves=(0,) * second) for n in over)
        view.add(Update(records, snapshots=tuple(map(look, going)), workers=1))
        if second >= 55:  # some are over
            assert 0.4 * (87 - second) < view.seconds_left < 2.5 * (87 - second) + 4


def test_a_first_move_that_took_long_tells_nothing_of_the_others():
    """Eight boards, each seen after its opening, have waited half a minute for one move."""
    clock, match = Clock(), match_of(games=16)
    view = MatchView(match, clock)
    for made, seconds in ((0, 0), (1, 30), (SOME_MOVES, 3)):
        clock.now += seconds
        snapshots = []
        for pairing in pairings_of(match)[:8]:
            moves = (*pairing.opening, *range(made))
            snapshots.append(Snapshot(pairing, moves, (None,) * len(moves)))
        view.add(Update(snapshots=tuple(snapshots), workers=1))
        assert (view.seconds_left is None) == (made < SOME_MOVES)
    assert view.seconds_left < 2 * 33 * 81 / SOME_MOVES  # as if all moves of both rounds were as slow


def test_ascii_consoles_get_ascii_only():
    lines = lines_of(screen_of(running_view(match_of("alphagö", "碁"), Clock())), 120, 40, encoding="ascii")
    text = "\n".join(lines)
    assert text.isascii() and "(X)" in text
    assert re.search(r"Elo +\+\d+ \(\+\d+ to \+\d+\)", text)
    bounded = shown(match := match_of(), Update(records_of(match, range(10), "alphago")), height=40, encoding="ascii")
    assert re.search(r"Elo +\+802 \(\+63 to inf\) ", "\n".join(bounded))


# --- A whole match ---


def whole_match(match: Match, closed: list[str] | None = None) -> Iterator[Update]:
    first, second = match.players
    try:
        yield Update(resumed=True)
        yield Update(snapshots=(snapshot_of(match, 0, "E5 C3"),), workers=2)
        for number in range(match.games):
            ending = Ending.CRASH if number == 3 else Ending.SCORE
            reason = f"{second}: ValueError: no such point\n" if number == 3 else ""
            winner = second if number == 6 else first
            yield Update((record_of(match, number, winner, ending, reason),), workers=2)
    finally:
        if closed is not None:
            closed.append("closed")


def test_a_pipe_gets_plain_lines():
    match = match_of(games=20)
    console = console_of(80, 25, terminal=False)
    tally = show(match, whole_match(match), console, Clock()).tally
    text = output_of(console)
    assert not CONTROL.search(text)
    lines = text.splitlines()
    assert lines[0] == "alphago against sl: 20 games, 9x9, cgos rules, komi 7"
    progress = [line for line in lines if re.match(r"\d+ of 20, ", line)]
    assert [line.split()[0] for line in progress] == [str(n) for n in range(2, 20, 2)]  # every tenth
    assert re.match(r"10 of 20, \+9 =0 -1, 90\.0 %, Elo \+\d+ \(-\d+ to \+\d+\)", progress[4])
    assert "alphago beat sl 19-1 in 20 games" in lines
    assert tally.games == 20


def test_plain_lines_come_every_few_seconds_at_most():
    clock, match = Clock(), match_of(games=1000)

    def updates() -> Iterator[Update]:
        for number in range(90):
            clock.now += 1
            yield Update((record_of(match, number, "sl"),), workers=1)

    console = console_of(80, 25, terminal=False)
    show(match, updates(), console, clock)
    progress = [line for line in output_of(console).splitlines() if " of 1000, " in line]
    assert [line.split()[0] for line in progress] == [str(n) for n in range(5, 91, 5)]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_terminal_is_left_with_one_head_the_summary_and_its_cursor(width: int, height: int):
    match = match_of(games=8)
    console = console_of(width, height)
    closed: list[str] = []
    show(match, whole_match(match, closed), console)
    text = output_of(console)
    assert closed == ["closed"]
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert text.rindex("\x1b[?1049l") > text.rindex("\x1b[?1049h")
    assert "\x1b[2J" not in text
    plain = re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", text)
    assert max(cell_len(line) for line in plain.splitlines()) <= width
    assert "alphago beat sl 7-1 in 8 games" in plain
    rows = [row.rstrip() for row in seen_on(text)]
    assert rows[0].startswith("alphago vs sl")
    if width >= 80:
        assert re.search(r"━ +8 of 8 +0:0", rows[1])
        assert rows[3:5] == ["", "alphago beat sl 7-1 in 8 games"]
    assert not any("A B C" in row or "Won by" in row for row in rows)


def test_no_color_is_respected_and_a_dumb_terminal_gets_plain_lines():
    match = match_of(games=4)
    console = console_of(100, 40, _environ={"TERM": "xterm-256color", "NO_COLOR": "1"})
    show(match, whole_match(match), console)
    codes = re.findall(r"\x1b\[([\d;]*)m", output_of(console))
    assert not any(int(part) >= 30 for code in codes for part in code.split(";") if part)
    console = console_of(80, 25, _environ={"TERM": "dumb"}, color_system=None)
    show(match, whole_match(match), console)
    assert not CONTROL.search(output_of(console).replace("\x1b[1m", "").replace("\x1b[0m", ""))


@pytest.mark.parametrize("terminal", [True, False])
def test_an_interrupt_comes_through_after_the_updates_are_closed(terminal: bool):
    match = match_of(games=4)
    events: list[str] = []

    def updates() -> Iterator[Update]:
        try:
            yield Update((record_of(match, 0, "sl"),), workers=1)
            raise KeyboardInterrupt
        finally:
            events.append("closed")

    console = console_of(80, 24, terminal=terminal)
    with pytest.raises(KeyboardInterrupt):
        show(match, updates(), console)
    assert events == ["closed"]
    text = output_of(console)
    assert "beat" not in text
    assert not terminal or text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    ticks = iter([1.0, 2.0, 3.0])  # then it ends between two updates
    with pytest.raises(StopIteration):
        show(match, whole_match(match, events), console_of(80, 24, terminal=False), lambda: next(ticks))
    assert events == ["closed", "closed"]


def test_bots_that_take_a_moment_to_end_are_waited_for_with_a_word(monkeypatch: pytest.MonkeyPatch):
    match = match_of(games=4)
    screen = screen_of(MatchView(match))
    monkeypatch.setattr(screen, "add", lambda update: [screen.press("q"), screen.press("q")])
    console = console_of(80, 24)

    def updates() -> Iterator[Update]:
        try:
            yield Update(workers=1)
        finally:
            end = monotonic() + 10
            while "Stopping the bots" not in output_of(console):
                assert monotonic() < end
                sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        show_event(screen, updates(), console)
    assert not any("Stopping" in row for row in seen_on(output_of(console)))


def seen_on(text: str) -> list[str]:
    """What a terminal shows after this output: it knows lines, a second screen, and erasing the end of a line."""
    rows, row, column = [""], 0, 0
    first = rows, row, column
    for code, sign in re.findall(r"(\x1b\[[?\d;]*[a-zA-Z])|(.|\n)", text):
        if code == "\x1b[?1049h":
            first, rows = (rows, row, column), [""]
        elif code == "\x1b[?1049l":
            rows, row, column = first
        elif code.endswith("H"):
            row = column = 0
        elif code.endswith("K"):
            rows[row] = "" if code[2:-1] == "2" else rows[row][:column]
        elif code.endswith("A"):
            row -= int(code[2:-1])
        elif sign == "\r":
            column = 0
        elif sign == "\n":
            row, column = row + 1, 0
            rows += [""] * (row + 1 - len(rows))
        elif sign:
            rows[row] = rows[row][:column].ljust(column) + sign + rows[row][column + 1 :]
            column += 1
    return rows


# --- The end of a match ---


def findings_of(match: Match, *records: GameRecord) -> Findings:
    standings = match.standings()
    for record in records:
        standings.add([record])
    return Findings(match.event, standings, match.games, is_match=True)


def facts_of(found: Findings) -> dict[str, str]:
    """The labelled lines of what is shown at the end."""
    bodies = [section.body for section in first_sections(found)]
    return {label: text for body in bodies if isinstance(body, tuple) for label, text in body}


def test_the_end_tells_what_happened():
    match = match_of(games=8)
    found = findings_of(match, *(record for update in whole_match(match) for record in update.records))
    lines = facts_of(found)
    assert re.fullmatch(r"\+338 \(-\d+ to \+\d+\) \(95 %\) for alphago, from 4 pairs; LOS 9\d\.\d %", lines["Elo"])
    assert lines["Score"] == "+7 =0 -1, 87.5 %"
    assert lines["By colour"] == "as Black +3 =0 -1 (75.0 %), as White +4 =0 -0 (100.0 %)"
    assert lines["Black"].startswith("scored 37.5 %")
    assert lines["Endings"] == "score 7, 87.5 % (alphago 6, sl 1), crash 1, 12.5 % (alphago 1)"
    assert lines["Length"].startswith("24.0 moves per game")
    assert lines["Time"].startswith("alphago 0.") and lines["Time"].endswith(" per move")
    assert "Warning" not in lines
    (crash,) = (section.body for section in first_sections(found) if section.title == "Forfeits")
    assert crash.rows == [(f"{match.event}/00004", "crash", "sl: ValueError: no such point\n")]


def test_the_headline_is_of_the_first_player_and_the_first_forfeits_are_listed():
    match = match_of(games=8)
    games = [record_of(match, n, winner) for n, winner in enumerate(("alphago", "alphago", "sl", None, "sl", "sl"))]
    assert title(findings_of(match, *games[:2])) == "alphago beat sl 2-0 in 2 games"
    assert title(findings_of(match, *games[:4])) == "alphago beat sl 2.5-1.5 in 4 games"
    assert title(findings_of(match, *games)) == "alphago lost to sl 2.5-3.5 in 6 games"
    assert title(findings_of(match, *records_of(match, range(2), None))) == "alphago and sl drew 1-1 in 2 games"
    found = findings_of(match, *(record_of(match, n, "sl", Ending.ILLEGAL, f"alphago: {n}") for n in range(8)))
    forfeits = first_sections(found)[-1].body
    assert [row[2] for row in forfeits.rows] == [f"alphago: {n}" for n in range(5)]
    assert forfeits.note.startswith("And 3 more forfeits.")


# --- Tables ---


def test_the_table_of_bots_has_nets_ratings_and_what_was_changed():
    plain = Player("fast-random", "fast-random", "bots.fast_random:BOT", {}, "arena")
    net = Player("sl", "policy", "bots.policy:BOT", {"checkpoint": "sl-9x9", "temperature": 0.5}, "arena", "ab")
    ratings = {plain.identity: Estimate(910.0, Interval(223.0, None))}
    rows = [line.split() for line in lines_of(bots_table([plain, net], ratings), 100, 40)]
    assert ["fast-random", *plain.bot_kind.summary.split(), "+910", "(+223", "to", "∞)"] in rows
    assert ["sl", *f"{net.bot_kind.summary};".split(), "temperature=0.5", "sl-9x9"] in rows


@pytest.fixture
def store(tmp_path: Path):
    match = match_of(games=20)
    with Store.open(tmp_path / "arena.db", write=True) as opened:
        opened.add_players({"A": Player("alphago", "alphago"), "S": Player("sl", "policy")})
        ids = {"alphago": "A", "sl": "S"}
        for number in range(20):
            record = record_of(match, number, "sl" if number % 5 == 0 else "alphago")
            opened.append([replace(record, black_player=ids[record.black], white_player=ids[record.white])])
        yield opened


def test_the_table_of_ratings_says_what_its_zero_is(store: Store):
    lines = lines_of(elo_table(league(store)), 100, 40)
    rows = [line.split() for line in lines]
    first = next(" ".join(row) for row in rows if row[:2] == ["1", "alphago"])
    assert re.fullmatch(r"1 alphago \+\d+ \(\+\d+ to \+\d+\) 20 80\.0 %", first)
    assert ["2", "sl", "0", "20", "20.0", "%"] in rows
    assert "Elo above sl, with 95 % intervals; 0.2 virtual games a player" in words_of(lines)


def test_an_empty_table_says_what_to_do(tmp_path: Path):
    with Store.open(tmp_path / "arena.db", write=True) as empty:
        assert "arena match" in words_of(lines_of(elo_table(league(empty)), 80, 40))
    assert "no such games" in words_of(lines_of(games_table([], 0), 80, 40))


def test_a_game_is_one_line_with_number_date_result_and_how_it_ended():
    match = match_of(games=4)
    records = [record_of(match, 0, "sl", Ending.RESIGN), record_of(match, 1, None)]
    records.append(record_of(match, 2, "sl", Ending.CRASH, "alphago: broke"))
    records.append(record_of(match, 3, "sl", Ending.ADJUDICATED, "both bots give alphago less than 2 %"))
    games = [(number, replace(record, date="2026-11-24")) for number, record in enumerate(records, 7)]
    lines = lines_of(games_table(games, 340), 80, 40)
    rows = [line.split() for line in lines]
    assert ["7", "2026-11-24", "alphago", "sl", "W+R", "24", "resign"] in rows
    assert ["8", "2026-11-24", "sl", "alphago", "draw", "24", "score"] in rows
    assert ["9", "2026-11-24", "alphago", "sl", "W+F", "24", "crash"] in rows
    assert ["10", "2026-11-24", "sl", "alphago", "B+R", "24", "adjudicated"] in rows
    assert "4 of 340 games. 'arena show 7' opens the first." in words_of(lines)


def test_the_table_of_statistics_has_sizes_and_refusals():
    counted = Statistics(
        7, 700, {9: 5, 19: 2}, {"cgos": 7}, {7.0: 6, 7.5: 1}, {"score": 7}, {90: 3, 110: 4}, {"not Go": 2}
    )
    assert "; ".join(" ".join(line.split()) for line in lines_of(statistics_table(counted), 80, 40)) == (
        "games 7; positions 700; sizes 9x9: 5, 19x19: 2; rules cgos: 7; komi 7: 6, 7.5: 1; results score: 7; "
        "moves 90 to 110, median 110; refused 2; 2 × not Go"
    )


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_tables_lose_nothing_on_a_narrow_console(width: int, encoding: str, store: Store):
    settings = {f"setting_{n}": n for n in range(12)}
    wide = Player("long-name-of-a-bot", "policy", "bots.policy:BOT", settings | {"checkpoint": "net"}, "arena")
    games = list(store.numbered_games(limit=3))
    for sheet in (bots_table([wide], {}), elo_table(league(store)), games_table(games, 20)):
        lines = lines_of(sheet, width, 40, encoding=encoding)
        assert "…" not in "".join(lines)
    together = "".join("".join(lines_of(bots_table([wide], {}), width, 40)).split())
    assert "long-name-of-a-bot" in together


# --- Words and numbers ---


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


# Training.


@pytest.mark.parametrize("width", [40, 80])
def test_the_figures_of_a_training_run_are_all_there(width: int) -> None:
    screen = pyte.Screen(width, 12)
    shown = io.StringIO()
    progress = Progress(1, 123_456, 1_234.5, 2.345, 0.456, 12.3, 0.01)
    with show_training("sl-9x9", Console(file=shown, force_terminal=True, width=width)) as on_progress:
        on_progress(progress)
    pyte.Stream(screen).feed(shown.getvalue().replace("\n", "\r\n"))
    text = " ".join(" ".join(screen.display).split())
    assert "sl-9x9" in text
    assert "123,456 rows · 1,234/s · loss 2.345 · top-1 45.6% · waiting for data 1% · 12 min left" in text


def test_where_there_is_no_terminal_a_training_run_writes_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arena.report.progress.LINE_EVERY", 0.0)
    shown = io.StringIO()
    with show_training("own", Console(file=shown, width=80), right="points") as on_progress:
        on_progress(Progress(1, 1_000, 100.0, 0.25, 0.9, None))
    assert shown.getvalue() == "own: 1,000 rows · 100/s · loss 0.250 · points 90.0% · waiting for data 0%\n"
