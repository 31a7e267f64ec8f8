"""How long and how fast a run learns, and the optimizers that do it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from arena import ConfigError
from trainers.settings import Loop

DECAY = 0.2
"""The share of the budget in which the schedule wsd lowers the learning rate."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how fast a run learns."""

    learning_rate: float
    """The highest, after the warm-up."""
    max_rows: int | None = None
    """The budget in training rows; None for no limit."""
    max_minutes: float | None = None
    """The budget in minutes of training, all sittings together; None for no limit."""
    max_steps: int | None = None
    """The budget in steps; None for no limit."""
    warmup_ratio: float = 0.02
    """The share of the budget in which the learning rate rises from 0."""
    last: float = 0.01
    """The learning rate at the end, as a share of the highest."""
    lr_schedule: str = "cosine"
    """How the learning rate falls: cosine, linear, constant, or wsd (warmup, stable, decay)."""
    optimizer: str = "muon"
    """muon, adamw or sgd."""
    weight_decay: float = 0.0
    """Decoupled weight decay of the convolutions; biases and norms have none."""
    ema_decay: float = 0.999
    """How much of the averaged weights stays at each step."""
    max_grad_norm: float = 10.0
    """The highest norm of a gradient."""
    save_minutes: float = 5.0
    """How often the state is saved."""

    def __post_init__(self) -> None:
        if self.max_rows is None and self.max_minutes is None and self.max_steps is None:
            raise ConfigError("a training run needs an end: give max_rows or max_minutes")
        if self.optimizer not in ("muon", "adamw", "sgd"):
            raise ConfigError(f"unknown optimizer '{self.optimizer}'; there are muon, adamw, sgd")
        if self.lr_schedule not in ("cosine", "linear", "constant", "wsd"):
            raise ConfigError(f"unknown schedule '{self.lr_schedule}'; there are cosine, linear, constant, wsd")

    @classmethod
    def of(cls, settings: Loop, **others: Any) -> Plan:
        """The plan of a trainer's settings, those that have the names of its fields, and of ``others``."""
        told = {**asdict(settings), **others}
        return cls(**{item.name: told[item.name] for item in fields(cls) if item.name in told})

    def done(self, rows: int, seconds: float, steps: int = 0) -> float:
        """The share of the budget that is spent: 1 or more when the run is over."""
        by_rows = rows / self.max_rows if self.max_rows else 0.0
        by_time = seconds / (60 * self.max_minutes) if self.max_minutes else 0.0
        by_steps = steps / self.max_steps if self.max_steps else 0.0
        return max(by_rows, by_time, by_steps)

    def rate(self, done: float) -> float:
        """The learning rate when the share ``done`` of the budget is spent: a linear rise, then the schedule."""
        if done < self.warmup_ratio:
            return self.learning_rate * (done / self.warmup_ratio * 0.99 + 0.01)
        turn = min(1.0, (done - self.warmup_ratio) / (1 - self.warmup_ratio))
        falls = {
            "cosine": 0.5 * (1 + math.cos(math.pi * turn)),
            "linear": 1 - turn,
            "constant": 1.0,
            "wsd": min(1.0, (1 - turn) / DECAY),
        }
        return self.learning_rate * (self.last + (1 - self.last) * falls[self.lr_schedule])


def orthogonalised(matrices: Tensor, steps: int = 5) -> Tensor:
    """Of each of ``matrices`` (B, rows, columns) roughly U V^T of the singular value decomposition U S V^T, by
    Newton-Schulz steps (Jordan 2024, "Muon")."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-7)
    if tall := x.shape[1] > x.shape[2]:
        x = x.mT
    for _ in range(steps):
        square = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum whose step is orthogonalised, for convolutions (Jordan 2024, "Muon: an optimizer for the hidden
    layers"); each filter bank counts as a matrix (out, height * width * in). Not for biases, norms and last layers.

    Matrices of one shape are computed at once: on a GPU a step of small nets is as long as it takes to launch it."""

    def __init__(self, parameters: Sequence[Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.0):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]  # no closure is used
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                continue
            gradients = [parameter.grad for parameter in parameters]
            for parameter in parameters:
                if "momentum" not in self.state[parameter]:
                    self.state[parameter]["momentum"] = torch.zeros_like(parameter)
            momenta = [self.state[parameter]["momentum"] for parameter in parameters]
            torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
            updates = _directions(torch._foreach_lerp(gradients, momenta, group["momentum"]))
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(parameters, updates, alpha=-group["lr"])


def _directions(gradients: Sequence[Tensor]) -> list[Tensor]:
    """Orthogonal steps in the directions of gradients, of their shapes."""
    rows = [gradient.movedim(1, -1).flatten(1) for gradient in gradients]  # no copy of filters in channels_last
    alike: dict[torch.Size, list[int]] = {}
    for place, gradient in enumerate(gradients):
        alike.setdefault(gradient.shape, []).append(place)
    steps = list(gradients)
    for shape, places in alike.items():
        stacked = torch.stack([rows[place] for place in places])
        longer = max(1.0, stacked.shape[1] / stacked.shape[2]) ** 0.5
        turned = (orthogonalised(stacked) * longer).view(len(places), shape[0], *shape[2:], shape[1]).movedim(-1, 2)
        for place, step in zip(places, turned, strict=True):
            steps[place] = step
    return steps


ADAM_SHARE = 0.1
"""Under Muon the other weights learn with AdamW, at this share of Muon's learning rate."""


def build_optimizers(network: nn.Module, plan: Plan) -> list[torch.optim.Optimizer]:
    """The optimizers for all weights; the first learning rate of each group is kept as ``share`` of the plan's. Muon
    has the matrices between the layers that a net calls its ``ENDS``, and AdamW the rest."""
    parts = [(part, end) for part in network.modules() for end in getattr(part, "ENDS", ())]
    ends = {id(part.get_submodule(end).weight) for part, end in parts}
    weights = [p for name, p in network.named_parameters() if name.endswith("weight") and p.ndim > 1]
    matrices = [p for p in weights if plan.optimizer != "muon" or id(p) not in ends]
    chosen = {id(p) for p in matrices}
    others = [p for p in network.parameters() if id(p) not in chosen]
    if plan.optimizer == "muon":
        optimizers: list[torch.optim.Optimizer] = [
            Muon(matrices, plan.learning_rate, weight_decay=plan.weight_decay),
            torch.optim.AdamW(others, plan.learning_rate * ADAM_SHARE, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
        ]
    else:
        groups = [{"params": matrices, "weight_decay": plan.weight_decay}, {"params": others, "weight_decay": 0.0}]
        if plan.optimizer == "adamw":
            optimizers = [torch.optim.AdamW(groups, plan.learning_rate, fused=True)]
        else:
            optimizers = [torch.optim.SGD(groups, plan.learning_rate, momentum=0.9, nesterov=True, fused=True)]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["share"] = group["lr"] / plan.learning_rate
    return optimizers
