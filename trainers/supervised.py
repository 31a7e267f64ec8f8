"""What trainers share that learn from records: reading, the loop over rows, saving. What is learned is a ``Lesson``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from arena import ConfigError
from arena.go.game import Rules
from arena.go.planes import Encoder, find_encoder
from bots.nets.catalogue import Net, named_network, usual_encoder
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.network import Answer
from trainers import data, dataset
from trainers.export import describe, export, start_from
from trainers.loop import Plan, Progress, Run, Target, Workers, keep_freed_memory, pick_device, to_tensors
from trainers.settings import ADJUSTABLE, Supervised, write_file

Ask = Callable[[data.Batch], Answer]
"""What a net, on the CPU, says of a batch."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is learned."""

    trainer: str
    """The trainer's name, for the manifest."""
    needs: tuple[str, ...]
    """The fields of ``Answer`` that a net must give to learn it."""
    loss: Callable[[Answer, Target], tuple[Tensor, float]]
    """The loss, and the share that was foreseen."""
    measure: Callable[[Ask, Iterable[data.Batch]], Mapping[str, float]]
    """Figures of a net over positions."""


def train(
    config: Supervised, lesson: Lesson, results: Path, on_progress: Callable[[Progress], None] = lambda _: None
) -> Path:
    """Train, or go on where a run of this name stopped, and return the checkpoint's folder.

    Files go under ``results``: cache/, training/NAME/ and checkpoints/NAME/. Stopped by SIGINT or SIGTERM it saves its
    state and a checkpoint without the test figures, and returns as always. Raises RecordError for records that can't be
    used, ConfigError for settings that can't be, and CheckpointError for a state that doesn't fit.
    """
    check(config, lesson.trainer, lesson.needs, results)
    split = dataset.read_split(config, results / "cache")  # before other processes start: they find it in the cache
    with Workers.joined(config.processes, partial(join, config, lesson, results)) as workers:
        learned = learn(config, lesson, results, split, workers, on_progress)
    if workers.rank:
        return results / "checkpoints" / config.name
    return save_checkpoint(config, lesson, results, split, learned)


def check(config: Supervised, trainer: str, needs: Sequence[str], results: Path) -> None:
    """Raise ConfigError or CheckpointError for settings that can't be; the net must give the fields ``needs`` of
    ``Answer``."""
    plan_of(config)
    if not config.name or Path(config.name).name != config.name or config.name.startswith("."):
        raise ConfigError(f"'{config.name}' can't name a checkpoint; a folder gets that name")
    encoder = encoder_of(config)
    if config.batch % config.processes:
        raise ConfigError(
            f"a batch of {config.batch} can't be shared by {config.processes} processes; choose a multiple"
        )
    pick_device(config.device, Workers())
    with torch.no_grad():
        said = build(config, results).eval()(torch.zeros(1, encoder.planes, config.size, config.size))._asdict()
    if missing := [head for head in needs if said[head] is None]:
        raise ConfigError(f"the net {config.net} has no {' and no '.join(missing)}, which {trainer} trains")


def plan_of(config: Supervised) -> Plan:
    """The part of the settings that the loop needs. Raises ConfigError."""
    return Plan(
        learning_rate=config.learning_rate,
        max_rows=config.max_rows,
        max_minutes=config.max_minutes,
        warm_up=config.warm_up,
        schedule=config.schedule,
        optimizer=config.optimizer,
        weight_decay=config.weight_decay,
        average=config.average,
        clip=config.clip,
        save_minutes=config.save_minutes,
    )


def encoder_of(config: Supervised) -> Encoder:
    """Raises ConfigError for an unknown net, CheckpointError for an unknown encoder."""
    return find_encoder(config.encoder or usual_encoder(config.net))


