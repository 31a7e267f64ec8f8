"""A person's game as a scene: the board and what lies over it, both players, the count, what was said. Nothing is done.

Win rates and scores are shown only where the person has asked for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from arena.contract.limits import TimeLeft
from arena.go.board import Board
from arena.go.coords import BLACK, WHITE, Colour, Move, gtp_from_move, pass_move
from arena.people.kifu import Phase, Preview, Snapshot
from arena.report import style
from arena.report.sentences import count_words, estimate_words, points_words
from arena.report.style import folded
from arena.screen.board import DARK, Block, Cell, Overlay, Scene, Theme, draw_board, result_words, stone_sign

LETTERS = "ABCDE"
"""How the candidates of a hint are called on the board, the best first."""

SHOWN_LINE, SHOWN_NUMBERS = 6, 9
"""Moves of the play expected that are told, and that are numbered on the board."""

SCARCE = 10
"""Seconds from which tenths are shown, and that time is short."""

LONGEST_END = 4
"""Lines that the end of a game takes, at most."""

NARROW = 26
"""Columns below which a player's line has the clock alone."""

PLAYER = 40
"""Columns of a player's line, at most."""

HINTS = {
    Phase.PLAY: (
        "arrows or mouse, Enter plays · d4 · pass · undo · ! hint · = score · ? help",
        "arrows Enter · d4 · pass · ! hint · = score · ? help",
        "arrows Enter · ! hint · = score · ? help",
        "? help",
    ),
    Phase.COUNT: (
        "arrows, mouse, Enter: dead or alive · done: count · continue: play on · ? help",
        "Enter dead/alive · done · ? help",
        "? help",
    ),
    Phase.OVER: (
        "r review · n rematch · undo · = score · q leave · ? help",
        "r review · n rematch · q leave · ? help",
        "? help",
    ),
}
"""What can be done, the longest wording first."""


