"""Players that play by a script, most of them badly: everything that a match has to survive. No bot for the registry.

They are named ``scripted_bots:CRASH`` and so on, which works in worker processes too.
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


class Good(RandomBot):
    """Plays like ``random``; the others do so until their script says otherwise."""

    def __init__(self, config: Script):
        super().__init__(NoSettings())
        self.config = config
        if config.lifeline:  # it is never closed: the reader sees the end of the process
            os.write(os.open(config.lifeline, os.O_WRONLY), b"%d\n" % os.getpid())

    def is_time(self, game: Game) -> bool:
        return len(game.moves) >= self.config.at and self.config.seed in (-1, game.seed)


def misbehaving(misbehave: Callable[[Script, Game], Any]) -> BotKind:
    """The kind that does this, in place of a decision, when its time has come."""

    class Bad(Good):
        def choose(self, game: Game, limits: Limits) -> Decision:
            if self.is_time(game):
                return misbehave(self.config, game)
            return super().choose(game, limits)

    return BotKind(summary="misbehaves", config=Script, build=Bad)


def raises(error: Exception) -> BotKind:
    def misbehave(config: Script, game: Game) -> None:
        raise error

    return misbehaving(misbehave)


def answers(decide: Callable[[Game], Any]) -> BotKind:
    return misbehaving(lambda config, game: decide(game))


def wait(seconds: float | None) -> None:
    Event().wait(seconds)


def dies_once(config: Script, game: Game) -> Decision:
    if not Path(config.marker).exists():
        Path(config.marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return RandomBot(NoSettings()).choose(game, Limits())


def dies_late(config: Script, game: Game) -> Decision:
    if not Path(config.marker).exists():
        wait(0.3)
    return dies_once(config, game)


def hangs(config: Script, game: Game) -> Decision:
    if config.marker:
        Path(config.marker).write_text("hangs")
    wait(None)
    return Decision(None)


def is_slow(config: Script, game: Game) -> Decision:
    wait(0.3)
    return Decision(None)


GOOD = BotKind(summary="plays at random", config=Script, build=Good)
CRASH = raises(RuntimeError("no idea\nwhat to play"))
FAULT = raises(BotFault("the engine has left"))
LATE = raises(BotTimeout("the engine thinks and thinks"))
HANG = misbehaving(hangs)
SLOW = misbehaving(is_slow)
LEAVE = misbehaving(lambda config, game: os._exit(3))
SEGFAULT = misbehaving(lambda config, game: ctypes.string_at(0))
DIES_ONCE = misbehaving(dies_once)
DIES_LATE = misbehaving(dies_late)
OCCUPIED = answers(lambda game: Decision(game.moves[-1]))
OUTSIDE = answers(lambda game: Decision(game.rules.size**2 + 1))
NEGATIVE = answers(lambda game: Decision(-1))
WORD = answers(lambda game: "pass")
NOTHING = answers(lambda game: None)
HALF = answers(lambda game: Decision(2.5))  # type: ignore[arg-type]
BOAST = answers(lambda game: Decision(pass_move(game.rules.size), win_rate="high"))  # type: ignore[arg-type]
PROUD = answers(lambda game: Decision(pass_move(game.rules.size), win_rate=1.5))
UNDECIDED = answers(lambda game: Decision(pass_move(game.rules.size), win_rate=float("nan")))
GREEDY = answers(lambda game: Decision(pass_move(game.rules.size), ownership=np.full(game.rules.size**2, 2.0)))
VAGUE = answers(lambda game: Decision(pass_move(game.rules.size), ownership=np.full(game.rules.size**2, np.nan)))
SQUARE = answers(lambda game: Decision(pass_move(game.rules.size), ownership=np.zeros((2, 2))))
LISTED = answers(lambda game: Decision(pass_move(game.rules.size), ownership=[0.0]))  # type: ignore[arg-type]
PASSES = answers(lambda game: Decision(pass_move(game.rules.size)))
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
    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        decisions = super().choose_all(games, limits)
        return [*decisions, decisions[0]] if any(self.is_time(game) for game in games) else decisions


class Deliberate(Many):
    """Thinks about all its games at once, and resigns them."""

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        wait(0.1 * len(games))
        return [Decision(None) for _ in games]


class Sluggish(Many):
    """One call for all the games, in which it thinks for long about the game of its seed, and resigns it."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        return is_slow(self.config, game) if self.is_time(game) else super().choose(game, limits)


class Stuck(Many):
    """One call for all the games hangs when one of them is the game of its seed."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        return hangs(self.config, game) if self.is_time(game) else super().choose(game, limits)


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
    """Writes down which modules its process has loaded."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        decision = super().choose(game, limits)
        Path(self.config.marker).write_text("\n".join(sorted(sys.modules)))
        return decision


