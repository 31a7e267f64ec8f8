"""The contract between the arena and a bot: positions in, decisions out. No bot is here, and no clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # listing the kinds of bot stays quick: the game pulls in the compiler
    import numpy as np

    from arena.go.game import Game
    from arena.go.moves import Move


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a decision. None leaves the bot to its own settings.

    ``seconds`` and ``simulations`` ask the bot to stop there; ``deadline`` is enforced from outside: a move that takes
    longer forfeits the game. Times are in seconds a move.
    """

    seconds: float | None = None
    simulations: int | None = None
    deadline: float = 60.0


@dataclass(frozen=True, slots=True)
class Decision:
    """What a bot does with its turn: a move, or None to resign; and what it thought, where it knows.

    ``win_rate`` is in [0, 1] and ``ownership`` (size², -1 to 1) is positive for the side to move.
    ``visits`` are simulations spent on the decision.
    """

    move: Move | None
    win_rate: float | None = None
    visits: int | None = None
    ownership: np.ndarray | None = None

    @property
    def resigns(self) -> bool:
        return self.move is None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A move that a bot weighs, and what speaks for it.

    ``win_rate`` is in [0, 1], of the side to move; ``prior`` is the move's probability before any search; ``line`` is
    the play expected, the move itself first.
    """

    move: Move
    visits: int
    win_rate: float
    line: tuple[Move, ...]
    prior: float | None = None


class Bot(ABC):
    """A player that runs.

    A game object stays the same from its first move to its last, so a bot may keep what it knows of a game by that
    object (in a ``WeakKeyDictionary``). Random choices come from ``game.move_seed()`` alone; then a game's moves don't
    depend on the other games played beside it.
    """

    @abstractmethod
    def choose(self, game: Game, limits: Limits) -> Decision:
        """Decide for the side to move. The game is not to be changed. Raises BotFault when the bot can't go on."""

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        """One decision for each game, in order: a bot with a net evaluates all the boards at once."""
        return [self.choose(game, limits) for game in games]

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        """Think for so long, and tell what is known of the moves by then, the best first: only bots with a search do.

        A call goes on from what calls before learnt of the same game. The game is not to be changed.
        """
        return []

    def close(self) -> None:  # noqa: B027 (most bots hold nothing)
        """Free what the bot holds outside Python: processes, files. Called once, at the end."""


def setting(
    default: Any = MISSING,
    help: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """A field of a kind's Config: its default, a sentence on what it does, and what values it takes."""
    metadata = {"help": help, "low": low, "high": high, "choices": tuple(choices)}
    return field(default=default, metadata=metadata) if default is not MISSING else field(metadata=metadata)


@dataclass(frozen=True, slots=True)
class BotKind:
    """What a module of bots exports as ``BOT``: a line about the kind, its settings, and how to build a player.

    ``config`` is a frozen dataclass whose fields are ``setting``s of type int, float, str or bool. ``boards`` is how
    many games one player should be given at once: many for nets, 1 for what holds one game outside Python.
    ``check(config, size)`` raises a UserError when such a player can't be built here or can't play on that size.
    ``interactive`` kinds talk to the person at the terminal. A kind whose config has a field ``checkpoint`` plays with
    that net.
    """

    summary: str
    config: type
    build: Callable[[Any], Bot]
    boards: int = 8
    check: Callable[[Any, int], None] | None = None
    interactive: bool = False

    @property
    def settings(self) -> tuple[Field[Any], ...]:
        return fields(self.config)
