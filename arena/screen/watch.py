"""An event that another process plays, shown as that process shows it, and how it came to its end."""

from __future__ import annotations

from rich.console import Console

from arena.events.schedule import Ladder, Match, Tournament
from arena.results.live import End, Watch
from arena.screen import style
from arena.screen.board import DARK, Theme
from arena.screen.match import show_match
from arena.screen.tournament import show_tournament


def show_watched(event: Match | Tournament | Ladder, watch: Watch, console: Console, theme: Theme = DARK) -> None:
    """Show an event until it ends or nobody plays it any more. Ctrl-C and the key to quit come through as
    KeyboardInterrupt; the event goes on."""
    live = watch.look.live
    if isinstance(event, Match):
        games = show_match(event, watch.updates(), console, watch.clock, theme=theme).stored
    else:
        games = show_tournament(event, watch.updates(), console, watch.clock, theme=theme).stored
    go_on = f"; go on with: {live.command}" if live.command else "; the same command plays the rest"
    stored = f"{games} of {event.games} games are stored{go_on}"
    match watch.end:
        case End.STOPPED:
            words = f"The event was stopped. {stored}"
        case End.DIED:
            words = f"The process that played it ({live.process}) has died. {stored}"
        case _:
            return
    style.say(words, console)
