"""Measure speed beside what the arena is built on, and print ratios of medians as a Markdown table.

playouts   playouts of mcts a second
uct        simulations a second of UCT and of mcts
nets       evaluations a second beside ONNX Runtime
tune       settings of a bot, by SPSA over the board ("python -m benchmarks tune --help")
openings   make a book of balanced openings ("python -m benchmarks openings --help")
gpu_round  a round of distillation on a GPU ("python -m benchmarks gpu_round --help")
intervals  draw a match with both its intervals ("python -m benchmarks intervals --help")
tactics    positions with known answers: how many a bot solves ("python -m benchmarks tactics --help")
verdicts   how often tests and intervals are right, simulated ("python -m benchmarks verdicts --help")
"""

from __future__ import annotations

import argparse
import importlib
import sys

from arena import ArenaError
from benchmarks.speed import PARTS, describe_machine, measure_nets, print_row

COMMANDS = ("tune", "openings", "tactics", "gpu_round", "intervals", "verdicts")  # modules with a ``main`` of their own


def main(words: list[str]) -> int:
    """The exit code of a command line."""
    command = words[0] if words[:1] and words[0] in COMMANDS else ""
    try:
        return (
            int(importlib.import_module(f"benchmarks.{command}").main(words[1:])) if command else measure_speed(words)
        )
    except ArenaError as error:
        print(f"python -m benchmarks {command}".rstrip() + f": {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = " Finished games are kept; run the same command to continue." if command == "tune" else ""
        print(f"stopped.{kept}", file=sys.stderr)
        return 130


def measure_speed(words: list[str]) -> int:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=shown)
    parser.add_argument("--share", type=float, default=1.0, help="share of the usual work (default 1)")
    words_of_nets = "a net that 'nets' measures, which may be given several times (default distilled-9x9)"
    parser.add_argument("--net", action="append", metavar="NAME", help=words_of_nets)
    parser.add_argument("part", nargs="*", help=f"what to measure (default: {', '.join(PARTS)})")
    arguments = parser.parse_args(words)
    if unknown := set(arguments.part) - PARTS.keys():
        parser.error(f"there is no '{min(unknown)}'; there are {', '.join((*PARTS, *COMMANDS))}")
    print(describe_machine(), end="\n\n")
    print_row(("what", "ours", "beside"))
    print_row(["---"] * 3)
    for part in arguments.part or PARTS:
        if part == "nets" and arguments.net:
            measure_nets(arguments.share, arguments.net)
        else:
            PARTS[part](arguments.share)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
