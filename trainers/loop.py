"""What trainers share: optimizers, schedule, averaged weights, metrics, resuming, stopping. No losses, no printing."""

from __future__ import annotations

import ctypes
import json
import math
import multiprocessing
import os
import resource
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised
from torch import Tensor, distributed, nn

from arena import CheckpointError, ConfigError, UserError
from arena.events.worker import end_with_parent
from arena.files import replacing, scratch, write
from trainers.data import Batch
from trainers.progress import Progress
from trainers.settings import METRICS_FILE, STATE_FILE, Loop

STATE_FORMAT = "1"
TRACE_FILE = "trace.json.gz"

WARM = 5
"""Steps before those that are profiled."""

PATIENCE = timedelta(minutes=5)
"""How long a process waits for the others before it takes them for dead."""


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
    """How the learning rate falls: cosine, linear or constant."""
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
        if self.lr_schedule not in ("cosine", "linear", "constant"):
            raise ConfigError(f"unknown schedule '{self.lr_schedule}'; there are cosine, linear, constant")

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
        falls = {"cosine": 0.5 * (1 + math.cos(math.pi * turn)), "linear": 1 - turn, "constant": 1.0}
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
    """The optimizers for all weights; the first learning rate of each group is kept as ``share`` of the plan's."""
    matrices = [p for p in network.parameters() if p.ndim > 1 and p.shape[0] > 3]
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


def keep_freed_memory() -> None:
    """Ask glibc to keep big freed blocks: torch frees and takes the same activations at every step, and the page faults
    of taking them anew cost a third of a step on a CPU. Does nothing where there is no glibc."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
    except (OSError, AttributeError):
        return


def prepare(config: Loop, workers: Workers) -> torch.device:
    """The device of this process, set up to learn on. Raises ConfigError when it isn't there."""
    device = pick_device(config.device, workers)
    keep_freed_memory()
    torch.set_num_threads(config.threads)
    if device.type != "cpu":
        torch.set_float32_matmul_precision("high")  # TF32
        torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    return device


def under_torchrun() -> bool:
    return "WORLD_SIZE" in os.environ and "RANK" in os.environ


def refuse_torchrun(trainer: str) -> None:
    """Raise ConfigError under torchrun, for a trainer that learns in one process."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(f"arena train {trainer} learns in one process: start it without torchrun")


def refuse_to_play_under_torchrun(games: int) -> None:
    """Raise ConfigError under torchrun, where each process would play the games that are missing."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(f"{games:,} games are still to be played: begin without torchrun, and with it once they are")


@dataclass(frozen=True, slots=True)
class Workers:
    """The processes that train one net together, each on its part of every batch, or just this one."""

    rank: int = 0
    count: int = 1

    @classmethod
    @contextmanager
    def joined(cls, processes: int, work: Callable[[Workers], object], device: str = "auto") -> Iterator[Workers]:
        """Join the processes that torchrun started (it tells by RANK and WORLD_SIZE); else start all but this one of
        ``processes``, each of which runs ``work``. Part at the end, and then they have ended too."""
        if under_torchrun():
            chosen = pick_device(device, cls(int(os.environ["RANK"])))
            if chosen.type == "cuda":
                torch.cuda.set_device(chosen)
            distributed.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
            try:
                distributed.barrier()  # the first may have deleted what an earlier run left
                yield cls(distributed.get_rank(), distributed.get_world_size())
            finally:
                distributed.destroy_process_group()
            return
        if processes == 1:
            yield cls()
            return
        with tempfile.TemporaryDirectory(dir=scratch()) as folder:
            meeting = (Path(folder) / "meeting").as_uri()
            spawned = multiprocessing.get_context("spawn")
            here, there = spawned.Pipe(duplex=False)
            others = [
                spawned.Process(target=_help, args=(work, cls(rank, processes), meeting, there), daemon=True)
                for rank in range(1, processes)
            ]
            for other in others:
                other.start()
            try:
                _await(others, here)
                distributed.init_process_group("gloo", meeting, PATIENCE, rank=0, world_size=processes)
                yield cls(0, processes)
                for other in others:
                    other.join()
            except RuntimeError as error:
                _refuse_dead(others, error)
                raise
            finally:
                for other in others:
                    other.kill()
                if distributed.is_initialized():
                    distributed.destroy_process_group()

    def mean(self, tensors: list[Tensor], figures: list[float]) -> Tensor:
        """Put the mean over all processes into ``tensors``, in one exchange, and return that of ``figures``, on their
        device."""
        if self.count == 1:
            return torch.tensor(figures, dtype=torch.float64)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors] + [tensors[0].new_tensor(figures)])
        distributed.all_reduce(flat)
        flat /= self.count
        parts = flat.split([tensor.numel() for tensor in tensors] + [len(figures)])
        for tensor, part in zip(tensors, parts[:-1], strict=True):
            tensor.copy_(part.view(tensor.shape))
        return parts[-1]


