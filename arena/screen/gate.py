"""What a gate came to, in lines; an entry's checkpoints over time as a table and a drawing. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from arena.players.bot_file import Change
from arena.ratings import Estimate
from arena.results.gate import Evidence, History, Over, Ruling, Version
from arena.screen import style
from arena.screen.chart import HEIGHT, MARKS, Canvas, Scale
from arena.screen.style import some
from arena.screen.tables import Sheet


def gate_lines(evidence: Evidence, folder: Path, change: Change | None, noted: Sequence[Path]) -> Iterator[str]:
    """What happened, what was changed in which file, and how to undo it. ``folder`` is the checkpoint as it was named,
    ``noted`` are those whose manifests tell of it."""
    entry, against = evidence.gate.entry, evidence.against
    if change is not None:
        yield f"Accepted: {entry} plays {evidence.gate.checkpoint} from now on, in place of {against}."
        made = (
            "made, with" if change.is_new_file else "changed: it has a new table" if change.is_new_table else "changed:"
        )
        yield f'{change.path} was {made} [bots.{entry}] {change.setting} = "{change.value}"; the rest is as it was.'
        if folder.name != evidence.gate.checkpoint:
            yield f"That is a copy of {folder}, which training on doesn't change."
        yield f"To undo it, {_undo(change)}."
    elif evidence.ruling is Ruling.REJECTED:
        yield f"Rejected: {entry} stays as it is, with {against}. No file was changed for it."
    else:
        games = some(evidence.games.games, "game")
        yield f"Undecided after {games}: {entry} stays as it is, with {against}. More games (-n) go on from here."
    manifests = "".join(f", {folder / 'manifest.json'}" for folder in noted)
    yield f"The evidence: event {evidence.match.event}{manifests}; see arena gate --history {entry}."


def _undo(change: Change) -> str:
    if change.is_new_file:
        return f"delete {change.path}"
    if change.is_new_table:
        return f"take [bots.{change.bot}] out of {change.path}"
    if change.before is None:
        return f"take that line out of {change.path}"
    return f'write {change.setting} = "{change.before}" there again'


# --- History ---


def history_sheet(history: History) -> Sheet:
    """The versions, a line each. The signs of the first column are those of the drawing."""
    rows = []
    for version in history.versions:
        evidence = version.evidence
        match = (
            _elsewhere(version)
            if evidence is None
            else f"{evidence.elo} on {evidence.against} ({evidence.games.games})"
        )
        rows.append(
            (
                f"{_mark(version)}*" if version.is_present else _mark(version),
                version.checkpoint,
                _verdict(version),
                version.created[:10] or (version.elsewhere or {}).get("date", ""),
                match,
                "" if version.elo is None else str(version.elo),
                _short(version.rows),
                f"{version.minutes:.0f}" if version.minutes else "",
            )
        )
    note = f"* {history.entry} plays this one now."
    if history.anchor:
        note += f" Elo: by all stored games on {history.terms}, above {history.anchor}, with 95 % intervals;"
        note += " match: in so many of the gate's own games."
    if not history.gates:
        note += f" No gate was played for it here: arena gate CHECKPOINT --against {history.entry}"
    columns = ("", "checkpoint", "verdict", "date", "match", "Elo", "rows", "min")
    return Sheet(columns, rows, note, flexible=(1, 4), numbers=(5, 6, 7))


def _verdict(version: Version) -> str:
    if version.evidence is not None:
        return str(version.evidence.ruling)
    return "no gate" if version.elsewhere is None else f"{version.elsewhere.get('verdict', 'gate')} elsewhere"


def _elsewhere(version: Version) -> str:
    """A gate that isn't among these results, as the manifest tells of it."""
    told = version.elsewhere or {}
    elo, against, games = told.get("elo"), told.get("opponent_checkpoint"), told.get("games")
    return "" if elo is None else f"{elo:+.1f} on {against} ({games})"


def _mark(version: Version) -> str:
    return MARKS[version.number - 1] if version.number <= len(MARKS) else ""


def _short(rows: int) -> str:
    for least, unit in ((1e6, f"{rows / 1e6:.2f} M"), (1e4, f"{rows / 1e3:.0f} k"), (1, f"{rows}")):
        if rows >= least:
            return unit
    return ""


@dataclass(frozen=True, slots=True)
class HistoryPlot:
    """Strength over training, or over the gates: a version's sign is that of its line in the table, with its 95 %
    interval; an arrow up or down says "at least" or "at most". Nothing for fewer than two that are rated."""

    history: History
    over: Over

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rated = self.history.rated(self.over)
        versions = [
            (version, version.elo)
            for version in rated
            if version.number <= len(MARKS) and version.elo is not None and version.elo.ends
        ]
        if len(versions) < 2:
            return
        scale = Scale.over([end for _, elo in versions for end in elo.ends], HEIGHT)
        canvas = Canvas(scale, options.max_width, options.ascii_only)
        places = [version.place(self.over) for version, _ in versions]
        low, high = min(places), max(places)
        taken: set[int] = set()
        for version, elo in versions:
            share = (version.place(self.over) - low) / (high - low) if high > low else 0.5
            wanted = round(share * (canvas.columns - 1))
            free = [column for column in range(canvas.columns) if column not in taken]
            column = min(free, key=lambda column: abs(column - wanted))
            taken |= {column - 1, column, column + 1}
            self._draw(canvas, column, elo, _mark(version))
        yield Text()
        title = f"Elo above {self.history.anchor} over {_SCALES[self.over]}"
        yield Text(style.spell(title, options.ascii_only), "bold")
        yield from canvas.lines(f"{low:,.0f}", f"{high:,.0f}")

    def _draw(self, canvas: Canvas, column: int, elo: Estimate, mark: str) -> None:
        """A version's sign at its value; at the end that is known, with an arrow, where there is no value."""
        signs, scale = canvas.signs, canvas.scale
        canvas.fill(column, min(elo.ends), max(elo.ends), signs.axis)
        if elo.value is not None:
            canvas.put(column, elo.value, mark)
            return
        step = (scale.high - scale.low) / scale.cells
        end = min(scale.high - 1.5 * step, max(scale.low + 1.5 * step, elo.ends[0]))  # with room for the arrow
        is_least = elo.interval.low is not None
        canvas.put(column, end, mark)
        canvas.put(column, end + (step if is_least else -step), signs.up if is_least else signs.down)


_SCALES = {Over.ROWS: "rows of training", Over.GATES: "the gates"}
