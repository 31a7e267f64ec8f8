"""Players that play by a script, most of them badly: everything that a match has to survive. No bot for the registry.

They are named ``helpers.scripted_bots:CRASH`` and so on, which works in worker processes too.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random, SystemRandom
from threading import Event
from typing import Any

import numpy as np

from arena import BotFault, BotTimeout, UserError
from arena.contract.bot import Bot, BotKind, Decision, Limits, setting
from arena.go.coords import BLACK, move_from_gtp, pass_move
from arena.go.game import Game
from arena.players.player import Player
from arena.ratings import expected_score
from bots.random import Config as NoSettings
from bots.random import RandomBot


@dataclass(frozen=True, slots=True)
class Script:
    at: int = setting(8, "misbehave from this number of moves on the board", low=0)
    seed: int = setting(-1, "misbehave in the game of this seed only; -1 in all")
    marker: str = setting("", "a file that the bot writes")
    lifeline: str = setting("", "a named pipe that the player's process writes its number to, and holds open")


def kind(build: Callable[[Script], Bot], **more: Any) -> BotKind:
    return BotKind(summary="plays by a script", config=Script, build=build, **more)


class Good(RandomBot):
    """Plays like ``random``; the others do so until their script says otherwise."""

    def __init__(self, config: Script):
        super().__init__(NoSettings())
        self.config = config
        if config.lifeline:  # it is never closed: the reader sees the end of the process
            os.write(os.open(config.lifeline, os.O_WRONLY), b"%d\n" % os.getpid())

    def is_time(self, game: Game) -> bool:
        return len(game.moves) >= self.config.at and self.config.seed in (-1, game.seed)


def misbehaving(misbehave: Callable[[Script, Game], Any], usual: Any = Good, **more: Any) -> BotKind:
    """The kind that does this, in place of a decision, when its time has come, and ``usual`` before."""

    class Bad(usual):
        def choose(self, game: Game, limits: Limits) -> Decision:
            if self.is_time(game):
                return misbehave(self.config, game)
            return super().choose(game, limits)

    return kind(Bad, **more)


def raises(error: Exception) -> BotKind:
    def misbehave(config: Script, game: Game) -> None:
        raise error

    return misbehaving(misbehave)


def answers(decide: Callable[[Game], Any]) -> BotKind:
    return misbehaving(lambda config, game: decide(game))


def passes(**reported: Any) -> BotKind:
    """A pass with this beside it, which may be wrong."""
    return answers(lambda game: Decision(pass_move(game.rules.size), **reported))


def wait(seconds: float | None) -> None:
    Event().wait(seconds)


def dies_once(config: Script, game: Game, late: float = 0.0) -> Decision:
    if not Path(config.marker).exists():
        wait(late)
        Path(config.marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return RandomBot(NoSettings()).choose(game, Limits())


def hangs(config: Script, game: Game) -> Decision:
    if config.marker:
        Path(config.marker).write_text("hangs")
    wait(None)
    return Decision(None)


def is_slow(config: Script, game: Game) -> Decision:
    wait(0.3)
    return Decision(None)


GOOD = kind(Good)
CRASH = raises(RuntimeError("no idea\nwhat to play"))
FAULT = raises(BotFault("the engine has left"))
LATE = raises(BotTimeout("the engine thinks and thinks"))
HANG = misbehaving(hangs)
SLOW = misbehaving(is_slow)
LEAVE = misbehaving(lambda config, game: os._exit(3))
SEGFAULT = misbehaving(lambda config, game: ctypes.string_at(0))
DIES_ONCE = misbehaving(dies_once)
DIES_LATE = misbehaving(lambda config, game: dies_once(config, game, 1.0))
OCCUPIED = answers(lambda game: Decision(game.moves[-1]))
OUTSIDE = answers(lambda game: Decision(game.rules.size**2 + 1))
WORD = answers(lambda game: "pass")
HALF = answers(lambda game: Decision(2.5))  # type: ignore[arg-type]
BOAST = passes(win_rate="high")
UNDECIDED = passes(win_rate=float("nan"))
VAGUE = answers(lambda game: Decision(pass_move(game.rules.size), ownership=np.full(game.rules.size**2, np.nan)))
LISTED = passes(ownership=[0.0])
RESIGNS = answers(lambda game: Decision(None))
CROWD = replace(RESIGNS, boards=1000)


class Many(Good):
    """Good, deciding for all its games in one call, and counting these."""

    calls = 0

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        self.calls += 1
        return [self.choose(game, limits) for game in games]


class Census(Many):
    """Writes down how many games it is asked about at once."""

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        with Path(self.config.marker).open("a") as file:
            file.write(f"{len(games)}\n")
        return super().choose_all(games, limits)


class Picky(Many):
    """One call for all the games fails when one of them is the game of its seed."""

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        if any(self.is_time(game) for game in games):
            raise RuntimeError("one of these games is not to my taste")
        return super().choose_all(games, limits)


class Generous(Many):
    """Gives a decision too many."""

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        decisions = super().choose_all(games, limits)
        return [*decisions, decisions[0]] if any(self.is_time(game) for game in games) else decisions


class Deliberate(Many):
    """Thinks about all its games at once, and resigns them."""

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        wait(0.1 * len(games))
        return [Decision(None) for _ in games]


class Pundit(Good):
    """Plays at random, and is sure of Black when its time has come: of the win, and of the first point."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        black = 0.99 if self.is_time(game) else 0.5
        ownership = np.zeros(game.rules.size**2)
        ownership[0] = 2 * black - 1
        is_black = game.to_play is BLACK
        move = super().choose(game, limits).move
        return Decision(move, black if is_black else 1 - black, None, ownership if is_black else -ownership)


