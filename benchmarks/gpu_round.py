"""A round of distillation on a GPU, in one command of at most 9.5 minutes: several students learn from a large net.

Each stage runs in processes of its own, with its own clock: one that fails or takes too long is ended, and the next one
goes on with what there is.

check   the teacher in bfloat16 beside float32; where they differ it judges in float32
play    the student plays, from records, too, and the teacher judges; games are kept every 20 seconds
learn   the students, all at once; one that fails is started again without torch.compile
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from arena import ArenaError, ConfigError
from arena.go.game import Game, Rules
from arena.players.registry import Registry
from bots.nets.checkpoint import WEIGHTS, Checkpoint, find, save
from trainers.settings import change

TEACHER, RECORDS = "teacher", "records"  # folders of the luggage
CHECK, PLAY, LEARN = 60.0, 270.0, 530.0  # seconds of 9.5 minutes at which a stage ends; then nets are collected
LOADING = 45.0  # seconds that a student takes to read the games, to compile and to be tested
POSITIONS, MOST_APART, LEAST_SAME = 256, 0.01, 0.97  # of the check: win rates on average, and best moves
TRACED = "test_positions test_top1 test_policy_loss test_win_rate_mse start_test_policy_loss start_test_win_rate_mse"
RETURNED = 16 * 2**20  # bytes of the largest file that comes back


@dataclass(frozen=True)
class Round:
    """The settings of a round."""

    luggage: str  # what ``pack`` made
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
    precision: str = ""  # of the teacher, once it was checked

    @property
    def results(self) -> Path:
        return Path(self.out).with_name("round-results")

    def recipe(self) -> dict[str, Any]:
        """The settings of distill that say who plays and judges, the same for all students."""
        bf16 = ",precision=bf16" if self.device == "cuda" else ""
        records = Path(self.luggage) / RECORDS
        return {
            "teacher": f"policy:checkpoint={Path(self.luggage) / TEACHER},precision={self.precision or 'auto'}",
            "player": f"alphago:checkpoint={self.player},visits={self.visits}{bf16}",
            "policy_share": self.policy_share,
            "tree_positions": self.tree_positions,
            "records": str(records) if records.is_dir() else "",
            "record_share": 0.8,
            "full_search_prob": 1.0,
            "temperature_moves": 20,
            "games": 1_000_000,
        }


# --- Before: what travels ---


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


# --- Stages, each in a process of its own ---


def check(settings: Round) -> None:
    """Print the precision in which the teacher is to judge, and how far bfloat16 is from float32."""
    from bots.nets.inference import Evaluator
    from trainers.selfplay import draw_seeds

    teacher, rules = Checkpoint.open(Path(settings.luggage) / TEACHER), Rules.preset("cgos", 9)
    games = [random_game(rules, seed, 4 + seed % 40) for seed in draw_seeds(POSITIONS, 1).tolist()]
    exact, quick = (Evaluator(teacher, precision) for precision in ("fp32", "bf16"))
    (logits, rates), (others, near) = (net.evaluate(net.encode(games)) for net in (exact, quick))
    apart, same = float(np.abs(rates - near).mean()), float((logits.argmax(1) == others.argmax(1)).mean())
    is_near = apart <= MOST_APART and same >= LEAST_SAME
    print(json.dumps({"precision": "bf16" if is_near else "fp32", "apart": round(apart, 4), "same": round(same, 4)}))


def random_game(rules: Rules, seed: int, plies: int) -> Game:
    game = Game(rules, seed=seed)
    while len(game.moves) < plies and not game.is_over:
        game.play(game.random_move())
    return game


def play(settings: Round, minutes: float) -> None:
    """Play and judge games for so many minutes."""
    from trainers.distill import Config, Recipe
    from trainers.replay import play_games

    given = {**settings.recipe(), "play_minutes": minutes, "parallel_games": settings.slots}
    config = change(Config("round-games", device=settings.device, num_workers=settings.threads), given, "round")
    config = replace(config, start=settings.player, net="arena-12x64", max_rows=1)
    recipe = Recipe.of(config, Registry(), settings.results)
    play_games(config, recipe, settings.results, lambda line: print(line, flush=True), None)


# --- The round ---


class Clock:
    """The seconds of a round."""

    def __init__(self, minutes: float):
        self._began, self._unit = time.monotonic(), minutes / 9.5

    def left(self, until: float) -> float:
        """Seconds until a time of a round of 9.5 minutes."""
        return until * self._unit - self.now

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    def say(self, words: str) -> None:
        print(f"[{self.now:5.0f} s] {words}", flush=True)


def stage(settings: Round, name: str, *more: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.gpu_round", name, json.dumps(asdict(settings)), *more]


def finish(process: subprocess.Popen[str], seconds: float) -> str:
    """What a process printed; it is ended after so many seconds."""
    try:
        found, _ = process.communicate(timeout=max(1.0, seconds))
    except subprocess.TimeoutExpired:
        process.terminate()  # a stage keeps what it has
        try:
            found, _ = process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            found, _ = process.communicate()
    return found


def student_command(settings: Round, student: str, minutes: float, compiles: bool) -> list[str]:
    shape, _, start = student.partition("=")
    gpu = settings.device == "cuda"
    told = {**settings.recipe(), "name": name_of(student), "net": f"arena-{shape}", "start": start}
    told |= {"play_minutes": 0.0001, "max_minutes": round(minutes, 2), "batch_size": settings.batch}
    told |= {"encoder": "arena-31", "learning_rate": 0.01 if start else 0.02, "ema_decay": 0.9995, "outcome_share": 0.1}
    told |= {"value_weight": 0.8, "test_split": 0.03, "validation_split": 0.005, "validate_every": 2_000_000}
    told |= {"num_workers": max(1, settings.threads // 4), "snapshot_minutes": 2.0, "save_minutes": 0.5}
    told |= {"device": settings.device, "bf16": gpu, "compile": gpu and compiles}
    words = []
    for key, value in told.items():
        words += [f"--{key.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}"]
    return [sys.executable, "-m", "arena", "train", "distill", *words, "--results", str(settings.results)]


def name_of(student: str) -> str:
    """``12x64=distilled-9x9`` is round-12x64-on."""
    shape, _, start = student.partition("=")
    return f"round-{shape}{'-on' if start else ''}"


def learn(settings: Round, clock: Clock, log: Any) -> None:
    """Train all students at once; what each has learned is collected when it ends."""

    def begin(student: str, compiles: bool) -> subprocess.Popen[str]:
        minutes = max(0.05, (clock.left(LEARN) - LOADING * min(1.0, clock.left(LEARN) / 200)) / 60)
        command = student_command(settings, student, minutes, compiles)
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, text=True)

    running = {student: (begin(student, True), True) for student in settings.students.split(",")}
    while running:
        time.sleep(0.5)
        for student, (process, compiled) in list(running.items()):
            late = clock.left(LEARN) < 0
            if late and process.poll() is None:
                finish(process, 15)
            if process.poll() is None:
                continue
            if process.returncode and compiled and not late and settings.device == "cuda":
                clock.say(f"{student}: failed, again without torch.compile")
                running[student] = begin(student, False), False
                continue
            del running[student]
            collect(settings, clock, student)


def collect(settings: Round, clock: Clock, student: str) -> None:
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
    known = {key: round(figures[key], 4) for key in TRACED.split() if key in figures}
    size = (
        f"{path.stat().st_size / 2**20:.1f} MiB{', too large to come back' if path.stat().st_size > RETURNED else ''}"
    )
    clock.say(f"{student}: {net.name}, {size}, {json.dumps(known)}")


def run(settings: Round) -> int:
    """The exit code of a round."""
    clock, out = Clock(settings.minutes), Path(settings.out)
    out.mkdir(parents=True, exist_ok=True)
    with (out / "round.log").open("a", buffering=1, encoding="utf-8") as log:
        precision = "auto"
        if settings.device == "cuda":
            checking = subprocess.Popen(stage(settings, "check"), stdout=subprocess.PIPE, stderr=log, text=True)
            found = finish(checking, clock.left(CHECK))
            with suppress(ValueError, KeyError, IndexError):
                precision = json.loads(found.splitlines()[-1])["precision"]
            precision = precision if precision != "auto" else "fp32"  # a check that failed
            clock.say(f"the teacher judges in {precision}; check: {found.strip() or 'failed, see round.log'}")
        settings = replace(settings, precision=precision)
        for records in (True, False):  # without them, where they can't be read
            given = settings if records else replace(settings, luggage=str(without_records(settings)))
            minutes = f"{max(0.05, (clock.left(PLAY) - 15 * min(1.0, settings.minutes / 9.5)) / 60):.3f}"
            playing = subprocess.Popen(stage(given, "play", minutes), stdout=log, stderr=subprocess.STDOUT, text=True)
            finish(playing, clock.left(PLAY + 20))
            chunks = list((settings.results / "cache").glob("distill-games-*/*.npz"))
            clock.say(f"played: {int(max(chunks).name[:11]) if chunks else 0:,} positions judged")
            if chunks:
                settings = given
                break
        else:
            clock.say("no games: see round.log")
            return 1
        learn(settings, clock, log)
        clock.say("done")
    return 0


def without_records(settings: Round) -> Path:
    """The luggage with the teacher alone."""
    folder = settings.results / "teacher-alone"
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        (folder / TEACHER).symlink_to(Path(settings.luggage).resolve() / TEACHER)
    return folder


def main(words: list[str]) -> int:
    """The exit code of a command line; stages call it, too."""
    if words[:1] and words[0] in ("check", "play"):
        settings = Round(**json.loads(words[1]))
        check(settings) if words[0] == "check" else play(settings, float(words[2]))
        return 0
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu_round", description=__doc__, formatter_class=shown)
    parser.add_argument("luggage", help="folder with the teacher and a dataset 'records'; --pack makes the first")
    parser.add_argument("--pack", metavar="NET", help="put this checkpoint into the luggage, and end")
    for item in fields(Round)[1:-1]:
        kind = type(item.default) if item.default is not MISSING else str
        default = None if item.default is MISSING else item.default
        parser.add_argument(f"--{item.name.replace('_', '-')}", type=kind, default=default, help=f"(default {default})")
    given = vars(parser.parse_args(words))
    if net := given.pop("pack"):
        pack(net, Path(given["luggage"]))
        return 0
    if given["out"] is None:
        parser.error("give --out FOLDER, which is brought back")
    if not (Path(given["luggage"]) / TEACHER).is_dir():
        raise ConfigError(f"{given['luggage']} has no teacher; make it with --pack NET")
    return run(Round(**given))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
