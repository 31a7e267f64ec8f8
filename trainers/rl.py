"""Reinforcement learning: a policy gets stronger by playing against its earlier selves. No records, no search.

REINFORCE (Williams 1992) as AlphaGo's second stage has it (Silver et al. 2016, "Mastering the game of Go with deep
neural networks and tree search", Methods, "Policy network: reinforcement learning"). An iteration is a batch of games
against one opponent, drawn from a pool of snapshots, and one step: moves after which it went better than was expected
get likelier, the others less likely. What was expected may be the net's own forecast, and how it went that of the next
positions rather than the result alone (Schulman et al. 2016, "High-dimensional continuous control using generalized
advantage estimation"). The other heads go on learning from the same games, or they would no longer understand the tower
that they share. In one process, on one device; games may be played on the cores of a cluster.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialised
from torch import Tensor, nn

from arena import CheckpointError, ConfigError
from arena.files import replacing
from arena.go.coords import SYMMETRIES
from arena.go.game import Rules
from arena.go.planes import find_encoder
from arena.go.sgf import write_sgf
from arena.match.openings import Opening, draw_openings
from arena.players import player
from arena.players.registry import Registry
from bots.nets.catalogue import Net, load_network
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.network import Answer, expected_result
from trainers import data
from trainers.cluster import Cores, Lent, connected
from trainers.data import DRAW, LOSS, WIN
from trainers.export import SNAPSHOTS, describe, export, forget_snapshots
from trainers.loop import Run
from trainers.losses import loss as usual_loss
from trainers.losses import to_tensors
from trainers.optimizers import Plan
from trainers.progress import Iteration, Rating, read_ratings, write_rating
from trainers.selfplay import (
    Course,
    Ended,
    NetPlayer,
    Played,
    Player,
    Speed,
    by_colour,
    draw_seeds,
    gathered,
    groups_on,
    sensible_moves,
)
from trainers.settings import ADJUSTABLE, write_file
from trainers.settings import RL as Config
from trainers.sparring import Sparring, spar
from trainers.supervised import CALIBRATION, PARITY_ROWS, QUICK_ROWS
from trainers.tracking import profiled, tracked
from trainers.workers import Workers, compiled, pick_device, prepare, refuse_torchrun

if TYPE_CHECKING:
    from trainers.cluster import Stage

LEARNER, OPPONENT = 0, 1
"""Who is who among the players of a game."""

SHORT = 32
"""Games of the last match of a run that was stopped."""

AT_ONCE = 32
"""Games that a core of a cluster plays at once."""

GAMES_FILE = "games.sgfs"
POOL = "pool"


# --- What is learned ---


@dataclass(frozen=True, slots=True)
class Moves:
    """Moves that the learner decided, a row each."""

    chosen: Tensor  # (B,) int64
    sensible: Tensor  # (B, n² + 1) bool: what could have been drawn
    advantages: Tensor  # (B,) float32: how much better than expected it went for whoever played it

    def part(self, begin: int, count: int) -> Moves:
        return Moves(*(getattr(self, item.name)[begin : begin + count] for item in fields(self)))

    def to(self, device: torch.device) -> Moves:
        return Moves(*(getattr(self, item.name).to(device) for item in fields(self)))


@dataclass(frozen=True, slots=True)
class Losses:
    """Means over rows, scalars."""

    policy: Tensor
    entropy: Tensor
    """Of the moves that may be drawn, in nats."""
    divergence: Tensor
    """From the first net's policy to this one's (Kullback and Leibler), in nats."""
    others: Tensor
    """The weighted losses of the other heads."""

    def total(self, config: Config) -> Tensor:
        return self.policy - config.entropy_weight * self.entropy + config.kl_weight * self.divergence + self.others


def returns_of(winners: np.ndarray, plies: np.ndarray) -> np.ndarray:
    """1 where the side that plays at a ply (Black at 0) wins its game, -1 where it loses, 0 for a draw; float32."""
    results = data.results_of(winners, plies)
    return np.select([results == WIN, results == DRAW, results == LOSS], [1, 0, -1], 0).astype(np.float32)


def advantages(games: data.Games, forecasts: np.ndarray, trace: float) -> np.ndarray:
    """How much better than forecast it went after each move, for whoever played it; (all moves,) float32.

    A move is credited with the change of the forecast over it, and with ``trace`` ^ k of the change over the k-th move
    after it; the last change is to the result. With ``trace`` 1 that is the result less the forecast. ``forecasts``
    (all moves,) are returns for the side to move.
    """
    sides = np.where(games.plies % 2 == 0, 1, -1)  # credits are Black's
    last = games.starts[1:] - 1
    after = np.append((sides * forecasts)[1:], 0.0)
    after[last] = returns_of(games.winners, np.zeros_like(last))
    credits = after - sides * forecasts
    for ply in range(int(games.lengths.max()) - 2, -1, -1):
        places = games.starts[:-1][games.lengths > ply + 1] + ply
        credits[places] += trace * credits[places + 1]
    return (sides * credits).astype(np.float32)


def log_policy(logits: Tensor, sensible: Tensor, temperature: float) -> Tensor:
    """The logs of the probabilities (B, n² + 1) with which moves are drawn; those that can't be have minus infinity."""
    return (logits / temperature).masked_fill(~sensible, -math.inf).log_softmax(1)


