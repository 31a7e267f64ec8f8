"""A value net: who will win, from any position. AlphaGo's third stage; no moves are learned, nothing is searched.

After Silver et al. 2016, "Mastering the game of Go with deep neural networks and tree search", Methods ("Value network:
regression"). It begins with a policy net, and the policy stays: the tower learns the value with the policy held to what
it was (the divergence from it is part of the loss), or doesn't learn at all. Where positions come from, and what they
are compared with, is in ``outcomes.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from arena import ConfigError
from arena.go.game import Rules
from arena.go.planes import Encoder
from bots.nets.catalogue import Net
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.network import Answer, Network
from trainers import data, outcomes, sl, supervised
from trainers.export import describe, export, win_rates
from trainers.loop import Progress, Run, Target, Workers, keep_freed_memory, pick_device, to_tensors
from trainers.outcomes import Made, Positions, Probe, Recipe
from trainers.settings import ADJUSTABLE, write_file
from trainers.settings import Value as Config
from trainers.supervised import Ask, Learned, ask_with, build, encoder_of

OPENING = 40
"""Positions before this move are judged apart: there playouts tell least."""

BATCH = 512


# --- The loss ---


@dataclass(frozen=True, slots=True)
class Losses:
    """The parts of the loss, each a scalar, and the share of decided games whose winner was foreseen."""

    value: Tensor
    policy: Tensor
    ownership: Tensor
    score: Tensor
    right: float

    def total(self, config: Config) -> Tensor:
        return (
            self.value
            + config.policy_weight * self.policy
            + config.ownership_weight * self.ownership
            + config.score_weight * self.score
        )


def expected(value: Tensor) -> Tensor:
    """The expected result (B,) of logits (B, 3): from -1, the side to move loses, to 1."""
    odds = value.softmax(1)
    return odds[:, data.WIN] - odds[:, data.LOSS]


def loss(answer: Answer, target: Target, before: Tensor | None, squared: bool) -> Losses:
    """How far an answer is from what it should be; rows without a result, or without a score, don't count for it.

    Of the value it is the cross entropy of win, draw and loss, or the squared error of the expected result. Of the
    policy it is the divergence from ``before`` (B, n² + 1), the logits to be kept, or without them the cross entropy of
    the moves that were played.
    """
    assert answer.policy is not None and answer.value is not None  # what ``check`` asks for
    usual = sl.loss(answer, target)
    known = target.results != data.NO_RESULT
    results = 1.0 - target.results.to(answer.value.dtype)
    guess = expected(answer.value)
    value, policy = usual.value, usual.policy
    if squared:
        value = ((guess - results) ** 2 * known).sum() / known.sum().clamp(min=1)
    if before is not None:
        policy = functional.kl_div(
            answer.policy.log_softmax(1), before.log_softmax(1), reduction="batchmean", log_target=True
        )
    decided = known & (results != 0)
    right = (guess.detach() * results > 0) & decided
    share = float(right.sum() / decided.sum().clamp(min=1))
    return Losses(value, policy, usual.ownership, usual.score, share)


# --- What is learned from ---


@dataclass(frozen=True, slots=True)
class Material:
    """The games of each source; the second is none where there is but one."""

    first: data.Split
    is_own: bool
    """Whether the first's are cut games of its own; else they are records."""
    second: data.Split | None = None

    @classmethod
    def read(cls, config: Config, results: Path) -> Material:
        """Raises ConfigError, CheckpointError or RecordError for settings or records that can't be used."""
        cache = results / "cache"
        own = None
        if config.source != "records":
            own = outcomes.own_split(config, Recipe.of(config, results), cache)
        records = None if config.source == "self-play" else outcomes.records_split(config, cache)
        if own is None:
            assert records is not None
            return cls(records, False)
        return cls(own, True, records)

    def rows(self, config: Config, encoder: Encoder, seed: int) -> data.Source:
        """The endless order of training rows."""

        def of(split: data.Split, is_own: bool) -> data.Source:
            if config.positions == "all" and not is_own:
                return data.Rows(split.train, encoder, seed, config.loaders)
            return data.OneEach(split.train, encoder, seed, config.loaders, last=is_own)

        first = of(self.first, self.is_own)
        return first if self.second is None else data.Mixed(first, of(self.second, False), config.records_share)

    def judged(self, part: str, count: int, seed: int) -> Iterator[tuple[str, Positions]]:
        """Up to ``count`` positions, or all for 0, of each source that has games in ``part`` (train, validation,
        test), one a game, under the beginning of their figures' names."""
        for name, split in (("", self.first), ("records_", self.second)):
            if split is not None and len(games := getattr(split, part)):
                last = self.is_own and not name
                yield f"{name}{part}", Positions.some(games, count, seed, last)


