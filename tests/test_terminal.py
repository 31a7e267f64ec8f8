"""Keys, the mouse, drawing in place and on the whole screen; the terminal is left as it was found, whatever happens."""

import os
import pty
import re
import signal
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from played import SIZES, Clock, console_of, lines_of, match_of, record_of, screen_of, snapshot_of, words_of
from terminal import Terminal

from arena.match.runner import Control, Update
from arena.results.store import Store
from arena.screen.events import MatchView
from arena.screen.live import LiveScreen
from arena.screen.running import HOLD
from arena.screen.terminal import PASTED, Act, Gone, Mouse, Paste, Press, Stage, Typed, Typing

NEXT, PREVIOUS, PAUSE, HELP = "n", "left", " ", "?"

# --- What is a key ---


@pytest.mark.parametrize(
    ("sent", "names"),
    [
        (b"d4\r", "d 4 enter"),
        ("é碁".encode(), "é 碁"),
        (b"\x7f\x08\t\n\x04\x1a", "backspace backspace tab enter ctrl-d ctrl-z"),
        (b"\x1b[A\x1bOB\x1b[H\x1b[F\x1b[1~\x1b[4~\x1bOH", "up down home end home end home"),
        (b"\x1b[5~\x1b[6~\x1b[3~\x1b[Z", "page up|page down|delete|shift-tab"),
        (b"\x1b\x1b[C", "escape right"),
        (b"np ?q\x1a", "n|p| |?|q|ctrl-z"),
        (b"\x1bOP\x1b[1;5C\x1b[15~n", "n"),  # keys without a name
        (b"\x1bq\x1bn", ""),  # with Alt
        (b"\x1b[Iq", "q"),  # the focus
        (b"\x1b[\xffn", "n"),
    ],
)
def test_keys_have_names(sent: bytes, names: str) -> None:
    meant = names.split("|" if "|" in names else None)
    assert Typing().read(sent) == [Press(name) for name in meant]


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (b"\x1b[<0;1;1M\x1b[<0;1;1m", [Mouse(Act.CLICK, 0, 0)]),  # down and up
        (b"\x1b[<35;230;57M", [Mouse(Act.MOVE, 56, 229)]),
        (b"\x1b[<32;5;9M", [Mouse(Act.MOVE, 8, 4)]),  # dragged
        (b"\x1b[<64;2;3M\x1b[<65;2;3M", [Mouse(Act.WHEEL_UP, 2, 1), Mouse(Act.WHEEL_DOWN, 2, 1)]),
        (b"\x1b[<16;7;8M", [Mouse(Act.CLICK, 7, 6)]),  # with Ctrl
        (b"\x1b[<2;7;8M\x1b[<66;1;1M", []),  # the right button, the wheel to the left
    ],
)
def test_the_mouse_tells_where_it_is_and_what_it_did(sent: bytes, meant: list[Mouse]) -> None:
    assert Typing().read(sent) == meant


def test_pasted_text_comes_whole_and_does_nothing_else() -> None:
    assert Typing().read(b"\x1b[200~d4\r\nq \x1b[C\x1b[201~x") == [Paste("d4\nq \x1b[C"), Press("x")]
    assert Typing().read(b"q" * PASTED) == [Paste("q" * PASTED)]  # where the terminal doesn't say so


PIECES = [b"n", b"q", b" ", b"x", b"\x1b[C", b"\x1bOD", b"\x1b[15~", "é碁".encode(), b"\x1b[<35;13;9M"]
PIECES += [b"\x1b[200~pqn \x1b[D q\x1b[201~"]


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=12), cuts=st.lists(st.integers(1, 9), max_size=30))
def test_what_is_typed_is_the_same_however_it_is_cut(pieces: list[bytes], cuts: list[int]) -> None:
    meant = [typed for piece in pieces for typed in Typing().read(piece)]
    typing, data, found = Typing(), b"".join(pieces), list[Typed]()
    for cut in [*cuts, *[1] * len(data)]:
        found += typing.read(data[:cut])
        data = data[cut:]
    assert found == meant


def test_escape_alone_is_a_key_once_nothing_follows_and_a_paste_without_end_is_given_up() -> None:
    typing = Typing()
    assert typing.read(b"\x1b") == typing.read(b"[200~np") == []
    assert typing.time_out() == []
    assert typing.read(b"\x1b") == []
    assert typing.time_out() == [Press("escape")]
    assert typing.read(b"\x1b[<0;1") == typing.time_out() == []
    assert typing.read(b"n") == [Press("n")]


# --- Reading them ---


@pytest.fixture
def line() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal: the person's and the program's."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


def stage_on(program: int, mouse: bool = False) -> Stage:
    return Stage(console_of(80, 24), mouse=mouse, descriptor=program)