def build(config: Supervised, results: Path) -> Net:
    """The net to begin with: that of ``start``, or untrained and the same for the same seed. Raises CheckpointError."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        network = named_network(config.net, encoder_of(config).planes, config.size)
    if config.start:
        start_from(network, Checkpoint.open(find(config.start, results)))
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's hints


def join(config: Supervised, lesson: Lesson, results: Path, workers: Workers) -> None:
    """What another process does that shares the batches of ``train``."""
    learn(config, lesson, results, dataset.read_split(config, results / "cache"), workers)


@dataclass(frozen=True, slots=True)
class Learned:
    """What a run came to: the averaged net, on the CPU, and its figures."""

    network: Net
    rows: int
    minutes: float
    metrics: Mapping[str, float]


def ask_with(network: Net, device: torch.device) -> Ask:
    """Ask ``network`` in evaluation mode."""

    def ask(batch: data.Batch) -> Answer:
        network.eval()
        answer: Answer = network(to_tensors(batch, device)[0])
        return answer.to(torch.device("cpu"))

    return ask


def learn(
    config: Supervised,
    lesson: Lesson,
    results: Path,
    split: data.Split,
    workers: Workers,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Learned:
    """Train until the budget is spent or a signal comes; the first of the workers also watches, measures and saves."""
    encoder = encoder_of(config)
    device = pick_device(config.device, workers)
    keep_freed_memory()
    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed + 1000 * workers.rank)  # for dropout
    watched = data.some_games(split.validation, config.check_positions, config.seed)
    network, averaged = build(config, results).to(device), build(config, results).to(device)
    settings = {key: value for key, value in asdict(config).items() if key not in ADJUSTABLE}
    folder = results / "training" / config.name
    run = Run(network, plan_of(config), folder, settings, workers, config.tensorboard)
    run.restore()
    if workers.rank == 0:
        write_file(config, folder)
    answer_of = torch.compile(network) if config.compile else network

    def score(games: data.Games) -> Mapping[str, float]:
        averaged.load_state_dict(run.averaged)
        return lesson.measure(ask_with(averaged, device), data.in_order(games, encoder))

    share = config.batch // workers.count
    rows = data.Rows(split.train, encoder, config.seed, config.loaders)
    ready = partial(to_tensors, device=device)
    ahead = data.Prefetch(rows, ready, run.rows + workers.rank * share, share, config.batch)
    with run.stopping_on_signals(), ahead as batches:
        asked = time.monotonic()
        for planes, target in batches:
            waited = time.monotonic() - asked
            if run.is_over:
                break
            network.train()
            with torch.autocast(device.type, torch.bfloat16, enabled=config.bf16):
                answer: Answer = answer_of(planes)
            loss, right = lesson.loss(answer.to(torch.float32), target)
            progress = run.step(loss, config.batch, right, waited)
            on_progress(progress)
            if workers.rank == 0 and run.rows // config.check_every > (run.rows - config.batch) // config.check_every:
                figures = {f"validation_{key}": round(value, 4) for key, value in score(watched).items()}
                run.log(
                    loss=round(progress.loss, 4),
                    right=round(progress.right, 4),
                    rows_per_second=round(progress.rows_per_second, 1),
                    waiting=round(progress.waiting, 4),
                    **figures,
                )
            asked = time.monotonic()
    metrics: dict[str, float] = {}
    if workers.rank == 0:
        run.save()
        metrics = {f"validation_{key}": value for key, value in score(watched).items()}
        if run.done >= 1 and len(split.test):
            test = data.some_games(split.test, config.test_positions, config.seed)
            metrics |= {f"test_{key}": value for key, value in score(test).items()}
    return Learned(averaged.cpu(), run.rows, run.seconds / 60, metrics)


def save_checkpoint(config: Supervised, lesson: Lesson, results: Path, split: data.Split, learned: Learned) -> Path:
    """Export a net with all that is known of its training; its folder."""
    encoder = encoder_of(config)
    files = [Path(path) for path in config.records]
    manifest = describe(
        learned.network,
        config.name,
        encoder,
        Rules.preset("cgos", config.size, float(np.median(split.train.komis))),
        trainer=lesson.trainer,
        data=f"{', '.join(file.name for file in files)}; sha256 {data.digest_of(files)}",
        rows=learned.rows,
        minutes=round(learned.minutes, 1),
        settings={**asdict(config), "records": [file.name for file in files], "start": Path(config.start).name},
        metrics={key: round(value, 5) for key, value in learned.metrics.items()},
        parent=Checkpoint.open(find(config.start, results)).identity if config.start else "",
    )
    checked = split.validation if len(split.validation) else split.train
    calibration = data.Rows(split.train, encoder, config.seed + 1).batch(0, CALIBRATION)
    check = data.Rows(checked, encoder, config.seed + 1).batch(0, PARITY_ROWS)
    folder = results / "checkpoints" / config.name
    return export(learned.network, folder, manifest, calibration.planes, check.planes).folder


CALIBRATION, PARITY_ROWS = 256, 1024
"""Positions that set the int8 scales, and positions on which the exported nets are compared."""