# --- Measuring ---


def guesses(ask: Ask, positions: Positions, encoder: Encoder) -> np.ndarray:
    """The result that a net expects of each, for the side to move; (positions,) float64, from -1 to 1."""
    parts = [np.empty(0)]
    for first in range(0, len(positions), BATCH):
        places = positions.places[first : first + BATCH]
        batch = data.encode_positions(positions.games, encoder, places, np.zeros(len(places), np.int64))
        with torch.no_grad():
            value = ask(batch).value
        assert value is not None
        parts.append(2 * win_rates(value).numpy() - 1)
    return np.concatenate(parts)


def errors(guess: np.ndarray | float, results: np.ndarray, plies: np.ndarray) -> Mapping[str, float]:
    """Mean squared errors on the scale from -1 to 1: of all positions, of those before move ``OPENING`` and of the
    later ones. A phase without positions has none."""
    squares = (guess - results) ** 2
    early = plies < OPENING
    phases = {"": np.ones(len(plies), np.bool_), f"_before_{OPENING}": early, f"_from_{OPENING}": ~early}
    return {phase: float(squares[mask].mean()) for phase, mask in phases.items() if mask.any()}


def figures(name: str, rivals: Mapping[str, np.ndarray | float], positions: Positions) -> Mapping[str, float]:
    """The errors of each rival's guesses about the same positions."""
    results, plies = positions.results, positions.plies
    told = {what: errors(guess, results, plies) for what, guess in rivals.items()}
    return {f"{name}{phase}_{what}": error for what, parts in told.items() for phase, error in parts.items()}


def judge(name: str, guess: np.ndarray, positions: Positions, constant: float, probe: Probe) -> Mapping[str, float]:
    """The errors of a net's guesses and, beside each, that of the constant (floor) and of the probe of the score."""
    rivals: dict[str, np.ndarray | float] = {"mse": guess, "floor": constant, "probe": probe(positions.scores())}
    return {f"{name}_positions": float(len(positions)), **figures(name, rivals, positions)}


def compare_playouts(name: str, guess: np.ndarray, positions: Positions, playouts: int) -> Mapping[str, float]:
    """The errors of the mean result of playouts, and of a net's guesses about the same positions."""
    rivals = {"playouts": positions.by_playouts(playouts), "beside_playouts": guess}
    return {f"{name}_playout_positions": float(len(positions)), **figures(name, rivals, positions)}


