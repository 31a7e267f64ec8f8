"""From random weights to a player: a net learns from nothing but the games of its own search. No records.

Each round the averaged net plays against itself, with a Gumbel search at every move (Danihelka et al. 2022, "Policy
improvement by planning with Gumbel"), and then learns from the latest games: the improved policy, the result and the
search's win rate, whose each point was at the end, and the score. What makes that cheap is KataGo's (Wu 2019,
"Accelerating self-play learning in Go"): playout cap randomization, ownership and score, varied komi, a growing window.
In one process, on one device, the games in threads of their own or on the cores of a cluster.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from arena import CheckpointError, ConfigError
from arena.go.coords import MAX_SIZE, MIN_SIZE, pass_move
from arena.go.game import Rules
from arena.go.planes import Encoder, find_encoder
from arena.players.registry import Registry
from bots.alphago import AlphaGo
from bots.alphago import Config as Search
from bots.nets.catalogue import Net
from bots.nets.inference import sample_planes
from bots.search import puct
from bots.search.tree import params_of
from trainers.cluster import Cores, Stage
from trainers.first_net import build, encoder_of, inherited_rules, start_of
from trainers.live_inference import LiveEvaluator
from trainers.losses import search_loss
from trainers.ratings import STEP, Rating, RatingMatch, SelfPlayProgress, read_ratings, write_rating
from trainers.replay import Replay, encode_searches, make_chunk, searched_games
from trainers.selfplay import Evaluator, NewGame, PlayedGame, Players, PlayGames, SearchGames, Shape
from trainers.settings import Lent
from trainers.settings import Zero as Config
from trainers.slots import SelfPlayParams
from trainers.train import Origin, Run, check_run, forget_snapshots, join_processes, prefetch

GAMES = "games"  # the folder of a run's games, beside its state
MANY = 1_000_000  # games that a sitting without a limit may play
RANGE = 8  # games, a slot, that a core of a cluster is asked for at a time
REMEMBERED = 128  # latest games of a thread, as which another one may begin
NICE_INCREMENT = 6  # of the threads that play: they step back behind the net that learns
ROUND_BATCHES, SCALED = 8, 64  # batches of new rows between two learning phases, and positions that scale int8
PLIES, EVAL_VISITS = 4, 100  # random moves at the start of the games against other bots, and visits a move there

POLICY_INIT_PROB, POLICY_INIT_MOVES = 0.5, 3  # of games whose first moves are drawn from the policy; most such moves
FORK_GAME_PROB = 0.05  # of games that begin as an earlier one did, and go on with a move drawn from the policy
KOMI_STDEV, SMALL_KOMI_STDEV = 1.0, 4.0  # of komi, and under 7x7, where one side may win all of the board
WIDE_KOMI_PROB, WIDE_KOMI_FACTOR = 0.1, 5.0  # of games whose komi varies so much more: the net is to know all komi
FIRST_PASS = 0.3  # moves before the first allowed pass, as a share of the points


# --- The games ---


@dataclass(frozen=True, slots=True)
class Latest:
    """How games are played now."""

    network: Net
    planes: np.ndarray  # (B, P, n, n): positions by which int8 is scaled
    config: Config
    size: int
    komi: float  # its mean

    def games(self, net: Evaluator, shape: Shape) -> SearchGames:
        """An engine that plays them."""
        config, points = self.config, self.size**2
        visits = config.visits + 1, config.cheap_search_visits + 1  # with the root's own, which tells nothing of moves
        params = SelfPlayParams(*visits, config.full_search_prob, first_pass=int(FIRST_PASS * points))
        search = params_of(Search(search="gumbel", stop_early=False), puct.PuctParams)
        return SearchGames(Rules.preset("cgos", self.size, move_limit=2 * points + 38), net, params, search, shape)

    def begin(self, number: int, earlier: Sequence[np.ndarray]) -> NewGame:
        """The game of this number. It may begin with the first moves of one of ``earlier`` games, up to a random one
        before half of it and before the first pass."""
        random, limit, passing = np.random.default_rng([self.config.seed, number]), self.size**2, pass_move(self.size)
        stdev = KOMI_STDEV if self.size >= 7 else SMALL_KOMI_STDEV
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
    games: SearchGames, latest: Callable[[], Latest], numbers: Iterator[int], goes_on: Callable[[], bool]
) -> Iterator[PlayedGame]:
    """Play the games of ``numbers``, each as is usual at the moment when it begins."""
    earlier: deque[np.ndarray] = deque(maxlen=REMEMBERED)
    for game in games.play((latest().begin(number, earlier) for number in numbers), goes_on):
        earlier.append(game.moves)
        yield game


def play_there(slots: int, encoder: str, numbers: Sequence[int], stage: Stage) -> Iterator[PlayedGame]:
    """Play the games of these numbers on a core of a cluster, with the weights that were sent last."""
    net, taken = LiveEvaluator(find_encoder(encoder), torch.device("cpu"), bf16=False), None

    def goes_on() -> bool:
        nonlocal taken
        if stage.sent is not taken:
            taken = stage.sent
            net.take(deepcopy(taken.network), taken.planes.copy())  # what Ray gives is shared, and can't be written to
        return not stage.is_over

    goes_on()
    yield from play(stage.sent.games(net, Shape(slots)), lambda: stage.sent, iter(numbers), goes_on)


def warm_up(latest: Latest, encoder: Encoder, device: torch.device, config: Config) -> None:
    """Play a game, and encode its rows, so that all kernels are compiled before the minutes of a run begin."""
    net = LiveEvaluator(encoder, device, config.bf16)
    net.take(latest.network, latest.planes)
    latest = replace(latest, config=replace(config, full_search_prob=1.0))
    games = list(play(latest.games(net, Shape(1)), lambda: latest, iter((0,)), lambda: True))
    searched = searched_games(latest.size, make_chunk(games, latest.size))
    encode_searches(searched, encoder, np.arange(len(searched)), np.zeros(len(searched), np.int64))


# --- The settings ---


def check(config: Config, results: Path) -> None:
    """Raise ConfigError or CheckpointError for settings that can't be."""
    check_run(config)
    if not config.net.startswith("arena-"):
        raise ConfigError(f"the net {config.net} hasn't all four heads; choose arena-BLOCKSxCHANNELS")
    if config.start:
        start_of(config, results)
    stages_of(config)
    build(config, results)