class SpyOnCards(Good):
    """Writes down which GPUs its process sees."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        Path(self.config.marker).write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
        return super().choose(game, limits)


class Unsure(Good):
    """Can't play on an empty board, which no game with an opening shows it."""

    def choose(self, game: Game, limits: Limits) -> Decision:
        return Decision(super().choose(game, limits).move, win_rate=0.0 * game.moves[-1])


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


SHORT_GAME, LONG_GAME = 30, 70
"""The moves after which a loser of ``Coin`` resigns on its turn: to the first player, to the second."""


def first_wins(seed: int, elo: float) -> bool:
    """Whether the first player, which is so much stronger, wins the ``Coin`` game of this seed."""
    return Random(seed).random() < expected_score(elo)


def coin(boards: int) -> BotKind:
    return BotKind(summary="resigns as its coin falls", config=Toss, build=Coin, boards=boards)


COIN_1, COIN_8, COIN_64, COIN_512 = map(coin, (1, 8, 64, 512))
MANY = BotKind(summary="one call for all games", config=Script, build=Many)
CENSUS = BotKind(summary="counts its games", config=Script, build=Census, boards=64)
PICKY = BotKind(summary="fails for all games because of one", config=Script, build=Picky)
GENEROUS = BotKind(summary="gives a decision too many", config=Script, build=Generous)
DELIBERATE = BotKind(summary="takes its time for all games", config=Script, build=Deliberate)
SLUGGISH = BotKind(summary="thinks for long about one game", config=Script, build=Sluggish)
STUCK = BotKind(summary="hangs for all games because of one", config=Script, build=Stuck, boards=64)
PUNDIT = BotKind(summary="is sure of Black", config=Script, build=Pundit)
PONDERER = BotKind(summary="takes its time for each move", config=Script, build=Ponderer)
QUITTER = BotKind(summary="kills itself", config=Script, build=Quitter)
QUITTER_1 = replace(QUITTER, boards=1)
LOOP = BotKind(summary="hangs in its first decision", config=Script, build=Loop)
NOISY = BotKind(summary="prints garbage", config=Script, build=Noisy)
SPY = BotKind(summary="tells what is loaded", config=Script, build=Spy)
SPY_ON_CARDS = BotKind(summary="tells which GPUs it sees", config=Script, build=SpyOnCards)
UNSURE = BotKind(summary="fails on an empty board", config=Script, build=Unsure)


def refuse(config: Script) -> Bot:
    raise UserError(config.marker)


ABSENT = BotKind(summary="can't be built", config=Script, build=refuse)


def build_never(config: Script) -> Bot:
    raise UserError("the engine isn't installed; install it")


def build_broken(config: Script) -> Bot:
    raise ValueError("weights of the wrong shape")


def build_killed(config: Script) -> Bot:
    os.kill(os.getpid(), signal.SIGKILL)
    return Good(config)


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


def build_four_killed(config: Script) -> Bot:
    return build_killed(config) if 2 <= starts(config) <= 5 else Patient(config)


def build_orphan(config: Script) -> Bot:
    if starts(config) == 1:
        os.kill(os.getppid(), signal.SIGKILL)
        wait(2.0)
    return Good(config)


def build_only_first(config: Script) -> Bot:
    return build_never(config) if starts(config) > 1 else Good(config)


NEVER = BotKind(summary="can't be had", config=Script, build=build_never)
BROKEN = BotKind(summary="fails to start", config=Script, build=build_broken)
KILLED = BotKind(summary="is killed as it starts", config=Script, build=build_killed)
FOUR_KILLED = BotKind("the second to fifth are killed as they start", config=Script, build=build_four_killed, boards=1)
ORPHAN = BotKind(summary="what starts the first one is killed", config=Script, build=build_orphan)
ONLY_FIRST = BotKind(summary="there is only one", config=Script, build=build_only_first)
PERSON = BotKind(summary="sits at the terminal", config=Script, build=Good, interactive=True)


def scripted(kind: str, name: str = "", **settings: Any) -> Player:
    """The player of a kind of this module, under its own name in lower case unless given."""
    name = name or kind.lower().replace("_", "-")
    usual = {"at": 8, "seed": -1, "marker": "", "lifeline": ""}
    return Player(name, name, f"scripted_bots:{kind}", usual | settings, "the tests")


class Scripted(Bot):
    """Plays these moves in turn, then passes; an exception in their place is raised, ``resign`` resigns."""

    def __init__(self, *moves: str | Exception):
        self._moves = list(moves)
        self.is_closed = False
        self.asked: list[Limits] = []

    def choose(self, game: Game, limits: Limits) -> Decision:
        self.asked.append(limits)
        move = self._moves.pop(0) if self._moves else "pass"
        if isinstance(move, Exception):
            raise move
        return Decision(None if move == "resign" else move_from_gtp(move, game.rules.size), win_rate=0.4)

    def close(self) -> None:
        self.is_closed = True