def loss(logits: Tensor, moves: Moves, first: Tensor, temperature: float) -> Losses:
    """The policy's losses, whose gradient is that of REINFORCE; ``first`` (B, n² + 1) are the first net's logits."""
    logs = log_policy(logits, moves.sensible, temperature)
    played = logs.gather(1, moves.chosen[:, None])[:, 0]
    shares = logs.exp()
    logs = logs.masked_fill(~moves.sensible, 0.0)  # 0 log 0 is 0
    theirs = log_policy(first, moves.sensible, temperature).masked_fill(~moves.sensible, 0.0)
    return Losses(
        policy=-(moves.advantages * played).mean(),
        entropy=-(shares * logs).sum(1).mean(),
        divergence=(shares * (logs - theirs)).sum(1).mean(),
        others=logits.new_zeros(()),
    )


class Learner(nn.Module):
    """The net that learns, and what else a run has to remember."""

    positions: Tensor  # () int64: moves learned from

    def __init__(self, network: Net):
        super().__init__()
        self.network = network
        self.register_buffer("positions", torch.zeros((), dtype=torch.int64))

    def forward(self, planes: Tensor) -> Answer:
        answer: Answer = self.network(planes)
        return answer


# --- The run ---


def train(
    config: Config,
    results: Path,
    registry: Registry,
    on_progress: Callable[[Iteration], None] = lambda _: None,
    lent: Lent | None = None,
) -> Path:
    """Train, or go on where a run of this name stopped, and return the checkpoint's folder. The bot that it is rated
    against is one of ``registry``. Games are played here, or on the cores that are ``lent``: the same ones, where nets
    play on a CPU here, too.

    Files go under ``results``: training/NAME/ and checkpoints/NAME/. Stopped by SIGINT, SIGTERM or SIGHUP it ends its
    iteration, saves its state and a checkpoint after a short last match, and returns as always. On a CPU, with a
    budget in iterations, a run that was stopped ends with the same weights bit for bit as one that wasn't. Raises
    ConfigError for settings that can't be, and CheckpointError for a net that can't learn so or a state that doesn't
    fit.
    """
    refuse_torchrun("rl")
    check(config, results)
    bot = registry.resolve(config.eval_opponent).checked(config.size) if config.eval_opponent else None
    with connected(lent, [], rules_of(config)) as cores:
        return _Training(config, results, bot, on_progress, cores).run()


