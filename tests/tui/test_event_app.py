"""A running event: what is known of it, the lines in a pipe, and the full screen with its keys, at any size."""

import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.games import (
    CONTROL,
    Clock,
    console_of,
    endless,
    lines_of,
    match_of,
    output_of,
    pairings_of,
    record_of,
    records_of,
    snapshot_of,
    tournament_of,
    whole_match,
    words_of,
)
from helpers.processes import family
from helpers.screens import Hand, use
from helpers.terminal import Terminal
from rich.console import Group

from arena.cli.events import show
from arena.go.game import Ending
from arena.match.runner import Control, Update
from arena.match.schedule import Match
from arena.ratings import Sprt
from arena.report import figures
from arena.results.event_state import SHOWN_SECONDS, EventState
from arena.results.store import Store
from arena.tui.event_app import EventApp


def running(match: Match, clock: Clock) -> EventState:
    """37 games from earlier, then five more, and one to watch."""
    state, (first, second) = EventState(match, clock), match.players
    state.add(Update(records_of(match, range(37), first), resumed=True))
    state.add(Update(snapshots=(snapshot_of(match, 50, "E5 C3 G7", (0.5, 0.4, 0.625), bytes([90]) * 81),), workers=2))
    clock.now += 30
    endings = (Ending.SCORE, Ending.SCORE, Ending.RESIGN, Ending.TIME, Ending.MOVE_LIMIT)
    games = zip(range(37, 42), (second, None, first, second, first), endings, strict=True)
    state.add(Update(tuple(record_of(match, *game) for game in games), workers=2))
    return state


def running_league(clock: Clock, *names: str) -> EventState:
    """The earlier in the list of players wins; the last of ten games was forfeited, and one is under way."""
    played = tournament_of(*names, games_each=20)
    state, pairings = EventState(played, clock), pairings_of(played)
    records = [record_of(played, one, min(one.black, one.white, key=list(names).index)) for one in pairings[:9]]
    state.add(Update(tuple(records[:4]), resumed=True))
    state.add(Update(snapshots=(snapshot_of(played, pairings[12], "D4"),), workers=2))
    clock.now += 30
    state.add(Update((*records[4:], record_of(played, pairings[9], pairings[9].white, Ending.CRASH)), workers=2))
    return state


def test_the_curve_of_a_resumed_event_has_its_earlier_games() -> None:
    match = match_of(games=100)
    state, first = EventState(match, Clock()), next(iter(match.players))
    for begin in (0, 20):
        state.add(Update(records_of(match, range(begin, begin + 20), first), resumed=True))
    assert state.resumed == state.stored == state.standings.games == 40
    assert [point.games for point in state.course] == [*range(2, 42, 2)]


# --- What is known, and the lines for any width ---


def shown(state: EventState, width: int = 80) -> str:
    """The head and the figures, none of them wider than ``width``."""
    return words_of(lines_of(Group(*figures.header(state), *figures.figures(state)), width, 200))


LONG = [f"checkpoint:runs/long-name-{n},temperature=0.25" for n in range(7)]


@pytest.mark.parametrize("width", [40, 200])
def test_the_figures_of_a_match_or_a_league_fit_any_width(width: int) -> None:
    for names in (("alphago", "sl"), (LONG[0], "碁" * 30)):
        state = running(match_of(*names), Clock())
        state.standings.rating_share = 1.0
        words = shown(state, width)
        elo = f"Elo {state.standings.comparison.elo} (95 %, valid whenever"  # type: ignore[union-attr]
        for fact in (elo, "42 of 100", "0:30", "Score +39 =1 -2", "0.2 games/s", "as Black +19 =1 -1 (92.9"):
            assert fact in words
        assert "LOS" not in words
        for fact in ("Black scored 48.8 %", "move limit 1, 2.4 %", "time 1, 2.4 %"):
            assert fact in words
    for players in ([*"abcd"], ["碁" * 30, "b", *LONG]):
        words = shown(running_league(Clock(), *players), width)
        for part in (f"{len(players)} bots, 7x7", "Standings", "Points out of games", "Over all games", "last games"):
            assert part in words
        assert "B+F" in words or "W+F" in words


def test_what_should_be_known_is_told_and_nodes_are_named_with_their_pace() -> None:
    match = match_of(games=8, openings=1)
    state = EventState(match, Clock())
    games = tuple(record_of(match, n, "sl", seed=0 if n == 4 else n) for n in range(6))
    state.add(Update(games, workers=6, nodes={"a": 0.5, "b": 2.0}, news=("c isn't used: why",)))
    assert "only 1 different opening in 6 games" in shown(state)
    assert "6 workers on 2 nodes: b 2.0 games/s, a 0.5 games/s ! c isn't used: why" in shown(state)
    state.add(Update(workers=6, nodes={}))
    assert "! no node is left; the games wait for one to join" in shown(state)


