"""The command line as people use it: real files, real workers, wrong input; and its own process where that matters."""

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from threading import Event
from time import monotonic
from typing import Any, NoReturn

import pytest
from helpers.commandline import ARENA, ROOT, arena, arena_alone, arena_begun, environment, refused
from helpers.games import random_game
from helpers.processes import end_of

from arena import StoreError, __version__
from arena.cli.events import ratings_written
from arena.match.event import event_from_json
from arena.report.style import Console
from arena.results.event_state import EventState
from arena.results.export import as_cell, json_line, write_sgf_files
from arena.results.store import Store
from bots.nets.checkpoint import SHIPPED_NETS
from trainers.processes import stop_signals
from trainers.settings import SL, write_file

ONE = ("--workers", "1")

SMALL = ("--size", "5", *ONE)  # games in which nothing takes long


@pytest.mark.smoke
def test_a_match_is_played_summed_up_rated_listed_and_exported_and_the_reader_of_a_pipe_may_leave(
    tmp_path: Path,
) -> None:
    match = ("match", "random", "fast-random", "-n", "8", "--size", "7")
    done = arena_alone(*match, folder=tmp_path)  # with a worker a core
    assert done.returncode == 0, done.stderr
    done = arena(*match, folder=tmp_path)
    assert "8 of 8 games were played earlier" in done.stdout
    assert re.search(r"random (beat|lost to|drew with) fast-random", done.stdout) and "\x1b" not in done.stdout
    table = (tmp_path / "results" / "elo.csv").read_text()
    header, *lines = table.splitlines()
    assert {line.split(",")[header.split(",").index("player")] for line in lines} == {"random", "fast-random"}
    assert "fast-random" in arena("elo", "--csv", "elo.csv", folder=tmp_path).stdout
    assert (tmp_path / "elo.csv").read_text() == table
    assert "3 of 8 games" in arena("games", "-n", "3", folder=tmp_path).stdout
    assert "8 games written" in arena("games", "--sgf", "sgf", folder=tmp_path).stdout
    assert len(list((tmp_path / "sgf").rglob("*.sgf"))) == 8
    assert "Traceback" not in in_shell(f"{shlex.join(ARENA)} games -n 100 | head -1", tmp_path).stderr


def test_a_plan_is_estimated_without_storing_anything(tmp_path: Path) -> None:
    match = ("match", "random", "fast-random", *SMALL)
    pilot = arena(*match, "--plan", "40", folder=tmp_path).stdout
    assert "in 20 games" in pilot and re.search(r"the 95 % interval is ±40 Elo +[\d,]+ ", pilot)
    assert not (tmp_path / "results").exists()
    arena(*match, "-n", "22", folder=tmp_path)
    table = tmp_path / "results" / "elo.csv"
    kept = plans_in(tmp_path), table.stat().st_mtime_ns
    planned = arena(*match, "--plan", "40", folder=tmp_path).stdout
    assert "Estimated from 22 games" in planned
    assert kept == (plans_in(tmp_path), table.stat().st_mtime_ns)
    assert "22 games" in arena("games", folder=tmp_path).stdout


def plans_in(folder: Path) -> list[str]:
    with Store.of(folder / "results") as store:
        return [event.plan for event in store.events()]


