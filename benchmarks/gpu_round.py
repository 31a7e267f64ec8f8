"""A round of distillation on a GPU, in one command of at most 9.5 minutes: several students learn from a large net.

play    the student plays, also from records, and the teacher judges; games are kept every 20 seconds
learn   the students, all at once; one that fails is started again without torch.compile

Each is ``arena train distill`` in a process of its own, which is ended at its time. What there is by then counts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from arena import ArenaError, ConfigError
from bots.nets.checkpoint import WEIGHTS, Checkpoint, find, save

TEACHER, RECORDS = "teacher", "records"  # folders that travel
PLAY, LEARN = 270.0, 530.0  # seconds of 9.5 minutes at which a stage ends; then nets are collected
LOADING = 45.0  # seconds that a student takes to read the games, to compile and to be tested
ENDING = 15.0  # seconds that a process gets to save what it has
SHOWN = "test_positions test_top1 test_policy_loss test_win_rate_mse start_test_policy_loss start_test_win_rate_mse"


@dataclass(frozen=True)
class Round:
    """The settings of a round."""

    luggage: str  # a folder with the teacher and, if there are any, records
    out: str  # the folder that is brought back
    students: str = "12x64=distilled-9x9,12x64,16x64,10x80"  # shapes, some with a net to start from
    player: str = "distilled-9x9"
    visits: int = 24
    policy_share: float = 0.7
    tree_positions: int = 2
    slots: int = 256  # games at once for each thread
    threads: int = 16
    batch: int = 2048
    minutes: float = 9.5
    device: str = "cuda"
    precision: str = "auto"  # of the teacher; bf16 on a GPU

    @property
    def results(self) -> Path:
        return Path(self.out).with_name("round-results")

    def command(self, name: str, net: str, start: str = "", **more: Any) -> list[str]:
        """A run that distils. Who plays and judges is the same in all of them, so that they share the games."""
        gpu, records = self.device == "cuda", Path(self.luggage) / RECORDS
        told: dict[str, Any] = {
            "name": name,
            "net": net,
            "start": start,
            "teacher": f"policy:checkpoint={Path(self.luggage) / TEACHER},precision={self.precision}",
            "player": f"alphago:checkpoint={self.player},visits={self.visits}{',precision=bf16' * gpu}",
            "policy_share": self.policy_share,
            "tree_positions": self.tree_positions,
            "records": records if records.is_dir() else "",
            "record_share": 0.8,
            "full_search_prob": 1.0,
            "temperature_moves": 20,
            "games": 1_000_000,
            "encoder": "arena-31",
            "learning_rate": 0.01 if start else 0.02,
            "ema_decay": 0.9995,
            "outcome_share": 0.1,
            "value_weight": 0.8,
            "test_split": 0.03,
            "validation_split": 0.005,
            "validate_every": 2_000_000,
            "snapshot_minutes": 2.0,
            "save_minutes": 0.5,
            "batch_size": self.batch,
            "parallel_games": self.slots,
            "device": self.device,
            "bf16": str(gpu).lower(),
        }
        words = [f"--{key.replace('_', '-')}={value}" for key, value in (told | more).items()]
        return [sys.executable, "-m", "arena", "train", "distill", *words, "--results", str(self.results)]


def pack(teacher: str, luggage: Path) -> None:
    """Copy a net for the luggage: its weights in bfloat16, without ONNX."""
    import torch
    from safetensors.torch import load_file
    from safetensors.torch import save as serialize

    checkpoint = Checkpoint.open(find(teacher))

    def write(aside: Path) -> Mapping[str, float]:
        tensors = load_file(checkpoint.weights)
        small = {name: part.bfloat16() if part.dtype == torch.float32 else part for name, part in tensors.items()}
        (aside / WEIGHTS).write_bytes(serialize(small))
        return {}

    save(luggage / TEACHER, checkpoint.manifest, write)


class RoundClock:
    """The seconds of a round."""

    def __init__(self, minutes: float):
        self._began, self.unit = time.monotonic(), minutes / 9.5

    def left(self, until: float) -> float:
        """Seconds until a time of a round of 9.5 minutes."""
        return until * self.unit - (time.monotonic() - self._began)

    def report(self, words: str) -> None:
        print(f"[{time.monotonic() - self._began:5.0f} s] {words}", flush=True)


def begin(command: Sequence[str], log: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def finish(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait so many seconds for a process, then end it."""
    for end in (process.terminate, process.kill):
        try:
            process.wait(max(1.0, seconds))
            return
        except subprocess.TimeoutExpired:
            end()
            seconds = ENDING
    process.wait()


