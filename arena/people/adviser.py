"""The bot that gives hints in a person's game, and the threads in which bots and playouts run."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from arena.contract.bot import Bot, Candidate, Limits, describe_error
from arena.go.game import Game
from arena.people.saved_game import Advice

PATIENCE = 86400.0
"""Seconds after which a bot is abandoned where nobody set a time: the person can stop waiting at any time."""

HINT = Limits(seconds=1.0, deadline=PATIENCE)
"""How long the adviser thinks about a hint."""

ATTEMPTS = 20
"""Retries until the adviser knows a move: a slow net has visited none after the first search."""


class Worker:
    """A thread that does jobs one after the other; a program that ends doesn't wait for it."""

    def __init__(self, name: str):
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def do(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def close(self, patience: float) -> None:
        """Accept no more jobs, and wait at most this many seconds for the last one."""
        self._jobs.put(None)
        self._thread.join(patience)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


class Adviser:
    """A bot that can analyse, built at the first hint. It continues its search of the same game. Not thread-safe."""

    def __init__(self, name: str, build: Callable[[], Bot]):
        self.name = name
        self._build = build
        self._bot: Bot | None = None
        self._studied: Game | None = None

    def hint(self, game: Game, is_wanted: Callable[[], bool]) -> Advice:
        """The bot's candidates, or in ``fault`` why there are none. Asked again about the same position, it knows more.
        ``is_wanted`` says whether to retry."""
        candidates: list[Candidate] = []
        fault = ""
        try:
            self._studied = catch_up(self._studied, game)
            self._bot = self._bot or self._build()
            for _ in range(ATTEMPTS):
                candidates = self._bot.analyse(self._studied, HINT)
                if candidates or not is_wanted():
                    break
            else:
                fault = f"{self.name} reports nothing for this position"
        except Exception as error:  # as with a bot's choice of a move: any error is shown
            fault = describe_error(error)
        return Advice(self.name, game.to_play, tuple(candidates), fault)

    def close(self) -> None:
        if self._bot is not None:
            self._bot.close()


def catch_up(own: Game | None, game: Game) -> Game:
    """``own``, a bot's copy of the game from earlier, with the moves made since; a new copy where moves were taken
    back. A bot finds what it has learnt of a game by the object."""
    if own is None or own.is_over or own.moves != game.moves[: len(own.moves)]:
        return game.copy()
    for move in game.moves[len(own.moves) :]:
        own.play(move)
    return own
