"""Supervised learning: a net that imitates strong games and predicts how they end. No self-play, no search.

Learns the next move (cross entropy, as AlphaGo's SL policy: Silver et al. 2016, "Mastering the game of Go with deep
neural networks and tree search", Methods) and, from the same rows where the record tells and where the net has a head
for it, who wins, whose each point will be and by how much (Wu 2019, "Accelerating self-play learning in Go", section
4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from arena import ConfigError
from bots.nets.network import SCORE_UNIT, Answer
from trainers import data, dataset, supervised
from trainers.loop import Target, to_tensors
from trainers.progress import Progress
from trainers.settings import SL as Config
from trainers.settings import Distill, Supervised, Zero
from trainers.start import inherited_rules
from trainers.supervised import Answering, Ask, Lesson, Loss, Weighed, encoder_of, named

Measure = Callable[[Ask, Iterable[data.Batch]], Mapping[str, float]]
"""Figures of a net over rows."""


@dataclass(frozen=True, slots=True)
class Losses:
    """The parts of the loss, each a scalar, and the top-1 accuracy."""

    policy: Tensor
    value: Tensor
    ownership: Tensor
    score: Tensor
    right: Tensor

    def parts(self) -> dict[str, Tensor]:
        """By the names that they have in the log."""
        return {f"{head}_loss": getattr(self, head) for head in Answer._fields}

    def total(self, config: Config | Distill | Zero) -> Tensor:
        return (
            self.policy
            + config.value_weight * self.value
            + config.ownership_weight * self.ownership
            + config.score_weight * self.score
        )


def loss(answer: Answer, target: Target) -> Losses:
    """How far an answer is from what it should be.

    Cross entropy of the move, of the result and, as a mean over points, of the owner (a point of no
    one's is half of each side's); Huber's loss of the score. Rows where one of them isn't known don't count for it.
    """
    assert answer.policy is not None  # what ``train`` asks for
    value = ownership = score = answer.policy.new_zeros(())
    if answer.value is not None:
        value = mean_cross_entropy(answer.value, target.results, data.NO_RESULT)
    scored = ~target.scores.isnan()
    count = scored.sum().clamp(min=1)
    if answer.ownership is not None:
        shares = (target.owners.to(answer.ownership.dtype) + 1) / 2
        by_point = functional.binary_cross_entropy_with_logits(answer.ownership, shares, reduction="none")
        ownership = (by_point.mean(1) * scored).sum() / count
    if answer.score is not None:
        wanted = target.scores.nan_to_num() / SCORE_UNIT
        score = (functional.smooth_l1_loss(answer.score, wanted, reduction="none") * scored).sum() / count
    return Losses(
        policy=functional.cross_entropy(answer.policy, target.moves),
        value=value,
        ownership=ownership,
        score=score,
        right=(answer.policy.detach().argmax(1) == target.moves).float().mean(),
    )


def mean_cross_entropy(logits: Tensor, classes: Tensor, unknown: int) -> Tensor:
    """The mean over the rows whose class isn't ``unknown``; 0 where there are none."""
    known = (classes != unknown).sum().clamp(min=1)
    return functional.cross_entropy(logits, classes, ignore_index=unknown, reduction="sum") / known


@dataclass(frozen=True, slots=True)
class Score:
    """How well a net tells the moves and results of some positions; 0 for what it has no head for."""

    positions: int = 0
    top1: float = 0.0
    """The share of positions whose likeliest move was played."""
    policy_loss: float = 0.0
    """Mean cross entropy, in nats."""
    late_positions: int = 0
    """Positions from ply 15 on, where games have parted."""
    late_top1: float = 0.0
    results: int = 0
    """Positions whose game has a known result."""
    value_loss: float = 0.0
    """Mean cross entropy over win, draw and loss, in nats."""
    value_floor: float = 0.0
    """What the best constant would get: the value has learned something when its loss is below."""
    scored: int = 0
    """Positions whose game was scored, if the net predicts ownership."""
    ownership: float = 0.0
    """The share of their owned points whose owner was predicted; neutral points don't count."""
    score_error: float = 0.0
    """The mean absolute error of the score, in points."""


