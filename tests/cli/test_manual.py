"""The help of every command, with examples that would run; and what a shell completes."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import typer
from commandline import ARENA, ROOT, arena, arena_alone, environment
from played import match_of, record_of

from arena.cli import app, complete, manual
from arena.contract.bot import Limits
from arena.go.coords import BLACK, WHITE
from arena.go.game import Game, Rules
from arena.players.player import Player
from arena.players.registry import Registry
from arena.results.store import Event, Store
from trainers.settings import RL, SL, SL_PRESETS, Distill, Ownership, Value, change

COMMANDS = typer.main.get_command(app)


def commands(group: object = COMMANDS, name: str = "arena") -> Iterator[tuple[str, typer.core.TyperCommand]]:
    """Every command with the words that it is called by, groups included."""
    yield name, group  # type: ignore[misc]
    for word in group.list_commands(None) if isinstance(group, typer.core.TyperGroup) else ():
        yield from commands(group.commands[word], f"{name} {word}")


NAMED = dict(commands())


def examples(command: typer.core.TyperCommand) -> list[str]:
    return re.findall(r"\[bold\](arena.*?)\[/bold\]", (command.help or "").partition("Example")[2])


def understand(line: str) -> None:
    """Raise click's error for a command or an option that isn't there, or a value that it doesn't take."""
    words = shlex.split(line, comments=True)
    end = next((at for at, word in enumerate(words) if word in ("<", ">", "|")), len(words))
    words = words[:end]
    length = max(count for count in range(1, len(words) + 1) if " ".join(words[:count]) in NAMED)
    NAMED[" ".join(words[:length])].make_context("arena", words[length:])


@pytest.mark.parametrize("name", NAMED)
def test_every_command_has_examples_that_it_understands(name: str) -> None:
    found = examples(NAMED[name])
    assert found or "gogui-twogtp" in (NAMED[name].help or "")
    for example in found:
        understand(example)
    own = [example for example in found if (example + " ").startswith(name + " ")]
    assert own or not found, f"none of {found} shows {name}"


GUIDES = [ROOT / "README.md", ROOT / "trainers" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_every_command_of_a_guide_is_one_that_arena_understands(path: Path) -> None:
    text = path.read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    blocks += re.findall(r"\| `(arena .*?)` \| \d{4}-", text)  # the tables of figures
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    told = [line for line in lines if line.startswith("arena ")]
    assert len(told) >= 3
    for line in told:
        understand(line)


@pytest.mark.parametrize("path", GUIDES[2:], ids=lambda path: path.stem)
def test_guides_are_linked_from_the_readme_and_their_links_lead_somewhere(path: Path) -> None:
    assert f"(docs/{path.name})" in (ROOT / "README.md").read_text()
    for link in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        file, _, heading = link.partition("#")
        page = path.parent / file if file else path
        assert page.is_file(), link
        headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE) if heading else []
        assert not heading or heading in [
            re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in headings
        ]


def test_the_help_fits_a_screen_and_names_values_by_words(tmp_path: Path) -> None:
    assert len(arena("--help", folder=tmp_path, columns=80).stdout.strip().splitlines()) <= 40
    for words in (["match"], ["play"], ["data", "build"], ["train", "sl"]):
        shown = arena(*words, "--help", folder=tmp_path, columns=140).stdout
        assert not re.search(r"<\w+>|\{\w+\}|\[\[", shown)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["match", "sl"], "missing argument 'B'; see 'arena match --help'"),
        (
            ["match", "sl", "rl", "--plies", "x"],
            "invalid value for '--plies': expected a valid integer; see 'arena match",
        ),
        (["elo", "--siez", "9"], "no such option: --siez"),
        (["macht"], "no such command 'macht'"),
    ],
)
def test_a_line_that_is_not_understood_is_refused_like_any_error(words: list[str], told: str, tmp_path: Path) -> None:
    done = arena(*words, folder=tmp_path)
    stderr = done.stderr
    assert done.returncode == 2
    assert stderr.startswith(f"arena: {told}") and stderr.count("\n") == 1


