"""Reinforcement learning: a policy net plays against earlier snapshots of itself, without search or records.

REINFORCE (Williams 1992) as in AlphaGo's second stage (Silver et al. 2016, "Mastering the game of Go with deep neural
networks and tree search", Methods), with advantages from the net's own value (Schulman et al. 2016, "High-dimensional
continuous control using generalized advantage estimation"). An iteration is a batch of games against a snapshot from a
pool, and one step. The other heads keep learning, as they share the tower with the policy.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from arena.go.game import Rules
from arena.go.planes import Encoder, find_encoder
from arena.match.openings import draw_openings
from arena.players.player import Player
from arena.players.registry import Registry
from bots.nets.catalogue import load_network
from bots.nets.inference import sample_planes
from bots.nets.network import expected_result
from trainers import losses as heads
from trainers.first_net import inherited_rules, start_of
from trainers.games import Batch, Games, encode_positions, in_order, results_of
from trainers.live_inference import TorchEvaluator
from trainers.processes import join_processes
from trainers.ratings import PolicyBot, Rating, RatingMatch, SelfPlayProgress, read_ratings, write_rating
from trainers.replay import make_chunk, searched_games
from trainers.selfplay import NewGame, Parallelism, PlayedGame, PolicyGames, draw_seeds
from trainers.settings import RL as Config
from trainers.slots import all_sensible
from trainers.train import Origin, Run, check_run, forget_snapshots, read_tensors, write_tensors

LEARNER, OPPONENT = 0, 1  # the nets of a game
SHORT = 32  # games of the last match of a run that was stopped
POOL_SIZE = 20  # opponents in the pool: the first net and the latest snapshots
BOT_GAMES, LAST = 40, 4  # most games of a match against a bot; the last match has LAST times as many games as others
AT_ONCE = 1024  # games in progress at once
MICRO_BATCH, MICRO_BATCH_ON_GPU = 512, 8192  # rows in memory at once; all rows of an iteration make one step


def advantages(games: Games, forecasts: np.ndarray, trace: float) -> np.ndarray:
    """Generalized advantage estimates of all moves, for the side that played them; (all moves,) float32.

    ``forecasts`` (all moves,) are the expected returns before each move, for the side to move; ``trace`` is lambda.
    """
    sides = np.where(games.plies % 2 == 0, 1, -1)  # credits are Black's
    last = games.starts[1:] - 1
    after = np.append((sides * forecasts)[1:], 0.0)
    after[last] = 1 - results_of(games.winners, np.zeros_like(last))
    credits = after - sides * forecasts
    for ply in range(int(games.lengths.max()) - 2, -1, -1):
        places = games.starts[:-1][games.lengths > ply + 1] + ply
        credits[places] += trace * credits[places + 1]
    return (sides * credits).astype(np.float32)


def policy_loss(logits: Tensor, chosen: Tensor, sensible: Tensor, gained: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of REINFORCE, and the entropy of the policy in nats: means over rows. ``chosen`` (B,) are the moves,
    ``gained`` (B,) their advantages; moves outside ``sensible`` (B, n² + 1) bool have probability 0."""
    logs = logits.masked_fill(~sensible, -math.inf).log_softmax(1)
    played = logs.gather(1, chosen[:, None])[:, 0]
    entropy = -(logs.exp() * logs.masked_fill(~sensible, 0.0)).sum(1).mean()  # 0 log 0 is 0
    return -(gained * played).mean(), entropy


def forecast_results(run: Run, batches: Iterable[Batch]) -> np.ndarray:
    """The returns in [-1, 1] that the value head expects, for the side to move; (rows,) float32."""
    found = []
    for batch in batches:
        with torch.no_grad():
            value: Any = run.forward(heads.to_tensors(batch, run.device)[0]).value
        found.append(expected_result(value).cpu().numpy())
    return np.concatenate(found)


def learn(
    run: Run, config: Config, games: Games, encoder: Encoder, places: np.ndarray, gained: np.ndarray, at_once: int
) -> None:
    """Make one step from the moves at flat indices ``places`` with advantages ``gained`` (all moves,). The loss is
    summed over the moves of a game, and averaged over games. ``at_once`` rows are in memory."""
    sensible, sums = all_sensible(games), torch.zeros(4, device=run.device)
    run.zero_grad()
    for number, batch in enumerate(in_order(games, encoder, places, at_once, config.num_workers)):
        inputs, targets = heads.to_tensors(batch, run.device)
        some = places[number * at_once : (number + 1) * at_once]
        could, gain = (heads.to_device(rows[some], run.device) for rows in (sensible, gained))
        outputs = run.forward(inputs)
        assert outputs.policy is not None  # ``start_of`` requires it
        usual = heads.loss(outputs, targets)
        others = usual.total(config) - usual.policy
        of_policy, entropy = policy_loss(outputs.policy, targets.moves, could, gain)
        total = of_policy - config.entropy_weight * entropy + others
        (total * (len(batch) / len(games))).backward()
        sums += torch.stack([total, of_policy, entropy, others]).detach() * (len(batch) / len(places))
    run.update(len(places), dict(zip(("loss", "policy_loss", "entropy", "others_loss"), sums, strict=True)))
    run.require_finite()


