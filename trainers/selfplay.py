"""Games that policies play in lock step, for trainers: one question to a net about all games where it is to move.

Who decides a move is up to the caller (``Seats``): two nets with a colour each, or one net up to some ply, then a
random move, then another net. A game depends on its seed, its opening and the players alone, whatever is played beside
it, as far as a net's sums do (in torch on a GPU their last bits may depend on the size of a batch). Not here: search,
clocks, resignation, setup stones, rules that count prisoners.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from arena.go.game import Ending, Outcome, Rules
from arena.go.planes import Encoder, Positions, final_owners
from arena.go.record import GameRecord
from arena.match.openings import Opening
from bots.nets.catalogue import Net
from bots.nets.gpu import TorchModel
from trainers.data import BLACK_WON, DRAWN, WHITE_WON, Games
from trainers.slots import Law, Tables, Threads, all_sensible, in_turn, look, put_game, take_turns

TOGETHER = 16
"""Positions that a net in torch evaluates at once on a processor, no more and no fewer: the last bits of its answers
depend on their number."""

GIVEN = -1
"""Who decided the moves of an opening."""


def sensible_moves(games: Games, rules: Rules) -> np.ndarray:
    """What could sensibly be played in place of each move of some games; (all moves, size² + 1) bool.

    ``rules`` are those by which all of ``games`` were played. Raises ConfigError for rules that count prisoners.
    """
    masks = np.empty((len(games.moves), games.size * games.size + 1), np.bool_)
    all_sensible(games.size, games.moves, games.starts, Law.of(rules), masks)
    return masks


# --- Who plays ---


class Player(Protocol):
    """Whoever decides moves, of many games at once."""

    @property
    def encoder(self) -> Encoder | None:
        """How positions are put to it; None when it needs none."""
        ...

    @property
    def temperature(self) -> float:
        """Moves are drawn from probabilities ^ (1 / temperature); 0 plays the best."""
        ...

    def logits(self, planes: np.ndarray) -> np.ndarray:
        """(B, size² + 1) float32 for ``planes`` (B, P, n, n) float32."""
        ...


class NetPlayer:
    """A net in torch that may still learn: it plays with the weights that it had when it was last refreshed."""

    def __init__(
        self, network: Net, encoder: Encoder, device: torch.device, temperature: float = 1.0, bf16: bool = False
    ):
        self.encoder: Encoder | None = encoder
        self.temperature = temperature
        self._model = TorchModel(network, device, bf16)
        self._parts = device.type == "cpu"

    def refresh(self) -> None:
        """Take over what the net has learned."""
        self._model.refresh()

    def logits(self, planes: np.ndarray) -> np.ndarray:
        if not self._parts:
            return self._model.run(["policy"], planes)[0]
        filled = np.zeros((-(-len(planes) // TOGETHER) * TOGETHER, *planes.shape[1:]), np.float32)
        filled[: len(planes)] = planes
        starts = range(0, len(filled), TOGETHER)
        parts = [self._model.run(["policy"], filled[first : first + TOGETHER])[0] for first in starts]
        return np.concatenate(parts)[: len(planes)]


class Uniform:
    """Plays any sensible point alike, and passes only when there is none."""

    encoder: Encoder | None = None
    temperature = 1.0

    def logits(self, planes: np.ndarray) -> np.ndarray:
        count, _, size, _ = planes.shape
        logits = np.zeros((count, size * size + 1), np.float32)
        logits[:, -1] = -1e4  # as good as never, and no infinity to subtract
        return logits


Seats = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Which of the players decides: ``seats(games, plies)`` gives for each game's number and the number of moves played
there, both (k,) int64, the player's number; (k,) int64."""


def by_colour(black: np.ndarray, white: np.ndarray) -> Seats:
    """Seats for games that have one player a colour: their numbers, (games,) each."""
    pairs = np.stack([black, white], 1).astype(np.int64)
    return lambda games, plies: pairs[games, plies % 2]


