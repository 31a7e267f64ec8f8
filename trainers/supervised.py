"""What trainers share that are told what a net should have said: the loop over rows, its processes, watching, resuming,
saving. What is learned, and from what, is a ``Lesson``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from arena import ConfigError
from arena.go.game import Rules
from arena.go.planes import Encoder, find_encoder
from bots.nets.catalogue import Net, named_network, usual_encoder
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.network import SCORE_UNIT, Answer
from trainers import data
from trainers.export import SNAPSHOTS, describe, export, forget_snapshots
from trainers.loop import Run
from trainers.losses import to_tensors
from trainers.optimizers import Plan
from trainers.progress import Progress
from trainers.settings import ADJUSTABLE, STATE_FILE, Supervised, Zero, is_first, write_file
from trainers.tracking import profiled, tracked
from trainers.train import start_from
from trainers.workers import Workers, compiled, pick_device, prepare

CALIBRATION, PARITY_ROWS, QUICK_ROWS = 256, 1024, 64
"""Positions that set the int8 scales, and positions on which exported nets are compared: of a run that goes on few."""

# --- What is learned ---

Ask = Callable[[data.Batch], Answer]
"""What a net, on the CPU, says of a batch."""

Answering = Callable[[Tensor], Answer]
"""What a net says of planes (B, P, n, n), in float32."""

Taught = TypeVar("Taught", bound=Supervised)

Wanted = TypeVar("Wanted")
"""What a net should say of some rows: ``Target``, or more than that."""


class Weighed(NamedTuple):
    """What a step learns from."""

    loss: Tensor
    right: Tensor
    """The share that was predicted; see ``Progress``."""
    parts: Mapping[str, Tensor] = MappingProxyType({})
    """What is logged of the loss beside: of each head, without its weight."""

    def figures(self) -> dict[str, Tensor]:
        """All of it by name."""
        return {"loss": self.loss, "right": self.right, **self.parts}


Loss = Callable[[Answering, Tensor, Wanted], Weighed]
"""Evaluates planes (B, P, n, n) with the net, and computes the loss against the targets."""


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
    splits: tuple[data.SplitRule, ...] = ()
    """By what its games are apart, for the manifest."""


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


def with_net_named(config: Taught, results: Path) -> Taught:
    """The settings with the net that they mean: where they name none, one of the shape of ``start``. Raises
    ConfigError, CheckpointError."""
    if config.net:
        return config
    if not config.start:
        raise ConfigError("without start there is no net; give --set net=arena-BLOCKSxCHANNELS")
    shape = Checkpoint.open(find(config.start, results)).manifest.network
    return replace(config, net=f"arena-{shape.get('blocks', 0)}x{shape.get('channels', 0)}")


def encoder_of(config: Supervised | Zero) -> Encoder:
    """Raises ConfigError for an unknown net, CheckpointError for an unknown encoder."""
    return find_encoder(config.encoder or usual_encoder(config.net))


def build(config: Supervised | Zero, results: Path) -> Net:
    """The net to begin with: that of ``start``, or untrained and the same for the same seed. Raises CheckpointError."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        network = named_network(config.net, encoder_of(config).planes, config.size)
    if config.start:
        start_from(network, Checkpoint.open(find(config.start, results)))
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's hints


# --- Asking nets ---


def answering_with(network: Callable[[Tensor], Answer], config: Supervised | Zero) -> Answering:
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
    """Evaluate the net that the run started from; None for random weights."""
    if not config.start:
        return None
    device = pick_device(config.device, Workers())  # that of the first of the workers, who alone measures
    return ask_with(build(config, results).to(device), device)


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


def figures_of(config: Supervised, split: data.Split, part: str, ask: Ask, measure: Any) -> dict[str, float]:
    """The figures of a net over whole games of ``part`` (validation, test), which their names begin with."""
    count = config.validation_positions if part == "validation" else config.test_positions
    some = data.some_games(getattr(split, part), count, config.seed)
    return named(part, measure(ask, data.in_order(some, encoder_of(config))))


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
    saved = results / "checkpoints" / config.name
    if workers.rank:
        return saved
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
    run = Run(network, Plan.of(config), results / "training" / config.name, settings, workers)
    run.restore()
    return run


@dataclass(frozen=True, slots=True)
class Learned:
    """What a run came to: the averaged net, on the CPU, and its figures."""

    network: Net
    rows: int
    minutes: float
    metrics: Mapping[str, float]


def gradients(loss: Callable[[Tensor, Any], Weighed], parts: Sequence[tuple[Tensor, Any]]) -> dict[str, Tensor]:
    """Add up the gradients of the parts of a batch; the means of what is logged of them."""
    rows, figures = sum(len(planes) for planes, _ in parts), dict[str, Tensor]()
    for planes, wanted in parts:
        share = len(planes) / rows
        weighed = loss(planes, wanted)
        (weighed.loss if share == 1 else weighed.loss * share).backward()
        for name, figure in weighed.figures().items():
            part = figure.detach() if share == 1 else figure.detach() * share
            figures[name] = figures[name] + part if name in figures else part
    return figures


