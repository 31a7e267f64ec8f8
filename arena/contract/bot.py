"""The interface of a bot: Bot, what it returns, and BotKind, which builds it from settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, fields
from typing import TYPE_CHECKING, Any

from arena import ArenaError
from arena.contract.limits import Limits
from arena.contract.settings import setting as setting  # the authors of bots find all of it here
from arena.go.coords import Move

if TYPE_CHECKING:  # listing the kinds of bot stays quick: the game pulls in the compiler
    import numpy as np

    from arena.go.game import Game


@dataclass(frozen=True, slots=True)
class Decision:
    """A move, or None to resign, with the bot's evaluation of the position; None for what it doesn't know.

    ``win_rate`` is in [0, 1] and ``ownership`` (size², -1 to 1) is positive for the side to move. ``visits`` are
    simulations spent on the decision. ``score`` is the lead of the side to move in points, komi counted.
    """

    move: Move | None
    win_rate: float | None = None
    visits: int | None = None
    ownership: np.ndarray | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate move of a search; its figures are those of a Decision, for the side to move.

    ``prior`` is the move's probability before any search; ``line`` is the principal variation, the move itself first.
    ``score`` and ``ownership`` are those after the move.
    """

    move: Move
    visits: int
    win_rate: float
    line: tuple[Move, ...]
    prior: float | None = None
    score: float | None = None
    ownership: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class RawNN:
    """A net's evaluation of a position without search, for the side to move.

    ``policy`` (size² + 1,) are the probabilities of the legal moves, 0 for others; ``win_rate`` is NaN where the net
    has none; ``ownership`` and ``score`` are those of a Decision.
    """

    policy: np.ndarray
    win_rate: float
    ownership: np.ndarray | None = None
    score: float | None = None


def describe_error(error: BaseException) -> str:
    """An error in one line: the text of one of ours, with the type's name for any other."""
    text, name = " ".join(str(error).split()), type(error).__name__
    if text and isinstance(error, ArenaError):
        return text
    return f"{name}: {text}" if text else name


class Bot(ABC):
    """A player that runs.

    A game object is the bot's own copy, and the same object from the first move of a game to the last, so a bot may
    store data of a game by that object (in a ``WeakKeyDictionary``). It may also play on it: the copy is reset before
    each call. All random choices are to be seeded by ``game.move_seed()``; then a game's moves don't depend on which
    other games are played at the same time.
    """

    startup: float = 60.0  # seconds that ``prepare`` may take

    def prepare(self, game: Game, limits: Limits) -> None:  # noqa: B027 (most bots are always ready)
        """Prepare for this game, for example by starting a process. Called before ``choose``, while no clock runs.
        Raises BotFault when the bot can't play, BotTimeout after ``startup``."""

    @abstractmethod
    def choose(self, game: Game, limits: Limits) -> Decision:
        """Decide for the side to move. Raises BotFault when the bot can't go on, BotKilled to be called again."""

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        """One decision for each game, in order: a bot with a net evaluates all the boards at once."""
        return [self.choose(game, limits) for game in games]

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        """Search within the limits, and return the candidate moves, the best first. The game is not changed.

        A call continues the search of earlier calls for the same game, whose ``simulations`` count, too. A game that
        was searched with limited ``moves`` is always searched with these.
        """
        return []

    def analyse_all(self, games: Sequence[Game], limits: Limits) -> list[list[Candidate]]:
        """``analyse`` for each game, in order: a bot with a net evaluates all the boards at once."""
        return [self.analyse(game, limits) for game in games]

    def overview(self, game: Game) -> Decision | None:
        """The best move by ``analyse``, with win rate, visits and ownership; None for a game not analysed."""
        return None

    def raw_nn(self, games: Sequence[Game], symmetry: int = 0) -> list[RawNN]:
        """The net's evaluation of positions of one size under one of the 8 symmetries; empty without a policy head."""
        return []

    def dead_stones(self, game: Game) -> Sequence[Move]:
        """The dead stones of a finished game, as a referee; most bots judge none. Raises BotFault."""
        return ()

    def overrides(self, method: str) -> bool:
        """Whether the bot has a method of this name of its own."""
        return getattr(type(self), method) is not getattr(Bot, method)

    def close(self) -> None:  # noqa: B027 (most bots have nothing to free)
        """Free resources outside Python, such as processes and files. Called once, at the end."""


@dataclass(frozen=True, slots=True)
class BotKind:
    """What a module of bots exports as ``BOT``: a line about the kind, its settings, and how to build a bot.

    ``config`` is a frozen dataclass whose fields are ``setting``s of type int, float, str, bool or
    ``Mapping[str, str]``; one called ``checkpoint`` is the folder of a net. ``check(config, size)`` raises a UserError
    when such a bot can't be built here or can't play on that size.

    A bot's code is part of its identity: the ``revision`` of a bot that ships, or a digest of its sources, or what
    ``code(config)`` returns for code outside Python. ``check`` may return more of it, such as an engine's version.
    """

    summary: str
    config: type
    build: Callable[[Any], Bot]
    boards: int = 8  # games that one bot plays at once: many for nets, 1 for an engine that has one board
    check: Callable[[Any, int], str | None] | None = None
    interactive: bool = False  # talks to the person at the terminal
    tells_win_rate: bool = False  # reports one with each decision, unless its net has no value head
    analyses: bool = False  # returns candidates (``analyse``, ``overview``)
    external: bool = False  # is an engine over GTP (``bots.gtp.GtpBot``)
    teaches: bool = False  # can be the teacher of ``arena train distill``
    heads: tuple[str, ...] = ()  # that its net must have: policy, for ``raw_nn``, and value; or rollout
    revision: int = 0  # raised with every change that may change the moves
    code: Callable[[Any], str] | None = None

    @property
    def settings(self) -> tuple[Field[Any], ...]:
        return fields(self.config)