def test_keys_come_at_once_and_unseen_and_the_settings_come_back(line: tuple[int, int]) -> None:
    person, program = line
    before = termios.tcgetattr(program)
    with stage_on(program) as stage:
        assert stage.hears
        os.write(person, b"n")
        assert stage.next(20) == Press("n")
        os.write(person, b"\x1b[D\x1b")
        assert [stage.next(20), stage.next(20)] == [Press("left"), Press("escape")]
        during = termios.tcgetattr(program)
        assert during[3] & termios.ISIG and not during[3] & termios.ECHO
    assert not stage.hears
    assert termios.tcgetattr(program) == before
    assert b"n" not in os.read(person, 1000)


def test_a_terminal_that_goes_away_is_told_and_no_error(line: tuple[int, int]) -> None:
    with stage_on(line[1]) as stage:
        os.close(line[0])
        assert stage.next(20) == Gone()
        assert stage.next(0) is None


def test_settings_and_the_mouse_are_as_before_after_an_error(line: tuple[int, int]) -> None:
    person, program = line
    before = termios.tcgetattr(program)
    with pytest.raises(ZeroDivisionError), stage_on(program, mouse=True):
        asked = os.read(person, 1000)
        raise ZeroDivisionError
    assert termios.tcgetattr(program) == before
    left = os.read(person, 1000)
    for mode in (b"1000", b"1003", b"1006", b"2004"):
        assert b"\x1b[?%sh" % mode in asked and b"\x1b[?%sl" % mode in left


def test_without_a_terminal_there_are_no_keys(tmp_path: Path) -> None:
    with (tmp_path / "keys").open("w+") as file, stage_on(file.fileno()) as stage:
        assert not stage.hears and stage.next(0) is None


# --- What they do ---


def caption_of(screen: LiveScreen[Any]) -> str:
    return next(line for line in lines_of(screen, 120, 40) if " game " in line and "games" not in line)[54:]


def test_the_chosen_board_is_shown_to_its_end_and_then_the_next_game_on_it() -> None:
    clock, match = Clock(), match_of()
    screen = screen_of(MatchView(match, clock))
    screen.add(Update(snapshots=tuple(snapshot_of(match, number, "E5") for number in (0, 1, 2)), workers=1))
    assert caption_of(screen) == "game 3, board 3 of 3, move 1: ● E5"
    screen.press(NEXT)
    assert caption_of(screen).startswith("game 1, board 1 of 3")
    screen.press(NEXT)
    screen.add(Update(snapshots=(snapshot_of(match, 2, "E5 C3"), snapshot_of(match, 1, "E5 C4"))))
    assert caption_of(screen) == "game 2, board 2 of 3, move 2: ○ C4"
    screen.add(Update((record_of(match, 1, "sl"),), snapshots=(snapshot_of(match, 7, "D5"),)))
    assert caption_of(screen) == "game 2: B+2.5, 24 moves" or caption_of(screen) == "game 2: W+2.5, 24 moves"
    clock.now += HOLD
    screen.add(Update())
    assert caption_of(screen) == "game 8, board 2 of 3, move 1: ● D5"
    for caption in ("game 1", "game 3", "game 8"):
        screen.press(PREVIOUS)
        assert caption_of(screen).startswith(f"{caption}, board ")


def test_from_a_game_that_is_over_one_goes_on_to_its_neighbours() -> None:
    match = match_of()
    screen = screen_of(MatchView(match, Clock()))
    screen.press(NEXT)  # nothing is under way
    screen.add(Update(snapshots=tuple(snapshot_of(match, number, "E5") for number in (0, 1, 2)), workers=1))
    screen.press(PREVIOUS)
    screen.add(Update((record_of(match, 1, "sl"),)))
    screen.press(PREVIOUS)
    assert caption_of(screen) == "game 1, board 1 of 2, move 1: ● E5"
    screen.press(PREVIOUS)
    assert caption_of(screen) == "game 3, board 2 of 2, move 1: ● E5"


def test_a_pause_stops_the_bots_and_counts_for_nothing() -> None:
    clock, match, control = Clock(), match_of(games=10), Control()
    view = MatchView(match, clock)
    screen = screen_of(view, control)
    screen.add(Update(snapshots=(snapshot_of(match, 9, "E5"),), workers=1))
    clock.now += 20
    screen.add(Update(tuple(record_of(match, number, "sl") for number in range(5)), workers=1))
    before = view.elapsed, view.seconds_left, view.games_a_second
    screen.press(PAUSE)
    assert control.paused
    clock.now += 1000
    screen.add(Update())
    screen.has_keys = True
    assert "PAUSED" in words_of(lines_of(screen, 40, 20))
    assert "space resume" in lines_of(screen, 80, 24)[-1]
    assert (view.elapsed, view.seconds_left, view.games_a_second) == before
    screen.press(PAUSE)
    assert not control.paused
    assert "PAUSED" not in words_of(lines_of(screen, 40, 20))
    assert (view.elapsed, view.seconds_left, view.games_a_second) == before
    clock.now += 10
    assert view.elapsed == 30
    control.paused = True  # by somebody else
    screen.add(Update())
    clock.now += 10
    assert view.elapsed == 30


