"""What trainers share that are told what a net should have said: the loop over rows, its processes, watching, resuming,
saving. What is learned, and from what, is a ``Lesson``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from arena import ConfigError
from arena.go.game import Rules
from arena.go.planes import Encoder, find_encoder
from bots.nets.catalogue import Net, named_network, usual_encoder
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.network import Answer
from trainers import data
from trainers.export import describe, export
from trainers.loop import STATE_FILE, Plan, Run, Workers, pick_device, prepare, to_tensors
from trainers.progress import Progress
from trainers.settings import ADJUSTABLE, Supervised, is_first, write_file
from trainers.start import start_from

CALIBRATION, PARITY_ROWS = 256, 1024
"""Positions that set the int8 scales, and positions on which the exported nets are compared."""

# --- What is learned ---

Ask = Callable[[data.Batch], Answer]
"""What a net, on the CPU, says of a batch."""

Answering = Callable[[Tensor], Answer]
"""What a net says of planes (B, P, n, n), in float32."""

Wanted = TypeVar("Wanted")
"""What a net should say of some rows: ``Target``, or more than that."""


class Weighed(NamedTuple):
    """What a step learns from."""

    loss: Tensor
    right: Tensor
    """The share that was foreseen; see ``Progress``."""
    parts: Mapping[str, Tensor] = MappingProxyType({})
    """What is logged of the loss beside: of each head, without its weight."""


Loss = Callable[[Answering, Tensor, Wanted], Weighed]
"""Asks the net about planes (B, P, n, n), and weighs what it says by what it should say."""


@dataclass(frozen=True, slots=True)
class Lesson(Generic[Wanted]):
    """What is learned, and from what."""

    trainer: str
    """The trainer's name, for the manifest."""
    komi: float
    """White's, for the manifest."""
    rows: Callable[[int], data.Source]
    """The endless order of training rows, by its seed."""
    kept: data.Source
    """Rows on which the exported nets are compared."""
    to_tensors: Callable[[data.Batch, torch.device], tuple[Tensor, Wanted]]
    """Planes (B, P, n, n) and what the net should say of them."""
    begin: Callable[[Net], Loss[Wanted]]
    """The loss for a net that is about to learn; what is not to learn of it is frozen."""
    watch: Callable[[Ask], Mapping[str, float]]
    """Figures of a net over validation positions, again and again."""
    test: Callable[[Ask], Mapping[str, float]]
    """Figures over test positions, once the budget is spent."""
    played: str = ""
    """What games were played for it, for the manifest."""


def named(prefix: str, figures: Mapping[str, float]) -> dict[str, float]:
    return {f"{prefix}_{name}": figure for name, figure in figures.items()}


# --- The settings ---


def check(config: Supervised, trainer: str, needs: Sequence[str], results: Path) -> None:
    """Raise ConfigError or CheckpointError for settings that can't be; the net must give the fields ``needs`` of
    ``Answer``."""
    Plan.of(config)
    if not config.name or Path(config.name).name != config.name or config.name.startswith("."):
        raise ConfigError(f"'{config.name}' can't name a checkpoint; a folder gets that name")
    encoder = encoder_of(config)
    if config.batch_size % config.processes:
        raise ConfigError(
            f"a batch of {config.batch_size} can't be shared by {config.processes} processes; choose a multiple"
        )
    pick_device(config.device, Workers())
    with torch.no_grad():
        said = build(config, results).eval()(torch.zeros(1, encoder.planes, config.size, config.size))._asdict()
    if missing := [head for head in needs if said[head] is None]:
        raise ConfigError(f"the net {config.net} has no {' and no '.join(missing)}, which {trainer} trains")


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


# --- Asking nets ---


def answering_with(network: Callable[[Tensor], Answer], config: Supervised) -> Answering:
    """Ask ``network`` as it is, computing as the settings say."""

    def answer(planes: Tensor) -> Answer:
        with torch.autocast(planes.device.type, torch.bfloat16, enabled=config.bf16):
            said = network(planes)
        return said.to(torch.float32)

    return answer


def ask_with(network: Net, device: torch.device) -> Ask:
    """Ask ``network``, which is on ``device``, in evaluation mode."""

    def ask(batch: data.Batch) -> Answer:
        network.eval()
        answer: Answer = network(to_tensors(batch, device)[0])
        return answer.to(torch.device("cpu"))

    return ask


def ask_start(config: Supervised, results: Path) -> Ask | None:
    """Ask the net that the run began with; None when it knew nothing."""
    if not config.start:
        return None
    device = pick_device(config.device, Workers())  # that of the first of the workers, who alone measures
    return ask_with(build(config, results).to(device), device)


# --- Training ---


def claim(config: Supervised, results: Path) -> None:
    """Keep the settings of a run that plays games first, so that it can be resumed by name while it does. Raises
    CheckpointError where a run of this name left a state that doesn't fit: before the games, not after them."""
    folder = results / "training" / config.name
    if not is_first():
        return
    if (folder / STATE_FILE).exists():
        open_run(config, build(config, results), results, Workers())
    else:
        write_file(config, folder)


