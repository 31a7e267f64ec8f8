"""Check one player before an event: does it start, move legally and in time, and end?

The player runs in a process of its own, so a crash is reported and harms nothing. No event, no storage.
"""

from __future__ import annotations

import os
import re
import tempfile
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import cast

from arena import BotFault, UserError
from arena.contract.adjudication import OFF
from arena.contract.bot import Bot, Limits, fault_words
from arena.contract.finding import Begun, Finding, Verdict
from arena.files import scratch
from arena.go.coords import gtp_from_move, pass_move
from arena.go.game import Ending, Game, Outcome, Rules
from arena.go.jit import while_compiling
from arena.go.record import UNKNOWN
from arena.match.crew import exit_words
from arena.match.game_loop import GameLoop, Turn
from arena.match.schedule import Pairing
from arena.match.worker import (
    end_with_parent,
    leave_safe_path,
    leave_to_the_parent,
    safe_path,
    spared_by_the_terminal,
    start_method,
    warm_up,
    warm_up_seconds,
)
from arena.players.player import Player
from bots.gtp import GtpBot, Refusal

STARTUP = 120.0
"""Seconds that a player may take to start, compiling included."""

PATIENCE = 3.0
"""Seconds for a command other than a move, and grace after a move's deadline before the player counts as hanging."""

LONGEST_MOVE = 20.0
"""Seconds that a move may take here, besides twice those that the player is given, where it has no deadline."""

PLIES = 6
"""Moves that the player makes for both sides."""

LAST_WORDS = 300
"""Characters of what a player that died wrote last."""

WANTED = ("time_settings", "time_left", "final_score", "set_random_seed", "kata-set-rules", "kata-analyze")
"""The commands of an engine that make a difference here, and that it may lack."""


Report = Callable[[Begun | Finding], None]


def probe(entry: Player, rules: Rules) -> Generator[Begun | Finding, None, None]:
    """Look at a player in steps, each begun and found; one that failed is the last. Closing the generator ends the
    player and all its processes."""
    context = start_method()
    here, there = context.Pipe()
    with tempfile.NamedTemporaryFile(dir=scratch()) as log:
        process = context.Process(target=_examine, args=(there, entry, rules, log.name))
        with safe_path(), spared_by_the_terminal():
            process.start()
        there.close()
        begun = Begun("start", STARTUP)
        try:
            yield begun
            while True:
                if not here.poll(begun.seconds):
                    slow = "" if entry.limits.deadline else f"If it is slow, give it longer: {entry.name}@deadline=60."
                    yield Finding(begun.step, Verdict.FAILED, f"no answer within {begun.seconds:g} s", slow)
                    return
                try:
                    message = here.recv()
                except (EOFError, OSError):
                    process.join()
                    yield Finding(begun.step, Verdict.FAILED, _died(process.exitcode, Path(log.name)))
                    return
                if message is None:
                    return
                yield message
                if isinstance(message, Begun):
                    begun = message
                elif message.verdict is Verdict.FAILED:
                    return
        finally:
            here.close()
            process.join(0 if begun.step != "end" else PATIENCE)
            process.kill()
            process.join()


