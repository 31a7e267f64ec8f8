"""Draws the pictures of the docs: each is a screen of the program itself, as Textual or Rich saves it.

python docs/pictures.py [NAME ...]     # those named, or all; minutes, in a folder that is thrown away
"""

from __future__ import annotations

import os
import pty
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Scene:
    """A command and the size of its terminal; the keys that are pressed, and the seconds after which the picture of its
    full screen is taken. Without seconds, the picture is of what it prints."""

    words: str
    width: int
    height: int
    seconds: int = 0
    keys: str = ""
    before: str = ""  # another command


SCENES = {
    "match": Scene("match sl mcts:playouts=100 -n 1000", 100, 30, 30),
    "league": Scene(
        "tournament league random mcts:playouts=50 mcts:playouts=200 sl:temperature=1 sl -n 1000", 124, 30, 40
    ),
    "analysis": Scene("analyze 1 --bot alphago --visits 50", 100, 34, before="match sl sl:temperature=0.5 -n 2"),
    "play": Scene(
        "play mcts:playouts=300 --as me",
        *(100, 26, 45),
        keys="e,5,enter,wait:5000,g,7,enter,wait:5000,c,6,enter,wait:5000,exclamation_mark,wait:500,y",
    ),
}


def run(words: str) -> str:
    """Run a command in a terminal of its own; all that it writes there."""
    written = bytearray()

    def read(terminal: int) -> bytes:
        written.extend(os.read(terminal, 1 << 16))
        return b"\0"  # shown in place of it

    pty.spawn([sys.executable, "-c", "from arena.cli import main; main()", *words.split()], read)
    return written.decode("utf-8", "replace").replace("\r", "")


def draw(name: str, scene: Scene) -> None:
    settings = {"COLUMNS": f"{scene.width}", "LINES": f"{scene.height}", "PYTHONPATH": f"{HERE.parent}"}
    if scene.before:
        run(scene.before)
    if scene.seconds:
        settings |= {"TEXTUAL_SCREENSHOT": f"{scene.seconds}", "TEXTUAL_PRESS": scene.keys}
        settings |= {"TEXTUAL_SCREENSHOT_LOCATION": f"{HERE}", "TEXTUAL_SCREENSHOT_FILENAME": f"{name}.svg"}
    with patch.dict(os.environ, settings):
        written = run(scene.words)
    if not scene.seconds:
        console = Console(record=True, width=scene.width, file=StringIO(), color_system="truecolor")
        console.print(Text.from_ansi(written.rpartition("\x1b[2K")[2]))  # what follows the bar of its progress
        console.save_svg(f"{HERE / name}.svg", title=f"arena {scene.words}", unique_id=f"arena-{name}")


def main(names: Sequence[str]) -> None:
    if unknown := set(names) - SCENES.keys():
        raise SystemExit(f"there is no picture '{min(unknown)}'; there are {', '.join(SCENES)}")
    for name in names or SCENES:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            draw(name, SCENES[name])
            os.chdir(HERE)
        print(f"{HERE / name}.svg is drawn.")


if __name__ == "__main__":
    main(sys.argv[1:])
