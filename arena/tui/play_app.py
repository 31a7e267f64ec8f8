"""A person's game on the full screen: typed commands, keys and the mouse, both players, hints and the count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from textual.binding import Binding
from textual.events import Key, Paste
from textual.message import Message

from arena import IllegalMove
from arena.go.coords import Colour, Move, gtp_from_move, move_from_gtp, pass_move
from arena.people.saved_game import Phase, Preview
from arena.people.session import GameSession, Refused
from arena.report import style
from arena.report.board import SIGNS, Overlay, draw_board, ended, legend
from arena.report.sentences import (
    SCARCE,
    UNRATED,
    Commands,
    Left,
    clock_words,
    command_words,
    count_words,
    ending_words,
    estimate_words,
    points_words,
)
from arena.report.style import folded
from arena.tui.app import Keys, run_app
from arena.tui.board import NUMBERS, Block, BoardApp, BoardPane, signs_at
from arena.tui.game_app import Evaluate, GameApp

TICK = 0.2
"""Seconds between two looks at clocks and at who thinks."""

LONGEST_LINE = 100
"""Signs that can be typed, or pasted, into the line."""

LETTERS = "ABCDE"
"""How the candidates of a hint are called on the board, the best first."""

SHOWN_LINE = 6
"""Moves of the play expected that are listed."""

PLAYER, NARROW, LONGEST_END = 40, 26, 4
"""Columns of a player's line, at most; below which it has the clock alone; and lines of the end of a game, at most."""


