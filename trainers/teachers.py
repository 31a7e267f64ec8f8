"""Who plays games for another net to learn from, and how: a search in slots, or any bot that tells what it found. No
files.

Of the moves of a game a share is searched in full, the others quickly, and only the first are learned from (playout cap
randomization: Wu 2019, "Accelerating self-play learning in Go", section 3.1): a search for the sake of the game's
result needn't be as good as one to learn moves from. Games are played to the end: nothing is resigned or adjudicated.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import numpy as np

from arena import ConfigError
from arena.contract.bot import Limits
from arena.contract.code import SENT
from arena.go.coords import pass_move, symmetry_table
from arena.go.game import Ending, Game, Rules
from arena.go.kernels import area_of
from arena.go.planes import Encoder, Positions
from arena.match.openings import Opening, draw_openings
from arena.players.player import Player
from arena.players.registry import Registry
from bots import alphago, gtp
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.inference import Evaluator, Precision
from bots.search.puct import Leaves, PuctParams, expand_leaves
from bots.search.tree import MAX_DEPTH, params_of
from trainers import engines
from trainers.selfplay import draw_seeds
from trainers.settings import Distill as Config
from trainers.slots import (
    Found,
    Law,
    Manner,
    Tables,
    Threads,
    Trees,
    begin_game,
    chances,
    draw_move,
    in_turn,
    put_game,
    search_on,
    to_levels,
)

if TYPE_CHECKING:
    from trainers.cluster import Cores, Stage

FORMAT = 2
"""Written into the name of every folder of games; a change of what is in its files, or of who plays what, raises it."""

BLOCK = 256
"""Openings that are drawn at a time."""

ASIDE = 1
"""Tells the draw of the openings from that of the games, which have the same seed."""


class Teacher(Protocol):
    """A bot that tells what it found, not only what it would play."""

    def search_targets(self, games: Sequence[Game], limits: Limits) -> tuple[np.ndarray, np.ndarray]:
        """How it weighs each move (games, size² + 1), at least 0 and not all 0, and the win rates (games,) of the sides
        to move, NaN where it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """Who plays the games, and how: all that they depend on."""

    teacher: Player
    rules: Rules
    full_search_prob: float
    cheap_search_visits: int
    plies: int
    temperature: float
    temperature_moves: int
    seed: int
    player: Player | None = None
    """Who plays the moves; None for the teacher."""

    @classmethod
    def of(cls, config: Config, registry: Registry) -> Recipe:
        """Raises ConfigError or CheckpointError for a teacher that can't be."""
        teacher = registry.resolve(config.teacher)
        if not teacher.bot_kind.teachers:
            raise ConfigError(
                f"teacher = {config.teacher} returns only a move; choose an alphago, or checkpoint:NAME for a net alone"
            )
        if isinstance(teacher.config, gtp.Config):
            if not teacher.config.analysis:
                raise ConfigError(
                    f"teacher = {config.teacher} has no analysis mode: give its entry in arena.toml "
                    "analysis = 'katago analysis -config ... -model ...'"
                )
            engines.Analyst(teacher.config)  # or the command is refused after the first games
        else:
            teacher = teacher.checked(config.size)
        player = registry.resolve(config.player).checked(config.size) if config.player else None
        if player is not None and (not player.bot_kind.teachers or player.bot_kind.external):
            raise ConfigError(
                f"player = {config.player} does not weigh all moves; choose an alphago or checkpoint:NAME"
            )
        for name, bot in (("teacher", teacher), ("player", player)):
            if bot is not None and (bot.limits.seconds is not None or bot.limits.time is not None):
                raise ConfigError(
                    f"{name} = {getattr(config, name)} uses limits in seconds, so games would differ; give visits"
                )
        return cls(
            teacher,
            Rules.preset("cgos", config.size, config.komi),
            config.full_search_prob,
            config.cheap_search_visits,
            config.plies,
            config.temperature,
            config.temperature_moves,
            config.seed,
            player,
        )

    @property
    def key(self) -> str:
        """A name for games by this recipe."""
        told = [FORMAT, self.teacher.identity, self.rules, *(getattr(self, item.name) for item in fields(self)[2:-1])]
        if self.player is not None:
            told.append(self.player.identity)
        return hashlib.sha256(repr(told).encode()).hexdigest()[:24]

    def folder(self, cache: Path) -> Path:
        """Where games by this recipe are kept."""
        return cache / f"distill-games-{self.key}"

    @property
    def visits(self) -> int | None:
        """Of a move that is searched in full; None for as many as the teacher's own settings say."""
        return self.teacher.limits.simulations

    def begin(self, number: int) -> tuple[int, Opening]:
        """The seed and the opening of the game of this number."""
        seeds = draw_seeds(2, self.seed, number)
        length = int(seeds[1] % np.uint64(self.plies + 1))
        return int(seeds[0]), _draw_block(self.rules, self.plies, self.seed, number // BLOCK)[number % BLOCK][:length]


@lru_cache(maxsize=8)  # games are begun in the order of their numbers
def _draw_block(rules: Rules, plies: int, seed: int, block: int) -> Sequence[Opening]:
    return draw_openings(rules, BLOCK, plies, int(draw_seeds(1, seed, block, ASIDE)[0]))


@dataclass(frozen=True, slots=True)
class Finished:
    """A game that is over, and what was found of it."""

    number: int
    moves: np.ndarray  # (moves,) uint16
    margin: float
    """Black's, komi counted."""
    is_sound: bool
    """Whether both sides passed; else the move limit cut it off, and its result tells nothing."""
    plies: np.ndarray  # (findings,) int64
    levels: np.ndarray  # (findings, size² + 1) uint16
    win_rates: np.ndarray  # (findings,) float32


class _Unfinished:
    """A game in progress, and what was found so far."""

    def __init__(self, recipe: Recipe, number: int):
        self.number = number
        seed, opening = recipe.begin(number)
        self.game = Game(recipe.rules, seed)
        for move in opening:
            self.game.play(move)
        self._recipe = recipe
        self._found: list[tuple[int, np.ndarray, float]] = []
        self._draw()

    def _draw(self) -> None:
        """What chance says of the next move: it depends on the game's seed and length alone."""
        chance, self._share = chances(self.game.move_seed())
        self.is_deep = chance < self._recipe.full_search_prob

    def _legal(self, weights: np.ndarray) -> np.ndarray:
        """Who hasn't tried a move doesn't know that superko forbids it."""
        weights = weights * self.game.legal_moves()
        if not weights.any():
            weights[-1] = 1
        return weights

    def note(self, weights: np.ndarray, win_rate: float) -> None:
        """Keep what was found of the present position."""
        levels = np.empty(len(weights), np.uint16)
        to_levels(self._legal(weights), levels)
        self._found.append((len(self.game.moves), levels, win_rate))

    def play(self, weights: np.ndarray) -> None:
        """Play a move."""
        temperature = self._recipe.temperature if len(self.game.moves) < self._recipe.temperature_moves else 0.0
        self.game.play(int(draw_move(self._legal(weights), temperature, self._share)))
        self._draw()

    def finished(self) -> Finished:
        outcome, moves = self.game.outcome, self._recipe.rules.size**2 + 1
        assert outcome is not None and outcome.margin is not None  # nobody resigns
        return Finished(
            self.number,
            np.array(self.game.moves, np.uint16),
            outcome.margin,
            outcome.ending is Ending.SCORE,
            np.array([ply for ply, _, _ in self._found], np.int64),
            np.array([levels for _, levels, _ in self._found], np.uint16).reshape(-1, moves),
            np.array([win_rate for _, _, win_rate in self._found], np.float32),
        )


def play_games(
    teacher: Teacher,
    recipe: Recipe,
    numbers: deque[int],
    slots: int,
    goes_on: Callable[[], bool],
    player: Teacher | None = None,
) -> Iterator[Finished]:
    """Play the games of ``numbers``, which are taken from its left, ``slots`` at once; a game that ends makes place
    for the next.

    As long as ``goes_on``, which is asked before every round of moves; then the games in progress are lost. Games
    played beside a game don't change it, as long as they don't change the teacher's answers. A ``player``, if given,
    chooses the moves.
    """
    live: list[_Unfinished] = []
    while goes_on():
        while len(live) < slots and numbers:
            try:
                live.append(_Unfinished(recipe, numbers.popleft()))
            except IndexError:  # another thread took the last
                break
        if not live:
            return
        deep, cheap = ([one for one in live if one.is_deep is wanted] for wanted in (True, False))
        for one, weights, win_rate in _weighed(teacher, deep, recipe.visits):
            one.note(weights, win_rate)
            if player is None:
                one.play(weights)
        limits = recipe.player.limits.simulations if recipe.player else recipe.cheap_search_visits
        for one, weights, _ in _weighed(player or teacher, live if player else cheap, limits):
            one.play(weights)
        yield from (one.finished() for one in live if one.game.is_over)
        live = [one for one in live if not one.game.is_over]


def _weighed(
    teacher: Teacher, some: Sequence[_Unfinished], visits: int | None
) -> Iterator[tuple[_Unfinished, np.ndarray, float]]:
    """Games, how the teacher weighs their moves, and the win rates."""
    if some:
        weights, win_rates = teacher.search_targets([one.game for one in some], Limits(simulations=visits))
        yield from zip(some, weights, win_rates.tolist(), strict=True)


# --- A search ---


class Net(Protocol):
    """What evaluates positions; see ``Evaluator``."""

    encoder: Encoder

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class _Question(NamedTuple):
    """What the net is asked about a group."""

    planes: np.ndarray  # (B, P, n, n)
    ranges: list[tuple[Leaves, slice]]  # of each range of slots the leaves, and which of the planes are theirs


class Searches:
    """Games that one search plays in slots: each depends on its number alone, as far as the net's answers do.

    Trees grow, moves are played and the next searches begin in kernels over ranges of slots, a range a thread. With two
    groups the net is asked about one while the trees of the other grow.
    """

    def __init__(self, recipe: Recipe, net: Net, slots: int, threads: int = 1, groups: int = 1):
        """The teacher is an ``alphago`` with PUCT, without noise at the root."""
        config, rules = cast(alphago.Config, recipe.teacher.config), recipe.rules
        moves = rules.size**2 + 1
        self._recipe, self._net, self._law, self._threads = recipe, net, Law.of(rules), threads
        self._knowledge = params_of(config, PuctParams)
        self._manner = Manner(
            recipe.visits or config.visits,
            recipe.cheap_search_visits,
            recipe.full_search_prob,
            recipe.temperature,
            recipe.temperature_moves,
            config.virtual_loss_batch or 1,
            True,
            True,
        )
        visits, at_once = max(self._manner.visits, self._manner.cheap_search_visits), self._manner.leaves
        most = max(alphago.FIRST_NODES, config.max_tree_mb * 2**20 // alphago.NODE_BYTES)
        self._tables = Tables.empty(slots, rules.move_limit, MAX_DEPTH + 1)
        self._trees = Trees.empty(slots, min(most, (visits + at_once) * moves + 1))
        self._found = Found.empty(slots, rules.move_limit, moves)
        self._numbers = np.full(slots, -1)  # of the games
        self._groups = np.array_split(np.arange(slots), min(groups, slots))
        self._leaves = [Leaves.empty(len(group) * at_once) for group in self._groups]
        shape = (net.encoder.planes, moves - 1)
        self._planes = [np.empty((len(group) * at_once, *shape), np.float32) for group in self._groups]
        self._over: list[Finished] = []

    def play(self, numbers: deque[int], goes_on: Callable[[], bool]) -> Iterator[Finished]:
        """As ``play_games`` does; to be called once."""

        def ask(group: int) -> _Question | None:
            question = None
            while question is None and goes_on() and self._fill(group, numbers):
                question = self._search(group, threads)
            return question

        def consult(question: _Question) -> tuple[np.ndarray, np.ndarray]:
            return self._net.evaluate(question.planes)

        def take(question: _Question, answer: tuple[np.ndarray, np.ndarray]) -> None:
            self._expand(question, *answer, threads)

        with Threads(self._threads) as threads:
            for _ in in_turn(len(self._groups), ask, consult, take):
                yield from self._over
                self._over.clear()
            yield from self._over

    def _fill(self, group: int, numbers: deque[int]) -> bool:
        """Begin games in the free slots of a group; whether it plays any."""
        slots, playing = self._groups[group], self._found.playing
        for slot in slots[~playing[slots]].tolist():
            try:
                number = numbers.popleft()
            except IndexError:  # there are no more, or another thread took the last
                break
            seed, opening = self._recipe.begin(number)
            put_game(self._tables, slot, self._law, self._recipe.rules.size, seed, opening)
            self._numbers[slot] = number
            begin_game(self._tables, self._trees, self._found, np.array([slot]), self._law, self._manner)
        return bool(playing[slots].any())

    def _search(self, group: int, threads: Threads) -> _Question | None:
        """Search on in a group until the net is needed; None where all its games have ended instead."""
        slots = self._groups[group]
        slots = slots[self._found.playing[slots]]
        parts, most = threads.parts(len(slots)), self._manner.leaves
        leaves = [_part(self._leaves[group], slice(part.start * most, part.stop * most)) for part in parts]

        def search(work: tuple[slice, Leaves]) -> int:
            part, found = work
            trees = (self._tables, self._trees, self._found)
            return int(search_on(*trees, slots[part], self._law, self._manner, self._knowledge, found))

        counts = threads.each(search, list(zip(parts, leaves, strict=True)))
        for slot in slots[~self._found.playing[slots]].tolist():
            self._over.append(self._finished(slot))
        bounds = np.cumsum([0, *counts]).tolist()
        ranges = [(one, slice(*ends)) for one, ends in zip(leaves, pairwise(bounds), strict=True)]
        planes = self._planes[group]

        def encode(work: tuple[Leaves, slice]) -> None:
            found, part = work
            self._net.encoder.encode(found.positions, part.stop - part.start, planes[part])

        threads.each(encode, ranges)
        size = self._recipe.rules.size
        asked = planes[: bounds[-1]].reshape(bounds[-1], planes.shape[1], size, size)
        return _Question(asked, ranges) if len(asked) else None

    def _expand(self, question: _Question, logits: np.ndarray, win_rates: np.ndarray, threads: Threads) -> None:
        turns, trees = symmetry_table(self._recipe.rules.size), self._trees

        def expand(work: tuple[Leaves, slice]) -> None:
            found, part = work
            count = part.stop - part.start
            known = (trees.roots, trees.nodes, trees.owners, self._knowledge, turns)
            expand_leaves(*known, found, count, logits[part], win_rates[part])

        threads.each(expand, question.ranges)

    def _finished(self, slot: int) -> Finished:
        tables, found = self._tables, self._found
        length, count = int(tables.lengths[slot]), int(found.counts[slot])
        passing = pass_move(self._recipe.rules.size)
        return Finished(
            int(self._numbers[slot]),
            tables.moves[slot, :length].copy(),
            float(area_of(tables.boards, slot)) - self._recipe.rules.komi,
            tables.moves[slot, max(0, length - 2) : length].tolist() == [passing, passing],
            found.plies[slot, :count].copy(),
            found.levels[slot, :count].copy(),
            found.win_rates[slot, :count].copy(),
        )


def _part(leaves: Leaves, part: slice) -> Leaves:
    positions = Positions(*(column[part] for column in leaves.positions))
    return Leaves(leaves.slots[part], leaves.paths[part], leaves.depths[part], positions)


# --- Either ---

Course = Callable[[deque[int], Callable[[], bool]], Iterator[Finished]]
"""Plays games of these numbers as ``play_games`` does."""


def courses(recipe: Recipe, slots: int, threads: int) -> list[Course]:
    """Who plays, each to be called in a thread of its own: as many as ``threads``, each with a net and ``slots`` games
    at once. A net in bfloat16, which is for a GPU, plays all the games itself, and the threads are for the trees.
    Raises CheckpointError for a net that can't be loaded."""
    config = recipe.teacher.config
    in_slots = isinstance(config, alphago.Config) and not config.gumbel
    if not in_slots or recipe.player is not None:
        return [partial(_play_with, recipe, slots) for _ in range(threads)]
    assert isinstance(config, alphago.Config)
    checkpoint = Checkpoint.open(find(config.checkpoint))

    def net() -> Evaluator:
        return Evaluator(checkpoint, config.precision, config.threads)

    if config.precision == Precision.BF16:
        return [Searches(recipe, net(), slots * threads, threads, groups=2).play]
    return [Searches(recipe, net(), slots).play for _ in range(threads)]


def _play_with(recipe: Recipe, slots: int, numbers: deque[int], goes_on: Callable[[], bool]) -> Iterator[Finished]:
    config = recipe.teacher.config
    teacher = engines.Analyst(config) if isinstance(config, gtp.Config) else recipe.teacher.build()
    player = recipe.player.build() if recipe.player else None
    try:
        yield from play_games(cast(Teacher, teacher), recipe, numbers, slots, goes_on, cast("Teacher | None", player))
    finally:
        teacher.close()


def play_there(recipe: Recipe, numbers: Sequence[int], stage: Stage) -> Iterator[tuple[int, Finished]]:
    """Play the games of these numbers at once, on a machine that was sent the teacher; those that are over."""
    (course,) = courses(replace(recipe, teacher=recipe.teacher.moved(SENT)), len(numbers), 1)
    for game in course(deque(numbers), lambda: not stage.is_over):
        yield game.number, game


def course_on(cores: Cores, recipe: Recipe, slots: int) -> Course:
    """Who plays on the cores of a cluster, up to ``slots`` games at once on each."""
    work = partial(play_there, replace(recipe, teacher=recipe.teacher.packed()))
    return lambda numbers, goes_on: cores.play(work, numbers, slots, goes_on)
