"""Check a player before an event: it plays the first moves of a game against itself, as in an event."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic

from arena import ArenaError
from arena.contract.adjudication import OFF
from arena.contract.bot import describe_error
from arena.contract.finding import Finding, StepStatus
from arena.go.game import Ending, Rules
from arena.go.record import GameRecord
from arena.match.crew import Crew
from arena.match.schedule import Pairing, Terms
from arena.players.player import Player

MOVES = 12  # moves of the game
LONGEST_MOVE = 20.0  # seconds that a move may take, besides twice those that the player has for it, without a deadline


def probe(player: Player, rules: Rules) -> Iterator[Finding]:
    """Play a short game in a worker process; yields a finding about the start, then one about the game. It stops at the
    first that failed. Closing the generator ends the worker and the processes that the bot started."""
    started = monotonic()
    records: list[GameRecord] = []
    try:
        player = player.checked(rules.size)
        limits, clock = player.limits, player.limits.start_clock()
        longest = LONGEST_MOVE + 2 * (limits.seconds or (clock.share(rules.size, 0) if clock else 0.0))
        patient = replace(player, limits=replace(limits, deadline=limits.deadline or longest))
        with Crew({player.name: patient}, Terms(replace(rules, move_limit=MOVES), adjudication=OFF), workers=1) as crew:
            crew.add([Pairing("check/00001", 0, player.name, player.name, (), seed=1)])
            is_running = False
            while not records:
                update = crew.poll(0.1)
                records += [record for record in update.records if isinstance(record, GameRecord)]
                if not is_running and (records or update.snapshots):
                    is_running = True
                    engine = player.code.partition(" ")[2] if player.bot_kind.external else ""
                    net = f"net {Path(player.settings['checkpoint']).name} ({player.net[:8]})" if player.net else ""
                    about = ", ".join(filter(None, (f"kind {player.kind}", engine, net)))
                    yield Finding("start", StepStatus.OK, f"{about}, in {monotonic() - started:.1f} s")
    except ArenaError as error:
        yield Finding("start", StepStatus.FAILED, describe_error(error))
        return
    yield _judge(player, records[0])


def _judge(player: Player, record: GameRecord) -> Finding:
    outcome = record.outcome
    assert outcome is not None
    if outcome.ending.is_forfeit:
        reason = record.reason.removeprefix(f"{player.name}: ")
        if outcome.ending is Ending.TIME and player.limits.deadline is None:
            reason += f"; if it is slow, give it longer: {player.name}@deadline=60"
        return Finding("game", StepStatus.FAILED, reason, "" if player.bot_kind.external else record.fault_details)
    each = (record.black_seconds + record.white_seconds) / max(1, len(record.moves))
    words = f"{len(record.moves)} legal moves, {each:.2f} s each"
    if seconds := [stats.seconds for stats in record.facts if stats.seconds is not None]:
        words += f", {max(seconds):.2f} s the slowest"
    columns = zip(("win rates", "scores", "visits"), zip(*record.facts, strict=True), strict=False)
    if reported := [name for name, values in columns if any(value is not None for value in values)]:
        words += f"; reports {', '.join(reported)}"
    if outcome.ending is Ending.MOVE_LIMIT:
        return Finding("game", StepStatus.OK, words)
    return Finding("game", StepStatus.NOTE, f"{words}; it ended early: {outcome.ending}")
