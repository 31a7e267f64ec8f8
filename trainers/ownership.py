"""An ownership net: whose each point will be when the game is scored, from any position of it. No moves, no search.

After Gilmer's GoCNN (2016), which learned it from the final positions of scored games by squared error. A game whose
recorded margin isn't that of its last position teaches nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from bots.nets.network import Answer
from trainers import data, supervised
from trainers.loop import Target
from trainers.progress import Progress
from trainers.settings import Ownership as Config
from trainers.sl import from_records
from trainers.supervised import Answering, Ask, Weighed


def loss(answer: Answer, target: Target, squared: bool) -> tuple[Tensor, Tensor]:
    """The mean over points and scored rows of the squared error of the probability that a point will be the side to
    move's, or of its cross entropy; and the share of owned points that were predicted.

    A point of no one's is half of each side's.
    """
    assert answer.ownership is not None  # what ``train`` asks for
    scored = ~target.scores.isnan()
    count = scored.sum().clamp(min=1)
    shares = (target.owners.to(answer.ownership.dtype) + 1) / 2
    if squared:
        by_point = (answer.ownership.sigmoid() - shares) ** 2
    else:
        by_point = functional.binary_cross_entropy_with_logits(answer.ownership, shares, reduction="none")
    owned = target.owners != 0
    right = ((answer.ownership.detach() > 0) == (target.owners > 0)) & owned
    return (by_point.mean(1) * scored).sum() / count, right.sum() / owned.sum().clamp(min=1)


def measure(ask: Ask, batches: Iterable[data.Batch]) -> Mapping[str, float]:
    """Over the scored positions: their number, the share of owned points predicted, and the mean squared error of
    their probabilities (Brier score)."""
    positions = points = right = 0
    squares = 0.0
    for batch in batches:
        with torch.no_grad():
            ownership = ask(batch).ownership
        assert ownership is not None
        scored = torch.from_numpy(batch.scores).isnan().logical_not()
        owners = torch.from_numpy(batch.owners)[scored]
        own = ownership[scored]
        positions += int(scored.sum())
        points += int((owners != 0).sum())
        right += int(((own > 0) == (owners > 0))[owners != 0].sum())
        squares += float((((own.sigmoid() - (owners > 0).float()) ** 2) * (owners != 0)).sum())
    return {"positions": positions, "ownership": right / max(1, points), "brier": squares / max(1, points)}


def train(config: Config, results: Path, on_progress: Callable[[Progress], None] = lambda _: None) -> Path:
    """Train, or go on where a run of this name stopped; the checkpoint's folder. See ``supervised.train``."""
    supervised.check(config, "ownership", ("ownership",), results)
    read = partial(from_records, config, results, "ownership", partial(weigh, config), measure)
    return supervised.train(config, results, read, on_progress)


def weigh(config: Config, answering: Answering, planes: Tensor, target: Target) -> Weighed:
    return Weighed(*loss(answering(planes), target, config.loss == "mse"))
