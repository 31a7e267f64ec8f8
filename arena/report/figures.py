"""The figures of a running event for any width: who plays, how far it is, and how it stands."""

from __future__ import annotations

from dataclasses import replace

from rich.console import RenderableType
from rich.text import Text

from arena import plural
from arena.go.coords import BLACK, WHITE, Colour, gtp_from_move
from arena.match.ladder import Ladder
from arena.match.schedule import Match, Tournament
from arena.match.standings import Standings
from arena.report import style
from arena.report.board import SIGNS
from arena.report.chart import draw_course
from arena.report.log import EventState, Seat
from arena.report.tables import LABELS, Facts, Sheet, standings_sheet
from arena.report.text import findings, strength

FACTS = 50
"""Columns of a match's figures beside a board."""

PAUSED = ("PAUSED: no bot is asked for a move and no clock runs", "PAUSED")
STARTING = ("starting; the first run on a machine compiles for up to a minute", "starting")

LEAST_CURVE, CURVE = 6, 16
"""Lines of a curve below a match's figures, at least and at most."""

LONG_NAME, RECENT_LINES, MEETINGS = 24, 8, 4

HEAD = 2
"""Lines of a table above its rows."""

Lines = list[RenderableType]


def _text(words: str, text_style: str = "") -> Text:
    """The style is the words' own: what is appended later doesn't take it over."""
    return Text(no_wrap=True, overflow="crop").append(style.spell(words), text_style)


def _apart(left: Text, right: Text, width: int) -> Text:
    """One at each edge; without the right one where there is no room for both."""
    space = width - left.cell_len
    return left.append_text(style.pad(right, space, "right")) if space > right.cell_len else left


# --- The head: who plays what, how far it is, how fast it goes ---


def head(state: EventState, width: int) -> Lines:
    """The title, a progress bar, the pace, and what should be known; things of a line each."""
    lines = [*_title(state, width), *_progress(state, width), _note(state, width), *_nodes(state, width)]
    return [*lines, _text(style.clip(f"! {state.warning}", width), style.WARNING)] if state.warning else lines


def _title(state: EventState, width: int) -> list[Text]:
    setting, names = _text(state.setting, style.LABEL), list(state.event.players)
    if not isinstance(state.event, Match):
        more = _text(f"{state.event.style}, {plural(len(names), 'bot')}, ", style.LABEL).append_text(setting)
        title = _text(style.shorten(state.event.event, width), "bold")
        return [_apart(title, more if title.cell_len + more.cell_len < width else setting, width)]
    first, second = (style.shorten(name, width - 3) for name in names)
    title, versus = _text(first, style.FIRST), _text("vs ", style.LABEL).append_text(_text(second, style.SECOND))
    if title.cell_len + versus.cell_len >= width:
        return [title, versus]
    return [_apart(title.append(" ").append_text(versus), setting, width)]


def _progress(state: EventState, width: int) -> Lines:
    total, left = state.event.games, style.duration(state.seconds_left)
    count = _text(f"{state.stored:{len(str(total))}d}", "bold").append(f" of {total}")
    about = "at most" if state.may_end_early else "about"
    times = _text(style.duration(state.elapsed) + (f"   {about} {left} left" if left else ""))
    if width < 70:
        return [_bar(state, width), _apart(count, times, width)]
    bar = _bar(state, width - count.cell_len - 30)
    return [bar.append("   ").append_text(count).append("   ").append_text(times)]


def _bar(state: EventState, width: int) -> Text:
    done = round(width * min(1.0, state.stored / max(1, state.event.games)))
    return _text("━" * done, style.FIRST.removeprefix("bold ")).append("━" * (width - done), style.LABEL)


def _note(state: EventState, width: int) -> Text:
    if state.is_paused:
        return _text(style.longest_fit(PAUSED, width), style.WARNING)
    earlier = f"{state.resumed} of {state.event.games} played earlier" if state.resumed else ""
    if state.is_starting:
        return _text(f"starting · {earlier}" if earlier else style.longest_fit(STARTING, width), style.LABEL)
    workers = plural(state.workers, "worker") if state.workers else ""
    if state.nodes is not None and state.workers:
        workers += f" on {plural(len(state.nodes), 'node')}"
    first = "games under way" if state.stored < state.event.games else ""
    pace = style.rate(state.games_a_second) if state.played else first
    return _text(style.joined((pace, state.stage, earlier, workers), width), style.LABEL)


