"""A machine for a while, put to use: which trainers run one after another, and what is taken home. Trains nothing.

A call proves every trainer, then trains large nets and distils one of them; the next call goes on where it ended. What
there is so far is packed every minute, so that a machine that is taken away costs a minute. Loads no torch.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from arena import ConfigError
from arena.files import read_json, replacing, scratch, write
from trainers.settings import METRICS_FILE, STATE_FILE

PART_BYTES, PARTS = 15_000_000, 7
"""The bytes of a part of the archive, and how many there may be."""

PACKING_SECONDS = 60.0
ENDING_SHARE, ENDING_SECONDS = 0.1, 90.0
"""Of the time of a call, what is kept for a run to stop, save and export: this share of it, but no more seconds."""

RECORD, REPORT, ARCHIVE = "auto.json", "auto.txt", "auto.tar"

COMMAND = (sys.executable, "-m", "arena", "train")
"""How a trainer is begun."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A run of a trainer, and its part of the time."""

    key: str
    share: float
    trainer: str
    settings: Mapping[str, object]
    learning: float = 1.0
    """The part of the stage's minutes that are for training."""
    playing: float = 0.0
    """The part for the games that are played first."""

    @property
    def run(self) -> str:
        """The name of the run, and of its checkpoint."""
        return str(self.settings["name"])

    def words(self, minutes: float) -> list[str]:
        """What follows ``arena train``."""
        settings = dict(self.settings) | {"max_minutes": f"{self.learning * minutes:.3f}"}
        if self.playing:
            settings["play_minutes"] = f"{self.playing * minutes:.3f}"
        settings |= {"save_minutes": 1, "snapshot_minutes": 1}
        return [self.trainer, *(word for name, value in settings.items() for word in ("--set", f"{name}={value}"))]


def plan(data: Mapping[int, Path], preset: str, known: Sequence[str]) -> list[Stage]:
    """What is done with the datasets ``data``, by their board sizes, with the presets of this name, in turn. ``known``
    are the trainers that there are. Raises ConfigError without a dataset of 9x9."""
    if 9 not in data:
        raise ConfigError("no dataset of 9x9 games; make one with arena data build, and name it with --data")
    nine = {"data": data[9]}
    teacher = "alphago:checkpoint=large-9x9,rollout_weight=0,visits="
    teacher += {"gpu": "200,precision=bf16", "cpu": "100"}.get(preset, "10")
    smallest = {"net": "arena-2x16", "start": ""} if preset == "tiny" else {}
    batch = 4096 if preset == "gpu" else 256
    distilling = {"teacher": teacher, "games": 100_000, "name": "small-9x9", **smallest}
    stages = [
        Stage("proof sl", 0.05, "sl", nine | {"name": "proof-sl", "profile": 20}, learning=0.5),
        Stage("proof sl, resumed", 0.05, "sl", nine | {"name": "proof-sl"}),
        Stage("proof sl, not compiled", 0.03, "sl", nine | {"name": "proof-eager", "compile": False}),
        Stage("proof sl, larger batches", 0.03, "sl", nine | {"name": "proof-batches", "batch_size": batch}),
        Stage("proof ownership", 0.02, "ownership", nine | {"name": "proof-ownership"}),
        Stage("proof value", 0.02, "value", nine | {"name": "proof-value", "source": "records", "playouts": 0}),
        Stage(
            "proof rl", 0.03, "rl", {"name": "proof-rl", "eval_opponent": "", "eval_every": 1000, "final_eval_games": 8}
        ),
        Stage("large-9x9", 0.31, "sl", nine | {"name": "large-9x9"}),
    ]
    for size, path in sorted(data.items()):
        if size != 9:
            start = f"sl-{size}x{size}" if size == 19 and preset != "tiny" else ""
            other = {"data": path, "size": size, "name": f"large-{size}x{size}", "start": start}
            stages.append(Stage(f"large-{size}x{size}", 0.2, "sl", other))
    stages.append(Stage("small-9x9", 0.26, "distill", distilling, learning=0.4, playing=0.6))
    if "zero" in known:
        stages.append(Stage("zero-9x9", 0.9, "zero", {"name": "zero-9x9"}))
    return stages


