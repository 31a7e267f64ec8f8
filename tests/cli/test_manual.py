"""The help of every command, with examples that would run; the guides."""

import inspect
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from helpers.commandline import ROOT, arena

from arena.cli import app
from arena.contract.bot import Limits
from arena.go.coords import BLACK, WHITE
from arena.go.game import Game, Rules
from arena.players.registry import Registry
from arena.report import tables, text
from trainers.settings import PRESETS, RL, SL, Distill, Ownership, Value, change

COMMANDS = typer.main.get_command(app)


def commands(group: object = COMMANDS, name: str = "arena") -> Iterator[tuple[str, typer.core.TyperCommand]]:
    """Every command with the words that it is called by, groups included."""
    yield name, group  # type: ignore[misc]
    for word in group.list_commands(None) if isinstance(group, typer.core.TyperGroup) else ():
        yield from commands(group.commands[word], f"{name} {word}")


NAMED = dict(commands())


def examples(command: typer.core.TyperCommand) -> list[str]:
    return [line.strip() for line in (command.help or "").partition("Example")[2].splitlines()[1:] if line.strip()]


def understand(line: str) -> None:
    """Raise click's error for a command or an option that isn't there, or a value that it doesn't take."""
    words = shlex.split(line, comments=True)
    end = next((at for at, word in enumerate(words) if word in ("<", ">", "|")), len(words))
    words = words[:end]
    length = max(count for count in range(1, len(words) + 1) if " ".join(words[:count]) in NAMED)
    NAMED[" ".join(words[:length])].make_context("arena", words[length:])


@pytest.mark.parametrize("name", NAMED)
def test_the_help_of_a_command_fits_a_screen_names_values_by_words_and_has_examples(name: str, tmp_path: Path) -> None:
    shown = arena(*name.split()[1:], "--help", folder=tmp_path, columns=80).stdout
    assert len(shown.splitlines()) <= 40 and max(map(len, shown.splitlines())) <= 80
    assert not re.search(r"<\w+|\[\[|\[default", shown)
    found = [example for example in examples(NAMED[name]) if example.startswith("arena ")]
    for example in found:
        understand(example)
    assert any((example + " ").startswith(name + " ") for example in found)


@pytest.mark.smoke
def test_the_guide_has_every_command_and_every_bot() -> None:
    guide = (ROOT / "docs" / "guide.md").read_text()
    bots = [one.name for one in Registry().entries if f"| {one.kind} |" not in guide]
    assert [name for name in [*NAMED, *(f"`{bot}`" for bot in bots)] if name not in guide] == []


GUIDES = [ROOT / "README.md", ROOT / "trainers" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_has_commands_that_arena_understands_and_links_that_lead_somewhere(path: Path) -> None:
    text = path.read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    blocks += re.findall(r"\| `(arena .*?)` \| \d{4}-", text)  # the tables of figures
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    told = [line for line in lines if line.startswith("arena ")]
    assert len(told) >= 3
    for line in told:
        understand(line)
    assert path.parent.name != "docs" or f"(docs/{path.name})" in (ROOT / "README.md").read_text()
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        file, _, heading = link.partition("#")
        page = path.parent / file if file else path
        assert page.exists(), link
        headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE) if heading else []
        assert not heading or heading in [
            re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in headings
        ]


def test_the_files_that_the_architecture_names_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    assert (
        len(named) > 20
        and [name for name in named if not any((ROOT / at / name).exists() for at in ("", "arena"))] == []
    )


@pytest.mark.parametrize("page", ["tutorial", "add-a-bot"])
def test_the_bot_that_a_page_shows_plays(page: str, tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)
    (tmp_path / "corner.py").write_text(source)
    player, game = Registry().resolve(str(tmp_path / "corner.py")).build(), Game(Rules.preset("cgos", 5))
    for _ in range(4):
        game.play(player.choose(game, Limits()).move)
    assert [game.board.stone(point) for point in range(4)] == [BLACK, WHITE, BLACK, WHITE]


def test_the_reference_of_the_site_has_every_command_and_setting() -> None:
    spec = spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    assert spec is not None and spec.loader is not None
    pages = module_from_spec(spec)
    spec.loader.exec_module(pages)
    text = pages.reference()
    assert [name for name in NAMED if f"\n### {name}\n" not in text] == []
    options = {word for command in NAMED.values() for each in command.params for word in each.opts if word[:2] == "--"}
    settings = {item.name for kind in (SL, RL, Value, Distill, Ownership) for item in fields(kind)}
    assert {word for word in options | settings if f"`{word}`" not in text} <= {"--help"}


def test_the_settings_that_a_guide_shows_in_a_file_are_taken() -> None:
    text = (ROOT / "trainers" / "README.md").read_text()
    (shown,) = re.findall(r"```toml\n# run.toml\n(.*?)```", text, re.DOTALL)
    change(PRESETS["sl"]["cpu"], tomllib.loads(shown), "run.toml")


STATISTICS = (ROOT / "docs" / "read-the-statistics.md").read_text()
PRINTED = re.findall(r"```sh\n(arena (?:match|tournament) [^\n]*)\n```\n\n```\n(.*?)```", STATISTICS, re.DOTALL)


def test_the_statistics_page_shows_what_its_commands_print(tmp_path: Path) -> None:
    """Its table of a tournament wasn't what the command printed."""
    tables_seen = 0
    for command, expected in PRINTED:
        shown = re.sub(r" +", " ", arena(*shlex.split(command)[1:], folder=tmp_path, columns=200).stdout)
        heads = [line for line, below in pairwise(expected.splitlines()) if below.startswith("─")]
        assert {re.sub(r" +", " ", head).strip() for head in heads} <= {line.strip() for line in shown.splitlines()}
        tables_seen += len(heads)
        for line in expected.splitlines():
            line = re.sub(r" +", " ", line).rstrip().partition("…")[0]  # a long one is cut there
            line = line.removesuffix(" < 1 s").removesuffix(" thinking").rstrip("─")
            assert line in shown, command
    assert len(PRINTED) == 4 and tables_seen >= 2


def test_the_statistics_page_explains_every_line_that_a_report_can_print() -> None:
    lines = (text.terms, text.sections, text.first_sections, text.strength, text.findings, tables.doubts)
    source = "".join(map(inspect.getsource, (*lines, tables.elo_sections)))
    labels = set(re.findall(r'(?:yield |\()"([A-Z][A-Za-z ]+)",', source))
    assert len(labels) >= 25
    assert [label for label in labels if f"**{label}**" not in STATISTICS] == []
