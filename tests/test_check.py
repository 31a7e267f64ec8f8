"""A look at bots before an event, in real processes: what is found, how it is shown, and that nothing is left."""

import shlex
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
from commandline import arena, refused
from played import console_of, output_of
from scripted_bots import scripted
from test_gtp_bot import GNUGO, SCRIPTED, end, pids

from arena.contract.bot import Limits
from arena.contract.finding import Begun, Finding, Verdict
from arena.go.game import Rules
from arena.match.check import probe
from arena.players.player import Player
from arena.players.registry import Registry
from arena.report.progress import show_check

NINE = Rules.preset("cgos", 9)


def engine(mode: str, log: Path, more: str = "") -> Player:
    """The scripted engine, which writes its processes down; ``more`` settings or limits are as they are typed."""
    command = shlex.join([sys.executable, str(SCRIPTED), mode])
    return Registry().resolve(f"gtp:command={command},log={log}{more}")


def findings(entry: Player, rules: Rules = NINE) -> list[Finding]:
    with closing(probe(entry, rules)) as steps:
        return [step for step in steps if isinstance(step, Finding)]


def test_a_bot_that_starts_moves_and_ends_is_ready() -> None:
    found = findings(Registry().resolve("mcts:playouts=9"))
    assert [(step.step, step.verdict) for step in found] == [(name, Verdict.OK) for name in ("start", "moves", "end")]
    assert "kind uct" in found[0].text
    assert "6 legal ones" in found[1].text and "answers a pass" in found[1].text


def test_an_engine_tells_its_name_and_what_it_lacks(tmp_path: Path) -> None:
    found = {step.step: step for step in findings(engine("good", tmp_path / "log"))}
    assert list(found) == ["start", "board", "commands", "moves", "end"]
    assert "Scripted 1.0" in found["start"].text
    assert found["board"].text == "9x9, komi 7"
    assert found["commands"].text.startswith("has time_settings, time_left, set_random_seed, kata-set-rules; lacks")
    assert all(step.verdict is Verdict.OK for step in found.values())
    assert end(pids(tmp_path / "log"))


@pytest.mark.skipif(GNUGO is None, reason="GNU Go isn't installed")
def test_gnu_go_counts_a_settled_board_as_we_do() -> None:
    found = {step.step: step for step in findings(Registry().resolve("gtp:command=gnugo --mode gtp --level 1"))}
    assert found["score"].verdict is Verdict.OK and "W+16" in found["score"].text
    assert found["end"].verdict is Verdict.OK and "MB" in found["end"].text


@pytest.mark.parametrize(
    ("mode", "more", "step", "reason"),
    [
        ("mute", ",startup=0.5", "start", "no answer to 'protocol_version'"),
        ("hang", "@deadline=0.3", "moves", "the limit is 0.3 s"),
        ("crash", "", "moves", "exit code 3"),
        ("nonsense", "", "moves", "'Z99', is not a move"),
        ("illegal", "", "moves", "illegal move 2: A1 is taken"),
        ("family", "@deadline=0.3", "moves", "the limit is 0.3 s"),
    ],
)
def test_an_engine_with_a_fault_fails_and_leaves_no_process(
    tmp_path: Path, mode: str, more: str, step: str, reason: str
) -> None:
    last = findings(engine(mode, tmp_path / "log", more))[-1]
    assert (last.step, last.verdict) == (step, Verdict.FAILED)
    assert reason in last.text and "\n" not in last.text
    assert end(pids(tmp_path / "log"))


def test_a_size_that_an_engine_refuses_is_said_before_any_move(tmp_path: Path) -> None:
    last = findings(engine("small", tmp_path / "log"), Rules.preset("cgos", 13))[-1]
    assert last.step in ("start", "board") and last.verdict is Verdict.FAILED and "unacceptable size" in last.text


def test_an_engine_that_resigns_or_cant_be_told_its_time_is_noted(tmp_path: Path) -> None:
    timed = replace(engine("resign", tmp_path / "log"), limits=Limits(main=60.0))
    found = {step.step: step for step in findings(timed)}
    assert found["moves"].verdict is Verdict.NOTE and "resigns at move 1" in found["moves"].text
    bare = replace(engine("bare", tmp_path / "bare"), limits=Limits(main=60.0))
    commands = next(step for step in findings(bare) if step.step == "commands")
    assert commands.verdict is Verdict.NOTE and "doesn't list its commands" in commands.text


