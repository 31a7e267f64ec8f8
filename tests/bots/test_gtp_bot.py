"""The bot for outside engines, against real processes: a scripted one with many faults, and GNU Go if there is one."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest
from helpers.commandline import arena, refused
from helpers.processes import SCRIPTED, end, pids, runs, watchers

from arena import BotFault, BotKilled, BotTimeout, ConfigError
from arena.contract.bot import Bot, Limits
from arena.contract.code import find_program
from arena.contract.limits import Clock
from arena.go.coords import BLACK, WHITE, gtp_from_move, move_from_gtp
from arena.go.game import Ending, Game, Rules
from arena.go.record import UNKNOWN, GameRecord
from arena.match.game_loop import DEATHS, GameLoop
from arena.match.schedule import Pairing
from arena.players.registry import Registry
from bots.gtp import LONGEST_LOG, Config, GtpBot, check, code

ROOT = Path(__file__).parents[2]
GNUGO = find_program("gnugo")
LIMITS = Limits(deadline=600.0)  # kernels may be compiled meanwhile

Opener = Callable[..., GtpBot]


@pytest.fixture
def engine_log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


@pytest.fixture
def scripted(engine_log: Path) -> Iterator[Opener]:
    """Opens a bot of the scripted engine in a mode, and closes it in the end."""
    with ExitStack() as stack:
        yield lambda mode, **settings: stack.enter_context(
            closing(GtpBot(Config(scripted_in(mode), log=str(engine_log), **settings)))
        )


def scripted_in(mode: str) -> str:
    """The command of the scripted engine in a mode."""
    return shlex.join([sys.executable, str(SCRIPTED), *mode.split()])


def heard(log: Path) -> list[str]:
    """The commands that the engine got after those of its start."""
    lines = [line[2:] for line in log.read_text().splitlines() if line.startswith("> ")]
    return lines[lines.index("list_commands") + 1 :]


def game_of(moves: str = "", size: int = 9, seed: int = 0, black: str = "", white: str = "") -> Game:
    """A game of GTP moves, after setup stones."""
    stones, others = ([move_from_gtp(text, size) for text in points.split()] for points in (black, white))
    game = Game(Rules.preset("cgos", size=size), seed, stones, others)
    for text in moves.split():
        game.play(move_from_gtp(text, size))
    return game


def play_on(bot: GtpBot, game: Game, limits: Limits = LIMITS) -> None:
    move = bot.choose(game, limits).move
    game.play(move)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("mode", "moves", "expected"),
    [
        ("good", "A1 B1", "C1"),
        ("timeless", "A1 B1", "C1"),  # it refuses to be told of time, which changes nothing
        ("bare", "A1 B1", "C1"),  # it lists no commands
        ("noise", "", "D4"),  # banners, numbers and stray bytes around an answer
        ("comment", "", "D4"),
        ("resign", "A1", None),
        ("pass", "A1", "pass"),
        ("illegal", "A1", "A1"),
    ],
)
def test_an_answer_is_a_decision_whatever_is_around_it(
    scripted: Opener, mode: str, moves: str, expected: str | None
) -> None:
    bot, game = scripted(mode), game_of(moves)
    assert bot.name == ("" if mode == "bare" else "Scripted 1.0")
    for limits in (replace(LIMITS, seconds=2), Limits(deadline=inf)) if mode in ("timeless", "noise") else (LIMITS,):
        assert bot.choose(game, limits).move == (expected and move_from_gtp(expected, 9))


@pytest.mark.parametrize("mode", ["kata", "garbled"])
def test_an_engine_that_reports_what_it_thinks_is_understood(scripted: Opener, engine_log: Path, mode: str) -> None:
    bot, game = scripted(mode), game_of("E5")
    decision = bot.choose(game, Limits(simulations=42, deadline=20.0))
    assert decision.move == move_from_gtp("A1", 9) and "kata-set-param maxVisits 42" in heard(engine_log)
    lines = [[gtp_from_move(move, 9) for move in candidate.line] for candidate in bot.analyse(game, LIMITS)]
    if mode == "garbled":
        assert (decision.win_rate, decision.visits, lines) == (None, None, [])
        return
    assert (decision.win_rate, decision.visits, lines) == (0.625, 42, [["A1", "pass", "J9"], ["J9"]])
    assert (decision.score, [one.score for one in bot.analyse(game, LIMITS)]) == (2.25, [2.25, -1.0])
    assert decision.ownership is not None and decision.ownership.shape == (81,)
    assert (decision.ownership[0], round(float(decision.ownership[80]), 9)) == (0.5, -1e-05)


def test_a_game_is_set_up_once_and_then_only_followed_and_another_starts_from_a_clear_board(
    scripted: Opener, engine_log: Path
) -> None:
    bot = scripted("good")
    game, other, third = game_of("E5", seed=7), game_of(black="D4 F6"), game_of(black="D4 F6", white="E5")
    play_on(bot, game)
    game.play(move_from_gtp("pass", 9))
    for each in (game, other, third):
        bot.choose(each, LIMITS)
    for text in ("J9", "J8"):  # not the engine's move
        third.play(move_from_gtp(text, 9))
    bot.choose(third, LIMITS)
    bot.close()
    commands = heard(engine_log)
    rules = next(command for command in commands if command.startswith("kata-set-rules"))
    assert '"ko":"POSITIONAL"' in rules and '"scoring":"AREA"' in rules and '"suicide":false' in rules
    begun = ["boardsize 9", "clear_board", rules, "komi 7.0", "set_random_seed"]
    assert " | ".join(commands) == " | ".join(
        [
            *(*begun, "7", "play b E5", "genmove w", "play b pass", "genmove w"),
            *(*begun, "0", "set_free_handicap D4 F6", "genmove w"),
            *(*begun, "0", "play b D4", "play b F6", "play w E5", "genmove b"),
            *(*begun, "0", "play b D4", "play b F6", "play w E5", "play b J9", "play w J8", "genmove b", "quit"),
        ]
    ).replace("seed | ", "seed ")


@pytest.mark.parametrize(
    ("text", "settings", "left"),
    [
        ("main=60,byoyomi=10,stones=3", "60 10 3", ["60 0", "30 0", "9 2", "5 1", "10 3"]),
        ("main=90", "90 0 0", ["90 0", "60 0", "29 0", "25 0", "22 0"]),
        ("main=60.5,byoyomi=2.5,stones=3", "60 5 6", ["60 0", "30 0", "4 4", "0 2", "5 6"]),
        ("seconds=2", "0 2 1", []),
        ("seconds=0.4", "0 2 5", []),
    ],
)
def test_an_engine_is_told_its_clock_once_and_what_is_left_before_each_move(
    scripted: Opener, engine_log: Path, text: str, settings: str, left: list[str]
) -> None:
    bot, limits = scripted("good"), Limits.read(text, "here")
    for _ in range(2):
        game, clock = game_of(), limits.time and Clock(limits.time)
        for seconds in (30, 30.9, 3.4, 3.5, 1):
            play_on(bot, game, replace(limits.at(clock, 9, len(game.moves)) if clock else limits, deadline=20.0))
            if clock:
                clock.spend(seconds)
            game.play(move_from_gtp("pass", 9))
    bot.choose(game, Limits(seconds=3))  # told again, as behind ``arena gtp``, which shares out its clock
    bot.close()
    told, times = [f"time_left b {each}" for each in left], [each for each in heard(engine_log) if "time_" in each]
    assert times == [f"time_settings {settings}", *told] * 2 + ["time_settings 0 3 1"]
    assert heard(engine_log)[5:][: 2 + len(told[:1])] == [f"time_settings {settings}", *told[:1], "genmove b"]


def test_a_flood_on_stderr_is_taken_in_and_its_log_capped(scripted: Opener, engine_log: Path) -> None:
    bot = scripted("loud 0.1")
    assert bot.choose(game_of("A1"), LIMITS).move == move_from_gtp("B1", 9)
    bot.close()
    assert engine_log.stat().st_size == LONGEST_LOG


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("refuse", "refuses 'genmove b': 'I don't feel like it'"),
        ("nonsense", "'Z99', is not a move"),
        ("empty", "'', is not a move"),
        ("talkative", "is not a move"),
        ("crash", "exit code 3 instead of answering 'genmove b'; its stderr ends with '.* book / out of cheese'"),
        ("signal", r"was ended by signal 11 \("),
        ("closed", "closed its output instead of answering 'genmove b'"),
        ("flood", "without answering 'genmove b'"),
        ("endless", "without answering 'genmove b'"),
        ("hang", "no answer to 'genmove b' in [0-9.]+ s"),
        ("unfinished", "no answer to 'genmove b' in [0-9.]+ s"),
    ],
)
def test_a_fault_has_a_reason_and_leaves_no_process(scripted: Opener, engine_log: Path, mode: str, reason: str) -> None:
    late = mode in ("hang", "unfinished")
    with pytest.raises(BotFault, match=f"^Scripted 1.0: .*{reason}") as fault:
        scripted(mode).choose(game_of(), Limits(deadline=0.3) if late else LIMITS)
    assert "\n" not in str(fault.value) and isinstance(fault.value, BotTimeout) == late
    assert end(pids(engine_log))


@pytest.mark.parametrize("text", ["deadline=0.8", "main=0.6"])
def test_a_new_engine_starts_and_is_set_up_outside_the_clock(scripted: Opener, text: str) -> None:
    """In a second game, after one in which the engine refused its opponent's move and lost by that."""
    calls: list[tuple[str, float]] = []
    players = {"engine": scripted("strict 0.5", startup=90.0), "random": Registry().resolve("fast-random").build()}
    limits = {"engine": Limits.read(text, "here"), "random": LIMITS}
    loop = GameLoop(players, Rules.preset("cgos"), limits, on_call=lambda *call: calls.append((call[0], call[2])))
    loop.start_game(Pairing("event/1", 1, "engine", "random", (move_from_gtp("J9", 9), 81), seed=1))
    (record,) = loop.play_round()
    assert record.reason.startswith("engine: Scripted 1.0: refuses 'play b J9'")
    loop.start_game(Pairing("event/2", 2, "engine", "random", (40, 81), seed=1))
    (live,) = loop.live_games
    calls.clear()
    assert list(loop.play_round()) == [], live.reason
    assert live.seconds[BLACK] < 0.8
    assert calls[:2] == [("engine", 90.0), ("engine", pytest.approx(0.8))]


