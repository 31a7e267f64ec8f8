"""Distillation: what a search finds goes into the net that plays without one, or leads a search itself. No records are
needed.

The teacher plays games against itself (``teaching.py``), and the net learns the shares of its visits (cross entropy:
Silver et al. 2017, "Mastering the game of Go without human knowledge", Methods, "Optimization"), a value between the
game's result and what the search said, and whose each point was at the end. The teacher may be a larger net, a larger
net's search, or the search of the very net that learns: one round of expert iteration.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
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
from arena.registry import Registry
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.network import SCORE_UNIT, Answer
from trainers import data, dataset, sl, supervised
from trainers.export import describe, export, win_rates
from trainers.loop import STATE_FILE, Progress, Run, Target, Workers, keep_freed_memory, pick_device, to_tensors
from trainers.settings import ADJUSTABLE, write_file
from trainers.settings import Distill as Config
from trainers.supervised import Ask, Learned, ask_with, build, encoder_of
from trainers.teaching import (
    Findings,
    FoundRows,
    Made,
    PlayedRows,
    Recipe,
    Split,
    Taught,
    in_order,
    make_games,
    read_findings,
    split_findings,
)

# --- The loss ---


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a net should have said."""

    usual: Target
    """Its moves are those with the largest share."""
    shares: Tensor  # (B, n² + 1)
    win_rates: Tensor  # (B,), of the side to move; NaN where none is known


@dataclass(frozen=True, slots=True)
class Losses:
    """The parts of the loss, each a scalar, and the share of rows whose likeliest move is the teacher's."""

    policy: Tensor
    value: Tensor
    ownership: Tensor
    score: Tensor
    top1: float

    def total(self, config: Config) -> Tensor:
        return (
            self.policy
            + config.value_weight * self.value
            + config.ownership_weight * self.ownership
            + config.score_weight * self.score
        )


def sharpened(shares: Tensor, power: float) -> Tensor:
    """Shares (B, moves) ^ ``power``, again with the sum 1."""
    raised = shares**power
    return raised / raised.sum(1, keepdim=True)


def loss(answer: Answer, lesson: Lesson, outcome_share: float, sharpening: float = 1.0) -> Losses:
    """How far an answer is from what it should be.

    Of the policy it is the cross entropy with the teacher's shares. Of the value it is the cross entropy of win, draw
    and loss with the game's result and, in the share that is left by ``outcome_share``, that of winning, a draw being
    half of it, with the win rate: a win rate doesn't tell how likely a draw is. Where only one of them is known, it
    counts in full.
    """
    assert answer.policy is not None and answer.value is not None  # what ``check`` asks for
    usual = sl.loss(answer, lesson.usual)
    wanted = sharpened(lesson.shares, sharpening)
    policy = -(wanted * answer.policy.log_softmax(1)).sum(1).mean()

    decided, judged = lesson.usual.results != data.NO_RESULT, ~lesson.win_rates.isnan()
    by_result = functional.cross_entropy(
        answer.value, lesson.usual.results, ignore_index=data.NO_RESULT, reduction="none"
    )
    logs = answer.value.log_softmax(1)
    half = np.log(0.5)
    wins = torch.logaddexp(logs[:, data.WIN], logs[:, data.DRAW] + half)
    losses = torch.logaddexp(logs[:, data.LOSS], logs[:, data.DRAW] + half)
    rate = lesson.win_rates.nan_to_num()
    by_rate = -(rate * wins + (1 - rate) * losses)
    first = torch.where(judged, outcome_share, 1.0) * decided
    second = torch.where(decided, 1 - outcome_share, 1.0) * judged
    value = (first * by_result + second * by_rate).sum() / (decided | judged).sum().clamp(min=1)
    return Losses(policy, value, usual.ownership, usual.score, usual.top1)


# --- Measuring ---


@dataclass(frozen=True, slots=True)
class Score:
    """How well a net tells what a teacher found; 0 for what isn't known. Errors of the value are mean squares on a
    scale from -1 to 1."""

    positions: int = 0
    top1: float = 0.0
    """The share of positions whose likeliest move is the teacher's most visited one."""
    policy_loss: float = 0.0
    """Mean cross entropy with the shares of the visits, in nats."""
    policy_floor: float = 0.0
    """The least that it can be: the entropy of those shares."""
    results: int = 0
    """Positions whose game has a known result."""
    value_mse: float = 0.0
    """The value's error beside the result."""
    teacher_mse: float = 0.0
    """That of the teacher's win rates, where it has some."""
    win_rate_mse: float = 0.0
    """The value's beside the teacher's."""
    ownership: float = 0.0
    """The share of points whose owner at the end was foreseen; points of no one's aside."""
    score_error: float = 0.0
    """The mean absolute error of the score, in points."""


