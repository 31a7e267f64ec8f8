"""``arena report`` as people run it: on events really played, under way or old, with files to write and wrong input."""

import re
from pathlib import Path

import pytest
from commandline import arena, arena_alone
from typer.testing import CliRunner

from arena import UserError
from arena.cli import app

pytestmark = pytest.mark.xdist_group("played events")  # which are played in one of the tests' processes only


def report(*arguments: str, folder: Path) -> str:
    """What ``arena report`` prints on these results. Raises the UserError that ends it."""
    options = [*arguments, "--results", str(folder / "results")]
    done = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["report", *options], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a match, then a tournament of three was played."""
    folder = tmp_path_factory.mktemp("played")
    for command in (
        ("match", "fast-random", "random", "-n", "8"),
        ("tournament", "league", "random", "fast-random", "uct:playouts=30", "-n", "6"),
    ):
        done = arena(*command, "--size", "5", "--workers", "1", folder=folder)
        assert done.returncode == 0, done.stderr
    return folder


def test_the_report_of_the_event_played_last_comes_without_a_name(played: Path) -> None:
    text = report(folder=played)
    lines = text.splitlines()
    assert lines[0].startswith("This is the last event")
    assert re.match(r"league: .* is first after 18 games", lines[1])
    assert re.search(r"1 +uct:playouts=30 .* 12 ", text)
    assert "\x1b" not in text


def test_all_forms_are_written_at_once(played: Path, tmp_path: Path) -> None:
    html, tables = tmp_path / "league.html", tmp_path / "tables"
    options = ("--html", str(html), "--csv", str(tables))
    done = arena("report", "league", *options, folder=played)
    assert done.returncode == 0, done.stderr
    assert "played last" not in done.stdout
    csv = [tables / f"{name}.csv" for name in ("standings", "crosstable", "los", "endings", "games")]
    assert done.stdout.splitlines()[-6:] == [f"Written to {path}." for path in (*csv, html)]
    assert all(path.stat().st_size > 0 for path in csv)
    assert "<svg" in html.read_text("utf-8")


def test_events_are_listed_and_can_be_asked_for(played: Path) -> None:
    listed = report("--list", folder=played)
    name = next(word for word in listed.split() if word.startswith("fast-random-random-"))
    assert re.search(rf"{name} +match +fast-random, random +8/8 ", listed)
    assert re.search(r"league +tournament .* 18/18 ", listed)
    text = report(name, folder=played)
    assert re.match(r"fast-random (beat|lost to|and) random", text)
    assert re.search(r"Pairs +0: .*points of fast-random", text)


def test_a_report_fits_a_narrow_ascii_pipe(played: Path) -> None:
    done = arena_alone("report", "league", folder=played, columns=40, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii() and "uct:playouts=30" in done.stdout


def test_wrong_input_is_refused_in_one_line(played: Path, tmp_path: Path) -> None:
    done = arena("report", "leage", folder=played)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"arena: there is no event 'leage' in .*; there are league.*\n", done.stderr)
    file = tmp_path / "file"
    file.write_text("no folder")
    for arguments, words in (
        (("league", "--list"), "--list can't be combined"),
        (("league", "--csv", str(file)), "can't be written"),
        (("league", "--html", str(file / "x.html")), "can't be written"),
    ):
        with pytest.raises(UserError, match=words) as caught:
            report(*arguments, folder=played)
        assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"no results.*arena match"):
        report(folder=tmp_path)
