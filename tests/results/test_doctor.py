"""Checks of the installation, in places that are right and in places that are not; and a place to begin with."""

import os
import sqlite3
import sys
from pathlib import Path

import pytest
from helpers.commandline import ROOT, arena

from arena.contract.finding import Finding, StepStatus
from arena.players.registry import Registry
from arena.results.doctor import examine
from arena.results.store import Store

OK, NOTE, FAILED = StepStatus.OK, StepStatus.NOTE, StepStatus.FAILED


def findings(folder: Path, *steps: str, config: str | None = None) -> list[Finding]:
    """What is found in some of the steps; the others aren't taken."""
    path = folder / "arena.toml"
    if config is not None:
        path.write_text(config)
    return list(examine(folder / "results", path if config is not None else None, steps))


def test_all_is_looked_at_and_the_exit_code_says_whether_something_failed(tmp_path: Path) -> None:
    (tmp_path / "arena.toml").write_text('[bots.x]\nkind = "policy"\ncheckpoint = "none"\n')
    done = arena("doctor", folder=tmp_path, columns=200)
    assert done.returncode == 1
    for words in ("arena 0.", "numba", "sl-9x9", "none in results yet", "[bots.x]"):
        assert words in done.stdout
    assert os.listdir(tmp_path) == ["arena.toml"]  # it leaves nothing


def test_damaged_results_fail_and_sound_ones_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "results" / "arena.db"
    with Store.open(path, write=True):
        pass
    (sound,) = findings(tmp_path, "results")
    assert sound.status is OK and "0 games of 0 events, sound" in sound.text
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        page = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'games_of_event'").fetchone()[0]
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096] = 2  # a page of an index that says it is of another kind
    path.write_bytes(content)
    (broken,) = findings(tmp_path, "results")
    assert broken.status is FAILED and "damaged" in broken.text


def test_a_config_is_read_and_nothing_in_it_is_started(tmp_path: Path) -> None:
    (tmp_path / "engine").write_text(f"#!{sys.executable}\nopen('ran', 'w')")
    (tmp_path / "engine").chmod(0o755)
    (tmp_path / "corner.py").write_text("open('ran', 'w')")
    config = f'[bots.good]\nkind = "gtp"\ncommand = "{tmp_path / "engine"}"\n[bots.corner]\nkind = "corner.py:BOT"\n'
    config += (
        '[bots.lost]\nkind = "policy"\ncheckpoint = "none"\n[tournaments.league]\nbots = ["sl", "slx", "corner"]\n'
    )
    first, lost, league = findings(tmp_path, "config", config=config)
    assert first.status is OK and "3 bots, 1 tournament;" in first.text
    assert lost.status is FAILED and lost.text.startswith("[bots.lost]: no checkpoint 'none'")
    assert league.status is FAILED and "[tournaments.league]: unknown bot 'slx'; did you mean 'sl'?" in league.text
    assert not (tmp_path / "ran").exists()


def test_a_step_that_fails_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bots.nets.inference", None)  # as if ONNX Runtime were broken
    nets, results = findings(tmp_path, "nets", "results")
    assert nets.status is FAILED and nets.text.startswith("ModuleNotFoundError: ") and results.status is OK


def test_every_table_of_the_example_holds_when_its_signs_are_taken_away(tmp_path: Path) -> None:
    lines = [line.removeprefix("# ") for line in (ROOT / "arena.toml").read_text().splitlines()]
    tables = [line for line in lines if line.startswith("[") or " = " in line.split("#")[0]]
    path = tmp_path / "arena.toml"
    path.write_text("\n".join(tables))
    registry = Registry(path, tmp_path)
    assert {"alphago-deep", "mine", "quick", "gnugo", "katago"} <= {entry.name for entry in registry.entries}
    assert dict(registry.resolve("mcts").settings)["playouts"] == 5000
    assert registry.tournament("league").games == 40
