"""A machine for a while: stages end in time, go on with the next call, and what they made fits into a few parts."""

from __future__ import annotations

import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from commandline import arena, refused

from arena import ConfigError
from arena.files import read_json
from trainers import auto
from trainers.auto import Stage
from trainers.settings import (
    DISTILL_PRESETS,
    OWNERSHIP_PRESETS,
    RL_PRESETS,
    SL_PRESETS,
    VALUE_PRESETS,
    ZERO_PRESETS,
    change,
)

TRAINER = """
import signal, sys, time
from pathlib import Path
given = dict(word.split("=", 1) for word in sys.argv if "=" in word)
results = Path(sys.argv[sys.argv.index("--results") + 1])
training, checkpoint = results / "training" / given["name"], results / "checkpoints" / given["name"]
training.mkdir(parents=True, exist_ok=True)
checkpoint.mkdir(parents=True, exist_ok=True)
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
if given["name"] == "bad":
    sys.exit("no such net")
(training / "metrics.jsonl").open("a").write('{"rows": 64, "rows_per_second": 12.5}\\n')
(checkpoint / "weights.safetensors").write_bytes(bytes(int(given["weights"])))
print("begun with", given["max_minutes"], flush=True)
while given["name"] == "endless":
    time.sleep(0.05)
"""


def packed(out: Path) -> list[str]:
    """The names in the archive; checks what a part may have."""
    parts = sorted(out.glob("auto.tar.*"))
    assert [path.name for path in parts] == [f"auto.tar.{number}" for number in range(len(parts))]
    assert len(list(out.iterdir())) <= 8 and all(path.stat().st_size <= auto.PART_BYTES for path in parts)
    with tarfile.open(fileobj=BytesIO(b"".join(path.read_bytes() for path in parts))) as archive:
        return archive.getnames()


@pytest.fixture
def command(tmp_path: Path) -> tuple[str, ...]:
    """A trainer that learns nothing."""
    program = tmp_path / "trainer.py"
    program.write_text(TRAINER)
    return sys.executable, str(program)


def stage(name: str, weights: int = 10, key: str = "") -> Stage:
    return Stage(key or name, 0.5, "sl", {"name": name, "weights": weights})


def test_stages_follow_each_other_and_the_next_call_goes_on(command: tuple[str, ...], tmp_path: Path) -> None:
    stages = [stage("one"), stage("bad"), stage("one", key="one again"), stage("endless"), stage("last")]
    out, results = tmp_path / "out", tmp_path / "results"
    told = list(auto.run(stages, "tiny", 0.05, results, out, command))
    words = [line.partition("min  ")[2] for line in told]
    assert words[0] == "one: 0.0 min" and words[1] == "one: done, rows 64, rows_per_second 12.5"
    assert words[3] == "bad: failed (1): no such net" and words[5].startswith("one again: done")
    assert words[7].startswith("endless: stopped; run the same command to resume")
    assert words[-1] == "left for the next call: bad, endless, last"
    assert (out / "auto.txt").read_text().splitlines() == told
    names = packed(out)
    assert {"results/training/auto.json", "results/training/one/metrics.jsonl", "results/training/bad.log"} <= set(
        names
    )
    assert "results/checkpoints/endless/weights.safetensors" in names
    again = list(auto.run([stage("bad"), *stages[2:3], stage("last")], "tiny", 0.05, results, out, command))
    assert [line.partition("min  ")[2].split(":")[0] for line in again] == [
        "bad",
        "bad",
        "last",
        "last",
        "left for the next call",
    ]
    record = read_json(results / "training" / auto.RECORD, error=ConfigError, hint="")
    assert record["last"]["done"] and not record["bad"]["done"]
    assert (results / "training" / "one.log").read_text().count("begun with 0.025") == 2


def test_what_does_not_fit_is_left_out_and_named(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "PART_BYTES", 20_000)
    stages = [stage("small", 1_000), stage("large", 150_000)]
    told = list(auto.run(stages, "tiny", 0.1, tmp_path / "results", tmp_path / "out", command))
    assert told[-1].endswith("checkpoints/large/weights.safetensors: too large to be packed")
    names = packed(tmp_path / "out")
    assert "results/checkpoints/small/weights.safetensors" in names
    assert not any("checkpoints/large" in name for name in names)
    steps = tmp_path / "results" / "checkpoints"
    for number in (90, 100):
        (steps / f"small-step{number}").mkdir()
        (steps / f"small-step{number}" / "manifest.json").write_text("{}")
    auto.pack(stages, tmp_path / "results", tmp_path / "out")
    assert [name for name in packed(tmp_path / "out") if "small-step" in name] == [
        "results/checkpoints/small-step100/manifest.json"
    ]


@pytest.mark.parametrize("preset", ["tiny", "cpu", "gpu"])
def test_every_stage_has_settings_that_its_trainer_takes(preset: str) -> None:
    presets = {
        "sl": SL_PRESETS,
        "ownership": OWNERSHIP_PRESETS,
        "value": VALUE_PRESETS,
        "rl": RL_PRESETS,
        "distill": DISTILL_PRESETS,
        "zero": ZERO_PRESETS,
    }
    stages = auto.plan({9: Path("nine"), 19: Path("nineteen")}, preset, list(presets))
    assert sum(one.share for one in stages[:-1]) == pytest.approx(1)
    for one in stages:
        words = one.words(10.0)
        given = dict(word.split("=", 1) for word in words[2::2])
        settings = change(presets[words[0]][preset], given, one.key)  # type: ignore[index]  # one preset's kind is another's
        assert settings.snapshot_minutes == 1 and settings.max_minutes > 0
    assert stages[-1].trainer == "zero"


def test_no_data_and_unknown_options_are_refused_in_a_line(tmp_path: Path) -> None:
    typed = ("train", "auto", "--minutes", "1", "--out", "home", "--preset", "tiny")
    refused(arena(*typed, folder=tmp_path), "no dataset of 9x9 games")
    refused(arena(*typed, "--dta", "x", folder=tmp_path), "unknown option '--dta'; did you mean '--data'?")
    assert not list(tmp_path.iterdir())
