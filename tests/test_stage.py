"""The whole terminal for one person: what is typed comes in order, and all is as it was found whatever ends it."""

from __future__ import annotations

import os
import signal

import pytest
from terminal import Terminal

MODES = {mode << 5 for mode in (1000, 1003, 1006, 2004)}
"""Of the mouse and of pasted text, as pyte notes them."""

ECHO = """
import sys
from rich.console import Console
from rich.text import Text
from arena.screen.terminal import Stage

print("before")
said = []
with Stage(Console(), lambda: said.append("stops"), lambda: said.append("goes on")) as stage:
    while "q" not in said:
        stage.draw([Text(f"{stage.size[0]} columns"), *map(Text, said[-8:])])
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
def test_the_terminal_is_as_it_was_found_whatever_ends_it(end: signal.Signals | str) -> None:
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
