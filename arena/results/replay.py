"""A stored game played again by the same players from the same seed, and where it differs. Nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from arena import ConfigError, UserError
from arena.contract.adjudication import OFF, Adjudication
from arena.go.coords import gtp_from_move
from arena.go.game import Ending
from arena.go.record import GameRecord
from arena.match.crew import Crew
from arena.match.runner import TICK
from arena.match.schedule import Pairing, event_from_json
from arena.players.player import Player
from arena.players.registry import Registry
from arena.results.store import Store


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
        then, now = (_move_or_end(record, self.common) for record in (self.stored, self.again))
        return f"differs at move {self.common + 1}: stored {then}, now {now}"


def _move_or_end(record: GameRecord, number: int) -> str:
    """What follows after a number of moves."""
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


def play_again(record: GameRecord, players: Mapping[str, Player], adjudication: Adjudication) -> Comparison:
    """Play a game from its pairing, in a worker process as in its event: a player that crashed or hung then does so
    again. ``players`` are by the names in the game. Raises UserError for one that can't be built or is another now."""
    pairing = Pairing(record.id, 0, record.black, record.white, record.moves[: record.opening], record.seed)
    again: list[GameRecord] = []
    with Crew(players, record.rules, adjudication, 1) as crew:
        crew.add([pairing])
        while crew.is_busy:
            again += crew.poll(TICK).records
    return Comparison.of(record, again[0])


def players_of(record: GameRecord, store: Store, registry: Registry) -> tuple[dict[str, Player], Adjudication]:
    """Who plays a stored game again, by the names in it, and when it is adjudicated. Raises ReplayError where a person
    played, or a player whose settings are not stored or name something to run that isn't in arena.toml."""
    stored, players = store.players(), {}
    for name, identity in ((record.black, record.black_player), (record.white, record.white_player)):
        if identity not in stored:
            raise ReplayError(f"{name} can't play again: its settings are not stored")
        try:
            player = registry.trusted(stored[identity])
        except ConfigError as error:
            raise ReplayError(f"{name} can't play again: {error}") from error
        if player.is_person:
            raise ReplayError(f"{name} is a person, who can't replay moves")
        players[name] = player
    plan = next((event.plan for event in store.events() if event.id == record.event), "")
    return players, event_from_json(plan).terms.adjudication if plan else OFF


def doubts(record: GameRecord, players: Mapping[str, Player]) -> Iterator[str]:
    """Why a replay may differ."""
    for name, player in players.items():
        if player.kind == "gtp":
            yield f"{name} is an engine from outside"
        if player.limits.seconds is not None or player.limits.time is not None:
            yield f"{name} thinks by the clock"
        if player.settings.get("threads", 1) > 1:
            yield f"{name} thinks in several threads"
    if record.outcome is not None and record.outcome.ending is Ending.TIME:
        yield "the game was lost on time"
