"""Steps that all trainers share: device and processes, optimizer, averaging, resuming, logs, checkpoints."""

import json
import logging
import math
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from io import BytesIO
from itertools import count, islice
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import BadZipFile, ZipFile
from zlib import error as ZlibError

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map

from arena import CheckpointError, ConfigError
from arena.files import make_private, reason, write
from arena.go.game import Rules
from arena.go.planes import Encoder
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.network import Outputs
from trainers.export import export, manifest_of
from trainers.first_net import build, encoder_of
from trainers.games import Batch
from trainers.losses import Target, to_tensors
from trainers.optimizers import build_optimizers, learning_rate
from trainers.processes import pick_device, processes, rank, refuse_torchrun, stop_signals
from trainers.records import SplitRule
from trainers.settings import (
    METRICS_FILE,
    STATE_FILE,
    Loop,
    Supervised,
    is_first,
    portable_settings,
    settings_of_a_step,
    write_file,
)


def check(config: Supervised, heads: Sequence[str], results: Path) -> None:
    """Raise ConfigError or CheckpointError for invalid settings, or a net without one of ``heads``."""
    check_run(config)
    if config.test_split + config.validation_split >= 1:
        raise ConfigError("test_split and validation_split leave no games to learn from; lower them")
    with torch.no_grad():
        planes = torch.zeros(1, encoder_of(config, results).planes, config.size, config.size)
        outputs = build(config, results).eval()(planes)._asdict()
    if missing := [head for head in heads if outputs[head] is None]:
        raise ConfigError(f"the net {config.net} has no {' and no '.join(missing)}, which {config.trainer} trains")


def check_run(config: Loop) -> None:
    """Raise ConfigError for a missing name, end or device, and for games that can't be played in pairs."""
    if not config.name:
        raise ConfigError("a run needs a name; give --name")
    if not config.limits():
        raise ConfigError(f"a training run needs an end: give {' or '.join(config.ends())}")
    pick_device(config.device)
    shared, batch_size = int(os.environ.get("WORLD_SIZE", "1")), getattr(config, "batch_size", 0)
    if batch_size % shared:
        raise ConfigError(f"a batch of {batch_size} can't be shared by {shared} processes; choose a multiple")
    if isinstance(config, Supervised) and config.average and not config.start:
        raise ConfigError("average names nets for the mean with that of start; give --start, too")
    if config.trainer == "rl":
        refuse_torchrun("arena train rl learns in one process: start it without torchrun")
    if not isinstance(config, Supervised):
        for name in ("games", "eval_games"):
            if (count := getattr(config, name, 0)) % 2:
                raise ConfigError(f"{name} = {count} can't be played in pairs, with both colours; give an even number")


STATE_FORMAT = 5
MAX_GRAD_NORM = 10.0  # gradients are clipped at this norm; a sound run seldom has half of it
FINITE_EVERY = 32  # steps between two checks that weights and figures are finite
CALIBRATION = 256  # positions that set the int8 scales
PARITY_ROWS, QUICK_ROWS = 1024, 64  # positions on which an exported net, and a snapshot, is compared with torch
REMEMBERED = 50  # steps over which figures are averaged, about
READ_SECONDS = 0.5  # between two readings of the figures from a GPU, each of which waits for it
AHEAD = 4  # batches that are prepared in advance
SNAPSHOTS = 3  # snapshots of a run that are kept

MakeBatch = Callable[[int, int], Batch]
"""Takes the number of the first row in an endless order and how many rows; returns the batch."""

Batches = Generator[tuple[Tensor, Target], None, None]

Loss = Callable[[Tensor, Target], tuple[Tensor, Mapping[str, Tensor]]]
"""The loss of planes and their targets, and figures; see ``Run.update``."""

Measure = Callable[[str], Mapping[str, float]]
"""Measures the averaged net on a part, "validation" or "test", with which the names of the figures begin."""


def compile_network(network: nn.Module, config: Loop, device: torch.device, **options: Any) -> nn.Module:
    """The net, compiled by torch if the settings say so; without a C++ compiler it isn't, and a warning is logged."""
    usual = ("g++", "clang++", os.environ.get("CXX")) if device.type == "cpu" else ("gcc", "cc", os.environ.get("CC"))
    if config.compile and any(shutil.which(name) for name in usual if name):
        return torch.compile(network, **options)  # type: ignore[return-value]  # of a module it is one
    if config.compile:
        logging.getLogger(__name__).warning("compile = true needs a compiler, such as %s: the net isn't", usual[0])
    return network


