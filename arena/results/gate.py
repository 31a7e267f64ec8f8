"""Whether a checkpoint takes its entry's place: what a gate's games say of it, and an entry's checkpoints over time.

Everything is made from the stored games again. Nothing is played, written or printed here.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from arena import CheckpointError, ConfigError
from arena.events.schedule import Gate, Match, event_from_json
from arena.events.standings import League, MatchTally, SequentialTest, Standings
from arena.files import cell, read_json
from arena.players.registry import LIMITS, Entry, Registry
from arena.ratings import Estimate, Verdict, WinDrawLoss
from arena.results.league import league
from arena.results.store import Event, Store
from arena.results.stored import readable
from bots.nets.checkpoint import MANIFEST, precision_here

STANDS_FOR = {"rollout": "mcts"}
"""Trainers whose checkpoints another entry than ``sl`` stands for, where no entry has the trainer's name."""


class Ruling(StrEnum):
    """What a gate says of a checkpoint."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a gate's games say, as the candidate saw them, up to the pair that decided."""

    match: Match
    standings: Standings

    @property
    def test(self) -> SequentialTest:
        return self.standings.tests[self.match.event]

    @property
    def tally(self) -> MatchTally:
        return self.standings.between(*self.match.players)

    @property
    def gate(self) -> Gate:
        if self.match.gate is None:
            raise ValueError(f"{self.match.event} is not a gate")
        return self.match.gate

    @property
    def ruling(self) -> Ruling:
        verdict = None if self.test.state is None else self.test.state.verdict
        return {Verdict.H1: Ruling.ACCEPTED, Verdict.H0: Ruling.REJECTED}.get(verdict, Ruling.UNDECIDED)  # type: ignore[arg-type]

    @property
    def against(self) -> str:
        """The checkpoint of the entry as it was."""
        return checkpoint_of(self.match.second).name

    @property
    def games(self) -> WinDrawLoss:
        return self.tally.results()

    @property
    def elo(self) -> Estimate:
        return self.tally.comparison().elo

    def as_json(self) -> dict[str, Any]:
        """What a manifest tells of it."""
        candidate, present, test, state = self.match.first, self.match.second, self.match.test, self.test.state
        games, elo = self.games, self.elo
        lower, upper = (None, None) if test is None else test.bounds
        return {
            "event": self.match.event,
            "verdict": str(self.ruling),
            "date": self.standings.date,
            "player": candidate.identity,
            "opponent": present.identity,
            "opponent_checkpoint": self.against,
            "opponent_net": present.net,
            "games": games.games,
            "won": games.wins,
            "drawn": games.draws,
            "lost": games.losses,
            "pairs": list(self.tally.counts.counts),
            "elo": _rounded(elo.value),
            "low": _rounded(elo.interval.low),
            "high": _rounded(elo.interval.high),
            "llr": None if state is None else round(state.llr, 3),
            "lower": None if lower is None else round(lower, 3),
            "upper": None if upper is None else round(upper, 3),
            "entry": self.gate.entry,
            **({} if test is None else asdict(test)),
        }


# --- Who plays ---


def takes_checkpoint(entry: Entry) -> bool:
    """Whether the entry has a net that may be another one."""
    return any(setting.name == "checkpoint" for setting in entry.bot_kind.settings)


def checkpoint_of(entry: Entry) -> Path:
    """The folder of the entry's checkpoint, as it is set; of 9x9 where it depends on the size."""
    return Path(dict(entry.on(9).settings)["checkpoint"])


def with_checkpoint(entry: Entry, folder: Path) -> Entry:
    """The entry's other settings and limits with another checkpoint, under the name by which that can be typed when it
    lies where checkpoints are looked for. Raises CheckpointError for one that its kind can't read."""
    player, *limits = LIMITS.split(entry.name, maxsplit=1)
    name = "@".join([f"{player}{',' if ':' in player else ':'}checkpoint={folder.name}", *limits])
    settings = {**dict(entry.settings), "checkpoint": str(folder.absolute())}
    if settings.get("precision") == "int8":
        settings["precision"] = precision_here(folder)
    return replace(entry, name=name, settings=tuple(settings.items()), net=entry.identify(folder))


