"""Reinforcement learning: a policy gets stronger by playing against its earlier selves. No records, no search.

REINFORCE (Williams 1992) as in AlphaGo's second stage (Silver et al. 2016, "Mastering the game of Go with deep neural
networks and tree search", Methods). An iteration is a batch of games against a snapshot from a pool, and one step:
moves after which it went better than the net's own value expected get likelier, the others less likely (Schulman et al.
2016, "High-dimensional continuous control using generalized advantage estimation"). The other heads go on learning, or
they would no longer understand the tower that they share.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from arena.go.game import Rules
from arena.go.planes import Encoder, find_encoder
from arena.match.openings import Opening, draw_openings
from arena.players.player import Player
from arena.players.registry import Registry
from bots.nets.catalogue import Net, load_network
from bots.nets.inference import sample_planes
from bots.nets.network import expected_result
from trainers import losses as heads
from trainers.cluster import Cores, Stage
from trainers.first_net import inherited_rules, start_of
from trainers.live_inference import TorchEvaluator
from trainers.ratings import PolicyBot, Rating, RatingMatch, SelfPlayProgress, read_ratings, write_rating
from trainers.records import Games, encode_positions, in_order, results_of
from trainers.replay import make_chunk, searched_games
from trainers.selfplay import NewGame, PlayedGame, PolicyGames, Shape, draw_seeds
from trainers.settings import RL as Config
from trainers.settings import Lent
from trainers.slots import all_sensible
from trainers.train import Origin, Run, check_run, forget_snapshots, join_processes, read_tensors, write_tensors

LEARNER, OPPONENT = 0, 1  # the nets of a game
SHORT = 32  # games of the last match of a run that was stopped
POOL_SIZE = 20  # opponents in the pool: the first net and the latest others
BOT_GAMES, LAST = 40, 4  # most games of a match against a bot, and how many times as many as others the last match has
AT_ONCE, AT_ONCE_THERE = 1024, 32  # games under way at once, and on a core of a cluster
MICRO_BATCH, MICRO_BATCH_ON_GPU = 512, 8192  # rows in memory at once; all rows of an iteration make one step


# --- What is learned ---


def advantages(games: Games, forecasts: np.ndarray, trace: float) -> np.ndarray:
    """How much better than forecast it went after each move, for whoever played it; (all moves,) float32.

    A move is credited with the change of the forecast over it, and with ``trace`` ^ k of that over the k-th move after
    it; the last change is to the result. ``forecasts`` (all moves,) are returns for the side to move.
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
    """The loss whose gradient is that of REINFORCE, and the entropy of the moves in nats: means over rows. ``chosen``
    (B,) are moves of those that are ``sensible`` (B, n² + 1), and ``gained`` (B,) their advantages."""
    logs = logits.masked_fill(~sensible, -math.inf).log_softmax(1)
    played = logs.gather(1, chosen[:, None])[:, 0]
    entropy = -(logs.exp() * logs.masked_fill(~sensible, 0.0)).sum(1).mean()  # 0 log 0 is 0
    return -(gained * played).mean(), entropy


# --- The games ---