def test_a_finished_game_is_shown_for_a_while_then_a_live_one_unless_its_board_is_pinned() -> None:
    match, clock = match_of(), Clock()
    state = EventState(match, clock)

    def caption() -> str:
        return figures.caption(state, state.watched).plain  # type: ignore[arg-type]

    state.add(Update(snapshots=(snapshot_of(match, 3, "E5"),), workers=2))
    state.add(Update(snapshots=(snapshot_of(match, 4, "D4 E5"),)))  # another worker's: the screen stays with the first
    assert caption() == "game 4 (1/2), move 1: ● E5"
    state.add(Update(tuple(record_of(match, number, "alphago", Ending.RESIGN) for number in (3, 4))))
    state.add(Update(snapshots=(snapshot_of(match, 5, "D4"), snapshot_of(match, 6, "C3 pass"))))
    assert caption() == "game 4 (1/3): W+R"
    state.add(Update(snapshots=(snapshot_of(match, 4, "D4 E5"),)))  # it was on its way when the game ended
    assert len(state.boards) == 3
    clock.now += SHOWN_SECONDS
    state.watch_live_game()
    assert caption() == "game 7 (3/3), move 2: ○ pass"  # the later one of two
    state.is_pinned = True
    state.add(Update((record_of(match, 6, "sl", Ending.RESIGN),)))
    clock.now += SHOWN_SECONDS
    state.add(Update(snapshots=(snapshot_of(match, 7, "C3"), snapshot_of(match, 8, "C3"))))
    assert caption() == "game 7 (3/4): W+R, pinned"


def test_a_pause_counts_for_nothing_and_the_time_left_follows_from_the_games_played() -> None:
    clock, match = Clock(), match_of(games=10)
    state = EventState(match, clock)
    state.add(Update(snapshots=(snapshot_of(match, 0, "E5"),), workers=1))
    for paused, seconds in ((True, 20), (False, 1000)):
        clock.now += seconds
        state.pause(paused)
    state.add(Update(records_of(match, range(5)), workers=1))
    assert state.seconds_left == pytest.approx(20) and state.elapsed == pytest.approx(20)


# --- Without a terminal ---


def printed(match: Match, updates: Iterable[Update]) -> list[str]:
    """What a pipe gets of an event."""
    console = console_of(80, 25, terminal=False)
    show(EventState(match), (update for update in updates), Control(), console)
    assert not CONTROL.search(output_of(console))
    return output_of(console).splitlines()


def test_a_pipe_gets_plain_lines_and_the_end_is_summed_up() -> None:
    match = match_of(games=20)
    lines = printed(match, whole_match(match))
    assert lines[0] == "alphago against sl: 20 games, 9x9, cgos rules, komi 7"
    progress = [line for line in lines if re.match(r"\d+ of 20, ", line)]
    assert [line.split()[0] for line in progress] == [str(n) for n in range(2, 20, 2)]  # every tenth
    assert re.match(
        r"10 of 20, alphago leads sl 9-1 after 10 of 20 games, Elo \+382 \(-\d+ to ∞\) \(valid whenever", progress[4]
    )
    assert "alphago beat sl 19-1 in 20 games" in lines


def test_a_pipe_gets_lines_of_games_that_wait_for_earlier_ones_or_for_the_store() -> None:
    match = replace(match_of(games=20), test=Sprt(0, 35))
    games = [record_of(match, n, "alphago") for n in (0, 1, 3, 4, 5)]
    played = [Update((game,), workers=1) for game in games[1:]]
    lines = printed(match, [Update((games[0],), resumed=True), *played, Update(waiting=2)])
    assert lines[1] == "1 of 20 games were played earlier"
    assert any(line.startswith("4 of 20, alphago leads sl 2-0 after 2 games, Elo") for line in lines)
    assert any("5 games; the figures below are from the first 2 in the planned order" in line for line in lines)
    assert any(re.search(r"undecided .*LLR \+0\.\d\d", line) for line in lines)
    assert "another program has locked the results; 2 finished games not stored yet" in lines


def test_a_terminal_gets_the_result_as_its_title_and_a_bell_that_was_asked_for() -> None:
    for rings in (True, False):
        match, console = match_of(games=4), console_of(80, 25)
        show(EventState(match), (update for update in whole_match(match)), Control(), console, rings)
        shown = output_of(console)
        assert "\x1b]0;arena: alphago beat sl " in shown and shown.endswith("\x07") and shown.count("\x07") == 1 + rings


# --- The full screen ---