TOLD: dict[str, Any] = {"rows": int, "minutes": (int, float), "trainer": str, "files": dict, "gates": list}
"""What is asked of manifests, and its types."""

TOLD_OF_A_GATE: dict[str, Any] = {
    "verdict": str,
    "date": str,
    "elo": (int, float),
    "opponent_checkpoint": str,
    "games": int,
}


def about(folder: Path) -> dict[str, Any]:
    """What a checkpoint's manifest tells, of whatever kind it is; nothing when it can't be read, and nothing of another
    type than ``TOLD`` says."""
    try:
        content = read_json(folder / MANIFEST, error=CheckpointError, hint="")
    except CheckpointError:
        return {}
    return {key: content[key] for key, kind in TOLD.items() if isinstance(content.get(key), kind)}


def training(folder: Path) -> tuple[int, float]:
    """Rows and minutes that a checkpoint was trained for; 0 where its manifest doesn't tell."""
    content = about(folder)
    return content.get("rows", 0), float(content.get("minutes", 0.0))


def entry_for(registry: Registry, folder: Path) -> str:
    """The name of the entry that stands for a trainer's checkpoints: the trainer's own, where there is an entry of that
    name that has a net; else ``mcts`` for a rollout policy, and ``sl``."""
    trainer = about(folder).get("trainer", "")
    own = [entry for entry in registry.entries if entry.name == trainer and takes_checkpoint(entry)]
    return trainer if own else STANDS_FOR.get(trainer, "sl")


def continued(store: Store, match: Match) -> tuple[Match, int]:
    """The stored gate of the same players by the same rules, with the number of games and the test of ``match``, and
    how many games it has. ``match`` itself and 0 where there is none."""
    settings = json.dumps(match.settings, sort_keys=True)
    for event in store.events():
        if event.settings == settings:
            with suppress(ConfigError):
                plan = event_from_json(event.plan)
                assert isinstance(plan, Match)
                first, second = replace(match.first, name=plan.first.name), replace(match.second, name=plan.second.name)
                changed = replace(plan, first=first, second=second, games=match.games, test=match.test)
                return changed, store.count(event=event.id)
    return match, 0


# --- What has come of an entry ---


class Over(StrEnum):
    """What an entry's strength is drawn over."""

    ROWS = "rows"
    GATES = "gates"


@dataclass(frozen=True, slots=True)
class Version:
    """One checkpoint of an entry, or one that was to be. ``created`` is when its gate was begun, ``elo`` above the
    entry's first checkpoint by all stored games; ``evidence`` is None for one that came by no gate of these results,
    and then ``elsewhere`` is what its manifest tells of the last gate of such an entry, if it does."""

    number: int
    checkpoint: str
    player: str
    net: str
    rows: int
    minutes: float
    created: str = ""
    evidence: Evidence | None = None
    elsewhere: Mapping[str, Any] | None = None
    elo: Estimate | None = None
    is_present: bool = False

    def place(self, over: Over) -> float:
        """Where it stands on that scale; 0 where its training isn't known any more."""
        return {Over.ROWS: float(self.rows), Over.GATES: float(self.number)}[over]


@dataclass(frozen=True, slots=True)
class History:
    """An entry's checkpoints in the order in which they came. ``anchor`` is the one whose Elo is 0, if any is rated;
    ``terms`` says by which games: those of the largest pool that has one of the checkpoints."""

    entry: str
    versions: tuple[Version, ...]
    anchor: str = ""
    terms: str = ""

    def rated(self, over: Over) -> list[Version]:
        """Those that have a place on that scale, and games."""
        return [version for version in self.versions if version.elo is not None and version.place(over)]

    @property
    def gates(self) -> int:
        return sum(version.evidence is not None for version in self.versions)

    @property
    def scale(self) -> Over:
        """What tells the versions apart: their training, or where that doesn't, their order."""
        return Over.ROWS if len({version.rows for version in self.versions if version.rows}) > 1 else Over.GATES


