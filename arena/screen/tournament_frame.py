"""One frame of a tournament's live screen: standings, who met whom, the last games. The rest is ``frame``'s."""

from __future__ import annotations

from rich.cells import cell_len
from rich.spinner import Spinner
from rich.text import Text

from arena.go.moves import BLACK, WHITE
from arena.go.record import Record
from arena.ratings import Bound, Estimate
from arena.report import Crosstable, League, Standing
from arena.screen import style
from arena.screen.frame import FACTS, GAP, Frame
from arena.screen.summary import setting_line
from arena.screen.view import TournamentView

RANK, ELO, SHORT_ELO, GAMES, SCORE = 3, 16, 12, 6, 8
NAME, SHORT_NAME = 8, 12
RECENT_LINES = 8
BOARD = 30
"""Columns that are kept for the board and its players, where there is room."""


def rank_players(table: Crosstable, league: League | None) -> list[tuple[str, Standing | None]]:
    """All players, the strongest first; those without a rated game come last, in the order given."""
    rated = {} if league is None else {standing.identity: standing for standing in league.standings}
    order = [*rated, *(identity for identity in table.players if identity not in rated)]
    return [(table.players[identity], rated.get(identity)) for identity in order]


class TournamentFrame(Frame):
    """Draws a tournament."""

    widest = 240

    def __init__(self, view: TournamentView, width: int, height: int, ascii_only: bool, spinner: Spinner):
        super().__init__(view, width, height, ascii_only, spinner)
        self.view = view
        self.ranking = rank_players(view.tally, view.league)
        draws = float(view.tournament.rules.komi).is_integer()
        most = view.tournament.games_each
        self._cell = max(len(f"{most}"), len(f"{most - 1}") + 2 * draws) + 1  # columns a cell of the crosstable
        named = max(NAME, max(map(cell_len, self.names)) + 1)
        crossed = RANK + ELO + GAMES + SCORE + len(self.names) * self._cell
        self._least = max(FACTS, crossed + min(SHORT_NAME, named))
        self._wanted = max(FACTS, crossed + min(30, named))
        self.width = min(self.width, max(100, self._wanted + GAP + 40))

    def _title(self) -> list[Text]:
        tournament = self.view.tournament
        title = self._text(style.shorten(tournament.name, self.width), "bold")
        bots = f"{tournament.style}, {len(self.names)} bots"
        setting = setting_line(tournament)
        for words in (f"{bots}, {setting}", setting, bots):
            if title.cell_len + 2 + len(words) <= self.width:
                return [title.append_text(style.right(self._text(words, style.LABEL), self.width - title.cell_len))]
        return [title]

    def _colour_of(self, player: str) -> str:
        """Of the two on the board."""
        watched = self.view.watched
        return style.FIRST if watched is not None and player == watched.pairing.black else style.SECOND

    def _facts_width(self, board: int) -> int:
        """What the board leaves, if that is enough; else all, as the board goes below."""
        if self.width - GAP - board < FACTS:
            return self.width
        comfortable = self.width - GAP - max(BOARD, board)
        if comfortable < self._least <= self.width - GAP - board:
            return self._least  # the crosstable is worth a narrower board
        return min(self._wanted, max(FACTS, comfortable))

    def _facts(self, width: int, height: int) -> list[Text]:
        lines = self._standings(width)
        if 0 < height < len(lines):
            hidden = len(lines) - height + 1
            return [*lines[: height - 1], self._text(f"and {hidden} more", style.LABEL)]
        recent = min(RECENT_LINES, height - len(lines) - 2)
        if recent < 1:
            return lines
        games = [self._recent(record, width) for record in list(self.view.recent)[:recent]]
        empty = [Text() for _ in range(recent - len(games))]  # the board below doesn't move when they come
        return [*lines, Text(), self._text("Last games", style.LABEL), *games, *empty]

    def _standings(self, width: int) -> list[Text]:
        """A head and a line for each player, with the crosstable to the right where there is room for all of it."""
        elo_width = ELO if width >= FACTS else SHORT_ELO
        plain = RANK + elo_width + GAMES + SCORE
        cross = len(self.names) * self._cell if width >= self._least else 0
        named = width - plain - cross
        head = self._text(" # ", style.LABEL).append_text(style.pad(self._text("player", style.LABEL), named))
        for words, column in (("Elo", elo_width), ("games", GAMES), ("score", SCORE)):
            head.append_text(style.right(self._text(words, style.LABEL), column))
        if cross:
            for rank, _ in enumerate(self.ranking, 1):
                head.append_text(style.right(self._text(f"{rank}", style.LABEL), self._cell))
        lines = [head]
        for rank, (name, standing) in enumerate(self.ranking, 1):
            counts = self.view.tally.meetings(name)
            line = style.right(self._text(f"{rank}"), RANK - 1).append(" ")
            line.append_text(style.pad(self._text(style.shorten(name, named - 1)), named))
            line.append_text(style.right(self._text(self._elo(name, standing, elo_width)), elo_width))
            line.append_text(style.right(self._text(f"{counts.games}"), GAMES))
            share = counts.points / counts.games if counts.games else None
            line.append_text(style.right(self._text(style.per_cent(share)), SCORE))
            if cross:
                for other, _ in self.ranking:
                    line.append_text(style.right(self._met(name, other), self._cell))
            lines.append(line)
        return lines

    def _elo(self, name: str, standing: Standing | None, width: int) -> str:
        league = self.view.league
        if standing is None or league is None:
            return "–"
        return "0" if standing.player == league.anchor else _short(standing.elo, width - 1)

    def _met(self, name: str, other: str) -> Text:
        """A player's points against another."""
        counts = self.view.tally.meetings(name, other)
        if name == other or not counts.games:
            return self._text("×" if name == other else "–", style.LABEL)
        return self._text(f"{counts.points:g}")

    def _recent(self, record: Record, width: int) -> Text:
        """Both players, the winner in bold, the result and how the game ended."""
        outcome = record.outcome
        if outcome is None:
            return Text()
        result = "draw" if outcome.winner is None else outcome.sgf
        named = (width - 4 - 9 - 11) // 2
        line = Text(no_wrap=True)
        for sign, name, colour in (("● ", record.black, BLACK), ("○ ", record.white, WHITE)):
            won = "bold" if outcome.winner is colour else ""
            line.append_text(self._text(sign, style.LABEL))
            line.append_text(style.pad(self._text(style.shorten(name, named - 1), won), named))
        line.append_text(style.pad(self._text(result), 9))
        return line.append_text(self._text(str(outcome.ending), style.WARNING if outcome.ending.is_forfeit else ""))


def _short(elo: Estimate, width: int) -> str:
    """As everywhere; without decimals where there is no room for them."""
    words = str(elo)
    if len(words) > width and elo.bound is Bound.BOTH:
        words = f"{elo.value:+.0f} ± {elo.half_width:.0f}"
    return words
