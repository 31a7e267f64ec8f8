"""A running event: its figures on a screen, and the lines that a pipe gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain

from rich.cells import cell_len
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid
from rich.text import Text

from arena import plural
from arena.go.coords import Colour, gtp_from_move
from arena.match.runner import Update
from arena.match.schedule import Match
from arena.match.standings import Standings
from arena.match.swiss import Swiss
from arena.report import style
from arena.report.board import SIGNS
from arena.report.chart import draw_course
from arena.report.style import Console
from arena.report.tables import WHENEVER, Table, render
from arena.report.text import summary, title
from arena.results.event_state import EventState, LiveBoard

PAUSED = "PAUSED: no bot is asked for a move and no clock runs"
STARTING = "starting; the first run on a machine compiles for up to a minute"

LINE_SECONDS = 5.0  # between two lines, at least; a hundredth of the time played when that is more
LEAST_CURVE = 9  # lines of a curve with its title and axis, at least
LONG_NAME, BAR, FEW = 24, 30, 8


def header(state: EventState) -> list[RenderableType]:
    """The title, a progress bar, the pace, and what should be known."""
    names, total, terms = list(state.event.players), state.event.games, state.event.terms
    name, setting = style.text(state.event.event, "bold"), style.rules_words(terms.rules, terms.handicap)
    if isinstance(state.event, Match):
        name = style.text(names[0], style.FIRST).append(" vs ", style.LABEL)
        name.append(style.sanitize(names[1]), style.SECOND)
    else:
        setting = f"{state.event.style}, {plural(len(names), 'bot')}, {setting}"
    top = Grid.grid(expand=True, padding=(0, 1, 0, 0))
    top.add_column(overflow="fold")
    top.add_column(justify="right", overflow="fold")
    top.add_row(name, style.text(setting, style.LABEL))
    progress = Grid.grid(expand=True, padding=(0, 2, 0, 0))
    progress.add_column(ratio=1)
    ink = style.FIRST.removeprefix("bold ")
    bar = ProgressBar(max(1, total), min(state.stored, total), complete_style=ink, finished_style=ink)
    progress.add_row(bar, Text(f"{state.stored:{len(str(total))}d} of {total}", "bold"))
    pace = style.text(STARTING if state.is_starting else pace_words(state), style.LABEL)
    lines: list[RenderableType] = [top, progress, style.text(PAUSED, style.WARNING) if state.is_paused else pace]
    warning = warning_words(state)
    return [*lines, style.text(f"! {warning}", style.WARNING)] if warning else lines


def figures(state: EventState) -> list[RenderableType]:
    """The first sections of the event's report, below the LLR of a sequential test, and the last games."""
    return [*_test(state.standings), render(summary(state.standings)), Text(), recent_games(state, FEW)]


def _test(standings: Standings) -> list[Text]:
    """The log-likelihood ratio of a sequential test as a bar from 0, between its bounds; empty without a test."""
    if standings.test is None:
        return []
    (lower, upper), state = standings.test.test.bounds, standings.test.state
    llr = 0.0 if state is None else state.llr
    zero, mark = (round((BAR - 1) * min(1.0, max(0.0, (x - lower) / (upper - lower)))) for x in (0.0, llr))
    line = Text(f"LLR {lower:.2f} ", style.LABEL, no_wrap=True)
    for cell in range(BAR):
        if min(zero, mark) <= cell <= max(zero, mark):
            line.append("┃" if cell == zero else "━", style.FIRST if llr >= 0 else style.SECOND)
        else:
            line.append("─", style.LABEL)
    return [line.append(f" {upper:.2f}", style.LABEL).append(f"  {llr:+.2f}", "bold")]


def curve(state: EventState, width: int, height: int) -> list[Text]:
    """The Elo over the games; empty where there is no room for it."""
    if height < LEAST_CURVE:
        return []
    names, rows = list(state.event.players), height - 3
    words = f"Elo of {style.shorten(names[0], LONG_NAME)} over the games"
    if not state.standings.is_match:
        names, words = state.ranking, "Elo over the games"
        rows -= 1 + sum(cell_len(name) + 4 for name in names) // max(1, width)
    return [style.line(words, style.LABEL), *draw_course(state.course, names, width, max(LEAST_CURVE - 3, rows))]


def recent_games(state: EventState, most: int) -> Table:
    rows = []
    for record in list(state.recent)[:most]:
        if (outcome := record.outcome) is not None:
            names = (style.shorten(name, LONG_NAME) for name in (record.black, record.white))
            rows.append((*names, outcome.brief, str(record.length), str(outcome.ending)))
    note = "" if rows else "No game is finished yet."
    return Table(("last games: ●", "○", "result", "moves", "ended by"), rows, note, flexible=(0, 1), numbers=(3,))


def board_words(board: LiveBoard, place: str = "") -> str:
    """Which game it is, on which board, and how far it is or how it ended."""
    game = f"game {board.game.pairing.number + 1}{place}"
    if board.record is not None and board.record.outcome is not None:
        return f"{game}: {board.record.outcome.sgf}"
    return f"{game}, move {len(board.game.moves)}"


