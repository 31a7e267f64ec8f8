"""One stored game: what is known of it, above all of one that a fault ended, and how it came out when played again."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import replace

from rich.console import Console

from arena.contract.code import Player
from arena.events.runner import Update
from arena.go.moves import BLACK, Colour, gtp_from_move
from arena.go.record import Record
from arena.results.replay import Comparison
from arena.screen import style
from arena.screen.board import draw_board, stone_sign
from arena.screen.progress import show_bar
from arena.screen.style import some
from arena.screen.tables import print_facts


def show_dossier(record: Record, players: Mapping[str, Player], command: str, console: Console) -> None:
    """Who played what, how it ended, the last position, what was written down of a fault, the SGF; ``command`` plays
    the game again. ``players`` are by identity."""
    outcome, rules = record.outcome, record.rules
    facts = [
        ("Game", f"{record.id}; {rules.size}x{rules.size}, {rules.name} rules, komi {rules.komi:g}; {record.date}"),
        *((colour.name.title(), _player(record, colour, players)) for colour in Colour),
        ("Ending", record.reason or (str(outcome.ending) if outcome is not None else "unknown")),
        ("Again", command),
    ]
    print_facts(headline(record), facts, console)
    console.print()
    print_position(record, len(record.moves), console)
    if record.dossier.strip():
        console.print()
        for line in record.dossier.rstrip().splitlines():
            style.say(line, console)
    elif outcome is not None and outcome.ending.is_forfeit:
        console.print()
        style.say("Nothing was written down but the reason.", console)
    console.print()
    style.say(record.to_sgf(), console)


def print_position(record: Record, number: int, console: Console) -> None:
    """The board after so many moves of a game, the last of them marked and named, and who was to play."""
    ascii_only = console.options.ascii_only
    moves, size = record.moves[:number], record.rules.size
    game = replace(record, moves=moves, outcome=None).replay()
    for line in draw_board(game.board.stones, moves[-1] if moves else None, ascii_only=ascii_only):
        console.print(line)
    turns = [(colour, record.black if colour is BLACK else record.white) for colour in Colour]
    turn, player = turns[0 if game.to_play is BLACK else 1]
    words = f"after {some(number, 'move')}"
    if moves:
        words += f", the last {stone_sign(turn.opponent, ascii_only)} {gtp_from_move(moves[-1], size)}"
    if not game.is_over:
        words += f"; {stone_sign(turn, ascii_only)} {player} to play"
    style.say(words, console)


def headline(record: Record) -> str:
    """How a game ended, and by whose fault."""
    outcome = record.outcome
    if outcome is None:
        return f"Nobody knows how game {record.id} ended"
    if outcome.ending.is_forfeit:
        return f"{loser(record)} forfeited game {record.id} at move {len(record.moves) + 1}: {outcome.ending}"
    return f"Game {record.id} ended without a fault: {outcome.brief} after {some(len(record.moves), 'move')}"


def loser(record: Record) -> str:
    """Who lost; empty for a draw or an unknown outcome."""
    winner = record.outcome.winner if record.outcome is not None else None
    return "" if winner is None else record.white if winner is BLACK else record.black


def _player(record: Record, colour: Colour, players: Mapping[str, Player]) -> str:
    """A player's name, settings, net, and the time it used."""
    black = colour is BLACK
    name, identity = (record.black, record.black_player) if black else (record.white, record.white_player)
    used = style.seconds(record.black_seconds if black else record.white_seconds)
    player = players.get(identity)
    if player is None:
        return f"{name}; {used} used"
    settings = json.loads(player.config)
    settings.pop("checkpoint", None)
    listed = ", ".join(f"{key}={value}" for key, value in settings.items() if value not in ("", None))
    net = f", net {player.checkpoint[:8]}" if player.checkpoint else ""
    return f"{name}: {player.kind}{f' ({listed})' if listed else ''}{net}; {used} used"


# --- Played again ---


def show_replay(
    stored: Mapping[str, Record], updates: Generator[Update, None, None], console: Console, show: bool = False
) -> list[Comparison]:
    """Show games by their ids as they are played again, with ``show`` the position where each ends or differs. With
    several, a line for each that differs."""
    compared = []
    total = sum(len(record.moves) for record in stored.values())
    with show_bar("", total, console) as (bar, task):
        far: dict[str, int] = {}
        for update in updates:
            for glance in update.glances:
                far[glance.pairing.id] = min(len(glance.moves), len(stored[glance.pairing.id].moves))
            for again in update.records:
                assert isinstance(again, Record)  # nothing was played before
                found = Comparison.of(stored[again.id], again)
                far[again.id] = len(found.stored.moves)
                compared.append(found)
                if len(stored) == 1 or not found.is_identical:
                    style.say(f"{again.id}  {found}", bar.console)
                if show:
                    print_position(found.again, found.common, bar.console)
            words = f"{len(compared)} of {len(stored)} games" if len(stored) > 1 else "move"
            bar.update(task, completed=sum(far.values()), description=words)
    return compared
