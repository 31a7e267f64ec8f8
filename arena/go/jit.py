"""How kernels are compiled: two decorators, one cache folder for each state of the sources and way to compile."""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from multiprocessing import parent_process
from pathlib import Path
from tempfile import TemporaryFile
from threading import local
from typing import IO, Any, TypeVar

if not os.environ.get("NUMBA_NUM_THREADS", "1").strip("0").isdigit():
    del os.environ["NUMBA_NUM_THREADS"]  # Numba compiles nothing with 0 threads, and our kernels have one each

import numba
from numba import config
from numba.core.caching import UserProvidedCacheLocator
from numba.core.event import Event, Listener, install_listener, register

from arena import files

ROOT = Path(__file__).parents[2]


def _sources_digest() -> str:
    """A digest of every source that has kernels, and of how they are compiled: Numba looks for changes in a kernel's
    own file only, and takes kernels that don't check their bounds for ones that do."""
    digest = hashlib.sha256(f"{numba.__version__} {config.BOUNDSCHECK}".encode())  # type: ignore[attr-defined]
    for folder in ("arena/go", "bots/nets", "bots/search"):
        for path in sorted((ROOT / folder).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


# Where compiled kernels are to be kept: NUMBA_CACHE_DIR, or a folder named for the sources.
WANTED = Path(config.CACHE_DIR or files.cache_folder() / f"kernels-{_sources_digest()}")  # type: ignore[attr-defined]


def _cache_folder(folder: Path) -> Path:
    """The folder, or one that goes with this process where nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        if parent_process() is None:  # workers leave it to the process that started them
            words = "compiled kernels can't be kept in %s (%s), so each process compiles its own; see: arena doctor"
            logging.getLogger(__name__).warning(words, folder, error.strerror)
        return files.scratch() / "kernels"
    if parent_process() is None:
        _remove_damaged(folder)
    return folder


def _remove_damaged(folder: Path) -> None:
    """Remove the files that a full disk or a crash left empty or cut, which Numba would fail to read: their kernels are
    compiled again. Each file is one pickle, or two."""
    for path in folder.glob("*/*.nb[ci]"):
        with suppress(OSError):
            with path.open("rb") as file:
                first = file.read(1)
                file.seek(-1, os.SEEK_END) if first else None
                is_whole = first == pickle.PROTO and file.read(1) == pickle.STOP
            if not is_whole:
                path.unlink()


CACHE = _cache_folder(WANTED)


class CacheLocator(UserProvidedCacheLocator):
    """Finds a kernel by its module and the content of its file. Numba's own locator also takes the path: every
    environment on a machine would compile the same kernels again."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        folder = Path(py_file).parent
        if folder.is_relative_to(ROOT):
            return "_".join(folder.relative_to(ROOT).parts)
        return str(super().get_suitable_cache_subpath(py_file))


config.CACHE_DIR = str(CACHE)  # type: ignore[attr-defined]
config.CACHE_LOCATOR_CLASSES = f"{__name__}.{CacheLocator.__name__}"  # type: ignore[attr-defined]

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}
_UNCALLED: dict[str, Any] = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: F) -> F:
    """Compile a function that Python calls: arrays in, arrays out; the GIL is released while it runs."""
    return numba.njit(**_OPTIONS)(function)


def inlined(function: F) -> F:
    """Compile a function that only kernels call, into its caller; a call from Python would crash."""
    return numba.njit(**_OPTIONS, **_UNCALLED)(function)


class _OneWriter(Listener, local):
    """Lets one process at a time save a kernel: two that save variants of one kernel would give them the same file.

    Numba saves a kernel after its "compile" event and before the end of the "compiler_lock" around it.
    """

    def __init__(self) -> None:  # in each thread
        self._open = list[IO[bytes] | None]()  # one for each time that it holds the compiler; None if it saved nothing

    def on_start(self, event: Event) -> None:
        if event.kind == "numba:compiler_lock":
            self._open.append(None)

    def on_end(self, event: Event) -> None:
        if event.kind == "numba:compile":
            with suppress(OSError):
                file = open(CACHE / ".lock", "ab")
                files.lock_file(file, waits=True)
                self._open[-1] = file
        elif (held := self._open.pop()) is not None:
            held.close()


_writer = _OneWriter()
register("numba:compile", _writer)
register("numba:compiler_lock", _writer)


def compile_together(calls: Mapping[str, Callable[[], object]]) -> None:
    """Make these calls, each of which compiles or loads kernels, by name. Processes that do so at the same time share
    the work: each begins with calls that no other process is making, and then loads what the others compiled."""
    left = dict(calls)
    for waits in (False, True):
        for name, call in list(left.items()):
            with open(CACHE / f"{name}.lock", "ab") as file:
                try:
                    files.lock_file(file, waits)
                except BlockingIOError:
                    continue
                except OSError:  # files can't be locked here: each process compiles for itself
                    pass
                call()
                del left[name]


def init_compiler() -> None:
    """Have the compiler set itself up, which takes half a second before the first kernel of a process is loaded."""
    numba.njit("int64(int64)")(lambda number: number)


@contextmanager
def while_compiling(standing: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """In this block, ``standing()`` is entered for as long as kernels are compiled or loaded, or waited for."""
    with install_listener("numba:compiler_lock", _CompilerListener(standing)):
        yield


class _CompilerListener(Listener):
    """Numba reports when its compiler is taken and given back."""

    def __init__(self, standing: Callable[[], AbstractContextManager[None]]):
        self._standing, self._entered = standing, list[ExitStack]()

    def on_start(self, event: Event) -> None:
        self._entered.append(ExitStack())
        if len(self._entered) == 1:
            self._entered[0].enter_context(self._standing())

    def on_end(self, event: Event) -> None:
        self._entered.pop().close()
