"""What trainers are told: presets, files, the command line, and the run that goes on."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from commandline import arena
from test_training import SIZE, random_game

from arena import ConfigError
from bots.nets.checkpoint import Checkpoint
from trainers.settings import (
    DISTILL_PRESETS,
    GROUPS,
    OWNERSHIP_PRESETS,
    RL_PRESETS,
    ROLLOUT_PRESETS,
    SETTINGS_FILE,
    SL,
    SL_PRESETS,
    VALUE_PRESETS,
    change,
    choose_preset,
    read_file,
)

PRESETS = {
    "distill": DISTILL_PRESETS,
    "sl": SL_PRESETS,
    "ownership": OWNERSHIP_PRESETS,
    "rl": RL_PRESETS,
    "rollout": ROLLOUT_PRESETS,
    "value": VALUE_PRESETS,
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "random.sgfs"
    path.write_text("".join(f"{random_game(seed, f'2017-05-{1 + seed}').to_sgf()}\n" for seed in range(20)))
    return path


def test_every_setting_has_a_sentence_and_a_group() -> None:
    for presets in PRESETS.values():
        for item in fields(presets["cpu"]):
            assert item.metadata["help"] and item.metadata["group"] in GROUPS, item.name


def test_a_later_word_counts_and_one_end_of_the_run_replaces_the_other() -> None:
    usual = SL_PRESETS["cpu"]
    assert usual.max_minutes is not None
    shorter = change(usual, {"max_rows": "1000", "bf16": "true", "learning_rate": 0.1}, "file")
    assert (shorter.max_rows, shorter.max_minutes, shorter.bf16, shorter.learning_rate) == (1000, None, True, 0.1)
    both = change(usual, {"max_rows": 1000, "max_minutes": 5}, "file")
    assert (both.max_rows, both.max_minutes) == (1000, 5.0)
    assert change(usual, {"records": ["a", "b"]}, "file").records == ("a", "b")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"lerning_rate": 0.1}, "file: unknown setting 'lerning_rate'; did you mean 'learning_rate'?"),
        ({"batch": "many"}, "file: batch = 'many' is not a whole number"),
        ({"batch": 0}, "file: batch = 0 is out of range; it goes from 1"),
        ({"optimizer": "lion"}, "file: optimizer = 'lion' is none of muon, adamw, sgd"),
        ({"records": "games"}, "file: records = 'games' is not a list of paths"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line(given: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        change(SL(), given, "file")
    assert str(refused.value) == expected


def test_an_unknown_preset_or_a_broken_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there are tiny, cpu, gpu"):
        choose_preset(SL_PRESETS, "tpu")
    broken = tmp_path / "run.toml"
    broken.write_text("batch = = 3")
    for path in (broken, tmp_path / "nothing.toml"):
        with pytest.raises(ConfigError, match=path.name):
            read_file(path)


@pytest.mark.parametrize("trainer", PRESETS)
def test_the_help_of_a_trainer_explains_each_setting(trainer: str, tmp_path: Path) -> None:
    presets = PRESETS[trainer]
    run = arena("train", trainer, "--help", folder=tmp_path)
    for item in fields(presets["cpu"]):
        shown = "data" if item.name == "records" else item.name
        assert f"--{shown.replace('_', '-')}" in run.stdout, item.name


def test_a_run_is_told_by_file_and_command_line_and_goes_on_by_its_name(archive: Path, tmp_path: Path) -> None:
    told = tmp_path / "run.toml"
    told.write_text(
        f'records = ["{archive}"]\nsize = {SIZE}\ntest_from = ""\nbatch = 16\nmax_rows = 32\nname = "told"\n'
    )
    results = tmp_path / "results"
    common = ("--preset", "tiny", "--results", str(results))
    first = arena("train", "sl", "--config", str(told), "--net", "arena-1x8", *common, folder=tmp_path)
    assert first.returncode == 0, first.stderr
    left = json.loads((results / "training" / "told" / SETTINGS_FILE).read_text())
    assert (left["net"], left["batch"], left["max_rows"]) == ("arena-1x8", 16, 32)
    further = arena("train", "sl", "--resume", "told", "--max-rows", "64", "--results", str(results), folder=tmp_path)
    assert further.returncode == 0, further.stderr
    manifest = Checkpoint.open(results / "checkpoints" / "told").manifest
    assert manifest.rows == 64 and manifest.settings["net"] == "arena-1x8"
    other = arena("train", "sl", "--resume", "told", "--net", "arena-1x9", "--results", str(results), folder=tmp_path)
    assert other.returncode == 2 and "net" in other.stderr
    anew = arena(
        "train", "sl", "--resume", "told", "--net", "arena-1x9", "--new", "--results", str(results), folder=tmp_path
    )
    assert anew.returncode == 0, anew.stderr
    unknown = arena("train", "sl", "--resume", "nobody", "--results", str(results), folder=tmp_path)
    assert unknown.returncode == 2 and unknown.stderr.count("\n") == 1 and "nobody" in unknown.stderr
