"""Measure what the arena promises about speed, beside what it is built on, and print ratios.

Everything is taken in turn with what it is compared to, and medians are printed: on a busy machine single times mean
little. Nothing here passes or fails. The table is Markdown, ready for benchmarks/README.md.

  playouts   the compiled engine: playouts from the kernel, uniform and answering
  uct        simulations a second of plain UCT and of mcts
  nets       evaluations a second beside the bare ONNX Runtime
  puct       what a leaf costs outside the net
  strength   bots against KataGo or other engines ("python -m benchmarks strength --help")
  tune       settings of a bot, by SPSA over the board ("python -m benchmarks tune --help")
  openings   make a book of balanced openings ("python -m benchmarks openings --help")
  tactics    positions with known answers: how many a bot solves ("python -m benchmarks tactics --help")
"""

from __future__ import annotations

import argparse
import importlib
import sys

from arena import UserError
from benchmarks import engine, nets, search
from benchmarks.measure import machine, row

COMMANDS = {
    "strength": "benchmarks.strength",
    "tune": "benchmarks.tune",
    "openings": "benchmarks.openings",
    "tactics": "benchmarks.tactics.ask",
}
"""What has options of its own, and the module with its ``main``."""

PARTS = {"playouts": engine.playouts, "uct": engine.uct_simulations, "nets": nets.nets, "puct": search.puct}


def main(words: list[str]) -> int:
    if words[:1] and words[0] in COMMANDS:
        command = importlib.import_module(COMMANDS[words[0]])
        try:
            return int(command.main(words[1:]))
        except UserError as error:
            print(f"python -m benchmarks {words[0]}: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("stopped. Games that were played are kept, and the same command goes on.", file=sys.stderr)
            return 130
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--share", type=float, default=1.0, help="share of the usual work (default 1)")
    parser.add_argument("part", nargs="*", help=f"what to measure (default: {', '.join(PARTS)})")
    arguments = parser.parse_args(words)
    for part in arguments.part:
        if part not in PARTS:
            parser.error(f"there is no '{part}'; there are {', '.join((*PARTS, *COMMANDS))}")
    if not 0 < arguments.share <= 1:
        parser.error(f"--share {arguments.share:g} is out of range; it is over 0 and at most 1")
    print(machine(), end="\n\n")
    row("what", "ours", "beside")
    row("---", "---", "---")
    for part in arguments.part or PARTS:
        PARTS[part](arguments.share)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