class Measuring:
    """What a net is measured by, the floor and the probe fitted once on positions of training games."""

    def __init__(self, config: Config, material: Material, encoder: Encoder):
        self._config, self._material, self._encoder = config, material, encoder
        self._fitted: dict[str, tuple[Positions, float, Probe]] = {}
        for name, positions in material.judged("train", config.test_positions, config.seed):
            fit = Probe.fitted(positions.scores(), positions.results)
            self._fitted[name.removesuffix("train")] = positions, outcomes.floor(positions.results), fit

    def validation(self, ask: Ask) -> Mapping[str, float]:
        """The figures of a net over validation positions."""
        told: dict[str, float] = {}
        for name, positions in self._material.judged("validation", self._config.check_positions, self._config.seed):
            _, constant, probe = self._fitted[name.removesuffix("validation")]
            told |= judge(name, guesses(ask, positions, self._encoder), positions, constant, probe)
        return told

    def test(self, ask: Ask, before: Ask | None) -> Mapping[str, float]:
        """The figures of a net over test positions and as many of training games, the gap between the two, the errors
        of what it began with, and what playouts tell of some test positions."""
        config, told = self._config, dict[str, float]()
        for name, positions in self._material.judged("test", config.test_positions, config.seed):
            source = name.removesuffix("test")
            learned, constant, probe = self._fitted[source]
            guess = guesses(ask, positions, self._encoder)
            told |= judge(f"{source}train", guesses(ask, learned, self._encoder), learned, constant, probe)
            told |= judge(name, guess, positions, constant, probe)
            if before is not None:
                told |= figures(name, {"start": guesses(before, positions, self._encoder)}, positions)
            told[f"{source}gap"] = told[f"{name}_mse"] - told[f"{source}train_mse"]
            if config.playouts:
                some = Positions(positions.games, positions.places[: config.playout_positions])
                told |= compare_playouts(name, guess[: len(some)], some, config.playouts)
        return told


# --- Training ---


def check(config: Config) -> None:
    """Raise ConfigError or CheckpointError for settings that can't be."""
    supervised.check_settings(config, "value", ("policy", "value"))
    if config.source != "self-play" and not config.records:
        raise ConfigError(f"source = {config.source} needs game records: name them with --data, or choose self-play")
    if config.source == "self-play" and config.records:
        raise ConfigError("source = self-play reads no game records; choose records or both, or leave out --data")
    if config.freeze == "trunk" and not config.start:
        raise ConfigError("freeze = trunk keeps what start has learned; name a checkpoint to start from")
    if config.test_share + config.validation >= 1:
        raise ConfigError("test_share and validation leave no games to learn from; lower them")


def train(
    config: Config,
    results: Path,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_made: Callable[[Made], None] = lambda _: None,
) -> Path:
    """Play the games that are still missing, then train, or go on where a run of this name stopped; the checkpoint's
    folder.

    Files go under ``results``: cache/ (the games, too), training/NAME/ and checkpoints/NAME/. Raises RecordError for
    records that can't be used, ConfigError for settings that can't be, CheckpointError for a state that doesn't fit.
    """
    check(config)
    if config.source != "records":
        recipe = Recipe.of(config, results)
        outcomes.make_games(config, recipe, results / "cache", pick_device(config.device, Workers()), on_made)
    material = Material.read(config, results)  # before other processes start: they find records in the cache
    with Workers.joined(config.processes, partial(_join, config, results)) as workers:
        learned = learn(config, results, material, workers, on_progress)
    if workers.rank:
        return results / "checkpoints" / config.name
    return save_checkpoint(config, results, material, learned)


def _join(config: Config, results: Path, workers: Workers) -> None:
    learn(config, results, Material.read(config, results), workers)


def freeze_trunk(network: Net) -> Sequence[torch.nn.Module]:
    """Let only the heads of value, ownership and score learn; the parts that don't, whose norms are to stay, too."""
    assert isinstance(network, Network)  # the only one with a value
    heads = {"value", "ownership", "score"}
    frozen = [part for name, part in network.named_children() if name not in heads]
    for part in frozen:
        part.requires_grad_(False)
    return frozen


