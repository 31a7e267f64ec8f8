"""An ownership net: predicts the owner of each point at the end of the game.

After Gilmer's GoCNN (2016): squared error to the final positions of scored games. Games are left out if the recorded
margin isn't that of their last position.
"""

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
    """The mean squared error, over points and scored rows, of the probability that a point will belong to the side to
    move (a neutral point counts 1/2), and the share of owned points that were predicted."""
    assert outputs.ownership is not None  # ensured by ``check``
    scored = ~target.scores.isnan()
    shares = (target.owners.to(outputs.ownership.dtype) + 1) / 2
    by_point = (outputs.ownership.sigmoid() - shares) ** 2
    owned = target.owners != 0
    right = ((outputs.ownership.detach() > 0) == (target.owners > 0)) & owned
    error = (by_point.mean(1) * scored).sum() / scored.sum().clamp(min=1)
    return error, {"right": right.sum() / owned.sum().clamp(min=1)}


def train(config: Config, results: Path, on_progress: Callable[[Progress], None] = lambda _: None) -> Path:
    """Train or resume a run as ``sl.train``."""
    check(config, ("ownership",), results)
    encoder, network = encoder_of(config, results), build(config, results)
    split = read_split(config, results / "cache", inherited_rules(config, results))
    rows = Rows(split.train, encoder, config.seed, config.num_workers)
    for name, parameter in network.named_parameters():  # of several processes, torch expects gradients for all others
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
