"""One game, printed: its positions, its faults, its analysis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from rich.columns import Columns
from rich.console import Group
from rich.text import Text

from arena import plural
from arena.go.coords import BLACK, WHITE, Colour, gtp_from_move
from arena.go.game import Ending, Outcome
from arena.go.record import GameRecord
from arena.go.sgf import Remark, move_notes, write_sgf
from arena.report import style
from arena.report.board import SIGNS, Overlay, draw_board
from arena.report.chart import WinRateCurve
from arena.report.style import Console
from arena.report.tables import Table
from arena.results.analysis import MISTAKE, Evaluation, format_line, format_margin, judge_moves, mistakes, positions


def show_details(record: GameRecord, console: Console) -> None:
    """The game as ``print_game`` shows its end, what was written down of a fault, and the SGF."""
    print_game(record, (), len(record.moves), False, console)
    console.print()
    for line in (*record.fault_details.splitlines(), write_sgf(record, move_notes(record))):
        console.print_line(line)


def render_analysis(record: GameRecord, evaluations: Sequence[Evaluation], most: int) -> Group:
    """The moves of a game with what they cost; ``most`` mistakes of each side are marked."""
    moves, size = judge_moves(record, evaluations), record.rules.size
    worst = {move.number for colour in Colour for move in mistakes(moves, most, colour)}
    rows = []
    for evaluation in evaluations:
        name = loss = best = line = ""
        score = "" if evaluation.margin is None else format_margin(evaluation.margin)
        if evaluation.number:
            move = moves[evaluation.number - 1]
            name = f"{move.colour.letter} {gtp_from_move(move.move, size)}"
            loss = f"{round(100 * move.loss, 1) + 0.0:.1f}"  # no minus before a zero
            best = gtp_from_move(move.before.best, size) + " !" * (move.number in worst)
            line = "" if move.is_best else format_line(move.before.line, size, 6)
        rows.append((str(evaluation.number), name, f"{100 * evaluation.win_rate:.1f}", loss, best, score, line))
    sums = []
    for colour in Colour:
        own = [move for move in moves if move.colour is colour]
        lost = sum(max(0.0, move.loss) for move in own) / max(1, len(own))
        best_moves = f"{sum(move.is_best for move in own)} of {len(own)} moves were the bot's own choice."
        sums.append(f"{colour.name.title()} lost {100 * lost:.1f} points of win rate per move; {best_moves}")
    note = (
        "Black %: Black's win rate after the move, by the search. Score: who leads then, by how many points, by "
        "predicted owners and komi, whoever is to move; near 50 % the two may disagree. "
        "Loss: win rate that the move cost its player, in points. '!' marks the largest mistakes."
    )
    columns = ("move", "", "Black %", "loss", "best", "score", "instead")
    curve = WinRateCurve([evaluation.win_rate for evaluation in evaluations], mistakes=worst)
    return Group(Table(columns, rows, "\n".join([*sums, note]), (6,), (0, 2, 3)), Text(), curve)


Replayed = tuple[np.ndarray, tuple[int, int]]  # the stones, and the prisoners that Black and White have taken


def replayed(record: GameRecord) -> list[Replayed]:
    """The positions before the first move, after it, and so on. Raises RecordError."""
    return [
        (game.board.stones, (game.captured_stones(BLACK), game.captured_stones(WHITE))) for game in positions(record)
    ]


def remark_of(evaluation: Evaluation, size: int) -> Remark:
    """An evaluation as a remark: the bot's best moves, its line, win rate, score and ownership."""
    owned = evaluation.ownership
    best = [candidate.move for candidate in evaluation.candidates] or [evaluation.best]
    return Remark(
        f"Expected of {evaluation.to_play.name.title()}: {format_line(evaluation.line, size)}",
        evaluation.win_rate,
        evaluation.margin,
        {move: letter for move, letter in zip(best, "ABC", strict=False) if move < size * size},
        ownership=None if owned is None else np.rint(100 * owned).astype(np.int8).tobytes(),
    )