def history(entry: Entry, store: Store | None) -> History:
    """What the stored gates of an entry say of its checkpoints; ``entry`` is as it plays now."""
    versions = [] if store is None else _by_gates(entry.name, store)
    if entry.net not in {version.net for version in versions}:
        versions.append(_by_no_gate(entry, len(versions) + 1))
    playing = max(version.number for version in versions if version.net == entry.net)
    versions = [replace(version, is_present=version.number == playing) for version in versions]
    if store is None:
        return History(entry.name, tuple(versions))
    for pool in store.pools():
        rated = league(store, pool)
        known = () if rated is None else rated.ratings.players
        anchor = next((version for version in versions if version.player in known), None)
        if anchor is not None:
            rated = league(store, pool, anchor=anchor.player)
            versions = [replace(version, elo=_elo(rated, version.player)) for version in versions]
            return History(entry.name, tuple(versions), anchor.checkpoint, str(pool))
    return History(entry.name, tuple(versions))


def _by_gates(entry: str, store: Store) -> list[Version]:
    """Whom the entry's gates compared, the oldest gate first."""
    versions: list[Version] = []
    for event in store.events():
        with readable(store, event):
            found = _evidence(entry, store, event)
            if found is None:
                continue
            candidate, present = found.match.first, found.match.second
            if present.net not in {version.net for version in versions}:
                versions.append(_by_no_gate(present, len(versions) + 1))
            versions.append(
                Version(
                    len(versions) + 1,
                    found.gate.checkpoint,
                    candidate.identity,
                    candidate.net,
                    found.gate.rows,
                    found.gate.minutes,
                    event.created,
                    found,
                )
            )
    return versions


def _evidence(entry: str, store: Store, event: Event) -> Evidence | None:
    """What the games of an event say, all judged, if it is a gate of the entry."""
    if json.loads(event.settings).get("gate", {}).get("entry") != entry:
        return None
    match = event_from_json(event.plan)
    if not isinstance(match, Match) or match.gate is None:
        return None
    standings = match.standings()
    for games in store.scores(event=event.id):
        standings.add(games)
    return Evidence(match, standings)


def _by_no_gate(entry: Entry, number: int) -> Version:
    """The checkpoint that an entry has, with what its manifest tells where that is still the same net's."""
    folder = checkpoint_of(entry)
    told = about(folder)
    if entry.net not in told.get("files", {}).values():
        return Version(number, folder.name, entry.identity, entry.net, 0, 0.0)
    rows, minutes = training(folder)
    gates = [gate for gate in told.get("gates", ()) if isinstance(gate, dict) and gate.get("entry") == entry.name]
    well = [gate for gate in gates if all(isinstance(gate.get(key), kind) for key, kind in TOLD_OF_A_GATE.items())]
    elsewhere = well[-1] if well else None
    return Version(number, folder.name, entry.identity, entry.net, rows, minutes, elsewhere=elsewhere)


def _elo(rated: League | None, player: str) -> Estimate | None:
    standings = () if rated is None else rated.standings
    return next((one.elo for one in standings if one.identity == player), None)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


COLUMNS = (
    *("number", "checkpoint", "verdict", "present", "created", "event", "games", "won", "drawn", "lost", "llr"),
    *("match_elo", "match_low", "match_high", "against", "elo", "low", "high", "rows", "minutes", "net"),
)


def to_csv(found: History) -> str:
    """A row for each version, with ``COLUMNS``; empty where something isn't known."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: cell(value) for key, value in row.items()} for row in _table(found))
    return text.getvalue()


def _table(found: History) -> list[dict[str, object]]:
    rows = []
    for version in found.versions:
        evidence = version.evidence
        row: dict[str, object] = dict.fromkeys(COLUMNS)
        row |= {
            **{key: value for key, value in asdict(replace(version, evidence=None)).items() if key in COLUMNS},
            "present": version.is_present,
            "elo": None if version.elo is None else _rounded(version.elo.value),
            "low": None if version.elo is None else _rounded(version.elo.interval.low),
            "high": None if version.elo is None else _rounded(version.elo.interval.high),
        }
        if evidence is not None:
            told = evidence.as_json()
            row |= {key: told[key] for key in ("verdict", "event", "games", "won", "drawn", "lost", "llr")}
            row |= {f"match_{key}": told[key] for key in ("elo", "low", "high")}
            row["against"] = evidence.against
        rows.append(row)
    return rows
