"""The commands about bots: who can play, whether they are ready, and one served over GTP."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from arena import UserError
from arena.cli import complete
from arena.cli.options import RESULTS, ConfigFile, Json, Results, registry_of

if TYPE_CHECKING:
    from arena.contract.bot import Bot
    from arena.contract.finding import Finding
    from arena.players.player import Player
    from arena.players.registry import Registry
    from arena.report.style import Console


Size = Annotated[int, typer.Option(help="Board size, 5 to 19.")]
Komi = Annotated[float | None, typer.Option(help="Komi (default 7 on 9x9, 7.5 on larger boards).")]
RuleSet = Annotated[str, typer.Option(help="Rules: cgos, tromp-taylor, chinese or japanese.")]


def bots(
    name: Annotated[
        str | None, typer.Argument(help="Explain this bot's settings.", autocompletion=complete.bots)
    ] = None,
    as_json: Json = False,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """List the bots, or explain the settings of one.

    Settings are changed inline, as in [bold]mcts:playouts=5000[/bold], or in arena.toml.

    Examples: [bold]arena bots[/bold] · [bold]arena bots mcts[/bold]
    """
    from arena.report.style import Console
    from arena.report.tables import bots_table, settings_table
    from arena.results.store import Store, database

    if name is not None and not as_json:
        Console().print(settings_table(_explained(registry_of(config, results), name)))
        return
    rated = None
    if database(results).exists():
        from arena.results.standings import player_ratings  # which loads numpy

        with Store.of(results) as store:
            rated = player_ratings(store)
    pool, ratings = rated or (None, {})
    registry = registry_of(config, results)
    if as_json:
        from arena.results.export import bot_line

        for entry in registry.entries if name is None else [registry.resolve(name)]:
            print(bot_line(entry, entry.bot_kind.summary, ratings.get(entry.identity)))
        for entry in registry.files if name is None else []:
            print(bot_line(entry, f"the Python file {entry.kind.rpartition(chr(58))[0]}", None))  # not run for it
        return
    Console().print(bots_table(registry.entries, ratings, pool, registry.files))


def _explained(registry: Registry, name: str) -> Player:
    """The bot of this name, which may lack a setting or its net; or a Python file."""
    return registry.resolve(name) if name.endswith(".py") else registry.entry(name)


def check(
    bots: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BOT",
            help="Bots to check (default: all of arena.toml).",
            autocompletion=complete.bots,
        ),
    ] = None,
    size: Size = 9,
    komi: Komi = None,
    rules: RuleSet = "cgos",
    run: Annotated[bool, typer.Option("--run", help="Without names: also start the engines of arena.toml.")] = False,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Play a short game of each bot against itself, and print what was seen.

    A bot starts in a process of its own and plays 12 moves, as in an event: its kind, net or engine, seconds per move,
    what it reports, and its faults. Without names, the bots of arena.toml are checked; its engines and Python
    files are only listed unless --run is given. The exit code is 1 if a bot fails.

    Examples: [bold]arena check[/bold] · [bold]arena check gnugo alphago --size 19[/bold] ·
    [bold]arena check "gtp:command=gnugo --mode gtp"[/bold]
    """
    from arena.contract.finding import Finding, Verdict
    from arena.go.game import Rules
    from arena.match.check import probe
    from arena.report.progress import show_check
    from arena.report.style import Console

    preset = Rules.preset(rules, size, komi)
    registry = registry_of(config, results)
    console = Console()
    names = bots or _declared(registry, run, console)
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
        if isinstance(one, UserError):
            found: Iterable[Finding] = [Finding("start", Verdict.FAILED, str(one))]
        else:
            found = probe(one, preset)
        if show_check(name, found, console) is Verdict.FAILED:
            failed.append(name)
    if len(names) > 1:
        ready = f"{len(names) - len(failed)} of {len(names)} bots are ready"
        words = f"{ready}; not {', '.join(failed)}" if failed else ready
        console.print(f"\n{words}.", markup=False, highlight=False)
    if failed:
        raise typer.Exit(1)


def _declared(registry: Registry, run: bool, console: Console) -> list[str]:
    """The bots that arena.toml declares or changes, people left out. Those that would run something else, engines and
    Python files, are only listed unless they may ``run``. Raises UserError when there are none."""
    from arena.players.player import ARENA, PACKAGE

    own = [one for one in registry.entries if one.source != ARENA and not one.source.startswith(PACKAGE)]
    found = [*(one for one in own if not one.is_person), *registry.files]
    if not found:
        raise UserError("arena.toml declares no bots; name those to check, as in: arena check alphago")
    listed = [] if run else [one for one in found if one in registry.files or one.bot_kind.code is not None]
    for one in listed:
        words = f"{one.name} is not started without --run: {one.settings.get('command', one.kind)}"
        console.print(words, markup=False, highlight=False)
    return [one.name for one in found if one not in listed]


def gtp(
    bot: Annotated[
        str,
        typer.Argument(
            metavar="BOT", help="NAME, NAME:setting=value,... or checkpoint:PATH.", autocompletion=complete.bots
        ),
    ],
    size: Size = 9,
    komi: Komi = None,
    rules: RuleSet = "cgos",
    seed: Annotated[int | None, typer.Option(help="Random seed (default: a new one each time).")] = None,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Serve a bot over GTP, for GoGui, Sabaki or CGOS.

    It speaks GTP 2 on stdin and stdout. Size and komi hold until the controller sets them.

    Example: [bold]gogui-twogtp -black "arena gtp mcts" -white "arena gtp sl" -referee "arena gtp random"
    -size 9 -komi 7 -games 10 -alternate -auto -sgffile games[/bold]
    """
    from random import SystemRandom

    from arena.go.game import Rules
    from arena.gtp.server import Server, serve
    from arena.people.counting import agreed_fates

    entry = registry_of(config, results).resolve(bot)
    entry.checked(size)
    preset = Rules.preset(rules, size, komi)
    if seed is None:
        seed = SystemRandom().getrandbits(31)
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


def analysis(
    bot: Annotated[
        str,
        typer.Argument(
            metavar="BOT", help="NAME, NAME:setting=value,... or checkpoint:PATH.", autocompletion=complete.analysts
        ),
    ],
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Serve a bot over KataGo's JSON analysis, for KaTrain and others.

    The protocol runs on stdin and stdout.

    Examples: [bold]arena analysis alphago:visits=400[/bold] ·
    [bold]echo '{"id":"1","moves":[],"rules":"cgos","boardXSize":9,"boardYSize":9}' | arena analysis sl[/bold]
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
def _on_pipes(entry: Player) -> Iterator[tuple[Bot, TextIO, TextIO]]:
    """The bot with the lines that it is sent and where its answers go. The process ends at the end."""
    from contextlib import closing, redirect_stdout

    lines = open(0, encoding="utf-8", errors="replace", newline="\n", closefd=False)
    output = open(1, "w", encoding="ascii", errors="backslashreplace", newline="\n", closefd=False)
    try:
        with redirect_stdout(sys.stderr), closing(entry.build()) as player:  # a bot that prints spoils no answer
            yield player, lines, output
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    os._exit(0)  # taking the interpreter down takes half a second, in which a controller waits