def seats(numbers: np.ndarray, plies: np.ndarray) -> np.ndarray:
    """The nets to move; see ``selfplay.Seats``. The learner has Black in games with even numbers."""
    return np.where((numbers + plies) % 2 == 0, LEARNER, OPPONENT)


def play(
    config: Config, rules: Rules, iteration: int, nets: Sequence[TorchEvaluator], parallel: Parallelism
) -> list[PlayedGame]:
    """Play the games of an iteration, pairs with one opening; ``nets`` are the learner and its opponent."""
    seed = int(draw_seeds(1, config.seed, 2, iteration)[0])
    openings = draw_openings(rules, config.games // 2, config.plies, seed)
    seeds = enumerate(draw_seeds(config.games, seed).tolist())
    games = (NewGame(number, one, rules.komi, openings[number // 2]) for number, one in seeds)
    return sorted(PolicyGames(rules, nets, seats, parallel).play(games), key=lambda game: game.number)


def learner_moves(games: Games, given: np.ndarray) -> np.ndarray:
    """Flat indices of the learner's moves after openings of ``given`` (games,) moves."""
    numbers = np.repeat(np.arange(len(games)), games.lengths)
    return np.flatnonzero((seats(numbers, games.plies) == LEARNER) & (games.plies >= given[numbers]))


def pool_of(iteration: int, every: int, size: int = POOL_SIZE) -> list[int]:
    """The pool before an iteration, counted from 0: the first net, numbered 0, and the latest snapshots."""
    others = range(every, iteration + 1, every)
    return [0, *others[max(0, len(others) - (size - 1)) :]]


def train(
    config: Config, results: Path, registry: Registry, on_progress: Callable[[SelfPlayProgress], None] = lambda _: None
) -> Path:
    """Train or resume a run, rated against bots of ``registry``; returns the checkpoint's folder.

    Writes training/NAME/ and checkpoints/NAME/ under ``results``. SIGINT, SIGTERM or SIGHUP stops the run after its
    iteration; it saves its state and, after a short match, a checkpoint. Resumed on a CPU, with a budget in iterations,
    it ends with the same weights as without a stop. Raises ConfigError, or CheckpointError for a net or a state.
    """
    check_run(config)
    bots = [registry.resolve(name).checked(config.size) for name in config.eval_opponents]
    rules, start = Rules.preset("cgos", config.size, config.komi), start_of(config, results)
    draw_openings(rules, LAST * config.eval_games // 2, config.plies, config.seed)  # or they are too few after hours
    encoder, splits = find_encoder(start.manifest.encoder), inherited_rules(config, results)
    games: Games | None = None  # of the latest iteration

    def planes(count: int) -> np.ndarray:
        """Planes (count, P, n, n) of positions of the latest iteration, or of random games before the first."""
        if games is None:
            return np.resize(sample := sample_planes(encoder, config.size), (count, *sample.shape[1:]))
        places = np.random.default_rng(config.seed).choice(len(games.moves), count)
        return encode_positions(games, encoder, places, places % 8).planes

    def origin() -> Origin:
        words = f"{run.step_count * config.games} games against itself; began as {start.identity}"
        return Origin(encoder, rules, words, planes, splits)

    with join_processes(config) as device, ThreadPoolExecutor(1, "matches") as beside:
        torch.backends.cudnn.benchmark = False  # an iteration's last rows have another shape each time

        # Four nets: the learner, its opponent, and the average, which plays matches against the first. Batch norms stay
        # in evaluation mode, so that the net that learns is the net that played.
        network, opponent, first = (load_network(start).eval() for _ in range(3))
        for net in (network, opponent, first):
            net.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # not in hints
        run = Run(network, config, results, dynamic=True)
        run.settings["start"] = start.identity
        learner_plays, opponent_plays, *rated = (
            TorchEvaluator(net, encoder, device, config.bf16) for net in (network, opponent, run.averaged, first)
        )
        matches: Future[Rating] | None = None

        def rate(games: int, bots: Sequence[Player], step: int) -> Rating:
            """Play matches of the averaged net against the first net and ``bots``, always with the same openings."""
            player, first = (PolicyBot(net) for net in rated)
            match = RatingMatch(rules, games, config.plies, (config.seed, 4, step))
            rating = Rating.of(step, start.manifest.name, match.play(player, first, slots=AT_ONCE))
            write_rating(run.folder, rating)
            short = RatingMatch(rules, min(BOT_GAMES, games), config.plies, (config.seed, 5, step))
            for bot in bots:
                if found := short.rate(step, player, bot, lambda: not run.stop_asked):
                    write_rating(run.folder, found)
            return rating

        def begin_matches(games: int, bots: Sequence[Player]) -> Future[Rating]:
            """Begin matches of the current averaged net after the last ones are over. Beside a GPU they are played in a
            thread; on a CPU at once, so that a resumed run lacks none."""
            if matches is not None:
                matches.result()
            rated[0].refresh()
            begun = beside.submit(rate, games, bots, run.step_count)
            if device.type == "cpu":
                begun.result()
            return begun

        at_once, parallel = MICRO_BATCH, Parallelism(min(AT_ONCE, config.games), config.num_workers)
        if device.type != "cpu":
            at_once, parallel = MICRO_BATCH_ON_GPU, parallel._replace(groups=2)
        pool = run.folder / "pool"

        with run:
            run.restore()
            read_ratings(run.folder, 0)  # or a damaged file is refused after hours
            if not run.step_count:
                write_tensors(pool / f"{0:06}.pt", dict(network.state_dict()))
            run.count_minutes()
            while not run.is_over and not run.stop_asked:
                # Play, against a member of the pool
                begun, iteration = time.monotonic(), run.step_count
                members = pool_of(iteration, config.pool_every)
                met = int(np.random.default_rng([config.seed, 1, iteration]).choice(members))
                opponent.load_state_dict(read_tensors(pool / f"{met:06}.pt"))
                learner_plays.refresh()
                opponent_plays.refresh()
                played = play(config, rules, iteration, (learner_plays, opponent_plays), parallel)
                chunk = make_chunk(played, config.size)

                # Learn from the moves of the learner
                games = searched_games(config.size, {**chunk, "sound": np.ones(config.games, np.bool_)}).games
                every = in_order(games, encoder, np.arange(len(games.moves)), at_once, config.num_workers)
                gained = advantages(games, forecast_results(run, every), config.gae_lambda)
                random = np.random.default_rng([config.seed, 3, iteration])
                places = random.permutation(learner_moves(games, np.array([game.given for game in played])))
                learn(run, config, games, encoder, places, gained, at_once)

                # Log and measure, then save: a run that is resumed lacks no figures and no match
                black = np.sign(chunk["margins"]) / 2 + 0.5
                figures = {
                    "games_per_second": config.games / (time.monotonic() - begun),
                    "opponent": met,
                    "share": float(np.where(np.arange(config.games) % 2 == 0, black, 1 - black).mean()),
                    "black": float(black.mean()),
                    "length": float(games.lengths.mean()),
                    **run.figures(last=True),
                }
                run.log(**figures)
                if run.snapshot_is_due():
                    run.save_snapshot(origin())
                if run.step_count % config.pool_every == 0:
                    if not run.stop_asked:
                        matches = begin_matches(config.eval_games, bots)
                    write_tensors(pool / f"{run.step_count:06}.pt", dict(network.state_dict()))
                    run.save()  # before snapshots go that the previous state needs
                    for gone in set(members).difference(pool_of(run.step_count, config.pool_every)):
                        (pool / f"{gone:06}.pt").unlink(missing_ok=True)
                run.save_when_due()
                ratings = read_ratings(run.folder, run.step_count)
                on_progress(SelfPlayProgress(run.step_count, figures, run.minutes_left, ratings))

            run.save()
            if matches is not None:
                matches.result()
            is_done, ratings = run.done >= 1, read_ratings(run.folder, run.step_count)
            is_rated = run.step_count in {rating.iteration for rating in ratings}
            games_of_last = LAST * config.eval_games if is_done else min(SHORT, LAST * config.eval_games)
            last = begin_matches(games_of_last, bots if is_done and not is_rated else ()).result()
            metrics = {"iterations": run.step_count, "share_games": last.games, "share_against_start": last.share}
            metrics |= {"share_against_start_low": last.low, "share_against_start_high": last.high}
            if is_done:
                forget_snapshots(run.saved)
            return run.save_checkpoint(origin(), metrics)