def measure(ask: Ask, batches: Iterable[data.Batch]) -> Score:
    """Ask about every batch."""
    positions = right = late = late_right = 0
    scored = points = points_right = 0
    policy_sum = value_sum = error_sum = 0.0
    counts = torch.zeros(3, dtype=torch.float64)
    for batch in batches:
        with torch.no_grad():
            policy, value, ownership, score, *_ = ask(batch)
        assert policy is not None
        moves, results = torch.from_numpy(batch.moves), torch.from_numpy(batch.results)
        hits = policy.argmax(1) == moves
        is_late = torch.from_numpy(batch.plies >= data.LATE)
        positions += len(batch)
        right += int(hits.sum())
        late += int(is_late.sum())
        late_right += int((hits & is_late).sum())
        policy_sum += float(functional.cross_entropy(policy, moves, reduction="sum"))
        if value is not None:
            value_sum += float(functional.cross_entropy(value, results, ignore_index=data.NO_RESULT, reduction="sum"))
            counts += torch.bincount(results[results != data.NO_RESULT], minlength=3)
        if ownership is not None and score is not None:
            owners, scores = torch.from_numpy(batch.owners), torch.from_numpy(batch.scores)
            scored += int((~scores.isnan()).sum())
            points += int((owners != 0).sum())
            points_right += int(((ownership > 0) == (owners > 0))[owners != 0].sum())
            error_sum += float((SCORE_UNIT * score - scores).abs().nansum())
    known = float(counts.sum())
    shares = counts[counts > 0] / max(1.0, known)
    return Score(
        positions=positions,
        top1=right / max(1, positions),
        policy_loss=policy_sum / max(1, positions),
        late_positions=late,
        late_top1=late_right / max(1, late),
        results=int(known),
        value_loss=value_sum / max(1.0, known),
        value_floor=float(-(shares * shares.log()).sum()),
        scored=scored,
        ownership=points_right / max(1, points),
        score_error=error_sum / max(1, scored),
    )


def figures(ask: Ask, batches: Iterable[data.Batch]) -> dict[str, float]:
    """``measure``, by name."""
    return asdict(measure(ask, batches))


def from_records(
    config: Supervised, results: Path, trainer: str, loss: Loss[Target], measure: Measure
) -> Lesson[Target]:
    """The lesson that all positions of game records teach.

    Several datasets of different board sizes are learned from in turn; the figures are of ``config.size``. Raises
    RecordError for records that can't be used, ConfigError for settings that can't be.
    """
    encoder = encoder_of(config)
    split, others = dataset.read_sizes(config, results / "cache", inherited_rules(config.start, results))
    only = getattr(supervised.build(config, results).config, "size", 0)
    if others and only:
        raise ConfigError(f"the net {config.net} plays one size; give it one dataset")

    def rows(seed: int) -> data.Source:
        orders = [data.Rows(games, encoder, seed, config.num_workers) for games in (split.train, *others)]
        return data.BySize(orders, config.batch_size, seed) if others else orders[0]

    kept = split.validation if len(split.validation) else split.train
    return Lesson(
        trainer,
        komi=float(np.median(split.train.komis)),
        rows=rows,
        kept=data.Rows(kept, encoder, config.seed + 1),
        to_tensors=to_tensors,
        begin=lambda _: loss,
        watch=lambda ask: figures_of(config, split, "validation", ask, measure),
        test=lambda ask: figures_of(config, split, "test", ask, measure) if len(split.test) else {},
        splits=split.rules,
    )


def figures_of(config: Supervised, split: data.Split, part: str, ask: Ask, measure: Measure) -> dict[str, float]:
    """The figures of a net over whole games of ``part`` (validation, test), which their names begin with."""
    count = config.validation_positions if part == "validation" else config.test_positions
    some = data.some_games(getattr(split, part), count, config.seed)
    return named(part, measure(ask, data.in_order(some, encoder_of(config))))


def train(config: Config, results: Path, on_progress: Callable[[Progress], None] = lambda _: None) -> Path:
    """Train, or go on where a run of this name stopped; the checkpoint's folder. See ``supervised.train``."""
    supervised.check(config, "sl", ("policy",), results)
    read = partial(from_records, config, results, "sl", partial(weigh, config), figures)
    return supervised.train(config, results, read, on_progress)


def weigh(config: Config, answering: Answering, planes: Tensor, target: Target) -> Weighed:
    losses = loss(answering(planes), target)
    return Weighed(losses.total(config), losses.right, losses.parts())