def measure(ask: Ask, batches: Iterable[Taught]) -> Score:
    """Ask about every batch."""
    sums = dict.fromkeys(("right", "loss", "floor", "value", "teacher", "rate", "points", "foreseen", "error"), 0.0)
    positions = results = rates = both = scored = 0
    for batch in batches:
        with torch.no_grad():
            policy, value, ownership, score = ask(batch)
        assert policy is not None and value is not None
        shares = torch.from_numpy(batch.shares)
        positions += len(batch)
        sums["right"] += float((policy.argmax(1) == torch.from_numpy(batch.moves)).sum())
        sums["loss"] += float(-(shares * policy.log_softmax(1)).sum())
        sums["floor"] += float(-torch.xlogy(shares, shares).sum())
        said, found = 2 * win_rates(value).numpy() - 1, 2 * batch.win_rates.astype(np.float64) - 1
        decided, judged = batch.results != data.NO_RESULT, ~np.isnan(found)
        told = 1.0 - batch.results
        results, rates = results + int(decided.sum()), rates + int(judged.sum())
        both += int((decided & judged).sum())
        sums["value"] += float(((said - told) ** 2)[decided].sum())
        sums["teacher"] += float(((found - told) ** 2)[decided & judged].sum())
        sums["rate"] += float(((said - found) ** 2)[judged].sum())
        if ownership is not None and score is not None:
            owners, scores = torch.from_numpy(batch.owners), torch.from_numpy(batch.scores)
            scored += int((~scores.isnan()).sum())
            sums["points"] += float((owners != 0).sum())
            sums["foreseen"] += float(((ownership > 0) == (owners > 0))[owners != 0].sum())
            sums["error"] += float((SCORE_UNIT * score - scores).abs().nansum())
    return Score(
        positions=positions,
        top1=sums["right"] / max(1, positions),
        policy_loss=sums["loss"] / max(1, positions),
        policy_floor=sums["floor"] / max(1, positions),
        results=results,
        value_mse=sums["value"] / max(1, results),
        teacher_mse=sums["teacher"] / max(1, both),
        win_rate_mse=sums["rate"] / max(1, rates),
        ownership=sums["foreseen"] / max(1.0, sums["points"]),
        score_error=sums["error"] / max(1, scored),
    )


# --- What is learned from ---


@dataclass(frozen=True, slots=True)
class Material:
    """What the teacher found and, where records were given, those."""

    found: Split
    records: data.Split | None = None

    @classmethod
    def read(cls, config: Config, recipe: Recipe, results: Path) -> Material:
        """Raises ConfigError or RecordError for games or records that can't be used."""
        cache = results / "cache"
        found = split_findings(config, read_findings(config, recipe, cache))
        return cls(found, dataset.read_split(config, cache) if config.records else None)

    def rows(self, config: Config, encoder: Encoder, seed: int) -> data.Source:
        """The endless order of training rows, each a ``Taught``."""
        found = FoundRows(self.found.train, encoder, seed, config.loaders)
        if self.records is None:
            return found
        return data.Mixed(found, PlayedRows(self.records.train, encoder, seed, config.loaders), config.records_share)

    def figures(self, config: Config, encoder: Encoder, part: str, ask: Ask) -> dict[str, float]:
        """The figures of a net over ``part`` (validation or test), those of records under a name of their own."""
        count = config.check_positions if part == "validation" else config.test_positions
        told: dict[str, float] = {}
        findings: Findings = getattr(self.found, part)
        if len(findings):
            told |= _named(part, asdict(measure(ask, in_order(findings, encoder, count))))
        if self.records is not None and len(games := getattr(self.records, part)):
            some = data.some_games(games, count, config.seed)
            told |= _named(f"records_{part}", asdict(sl.measure(ask, data.in_order(some, encoder))))
        return told


def _named(part: str, figures: Mapping[str, float]) -> dict[str, float]:
    return {f"{part}_{name}": figure for name, figure in figures.items()}


# --- Training ---


def check(config: Config, results: Path) -> None:
    """Raise ConfigError or CheckpointError for settings that can't be."""
    supervised.check(config, "distill", ("policy", "value"), results)
    if config.test_share + config.validation >= 1:
        raise ConfigError("test_share and validation leave no games to learn from; lower them")
    if config.records:
        dataset.read_split(config, results / "cache")  # or hours of play would come before what is wrong with them


def train(
    config: Config,
    results: Path,
    registry: Registry,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_made: Callable[[Made], None] = lambda _: None,
) -> Path:
    """Play the games that are still missing, then train, or go on where a run of this name stopped; the checkpoint's
    folder. The teacher is one of ``registry``.

    Files go under ``results``: cache/ (the games, too), training/NAME/ and checkpoints/NAME/. Interrupted while games
    are played it raises KeyboardInterrupt, and later it saves its state and returns. Raises RecordError for records
    that can't be used, ConfigError for settings that can't be, CheckpointError for a state that doesn't fit.
    """
    check(config, results)
    recipe = Recipe.of(config, registry)
    folder = results / "training" / config.name
    if (folder / STATE_FILE).exists():  # one that doesn't fit is told before games are played
        _begin(config, results, torch.device("cpu"), Workers())
    else:
        write_file(config, folder)
    make_games(config, recipe, results / "cache", on_made)
    material = Material.read(config, recipe, results)
    with Workers.joined(config.processes, partial(_join, config, recipe, results)) as workers:
        learned = learn(config, results, material, workers, on_progress)
    if workers.rank:
        return results / "checkpoints" / config.name
    return save_checkpoint(config, recipe, results, material, learned)