class Ponderer(Good):
    """Plays at random, and takes its time."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        wait(0.05)
        return super().choose(game, limits)


class Quitter(Good):
    """Plays other moves each time, writes down what it is shown, and kills its process where its time has come."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        with Path(self.config.marker).open("a") as file:
            file.write(f"{game.seed} {' '.join(map(str, game.moves))}\n")
        if self.is_time(game):
            os.kill(os.getpid(), signal.SIGKILL)
        return Decision(int(SystemRandom().choice(game.sensible_moves().nonzero()[0])))


class Loop(Good):
    """Hangs in its first decision, wherever that is."""

    startup = 0.3

    def choose(self, game: Game, limits: Limits) -> Decision:
        return hangs(self.config, game)


class Noisy(Good):
    def choose(self, game: Game, limits: Limits) -> Decision:
        print("= garbage\n\x1b[2J\x00 for", len(game.moves), flush=True)
        print("?! more garbage", file=sys.stderr, flush=True)
        os.write(1, b"\xff\xfe raw garbage\n")
        return super().choose(game, limits)


class Spy(Good):
    """Writes down which modules its process has loaded, or which GPUs it sees."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        decision = super().choose(game, limits)
        Path(self.config.marker).write_text(self.seen())
        return decision

    def seen(self) -> str:
        return "\n".join(sorted(sys.modules))


class SpyOnCards(Spy):
    def seen(self) -> str:
        return os.environ.get("CUDA_VISIBLE_DEVICES", "all")


class Unsure(Good):
    """Can't play on an empty board, which no game with an opening shows it."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        return Decision(super().choose(game, limits).move, win_rate=0.0 * game.moves[-1])


MANY, PICKY, GENEROUS, DELIBERATE = map(kind, (Many, Picky, Generous, Deliberate))
CENSUS = kind(Census, boards=64)
SLUGGISH, STUCK = misbehaving(is_slow, Many), misbehaving(hangs, Many, boards=64)  # one call for all the games
PUNDIT, PONDERER, QUITTER, LOOP, NOISY = map(kind, (Pundit, Ponderer, Quitter, Loop, Noisy))
SPY, SPY_ON_CARDS, UNSURE = map(kind, (Spy, SpyOnCards, Unsure))
QUITTER_1 = kind(Quitter, boards=1)


# --- What would reach others in the same process ---


def breaks(config: Script, game: Game) -> Decision:
    Game.play = Game.legal_moves = Game.sensible_moves = None  # type: ignore[assignment,method-assign]
    np.random.default_rng = None  # type: ignore[assignment]
    object.__setattr__(game.rules, "komi", 500.0)
    return Decision(pass_move(game.rules.size))


def sets_an_alarm(config: Script, game: Game) -> Decision:
    def fail(*_: Any) -> None:
        raise TimeoutError("out of time")

    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    return RandomBot(NoSettings()).choose(game, Limits())


def starts_a_daemon(config: Script, game: Game) -> Decision:
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.execve(sys.executable, [sys.executable, "-c", f"import time; time.sleep(600)  # {config.marker}"], {})
        os._exit(0)
    return Decision(None)