# --- Playing ---


@dataclass(frozen=True, slots=True)
class Speed:
    """Where the time of some games went."""

    positions: int
    """Moves that were decided."""
    questions: int
    """Batches that they were decided in."""
    slots: int
    """The most games in a batch."""
    seconds: float
    net_seconds: float
    """Spent in players, with the way to the device and back."""
    encoding_seconds: float

    @property
    def per_second(self) -> float:
        return self.positions / max(1e-9, self.seconds)

    @property
    def batch(self) -> float:
        """Positions of a question, in the mean."""
        return self.positions / max(1, self.questions)

    @property
    def fill(self) -> float:
        """The mean share of the slots that a question fills."""
        return self.batch / max(1, self.slots)

    @property
    def net_share(self) -> float:
        """The share of the time spent in players."""
        return self.net_seconds / max(1e-9, self.seconds)

    def __str__(self) -> str:
        return (
            f"{self.per_second:,.0f} positions/s in batches of {self.batch:.0f} ({self.fill:.0%} full), "
            f"{self.net_share:.0%} of the time in nets"
        )


@dataclass(frozen=True, slots=True)
class Played:
    """Finished games, in the order of their seeds."""

    rules: Rules
    games: Games
    margins: np.ndarray  # (games,) float64: Black's, komi counted
    openings: np.ndarray  # (games,) int64: moves of each that were given
    deciders: np.ndarray  # (all moves,) int8: the number of the player who decided it, or GIVEN
    seeds: np.ndarray  # (games,) uint64
    speed: Speed

    def points(self, black: np.ndarray) -> np.ndarray:
        """(games,) float64: 1 for a win, 1/2 for a draw, 0 for a loss of the side that has Black where ``black``, a
        mask, says so and else White."""
        return np.where(black, 1.0, -1.0) * np.sign(self.margins) / 2 + 0.5

    def records(self, names: Sequence[tuple[str, str]], **fields: Any) -> Iterator[GameRecord]:
        """The games as records; ``names`` are Black's and White's of each, ``fields`` the same for all."""
        passing = self.games.size**2
        for number, (black, white) in enumerate(names):
            moves = self.games.moves[self.games.starts[number] : self.games.starts[number + 1]].tolist()
            ending = Ending.SCORE if moves[-2:] == [passing, passing] else Ending.MOVE_LIMIT
            yield GameRecord(
                self.rules,
                tuple(moves),
                Outcome.scored(float(self.margins[number]), ending),
                black,
                white,
                seed=int(self.seeds[number] >> np.uint64(1)),
                opening=int(self.openings[number]),
                **fields,
            )


ROOM = 64
"""Positions that a thread copies and encodes at a time: as many as stay in the cache."""


class _Room:
    """The slots, and the work on them that Python only hands out."""

    def __init__(self, rules: Rules, slots: int, threads: Threads):
        self.rules, self.law, self.slots = rules, Law.of(rules), slots
        self.tables = Tables.empty(slots, rules.move_limit)
        self._threads = threads

    def planes(self, which: np.ndarray, encoder: Encoder | None) -> np.ndarray:
        """(len(which), planes, n, n) float32."""
        size = self.rules.size
        if encoder is None:
            return np.empty((len(which), 0, size, size), np.float32)
        planes = np.empty((len(which), encoder.planes, size * size), np.float32)

        def fill(part: slice) -> None:
            positions = Positions.empty(min(ROOM, part.stop - part.start))
            for first in range(part.start, part.stop, ROOM):
                some = which[first : min(first + ROOM, part.stop)]
                look(self.tables, some, self.law.komi, positions)
                encoder.encode(positions, len(some), planes[first : first + len(some)])

        self._threads.each(fill, self._threads.parts(len(which)))
        return planes.reshape(len(which), encoder.planes, size, size)

    def take_turns(self, which: np.ndarray, logits: np.ndarray, temperature: float) -> tuple[np.ndarray, np.ndarray]:
        """Whether each game ended, and Black's margin of those that did; (len(which),) each."""
        over, margins = np.empty(len(which), np.bool_), np.empty(len(which), np.float64)

        def turn(part: slice) -> None:
            take_turns(self.tables, which[part], logits[part], temperature, self.law, margins[part], over[part])

        self._threads.each(turn, self._threads.parts(len(which)))
        return over, margins


