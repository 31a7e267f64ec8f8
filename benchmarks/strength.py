"""Bots against engines of others, over the board: ``python -m benchmarks strength [ENGINE ...]``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from arena.cli.options import registry_of
from arena.go.game import Rules
from arena.match.runner import play_event
from arena.match.schedule import Match, Terms
from arena.match.standings import MatchTally
from arena.results.store import Store
from benchmarks.speed import machine, row

BOTS = (
    "sl",
    "policy:checkpoint=distilled-9x9",
    "alphago:visits=100",
    "alphago:visits=600",
    "alphago:visits=2500",
)
ENGINES = ("katago@simulations=1", "katago@simulations=10", "katago@simulations=50", "katago@simulations=200")

EXPLANATION = """Play bots against engines and print a table of the results.

Each bot plays each engine: colours swapped on every opening, komi 7, one game at a time on each worker. The default
engines are an entry "katago" of arena.toml at 1, 10, 50 and 200 visits a move; "arena doctor" prints the lines to add.
Give the engine one thread, as the bots have. Seconds are wall time a move: a table is only fair where no other work
runs. Games are kept in --results, so a table that is interrupted goes on."""

COLUMNS = ("size", "bot", "engine", "games", "score", "Elo (95 %)", "seconds a move: bot", "engine")


def played(match: Match, store: Store, workers: int, progress: Progress) -> MatchTally:
    """The match, as far as it isn't stored yet."""
    standings = match.standings()
    task = progress.add_task(f"{match.first.name} - {match.second.name}", total=match.games)
    for update in play_event(match, store, workers):
        standings.add(update.records)
        progress.update(task, completed=standings.games + standings.waiting)
    progress.remove_task(task)
    return standings.between(*match.players)


def cells(match: Match, tally: MatchTally) -> Iterator[str]:
    """One row of the table."""
    first, second = match.players
    yield f"{match.terms.rules.size}x{match.terms.rules.size}"
    yield from (first, second, f"{tally.games}", f"{tally.points:g}-{tally.games - tally.points:g}")
    yield str(tally.comparison().elo)
    for player in (first, second):
        seconds = tally.seconds_a_move(player)
        yield "" if seconds is None else f"{seconds:.3f}"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks strength",
        description=EXPLANATION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("engine", nargs="*", default=ENGINES, help=f"opponents (default: {', '.join(ENGINES)})")
    parser.add_argument("--bots", nargs="+", default=BOTS, help=f"our players (default: {', '.join(BOTS)})")
    parser.add_argument("--size", nargs="+", type=int, default=[9], help="sizes of board (default 9)")
    parser.add_argument("--games", type=int, default=40, help="games of each match (default 40)")
    parser.add_argument("--workers", type=int, default=1, help="games at once (default 1)")
    parser.add_argument("--results", type=Path, default=Path("results/strength"), help="folder of the games")
    options = parser.parse_args(words)
    registry = registry_of(None, options.results)
    console = Console(stderr=True)
    matches = [
        Match(*(registry.resolve(name).checked(size) for name in pair), Terms(Rules.preset(size=size)), options.games)
        for size in options.size
        for pair in product(options.bots, options.engine)
    ]
    with Store.of(options.results, write=True) as store, Progress(console=console, transient=True) as progress:
        row(COLUMNS)
        row("---" for _ in COLUMNS)
        for match in matches:
            row(cells(match, played(match, store, options.workers, progress)))
    print(f"\n{machine()}")
    return 0