def test_an_event_that_has_begun_changes_by_a_larger_number_of_games_only(tmp_path: Path) -> None:
    """-n 100 over 400 stored games showed 47-53; a test added later made 342 games vanish from `arena elo`."""
    match, test = ("match", "random", "fast-random", *SMALL), ("--sprt", "0", "100")
    arena(*match, "-n", "8", folder=tmp_path)
    plans, table = plans_in(tmp_path), (tmp_path / "results" / "elo.csv").read_text()
    fewer = arena(*match, "-n", "4", folder=tmp_path).stdout
    assert "8 planned games: with -n 4, none is played (--new starts again)" in fewer and "in 8 games" in fewer
    assert "in 8 games" in arena(*match, folder=tmp_path).stdout
    refused(arena(*match, "-n", "8", *test, folder=tmp_path), "began without --sprt", "--name NAME --seed NUMBER")
    (tmp_path / "results" / "elo.csv").write_text("of another day")
    assert arena(*match, folder=tmp_path).returncode == 0
    assert (plans_in(tmp_path), (tmp_path / "results" / "elo.csv").read_text()) == (plans, table)

    arena(*match, *test, "-n", "4", "--name", "tested", folder=tmp_path)
    refused(arena(*match, "--sprt", "0", "50", "--name", "tested", folder=tmp_path), "began with --sprt 0 100 --alpha")
    refused(arena(*match, "--name", "tested", folder=tmp_path), "not without --sprt", "repeat that")
    assert (
        "of 6 games were played earlier" in arena(*match, *test, "-n", "6", "--name", "tested", folder=tmp_path).stdout
    )
    assert ["grown" in plan and '"grown":true' in plan for plan in plans_in(tmp_path)] == [False, True]
    assert "8 of 10 games were played earlier" in arena(*match, "-n", "10", folder=tmp_path).stdout
    assert "played earlier" not in arena(*match, "-n", "2", "--new", folder=tmp_path).stdout


LEAGUE = """
[bots.quick]
kind = "uct"
playouts = 3

[tournaments.league]
bots = ["random", "quick"]
games = 2
size = 5
style = "gauntlet"
"""


def test_a_tournament_of_arena_toml_goes_on_takes_players_and_knows_who_changed(tmp_path: Path) -> None:
    toml = tmp_path / "arena.toml"
    toml.write_text(LEAGUE)
    first = arena("tournament", "league", *ONE, folder=tmp_path)
    assert "league: gauntlet of 2 bots, 2 games, 5x5" in first.stdout, first.stderr
    toml.write_text(LEAGUE.replace('"quick"]', '"quick", "fast-random"]'))
    round_robin = arena("tournament", "league", "--style", "round-robin", *ONE, folder=tmp_path)
    refused(round_robin, "league began as a gauntlet of random, not as a round robin", "take another name")
    joined = arena("tournament", "league", *ONE, folder=tmp_path)
    assert "league: gauntlet of 3 bots, 4 games" in joined.stdout
    assert "2 of 4 games were played earlier" in joined.stdout
    refused(arena("tournament", "league", "random", "quick", folder=tmp_path), "began with fast-random, too")
    toml.write_text(toml.read_text().replace("playouts = 3", "playouts = 4"))
    changed = arena("tournament", "league", "-n", "4", *ONE, folder=tmp_path)
    assert "quick is a new player: its settings, net, code or limits differ from those in 2 games." in changed.stdout
    refused(
        arena("tournament", "league", "--komi", "6.5", folder=tmp_path),
        "'league' is stored with komi 7, not 6.5; take another name",
    )
    toml.write_text('[bots.engine]\nkind = "gtp"\ncommand = "no-such-engine"\n')
    refused(arena("match", "engine", "random", folder=tmp_path), "arena.toml: [bots.engine]: there is no program")


