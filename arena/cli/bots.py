"""The commands about bots: which there are, whether they play here, one served to other programs; and the doctor."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stdout
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from arena import ConfigError, UserError
from arena.cli.options import RESULTS, Bot, ConfigFile, Json, Komi, Results, RuleSet, Size, registry_of

if TYPE_CHECKING:
    from arena.contract import bot
    from arena.players.player import Player
    from arena.players.registry import Registry
    from arena.report.style import Console


def bots(
    name: Annotated[str | None, typer.Argument(help="Explain the settings of this bot.")] = None,
    as_json: Json = False,
    results: Results = RESULTS,
    config: ConfigFile = None,
) -> None:
    """List the bots, or explain the settings of one.

    Settings are changed inline, as in mcts:playouts=5000, or in arena.toml.

    Examples:
      arena bots
      arena bots mcts
    """
    from arena.report.style import Console
    from arena.report.tables import bots_table, settings_table
    from arena.results.store import Store, database

    registry = registry_of(config, results)
    if name is not None and not as_json:  # a bot that lacks a setting or its net is explained, too
        entry = registry.resolve(name) if name.endswith(".py") else registry.entry(name)
        Console().print(settings_table(entry))
        return
    rated = None
    if database(results).exists():
        from arena.results.league import player_ratings  # which loads numpy

        with Store.of(results) as store:
            rated = player_ratings(store)
    pool, ratings = rated or (None, {})
    if not as_json:
        Console().print(bots_table(registry.entries, ratings, pool, registry.files))
        return
    from arena.results.export import bot_line

    for entry in registry.entries if name is None else [registry.resolve(name)]:
        print(bot_line(entry, entry.bot_kind.summary, ratings.get(entry.identity)))
    for entry in registry.files if name is None else []:
        print(bot_line(entry, f"the Python file {entry.kind.rpartition(chr(58))[0]}", None))  # not run for it


def check(
    bots: Annotated[
        list[str] | None, typer.Argument(metavar="BOT", help="Bots to check (default: those of arena.toml).")
    ] = None,
    size: Size = 9,
    results: Results = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Play a short game of each bot against itself, and print what was seen.

    A bot starts in a process of its own and plays 12 moves, as in an event: its kind, net or engine, seconds per move,
    what it reports, and its faults. Engines and Python files of arena.toml are started only if they are named.
    The exit code is 1 if a bot fails.

    Examples:
      arena check
      arena check gnugo alphago --size 19
      arena check "gtp:command=gnugo --mode gtp"
    """
    from arena.contract.finding import Finding, Verdict
    from arena.go.game import Rules
    from arena.match.check import probe
    from arena.report.progress import show_check
    from arena.report.style import Console

    rules = Rules.preset("cgos", size)
    registry, console = registry_of(config, results), Console()
    names = bots or _declared(registry, console)
    players: dict[str, Player | UserError] = {}
    for name in names:
        try:
            players[name] = player = registry.resolve(name)
            if player.is_person:
                raise UserError(f"{name}: a person can't be checked; name a bot")
        except UserError as error:
            if bots:
                raise
            players[name] = error
    failed = []
    for number, (name, one) in enumerate(players.items()):
        if number:
            console.print()
        found = [Finding("start", Verdict.FAILED, str(one))] if isinstance(one, UserError) else probe(one, rules)
        if show_check(name, found, console) is Verdict.FAILED:
            failed.append(name)
    if len(names) > 1:
        words = f"{len(names) - len(failed)} of {len(names)} bots are ready"
        words += f"; not {', '.join(failed)}" if failed else ""
        console.print()
        console.say(f"{words}.")
    if failed:
        raise typer.Exit(1)


def _declared(registry: Registry, console: Console) -> list[str]:
    """The bots that arena.toml declares or changes. People are left out; engines and Python files, too, with a line
    each: they would run something else. Raises UserError when arena.toml has none."""
    from arena.players.player import ARENA, PACKAGE

    own = [one for one in registry.entries if one.source != ARENA and not one.source.startswith(PACKAGE)]
    found = [*(one for one in own if not one.is_person), *registry.files]
    if not found:
        raise UserError("arena.toml declares no bots; name those to check, as in: arena check alphago")
    foreign = [one for one in found if one in registry.files or one.bot_kind.code is not None]
    for one in foreign:
        console.say(f"{one.name} is not started unless named: {one.settings.get('command', one.kind)}")
    return [one.name for one in found if one not in foreign]