BREAKS, ALARM, DAEMON = map(misbehaving, (breaks, sets_an_alarm, starts_a_daemon))
EXITS = misbehaving(lambda config, game: sys.exit())
KILLS_PARENT = misbehaving(lambda config, game: os.kill(os.getppid(), signal.SIGKILL))
CLOSES = misbehaving(lambda config, game: os.closerange(3, 100))


# --- Coins ---

SHORT_GAME, LONG_GAME = 30, 70
"""The moves after which a loser of ``Coin`` resigns on its turn: to the first player, to the second."""


@dataclass(frozen=True, slots=True)
class Toss:
    first: bool = setting(True, "whether this is the player whose Elo is given")
    elo: float = setting(0.0, "how much stronger the first player is than the second")


class Coin(RandomBot):
    """Plays at random until it resigns, if it is to lose: the game's seed draws the winner, and games that the first
    player wins are short."""

    def __init__(self, config: Toss):
        super().__init__(NoSettings())
        self.config = config

    def choose(self, game: Game, limits: Limits) -> Decision:
        wins = first_wins(game.seed, self.config.elo)
        if wins is not self.config.first and len(game.moves) >= (SHORT_GAME if wins else LONG_GAME):
            return Decision(None)
        return super().choose(game, limits)


def first_wins(seed: int, elo: float) -> bool:
    """Whether the first player, which is so much stronger, wins the ``Coin`` game of this seed."""
    return Random(seed).random() < expected_score(elo)


class Fate(Ponderer):
    """Tosses a coin that no seed decides by its first moves, and resigns when it is to lose: the first player's wins
    are short. Games that begin again when they are interrupted are won by the first player."""

    def __init__(self, config: Toss):
        super().__init__(Script())
        self.first = config.first

    def choose(self, game: Game, limits: Limits) -> Decision:
        if len(game.moves) < 6:
            return Decision(int(SystemRandom().choice(game.sensible_moves().nonzero()[0])))
        wins = bool(Random(repr(game.moves[:6])).getrandbits(1))
        if wins is not self.first and len(game.moves) >= (10 if wins else 30):
            return Decision(None)
        return super().choose(game, limits)


FATE = BotKind(summary="resigns as its moves decide", config=Toss, build=Fate)
COIN_8, COIN_64 = (
    BotKind(summary="resigns as its coin falls", config=Toss, build=Coin, boards=boards) for boards in (8, 64)
)


# --- Players that can't be had ---


def starts(config: Script) -> int:
    """How many players were built with this marker, this one counted."""
    with Path(config.marker).open("a+") as file:
        file.write("x")
        file.flush()
        file.seek(0)
        return len(file.read())


class Patient(Good):
    """Plays once six players were built with its marker."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        while len(Path(self.config.marker).read_text()) < 6:
            wait(0.01)
        return super().choose(game, limits)


def build_broken(config: Script) -> Bot:
    raise ValueError("weights of the wrong shape")


def build_killed(config: Script) -> Bot:
    os.kill(os.getpid(), signal.SIGKILL)
    return Good(config)


def build_four_killed(config: Script) -> Bot:
    return build_killed(config) if 2 <= starts(config) <= 5 else Patient(config)


def build_only_first(config: Script) -> Bot:
    if starts(config) > 1:
        raise UserError("the engine isn't installed; install it")
    return Good(config)


BROKEN, KILLED = map(kind, (build_broken, build_killed))
FOUR_KILLED = kind(build_four_killed, boards=1)  # the second to fifth are killed as they start
ONLY_FIRST = kind(build_only_first)


def scripted(kind: str, name: str = "", **settings: Any) -> Player:
    """The player of a kind of this module, under its own name in lower case unless given."""
    name = name or kind.lower().replace("_", "-")
    usual = {"at": 8, "seed": -1, "marker": "", "lifeline": ""}
    return Player(name, name, f"helpers.scripted_bots:{kind}", usual | settings, "the tests")


class Scripted(Bot):
    """Plays these moves in turn, then passes; an exception in their place is raised, ``resign`` resigns."""

    def __init__(self, *moves: str | BaseException):
        self._moves = list(moves)
        self.is_closed = False
        self.asked: list[Limits] = []

    def choose(self, game: Game, limits: Limits) -> Decision:
        self.asked.append(limits)
        move = self._moves.pop(0) if self._moves else "pass"
        if isinstance(move, BaseException):
            raise move
        return Decision(None if move == "resign" else move_from_gtp(move, game.rules.size), win_rate=0.4)

    def close(self) -> None:
        self.is_closed = True
