"""The command that serves a bot over GTP."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from arena.cli import complete
from arena.cli.options import RESULTS, ConfigFile, Results, registry_of


def gtp(
    bot: Annotated[
        str,
        typer.Argument(
            metavar="BOT", help="NAME, NAME:setting=value,... or checkpoint:PATH.", autocompletion=complete.bots
        ),
    ],
    size: Annotated[int, typer.Option(help="Board size until the controller sets one, 5 to 19.")] = 9,
    komi: Annotated[float | None, typer.Option(help="Komi until set; 7 on 9x9, 7.5 above.")] = None,
    rules: Annotated[str, typer.Option(help="cgos, tromp-taylor, chinese or japanese.")] = "cgos",
    seed: Annotated[
        int | None, typer.Option(help="Where all chance starts; another one each time unless given.")
    ] = None,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Serve a bot over GTP 2 on stdin and stdout, to GoGui, Sabaki, CGOS or any other runner of games.

    Example: [bold]gogui-twogtp -black "arena gtp mcts" -white "arena gtp sl" -referee "arena gtp random"
    -size 9 -komi 7 -games 10 -alternate -auto -sgffile games[/bold]
    """
    from contextlib import closing, redirect_stdout
    from random import SystemRandom

    from arena.go.game import Rules
    from arena.gtp.server import Server, serve

    entry = registry_of(config, results).resolve(bot)
    entry.checked(size)
    preset = Rules.preset(rules, size, komi)
    if seed is None:
        seed = SystemRandom().getrandbits(31)
    lines = open(0, encoding="utf-8", errors="replace", newline="\n", closefd=False)
    output = open(1, "w", encoding="ascii", errors="backslashreplace", newline="\n", closefd=False)
    try:
        with redirect_stdout(sys.stderr), closing(entry.build()) as player:  # a bot that prints spoils no answer
            server = Server(player, preset, f"arena {entry.name}", seed, entry.checked, entry.limits)
            serve(server, lines, output)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
