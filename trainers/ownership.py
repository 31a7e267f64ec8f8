"""An ownership net: the predicted owner of each point at the end of the game, from any position of it.

After Gilmer's GoCNN (2016), which learned it from the final positions of scored games by squared error. A game whose
recorded margin isn't that of its last position teaches nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from arena.go.game import Rules
from bots.nets.network import Outputs
from trainers import metrics
from trainers.first_net import build, encoder_of, inherited_rules
from trainers.games import Rows
from trainers.losses import Target
from trainers.processes import join_processes
from trainers.records import read_split
from trainers.settings import Ownership as Config
from trainers.train import Origin, Progress, Run, check


def loss(outputs: Outputs, target: Target) -> tuple[Tensor, dict[str, Tensor]]:
    """The mean over points and scored rows of the squared error of the probability that a point will be the side to
    move's; and the share of owned points that were predicted. A point of no one's is half of each side's."""
    assert outputs.ownership is not None  # what ``check`` makes sure of
    scored = ~target.scores.isnan()
    shares = (target.owners.to(outputs.ownership.dtype) + 1) / 2
    by_point = (outputs.ownership.sigmoid() - shares) ** 2
    owned = target.owners != 0
    right = ((outputs.ownership.detach() > 0) == (target.owners > 0)) & owned
    error = (by_point.mean(1) * scored).sum() / scored.sum().clamp(min=1)
    return error, {"right": right.sum() / owned.sum().clamp(min=1)}


def train(config: Config, results: Path, on_progress: Callable[[Progress], None] = lambda _: None) -> Path:
    """Train, or go on where a run of this name stopped, and return the checkpoint's folder; as ``sl.train``."""
    check(config, ("ownership",), results)
    encoder, network = encoder_of(config, results), build(config, results)
    split = read_split(config, results / "cache", inherited_rules(config, results))
    rows = Rows(split.train, encoder, config.seed, config.num_workers)
    for name, parameter in network.named_parameters():  # torch shares gradients of what gets some in every step
        parameter.requires_grad_(name.partition(".")[0] not in ("policy", "value", "score"))
    rules = Rules.preset("cgos", config.size, split.komi)
    origin = Origin(encoder, rules, split.source, split.planes(encoder, config.seed), split.rules)

    with join_processes(config) as device, Run(network.to(device).train(), config, results) as run:

        def measure(part: str) -> dict[str, float]:
            found = metrics.of_records(run.averaged, encoder, split, part, config.seed)
            names = {"positions": "scored", "ownership": "ownership", "brier": "brier"}
            pairs = ((f"{part}_{name}", f"{part}_{known}") for name, known in names.items())
            return {name: found[known] for name, known in pairs if known in found}

        return run.learn(rows.batch, lambda *row: loss(run.forward(row[0]), row[1]), origin, measure, on_progress)