WRONG = {
    "match sl": ("arena: missing argument 'B'. See 'arena match --help'.",),
    "match sl rl mcts": ("arena: a match has two bots; for more, use: arena tournament NAME sl rl mcts",),
    "match sl rl --plies x": ("arena: --plies 'x' is not a whole number. See 'arena match --help'.",),
    "match sl rl --workers -1": ("arena: invalid value for '--workers'", "greater than or equal to 0. See 'arena"),
    "match sl rl --workers 100000": ("--workers", "less than or equal to 4096"),
    "match sl rl --alpha 0.1": ("arena: --alpha 0.1 needs --sprt, as in --sprt 0 35. See 'arena match --help'.",),
    "match sl rl --sprt 0 10 --alpha 1": ("--alpha 1", "between 0 and 0.5"),
    "match sl rl --sprt 1": ("arena: option '--sprt' requires 2 arguments. See 'arena match --help'.",),
    "match sl rl --plan nan": ("--plan nan", "from 1 to 1000"),
    "match human mcts --plan 30": ("a person can't play here", "name a bot"),
    "match sl rl --adjudicate agre=1": ("unknown rule", "agree", "arena match --help"),
    "match sl rl --limits visits=3": ("--limits", "visits", "simulations"),
    "match red\x1b[31m\x9b2J\u202e random": ("unknown bot 'red?[31m?2J?'",),
    f"match checkpoint:{'a' * 5000} random": ("no checkpoint", "aaa ... aaa"),
    "tournament x sl rl --precision 50": ("precision needs --style swiss",),
    "tournament x sl rl --style ladder": ("arena: --style 'ladder' is not one of round-robin, gauntlet, swiss. See",),
    "tournament x human sl rl": ("a person can't play here",),
    "tournament random sl mcts": ("'random' is a bot", "arena tournament league random sl mcts"),
    "elo --siez 9": ("arena: no such option: --siez",),
    "macht": ("arena: no such command 'macht'. Did you mean 'match'? See 'arena --help'.",),
    "data": ("arena: missing command. See 'arena data --help'.",),
    "games --sgf x --csv y": ("--csv and", "choose one"),
    f"show {'a' * 5000}": ("File name too long",),
}


@pytest.mark.parametrize("typed", WRONG, ids=lambda typed: typed[:60])
def test_wrong_input_is_refused_in_one_line_which_says_what_is_allowed(typed: str, tmp_path: Path) -> None:
    refused(arena(*typed.split(), folder=tmp_path), *WRONG[typed])
    assert not list(tmp_path.iterdir())  # an empty event was left behind


def in_shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    options = {"shell": True, "capture_output": True, "text": True, "timeout": 300}
    return subprocess.run(script, cwd=folder, env=environment(), **options)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_under_the_output_or_the_results_is_one_line(tmp_path: Path) -> None:
    refused(in_shell(f"{shlex.join(ARENA)} bots --help > /dev/full", tmp_path), "No space left")
    arena(
        "match", "random", "fast-random", "-n", "2", *SMALL, "--results", "first", folder=tmp_path
    )  # compiles kernels
    (tmp_path / "results" / "elo.csv").mkdir(parents=True)  # it can't be written, too: it was blamed for everything
    done = in_shell(f"ulimit -f 600; {shlex.join(ARENA)} match random fast-random -n 3000 --size 5", tmp_path)
    refused(done, "results/arena.db", "check the disk")


def test_closed_streams_lead_nowhere_and_not_into_the_database(tmp_path: Path) -> None:
    done = in_shell(f"{shlex.join(ARENA)} match random fast-random -n 2 --size 5 <&- >&- 2>&-", tmp_path)
    assert done.returncode == 0
    with Store.of(tmp_path / "results") as store:
        assert store.count() == 2


def test_names_that_would_command_a_terminal_or_a_spreadsheet_are_text(tmp_path: Path) -> None:
    sgf = "(;SZ[9]KM[7]RU[CGOS]PB[\x1b[31mred\x1b\\]0;title\x07]PW[a\u202eb]RE[B+R];B[aa]C[\x9b2J hi];W[bb])"
    (tmp_path / "game.sgf").write_text(sgf)
    shown = arena("show", "game.sgf", folder=tmp_path).stdout
    assert "[31mred" in shown and not set(shown) & set("\x1b\x07\x9b\u202e")
    assert [as_cell(text) for text in ("=1+1", "@x", "-2", "mcts", "")] == ["'=1+1", "'@x", "'-2", "mcts", ""]
    assert [as_cell(number) for number in (-2, -0.5, None)] == [-2, -0.5, None]
    line = json_line("game", {"black": "a\x9b2J\u202eb\u2028\u0085\x1b", "white": "né"})
    assert line.isprintable() and json.loads(line)["black"] == "a\x9b2J\u202eb\u2028\u0085\x1b" and "né" in line


