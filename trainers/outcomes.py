"""Positions with the result of their game, for a value net, and games that policies play to give one each. No net is
trained here.

A game has three phases (Silver et al. 2016, Methods, "Value network: regression"): U moves by a policy, U being uniform
up to a limit; one random move; the rest by a second policy. Kept is the position after the random move, with the
result: one a game, because the others share their result with it, and a net would learn games by heart.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from arena import ConfigError, RecordError
from arena.contract.code import SENT
from arena.go.game import Rules
from arena.go.kernels import BOARD, new_board, referee
from arena.go.planes import Encoder, final_owners, find_encoder
from bots.nets.catalogue import load_network
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.inference import Evaluator
from bots.search.rollouts import run_policy_playouts
from bots.search.tree import point_from_move
from trainers import dataset
from trainers.cluster import Cores
from trainers.data import (
    NO_RESULT,
    UNKNOWN,
    Games,
    Split,
    SplitRule,
    load_arrays,
    one_each,
    parts_of,
    results_of,
    save_arrays,
)
from trainers.progress import Made
from trainers.selfplay import Course, Ended, NetPlayer, Player, Uniform, draw_seeds, games_from_moves, groups_on
from trainers.settings import Value as Config
from trainers.settling import playout_weights
from trainers.workers import refuse_to_play_under_torchrun

if TYPE_CHECKING:
    from trainers.cluster import Stage

FORMAT = 1
"""Written into the name of every folder of games; a change of what is in its files raises it."""

ASKED = 32
"""Positions that a thread asks an exported net about at a time."""

AT_ONCE = 128
"""Games that a core of a cluster plays at once."""

# --- Games in three phases ---


@dataclass(frozen=True, slots=True)
class Recipe:
    """Who plays the games, and how: all that they depend on."""

    policy: Checkpoint
    finisher: Checkpoint
    rules: Rules
    policy_moves: int
    """The most moves of the first phase."""
    seed: int

    @classmethod
    def of(cls, config: Config, results: Path) -> Recipe:
        """Raises CheckpointError for a checkpoint that isn't there or doesn't play on such boards."""
        names = (config.policy, config.finisher or config.policy)
        policy, finisher = (Checkpoint.open(find(name, results)) for name in names)
        for checkpoint in (policy, finisher):
            checkpoint.require_size(config.size)
            checkpoint.require("policy")
        return cls(policy, finisher, Rules.preset("cgos", config.size, config.komi), config.policy_moves, config.seed)

    @property
    def key(self) -> str:
        """A name for games by this recipe."""
        rules = (self.rules.name, self.rules.size, self.rules.komi)
        told = (FORMAT, self.policy.identity, self.finisher.identity, *rules, self.policy_moves, self.seed)
        return hashlib.sha256(repr(told).encode()).hexdigest()[:24]

    def folder(self, cache: Path) -> Path:
        """Where games by it are kept."""
        return cache / f"value-games-{self.key}"

    def lengths(self, numbers: np.ndarray) -> np.ndarray:
        """U of the games of these ``numbers`` (games,), of which the last is the highest: (games,) int64."""
        drawn = draw_seeds(int(numbers[-1]) + 1, self.seed, 1)[numbers]
        return (drawn % np.uint64(self.policy_moves)).astype(np.int64) + 1

    def players(self, device: torch.device, threads: int, bf16: bool = False) -> list[Player]:
        """The policy, the random one and, where it is another, the finisher."""

        def player(checkpoint: Checkpoint) -> Player:
            if device.type == "cpu":
                return Exported(checkpoint, threads)
            network = load_network(checkpoint).to(device)
            return NetPlayer(network, find_encoder(checkpoint.manifest.encoder), device, bf16=bf16)

        others = [player(self.finisher)] if self.finisher.identity != self.policy.identity else []
        return [player(self.policy), Uniform(), *others]

    def play(
        self, numbers: Sequence[int], players: Sequence[Player], slots: int, threads: int = 1, groups: int = 1
    ) -> Iterator[Ended]:
        """The games of these rising numbers, as they end. Games played beside a game don't change it."""
        which = np.array(numbers)
        lengths = self.lengths(which)
        finisher = len(players) - 1 if len(players) > 2 else 0

        def seats(games: np.ndarray, plies: np.ndarray) -> np.ndarray:
            return np.where(plies < lengths[games], 0, np.where(plies == lengths[games], 1, finisher))

        seeds = draw_seeds(int(which[-1]) + 1, self.seed)[which]
        for game in Course(players, seats, self.rules, seeds, (), slots, threads, groups).play():
            yield game._replace(number=numbers[game.number])

    def moved(self) -> Recipe:
        """The same where checkpoints have been sent to, if they have."""

        def there(checkpoint: Checkpoint) -> Checkpoint:
            folder = SENT / checkpoint.identity
            return Checkpoint.open(folder) if folder.is_dir() else checkpoint

        return replace(self, policy=there(self.policy), finisher=there(self.finisher))


