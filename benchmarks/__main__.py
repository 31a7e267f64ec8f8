"""Measure what the arena promises about speed and print ratios; ``python -m benchmarks --help``.

Everything is interleaved with what it is compared to, and medians are printed: on a busy machine single times mean
little. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks.engine import answering_playouts, playouts, uct_simulations
from benchmarks.matches import matches
from benchmarks.search import puct


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--study", type=Path, help="folder of another Numba engine (nb_clean_rec.py) to compare with")
    parser.add_argument("only", nargs="*", help="playouts, uct, puct, matches; all unless given")
    arguments = parser.parse_args()
    study = None
    if arguments.study is not None:
        sys.path.insert(0, str(arguments.study))
        study = importlib.import_module("nb_clean_rec")
    wanted = arguments.only or ["playouts", "uct", "puct", "matches"]
    if "playouts" in wanted:
        for size in (9, 13, 19):
            playouts(size, study)
            answering_playouts(size)
    if "uct" in wanted:
        uct_simulations(study)
    if "puct" in wanted:
        puct()
    if "matches" in wanted:
        matches()


if __name__ == "__main__":
    main()