def learn(
    config: Config,
    results: Path,
    material: Material,
    workers: Workers,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Learned:
    """Train until the budget is spent or a signal comes; the first of the workers also watches, measures and saves."""
    encoder = encoder_of(config)
    device = pick_device(config.device, workers)
    keep_freed_memory()
    torch.set_num_threads(config.threads)
    network, averaged = build(config).to(device), build(config).to(device)
    teacher = build(config).to(device).eval() if config.start and config.freeze == "none" else None
    still = freeze_trunk(network) if config.freeze == "trunk" else []
    settings = {key: value for key, value in asdict(config).items() if key not in ADJUSTABLE}
    folder = results / "training" / config.name
    run = Run(network, supervised.plan_of(config), folder, settings, workers, config.tensorboard)
    run.restore()
    if workers.rank == 0:
        write_file(config, folder)
    measuring = Measuring(config, material, encoder) if workers.rank == 0 else None
    answer_of = torch.compile(network) if config.compile else network

    def asked() -> Ask:
        averaged.load_state_dict(run.averaged)
        return ask_with(averaged, device)

    share = config.batch // workers.count
    rows = material.rows(config, encoder, config.seed)
    ready = partial(to_tensors, device=device)
    ahead = data.Prefetch(rows, ready, run.rows + workers.rank * share, share, config.batch)
    with run.stopping_on_signals(), ahead as batches:
        began = time.monotonic()
        for planes, target in batches:
            waited = time.monotonic() - began
            if run.is_over:
                break
            network.train()
            for part in still:
                part.eval()
            with torch.autocast(device.type, torch.bfloat16, enabled=config.bf16):
                answer: Answer = answer_of(planes)
                with torch.no_grad():
                    before = None if teacher is None else teacher(planes).policy.float()
            losses = loss(answer.to(torch.float32), target, before, config.loss == "squared")
            progress = run.step(losses.total(config), config.batch, losses.right, waited)
            on_progress(progress)
            passed = run.rows // config.check_every > (run.rows - config.batch) // config.check_every
            if measuring is not None and passed:
                run.log(
                    loss=round(progress.loss, 4),
                    right=round(progress.right, 4),
                    policy_loss=round(float(losses.policy.detach()), 4),
                    rows_per_second=round(progress.rows_per_second, 1),
                    waiting=round(progress.waiting, 4),
                    **{key: round(value, 4) for key, value in measuring.validation(asked()).items()},
                )
            began = time.monotonic()
    metrics: dict[str, float] = {}
    if measuring is not None:
        run.save()
        metrics = dict(measuring.validation(asked()))
        if run.done >= 1:
            metrics |= measuring.test(asked(), ask_with(build(config).to(device), device) if config.start else None)
    return Learned(averaged.cpu(), run.rows, run.seconds / 60, metrics)


def save_checkpoint(config: Config, results: Path, material: Material, learned: Learned) -> Path:
    """Export a net with all that is known of its training; its folder."""
    encoder = encoder_of(config)
    files = [Path(path) for path in config.records]
    sources = []
    if config.source != "records":
        recipe = Recipe.of(config, results)
        sources.append(
            f"{config.games} games of {recipe.policy.manifest.name} ({recipe.policy.identity[:12]}) and "
            f"{recipe.finisher.manifest.name} ({recipe.finisher.identity[:12]})"
        )
    if files:
        sources.append(f"{', '.join(file.name for file in files)}; sha256 {data.digest_of(files)}")
    folders = {key: Path(getattr(config, key)).name for key in ("start", "policy", "finisher")}
    manifest = describe(
        learned.network,
        config.name,
        encoder,
        Rules.preset("cgos", config.size, float(np.median(material.first.train.komis))),
        trainer="value",
        data="; ".join(sources),
        rows=learned.rows,
        minutes=round(learned.minutes, 1),
        settings={**asdict(config), "records": [file.name for file in files], **folders},
        metrics={key: round(value, 5) for key, value in learned.metrics.items()},
        parent=Checkpoint.open(find(config.start)).identity if config.start else "",
    )
    calibration = material.rows(config, encoder, config.seed + 1).batch(0, supervised.CALIBRATION)
    kept = material.first.validation if len(material.first.validation) else material.first.train
    checked = data.OneEach(kept, encoder, config.seed + 1, last=material.is_own).batch(0, supervised.PARITY_ROWS)
    folder = results / "checkpoints" / config.name
    return export(learned.network, folder, manifest, calibration.planes, checked.planes).folder
