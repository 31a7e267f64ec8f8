"""Options that several commands share, and the bots that they name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena import ConfigError
from arena.contract.settings import read_value
from arena.players.config import TermsTable

if TYPE_CHECKING:
    from arena.players.player import Player
    from arena.players.registry import Registry

RESULTS = Path("results")

Results = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of database and checkpoints (default results).")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="File of bots (default: arena.toml, if it exists).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON Lines instead (docs/guide.md).")]
Size = Annotated[int, typer.Option(help="Board size, 5 to 19 (default 9).")]
Komi = Annotated[float | None, typer.Option(help="Komi (default 7 on 9x9, 7.5 on larger boards).")]
RuleSet = Annotated[str, typer.Option(help="cgos, tromp-taylor, chinese or japanese (default cgos).")]
Workers = Annotated[int, typer.Option(help="Worker processes (default 0: one per core).", min=0)]
Cluster = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Ray cluster: HOST:PORT, or auto (of this machine).")
]
Bot = Annotated[str, typer.Argument(metavar="BOT", help="NAME, NAME:setting=value,... or checkpoint:NAME.")]

SHORT = {"games": "-n"}
"""Short forms of options made from settings."""

NO_TERMS = TermsTable()


def takes(table: type[Any], *left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's parameter whose default is a ``table`` by an option for each setting of it but those
    ``left_out``; settings that other tables lack come first. A value that a setting doesn't take raises ConfigError."""
    shown = [item for item in fields(table) if item.metadata and item.name not in left_out]
    shown.sort(key=lambda item: item in fields(TermsTable))

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True).parameters.values()
        (replaced,) = (parameter.name for parameter in signature if isinstance(parameter.default, table))

        @wraps(command)
        def run(**given: Any) -> None:
            values = [(item, given.pop(item.name, None)) for item in shown]
            typed = {item.name: _read(value, item) for item, value in values if value is not None}
            command(**{replaced: table(**typed)}, **given)

        options = []
        for item in shown:
            metavar = "NUMBER" if str(item.type).startswith(("int", "float")) else item.name.upper()
            names = [SHORT[item.name], f"--{item.name}"] if item.name in SHORT else []
            annotation: Any = Annotated[str | None, typer.Option(*names, metavar=metavar, help=item.metadata["help"])]
            options.append(inspect.Parameter(item.name, _KEYWORD, default=None, annotation=annotation))
        parameters: list[inspect.Parameter] = []
        for parameter in signature:
            parameters += options if parameter.name == replaced else [parameter.replace(kind=_KEYWORD)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _read(value: str, item: Any) -> Any:
    option = f"--{item.name.replace('_', '-')}"
    try:
        return read_value(value, item, option)
    except ConfigError as error:
        raise ConfigError(str(error).replace(f": {item.name} = ", " ", 1)) from None


def registry_of(config: Path | None, results: Path) -> Registry:
    """The bots of the given file, or of arena.toml where there is one."""
    from arena.players.registry import Registry

    default = Path("arena.toml")
    return Registry(config or (default if default.exists() else None), results)


def size_doubts(entries: Iterable[Player], size: int) -> list[str]:
    """A line for each player whose net learned on smaller boards."""
    return [f"{doubt}." for entry in entries if (doubt := entry.doubt_on(size))]
