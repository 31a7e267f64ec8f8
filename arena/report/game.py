"""One game, printed: its positions, its faults, its analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from rich.console import Group
from rich.text import Text

from arena import plural
from arena.contract.settings import describe
from arena.go.coords import BLACK, WHITE, Colour, gtp_from_move, pass_move
from arena.go.record import GameRecord
from arena.go.sgf import Remark, move_notes, write_sgf
from arena.players.player import Player
from arena.report import style
from arena.report.board import SIGNS, Overlay, draw_board, ended, lead
from arena.report.style import Console
from arena.report.tables import Facts, Section, Sheet
from arena.results.analysis import LABELS, MISTAKE, Evaluation, PlayedMove, judge, mistakes, positions, scored, spelled


def show_details(record: GameRecord, players: Mapping[str, Player], console: Console) -> None:
    """Who played what, how it ended, the last position, what was written down of a fault, the SGF. ``players`` are by
    identity."""
    outcome = record.outcome
    facts = [
        ("Game", f"{record.id}; {style.setting(record.rules)}; {record.date}"),
        *((colour.name.title(), _player(record, colour, players)) for colour in Colour),
        ("Ending", record.reason or (str(outcome.ending) if outcome is not None else "unknown")),
    ]
    if console.is_terminal:
        console.print()
    console.print(Section(headline(record), Facts(facts)))
    console.print()
    print_position(record, len(record.moves), console)
    if record.fault_details.strip():
        console.print()
        for line in record.fault_details.rstrip().splitlines():
            console.say(line)
    elif outcome is not None and outcome.ending.is_forfeit:
        console.print()
        console.say("Only the reason was recorded.")
    console.print()
    console.say(write_sgf(record, move_notes(record)))


def headline(record: GameRecord) -> str:
    """How a game ended, and by whose fault."""
    outcome = record.outcome
    if outcome is None:
        return f"The ending of game {record.id} is unknown"
    if outcome.ending.is_forfeit:
        loser = record.white if outcome.winner is BLACK else record.black
        return f"{loser} forfeited game {record.id} at move {len(record.moves) + 1}: {outcome.ending}"
    return f"Game {record.id} ended without a fault: {outcome.brief} after {plural(len(record.moves), 'move')}"


def _player(record: GameRecord, colour: Colour, players: Mapping[str, Player]) -> str:
    """A player's name, settings, net, and the time it used."""
    black = colour is BLACK
    name, identity = (record.black, record.black_player) if black else (record.white, record.white_player)
    used = style.seconds(record.black_seconds if black else record.white_seconds)
    player = players.get(identity)
    if player is None:
        return f"{name}; {used} used"
    settings = {key: value for key, value in player.settings.items() if key != "checkpoint" and value not in ("", None)}
    listed = ", ".join(f"{key}={describe(key, value)}" for key, value in settings.items())
    net = f", net {player.net[:8]}" if player.net else ""
    return f"{name}: {player.kind}{f' ({listed})' if listed else ''}{net}; {used} used"


WITH_SCORE, WITH_LINE = 46, 72
"""Columns from which the table shows scores, and lines of play."""

LINE = 6
"""Moves of a line of play that are shown."""


