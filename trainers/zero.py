"""From random weights to a player: a net learns from nothing but the games of its own search. No records.

Each round the averaged net plays against itself, with a Gumbel search at every move (Danihelka et al. 2022, "Policy
improvement by planning with Gumbel"), and then learns from the latest games: the improved policy, the result and the
search's win rate, whose each point was at the end, and the score. What makes that cheap is KataGo's (Wu 2019,
"Accelerating self-play learning in Go"): playout cap randomization, ownership and score, varied komi, a growing window.
In one process, on one device, the players in threads of their own or on the cores of a cluster.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from arena import ConfigError
from arena.go.coords import MAX_SIZE, MIN_SIZE
from arena.go.game import Rules
from arena.match.openings import draw_openings
from bots.alphago import AlphaGo
from bots.alphago import Config as Search
from bots.nets.catalogue import Net
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.inference import sample_planes
from bots.search import puct
from bots.search.tree import params_of
from trainers import data, distill, supervised
from trainers.cluster import Cores, Lent, connected
from trainers.distill import TaughtTarget, to_taught
from trainers.export import SNAPSHOTS, describe, export, forget_snapshots
from trainers.far import FarPlayer, SentNet
from trainers.live import LiveNet
from trainers.loop import Run
from trainers.optimizers import Plan
from trainers.players import Chances, Pace, Played, Player, Players, Playing, Style, Table
from trainers.progress import Look, Rating, Round, read_ratings, write_rating
from trainers.replay import Replay
from trainers.selfplay import draw_seeds
from trainers.settings import ADJUSTABLE, write_file
from trainers.settings import Zero as Config
from trainers.sparring import spar
from trainers.supervised import CALIBRATION, PARITY_ROWS, QUICK_ROWS, Answering, Weighed, answering_with, gradients
from trainers.tracking import profiled, tracked
from trainers.workers import ALONE, Workers, compiled, pick_device, prepare, refuse_torchrun

GAMES = "games"
"""The folder of a run's games, beside its state."""

LEAST = 4
"""Batches of rows that there must be before anything is learned."""

PLIES = 4
"""Random moves at the start of the games against other bots."""


# --- The run ---


def train(
    config: Config,
    results: Path,
    registry: Any,
    on_progress: Callable[[Round], None] = lambda _: None,
    lent: Lent | None = None,
) -> Path:
    """Train, or go on where a run of this name stopped, and return the checkpoint's folder. The bots that it is rated
    against are of ``registry``. Games are played here, or on the cores that are ``lent``.

    Files go under ``results``: training/NAME/, where the games are, too, and checkpoints/NAME/. Stopped by SIGINT,
    SIGTERM or SIGHUP it keeps the games that are over, saves its state and a checkpoint, and returns as always; killed
    it loses the games of one round and what was learned since the state was saved. Raises ConfigError for settings that
    can't be, and CheckpointError for a net that can't learn so or a state that doesn't fit.
    """
    refuse_torchrun("zero")
    check(config, results)
    entries = [registry.resolve(name).checked(config.size) for name in config.eval_opponents]
    with connected(lent, [], Rules.preset("cgos", config.size)) as cores:
        return _Training(config, results, entries, on_progress, cores).run()


def check(config: Config, results: Path) -> None:
    """Raise ConfigError or CheckpointError for settings that can't be."""
    if config.max_minutes is None and config.max_games is None:
        raise ConfigError("a training run needs an end: give max_minutes or max_games")
    if not config.name:
        raise ConfigError("a run needs a name; give --name")
    if config.eval_games % 2:
        raise ConfigError(f"eval_games = {config.eval_games} can't be played in pairs; give an even number")
    if not config.net.startswith("arena-"):
        raise ConfigError(
            f"the net {config.net} gives no policy, value, ownership and score; choose arena-BLOCKSxCHANNELS"
        )
    if config.start:
        start = Checkpoint.open(find(config.start, results))
        if start.folder.resolve() == (results / "checkpoints" / config.name).resolve():
            raise ConfigError(f"{config.name} can't begin with itself, which it would replace; give it another name")
        start.require_net()
        start.require_size(config.size)
        if start.manifest.encoder != supervised.encoder_of(config).name:
            raise ConfigError(
                f"{config.start} has the encoder {start.manifest.encoder}; give --set encoder={start.manifest.encoder}"
            )
    stages_of(config)
    pick_device(config.device, Workers())
    supervised.build(config, results)