@dataclass(frozen=True, slots=True)
class Origin:
    """A run's part of a manifest, and the positions by which nets are quantised and checked."""

    encoder: Encoder
    rules: Rules
    data: str  # the training data, in words
    planes: Callable[[int], np.ndarray]  # takes a number of positions B; planes (B, P, n, n)
    splits: Sequence[SplitRule] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run that learns from rows; ``loss`` and ``right`` are means of the last steps."""

    step: int
    rows: int
    rows_per_second: float
    loss: float
    right: float  # the share of the moves or points in the rows that the net predicted
    minutes_left: float | None  # None while that isn't known
    waiting: float = 0.0  # the share of the time spent waiting for rows


class Run:
    """One training run: the net, its averaged copy, the optimizers and the counters, saved together in a folder.

    Inside the context, SIGINT, SIGTERM and SIGHUP stop the run after the current step. A resumed run with a budget in
    rows or steps continues bit for bit on the same CPU with as many threads and processes.
    """

    def __init__(self, network: nn.Module, config: Loop, results: Path, **compiling: Any):
        self.network, self.config = network, config
        self.folder, self.saved = results / "training" / config.name, results / "checkpoints" / config.name
        self.device = next(network.parameters()).device
        self.averaged: Any = deepcopy(network).eval()
        self.optimizers = build_optimizers(network, config)
        self.model = compile_network(network, config, self.device, **compiling)
        if processes() > 1:
            self.model = DistributedDataParallel(self.model, static_graph=True)
        self.settings = settings_of_a_step(config)
        self.parent = Checkpoint.open(find(config.start, results)).identity if config.start else ""
        self.step_count = self.rows = self.games = 0
        self.stop_asked = self.stop_agreed = False
        self._sums: Tensor | None = None  # over processes, in the last step: requests to stop, and seconds
        self._averages, self._weights = (
            [part for part in net.state_dict().values() if part.is_floating_point()] for net in (self.averaged, network)
        )
        self._seconds_before = self._agreed_seconds = 0.0
        self._started = self._saved = self._kept = time.monotonic()
        self._counts_all = False  # whether the minutes of this sitting have begun
        self._names: tuple[str, ...] = ()
        self._last = self._means = torch.empty(0)  # figures, on the device: reading them waits for it
        self._pace = np.zeros(3)  # of a step: rows, seconds, seconds of waiting for rows
        self._steps_here = 0  # steps of this sitting
        self._ended = self._rate = self._waited = 0.0
        self._read, self._shown = -math.inf, {"loss": math.nan, "right": math.nan}
        self._logged = -1
        self._tensorboard: Any = None
        self._open = ExitStack()
        make_private(self.folder)

    def __enter__(self) -> "Run":
        self._open.enter_context(stop_signals(partial(setattr, self, "stop_asked", True)))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def seconds(self) -> float:
        """Training time so far, earlier sittings included, without the first step of each."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def done(self) -> float:
        """The spent share of the budget: 1 or more when the run is over."""
        spent = {"max_rows": self.rows, "max_minutes": self._agreed_seconds / 60}
        spent |= {"max_games": self.games, "max_iterations": self.step_count}
        return max((spent[name] / limit for name, limit in self.config.limits().items()), default=0.0)

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent or a process was asked to stop; true in all processes after the same step."""
        return self.stop_agreed or self.done >= 1

    @property
    def minutes_left(self) -> float | None:
        """Minutes left at the speed so far; None before the second step."""
        return max(0.0, self.seconds / 60 * (1 / self.done - 1)) if self.step_count > 1 and self.done else None

    # --- Steps ---

    def batches(self, make_batch: MakeBatch, batch_size: int) -> Batches:
        """This process's parts of the batches until the run is over, prepared in a thread."""
        share = batch_size // processes()
        starts = count(self.rows + rank() * share, batch_size)
        with closing(prefetch(make_batch, starts, share, self.device)) as ahead:
            while not self.is_over:
                asked = time.monotonic()
                part = next(ahead)
                self._waited = time.monotonic() - asked
                torch.manual_seed(self.config.seed + self.rows + share * rank())  # for dropout, as in a resumed run
                yield part

    def forward(self, planes: Tensor) -> Outputs:
        """Evaluate planes (B, P, n, n) with the net being trained, in bfloat16 if the settings say so; float32."""
        with torch.autocast(planes.device.type, torch.bfloat16, enabled=self.config.bf16):
            outputs: Outputs = self.model(planes)
        return outputs.to(torch.float32)

    def step(self, loss: Tensor, figures: Mapping[str, Tensor], rows: int) -> Progress:
        """Learn from the ``loss`` of this process's part of ``rows`` rows; see ``update``."""
        self.zero_grad()
        loss.backward()
        return self.update(rows, {"loss": loss, **figures})

    def zero_grad(self) -> None:
        """Begin a step: call ``backward`` on the loss of each of its parts next, then ``update``."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def update(self, rows: int, figures: Mapping[str, Tensor]) -> Progress:
        """Learn from the accumulated gradients. ``figures`` to log are scalars on the device with the same names in
        every step, among them "loss". Waits for a GPU only when figures are due."""
        self._rate = learning_rate(self.config, self.done)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._rate * group["share"]
        self.count_minutes()
        norm = torch.nn.utils.clip_grad_norm_(list(self.network.parameters()), MAX_GRAD_NORM, foreach=True)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step_count += 1
        self.rows += rows
        share = 1 - min(self.config.ema_decay, (1 + self.step_count) / (10 + self.step_count))
        with torch.no_grad():
            torch._foreach_lerp_(self._averages, self._weights, share)
        self._names = (*figures, "grad_norm")
        self._last = torch.stack([figure.detach().float() for figure in (*figures.values(), norm)])
        now = time.monotonic()
        if self._steps_here:  # a first step's seconds don't count
            self._means = self._means.lerp(self._last, 1 / min(self._steps_here + 1, REMEMBERED))
            pace = np.array([rows, now - self._ended, self._waited])
            self._pace += (pace - self._pace) / min(self._steps_here, REMEMBERED)
        else:
            self._means = self._last
        self._steps_here, self._ended = self._steps_here + 1, now
        if self.step_count % FINITE_EVERY == 0:
            self.require_finite()
        return self.progress()

    def is_finite(self) -> bool:
        """Whether all weights and the figures of the last steps are finite numbers. Waits for the device."""
        norm = torch.nn.utils.get_total_norm([*self._averages, *self._weights])
        return bool((norm + self._means.sum().to(self.device)).isfinite())

    def require_finite(self) -> None:
        """Raise ConfigError for weights or figures that aren't finite; such a state is never saved."""
        if not self.is_finite():
            words = f"{self.config.name}: the weights aren't finite after step {self.step_count:,}"
            raise ConfigError(f"{words}; start again with --new and a lower --learning-rate")

    def count_minutes(self) -> None:
        """Share the clock and requests to stop with all processes. The first call starts the minutes of a sitting:
        ``update`` calls at the end of the first step, which may compile the net. A run that plays first calls earlier.
        """
        if not self._counts_all:
            self._started, self._counts_all = time.monotonic(), True
        asked, seconds = float(self.stop_asked), self.seconds
        if processes() > 1:  # read a step later, or every process would wait for its GPU here
            sums = torch.tensor([asked, seconds], device=self.device)
            distributed.all_reduce(sums)
            read, self._sums = sums if self._sums is None else self._sums, sums
            asked, seconds = (read / processes()).tolist()
        self.stop_agreed, self._agreed_seconds = asked > 0, seconds

    def learn(
        self, make_batch: MakeBatch, loss: Loss, origin: Origin, measure: Measure, show: Callable[[Progress], None]
    ) -> Path:
        """Restore the run, learn from batches until it is over, and ``finish``. Validates every ``validate_every``
        rows, and saves snapshots and states when they are due."""
        config: Any = self.config  # a ``Supervised``
        size, every = config.batch_size, config.validate_every
        self.restore()
        with closing(self.batches(make_batch, size)) as batches:
            for planes, targets in batches:
                show(self.step(*loss(planes, targets), size))
                if self.rows // every > (self.rows - size) // every:
                    self.require_finite()
                    if is_first():
                        self.log(**self.figures(), **self.speed(), **measure("validation"))
                if self.snapshot_is_due():
                    self.save_snapshot(origin)
                self.save_when_due()
        return self.finish(origin, measure)

    # --- Figures ---

    def figures(self, last: bool = False) -> dict[str, float]:
        """The figures of ``update`` and the gradient's norm: means over the last steps, or of the last step."""
        return dict(zip(self._names, (self._last if last else self._means).cpu().tolist(), strict=True))

    def progress(self) -> Progress:
        """Progress, with means of the last steps."""
        if self.device.type == "cpu" or time.monotonic() - self._read > READ_SECONDS:
            self._shown |= self.figures()
            self._read = time.monotonic()
        speed, shown = self.speed(), (self._shown["loss"], self._shown["right"], self.minutes_left)
        return Progress(self.step_count, self.rows, speed["rows_per_second"], *shown, speed["waiting"])

    def speed(self) -> dict[str, float]:
        """Rows a second, and the share of time spent waiting for them, over the last steps."""
        rows, seconds, waited = self._pace.tolist()
        return {"rows_per_second": rows / max(1e-9, seconds), "waiting": min(1.0, waited / max(1e-9, seconds))}

    def log(self, **figures: float) -> None:
        """Append a line of JSON to the log beside the state; log to TensorBoard, too, if it is installed."""
        given = {name: figure for name, figure in figures.items() if math.isfinite(figure)}  # JSON has no NaN
        rounded = {name: float(f"{figure:.5g}") for name, figure in (given | {"learning_rate": self._rate}).items()}
        line = {"step": self.step_count, "rows": self.rows, "minutes": round(self.seconds / 60, 2), **rounded}
        with (self.folder / METRICS_FILE).open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")
        with suppress(ImportError):
            if self._tensorboard is None:
                from torch.utils.tensorboard import SummaryWriter

                self._tensorboard = SummaryWriter(self.folder, purge_step=self.step_count)  # of later steps, if resumed
                self._open.callback(self._tensorboard.close)
            for name, figure in rounded.items():
                self._tensorboard.add_scalar(name, figure, self.step_count)
        self._logged = self.step_count

    # --- Saving ---

    def save_when_due(self) -> None:
        """Save the state if it is due. Log the step's figures before, or a resumed run may lack them."""
        if self._is_due(self._saved, self.config.save_minutes):
            self.save()

    def _is_due(self, last: float, minutes: float) -> bool:
        return is_first() and time.monotonic() - last > 60 * minutes and self.is_finite()

    def save(self) -> Path:
        """Write everything that resuming needs to one file."""
        state = {
            "format": STATE_FORMAT,
            "settings": self.settings,
            "counters": {"step": self.step_count, "rows": self.rows, "seconds": self.seconds},
            "network": self.network.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        write_tensors(path := self.folder / STATE_FILE, state)
        self._saved = time.monotonic()
        return path

    def restore(self) -> bool:
        """Continue from the state in ``folder``, and write the settings beside it; False if there is no state. Raises
        CheckpointError, and writes nothing, if the state doesn't fit."""
        path = self.folder / STATE_FILE
        if is_there := path.exists():
            state = read_tensors(path)
            if not isinstance(state, dict) or state.get("format") != STATE_FORMAT:
                raise CheckpointError(f"{path}: the state is of another version; start again with --new")
            pairs = {key: (state["settings"].get(key, value), value) for key, value in self.settings.items()}
            if wrong := ", ".join(f"{key} = {old!r}, not {new!r}" for key, (old, new) in pairs.items() if old != new):
                words = f"this run has {wrong}; resume it with its settings, or start again with --new"
                raise CheckpointError(f"{path}: {words}")
            self.network.load_state_dict(state["network"])
            self.averaged.load_state_dict(state["averaged"])
            for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
            counters = state["counters"]
            self.step_count, self.rows = counters["step"], counters["rows"]
            self._seconds_before = self._agreed_seconds = counters["seconds"]
            self._rate = learning_rate(self.config, self.done)
            self._started = self._saved = self._kept = time.monotonic()
        if is_first():
            self._reopen_log()
            write_file(self.config, self.folder)
        return is_there

    def _reopen_log(self) -> None:
        """Remove damaged lines and lines of steps to be repeated from the log."""
        path, kept = self.folder / METRICS_FILE, list[str]()
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True) if path.exists() else []
        for line in lines:
            with suppress(ValueError, KeyError, TypeError):
                if line.endswith("\n") and (step := int(json.loads(line)["step"])) <= self.step_count:
                    kept.append(line)
                    self._logged = step
        if len(kept) < len(lines):
            write(path, "".join(kept), error=CheckpointError)

    def save_checkpoint(
        self, origin: Origin, metrics: Mapping[str, float] | None = None, name: str = "", calibrates: bool = True
    ) -> Path:
        """Export the averaged net; its folder. A snapshot has a ``name`` and is compared with torch on few positions.
        Without ``calibrates`` there is no int8."""
        network = deepcopy(self.averaged).cpu()
        manifest = manifest_of(
            network,
            name or self.config.name,
            origin.encoder,
            origin.rules,
            trainer=self.config.trainer,
            data=origin.data,
            rows=self.rows,
            minutes=round(self.seconds / 60, 1),
            settings=portable_settings(self.config),
            metrics={key: round(figure, 5) for key, figure in (metrics or {}).items()},
            splits=[asdict(rule) for rule in origin.splits],
            parent=self.parent,
        )
        planes = origin.planes(CALIBRATION * calibrates + (QUICK_ROWS if name else PARITY_ROWS))
        calibration, checked = (planes[:CALIBRATION], planes[CALIBRATION:]) if calibrates else (None, planes)
        return export(network, self.saved.with_name(manifest.name), manifest, calibration, checked).folder

    def snapshot_is_due(self) -> bool:
        return self._is_due(self._kept, self.config.snapshot_minutes or math.inf)

    def save_snapshot(self, origin: Origin, calibrates: bool = False) -> Path:
        """Save the averaged net as the checkpoint NAME-stepN, and remove old snapshots."""
        folder = self.save_checkpoint(origin, name=f"{self.config.name}-step{self.step_count}", calibrates=calibrates)
        forget_snapshots(self.saved, SNAPSHOTS)
        self._kept = time.monotonic()
        return folder

    def finish(self, origin: Origin, measure: Measure) -> Path:
        """Save the state and the checkpoint, with figures of a validation and, once the budget is spent, of the test;
        the checkpoint's folder."""
        self.require_finite()
        if not is_first():
            return self.saved
        self.save()
        figures = dict(measure("validation"))
        if self.done >= 1:
            if self._logged != self.step_count:  # the log ends with the run
                self.log(**self.figures(), **self.speed(), **figures)
            figures |= measure("test")
            forget_snapshots(self.saved)
        return self.save_checkpoint(origin, figures)