def render_analysis(record: GameRecord, evaluations: Sequence[Evaluation], most: int, width: int) -> Group:
    """The moves of a game with what they cost; ``most`` mistakes of each side are marked. What matters less is left out
    where there is no room."""
    moves, size = judge(record, evaluations), record.rules.size
    worst = {colour: mistakes(moves, most, colour) for colour in Colour}
    columns = ["move", "", "Black %", "loss", "best"]
    with_score = width >= WITH_SCORE and any(evaluation.margin is not None for evaluation in evaluations)
    with_line = width >= WITH_LINE and any(len(evaluation.line) > 1 for evaluation in evaluations)
    columns += ["score"] * with_score + ["instead"] * with_line
    rows = []
    for evaluation in evaluations:
        score = "" if evaluation.margin is None else scored(evaluation.margin)
        share, line = f"{100 * evaluation.win_rate:.1f}", ""
        cells = ("0", "", share, "", "")
        if evaluation.number:
            move = moves[evaluation.number - 1]
            mark = " !" if move in worst[move.colour] else ""
            name = f"{move.colour.letter} {gtp_from_move(move.move, size)}"
            best = gtp_from_move(move.before.best, size) + mark
            cells = (str(move.number), name, share, _points(move.loss), best)
            line = "" if move.is_best else spelled(move.before.line, size, LINE)
        rows.append((*cells, *[score] * with_score, *[line] * with_line))
    label = "Black wins "
    step = max(1, -(-len(evaluations) // max(1, width - len(label))))
    note = (
        "Black %: Black's win rate after the move, by the search. Score: who leads then, by how many points, by "
        "predicted owners and komi, whoever is to move; near 50 % the two may disagree. "
        "Loss: win rate that the move cost its player, in points. '!' marks the largest mistakes."
    )
    return Group(
        Sheet(tuple(columns), rows, flexible=(len(columns) - 1,) if with_line else (), numbers=(0, 2, 3)),
        Text(),
        Text(label + style.sparkline([evaluation.win_rate for evaluation in evaluations[::step]], width)),
        *(Text(_losses(found, colour, moves, size)) for colour, found in worst.items()),
        Text(note, style.LABEL),
    )


def _losses(worst: Sequence[PlayedMove], colour: Colour, moves: Sequence[PlayedMove], size: int) -> str:
    """What a side's moves cost, and its largest mistakes."""
    own = [move for move in moves if move.colour is colour]
    lost = sum(max(0.0, move.loss) for move in own) / max(1, len(own))
    words = f"{colour.name.title()} lost {100 * lost:.1f} points of win rate per move; "
    words += f"{sum(move.is_best for move in own)} of {len(own)} moves were the bot's own choice."
    listed = [
        f"{move.number} {gtp_from_move(move.move, size)} -{100 * move.loss:.1f}"
        f" ({gtp_from_move(move.before.best, size)} was better)"
        for move in worst
    ]
    return words + (f" The largest mistake{'s' * (len(listed) > 1)}: {', '.join(listed)}." if listed else "")


def analysis_headline(record: GameRecord, bot: str) -> str:
    """Which game is analysed, by whom."""
    names = f"{record.black or 'Black'} - {record.white or 'White'}"
    rules = record.rules
    result = "" if record.outcome is None else f", {record.outcome.sgf}"
    handicap = f", {len(record.setup[0])} stones of handicap" if record.setup[0] and not record.setup[1] else ""
    setting = f"{rules.size}x{rules.size}, komi {rules.komi:g}, {rules.name}{handicap}"
    return f"{names}{result} ({setting}), analysed by {bot}"


def _points(loss: float) -> str:
    return f"{round(100 * loss, 1) + 0.0:.1f}"  # no minus before a zero


# --- A game position by position ---


Replayed = tuple[np.ndarray, tuple[int, int]]
"""The stones, and the prisoners that Black and White have taken."""


def replayed(record: GameRecord) -> list[Replayed]:
    """The positions before the first move, after it, and so on. Raises RecordError."""
    return [
        (game.board.stones, (game.captured_stones(BLACK), game.captured_stones(WHITE))) for game in positions(record)
    ]


def costs(record: GameRecord, win_rates: Sequence[float | None], by_players: bool = False) -> dict[int, float]:
    """What moves cost those who played them, by their numbers, where the win rates (Black's) before and after are
    known. ``by_players`` have each win rate from who has just moved: then a move costs what its player reports less at
    its next move, as two players' win rates can't be compared."""
    found = {}
    steps = zip(win_rates[1:], win_rates[3:], strict=False) if by_players else pairwise(win_rates)
    for number, (before, after) in enumerate(steps, 1):
        if before is not None and after is not None:
            found[number] = (before - after) * (1 if record.mover(number) is BLACK else -1)
    return found


def move_lines(record: GameRecord, start: int, end: int, width: int) -> list[str]:
    """The moves after ``start`` up to number ``end`` in columns: ``1 ● E5    2 ○ C3``, as many as fit."""
    size, digits = record.rules.size, len(str(end))
    items = [
        f"{number:>{digits}} {SIGNS[record.mover(number)]} {gtp_from_move(move, size):<4}"
        for number, move in enumerate(record.moves[start:end], start + 1)
    ]
    row = max(1, (width + 2) // (digits + 9))
    return ["  ".join(items[at : at + row]).rstrip() for at in range(0, len(items), row)]


def game_title(record: GameRecord, width: int) -> list[Text]:
    """Who played, and how it ended."""
    names = [
        style.shorten(f"{name} {rank}".strip(), max(6, width // 2 - 2))
        for name, rank in ((record.black, record.black_rank), (record.white, record.white_rank))
    ]
    signs = [SIGNS[colour] for colour in Colour]
    who = Text(no_wrap=True).append(style.spell(f"{signs[0]} {names[0] or 'Black'}"), "bold")
    who.append(style.spell(f"  {signs[1]} {names[1] or 'White'}"), "bold")
    about = [ended(record), f"{record.rules.name} rules, komi {record.rules.komi:g}", record.date, record.id]
    return [who, *style.said(style.joined(about, width), width, style.LABEL)]


def position_facts(
    record: GameRecord, number: int, position: Replayed, remark: Remark, cost: float, by_players: bool, width: int
) -> list[Text]:
    """Which move it is, what was taken, who is ahead, and what the move cost, as ``costs`` has it."""
    words = f"the beginning; {plural(len(record.moves), 'move')} follow"
    if number:
        move = gtp_from_move(record.moves[number - 1], record.rules.size)
        words = f"move {number} of {len(record.moves)}: {SIGNS[record.mover(number)]} {move}"
    taken = f"taken: {SIGNS[BLACK]} {position[1][0]} · {SIGNS[WHITE]} {position[1][1]}"
    lines = style.said(words, width, "bold") + style.said(taken, width)
    if remark.win_rate is not None:
        ahead = "" if remark.margin is None else f", {lead(remark.margin)}"
        lines += style.said(f"Black wins {remark.win_rate:.0%}{ahead}", width)
    if cost >= MISTAKE:
        words = f"this move cost {cost:.0%} of win rate"
        if by_players:
            words = f"{cost:.0%} of win rate less reported at its player's next move"
        lines += style.said(words, width, style.WARNING)
    return lines


def print_position(
    record: GameRecord, number: int, console: Console, remarks: Sequence[Remark] = (), by_players: bool = False
) -> None:
    """The board after a number of moves, and what is known of it."""
    remark, position = remarks[number] if number < len(remarks) else Remark(), replayed(record)[number]
    cost = costs(record, [one.win_rate for one in remarks], by_players).get(number, 0.0)
    board = draw_board(
        position[0],
        record.moves[number - 1] if number else None,
        ownership=remark.ownership,
        overlay=Overlay(letters=remark.letters),
        colours=style.has_colours(console),
    )
    facts = position_facts(record, number, position, remark, cost, by_players, console.width)
    console.print(*board, Text(), *facts, sep="\n")


def print_game(record: GameRecord, remarks: Sequence[Remark], number: int, by_players: bool, console: Console) -> None:
    """The position after a number of moves as a diagram, what is known of it, and the moves that led to it."""
    console.print(*game_title(record, console.width), Text(), sep="\n")
    print_position(record, number, console, remarks, by_players)
    if number < len(remarks) and remarks[number].comment:
        console.print()
        for words in remarks[number].comment.splitlines():
            console.say(words)
    if number:
        console.print()
    for words in move_lines(record, 0, number, console.width):
        console.print(Text(words))


def remarks_of_players(record: GameRecord) -> list[Remark]:
    """What the players of a stored game reported of its positions, none where they reported nothing."""
    remarks = [Remark()] * bool(record.facts)
    for number, fact in enumerate(record.facts, 1):
        black = record.mover(number) is BLACK
        rate, score = fact.win_rate, fact.score
        words = [] if fact.visits is None else [plural(fact.visits, "visit")]
        words += [] if fact.seconds is None else [style.seconds(fact.seconds)]
        remarks.append(
            Remark(
                comment=", ".join(words),
                win_rate=rate if rate is None or black else 1 - rate,
                margin=score if score is None or black else -score,
            )
        )
    return remarks


def remarks_of(record: GameRecord, evaluations: Sequence[Evaluation]) -> list[Remark]:
    """What a bot's evaluations say, for the positions from the first on that it has evaluated."""
    played = {move.number: move for move in judge(record, evaluations)}
    return [_remark(evaluation, played.get(evaluation.number), record.rules.size) for evaluation in evaluations]


def _remark(evaluation: Evaluation, move: PlayedMove | None, size: int) -> Remark:
    best = [candidate.move for candidate in evaluation.candidates] or [evaluation.best]
    ownership = None
    if evaluation.ownership is not None:
        ownership = np.rint(100 * np.clip(evaluation.ownership, -1, 1)).astype(np.int8).tobytes()
    words = []
    if move is not None and move.is_mistake:
        words.append(f"instead of {gtp_from_move(move.move, size)}: {spelled(move.before.line, size)}")
    words.append(f"expected: {spelled(evaluation.line, size)}")
    return Remark(
        comment="\n".join(words),
        win_rate=evaluation.win_rate,
        margin=evaluation.margin,
        letters={one: letter for one, letter in zip(best, LABELS, strict=False) if one != pass_move(size)},
        ownership=ownership,
        instead=() if move is None or move.is_best else tuple(move.before.line),
    )