def stages_of(config: Config) -> list[tuple[int, float]]:
    """The board sizes of the curriculum in turn, each with the share of the budget at which it ends. A size without a
    share has an equal part of what is left. Raises ConfigError."""
    if not config.sizes:
        return [(config.size, 1.0)]
    try:
        parts = [part.partition(":") for part in config.sizes.split(",")]
        given = [(int(size), float(share) if share else None) for size, _, share in parts]
    except ValueError:
        raise ConfigError(f"sizes = '{config.sizes}' is not a list of sizes, such as 5,7,9 or 5:0.1,7:0.2,9") from None
    if given[-1][0] != config.size:
        raise ConfigError(f"the last size of sizes = '{config.sizes}' must be the board size {config.size} (--size)")
    if len({size for size, _ in given}) < len(given) or not all(MIN_SIZE <= size <= MAX_SIZE for size, _ in given):
        raise ConfigError(f"sizes = '{config.sizes}': give each size once, from {MIN_SIZE} to {MAX_SIZE}")
    left, free = 1 - sum(share or 0.0 for _, share in given), sum(share is None for _, share in given)
    shares = [left / free if share is None else share for _, share in given]
    if min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise ConfigError(f"sizes = '{config.sizes}': the shares must be above 0, with a sum of 1")
    return [(size, float(end)) for (size, _), end in zip(given, np.cumsum(shares), strict=True)]


class _Run(Run):
    """A run whose budget may be in games."""

    games = 0
    most: int | None = None

    @property
    def done(self) -> float:
        return max(super().done, self.games / self.most if self.most else 0.0)


