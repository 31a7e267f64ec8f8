"""What several commands share: their options, the registry they read, limits as text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena.contract.settings import read_value
from arena.players.config import TermsTable

if TYPE_CHECKING:
    from arena.contract.bot import Limits
    from arena.players.registry import Registry

RESULTS = "results"

Results = Annotated[Path, typer.Option("--results", help="Folder of the database and checkpoints (default: results).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON Lines, as docs/guide.md describes, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Write the files asked for and print nothing.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="File of bots (default: arena.toml in the current folder).")
]

NO_TERMS = TermsTable()


SHORT = {"games": "-n"}
"""Options of terms that have a short form."""


def takes(table: type[Any], *left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's parameter whose default is a ``table`` by an option for each setting of it, without those
    ``left_out``; settings that other tables lack come first. The command raises ConfigError for a value that a setting
    doesn't take."""
    shown = [item for item in fields(table) if item.metadata and item.name not in left_out]
    shown.sort(key=lambda item: item in fields(TermsTable))

    def checked(item: Field[Any], value: Any) -> Any:
        option = f"--{item.name.replace('_', '-')}"
        return None if value is None else read_value(value, item, option)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            made = table(**{item.name: checked(item, given.pop(item.name)) for item in shown})
            command(**{replaced: made}, **given)

        parameters, replaced = [], ""
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if not isinstance(parameter.default, table):
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            replaced = parameter.name
            for item in shown:
                kind = {"int": int, "float": float, "str": str}[str(item.type).removesuffix(" | None")]
                names = [SHORT[item.name], f"--{item.name}"] if item.name in SHORT else []
                option = typer.Option(
                    *names, help=item.metadata["help"], autocompletion=_offer(item.metadata["choices"])
                )
                annotation: Any = Annotated[kind | None, option]
                made = inspect.Parameter(item.name, parameter.KEYWORD_ONLY, default=None, annotation=annotation)
                parameters.append(made)
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _offer(choices: Sequence[str]) -> Callable[[], list[str]] | None:
    """What completes an option that takes one of these."""
    return (lambda: list(choices)) if choices else None


def registry_of(config: Path | None, results: Path) -> Registry:
    """The bots of the given file, or of arena.toml where there is one."""
    from arena.players.registry import Registry

    default = Path("arena.toml")
    return Registry(config or (default if default.exists() else None), results)


def require_file(quiet: bool, **files: Path | None) -> None:
    """Raise UserError for --quiet where no option names a file."""
    from arena import UserError

    if quiet and not any(files.values()):
        *others, last = [f"--{option}" for option in files]
        options = f"{', '.join(others)} or {last}" if others else last
        raise UserError(f"--quiet needs a file to write: give {options}")


def read_limits(text: str) -> Limits:
    """``seconds=1,deadline=30`` as limits, nothing as none. Raises ConfigError."""
    from arena.contract.bot import Limits

    return Limits.read(text, "--limits") if text else Limits()
