"""The figures of a running event as lines for any width: who plays, how far it is, and how it stands.

A figure that has no room is left out whole: cropped, it would read as another one.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from arena import plural
from arena.go.coords import BLACK, WHITE, Colour, gtp_from_move
from arena.go.game import Ending
from arena.go.record import GameRecord
from arena.match.ladder import Ladder
from arena.ratings import Estimate
from arena.report import style
from arena.report.board import stone_sign
from arena.report.chart import EloCourse
from arena.report.log import EventState, MatchState, Seat, TournamentState, setting_line

FACTS = 50
"""Columns of a match's figures beside a board."""

LABELS, TIMES = 12, 28

PAUSED = ("PAUSED: no bot is asked for a move and no clock runs", "PAUSED")

STARTING = ("starting; the first run on a machine compiles for up to a minute", "starting")

LEAST_CURVE, CURVE = 6, 16
"""Lines of a curve below a match's figures, at least and at most."""

USUAL_WAYS = 2
"""Lines that are kept for the ways to win, at least."""

RANK, ELO, SHORT_ELO, GAMES, SCORE = 3, 16, 12, 6, 8
NAME, SHORT_NAME, LONG_NAME = 8, 12, 30
COUNT = 12
RECENT_LINES = 8


def _text(text: str, text_style: str = "") -> Text:
    """The style is the words' own: what is appended later doesn't take it over."""
    return Text(no_wrap=True, overflow="crop").append(style.spell(text), text_style)


def _left(text: str, width: int, text_style: str = "") -> Text:
    return style.pad(_text(text, text_style), width)


def _right(text: str, width: int, text_style: str = "") -> Text:
    return style.right(_text(text, text_style), width)


def longest_fit(wordings: tuple[str, ...] | list[str], width: int) -> str:
    """The first wording that fits, else the last one, clipped."""
    return next((words for words in wordings if cell_len(words) <= width), style.clip(wordings[-1], width))


# --- The head: who plays what, how far it is, how fast it goes ---


def head(state: EventState, width: int) -> list[Text]:
    """The title, a progress bar, the pace, and what should be known."""
    title = _match_title(state, width) if isinstance(state, MatchState) else _tournament_title(state, width)
    lines = [*title, *_progress(state, width), _note(state, width), *_nodes(state, width)]
    return [*lines, _text(style.clip(f"! {state.warning}", width), style.WARNING)] if state.warning else lines


def _match_title(state: MatchState, width: int) -> list[Text]:
    setting = _text(setting_line(state.match), style.LABEL)
    shortened = [style.shorten(name, width) for name in state.match.players]
    names = [_text(name, colour) for name, colour in zip(shortened, (style.FIRST, style.SECOND), strict=True)]
    if sum(name.cell_len for name in names) + 4 > width:
        return [names[0], _text("vs ", style.LABEL).append_text(_text(style.shorten(shortened[1], width - 3)))]
    title = names[0].append_text(_text(" vs ", style.LABEL)).append_text(names[1])
    space = width - title.cell_len
    return [title.append_text(style.right(setting, space))] if space >= setting.cell_len + 2 else [title]


def _tournament_title(state: EventState, width: int) -> list[Text]:
    assert isinstance(state, TournamentState)
    title = _text(style.shorten(state.tournament.name, width), "bold")
    bots = f"{state.tournament.style}, {plural(len(state.event.players), 'bot')}"
    setting = setting_line(state.event)
    for words in (f"{bots}, {setting}", setting, bots):
        if title.cell_len + 2 + len(words) <= width:
            return [title.append_text(_right(words, width - title.cell_len, style.LABEL))]
    return [title]


def _progress(state: EventState, width: int) -> list[Text]:
    total = state.event.games
    digits = len(str(total))
    count = _text(f"{state.stored:{digits}d}", "bold").append(f" of {total}", "not bold")
    count_width = 2 * digits + 4
    wide = width >= 70
    bar_width = width - count_width - TIMES - 2 if wide else width
    done = round(bar_width * min(1.0, state.stored / max(1, total)))
    bar = _text("━" * done, style.FIRST.removeprefix("bold ")).append("━" * (bar_width - done), "dim")
    if not wide:
        return [bar, count.append_text(style.right(_times(state, width - count.cell_len), width - count.cell_len))]
    return [bar.append("  ").append_text(style.pad(count, count_width)).append_text(_times(state, TIMES))]