class _Training:
    """What one call of ``train`` works with."""

    def __init__(
        self,
        config: Config,
        results: Path,
        opponents: list[Any],
        on_progress: Callable[[Round], None],
        cores: Cores | None,
    ):
        self.config, self.results, self.opponents, self.on_progress = config, results, opponents, on_progress
        self.cores = cores
        self.device = prepare(config, ALONE)
        self.encoder = supervised.encoder_of(config)
        self.folder, self.saved = results / "training" / config.name, results / "checkpoints" / config.name
        self.network = supervised.build(config, results).to(self.device).train()
        self.averaged = deepcopy(self.network).eval()
        self.answering = answering_with(compiled(self.network, config, self.device), config)
        settings = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(config).items()
            if key not in ADJUSTABLE
        }
        minutes = config.max_minutes if config.max_minutes is not None else np.inf
        self.state = _Run(self.network, Plan.of(config, max_minutes=minutes), self.folder, settings)
        self.stages = stages_of(config)
        self.replays = {
            size: Replay(
                self.folder / (GAMES if size == config.size else f"{GAMES}-{size}x{size}"), size, config.replay_window
            )
            for size, _ in self.stages
        }
        self.size = config.size  # of the boards that are played on now
        self.live: LiveNet | SentNet = LiveNet(self.encoder, self.device, config.bf16)
        self.ratings: list[Rating] = []
        self.has_ended = False
        self.beside = ThreadPoolExecutor(1, "matches")
        self.matches: Future[None] | None = None
        self.kept = time.monotonic()
        self.lock = threading.Lock()
        self.random = np.random.default_rng([config.seed, self._total("games")])

    def _size_due(self) -> int:
        """The size that the curriculum has now."""
        return next((size for size, end in self.stages if self.state.done < end), self.config.size)

    @property
    def replay(self) -> Replay:
        """The games of this size."""
        return self.replays[self.size]

    def _total(self, name: str) -> int:
        """Games, positions or rows of all sizes."""
        return sum(getattr(replay, name) for replay in self.replays.values())

    def run(self) -> Path:
        config, state = self.config, self.state
        state.restore()
        state.most, state.games = config.max_games, self._total("games")
        self.ratings = [rating for rating in read_ratings(self.folder) if rating.iteration <= state.step_count]
        write_file(config, self.folder)
        with ExitStack() as stack:
            state.told = stack.enter_context(tracked(config, self.folder, ALONE))
            profile_step = stack.enter_context(profiled(config.profile, self.folder))
            stack.enter_context(state.stopping_on_signals())
            stack.enter_context(self.beside)
            stack.callback(setattr, self, "has_ended", True)
            while state.done < 1 and not state.stop_asked:
                self._stage(profile_step)
            state.save()
            return self._finish()

    def _stage(self, profile_step: Callable[[], None]) -> None:
        """Play and learn on boards of one size."""
        state = self.state
        self.size = self._size_due()
        most = math.ceil(dict(self.stages)[self.size] * state.most) - state.games if state.most else math.inf
        with Players(self._players(), most) as players:
            while state.done < 1 and not state.stop_asked and self._size_due() == self.size:
                self._round(players)
                profile_step()
        self.replay.add(players.take(0))
        state.games = self._total("games")

    def _players(self) -> Sequence[Playing]:
        """Who plays now, with the averaged weights."""
        config, encoder, slots, table = self.config, self.encoder, self.config.parallel_games, self._table()
        if self.cores is not None:
            self.live = sent = SentNet(self._chances)
            self._refresh()
            return [FarPlayer(self.cores, table, sent, encoder, slots)]
        self.live = live = LiveNet(encoder, self.device, config.bf16)
        self._refresh()
        return [Player(table, self._begin, live, slots) for _ in range(config.game_threads)]

    # --- A round ---

    def _round(self, players: Players) -> None:
        """Wait for games, keep them, learn, let the players have what was learned, and measure it now and then."""
        state, begun, before = self.state, time.monotonic(), players.pace
        played = players.take(self.config.round_rows, lambda: not state.stop_asked)
        replay = self.replay
        replay.add(played)
        state.games = self._total("games")
        if state.stop_asked:
            return
        rows, learning = state.rows, time.monotonic()
        self._learn()
        learned = time.monotonic()
        self._refresh()
        refreshed = time.monotonic()
        pace = players.pace - before
        figures = {
            **_figures(played, pace, refreshed - begun),
            "size": replay.size,
            "games": state.games,
            "positions": self._total("positions"),
            "new_rows": self._total("rows"),
            "age": replay.age,
            "komi": self._komi(),
            "int8": float(self.live.is_int8),
            "refresh_seconds": refreshed - learned,
            "waiting": (learning - begun) / (refreshed - begun),
            "learned_per_second": (state.rows - rows) / (learned - learning),
        }
        state.log(**figures, **state.figures())
        state.save_when_due()
        self._are_rating()
        if state.step_count and time.monotonic() - self.kept > 60 * self.config.snapshot_minutes:
            self._measure()
        self._tell(figures, players.look())

    def _learn(self) -> None:
        """As many steps as the new rows allow, but no more than those of two rounds: players want new weights."""
        config, state, replay = self.config, self.state, self.replay
        if replay.rows < LEAST * config.batch_size:
            return
        most = int(config.replay_ratio * self._total("rows")) - state.rows
        most = min(most, int(2 * config.replay_ratio * config.round_rows))
        for _ in range(most // config.batch_size):
            if state.stop_asked or state.done >= 1:
                return
            batch = replay.batch([config.seed, state.step_count], config.batch_size, self.encoder, config.num_workers)
            parts = [to_taught(part, self.device) for part in data.parted(batch, config.micro_batch_size)]
            state.forget()
            figures = gradients(lambda planes, target: weigh(config, self.answering, planes, target), parts)
            state.update(config.batch_size, figures)

    def _refresh(self) -> None:
        """Let the players have the averaged weights."""
        self.live.take(self._average(), self._some_planes(QUICK_ROWS, 1))

    def _some_planes(self, count: int, key: int) -> np.ndarray:
        """Planes of positions that were played, (count, P, n, n); of random games before that."""
        replay = self.replay
        if replay.rows:
            return replay.batch([self.config.seed, self.state.step_count, key], count, self.encoder).planes
        planes = sample_planes(self.encoder, self.size)
        return np.concatenate([planes] * (count // len(planes)))

    def _average(self) -> Net:
        """The averaged net, which plays and is saved, as it is now."""
        self.averaged.load_state_dict(self.state.averaged)
        return self.averaged

    # --- The games ---

    def _table(self) -> Table:
        config, size = self.config, self.size
        points = size**2
        params = params_of(Search(search="gumbel", rollout_weight=0.0, stop_early=False), puct.PuctParams)._replace(
            gumbel_sample_size=config.gumbel_sample_size,
            gumbel_c_visit=config.gumbel_c_visit,
            gumbel_c_scale=config.gumbel_c_scale,
        )
        first_pass = int(config.first_pass * points)
        style = Style(
            config.full_search_prob,
            config.visits,
            config.cheap_search_visits,
            first_pass,
            config.gumbel_scale,
            config.fork_game_prob,
        )
        return Table(size, 2 * points + 38, style, params)

    def _komi(self) -> float:
        komi = self.config.komi
        return komi if komi is not None and self.size == self.config.size else self.replay.margin

    def _chances(self) -> Chances:
        config = self.config
        return Chances(self._komi(), config.komi_stdev, self.size**2, config.policy_init_prob, config.policy_init_moves)

    def _begin(self) -> tuple[float, int, int]:
        with self.lock:
            return self._chances().draw(self.random)

    # --- What becomes of it ---

    def _measure(self) -> None:
        """Keep the net as a snapshot, and let its search play the matches in a thread of their own, while the net goes
        on learning. Those of a net whose predecessor's still go on are left out."""
        checkpoint = self._save({}, f"-step{self.state.step_count}")
        if self.opponents and not self._are_rating():
            search = Search(
                str(checkpoint.folder),
                search="gumbel",
                visits=self.config.eval_visits,
                rollout_weight=0.0,
                precision="bf16" if self.device.type == "cuda" and self.config.bf16 else "auto",
            )
            self.matches = self.beside.submit(self._rate, AlphaGo(search), self.state.step_count)
        forget_snapshots(self.saved, SNAPSHOTS)
        self.kept = time.monotonic()

    def _are_rating(self, waits: bool = False) -> bool:
        """Whether matches still go on; with ``waits`` until they are over. Raises what went wrong in them."""
        if self.matches is not None and (waits or self.matches.done()):
            self.matches.result()
            self.matches = None
        return self.matches is not None

    def _rate(self, player: AlphaGo, step: int) -> None:
        config = self.config
        rules = self._rules()
        openings = draw_openings(rules, config.eval_games // 2, PLIES, config.seed)
        twice = [opening for opening in openings for _ in range(2)]
        seeds = (draw_seeds(config.eval_games, config.seed, step) >> np.uint64(1)).tolist()
        for entry in self.opponents:
            bot = entry.build()
            try:
                slots = min(config.eval_games, entry.bot_kind.boards)
                points = spar(player, bot, entry.limits, rules, seeds, twice, slots, self._goes_on)
            finally:
                bot.close()
            if points is not None:
                rating = Rating.of(step, entry.name, points)
                self.ratings.append(rating)
                write_rating(self.folder, rating)

    def _goes_on(self) -> bool:
        return not (self.state.stop_asked or self.has_ended)

    def _rules(self) -> Rules:
        """Of matches, and of the manifest."""
        komi = None if self.config.komi is None else round(2 * self.config.komi) / 2
        return Rules.preset("cgos", self.config.size, komi)

    def _tell(self, figures: Mapping[str, float], look: Look | None) -> None:
        progress, most = self.state.progress(), self.config.max_games
        left = [np.inf if progress.minutes_left is None else progress.minutes_left]
        if most and figures["games_per_second"]:
            left.append(max(0, most - self.state.games) / figures["games_per_second"] / 60)
        told: dict[str, Any] = {
            **figures,
            "step": self.state.step_count,
            "rows": self._total("rows"),
            "look": look,
            "loss": progress.loss,
            "right": progress.right,
            "minutes_left": min(left),
            "ratings": tuple(self.ratings),
        }
        self.on_progress(Round(**{item.name: told[item.name] for item in fields(Round)}))

    def _finish(self) -> Path:
        """The checkpoint, and its matches once the budget is spent."""
        state, metrics = self.state, dict[str, float]()
        if state.done >= 1 and not state.stop_asked:
            self._are_rating(waits=True)
            self._measure()
            self._are_rating(waits=True)
            latest = {rating.against: rating for rating in self.ratings if rating.iteration == state.step_count}
            metrics = {f"share_against_{name}": rating.share for name, rating in latest.items()}
            forget_snapshots(self.saved)
        return self._save(metrics).folder

    def _save(self, metrics: Mapping[str, float], step: str = "") -> Checkpoint:
        """Export the averaged net; quickly, as a snapshot, with a ``step``."""
        config, state = self.config, self.state
        games, positions = self._total("games"), self._total("positions")
        network, name = deepcopy(self._average()).cpu(), f"{config.name}{step}"
        start = Checkpoint.open(find(config.start, self.results)) if config.start else None
        manifest = describe(
            network,
            name,
            self.encoder,
            self._rules(),
            trainer="zero",
            data=f"{games} games of its own search, {self._total('rows')} of {positions} positions in full",
            rows=state.rows,
            minutes=round(state.seconds / 60, 1),
            settings={**asdict(config), "start": Path(config.start).name},
            metrics={"games": games, "positions": positions, **metrics},
            parent=start.identity if start else "",
            splits=start.manifest.splits if start else (),
        )
        rows = self._some_planes(PARITY_ROWS, 2)
        is_quantised = self.live.is_int8 or not step  # matches are played in the precision of the games
        calibration = rows[:CALIBRATION] if is_quantised else None
        planes = calibration, rows[:QUICK_ROWS] if step else rows
        return export(network, self.saved.with_name(name), manifest, *planes)


def weigh(config: Config, answering: Answering, planes: Tensor, target: TaughtTarget) -> Weighed:
    losses = distill.loss(answering(planes), target, config.outcome_share)
    return Weighed(losses.total(config), losses.right, losses.figures())


def _figures(played: list[Played], pace: Pace, spent: float) -> dict[str, float]:
    """Of a round's games, and of how they were played in ``spent`` seconds."""
    margins = np.array([game.margin for game in played])
    return {
        "games_per_second": len(played) / spent,
        "positions_per_second": pace.moves / spent,
        "evaluations_per_second": pace.evaluations / spent,
        "net_share": pace.net_seconds / max(1e-9, pace.seconds),
        "net_evaluations_per_second": pace.evaluations / max(1e-9, pace.net_seconds),
        "batch": pace.evaluations / max(1, pace.batches),
        "length": float(np.mean([len(game.moves) for game in played])),
        "black": float((np.sign(margins) / 2 + 0.5).mean()),
        "cut_off": float(np.mean([not game.is_sound for game in played])),
    }