def _died(code: int | None, log: Path) -> str:
    """How the player's process ended, and its last words."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    words = " ".join(lines[-1].split())[:LAST_WORDS] if lines and not code == 0 else ""
    return f"its process ended with {exit_words(code)}" + (f"; it last wrote '{words}'" if words else "")


# --- In the player's process ---


def _examine(connection: Connection, entry: Player, rules: Rules, log: str) -> None:
    """Go through the steps as far as the player gets, and tell of each."""
    leave_to_the_parent()
    leave_safe_path()
    end_with_parent()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)  # the terminal is the screen's
    os.dup2(descriptor, 2)
    os.close(descriptor)
    step = "start"

    def report(message: Begun | Finding) -> None:
        nonlocal step
        step = message.step
        connection.send(message)

    bot: Bot | None = None
    try:
        bot = _start(entry, rules, report)
        engine = cast(GtpBot, bot) if entry.bot_kind.external else None
        if engine is not None:
            _set_up(engine, rules, report)
            _list_commands(engine, entry, report)
        _move(bot, entry, rules, report)
        if engine is not None and (not engine.commands or "final_score" in engine.commands):
            _compare_scores(engine, rules, report)
        _end(bot, entry, report)
        connection.send(None)
    except (UserError, BotFault) as error:
        report(Finding(step, Verdict.FAILED, str(error)))
    except BrokenPipeError:
        pass  # nobody listens any more
    except Exception as error:  # whatever a bot raises is its own fault
        report(Finding(step, Verdict.FAILED, fault_words(error), "".join(traceback.format_exception(error))))
    finally:
        if bot is not None:
            with suppress(Exception):
                bot.close()


def _start(entry: Player, rules: Rules, report: Report) -> Bot:
    """The player, built and with all that it needs loaded or compiled."""
    report(Begun("start", STARTUP))
    started = monotonic()
    entry = entry.checked(rules.size)
    referee = Game(rules)
    referee.play(0)  # compiles what isn't yet
    referee.margin()
    bot = entry.build()
    if entry.bot_kind.boards > 1:
        limit = min(_longest_move(entry.limits), warm_up_seconds(bot, entry.limits))

        @contextmanager
        def compiling() -> Iterator[None]:
            report(Begun("start", STARTUP))
            yield
            report(Begun("start", limit))

        report(Begun("start", limit))
        with while_compiling(compiling):
            warm_up(bot, rules)
    seconds = monotonic() - started
    who = f"kind {entry.kind}"
    if entry.bot_kind.external:
        engine = cast(GtpBot, bot)
        who = " ".join(f"{engine.name} {engine.version}".split())
    if entry.net:
        folder = Path(entry.settings["checkpoint"]).name
        who += f", net {'' if folder == entry.net else f'{folder} '}({entry.net[:8]})"
    report(Finding("start", Verdict.OK, f"{who or 'an engine without a name'}, in {seconds:.1f} s"))
    return bot


def _longest_move(limits: Limits) -> float:
    """Seconds after which a move counts as hanging: an event waits longer for a player without a deadline."""
    given = limits.seconds or (limits.byoyomi or 0.0) / limits.stones
    return limits.deadline or LONGEST_MOVE + 2 * given


def _set_up(bot: GtpBot, rules: Rules, report: Report) -> None:
    report(Begun("board", 4 * PATIENCE))
    for command in (f"boardsize {rules.size}", "clear_board", f"komi {rules.komi}"):
        bot.ask(command, PATIENCE)
    report(Finding("board", Verdict.OK, f"{rules.size}x{rules.size}, komi {rules.komi:g}"))


def _list_commands(bot: GtpBot, entry: Player, report: Report) -> None:
    report(Begun("commands", PATIENCE))
    if not bot.commands:
        report(Finding("commands", Verdict.NOTE, "doesn't list its commands; only those of every game are used"))
        return
    has = ", ".join(command for command in WANTED if command in bot.commands)
    lacks = ", ".join(command for command in WANTED if command not in bot.commands)
    words = "; ".join(part for part in (f"has {has}" if has else "", f"lacks {lacks}" if lacks else "") if part)
    timed = (entry.limits.seconds or entry.limits.time) and "time_settings" not in bot.commands
    verdict = Verdict.NOTE if timed else Verdict.OK
    report(Finding("commands", verdict, words + ("; it has no time commands" if timed else "")))


def _move(bot: Bot, entry: Player, rules: Rules, report: Report) -> None:
    """Some moves for both sides from an empty board, then an answer to a pass, as in a game of an event."""
    times: list[float] = []
    called = 0.0

    def note(turn: Turn | None) -> None:
        nonlocal called
        if turn is None:
            times.append(monotonic() - called)
        else:
            called = monotonic()
            longest = min(turn.allowed, _longest_move(entry.limits)) if turn.is_charged else turn.allowed
            report(Begun("moves", longest + PATIENCE))

    loop = GameLoop({entry.name: bot}, rules, {entry.name: entry.limits}, OFF, note)
    loop.start_game(Pairing("check/00001", 0, entry.name, entry.name, (), seed=1))
    over = [record for _ in range(PLIES) for record in loop.play_round()]
    moves = over[0].moves if over else loop.live_games[0].game.moves
    chosen = len(moves)
    if not over:
        live = loop.live_games[0]
        live.game.play(pass_move(rules.size))
        live.facts.append(UNKNOWN)
        over = list(loop.play_round())
    outcome = over[0].outcome if over else None
    if outcome is not None and outcome.ending.is_forfeit:
        lost = over[0]
        reason = lost.reason.removeprefix(f"{entry.name}: ")
        report(Finding("moves", Verdict.FAILED, reason, "" if entry.bot_kind.external else lost.fault_details))
        return
    words = f"{chosen} legal ones, {fmean(times):.2f} s each, {max(times):.2f} s the slowest"
    if outcome is not None and outcome.ending is Ending.RESIGN:
        report(Finding("moves", Verdict.NOTE, f"{words}; resigns at move {len(moves) + 1}"))
    elif outcome is not None and len(over[0].moves) == chosen:
        report(Finding("moves", Verdict.NOTE, f"{words}; passes twice in a row"))
    else:
        answer = gtp_from_move(moves[-1], rules.size)
        report(Finding("moves", Verdict.OK, f"{words}; answers a pass by {answer}"))


def _compare_scores(bot: GtpBot, rules: Rules, report: Report) -> None:
    """What the engine makes of a board that is settled: a wall of each colour, side by side."""
    report(Begun("score", 4 * PATIENCE))
    game = Game(rules)
    middle = rules.size // 2
    for row in range(rules.size):
        game.play(row * rules.size + middle - 1)
        game.play(row * rules.size + middle)
    commands = [f"boardsize {rules.size}", "clear_board", f"komi {rules.komi}"]
    for number, move in enumerate(game.moves):
        commands.append(f"play {'bw'[number % 2]} {gtp_from_move(move, rules.size)}")
    until = monotonic() + 4 * PATIENCE
    for command in [*commands, "play b pass", "play w pass"]:
        bot.ask(command, until - monotonic())
    try:
        theirs = bot.ask("final_score", until - monotonic()).strip()
    except Refusal as refusal:
        report(Finding("score", Verdict.NOTE, f"{refusal}"))
        return
    ours = Outcome.scored(game.margin()).sgf
    if _margin(theirs) == game.margin():
        report(Finding("score", Verdict.OK, f"{ours} on a settled board, as here"))
    else:
        words = f"says {theirs[:40]!r} of a settled board that is {ours} here; it may pass too soon or too late"
        report(Finding("score", Verdict.NOTE, words))


def _end(bot: Bot, entry: Player, report: Report) -> None:
    report(Begun("end", 2 * PATIENCE))
    processes = family(os.getpid())
    memory = _memory(processes[1:] if entry.bot_kind.external else processes)
    bot.close()
    left = len(family(os.getpid())) - 1
    if left:
        report(Finding("end", Verdict.FAILED, f"leaves {left} process{'es' if left > 1 else ''} running"))
    else:
        report(Finding("end", Verdict.OK, f"has ended; took {memory} MB of memory" if memory else "has ended"))


def _margin(score: str) -> float | None:
    """Black's margin from ``W+3.5``; None for any other text."""
    if score in ("0", "B+0", "W+0"):
        return 0.0
    found = re.fullmatch(r"([BW])\+(\d+(?:\.\d+)?)", score, re.IGNORECASE)
    return None if found is None else float(found[2]) * (1 if found[1] in "Bb" else -1)


def family(process: int) -> list[int]:
    """The process and all that descend from it, where the system tells (Linux)."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    family = [process]
    for member in family:
        family += children.get(member, [])
    return family


def _memory(processes: list[int]) -> int:
    """Megabytes: the most that these processes have held, each for itself; 0 where the system doesn't tell."""
    kilobytes = 0
    for process in processes:
        with suppress(OSError):
            status = Path(f"/proc/{process}/status").read_text()
            kilobytes += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return kilobytes // 1024
