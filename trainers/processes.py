"""Devices and processes of a run, the lock of its folder, and the signals that stop it."""

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import distributed

from arena import ConfigError
from arena.files import lock, reason
from trainers.settings import Loop, is_first

COLLECTIVE_HOURS = 12  # time for the first process to test the net; if it dies, torchrun ends the others
GPU = "cuda"  # torch's name of the devices to learn on; a test sets another one


def pick_device(name: str) -> torch.device:
    """This process's device for ``name`` (auto, cpu, cuda). Raises ConfigError if there is none."""
    devices = torch.get_device_module(GPU)
    if name == "cpu" or (name == "auto" and not devices.is_available()):
        return torch.device("cpu")
    if not devices.is_available():
        raise ConfigError("device cuda: torch sees none; use device cpu")
    return torch.device(GPU, int(os.environ.get("LOCAL_RANK", "0")) % devices.device_count())


@contextmanager
def join_processes(config: Loop) -> Iterator[torch.device]:
    """Set up this process's device, and join the processes of torchrun, if any. Raises ConfigError if there is no such
    device."""
    device = pick_device(config.device)
    with suppress(OSError, AttributeError):  # keep freed memory: page faults take a third of a step on a CPU
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
    torch.set_num_threads(config.threads)
    if device.type != "cpu":
        torch.set_float32_matmul_precision("high")  # TF32
        torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    if not {"RANK", "WORLD_SIZE"} <= os.environ.keys():
        yield device
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo", timeout=timedelta(hours=COLLECTIVE_HOURS)
    )
    try:
        distributed.barrier()  # the first process may have deleted an earlier run
        yield device
    finally:
        distributed.destroy_process_group()


def processes() -> int:
    """The number of processes of this run."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """The number of this process among those of the run."""
    return distributed.get_rank() if distributed.is_initialized() else 0


Part = TypeVar("Part")


def gather(found: Part) -> list[Part]:
    """What each process of the run has found, in the order of their ranks. All of them have to call it."""
    if processes() == 1:
        return [found]
    everything: list[Any] = [None] * processes()
    distributed.all_gather_object(everything, found)
    return everything


def refuse_torchrun(why: str) -> None:
    """Raise ConfigError(``why``) if torchrun started several processes."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(why)


LOCK = "lock"  # the file in a folder that one process at a time writes to


@contextmanager
def lock_folder(folder: Path, hint: str) -> Iterator[None]:
    """Lock a folder, under torchrun in the first process; remove it if it stays empty. Raises ConfigError, with a hint,
    if another process has the lock."""
    if not is_first():
        yield
        return
    try:
        locked = lock(folder / LOCK)
    except BlockingIOError:
        raise ConfigError(f"{folder} is in use by another process; wait until it ends{hint}") from None
    except OSError as error:
        raise ConfigError(f"{folder} can't be locked ({reason(error)}); use another folder") from error
    with locked:
        try:
            yield
        finally:
            (folder / LOCK).unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()


stopped = threading.Event()
"""Set once a signal has asked a run of this process to stop."""


@contextmanager
def stop_signals(ask: Callable[[], None]) -> Iterator[None]:
    """Have SIGINT, SIGTERM and, except under nohup, SIGHUP only call ``ask``. Does nothing outside the main thread."""
    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        numbers.remove(signal.SIGHUP)
    is_main = threading.current_thread() is threading.main_thread()

    def stop(number: int, frame: object) -> None:
        stopped.set()
        ask()

    before = {number: signal.signal(number, stop) for number in numbers if is_main}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
