"""The bot that gives hints in a person's game."""

from __future__ import annotations

from collections.abc import Callable

from arena import BotFault
from arena.contract.bot import Bot, Candidate, Limits
from arena.go.game import Game

NO_DEADLINE = 86400.0
"""Seconds after which a bot is abandoned where nobody set a time: the person can stop waiting at any time."""

HINT = Limits(seconds=1.0, deadline=NO_DEADLINE)  # how long the adviser thinks about a hint
ATTEMPTS = 20  # retries until the adviser knows a move: a slow net has visited none after the first search


class Adviser:
    """A bot that can analyse, built at the first hint. It continues its search of the same game. Not thread-safe."""

    def __init__(self, name: str, build: Callable[[], Bot]):
        self.name = name
        self._build = build
        self._bot: Bot | None = None
        self._studied: Game | None = None

    def hint(self, game: Game, is_wanted: Callable[[], bool]) -> list[Candidate]:
        """The candidates, the best first. Another call at the same position continues the search. Retries while
        ``is_wanted``. Raises BotFault when the bot knows no move, and the bot's own errors."""
        self._studied = catch_up(self._studied, game)
        self._bot = self._bot or self._build()
        for _ in range(ATTEMPTS):
            candidates = self._bot.analyse(self._studied, HINT)
            if candidates or not is_wanted():
                return candidates
        raise BotFault(f"{self.name} reports nothing for this position")

    def close(self) -> None:
        if self._bot is not None:
            self._bot.close()


def catch_up(own: Game | None, game: Game) -> Game:
    """A bot's copy of the game, brought up to date; a new copy if moves were taken back. Bots recognise a game, and
    keep their search of it, by the object."""
    if own is None or own.is_over or own.moves != game.moves[: len(own.moves)]:
        return game.copy()
    for move in game.moves[len(own.moves) :]:
        own.play(move)
    return own
