"""The learning rate schedule and the optimizers: Muon, AdamW, SGD."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from trainers.settings import Loop

LAST_RATE = 0.01  # the last learning rate, as a share of the peak


def learning_rate(config: Loop, done: float) -> float:
    """The learning rate after the share ``done`` of the budget: linear warmup, then a cosine, or if ``DECAY`` is
    under 1, constant with a linear fall in that last share of the budget."""
    if done < config.WARMUP:
        return config.learning_rate * (done / config.WARMUP * 0.99 + 0.01)
    turn = min(1.0, (done - config.WARMUP) / (1 - config.WARMUP))
    fall = 0.5 * (1 + math.cos(math.pi * turn)) if config.DECAY == 1 else min(1.0, (1 - turn) / config.DECAY)
    return config.learning_rate * (LAST_RATE + (1 - LAST_RATE) * fall)


class Muon(torch.optim.Optimizer):
    """Nesterov momentum with orthogonalised steps, for convolutions between the first and the last layers (Jordan 2024,
    "Muon: an optimizer for the hidden layers"). A filter bank is a matrix (out, height * width * in). Matrices of one
    shape are computed together, which saves launches on a GPU."""

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
            updates = _orthogonalise(torch._foreach_lerp(gradients, momenta, group["momentum"]))
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(parameters, updates, alpha=-group["lr"])


def _orthogonalise(gradients: Sequence[Tensor]) -> list[Tensor]:
    """For each gradient U S V^T (singular value decomposition), about U V^T, by five Newton-Schulz steps; scaled by
    sqrt(rows / columns) if that is over 1. Keeps shapes."""
    steps = list(gradients)
    for shape in {gradient.shape for gradient in gradients}:
        places = [place for place, gradient in enumerate(gradients) if gradient.shape == shape]
        x = torch.stack([gradients[place].movedim(1, -1).flatten(1) for place in places])  # channels_last: no copy
        longer = max(1.0, x.shape[1] / x.shape[2]) ** 0.5
        x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
        if tall := x.shape[1] > x.shape[2]:
            x = x.mT
        for _ in range(5):
            square = torch.bmm(x, x.mT)
            x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
        turned = ((x.mT if tall else x) * longer).view(len(places), shape[0], *shape[2:], shape[1]).movedim(-1, 2)
        for place, step in zip(places, turned, strict=True):
            steps[place] = step
    return steps


ADAM_SHARE = 0.1  # learning rate of AdamW for the other weights, as a share of Muon's


def build_optimizers(network: nn.Module, config: Loop) -> list[torch.optim.Optimizer]:
    """The optimizers of all weights; each group has its ``share`` of the learning rate. Muon has the matrices outside
    the layers named in ``ENDS`` of a net, AdamW the rest."""
    parts = [(part, end) for part in network.modules() for end in getattr(part, "ENDS", ())]
    ends = {id(part.get_submodule(end).weight) for part, end in parts}
    weights = [p for name, p in network.named_parameters() if name.endswith("weight") and p.ndim > 1]
    matrices = [p for p in weights if config.optimizer != "muon" or id(p) not in ends]
    chosen = {id(p) for p in matrices}
    others = [p for p in network.parameters() if id(p) not in chosen]
    rate, decay = config.learning_rate, config.WEIGHT_DECAY
    if config.optimizer == "muon":
        adam = torch.optim.AdamW(others, rate * ADAM_SHARE, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
        optimizers: list[torch.optim.Optimizer] = [Muon(matrices, rate, weight_decay=decay), adam]
    else:
        groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
        adamw, sgd = torch.optim.AdamW, partial(torch.optim.SGD, momentum=0.9, nesterov=True)
        optimizers = [(adamw if config.optimizer == "adamw" else sgd)(groups, rate, fused=True)]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["share"] = group["lr"] / rate if rate else 0.0
    return optimizers
