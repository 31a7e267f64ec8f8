"""Measure what the arena promises about speed, beside other programs where they are installed, and print ratios.

Everything is taken in turn with what it is compared to, and medians are printed: on a busy machine single times mean
little. Nothing here passes or fails. The table is Markdown, ready for benchmarks/README.md.

  playouts   the compiled engine: playouts from the kernel, uniform and answering; with --study beside another engine
  uct        simulations a second of plain UCT and of mcts
  nets       evaluations a second beside the bare ONNX Runtime
  puct       what a leaf costs outside the net
  matches    whole matches beside the sum of their parts
  cluster    what many workers cost the process that stores, on a Ray cluster of this machine
  train      learning and self-play with torch, on a GPU where there is one
  peers      OpenSpiel's Go and MCTS, PettingZoo's go_v5, GNU Go's and Pachi's playouts
  strength   bots against KataGo or other engines ("python -m benchmarks strength --help")
  tune       settings of a bot, by SPSA over the board ("python -m benchmarks tune --help")
  openings   make a book of balanced openings ("python -m benchmarks openings --help")
  tactics    positions with known answers: how many a bot solves ("python -m benchmarks tactics --help")
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from arena import UserError
from benchmarks.measure import machine, row

COMMANDS = {
    "strength": "benchmarks.strength",
    "tune": "benchmarks.tune",
    "openings": "benchmarks.openings",
    "tactics": "benchmarks.tactics.ask",
}
"""What has options of its own, and the module with its ``main``."""

PARTS = ("playouts", "uct", "nets", "puct", "matches", "cluster", "train", "peers")


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
    parser.add_argument("--study", type=Path, help="folder of another Numba engine (nb_clean_rec.py) to compare with")
    parser.add_argument("part", nargs="*", help=f"what to measure (default: all but {', '.join(COMMANDS)})")
    arguments = parser.parse_args(words)
    for part in arguments.part:
        if part not in PARTS:
            parser.error(f"there is no '{part}'; there are {', '.join((*PARTS, *COMMANDS))}")
    study = None
    if arguments.study is not None:
        if not (arguments.study / "nb_clean_rec.py").is_file():
            parser.error(f"--study {arguments.study}: there is no nb_clean_rec.py in it")
        sys.path.insert(0, str(arguments.study))
        study = importlib.import_module("nb_clean_rec")
    print(machine(), end="\n\n")
    row("what", "ours", "beside")
    row("---", "---", "---")
    for part in arguments.part or PARTS:
        _measure(part, study)
    return 0


def _measure(part: str, study: Any) -> None:
    """One part; what it needs is imported only then."""
    from benchmarks import cluster, engine, matches, nets, peers, search, train

    def playouts() -> None:
        for size in (9, 13, 19):
            engine.playouts(size, study)
            engine.answering_playouts(size)

    parts: dict[str, Callable[[], None]] = {
        "playouts": playouts,
        "uct": lambda: engine.uct_simulations(study),
        "nets": nets.nets,
        "puct": search.puct,
        "matches": matches.matches,
        "cluster": cluster.cluster,
        "train": train.train,
        "peers": peers.peers,
    }
    parts[part]()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
