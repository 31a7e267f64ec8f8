"""Distillation: what a search finds goes into the net that plays without one, or leads a search itself. No records are
needed.

The teacher plays games against itself, and the net learns the shares of its visits (cross entropy: Silver et al. 2017,
"Mastering the game of Go without human knowledge", Methods, "Optimization"), a value between the game's result and what
the search said, and whose each point was at the end. The teacher may be a larger net, a larger net's search, or the
search of the very net that learns: one round of expert iteration.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import cast

import numpy as np

from arena import ConfigError
from arena.go.game import Rules
from arena.match.openings import Opening, draw_openings
from arena.players.player import Player
from arena.players.registry import Registry
from bots import alphago, gtp
from bots.nets.catalogue import Net
from bots.nets.checkpoint import Checkpoint, Precision, find
from bots.nets.inference import Evaluator
from bots.search.puct import PuctParams
from bots.search.tree import params_of
from trainers.first_net import build, encoder_of, inherited_rules
from trainers.losses import search_loss
from trainers.metrics import TEST_POSITIONS, VALIDATION_POSITIONS, of_rows
from trainers.records import TEST, TRAIN, SplitRule, parts_of, too_few
from trainers.replay import Replay, SearchedGames, SearchRows, in_order, play_games
from trainers.selfplay import NewGame, PlayedGame, PlayGames, SearchGames, Shape, draw_seeds, take_each
from trainers.settings import Distill as Config
from trainers.settings import Lent
from trainers.slots import SelfPlayParams
from trainers.teachers import Analyst, Teacher, TeachingBot
from trainers.train import Origin, Progress, Run, check, join_processes

FORMAT = 5  # written into the name of every folder of games; a change of who plays or searches what raises it
BLOCK = 256  # openings that are drawn at a time
ASIDE = 1  # tells the draw of the openings from that of the games, which have the same seed


# --- The games ---


@dataclass(frozen=True, slots=True)
class Recipe:
    """Who plays the games, and how: an alphago's search in slots, any other teacher on the arena's game loop."""

    teacher: Player
    rules: Rules
    full_search_prob: float
    cheap_search_visits: int
    plies: int
    temperature: float
    temperature_moves: int
    seed: int
    tree_positions: int = 0
    player: Player | None = None  # who plays the moves; None for the teacher

    @classmethod
    def of(cls, config: Config, registry: Registry) -> Recipe:
        """Raises ConfigError or CheckpointError for a teacher that can't be."""
        found: dict[str, Player] = {}
        if config.tree_positions and not config.player:
            raise ConfigError("tree_positions are of the tree of a player; give --player alphago")
        for name in ("teacher", "player") if config.player else ("teacher",):
            typed = getattr(config, name)
            bot = registry.resolve(typed)
            analysis = bot.config.analysis if isinstance(bot.config, gtp.Config) and name == "teacher" else None
            if analysis is None and (not bot.bot_kind.teaches or bot.bot_kind.external):
                raise ConfigError(
                    f"{name} = {typed} returns only a move; choose an alphago, or checkpoint:NAME for a net alone"
                )
            if analysis == "":
                raise ConfigError(
                    f"teacher = {typed} has no analysis mode: give its entry in arena.toml "
                    "analysis = 'katago analysis -config ... -model ...'"
                )
            if bot.limits.seconds is not None or bot.limits.time is not None:
                raise ConfigError(f"{name} = {typed} uses limits in seconds, so games would differ; give visits")
            if name == "player" and config.tree_positions and not isinstance(bot.config, alphago.Config):
                raise ConfigError(f"player = {typed} has no tree for tree_positions; choose an alphago")
            if analysis:
                Analyst(bot.config)  # or the command is refused after the first games
            found[name] = bot if analysis else bot.checked(config.size)
        return cls(
            found["teacher"],
            Rules.preset("cgos", config.size, config.komi),
            config.full_search_prob,
            config.cheap_search_visits,
            config.plies,
            config.temperature,
            config.temperature_moves,
            config.seed,
            config.tree_positions,
            found.get("player"),
        )

    def folder(self, cache: Path) -> Path:
        parts = [FORMAT, self.teacher.identity, *(getattr(self, item.name) for item in fields(self)[1:-1])]
        parts.append(self.player and self.player.identity)
        return cache / f"distill-games-{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}"

    def begin(self, number: int) -> NewGame:
        """The game of this number."""
        seeds = draw_seeds(2, self.seed, number)
        length = int(seeds[1] % np.uint64(self.plies + 1))
        openings = _draw_block(self.rules, self.plies, self.seed, number // BLOCK)
        return NewGame(number, int(seeds[0]), self.rules.komi, openings[number % BLOCK][:length])

    def engines(self, numbers: deque[int], slots: int, threads: int) -> list[PlayGames]:
        """A net in bfloat16, which is for a GPU, plays all the games itself, and the threads are for the trees. Raises
        CheckpointError for a net that can't be loaded."""
        config = self.teacher.config
        if not isinstance(config, alphago.Config) or config.gumbel or self.player:
            return [partial(self._play_bot, numbers, slots) for _ in range(threads)]
        shapes = Shape.of(config.precision == Precision.BF16, slots, threads)
        return [partial(self.search(shape).play, map(self.begin, take_each(numbers))) for shape in shapes]

    def _params(self, **more: int) -> SelfPlayParams:
        visits = self.teacher.limits.simulations or int(getattr(self.teacher.config, "visits", 1))
        parts = self.cheap_search_visits, self.full_search_prob, self.temperature, self.temperature_moves
        return SelfPlayParams(visits, *parts, reuse=True, **more)

    def search(self, shape: Shape) -> SearchGames:
        """Plays as the bot does that is the teacher, an alphago with PUCT."""
        config = cast(alphago.Config, self.teacher.config)
        params = self._params(virtual_loss_batch=config.virtual_loss_batch or 1)
        net = Evaluator(Checkpoint.open(find(config.checkpoint)), config.precision, config.threads)
        most = max(alphago.FIRST_NODES, config.max_tree_mb * 2**20 // alphago.NODE_BYTES)
        return SearchGames(self.rules, net, params, params_of(config, PuctParams), shape, most)

    def teaching_bot(self, teacher: Teacher) -> TeachingBot:
        """Plays as the ``teacher``, or the player, and notes what the teacher finds."""
        player, visits = None, None
        if self.player:
            player, visits = cast(Teacher, self.player.build()), self.player.limits.simulations
        parts = self.teacher.limits.simulations, self._params(), player, visits, self.tree_positions
        return TeachingBot(teacher, *parts)

    def _play_bot(self, numbers: deque[int], slots: int, goes_on: Callable[[], bool]) -> Iterator[PlayedGame]:
        config = self.teacher.config
        teacher = Analyst(config) if isinstance(config, gtp.Config) else self.teacher.build()
        try:
            bot = self.teaching_bot(cast(Teacher, teacher))
            yield from bot.play(self.rules, map(self.begin, take_each(numbers)), slots, goes_on)
        finally:
            teacher.close()


@lru_cache(maxsize=8)  # games are begun in the order of their numbers
def _draw_block(rules: Rules, plies: int, seed: int, block: int) -> Sequence[Opening]:
    return draw_openings(rules, BLOCK, plies, int(draw_seeds(1, seed, block, ASIDE)[0]))


# --- Rows ---


def split_searches(
    own: SearchedGames, earlier: Sequence[SearchedGames], rules: Sequence[SplitRule]
) -> list[SearchedGames]:
    """Searches to learn from, those of the validation and those of the test: no game, under no symmetry, is in two of
    them. Of ``earlier`` games those are learned from that the ``rules`` don't hold out: a net that starts from this one
    may be tested on the others. Raises ConfigError where nothing is left to learn from or to be tested on."""
    searched = SearchedGames.joined([own, *earlier])
    sides = parts_of(searched.games, rules)
    is_earlier = np.arange(len(sides)) >= len(own.games)
    sides[is_earlier & (sides != TRAIN)] = -1
    parts = [searched.select(sides == part) for part in range(3)]
    if not len(parts[TRAIN]) or not len(parts[TEST]):
        raise too_few(len(own.games), rules)
    return parts


# --- Training ---


def with_net_named(config: Config, results: Path) -> Config:
    """The settings with a net: without one, of the shape of ``start``. Raises ConfigError, CheckpointError."""
    if not config.net and not config.start:
        raise ConfigError("without start there is no net; give --net arena-BLOCKSxCHANNELS")
    shape = {} if config.net else Checkpoint.open(find(config.start, results)).manifest.network
    return replace(config, net=config.net or f"arena-{shape.get('blocks', 0)}x{shape.get('channels', 0)}")


def train(
    config: Config,
    results: Path,
    registry: Registry,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_made: Callable[[str], None] = lambda _: None,
    lent: Lent | None = None,
) -> Path:
    """Play the games that are still missing, then train, or go on where a run of this name stopped; the checkpoint's
    folder. The teacher is one of ``registry``. Games are in cache/; otherwise as ``sl.train``. Interrupted while they
    are played it raises KeyboardInterrupt."""
    config = with_net_named(config, results)
    check(config, ("policy", "value"), results)
    encoder, inherited = encoder_of(config, results), inherited_rules(config, results)
    # before the games: or hours of play would come before what is wrong with them
    earlier = [Replay(Path(folder), config.size).searched for folder in config.earlier]
    recipe = Recipe.of(config, registry)
    before = build(config, results).eval() if config.start else None
    replay = play_games(config, recipe, results, on_made, lent)

    # What is learned from
    rules = tuple(dict.fromkeys((SplitRule.of_played(config), *inherited)))
    parts = split_searches(replay.by_number(config.games)[0], earlier, rules)
    learned, validation, test = (part.unfolded() for part in parts)
    rows = SearchRows(learned, encoder, config.seed, config.num_workers)
    kept = SearchRows(validation if len(validation) else learned, encoder, config.seed + 1)
    words = f"{sum(len(part.games) for part in parts)} games of {config.teacher} ({recipe.teacher.identity})"
    words += f"{' and earlier ones' if config.earlier else ''}, {sum(map(len, parts))} positions"
    origin = Origin(encoder, recipe.rules, words, lambda count: kept.batch(0, count).planes, rules)

    def figures(network: Net, part: str) -> dict[str, float]:
        searched, count = (validation, VALIDATION_POSITIONS) if part == "validation" else (test, TEST_POSITIONS)
        return of_rows(network, in_order(searched, encoder, count), part) if len(searched) else {}

    # Learn
    with join_processes(config) as device, Run(build(config, results).to(device).train(), config, results) as run:
        run.restore()

        def measure(part: str) -> dict[str, float]:
            found = figures(run.averaged, part)
            if part == "test" and before is not None:
                found |= {f"start_{name}": figure for name, figure in figures(before.to(device), part).items()}
            return found

        with run.batches(rows.batch, config.batch_size) as batches:
            for planes, targets in batches:
                losses = search_loss(run.forward(planes), targets, config.outcome_share)
                on_progress(run.step(losses.total(config), config.batch_size, losses.figures()))
                run.validate_and_save_when_due(origin, measure)
        return run.finish(origin, measure)