def play_there(recipe: Recipe, numbers: Sequence[int], stage: Stage) -> Iterator[tuple[int, Ended]]:
    """Play the games of these rising numbers on a node of a cluster."""
    players = stage.once(lambda: recipe.moved().players(torch.device("cpu"), 1))
    for game in recipe.play(numbers, players, len(numbers)):
        yield game.number, game


class Exported:
    """A checkpoint as players have it, on the processor. What it says of a position doesn't depend on what else it is
    asked, so games by it don't depend on how many are played at once."""

    temperature = 1.0

    def __init__(self, checkpoint: Checkpoint, threads: int = 1):
        self._evaluator = Evaluator(checkpoint)
        self.encoder: Encoder | None = self._evaluator.encoder
        self._map = map if threads == 1 else ThreadPoolExecutor(threads).map

    def logits(self, planes: np.ndarray) -> np.ndarray:
        parts = [planes[first : first + ASKED] for first in range(0, len(planes), ASKED)]
        return np.concatenate([policy for policy, _ in self._map(self._evaluator.evaluate, parts)])


def make_games(
    config: Config,
    recipe: Recipe,
    cache: Path,
    device: torch.device,
    on_made: Callable[[Made], None] = lambda _: None,
    cores: Cores | None = None,
) -> None:
    """Play the games that aren't in ``cache`` yet, here or on ``cores`` of a cluster. A file of them appears when all
    of its games are over, so a command that was stopped goes on with the first file that isn't there."""
    missing = what_is_missing(config, recipe, cache)
    if not missing:
        return
    count = sum(last - first for first, last in missing)
    refuse_to_play_under_torchrun(count)
    parts: Iterator[list[Ended]]
    if cores is None:
        threads = max(config.num_workers, config.processes * config.threads)
        players, at_once = recipe.players(device, threads, config.bf16), (config.parallel_games, threads)
        parts = (list(recipe.play(range(*one), players, *at_once, groups_on(device))) for one in missing)
    else:
        parts = _parts_from(cores, recipe, missing)
    begun, played, moves = time.monotonic(), 0, 0
    for part in parts:
        part.sort(key=lambda game: game.number)
        games = games_from_moves(recipe.rules, [game.moves for game in part], np.array([game.margin for game in part]))
        arrays = {item.name: getattr(games, item.name) for item in fields(Games) if item.name != "size"}
        save_arrays(_file(cache, recipe, part[0].number, part[-1].number + 1), arrays)
        played, moves, spent = played + len(part), moves + len(games.moves), time.monotonic() - begun
        ready = config.games - count + played
        on_made(Made(ready, config.games, played, moves / spent, spent / 60 * (count - played) / played))


def _parts_from(cores: Cores, recipe: Recipe, missing: Sequence[tuple[int, int]]) -> Iterator[list[Ended]]:
    """The games of each file that is ``missing``, as soon as all of them have come."""
    files = {number: file for file in missing for number in range(*file)}
    parts: dict[tuple[int, int], list[Ended]] = {file: [] for file in missing}
    for game in cores.play(partial(play_there, recipe), deque(files), AT_ONCE):
        first, last = file = files[game.number]
        parts[file].append(game)
        if len(parts[file]) == last - first:
            yield parts.pop(file)