@pytest.mark.parametrize("controlled", [True, False])
def test_the_hint_names_the_keys_that_there_are(controlled: bool) -> None:
    match = match_of()
    screen = screen_of(MatchView(match, Clock()), Control() if controlled else None)
    assert "q quit" not in words_of(lines_of(screen, 80, 24))
    screen.has_keys = True
    hint = lines_of(screen, 80, 24)[-1]
    assert hint == f"n/p other board · w all boards · {'space pause · ' if controlled else ''}q quit · ? keys"
    assert lines_of(screen, 40, 24)[-1].startswith("n/p ")
    assert "q quit" not in words_of(lines_of(screen, 40, 12))  # the figures come first
    screen.press(HELP)
    for width, height in SIZES:
        lines = lines_of(screen, width, height)
        assert ("pause" in lines[-1]) is controlled
        assert lines[-1].startswith("n ") and "q quit" in lines[-1]
        assert len(lines) < height


# --- In a terminal ---

LIVE = """
import sys
from itertools import count
from threading import Event
from played import glance_of, match_of
from arena.report.style import Console
from arena.match.runner import Control, Update
from arena.screen.events import show
match = match_of(games=64)

def updates():
    for number in count():
        yield Update(snapshots=tuple(glance_of(match, n, "E5 C3 D4 F6"[: 3 * n + 2]) for n in range(4)), workers=1)
        Event().wait(0.02)
        if "fail" in sys.argv and number > 5:
            raise ValueError("no more")

try:
    show(match, updates(), Console(), control=Control())
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 50)])
def test_a_person_at_a_terminal_looks_around_pauses_and_quits(width: int, height: int) -> None:
    with Terminal("-c", LIVE, width=width, height=height) as terminal:
        terminal.until("n/p other board · w all boards · space pause · q quit")
        terminal.until("game 4")
        for key, game in (("n", 1), ("n", 2), ("\x1b[D", 1), ("p", 4), ("\x1bOC", 1)):
            terminal.press(key)
            terminal.until(f"game {game}")
        terminal.press("\x1b[200~q n q\x1b[201~")
        terminal.press("?")
        terminal.until("q quit, ")
        terminal.press("? ")
        terminal.until("PAUSED")
        terminal.press(" ")
        terminal.until("games under way")
        assert "game 1" in terminal.text
        terminal.press("qq")
        assert terminal.until_it_ends() == 1
        assert "interrupted" in terminal.text
        assert terminal.is_sane


@pytest.mark.parametrize("end", ["Ctrl-C", "SIGTERM", "error"])
def test_the_terminal_is_as_it_was_found_after_any_end(end: str) -> None:
    with Terminal("-c", LIVE, *["fail"] * (end == "error"), width=60, height=30) as terminal:
        if end == "Ctrl-C":
            terminal.until("q quit")
            terminal.press("\x03")
        elif end == "SIGTERM":
            terminal.until("q quit")
            os.kill(terminal.job, signal.SIGTERM)
        assert terminal.until_it_ends() == (128 + signal.SIGTERM if end == "SIGTERM" else 1)
        assert {"Ctrl-C": "interrupted", "SIGTERM": "Won by", "error": "no more"}[end] in terminal.text
        assert terminal.is_sane


def test_ctrl_z_gives_the_terminal_back_until_the_job_goes_on() -> None:
    with Terminal("-c", LIVE) as terminal:
        terminal.until("q quit")
        terminal.press("\x1a")
        terminal.until("stopped, sane")
        assert not terminal.screen.cursor.hidden
        terminal.press("go on\n")
        terminal.until(lambda lines: "stopped, sane" not in lines and any("games under way" in line for line in lines))
        terminal.press("n")
        terminal.until("game 1")
        os.kill(terminal.job, signal.SIGTSTP)
        terminal.until(lambda lines: "\n".join(lines).count("stopped, sane") == 2)
        terminal.press("go on\n")
        terminal.until(lambda lines: "stopped, sane" not in lines and any("games under way" in line for line in lines))
        terminal.press("qq")
        terminal.until_it_ends()
        assert terminal.is_sane


def test_a_screen_never_blinks_not_even_as_its_size_changes() -> None:
    shown = list[bool]()
    with Terminal("-c", LIVE, seen=lambda lines: shown.append("alphago vs sl" in lines[0])) as terminal:
        terminal.until("q quit")
        for width, height in ((90, 30),):
            terminal.resize(width, height)
            terminal.until(lambda lines, width=width: len(lines[0]) == width)
            shown.clear()
            terminal.press("n")
            terminal.until(lambda lines: len(shown) > 6)
            assert all(shown)
        assert terminal.text.count("alphago vs sl") == terminal.text.count("q quit") == 1
        terminal.press("qq")
        terminal.until_it_ends()


def test_a_real_match_pauses_quits_and_goes_on(tmp_path: Path) -> None:
    match = ["-c", "from arena.cli import main; main()", "match", "random", "fast-random", "-n", "400"]
    match += ["--workers", "1"]
    with Terminal(*match, cwd=tmp_path) as terminal:
        terminal.until(lambda lines: any(re.search(r"[1-9]\d* of 400", line) for line in lines))
        for key in "np":
            terminal.press(key)
        terminal.press(" ")
        terminal.until("PAUSED")
        terminal.press(" ")
        terminal.until(lambda lines: "PAUSED" not in "".join(lines))
        terminal.press("q")
        assert terminal.until_it_ends() == 130
        assert terminal.is_sane
        stored = int(re.search(r"Stopped\. (\d+) of 400 games are stored", terminal.text)[1])  # type: ignore[index]
    with Store.open(tmp_path / "results" / "arena.db") as store:
        assert store.count() == stored < 400
    with Terminal(*match, cwd=tmp_path, width=100) as terminal:
        terminal.until(f"{stored} of 400 played earlier")
        assert terminal.until_it_ends() == 0
    with Store.open(tmp_path / "results" / "arena.db") as store:
        assert store.count() == 400


# --- The whole terminal ---

MODES = {mode << 5 for mode in (1000, 1003, 1006, 2004)}
"""Of the mouse and of pasted text, as pyte notes them."""

ECHO = """
import sys
from arena.report.style import Console
from rich.console import Group
from rich.text import Text
from arena.screen.terminal import Stage

