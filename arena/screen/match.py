"""The live screen of a match, or plain lines where there is no terminal. The words of the end are in ``summary``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from time import monotonic

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from arena.go.game import Ending, Game, Rules
from arena.go.moves import BLACK, WHITE, Move, gtp_from_move, pass_move
from arena.go.record import Record
from arena.ratings import Comparison
from arena.report import Tally
from arena.runner import Update
from arena.schedule import Match, Pairing
from arena.screen import style
from arena.screen.board import board_height, board_width, draw_board, stone_sign
from arena.screen.summary import print_summary, setting_line
from arena.worker import Glance

FRAMES_A_SECOND = 6
HOLD = 1.5
"""Seconds that a finished game stays on the board before another one is watched."""

LINE_EVERY = 5.0
"""Seconds between two lines where there is no terminal; longer in long matches."""

FACTS = 50
"""Columns of the figures; the board stands beside them where there is room for both."""

GAP = 4
WIDEST = 100
LABELS = 12
UNSTARTED = "starting: the first run compiles for about 15 s", "starting, may compile for 15 s"

Clock = Callable[[], float]


def show_match(match: Match, updates: Iterator[Update], console: Console, clock: Clock = monotonic) -> Tally:
    """Show a match until its updates end, then sum it up; returns what was counted.

    Whatever ends it early, such as KeyboardInterrupt, leaves the last state on the screen and comes through after
    ``updates`` has been closed.
    """
    view = MatchView(match, clock)
    try:
        if console.is_terminal and not console.is_dumb_terminal and not _is_interactive(match):
            _show_live(view, updates, console)
        else:
            _show_lines(view, updates, console)
    finally:
        close = getattr(updates, "close", None)
        if close is not None:
            close()
    print_summary(match, view.tally, console)
    return view.tally


def _is_interactive(match: Match) -> bool:
    """Whether a person plays at this terminal, so that nothing else may draw on it."""
    return any(entry.bot_kind.interactive for entry in match.players.values())


def _show_live(view: MatchView, updates: Iterator[Update], console: Console) -> None:
    with Live(view, console=console, refresh_per_second=FRAMES_A_SECOND, vertical_overflow="crop"):
        for update in updates:
            view.add(update)
        view.finish()


def _show_lines(view: MatchView, updates: Iterator[Update], console: Console) -> None:
    def write(text: str) -> None:
        line = style.spell(text, console.options.ascii_only)
        console.print(line, soft_wrap=True, markup=False, highlight=False)

    first, second = view.match.players
    write(f"{first} against {second}: {view.match.games} games, {setting_line(view.match)}")
    written = view.clock()
    tenths = 0
    for update in updates:
        view.add(update)
        done, total, now = view.tally.games, view.match.games, view.clock()
        if update.resumed:
            tenths = 10 * done // total
            if done:
                write(f"{done} of {total} games were played earlier")
        elif update.records and done < total:
            due = now - written >= max(LINE_EVERY, (now - view.began) / 100)
            if due or 10 * done // total > tenths:
                tenths = 10 * done // total
                written = now
                write(view.progress_line())


@dataclass(frozen=True, slots=True)
class Watched:
    """The game on the board. ``record`` is there once it is over, ``until`` when another may take its place."""

    pairing: Pairing
    moves: tuple[Move, ...]
    win_rates: tuple[float | None, ...] = ()
    record: Record | None = None
    until: float = 0.0


class MatchView:
    """What is known of a running match, as a Rich renderable that fits any width and height.

    One thread adds updates while another may draw.
    """

    def __init__(self, match: Match, clock: Clock = monotonic):
        self.match = match
        self.clock = clock
        self.tally = Tally(*match.players)
        self.began = clock()
        self._lock = Lock()
        self._playing_since: float | None = None
        self._resumed = 0
        self._resumed_moves = 0
        self._workers = 0
        self._watched: Watched | None = None
        self._glances: dict[str, Glance] = {}  # the last look at each game under way
        self._comparison: Comparison | None = None
        self._finished = False
        self._ended: float | None = None
        self._spinner: dict[bool, Spinner] = {True: Spinner("line"), False: Spinner("dots")}

    def add(self, update: Update) -> None:
        """Take in what has happened."""
        with self._lock:
            for record in update.records:
                self.tally.add(record)
                self._glances.pop(record.id, None)
            if update.records:
                self._comparison = self.tally.comparison()
            if update.resumed:
                self._resumed, self._resumed_moves = self.tally.games, self.tally.moves
                return
            if (update.records or update.glances) and self._playing_since is None:
                self._playing_since = self.clock()
            self._workers = max(update.workers, 0)
            over = {record.id for record in update.records}
            self._glances.update(
                {glance.pairing.id: glance for glance in update.glances if glance.pairing.id not in over}
            )
            self._watch(update)

    def finish(self) -> None:
        """The match is over: what follows is drawn without a board."""
        with self._lock:
            self._finished = True
            self._ended = self.clock()

    def _watch(self, update: Update) -> None:
        """Stay with one game to its end, and a moment longer; then take the one that was looked at last."""
        watched, now = self._watched, self.clock()
        if watched is not None:
            glance = self._glances.get(watched.pairing.id)
            if watched.record is None and glance is not None:
                self._watched = Watched(glance.pairing, glance.moves, glance.win_rates)
                return
            for record in update.records:
                if record.id == watched.pairing.id:
                    self._watched = Watched(watched.pairing, record.moves, watched.win_rates, record, now + HOLD)
                    return
            if watched.record is None or now < watched.until:
                return
        if self._glances:
            glance = next(reversed(self._glances.values()))
            self._watched = Watched(glance.pairing, glance.moves, glance.win_rates)
        elif update.glances and watched is None:  # games so short that all looks are at finished ones
            glance = update.glances[-1]
            self._watched = Watched(glance.pairing, glance.moves, glance.win_rates, until=now + HOLD)

    # --- Figures ---

    @property
    def elapsed(self) -> float:
        return (self._ended or self.clock()) - self.began

    @property
    def played(self) -> int:
        """Games that were finished since the screen began."""
        return self.tally.games - self._resumed

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the games finished, and from how far those under way have come; None too early to tell."""
        missing = self.match.games - self._resumed
        left = missing - self.played
        if left <= 0:
            return 0.0
        if self._playing_since is None or not self._glances:
            work = float(self.played)
        else:
            length = self.tally.mean_length or 0.9 * self.match.rules.size**2
            far = float(np.mean([min(0.95, len(glance.moves) / length) for glance in self._glances.values()]))
            work = self.played + far * min(left, self._boards(missing))
        spent = 0.0 if self._playing_since is None else self.clock() - self._playing_since
        if spent < 1 or work < 0.02 * missing:
            return None
        return spent * (missing - work) / work

    def _boards(self, missing: int) -> int:
        """How many games are under way at once, at most."""
        workers = max(1, self._workers)
        boards = min(entry.bot_kind.boards for entry in self.match.players.values())
        return workers * min(boards, -(-missing // workers))

    def _pace(self) -> tuple[float | None, float | None]:
        """Games and moves a second; None before the first game is over."""
        if not self.played or self._playing_since is None:
            return None, None
        spent = max(0.1, (self._ended or self.clock()) - self._playing_since)
        return self.played / spent, (self.tally.moves - self._resumed_moves) / spent

    def progress_line(self) -> str:
        """Where the match stands, in a line for a log."""
        score = _score(self.tally)
        parts = [f"{self.tally.games}/{self.match.games}", score, style.per_cent(self.tally.points / self.tally.games)]
        if self._comparison is not None:
            parts.append(f"Elo {self._comparison.elo}")
        parts.append(style.rate(self._pace()[0], "games"))
        left = self.seconds_left
        if left is not None:
            parts.append(f"about {style.duration(left)} left")
        return "  ".join(parts)

    # --- Drawing ---

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._lock:
            drawing = _Drawing(self, min(options.max_width, WIDEST), console.size.height - 1, options.ascii_only)
            content = drawing.frame()
        yield content


class _Drawing:
    """One frame, for one size of terminal. It reads the view's state and changes nothing."""

    def __init__(self, view: MatchView, width: int, height: int, ascii_only: bool):
        self.view = view
        self.match = view.match
        self.tally = view.tally
        self.width = width
        self.height = height
        self.ascii_only = ascii_only
        self.names = list(view.match.players)

    def frame(self) -> Group:
        header = self.header()
        if self.view._finished:
            return Group(*header)
        room = self.height - len(header)
        size = self.match.rules.size
        facts_width = min(self.width, FACTS)
        beside = self.width - facts_width - GAP
        board_lines = board_height(size) + 3
        if beside >= board_width(size) and room > board_lines:
            board_block = self.board(min(beside, max(board_width(size), 40)))
            grid = Table.grid(padding=0)
            grid.add_column(width=facts_width, no_wrap=True, overflow="crop")
            grid.add_column(width=GAP)
            grid.add_column(no_wrap=True, overflow="crop")
            grid.add_row(Group(*self.facts(facts_width, room - 1)), "", Group(*board_block))
            return Group(*header, Text(), grid)
        if self.width >= board_width(size) and room >= len(self.facts(facts_width, 0)) + board_lines + 2:
            facts = self.facts(facts_width, room - board_lines - 2)
            return Group(*header, Text(), *facts, Text(), *self.board(min(self.width, FACTS)))
        facts = self.facts(facts_width, room)
        return Group(*header, *([Text()] if len(facts) < room else []), *facts)

    def text(self, text: str, text_style: str = "") -> Text:
        return Text(style.spell(text, self.ascii_only), text_style, no_wrap=True, overflow="crop")

    def name(self, index: int, width: int) -> Text:
        return self.text(style.shorten(self.names[index], width), style.FIRST if index == 0 else style.SECOND)

    # The header: who plays what, how far it is, how fast it goes.

    def header(self) -> list[Text | Table | Spinner]:
        return [*self.title(), *self.progress(), self.note()]

    def title(self) -> list[Text]:
        setting = self.text(setting_line(self.match), style.LABEL)
        lengths = [self.name(index, 1000).cell_len for index in (0, 1)]
        if sum(lengths) + 4 <= self.width:
            title = self.name(0, self.width).append_text(self.text(" vs ", style.LABEL))
            title.append_text(self.name(1, self.width))
            space = self.width - title.cell_len - setting.cell_len
            return [title.append_text(style.right(setting, self.width - title.cell_len))] if space >= 2 else [title]
        return [self.name(0, self.width), self.text("vs ", style.LABEL).append_text(self.name(1, self.width - 3))]

    def progress(self) -> list[Text | Table]:
        view, total = self.view, self.match.games
        digits = len(str(total))
        status = self.text(f"{self.tally.games:{digits}d}", "bold").append(f" of {total}", "default")
        times = f"{style.duration(view.elapsed)} elapsed"
        if not view._finished:
            times = f"{style.duration(view.elapsed)}  {'about ' if self.width >= 60 else '~'}{style.duration(view.seconds_left)} left"
        status_width = 2 * digits + 4 + 2
        times_text = style.right(self.text(times), 22)
        wide = self.width >= 70
        bar_width = self.width - status_width - 22 - 2 if wide else self.width
        bar = ProgressBar(
            total=total, completed=self.tally.games, width=bar_width, complete_style="#3b8fd4", finished_style="#3b8fd4"
        )
        grid = Table.grid(padding=0)
        if wide:
            for column in (bar_width, 2, status_width, 22):
                grid.add_column(width=column, no_wrap=True, overflow="crop")
            grid.add_row(bar, "", style.pad(status, status_width), times_text)
            return [grid]
        grid.add_column(width=bar_width, no_wrap=True, overflow="crop")
        grid.add_row(bar)
        return [grid, style.pad(status, self.width - 22).append_text(times_text)]

    def note(self) -> Text | Spinner:
        view = self.view
        earlier = f"{view._resumed} of {self.match.games} played earlier" if view._resumed else ""
        if view._playing_since is None and self.tally.games < self.match.games:
            spinner = view._spinner[self.ascii_only]
            words = UNSTARTED[self.width < 60] if not earlier else f"starting · {earlier}"
            spinner.update(text=self.text(words, style.LABEL))
            return spinner
        games, moves = view._pace()
        workers = f"{view._workers} worker{'s' if view._workers != 1 else ''}"
        parts = [style.rate(games, "games"), style.rate(moves, "moves"), earlier, "" if view._finished else workers]
        line = ""
        for part in filter(None, parts):
            longer = f"{line} · {part}" if line else part
            line = longer if len(longer) <= self.width else line
        return self.text(line, style.LABEL)

    # The figures.

    def facts(self, width: int, height: int) -> list[Text]:
        """All figures, with lines between them as far as ``height`` goes."""
        blocks = [self.score(width), self.colours(width), self.endings(width)]
        spare = height - sum(map(len, blocks))
        lines: list[Text] = []
        for block in blocks:
            if lines and spare > 0:
                lines.append(Text())
                spare -= 1
            lines += block
        return lines

    def fact(self, label: str, value: str | Text, share: str, width: int) -> Text:
        line = style.pad(self.text(label, style.LABEL), LABELS)
        value = self.text(value) if isinstance(value, str) else value
        share_text = self.text(share)
        line.append_text(style.pad(value, max(0, width - LABELS - share_text.cell_len)))
        return line.append_text(share_text)

    def score(self, width: int) -> list[Text]:
        tally, comparison = self.tally, self.view._comparison
        total = tally.points / tally.games if tally.games else None
        known = comparison is not None and tally.games
        elo = self.text(str(comparison.elo) if comparison and known else "–", "bold")
        los = style.likelihood(comparison.los) if comparison and known else "–"
        return [
            self.share_bar(width),
            self.fact("Score", self.text(_score(tally), "bold"), style.per_cent(total), width),
            self.fact("Elo", elo, "95 % interval" if width >= 48 else "95 %", width),
            self.fact("LOS", los, "", width),
        ]

    def share_bar(self, width: int) -> Text:
        """Won, drawn and lost games as one line."""
        counts = self.tally.results()
        if not counts.games:
            return self.text("░" * width, style.LABEL)
        won = round(width * counts.wins / counts.games)
        drawn = round(width * (counts.wins + counts.draws) / counts.games) - won
        bar = self.text("█" * won, style.FIRST)
        bar.append_text(self.text("▒" * drawn, style.LABEL))
        return bar.append_text(self.text("░" * (width - won - drawn), style.SECOND))

    def colours(self, width: int) -> list[Text]:
        lines = []
        for colour, label in ((BLACK, "as Black"), (WHITE, "as White")):
            counts = self.tally.results(colour=colour)
            share = counts.points / counts.games if counts.games else None
            lines.append(
                self.fact(label, _signed(counts.wins, counts.draws, counts.losses), style.per_cent(share), width)
            )
        share = self.tally.black_points / self.tally.games if self.tally.games else None
        text = f"{style.points(self.tally.black_points)} of {self.tally.games}"
        return [*lines, self.fact("Black takes", text, style.per_cent(share), width)]

    def endings(self, width: int) -> list[Text]:
        drawn = 7
        named = (width - LABELS - drawn) // 2
        head = style.pad(self.text("Won by", style.LABEL), LABELS)
        for index in (0, 1):
            head.append_text(style.right(self.name(index, named - 2), named))
        lines = [head.append_text(style.right(self.text("drawn", style.LABEL), width - head.cell_len))]
        for ending in Ending:
            counts = self.tally.results(ending=ending)
            line = style.pad(self.text(str(ending), style.LABEL), LABELS)
            for count, column in (
                (counts.wins, named),
                (counts.losses, named),
                (counts.draws, width - LABELS - 2 * named),
            ):
                line.append_text(
                    style.right(self.text(str(count) if count else "–", "" if count else style.LABEL), column)
                )
            lines.append(line)
        return lines

    # The board.

    def board(self, width: int) -> list[Text]:
        watched, rules = self.view._watched, self.match.rules
        if watched is None:
            empty = np.zeros((rules.size, rules.size), np.uint8)
            lines = draw_board(empty, ascii_only=self.ascii_only)
            return [self.text(""), *lines, self.text(""), self.text("")]
        stones = _stones(rules, watched.moves)
        last = watched.moves[-1] if watched.moves and watched.moves[-1] != pass_move(rules.size) else None
        lines = draw_board(stones, last, ascii_only=self.ascii_only)
        return [self.caption(watched), *lines, *(self.thinker(watched, colour, width) for colour in (BLACK, WHITE))]

    def caption(self, watched: Watched) -> Text:
        number = len(watched.moves)
        record = watched.record
        if record is not None and record.outcome is not None:
            return self.text(f"game {watched.pairing.number + 1}: {record.outcome.sgf} in {number} moves")
        if not watched.moves:
            return self.text(f"game {watched.pairing.number + 1}")
        mover = BLACK if number % 2 else WHITE
        point = gtp_from_move(watched.moves[-1], self.match.rules.size)
        return self.text(f"game {watched.pairing.number + 1}, move {number}: {stone_sign(mover)} {point}")

    def thinker(self, watched: Watched, colour: int, width: int) -> Text:
        """A player of the watched game, and how it has seen its chances."""
        name = watched.pairing.black if colour == BLACK else watched.pairing.white
        rates = [
            rate for ply, rate in enumerate(watched.win_rates) if ply % 2 == (colour == WHITE) and rate is not None
        ]
        index = self.names.index(name) if name in self.names else 0
        name_width = min(18, width - 8 if not rates else width - 16)
        line = self.text(f"{stone_sign(BLACK if colour == BLACK else WHITE)} ")
        line.append_text(style.pad(self.name(index, name_width), name_width + 1))
        if not rates:
            return line
        spark = style.sparkline(rates, width - line.cell_len - 5)
        line.append_text(self.text(spark, style.FIRST if index == 0 else style.SECOND))
        return line.append_text(self.text(f" {100 * rates[-1]:.0f} %"))


def _score(tally: Tally) -> str:
    counts = tally.results()
    return _signed(counts.wins, counts.draws, counts.losses)


def _signed(wins: int, draws: int, losses: int) -> str:
    return f"+{wins} ={draws} -{losses}"


@lru_cache(maxsize=4)
def _stones(rules: Rules, moves: Sequence[Move]) -> np.ndarray:
    """(size, size): the position after these moves."""
    game = Game(rules)
    for move in moves:
        game.play(move)
    return game.board.stones
