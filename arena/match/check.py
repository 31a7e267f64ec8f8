"""Check a player before an event: it plays the first moves of a game against itself, as in an event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic

from arena import ArenaError
from arena.contract.adjudication import OFF
from arena.contract.bot import fault_words
from arena.contract.finding import Finding, Verdict
from arena.contract.limits import Limits
from arena.go.game import Ending, Rules
from arena.go.record import GameRecord
from arena.match.crew import Crew
from arena.match.schedule import Pairing
from arena.players.player import Player

MOVES = 12  # moves of the game

LONGEST_MOVE = 20.0
"""Seconds that a move may take here, besides twice those that the player is given, where it has no deadline."""

TICK = 0.1


def probe(player: Player, rules: Rules) -> Iterator[Finding]:
    """Play a short game in a worker process, and yield what was seen: of the start, then of the game. One that failed
    is the last. Closing the generator ends the worker and what the bot started."""
    started = monotonic()
    try:
        player = player.checked(rules.size)
    except ArenaError as error:
        yield Finding("start", Verdict.FAILED, str(error))
        return
    name, limits = player.name, player.limits
    patient = replace(player, limits=replace(limits, deadline=limits.deadline or _longest_move(limits, rules.size)))
    with Crew({name: patient}, replace(rules, move_limit=MOVES), OFF, workers=1) as crew:
        crew.add([Pairing("check/00001", 0, name, name, (), seed=1)])
        records: list[GameRecord] = []
        has_started = False
        try:
            while not records:
                progress = crew.poll(TICK)
                records += progress.records
                if not has_started and (records or progress.snapshots):
                    has_started = True
                    yield Finding("start", Verdict.OK, f"{_about(player)}, in {monotonic() - started:.1f} s")
        except ArenaError as error:
            yield Finding("start", Verdict.FAILED, fault_words(error))
            return
    yield _judge(player, records[0])


def _about(player: Player) -> str:
    """What plays: its kind, the name and version of an engine, its net."""
    words = [f"kind {player.kind}"]
    if player.bot_kind.external:
        words.append(player.code.partition(" ")[2])
    if player.net:
        folder = Path(player.settings["checkpoint"]).name
        words.append(f"net {'' if folder == player.net else f'{folder} '}({player.net[:8]})")
    return ", ".join(filter(None, words))


def _longest_move(limits: Limits, size: int) -> float:
    """Seconds after which a move forfeits: an event waits longer for a player without a deadline."""
    clock = limits.start_clock()
    return LONGEST_MOVE + 2 * (limits.seconds or (clock.share(size, 0) if clock else 0.0))


def _judge(player: Player, record: GameRecord) -> Finding:
    """What the game says of its player."""
    outcome, stats = record.outcome, record.facts
    assert outcome is not None
    if outcome.ending.is_forfeit:
        reason = record.reason.removeprefix(f"{player.name}: ")
        if outcome.ending is Ending.TIME and player.limits.deadline is None:
            reason += f"; if it is slow, give it longer: {player.name}@deadline=60"
        return Finding("game", Verdict.FAILED, reason, "" if player.bot_kind.external else record.fault_details)
    words, moves = f"{len(record.moves)} legal moves", max(1, len(record.moves))
    words += f", {(record.black_seconds + record.white_seconds) / moves:.2f} s each"
    if seconds := [each.seconds for each in stats if each.seconds is not None]:
        words += f", {max(seconds):.2f} s the slowest"
    told = {"win rates": "win_rate", "scores": "score", "visits": "visits"}
    reported = [name for name, field in told.items() if any(getattr(each, field) is not None for each in stats)]
    if reported:
        words += f"; reports {', '.join(reported)}"
    if outcome.ending is Ending.MOVE_LIMIT:
        return Finding("game", Verdict.OK, words)
    return Finding("game", Verdict.NOTE, f"{words}; it ended early: {outcome.ending}")
