"""Who is told of a run beside its log: TensorBoard, Weights & Biases, a profiler."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from arena import ConfigError
from trainers.settings import Loop
from trainers.workers import Workers

TRACE_FILE = "trace.json.gz"

WARM = 5
"""Steps before those that are profiled."""


def memory_in_use(device: torch.device) -> float:
    """The most memory so far, in MB: that of the device, or of this process where it learns on the processor."""
    of_device = getattr(torch.get_device_module(device), "max_memory_allocated", None)
    return of_device(device) / 1e6 if of_device else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


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