def test_damaged_files_are_refused_in_one_line_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[bots.x\n")
    refused(arena("bots", "--config", "bad.toml", folder=tmp_path), "bad.toml", "TOML")
    database = tmp_path / "results" / "arena.db"
    database.parent.mkdir()
    database.write_text("not a database, but somebody's notes\n" * 100)
    before = database.read_bytes()
    for words in (("elo",), ("match", "random", "fast-random", "-n", "2")):
        refused(arena(*words, folder=tmp_path), "arena.db")
    assert database.read_bytes() == before


def test_more_workers_than_files_may_be_open_are_refused_by_name(tmp_path: Path) -> None:
    """It ended in a traceback of what starts the workers."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); from arena.cli import main; main()"
    command = [sys.executable, "-c", code, "match", "random", "fast-random", "-n", "40", "--workers"]
    done = subprocess.run([*command, "16"], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert re.search(r"16 workers need \d+ more open files than the system allows; use --workers \d+", done.stderr)


def match_begun(folder: Path, first: str = "random", **more: Any) -> subprocess.Popen[str]:
    """A long match in a process of its own, once some of its games are stored."""
    process = arena_begun("match", first, "fast-random", "-n", "3000", *SMALL, folder=folder, **more)
    for line in process.stdout:
        if re.match(r"\d+ of 3000", line):
            return process
    raise AssertionError("no game was stored")


@pytest.mark.parametrize(("presses", "number"), [(1, signal.SIGTERM), (2, signal.SIGINT)])
def test_the_first_signal_finishes_the_games_under_way_and_the_second_does_not(
    presses: int, number: signal.Signals, tmp_path: Path
) -> None:
    process = match_begun(tmp_path, "mcts:stop_early=false@seconds=0.05")
    process.send_signal(number)
    told = next(line for line in process.stdout if "under way" in line)
    assert "Finishing the games under way for at most 5 s" in told
    if presses == 2:
        process.send_signal(number)
    rest, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (128 + number, "")
    kept = re.search(r"Stopped\. (\d+) of 3000 games are stored", rest)
    assert kept is not None and int(kept[1]) >= 3 - presses


def test_ctrl_c_when_the_test_is_decided_ends_the_match_as_it_is(tmp_path: Path) -> None:
    """It said that the same command plays the rest, of which there is none, with exit code 130."""
    match = ("match", "mcts:playouts=60", "random", *SMALL, "-n", "400", "--sprt", "0", "100")
    assert arena(*match, folder=tmp_path).returncode == 0
    with Store.of(tmp_path / "results", write=True) as store:
        event = event_from_json(store.latest_event().plan)
        assert 0 < store.count() < event.games
        with ratings_written(EventState(event), store, Console(), tmp_path / "results"):
            raise KeyboardInterrupt


def test_a_bug_of_arena_is_one_line_that_says_where_the_traceback_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise ZeroDivisionError("no such share")

    monkeypatch.setattr("arena.results.store.Store.of", fail)
    (tmp_path / "results").mkdir()
    for folder, options in ((tmp_path / "results", ()), (Path(gettempdir()), ("--results", str(tmp_path / "none")))):
        done = arena("games", *options, folder=tmp_path)
        what = r"this is a bug in arena \(ZeroDivisionError: no such share\)"
        found = re.fullmatch(
            rf"arena: {what}; please report it with your command and the traceback in (\S+)\n", done.stderr
        )
        assert done.returncode == 1 and found is not None, done.stderr
        path = tmp_path / found[1]
        assert path.parent == folder and "Traceback" in path.read_text() and __version__ in path.read_text()
        path.unlink()


def test_a_link_in_the_place_of_the_ratings_is_replaced(tmp_path: Path) -> None:
    """What it leads to was written."""
    (tmp_path / "results").mkdir()
    (tmp_path / "other").write_text("other")
    (tmp_path / "results" / "elo.csv").symlink_to(tmp_path / "other")
    assert arena("match", "random", "fast-random", *SMALL, "-n", "2", folder=tmp_path).returncode == 0
    assert (tmp_path / "other").read_text() == "other" and "random" in (tmp_path / "results" / "elo.csv").read_text()


def test_an_export_that_fails_leaves_no_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, text: str, **_: object) -> NoReturn:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(StoreError, match="No space left on device"):
        write_sgf_files([random_game(1)], tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("nohup", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_closed_terminal_ends_a_match_unless_nohup_and_leaves_only_what_was_played(
    nohup: bool, tmp_path: Path
) -> None:
    hangup, number = (signal.SIG_IGN, signal.SIGTERM) if nohup else (signal.SIG_DFL, signal.SIGHUP)
    process = match_begun(tmp_path, hangup=hangup, TMPDIR=str(tmp_path))
    os.killpg(process.pid, signal.SIGHUP)
    if nohup:
        assert re.match(r"\d+ of 3000", process.stdout.readline())
    process.send_signal(number)
    rest, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (128 + number, "")
    assert re.search(r"Stopped\. \d+ of 3000 games are stored; the same command plays the rest\.\n$", rest)
    assert {path.name for path in tmp_path.iterdir()} == {"results"} and end_of(tmp_path) == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds the process that starts workers in /proc")
def test_ctrl_c_as_the_first_worker_starts_is_heard(tmp_path: Path) -> None:
    process = arena_begun("match", "random", "fast-random", "-n", "3000", *SMALL, folder=tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    end = monotonic() + 300
    while not any(
        b"forkserver" in Path(f"/proc/{child}/cmdline").read_bytes() for child in children.read_text().split()
    ):
        assert monotonic() < end
    Event().wait(0.1)  # it takes longer to load what workers need
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Stopped. 0 of 3000 games are stored" in rest


def test_ctrl_c_while_another_program_holds_the_results_tells_what_is_not_stored(tmp_path: Path) -> None:
    process = match_begun(tmp_path)
    with closing(sqlite3.connect(tmp_path / "results" / "arena.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for line in process.stdout:
            if line.startswith("another program has locked the results; "):
                break
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=300)
        other.execute("ROLLBACK")
        (stored,) = other.execute("SELECT count(*) FROM games").fetchone()
    assert (process.returncode, errors) == (130, "")
    told = rf"Stopped\. {stored} of 3000 games are stored, and [1-9]\d* finished ones are not, because another"
    assert re.match(told, rest.splitlines()[-1])


ENGINE = f"gtp:command={shlex.join([sys.executable, str(ROOT / 'tests' / 'engines' / 'scripted.py'), 'good'])}"


def test_a_person_plays_an_engine_through_a_pipe_and_who_leaves_does_not_forfeit(tmp_path: Path) -> None:
    match = ("match", "human:name=ada", ENGINE, "-n", "1", "--plies", "0")
    done = arena(*match, folder=tmp_path, typed="e5\n")
    assert done.returncode == 130, done.stderr
    assert "is saved after move 2" in done.stdout and "the same command continues it" in done.stdout
    assert "Stopped. 0 of 1 games are stored; run the same command to play the rest." in done.stdout
    done = arena(*match, folder=tmp_path, typed="e6\nresign\n")
    assert done.returncode == 0 and "ada lost to gtp" in done.stdout, done.stderr
    assert "It continues after move 2." in done.stdout
    hanging = ENGINE.replace(" good", " hang") + "@deadline=0.3"
    done = arena("match", "human:name=ada", hanging, *match[3:], folder=tmp_path, typed="e5\n")
    assert done.returncode == 0 and "ada beat" in done.stdout, done.stderr
    assert sorted(path.name for path in (tmp_path / "results").iterdir() if path.is_dir()) == []


def test_python_files_of_the_current_folder_are_not_run(tmp_path: Path) -> None:
    """A random.py or socket.py there was imported by the processes that play, and an innocent one ended the event."""
    for name in ("random", "socket", "select", "arena", "numpy"):
        (tmp_path / f"{name}.py").write_text("open('run', 'a').write(__name__)\nraise SystemExit(3)\n")
    script = tmp_path / "bin" / "arena"  # as pip makes it: Python doesn't look in the current folder for it
    script.parent.mkdir()
    script.write_text("from arena.cli import main\nif __name__ == '__main__':\n    main()\n")
    done = in_shell(f"{sys.executable} {script} match random fast-random -n 2 --size 5", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "in 2 games" in done.stdout and not (tmp_path / "run").exists()
    engine = tmp_path / "engine.py"  # what the bots start is as if it was started by hand
    engine.write_text("import os, sys\nsys.exit('PYTHONSAFEPATH' in os.environ)\n")
    spied = arena_alone("check", f"gtp:command={sys.executable} {engine}", folder=tmp_path / "bin")
    assert "exit code 0" in spied.stdout


def test_an_export_does_not_leave_its_folder_and_writes_aside(tmp_path: Path) -> None:
    assert arena("match", "random", "fast-random", "-n", "2", "--size", "5", folder=tmp_path).returncode == 0
    with Store.of(tmp_path / "results", write=True) as store:
        record = next(store.games())
        store.append([replace(record, id=f"../../{record.id}\x1b[2J")])
    done = arena("games", "--sgf", "out/games", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    written = [path for path in tmp_path.rglob("*.sgf*")]
    assert len(written) == 3 and all(path.is_relative_to(tmp_path / "out" / "games") for path in written)
    assert all(path.name.isprintable() and path.suffix == ".sgf" for path in written)


def test_a_run_that_was_stopped_is_not_gated_and_is_resumed_by_its_own_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ended the training, and hours of a gate began; a run of sl had "unknown setting 'data'" for value."""

    def train(settings: SL, results: Path, on_progress: object) -> Path:
        with stop_signals(lambda: write_file(settings, results / "training" / settings.name)):
            os.kill(os.getpid(), signal.SIGINT)
        return SHIPPED_NETS / "sl-9x9"

    monkeypatch.setattr("trainers.sl.train", train)
    done = arena("train", "sl", "--gate", "--name", "mine", folder=tmp_path)
    assert done.returncode == 0 and "To gate the net as it is: arena gate sl-9x9\n" in done.stdout, done.stderr
    refused(arena("train", "value", "--resume", "mine", folder=tmp_path), "--resume mine", "not one of value")


def test_the_bots_that_ship_have_the_elo_of_the_docs_until_games_are_played(tmp_path: Path) -> None:
    shown = arena("bots", folder=tmp_path, columns=200).stdout
    assert re.search(r"^alphago .* \+\d", shown, re.MULTILINE) and "docs/measurements.md" in shown
    assert arena("match", "random", "fast-random", "-n", "2", "--workers", "1", folder=tmp_path).returncode == 0
    shown = arena("bots", folder=tmp_path, columns=200).stdout
    assert "docs/measurements.md" not in shown and not re.search(r"^alphago .* \+\d", shown, re.MULTILINE)


def test_anchors_fix_the_scale_and_wrong_ones_are_one_line(tmp_path: Path) -> None:
    arena("tournament", "few", "random", "fast-random", "mcts:playouts=2", "-n", "20", *SMALL, folder=tmp_path)
    (tmp_path / "arena.toml").write_text("[anchors]\nrandom = 500\n")
    text = arena("elo", folder=tmp_path).stdout
    assert "Elo on the scale of random = 500" in text and "Who is stronger" in text
    assert re.search(r"random +500 ", text) and "above the mean of" in arena("report", folder=tmp_path).stdout
    refused(arena("elo", "--anchor", "nobody=1500", folder=tmp_path), "nobody", "rated are fast-random, mcts")
    refused(arena("elo", "--anchor", "random=x", folder=tmp_path), "--anchor random=x", "NAME=ELO")
    both = ("--anchor", "random=0", "--anchor", "fast-random=3000")
    refused(arena("elo", *both, folder=tmp_path), "random=0 and fast-random=3000", "leave one out")