def _await(others: Sequence[BaseProcess], here: Connection) -> None:
    """Wait until each of the others has said that it is there; to meet, they would wait for a dead one for minutes."""
    for _ in others:
        if here not in wait([here, *(other.sentinel for other in others)]):
            _refuse_dead(others)
        here.recv()


def _refuse_dead(others: Sequence[BaseProcess], cause: Exception | None = None) -> None:
    """Raise UserError where one of the others didn't end well, or is just about to."""
    for other in others:
        other.join(1.0)
        if other.exitcode:
            how = f"by signal {-other.exitcode}" if other.exitcode < 0 else f"with exit code {other.exitcode}"
            raise UserError(f"a process of this run ended {how}; the same command resumes the run") from cause


def _help(work: Callable[[Workers], object], workers: Workers, meeting: str, there: Connection) -> None:
    end_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # whoever started this process hears it, too
        signal.signal(number, signal.SIG_IGN)
    there.send(True)
    distributed.init_process_group("gloo", meeting, PATIENCE, rank=workers.rank, world_size=workers.count)
    try:
        work(workers)
    finally:
        distributed.destroy_process_group()


GPU = "cuda"
"""What torch calls the devices that trainers learn on where there are any; a test names a pretended one."""


def pick_device(name: str, workers: Workers) -> torch.device:
    """The device ``name`` (auto, cpu, cuda) means for this process. Raises ConfigError when it isn't there."""
    if name not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"unknown device '{name}'; there are auto, cpu, cuda")
    devices = torch.get_device_module(GPU)
    if name == "cpu" or (name == "auto" and not devices.is_available()):
        return torch.device("cpu")
    if not devices.is_available():
        raise ConfigError("device cuda: torch sees none; use device cpu")
    return torch.device(GPU, workers.rank % devices.device_count())


class Target(NamedTuple):
    """What a net should have said; see ``Batch``."""

    moves: Tensor  # (B,) int64
    results: Tensor  # (B,) int64
    owners: Tensor  # (B, n²) int8
    scores: Tensor  # (B,) float32


def moved(array: np.ndarray, device: torch.device) -> Tensor:
    """The same numbers on ``device``; through pinned memory to a GPU, which nobody waits for."""
    tensor = torch.from_numpy(array)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def to_tensors(batch: Batch, device: torch.device) -> tuple[Tensor, Target]:
    """Planes (B, P, n, n) and what the net should say of them, on ``device``."""
    planes = moved(batch.planes, device).to(memory_format=torch.channels_last)
    return planes, Target(*(moved(part, device) for part in (batch.moves, batch.results, batch.owners, batch.scores)))


def memory_in_use(device: torch.device) -> float:
    """The most memory so far, in MB: that of the device, or of this process where it learns on the processor."""
    of_device = getattr(torch.get_device_module(device), "max_memory_allocated", None)
    return of_device(device) / 1e6 if of_device else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


@dataclass(frozen=True, slots=True)
class Step:
    """What is remembered of a step."""

    figures: Tensor  # (names,), on the device: reading them waits for it
    rows: int
    ended: float
    waited: float


REMEMBERED = 50
"""Steps whose mean figures are shown."""

READ_SECONDS = 0.5
"""How often the figures are read from a GPU: meanwhile it is ahead of what is shown."""