class Learning:
    """What the first of the workers does beside the steps: it watches the averaged net, and keeps it for players."""

    def __init__(self, config: Supervised, results: Path, lesson: Lesson[Any], run: Run, averaged: Net):
        self._config, self._results, self._lesson = config, results, lesson
        self._run, self._averaged = run, averaged
        self._kept = time.monotonic()

    def ask(self) -> Ask:
        """Ask the averaged net, as it is now."""
        self._averaged.load_state_dict(self._run.averaged)
        return ask_with(self._averaged, self._run.device)

    def learned(self, metrics: Mapping[str, float]) -> Learned:
        """What the run came to so far."""
        self._averaged.load_state_dict(self._run.averaged)
        return Learned(deepcopy(self._averaged).cpu(), self._run.rows, self._run.seconds / 60, metrics)

    def watch(self, progress: Progress) -> Mapping[str, float]:
        """Measure the net on validation positions, and log it; its figures."""
        figures = self._lesson.watch(self.ask())
        speed = {"rows_per_second": progress.rows_per_second, "waiting": progress.waiting}
        self._run.log(**self._run.figures(), **speed, **figures)
        return figures

    def keep(self) -> None:
        """Keep the net as a snapshot, when it is time."""
        config = self._config
        if config.snapshot_minutes and time.monotonic() - self._kept > 60 * config.snapshot_minutes:
            name = f"{config.name}-step{self._run.step_count}"
            save_checkpoint(config, self._results, self._lesson, self.learned({}), name, False)
            forget_snapshots(self._results / "checkpoints" / config.name, SNAPSHOTS)
            self._kept = time.monotonic()


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
    answering = answering_with(compiled(network, config, device), config)
    if config.batch_size % workers.count:
        raise ConfigError(
            f"a batch of {config.batch_size} can't be shared by {workers.count} processes; choose a multiple"
        )
    share = config.batch_size // workers.count

    def ready(batch: data.Batch) -> list[tuple[Tensor, Any]]:
        return [lesson.to_tensors(part, device) for part in data.parted(batch, config.micro_batch_size)]

    with ExitStack() as stack:
        run = open_run(config, network, results, workers)
        run.told = stack.enter_context(tracked(config, run.folder, workers))
        learning = Learning(config, results, lesson, run, averaged)
        if workers.rank == 0:
            write_file(config, run.folder)
        rows, first = lesson.rows(config.seed), run.rows + workers.rank * share
        stack.enter_context(run.stopping_on_signals())
        batches = stack.enter_context(data.Prefetch(rows, ready, first, share, config.batch_size))
        profile_step = stack.enter_context(profiled(config.profile, run.folder))
        asked = time.monotonic()
        for parts in batches:
            waited = time.monotonic() - asked
            if run.is_over:
                break
            torch.manual_seed(config.seed + run.rows + share * workers.rank)  # for dropout, the same in a resumed run
            run.forget()
            figures = gradients(partial(loss, answering), parts)
            progress = run.update(config.batch_size, figures, waited)
            on_progress(progress)
            profile_step()
            if workers.rank == 0:
                if run.rows // config.validate_every > (run.rows - config.batch_size) // config.validate_every:
                    learning.watch(progress)
                learning.keep()
                run.save_when_due()
            asked = time.monotonic()
    metrics: dict[str, float] = {}
    if workers.rank == 0:
        run.save()
        is_done = run.done >= 1
        if is_done and run.logged("step")[-1:] != [run.step_count]:  # the log ends with the run
            metrics |= learning.watch(run.progress())
        else:
            metrics |= lesson.watch(learning.ask())
        if is_done:
            metrics |= lesson.test(learning.ask())
            forget_snapshots(results / "checkpoints" / config.name)
    return learning.learned(metrics)


def save_checkpoint(
    config: Supervised, results: Path, lesson: Lesson[Any], learned: Learned, name: str = "", final: bool = True
) -> Path:
    """Export a net with all that is known of its training; its folder. Without ``final``, quickly: in fp32 alone."""
    encoder, name = encoder_of(config), name or config.name
    files, settings = [Path(path) for path in config.data], asdict(config)
    for paths in {"data", "earlier"} & settings.keys():
        settings[paths] = [Path(path).name for path in settings[paths]]
    sources = [lesson.played] if lesson.played else []
    if files:
        digest = f"; sha256 {data.digest_of(files)}" if final else ""
        sources.append(f"{', '.join(file.name for file in files)}{digest}")
    for folder in {"start", "policy", "finisher"} & settings.keys():  # where it lies here is nobody else's business
        settings[folder] = Path(settings[folder]).name
    manifest = describe(
        learned.network,
        name,
        encoder,
        Rules.preset("cgos", config.size, lesson.komi),
        trainer=lesson.trainer,
        data="; ".join(sources),
        rows=learned.rows,
        minutes=round(learned.minutes, 1),
        settings=settings,
        metrics={name: round(figure, 5) for name, figure in learned.metrics.items()},
        splits=[asdict(rule) for rule in lesson.splits],
        parent=Checkpoint.open(find(config.start, results)).identity if config.start else "",
    )
    planes = calibrating(lesson, config, final)
    return export(learned.network, results / "checkpoints" / name, manifest, *planes).folder


def calibrating(lesson: Lesson[Any], config: Supervised, final: bool) -> tuple[np.ndarray | None, np.ndarray]:
    """Planes by which an export is quantised, and by which it is compared; without ``final`` few, and none in int8."""
    checked = lesson.kept.batch(0, PARITY_ROWS if final else QUICK_ROWS).planes
    return lesson.kept.batch(PARITY_ROWS, CALIBRATION).planes if final else None, checked