def _times(state: EventState, width: int) -> Text:
    """How long it has been going on, and how long it will."""
    spent, left = style.duration(state.elapsed), style.duration(state.seconds_left)
    about = "at most" if state.may_end_early else "about"
    wordings = [f"{about} {left} left", f"{left} left"] if left else []
    rest = next((words for words in wordings if len(words) + 9 <= width), "")
    return _text(f"{spent:>7}" + rest.rjust(width - max(7, len(spent))))


def _note(state: EventState, width: int) -> Text:
    if state.is_paused:
        return _text(longest_fit(PAUSED, width), style.WARNING)
    earlier = f"{state.resumed} of {state.event.games} played earlier" if state.resumed else ""
    if state.is_starting:
        return _text(f"starting · {earlier}" if earlier else longest_fit(STARTING, width), style.LABEL)
    workers = plural(state.workers, "worker") if state.workers else ""
    if state.nodes is not None and state.workers:
        workers += f" on {plural(len(state.nodes), 'node')}"
    if state.resumed and width < 60:
        earlier = f"{state.resumed} earlier"
    games, moves = style.rate(state.games_a_second, "games"), style.rate(state.moves_a_second, "moves")
    first = "games under way" if state.stored < state.event.games else ""
    parts = (games, state.stage, moves, earlier, workers) if state.played else (first, state.stage, earlier, workers)
    return _text(style.joined(parts, width), style.LABEL)


def _nodes(state: EventState, width: int) -> list[Text]:
    """How fast each node of a cluster is: the fastest, where there isn't room for all."""
    paces = sorted((state.nodes or {}).items(), key=lambda node: (-node[1], node[0]))
    if not paces or not state.played:
        return []
    words = [f"{name} {style.rate(pace, 'games')}" for name, pace in paces]
    wordings = [" · ".join([*words[:most], f"{len(words) - most} more"]) for most in range(len(words) - 1, 0, -1)]
    return [_text(longest_fit([" · ".join(words), *wordings], width), style.LABEL)]


# --- A match ---


def match_figures(state: MatchState, width: int, height: int) -> list[Text]:
    """Score, Elo, the test, colours and endings, with empty lines and a curve as far as ``height`` goes."""
    blocks = [_score(state, width), _colours(state, width), _endings(state, width)]
    spare = height - sum(map(len, blocks))
    lines: list[Text] = []
    for block in blocks:
        if lines and spare > 0:
            lines.append(Text())
            spare -= 1
        lines += block
    rows = min(CURVE, height - len(lines) - 5)
    if rows >= LEAST_CURVE and len(state.course) > 1:
        lines += [Text(), *curve(state, width, rows + 3)]
    return lines[: max(0, height)]


