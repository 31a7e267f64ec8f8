"""The command that teaches the rules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from arena.cli import complete
from arena.cli.options import RESULTS, ConfigFile, Results, registry_of


def tutorial(
    first: Annotated[int, typer.Option("--from", help="Begin with this screen; 11 is the game.", min=1, max=11)] = 1,
    against: Annotated[
        str, typer.Option(help="Whom the game at the end is played against.", autocompletion=complete.bots)
    ] = "fast-random",
    plain: Annotated[
        bool, typer.Option("--plain", help="Say positions in words instead of drawing them, as for a screen reader.")
    ] = False,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Learn the rules of Go in ten screens on a 5x5 board, then play a first game.

    Each screen asks for a move or a number. Type hint, skip, back or quit at any time; answers may come from a pipe,
    too. The game is against fast-random, which plays anywhere; mcts is hard to beat.

    Examples: [bold]arena tutorial[/bold] · [bold]arena tutorial --from 11 --against mcts[/bold]
    """
    from random import SystemRandom

    from rich.console import Console

    from arena.people.tutorial import SIZE
    from arena.screen.plain_play import Lines
    from arena.screen.tutorial import Left, Talk, farewell, play, teach

    entry = registry_of(config, results).resolve(against)
    entry.checked(SIZE)
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    console = Console(no_color=True) if plain else Console()
    lines = Lines(sys.stdin)
    talk = Talk(console, input if at_terminal else _read, plain, waits=at_terminal and not plain)
    try:
        teach(talk, first)
        play(talk, entry.build(), entry.name, SystemRandom().getrandbits(31), lines)
    except Left as left:
        farewell(talk, [f"Go on later with: arena tutorial --from {left.number}"])
        return
    except KeyboardInterrupt:
        print()
        raise SystemExit(130) from None
    farewell(
        talk,
        [
            "Those are all the rules. Again, and harder: arena tutorial --from 11 --against mcts. "
            "On a real board: arena play mcts --size 9."
        ],
    )


def _read(prompt: str) -> str:
    """A line of a pipe; what was read stands in the output as if typed."""
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    print(f"{prompt}{line.rstrip()}")
    return line