@pytest.mark.parametrize("page", ["tutorial", "add-a-bot"])
def test_the_bot_that_a_page_shows_plays(page: str, tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)
    (tmp_path / "corner.py").write_text(source)
    (tmp_path / "arena.toml").write_text('[bots.corner]\nkind = "corner.py:BOT"\n')
    player = Registry(tmp_path / "arena.toml").resolve("corner").build()
    game = Game(Rules.preset("cgos", 5))
    for _ in range(4):
        move = player.choose(game, Limits()).move
        assert move is not None
        game.play(move)
    assert [game.board.stone(point) for point in range(4)] == [BLACK, WHITE, BLACK, WHITE]


@pytest.mark.parametrize("width", [40, 80, 140])
def test_help_breaks_lines_where_the_terminal_ends_and_not_as_the_source_does(width: int, tmp_path: Path) -> None:
    done = arena("analyze", "--help", folder=tmp_path, columns=width)
    lines = [line.strip() for line in done.stdout.splitlines()]
    begin = next(number for number, line in enumerate(lines) if line.startswith("Win rates and scores are"))
    paragraph = lines[begin : lines.index("", begin)]
    following = [line.split()[0] for line in paragraph[1:]]
    for line, word in zip(paragraph, following, strict=False):
        assert len(line) <= width - 2 < len(f"{line} {word}")  # no line could take another word


def test_examples_stand_below_each_other_and_paragraphs_above() -> None:
    assert (
        manual(
            """One thing, and
        another.

        Example: [bold]a[/bold]

        More of it.

        Examples: [bold]b[/bold] ·
        [bold]c[/bold]
        """
        )
        == "One thing, and another.\n\nMore of it.\n\nExamples:\n  [bold]a[/bold]\n  [bold]b[/bold]\n  [bold]c[/bold]"
    )
    assert manual("Nothing else.") == "Nothing else."


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """docs/pages.py, which makes pages from the code."""
    spec = spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_of_the_site_has_every_command_and_setting(pages: ModuleType) -> None:
    text = pages.reference()
    assert [name for name in NAMED if f"\n### {name}\n" not in text] == []
    options = {word for command in NAMED.values() for each in command.params for word in each.opts if word[:2] == "--"}
    settings = {item.name for kind in (SL, RL, Value, Distill, Ownership) for item in fields(kind)}
    settings |= {item.name for entry in Registry().entries for item in entry.bot_kind.settings}
    assert {word for word in options | settings if f"`{word}`" not in text} <= {"--help"}
    assert "\nCREATE TABLE games (\n" in text and "black_seconds REAL NOT NULL" in text
    assert "\nExample" not in text and all("| |" not in line for line in text.splitlines() if "`--" in line)


# --- Completion ---


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> typer.Context:
    monkeypatch.chdir(tmp_path)
    return typer.Context(NAMED["arena analyze"])


def store_a_game(folder: Path) -> None:
    played = match_of(games=2, size=7)
    with Store.open(folder / "results" / "arena.db", write=True) as store:
        store.add_event(Event("league", "2026-01-02T03:04:05", {}))
        store.add_players({"p": Player("mcts", "uct")})
        store.append([record_of(played, number, None) for number in range(2)])