def check(config: Config, results: Path) -> None:
    """Raise ConfigError or CheckpointError for settings that can't be."""
    if config.max_iterations is None and config.max_minutes is None:
        raise ConfigError("a training run needs an end: give max_iterations or max_minutes")
    if not config.name or Path(config.name).name != config.name or config.name.startswith("."):
        raise ConfigError(f"'{config.name}' can't name a checkpoint; a folder gets that name")
    for name, count in (
        ("games", config.games),
        ("eval_games", config.eval_games),
        ("eval_opponent_games", config.eval_opponent_games),
        ("final_eval_games", config.final_eval_games),
    ):
        if count % 2:
            raise ConfigError(f"{name} = {count} can't be played in pairs, with both colours; give an even number")
    if config.eval_temperature == 0 and config.plies == 0:
        raise ConfigError("eval_temperature = 0 without openings plays one game over and over; give plies")
    pick_device(config.device, Workers())
    checkpoint = Checkpoint.open(find(config.start, results))
    if checkpoint.folder.resolve() == (results / "checkpoints" / config.name).resolve():
        raise ConfigError(f"{config.name} can't begin with itself, which it would replace; give it another name")
    checkpoint.require("policy", "value")
    checkpoint.require_size(config.size)
    most = max(config.games, config.eval_games, config.eval_opponent_games, config.final_eval_games)
    draw_openings(rules_of(config), most // 2, config.plies, config.seed)


def rules_of(config: Config) -> Rules:
    return Rules.preset("cgos", config.size, config.komi)


class Pool:
    """Snapshots of the learner in a folder: the first net, which is 0, and the latest others, by iteration."""

    def __init__(self, folder: Path, every: int, size: int):
        self._folder, self._every, self._size = folder, every, size
        self._loaded: dict[int, Mapping[str, Tensor]] = {}

    def members(self, iteration: int) -> list[int]:
        """Who is in it before an iteration, which count from 0."""
        others = range(self._every, iteration + 1, self._every)
        return [0, *others[max(0, len(others) - (self._size - 1)) :]]

    def joins(self, iteration: int) -> bool:
        """Whether the learner of that iteration joins."""
        return iteration % self._every == 0

    def draw(self, iteration: int, seed: int) -> int:
        """Whom the learner meets in an iteration."""
        return int(np.random.default_rng([seed, 1, iteration]).choice(self.members(iteration)))

    def add(self, iteration: int, network: nn.Module) -> None:
        """Write a snapshot, aside and then renamed."""
        state = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in network.state_dict().items()}
        with replacing(self._path(iteration), error=CheckpointError) as aside:
            aside.write_bytes(serialised(state))
        self._loaded[iteration] = state

    def load(self, iteration: int, network: nn.Module) -> None:
        """Give ``network`` a member's weights. Raises CheckpointError when they can't be read."""
        if iteration not in self._loaded:
            path = self._path(iteration)
            try:
                self._loaded[iteration] = load_file(path)
            except (OSError, SafetensorError) as error:
                raise CheckpointError(f"{path}: can't be read ({error}); start again with --new") from error
        network.load_state_dict(self._loaded[iteration])

    def keep(self, iteration: int) -> None:
        """Forget who isn't in it any more; only once the state is saved that won't ask for them."""
        members = self.members(iteration)
        self._loaded = {member: state for member, state in self._loaded.items() if member in members}
        for path in self._folder.glob("*.safetensors"):
            if int(path.stem) not in members and int(path.stem) < iteration:
                path.unlink()

    def _path(self, iteration: int) -> Path:
        return self._folder / f"{iteration:06}.safetensors"


@dataclass(frozen=True, slots=True)
class Match:
    """Games of the learner, who is the first of the ``nets``, with an opponent. By its number each is the same wherever
    it is played on a CPU; the learner has Black in those with even numbers."""

    nets: tuple[Net, Net]
    encoder: str
    rules: Rules
    temperature: float
    seeds: np.ndarray  # (games,) uint64
    openings: Sequence[Opening]

    def course(self, numbers: np.ndarray, players: Sequence[Player], threads: int = 1, groups: int = 1) -> Course:
        """Some of the games."""
        is_black = numbers % 2 == 0
        seats = by_colour(np.where(is_black, LEARNER, OPPONENT), np.where(is_black, OPPONENT, LEARNER))
        openings = [self.openings[number] for number in numbers.tolist()]
        return Course(players, seats, self.rules, self.seeds[numbers], openings, threads=threads, groups=groups)

    def played_on(self, cores: Cores) -> Played:
        """All games, on the cores of a cluster."""
        first, second = (deepcopy(net).cpu() for net in self.nets)
        sent, started = replace(self, nets=(first, second)), time.perf_counter()
        ended = list(cores.play(play_there, deque(range(len(self.seeds))), AT_ONCE, sent=lambda: sent))
        moves = sum(len(game.moves) - game.given for game in ended)
        speed = Speed(moves, 0, 0, time.perf_counter() - started, 0.0, 0.0)  # no node tells of its nets
        return gathered(self.rules, ended, self.seeds, speed)


def play_there(numbers: Sequence[int], stage: Stage) -> Iterator[tuple[int, Ended]]:
    """Play some games of the match that was sent to a node of a cluster."""
    torch.set_num_threads(1)
    match: Match = stage.sent
    encoder, device = find_encoder(match.encoder), torch.device("cpu")
    players = [NetPlayer(net, encoder, device, match.temperature) for net in match.nets]
    for game in match.course(np.array(numbers), players).play():
        number = numbers[game.number]
        yield number, game._replace(number=number)


