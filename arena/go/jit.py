"""How kernels are compiled: two decorators, one cache folder for each state of the sources and way to compile."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import config
from platformdirs import user_cache_dir


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

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


def kernel(function: F) -> F:
    """Compile a function that Python calls: arrays in, arrays out; the GIL is released while it runs."""
    return cast(F, numba.njit(**_OPTIONS)(function))


def inlined(function: F) -> F:
    """Compile a function that only kernels call, into its caller."""
    return cast(F, numba.njit(forceinline=True, **_OPTIONS)(function))


def wake() -> None:
    """Have the compiler set itself up, which takes half a second before the first kernel of a process is loaded."""
    numba.njit("int64(int64)")(lambda number: number)