def name_of(student: str) -> str:
    """``12x64=distilled-9x9`` is round-12x64-on."""
    shape, _, start = student.partition("=")
    return f"round-{shape}{'-on' if start else ''}"


def learn(settings: Round, clock: RoundClock, log: Any) -> None:
    """Train all students at once; what each has learned is collected when it ends."""

    def train(student: str, compiles: bool) -> subprocess.Popen[bytes]:
        shape, _, start = student.partition("=")
        minutes = max(0.05, (clock.left(LEARN) - LOADING * min(1.0, clock.left(LEARN) / 200)) / 60)
        more = {"compile": str(compiles).lower(), "num_workers": max(1, settings.threads // 4)}
        command = settings.command(
            name_of(student), f"arena-{shape}", start, play_minutes=0.0001, max_minutes=round(minutes, 2), **more
        )
        return begin(command, log)

    can_compile = settings.device == "cuda"
    running = {student: (train(student, can_compile), can_compile) for student in settings.students.split(",")}
    while running:
        time.sleep(0.5)
        for student, (process, compiled) in list(running.items()):
            if (late := clock.left(LEARN) < 0) and process.poll() is None:
                finish(process, ENDING)
            if process.poll() is None:
                continue
            if process.returncode and compiled and not late:
                clock.report(f"{student}: failed, again without torch.compile")
                running[student] = train(student, False), False
                continue
            del running[student]
            collect(settings, clock, student)


def collect(settings: Round, clock: RoundClock, student: str) -> None:
    """Put a student's net, its last snapshot or else its state, and its log into the folder that is brought back."""
    name, results = name_of(student), settings.results
    folders = [results / "checkpoints" / name]
    folders += sorted((results / "checkpoints").glob(f"{name}-step*"), key=lambda path: path.stat().st_mtime)[::-1]
    training = results / "training" / name
    net = next((folder for folder in folders if (folder / WEIGHTS).exists()), training / "state.pt")
    path = Path(settings.out) / f"{name}.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as file:
        for one in (net, training / "metrics.jsonl", training / "settings.json"):
            if one.exists():
                file.add(one, one.name)
    figures: Mapping[str, float] = {}
    with suppress(ArenaError):
        figures = Checkpoint.open(net).manifest.metrics
    known = ", ".join(f"{key} {figures[key]:.4g}" for key in SHOWN.split() if key in figures)
    clock.report(f"{student}: {net.name}, {path.stat().st_size / 2**20:.1f} MiB; {known}")


def run(settings: Round) -> None:
    clock, out = RoundClock(settings.minutes), Path(settings.out)
    out.mkdir(parents=True, exist_ok=True)
    with (out / "round.log").open("ab") as log:
        minutes = max(0.05, (clock.left(PLAY) - ENDING * min(1.0, clock.unit)) / 60)
        more = {"play_minutes": round(minutes, 3), "max_rows": 1, "num_workers": settings.threads}
        finish(begin(settings.command("round-games", "arena-1x8", **more), log), clock.left(PLAY + 20))
        chunks = list((settings.results / "cache").glob("distill-games-*/*.npz"))
        clock.report(f"played: {int(max(chunks).name[:11]) if chunks else 0:,} positions judged")
        if not chunks:
            raise ConfigError(f"no game is over; see {out / 'round.log'}")
        learn(settings, clock, log)
        clock.report("done")


def main(words: list[str]) -> int:
    """The exit code of a command line."""
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu_round", description=__doc__, formatter_class=shown)
    parser.add_argument("luggage", help="folder with the teacher and a dataset 'records'; --pack makes the first")
    parser.add_argument("--pack", metavar="NET", help="put this checkpoint into the luggage, and end")
    for item in fields(Round)[1:]:
        kind = type(item.default) if item.default is not MISSING else str
        default = None if item.default is MISSING else item.default
        parser.add_argument(f"--{item.name.replace('_', '-')}", type=kind, default=default, help=f"(default {default})")
    given = vars(parser.parse_args(words))
    if net := given.pop("pack"):
        pack(net, Path(given["luggage"]))
        return 0
    if given["device"] == "cuda" and given["precision"] == "auto":
        given["precision"] = "bf16"
    if given["out"] is None:
        parser.error("give --out FOLDER, which is brought back")
    if not (Path(given["luggage"]) / TEACHER).is_dir():
        raise ConfigError(f"{given['luggage']} has no teacher; make it with --pack NET")
    run(Round(**given))
    return 0
