"""Teachers, whose games another net learns from: a search in slots, or on the arena's game loop any bot that returns
what it found."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from arena import BotFault, ConfigError
from arena.contract.bot import Bot, Decision, Limits
from arena.contract.code import SENT
from arena.go.game import Ending, Game, Rules
from arena.match.openings import Opening, draw_openings
from arena.match.schedule import Pairing
from arena.players.player import Player
from arena.players.registry import Registry
from bots import alphago, gtp
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.inference import Evaluator, Precision
from bots.search.puct import PuctParams
from bots.search.tree import params_of
from trainers.bot_games import PATIENT, play_bots
from trainers.katago import Analyst
from trainers.selfplay import NewGame, PlayedGame, PlayGames, SearchGames, draw_seeds
from trainers.settings import Distill as Config
from trainers.slots import SelfPlayParams, chances, draw_move, to_levels

if TYPE_CHECKING:
    from trainers.cluster import Stage

FORMAT = 3
"""Written into the name of every folder of games; a change of who plays what raises it."""

BLOCK = 256
"""Openings that are drawn at a time."""

ASIDE = 1
"""Tells the draw of the openings from that of the games, which have the same seed."""


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
            Analyst(teacher.config)  # or the command is refused after the first games
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

    def folder(self, cache: Path) -> Path:
        """Where games by this recipe are kept."""
        parts = [FORMAT, self.teacher.identity, *(getattr(self, item.name) for item in fields(self)[1:-1])]
        parts.append(self.player and self.player.identity)
        return cache / f"distill-games-{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}"

    def begin(self, number: int) -> NewGame:
        """The game of this number."""
        seeds = draw_seeds(2, self.seed, number)
        length = int(seeds[1] % np.uint64(self.plies + 1))
        openings = _draw_block(self.rules, self.plies, self.seed, number // BLOCK)
        return NewGame(number, int(seeds[0]), self.rules.komi, openings[number % BLOCK][:length])

    def next_of(self, numbers: deque[int]) -> Callable[[], NewGame | None]:
        """Begins the games of ``numbers``, which are taken from the left; several threads may share them."""

        def begin() -> NewGame | None:
            try:
                return self.begin(numbers.popleft())
            except IndexError:
                return None

        return begin

    def engines(self, numbers: deque[int], slots: int, threads: int) -> list[PlayGames]:
        """Who plays the games of ``numbers``, each to be called in a thread of its own: as many as ``threads``, each
        with a net and ``slots`` games at once. A net in bfloat16, which is for a GPU, plays all the games itself, and
        the threads are for the trees. Raises CheckpointError for a net that can't be loaded."""
        config = self.teacher.config
        if not isinstance(config, alphago.Config) or config.gumbel or self.player:
            return [partial(self._play_bot, numbers, slots) for _ in range(threads)]
        shape = [(slots * threads, threads, 2)] if config.precision == Precision.BF16 else [(slots, 1, 1)] * threads
        return [partial(self.search(*each).play, self.next_of(numbers)) for each in shape]

    def search(self, slots: int, threads: int = 1, groups: int = 1) -> SearchGames:
        """Plays as the bot does that is the teacher, an alphago with PUCT."""
        config = cast(alphago.Config, self.teacher.config)
        params = SelfPlayParams(
            self.teacher.limits.simulations or config.visits,
            self.cheap_search_visits,
            self.full_search_prob,
            self.temperature,
            self.temperature_moves,
            config.virtual_loss_batch or 1,
            reuse=True,
        )
        net = Evaluator(Checkpoint.open(find(config.checkpoint)), config.precision, config.threads)
        most = max(alphago.FIRST_NODES, config.max_tree_mb * 2**20 // alphago.NODE_BYTES)
        return SearchGames(self.rules, net, params, params_of(config, PuctParams), slots, threads, groups, most)

    def _play_bot(self, numbers: deque[int], slots: int, goes_on: Callable[[], bool]) -> Iterator[PlayedGame]:
        config = self.teacher.config
        teacher = Analyst(config) if isinstance(config, gtp.Config) else self.teacher.build()
        player = self.player.build() if self.player else None
        try:
            bot = TeachingBot(cast(Teacher, teacher), self, cast("Teacher | None", player))
            yield from bot.play(self.next_of(numbers), slots, goes_on)
        finally:
            teacher.close()


@lru_cache(maxsize=8)  # games are begun in the order of their numbers
def _draw_block(rules: Rules, plies: int, seed: int, block: int) -> Sequence[Opening]:
    return draw_openings(rules, BLOCK, plies, int(draw_seeds(1, seed, block, ASIDE)[0]))


def play_there(recipe: Recipe, numbers: Sequence[int], stage: Stage) -> Iterator[tuple[int, PlayedGame]]:
    """Play the games of these numbers on a node of a cluster that was sent the teacher."""
    recipe = replace(recipe, teacher=recipe.teacher.moved(SENT))
    (engine,) = recipe.engines(deque(numbers), len(numbers), 1)
    for game in engine(lambda: not stage.is_over):
        yield game.number, game


class Teacher(Protocol):
    """A bot that returns what it found, not only what it would play."""

    def search_targets(self, games: Sequence[Game], limits: Limits) -> tuple[np.ndarray, np.ndarray]:
        """The weight of each move (games, size² + 1), at least 0 and not all 0, and the win rates (games,) of the sides
        to move, NaN where it has none."""
        ...


class TeachingBot(Bot):
    """A teacher that plays against itself: a share of its moves is searched in full and noted. Its chances depend on
    the games' seeds alone. A ``player``, if given, chooses the moves."""

    def __init__(self, teacher: Teacher, recipe: Recipe, player: Teacher | None = None):
        self._teacher, self._recipe, self._player = teacher, recipe, player
        self._found: dict[int, dict[int, tuple[np.ndarray, float]]] = {}  # by the game's seed, by ply

    def choose(self, game: Game, limits: Limits) -> Decision:
        return self.choose_all([game], limits)[0]

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        recipe, weights = self._recipe, dict[int, np.ndarray]()
        drawn = [chances(game.move_seed()) for game in games]
        full = [place for place, (chance, _) in enumerate(drawn) if chance < recipe.full_search_prob]
        for place, row, win_rate in self._ask(self._teacher, recipe.teacher.limits.simulations, games, full):
            levels = np.empty(len(row), np.uint16)
            to_levels(row, levels)
            self._found.setdefault(games[place].seed, {})[len(games[place].moves)] = levels, win_rate
            weights[place] = row
        rest = [place for place in range(len(games)) if self._player or place not in weights]
        visits = recipe.player.limits.simulations if recipe.player else recipe.cheap_search_visits
        weights |= {place: row for place, row, _ in self._ask(self._player or self._teacher, visits, games, rest)}
        decisions = []
        for place, game in enumerate(games):
            temperature = recipe.temperature if len(game.moves) < recipe.temperature_moves else 0.0
            decisions.append(Decision(int(draw_move(weights[place], temperature, drawn[place][1]))))
        return decisions

    def _ask(
        self, teacher: Teacher, visits: int | None, games: Sequence[Game], places: Sequence[int]
    ) -> Iterator[tuple[int, np.ndarray, float]]:
        """By place among the games: the weights of legal moves, for a search doesn't know before it tries a move that
        superko forbids it; and the win rate."""
        if not places:
            return
        weights, win_rates = teacher.search_targets([games[place] for place in places], Limits(simulations=visits))
        for place, row, win_rate in zip(places, weights, win_rates.tolist(), strict=True):
            legal = row * games[place].legal_moves()
            if not legal.any():
                legal[-1] = 1
            yield place, legal, win_rate

    def play(
        self, begin: Callable[[], NewGame | None], slots: int, goes_on: Callable[[], bool] = lambda: True
    ) -> Iterator[PlayedGame]:
        """As ``selfplay.SelfPlayGames.play``. Raises BotFault for a fault of the teacher."""
        rules, moves = self._recipe.rules, self._recipe.rules.size**2 + 1
        pairings = (
            Pairing(str(new.number), new.number, "teacher", "teacher", new.opening, new.seed)
            for new in iter(begin, None)
        )
        for record in play_bots({"teacher": self}, {"teacher": PATIENT}, rules, pairings, slots, goes_on):
            outcome = record.outcome
            if outcome is None or outcome.margin is None:
                raise BotFault(record.reason)
            found = self._found.pop(record.seed, {})
            yield PlayedGame(
                int(record.id),
                np.array(record.moves, np.uint16),
                rules.komi,
                outcome.margin,
                outcome.ending is Ending.SCORE,
                np.array(list(found), np.int64),
                np.array([levels for levels, _ in found.values()], np.uint16).reshape(-1, moves),
                np.array([win_rate for _, win_rate in found.values()], np.float32),
            )
