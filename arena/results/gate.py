"""Gates: whether a checkpoint replaces that of an entry, by the stored games of a match."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from arena import CheckpointError, ConfigError
from arena.match.event import event_from_json
from arena.match.schedule import Gate, Match
from arena.match.standings import MatchTally, SequentialTest, Standings
from arena.players.player import Player
from arena.players.registry import LIMITS, Registry
from arena.ratings import EloEstimate, SprtVerdict
from arena.results.store import Store
from bots.nets.checkpoint import Checkpoint, precision_here

STANDS_FOR = {"rollout": "mcts"}
"""Trainers whose checkpoints another entry than ``sl`` stands for, where no entry has the trainer's name."""


class Ruling(StrEnum):
    """The result of a gate."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNDECIDED = "undecided"


class Candidates(NamedTuple):
    """How many different nets were tested against one net of an entry, by the result."""

    accepted: int
    rejected: int
    undecided: int

    def error_rate(self, alpha: float) -> float:
        """The probability that at least one passes if none is stronger and each does with probability ``alpha``."""
        return 1 - (1 - alpha) ** sum(self)


@dataclass(frozen=True, slots=True)
class GateMatch:
    """A gate's games, from the candidate's view, up to the pair that decided; ``candidates`` are all of the entry's
    present net, with this one."""

    match: Match
    standings: Standings
    candidates: Candidates

    @property
    def test(self) -> SequentialTest:
        return self.standings.tests[self.match.event]

    @property
    def tally(self) -> MatchTally:
        return self.standings.between(*self.match.players)

    @property
    def gate(self) -> Gate:
        assert self.match.gate is not None
        return self.match.gate

    @property
    def ruling(self) -> Ruling:
        return _ruling(self.test)

    @property
    def against(self) -> str:
        """The checkpoint of the entry as it was."""
        return checkpoint_of(self.match.second).name

    def as_json(self) -> dict[str, Any]:
        """The gate as it is stored in a checkpoint's manifest."""
        present, state, games = self.match.second, self.test.state, self.tally.results()
        found = self.standings.comparison  # its interval is valid whenever one stops
        figures = {**(EloEstimate(0.0) if found is None else found.elo)._asdict(), "llr": state and state.llr}
        return {
            "event": self.match.event,
            "verdict": str(self.ruling),
            "date": self.standings.date,
            "entry": self.gate.entry,
            "player": self.match.first.identity,
            "opponent": present.identity,
            "opponent_checkpoint": self.against,
            "opponent_net": present.net,
            "games": games.games,
            "won": games.wins,
            "drawn": games.draws,
            "lost": games.losses,
            **{"elo" if key == "value" else key: value and round(value, 2) for key, value in figures.items()},
            **asdict(self.test.test),
            "candidates": self.candidates._asdict(),
            "error_rate": round(self.candidates.error_rate(self.test.test.alpha), 4),
        }


def _ruling(test: SequentialTest) -> Ruling:
    verdict = SprtVerdict.RUNNING if test.state is None else test.state.verdict
    return {SprtVerdict.H1: Ruling.ACCEPTED, SprtVerdict.H0: Ruling.REJECTED}.get(verdict, Ruling.UNDECIDED)


def count_candidates(store: Store, match: Match) -> Candidates:
    """The different nets that stored gates tested against the present net of this gate's entry, by the best ruling."""
    rulings: dict[str, set[Ruling]] = {}
    for event in store.events():
        if "gate" in event.settings:
            with suppress(ConfigError):
                plan = event_from_json(event.plan)
                assert isinstance(plan, Match) and plan.gate is not None and match.gate is not None
                if (plan.gate.entry, plan.second.net) == (match.gate.entry, match.second.net):
                    standings = plan.standings()
                    for games in store.game_summaries(event=event.id):
                        standings.add(games)
                    rulings.setdefault(plan.first.net, set()).add(_ruling(standings.tests[event.id]))
    found = Counter(next(ruling for ruling in Ruling if ruling in own) for own in rulings.values())
    return Candidates(*(found[ruling] for ruling in Ruling))


# --- Who plays ---


def takes_checkpoint(entry: Player) -> bool:
    """Whether the entry has a net that may be another one."""
    return any(setting.name == "checkpoint" for setting in entry.bot_kind.settings)


def checkpoint_of(entry: Player) -> Path:
    """The folder of the entry's checkpoint, as it is set; of 9x9 where it depends on the size."""
    return Path(entry.for_size(9).settings["checkpoint"])


def with_checkpoint(entry: Player, folder: Path) -> Player:
    """The entry's other settings and limits with another checkpoint, under the name by which that can be typed when it
    lies where checkpoints are looked for. Raises CheckpointError for one that its kind can't read."""
    player, *limits = LIMITS.split(entry.name, maxsplit=1)
    name = "@".join([f"{player}{',' if ':' in player else ':'}checkpoint={folder.name}", *limits])
    settings = {**entry.settings, "checkpoint": str(folder.absolute())}
    if settings.get("precision") == "int8":
        settings["precision"] = precision_here(folder)
    return replace(entry, name=name, settings=settings, net=entry.identify(folder))


def entry_for(registry: Registry, folder: Path) -> str:
    """The entry for a trainer's checkpoints: that of the trainer's name if it has a net, else ``STANDS_FOR`` or sl."""
    trainer = ""
    with suppress(ConfigError, CheckpointError):
        trainer = Checkpoint.open(folder).manifest.trainer
        if takes_checkpoint(registry.entry(trainer)):
            return trainer
    return STANDS_FOR.get(trainer, "sl")


def resume_gate(store: Store, match: Match, is_tested: bool) -> tuple[Match, int]:
    """The stored gate of the same players by the same rules, with the number of games of ``match`` and, if
    ``is_tested``, its test, and how many games it has. ``match`` itself and 0 where there is none."""
    settings = json.loads(json.dumps(match.settings))
    for event in store.events():
        if event.settings == settings:
            with suppress(ConfigError):
                plan = event_from_json(event.plan)
                assert isinstance(plan, Match)
                first, second = replace(match.first, name=plan.first.name), replace(match.second, name=plan.second.name)
                changed = replace(plan, first=first, second=second, games=match.games)
                changed = replace(changed, test=match.test) if is_tested else changed
                return changed, store.count(event=event.id)
    return match, 0