def run(
    stages: Sequence[Stage], preset: str, minutes: float, results: Path, out: Path, command: Sequence[str] = COMMAND
) -> Iterator[str]:
    """Carry out the stages that are still to be done, until the time is over; tell of each as it begins and ends.
    ``command`` is what its words follow.

    How far they are is kept in ``results``, and packed into ``out`` with what they made. A stage that fails is told of,
    and tried again by the next call. Interrupted, a stage saves what it has, and KeyboardInterrupt is raised again.
    """
    begun = time.monotonic()
    deadline = begun + 60 * minutes
    stop = deadline - min(ENDING_SECONDS, ENDING_SHARE * 60 * minutes)
    record = results / "training" / RECORD
    states = read_json(record, error=ConfigError, hint="remove it to start again") if record.exists() else {}

    def tell(words: str) -> str:
        line = f"{(time.monotonic() - begun) / 60:5.1f} min  {words}"
        with (out / REPORT).open("a", encoding="utf-8") as report:
            report.write(f"{line}\n")
        return line

    out.mkdir(parents=True, exist_ok=True)
    for stage in stages:
        state = states.get(stage.key, {"minutes": stage.share * minutes, "done": False})
        if state["done"] or time.monotonic() >= stop:
            continue
        yield tell(f"{stage.key}: {state['minutes']:.1f} min")
        log = results / "training" / f"{stage.run}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        before = time.monotonic()
        with log.open("ab") as file:
            words = [*command, *stage.words(state["minutes"]), "--preset", preset, "--results", str(results)]
            child = subprocess.Popen(words, stdout=file, stderr=file)
            try:
                longest = before + 60 * (2 * state["minutes"] + 3)  # one that hangs doesn't cost the others their time
                while child.poll() is None and time.monotonic() < min(stop, longest):
                    try:
                        child.wait(max(0.1, min(PACKING_SECONDS, stop - time.monotonic())))
                    except subprocess.TimeoutExpired:
                        pack(stages, results, out)
                was_stopped = child.poll() is None
            finally:
                _end(child, deadline)
        states[stage.key] = state | {"done": child.returncode == 0 and not was_stopped}
        write(record, json.dumps(states, indent=2) + "\n", error=ConfigError)
        yield tell(
            f"{stage.key}: {_ending(child.returncode, was_stopped, log)}{_speed(results / 'training' / stage.run)}"
        )
    left = [stage.key for stage in stages if not states.get(stage.key, {"done": False})["done"]]
    yield tell(f"left for the next call: {', '.join(left)}" if left else "all stages are done")
    for missing in pack(stages, results, out):
        yield tell(f"{missing}: too large to be packed")


def _end(child: subprocess.Popen[bytes], deadline: float) -> None:
    """Let a trainer stop, save and export; kill one that takes longer than there is time."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
    try:
        child.wait(max(5.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _ending(code: int, was_stopped: bool, log: Path) -> str:
    if was_stopped or code == 0:
        return "stopped; run the same command to resume" if was_stopped else "done"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"failed ({code}): {lines[-1] if lines else 'without a word'}"


def _speed(training: Path) -> str:
    """What the last line of a run's log tells of its speed."""
    path = training / METRICS_FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    last = json.loads(lines[-1]) if lines else {}
    told = ("rows", "rows_per_second", "games_per_second", "waiting", "loss", "memory_mb")
    return "".join(f", {name} {last[name]:,.6g}" for name in told if name in last)


def pack(stages: Sequence[Stage], results: Path, out: Path) -> list[str]:
    """Write what the stages made into ``out`` as parts of an archive (cat auto.tar.* | tar x): logs, then of each run
    its latest checkpoint, then the states of the last; what doesn't fit any more is returned."""
    runs = list(dict.fromkeys(stage.run for stage in reversed(stages)))
    training, checkpoints = results / "training", results / "checkpoints"
    wanted: list[list[Path]] = [[training / RECORD]]
    wanted += [[training / f"{name}.log", *(training / name).glob("*.json*")] for name in runs]
    wanted += [_files(_latest(checkpoints, name)) for name in runs]
    wanted += [[training / name / STATE_FILE] for name in runs]
    room, taken, left = PART_BYTES * PARTS - 20_480, list[Path](), list[str]()
    for files in wanted:
        there = [path for path in files if path.is_file()]
        needed = sum(path.stat().st_size + 1_536 for path in there)
        if needed <= room:
            taken, room = [*taken, *there], room - needed
        else:
            left.append(str(there[0].parent if len(there) > 1 else there[0]))
    with TemporaryDirectory(dir=scratch()) as folder:
        whole = Path(folder) / ARCHIVE
        with tarfile.open(whole, "w") as archive:
            for path in taken:
                archive.add(path, path.relative_to(results.parent))
        with whole.open("rb") as file:
            count = 0
            while part := file.read(PART_BYTES):
                with replacing(out / f"{ARCHIVE}.{count}", error=ConfigError) as aside:
                    aside.write_bytes(part)
                count += 1
    for number in range(count, PARTS):
        (out / f"{ARCHIVE}.{number}").unlink(missing_ok=True)
    return left


def _latest(checkpoints: Path, name: str) -> Path:
    """The checkpoint of a run that is over, or the latest snapshot of one that goes on."""
    steps = [path for path in checkpoints.glob(f"{name}-step*") if path.name.removeprefix(f"{name}-step").isdecimal()]
    return max(steps, key=lambda path: int(path.name.removeprefix(f"{name}-step")), default=checkpoints / name)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