@dataclass(frozen=True, slots=True)
class Play:
    """Games of the learner, who is the first of the ``nets``, with an opponent. By its number each is the same wherever
    it is played on a CPU; two after another share an opening, and the learner has Black in the first, with even number.
    """

    nets: tuple[Net, Net]
    encoder: Encoder
    rules: Rules
    seeds: np.ndarray  # (games,) uint64
    openings: Sequence[Opening]  # one for two games

    def seats(self, numbers: np.ndarray, plies: np.ndarray) -> np.ndarray:
        return np.where((numbers + plies) % 2 == 0, LEARNER, OPPONENT)

    def on(self, nets: Sequence[TorchEvaluator], shape: Shape, numbers: Iterable[int]) -> Iterator[PlayedGame]:
        komi, seeds, openings = self.rules.komi, self.seeds.tolist(), self.openings
        new_games = (NewGame(number, seeds[number], komi, openings[number // 2]) for number in numbers)
        return PolicyGames(self.rules, nets, self.seats, shape).play(new_games)


def play_there(numbers: Sequence[int], stage: Stage) -> Iterator[PlayedGame]:
    """Play some of the games that were sent to a node of a cluster."""
    torch.set_num_threads(1)
    play: Play = stage.sent
    nets = [TorchEvaluator(net, play.encoder, torch.device("cpu")) for net in play.nets]
    yield from play.on(nets, Shape(len(numbers)), numbers)


def pool_of(iteration: int, every: int, size: int = POOL_SIZE) -> list[int]:
    """The pool before an iteration, which count from 0: the first net, which is 0, and the latest snapshots."""
    others = range(every, iteration + 1, every)
    return [0, *others[max(0, len(others) - (size - 1)) :]]


# --- The run ---


def train(
    config: Config,
    results: Path,
    registry: Registry,
    on_progress: Callable[[SelfPlayProgress], None] = lambda _: None,
    lent: Lent | None = None,
) -> Path:
    """Train, or go on where a run of this name stopped, and return the checkpoint's folder. The bots that it is rated
    against are of ``registry``. Games are played here, or on the cores that are ``lent``: the same ones, on CPUs.

    Files go under ``results``: training/NAME/ and checkpoints/NAME/. Stopped by SIGINT, SIGTERM or SIGHUP it ends its
    iteration, saves its state and a checkpoint after a short last match, and returns as always. On a CPU, with a
    budget in iterations, it then ends with the same weights bit for bit as a run that wasn't stopped. Raises
    ConfigError for settings, and CheckpointError for a net or a state, that can't be.
    """
    check_run(config)
    bots = [registry.resolve(name).checked(config.size) for name in config.eval_opponents]
    rules, start = Rules.preset("cgos", config.size, config.komi), start_of(config, results)
    draw_openings(rules, LAST * config.eval_games // 2, config.plies, config.seed)  # or they are too few after hours
    encoder, splits = find_encoder(start.manifest.encoder), inherited_rules(config, results)
    with join_processes(config) as device, Cores(lent, rules) if lent else nullcontext() as cores:
        torch.backends.cudnn.benchmark = False  # an iteration's last rows have another shape each time

        def first_net() -> Net:
            """Batch norms stay in evaluation mode, while their weights learn: what learns must be what played. With the
            means over dependent positions of few games it would be another policy, which REINFORCE can't use."""
            return load_network(start).eval().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # not in hints

        network, opponent = first_net(), first_net()
        run = Run(network, config, results, dynamic=True)
        run.settings["start"] = start.identity
        learner_plays, opponent_plays, averaged_plays, first_plays = (
            TorchEvaluator(net, encoder, device, config.bf16) for net in (network, opponent, run.averaged, first_net())
        )
        games: Games | None = None  # of the latest iteration
        micro_batch, shape = MICRO_BATCH, Shape(min(AT_ONCE, config.games), config.num_workers)
        if device.type != "cpu":
            micro_batch, shape = MICRO_BATCH_ON_GPU, shape._replace(groups=2)

        def snapshot(iteration: int) -> Path:
            return run.folder / "pool" / f"{iteration:06}.pt"

        def add_to_pool() -> None:
            write_tensors(snapshot(run.step_count), dict(network.state_dict()))

        def planes(count: int) -> np.ndarray:
            if games is None:
                return np.resize(sample := sample_planes(encoder, config.size), (count, *sample.shape[1:]))
            places = np.random.default_rng(config.seed).choice(len(games.moves), count)
            return encode_positions(games, encoder, places, places % 8).planes

        def origin() -> Origin:
            words = f"{run.step_count * config.games} games against itself; began as {start.identity}"
            return Origin(encoder, rules, words, planes, splits)

        def rate(count: int, others: Sequence[Player], step: int) -> Rating:
            """A match of the averaged net, as it was when its evaluator was refreshed, against the first one and,
            unless the run is stopped, shorter ones against others, always with the same openings."""
            player, other = (PolicyBot(net) for net in (averaged_plays, first_plays))
            match = RatingMatch(rules, count, config.plies, (config.seed, 4, step))
            rating = Rating.of(step, start.manifest.name, match.play(player, other, slots=AT_ONCE))
            write_rating(run.folder, rating)
            short = RatingMatch(rules, min(BOT_GAMES, count), config.plies, (config.seed, 5, step))
            for bot in others:
                if found := short.rate(step, player, bot, lambda: not run.stop_asked):
                    write_rating(run.folder, found)
            return rating

        def begin_rating(count: int, others: Sequence[Player]) -> Future[Rating]:
            """Begin these matches, once those before are over. A GPU goes on learning beside them, as games on the
            arena's game loop leave it idle; on a processor they are played now, and a resumed run lacks none."""
            if matches:
                matches.pop().result()
            averaged_plays.refresh()
            matches.append(beside.submit(rate, count, others, run.step_count))
            if device.type == "cpu":
                matches[0].result()
            return matches[0]

        matches = list[Future[Rating]]()  # those that are played, or the last
        with run, ThreadPoolExecutor(1, "matches") as beside:
            run.restore()
            read_ratings(run.folder, 0)  # or a damaged file is refused after hours
            if not run.step_count:
                add_to_pool()
            run.count_minutes()
            while not run.is_over and not run.stop_asked:
                # Play, against a member of the pool
                begun, iteration = time.monotonic(), run.step_count
                pool = pool_of(iteration, config.pool_every)
                met = int(np.random.default_rng([config.seed, 1, iteration]).choice(pool))
                opponent.load_state_dict(read_tensors(snapshot(met)))
                seed = int(draw_seeds(1, config.seed, 2, iteration)[0])
                openings = draw_openings(rules, config.games // 2, config.plies, seed)
                seeds, numbers = draw_seeds(config.games, seed), deque(range(config.games))
                play = Play((network, opponent), encoder, rules, seeds, openings)
                if cores is None:
                    learner_plays.refresh()
                    opponent_plays.refresh()
                    new = play.on((learner_plays, opponent_plays), shape, numbers)
                else:
                    there = replace(play, nets=(deepcopy(network).cpu(), deepcopy(opponent).cpu()))
                    new = cores.play(play_there, numbers, AT_ONCE_THERE, sent=partial(lambda sent: sent, there))
                played = sorted(new, key=lambda game: game.number)

                # What is learned from it: the moves of the learner, with their advantages
                chunk = make_chunk(played, config.size)
                games = searched_games(config.size, {**chunk, "sound": np.ones(len(played), np.bool_)}).games
                batches = partial(in_order, games, encoder, size=micro_batch, threads=config.num_workers)
                forecasts = []
                for batch in batches(np.arange(len(games.moves))):
                    with torch.no_grad():
                        value: Any = run.forward(heads.to_tensors(batch, device)[0]).value
                    forecasts.append(expected_result(value).cpu().numpy())
                gained = advantages(games, np.concatenate(forecasts), config.gae_lambda)
                own = play.seats(np.repeat([game.number for game in played], games.lengths), games.plies) == LEARNER
                given = np.repeat([len(openings[game.number // 2]) for game in played], games.lengths)
                places = np.flatnonzero(own & (games.plies >= given))
                places = np.random.default_rng([config.seed, 3, iteration]).permutation(places)
                sensible = all_sensible(games)

                # One step: the sum over the moves of a game, the mean over games
                sums = torch.zeros(4, device=device)
                run.zero_grad()
                for at, batch in zip(range(0, len(places), micro_batch), batches(places), strict=True):
                    inputs, targets = heads.to_tensors(batch, device)
                    some = places[at : at + micro_batch]
                    could, gain = (heads.to_device(rows[some], device) for rows in (sensible, gained))
                    outputs = run.forward(inputs)
                    assert outputs.policy is not None  # what ``check`` makes sure of
                    usual = heads.loss(outputs, targets)
                    others = usual.total(config) - usual.policy
                    of_policy, entropy = policy_loss(outputs.policy, targets.moves, could, gain)
                    total = of_policy - config.entropy_weight * entropy + others
                    (total * (len(batch) / len(games))).backward()
                    sums += torch.stack([total, of_policy, entropy, others]).detach() * (len(batch) / len(places))
                run.update(len(places), dict(zip(("loss", "policy_loss", "entropy", "others_loss"), sums, strict=True)))
                run.undo_if_not_finite()

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
                        begin_rating(config.eval_games, bots)
                    add_to_pool()
                    run.save()  # which won't load who isn't in the pool any more
                    for gone in set(pool).difference(pool_of(run.step_count, config.pool_every)):
                        snapshot(gone).unlink(missing_ok=True)
                run.save_when_due()
                ratings = read_ratings(run.folder, run.step_count)
                on_progress(SelfPlayProgress(run.step_count, figures, run.minutes_left, ratings))
            run.undo_if_not_finite(at_end=True)
            run.save()
            if matches:
                matches[0].result()
            is_done, ratings = run.done >= 1, read_ratings(run.folder, run.step_count)
            is_rated = run.step_count in {rating.iteration for rating in ratings}
            count = LAST * config.eval_games if is_done else min(SHORT, LAST * config.eval_games)
            last = begin_rating(count, bots if is_done and not is_rated else ()).result()
            metrics = {"iterations": run.step_count, "share_games": last.games, "share_against_start": last.share}
            metrics |= {"share_against_start_low": last.low, "share_against_start_high": last.high}
            if is_done:
                forget_snapshots(run.saved)
            return run.save_checkpoint(origin(), metrics)
