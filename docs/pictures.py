"""Draws the pictures of the README: each is a screen of the program itself, run here in a terminal that is only data.

    python docs/pictures.py [NAME ...]     # those named, or all; minutes, in a folder that is thrown away

The terminal is pyte's, which comes with arena[test]. Nothing but the picture is written.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Any

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

HERE = Path(__file__).parent

PATIENCE = 1800.0
"""Seconds that a scene may take."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A command, what is typed while it runs, and when the picture is taken: as soon as this is to be seen."""

    name: str
    words: Sequence[str]
    width: int
    height: int
    is_ready: Callable[[str], bool]
    before: Sequence[Sequence[str]] = ()
    typed: Sequence[tuple[str, str]] = ()
    """What is waited for, and what is typed then."""


def stored(games: int) -> Callable[[str], bool]:
    """Whether a live screen says that so many games are stored, or more, and shows a game that is well under way."""

    def is_ready(text: str) -> bool:
        count = re.search(r"(\d+) of \d+ +\d+:\d\d", text)
        move = re.search(r"move (\d+): ", text)
        return count is not None and move is not None and int(count[1]) >= games and 25 <= int(move[1]) <= 55

    return is_ready


SCENES = (
    Scene("match", ["match", "sl", "mcts:playouts=100", "-n", "100"], 100, 30, stored(30)),
    Scene(
        "league",
        [
            "tournament",
            "league",
            "random",
            "mcts:playouts=50",
            "mcts:playouts=200",
            "sl:temperature=1",
            "sl",
            "-n",
            "20",
        ],
        124,
        30,
        stored(120),
    ),
    Scene(
        "analysis",
        ["analyze", "1", "--bot", "alphago", "--visits", "50"],
        100,
        34,
        lambda text: "marks the largest" in text,
        before=[["match", "sl", "sl:temperature=0.5", "-n", "2"]],
    ),
    Scene(
        "play",
        ["play", "mcts:playouts=300", "--as", "me"],
        100,
        26,
        lambda text: re.search(r"\d,\d\d\d visits", text) is not None,
        typed=[
            ("no move yet", "e5\r"),
            ("move 2:", "g7\r"),
            ("move 4:", "c6\r"),
            ("move 6:", "!"),
            ("makes this game", "y"),
        ],
    ),
)


class Screen(pyte.Screen):
    """A terminal that knows faint text, which pyte drops: it is kept as blinking, which nobody writes here."""

    def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:
        if 38 not in attributes and 48 not in attributes:
            attributes = tuple(5 if attribute == 2 else attribute for attribute in attributes)
        super().select_graphic_rendition(*attributes)


def arena(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-c", "from arena.cli import main; main()", *words]


def film(scene: Scene, folder: Path) -> Screen:
    """Run the command until the picture can be taken, then stop it as Ctrl-C does."""
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONUTF8": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), environment.get("PYTHONPATH", "")])
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        environment.pop(name, None)
    for words in scene.before:
        subprocess.run(arena(words), cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    screen = Screen(scene.width, scene.height)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", scene.height, scene.width, 0, 0))
    process = subprocess.Popen(
        arena(scene.words),
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    typed = list(scene.typed)
    end = monotonic() + PATIENCE
    try:
        is_settled = False  # a frame may come in pieces
        while not (is_settled and not typed and scene.is_ready("\n".join(screen.display))):
            waiting = 0.05 if scene.is_ready("\n".join(screen.display)) else max(0.0, end - monotonic())
            is_settled = not select.select([ours], [], [], waiting)[0]
            if monotonic() >= end:
                raise SystemExit(f"{scene.name}: it never showed what was waited for:\n" + "\n".join(screen.display))
            if is_settled:
                continue
            try:
                stream.feed(os.read(ours, 65536))
            except OSError:  # the program has ended
                raise SystemExit(f"{scene.name}: it ended before:\n" + "\n".join(screen.display)) from None
            if typed and typed[0][0] in "\n".join(screen.display):
                os.write(ours, typed.pop(0)[1].encode())
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        os.set_blocking(ours, False)
        while process.poll() is None and monotonic() < end:
            with suppress(OSError):
                select.select([ours], [], [], 0.1)
                os.read(ours, 65536)
        os.close(ours)
    return screen


def develop(scene: Scene, screen: Screen) -> str:
    """The screen as SVG, without the empty lines at its end."""
    lines = [_line(screen.buffer[row], scene.width) for row in range(scene.height)]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    console = Console(record=True, width=scene.width, file=StringIO(), color_system="truecolor", force_terminal=True)
    for line in lines:
        console.print(line, soft_wrap=True)
    return console.export_svg(title="arena " + " ".join(scene.words), unique_id=f"arena-{scene.name}")


def _line(cells: Mapping[int, Any], width: int) -> Text:
    """A row of the screen. What is alike side by side is one piece, which keeps a picture small, but blanks are pieces
    of their own: some viewers drop them at the beginning of another."""
    written = [column for column in range(width) if cells[column].data != " " or cells[column].bg != "default"]
    line = Text()
    shown = (cells[column] for column in range(max(written, default=-1) + 1))
    for (look, _), run in groupby(shown, lambda cell: (cell._replace(data=""), cell.data == " ")):
        style = Style(
            color=_colour(look.fg), bgcolor=_colour(look.bg), bold=look.bold, dim=look.blink, reverse=look.reverse
        )
        line.append("".join(cell.data for cell in run), style)
    return line


def _colour(name: str) -> str | None:
    """pyte's colour as Rich calls it."""
    if name == "default":
        return None
    if len(name) == 6 and all(sign in "0123456789abcdef" for sign in name.lower()):
        return f"#{name}"
    return name.replace("brown", "yellow").replace("bright", "bright_")


def main(names: Sequence[str]) -> None:
    known = {scene.name: scene for scene in SCENES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"there is no picture '{unknown[0]}'; there are {', '.join(known)}")
    for name in names or known:
        with tempfile.TemporaryDirectory() as folder:
            screen = film(known[name], Path(folder))
        path = HERE / f"{name}.svg"
        path.write_text(develop(known[name], screen), encoding="utf-8")
        print(f"{path} is drawn.")


if __name__ == "__main__":
    main(sys.argv[1:])
