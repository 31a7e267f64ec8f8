"""One frame of a tournament's live screen: standings, who met whom, the last games. The rest is ``frame``'s."""

from __future__ import annotations

from rich.cells import cell_len
from rich.spinner import Spinner
from rich.text import Text

from arena.events.schedule import Ladder, Tournament
from arena.go.moves import BLACK, WHITE
from arena.go.record import Played
from arena.ratings import Estimate
from arena.results.league import Crosstable, League, Standing
from arena.screen import style
from arena.screen.board import board_height, board_width
from arena.screen.frame import FACTS, GAP, Frame, Hint
from arena.screen.summary import setting_line
from arena.screen.themes import DARK, Theme
from arena.screen.tournament_view import TournamentView

RANK, ELO, SHORT_ELO, GAMES, SCORE = 3, 16, 12, 6, 8
NAME, SHORT_NAME = 8, 12
RECENT_LINES, FEW_RECENT = 8, 3
MEETING_LINES = 4
COUNT, LEFT = 10, 13
PANEL = 54
"""Columns for who is playing whom, to the right of the board."""

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

    def __init__(
        self,
        view: TournamentView,
        width: int,
        height: int,
        ascii_only: bool,
        spinner: Spinner,
        hint: Hint | None = None,
        theme: Theme = DARK,
    ):
        super().__init__(view, width, height, ascii_only, spinner, hint, theme)
        self.view = view
        self.ranking = rank_players(view.tally, view.league)
        draws = float(view.tournament.rules.komi).is_integer()
        most = view.tournament.games_each
        self._cell = max(len(f"{most}"), len(f"{most - 1}") + 2 * draws) + 1  # columns a cell of the crosstable
        named = max(NAME, max(map(cell_len, self.names)) + 1)
        crossed = RANK + ELO + GAMES + SCORE + len(self.names) * self._cell
        self._least = max(FACTS, crossed + min(SHORT_NAME, named))
        self._wanted = max(FACTS, crossed + min(30, named))
        without = max(100, self._wanted + GAP + max(40, board_width(view.event.rules.size)))
        room = self.height >= board_height(view.event.rules.size) + 8  # for the board: else the panel stands nowhere
        self.panel = GAP + PANEL if self.width >= without + GAP + PANEL and room else 0
        self.width = min(self.width, without + self.panel)

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
        watched = self.view.boards.watched
        return style.FIRST if watched is not None and player == watched.pairing.black else style.SECOND

    def _facts_width(self, board: int) -> int:
        """What the board leaves, if that is enough; else all, as the board goes below."""
        width = self.width - self.panel - GAP
        if width - board < FACTS:
            return self.width
        comfortable = width - max(BOARD, board)
        if comfortable < self._least <= width - board:
            return self._least  # the crosstable is worth a narrower board
        return min(self._wanted, max(FACTS, comfortable))

    def _facts(self, width: int, height: int) -> list[Text]:
        lines = [*self._gap(width), *self._standings(width)]
        if 0 < height < len(lines):
            hidden = len(lines) - height + 1
            return [*lines[: height - 1], self._text(f"and {hidden} more", style.LABEL)]
        room = height - len(lines)
        meetings = min(MEETING_LINES, self._pairs)
        if not self.panel and room >= meetings + FEW_RECENT + 4:
            lines += [Text(), *self._meetings(width, meetings + 1)]
            room -= meetings + 2
        recent = min(RECENT_LINES, room - 2)
        if recent < 1:
            return lines
        games = [self._recent(record, width) for record in list(self.view.recent)[:recent]]
        empty = [Text() for _ in range(recent - len(games))]  # the board below doesn't move when they come
        return [*lines, Text(), self._text("Last games", style.LABEL), *games, *empty]

    @property
    def _pairs(self) -> int:
        """How many times two players may be playing each other at once."""
        tournament = self.view.tournament
        return len(tournament.meetings) if isinstance(tournament, Tournament) else len(self.names) - 1

    def _panel(self, width: int, height: int) -> list[Text]:
        return self._meetings(width, min(self._pairs + 1, height))

    def _meetings(self, width: int, height: int) -> list[Text]:
        """Who is playing whom, in exactly ``height`` lines; those who have most to play, where that is too few."""
        meetings = self.view.meetings
        shown = sorted(meetings, key=lambda meeting: meeting.played - meeting.games)[: height - 1]
        few = f", {len(shown)} of {len(meetings)}" if len(shown) < len(meetings) else ""
        lines = [self._text(f"Under way{few}", style.LABEL)]
        named = width - COUNT - LEFT
        for meeting in meetings:
            if meeting in shown:
                first = style.shorten(meeting.first, (named - 4) // 2)
                second = style.shorten(meeting.second, named - 4 - cell_len(first))
                line = style.pad(self._text(f"{first} – {second}"), named)
                line.append_text(style.right(self._text(f"{meeting.played}/{meeting.games}"), COUNT))
                left = style.duration(meeting.seconds_left)
                lines.append(
                    line.append_text(style.right(self._text(f"{left} left" if left else "", style.LABEL), LEFT))
                )
        return [*lines, *(Text() for _ in range(height - len(lines)))]

    def _gap(self, width: int) -> list[Text]:
        """Of a ladder, the two neighbours whose distance is known worst."""
        if not isinstance(self.view.tournament, Ladder):
            return []
        if self.view.gap is None:
            return [self._text("widest interval: –", style.LABEL)]
        above, below, half = self.view.gap
        goal = f" (to see {self.view.tournament.to_see:g})" if self.view.tournament.to_see else ""
        known = f"±{half:.0f}{goal}"
        named = width - len(known) - 22
        first = style.shorten(above, named // 2)
        second = style.shorten(below, named - cell_len(first))
        line = self._text("widest interval: ", style.LABEL)
        return [line.append_text(self._text(f"{first} – {second}  {known}"))]

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

    def _recent(self, record: Played, width: int) -> Text:
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
    """As everywhere; without decimals, or its ends, where there is no room for them."""
    words, low, high = str(elo), elo.interval.low, elo.interval.high
    if len(words) > width and elo.value is not None and low is not None and high is not None:
        whole = f"{elo.value:+.0f} ± {(high - low) / 2:.0f}"
        words = whole if "±" in words else f"{low:+.0f} to {high:+.0f}"
    return words