def stages_of(config: Config) -> list[tuple[int, float]]:
    """The board sizes of the curriculum in turn, each with the share of the budget at which it ends. Raises
    ConfigError."""
    *pairs, last = config.sizes.split(",") if config.sizes else [f"{config.size}"]
    try:
        given = [(int(size), float(share)) for size, share in (pair.split(":") for pair in pairs)]
        sizes, shares = [*(size for size, _ in given), int(last)], [share for _, share in given]
    except ValueError:
        sizes, shares = [], []
    is_right = len({*sizes}) == len(sizes) > 0 and sizes[-1] == config.size and MIN_SIZE <= min(sizes)
    if not is_right or max(sizes) > MAX_SIZE or min(shares, default=1) <= 0 or sum(shares) >= 1:
        raise ConfigError(
            f"sizes = '{config.sizes}': give each size but the last its share of the budget, such as 5:0.1,7:0.2,9; "
            f"the last is --size {config.size}"
        )
    return list(zip(sizes, [*np.cumsum(shares).tolist(), 1.0], strict=True))


# --- The run ---


def train(
    config: Config,
    results: Path,
    registry: Registry,
    on_progress: Callable[[SelfPlayProgress], None] = lambda _: None,
    lent: Lent | None = None,
) -> Path:
    """As ``rl.train``. The games are in training/NAME/, too. Stopped it keeps the games that are over; killed it loses
    those of one round, and what was learned since the state was saved."""
    check(config, results)
    opponents = [registry.resolve(name).checked(config.size) for name in config.eval_opponents]
    encoder, splits = encoder_of(config, results), inherited_rules(config, results)
    rules = Rules.preset("cgos", config.size, None if config.komi is None else round(2 * config.komi) / 2)
    with ExitStack() as stack:
        device = stack.enter_context(join_processes(config))
        cores = stack.enter_context(Cores(lent, rules)) if lent else None
        beside, has_ended = stack.enter_context(ThreadPoolExecutor(1, "matches")), threading.Event()
        stack.callback(has_ended.set)
        run = stack.enter_context(Run(build(config, results).to(device).train(), config, results))
        names = {size: GAMES if size == config.size else f"{GAMES}-{size}x{size}" for size, _ in stages_of(config)}
        replays = {size: Replay(run.folder / name, size, config.replay_window) for size, name in names.items()}

        def total(name: str) -> int:
            """Games, positions or rows of all sizes."""
            return sum(getattr(replay, name) for replay in replays.values())

        def keep(replay: Replay, played: Sequence[PlayedGame]) -> None:
            replay.add(played)
            run.games = total("games")

        def planes_of(replay: Replay, count: int) -> np.ndarray:
            """Planes of positions that were played, (count, P, n, n); of random games before that."""
            if replay.rows:
                return replay.batch(config.seed, encoder, 1, run.step_count, count).planes
            sample = sample_planes(encoder, replay.size)
            return np.resize(sample, (count, *sample.shape[1:]))

        def origin() -> Origin:
            words = f"{run.games} games of its own search, {total('rows')} of {total('positions')} positions in full"
            return Origin(encoder, rules, words, partial(planes_of, replays[config.size]), splits)

        def latest_of(replay: Replay) -> Latest:
            """The averaged weights, and a mean komi that is fair."""
            komi = config.komi if config.komi is not None and replay.size == config.size else replay.margin
            network = run.averaged if cores is None else deepcopy(run.averaged).cpu()
            return Latest(network, planes_of(replay, SCALED), config, replay.size, komi)

        def player_of(folder: Path) -> AlphaGo:
            """A snapshot with the search and the precision of the games."""
            precision = "bf16" if device.type != "cpu" and config.bf16 else "auto"
            return AlphaGo(Search(str(folder), search="gumbel", visits=EVAL_VISITS, precision=precision))

        def rate(player: AlphaGo, step: int, before: tuple[int, AlphaGo] | None) -> None:
            """Play the matches of a snapshot: with the bots, and with the one ``before``, as bots are soon outgrown."""
            match = RatingMatch(rules, config.eval_games, PLIES, (config.seed, step))
            for opponent in opponents:
                if found := match.rate(step, player, opponent, plays_on):
                    write_rating(run.folder, found)
            if before is not None and before[0] < step:
                points = match.play(player, before[1], slots=config.eval_games, goes_on=plays_on)
                if len(points) == config.eval_games:
                    write_rating(run.folder, Rating.of(step, f"{STEP} {before[0]}", points))

        def plays_on() -> bool:
            return not (run.stop_asked or has_ended.is_set())

        run.restore()
        run.games = total("games")
        rated: tuple[int, AlphaGo] | None = None  # the last net that played matches, and its step
        for latest_rating in read_ratings(run.folder, run.step_count)[-1:]:
            with suppress(CheckpointError):
                step = latest_rating.iteration
                rated = step, player_of(run.saved.with_name(f"{config.name}-step{step}"))
        if cores is None:
            warm_up(latest_of(replays[stages_of(config)[0][0]]), encoder, device, config)
        matches: Future[None] | None = None
        round_rows, batch, slots = ROUND_BATCHES * config.batch_size, config.batch_size, config.parallel_games
        while not run.is_over and not run.stop_asked:
            size, end = next(stage for stage in stages_of(config) if run.done < stage[1])
            replay, net = replays[size], LiveEvaluator(encoder, device, config.bf16)
            latest = latest_of(replay)
            numbers = range(run.games, math.ceil(end * config.max_games) if config.max_games else run.games + MANY)

            def newest() -> Latest:
                return latest  # noqa: B023  # of this stage

            def goes_on(end: float = end) -> bool:
                run.count_minutes()
                return run.done < end and not run.stop_asked

            engines: list[PlayGames]
            if cores is None:
                net.take(latest.network, latest.planes)
                shapes, left = Shape.of(device.type != "cpu", slots, config.num_workers), iter(numbers)
                engines = [partial(play, latest.games(net, shape), newest, left) for shape in shapes]
            else:
                work = partial(play_there, slots, encoder.name)
                engines = [partial(cores.play, work, deque(numbers), RANGE * slots, sent=newest)]
            with Players(engines, NICE_INCREMENT) as players:
                while goes_on():
                    # Play
                    began = time.monotonic()
                    played = players.take(round_rows, goes_on)
                    keep(replay, played)
                    if run.stop_asked or not played:
                        break

                    # Learn: as many steps as the new rows allow, but no more than those of two rounds
                    learning, rows = time.monotonic(), run.rows
                    due = min(config.replay_ratio * total("rows") - rows, 2 * config.replay_ratio * round_rows)
                    make = partial(replay.batch, config.seed, encoder, config.num_workers)
                    steps = int(due) // batch if replay.rows else 0
                    with prefetch(make, range(rows, rows + steps * batch, batch), batch, device) as ahead:
                        for planes, targets in ahead:
                            losses = search_loss(run.forward(planes), targets, config.outcome_share)
                            run.step(losses.total(config), batch, losses.figures())
                            if run.stop_asked:
                                break
                    run.undo_if_not_finite()
                    learned_per_second = (run.rows - rows) / max(1e-9, time.monotonic() - learning)

                    # Let the games have what was learned
                    latest = latest_of(replay)
                    if cores is None:
                        net.take(latest.network, latest.planes)

                    # Log, save and measure
                    figures = {
                        "games_per_second": len(played) / (time.monotonic() - began),
                        "length": float(np.mean([len(game.moves) for game in played])),
                        "black": float(np.mean([np.sign(game.margin) / 2 + 0.5 for game in played])),
                        "size": size,
                        "games": run.games,
                        "positions": total("positions"),
                        "new_rows": total("rows"),
                        "komi": latest.komi,
                        "int8": float(net.is_int8),
                        "learned_per_second": learned_per_second,
                        **run.figures(),
                    }
                    run.log(**figures)
                    run.save_when_due()
                    if matches is not None and matches.done():
                        matches = matches.result()
                    if run.step_count and run.snapshot_is_due():
                        snapshot = run.save_snapshot(origin(), calibrates=net.is_int8)
                        if opponents and matches is None:  # else those of its predecessor still go on
                            player = player_of(snapshot)
                            matches, rated = (
                                beside.submit(rate, player, run.step_count, rated),
                                (run.step_count, player),
                            )
                    ratings = read_ratings(run.folder, run.step_count)
                    on_progress(SelfPlayProgress(run.step_count, figures, run.minutes_left, ratings))
            keep(replay, players.rest())
        run.save()
        if not run.rows:
            played_only = f"{config.name}: nothing was learned, as {run.games} games gave {total('rows')} rows"
            raise ConfigError(f"{played_only} for batches of {config.batch_size}; resume it with a larger budget")
        metrics: dict[str, float] = {"games": run.games, "positions": total("positions")}
        if run.done >= 1 and not run.stop_asked:
            if matches is not None:
                matches.result()
            if opponents:
                rate(player_of(run.save_snapshot(origin(), calibrates=True)), run.step_count, rated)
            last = [each for each in read_ratings(run.folder, run.step_count) if each.iteration == run.step_count]
            metrics |= {f"share_against_{each.against.replace(' ', '_')}": each.share for each in last}
            forget_snapshots(run.saved)
        return run.save_checkpoint(origin(), metrics)
