"""Whole events against the sum of their parts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter

from arena.go.game import Rules


def matches() -> None:
    """Whole events with stored results: games a second, the start of the workers not counted."""
    from arena.registry import Registry
    from arena.runner import play_event
    from arena.schedule import Match
    from arena.store import Store

    registry = Registry()
    for first, second, count in (("fast-random", "fast-random", 2000), ("mcts:playouts=200", "random", 40)):
        with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "arena.db", write=True) as store:
            match = Match(registry.resolve(first), registry.resolve(second), Rules.preset(), count)
            begun = 0.0
            done = warm = 0
            for update in play_event(match, store, workers=2):
                done += len(update.records)
                if done and not begun:
                    begun, warm = perf_counter(), done
            rate = (done - warm) / (perf_counter() - begun)
            print(f"match {first} - {second}: {rate:.0f} games a second, stored durably, on two workers", flush=True)
