"""Where a run computes: its device, and the processes that share its batches. Learns nothing."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn

from arena import ConfigError, UserError
from arena.files import Held, lock, reason, scratch
from arena.match.worker import end_with_parent
from trainers.settings import Loop, is_first

PATIENCE = timedelta(minutes=5)
"""How long a process waits for the others before it takes them for dead."""


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


LOCK = "lock"
"""The file in a folder that one process at a time writes to."""


@contextmanager
def kept_to_one(folder: Path, hint: str) -> Iterator[None]:
    """Keep a folder to this process while inside; one that stays empty goes. Under torchrun the first process does it
    for all. Raises ConfigError, with a hint, where another process has it."""
    if not is_first():
        yield
        return
    try:
        locked = lock(folder / LOCK)
    except Held as held:
        who = f"process {held.process}" if held.process else "another process"
        raise ConfigError(f"{folder} is in use by {who}; wait until it ends{hint}") from None
    except OSError as error:
        raise ConfigError(f"{folder} can't be locked ({reason(error)}); use another folder") from error
    with locked:
        try:
            yield
        finally:
            (folder / LOCK).unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()


def compiled(network: nn.Module, config: Loop, device: torch.device, **options: Any) -> Callable[..., Any]:
    """The net compiled, if the settings say so and torch can: for a CPU it needs a C++ compiler, for a GPU one of C.
    Where there is none the net is left as it is, with a warning in the log."""
    if not config.compile:
        return network
    variable, usual = ("CXX", ("g++", "clang++")) if device.type == "cpu" else ("CC", ("gcc", "clang", "cc"))
    if any(shutil.which(name) for name in (os.environ.get(variable, ""), *usual) if name):
        return torch.compile(network, **options)
    words = "compile = true needs a compiler (%s), and there is none: the net learns uncompiled"
    logging.getLogger(__name__).warning(words, " or ".join(usual))
    return network


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


ALONE = Workers()
"""The one process of a run that has no others."""


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
