"""Games of bots for trainers, on the arena's own game loop, and matches that rate a net."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from arena.contract.bot import Bot, Decision, Limits
from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Game, Rules
from arena.go.planes import encode_games
from arena.go.record import GameRecord
from arena.match.game_loop import GameLoop
from arena.match.openings import draw_openings
from arena.match.schedule import Pairing
from arena.players.player import Player
from bots.policy import pick
from trainers.progress import Rating
from trainers.selfplay import Evaluator, draw_seeds

PATIENT = Limits(deadline=3600)
"""Of a net or a teacher: its first move may compile kernels or have the net captured."""


def play_bots(
    players: Mapping[str, Bot],
    limits: Mapping[str, Limits],
    rules: Rules,
    pairings: Iterable[Pairing],
    slots: int,
    goes_on: Callable[[], bool],
) -> Iterator[GameRecord]:
    """Play games, ``slots`` at once, as they end; those under way are lost once it no longer ``goes_on``, which is
    asked before every round of moves."""
    loop, waiting = GameLoop(players, rules, limits), iter(pairings)
    while goes_on():
        while len(loop.live_games) < slots and (pairing := next(waiting, None)) is not None:
            loop.start_game(pairing)
        if not loop.live_games:
            return
        yield from loop.play_round()


# --- Matches ---


class PolicyBot(Bot):
    """A net that plays by its policy alone."""

    def __init__(self, net: Evaluator, temperature: float):
        self._net, self._temperature = net, temperature

    def choose(self, game: Game, limits: Limits) -> Decision:
        return self.choose_all([game], limits)[0]

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        logits, _ = self._net.evaluate(encode_games(self._net.encoder, games))
        return [Decision(pick(game, row, self._temperature)) for game, row in zip(games, logits, strict=True)]


class RatingMatch(NamedTuple):
    """A match that shows how strong a net is: pairs of games, each with an opening of its own and both colours."""

    rules: Rules
    games: int
    plies: int
    """Random moves of an opening."""
    key: tuple[int, ...]
    """Draws the openings by its first number, and the games' seeds by all of them."""

    def play(
        self,
        names: tuple[str, str],
        player: Bot,
        opponent: Bot,
        limits: Limits = PATIENT,
        slots: int = 1,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> tuple[np.ndarray, list[GameRecord]]:
        """The points of the player, whose name is the first of ``names``: (games,) float64, 1 for a win and 1/2 for a
        draw; and the records. There are fewer where it no longer ``goes_on``. A fault of the opponent is a game lost
        by it; one of the player raises RuntimeError."""
        own, other = names
        openings = draw_openings(self.rules, self.games // 2, self.plies, self.key[0])
        seeds = (draw_seeds(self.games, *self.key) >> np.uint64(1)).tolist()
        pairings = [
            Pairing(str(number), number, *((other, own) if number % 2 else (own, other)), openings[number // 2], seed)
            for number, seed in enumerate(seeds)
        ]
        players, allowed = {own: player, other: opponent}, {own: PATIENT, other: limits}
        records = sorted(
            play_bots(players, allowed, self.rules, pairings, slots, goes_on), key=lambda record: int(record.id)
        )
        return np.array([_points(record, record.black == own) for record in records]), records

    def rate(
        self, iteration: int, player: Bot, opponent: Player, goes_on: Callable[[], bool] = lambda: True
    ) -> Rating | None:
        """The result of a match against a bot of the registry; None where it no longer ``goes_on`` before its end."""
        bot = opponent.build()
        try:
            slots = min(self.games, opponent.bot_kind.boards)
            points, _ = self.play(("the net", opponent.name), player, bot, opponent.limits, slots, goes_on)
        finally:
            bot.close()
        return Rating.of(iteration, opponent.name, points) if len(points) == self.games else None


def _points(record: GameRecord, is_black: bool) -> float:
    outcome = record.outcome
    assert outcome is not None  # its game is over
    if outcome.winner is None:
        return 0.5
    won = outcome.winner is (BLACK if is_black else WHITE)
    if not won and outcome.ending in (Ending.CRASH, Ending.TIME, Ending.ILLEGAL):
        raise RuntimeError(record.reason)
    return float(won)
