"""Distillation: a net learns from a teacher, which is a search, another net or an engine.

The targets are the shares of the teacher's moves (cross entropy: Silver et al. 2017, "Mastering the game of Go without
human knowledge", Methods, "Optimization"), a mean of result and win rate, and the owner of each point. A search teaches
by its own games, or any teacher judges the games of a player, such as the student.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from arena import ConfigError, IllegalMove
from arena.go.game import Rules
from arena.match.openings import Opening, draw_openings
from arena.players.player import Player
from arena.players.registry import Registry
from bots import alphago, gtp, policy
from bots.nets.catalogue import Net
from bots.nets.checkpoint import Checkpoint, Precision, find
from bots.nets.inference import Evaluator
from bots.search.puct import PuctParams
from bots.search.tree import params_of
from trainers.first_net import build, encoder_of, inherited_rules
from trainers.games import Games
from trainers.losses import Target, search_loss
from trainers.metrics import TEST_POSITIONS, VALIDATION_POSITIONS, of_rows
from trainers.processes import join_processes
from trainers.records import TEST, TRAIN, SplitRule, parts_of, read_records, too_few
from trainers.replay import Replay, SearchedGames, SearchRows, in_order, play_games
from trainers.selfplay import NewGame, Parallelism, PlayedGame, PlayGames, SearchGames, draw_seeds, take_each
from trainers.settings import Distill as Config
from trainers.slots import GameSlots, SelfPlayParams, put_game
from trainers.teachers import Analyst, build_teacher, judged_games
from trainers.train import Origin, Progress, Run, check

FORMAT = 6  # part of the names of folders of games; raised when the same settings give other games
BLOCK = 256  # openings that are drawn at a time
JUDGES_ON_GPU = 2  # threads that judge games while others are played: one encodes while the other evaluates
ASIDE = 1  # makes the seeds of openings differ from those of games


class Openings:
    """Prefixes of recorded games, cut at random. Its repr is a digest, as recipes are compared by their text."""

    def __init__(self, games: Games, rules: Rules):
        self.games, self._rules, self._room = games, rules, GameSlots.empty(1, rules.move_limit)
        self._digest = hashlib.sha256(games.moves.tobytes() + games.starts.tobytes()).hexdigest()

    def __repr__(self) -> str:
        return self._digest

    def __len__(self) -> int:
        return len(self.games)

    def cut(self, number: int, place: int) -> Opening | None:
        """The moves of a game up to a place in it; None if one is a pass or is illegal by CGOS rules."""
        begin, end = self.games.starts[number : number + 2]
        moves = tuple(self.games.moves[begin : begin + place % (end - begin)].tolist())
        if self._rules.size**2 in moves:
            return None
        try:
            put_game(self._room, 0, self._rules.size, self._rules.komi, opening=moves)
        except IllegalMove:
            return None
        return moves


@dataclass(frozen=True, slots=True)
class TeacherGames:
    """The player, the teacher and their settings."""

    config: Config
    teacher: Player
    rules: Rules
    policy_share: float = 0.0
    records: Openings | None = None
    player: Player | None = None  # plays the games that the teacher judges; None: the teacher, a search, plays

    @classmethod
    def of(cls, config: Config, registry: Registry, results: Path) -> "TeacherGames":
        """Raises ConfigError, CheckpointError or RecordError for an invalid teacher, player or records."""
        teacher, rules = registry.resolve(config.teacher), Rules.preset("cgos", config.size, config.komi)
        analysis = teacher.config.analysis if isinstance(teacher.config, gtp.Config) else None
        if analysis is None and (not teacher.bot_kind.teaches or teacher.bot_kind.external):
            raise ConfigError(f"teacher = {config.teacher} returns only a move; choose an alphago, or a policy")
        if analysis == "":
            raise ConfigError(
                f"teacher = {config.teacher} has no analysis mode: give its entry in arena.toml "
                "analysis = 'katago analysis -config ... -model ...'"
            )
        if analysis:
            Analyst(teacher.config)  # refuses a wrong command before the first games
        judges = config.player or not isinstance(teacher.config, alphago.Config)
        typed = config.player or (f"checkpoint:{config.start}" if config.start else config.teacher)
        player = registry.resolve(typed) if judges else None
        for name, bot, given in (("teacher", teacher, config.teacher), ("player", player, typed)):
            if bot is not None and (bot.limits.seconds is not None or bot.limits.time is not None):
                raise ConfigError(f"{name} = {given} uses limits in seconds, so games would differ; give visits")
        if player is not None and not isinstance(player.config, alphago.Config | policy.Config):
            raise ConfigError(f"player = {typed} can't play for a teacher; choose an alphago, or checkpoint:NAME")
        searches = player is not None and isinstance(player.config, alphago.Config)
        if config.tree_positions and not searches:
            raise ConfigError("tree_positions are of the tree of a player that searches; give --player alphago")
        paths = [Path(path) for path in config.records]
        teacher, share = teacher if analysis else teacher.checked(config.size), config.policy_share if searches else 1.0
        records = Openings(read_records(paths, config.size, results / "cache"), rules) if paths else None
        return cls(config, teacher, rules, share, records, player and player.checked(config.size))

    def folder(self, cache: Path) -> Path:
        chosen = "full_search_prob cheap_search_visits plies temperature temperature_moves seed tree_positions".split()
        parts = [FORMAT, self.teacher.identity, self.rules, *(getattr(self.config, name) for name in chosen)]
        parts += [self.policy_share, self.config.record_share, self.records, self.player and self.player.identity]
        return cache / f"distill-games-{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}"

    def begin(self, number: int) -> NewGame:
        """The game of this number. A share of games begins with a prefix of a record; in a share of games, the player's
        policy draws all moves."""
        plies, seed = self.config.plies, self.config.seed
        seeds = draw_seeds(6, seed, number)
        chances = seeds[2:4].astype(np.float64) / 2**63
        length = int(seeds[1] % np.uint64(plies + 1))
        opening = _draw_block(self.rules, plies, seed, number // BLOCK)[number % BLOCK][:length]
        if self.records is not None and chances[0] < self.config.record_share:
            opening = self.records.cut(int(seeds[4] % np.uint64(len(self.records))), int(seeds[5] >> 8)) or opening
        drawn = self.rules.move_limit if self.player and chances[1] < self.policy_share else 0
        return NewGame(number, int(seeds[0]), self.rules.komi, opening, drawn)

    def engines(self, numbers: deque[int], slots: int, threads: int) -> list[PlayGames]:
        """Raises CheckpointError for a net that can't be loaded."""
        on_gpu = getattr((self.player or self.teacher).config, "precision", "") == Precision.BF16
        parallels = Parallelism.of(on_gpu, slots, threads)
        return [partial(self._play, map(self.begin, take_each(numbers)), one) for one in parallels]

    def _play(
        self, games: Iterator[NewGame], parallel: Parallelism, goes_on: Callable[[], bool] = lambda: True
    ) -> Iterator[PlayedGame]:
        played = self.search(parallel).play(games, goes_on)
        if self.player is None:
            yield from played
            return
        teacher = build_teacher(self.teacher, self.rules, parallel.threads)
        workers = JUDGES_ON_GPU if parallel.groups > 1 else 0
        with closing(teacher):
            yield from judged_games(played, teacher, self.config.full_search_prob, self.config.seed, workers)

    def search(self, parallel: Parallelism) -> SearchGames:
        """The search of the player or, without one, of the teacher."""
        bot = self.player or self.teacher
        config: Any = bot.config
        if isinstance(config, policy.Config):
            config = alphago.Config(checkpoint=config.checkpoint, precision=config.precision)
        visits = bot.limits.simulations or config.visits
        mine = self.config
        cheap, share = (visits, 1.0) if self.player else (mine.cheap_search_visits, mine.full_search_prob)
        batch, reuse = config.virtual_loss_batch or 1, not config.gumbel  # sequential halving begins at 0 visits
        params = SelfPlayParams(visits, cheap, share, mine.temperature, mine.temperature_moves, batch, reuse)
        net = Evaluator(Checkpoint.open(find(config.checkpoint)), config.precision, config.threads)
        most = max(alphago.FIRST_NODES, config.max_tree_mb * 2**20 // alphago.NODE_BYTES)
        return SearchGames(self.rules, net, params, params_of(config, PuctParams), parallel, most, mine.tree_positions)


@lru_cache(maxsize=8)  # games begin in the order of their numbers
def _draw_block(rules: Rules, plies: int, seed: int, block: int) -> Sequence[Opening]:
    return draw_openings(rules, BLOCK, plies, int(draw_seeds(1, seed, block, ASIDE)[0]))


def split_searches(
    own: SearchedGames, earlier: Sequence[SearchedGames], rules: Sequence[SplitRule]
) -> list[SearchedGames]:
    """The searches for training, validation and test; no game is in two parts, also under symmetry. ``earlier`` games
    are in training or left out. Raises ConfigError if training or test is empty."""
    searched = SearchedGames.joined([own, *earlier])
    sides = parts_of(searched.games, rules)
    is_earlier = np.arange(len(sides)) >= len(own.games)
    sides[is_earlier & (sides != TRAIN)] = -1
    parts = [searched.select(sides == part) for part in range(3)]
    if not len(parts[TRAIN]) or not len(parts[TEST]):
        raise too_few(len(own.games), rules)
    return parts


def with_net_named(config: Config, results: Path) -> Config:
    """The settings with ``net``, by default of the shape of ``start``. Raises ConfigError or CheckpointError."""
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
) -> Path:
    """Play the missing games into cache/, then train as ``sl.train``. The teacher and the player are of ``registry``.
    Interrupted while games are played it raises KeyboardInterrupt."""
    config = with_net_named(config, results)
    check(config, ("policy", "value"), results)
    encoder, inherited = encoder_of(config, results), inherited_rules(config, results)
    earlier = [Replay(Path(folder), config.size).searched for folder in config.earlier]
    recipe = TeacherGames.of(config, registry, results)
    before = build(config, results).eval() if config.start else None
    replay = play_games(config, recipe, results, on_made)

    # Split the positions
    rules = tuple(dict.fromkeys((SplitRule.of_played(config), *inherited)))
    parts = split_searches(replay.by_number(config.games)[0], earlier, rules)
    learned, validation, test = (part.tree_positions_as_games() for part in parts)
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

        def measure(part: str) -> dict[str, float]:
            found = figures(run.averaged, part)
            if part == "test" and before is not None:
                found |= {f"start_{name}": figure for name, figure in figures(before.to(device), part).items()}
            return found

        def loss(planes: Tensor, targets: Target) -> tuple[Tensor, Mapping[str, Tensor]]:
            losses = search_loss(run.forward(planes), targets, config.outcome_share)
            return losses.total(config), losses.figures()

        return run.learn(rows.batch, loss, origin, measure, on_progress)