def train(
    config: Supervised,
    results: Path,
    read: Callable[[], Lesson[Any]],
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Path:
    """Train, or go on where a run of this name stopped, and return the checkpoint's folder.

    ``read``, which every process calls, gives the lesson. Files go under ``results``: cache/, training/NAME/ and
    checkpoints/NAME/. Stopped by SIGINT, SIGTERM or SIGHUP it saves its state and a checkpoint without the test
    figures, and returns as always. Raises what ``read`` raises, and CheckpointError for a state that doesn't fit.
    """
    lesson = read()  # before other processes start: they find records in the cache
    with Workers.joined(config.processes, partial(join, config, results, read), config.device) as workers:
        learned = learn(config, results, lesson, workers, on_progress)
    if workers.rank:
        return results / "checkpoints" / config.name
    return save_checkpoint(config, results, lesson, learned)


def join(config: Supervised, results: Path, read: Callable[[], Lesson[Any]], workers: Workers) -> None:
    """What another process does that shares the batches of ``train``."""
    learn(config, results, read(), workers)


def open_run(config: Supervised, network: Net, results: Path, workers: Workers) -> Run:
    """The run of this name, as it was left or as it begins. Raises CheckpointError for a state that doesn't fit."""
    settings = {
        key: list(value) if isinstance(value, tuple) else value  # as the state has it
        for key, value in asdict(config).items()
        if key not in ADJUSTABLE
    }
    folder = results / "training" / config.name
    run = Run(network, Plan.of(config), folder, settings, workers, config.tensorboard)
    run.restore()
    return run


@dataclass(frozen=True, slots=True)
class Learned:
    """What a run came to: the averaged net, on the CPU, and its figures."""

    network: Net
    rows: int
    minutes: float
    metrics: Mapping[str, float]


def learn(
    config: Supervised,
    results: Path,
    lesson: Lesson[Any],
    workers: Workers,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Learned:
    """Train until the budget is spent or a signal comes; the first of the workers also watches, measures and saves."""
    device = prepare(config, workers)
    network, averaged = build(config, results).to(device), build(config, results).to(device)
    loss = lesson.begin(network.train())
    run = open_run(config, network, results, workers)
    if workers.rank == 0:
        write_file(config, run.folder)
    answering = answering_with(torch.compile(network) if config.compile else network, config)

    def ask() -> Ask:
        averaged.load_state_dict(run.averaged)
        return ask_with(averaged, device)

    if config.batch_size % workers.count:
        raise ConfigError(
            f"a batch of {config.batch_size} can't be shared by {workers.count} processes; choose a multiple"
        )
    share = config.batch_size // workers.count
    first = run.rows + workers.rank * share
    rows, ready = lesson.rows(config.seed), lambda batch: lesson.to_tensors(batch, device)
    ahead = data.Prefetch(rows, ready, first, share, config.batch_size)
    with run.stopping_on_signals(), ahead as batches:
        asked = time.monotonic()
        for planes, wanted in batches:
            waited = time.monotonic() - asked
            if run.is_over:
                break
            torch.manual_seed(config.seed + run.rows + share * workers.rank)  # for dropout, the same in a resumed run
            weighed = loss(answering, planes, wanted)
            run.forget()
            weighed.loss.backward()
            figures = {"loss": weighed.loss, "right": weighed.right, **weighed.parts}
            progress = run.update(config.batch_size, figures, waited)
            on_progress(progress)
            if (
                workers.rank == 0
                and run.rows // config.validate_every > (run.rows - config.batch_size) // config.validate_every
            ):
                run.log(
                    **run.figures(),
                    rows_per_second=progress.rows_per_second,
                    waiting=progress.waiting,
                    **lesson.watch(ask()),
                )
            run.save_when_due()
            asked = time.monotonic()
    metrics: dict[str, float] = {}
    if workers.rank == 0:
        run.save()
        metrics |= lesson.watch(ask())
        if run.done >= 1:
            metrics |= lesson.test(ask())
    return Learned(averaged.cpu(), run.rows, run.seconds / 60, metrics)


def save_checkpoint(config: Supervised, results: Path, lesson: Lesson[Any], learned: Learned) -> Path:
    """Export a net with all that is known of its training; its folder."""
    encoder = encoder_of(config)
    files, settings = [Path(path) for path in config.data], asdict(config)
    for paths in {"data", "earlier"} & settings.keys():
        settings[paths] = [Path(path).name for path in settings[paths]]
    sources = [lesson.played] if lesson.played else []
    if files:
        sources.append(f"{', '.join(file.name for file in files)}; sha256 {data.digest_of(files)}")
    for folder in {"start", "policy", "finisher"} & settings.keys():  # where it lies here is nobody else's business
        settings[folder] = Path(settings[folder]).name
    manifest = describe(
        learned.network,
        config.name,
        encoder,
        Rules.preset("cgos", config.size, lesson.komi),
        trainer=lesson.trainer,
        data="; ".join(sources),
        rows=learned.rows,
        minutes=round(learned.minutes, 1),
        settings=settings,
        metrics={name: round(figure, 5) for name, figure in learned.metrics.items()},
        parent=Checkpoint.open(find(config.start, results)).identity if config.start else "",
    )
    calibration = lesson.rows(config.seed + 1).batch(0, CALIBRATION)
    checked = lesson.kept.batch(0, PARITY_ROWS)
    saved = results / "checkpoints" / config.name
    return export(learned.network, saved, manifest, calibration.planes, checked.planes).folder
