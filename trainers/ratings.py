"""Matches that rate a net while it learns, and the file of their results."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from arena import CheckpointError
from arena.contract.bot import Bot, Decision, Limits
from arena.files import write
from arena.go.coords import BLACK, WHITE
from arena.go.game import Game, Rules
from arena.go.planes import encode_games
from arena.match.game_loop import GameLoop
from arena.match.openings import draw_openings
from arena.match.schedule import Pairing
from arena.players.player import Player
from arena.ratings import PairCounts, compare, expected_score
from bots.policy import pick_move
from trainers.selfplay import SelfPlayNet, draw_seeds

PATIENT = Limits(deadline=3600)  # a net's first move may compile kernels
RATINGS_FILE = "ratings.jsonl"  # beside a run's state
STEP = "step"  # first word of the name of an opponent that is an earlier net of the run

GoesOn = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Rating:
    """The result of a match of the learner."""

    iteration: int
    against: str  # the first net, a bot, or a net of this run as "step 120"
    games: int
    share: float  # of the points
    low: float  # 95 % interval of the share, from pairs of games with one opening
    high: float

    @property
    def step(self) -> int | None:
        """The step of the opponent, if it is a net of this run."""
        word, _, number = self.against.partition(" ")
        return int(number) if word == STEP and number.isdecimal() else None

    @property
    def opponent(self) -> str:
        """The opponent's name in the Elo fit: a net of the run has the number of its step."""
        return f" {self.against}" if self.step is None else str(self.step)

    @classmethod
    def of(cls, iteration: int, against: str, points: np.ndarray) -> "Rating":
        """From the learner's points (games,); two successive games have one opening."""
        ends = compare(PairCounts.of((points[0::2] + points[1::2]).tolist())).elo
        low = 0.0 if ends.low is None else expected_score(ends.low)
        high = 1.0 if ends.high is None else expected_score(ends.high)
        return cls(iteration, against, len(points), float(points.mean()), low, high)


@dataclass(frozen=True, slots=True)
class SelfPlayProgress:
    """Progress of a run that learns from its own games: the last figures logged, and all matches so far."""

    step: int
    figures: Mapping[str, float]
    minutes_left: float | None
    ratings: tuple[Rating, ...]


def write_rating(folder: Path, rating: Rating) -> None:
    """Append to a run's ratings; the file is complete at any moment. Raises CheckpointError for a full disk."""
    path = folder / RATINGS_FILE
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    write(path, f"{before}{json.dumps(asdict(rating))}\n", error=CheckpointError)


def read_ratings(folder: Path, until: int) -> tuple[Rating, ...]:
    """A run's ratings up to iteration ``until``, in order; the last one of each match. Raises CheckpointError for a
    damaged file."""
    path = folder / RATINGS_FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    try:
        ratings = [Rating(**json.loads(line)) for line in lines]
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path}: holds no ratings ({error}); remove it to start the curve again") from error
    latest = {(rating.iteration, rating.against): rating for rating in ratings if rating.iteration <= until}
    return tuple(sorted(latest.values(), key=lambda rating: rating.iteration))


class PolicyBot(Bot):
    """A net that plays by its policy alone."""

    def __init__(self, net: SelfPlayNet, temperature: float = 1.0):
        self._net, self._temperature = net, temperature

    def choose(self, game: Game, limits: Limits) -> Decision:
        return self.choose_all([game], limits)[0]

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        logits, _ = self._net.evaluate(encode_games(self._net.encoder, games))
        return [Decision(pick_move(game, row, self._temperature)) for game, row in zip(games, logits, strict=True)]


class RatingMatch(NamedTuple):
    """A match of pairs of games, each pair with one opening and both colours."""

    rules: Rules
    games: int
    plies: int  # random moves of an opening
    key: tuple[int, ...]  # seeds the games; the first number seeds the openings

    def play(
        self, player: Bot, opponent: Bot, limits: Limits = PATIENT, slots: int = 1, goes_on: GoesOn = lambda: True
    ) -> np.ndarray:
        """The points of the player, (games,) float64, 1/2 for a draw; fewer if ``goes_on`` turns false. A fault of the
        opponent loses its game; a fault of the player raises RuntimeError."""
        openings = draw_openings(self.rules, self.games // 2, self.plies, self.key[0])
        pairings, points = list[Pairing](), dict[int, float]()
        for number, seed in enumerate((draw_seeds(self.games, *self.key) >> np.uint64(1)).tolist()):
            colours = ("opponent", "net") if number % 2 else ("net", "opponent")
            pairings.append(Pairing(str(number), number, *colours, openings[number // 2], seed))
        players, allowed = {"net": player, "opponent": opponent}, {"net": PATIENT, "opponent": limits}
        loop, waiting = GameLoop(players, self.rules, allowed), iter(pairings)
        while goes_on():
            for pairing in islice(waiting, slots - len(loop.live_games)):
                loop.start_game(pairing)
            if not loop.live_games:
                break
            for record in loop.play_round():
                outcome = record.outcome
                assert outcome is not None  # its game is over
                winner = {BLACK: record.black, WHITE: record.white, None: ""}[outcome.winner]
                if winner == "opponent" and outcome.ending.is_forfeit:
                    raise RuntimeError(record.reason)
                points[int(record.id)] = float(winner == "net") if winner else 0.5
        return np.array([points[number] for number in sorted(points)])

    def rate(self, iteration: int, player: Bot, opponent: Player, goes_on: GoesOn = lambda: True) -> Rating | None:
        """Play a match against a bot of the registry; None if ``goes_on`` turns false before its end."""
        bot = opponent.build()
        try:
            points = self.play(player, bot, opponent.limits, min(self.games, opponent.bot_kind.boards), goes_on)
        finally:
            bot.close()
        return Rating.of(iteration, opponent.name, points) if len(points) == self.games else None