@pytest.mark.parametrize(
    ("kind", "step", "reason"),
    [
        ("NEVER", "start", "the engine isn't installed; install it"),
        ("BROKEN", "start", "ValueError: weights of the wrong shape"),
        ("KILLED", "start", "its process ended with SIGKILL"),
        ("SEGFAULT", "moves", "its process ended with SIGSEGV"),
        ("CRASH", "moves", "RuntimeError: no idea what to play"),
    ],
)
def test_a_bot_that_takes_its_process_down_harms_nobody(kind: str, step: str, reason: str) -> None:
    last = findings(scripted(kind, at=2))[-1]
    assert (last.step, last.verdict) == (step, Verdict.FAILED)
    assert reason in last.text


def test_a_bot_that_hangs_is_given_up() -> None:
    last = findings(replace(scripted("HANG", at=2), limits=Limits(deadline=0.1)))[-1]
    assert last.step == "moves" and last.verdict is Verdict.FAILED and "no answer within 3.1 s" in last.text


def test_a_bot_that_hangs_in_its_first_decision_is_given_up_in_its_own_time() -> None:
    """It took 60 to 120 s."""
    start = monotonic()
    last = findings(scripted("LOOP"))[-1]
    assert (last.step, last.verdict, last.text) == ("start", Verdict.FAILED, "no answer within 0.3 s")
    assert monotonic() - start < 20
    slow = replace(scripted("HANG", at=2), limits=Limits(main=600.0))
    with closing(probe(slow, NINE)) as steps:
        assert next(step.seconds for step in steps if isinstance(step, Begun) and step.step == "moves") == 23


def test_the_traceback_of_a_bot_in_python_is_told() -> None:
    last = findings(scripted("CRASH", at=0))[-1]
    assert "Traceback" in last.details and "scripted_bots.py" in last.details


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("width", [40, 120])
def test_steps_are_shown_with_signs_and_words_on_any_terminal(width: int, encoding: str) -> None:
    console = console_of(width, 24, encoding=encoding, no_color=True)
    steps = [
        Begun("start", 9.0),
        Finding("start", Verdict.OK, "kind uct, in 0.8 s"),
        Finding("moves", Verdict.FAILED, f"illegal move 3: {'too long ' * 20}±", "Traceback\n  here"),
    ]
    assert show_check("mcts", iter(steps), console) is Verdict.FAILED
    shown = output_of(console)
    for word in ("ok", "start", "failed", "moves", "Traceback"):
        assert word in shown
    assert ("✗" in shown) == (encoding == "utf-8")


TOML = """
[bots.quick]
kind = "uct"
playouts = 9

[bots.lost]
kind = "policy"
checkpoint = "nowhere"

[bots.me]
kind = "human"
"""


def test_without_names_the_bots_of_arena_toml_are_checked(tmp_path: Path) -> None:
    refused(arena("check", folder=tmp_path), "declares no bots", "arena check alphago")
    (tmp_path / "arena.toml").write_text(TOML)
    done = arena("check", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "1 of 2 bots are ready; not lost." in done.stdout
    assert "no checkpoint 'nowhere'" in done.stdout
    assert "\x1b" not in done.stdout


def test_engines_of_arena_toml_start_only_when_they_are_named_or_that_is_asked_for(tmp_path: Path) -> None:
    """The file of a folder from elsewhere ran its commands as soon as somebody looked."""
    (tmp_path / "engine.py").write_text("open('ran', 'w')")
    command = f"{sys.executable} {tmp_path / 'engine.py'}"
    (tmp_path / "arena.toml").write_text(f'[bots.engine]\nkind = "gtp"\ncommand = "{command}"\n')
    done = arena("check", folder=tmp_path, columns=200)
    assert done.returncode == 0 and f"engine is not started without --run: {command}" in done.stdout
    assert arena("doctor", folder=tmp_path).returncode == 0 and not (tmp_path / "ran").exists()
    for asked in (("check", "engine"), ("check", "--run"), ("doctor", "--run")):
        assert arena(*asked, folder=tmp_path).returncode == 1
        (tmp_path / "ran").unlink()


def test_a_name_that_cant_be_checked_is_refused(tmp_path: Path) -> None:
    refused(arena("check", "mtcs", folder=tmp_path), "unknown bot 'mtcs'", "mcts")
    refused(arena("check", "human", folder=tmp_path), "human", "person")