def played(bot: Bot, kills: list[int], log: Path) -> GameRecord:
    """A small game of the engine, Black, against a bot; every third round one of ``kills`` is sent to it."""
    players = {"engine": bot, "random": Registry().resolve("fast-random").build()}
    loop = GameLoop(players, Rules.preset("cgos", 5, move_limit=20), dict.fromkeys(players, LIMITS))
    loop.start_game(Pairing("event/1", 1, "engine", "random", (), seed=1))
    with closing(bot):
        for number in range(200):
            if number % 3 == 2 and kills:
                os.kill(pids(log)[-1], kills.pop())
            for record in loop.play_round():
                return record
    raise AssertionError("the game goes on")


def test_a_game_whose_engine_is_killed_goes_on_where_it_was(scripted: Opener, engine_log: Path) -> None:
    expected = played(scripted("good"), [], engine_log)
    engine_log.unlink()
    record = played(scripted("good"), kills := [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL], engine_log)
    assert not kills and len(pids(engine_log)) == 4
    assert (record.moves, record.outcome, record.reason) == (expected.moves, expected.outcome, "")


def test_an_engine_that_is_killed_while_it_starts_is_started_again(tmp_path: Path) -> None:
    """A kill from outside at that moment ended the whole event."""
    starts = tmp_path / "starts"
    script = f"echo >> {starts}; [ $(wc -l < {starts}) -gt 2 ] || kill -9 $$; exec {scripted_in('good')}"
    bot = GtpBot(Config(shlex.join(["sh", "-c", script])))
    assert bot.name == "Scripted 1.0" and len(starts.read_text()) == 3
    bot.close()