def _nodes(state: EventState, width: int) -> list[Text]:
    """How fast each node of a cluster is: the fastest, where there isn't room for all."""
    paces = sorted((state.nodes or {}).items(), key=lambda node: (-node[1], node[0]))
    if not paces or not state.played:
        return []
    words = [f"{name} {style.rate(pace)}" for name, pace in paces]
    wordings = [" · ".join([*words[:most], f"{len(words) - most} more"]) for most in range(len(words) - 1, 0, -1)]
    return [_text(style.longest_fit([" · ".join(words), *wordings], width), style.LABEL)]


# --- How it stands ---


def figures(state: EventState, width: int, height: int) -> Lines:
    """What there is room for of a match's score, test, report and curve; of a tournament's standings, who is playing
    whom, and the last games."""
    return _match(state, width, height) if isinstance(state.event, Match) else _tournament(state, width, height)


def _match(state: EventState, width: int, height: int) -> Lines:
    standings = state.standings
    lines = [_score_bar(standings, width), *_test(standings, width)]
    if standings.tally is None:
        return [*lines, Text("No pair of games is finished yet." if standings.test else "No game is finished yet.")]
    facts, used = [], len(lines)
    for label, words in (*strength(standings), *findings(standings)):
        folds = len(style.folded(words, width - LABELS, height))
        if label != "Unfinished" and used + folds <= height:
            facts.append((label, words))
            used += folds
    lines.append(Facts(facts))
    rows = min(CURVE, height - used - 5)
    if rows >= LEAST_CURVE and len(state.course) > 1:
        lines += [Text(), *curve(state, width, rows + 3)]
    return lines


def _score_bar(standings: Standings, width: int) -> Text:
    """Won, drawn and lost games as one line; empty before the first."""
    counts = standings.test.results if standings.test else standings.tally and standings.tally.results()
    if not counts or not counts.games:
        return Text()
    won = round(width * counts.wins / counts.games)
    drawn = round(width * (counts.wins + counts.draws) / counts.games) - won
    bar = _text("━" * won, style.FIRST).append("╌" * drawn, style.LABEL)
    return bar.append("─" * (width - won - drawn), style.SECOND)


def _test(standings: Standings, width: int) -> Lines:
    """The log-likelihood ratio of a sequential test between its bounds; nothing without a test."""
    if standings.test is None:
        return []
    (lower, upper), state = standings.test.test.bounds, standings.test.state
    llr = 0.0 if state is None else state.llr
    ends = f"LLR {lower:.2f} ", f" {upper:.2f}"
    cells = max(3, width - len(ends[0]) - len(ends[1]))
    mark = round((cells - 1) * min(1.0, max(0.0, (llr - lower) / (upper - lower))))
    line = _text(f"{ends[0]}{'─' * mark}", style.LABEL).append("●", style.FIRST)
    return [line.append(f"{'─' * (cells - 1 - mark)}{ends[1]}", style.LABEL)]