class Run:
    """One training run: the net, its averaged twin, the optimizers and the counters, saved together in ``folder``.

    A run that was stopped and is resumed goes on bit for bit as if it hadn't been, on the same CPU with as many threads
    and processes, when its budget is in rows (with a budget in minutes the learning rate follows the clock).
    """

    def __init__(
        self,
        network: nn.Module,
        plan: Plan,
        folder: Path,
        settings: Mapping[str, Any] | None = None,
        workers: Workers = Workers(),
    ):
        self.network = network
        self.workers = workers
        self.plan = plan
        self.folder = folder
        self.settings = dict(settings or {})
        self.step_count = 0
        self.rows = 0
        self.stop_asked = False
        self._stop_agreed = False
        self._said: Tensor | None = None
        self.optimizers = build_optimizers(network, plan)
        self.averaged = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
        pairs = [(self.averaged[name], tensor) for name, tensor in network.state_dict().items()]
        self._numbers = [pair for pair in pairs if pair[0].is_floating_point()]
        self._counts = [pair for pair in pairs if not pair[0].is_floating_point()]
        self._seconds_before = self._agreed_seconds = 0.0
        self._started = time.monotonic()
        self._first_of_sitting = True
        self._saved = self._started
        self._recent: deque[Step] = deque(maxlen=REMEMBERED)
        self._names: tuple[str, ...] = ()
        self._rate = 0.0
        self._read, self._shown = -math.inf, {"loss": math.nan, "right": math.nan}
        folder.mkdir(parents=True, exist_ok=True)
        self.told: Sequence[Tell] = ()

    @property
    def seconds(self) -> float:
        """Training time so far, earlier sittings included, without the first step of each."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def done(self) -> float:
        """The share of the budget that is spent."""
        return self.plan.done(self.rows, self._agreed_seconds, self.step_count)

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent or a process was asked to stop; all processes see it after the same step."""
        return self._stop_agreed or self.done >= 1

    @property
    def device(self) -> torch.device:
        """Where the net is."""
        return next(self.network.parameters()).device

    def step(self, loss: Tensor, rows: int) -> Progress:
        """Learn from ``loss``, which this process's part of ``rows`` rows gave."""
        self.forget()
        loss.backward()
        return self.update(rows, {"loss": loss})

    def forget(self) -> None:
        """Forget the last gradients. A step whose rows don't fit into memory at once is this, then ``backward`` of the
        loss of each part, then ``update``."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def update(self, rows: int, figures: Mapping[str, Tensor], waited: float = 0.0) -> Progress:
        """Learn from the gradients that there are. ``figures`` are scalars on the device, always the same ones: "loss"
        and, where something is foreseen, "right", and what else is to be logged. Nothing here waits for a GPU unless
        figures are due."""
        self._rate = self.plan.rate(self.done)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._rate * group["share"]
        shared = [p.grad for p in self.network.parameters() if p.grad is not None]
        shared += [buffer for buffer in self.network.buffers() if buffer.is_floating_point()]
        if self._first_of_sitting:  # it may have compiled the net for a minute, which would be most of the warmup
            self._first_of_sitting, self._started = False, time.monotonic()
        said = self.workers.mean(shared, [float(self.stop_asked), self.seconds])
        if self.workers.count > 1:  # read a step later, or every process would wait for its GPU here
            said, self._said = said if self._said is None else self._said, said
        asked, self._agreed_seconds = said.cpu().tolist()
        self._stop_agreed = asked > 0
        parameters = list(self.network.parameters())
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.plan.max_grad_norm, foreach=True)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step_count += 1
        self.rows += rows
        self._average()
        self._names = (*figures, "grad_norm")
        told = torch.stack([figure.detach().float() for figure in (*figures.values(), norm)])
        self._recent.append(Step(told, rows, time.monotonic(), waited))
        return self.progress()

    @torch.no_grad()
    def _average(self) -> None:
        share = 1 - min(self.plan.ema_decay, (1 + self.step_count) / (10 + self.step_count))
        torch._foreach_lerp_([mean for mean, _ in self._numbers], [tensor for _, tensor in self._numbers], share)
        if self._counts:
            torch._foreach_copy_([copy for copy, _ in self._counts], [tensor for _, tensor in self._counts])

    def figures(self, steps: int = REMEMBERED) -> dict[str, float]:
        """The means over the last steps of what ``update`` was told and of the gradient's norm. Waits for a GPU."""
        last = [step.figures for step in self._recent][-steps:]
        return dict(zip(self._names, torch.stack(last).mean(0).cpu().tolist(), strict=True)) if last else {}

    def progress(self) -> Progress:
        recent = self._recent
        if self.device.type == "cpu" or time.monotonic() - self._read > READ_SECONDS:
            self._shown |= self.figures()
            self._read = time.monotonic()
        if not recent:
            return Progress(self.step_count, self.rows, 0.0, math.nan, math.nan, None, 0.0)
        elapsed, later = max(1e-9, recent[-1].ended - recent[0].ended), list(recent)[1:]
        speed = sum(step.rows for step in later) / elapsed
        left = [self.plan.max_minutes - self.seconds / 60] if self.plan.max_minutes is not None else []
        if self.plan.max_rows is not None and speed:
            left.append((self.plan.max_rows - self.rows) / speed / 60)
        if self.plan.max_steps is not None and len(recent) > 1:
            left.append((self.plan.max_steps - self.step_count) * elapsed / (len(recent) - 1) / 60)
        return Progress(
            step=self.step_count,
            rows=self.rows,
            rows_per_second=speed,
            loss=self._shown["loss"],
            right=self._shown["right"],
            minutes_left=max(0.0, min(left)) if left else None,
            waiting=sum(step.waited for step in later) / elapsed,
        )

    def log(self, **figures: float) -> None:
        """Append figures to the log beside the state, JSON a line, and tell others."""
        figures |= {"learning_rate": self._rate, "memory_mb": memory_in_use(self.device)}
        rounded = {name: float(f"{figure:.5g}") for name, figure in figures.items()}
        line = {"step": self.step_count, "rows": self.rows, "minutes": round(self.seconds / 60, 2), **rounded}
        with (self.folder / METRICS_FILE).open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")
        for tell in self.told:
            tell(rounded, self.rows)

    def logged(self, name: str) -> list[float]:
        """A figure of the log, from the first line on."""
        path = self.folder / METRICS_FILE
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [figures[name] for figures in map(json.loads, lines) if name in figures]

    def save_when_due(self) -> None:
        """Save the state when it is time; after the step's figures were logged, or a resumed run may lack them."""
        if self.workers.rank == 0 and time.monotonic() - self._saved > 60 * self.plan.save_minutes:
            self.save()

    def save(self) -> Path:
        """Write everything that resuming needs to one file, aside and then renamed."""
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        tensors |= {f"averaged.{name}": tensor for name, tensor in self.averaged.items()}
        for number, optimizer in enumerate(self.optimizers):
            for index, state in optimizer.state_dict()["state"].items():
                for key, value in state.items():
                    if value is not None:
                        tensors[f"optimizer{number}.{index}.{key}"] = torch.as_tensor(value)
        counters = {"step": self.step_count, "rows": self.rows, "seconds": self.seconds, "settings": self.settings}
        path = self.folder / STATE_FILE
        metadata = {"format": STATE_FORMAT, "counters": json.dumps(counters)}
        with replacing(path, error=CheckpointError) as aside:
            copied = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
            aside.write_bytes(serialised(copied, metadata))  # save_file would leave a file of its own when it is killed
        self._saved = time.monotonic()
        return path

    def restore(self) -> bool:
        """Go on from the state in ``folder``; False when there is none. Raises CheckpointError when it doesn't fit."""
        path = self.folder / STATE_FILE
        if not path.exists():
            return False
        try:
            with safe_open(path, "pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{path}: can't be read ({error}); start the run anew in another folder") from error
        if metadata.get("format") != STATE_FORMAT:
            raise CheckpointError(f"{path}: the state has another format; start the run anew in another folder")
        counters = json.loads(metadata["counters"])
        if counters["settings"] != self.settings:
            before = counters["settings"]
            wrong = [
                f"{key} = {before.get(key)!r}, not {value!r}"
                for key, value in self.settings.items()
                if before.get(key) != value
            ]
            raise CheckpointError(
                f"{path}: this run has {', '.join(wrong)}; resume it with its settings, or start anew with --new"
            )
        self.network.load_state_dict(_with_prefix(tensors, "network."))
        for name, tensor in _with_prefix(tensors, "averaged.").items():
            self.averaged[name].copy_(tensor)  # onto the device where they are
        for number, optimizer in enumerate(self.optimizers):
            state: dict[int, dict[str, Tensor]] = {}
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            for name, tensor in _with_prefix(tensors, f"optimizer{number}.").items():
                index, key = name.split(".", 1)
                like = parameters[int(index)]
                if tensor.shape == like.shape:  # in memory as the parameter is, or steps take other paths
                    tensor = torch.empty_like(like, requires_grad=False).copy_(tensor)
                state.setdefault(int(index), {})[key] = tensor
            optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        self.step_count, self.rows = counters["step"], counters["rows"]
        self._seconds_before = self._agreed_seconds = counters["seconds"]
        self._started = self._saved = time.monotonic()
        if self.workers.rank == 0:
            self._forget_later_figures()
        return True

    def _forget_later_figures(self) -> None:
        """Take the lines of steps that will be made again, and one that was cut off, out of the log."""
        path = self.folder / METRICS_FILE
        if not path.exists():
            return
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= self.step_count]
        if len(kept) < len(lines):
            write(path, "".join(kept), error=CheckpointError)

    @contextmanager
    def stopping_on_signals(self) -> Iterator[None]:
        """While inside, SIGINT, SIGTERM and SIGHUP ask the run to stop after its present step; under nohup the last one
        doesn't. Only in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(_number: int, _frame: FrameType | None) -> None:
            self.stop_asked = True

        stops = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            stops.append(signal.SIGHUP)
        before = {number: signal.signal(number, ask) for number in stops}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


Tell = Callable[[Mapping[str, float], int], object]
"""What is called with the figures that a run logs, and its rows so far."""


@contextmanager
def tracked(config: Loop, folder: Path, workers: Workers) -> Iterator[list[Tell]]:
    """What tells TensorBoard and Weights & Biases of a run's figures, as its settings say. Raises ConfigError where one
    of them isn't installed."""
    with ExitStack() as stack:
        told: list[Tell] = []
        if config.tensorboard and workers.rank == 0:
            package = _package("tensorboard", "torch.utils.tensorboard")
            writer = stack.enter_context(package.SummaryWriter(folder / "tensorboard"))

            def tell_tensorboard(figures: Mapping[str, float], rows: int) -> None:
                for name, figure in figures.items():
                    writer.add_scalar(name, figure, rows)
                writer.flush()

            told.append(tell_tensorboard)
        if config.wandb and workers.rank == 0:
            begun = {"name": config.name, "id": config.name, "resume": "allow", "dir": folder, "config": asdict(config)}
            run = stack.enter_context(_package("wandb").init(project=os.environ.get("WANDB_PROJECT", "arena"), **begun))
            told.append(lambda figures, rows: run.log({**figures, "rows": rows}))
        yield told


def _package(setting: str, module: str = "") -> Any:
    """What a setting needs. Raises ConfigError where it isn't installed."""
    try:
        return import_module(module or setting)
    except ImportError as error:
        needed = "'arena[wandb]'" if setting == "wandb" else setting
        raise ConfigError(f"{setting} = true needs one more package ({error.name}): pip install {needed}") from error


@contextmanager
def profiled(steps: int, folder: Path) -> Iterator[Callable[[], None]]:
    """Give what is to be called after each step; once a run is warm, ``steps`` of them are profiled. The trace is for
    chrome://tracing or ui.perfetto.dev."""
    if not steps:
        yield lambda: None
        return
    when = torch.profiler.schedule(wait=WARM, warmup=1, active=steps, repeat=1)
    with torch.profiler.profile(
        schedule=when, on_trace_ready=lambda done: done.export_chrome_trace(str(folder / TRACE_FILE))
    ) as profile:
        yield profile.step


def _with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
