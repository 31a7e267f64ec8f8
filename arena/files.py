"""Files and folders that are replaced whole, so that a crash leaves the old or the new; locks; temporary folders."""

import atexit
import ctypes
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import IO

from platformdirs import user_cache_dir

from arena import StoreError, UserError


def write(path: Path, content: str | bytes, *, error: type[UserError] = StoreError, hint: str = "") -> None:
    """Write a file as ``replacing`` does; of a text, what UTF-8 can't express becomes "?"."""
    with replacing(path, error=error, hint=hint) as aside:
        aside.write_bytes(content.encode("utf-8", "replace") if isinstance(content, str) else content)


def write_unsynced(path: Path, text: str) -> None:
    """Write a file aside and rename it, so that none is half written; it isn't synced to disk. Raises OSError."""
    aside = path.with_name(f"{path.name}.part")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


@contextmanager
def replacing(path: Path, *, error: type[UserError] = StoreError, hint: str = "") -> Iterator[Path]:
    """A temporary path where the caller makes a file or a folder, which then replaces what ``path`` leads to.
    The content is on disk when this returns; missing folders above are made. When the caller raises, the disk fails, or
    ``path`` is a device or a pipe, it is unchanged; an OSError is raised as ``error``, one line ending with ``hint``.
    """
    place = Path(os.path.realpath(path))
    aside, old = place.with_name(f".{place.name}.part"), place.with_name(f".{place.name}.old")
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise OSError(errno.EINVAL, "it is a device or a pipe")
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove(aside)  # of a process that was killed
        yield aside
        with suppress(FileNotFoundError):
            aside.chmod(place.stat().st_mode & 0o7777)
        for inside in (*aside.rglob("*"), aside):
            _sync(inside)
        if not (place.is_dir() and aside.is_dir()):
            os.replace(aside, place)
        elif not _exchange(aside, place):  # then for a moment nothing has the name
            os.replace(place, old)
            try:
                os.replace(aside, place)
            except OSError:
                os.replace(old, place)
                raise
        _sync(place.parent)
    except (OSError, shutil.Error) as problem:
        raise error(f"{path} can't be written ({reason(problem)}); {hint or 'use a folder that can be'}") from problem
    finally:
        _remove(aside)
        _remove(old)


def _remove(path: Path) -> None:
    """Remove a file or a folder, if it is there and can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def reason(problem: Exception) -> str:
    """What the system says, in one line, without the path, which our own text names."""
    words = problem.strerror if isinstance(problem, OSError) else None
    return words or " ".join(str(problem).split())


def _exchange(aside: Path, place: Path) -> bool:
    """Swap two folders in one step. False where the system or the file system can't."""
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    return swap is not None and not swap(here, os.fsencode(aside), here, os.fsencode(place), exchange)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_regular(path: Path, flags: int = os.O_RDONLY) -> BufferedReader:
    """Open a file for reading. Raises OSError, also for a pipe or a device, which might never end."""
    file = open(path, "rb", opener=lambda name, _: os.open(name, flags | os.O_NONBLOCK, 0o666))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file")
    return file


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone (mode 700). Raises OSError."""
    for missing in [one for one in (folder, *folder.parents) if not one.exists()][::-1]:
        missing.mkdir(mode=0o700, exist_ok=True)


def lock(path: Path, waits: bool = False) -> IO[bytes]:
    """Lock a file, whose folders are made, and return it open; closing it or ending the process releases the lock.
    Raises BlockingIOError if another process has the lock and ``waits`` is False; other OSErrors on failure."""
    make_private(path.parent)
    file = open_regular(path, os.O_RDWR | os.O_CREAT)
    lock_file(file, waits)
    return file if os.fstat(file.fileno()).st_nlink else lock(path, waits)  # its last owner has just removed the file


def lock_file(file: IO[bytes], waits: bool = False) -> None:
    """Lock an open file until it is closed. Raises as ``lock`` does; with ``waits``, waits for the other process."""
    fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))


def cache_folder() -> Path:
    """The folder of what can be computed again. A user without a home has none that outlives this process."""
    try:
        return Path(user_cache_dir("arena"))
    except RuntimeError:  # neither HOME nor an entry of the user's in the system
        return scratch() / "cache"


@cache
def scratch() -> Path:
    """A private folder for temporary files of this process and those that it starts, removed when this process ends.
    It lies in TMPDIR, if the path of a socket (at most 107 bytes) fits there."""
    base = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="arena-", dir=base if len(os.fsencode(base)) <= 60 else "/tmp"))
    atexit.register(remove_scratch)
    return folder


def remove_scratch() -> None:
    """Remove the temporary files; to be called before ``os._exit`` or ``os.exec``, which skip ``atexit``."""
    if scratch.cache_info().currsize:
        shutil.rmtree(scratch(), ignore_errors=True)
