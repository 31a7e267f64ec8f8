"""The commands about bots and the installation: bots, check, gtp, analysis, serve and doctor."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stdout
from functools import cache
from pathlib import Path
from secrets import randbits
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from arena import ConfigError, UserError
from arena.cli import options
from arena.cli.options import RESULTS, Argument, ConfigFile, Number, ResultsFolder, with_options
from arena.players.config import TermsTable, default

if TYPE_CHECKING:
    from arena.contract import bot
    from arena.players.player import Player
    from arena.players.registry import Registry
    from arena.ratings import EloEstimate
    from arena.results.store import Pool

EXIT_SECONDS = 2.0  # that a bot has to close after Ctrl-C
SCREENS = ("match", "tournament", "gate", "play", "show")  # the commands that have a full screen


def bots(
    name: Annotated[str | None, Argument(metavar="NAME")] = None,
    results: ResultsFolder = RESULTS,
    config: ConfigFile = None,
) -> None:
    """List the bots, or explain the settings of the bot NAME.

    Change settings inline, as in mcts:playouts=5000, or in arena.toml.

    Examples:
      arena bots
      arena bots mcts
    """
    from arena.report.tables import bots_table, settings_table

    registry = options.registry_of(config, results)
    if name is not None:  # a bot that lacks a setting or its net is explained, too
        shown = settings_table(registry.resolve(name) if name.endswith(".py") else registry.entry(name))
    else:
        shown = bots_table(registry.entries, *known_ratings(registry, results), registry.unloaded)
    options.open_console().print(shown)


def known_ratings(registry: Registry, results: Path) -> tuple[dict[str, EloEstimate], Pool | None]:
    """Elo by identity, from the pool with the most stored games, or without any from the ladder that ships."""
    from arena.results.league import player_ratings, shipped_ratings
    from arena.results.store import Store, database

    if database(results).exists():
        with Store.of(results) as store:
            pool, ratings = player_ratings(store, registry.anchors)
        if ratings:
            return ratings, pool
    return shipped_ratings(), None


@with_options(TermsTable, "size")
def check(
    bots: Annotated[list[str], Argument(metavar="BOT")],
    terms: TermsTable = options.NO_TERMS,
    results: ResultsFolder = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Play a short game of each bot against itself.

    A bot starts in a process of its own and plays 12 moves, as in an event. The exit code is 1 if a bot fails.

    Examples:
      arena check sl
      arena check gnugo alphago --size 19
      arena check "gtp:command=gnugo --mode gtp"
    """
    from arena.contract.finding import StepStatus
    from arena.match.check import probe
    from arena.report.progress import show_check

    registry, console, rules = options.registry_of(config, results), options.open_console(), options.read_rules(terms)
    players = [registry.resolve(name) for name in bots]
    if StepStatus.FAILED in [show_check(player.name, probe(player, rules), console) for player in players]:
        raise typer.Exit(1)


@with_options(TermsTable, "size", "komi", "rules")
def gtp(
    bot: Annotated[str, Argument(metavar="BOT")],
    terms: TermsTable = options.NO_TERMS,
    seed: Annotated[int | None, Number(help="Random seed (default: a new one each time).")] = None,
    results: ResultsFolder = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Serve a bot over GTP, for GoGui, Sabaki or CGOS.

    It speaks GTP 2 on stdin and stdout. Size, komi and rules hold until the controller sets them.

    Examples:
      arena gtp alphago:visits=400
      gogui-twogtp -black "arena gtp mcts" -white "arena gtp sl" -size 9 -komi 7
    """
    from arena.gtp.server import Server, serve
    from arena.people.counting import agreed_dead

    rules, entry = options.read_rules(terms), options.registry_of(config, results).resolve(bot)
    entry.checked(rules.size)
    with _on_pipes(entry) as (player, lines, output):
        kind, seed = entry.bot_kind, default(seed, randbits(31))
        about = (f"arena {entry.name}", seed, entry.checked, entry.limits, kind.analyses, "policy" in kind.heads)
        serve(Server(player, rules, *about, agreed_dead), lines, output)


def analysis(
    bot: Annotated[str, Argument(metavar="BOT")], results: ResultsFolder = RESULTS, config: ConfigFile = None
) -> None:
    """Serve a bot over KataGo's JSON analysis, for KaTrain and others.

    The protocol runs on stdin and stdout.

    Examples:
      arena analysis alphago:visits=400
      arena analysis sl < queries.jsonl
    """
    from arena.gtp.analysis_engine import AnalysisEngine, run
    from arena.results.analysis import with_all_visits

    entry = with_all_visits(options.registry_of(config, results).resolve(bot))
    if not entry.bot_kind.analyses:
        raise UserError(f"{entry.name}: this bot doesn't analyse; use one such as alphago, mcts or sl")
    with _on_pipes(entry) as (player, lines, output):

        def send(line: str) -> None:
            output.write(f"{line}\n")
            output.flush()

        has_net = "policy" in entry.bot_kind.heads
        run(AnalysisEngine(player, send, cache(entry.checked), entry.limits, has_net), lines)


@contextmanager
def _on_pipes(entry: Player) -> Iterator[tuple[bot.Bot, TextIO, TextIO]]:
    """The bot with the lines that it is sent and where its answers go. The process ends at the end."""
    lines = open(0, encoding="utf-8", errors="replace", newline="\n", closefd=False)
    output = open(1, "w", encoding="ascii", errors="backslashreplace", newline="\n", closefd=False)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)  # each signal's number is written there at once

    def exit_when_stuck() -> None:
        """End the process after ``EXIT_SECONDS`` when Python can't handle a signal: a net may compute for ever."""
        (number,) = os.read(reader, 1)
        sleep(EXIT_SECONDS)
        os._exit(128 + number)

    Thread(target=exit_when_stuck, daemon=True).start()
    try:
        with redirect_stdout(sys.stderr), closing(entry.build()) as player:  # a bot that prints spoils no answer
            yield player, lines, output
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    os._exit(0)  # taking the interpreter down takes half a second, in which a controller waits


def serve(
    command: Annotated[list[str], Argument(metavar="COMMAND")],
    port: Annotated[int, Number(help="Port (default 8380).", min=1, max=65535)] = 8380,
) -> None:
    """Show a command's full screen in a browser on this machine.

    COMMAND is what would follow 'arena' in a terminal, options included. Each browser gets a process of its own, at
    most 8 at once. Closing the page ends it as Ctrl-C does. Results can be written by one event at a time. Ctrl-C ends
    the server.

    Examples:
      arena serve play alphago
      arena serve --port 9000 match sl mcts -n 100
    """
    if command[0] not in SCREENS:
        raise ConfigError(f"'{command[0]}' has no full screen; serve one of: {', '.join(SCREENS)}")
    from arena.tui.serve import LOCAL, LocalServer

    try:
        socket.create_server((LOCAL, port)).close()
    except OSError as error:
        raise UserError(f"port {port} can't be used ({error.strerror}); use another --port") from None
    LocalServer(command, port).serve()


def doctor(results: ResultsFolder = RESULTS, config: ConfigFile = None) -> None:
    """Check the installation and suggest fixes.

    Nothing that arena.toml names is started; arena check does that. The exit code is 1 if something failed.

    Example:
      arena doctor
    """
    from arena.contract.finding import StepStatus
    from arena.report.progress import show_check
    from arena.results.doctor import examine

    findings = examine(results, config or (options.CONFIG if options.CONFIG.exists() else None))
    if show_check("arena doctor", findings, options.open_console()) is StepStatus.FAILED:
        raise typer.Exit(1)