def caption(state: EventState, board: LiveBoard) -> Text:
    """The game that is watched, on which of the boards, and its last move."""
    boards, moves = len(state.boards), board.game.moves
    words = board_words(board, f" ({state.watched_at + 1}/{boards})" if boards > 1 else "")
    if moves and board.record is None:
        words += f": {SIGNS[2 - len(moves) % 2]} {gtp_from_move(moves[-1], state.event.terms.rules.size)}"
    return style.text(words + (", pinned" if state.is_pinned else ""))


def players(state: EventState, board: LiveBoard, width: int = 0) -> Grid:
    """Both players with the win rates that they reported; in ``width`` columns, if given, the last rates only."""
    pairing, table = board.game.pairing, Grid.grid(padding=(0, 1, 0, 0))
    first = next(iter(state.event.players)) if state.standings.is_match else pairing.black
    for colour, name in zip(Colour, (pairing.black, pairing.white), strict=True):
        rates = [rate for rate in board.game.win_rates[colour - 1 :: 2] if rate is not None]
        ink = style.FIRST if name == first else style.SECOND
        label = style.line(f"{SIGNS[colour]} {style.shorten(name, width - 9 if width else 20)}", ink)
        bars = [] if width else [Text(style.sparkline(rates, 10), ink)]
        table.add_row(label, *bars, f"{100 * rates[-1]:3.0f} %" if rates else "")
    return table


# --- In lines ---


def event_words(state: EventState) -> str:
    """Who plays how many games of what kind."""
    event, games, terms = state.event, plural(state.event.games, "game"), state.event.terms
    setting = style.rules_words(terms.rules, terms.handicap)
    if isinstance(event, Match):
        return f"{' against '.join(event.players)}: {games}, {setting}"
    most = " at most" if state.may_end_early else ""
    return f"{event.name}: {event.style} of {plural(len(event.players), 'bot')}, {games}{most}, {setting}"


def warning_words(state: EventState) -> str:
    """A warning, or the latest news."""
    if state.waiting:
        games = plural(state.waiting, "finished game")
        return f"another program has locked the results; {games} not stored yet"
    if state.nodes is not None and not state.nodes and state.workers:
        return "no node is left; the games wait for one to join"
    return state.news


def pace_words(state: EventState) -> str:
    """Time, games a second, and workers. A Swiss tournament has its round; a test, that its first pair isn't over."""
    left, about = style.duration(state.seconds_left), "at most" if state.may_end_early else "about"
    has_played, workers = state.stored > state.resumed, plural(state.workers, "worker") if state.workers else ""
    if state.nodes and workers:
        nodes = sorted(state.nodes.items(), key=lambda node: -node[1])
        paces = f": {', '.join(f'{name} {style.games_rate(pace)}' for name, pace in nodes)}" if has_played else ""
        workers += f" on {plural(len(nodes), 'node')}{paces}"
    games, test, stage = state.games_under_way, state.standings.test, ""
    if isinstance(state.event, Swiss) and games:
        stage = f"round {max(map(state.event.round_finder(), games))}"
        stage += f", neighbours ±{state.gap[2]:.0f} or better" if state.gap else ""
    elif test and test.waiting and not state.standings.games:
        stage = "no Elo before the first pair ends"
    parts = (
        style.duration(state.elapsed) + (f", {about} {left} left" if left else ""),
        style.games_rate(state.games_a_second) if has_played else "",
        stage,
        f"{state.resumed} of {state.event.games} played earlier" if state.resumed else "",
        workers,
    )
    return " · ".join(filter(None, parts))


def progress_words(state: EventState) -> str:
    standings, words = state.standings, f"{state.stored} of {state.event.games}, {title(state.standings)}"
    if standings.comparison is not None and standings.tally and standings.tally.counts.games:
        words += f", Elo {standings.comparison.elo}"
        words += "" if standings.is_final else f" ({WHENEVER})"
    if standings.test is not None and (test := standings.test.state) is not None:
        words += f", LLR {test.llr:+.2f} ({test.lower:+.2f}, {test.upper:+.2f})"
    return f"{words}; {pace_words(state)}"


def print_lines(state: EventState, updates: Iterator[Update], console: Console) -> None:
    """Print who plays what, then a line once in a while, until the updates end. They are closed in any case."""
    console.print_line(event_words(state))
    games, resumed, written, tenths = state.event.games, 0, state.clock(), 0
    with closing(updates):  # type: ignore[type-var]
        for update in chain(updates, (Update(),)):
            if not update.resumed and state.resumed > resumed:  # once all of them are counted
                resumed = state.resumed
                console.print_line(f"{resumed} of {games} games were played earlier")
            is_new = update.waiting and not state.waiting
            state.add(update)
            for line in ([warning_words(state)] if is_new else []) + list(update.news):
                console.print_line(line)
            if update.records and not update.resumed and state.stored < games:
                waited = state.clock() - written
                if waited >= max(LINE_SECONDS, state.elapsed / 100) or 10 * state.stored // games > tenths:
                    console.print_line(progress_words(state))
                    written = state.clock()
            tenths = 10 * state.stored // games
    state.pause(False, finished=True)