def what_is_missing(config: Config, recipe: Recipe, cache: Path) -> list[tuple[int, int]]:
    """Of each file of games that is to be played the first game, and the first after the last."""
    return [(first, last) for first, last in _chunks(config) if load_arrays(_file(cache, recipe, first, last)) is None]


def _chunks(config: Config) -> Iterator[tuple[int, int]]:
    for first in range(0, config.games, config.games_per_file):
        yield first, min(first + config.games_per_file, config.games)


def _file(cache: Path, recipe: Recipe, first: int, last: int) -> Path:
    return recipe.folder(cache) / f"{first:08}-{last:08}.npz"


def read_games(config: Config, recipe: Recipe, cache: Path) -> Iterator[tuple[Games, np.ndarray]]:
    """The games that ``make_games`` made, whole, file by file, and U of each: (games,) int64."""
    for first, last in _chunks(config):
        arrays = load_arrays(path := _file(cache, recipe, first, last))
        if arrays is None:
            raise RecordError(f"{path}: its games are gone; the same command plays them again")
        yield Games(recipe.rules.size, **arrays), recipe.lengths(np.arange(first, last))


def cut(games: Games, plies: np.ndarray) -> Games:
    """The games up to the move that followed on ``plies`` moves, with their results: each one's kept position is that
    before its last move. Those that ended before are left out."""
    long = games.lengths > plies
    games, plies = games.select(long), plies[long]
    starts = np.concatenate([[0], np.cumsum(plies + 1)]).astype(np.int64)
    flat = np.arange(starts[-1]) + np.repeat(games.starts[:-1] - starts[:-1], plies + 1)
    parts = {item.name: getattr(games, item.name) for item in fields(Games)}
    return Games(**{**parts, "moves": games.moves[flat], "starts": starts})


def joined(parts: Sequence[Games]) -> Games:
    """All games in one."""
    lengths = np.concatenate([part.lengths for part in parts])
    arrays = {
        item.name: np.concatenate([getattr(part, item.name) for part in parts])
        for item in fields(Games)
        if item.name not in ("size", "starts")
    }
    return Games(parts[0].size, starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), **arrays)


def own_split(config: Config, recipe: Recipe, cache: Path, inherited: Sequence[SplitRule] = ()) -> Split:
    """The kept positions of the games of ``make_games``, apart by game: no game, under no symmetry, is in it twice.

    Raises ConfigError where nothing is left to learn from or to be tested on.
    """
    parts: tuple[list[Games], ...] = ([], [], [])
    seen: set[bytes] = set()
    rules = (SplitRule.of(config, played=True), *inherited)
    for games, lengths in read_games(config, recipe, cache):
        side = parts_of(games, rules, seen)
        for number, part in enumerate(parts):
            here = side == number
            part.append(cut(games.select(here), lengths[here] + 1))
    train, validation, test = (joined(part) for part in parts)
    if not len(train) or not len(test):
        raise ConfigError(f"{config.games} games leave nothing to learn from or for the test; play more games")
    return Split(train, validation, test, rules)


def records_split(config: Config, cache: Path, inherited: Sequence[SplitRule] = ()) -> Split:
    """The games of records whose result is known, apart as ``dataset.read_split`` does it."""
    split = dataset.read_split(config, cache, inherited)
    parts = (split.train, split.validation, split.test)
    train, validation, test = (part.select(part.winners != UNKNOWN) for part in parts)
    if not len(train):
        raise ConfigError("no game of the records has a known result; give records with results")
    return Split(train, validation, test, split.rules)


# --- What is known of positions without a net ---


