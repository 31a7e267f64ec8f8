"""Options that several commands share."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import Field, fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena import ConfigError, UserError
from arena.contract.settings import read_value
from arena.players.config import TermsTable, default

if TYPE_CHECKING:
    from arena.go.game import Rules
    from arena.players.player import Player
    from arena.players.registry import Registry
    from arena.report.style import Console

Option = partial(typer.Option, show_default=False)
Number = partial(Option, metavar="NUMBER")
Argument = partial(typer.Argument, hidden=True)
"""Options whose help states the default, and arguments that the docstring of their command explains."""

RESULTS, CONFIG = Path("results"), Path("arena.toml")

MAX_WORKERS = 4096  # more is a typing error: no node has that many cores

ResultsFolder = Annotated[Path, Option(metavar="FOLDER", help="Folder of database and checkpoints (default results).")]
ConfigFile = Annotated[
    Path | None, Option("--config", metavar="FILE", help="File of bots (default: arena.toml, if it exists).")
]
Json = Annotated[bool, Option("--json", help="Print JSON Lines instead (docs/guide.md).")]
Bell = Annotated[bool, Option("--bell", help="Ring the terminal's bell at the end.")]
Workers = Annotated[int, Number(help="Worker processes (default 0: all cores).", min=0, max=MAX_WORKERS)]
ClusterAddress = Annotated[
    str | None, Option(metavar="ADDRESS", help="Ray cluster: HOST:PORT, or auto (of this machine).")
]

NO_TERMS = TermsTable()


def with_options(table: type[Any], *names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's parameter whose default is a ``table`` by one option for each of its settings (``names``, or
    all that aren't lists); settings that other tables lack come first. A wrong value raises ConfigError."""
    shown = [item for item in fields(table) if item.metadata and not str(item.type).startswith("tuple")]
    shown = [item for item in shown if item.name in names or not names]
    shown.sort(key=lambda item: item in fields(TermsTable))

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            typed = {}
            for item in shown:
                if (value := given.pop(item.name, None)) is not None:
                    with errors_of_option(item.name) as option:
                        typed[item.name] = read_value(value, item, option)
            command(**{replaced: table(**typed)}, **given)

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if isinstance(parameter.default, table):
                replaced = parameter.name
            options = map(_option, shown) if isinstance(parameter.default, table) else [parameter]
            parameters += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _option(item: Field[Any]) -> inspect.Parameter:
    """A setting as an optional parameter of text."""
    metavar = "NUMBER" if str(item.type).startswith(("int", "float")) else "VALUE"
    names = ["-n", "--games"] if item.name == "games" else []
    annotation: Any = Annotated[str | None, Option(*names, metavar=metavar, help=item.metadata["help"])]
    return inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


@contextmanager
def errors_of_option(name: str) -> Iterator[str]:
    """Yields the option of a setting. ConfigErrors about its value name the option instead of the setting."""
    option = f"--{name.replace('_', '-')}"
    try:
        yield option
    except ConfigError as error:
        raise ConfigError(str(error).replace(f"{option}: {name} = ", f"{option} ", 1)) from None


def open_console(stderr: bool = False) -> Console:
    """The console that commands print to."""
    from arena.report.style import Console

    return Console(stderr=stderr)


def check_outputs(*paths: Path | None) -> None:
    """Raise UserError for a file or folder that can't be written, before any work is done."""
    for path in filter(None, paths):
        above = next(one for one in (path, *path.absolute().parents) if one.exists())
        if above != path and not above.is_dir():
            raise UserError(f"{path} can't be written: {above} is not a folder")
        if not os.access(above, os.W_OK):
            raise UserError(f"{path} can't be written: permission denied for {above}; use another place")


def registry_of(config: Path | None, results: Path, *bots: str) -> Registry:
    """The bots of the given file, or of arena.toml if it exists. Raises ConfigError if one of ``bots`` is unknown."""
    from arena.players.registry import Registry

    registry = Registry(config or (CONFIG if CONFIG.exists() else None), results)
    for bot in bots:
        if not registry.is_bot(bot):
            registry.resolve(bot)
    return registry


def registry_for_event(config: Path | None, results: Path, bots: Iterable[str] = (), as_json: bool = False) -> Registry:
    """As ``registry_of``; a terminal then shows that something happens while what plays the bots is imported."""
    registry = registry_of(config, results, *bots)
    if sys.stdout.isatty() and not as_json:
        print("Preparing the games ...", flush=True)
    return registry


def anchors_of(config: Path | None) -> dict[str, float]:
    """[anchors] of the given file, or of arena.toml where there is one. No bot is loaded for it."""
    from arena.players.config import read_config

    path = config or CONFIG
    return read_config(path).anchors if config or path.exists() else {}


def read_rules(given: TermsTable) -> Rules:
    """The rules that these options name. Raises UserError."""
    from arena.go.game import Rules

    return Rules.preset(default(given.rules, "cgos"), default(given.size, 9), given.komi)


def size_doubts(entries: Iterable[Player], size: int) -> list[str]:
    """A line for each player whose net learned on smaller boards."""
    return [f"{doubt}." for entry in entries if (doubt := entry.size_warning(size))]
