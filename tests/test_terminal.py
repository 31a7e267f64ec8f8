"""Keys, the mouse, drawing in place and on the whole screen; the terminal is left as it was found, whatever happens."""

import os
import pty
import signal
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from played import console_of
from terminal import Terminal

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
