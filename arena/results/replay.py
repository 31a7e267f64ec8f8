"""Stored games played again by the same players from the same seeds, and where they differ. Nothing is stored.

What is played is a game's own pairing, in worker processes as in its event: who crashed or hung then does so again,
and harms nobody. A game that is played again by itself has its worker, and every call of a bot, to itself.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from arena import CheckpointError, ConfigError, UserError
from arena.contract.adjudication import OFF
from arena.contract.settings import describe
from arena.go.coords import gtp_from_move
from arena.go.game import Ending
from arena.go.record import GameRecord
from arena.match.crew import Crew, Progress
from arena.match.ladder import Ladder
from arena.match.runner import TICK
from arena.match.schedule import Match, Pairing, Terms, Tournament, event_from_json
from arena.match.worker import Job
from arena.players.player import Player
from arena.players.registry import Registry
from arena.results.store import Store
from bots.nets.checkpoint import find, known


class ReplayError(UserError):
    """A stored game that can't be played again as it was."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A stored game beside the one that was played now; ``common`` counts the moves that both begin with."""

    stored: GameRecord
    again: GameRecord
    common: int

    @classmethod
    def of(cls, stored: GameRecord, again: GameRecord) -> Comparison:
        pairs = enumerate(zip(stored.moves, again.moves, strict=False))
        shorter = min(len(stored.moves), len(again.moves))
        return cls(stored, again, next((number for number, (one, other) in pairs if one != other), shorter))

    @property
    def is_identical(self) -> bool:
        """Whether the moves and the end are the same, and what an adjudication said. Times and reasons don't count."""
        stored, again = self.stored, self.again
        same_end = stored.outcome == again.outcome and stored.adjudged == again.adjudged
        return stored.moves == again.moves and same_end

    def __str__(self) -> str:
        """``identical: 57 moves, W+3.5`` or ``differs at move 23: stored D4, now E5``."""
        if self.is_identical:
            return f"identical: {len(self.stored.moves)} moves, {_end(self.stored)}"
        then, now = _next(self.stored, self.common), _next(self.again, self.common)
        return f"differs at move {self.common + 1}: stored {then}, now {now}"


def _next(record: GameRecord, number: int) -> str:
    """The position and what follows after a number of moves."""
    if number < len(record.moves):
        return gtp_from_move(record.moves[number], record.rules.size)
    return f"the end, {_end(record)}"


def _end(record: GameRecord) -> str:
    """``W+3.5``, or with why it is over where that isn't the score."""
    outcome = record.outcome
    if outcome is None:
        return "without a result"
    result = outcome.brief
    return result if outcome.ending is Ending.SCORE else f"{result} ({record.reason or outcome.ending})"


