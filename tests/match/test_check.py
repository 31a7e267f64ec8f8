"""A short game of a bot before an event, in real processes: what is found and shown, and that nothing is left."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.commandline import arena, refused
from helpers.processes import SCRIPTED, end, pids
from helpers.scripted_bots import scripted

from arena.contract.bot import Limits
from arena.contract.finding import StepStatus
from arena.go.game import Rules
from arena.match.check import probe
from arena.players.player import Player
from arena.players.registry import Registry

NINE = Rules.preset("cgos", 9)


def engine(mode: str, log: Path, more: str = "") -> Player:
    """The scripted engine, which writes its processes down; ``more`` settings or limits are as they are typed."""
    command = shlex.join([sys.executable, str(SCRIPTED), mode])
    return Registry().resolve(f"gtp:command={command},log={log}{more}")


@pytest.mark.parametrize(
    ("mode", "more", "size", "step", "status", "reason"),
    [
        ("mute", ",startup=0.5", 9, "start", StepStatus.FAILED, "no answer to 'name'"),
        ("small", "", 13, "start", StepStatus.FAILED, "unacceptable size"),
        ("illegal", "", 9, "game", StepStatus.FAILED, "illegal move 2: A1 is taken"),
        ("family", "@deadline=0.3", 9, "game", StepStatus.FAILED, "no answer to 'genmove b' in "),
        ("resign", "", 9, "game", StepStatus.NOTE, "ended early: resign"),
    ],
)
def test_an_engine_with_a_fault_fails_and_leaves_no_process(
    tmp_path: Path, mode: str, more: str, size: int, step: str, status: StepStatus, reason: str
) -> None:
    *_, last = probe(engine(mode, tmp_path / "log", more), Rules.preset("cgos", size))
    assert (last.step, last.status) == (step, status)
    assert reason in last.text and "\n" not in last.text
    assert end(pids(tmp_path / "log"))


@pytest.mark.parametrize(
    ("kind", "step", "reason"),
    [
        ("BROKEN", "start", "ValueError: weights of the wrong shape"),
        ("SEGFAULT", "game", "its process ended with SIGSEGV"),
        ("CRASH", "game", "RuntimeError: no idea what to play"),
        ("HANG", "game", "no answer within 2 s"),
    ],
)
def test_a_bot_that_takes_its_process_down_harms_nobody(kind: str, step: str, reason: str) -> None:
    *_, last = probe(replace(scripted(kind, at=2), limits=Limits(deadline=2.0)), NINE)
    assert (last.step, last.status) == (step, StepStatus.FAILED)
    assert reason in last.text
    assert kind != "CRASH" or ("Traceback" in last.details and "scripted_bots.py" in last.details)


def test_bots_are_checked_by_name_and_engines_of_arena_toml_start_only_then(tmp_path: Path) -> None:
    """The file of a folder from elsewhere ran its commands as soon as somebody looked."""
    (tmp_path / "engine.py").write_text("open('ran', 'w')")
    (tmp_path / "arena.toml").write_text(
        '[bots.quick]\nkind = "uct"\nplayouts = 9\n\n[bots.lost]\nkind = "policy"\ncheckpoint = "nowhere"\n\n'
        f'[bots.engine]\nkind = "gtp"\ncommand = "{sys.executable} {tmp_path / "engine.py"}"\n'
    )
    done = arena("check", "quick", folder=tmp_path)
    assert done.returncode == 0 and "\x1b" not in done.stdout, done.stderr
    for words in ("kind uct, net rollout-9x9 (", "12 legal moves, ", " s each, ", "reports win rates, visits"):
        assert words in " ".join(done.stdout.split())
    for name, *words in (("lost", "no checkpoint 'nowhere'"), ("mtcs", "mcts")):
        refused(arena("check", "quick", name, folder=tmp_path), *words)
    assert "a person can't play here" in arena("check", "human", folder=tmp_path).stdout
    arena("doctor", folder=tmp_path)
    assert not (tmp_path / "ran").exists()
    assert arena("check", "engine", folder=tmp_path).returncode == 1 and (tmp_path / "ran").exists()
