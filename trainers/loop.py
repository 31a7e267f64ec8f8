"""What trainers share: batches on the device, steps, averaged weights, the log, resuming, stopping. No losses."""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised
from torch import Tensor, nn

from arena import CheckpointError
from arena.files import make_private, replacing, write
from trainers.optimizers import Plan, build_optimizers
from trainers.progress import Progress
from trainers.settings import METRICS_FILE, STATE_FILE
from trainers.tracking import Tell, memory_in_use
from trainers.workers import ALONE, Workers

STATE_FORMAT = "2"


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
        workers: Workers = ALONE,
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
        make_private(folder)
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
        and, for predictions, "right", and what else is to be logged. Nothing here waits for a GPU unless
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
            raise CheckpointError(f"{path}: can't be read ({error}); start again in another folder") from error
        if metadata.get("format") != STATE_FORMAT:
            raise CheckpointError(f"{path}: the state has another format; start again in another folder")
        counters = json.loads(metadata["counters"])
        if counters["settings"] != self.settings:
            before = counters["settings"]
            wrong = [
                f"{key} = {before.get(key)!r}, not {value!r}"
                for key, value in self.settings.items()
                if before.get(key) != value
            ]
            raise CheckpointError(
                f"{path}: this run has {', '.join(wrong)}; resume it with its settings, or start again with --new"
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


def _with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