@pytest.mark.parametrize("size", [(40, 20), (80, 24), (100, 30), (160, 50)])
def test_all_views_fit_the_screen_and_boards_stand_where_there_is_room(size: tuple[int, int]) -> None:
    is_match = size[0] in (40, 100)
    state = running(match_of(), Clock()) if is_match else running_league(Clock(), *"abcd")

    async def look(hand: Hand) -> None:
        assert "0:30" in hand.text and "games/s" in hand.text and hand.lines[-1].startswith(" ? Keys")
        assert ("Score +39 =1 -2" in hand.text) if is_match else re.search(r"\ba .*\+\d+", hand.text)
        assert ("A B C D E F" in hand.text) is (size[0] >= 80)
        for key, words in (("w", "move"), ("c", "Elo"), ("g", "ended by")):
            await hand.press(key)
            await hand.until_shown(words)
            await hand.press(key)
        await hand.press("?")
        await hand.until_shown("Previous board", "suspend")
        await hand.press("escape", "q", "q")

    use(EventApp(state, endless(match_of(), boards=0), Control()), look, size)


@pytest.mark.smoke
def test_keys_and_clicks_choose_the_board_pause_and_finish() -> None:
    match, control, closed = match_of(games=64), Control(), list[str]()

    async def choose(hand: Hand) -> None:
        await hand.until_shown("(1/4)")
        for key, board in (("n", 2), ("right", 3), ("left", 2), ("left", 1), ("left", 4)):
            await hand.press(key)
            await hand.until_shown(f"({board}/4)")
        await hand.press("p")
        await hand.until_shown("pinned")
        await hand.press("p")
        await hand.pilot.click("#board", offset=(9, 3))
        await hand.until_shown("(1/4)")
        await hand.press(" ")
        assert control.paused
        await hand.until_shown("PAUSED")
        await hand.press(" ")
        assert not control.paused
        await hand.press("w")
        await hand.until(lambda: hand.text.count("move ") == 4)
        await hand.press("q")
        assert control.finishing and hand.app.is_running
        await hand.press("q")
        await hand.until_closed()

    app = EventApp(EventState(match), endless(match, closed=closed), control)
    use(app, choose, (100, 30))
    assert isinstance(app.ending, KeyboardInterrupt) and closed == ["closed"]


def test_an_error_of_the_event_ends_the_screen_and_is_told() -> None:
    def broken() -> Iterator[Update]:
        yield Update(workers=1)
        raise ValueError("no more")

    app = EventApp(EventState(match_of()), broken(), Control())
    use(app, lambda hand: hand.until_closed())
    assert isinstance(app.ending, ValueError) and not app.is_running


def test_a_closed_terminal_stops_the_event_and_the_screen() -> None:
    closed = list[str]()
    app = EventApp(EventState(match_of()), endless(match_of(), closed=closed), Control())
    app.handlers = {signal.SIGHUP: signal.SIG_DFL}

    async def hang_up(hand: Hand) -> None:
        signal.raise_signal(signal.SIGHUP)
        await hand.until_closed()

    use(app, hang_up)
    assert str(app.ending) == "129" and closed == ["closed"]


# --- In a terminal ---


def test_a_real_match_goes_on_without_its_resource_tracker_and_is_suspended_paused_and_left(tmp_path: Path) -> None:
    """The process that was started after the tracker's death got a descriptor of -1, and a traceback came."""
    with Terminal(*"match random fast-random -n 4000 --workers 1".split(), cwd=tmp_path) as terminal:
        terminal.until(lambda lines: any(re.search(r"[1-9]\d* of 4000", line) for line in lines))
        if sys.platform == "linux":  # whose processes are found
            processes = family(terminal.job)
            for process in (*processes["tracker"], *processes["worker"]):
                os.kill(process, signal.SIGKILL)
            last = int(re.search(r"(\d+) of 4000", terminal.text)[1]) + 100  # type: ignore[index]
            terminal.until(lambda lines: any(int(n) > last for n in re.findall(r"(\d+) of 4000", "\n".join(lines))))
        terminal.press("\x1a")
        terminal.until("stopped, sane")
        terminal.press("go on\n")
        terminal.until(lambda lines: "worker" in "\n".join(lines) and "stopped" not in "\n".join(lines))
        terminal.press(" ")
        terminal.until("PAUSED")
        terminal.press(" ")
        terminal.until(lambda lines: "PAUSED" not in "".join(lines))
        terminal.press("q")
        assert terminal.until_it_ends() == 130 and terminal.is_sane and "Traceback" not in terminal.text
        stored = int(re.search(r"Stopped\. (\d+) of 4000 games are stored", terminal.text)[1])  # type: ignore[index]
    with Store.open(tmp_path / "results" / "arena.db") as store:
        assert store.count() == stored < 4000
