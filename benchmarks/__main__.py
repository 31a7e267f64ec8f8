"""Measure speed beside what the arena is built on, and print ratios of medians as a Markdown table.

playouts   playouts of mcts a second
uct        simulations a second of UCT and of mcts
nets       evaluations a second beside ONNX Runtime
openings   make a book of balanced openings ("python -m benchmarks openings --help")
gpu_round  a round of distillation on a GPU ("python -m benchmarks gpu_round --help")
tactics    positions with known answers: how many a bot solves ("python -m benchmarks tactics --help")
verdicts   how often tests and intervals are right, simulated ("python -m benchmarks verdicts --help")
"""

from __future__ import annotations

import importlib
import sys

from arena import ArenaError

COMMANDS = ("openings", "tactics", "gpu_round", "verdicts")  # modules with a ``main`` of their own


def main(words: list[str]) -> int:
    """The exit code of a command line."""
    command = words[0] if words[:1] and words[0] in COMMANDS else ""
    try:
        module = importlib.import_module(f"benchmarks.{command or 'speed'}")
        return int(module.main(words[1:] if command else words))
    except ArenaError as error:
        print(f"python -m benchmarks {command}".rstrip() + f": {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
