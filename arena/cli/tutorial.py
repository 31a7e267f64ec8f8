"""The part of ``arena play`` that teaches the rules."""

from __future__ import annotations

import sys
from pathlib import Path

from arena.cli.options import registry_of


def teach_rules(against: str, first: int, plain: bool, results: Path, config: Path | None) -> None:
    """The tutorial from screen ``first`` on, then a game against this bot; in a terminal or a pipe. Raises UserError
    for a bot that can't be played on its board."""
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
        farewell(talk, [f"Go on later with: arena play --tutorial --from {left.number}"])
        return
    except KeyboardInterrupt:
        print()
        raise SystemExit(130) from None
    farewell(
        talk,
        [
            "Those are all the rules. Again, and harder: arena play mcts --tutorial --from 11. "
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
