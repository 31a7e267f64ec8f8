"""Bots that don't ship have a process of their own: what they break is theirs, and what they start ends with them."""

import os
import pkgutil
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest
from helpers.commandline import ARENA, environment
from helpers.games import fresh
from helpers.processes import command
from helpers.scripted_bots import scripted

import bots
from arena.contract.bot import Limits
from arena.go.game import Ending, Rules
from arena.match.runner import Control, play_event
from arena.match.schedule import Match, Terms, Tournament
from arena.players.player import SHIPPED_MODULES, Player
from arena.players.registry import Registry
from arena.results.store import Store

FIVE = Terms(Rules.preset("cgos", 5))


def test_every_kind_in_the_folder_of_bots_ships() -> None:
    assert {
        f"bots.{module.name}" for module in pkgutil.iter_modules(bots.__path__) if not module.ispkg
    } == SHIPPED_MODULES


@pytest.mark.parametrize("kind", ["BREAKS", "ALARM", "EXITS", "KILLS_PARENT", "CLOSES", "SEGFAULT", "HANG"])
def test_a_bad_bot_changes_no_game_of_others_and_is_charged_alone(store: Store, tmp_path: Path, kind: str) -> None:
    bad = replace(scripted(kind, "bad", at=6), limits=Limits(deadline=1.0))
    one, two = scripted("GOOD", "one"), Registry().resolve("fast-random")
    records = fresh(play_event(Tournament("league", (one, two, bad), FIVE, 4), store, 1))
    with Store.open(tmp_path / "alone" / "arena.db", write=True) as other:
        alone = fresh(play_event(Tournament("league", (one, two), FIVE, 4), other, 1))
    honest = {record.id: record.moves for record in records if "bad" not in (record.black, record.white)}
    assert len(records) == 12 and honest == {record.id: record.moves for record in alone}
    assert all(record.reason.startswith("bad:") for record in records if record.reason)
    assert any(record.reason for record in records) or kind == "BREAKS"


def processes_of(marker: str) -> list[int]:
    return [int(each.name) for each in Path("/proc").glob("[0-9]*") if f"# {marker}" in command(int(each.name))]


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found on Linux")
def test_a_process_that_left_its_session_and_its_environment_ends_with_the_event(store: Store, tmp_path: Path) -> None:
    marker = f"daemon of {tmp_path}"
    bad = scripted("DAEMON", "bad", marker=marker)
    assert len(fresh(play_event(Match(bad, scripted("GOOD"), FIVE, 2), store, 1))) == 2
    until = monotonic() + 60
    while processes_of(marker):
        assert monotonic() < until
        sleep(0.05)


def test_no_bot_is_called_in_a_pause(store: Store, tmp_path: Path) -> None:
    """A call that had begun is finished, but the round of all boards went on."""
    marker, control = tmp_path / "seen", Control()
    slow = scripted("QUITTER", "slow", at=1000, marker=str(marker))
    updates = play_event(Match(slow, scripted("PONDERER"), FIVE, 40), store, 1, control)
    paused = seen = 0.0
    for _ in updates:
        if control.paused and monotonic() - paused > 1.5:
            assert marker.stat().st_size == seen
            break
        if control.paused and monotonic() - paused < 0.7:
            seen = marker.stat().st_size
        elif not control.paused and marker.exists() and marker.stat().st_size > 500:
            control.paused, paused, seen = True, monotonic(), marker.stat().st_size
    assert paused
    updates.close()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="stops a process group of Linux")
def test_time_in_which_all_of_it_stood_still_is_not_charged(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\nfrom bots.random import Config, RandomBot\nfrom arena.contract.bot import BotKind\n"
        "class Slow(RandomBot):\n    def choose(self, game, limits):\n        time.sleep(0.1)\n"
        "        return super().choose(game, limits)\nBOT = BotKind('slow', Config, Slow)\n"
    )
    words = ["match", "slow.py@deadline=1.5", "random", "-n", "2", "--size", "5", "--workers", "1"]
    with subprocess.Popen([*ARENA, *words], cwd=tmp_path, env=environment(), process_group=0) as process:
        until, journal = monotonic() + 120, tmp_path / "results" / "journals"
        while not any(path.read_bytes()[64:80].strip(b"\0") for path in journal.glob("*/worker-*")):
            assert monotonic() < until and process.poll() is None
            sleep(0.05)
        os.killpg(process.pid, signal.SIGSTOP)
        sleep(5)
        os.killpg(process.pid, signal.SIGCONT)
        assert process.wait(120) == 0
    with Store.of(tmp_path / "results") as store:
        assert [game.outcome and game.outcome.ending for game in store.games()] == [Ending.SCORE] * 2


def test_a_limit_of_memory_that_is_too_low_is_named() -> None:
    words = f"ulimit -v 400000; {shlex.join(ARENA)} match random fast-random -n 1"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=120, env=environment())
    assert done.returncode == 2 and "400000 kB" in done.stderr and "ulimit -v" in done.stderr


@pytest.mark.parametrize(
    ("factory", "code", "other", "is_same"),
    [
        ("bots.uct:BOT", "revision 3", "revision 33", False),
        ("bots.uct:BOT", "", "revision 2", False),
        ("bots.uct:BOT", "", "", True),
        ("bots.gtp:BOT", "ab GNU Go 3.8", "ab", True),
        ("bots.gtp:BOT", "ab", "", False),
        ("mine.py:BOT", "", "ab", True),
    ],
)
def test_code_is_the_same_only_as_a_whole(factory: str, code: str, other: str, is_same: bool) -> None:
    assert Player("bot", factory=factory, code=code).has_code(other) is is_same