class _Training:
    """What one call of ``train`` works with."""

    def __init__(
        self,
        config: Config,
        results: Path,
        bot: player.Player | None,
        on_progress: Callable[[Iteration], None],
        cores: Cores | None,
    ):
        self.config, self.on_progress, self.cores = config, on_progress, cores
        self.rules = rules_of(config)
        self.device = prepare(config, Workers())
        torch.backends.cudnn.benchmark = False  # an iteration's last rows have another shape each time
        self.start = Checkpoint.open(find(config.start, results))
        self.encoder = find_encoder(self.start.manifest.encoder)
        self.folder = results / "training" / config.name
        self.saved = results / "checkpoints" / config.name
        self.learner = Learner(self._net()).to(self.device)
        self.answering = compiled(self.learner, config, self.device, dynamic=True)
        self.opponent, self.first, self.averaged = self._net(), self._net(), self._net()
        self.pool = Pool(self.folder / POOL, config.pool_every, config.pool_size)
        settings = {key: value for key, value in asdict(config).items() if key not in ADJUSTABLE}
        settings |= {"start": self.start.identity}
        plan = Plan.of(config, max_steps=config.max_iterations)
        self.state = Run(self.learner, plan, self.folder, settings)
        self.kept = time.monotonic()
        self.players: dict[Net, NetPlayer] = {}
        self.ratings: list[Rating] = []
        self.bot = bot

    def _net(self) -> Net:
        """The first net. Its batch norms stay in evaluation mode all along, while their weights learn: what learns must
        be what played, and it played with the running means of the records' positions. With the means over a batch of
        dependent positions from few games it would be another policy, whose likelihoods REINFORCE can't use."""
        network = load_network(self.start).eval()
        return network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # not in hints

    def run(self) -> Path:
        state = self.state
        if state.restore():
            self.ratings = [rating for rating in read_ratings(self.folder) if rating.iteration <= state.step_count]
        if self.pool.joins(state.step_count):  # the first net; or a run stopped between saving and this
            self.pool.add(state.step_count, self.learner.network)
        write_file(self.config, self.folder)
        tracking, profiling = tracked(self.config, self.folder, Workers()), profiled(self.config.profile, self.folder)
        with tracking as state.told, profiling as profile_step, state.stopping_on_signals():
            if not state.is_over:
                self._measure()  # it may have been stopped between saving and this
            while not state.is_over and not state.stop_asked:
                self._iterate()
                profile_step()
            state.save()
            return self._finish()

    def _iterate(self) -> None:
        config, state = self.config, self.state
        iteration, begun = state.step_count, time.monotonic()
        is_black = np.arange(config.games) % 2 == 0
        self.pool.load(met := self.pool.draw(iteration, config.seed), self.opponent)
        nets = (self.learner.network, self.opponent)
        seed = int(draw_seeds(1, config.seed, 2, iteration)[0])
        played = self._play(nets, config.games, config.temperature, seed, draw_seeds(config.games, seed))
        figures = self._learn(played, iteration)
        figures = {
            "games_per_second": config.games / (time.monotonic() - begun),
            "positions_per_second": played.speed.per_second,
            **({} if self.cores else {"net_share": played.speed.net_share, "fill": played.speed.fill}),
            "opponent": met,
            "share": float(played.points(is_black).mean()),
            "black": float(played.points(np.ones_like(is_black)).mean()),
            "length": float(played.games.lengths.mean()),
            **figures,
        }
        state.log(**figures)
        if config.snapshot_minutes and time.monotonic() - self.kept > 60 * config.snapshot_minutes:
            self._save(played, {}, state.seconds / 60, f"-step{state.step_count}")
            forget_snapshots(self.saved, SNAPSHOTS)
            self.kept = time.monotonic()
        if self.pool.joins(state.step_count):
            self.pool.add(state.step_count, self.learner.network)
            state.save()
            self.pool.keep(state.step_count)
        state.save_when_due()
        self._measure()
        self.on_progress(
            Iteration(
                iteration=state.step_count,
                games_per_second=figures["games_per_second"],
                positions_per_second=figures["positions_per_second"],
                share=figures["share"],
                entropy=figures["entropy"],
                divergence=figures["divergence"],
                length=figures["length"],
                black=figures["black"],
                minutes_left=state.progress().minutes_left,
                ratings=tuple(self.ratings),
            )
        )

    def _measure(self) -> None:
        """Play the matches that are due after an iteration, unless the run was stopped after them."""
        iteration = self.state.step_count
        known = any(rating.iteration == iteration for rating in self.ratings)
        if iteration and iteration % self.config.eval_every == 0 and not (known or self.state.stop_asked):
            self._rate(self.config.eval_games)
            self._spar()

    def _play(self, nets: tuple[Net, Net], games: int, temperature: float, seed: int, seeds: np.ndarray) -> Played:
        """Games of the learner, who is ``nets[0]``, with an opponent; two after another share an opening, and the
        learner has Black in the first."""
        openings = draw_openings(self.rules, games // 2, self.config.plies, seed)
        twice = [opening for opening in openings for _ in range(2)]
        match = Match(nets, self.encoder.name, self.rules, temperature, seeds, twice)
        if self.cores is not None:
            return match.played_on(self.cores)
        players = [self._player(net, temperature) for net in nets]
        course = match.course(np.arange(games), players, self.config.num_workers, groups_on(self.device))
        ended = list(course.play())
        return gathered(self.rules, ended, seeds, course.speed)

    def _player(self, net: Net, temperature: float) -> NetPlayer:
        """A player with the weights that the net has now; always the same one, so that a GPU captures it once."""
        if net not in self.players:
            self.players[net] = NetPlayer(net, self.encoder, self.device, bf16=self.config.bf16)
        player = self.players[net]
        player.temperature = temperature
        player.refresh()
        return player

    def _learn(self, played: Played, iteration: int) -> dict[str, float]:
        """One step from the moves that the learner decided: the sum over the moves of a game, the mean over games."""
        config, state, games = self.config, self.state, played.games
        gained = self._advantages(played)
        places = np.flatnonzero(played.deciders == LEARNER)
        places = np.random.default_rng([config.seed, 3, iteration]).permutation(places)
        moves = moves_of(played, places, gained[places])
        names = ("loss", "policy_loss", "entropy", "others_loss", "divergence")
        sums = torch.zeros(len(names), device=self.device)
        compared = 0
        state.forget()
        for begin in range(0, len(places), config.micro_batch_size):
            some = places[begin : begin + config.micro_batch_size]
            batch = data.encode_positions(games, self.encoder, some, np.zeros_like(some), config.num_workers)
            compare = begin == 0 or config.kl_weight > 0  # a batch is enough to tell how far away the first is
            compared += compare * len(some)
            losses = self._losses(batch, moves.part(begin, config.micro_batch_size).to(self.device), compare)
            total = losses.total(config)
            (total * (len(some) / len(games))).backward()
            means = torch.stack([total, losses.policy, losses.entropy, losses.others, losses.divergence])
            sums += means.detach() * (len(some) / len(places))
        sums[-1] *= len(places) / compared
        self.learner.positions += len(places)
        state.update(len(places), dict(zip(names, sums, strict=True)))
        return state.figures(1)

    def _advantages(self, played: Played) -> np.ndarray:
        """Of all moves, whoever decided them; (all moves,) float32."""
        config, games = self.config, played.games
        places = np.arange(len(games.moves))
        forecasts = np.empty(len(places), np.float32)
        for begin in range(0, len(places), config.micro_batch_size):
            some = places[begin : begin + config.micro_batch_size]
            batch = data.encode_positions(games, self.encoder, some, np.zeros_like(some), config.num_workers)
            planes, _ = to_tensors(batch, self.device)
            with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16, enabled=config.bf16):
                forecasts[some] = expected_result(self.learner(planes).to(torch.float32).value).cpu().numpy()
        return advantages(games, forecasts, config.gae_lambda)

    def _losses(self, batch: data.Batch, moves: Moves, compare: bool) -> Losses:
        """Without ``compare`` the divergence is 0, which spares asking the first net."""
        config = self.config
        planes, target = to_tensors(batch, self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=config.bf16):
            answer = self.answering(planes)
            with torch.no_grad():
                first = self.first(planes).to(torch.float32).policy if compare else answer.policy.to(torch.float32)
        answer = answer.to(torch.float32)
        losses = loss(answer.policy, moves, first, config.temperature)
        heads = usual_loss(answer, target)
        weighed = (
            config.value_weight * heads.value
            + config.ownership_weight * heads.ownership
            + config.score_weight * heads.score
        )
        return replace(losses, others=weighed)

    def _rate(self, count: int) -> Played:
        """A match of the averaged net against the first one; always with the same openings."""
        config, iteration = self.config, self.state.step_count
        nets = (self._average(), self.first)
        seeds = draw_seeds(count, config.seed, 4, iteration)
        played = self._play(nets, count, config.eval_temperature, config.seed, seeds)
        is_black = np.arange(count) % 2 == 0
        self._note(Rating.of(iteration, self.start.manifest.name, played.points(is_black)))
        if config.save_games:
            own, other = f"{config.name}@{iteration}", self.start.manifest.name
            names = [(own, other) if black else (other, own) for black in is_black]
            with (self.folder / GAMES_FILE).open("a", encoding="utf-8") as file:
                file.writelines(f"{write_sgf(record)}\n" for record in played.records(names))
        return played

    def _average(self) -> Net:
        """The averaged net, which is saved, as it is now."""
        prefix = "network."
        weights = {key.removeprefix(prefix): value for key, value in self.state.averaged.items() if prefix in key}
        self.averaged.load_state_dict(weights)
        return self.averaged

    def _spar(self) -> None:
        """A match of the averaged net against a bot, always with the same openings; unless the run is stopped in it."""
        if self.bot is None:
            return
        config, count, iteration, bot = self.config, self.config.eval_opponent_games, self.state.step_count, self.bot
        player = self._player(self._average(), config.eval_temperature)
        openings = draw_openings(self.rules, count // 2, config.plies, config.seed)
        twice = [opening for opening in openings for _ in range(2)]
        seeds = (draw_seeds(count, config.seed, 5, iteration) >> np.uint64(1)).tolist()
        opponent = bot.build()
        try:
            points = spar(
                Sparring(player),
                opponent,
                bot.limits,
                self.rules,
                seeds,
                twice,
                bot.bot_kind.boards,
                lambda: not self.state.stop_asked,
            )
        finally:
            opponent.close()
        if points is not None:
            self._note(Rating.of(iteration, bot.name, points))

    def _note(self, rating: Rating) -> None:
        """Keep a rating; a match that was played again counts as it went last."""
        match = (rating.iteration, rating.against)
        self.ratings = [*(old for old in self.ratings if (old.iteration, old.against) != match), rating]
        write_rating(self.folder, rating)

    def _finish(self) -> Path:
        """The last matches, and the checkpoint."""
        config, state = self.config, self.state
        minutes = state.seconds / 60
        if state.done >= 1 and not any(one.iteration == state.step_count for one in self.ratings):
            self._spar()
        played = self._rate(config.final_eval_games if state.done >= 1 else min(SHORT, config.final_eval_games))
        rating = self.ratings[-1]
        metrics = {
            "iterations": state.step_count,
            "share_against_start": round(rating.share, 5),
            "share_against_start_low": round(rating.low, 5),
            "share_against_start_high": round(rating.high, 5),
            "share_games": rating.games,
        }
        if state.done >= 1:
            forget_snapshots(self.saved)
        return self._save(played, metrics, minutes)

    def _save(self, played: Played, metrics: Mapping[str, float], minutes: float, step: str = "") -> Path:
        """Export the averaged net, compared on positions of some games; quickly, as a snapshot, with a ``step``."""
        config, state = self.config, self.state
        network, name = deepcopy(self._average()).cpu(), f"{config.name}{step}"
        places = np.random.default_rng(config.seed).permutation(len(played.games.moves))
        turns = places % SYMMETRIES
        rows = data.encode_positions(played.games, self.encoder, places[:PARITY_ROWS], turns[:PARITY_ROWS]).planes
        manifest = describe(
            network,
            name,
            self.encoder,
            self.rules,
            trainer="rl",
            data=f"{state.step_count * config.games} games against itself; began as {self.start.identity}",
            rows=int(self.learner.positions),
            minutes=round(minutes, 1),
            settings={**asdict(config), "start": Path(config.start).name},
            metrics=metrics,
            parent=self.start.identity,
            splits=self.start.manifest.splits,
        )
        planes = (None, rows[:QUICK_ROWS]) if step else (rows[:CALIBRATION], rows)
        return export(network, self.saved.with_name(name), manifest, *planes).folder


def moves_of(played: Played, places: np.ndarray, gained: np.ndarray) -> Moves:
    """The moves at flat indices ``places`` of some games; ``gained`` are their advantages."""
    return Moves(
        chosen=torch.from_numpy(played.games.moves[places].astype(np.int64)),
        sensible=torch.from_numpy(sensible_moves(played.games, played.rules)[places]),
        advantages=torch.from_numpy(gained),
    )