print("before")
said = []
with Stage(Console(), lambda: said.append("stops"), lambda: said.append("goes on")) as stage:
    while "q" not in said:
        stage.draw(Group(Text(f"{stage.size[0]} columns"), *map(Text, said[-8:])))
        typed = stage.next()
        if typed is not None:
            said.append(getattr(typed, "key", "") or getattr(typed, "text", "") or str(typed).replace("Act.", ""))
        if "x" in said:
            raise ValueError("no more")
"""


def test_all_that_is_done_comes_in_order_and_the_first_screen_comes_back() -> None:
    with Terminal("-c", ECHO) as terminal:
        terminal.until("80 columns")
        assert "before" not in terminal.text and set(terminal.screen.mode) >= MODES and terminal.screen.cursor.hidden
        terminal.press("d4\r\x1b[A\x1b[200~two words\x1b[201~\x1b[<0;3;2M\x1b")
        terminal.until("escape")
        assert terminal.lines[1:8] == [
            "d",
            "4",
            "enter",
            "up",
            "two words",
            "Mouse(act=<CLICK: 1>, row=1, column=2)",
            "escape",
        ]
        terminal.resize(50, 10)
        terminal.until("50 columns")
        terminal.press("q")
        assert terminal.until_it_ends() == 0
        assert "before" in terminal.text and "columns" not in terminal.text
        assert terminal.is_sane and not MODES & set(terminal.screen.mode)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, "error"])
def test_the_whole_screen_goes_whatever_ends_it(end: signal.Signals | str) -> None:
    with Terminal("-c", ECHO, width=100) as terminal:
        terminal.until("100 columns")
        if isinstance(end, signal.Signals):
            os.kill(terminal.job, end)
        else:
            terminal.press("x")
        assert terminal.until_it_ends() == {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: -2, "error": 1}[end]
        assert terminal.is_sane and not MODES & set(terminal.screen.mode)
        assert "no more" in terminal.text or end != "error"


@pytest.mark.parametrize("by", ["key", "signal"])
def test_a_stopped_process_gives_the_terminal_back_until_it_goes_on(by: str) -> None:
    with Terminal("-c", ECHO) as terminal:
        terminal.until("80 columns")
        if by == "key":
            terminal.press("\x1a")
        else:
            os.kill(terminal.job, signal.SIGTSTP)
        terminal.until("stopped, sane")
        assert "before" in terminal.text and not terminal.screen.cursor.hidden and not MODES & set(terminal.screen.mode)
        terminal.press("go on\n")
        terminal.until("goes on")
        assert terminal.lines[:3] == ["80 columns", "stops", "goes on"]
        terminal.press("q")
        assert terminal.until_it_ends() == 0