def costs(record: GameRecord, remarks: Sequence[Remark], by_players: bool) -> dict[int, float]:
    """By number, the win rate that a move cost its player, where it is known before and after. None is known if rates
    are ``by_players``, who can't be compared."""
    found = {}
    for number, (before, after) in enumerate(pairwise(remark.win_rate for remark in remarks), 1):
        if before is not None and after is not None and not by_players:
            found[number] = (before - after) * (1 if record.mover(number) is BLACK else -1)
    return found


def move_columns(record: GameRecord, start: int, end: int) -> Columns:
    """The moves after ``start`` up to number ``end``: ``1 ● E5  2 ○ C3``, as many in a line as fit."""
    moves = [
        Text(f"{number} {SIGNS[record.mover(number)]} {gtp_from_move(move, record.rules.size)}")
        for number, move in enumerate(record.moves[start:end], start + 1)
    ]
    return Columns(moves, equal=True, padding=(0, 2))


def game_title(record: GameRecord) -> Text:
    """Who played, and how it ended."""
    black, white = f"{record.black} {record.black_rank}".strip(), f"{record.white} {record.white_rank}".strip()
    names = f"{SIGNS[BLACK]} {black or 'Black'}  {SIGNS[WHITE]} {white or 'White'}"
    terms = style.rules_words(record.rules, record.handicap).partition(", ")[2]
    about = [ended(record), terms, record.date, record.id]
    return style.text(names, "bold").append(f"\n{style.sanitize(' · '.join(filter(None, about)))}", style.LABEL)


def result_words(outcome: Outcome) -> str:
    """``Black won by 3.5 points``, ``White won by resignation``, ``draw``."""
    if outcome.winner is None:
        return "draw"
    ways = {Ending.RESIGN: "by resignation", Ending.TIME: "on time", Ending.ADJUDICATED: "by adjudication"}
    way = ways.get(outcome.ending, "by forfeit" if outcome.ending.is_forfeit else "")
    if outcome.margin is not None:
        way = f"by {plural(abs(outcome.margin), 'point')}"
        way += " at the move limit" if outcome.ending is Ending.MOVE_LIMIT else ""
    return f"{outcome.winner.name.title()} won {way}".rstrip()


def ended(record: GameRecord) -> str:
    """How a game ended, and why where a reason was recorded."""
    if record.outcome is None:
        return "no result"
    return result_words(record.outcome) + (f" ({record.reason})" if record.reason else "")


def position_facts(record: GameRecord, number: int, position: Replayed, remark: Remark, cost: float) -> Text:
    """Which move it is, what was taken, who is ahead, and what the move cost, as ``costs`` has it."""
    words = f"the beginning; {plural(len(record.moves), 'move')} follow"
    if number:
        move = gtp_from_move(record.moves[number - 1], record.rules.size)
        words = f"move {number} of {len(record.moves)}: {SIGNS[record.mover(number)]} {move}"
    facts = style.text(words, "bold")
    facts.append(f"\ntaken: {SIGNS[BLACK]} {position[1][0]} · {SIGNS[WHITE]} {position[1][1]}")
    if remark.win_rate is not None:
        facts.append(f"\nBlack wins {remark.win_rate:.0%}")
        if (margin := remark.margin) is not None:
            lead, _, points = format_margin(margin).partition("+")
            facts.append(f", {'Black' if lead == 'B' else 'White'} leads by {points}" if points else ", nobody leads")
    if cost >= MISTAKE:
        facts.append(f"\nthis move cost {cost:.0%} of win rate", style.WARNING)
    return facts


def print_game(record: GameRecord, remarks: Sequence[Remark], number: int, by_players: bool, console: Console) -> None:
    """The position after a number of moves as a diagram, what is known of it, and the moves that led to it."""
    remark, position = remarks[number] if number < len(remarks) else Remark(), replayed(record)[number]
    cost = costs(record, remarks, by_players).get(number, 0.0)
    last, overlay = record.moves[number - 1] if number else None, Overlay(letters=remark.letters, policy=remark.policy)
    colours = style.has_colours(console)
    board = draw_board(position[0], last, ownership=remark.ownership, overlay=overlay, colours=colours)
    parts = [game_title(record), Text(), *board, Text(), position_facts(record, number, position, remark, cost)]
    console.print(*parts, *([Text(), style.text(remark.comment)] if remark.comment else []), sep="\n")
    if number:
        console.print(Text(), move_columns(record, 0, number), sep="\n")
