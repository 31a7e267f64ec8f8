"""Games of a net that learns, or of its search, against a bot of the registry, to see how strong it is. Nothing is
learned from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from arena.contract.bot import Bot, Decision, Limits
from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Game, Rules
from arena.go.planes import encode_games
from arena.match.game_loop import GameLoop
from arena.match.openings import Opening
from arena.match.schedule import Pairing
from bots.policy import pick
from trainers.selfplay import NetPlayer

NET, BOT = "the net", "the bot"
PATIENT = Limits(deadline=3600)
"""Of the net: its first move may have to capture it."""


class Sparring(Bot):
    """A net that learns as a bot of a room."""

    def __init__(self, player: NetPlayer):
        self._player = player

    def choose(self, game: Game, limits: Limits) -> Decision:
        return self.choose_all([game], limits)[0]

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        assert self._player.encoder is not None  # a net has one
        logits = self._player.logits(encode_games(self._player.encoder, games))
        return [Decision(pick(game, row, self._player.temperature)) for game, row in zip(games, logits, strict=True)]


def spar(
    player: Bot,
    bot: Bot,
    limits: Limits,
    rules: Rules,
    seeds: Sequence[int],
    openings: Sequence[Opening],
    slots: int = 1,
    goes_on: Callable[[], bool] = lambda: True,
) -> np.ndarray | None:
    """The player's points in a game for each of ``seeds``; (games,) float64: 1 for a win, 1/2 for a draw, 0 for a loss.

    It has Black in the first, the third, ... of the games, whose moves begin with ``openings``; ``slots`` games are
    under way. A fault of the bot's is a game lost by it; one of the net raises RuntimeError. None if not all of them
    were played because ``goes_on``, which is asked before every round of moves, said no.
    """
    points = np.empty(len(seeds))
    waiting = deque(
        Pairing(str(number), number, *((BOT, NET) if number % 2 else (NET, BOT)), opening, seed)
        for number, (seed, opening) in enumerate(zip(seeds, openings, strict=True))
    )
    loop = GameLoop({NET: player, BOT: bot}, rules, {NET: PATIENT, BOT: limits})
    while waiting or loop.live_games:
        if not goes_on():
            return None
        while waiting and len(loop.live_games) < slots:
            loop.start_game(waiting.popleft())
        for record in loop.play_round():
            outcome = record.outcome
            assert outcome is not None  # its game is over
            won = None if outcome.winner is None else outcome.winner is (BLACK if record.black == NET else WHITE)
            if won is False and outcome.ending in (Ending.CRASH, Ending.TIME, Ending.ILLEGAL):
                raise RuntimeError(record.reason)
            points[int(record.id)] = 0.5 if won is None else float(won)
    return points