def _join(config: Config, recipe: Recipe, results: Path, workers: Workers) -> None:
    learn(config, results, Material.read(config, recipe, results), workers)


def _begin(config: Config, results: Path, device: torch.device, workers: Workers) -> Run:
    """The run of this name, as it was left or as it begins."""
    settings = {key: value for key, value in asdict(config).items() if key not in ADJUSTABLE}
    folder = results / "training" / config.name
    network = build(config, results).to(device)
    run = Run(network, supervised.plan_of(config), folder, settings, workers, config.tensorboard)
    run.restore()
    return run


def to_lesson(batch: data.Batch, device: torch.device) -> tuple[Tensor, Lesson]:
    """Planes (B, P, n, n) and what the net should say of them, on ``device``."""
    assert isinstance(batch, Taught)  # what ``Material.rows`` gives
    planes, usual = to_tensors(batch, device)
    shares, rates = (torch.from_numpy(part).to(device) for part in (batch.shares, batch.win_rates))
    return planes, Lesson(usual, shares, rates)


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
    run = _begin(config, results, device, workers)
    network, averaged = run.network, build(config, results).to(device)
    if workers.rank == 0:
        write_file(config, run.folder)
    answer_of = torch.compile(network) if config.compile else network

    def figures(part: str, weights: Mapping[str, Tensor]) -> dict[str, float]:
        averaged.load_state_dict(weights)
        return material.figures(config, encoder, part, ask_with(averaged, device))

    share = config.batch // workers.count
    rows = material.rows(config, encoder, config.seed)
    ready = partial(to_lesson, device=device)
    ahead = data.Prefetch(rows, ready, run.rows + workers.rank * share, share, config.batch)
    with run.stopping_on_signals(), ahead as batches:
        began = time.monotonic()
        for planes, lesson in batches:
            waited = time.monotonic() - began
            if run.is_over:
                break
            network.train()
            with torch.autocast(device.type, torch.bfloat16, enabled=config.bf16):
                answer: Answer = answer_of(planes)
            losses = loss(answer.to(torch.float32), lesson, config.outcome_share, config.sharpening)
            progress = run.step(losses.total(config), config.batch, losses.top1, waited)
            on_progress(progress)
            passed = run.rows // config.check_every > (run.rows - config.batch) // config.check_every
            if workers.rank == 0 and passed:
                run.log(
                    loss=round(progress.loss, 4),
                    right=round(progress.right, 4),
                    rows_per_second=round(progress.rows_per_second, 1),
                    waiting=round(progress.waiting, 4),
                    **{key: round(value, 4) for key, value in figures("validation", run.averaged).items()},
                )
            began = time.monotonic()
    metrics: dict[str, float] = {}
    if workers.rank == 0:
        run.save()
        metrics = figures("validation", run.averaged)
        if run.done >= 1:
            metrics |= figures("test", run.averaged)
            if config.start:
                first = figures("test", build(config, results).state_dict())
                metrics |= {f"start_{name}": figure for name, figure in first.items()}
                averaged.load_state_dict(run.averaged)
    return Learned(averaged.cpu(), run.rows, run.seconds / 60, metrics)


def save_checkpoint(config: Config, recipe: Recipe, results: Path, material: Material, learned: Learned) -> Path:
    """Export a net with all that is known of its training; its folder."""
    encoder = encoder_of(config)
    split, files = material.found, [Path(path) for path in config.records]
    parts = (split.train, split.validation, split.test)
    sources = [
        f"{sum(len(part.games) for part in parts)} games of {config.teacher} ({recipe.teacher.identity}), "
        f"{sum(map(len, parts))} positions"
    ]
    if files:
        sources.append(f"{', '.join(file.name for file in files)}; sha256 {data.digest_of(files)}")
    manifest = describe(
        learned.network,
        config.name,
        encoder,
        Rules.preset("cgos", config.size, config.komi),
        trainer="distill",
        data="; ".join(sources),
        rows=learned.rows,
        minutes=round(learned.minutes, 1),
        settings={**asdict(config), "records": [file.name for file in files], "start": Path(config.start).name},
        metrics={key: round(value, 5) for key, value in learned.metrics.items()},
        parent=Checkpoint.open(find(config.start, results)).identity if config.start else "",
    )
    calibration = material.rows(config, encoder, config.seed + 1).batch(0, supervised.CALIBRATION)
    kept = split.validation if len(split.validation) else split.train
    checked = FoundRows(kept, encoder, config.seed + 1).batch(0, supervised.PARITY_ROWS)
    folder = results / "checkpoints" / config.name
    return export(learned.network, folder, manifest, calibration.planes, checked.planes).folder
