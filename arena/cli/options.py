"""What several commands share: their options, the registry they read, limits as text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from arena.contract.bot import Limits
    from arena.players.registry import Registry
    from arena.screen.board import Theme

RESULTS = "results"

THEME_VARIABLE = "ARENA_THEME"

Results = Annotated[Path, typer.Option("--results", help="Folder of the database, CSV files and checkpoints.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="File of bots; arena.toml of this folder unless given."),
]

ThemeName = Annotated[
    str | None,
    typer.Option(
        "--theme",
        envvar=THEME_VARIABLE,
        help="Colours of the board: dark, light or high-contrast; that of arena.toml unless given.",
        show_default=False,
    ),
]


def registry_of(config: Path | None, results: Path) -> Registry:
    """The bots of the given file, or of arena.toml where there is one."""
    from arena.players.registry import Registry

    default = Path("arena.toml")
    return Registry(config or (default if default.exists() else None), results)


def read_theme(name: str | None, registry: Registry) -> Theme:
    """The theme of this name, or else of ARENA_THEME, or of arena.toml's ``[screen]``. Raises ConfigError."""
    from arena import ConfigError
    from arena.contract.settings import suggest
    from arena.screen.board import DARK, THEMES

    wanted = name or os.environ.get(THEME_VARIABLE) or registry.screen.theme or DARK.name
    if wanted not in THEMES:
        hint = suggest(wanted, THEMES)
        listed = f"; there are {', '.join(THEMES)}"
        raise ConfigError(f"--theme: unknown theme '{wanted}'{hint or listed}")
    return THEMES[wanted]


def read_limits(text: str) -> Limits:
    """``seconds=1,deadline=30`` as limits, nothing as none. Raises ConfigError."""
    from arena.contract.bot import Limits

    return Limits.read(text, "--limits") if text else Limits()


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