def curve(state: MatchState | TournamentState, width: int, height: int) -> list[Text]:
    """The Elo over the games."""
    names = list(state.event.players)
    words = f"Elo of {style.shorten(names[0], width - 22)} over the games"
    if isinstance(state, TournamentState):
        names = [name for name, _ in state.ranking]
        words = "Elo over the games"
    legend = 0 if isinstance(state, MatchState) else min(len(names), max(1, height // 4))
    rows = max(LEAST_CURVE, height - 3 - legend)
    return [_text(words, style.LABEL), *EloCourse(state.course, names).lines(width, rows)]


def _fact(label: str, value: Text, rest: str, width: int) -> Text:
    labels = LABELS if LABELS + value.cell_len <= width else cell_len(label) + 1
    if labels + value.cell_len > width:
        value = _text("…")
    end = _text(rest if labels + value.cell_len + cell_len(rest) < width else "")
    line = _left(label, labels, style.LABEL)
    return line.append_text(style.pad(value, width - labels - end.cell_len)).append_text(end)


def _score(state: MatchState, width: int) -> list[Text]:
    counts, comparison = state.shown.results(), state.comparison
    elo = "–" if comparison is None else str(comparison.elo)
    los = "–" if comparison is None else style.likelihood(comparison.los)
    return [
        _share_bar(state, width),
        _fact("Score", _text(style.score(counts), "bold"), style.per_cent(counts.share), width),
        _fact("Elo", _text(elo, "bold"), "95 % interval" if width >= 60 else "95 %", width),
        _fact("LOS", _text(los), "", width),
        *_test(state, width),
    ]


def _share_bar(state: MatchState, width: int) -> Text:
    """Won, drawn and lost games as one line; empty before the first."""
    counts = state.shown.results()
    if not counts.games:
        return Text()
    won = round(width * counts.wins / counts.games)
    drawn = round(width * (counts.wins + counts.draws) / counts.games) - won
    bar = _text("━" * won, style.FIRST).append("╌" * drawn, style.LABEL)
    return bar.append("─" * (width - won - drawn), style.SECOND)


def _test(state: MatchState, width: int) -> list[Text]:
    """Where the sequential test stands: the log-likelihood ratio between its bounds; nothing without a test."""
    sprt = state.match.test
    if sprt is None:
        return []
    lower, upper = sprt.bounds
    llr = 0.0 if state.test is None else state.test.llr
    cells = max(3, width - LABELS - 8)
    mark = round((cells - 1) * min(1.0, max(0.0, (llr - lower) / (upper - lower))))
    bar = _text("─" * mark, style.LABEL).append("●", style.FIRST).append("─" * (cells - 1 - mark), style.LABEL)
    ends = _text(f"{lower:.2f}", style.LABEL)
    ends.append_text(_right(f"{upper:.2f}", cells - ends.cell_len, style.LABEL))
    title = longest_fit([f"{sprt.elo0:g} or {sprt.elo1:g} Elo", f"{sprt.elo0:g} or {sprt.elo1:g}"], LABELS - 1)
    return [_fact("SPRT", bar, f"{llr:+.2f}", width), _fact(title, ends, "", width)]


def _colours(state: MatchState, width: int) -> list[Text]:
    lines = []
    for colour, label in ((BLACK, "as Black"), (WHITE, "as White")):
        counts = state.shown.results(colour=colour)
        lines.append(_fact(label, _text(style.score(counts)), style.per_cent(counts.share), width))
    points, games = state.shown.black_points, state.shown.games
    share = style.per_cent(points / games if games else None)
    return [*lines, _fact("Black won", _text(f"{points:g} of {games}"), share, width)]


def _endings(state: MatchState, width: int) -> list[Text]:
    """How games were won, in the ways that occurred; with room for two ways from the beginning."""
    named = (width - LABELS - 7) // 2
    if named < SHORT_NAME // 2:
        return []
    drawn = width - LABELS - 2 * named
    line = _left("Won by", LABELS, style.LABEL)
    for name, colour in zip(state.match.players, (style.FIRST, style.SECOND), strict=True):
        line.append_text(_right(style.shorten(name, named - 2), named, colour))
    lines = [line.append_text(_right("drawn", drawn, style.LABEL))]
    for ending in Ending:
        counts = state.shown.results(ending=ending)
        if not counts.games:
            continue
        line = _left(str(ending), LABELS, style.LABEL)
        for number, column in ((counts.wins, named), (counts.losses, named), (counts.draws, drawn)):
            line.append_text(_right(str(number), column) if number else _right("–", column, style.LABEL))
        lines.append(line)
    return lines + [Text()] * (USUAL_WAYS + 1 - len(lines))


# --- A tournament ---


def standings_width(state: TournamentState) -> int:
    """Columns of the standings with the whole crosstable, at best."""
    named = max(NAME, *(cell_len(name) + 1 for name in state.event.players))
    return max(FACTS, RANK + ELO + GAMES + SCORE + len(state.event.players) * _cell(state) + min(LONG_NAME, named))


def _cell(state: TournamentState) -> int:
    """Columns of a cell of the crosstable."""
    draws = float(state.tournament.terms.rules.komi).is_integer()
    most = state.tournament.games_each
    return max(len(f"{most}"), len(f"{most - 1}") + 2 * draws) + 1


def tournament_figures(state: TournamentState, width: int, height: int) -> list[Text]:
    """The standings, who is playing whom, and the last games, each where it has room."""
    lines = [*_gap(state, width), *standings(state, width)]
    if len(lines) > height > 1:
        return [*lines[: height - 1], _text(f"and {len(lines) - height + 1} more", style.LABEL)]
    games = len(state.boards.seats) and min(4, max(1, len(state.meetings)))
    if height - len(lines) >= games + 6:
        lines += [Text(), *_meetings(state, width, games)]
    rows = min(RECENT_LINES, height - len(lines) - 2)
    if rows > 0 and width >= 36:
        lines += [Text(), *last_games(state, width, rows)]
    return lines[: max(0, height)]


def _gap(state: TournamentState, width: int) -> list[Text]:
    """Of a ladder, the two neighbours whose distance is known worst."""
    if not isinstance(state.tournament, Ladder):
        return []
    line = _text("widest interval: ", style.LABEL)
    if state.league is None or state.gap is None:
        return [line.append("–")]
    above, below, half = state.gap
    goal = f" (to within {state.tournament.precision:g})" if state.tournament.precision else ""
    known = f"±{half:.0f}{goal}"
    named = width - len(known) - 22
    first = style.shorten(above, named // 2)
    return [line.append(style.spell(f"{first} – {style.shorten(below, named - cell_len(first))}  {known}"))]


def standings(state: TournamentState, width: int) -> list[Text]:
    """A head and a line for each player, with the crosstable to the right where there is room for all of it."""
    ranking, cell = state.ranking, _cell(state)
    elo_width = ELO if width >= FACTS else SHORT_ELO
    columns = {"Elo": elo_width, "games": GAMES, "score": SCORE}
    while columns and width < RANK + sum(columns.values()) + NAME:
        columns.popitem()
    plain = RANK + sum(columns.values())
    longest = min(SHORT_NAME, max(NAME, *(cell_len(name) + 1 for name, _ in ranking)))
    cross = len(ranking) * cell if width >= plain + longest + len(ranking) * cell else 0
    named = width - plain - cross
    line = _text(" # ", style.LABEL).append_text(_left("player", named, style.LABEL))
    for words, column in columns.items():
        line.append_text(_right(words, column, style.LABEL))
    for rank in range(1, len(ranking) + 1 if cross else 1):
        line.append_text(_right(f"{rank}", cell, style.LABEL))
    lines = [line]
    for rank, (name, standing) in enumerate(ranking, 1):
        counts = state.standings.meetings(name)
        line = _right(f"{rank}", RANK - 1).append(" ")
        line.append_text(_left(style.shorten(name, named - 1), named))
        elo = "–" if standing is None or standing.elo is None else _short(standing.elo, elo_width - 1)
        figures = {"Elo": elo, "games": f"{counts.games}", "score": style.per_cent(counts.share)}
        for words, column in columns.items():
            line.append_text(_right(figures[words], column))
        for other, _ in ranking if cross else ():
            line.append_text(_met(state, name, other, cell))
        lines.append(line)
    return lines


def _met(state: TournamentState, name: str, other: str, width: int) -> Text:
    """A player's points against another."""
    counts = state.standings.meetings(name, other)
    if name == other or not counts.games:
        return _right("×" if name == other else "–", width, style.LABEL)
    return _right(f"{counts.points:g}", width)


def _short(elo: Estimate, width: int) -> str:
    """As everywhere; without decimals, its ends or its value where there is no room for them."""
    words, low, high = str(elo), elo.interval.low, elo.interval.high
    if len(words) > width and (low is None or high is None):
        words = f"{elo.value:+.0f}"
    elif len(words) > width and low is not None and high is not None:
        whole = f"{elo.value:+.0f} ± {(high - low) / 2:.0f}"
        words = whole if "±" in words else f"{low:+.0f} to {high:+.0f}"
    return words


def _meetings(state: TournamentState, width: int, most: int) -> list[Text]:
    """Who is playing whom, those with most to play first, in ``most`` lines below a head."""
    meetings = sorted(state.meetings, key=lambda meeting: meeting[2])
    few = f", {most} of {len(meetings)}" if most < len(meetings) else ""
    lines = [_text(f"Under way{few}", style.LABEL)]
    of = "" if isinstance(state.tournament, Ladder) else f"/{state.tournament.games_each}"
    for one, other, played in meetings[:most]:
        first = style.shorten(one, (width - COUNT - 4) // 2)
        second = style.shorten(other, width - COUNT - 4 - cell_len(first))
        lines.append(_left(f"{first} – {second}", width - COUNT).append_text(_right(f"{played}{of}", COUNT)))
    return [*lines, *[Text()] * (most + 1 - len(lines))]


# --- Games ---


def last_games(state: EventState, width: int, height: int) -> list[Text]:
    """The games that ended last: both players, the winner in bold, the result and how the game ended."""
    lines = [_recent(record, width) for record in list(state.recent)[: max(0, height)]]
    return [_text("Last games", style.LABEL), *lines]


def _recent(record: GameRecord, width: int) -> Text:
    outcome = record.outcome
    if outcome is None:
        return Text()
    named = max(2, (width - 4 - 9 - 11) // 2)
    line = Text(no_wrap=True)
    for sign, name, colour in (("● ", record.black, BLACK), ("○ ", record.white, WHITE)):
        won = "bold" if outcome.winner is colour else ""
        line.append_text(_text(sign, style.LABEL))
        line.append_text(_left(style.shorten(name, named - 1), named, won))
    line.append_text(_left(outcome.brief, 9))
    return line.append_text(_text(str(outcome.ending), style.WARNING if outcome.ending.is_forfeit else ""))


def caption(state: EventState, seat: Seat, width: int) -> Text:
    """Which game it is, on which of the boards, and what happened last: what there is room for."""
    number, (place, boards) = len(seat.game.moves), state.boards.place
    game = f"game {seat.game.pairing.number + 1}"
    if seat.record is not None and seat.record.outcome is not None:
        return _text(style.clip(f"{game}: {seat.record.outcome.sgf}, {plural(number, 'move')}", width))
    move = ""
    if seat.game.moves:
        sign = stone_sign(BLACK if number % 2 else WHITE)
        move = f"{sign} {gtp_from_move(seat.game.moves[-1], state.event.terms.rules.size)}"
    after = f", move {number}: {move}" if move else ""
    short = f"{game} ({place}/{boards})" if boards > 1 else game
    wordings = [f"{game}, board {place} of {boards}{after}"] if boards > 1 else []
    return _text(longest_fit([*wordings, f"{short}{after}", f"{short}: {move}" if move else short, short, game], width))


def thinker(state: EventState, seat: Seat, colour: Colour, width: int) -> Text:
    """A player of the watched game, and how it has seen its chances."""
    pairing = seat.game.pairing
    name = pairing.black if colour is BLACK else pairing.white
    first = next(iter(state.event.players)) if isinstance(state, MatchState) else pairing.black
    ink = style.FIRST if name == first else style.SECOND
    rates = [rate for rate in seat.game.win_rates[0 if colour is BLACK else 1 :: 2] if rate is not None]
    line = _text(f"{stone_sign(colour)} ")
    if not rates:
        return line.append_text(_text(style.shorten(name, width - 2), ink))
    named = min(20, width - 15)
    line.append_text(_left(style.shorten(name, named), named + 1, ink))
    line.append_text(_text(style.sparkline(rates, min(16, width - line.cell_len - 6)), ink))
    return line.append_text(_right(f"{100 * rates[-1]:.0f} %", min(6, width - line.cell_len)))
