"""Long events and violent ends: kills of 20 kinds at random moments, killed training runs, and 10,000 games in one
event. What is kept and what is left behind, not how fast.

The whole of it takes long: ``-m slow``. 10 kills are always made.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from signal import SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGSTOP, SIGTERM
from tempfile import mkdtemp
from time import monotonic, sleep

import pytest
import torch
from helpers.commandline import ARENA, ROOT
from helpers.games import random_game
from helpers.learners import STRONG, install, learn
from helpers.processes import end_of, family, shared_memory

from arena import StoreError
from arena.go.game import Ending
from arena.go.sgf import write_sgf
from arena.results.store import Store
from bots.nets.checkpoint import Checkpoint

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds processes and their memory in /proc")

LONG = 300.0  # seconds after which an event that doesn't go on has failed
ENGINE = [sys.executable, "-I", "-S", str(ROOT / "tests" / "engines" / "scripted.py")]
ENGINES = {"one": "good", "two": "daemons", "three": "bare"}
CONFIG = "".join(
    f"[bots.{name}]\nkind = 'gtp'\ncommand = \"{' '.join([*ENGINE, mode])}\"\n" for name, mode in ENGINES.items()
)

KILLS = (
    *((victim, SIGKILL) for victim in ("worker", "workers", "server", "tracker", "watcher", "engine", "helper")),
    *((victim, number) for number in (SIGTERM, SIGSTOP) for victim in ("worker", "server", "engine")),
)
ENDS = (
    *(("parent", number) for number in (SIGKILL, SIGTERM, SIGINT, SIGHUP)),
    *(("job", number) for number in (SIGINT, SIGHUP)),
    ("abandoned", SIGKILL),
)
"""What is hit by which signal; what is in ``ENDS`` ends the command. ``abandoned`` is a parent whose workers are
stopped; a job is a process group. What is stopped goes on a moment later."""

ENDED = {SIGKILL: -SIGKILL, SIGTERM: 143, SIGINT: 130, SIGHUP: 129}
"""The exit code of a command after a signal."""

FOREIGN = ("torchinductor_", ".ses")
"""How the names begin of what torch and ONNX Runtime keep among the temporary files."""

COMMON = "--size 7 --save-minutes 0 --device cpu --preset tiny".split()
ROWS = "--max-rows 3200 --validate-every 320".split()
RECORDS = ("--data", "random.sgfs", "--batch-size", "32", *ROWS)
TRAININGS = {
    "sl": RECORDS,
    "ownership": RECORDS,
    "value": ("--games", "100", *ROWS),
    "distill": ("--teacher", "alphago:visits=8", "--games", "30", *ROWS),
    "rl": ("--games", "4", "--max-iterations", "50", "--pool-every", "3"),
}
"""Trainers, and options with which they take some seconds."""


class Siege:
    """A folder where commands are hit by signals; what they keep there and leave behind is watched."""

    def __init__(self, folder: Path, random: Random):
        self.folder = folder
        self.temporary = Path(mkdtemp(prefix="siege-", dir="/tmp"))  # sockets have short paths
        (folder / "arena.toml").write_text(CONFIG)
        (folder / "mine.py").write_text("from bots.random import BOT as BOT\n")
        self._random = random
        self._shared = shared_memory()
        self._noticed = 0.0  # when the death of the last watcher that was killed will have been noticed

    @contextmanager
    def begun(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """The command in a process of its own, the leader of a group; in the end nothing of it is left running."""
        folders = [str(ROOT), str(ROOT / "tests"), str(self.folder / "site")]
        variables = {"PYTHONPATH": os.pathsep.join(folders), "TMPDIR": str(self.temporary), "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(
            [*ARENA, *arguments],
            cwd=self.folder,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
            preexec_fn=lambda: signal.signal(SIGHUP, signal.SIG_DFL),
        ) as process:
            yield process
        assert end_of(self.temporary) == []

    def run(self, *arguments: str, typed: str = "") -> str:
        """The command to its end, which is a good one; returns what it prints."""
        with self.begun(*arguments) as process:
            output, _ = process.communicate(typed)
        assert process.returncode == 0, output
        return output

    def games(self) -> int:
        with suppress(StoreError), Store.open(self.folder / "results" / "arena.db") as store:
            return store.count()
        return 0  # there is no database yet

    def harass(self, kills: Sequence[tuple[str, signal.Signals]], *arguments: str) -> None:
        """Run a command until all of these kills were made, the one that ends it last. After each new game come
        three, as far as there is something to hit. The last waits until a watcher's death was noticed: where watcher,
        worker and parent die in one second, nobody is left to end an engine's helper that left its session."""
        left = list(kills)
        while left:
            with self.begun(*arguments) as process:
                code = None
                while code is None:
                    self.wait_for(process, self.games, 1)
                    sleep(self._random.uniform(0, 0.1))
                    for _ in range(3):
                        if len(left) == 1:
                            sleep(max(0.0, self._noticed - monotonic()))
                        if code is None and (kill := self.hit_one(process.pid, left)):
                            code = ENDED[kill[1]] if kill in ENDS else None
                kept = self.games()
                output, _ = process.communicate()
            assert process.returncode == code, output
            assert kept <= self.games()

    def hit_one(self, parent: int, left: list[tuple[str, signal.Signals]]) -> tuple[str, signal.Signals] | None:
        """The first of these kills that finds something to hit, taken from the list; what ends the command waits for
        the others. Where none does, the workers are killed: a tracker or a helper comes back with new ones only."""
        for number, kill in enumerate(left):
            if (kill not in ENDS or len(left) == 1) and self.hit(parent, *kill):
                return left.pop(number)
        self.hit(parent, "workers", SIGKILL)
        return None

    def wait_for(self, process: subprocess.Popen[str], count: Callable[[], int], more: int) -> None:
        """Wait until the count, of games for example, has grown by so many."""
        wanted, until = count() + more, monotonic() + LONG
        while count() < wanted:
            assert process.poll() is None, process.communicate()
            assert monotonic() < until, "nothing goes on any more"
            sleep(0.02)

    def hit(self, parent: int, victim: str, number: signal.Signals) -> bool:
        """Whether there was something to hit."""
        kind = {"workers": "worker", "abandoned": "worker"}.get(victim, victim)
        targets = [parent] if victim == "job" else family(parent).get(kind, [])
        if victim == "watcher" and targets:
            self._noticed = monotonic() + 2
        if victim not in ("workers", "abandoned") and targets:
            targets = [self._random.choice(targets)]
        with suppress(ProcessLookupError):
            for target in targets:
                (os.killpg if victim == "job" else os.kill)(target, SIGSTOP if victim == "abandoned" else number)
            if victim == "abandoned" and targets:
                os.kill(parent, number)
            elif number == SIGSTOP:
                sleep(0.15)
                for target in targets:
                    os.kill(target, SIGCONT)
            return bool(targets)
        return False

    def play(self, kills: Sequence[signal.Signals]) -> None:
        """A person's game in a pipe, killed after the first move each time."""
        for number in kills:
            with self.begun("play", "random", "--size", "5", "--as", "ada") as process:
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write("c3\n")
                process.stdin.flush()
                while not (line := process.stdout.readline()).startswith("White plays"):
                    assert line
                os.kill(process.pid, number)
        assert "is stored" in self.run("play", "--resume", "--plain", typed="resign\n")

    def check(self, seed: str) -> None:
        """Nobody forfeited, and engines play alike whenever they play: games of the same opening and colours are the
        same. No process is left."""
        games = defaultdict(set)
        with Store.open(self.folder / "results" / "arena.db") as store:
            for record in store.games():
                assert record.outcome is not None
                assert record.outcome.ending not in (Ending.CRASH, Ending.TIME), record.reason
                if ENGINES.keys() >= {record.black, record.white}:
                    games[record.black, record.white, record.moves[: record.opening]].add(record.moves)
        assert games and all(len(moves) == 1 for moves in games.values())
        self.run("match", "random", "fast-random", "-n", "1", "--size", "5", "--seed", seed)
        self.check_files()

    def check_files(self) -> None:
        """No shared memory is left, and no temporary file but the folders of commands that were killed."""
        left = [path.name for path in self.temporary.iterdir() if not path.name.startswith("arena-")]
        assert [name for name in left if not name.startswith(FOREIGN)] == []
        until = monotonic() + LONG
        while left := shared_memory() - self._shared:  # other tests may just be making some
            assert monotonic() < until, left
            sleep(0.1)


