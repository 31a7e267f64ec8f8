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
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from arena import ArenaError, ConfigError
from bots.nets.checkpoint import WEIGHTS, Checkpoint, find, save

TEACHER, RECORDS = "teacher", "records"  # folders that travel
PLAY, LEARN = 270.0, 530.0  # seconds of 9.5 minutes at which a stage ends; then nets are collected
LOADING = 45.0  # seconds that a student takes to read the games, to compile and to be tested
ENDING = 15.0  # seconds that a process gets to save what it has
SHOWN = "test_positions test_top1 test_policy_loss test_win_rate_mse start_test_policy_loss start_test_win_rate_mse"

RECIPE = (
    "--record-share=0.8 --full-search-prob=1 --temperature-moves=20 --games=1000000 --encoder=arena-31 "
    "--ema-decay=0.9995 --outcome-share=0.1 --value-weight=0.8 --test-split=0.03 --validation-split=0.005 "
    "--validate-every=2000000 --snapshot-minutes=2 --save-minutes=0.5"
)


@dataclass(frozen=True)
class Round:
    """The settings of a round."""

    luggage: str  # a folder with the teacher and, if there are any, records
    out: str = ""  # the folder that is brought back
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
    began: float = field(default_factory=time.monotonic)

    @property
    def results(self) -> Path:
        return Path(self.out).with_name("round-results")

    def left(self, until: float) -> float:
        """Seconds until a time of a round of 9.5 minutes."""
        return until * self.minutes / 9.5 - (time.monotonic() - self.began)

    def report(self, words: str) -> None:
        print(f"[{time.monotonic() - self.began:5.0f} s] {words}", flush=True)

    def begin(self, name: str, net: str, start: str, log: Any, **more: Any) -> subprocess.Popen[bytes]:
        """A run that distils. Who plays and judges is the same in all of them, so that they share the games."""
        gpu, records = self.device == "cuda", Path(self.luggage) / RECORDS
        precision = "bf16" if gpu and self.precision == "auto" else self.precision
        given: dict[str, Any] = {
            "name": name,
            "net": net,
            "start": start,
            "teacher": f"policy:checkpoint={Path(self.luggage) / TEACHER},precision={precision}",
            "player": f"alphago:checkpoint={self.player},visits={self.visits}{',precision=bf16' * gpu}",
            "policy_share": self.policy_share,
            "tree_positions": self.tree_positions,
            "records": records if records.is_dir() else "",
            "learning_rate": 0.01 if start else 0.02,
            "batch_size": self.batch,
            "parallel_games": self.slots,
            "device": self.device,
            "bf16": str(gpu).lower(),
            "results": self.results,
        }
        words = [f"--{key.replace('_', '-')}={value}" for key, value in (given | more).items()]
        command = [sys.executable, "-m", "arena", "train", "distill", *RECIPE.split(), *words]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


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


def finish(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait so many seconds for a process, then end it."""
    for end in (process.terminate, process.kill):
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(1.0, seconds))
            return
        end()
        seconds = ENDING
    process.wait()


def learn(settings: Round, log: Any, student: str) -> None:
    """Train a student, and collect what it has learned."""
    shape, _, start = student.partition("=")
    for compiles in (True, False) if settings.device == "cuda" else (False,):
        left = settings.left(LEARN)
        minutes = round(max(0.05, (left - LOADING * min(1.0, left / 200)) / 60), 2)
        more = {"play_minutes": 0.0001, "max_minutes": minutes, "compile": str(compiles).lower()}
        threads = max(1, settings.threads // 4)
        process = settings.begin(name_of(student), f"arena-{shape}", start, log, num_workers=threads, **more)
        finish(process, left + ENDING)
        if not process.returncode or not compiles or settings.left(LEARN) < 0:
            break
        settings.report(f"{student}: failed, again without torch.compile")
    collect(settings, student)


def name_of(student: str) -> str:
    """``12x64=distilled-9x9`` is round-12x64-on."""
    shape, _, start = student.partition("=")
    return f"round-{shape}{'-on' if start else ''}"


def collect(settings: Round, student: str) -> None:
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
    settings.report(f"{student}: {net.name}, {path.stat().st_size / 2**20:.1f} MiB; {known}")


def run(settings: Round) -> None:
    out = Path(settings.out)
    out.mkdir(parents=True, exist_ok=True)
    with (out / "round.log").open("ab") as log:
        minutes = max(0.05, (settings.left(PLAY) - ENDING * min(1.0, settings.minutes / 9.5)) / 60)
        more = {"play_minutes": round(minutes, 3), "max_rows": 1, "num_workers": settings.threads}
        finish(settings.begin("round-games", "arena-1x8", "", log, **more), settings.left(PLAY + 20))
        judged = [int(path.name[:11]) for path in (settings.results / "cache").glob("distill-games-*/*.npz")]
        settings.report(f"played: {max(judged, default=0):,} positions judged")
        if not judged:
            raise ConfigError(f"no game is over; see {out / 'round.log'}")
        students = settings.students.split(",")
        with ThreadPoolExecutor(len(students)) as pool:
            list(pool.map(partial(learn, settings, log), students))


def main(words: list[str]) -> int:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu_round", description=__doc__, formatter_class=shown)
    parser.add_argument("luggage", help="folder with the teacher and a dataset 'records'; --pack makes the first")
    parser.add_argument("--pack", metavar="NET", help="put this checkpoint into the luggage, and end")
    for item in fields(Round)[1:-1]:
        name, kind = item.name.replace("_", "-"), type(item.default)
        parser.add_argument(f"--{name}", type=kind, default=item.default, help=f"(default {item.default})")
    given = vars(parser.parse_args(words))
    if net := given.pop("pack"):
        pack(net, Path(given["luggage"]))
        return 0
    if not given["out"]:
        parser.error("give --out FOLDER, which is brought back")
    if not (Path(given["luggage"]) / TEACHER).is_dir():
        raise ConfigError(f"{given['luggage']} has no teacher; make it with --pack NET")
    run(Round(**given))
    return 0
