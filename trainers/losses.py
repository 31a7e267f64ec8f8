"""The targets of a batch, as tensors on a device, and the losses of a net's outputs."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bots.nets.network import SCORE_UNIT, Outputs
from trainers.games import DRAW, LOSS, NO_RESULT, WIN, Batch
from trainers.settings import RL, SL, Distill, Value, Zero


class Target(NamedTuple):
    """The targets of a batch; see ``Batch``."""

    moves: Tensor  # (B,) int64
    results: Tensor  # (B,) int64
    owners: Tensor  # (B, n²)
    scores: Tensor  # (B,) float32
    shares: Tensor | None = None  # (B, n² + 1) float32
    win_rates: Tensor | None = None  # (B,) float32


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """Copy an array to ``device``; to a GPU through pinned memory, without waiting."""
    tensor = torch.from_numpy(array)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def to_tensors(batch: Batch, device: torch.device) -> tuple[Tensor, Target]:
    """Planes (B, P, n, n) and their targets, on ``device``."""
    planes = to_device(batch.planes, device).to(memory_format=torch.channels_last)
    known = {name: part for name in Target._fields if (part := getattr(batch, name)) is not None}
    return planes, Target(**{name: to_device(part, device) for name, part in known.items()})


@dataclass(frozen=True, slots=True)
class Losses:
    """The parts of the loss, each a scalar, and the top-1 accuracy."""

    policy: Tensor
    value: Tensor
    ownership: Tensor
    score: Tensor
    right: Tensor

    def figures(self) -> dict[str, Tensor]:
        """The figures to log: each head's loss without its weight, and the accuracy."""
        return {"right": self.right, **{f"{head}_loss": getattr(self, head) for head in Outputs._fields}}

    def total(self, weights: SL | RL | Value | Distill | Zero) -> Tensor:
        """The sum of the losses with the weights of the settings; that of the policy is 1."""
        most = self.policy + weights.value_weight * self.value + weights.ownership_weight * self.ownership
        return most + weights.score_weight * self.score


def loss(outputs: Outputs, target: Target) -> Losses:
    """The losses of a net's outputs, over rows with a known target: cross entropy of the move, of the result and, as
    a mean over points, of the owner (a neutral point is half of each side's); Huber's loss of the score."""
    assert outputs.policy is not None  # ensured by ``train.check``
    value = ownership = score = outputs.policy.new_zeros(())
    if outputs.value is not None:
        summed = functional.cross_entropy(outputs.value, target.results, ignore_index=NO_RESULT, reduction="sum")
        value = summed / (target.results != NO_RESULT).sum().clamp(min=1)
    scored = ~target.scores.isnan()
    count = scored.sum().clamp(min=1)
    if outputs.ownership is not None:
        shares = (target.owners.to(outputs.ownership.dtype) + 1) / 2
        by_point = functional.binary_cross_entropy_with_logits(outputs.ownership, shares, reduction="none")
        ownership = (by_point.mean(1) * scored).sum() / count
    if outputs.score is not None:
        wanted = target.scores.nan_to_num() / SCORE_UNIT
        score = (functional.smooth_l1_loss(outputs.score, wanted, reduction="none") * scored).sum() / count
    right = (outputs.policy.detach().argmax(1) == target.moves).float().mean()
    return Losses(functional.cross_entropy(outputs.policy, target.moves), value, ownership, score, right)


def search_loss(outputs: Outputs, target: Target, outcome_share: float) -> Losses:
    """As ``loss``, for targets of a search. The policy's is the cross entropy with the search's shares. The value's is
    ``outcome_share`` times the cross entropy with the result, plus the rest times that of the win rate, in which a draw
    is half a win. If only one of the two is known, its weight is 1.
    """
    assert outputs.policy is not None and outputs.value is not None  # ensured by ``train.check``
    assert target.shares is not None and target.win_rates is not None
    policy = -(target.shares * outputs.policy.log_softmax(1)).sum(1).mean()
    decided, judged = target.results != NO_RESULT, ~target.win_rates.isnan()
    by_result = functional.cross_entropy(outputs.value, target.results, ignore_index=NO_RESULT, reduction="none")
    logs, rate = outputs.value.log_softmax(1), target.win_rates.nan_to_num()
    wins, losses = (torch.logaddexp(logs[:, end], logs[:, DRAW] + math.log(0.5)) for end in (WIN, LOSS))
    by_rate = -(rate * wins + (1 - rate) * losses)
    first = torch.where(judged, outcome_share, 1.0) * decided
    second = torch.where(decided, 1 - outcome_share, 1.0) * judged
    value = (first * by_result + second * by_rate).sum() / (decided | judged).sum().clamp(min=1)
    return replace(loss(outputs, target), policy=policy, value=value)
