"""What mkdocs adds to the pages in this folder: those that lie elsewhere, and a reference made from the code."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ELSEWHERE = {
    "README.md": "index.md",
    "trainers/README.md": "trainers.md",
    "bots/checkpoints/README.md": "nets.md",
    "benchmarks/README.md": "benchmarks.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the repository that aren't in docs/, and what they are called in the site."""


def on_files(files: Any, config: Any) -> None:
    from mkdocs.structure.files import File

    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    files.append(File.generated(config, "reference.md", content=reference()))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they are in the repository, turned into links of the site; a file that isn't a page stays a name."""
    pages = {page: source for source, page in ELSEWHERE.items()}
    here = posixpath.dirname(pages.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def relink(found: re.Match[str]) -> str:
        words, place, heading = found.groups("")
        path = posixpath.normpath(posixpath.join(here, place))
        if not (path in ELSEWHERE or path.startswith("docs/")):
            return words.strip("[]")
        return f"{words}({ELSEWHERE.get(path, path.removeprefix('docs/'))}{heading})"

    return re.sub(r"(\[[^\]]*\])\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)", relink, markdown)


def reference() -> str:
    """Every command with its options, every setting of a bot and of a trainer, and the keys of arena.toml."""
    from arena.contract.bot import Limits
    from arena.players.config import BotTable, ClusterTable, TournamentTable
    from arena.players.registry import Registry
    from trainers import settings

    parts = ["# Reference", "Generated from the code.", "## Commands"]
    parts += commands()
    parts.append("## Settings of the bots")
    kinds = {entry.kind: entry.bot_kind for entry in Registry().entries}
    for name, kind in sorted(kinds.items()):
        parts += [f"### {name}", f"{kind.summary}.", table(kind.settings)]
    parts += ["## Limits", "After `@`, as in `mcts@seconds=1`.", table(Limits.settings().values())]
    parts.append("## arena.toml")
    for name, kept in (("bots.NAME", BotTable), ("tournaments.NAME", TournamentTable), ("cluster", ClusterTable)):
        parts += [f"### [{name}]", table(item for item in fields(kept) if item.metadata)]
    parts.append("## Settings of the trainers")
    trainers = (settings.SL, settings.RL, settings.Value, settings.Ownership, settings.Rollout, settings.Distill)
    for kind in (*trainers, settings.Zero):
        parts += [f"### train {kind.__name__.lower()}", table(fields(kind))]
    return "\n\n".join(parts) + "\n"


def commands() -> Iterator[str]:
    """A heading, the help, and a table of options for each command."""
    import typer

    from arena.cli import app

    left = [("arena", typer.main.get_command(app))]
    while left:
        name, command = left.pop(0)
        words = command.list_commands(None) if hasattr(command, "list_commands") else ()
        left = [(f"{name} {word}", command.commands[word]) for word in words] + left
        about, _, examples = (command.help or "").replace("\b\n", "").partition("Example")
        lines = [line.strip() for line in examples.splitlines()[1:] if line.strip()]
        yield f"### {name}\n\n{about.strip()}"
        yield "\n".join(["```sh", *lines, "```"])
        rows = []
        for each in command.params:
            if each.param_type_name == "option":
                rows.append((", ".join(f"`{word}`" for word in each.opts), each.help or ""))
        yield grid(("option", "what it does"), rows)


def table(settings: Iterable[Any]) -> str:
    """Fields of a dataclass of settings: name, default, allowed values, what each is."""
    rows = []
    for field in settings:
        about = field.metadata
        low, high, choices = about.get("low"), about.get("high"), about.get("choices") or ()
        bounds = "" if low is None else f"{low:g} or more" if high is None else f"{low:g} to {high:g}"
        allowed = ", ".join(map(str, choices)) or bounds
        default = "" if field.default is MISSING or field.default in (None, "") else f"`{field.default}`"
        rows.append((f"`{field.name}`", default, allowed, about.get("help", "")))
    return grid(("setting", "default", "allowed", "what it is"), rows)


def grid(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown; nothing without rows."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in row) + " |" for row in rows]
    ruler = "|" + "---|" * len(head)
    return "\n".join(["| " + " | ".join(head) + " |", ruler, *lines]) if lines else ""
