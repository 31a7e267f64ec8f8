"""What trainers are told: presets, files, the command line, and the run that goes on."""

import json
import tomllib
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path

import pytest
from helpers.commandline import arena
from typer.testing import CliRunner, Result

from arena import ConfigError, UserError
from arena.cli import app
from arena.players.registry import Registry
from bots.nets.checkpoint import Checkpoint
from trainers import distill, first_net, train, zero
from trainers.settings import PRESETS, SETTINGS_FILE, SL, change

SIZE = 7

TRAINERS = ("distill", "sl", "ownership", "rl", "rollout", "value", "zero")

pytestmark = pytest.mark.usefixtures("unexported")


def test_a_later_word_counts_and_one_end_of_the_run_replaces_the_other() -> None:
    usual = PRESETS["sl"]["cpu"]
    assert usual.max_minutes is not None
    shorter = change(usual, {"max_rows": "1000", "bf16": "true", "learning_rate": 0.1}, "file")
    assert (shorter.max_rows, shorter.max_minutes, shorter.bf16, shorter.learning_rate) == (1000, None, True, 0.1)
    both = change(usual, {"max_rows": 1000, "max_minutes": 5}, "file")
    assert (both.max_rows, both.max_minutes) == (1000, 5.0)
    for names in (["a", "b"], "a,b"):
        assert change(usual, {"data": names}, "file").data == ("a", "b")


def test_an_optimizer_that_is_chosen_does_not_inherit_the_learning_rate_of_another() -> None:
    assert change(SL("x"), {"optimizer": "adamw"}, "--set").learning_rate == 0.005
    assert change(PRESETS["rl"]["cpu"], {"optimizer": "muon"}, "--set").learning_rate == 0.0016
    assert change(SL("x"), {"optimizer": "adamw", "learning_rate": 0.01}, "--set").learning_rate == 0.01
    assert change(SL("x"), {"optimizer": "muon"}, "--set") == SL("x")


@pytest.mark.parametrize("preset", ["tiny", "cpu", "gpu"])
def test_no_trainer_refuses_the_start_that_is_its_own_default(preset: str, tmp_path: Path) -> None:
    taught = distill.with_net_named(replace(PRESETS["distill"][preset], device="cpu"), tmp_path)
    for config in (taught, replace(PRESETS["value"][preset], device="cpu")):
        train.check(config, ("policy", "value"), tmp_path)
    first_net.start_of(PRESETS["rl"][preset], tmp_path)
    zero.check(replace(PRESETS["zero"][preset], device="cpu"), tmp_path)
    with pytest.raises(ConfigError, match="without start there is no net"):
        distill.with_net_named(replace(PRESETS["distill"][preset], start=""), tmp_path)


@pytest.mark.parametrize(
    ("trainer", "changed", "words"),
    [
        ("sl", {"max_rows": None}, "needs an end: give max_minutes or max_rows"),
        ("sl", {"data": ()}, "no game records"),
        ("value", {"test_split": 0.9, "validation_split": 0.1}, "no games to learn from"),
        ("value", {"net": "gocnn-3x16", "start": ""}, "has no policy and no value"),
        ("value", {"policy": "nobody"}, "no checkpoint 'nobody'"),
        ("distill", {"teacher": "mcts"}, "returns only a move; choose an alphago"),
        ("rl", {"games": 7}, "games = 7 can't be played in pairs"),
        ("rl", {"max_iterations": None}, "give max_minutes or max_iterations"),
        ("rl", {"eval_opponents": ("nobody",)}, "nobody"),
        ("zero", {"max_games": None, "max_minutes": None}, "needs an end"),
        ("zero", {"net": "gocnn-5x64"}, "choose arena-"),
        ("zero", {"start": "sl-9x9"}, "sl-9x9"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_played(
    trainer: str, changed: dict[str, object], words: str, tmp_path: Path
) -> None:
    config = replace(PRESETS[trainer]["tiny"], **changed)
    given = [Registry()] if trainer in ("distill", "rl", "zero") else []
    with pytest.raises(UserError, match=words):
        import_module(f"trainers.{trainer}").train(config, tmp_path, *given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("trainer", PRESETS)
def test_the_settings_of_a_trainer_are_listed_as_a_file_that_gives_them_again(trainer: str) -> None:
    shown = CliRunner().invoke(app, ["train", trainer, "--list-settings", "--preset", "tiny"]).stdout
    tiny, cpu = PRESETS[trainer]["tiny"], PRESETS[trainer]["cpu"]
    for item in fields(tiny):
        sentence = next(line for line in shown.splitlines() if line.removeprefix("# ").startswith(f"{item.name} ="))
        assert item.metadata["help"] in sentence
        assert all(choice in sentence for choice in item.metadata["choices"])
    assert change(cpu, tomllib.loads(shown), "file") == tiny


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["--lerning-rate", "3"], "--lerning-rate: unknown setting 'lerning_rate'; did you mean 'learning_rate'?"),
        (["--batch-size"], "--batch-size 'true' is not a whole number"),
        (["--seed", "1", "--seed=2"], "--seed is given twice; separate the values of a list by commas"),
        (["--batch-size", "8", "9"], "unexpected '9'; a setting is given as in --batch-size 256"),
        (["--cluster", "auto"], "--cluster auto: only zero plays its games on a cluster; leave it out for sl"),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_write(typed: list[str], expected: str) -> None:
    refused = CliRunner().invoke(app, ["train", "sl", *typed])
    assert isinstance(refused.exception, ConfigError) and str(refused.exception) == expected


def test_a_run_is_told_by_file_and_command_line_and_goes_on_by_its_name(archive: Path, tmp_path: Path) -> None:
    told, results = tmp_path / "run.toml", tmp_path / "results"
    told.write_text(
        f'data = ["{archive}"]\nsize = {SIZE}\nbatch_size = 16\nmax_rows = 32\nname = "told"\ndevice = "cpu"\n'
    )

    def train(*typed: str) -> Result:
        return CliRunner().invoke(app, ["train", "sl", *typed, "--results", str(results)])

    first = train("--settings", str(told), "--net", "arena-1x8", "--preset", "tiny", "--snapshot-minutes", "3")
    assert first.exit_code == 0, first.output
    left = json.loads((results / "training" / "told" / SETTINGS_FILE).read_text())
    assert (left["net"], left["batch_size"], left["max_rows"], left["snapshot_minutes"]) == ("arena-1x8", 16, 32, 3)
    further = train("--resume", "told", "--max-rows", "64")
    assert further.exit_code == 0, further.output
    assert Checkpoint.open(results / "checkpoints" / "told").manifest.rows == 64
    other = str(train("--resume", "told", "--net", "arena-1x9", "--seed", "2").exception)
    assert "net = 'arena-1x8', not 'arena-1x9'" in other and "seed = 1, not 2" in other and "--new" in other
    anew = train("--resume", "told", "--net", "arena-1x9", "--new")
    assert anew.exit_code == 0, anew.output
    with pytest.raises(ConfigError, match="no run 'nobody' to resume"):
        CliRunner().invoke(app, ["train", "sl", "--resume", "nobody"], catch_exceptions=False)


def test_a_new_run_without_a_name_removes_no_other_run(tmp_path: Path) -> None:
    other = tmp_path / "results" / "training" / "other" / "state.pt"
    other.parent.mkdir(parents=True)
    other.touch()
    (tmp_path / "games").mkdir()
    done = arena("train", "sl", "--data", "games", "--name", "", "--new", folder=tmp_path)
    assert done.returncode == 2 and "name" in done.stderr and other.exists()
