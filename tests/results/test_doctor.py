"""Checks of the installation, in places that are right and in places that are not; and a place to begin with."""

import json
import os
import sqlite3
import stat
import sys
import tomllib
from pathlib import Path

import pytest
from commandline import ROOT, arena, refused

from arena.contract.finding import Finding, Verdict
from arena.players.config import EXAMPLE
from arena.players.registry import Registry
from arena.results import doctor
from arena.results.doctor import examine
from arena.results.store import Store

OK, NOTE, FAILED = Verdict.OK, Verdict.NOTE, Verdict.FAILED


def findings(folder: Path, *steps: str, config: str | None = None) -> list[Finding]:
    """What is found in some of the steps; the others aren't taken."""
    path = folder / "arena.toml"
    if config is not None:
        path.write_text(config)
    return list(examine(folder / "results", path if config is not None else None, steps))


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{script}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_all_is_looked_at_and_the_exit_code_says_whether_something_failed(tmp_path: Path) -> None:
    (tmp_path / "arena.toml").write_text('[bots.x]\nkind = "policy"\ncheckpoint = "none"\n')
    done = arena("doctor", "--json", folder=tmp_path)
    rows = json.loads(done.stdout)
    assert done.returncode == 1
    assert [row["step"] for row in rows if row["verdict"] == "failed"] == ["config"]
    found = {row["step"]: row for row in rows}
    assert list(found) == ["versions", "kernels", "nets", "GPU", "results", "config", "engines"]
    assert "arena 0." in found["versions"]["text"] and "numba" in found["versions"]["text"]
    assert found["nets"]["verdict"] == "ok" and "sl-9x9" in found["nets"]["text"]
    assert found["results"]["text"].startswith("none in results yet")
    assert os.listdir(tmp_path) == ["arena.toml"]  # it leaves nothing


def test_damaged_results_fail_and_sound_ones_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "results" / "arena.db"
    with Store.open(path, write=True):
        pass
    (sound,) = findings(tmp_path, "results")
    assert sound.verdict is OK and "0 games of 0 events, sound" in sound.text
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        page = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'games_of_event'").fetchone()[0]
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096] = 2  # a page of an index that says it is of another kind
    path.write_bytes(content)
    (broken,) = findings(tmp_path, "results")
    assert broken.verdict is FAILED and "damaged" in broken.text
    path.write_bytes(b"no database at all, but long enough to be looked at " * 40)
    (foreign,) = findings(tmp_path, "results")
    assert foreign.verdict is FAILED and "is not a database" in foreign.text


def test_a_config_is_read_and_nothing_in_it_is_started(tmp_path: Path) -> None:
    program(tmp_path, "engine", "open('ran', 'w')")
    (tmp_path / "corner.py").write_text("open('ran', 'w')")
    config = f'[bots.good]\nkind = "gtp"\ncommand = "{tmp_path / "engine"}"\n[bots.corner]\nkind = "corner.py:BOT"\n'
    config += (
        '[bots.lost]\nkind = "policy"\ncheckpoint = "none"\n[tournaments.league]\nbots = ["sl", "slx", "corner"]\n'
    )
    first, lost, league = findings(tmp_path, "config", config=config)
    assert first.verdict is OK and "3 bots, 1 tournaments" in first.text
    assert lost.verdict is FAILED and lost.text.startswith("[bots.lost]: no checkpoint 'none'")
    assert league.verdict is FAILED and "[tournaments.league]: unknown bot 'slx'; did you mean 'sl'?" in league.text
    assert not (tmp_path / "ran").exists()
    (wrong,) = findings(tmp_path, "config", config="[bots.x\n")
    assert wrong.verdict is FAILED and "isn't valid TOML" in wrong.text


def test_engines_on_the_path_are_named_and_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "ENGINES", ("engine-of-the-tests", "another"))
    assert findings(tmp_path, "engines")[0].text.startswith("none of engine-of-the-tests, another")
    program(tmp_path, "engine-of-the-tests", "open('ran', 'w')")
    (found,) = findings(tmp_path, "engines")
    assert found.verdict is OK and found.text.startswith(f"engine-of-the-tests ({tmp_path}")
    assert not (tmp_path / "ran").exists()


def test_a_step_that_fails_or_finds_something_odd_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "python", "print()")  # as if torch saw no GPU
    program(tmp_path, "nvidia-smi", "print()")
    monkeypatch.setattr(doctor, "sys", type("Nothing", (), {"executable": str(tmp_path / "python")}))
    monkeypatch.setitem(sys.modules, "bots.nets.inference", None)  # as if ONNX Runtime were broken
    gpu, nets, results = findings(tmp_path, "GPU", "nets", "results")
    assert gpu.verdict is NOTE and "can't use the GPU" in gpu.text
    assert nets.verdict is FAILED and nets.text.startswith("ModuleNotFoundError: ") and results.verdict is OK


# --- arena doctor --init ---


def test_the_example_is_the_repositorys_own_and_holds_nothing_until_it_is_changed() -> None:
    assert (ROOT / "arena.toml").read_text() == EXAMPLE.read_text()
    assert tomllib.loads(EXAMPLE.read_text()) == {}


def test_every_table_of_the_example_holds_when_its_signs_are_taken_away(tmp_path: Path) -> None:
    lines = [line.removeprefix("# ") for line in EXAMPLE.read_text().splitlines()]
    tables = [line for line in lines if line.startswith("[") or " = " in line.split("#")[0]]
    path = tmp_path / "arena.toml"
    path.write_text("\n".join(tables))
    registry = Registry(path, tmp_path)
    assert {"alphago-deep", "mine", "quick", "gnugo", "katago"} <= {entry.name for entry in registry.entries}
    assert dict(registry.resolve("mcts").settings)["playouts"] == 5000
    assert registry.tournament("league").games == 40
    programs = [str(entry.settings.get("command", "")) for entry in registry.entries]
    for engine in doctor.ENGINES:
        assert any(engine in command for command in programs)


def test_init_writes_the_example_once(tmp_path: Path) -> None:
    assert arena("doctor", "--init", "new/place", folder=tmp_path).returncode == 0
    path = tmp_path / "new" / "place" / "arena.toml"
    assert path.read_text() == EXAMPLE.read_text()
    path.write_text("mine")
    refused(arena("doctor", "--init", "new/place", folder=tmp_path), "exists; edit it")
    assert path.read_text() == "mine"
    refused(arena("doctor", "--init", "new/place/arena.toml", folder=tmp_path), "is a file")
    assert os.listdir(path.parent) == ["arena.toml"]
    refused(arena("doctor", "new/place", folder=tmp_path), "FOLDER needs --init")