def gtp(
    bot: Bot,
    size: Size = 9,
    komi: Komi = None,
    rules: RuleSet = "cgos",
    seed: Annotated[int | None, typer.Option(help="Random seed (default: a new one each time).")] = None,
    results: Results = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Serve a bot over GTP, for GoGui, Sabaki or CGOS.

    It speaks GTP 2 on stdin and stdout. Size and komi hold until the controller sets them.

    Examples:
      arena gtp alphago:visits=400
      gogui-twogtp -black "arena gtp mcts" -white "arena gtp sl" -size 9 -komi 7 -games 10 -auto -sgffile games
    """
    from random import SystemRandom

    from arena.go.game import Rules
    from arena.gtp.server import Server, serve
    from arena.people.counting import agreed_fates

    entry = registry_of(config, results).resolve(bot)
    entry.checked(size)
    preset = Rules.preset(rules, size, komi)
    seed = SystemRandom().getrandbits(31) if seed is None else seed
    with _on_pipes(entry) as (player, lines, output):
        kind = entry.bot_kind
        server = Server(
            player,
            preset,
            f"arena {entry.name}",
            seed,
            entry.checked,
            entry.limits,
            kind.analyses,
            "policy" in kind.heads,
            agreed_fates,
        )
        serve(server, lines, output)


def analysis(bot: Bot, results: Results = RESULTS, config: ConfigFile = None) -> None:
    """Serve a bot over KataGo's JSON analysis, for KaTrain and others.

    The protocol runs on stdin and stdout.

    Examples:
      arena analysis alphago:visits=400
      echo '{"id":"1","moves":[],"rules":"cgos","boardXSize":9,"boardYSize":9}' | arena analysis sl
    """
    from arena.gtp.analysis_engine import AnalysisEngine, run
    from arena.results.analysis import patient

    entry = patient(registry_of(config, results).resolve(bot))
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
    try:
        with redirect_stdout(sys.stderr), closing(entry.build()) as player:  # a bot that prints spoils no answer
            yield player, lines, output
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    os._exit(0)  # taking the interpreter down takes half a second, in which a controller waits


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON instead.")] = False,
    init: Annotated[bool, typer.Option("--init", help="Write a commented arena.toml instead.")] = False,
    folder: Annotated[Path | None, typer.Argument(help="With --init: folder of the file (default: here).")] = None,
    results: Results = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Check the installation and suggest fixes.

    Versions, processor, compiled kernels, the nets that ship, GPU, stored results, arena.toml, and engines on the PATH
    that could be bots. Nothing that arena.toml names is started; arena check does that. The exit code is 1 when
    something failed. --init writes an arena.toml of examples, all commented out.

    Examples:
      arena doctor
      arena doctor --init
    """
    import json
    from dataclasses import asdict

    from arena.contract.finding import Verdict
    from arena.report.progress import show_check
    from arena.report.style import Console
    from arena.results.doctor import examine

    if init:
        _write_example(folder or Path())
        return
    if folder is not None:
        raise ConfigError("FOLDER needs --init")
    default = Path("arena.toml")
    findings = examine(results, config or (default if default.exists() else None))
    if as_json:
        found = list(findings)
        print(json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False))
        failed = any(one.verdict is Verdict.FAILED for one in found)
    else:
        failed = show_check("arena doctor", findings, Console()) is Verdict.FAILED
    if failed:
        raise typer.Exit(1)


def _write_example(folder: Path) -> None:
    """Write a commented arena.toml. Raises ConfigError where it can't be, and where one is there already."""
    from arena.players.config import EXAMPLE

    path = folder / "arena.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(EXAMPLE.read_text())
    except FileExistsError:
        if folder.is_dir():
            raise ConfigError(f"{path} exists; edit it, or delete it first") from None
        raise ConfigError(f"{folder} is a file; name a folder") from None
    print(f"Written to {path}. Remove the # from the lines that you want; 'arena doctor' checks the file.")
