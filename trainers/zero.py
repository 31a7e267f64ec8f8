"""Self-play learning from random weights: a net learns from the games of its own search, without records.

Each round the averaged net plays against itself with a Gumbel search (Danihelka et al. 2022, "Policy improvement by
planning with Gumbel"), and learns from the latest games: improved policy, result and win rate, final owners, and score.
Playout cap randomization, ownership and score targets, varied komi and the growing window are KataGo's (Wu 2019,
"Accelerating self-play learning in Go"). Games are played in threads beside the learner, or on a cluster. Each process
of torchrun plays a part of a round's games and learns from a part of each batch; all of them hold all games.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event

import numpy as np
import torch

from arena import CheckpointError, ConfigError
from arena.go.coords import pass_move
from arena.go.game import Rules
from arena.go.planes import Encoder, find_encoder
from arena.players.registry import Registry
from bots.alphago import AlphaGo
from bots.alphago import Config as Search
from bots.nets.catalogue import Net
from bots.nets.inference import sample_planes
from bots.search import puct
from bots.search.tree import params_of
from trainers.cluster import SelfPlayNodes, Stage
from trainers.first_net import build, encoder_of, inherited_rules, start_of
from trainers.live_inference import LiveEvaluator
from trainers.losses import search_loss
from trainers.metrics import of_rows
from trainers.processes import gather, join_processes, processes, rank, refuse_torchrun
from trainers.ratings import STEP, Rating, RatingMatch, SelfPlayProgress, read_ratings, write_rating
from trainers.replay import Replay, encode_searches, in_order, make_chunk, searched_games
from trainers.selfplay import NewGame, Parallelism, PlayedGame, Players, SearchGames, SelfPlayNet
from trainers.settings import ClusterOptions, is_first
from trainers.settings import Zero as Config
from trainers.slots import SelfPlayParams
from trainers.train import Origin, Run, check_run, forget_snapshots, prefetch

GAMES = "games"  # the folder of a run's games, beside its state
MANY = 1_000_000  # most games of a sitting without a limit
RANGE = 8  # games a slot that a core of a cluster gets at a time
REMEMBERED = 128  # latest games of a thread that another game may fork from
NICE_INCREMENT = 6  # of the threads that play: the learner comes first
ROUND_BATCHES, SCALED = 8, 64  # batches of new rows between two learning phases, and positions that scale int8
MEASURED = 256  # searches of a round's games on which the net is measured before it learns from them
PLIES, EVAL_VISITS = 4, 100  # random moves at the start of the games against other bots, and visits a move there

POLICY_INIT_PROB, POLICY_INIT_MOVES = 0.5, 3  # share of games whose first moves are drawn from the policy; most moves
FORK_GAME_PROB = 0.05  # share of games that fork from an earlier one, with a move drawn from the policy
KOMI_STDEV, SMALL_KOMI_STDEV = 1.0, 4.0  # of komi; SMALL under 7x7, where one side may win all of the board
WIDE_KOMI_PROB, WIDE_KOMI_FACTOR = 0.1, 5.0  # share of games with a larger deviation of komi, and its factor
FIRST_PASS = 0.3  # moves before the first allowed pass, as a share of the points


@dataclass(frozen=True, slots=True)
class SelfPlayWeights:
    """The current weights of self-play, and the settings of its games."""

    network: Net
    planes: np.ndarray  # (B, P, n, n): positions that scale int8
    config: Config
    komi: float  # mean komi

    def games(self, net: SelfPlayNet, parallel: Parallelism) -> SearchGames:
        config, points = self.config, self.config.size**2
        visits = config.visits + 1, config.cheap_search_visits + 1  # one more for the root
        params = SelfPlayParams(*visits, config.full_search_prob, first_pass=int(FIRST_PASS * points))
        search = params_of(Search(search="gumbel", stop_early=False), puct.PuctParams)
        return SearchGames(Rules.preset("cgos", config.size, move_limit=2 * points + 38), net, params, search, parallel)

    def begin(self, number: int, earlier: Sequence[np.ndarray]) -> NewGame:
        """The game of this number. It may fork from one of ``earlier`` games, in its first half and before a pass."""
        random, size = np.random.default_rng([self.config.seed, number]), self.config.size
        limit, passing = size**2, pass_move(size)
        stdev = KOMI_STDEV if size >= 7 else SMALL_KOMI_STDEV
        stdev *= WIDE_KOMI_FACTOR if random.random() < WIDE_KOMI_PROB else 1.0
        komi = min(limit, max(-limit, round(2 * random.normal(self.komi, stdev)) / 2))
        seed, drawn, opening = int(random.integers(2**62)), 0, ()
        if random.random() < POLICY_INIT_PROB:
            drawn = int(random.integers(POLICY_INIT_MOVES + 1))
        if earlier and random.random() < FORK_GAME_PROB:
            moves = earlier[int(random.integers(len(earlier)))]
            moves = moves[: random.integers(1 + len(moves) // 2)].tolist()
            opening = tuple(moves[: (*moves, passing).index(passing)])
            drawn = len(opening) + 1
        return NewGame(number, seed, float(komi), opening, drawn)


def play(
    games: SearchGames, latest: Callable[[], SelfPlayWeights], numbers: Iterator[int], goes_on: Callable[[], bool]
) -> Iterator[PlayedGame]:
    """Play the games of ``numbers``, each with the latest komi when it begins."""
    earlier: deque[np.ndarray] = deque(maxlen=REMEMBERED)
    for game in games.play((latest().begin(number, earlier) for number in numbers), goes_on):
        earlier.append(game.moves)
        yield game


def play_there(slots: int, encoder: str, numbers: Sequence[int], stage: Stage) -> Iterator[PlayedGame]:
    """Play the games of these numbers on a core of a cluster, with the latest weights of its node."""
    net, taken = LiveEvaluator(find_encoder(encoder), torch.device("cpu"), bf16=False), None

    def goes_on() -> bool:
        nonlocal taken
        if stage.latest is not taken:
            taken = stage.latest
            net.take(deepcopy(taken.network), taken.planes.copy())  # Ray's objects are read-only
        return not stage.is_over

    goes_on()
    yield from play(stage.latest.games(net, Parallelism(slots)), lambda: stage.latest, iter(numbers), goes_on)


def compile_kernels(latest: SelfPlayWeights, encoder: Encoder, device: torch.device, config: Config) -> None:
    """Play a game and encode its rows, so that all kernels are compiled before the minutes of a run begin."""
    net = LiveEvaluator(encoder, device, config.bf16)
    net.take(latest.network, latest.planes)
    latest = replace(latest, config=replace(config, full_search_prob=1.0))
    games = list(play(latest.games(net, Parallelism(1)), lambda: latest, iter((0,)), lambda: True))
    searched = searched_games(config.size, make_chunk(games, config.size))
    encode_searches(searched, encoder, np.arange(len(searched)), np.zeros(len(searched), np.int64))


def check(config: Config, results: Path, cluster: ClusterOptions | None = None) -> None:
    """Raise ConfigError or CheckpointError for invalid settings."""
    check_run(config)
    if cluster is not None:
        refuse_torchrun("the games of a cluster come to one process: start it without torchrun")
    if not config.net.startswith("arena-"):
        raise ConfigError(f"the net {config.net} hasn't all four heads; choose arena-BLOCKSxCHANNELS")
    if config.start:
        start_of(config, results)
    build(config, results)


def learn(run: Run, config: Config, replay: Replay, encoder: Encoder) -> float:
    """Make the steps that the new rows allow, at most those of two rounds; rows a second."""
    began, rows, batch = time.monotonic(), run.rows, config.batch_size
    share = batch // processes()
    due = min(config.replay_ratio * replay.rows - rows, 2 * config.replay_ratio * ROUND_BATCHES * batch)
    steps = int(due) // batch if replay.rows else 0
    make = partial(replay.batch, config.seed, encoder, config.num_workers)
    starts = range(rows + rank() * share, rows + steps * batch, batch)
    with closing(prefetch(make, starts, share, run.device)) as ahead:
        for planes, targets in ahead:
            losses = search_loss(run.forward(planes), targets, config.outcome_share)
            run.step(losses.total(config), losses.figures(), batch)
            if run.stop_agreed:
                break
    run.require_finite()
    return (run.rows - rows) / max(1e-9, time.monotonic() - began)


def train(
    config: Config,
    results: Path,
    registry: Registry,
    on_progress: Callable[[SelfPlayProgress], None] = lambda _: None,
    cluster: ClusterOptions | None = None,
) -> Path:
    """As ``rl.train``; games are played here or on a ``cluster``, into training/NAME/games. A stopped run keeps all
    finished games; a killed one loses those of one round, and the steps since the state was saved."""
    check(config, results, cluster)
    opponents = [registry.resolve(name).checked(config.size) for name in config.eval_opponents]
    encoder, splits = encoder_of(config, results), inherited_rules(config, results)
    rules = Rules.preset("cgos", config.size, None if config.komi is None else round(2 * config.komi) / 2)
    with ExitStack() as stack:
        device = stack.enter_context(join_processes(config))
        nodes = stack.enter_context(SelfPlayNodes(cluster, rules)) if cluster else None
        beside = stack.enter_context(ThreadPoolExecutor(1, "matches"))
        run = stack.enter_context(Run(build(config, results).to(device).train(), config, results))
        replay = Replay(run.folder / GAMES, config.size, config.replay_window)
        run.restore()
        run.games = replay.games
        net = LiveEvaluator(encoder, device, config.bf16)
        ended = Event()
        stack.callback(ended.set)

        def planes(count: int) -> np.ndarray:
            """Planes (count, P, n, n) of played positions, or of random games before there are any."""
            if replay.rows:
                return replay.batch(config.seed, encoder, 1, run.step_count, count).planes
            return np.resize(sample := sample_planes(encoder, config.size), (count, *sample.shape[1:]))

        def refresh() -> SelfPlayWeights:
            """The averaged weights and a fair mean komi, for new games."""
            network = run.averaged if nodes is None else deepcopy(run.averaged).cpu()
            komi = replay.margin if config.komi is None else config.komi
            found = SelfPlayWeights(network, planes(SCALED), config, komi)
            if nodes is None:
                net.take(found.network, found.planes)
            return found

        def waits() -> bool:
            """Whether this process waits for more games."""
            return not run.stop_asked and run.seconds < 60 * (config.max_minutes or math.inf)

        def origin() -> Origin:
            words = f"{replay.games} games of its own search, {replay.rows} of {replay.positions} positions in full"
            return Origin(encoder, rules, words, planes, splits)

        # Matches of snapshots against bots and, as bots soon lose every game, against the snapshot before

        def player_of(snapshot: Path) -> AlphaGo:
            """A snapshot with the search and precision of self-play."""
            precision = "bf16" if device.type != "cpu" and config.bf16 else "auto"
            return AlphaGo(Search(str(snapshot), search="gumbel", visits=EVAL_VISITS, precision=precision))

        def rate(player: AlphaGo, step: int, before: tuple[int, AlphaGo] | None) -> None:
            def go_on() -> bool:
                return not (run.stop_asked or ended.is_set())

            match = RatingMatch(rules, config.eval_games, PLIES, (config.seed, step))
            for opponent in opponents:
                if found := match.rate(step, player, opponent, go_on):
                    write_rating(run.folder, found)
            if before is not None and before[0] < step:
                points = match.play(player, before[1], slots=config.eval_games, goes_on=go_on)
                if len(points) == config.eval_games:
                    write_rating(run.folder, Rating.of(step, f"{STEP} {before[0]}", points))

        matches, before = Future[None](), None
        matches.set_result(None)
        for rating in read_ratings(run.folder, run.step_count)[-1:]:
            with suppress(CheckpointError):
                step = rating.iteration
                before = step, player_of(run.saved.with_name(f"{config.name}-step{step}"))

        def save_snapshot(calibrates: bool) -> None:
            """Save a snapshot, and begin its matches unless earlier ones are still played."""
            nonlocal matches, before
            snapshot = run.save_snapshot(origin(), calibrates=calibrates)
            if opponents and matches.done():
                matches.result()  # raises an error of the last ones
                matches = beside.submit(rate, player := player_of(snapshot), run.step_count, before)
                before = run.step_count, player

        latest, slots = refresh(), config.parallel_games
        taken = counted = time.monotonic()
        numbers = range(run.games + rank(), config.max_games or run.games + MANY, processes())
        if nodes is None:
            compile_kernels(latest, encoder, device, config)
            parallels, left = Parallelism.of(device.type != "cpu", slots, config.num_workers), iter(numbers)
            engines = [partial(play, latest.games(net, one), lambda: latest, left) for one in parallels]
            fullest = parallels[0].slots / parallels[0].groups
            net.counts()
        else:
            work = partial(play_there, slots, encoder.name)
            fullest = slots  # what nodes evaluate isn't counted
            engines = [partial(nodes.play, work, deque(numbers), RANGE * slots, lambda: latest)]

        with Players(engines, NICE_INCREMENT) as players:
            while True:
                run.count_minutes()
                if run.is_over:
                    break

                # Take the games of a round
                began = time.monotonic()
                own = players.take(ROUND_BATCHES * config.batch_size / processes(), waits)
                parts, counts, asked = zip(*gather((own, net.counts(), run.stop_asked)), strict=True)
                interval, counted = time.monotonic() - counted, time.monotonic()
                played = [game for part in parts for game in part]
                unseen = searched_games(config.size, make_chunk(played, config.size))
                replay.add(played)
                run.games = replay.games
                if any(asked) or not played:
                    break

                # Measure the net on the new games, learn from the latest games, give the new weights to the players
                measured = (
                    of_rows(run.averaged, in_order(unseen, encoder, MEASURED), "validation") if is_first() else {}
                )
                learned_per_second = learn(run, config, replay, encoder)
                latest, age, taken = refresh(), time.monotonic() - taken, time.monotonic()
                evaluated, batches = np.sum(counts, 0).tolist()

                # Log, save and measure
                figures = {
                    "games_per_second": len(played) / (time.monotonic() - began),
                    "length": float(np.mean([len(game.moves) for game in played])),
                    "black": float(np.mean([np.sign(game.margin) / 2 + 0.5 for game in played])),
                    "size": config.size,
                    "games": run.games,
                    "positions": replay.positions,
                    "new_rows": replay.rows,
                    "komi": latest.komi,
                    "int8": float(net.is_int8),
                    "learned_per_second": learned_per_second,
                    "weights_seconds": age,
                    "evaluations_per_second": evaluated / interval,
                    "batch_fill": evaluated / max(1, batches) / fullest,
                    **measured,
                    **run.figures(),
                }
                if is_first():
                    run.log(**figures)
                run.save_when_due()
                if run.step_count and run.snapshot_is_due():
                    save_snapshot(net.is_int8)
                ratings = read_ratings(run.folder, run.step_count)
                on_progress(SelfPlayProgress(run.step_count, figures, run.minutes_left, ratings))
        replay.add([game for part in gather(players.rest()) for game in part])
        run.games = replay.games

        if is_first():
            run.save()
        if not run.rows:
            played_only = f"{config.name}: nothing was learned, as {run.games} games gave {replay.rows} rows"
            raise ConfigError(f"{played_only} for batches of {config.batch_size}; resume it with a larger budget")
        if not is_first():
            return run.saved
        metrics: dict[str, float] = {"games": run.games, "positions": replay.positions}
        if run.done >= 1 and not run.stop_asked:
            matches.result()
            if opponents:
                save_snapshot(calibrates=True)
                matches.result()
            last = [each for each in read_ratings(run.folder, run.step_count) if each.iteration == run.step_count]
            metrics |= {f"share_against_{each.against.replace(' ', '_')}": each.share for each in last}
            forget_snapshots(run.saved)
        return run.save_checkpoint(origin(), metrics)
