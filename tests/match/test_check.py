"""A short game of a bot before an event, in real processes: what is found and shown, and that nothing is left."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from commandline import arena, refused
from scripted_bots import scripted
from test_gtp_bot import SCRIPTED, end, pids

from arena.contract.bot import Limits
from arena.contract.finding import Verdict
from arena.go.game import Rules
from arena.match.check import probe
from arena.players.player import Player
from arena.players.registry import Registry

NINE = Rules.preset("cgos", 9)


def engine(mode: str, log: Path, more: str = "") -> Player:
    """The scripted engine, which writes its processes down; ``more`` settings or limits are as they are typed."""
    command = shlex.join([sys.executable, str(SCRIPTED), mode])
    return Registry().resolve(f"gtp:command={command},log={log}{more}")


def test_a_bot_that_plays_is_told_with_its_time_and_what_it_reports() -> None:
    start, game = probe(Registry().resolve("mcts:playouts=9"), NINE)
    assert (start.step, start.verdict, game.step, game.verdict) == ("start", Verdict.OK, "game", Verdict.OK)
    assert start.text.startswith("kind uct, net rollout-9x9 (") and "12 legal moves, 0." in game.text
    assert "the slowest; reports win rates, visits" in game.text


@pytest.mark.parametrize(
    ("mode", "more", "step", "reason"),
    [
        ("mute", ",startup=0.5", "start", "no answer to 'name'"),
        ("hang", "@deadline=0.3", "game", "the limit is 0.3 s"),
        ("illegal", "", "game", "illegal move 2: A1 is taken"),
        ("family", "@deadline=0.3", "game", "the limit is 0.3 s"),
    ],
)
def test_an_engine_with_a_fault_fails_and_leaves_no_process(
    tmp_path: Path, mode: str, more: str, step: str, reason: str
) -> None:
    *_, last = probe(engine(mode, tmp_path / "log", more), NINE)
    assert (last.step, last.verdict) == (step, Verdict.FAILED)
    assert reason in last.text and "\n" not in last.text
    assert end(pids(tmp_path / "log"))


def test_a_size_that_an_engine_refuses_and_a_game_that_it_resigns_are_told(tmp_path: Path) -> None:
    (small,) = probe(engine("small", tmp_path / "log"), Rules.preset("cgos", 13))
    assert small.verdict is Verdict.FAILED and "unacceptable size" in small.text
    _, resigned = probe(engine("resign", tmp_path / "resign"), NINE)
    assert resigned.verdict is Verdict.NOTE and "ended early: resign" in resigned.text


@pytest.mark.parametrize(
    ("kind", "step", "reason"),
    [
        ("BROKEN", "start", "ValueError: weights of the wrong shape"),
        ("SEGFAULT", "game", "its process ended with SIGSEGV"),
        ("CRASH", "game", "RuntimeError: no idea what to play"),
        ("HANG", "game", "no answer within 0.5 s"),
    ],
)
def test_a_bot_that_takes_its_process_down_harms_nobody(kind: str, step: str, reason: str) -> None:
    *_, last = probe(replace(scripted(kind, at=2), limits=Limits(deadline=0.5)), NINE)
    assert (last.step, last.verdict) == (step, Verdict.FAILED)
    assert reason in last.text
    assert kind != "CRASH" or ("Traceback" in last.details and "scripted_bots.py" in last.details)


TOML = """
[bots.quick]
kind = "uct"
playouts = 9

[bots.lost]
kind = "policy"
checkpoint = "nowhere"
"""


def test_bots_of_arena_toml_are_checked_by_name(tmp_path: Path) -> None:
    (tmp_path / "arena.toml").write_text(TOML)
    done = arena("check", "quick", folder=tmp_path)
    assert done.returncode == 0 and "\x1b" not in done.stdout, done.stderr
    refused(arena("check", "quick", "lost", folder=tmp_path), "no checkpoint 'nowhere'")


def test_engines_of_arena_toml_start_only_when_they_are_named(tmp_path: Path) -> None:
    """The file of a folder from elsewhere ran its commands as soon as somebody looked."""
    (tmp_path / "engine.py").write_text("open('ran', 'w')")
    command = f"{sys.executable} {tmp_path / 'engine.py'}"
    (tmp_path / "arena.toml").write_text(f'[bots.engine]\nkind = "gtp"\ncommand = "{command}"\n')
    assert arena("doctor", folder=tmp_path).returncode == 0 and not (tmp_path / "ran").exists()
    assert arena("check", "engine", folder=tmp_path).returncode == 1 and (tmp_path / "ran").exists()


def test_a_name_that_cant_be_checked_is_refused(tmp_path: Path) -> None:
    refused(arena("check", "mtcs", folder=tmp_path), "unknown bot 'mtcs'", "mcts")
    refused(arena("check", "human", folder=tmp_path), "human", "person")
