"""Supervised learning: a net learns the moves and the outcomes of recorded games.

Learns the next move (cross entropy, as AlphaGo's SL policy: Silver et al. 2016, "Mastering the game of Go with deep
neural networks and tree search", Methods) and, if the record and the net have them, the result, the owner of each point
and the score (Wu 2019, "Accelerating self-play learning in Go", section 4.2).
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from torch import Tensor

from arena.go.game import Rules
from trainers import metrics
from trainers.first_net import build, encoder_of, inherited_rules
from trainers.games import Rows
from trainers.losses import Target, loss
from trainers.processes import join_processes
from trainers.records import read_split
from trainers.settings import SL as Config
from trainers.train import Origin, Progress, Run, check


def train(config: Config, results: Path, on_progress: Callable[[Progress], None] = lambda _: None) -> Path:
    """Train or resume a run; returns the checkpoint's folder.

    Writes cache/, training/NAME/ and checkpoints/NAME/ under ``results``. Stopped by SIGINT, SIGTERM or SIGHUP it saves
    its state and a checkpoint without test figures. Raises ConfigError, RecordError or CheckpointError.
    """
    check(config, ("policy",), results)
    encoder, network = encoder_of(config, results), build(config, results)
    split = read_split(config, results / "cache", inherited_rules(config, results))
    rows = Rows(split.train, encoder, config.seed, config.num_workers)
    rules = Rules.preset("cgos", config.size, split.komi)
    origin = Origin(encoder, rules, split.source, split.planes(encoder, config.seed), split.rules)

    with join_processes(config) as device, Run(network.to(device).train(), config, results) as run:
        measure = partial(metrics.of_records, run.averaged, encoder, split, seed=config.seed)

        def loss_of(planes: Tensor, target: Target) -> tuple[Tensor, Mapping[str, Tensor]]:
            losses = loss(run.forward(planes), target)
            return losses.total(config), losses.figures()

        return run.learn(rows.batch, loss_of, origin, measure, on_progress)