def prefetch(make_batch: MakeBatch, starts: Iterable[int], batch: int, device: torch.device) -> Batches:
    """Batches of ``batch`` rows that begin at ``starts``, on ``device``, prepared in a thread; to be closed."""
    with ThreadPoolExecutor(1, "rows") as pool:
        made = (pool.submit(lambda start: to_tensors(make_batch(start, batch), device), start) for start in starts)
        waiting = deque(islice(made, AHEAD))
        try:
            while waiting:
                ready = waiting.popleft().result()
                waiting.extend(islice(made, 1))
                yield ready
        finally:
            pool.shutdown(cancel_futures=True)


def forget_snapshots(folder: Path, kept: int = 0) -> None:
    """Remove all but the ``kept`` newest snapshots of the run ``folder``; checkpoints of other runs stay."""
    found = []
    for path in folder.parent.glob(f"{folder.name}-step*"):
        with suppress(CheckpointError):
            is_step = path.name.removeprefix(f"{folder.name}-step").isdecimal()
            if is_step and Checkpoint.open(path).manifest.settings.get("name") == folder.name:
                found.append((path.stat().st_mtime_ns, path))  # not by step: after --new, steps are smaller
    for _, path in sorted(found)[: max(0, len(found) - kept)]:
        shutil.rmtree(path)


def write_tensors(path: Path, content: Any) -> None:
    """Write tensors, which may be on a GPU. Raises CheckpointError."""
    buffer = BytesIO()  # writing to a full disk, torch raises a RuntimeError of its own
    torch.save(tree_map(lambda part: part.cpu() if isinstance(part, Tensor) else part, content), buffer)
    write(path, buffer.getvalue(), error=CheckpointError)


def read_tensors(path: Path) -> Any:
    """Read the tensors in a file. Compares the checksums of its zip, which torch doesn't. Raises CheckpointError."""
    try:
        with ZipFile(path) as file:
            if damaged := file.testzip():
                raise BadZipFile(f"{damaged} is damaged")
        return torch.load(path, "cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, UnpicklingError, BadZipFile, ZlibError, ValueError) as error:
        raise CheckpointError(f"{path}: can't be read ({reason(error)}); start again with --new") from error