def test_an_engine_that_is_always_killed_as_it_starts_forfeits_its_games(
    engine_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that begins in the midst of an event, it isn't the user's to mend; before an event it is."""
    monkeypatch.setattr("arena.system.START_PAUSES", (0.0,))
    config = Config(shlex.join(["sh", "-c", "kill -9 $$"]))
    record = played(GtpBot(config), [], engine_log)
    assert record.outcome is not None and (record.outcome.ending, record.outcome.winner) == (Ending.CRASH, WHITE)
    with pytest.raises(ConfigError, match=r"was ended by signal 9 .*; run the command by hand"):
        check(config, 9)


@pytest.mark.parametrize(("shell", "how"), [(False, "was ended by signal 9 ("), (True, "ended with exit code 137")])
def test_an_engine_that_kills_itself_goes_on_where_it_died_and_then_forfeits(
    engine_log: Path, shell: bool, how: str
) -> None:
    command = scripted_in("killed")
    if shell:
        command = shlex.join(["sh", "-c", f"{command}; exit $?"])
    record = played(GtpBot(Config(command, log=str(engine_log))), [], engine_log)
    assert record.outcome is not None and (record.outcome.ending, record.outcome.winner) == (Ending.CRASH, WHITE)
    assert how in record.reason
    assert len(pids(engine_log)) == DEATHS


@pytest.mark.parametrize(("mode", "count"), [("good", 1), ("deaf", 1), ("family", 2), ("daemons", 3)])
def test_close_leaves_no_process_and_can_be_repeated(scripted: Opener, engine_log: Path, mode: str, count: int) -> None:
    bot = scripted(mode)
    processes = pids(engine_log)
    assert len(processes) == count and all(map(runs, processes))
    assert os.getpgid(0) not in {os.getpgid(process) for process in processes}
    bot.close()
    bot.close()
    assert end(processes)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds processes in /proc")
def test_an_engine_whose_watcher_is_killed_is_started_again_and_leaves_no_process(
    scripted: Opener, engine_log: Path
) -> None:
    """Nobody would have ended its daemons when the worker was killed, too."""
    before = watchers(os.getpid())
    bot, game = scripted("daemons"), game_of()
    processes = pids(engine_log)
    (watcher,) = set(watchers(os.getpid())) - set(before)
    os.kill(watcher, signal.SIGKILL)
    assert end([watcher])
    with pytest.raises(BotKilled):
        bot.choose(game, LIMITS)
    bot.prepare(game, LIMITS)
    assert len(processes) == 3 and end(processes)
    assert bot.choose(game, LIMITS).move is not None
    bot.close()
    assert end(pids(engine_log))


def test_an_arena_killed_at_once_leaves_no_engine(engine_log: Path) -> None:
    program = (
        "import sys; from bots.gtp import Config, GtpBot; bot = GtpBot(Config(sys.argv[1], log=sys.argv[2])); "
        "print('ready', flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", program, scripted_in("daemons"), str(engine_log)]
    with subprocess.Popen(arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as arena:
        assert arena.stdout and arena.stdout.readline() == b"ready\n"
        processes = pids(engine_log)
        assert len(processes) == 3 and all(map(runs, processes))
        arena.send_signal(signal.SIGKILL)
        arena.wait()
        assert end(processes)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"command": ""}, "command is empty"),
        ({"command": "gnugo 'x"}, "can't be read: No closing quotation"),
        ({"command": "./no-such-engine"}, "no program './no-such-engine'"),
        ({"command": "true", "cwd": "no/such/folder"}, "'.*true' can't be started: .*'no/such/folder'"),
        ({"command": "true", "log": "no/such/folder/log"}, "can't be started: .*'no/such/folder/log'"),
        ({"command": "true"}, "ended with exit code 0 instead of answering 'name'; run the command by hand"),
        ({"command": "sleep 60", "startup": 0.1}, "no answer to 'name' in .*starts slowly, raise 'startup'"),
        ({"command": "sh -c 'echo no net >&2; exit 7'"}, "exit code 7 .*ends with 'no net'; .* set 'cwd' or 'env'$"),
        ({"command": scripted_in("small")}, r"refuses 'boardsize 13': 'unacceptable size'; .*it can't play on 13x13$"),
        ({"command": scripted_in("komi")}, "refuses 'komi 7': 'komi not an integer'; .*it can't play with komi 7$"),
    ],
)
def test_a_command_that_is_no_engine_or_can_not_play_the_event_is_refused_at_once(
    settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as error:
        check(Config(**settings), 13)
    assert "\n" not in str(error.value)


def test_an_engine_that_was_checked_is_gone_afterwards(engine_log: Path) -> None:
    assert check(Config(scripted_in("small"), log=str(engine_log)), 9) == "Scripted 1.0"
    assert heard(engine_log) == ["boardsize 9", "komi 7", "quit"] and end(pids(engine_log))


def test_an_engine_is_found_from_its_folder_and_its_files_by_its_environment(tmp_path: Path) -> None:
    program = tmp_path / "engine"
    needs_data = 'test -n "$DATA_DIR" || { echo "no pattern files, aborting" >&2; exit 1; }'
    program.write_text(f"#!/bin/sh\n{needs_data}\nexec {scripted_in('good')}\n")
    program.chmod(0o755)
    config = Config("./engine", cwd=str(tmp_path))
    with pytest.raises(ConfigError, match="ends with 'no pattern files, aborting'"):
        GtpBot(config)
    with closing(GtpBot(replace(config, env={"DATA_DIR": "/srv/data"}))) as bot:
        assert bot.choose(game_of("A1"), LIMITS).move == move_from_gtp("B1", 9)


def test_an_argument_that_is_too_long_for_a_files_name_is_an_argument() -> None:
    """KataGo's -override-config often is; its settings were looked for as a file."""
    assert code(Config(f"true -override-config {'maxVisits=5,' * 30}")) == code(Config("true"))


@pytest.mark.skipif(GNUGO is None, reason="GNU Go isn't installed")
def test_gnu_go_plays_a_whole_game_on_a_clock() -> None:
    command = "gnugo --mode gtp --level 1 --max-level 1 --chinese-rules --positional-superko --capture-all-dead"
    entry = Registry().resolve(f"gtp:command={command}@main=20,byoyomi=2")
    players = {"gnugo": entry.build(), "random": Registry().resolve("fast-random").build()}
    loop = GameLoop(players, Rules.preset("cgos", 7), {"gnugo": entry.limits, "random": LIMITS})
    loop.start_game(Pairing("event/1", 1, "gnugo", "random", (), seed=1))
    with closing(players["gnugo"]):
        records = [record for _ in range(150) for record in loop.play_round()]
    assert (records[0].outcome.ending, records[0].outcome.winner) == (Ending.SCORE, BLACK)
    assert 0 < records[0].black_seconds


# --- As a referee ---

PASSED_EARLY = "D4 F4 D5 F5 D3 F3 D2 F2 D1 F1 D6 F6 D7 F7 D8 F8 D9 F9 H5 pass pass"
"""Black stones fill a column, White stones another one; Black's H5 is dead on White's side, and nobody took it."""


@pytest.mark.skipif(GNUGO is None, reason="GNU Go isn't installed")
def test_gnu_go_says_which_stones_are_dead() -> None:
    with closing(GtpBot(Config("gnugo --mode gtp --level 1 --chinese-rules"))) as referee:
        assert referee.dead_stones(game_of(PASSED_EARLY)) == [move_from_gtp("H5", 9)]
        assert referee.dead_stones(game_of("E5 pass pass")) == []


def test_what_is_no_stone_is_no_answer_of_a_referee(scripted: Opener) -> None:
    referee = scripted("judge")
    assert referee.dead_stones(game_of("A1 C3 pass pass")) == [move_from_gtp("A1", 9)]
    with pytest.raises(BotFault, match="'final_status_list dead', 'A1', is wrong"):
        referee.dead_stones(game_of("C3 pass pass"))
    with pytest.raises(BotFault, match="refuses 'final_status_list dead'"):
        scripted("good").dead_stones(game_of("C3 pass pass"))


@pytest.mark.parametrize(("moves", "ending"), [("C3 pass pass", Ending.SCORE), ("C3 pass", Ending.RESIGN)])
def test_a_referee_judges_games_that_two_passes_end(moves: str, ending: Ending) -> None:
    """Also one that goes on from its journal."""
    move, resign = move_from_gtp("C3", 9), -1
    played = [(move_from_gtp(text, 9), UNKNOWN) for text in moves.split()]
    played += [(resign, UNKNOWN)] if ending is Ending.RESIGN else []
    asked = list[Game]()
    players = {name: Registry().resolve(name).build() for name in ("random", "fast-random")}
    loop = GameLoop(
        players, Rules.preset("cgos"), dict.fromkeys(players, LIMITS), referee=lambda game: asked.append(game) or [move]
    )
    loop.start_game(Pairing("event/1", 1, *players, (), seed=1), [(move, [None] * 4) for move, _ in played])
    (record,) = loop.play_round()
    assert record.outcome.ending is ending and len(asked) == (ending is Ending.SCORE)
    assert (record.outcome.margin, record.reason) == ((-7.0, "1 stone dead by the referee") if asked else (None, ""))


def test_an_event_whose_referee_fails_stops_and_blames_no_bot(tmp_path: Path) -> None:
    words = ["match", "random", "fast-random", "-n", "4", "--size", "5", "--plies", "0"]
    done = arena(*words, "--referee", f"gtp:command={scripted_in('good')}", folder=tmp_path)
    refused(done, "the referee gtp:command=", "failed", "final_status_list", "the same command plays the rest")
    assert "forfeit" not in done.stdout
    refused(arena(*words, "--referee", "mcts", folder=tmp_path), "--referee mcts", "gnugo")