def groups_on(device: torch.device) -> int:
    """In how many groups games are best played with nets on a device: on a processor the nets have all of it."""
    return 1 if device.type == "cpu" else 2


class _Question(NamedTuple):
    """What a player is asked, and about which slots."""

    player: int
    which: np.ndarray  # (k,) int64
    planes: np.ndarray  # (k, planes, n, n) float32


class Ended(NamedTuple):
    """A game that is over."""

    number: int
    """Among the seeds."""
    moves: np.ndarray  # (moves,) uint16
    deciders: np.ndarray  # (moves,) int8
    margin: float
    """Black's, komi counted."""
    given: int
    """Moves of its opening."""


class Course:
    """Games on their way through the slots, which are parted into groups: who is asked what, and what became of it."""

    def __init__(
        self,
        players: Sequence[Player],
        seats: Seats,
        rules: Rules,
        seeds: np.ndarray,
        openings: Sequence[Opening] = (),
        slots: int = 1024,
        threads: int = 1,
        groups: int = 1,
    ):
        """See ``play``."""
        slots = max(1, min(slots, len(seeds)))
        groups = min(groups, slots)
        self._players, self._seats, self._rules, self._seeds, self._openings = players, seats, rules, seeds, openings
        self._threads = threads
        self._groups = np.array_split(np.arange(slots), groups)
        self._begun = 0
        self._game = np.full(slots, -1)  # of each slot
        self._given = np.zeros(slots, np.int64)
        self._decided = np.empty((slots, rules.move_limit), np.int8)
        self._over: list[Ended] = []
        self.speed = Speed(0, 0, -(-slots // groups), 0.0, 0.0, 0.0)
        """Of what was played so far."""

    def play(self) -> Iterator[Ended]:
        """The games, as they end; to be called once."""
        started = time.perf_counter()
        with Threads(self._threads) as pool:
            self._room = _Room(self._rules, len(self._game), pool)
            for _ in in_turn(len(self._groups), self._ask, self._consult, self._take):
                self.speed = replace(self.speed, seconds=time.perf_counter() - started)
                yield from self._over
                self._over.clear()

    def _ask(self, group: int) -> _Question | None:
        """The next question about a group, whose free slots take new games first; None when all of them are over."""
        slots, lengths = self._groups[group], self._room.tables.lengths
        for slot in slots[self._game[slots] < 0][: len(self._seeds) - self._begun].tolist():
            self._begin(slot)
        waiting = slots[self._game[slots] >= 0]
        if not len(waiting):
            return None
        seated = self._seats(self._game[waiting], lengths[waiting])
        player = int(np.bincount(seated).argmax())
        which = waiting[seated == player]
        started = time.perf_counter()
        planes = self._room.planes(which, self._players[player].encoder)
        spent = self.speed.encoding_seconds + time.perf_counter() - started
        self.speed = replace(self.speed, encoding_seconds=spent)
        return _Question(player, which, planes)

    def _begin(self, slot: int) -> None:
        opening = self._openings[self._begun] if self._openings else ()
        room = self._room
        put_game(room.tables, slot, room.law, room.rules.size, int(self._seeds[self._begun]), opening)
        self._decided[slot, : len(opening)] = GIVEN
        self._game[slot], self._given[slot] = self._begun, len(opening)
        self._begun += 1

    def _consult(self, question: _Question) -> tuple[np.ndarray, float]:
        """The answer, and the seconds that it took: in another thread, where there are groups."""
        asked = time.perf_counter()
        return self._players[question.player].logits(question.planes), time.perf_counter() - asked

    def _take(self, question: _Question, answer: tuple[np.ndarray, float]) -> None:
        """Play what a player has said; games that are over leave their slots."""
        which, lengths, (logits, seconds) = question.which, self._room.tables.lengths, answer
        self._decided[which, lengths[which]] = question.player
        over, margins = self._room.take_turns(which, logits, self._players[question.player].temperature)
        speed = self.speed
        self.speed = replace(
            speed,
            positions=speed.positions + len(which),
            questions=speed.questions + 1,
            net_seconds=speed.net_seconds + seconds,
        )
        for slot, margin in zip(which[over].tolist(), margins[over].tolist(), strict=True):
            length = lengths[slot]
            moves, deciders = self._room.tables.moves[slot, :length].copy(), self._decided[slot, :length].copy()
            self._over.append(Ended(int(self._game[slot]), moves, deciders, margin, int(self._given[slot])))
            self._game[slot] = -1


def play(
    players: Sequence[Player],
    seats: Seats,
    rules: Rules,
    seeds: np.ndarray,
    openings: Sequence[Opening] = (),
    slots: int = 1024,
    threads: int = 1,
    groups: int = 1,
) -> Played:
    """Play one game for each of ``seeds`` (games,) uint64, ``slots`` at once; a slot whose game ends takes the next.

    ``openings``, one a game or none at all, are moves that are given. Of the players the one is asked next who is to
    move in the most games. So two nets with half of the colours each fall out of step by a move at once, and from then
    on each is asked about all the games, not half of them. The slots are parted into ``groups``: with more than one, a
    player is asked about one of them in a thread of its own while the moves of another are played and its next
    positions encoded, so that neither waits. Raises ConfigError for rules that count prisoners and IllegalMove for an
    opening that can't be played.
    """
    course = Course(players, seats, rules, seeds, openings, slots, threads, groups)
    ended = list(course.play())
    return gathered(rules, ended, seeds, course.speed)


def gathered(rules: Rules, ended: Sequence[Ended], seeds: np.ndarray, speed: Speed) -> Played:
    """All games of ``seeds``, in the order of their numbers."""
    ended = sorted(ended, key=lambda game: game.number)
    margins = np.array([game.margin for game in ended], np.float64)
    games = games_from_moves(rules, [game.moves for game in ended], margins)
    deciders = np.concatenate([game.deciders for game in ended]) if ended else np.empty(0, np.int8)
    given = np.array([game.given for game in ended], np.int64)
    return Played(rules, games, margins, given, deciders, np.asarray(seeds, np.uint64), speed)


def games_from_moves(rules: Rules, finished: Sequence[np.ndarray], margins: np.ndarray) -> Games:
    """Games by their moves and Black's margins, from which rows can be made: all are scored as they stand."""
    count = len(finished)
    moves = np.concatenate(finished) if finished else np.empty(0, np.uint16)
    starts = np.concatenate([[0], np.cumsum([len(game) for game in finished])]).astype(np.int64)
    owners = np.empty((count, rules.size**2), np.int8)
    final_owners(rules.size, moves, starts, owners)
    return Games(
        size=rules.size,
        moves=moves,
        starts=starts,
        komis=np.full(count, rules.komi),
        winners=np.where(margins > 0, BLACK_WON, np.where(margins < 0, WHITE_WON, DRAWN)).astype(np.uint8),
        dates=np.zeros(count, np.int32),
        sources=np.zeros(count, np.uint8),
        scored=np.ones(count, np.bool_),
        owners=owners,
    )


def draw_seeds(count: int, *key: int) -> np.ndarray:
    """Seeds of games, (count,) uint64, by a key of numbers."""
    return np.random.default_rng(key).integers(0, 2**63, count, np.uint64)