@dataclass(frozen=True, slots=True)
class PlayFrame:
    """What is to be drawn: the game as it stands, and what the person is about to do.

    ``target`` is the point that the cursor is on, or that the typed line names; ``preview`` what a move there would do.
    ``line`` is what is typed, with ``is_named`` the target's name; ``waited`` is for how many seconds the bot, or the
    program, has been at work.
    """

    snapshot: Snapshot
    target: Move | None = None
    preview: Preview | None = None
    line: str = ""
    is_named: bool = False
    message: str = ""
    shows_hints: bool = False
    shows_score: bool = False
    waited: float = 0.0
    can_review: bool = True
    theme: Theme = DARK

    def scene(self) -> Scene:
        return Scene(
            size=self.snapshot.size,
            board=self._board,
            title=self._title,
            facts=self._facts,
            blocks=self._blocks(),
            status=self._status,
            prompt=self._prompt,
            hint=self._hint,
            theme=self.theme,
        )

    # --- The board ---

    def _board(self, cell: Cell) -> list[Text]:
        snapshot = self.snapshot
        on_wood = self.target is not None and self.target != pass_move(snapshot.size)
        preview = self.preview
        fits = preview is not None and not preview.refusal and snapshot.is_persons_turn
        taken = frozenset(preview.captured) if fits and preview is not None else frozenset()
        if snapshot.phase is not Phase.PLAY and snapshot.dead:
            taken = frozenset(snapshot.dead)
        return draw_board(
            snapshot.stones,
            snapshot.last,
            ownership=self._ownership(),
            overlay=Overlay(
                cursor=self.target if on_wood and snapshot.phase is not Phase.OVER else None,
                ghost=snapshot.to_play if fits else None,
                taken=taken,
                letters=self._letters(),
            ),
            theme=self.theme,
            cell=cell,
        )

    def _ownership(self) -> bytes | None:
        """Whose each point is: by the count, or by the estimate where that is asked for."""
        snapshot = self.snapshot
        if snapshot.phase is not Phase.PLAY and snapshot.dead is not None and snapshot.count is not None:
            if snapshot.outcome is None or snapshot.outcome.margin is not None:
                return owners_of(snapshot.stones, snapshot.dead)
        if self.shows_score and snapshot.estimate is not None:
            return snapshot.estimate.ownership
        return None

    def _letters(self) -> dict[Move, str]:
        """The candidates of a hint; where the cursor is on one, the play that is expected from there, numbered."""
        advice = self.snapshot.advice
        if not self.shows_hints or advice is None:
            return {}
        passing = pass_move(self.snapshot.size)
        named = [(candidate.move, letter) for candidate, letter in zip(advice.candidates, LETTERS, strict=False)]
        line = next((candidate.line for candidate in advice.candidates if candidate.move == self.target), ())
        if len(line) > 1:
            named = [(move, str(number)) for number, move in enumerate(line[:SHOWN_NUMBERS], 1)]
        letters: dict[Move, str] = {}
        for move, sign in named:
            if move != passing:
                letters.setdefault(move, sign)
        return letters

    # --- The words ---

    def _title(self, width: int) -> list[Text]:
        """What is played, and whether it counts: what there is room for."""
        snapshot, rules = self.snapshot, self.snapshot.rules
        size, more = f"{rules.size}x{rules.size}", f"{rules.name} rules · komi {rules.komi:g}"
        stones = f" · handicap {snapshot.handicap}" if snapshot.handicap else ""
        wordings = [f"{size} · {more}{stones}"]
        if snapshot.unrated:
            wordings = [f"{wordings[0]} · unrated: {snapshot.unrated}", f"{wordings[0]} · unrated", f"{size} · unrated"]
        return style.said(
            next((words for words in wordings if cell_len(words) <= width), size), width, self.theme.label
        )

    def _facts(self, width: int) -> list[Text]:
        snapshot = self.snapshot
        lines = [self._player(colour, width) for colour in Colour]
        turns = snapshot.turns
        if turns:
            last = turns[-1]
            took = f", captured {len(last.captured)}" if last.captured else ""
            move = gtp_from_move(last.move, snapshot.size)
            lines += style.said(f"move {last.number}: {stone_sign(last.colour)} {move}{took}", width)
        else:
            lines += style.said("no move yet", width, self.theme.label)
        return lines + self._turn(width)

    def _player(self, colour: Colour, width: int) -> Text:
        """Name, number of captured stones, clock."""
        snapshot, width = self.snapshot, min(width, PLAYER)
        took = snapshot.prisoners[colour.opponent - 1]
        clock = snapshot.clocks[colour - 1]
        is_up = snapshot.phase is Phase.PLAY and snapshot.to_play is colour
        told = Text(f"captures {took}" if clock is None or width >= NARROW else "")
        if clock is not None:
            told.append(f"  {clock_words(clock):>7}", style.WARNING if is_up and clock.seconds < SCARCE else "")
        name = style.shorten(snapshot.name(colour), max(4, width - told.cell_len - 4))
        line = Text().append(style.spell(f"{stone_sign(colour)} {name}"), "bold" if is_up else "")
        return line.append_text(style.right(told, width - line.cell_len))

    def _turn(self, width: int) -> list[Text]:
        """Whose turn it is, or what is going on; how a game ended in as many lines as that takes."""
        snapshot = self.snapshot
        match snapshot.phase:
            case Phase.OVER if snapshot.outcome is not None:
                why = f" ({snapshot.record.reason})" if snapshot.record.reason else ""
                return folded(f"{result_words(snapshot.outcome)}{why}", width, LONGEST_END, "bold")
            case Phase.COUNT:
                if snapshot.count is None:
                    return [self._busy("looking for dead stones", width)]
                return style.said("which stones are dead?", width, "bold")
        if snapshot.is_paused:
            return style.said("paused", width, style.WARNING)
        if snapshot.thinking is not None:
            return [self._busy(f"{snapshot.name(snapshot.thinking)} thinks", width)]
        turn = "your turn" if len(snapshot.people) == 1 else f"{snapshot.name(snapshot.to_play)} to play"
        return style.said(f"{turn} ({stone_sign(snapshot.to_play)})", width, "bold")

    def _busy(self, words: str, width: int) -> Text:
        sign = style.SPINNER[int(self.waited * 10) % len(style.SPINNER)]
        after = f", {style.duration(self.waited)}" if self.waited >= 1 else ""
        return Text(f"{sign} ").append(style.spell(style.clip(f"{words}{after}", width - 2)))

    def _blocks(self) -> list[Block]:
        return [self._count, self._estimate, self._candidates, self._trouble]

    def _count(self, width: int, height: int) -> list[Text]:
        count = self.snapshot.count
        if count is None or (self.snapshot.outcome is not None and self.snapshot.outcome.margin is None):
            return []
        words = count_words(self.snapshot) if self.snapshot.phase is Phase.COUNT else points_words(count)
        return folded(words, width, height)

    def _estimate(self, width: int, height: int) -> list[Text]:
        estimate = self.snapshot.estimate
        if not self.shows_score or self.snapshot.count is not None:
            return []
        if estimate is None:
            return [self._busy("estimating the score", width)][:height] if self.snapshot.estimating else []
        return folded(f"score: {estimate_words(estimate)}", width, height)

    def _candidates(self, width: int, height: int) -> list[Text]:
        """The hint's moves with their win rates, visits and lines of play."""
        snapshot, advice = self.snapshot, self.snapshot.advice
        if not self.shows_hints:
            return []
        if advice is None:
            return [self._busy("looking for a hint", width)][:height] if snapshot.advising else []
        if advice.fault:
            return folded(f"no hint: {advice.fault}", width, height, style.WARNING)
        more = " (still thinking)" if snapshot.advising else ""
        lines = style.said(f"{advice.analyst}, {advice.visits:,} visits{more}:", width, self.theme.label)
        for letter, candidate in zip(LETTERS, advice.candidates, strict=False):
            move = gtp_from_move(candidate.move, snapshot.size)
            line = " ".join(gtp_from_move(one, snapshot.size) for one in candidate.line[1:SHOWN_LINE])
            words = f"{letter} {move:<4} {candidate.win_rate:4.0%} {candidate.visits:>6,}  {line}"
            lines += style.said(words, width)
        return lines[:height]

    def _trouble(self, width: int, height: int) -> list[Text]:
        return folded(self.snapshot.trouble, width, height, style.WARNING)

    def _status(self, width: int) -> list[Text]:
        """What was said last, or what the move at the cursor would do."""
        words, warns = self.message, True
        preview = self.preview
        if not words and preview is not None and self.snapshot.is_persons_turn:
            if preview.refusal:
                obvious = not self.is_named and self.snapshot.stones.flat[preview.move]
                words = "" if obvious else preview.refusal
            elif preview.captured:
                words, warns = (
                    f"{gtp_from_move(preview.move, self.snapshot.size)} takes {len(preview.captured)}.",
                    False,
                )
        if not words and self.snapshot.trouble:
            words = self.snapshot.trouble
        return folded(words, width, 3, style.WARNING if warns else "")

    def _prompt(self, width: int) -> list[Text]:
        where = ""
        snapshot = self.snapshot
        if not self.line and self.target is not None and self.target != pass_move(snapshot.size):
            point = gtp_from_move(self.target, snapshot.size)
            if snapshot.is_persons_turn and self.preview is not None and not self.preview.refusal:
                where = f"   Enter plays {point}"
            elif snapshot.phase is not Phase.OVER:
                where = f"   {point}"
        typed = self.line
        while cell_len(typed) > max(0, width - 3):  # its end is where something happens
            typed = typed[1:]
        line = Text(style.spell(f"> {typed}_"), "bold")
        return [line.append(style.clip(where, max(0, width - line.cell_len)), self.theme.label)]

    def _hint(self, width: int) -> list[Text]:
        wordings = HINTS[self.snapshot.phase]
        if self.shows_hints:
            wordings = tuple(words.replace("! hint", "! hide") for words in wordings)
        if self.shows_score:
            wordings = tuple(words.replace("= score", "= hide") for words in wordings)
        if not self.can_review:
            wordings = tuple(words.replace("r review · ", "") for words in wordings)
        words = next((words for words in wordings if cell_len(words) <= width), "")
        return style.said(words, width, self.theme.label) if words else []


def owners_of(stones: np.ndarray, dead: tuple[Move, ...]) -> bytes:
    """Whose each point is once the dead stones are off, as ``draw_board`` takes it; ``stones`` is (size, size)."""
    board = Board(len(stones))
    for move, stone in enumerate(stones.reshape(-1).tolist()):
        if stone and move not in dead:
            board.put(move, Colour(stone))
    owners = board.owners().astype(np.int8)
    return np.where(owners == BLACK, 100, np.where(owners == WHITE, -100, 0)).astype(np.int8).tobytes()


def clock_words(left: TimeLeft) -> str:
    """``9:41``, tenths below ten seconds, and in byo-yomi for how many moves: ``0:25/5``."""
    seconds = max(0.0, left.seconds)
    words = f"{seconds:.1f}" if seconds < SCARCE else style.duration(seconds)
    return f"{words}/{left.stones}" if left.stones else words