def curve(state: EventState, width: int, height: int) -> list[Text]:
    """The Elo over the games."""
    names, legend = list(state.event.players), 0
    words = f"Elo of {style.shorten(names[0], width - 22)} over the games"
    if not state.standings.is_match:
        names = [one.name for one in state.places]
        words, legend = "Elo over the games", min(len(names), max(1, height // 4))
    rows = max(LEAST_CURVE, height - 3 - legend)
    return [_text(words, style.LABEL), *draw_course(state.course, names, width, rows)]


def _tournament(state: EventState, width: int, height: int) -> Lines:
    sheet, ladder = standings(state, width), isinstance(state.event, Ladder)
    room = height - HEAD - ladder
    if len(sheet.rows) > room:
        cut = max(0, room - 2)
        sheet = replace(sheet, rows=sheet.rows[:cut], note=f"and {len(sheet.rows) - cut} more")
    lines: Lines = [*([_gap(state, width)] if ladder else []), sheet]
    room -= len(sheet.rows) + 2
    meetings = min(MEETINGS, len(state.meetings))
    if room >= meetings + HEAD + 1 and meetings:
        lines += [Text(), _meetings(state, meetings)]
        room -= meetings + HEAD + 1
    if room > HEAD + 1 and width >= FACTS:
        lines += [Text(), last_games(state, min(RECENT_LINES, room - HEAD - 1))]
    return lines


def standings(state: EventState, width: int) -> Sheet:
    """Everybody's rating, with the points against each other where there is room for all of them; on a narrow screen
    without games and score."""
    places = state.places
    sheet = standings_sheet(
        [replace(one, name=style.shorten(one.name, LONG_NAME)) for one in places], state.standings.anchor, None
    )
    rows = []
    for row, one in zip(sheet.rows, places, strict=True):
        met = (state.standings.meetings(one.name, other.name) for other in places)
        rows.append((*row, *(f"{counts.points:g}" if counts.games else "" for counts in met)))
    ranks = tuple(str(rank) for rank, _ in enumerate(places, 1))
    wide = replace(sheet, columns=(*sheet.columns, *ranks), rows=rows, numbers=(0, *range(2, 5 + len(places))))
    narrow = replace(sheet, columns=sheet.columns[:3], rows=[row[:3] for row in sheet.rows], numbers=(0, 2))
    return next((one for one in (wide, sheet) if one.least_width <= width), narrow)


def standings_width(state: EventState) -> int:
    """Columns of the standings with the whole crosstable, at best."""
    return max(FACTS, standings(state, 10_000).least_width + LONG_NAME)


def _gap(state: EventState, width: int) -> Text:
    """Of a ladder, the two neighbours whose distance is known worst."""
    gap = state.gap
    if gap is None:
        return _text("widest interval: –", style.LABEL)
    precision = state.event.precision if isinstance(state.event, Ladder) else 0.0
    goal = f" (to within {precision:g})" if precision else ""
    return _text(style.clip(f"widest interval: {gap[0]} – {gap[1]}  ±{gap[2]:.0f}{goal}", width), style.LABEL)


def _meetings(state: EventState, most: int) -> Sheet:
    """Who is playing whom, those with most to play first."""
    of = f"/{state.event.games_each}" if isinstance(state.event, Tournament) else ""
    rows = [
        (style.shorten(tally.first, LONG_NAME), style.shorten(tally.second, LONG_NAME), f"{tally.games}{of}")
        for tally in state.meetings[:most]
    ]
    return Sheet(("under way", "", "games"), rows, numbers=(2,))


# --- Games ---


def last_games(state: EventState, most: int) -> Sheet:
    """The games that ended last."""
    rows = []
    for record in list(state.recent)[: max(0, most)]:
        if (outcome := record.outcome) is not None:
            names = (style.shorten(name, LONG_NAME) for name in (record.black, record.white))
            rows.append((*names, outcome.brief, str(record.length), str(outcome.ending)))
    note = "" if rows else "No game is finished yet."
    return Sheet(("last games: ●", "○", "result", "moves", "ended by"), rows, note, flexible=(0, 1), numbers=(3,))


def caption(state: EventState, seat: Seat, width: int) -> Text:
    """Which game it is, on which of the boards, and what happened last: what there is room for."""
    number, place, boards = len(seat.game.moves), state.boards.watched_at + 1, len(state.boards.seats)
    game = f"game {seat.game.pairing.number + 1}"
    if seat.record is not None and seat.record.outcome is not None:
        return _text(style.clip(f"{game}: {seat.record.outcome.sgf}, {plural(number, 'move')}", width))
    move = ""
    if seat.game.moves:
        sign = SIGNS[BLACK if number % 2 else WHITE]
        move = f", move {number}: {sign} {gtp_from_move(seat.game.moves[-1], state.event.terms.rules.size)}"
    wordings = [f"{game}, board {place} of {boards}{move}", f"{game} ({place}/{boards}){move}"] if boards > 1 else []
    return _text(style.longest_fit([*wordings, f"{game}{move}", game], width))


def thinker(state: EventState, seat: Seat, colour: Colour, width: int) -> Text:
    """A player of the watched game, and how it has seen its chances."""
    pairing = seat.game.pairing
    name = pairing.black if colour is BLACK else pairing.white
    first = next(iter(state.event.players)) if state.standings.is_match else pairing.black
    ink = style.FIRST if name == first else style.SECOND
    rates = [rate for rate in seat.game.win_rates[0 if colour is BLACK else 1 :: 2] if rate is not None]
    line = _text(f"{SIGNS[colour]} ")
    if not rates:
        return line.append_text(_text(style.shorten(name, width - 2), ink))
    named = min(20, width - 15)
    line.append_text(style.pad(_text(style.shorten(name, named), ink), named + 1))
    line.append_text(_text(style.sparkline(rates, min(16, width - line.cell_len - 6)), ink))
    return line.append_text(style.pad(f"{100 * rates[-1]:.0f} %", 6, "right"))