def test_names_are_completed_from_what_there_is(tmp_path: Path, context: typer.Context) -> None:
    store_a_game(tmp_path)
    (tmp_path / "arena.toml").write_text('[bots.deep]\nkind = "uct"\n[tournaments.cup]\nbots = ["sl", "deep"]\n')
    (tmp_path / "leaf.sgf").write_text("")
    (tmp_path / "leap").mkdir()

    def words(offered: complete.Offered) -> list[str]:
        return [word for word, _ in offered]

    assert words(complete.bots(context, "d")) == ["deep"]
    assert "checkpoint:sl-9x9" in words(complete.bots(context, "checkpoint:"))
    assert "random" not in words(complete.analysts(context, "")) and "mcts" in words(complete.analysts(context, ""))
    assert words(complete.trained(context, "s")) == ["sl"]
    assert words(complete.checkpoints(context, "sl-9")) == ["sl-9x9"]
    assert words(complete.events(context, "")) == ["league"]
    assert words(complete.tournaments(context, "")) == ["league", "cup"]
    assert words(complete.players(context, "m")) == ["mcts"]
    ids = [pairing.id for pairing in match_of(games=2, size=7).pairings()]
    assert words(complete.games(context, "")) == ids[::-1]
    assert words(complete.games_and_files(context, "lea")) == ["leaf.sgf", "leap/"]


def test_where_nothing_can_be_read_nothing_is_offered(tmp_path: Path, context: typer.Context) -> None:
    (tmp_path / "arena.toml").write_text("[bots.x\n")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "arena.db").write_text("no database")
    for offer in (
        complete.bots,
        complete.analysts,
        complete.trained,
        complete.events,
        complete.players,
        complete.games,
    ):
        assert [word for word, _ in offer(context, "") if not word.startswith("checkpoint:")] == []
    assert complete.tournaments(context, "") == [] and complete.games_and_files(context, "[") == []


def test_a_shell_is_answered(tmp_path: Path) -> None:
    words = {"COMP_WORDS": "arena match fast", "COMP_CWORD": "2", "_ARENA_COMPLETE": "complete_bash"}
    assert arena_alone(folder=tmp_path, **words).stdout.split() == ["fast-random"]


def test_the_settings_that_a_guide_shows_in_a_file_are_taken() -> None:
    text = (ROOT / "trainers" / "README.md").read_text()
    (shown,) = re.findall(r"```toml\n# run.toml\n(.*?)```", text, re.DOTALL)
    change(SL_PRESETS["cpu"], tomllib.loads(shown), "run.toml")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("typed", "offered"), [("checkpoint : sl", "sl-9x9"), ("sl checkpoint : zero", "zero-9x9"), ("fast", "fast-random")]
)
def test_bash_completes_behind_the_colon_of_a_checkpoint(typed: str, offered: str, tmp_path: Path) -> None:
    (tmp_path / "arena").write_text(f"#!/bin/sh\nexec {shlex.join(ARENA)}\n")
    (tmp_path / "arena").chmod(0o755)
    script = f"""
        eval "$(_ARENA_COMPLETE=source_bash arena)"
        COMP_WORDS=(arena match {typed}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _arena_completion arena; echo "${{COMPREPLY[*]}}"
    """
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment(**path), capture_output=True, text=True)
    assert done.stdout.split() == [offered], done.stderr


@pytest.mark.parametrize("words", [[], ["match"], ["games"], ["show"], ["train", "sl"], ["data", "build"]])
def test_help_names_values_by_words_and_no_types(words: list[str], tmp_path: Path) -> None:
    shown = arena(*words, "--help", folder=tmp_path, columns=120).stdout
    assert not re.findall(r"<\w+>|\{|\}", shown)
    for option, value in re.findall(r"(--[a-z-]+)(?: +-\w)? {2,}([A-Z]{2,})? .*\(default", shown):
        assert value, f"{option} of {words} takes a value that its help doesn't name"


def test_no_private_part_of_typer_or_rich_is_used() -> None:
    for path in (ROOT / "arena").rglob("*.py"):
        tree = ast.parse(path.read_text())
        theirs = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name
                if module.partition(".")[0] in ("rich", "typer"):
                    theirs |= {name.asname or name.name.partition(".")[0] for name in node.names}
        private = [name for name in theirs if name.startswith("_")]
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in theirs:
                private += [node.attr] * node.attr.startswith("_")
        assert not private, f"{path} uses {private}"
