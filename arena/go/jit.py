"""How kernels are compiled: two decorators, one cache folder for each state of the sources and way to compile."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from multiprocessing import parent_process
from pathlib import Path
from typing import IO, Any, TypeVar, cast

if not os.environ.get("NUMBA_NUM_THREADS", "1").strip("0").isdigit():
    del os.environ["NUMBA_NUM_THREADS"]  # Numba compiles nothing with 0 threads, and our kernels have one each

import numba
from numba import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator
from numba.core.event import Event, Listener, install_listener
from platformdirs import user_cache_dir

from arena import files


def _sources_digest() -> str:
    """A digest of every source that holds kernels, and of how they are compiled.

    Numba looks for changes in a kernel's own file only, so a kernel that calls one of another file would go stale
    when that file is edited, and it takes kernels that don't check their bounds for ones that do. A cache folder named
    after all of it can't hold either.
    """
    digest = hashlib.sha256(f"{numba.__version__} {config.BOUNDSCHECK}".encode())  # type: ignore[attr-defined]
    root = Path(__file__).parents[2]
    for folder in ("arena/go", "bots/search"):
        for path in sorted((root / folder).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


if not config.CACHE_DIR:  # type: ignore[attr-defined]  # Numba sets its options at run time
    config.CACHE_DIR = str(Path(user_cache_dir("arena")) / f"kernels-{_sources_digest()}")  # type: ignore[attr-defined]

CACHE = Path(config.CACHE_DIR)  # type: ignore[attr-defined]
"""Where compiled kernels are kept from one run to the next."""

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def kernel(function: F) -> F:
    """Compile a function that Python calls: arrays in, arrays out; the GIL is released while it runs."""
    return _cached(numba.njit(**_OPTIONS)(function))


def inlined(function: F) -> F:
    """Compile a function that only kernels call, into its caller."""
    return _cached(numba.njit(forceinline=True, **_OPTIONS)(function))


def _cached(dispatcher: Any) -> Any:
    if not config.DISABLE_JIT:  # type: ignore[attr-defined]
        dispatcher._cache = _Cache(dispatcher.py_func)
    return dispatcher


class _Files(IndexDataCacheFile):
    """The files of one kernel. Those that are damaged count as missing: the kernel is compiled and written again."""

    def _dump(self, obj: Any) -> bytes:
        data: bytes = super()._dump(obj)
        return data + hashlib.sha256(data).digest()  # whoever unpickles it doesn't read that far

    def _load_index(self) -> dict[Any, str]:
        try:
            return cast(dict[Any, str], super()._load_index())
        except Exception:  # unpickling garbage may raise anything
            return {}

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        if hashlib.sha256(content[:-32]).digest() != content[-32:]:
            return None
        return super()._load_data(name)


class _Locator(UserProvidedCacheLocator):
    def ensure_cache_path(self) -> None:
        try:
            super().ensure_cache_path()
        except OSError as error:  # a cache that can only be read is read
            if not os.path.isdir(self.get_cache_path()):
                _say_once(error)


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012  # as Numba declares it


class _Cache(FunctionCache):
    """Numba's cache, in ``CACHE`` only, without its ways to fail: where nothing can be kept, kernels are compiled anew
    by each process. Of several processes that need a kernel at the same time, one compiles it and the others wait."""

    _impl_class = _Implementation

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        file = self._cache_file
        self._cache_file = _Files(file._cache_path, self._impl.filename_base, file._source_stamp)
        self._lock: IO[bytes] | None = None  # held from a miss until the kernel is saved

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None and self._lock is None:
            self._take_lock()
            found = super().load_overload(sig, target_context)
            if found is not None:
                self._free_lock()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _say_once(error)
        self._free_lock()

    def _take_lock(self) -> None:
        with suppress(OSError):  # saving says why nothing can be kept
            self._impl.locator.ensure_cache_path()
            lock = open(f"{self._cache_file._index_path}.lock", "ab")
            files.lock_file(lock, waits=True)
            self._lock = lock

    def _free_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


_said: list[OSError] = []


def _say_once(error: OSError) -> None:
    """Why nothing is kept; workers leave it to the process that started them."""
    if not _said and parent_process() is None:
        words = "compiled kernels can't be kept in %s (%s), so each process compiles its own; see: arena doctor"
        logging.getLogger(__name__).warning(words, CACHE, error.strerror)
    _said.append(error)


def wake() -> None:
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
        self._standing, self._exits, self._depth = standing, ExitStack(), 0

    def on_start(self, event: Event) -> None:
        if self._depth == 0:
            self._exits.enter_context(self._standing())
        self._depth += 1

    def on_end(self, event: Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._exits.close()
