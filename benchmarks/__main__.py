"""Measure speed beside what the arena is built on, and print ratios of medians as a Markdown table.

playouts   playouts of mcts a second
uct        simulations a second of UCT and of mcts
nets       evaluations a second beside ONNX Runtime
tune       settings of a bot, by SPSA over the board ("python -m benchmarks tune --help")
openings   make a book of balanced openings ("python -m benchmarks openings --help")
tactics    positions with known answers: how many a bot solves ("python -m benchmarks tactics --help")
"""

from __future__ import annotations

import argparse
import importlib
import sys

from arena import ArenaError
from benchmarks.speed import PARTS, machine, row

COMMANDS = {name: f"benchmarks.{name}" for name in ("tune", "openings", "tactics")}
"""Parts with options of their own, and the module with their ``main``."""


def main(words: list[str]) -> int:
    if words[:1] and words[0] in COMMANDS:
        try:
            return int(importlib.import_module(COMMANDS[words[0]]).main(words[1:]))
        except ArenaError as error:
            print(f"python -m benchmarks {words[0]}: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("stopped. Games that were played are kept; run the same command to continue.", file=sys.stderr)
            return 130
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=shown)
    parser.add_argument("--share", type=float, default=1.0, help="share of the usual work (default 1)")
    parser.add_argument("part", nargs="*", help=f"what to measure (default: {', '.join(PARTS)})")
    arguments = parser.parse_args(words)
    if unknown := set(arguments.part) - PARTS.keys():
        parser.error(f"there is no '{min(unknown)}'; there are {', '.join((*PARTS, *COMMANDS))}")
    print(machine(), end="\n\n")
    row(("what", "ours", "beside"))
    row(["---"] * 3)
    for part in arguments.part or PARTS:
        PARTS[part](arguments.share)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