@dataclass(frozen=True, slots=True)
class Positions:
    """One position of each of some games, that before the move at a flat index."""

    games: Games
    places: np.ndarray  # (positions,) int64: of ``games.moves``

    @classmethod
    def some(cls, games: Games, count: int, seed: int, last: bool) -> Positions:
        """One position each of ``count`` games, drawn with ``seed``, or all games for 0; see ``data.one_each``."""
        generator = np.random.default_rng(seed)
        places = one_each(games, None if last else generator)
        order = generator.permutation(len(places))
        return cls(games, places[order[: count or len(order)]])

    def __len__(self) -> int:
        return len(self.places)

    @property
    def owners(self) -> np.ndarray:
        """The game of each; (positions,) int64."""
        return np.searchsorted(self.games.starts, self.places, side="right") - 1

    @property
    def plies(self) -> np.ndarray:
        """Moves played before; (positions,) int64."""
        return self.places - self.games.starts[self.owners]

    @property
    def results(self) -> np.ndarray:
        """1 where the side to move won, 0 for a draw, -1 where it lost; (positions,) float64."""
        told = results_of(self.games.winners[self.owners], self.plies)
        if (told == NO_RESULT).any():
            raise ValueError("a game without a result has no position to judge by")
        return 1.0 - told

    def scores(self) -> np.ndarray:
        """By how many points the side to move leads if the board is counted as it stands, komi counted; (positions,)
        float64."""
        owners, plies = self.owners, self.plies
        starts = np.concatenate([[0], np.cumsum(plies)]).astype(np.int64)
        flat = np.arange(starts[-1]) + np.repeat(self.games.starts[owners] - starts[:-1], plies)
        areas = np.empty((len(self), self.games.size**2), np.int8)
        final_owners(self.games.size, self.games.moves[flat], starts, areas)
        margins = areas.sum(1, dtype=np.float64) - self.games.komis[owners]
        return np.where(plies % 2 == 0, margins, -margins)

    def by_playouts(self, count: int) -> np.ndarray:
        """The mean result, for the side to move, of ``count`` playouts of the shipped rollout policy from each;
        (positions,) float64."""
        size, weights = self.games.size, playout_weights(self.games.size)
        boards = np.zeros(2, BOARD)
        hashes = np.zeros(int(self.plies.max(initial=0)) + 2, np.uint64)
        margins = np.empty(count, np.float64)
        means = np.empty(len(self))
        for number, (game, ply) in enumerate(zip(self.owners.tolist(), self.plies.tolist(), strict=True)):
            begin = self.games.starts[game]
            moves = self.games.moves[begin : begin + ply].tolist()
            new_board(boards, 0, size)
            for played, move in enumerate(moves):
                referee(boards, 0, move, 1 + played % 2, hashes, played + 1, False, True)
            last, previous = ([point_from_move(move, size) for move in moves[:-3:-1]] + [0, 0])[:2]
            run_policy_playouts(boards, 1 + ply % 2, last, previous, weights, count, number, margins)
            means[number] = np.sign(margins - self.games.komis[game]).mean() * (1 if ply % 2 == 0 else -1)
        return means


def floor(results: np.ndarray) -> float:
    """The best constant guess of results: their mean."""
    return float(results.mean())


@dataclass(frozen=True, slots=True)
class Probe:
    """What a score alone tells of the result: tanh(slope * score + shift)."""

    slope: float
    shift: float

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return np.tanh(self.slope * scores + self.shift)

    @classmethod
    def fitted(cls, scores: np.ndarray, results: np.ndarray) -> Probe:
        """With the least squared error, by Levenberg's and Marquardt's steps."""

        def squares(at: np.ndarray) -> float:
            return float(((np.tanh(at[0] * scores + at[1]) - results) ** 2).sum())

        at, damping = np.zeros(2), 1.0
        best = squares(at)
        for _ in range(100):
            guess = np.tanh(at[0] * scores + at[1])
            slopes = np.stack([scores, np.ones(len(scores))], 1) * (1 - guess**2)[:, None]  # (positions, 2)
            square = slopes.T @ slopes
            step = np.linalg.solve(square + damping * np.diag(square.diagonal() + 1e-9), slopes.T @ (results - guess))
            if (now := squares(at + step)) < best:
                done = best - now < 1e-12 * best
                at, best, damping = at + step, now, damping / 4
                if done:
                    break
            else:
                damping *= 4
        return cls(float(at[0]), float(at[1]))
