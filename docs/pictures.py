"""Draws the pictures of the docs: each is a full screen of the program itself, as Textual saves it.

python docs/pictures.py [NAME ...]     # those named, or all; minutes, in a folder that is thrown away
"""

from __future__ import annotations

import os
import pty
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

HERE = Path(__file__).parent
PROGRAM = [sys.executable, "-c", "from arena.cli import main; main()"]


LEAGUE = "tournament league random mcts:playouts=50 mcts:playouts=200 sl:temperature=1 sl -n 1000"
KEYS = "e,5,enter,wait:5000,g,7,enter,wait:5000,c,6,enter,wait:5000,exclamation_mark,wait:500,y"
SCENES = {
    "match": ("match sl mcts:playouts=100 -n 1000", 100, 30, 17, ""),
    "league": (LEAGUE, 124, 30, 40, ""),
    "play": ("play mcts:playouts=300 --as me", 100, 26, 45, KEYS),
}
"""Commands, the width and height of the terminal, the seconds until the screen is saved, and keys pressed before."""


def main(names: list[str]) -> None:
    if unknown := set(names) - SCENES.keys():
        raise SystemExit(f"there is no picture '{min(unknown)}'; there are {', '.join(SCENES)}")
    for name in names or SCENES:
        words, width, height, seconds, keys = SCENES[name]
        settings = {"COLUMNS": f"{width}", "LINES": f"{height}", "PYTHONPATH": f"{HERE.parent}"}
        settings |= {"TEXTUAL_SCREENSHOT": f"{seconds}", "TEXTUAL_PRESS": keys}
        settings |= {"TEXTUAL_SCREENSHOT_LOCATION": f"{HERE}", "TEXTUAL_SCREENSHOT_FILENAME": f"{name}.svg"}
        with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, settings):
            os.chdir(folder)
            pty.spawn([*PROGRAM, *words.split()], lambda terminal: os.read(terminal, 1 << 16) and b"\0")
            os.chdir(HERE)
        print(f"{HERE / name}.svg is drawn.")


if __name__ == "__main__":
    main(sys.argv[1:])
