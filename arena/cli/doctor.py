"""The command of a new place: what the arena stands on there, and an arena.toml to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena import ConfigError
from arena.cli.options import RESULTS, ConfigFile, Results

CONFIG = "arena.toml"


def doctor(
    folder: Annotated[Path | None, typer.Argument(help="With --init: where to put the file (default: here).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON instead.")] = False,
    init: Annotated[bool, typer.Option("--init", help="Write a commented arena.toml instead.")] = False,
    force: Annotated[bool, typer.Option("--force", help="With --init: overwrite an existing arena.toml.")] = False,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Check the installation and suggest fixes.

    Versions, processor, compiled kernels, an ONNX Runtime self-check with the nets that ship, GPU, stored results,
    arena.toml, and engines on the PATH that could be bots. Nothing that arena.toml names is started; arena check does
    that. The exit code is 1 when something failed.

    --init writes an arena.toml of examples, all commented out: bots of your own, engines, tournaments. Commands run in
    that folder read it, and keep their results beside it.

    Examples: [bold]arena doctor[/bold] · [bold]arena doctor --json > doctor.json[/bold] ·
    [bold]arena doctor --init[/bold] · [bold]arena doctor --init ~/go[/bold]
    """
    import json
    from dataclasses import asdict

    from arena.contract.finding import Verdict
    from arena.report.progress import show_check
    from arena.report.style import Console
    from arena.results.doctor import examine

    if init:
        _write_example(folder or Path(), force)
        return
    if folder is not None or force:
        raise ConfigError("FOLDER and --force need --init")
    default = Path(CONFIG)
    findings = examine(results, config or (default if default.exists() else None))
    if as_json:
        found = list(findings)
        print(json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False))
        failed = any(one.verdict is Verdict.FAILED for one in found)
    else:
        failed = show_check("arena doctor", findings, Console()) is Verdict.FAILED
    if failed:
        raise typer.Exit(1)


def _write_example(folder: Path, force: bool) -> None:
    """Write a commented arena.toml. Raises ConfigError where it can't be, and where one is there already
    unless ``force`` is true."""
    from arena.players.config import EXAMPLE

    path = folder / CONFIG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(EXAMPLE.read_text())
    except FileExistsError:
        if folder.is_dir():
            raise ConfigError(f"{path} exists; edit it, or overwrite it with --force") from None
        raise ConfigError(f"{folder} is a file; name a folder") from None
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}") from error
    print(f"Written to {path}. Remove the # from the lines that you want; 'arena doctor' checks the file.")