class PlayApp(BoardApp):
    """A person at a game: what was typed, where the cursor is, what is to be shown.

    Win rates and scores are shown only where the person has asked for them. Keys are shortcuts on an empty line only.
    """

    BINDINGS: ClassVar[list[Any]] = [
        Binding("question_mark", "word('help')", "Help", priority=True),
        Binding("exclamation_mark", "word('!')", "Hints", priority=True),
        Binding("equals_sign", "word('=')", "Score", priority=True),
        Binding("ctrl+u", "word('undo')", "Undo", priority=True),
        Binding("ctrl+p", "word('pass')", "Pass", priority=True),
        Binding("r", "word('review')", "Review", priority=True),
        Binding("n", "word('rematch')", "Rematch", priority=True),
        Binding("q", "word('quit')", "Leave", priority=True),
        Binding("up", "move(-1, 0)", show=False, priority=True),
        Binding("down", "move(1, 0)", show=False, priority=True),
        Binding("left", "move(0, -1)", show=False, priority=True),
        Binding("right", "move(0, 1)", show=False, priority=True),
    ]

    class Changed(Message):
        """Something has changed in the game, by another thread."""

    def __init__(
        self,
        session: GameSession,
        *,
        kept: Path | None = None,
        can_review: bool = True,
        colours: bool = True,
        clock: Callable[[], float] = monotonic,
    ):
        """``kept`` is the game's file."""
        self.snapshot = session.snapshot()
        super().__init__(self.snapshot.size, colours)
        self.line = ""
        self.message = ""
        self.cursor: Move | None = None
        self._clicked: Move | None = None
        self.shows_hints = self.shows_score = False
        self.wants_review = self.wants_rematch = False
        self._session = session
        front: dict[str, Callable[[], str | None]] = {
            "hint": lambda: self._show_hints(True),
            "score": lambda: self._show_score(True),
            "!": lambda: self._show_hints(not self.shows_hints),
            "=": lambda: self._show_score(not self.shows_score),
            "help": self._help,
            "review": self._review,
            "rematch": self._rematch,
        }
        self._commands = Commands(session, kept, front, asks=True)
        self._can_review = can_review
        self._clock = clock
        self._busy_with: tuple[Colour | None, int] | None = None  # who is waited for, and after which move
        self._busy_since = 0.0
        self._asked: tuple[int, ...] = ()  # the position that overlays were asked for last, and which

    def on_mount(self) -> None:
        super().on_mount()
        self._session.subscribe(lambda: self.post_message(self.Changed()))
        self.set_interval(TICK, self._tick)
        self.look()

    def hold(self) -> None:
        self._session.pause()

    def go_on(self) -> None:
        self._session.go_on()

    # --- The game goes on by itself ---

    def on_play_app_changed(self) -> None:
        self.look()

    def _tick(self) -> None:
        if not self.snapshot.is_settled or (self.snapshot.phase is Phase.PLAY and any(self.snapshot.clocks)):
            self.look()

    def look(self) -> None:
        """See what has become of the game, and have overlays that stay on follow it."""
        self._session.tick()
        before, self.snapshot = self.snapshot, self._session.snapshot()
        if self.snapshot.phase is not before.phase:
            self.message, self._commands.asked = "", ""
            self.refresh_bindings()
        busy = None if self.snapshot.is_settled else (self.snapshot.thinking, len(self.snapshot.turns))
        if busy != self._busy_with:
            self._busy_with, self._busy_since = busy, self._clock()
        self._follow()
        self.redraw()

    def _follow(self) -> None:
        """Ask for what is to be shown of each position in which it is the person's turn."""
        snapshot = self.snapshot
        position = (len(snapshot.turns), int(self.shows_hints), int(self.shows_score))
        if not snapshot.is_persons_turn or position == self._asked:
            return
        self._asked = position
        if self.shows_score and snapshot.estimate is None and not snapshot.estimating:
            self._try(self._session.score)
        if self.shows_hints and snapshot.advice is None and not snapshot.advising:
            self._try(self._session.hint)
        self.snapshot = self._session.snapshot()

    def _try(self, what: Callable[[], str | None]) -> None:
        """Do something with the game, or show why that can't be done."""
        try:
            self.message = what() or self.message
        except (Refused, IllegalMove) as error:
            self.message = str(error)
        self.snapshot = self._session.snapshot()

    # --- What a person does ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that type text are shortcuts on an empty line only; some are for the time after the end."""
        if action in ("word", "move") and len(self.screen_stack) > 1:
            return False
        if action != "word":
            return True
        word, is_over = parameters[0], self.snapshot.is_over
        if self.line or self._commands.asked or (word == "review" and not self._can_review):
            return False
        return is_over if word in ("review", "rematch", "quit") else not is_over or word not in ("!", "pass")

    def action_word(self, word: str) -> None:
        self.message = ""
        self._obey(word)

    def action_move(self, down: int, right: int) -> None:
        """Move the cursor by a point; where it was nowhere, to where the game is."""
        self.line, size, last = "", self.snapshot.size, self.snapshot.last
        if self.cursor is None:
            self.cursor = last if last is not None and last < size * size else size * size // 2
        else:
            row, column = divmod(self.cursor, size)
            self.cursor = min(max(0, row + down), size - 1) * size + min(max(0, column + right), size - 1)
        self._typed()

    def on_key(self, event: Key) -> None:
        """Type into the line, and carry it out."""
        if len(self.screen_stack) > 1:
            return
        key, asked, self.message = event.key, self._commands.asked, ""
        if asked and key != "y":
            self._commands.asked = ""
            if key in ("enter", "space", "escape"):
                self._typed()
                return
        if asked and key == "y":
            self.cursor = None  # an Enter behind the y plays nowhere
            self._obey("y")
        elif key == "enter" or (key == "space" and not self.line):
            words, self.line = self.line.strip(), ""
            if words:
                self._obey(words)
            else:
                self._enter()
        elif key in ("backspace", "delete"):
            self.line = self.line[:-1]
        elif key == "escape":
            self.cursor = self.cursor if self.line else None
            self.line = ""
        elif key == "ctrl+d":
            self.leave()
        elif event.character and event.is_printable:
            self.line = (self.line + event.character)[:LONGEST_LINE]
            if self.line == "q":
                self.message = "Enter leaves; the game is saved."
        self._typed()

    def on_paste(self, event: Paste) -> None:
        words = " ".join(event.text.split())
        self.line = (self.line + words)[:LONGEST_LINE]
        self.message = "That is too long for a move; the end was dropped." if len(words) > LONGEST_LINE else ""
        self._typed()

    def _typed(self) -> None:
        self.refresh_bindings()
        self.redraw()

    def on_board_pane_pointed(self, message: BoardPane.Pointed) -> None:
        """The mouse moves the cursor; a second click on a point plays there."""
        point = message.move
        if not message.is_click:
            if self._named(self.line) is None and point != self.cursor:
                self.cursor = point
                self.redraw()
            return
        self.line, self.message = "", ""
        preview = self._preview(point)
        if self.snapshot.phase is Phase.COUNT or self.cursor == self._clicked == point:
            self._enter_at(point)
        elif preview is not None:
            self.message = preview.refusal or f"Click {gtp_from_move(point, self.snapshot.size)} again to play there."
        self.cursor = self._clicked = point
        self._typed()

    def _enter(self) -> None:
        """Enter without a word: what lies nearest."""
        if self.snapshot.is_over:
            self._obey("review")
        elif self.cursor is None:
            self.action_move(0, 0)
        else:
            self._enter_at(self.cursor)

    def _enter_at(self, point: Move) -> None:
        """What a point is chosen for: a stone is placed there, or the group there dies or lives."""
        if not self.snapshot.is_over:
            self._try(lambda: self._commands.choose(point))

    def _obey(self, words: str) -> None:
        """Do what a typed word asks for. No word is one letter: that begins a point."""
        if (named := self._named(words)) is not None:
            self.cursor = named
        try:
            self._try(lambda: self._commands.obey(words))
        except Left:
            self.leave()
            return
        self._follow()
        if self.wants_review or self.wants_rematch:
            self.leave()
        self._typed()

    def _show_hints(self, shows: bool) -> None:
        """Show hints or don't; where they are shown already, have the bot think on."""
        if shows and self.shows_hints and self.snapshot.advice is not None:
            self._session.hint()
        else:
            self.shows_hints, self._asked = shows, ()

    def _show_score(self, shows: bool) -> None:
        self.shows_score, self._asked = shows, ()
        if shows and self.snapshot.is_over:
            self._session.score()

    def _help(self) -> None:
        keys = [
            ("arrows, mouse", "move the cursor"),
            ("Enter, click", "play there"),
            ("! =", "hints or scores at every move, on or off"),
            *(pair for pair in command_words(self.snapshot.phase).items() if pair[0] != "board"),
            ("", UNRATED),
        ]
        self.push_screen(Keys(keys))

    def _rematch(self) -> str:
        self.wants_rematch = self.snapshot.is_over
        return "" if self.wants_rematch else "A rematch is available when the game is over."

    def _review(self) -> str:
        self.wants_review = self.snapshot.is_over and self._can_review
        if self.wants_review:
            return ""
        return "The review is available when the game is over." if self._can_review else "No bot here can review games."

    # --- The board ---

    def _named(self, words: str) -> Move | None:
        """The point that these words name, if they do."""
        try:
            move = move_from_gtp(words, self.snapshot.size)
        except ValueError:
            return None
        return None if move == pass_move(self.snapshot.size) else move

    @property
    def _target(self) -> Move | None:
        """The point that the typed line names, or that the cursor is on."""
        typed = self._named(self.line)
        return self.cursor if typed is None else typed

    def _preview(self, target: Move | None) -> Preview | None:
        if target is None or not self.snapshot.is_persons_turn:
            return None
        return self._session.preview(target)

    def board_lines(self, cell: int) -> Sequence[Text]:
        snapshot, target = self.snapshot, self._target
        preview = self._preview(target)
        fits = preview is not None and not preview.refusal
        taken = preview.captured if preview is not None else snapshot.dead or ()
        overlay = Overlay(
            cursor=None if snapshot.is_over else target,
            ghost=snapshot.to_play if fits else None,
            taken=frozenset(taken),
            letters=self._letters(),
        )
        owned, last = self._ownership(), snapshot.last
        return draw_board(snapshot.stones, last, ownership=owned, overlay=overlay, cell=cell, colours=self.colours)

    def _ownership(self) -> bytes | None:
        """Whose each point is: by the count, or by the estimate where that is asked for."""
        snapshot = self.snapshot
        if snapshot.count is not None and (snapshot.outcome is None or snapshot.outcome.margin is not None):
            return snapshot.count.ownership
        return snapshot.estimate.ownership if self.shows_score and snapshot.estimate is not None else None

    def _letters(self) -> dict[Move, str]:
        """The candidates of a hint; where the cursor is on one, the play that is expected from there, numbered."""
        advice = self.snapshot.advice
        if not self.shows_hints or advice is None:
            return {}
        line = next((candidate.line for candidate in advice.candidates if candidate.move == self._target), ())
        if len(line) > 1:
            return signs_at(line, NUMBERS, self.snapshot.size)
        return signs_at([candidate.move for candidate in advice.candidates], LETTERS, self.snapshot.size)

    # --- The words ---

    def title_lines(self, width: int) -> Sequence[Text]:
        """What is played, and whether it counts: what there is room for."""
        snapshot, rules = self.snapshot, self.snapshot.rules
        size, stones = f"{rules.size}x{rules.size}", f" · handicap {snapshot.handicap}" if snapshot.handicap else ""
        whole = f"{size} · {rules.name} rules · komi {rules.komi:g}{stones}"
        wordings = [whole, size]
        if snapshot.unrated:
            wordings = [f"{whole} · unrated: {snapshot.unrated}", f"{whole} · unrated", f"{size} · unrated", size]
        return style.said(style.longest_fit(wordings, width), width, style.LABEL)

    def blocks(self) -> Sequence[Block]:
        return [self._facts, self._count, self._estimate, self._candidates, self._legend]

    def _facts(self, width: int, height: int) -> Sequence[Text]:
        move = style.said("no move yet", width, style.LABEL)
        if turns := self.snapshot.turns:
            last, point = turns[-1], gtp_from_move(turns[-1].move, self.snapshot.size)
            took = f", captured {len(last.captured)}" if last.captured else ""
            move = style.said(f"move {last.number}: {SIGNS[last.colour]} {point}{took}", width)
        return [*(self._player(colour, width) for colour in Colour), *move, *self._turn(width)]

    def _player(self, colour: Colour, width: int) -> Text:
        """Name, number of captured stones, clock."""
        snapshot, width = self.snapshot, min(width, PLAYER)
        took, clock = snapshot.prisoners[colour.opponent - 1], snapshot.clocks[colour - 1]
        is_up = snapshot.phase is Phase.PLAY and snapshot.to_play is colour
        told = Text(f"captures {took}" if clock is None or width >= NARROW else "")
        if clock is not None:
            told.append(f"  {clock_words(clock):>7}", style.WARNING if is_up and clock.seconds < SCARCE else "")
        name = style.shorten(snapshot.name(colour), max(4, width - told.cell_len - 4))
        line = Text(no_wrap=True).append(style.spell(f"{SIGNS[colour]} {name}"), "bold" if is_up else "")
        return line.append_text(style.pad(told, width - line.cell_len, "right"))

    def _turn(self, width: int) -> list[Text]:
        """Whose turn it is, or what is going on; how a game ended in as many lines as that takes."""
        snapshot = self.snapshot
        match snapshot.phase:
            case Phase.OVER:
                return folded(ended(snapshot.record), width, LONGEST_END, "bold")
            case Phase.COUNT:
                if snapshot.count is None:
                    return [self._busy("looking for dead stones", width)]
                return style.said("which stones are dead?", width, "bold")
        if snapshot.is_paused:
            return style.said("paused", width, style.WARNING)
        if snapshot.thinking is not None:
            return [self._busy(f"{snapshot.name(snapshot.thinking)} thinks", width)]
        turn = "your turn" if len(snapshot.people) == 1 else f"{snapshot.name(snapshot.to_play)} to play"
        return style.said(f"{turn} ({SIGNS[snapshot.to_play]})", width, "bold")

    def _busy(self, words: str, width: int) -> Text:
        waited = self._clock() - self._busy_since
        sign = style.SPINNER[int(waited * 10) % len(style.SPINNER)]
        after = f", {style.duration(waited)}" if waited >= 1 else ""
        return Text(f"{sign} ", no_wrap=True).append(style.spell(style.clip(f"{words}{after}", width - 2)))

    def _count(self, width: int, height: int) -> Sequence[Text]:
        count, outcome = self.snapshot.count, self.snapshot.outcome
        if count is None or (outcome is not None and outcome.margin is None):
            return []
        words = count_words(self.snapshot) if self.snapshot.phase is Phase.COUNT else points_words(count)
        return folded(words, width, height)

    def _estimate(self, width: int, height: int) -> Sequence[Text]:
        estimate = self.snapshot.estimate
        if not self.shows_score or self.snapshot.count is not None:
            return []
        if estimate is None:
            return [self._busy("estimating the score", width)][:height] if self.snapshot.estimating else []
        return folded(f"score: {estimate_words(estimate)}", width, height)

    def _candidates(self, width: int, height: int) -> Sequence[Text]:
        """The hint's moves with their win rates, visits and lines of play."""
        snapshot, advice = self.snapshot, self.snapshot.advice
        if not self.shows_hints:
            return []
        if advice is None:
            return [self._busy("looking for a hint", width)][:height] if snapshot.advising else []
        if advice.fault:
            return folded(f"no hint: {advice.fault}", width, height, style.WARNING)
        more = " (still thinking)" if snapshot.advising else ""
        lines = style.said(f"{advice.analyst}, {advice.visits:,} visits{more}:", width, style.LABEL)
        for letter, candidate in zip(LETTERS, advice.candidates, strict=False):
            move = gtp_from_move(candidate.move, snapshot.size)
            line = " ".join(gtp_from_move(one, snapshot.size) for one in candidate.line[1:SHOWN_LINE])
            lines += style.said(f"{letter} {move:<4} {candidate.win_rate:4.0%} {candidate.visits:>6,}  {line}", width)
        return lines[:height]

    def _legend(self, width: int, height: int) -> Sequence[Text]:
        return [] if self._ownership() is None else [legend(self.colours)]

    def status_lines(self, width: int) -> Sequence[Text]:
        """What was said last, or what the move at the cursor would do; then what is being typed."""
        words, warns, preview, size = self.message, True, self._preview(self._target), self.snapshot.size
        if not words and preview is not None:
            if preview.refusal:
                obvious = self._named(self.line) is None and self.snapshot.stones.flat[preview.move]
                words = "" if obvious else preview.refusal
            elif preview.captured:
                words, warns = f"{gtp_from_move(preview.move, size)} takes {len(preview.captured)}.", False
        where = ""
        if not self.line and self._target is not None and not self.snapshot.is_over:
            fits = preview is not None and not preview.refusal
            where = f"   {'Enter plays ' if fits else ''}{gtp_from_move(self._target, size)}"
        typed = style.spell(self.line)
        while cell_len(typed) > max(0, width - 3):  # its end is where something happens
            typed = typed[1:]
        line = Text(f"> {typed}_", "bold", no_wrap=True)
        line.append(style.clip(where, max(0, width - line.cell_len)), f"not bold {style.LABEL}")
        return [*folded(words or self.snapshot.trouble, width, 3, style.WARNING if warns else ""), line]


def show_play(session: GameSession, console: Console, kept: Path | None, evaluate: Evaluate | None) -> bool:
    """Let people play on the full screen and review their game; says whether another game is wanted. Raises what ended
    it early."""
    colours = style.has_colours(console)
    while True:
        app = PlayApp(session, kept=kept, can_review=evaluate is not None, colours=colours)
        run_app(app)
        if not app.wants_review:
            break
        record, people = session.record(), app.snapshot.people
        whose = people[0] if len(people) == 1 else None
        run_app(GameApp(record, at=len(record.moves), evaluate=evaluate, colour=whose, colours=colours))
    if app.snapshot.is_over:
        console.print(Text(style.spell(ending_words(app.snapshot))))
    return app.wants_rematch
