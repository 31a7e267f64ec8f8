"""Files and folders that are there whole, old or new, whenever the process or the machine stops; locks; scratch."""

import atexit
import ctypes
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from arena import StoreError, UserError

_OURS = ".arena-f58e1c-"  # how the names of our temporary folders begin, and no other's
_OWNER = "owner"  # the file in them that their process locks


def write(path: Path, content: str | bytes, *, error: type[UserError] = StoreError, hint: str = "") -> None:
    """Make a file of this content, as ``replacing`` does."""
    with replacing(path, error=error, hint=hint) as aside:
        aside.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path, *, error: type[UserError] = StoreError, hint: str = "") -> Iterator[Path]:
    """A path aside where the caller makes a file or a folder, which then takes the place of what ``path`` leads to.
    The content is on disk when this returns; missing folders above are made. When the caller raises, or the disk fails,
    ``path`` is as it was; an OSError is raised as ``error``, one line that ends with ``hint``.
    """
    place = Path(os.path.realpath(path))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _own_folder(place.parent) as folder:
            aside = folder / place.name
            yield aside
            with suppress(FileNotFoundError):
                aside.chmod(place.stat().st_mode & 0o7777)
            for inside in (*aside.rglob("*"), aside):
                _sync(inside)
            if not (place.is_dir() and aside.is_dir()):
                os.replace(aside, place)
            elif not _exchange(aside, place):  # then for a moment nothing has the name
                (folder / _OWNER).unlink()  # from here to the end, the folder may have the only copy: it isn't swept
                os.replace(place, folder / "old")
                os.replace(aside, place)
        _sync(place.parent)
    except (OSError, shutil.Error) as problem:
        raise error(f"{path} can't be written ({reason(problem)}); {hint or 'use a folder that can be'}") from problem


def reason(problem: Exception) -> str:
    """What the system says, without the path, which our own text names."""
    return getattr(problem, "strerror", None) or " ".join(str(problem).split())


def _exchange(aside: Path, place: Path) -> bool:
    """Swap two folders in one step. False where the system or the disk has no such step."""
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    return swap is not None and not swap(here, os.fsencode(aside), here, os.fsencode(place), exchange)


def _sync(path: Path) -> None:
    with ExitStack() as opened:
        handle = os.open(path, os.O_RDONLY)
        opened.callback(os.close, handle)
        os.fsync(handle)


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone (mode 700). Raises OSError."""
    for missing in [one for one in (folder, *folder.parents) if not one.exists()][::-1]:
        missing.mkdir(mode=0o700, exist_ok=True)


def lock(path: Path) -> IO[bytes]:
    """The open lock file; closing it, or the process's end, gives the lock back. Missing folders are made. Raises
    BlockingIOError where another process has it, and other OSErrors where there can't be a lock."""
    make_private(path.parent)
    lock_file(file := path.open("ab"))
    return file if os.fstat(file.fileno()).st_nlink else lock(path)  # its last holder has just removed it


def lock_file(file: IO[bytes], waits: bool = False) -> None:
    """Lock an open file until it is closed. Raises as ``lock`` does, unless it ``waits`` for the other process."""
    fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))


_scratch = ExitStack()
remove_scratch = atexit.register(_scratch.close)  # to be called where a process ends without Python's own end


@cache
def scratch() -> Path:
    """A folder for temporary files of this process and those that it starts, removed when this process ends or, if it
    was killed, by the next call of another. It is in a folder of the user's: in TMPDIR if a socket's path, which has at
    most 107 bytes, fits there."""
    base = usual if len(os.fsencode(usual := tempfile.gettempdir())) <= 50 else "/tmp"
    private = Path(base) / f".arena-{os.getuid()}"
    with suppress(OSError):
        private.mkdir(mode=0o700, exist_ok=True)
    status = os.lstat(private)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        private = Path(tempfile.mkdtemp(prefix=f"{private.name}-", dir=base))  # somebody else took the name
    return _scratch.enter_context(_own_folder(private))


@contextmanager
def _own_folder(base: Path) -> Iterator[Path]:
    """A new folder in ``base``, removed at the end; where this process is killed, by the next one that makes one."""
    _sweep(base)
    with tempfile.TemporaryDirectory(prefix=_OURS, dir=base, ignore_cleanup_errors=True) as folder:
        with open(Path(folder, _OWNER), "xb", buffering=0) as owner:
            with suppress(OSError):  # where nothing can be locked, nothing is swept
                lock_file(owner)
                owner.write(b"locked")
            yield Path(folder)


@cache
def _sweep(base: Path) -> None:
    for owner in base.glob(f"{_OURS}*/{_OWNER}"):
        with suppress(OSError), owner.open("rb") as file:
            lock_file(file)  # else its process runs
            if file.read():  # else its process is about to lock it
                shutil.rmtree(owner.parent)