@pytest.mark.parametrize(("rounds", "most"), [(1, 4), pytest.param(25, 99, marks=pytest.mark.slow)])
def test_kills_of_20_kinds_lose_no_game_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int, most: int
) -> None:
    """40 kills a round, or 10: of matches and tournaments of engines, of a gate, and of a person's game."""
    install(tmp_path / "site", monkeypatch)
    for name, rows in (("start", 1000), ("mine", 2000)):
        learn(tmp_path / "results" / "checkpoints" / name, STRONG, b"", name.encode(), rows=rows)
    random = Random(rounds)
    siege = Siege(tmp_path, random)
    (tmp_path / "arena.toml").write_text(f"{CONFIG}[bots.pupil]\nkind = 'learner'\ncheckpoint = 'start'\n")
    common = ("-n", "100000", "--size", "5", "--workers", "2")
    for seed in map(str, range(rounds)):
        kills = [*KILLS, *random.choices([kill for kill in KILLS if kill[0] != "server"], k=19)]  # it starts slowly
        random.shuffle(kills)
        del kills[most:]
        ends = random.sample(ENDS, 2)
        match = ("match", "one", "two", "--seed", seed, "--openings", "3")
        siege.harass([*kills[::2], ends[0]], *match, *common)
        swiss = ("tournament", f"climb-{seed}", "one", "two", "three", "mine.py", "--style", "swiss", "--openings", "3")
        siege.harass([*kills[1::2], ends[1]], *swiss, *common)
        gate = ("gate", "checkpoint:mine", "--against", "pupil", "--sprt", "0", "5", "--seed", seed)
        hits = [("worker", SIGTERM), ("parent", SIGKILL), ("workers", SIGKILL), ("server", SIGKILL)]
        siege.harass(hits[: most // 2], *gate, *common)
        siege.play(random.sample(list(ENDED), 2))
        siege.check(seed)


def test_engines_end_where_their_watchers_and_the_parent_are_killed_at_once(tmp_path: Path) -> None:
    """The workers, which are left, end them. They were forked from a process that ends with its parent, and did so."""
    siege = Siege(tmp_path, Random(1))
    with siege.begun("match", "one", "two", "-n", "1000", "--size", "5", "--workers", "2") as process:
        siege.wait_for(process, siege.games, 1)
        for victim in (*family(process.pid)["watcher"], process.pid):
            with suppress(ProcessLookupError):  # an engine that ended meanwhile has a new watcher
                os.kill(victim, SIGKILL)
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("trainer", TRAININGS)
def test_a_training_run_that_is_killed_and_resumed_loses_nothing(tmp_path: Path, trainer: str) -> None:
    """After many kills it is compared with one that was left alone: the same net, bit for bit."""
    (tmp_path / "random.sgfs").write_text("".join(f"{write_sgf(random_game(seed))}\n" for seed in range(60)))
    random, results = Random(trainer), tmp_path / "results"
    siege, command = Siege(tmp_path, random), ("train", trainer, *TRAININGS[trainer], *COMMON, "--name")
    (tmp_path / "arena.toml").write_text("")

    def step() -> int:
        """Of the saved state."""
        with suppress(FileNotFoundError):
            state = torch.load(results / "training" / "parts" / "state.pt", "cpu", weights_only=True)
            return int(state["counters"]["step"])
        return 0

    def progress() -> int:
        """Saved steps, and files of games played for the run."""
        return step() + sum(1 for _ in results.glob("cache/*games*/[!.]*"))

    for number in random.sample([*ENDED, SIGKILL, SIGKILL], 6):
        before = step()
        with siege.begun(*command, "parts") as process:
            siege.wait_for(process, progress, random.randint(1, 8))
            saved = step()
            random.choice((os.kill, os.killpg))(process.pid, number)
            output, _ = process.communicate()
        assert step() >= saved
        if number != SIGKILL:
            assert process.returncode in ((0,) if saved > before else (0, ENDED[number])), output
            assert "Traceback" not in output
        if process.returncode == 0:
            stopped = Checkpoint.open(results / "checkpoints" / "parts").manifest
            assert stopped.rows > 0 and not any(name.startswith("test_") for name in stopped.metrics)
    siege.run(*command, "parts")
    siege.run(*command, "whole")
    parts, whole = (Checkpoint.open(results / "checkpoints" / name) for name in ("parts", "whole"))
    assert (parts.identity, parts.manifest.metrics) == (whole.identity, whole.manifest.metrics)
    lines = [(results / "training" / name / "metrics.jsonl").read_text().splitlines() for name in ("parts", "whole")]
    assert [json.loads(line)["step"] for line in lines[0]] == [json.loads(line)["step"] for line in lines[1]]
    siege.check_files()
    assert list(results.rglob(".*")) == []
