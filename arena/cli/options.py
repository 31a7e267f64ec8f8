"""What several commands share: their options, the registry they read, limits as text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import ConfigError

if TYPE_CHECKING:
    from arena.bot import Limits
    from arena.registry import Registry

RESULTS = "results"

Results = Annotated[Path, typer.Option("--results", help="Folder of the database, CSV files and checkpoints.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="File of bots; arena.toml of this folder unless given."),
]


def registry_of(config: Path | None, results: Path) -> Registry:
    """The bots of the given file, or of arena.toml where there is one."""
    from arena.registry import Registry

    default = Path("arena.toml")
    return Registry(config or (default if default.exists() else None), results)


def read_limits(text: str) -> Limits:
    """``seconds=1,deadline=30`` as limits. Raises ConfigError."""
    from arena.bot import Limits

    values: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if key not in ("seconds", "simulations", "deadline"):
            raise ConfigError(f"--limits: unknown limit '{key}'; there are seconds, simulations and deadline")
        try:
            values[key] = float(value)
        except ValueError:
            raise ConfigError(f"--limits: {key}={value!r} is no number") from None
        if not 0 < values[key] < 1e9:
            raise ConfigError(f"--limits: {key}={value} is out of range")
    simulations = values.get("simulations")
    return Limits(
        seconds=values.get("seconds"),
        simulations=None if simulations is None else int(simulations),
        deadline=values.get("deadline", 60.0 + 2 * values.get("seconds", 0)),
    )


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
