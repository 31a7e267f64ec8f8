"""What a shell offers when Tab is pressed. It comes at once and never fails: what can't be read offers nothing."""

from __future__ import annotations

import glob
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from arena import UserError
from arena.cli.options import RESULTS, registry_of

if TYPE_CHECKING:
    from arena.players.registry import Registry
    from arena.results.store import Store

Offered = list[tuple[str, str]]
"""Words, each with what a shell that shows such things says about it."""

MOST = 60
"""Games that are offered."""


@contextmanager
def colons_in_bash() -> Iterator[None]:
    """Where Bash asks, join words that it has split at colons, and leave out what stands before the last colon from
    what is offered: Bash replaces the part behind it only."""
    if os.environ.get("_ARENA_COMPLETE") != "complete_bash" or "COMP_WORDS" not in os.environ:
        yield
        return
    words, at = re.split(r"\s", os.environ["COMP_WORDS"]), int(os.environ["COMP_CWORD"])
    line = re.sub(r"\n?:\n?", ":", "\n".join(words[: at + 1]))
    os.environ |= {"COMP_WORDS": line, "COMP_CWORD": str(line.count("\n"))}
    before = re.match(r"(.*:)?", line.rpartition("\n")[2])
    offered = io.StringIO()
    try:
        with redirect_stdout(offered):
            yield
    finally:
        for one in offered.getvalue().splitlines():
            print(one.removeprefix(before[0] if before else ""))


def bots(ctx: typer.Context, incomplete: str) -> Offered:
    """Names of bots, and of checkpoints as ``checkpoint:NAME``."""
    entries = [(entry.name, entry.bot_kind.summary) for entry in _listed(ctx)]
    nets = [(f"checkpoint:{name}", "a net") for name, _ in checkpoints(ctx, "")]
    with suppress(UserError, OSError):
        entries += [(entry.name, f"from {entry.kind}") for entry in _registry(ctx).files]
    return _fitting([*entries, *nets], incomplete)


def analysts(ctx: typer.Context, incomplete: str) -> Offered:
    """Names of bots that tell win rates."""
    entries = [(entry.name, entry.bot_kind.summary) for entry in _listed(ctx) if entry.bot_kind.tells_win_rate]
    return _fitting(entries, incomplete)


def trained(ctx: typer.Context, incomplete: str) -> Offered:
    """Names of bots with a checkpoint."""
    entries = [entry for entry in _listed(ctx) if entry.settings.get("checkpoint")]
    return _fitting([(entry.name, Path(entry.settings["checkpoint"]).name) for entry in entries], incomplete)


def checkpoints(ctx: typer.Context, incomplete: str) -> Offered:
    """Names of checkpoints."""
    with suppress(UserError, OSError):
        from bots.nets.checkpoint import known

        return _fitting([(name, "a checkpoint") for name in known(_results(ctx))], incomplete)
    return []


def events(ctx: typer.Context, incomplete: str) -> Offered:
    """Stored events, the latest first."""
    stored = _asked(ctx, lambda store: [(event.id, f"of {event.created[:10]}") for event in reversed(store.events())])
    return _fitting(stored, incomplete)


def tournaments(ctx: typer.Context, incomplete: str) -> Offered:
    """Tournaments of arena.toml, then stored events."""
    declared: Offered = []
    with suppress(UserError, OSError):
        declared = [(name, "in arena.toml") for name in _registry(ctx).tournaments]
    return _fitting(dict([*events(ctx, ""), *declared]).items(), incomplete)


def players(ctx: typer.Context, incomplete: str) -> Offered:
    """Who has played."""
    known = _asked(ctx, lambda store: [(player.name, player.kind) for player in store.players().values()])
    return _fitting(dict(known).items(), incomplete)


def games(ctx: typer.Context, incomplete: str) -> Offered:
    """Ids of stored games, the latest first."""
    return _asked(ctx, lambda store: [(id, "a game") for id in store.latest_ids(incomplete, MOST)])


def games_and_files(ctx: typer.Context, incomplete: str) -> Offered:
    """SGF files and folders, then stored games."""
    found = sorted(glob.glob(f"{glob.escape(incomplete)}*"))
    files = [(path, "a file") for path in found if path.endswith(".sgf")]
    return [*files, *((path + os.sep, "a folder") for path in found if Path(path).is_dir()), *games(ctx, incomplete)]


def _registry(ctx: typer.Context) -> Registry:
    return registry_of(ctx.params.get("config"), _results(ctx))


def _listed(ctx: typer.Context) -> list:
    with suppress(UserError, OSError):
        return _registry(ctx).entries
    return []


def _results(ctx: typer.Context) -> Path:
    return Path(ctx.params.get("results") or RESULTS)


def _asked(ctx: typer.Context, ask: Callable[[Store], Offered]) -> Offered:
    with suppress(UserError, OSError):
        from arena.results.store import Store

        with Store.of(_results(ctx)) as store:
            return ask(store)
    return []


def _fitting(offered: Iterable[tuple[str, str]], incomplete: str) -> Offered:
    return [pair for pair in offered if pair[0].startswith(incomplete)]