# --- Who played ---


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays a stored game again, by the names it carries, and on which terms.

    ``notes`` name players that have changed since; ``doubts`` say why the replay may differ.
    """

    players: tuple[tuple[str, Player], ...]
    terms: Terms
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


class Casting:
    """Finds who played the games of a store, from the plans of their events and the nets on disk."""

    def __init__(self, store: Store, registry: Registry, results: Path):
        self._plans = {event.id: event.plan for event in store.events()}
        self._events: dict[str, Match | Tournament | Ladder | None] = {}
        self._stored = store.players()
        self._registry = registry
        self._results = results
        self._found: dict[tuple[str, str, str], tuple[Player, list[str]]] = {}

    def cast(self, record: GameRecord) -> Cast:
        """Who plays this game again. Raises ReplayError where a person played, or a player whose settings or net aren't
        there any more."""
        found = {
            record.black: self._find(record.event, record.black, record.black_player),
            record.white: self._find(record.event, record.white, record.white_player),
        }
        event = self._event(record.event)
        doubts = [doubt for name, (player, _) in found.items() for doubt in _doubts(name, player)]
        if record.outcome is not None and record.outcome.ending is Ending.TIME:
            doubts.append("a game was lost on time")
        return Cast(
            tuple((name, player) for name, (player, _) in found.items()),
            Terms(record.rules, plies=0, adjudication=OFF if event is None else event.terms.adjudication),
            tuple(note for _, notes in found.values() for note in notes),
            tuple(doubts),
        )

    def _event(self, id: str) -> Match | Tournament | Ladder | None:
        """None where an older arena stored no plan."""
        if id not in self._events:
            plan = self._plans.get(id, "")
            self._events[id] = event_from_json(plan) if plan else None
        return self._events[id]

    def _find(self, event: str, name: str, identity: str) -> tuple[Player, list[str]]:
        """The player as it can be had now, and what has changed."""
        key = (event, name, identity)
        if key not in self._found:
            player = self._planned(event, name, identity)
            if player.is_person:
                raise ReplayError(f"{name} is a person, who can't replay moves")
            player = self._with_its_net(player)
            self._found[key] = player, list(self._changes(name, player))
        return self._found[key]

    def _planned(self, event: str, name: str, identity: str) -> Player:
        """The player of this identity, from the event's plan, or as it was stored when it first played."""
        planned = self._event(event)
        entry = next(
            (one for one in ([] if planned is None else planned.players.values()) if one.identity == identity), None
        )
        stored = self._stored.get(identity)
        if entry is None and stored is None:
            raise ReplayError(f"{name} can't play again: its settings are not stored")
        if entry is None and stored is not None:
            entry = replace(stored, name=name)
        assert entry is not None
        try:
            entry = self._registry.trusted(entry)
        except ConfigError as error:
            raise ReplayError(f"{name} can't play again: {error}") from error
        if entry.identity != identity:
            raise ReplayError(f"{name} can't play again: an older arena stored it, without all that it played with")
        return entry

    def _with_its_net(self, entry: Player) -> Player:
        """The player with its net where that lies now."""
        if not entry.net:
            return entry
        settings = dict(entry.settings)
        there = ""
        for place in (settings["checkpoint"], *known(self._results)):
            with suppress(CheckpointError):
                found = find(place, self._results)
                net = entry.identify(found)
                if net == entry.net:
                    settings["checkpoint"] = str(found.absolute())
                    return replace(entry, settings=settings)
                there = there or f"; the net there now is {net[:8]}"
        folder = settings["checkpoint"]
        raise ReplayError(
            f"{entry.name} played with the net {entry.net[:8]} in {folder}{there}; put it back and repeat the command"
        )

    def _changes(self, name: str, then: Player) -> Iterator[str]:
        """How a player of this name differs now from who played, in a line; nothing when it doesn't."""
        try:
            now = self._registry.resolve_stored(name.removesuffix(" (2)"))
        except UserError:
            return  # the name was somebody's of another folder or file
        if now.identity == then.identity:
            return
        old, new = ({**entry.settings, "limits": str(entry.limits)} for entry in (then, now))
        changed = [f"kind {then.kind}, now {now.kind}"] if then.kind != now.kind else []
        for key in old | new if not changed else ():
            values = [_worded(key, settings.get(key)) for settings in (old, new)]
            if values[0] != values[1] and key != "checkpoint":
                changed.append(f"{key} {values[0]}, now {values[1]}")
        if then.net != now.net:
            changed.append(f"net {then.net[:8] or 'none'}, now {now.net[:8] or 'none'}")
        yield f"{name} is another player now ({'; '.join(changed)}); who played then plays"


def _worded(key: str, value: object) -> str:
    return "unset" if value in (None, "") else describe(key, value)


def _doubts(name: str, entry: Player) -> Iterator[str]:
    if entry.kind == "gtp":
        yield f"{name} is an engine from outside"
    if entry.limits.seconds is not None or entry.limits.time is not None:
        yield f"{name} thinks by the clock"
    if entry.settings.get("threads", 1) > 1:
        yield f"{name} thinks in several threads"
    if entry.settings.get("ponder"):
        yield f"{name} thinks while the other side does"


# --- Playing ---


@dataclass(slots=True)
class Rerun:
    """Stored games that can be played by one crew."""

    players: dict[str, Player]
    terms: Terms
    records: list[GameRecord]

    def takes(self, cast: Cast) -> bool:
        """Whether a game of this cast can be played with the others: no two players share a name."""
        if self.terms != cast.terms:
            return False
        return all(self.players.get(name, entry) == entry for name, entry in cast.players)


def play_again(games: Sequence[tuple[GameRecord, Cast]], workers: int) -> Generator[Progress, None, None]:
    """Play these games again. Closing the generator stops the workers."""
    reruns: list[Rerun] = []
    for record, cast in games:
        rerun = next((rerun for rerun in reruns if rerun.takes(cast)), None)
        if rerun is None:
            rerun = Rerun({}, cast.terms, [])
            reruns.append(rerun)
        rerun.players.update(cast.players)
        rerun.records.append(record)
    for rerun in reruns:
        with Crew(Job(rerun.players, rerun.terms.rules, rerun.terms.adjudication, 1), workers) as crew:
            crew.add(
                Pairing(record.id, 0, record.black, record.white, record.moves[: record.opening], record.seed)
                for record in rerun.records
            )
            while crew.is_busy:
                yield crew.poll(TICK)
