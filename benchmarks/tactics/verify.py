"""Confirm the answers: every legal move searched, the position searched deeply, and GNU Go's own reading."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from arena.contract.bot import Limits
from arena.contract.code import find_program
from arena.go.game import Game
from arena.go.moves import BLACK, Move, gtp_from_move, move_from_gtp
from benchmarks.tactics.positions import Position
from bots.uct import Config, Uct

SHALLOW, DEEP = 1_000, 100_000
"""Simulations for each legal move, and for the question itself."""

GAP = 0.1
"""How much more often a right move wins, at the least, than any other; in win rates of searches. Where dead stones have
yet to be taken these are far from 0 and 1, as playouts blunder there."""


def verify(positions: Sequence[Position]) -> int:
    """Print what was found of each position; 1 when an answer isn't confirmed, else 0."""
    failed = 0
    for position in positions:
        faults, findings = confirm(position)
        failed += bool(faults)
        print(f"{position.category}, {position.name}: {'; '.join(findings)}{_told(faults)}", flush=True)
    print(f"{len(positions) - failed} of {len(positions)} are confirmed")
    return 1 if failed else 0


def _told(faults: list[str]) -> str:
    return f" -- WRONG: {'; '.join(faults)}" if faults else ""


def confirm(position: Position, shallow: int = SHALLOW, deep: int = DEEP) -> tuple[list[str], list[str]]:
    """What speaks against the answer, and what was found."""
    game = position.game()
    size = position.rules.size
    rates = {int(move): win_rate(game, int(move), shallow) for move in game.legal_moves().nonzero()[0]}
    right = min(rates[move] for move in position.right)
    other, rival = max(((rate, move) for move, rate in rates.items() if move not in position.right), default=(0.0, -1))
    findings = [f"right moves win {right:.2f} or more, others {other:.2f} at most"]
    faults = []
    if right - other < GAP:
        faults.append(f"{gtp_from_move(rival, size)} wins as well")
    bot = Uct(Config(max_tree_mb=1024, stop_early=False))
    best = bot.choose(game, Limits(simulations=deep)).move
    bot.close()
    if best not in position.right:
        faults.append(f"{deep} simulations play {'resign' if best is None else gtp_from_move(best, size)}")
    if position.reading:
        read = gnugo(position)
        if read is None:
            findings.append("GNU Go isn't installed")
        else:
            findings.append(f"GNU Go's {position.reading}: {read}")
            answer = read.split()
            if len(answer) < 2 or move_from_gtp(answer[1], size) not in position.right:
                faults.append("GNU Go reads it otherwise")
    return faults, findings


def win_rate(game: Game, move: Move, simulations: int) -> float:
    """How often the side to move wins after ``move``, by a search of the answers."""
    after = game.copy()
    after.play(move)
    if after.outcome is not None:
        black = after.outcome.black_score
        return black if game.to_play is BLACK else 1 - black
    bot = Uct(Config(max_tree_mb=256, stop_early=False))
    rate = bot.choose(after, Limits(simulations=simulations)).win_rate
    bot.close()
    return 1 - (0.5 if rate is None else rate)


def gnugo(position: Position) -> str | None:
    """GNU Go's answer to the position's reading, such as ``1 D4``; None where GNU Go isn't installed."""
    program = find_program("gnugo")
    if program is None:
        return None
    size = position.rules.size
    commands = [f"boardsize {size}", "clear_board", f"komi {position.rules.komi:g}"]
    game = position.game()
    for move, stone in enumerate(game.board.stones.reshape(-1)):
        if stone:
            commands.append(f"play {'black' if stone == BLACK else 'white'} {gtp_from_move(move, size)}")
    commands += [position.reading, "quit"]
    done = subprocess.run(
        [program, "--mode", "gtp"], input="\n".join(commands) + "\n", capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip().split("\n\n")[-2].lstrip("=? ").strip()
