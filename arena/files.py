"""Files that survive a crash: written aside and renamed, locked, made in scratch folders that vanish.

A file or folder is there whole, old or new, whenever the process or the machine stops.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import fcntl
import json
import os
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from arena import StoreError, UserError

T = TypeVar("T")

_FOLDER = "use a folder that can be"
_PREFIX, _OWNER = ".arena-", "owner"
_MARK = b"temporary folder of arena, f58e1c0a7b934d26"


# --- Writing ---


def write(path: Path, content: str | bytes, *, error: type[UserError] = StoreError, hint: str = _FOLDER) -> None:
    """Make a file of this content, as ``replacing`` does."""
    with replacing(path, error=error, hint=hint) as aside:
        aside.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path, *, error: type[UserError] = StoreError, hint: str = _FOLDER) -> Iterator[Path]:
    """A path aside where the caller makes a file or a folder, which then takes the place of what ``path`` leads to.
    Missing folders above are made.

    The content is on disk when this returns. When the caller raises, or the disk fails, ``path`` is as it was; an
    OSError is raised as ``error``, one line that ends with ``hint``.
    """
    place = Path(os.path.realpath(path))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _sweep_once(place.parent)
        with _own_folder(place.parent) as folder:
            aside = folder / place.name
            yield aside
            with suppress(FileNotFoundError):
                aside.chmod(place.stat().st_mode & 0o7777)
            for inside in [*(aside.rglob("*") if aside.is_dir() else ()), aside]:
                _sync(inside)
            if not (place.is_dir() and aside.is_dir()):
                os.replace(aside, place)
            elif not _exchange(aside, place):  # then for a moment nothing has the name
                (folder / _OWNER).unlink()  # from here to the end, it may have the only copy
                os.replace(place, folder / "old")
                os.replace(aside, place)
        _sync(place.parent)
    except (OSError, shutil.Error) as problem:
        raise error(f"{path} can't be written ({reason(problem)}); {hint}") from problem


def reason(problem: Exception) -> str:
    """What the system says, without the path, which our own text names."""
    return getattr(problem, "strerror", None) or " ".join(str(problem).split())


def _exchange(aside: Path, place: Path) -> bool:
    """Swap two folders in one step. False where the system or the disk has no such step."""
    try:
        swap = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return int(swap(here, os.fsencode(aside), here, os.fsencode(place), exchange)) == 0


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- Locks ---


class Held(OSError):
    """Another process has the lock; ``process`` is its number, or 0 when it hasn't said."""

    def __init__(self, process: int):
        self.process = process
        super().__init__("another process has the lock")


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone (mode 700). Raises OSError."""
    for missing in [one for one in (folder, *folder.parents) if not one.exists()][::-1]:
        missing.mkdir(mode=0o700, exist_ok=True)


def lock(path: Path) -> IO[bytes]:
    """The open lock file, which names this process; closing it, or the process's end, gives the lock back. Missing
    folders are made. Raises Held, or OSError where there can't be a lock."""
    make_private(path.parent)
    with ExitStack() as opened:
        file = opened.enter_context(open(path, "a+b", buffering=0))
        try:
            lock_file(file)
        except Held:
            file.seek(0)
            process = file.read(20).strip()
            raise Held(int(process) if process.isdigit() else 0) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                with suppress(OSError):  # a full disk: nobody needs the number but a reader of the error
                    file.truncate(0)
                    file.write(b"%d" % os.getpid())
                opened.pop_all()
                return file
    return lock(path)  # its last holder has just removed it


def lock_file(file: IO[bytes], waits: bool = False) -> None:
    """Lock an open file until it is closed, and with ``waits`` until another process has closed it. Raises Held, or
    OSError."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Held(0) from None


# --- Temporary folders ---


@cache
def scratch() -> Path:
    """A folder for temporary files of this process and those that it starts. It goes when this process ends; where it
    was killed, the next one that calls this removes it. It is in a folder of the user's in TMPDIR, unless sockets there
    had too long a path."""
    base = tempfile.gettempdir()
    base = base if len(os.fsencode(base)) <= 50 else "/tmp"  # a socket's path has at most 107 bytes
    private = Path(base) / f".arena-{os.getuid()}"
    with suppress(OSError):
        private.mkdir(mode=0o700, exist_ok=True)
    status = os.lstat(private)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        private = Path(tempfile.mkdtemp(prefix=f"{private.name}-", dir=base))  # somebody else took the name
    _sweep(private)
    atexit.register(remove_scratch)
    return _scratch.enter_context(_own_folder(private))


_scratch = ExitStack()


def remove_scratch() -> None:
    """Remove what ``scratch`` returned; for a process that ends without Python's own end."""
    _scratch.close()


@contextmanager
def _own_folder(base: Path) -> Iterator[Path]:
    """A new folder in ``base``, removed at the end. Its file ``owner`` is locked until then and has the mark by which
    ``_sweep`` knows what a killed process left."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    try:
        with open(folder / _OWNER, "xb", buffering=0) as owner:
            with suppress(OSError):  # where nothing can be locked, nothing is swept
                lock_file(owner)
                owner.write(_mark(folder))
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(base: Path) -> None:
    """Remove the folders in ``base`` that ``_own_folder`` made for processes that were killed, and nothing else."""
    for owner in base.glob(f"{_PREFIX}*/{_OWNER}"):
        with suppress(OSError), open(os.open(owner, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            lock_file(file)  # else its process runs
            if file.read(100) == _mark(owner.parent):
                shutil.rmtree(owner.parent, ignore_errors=True)


_sweep_once = cache(_sweep)


def _mark(folder: Path) -> bytes:
    """What only ``_own_folder`` writes, and only into this folder: a copy of it has another number."""
    return b"%s %d" % (_MARK, folder.stat().st_ino)


# --- Reading ---


def pieces(path: Path, most: int) -> Iterator[bytes]:
    """The content of a regular file of at most ``most`` bytes, in parts. Raises OSError, also for a pipe or a
    longer file: those might never end."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"it is longer than {most >> 20} MB")
        yield from iter(partial(file.read, 1 << 20), b"")


def read_object(path: Path, *, error: type[UserError], hint: str) -> dict[str, Any]:
    """The object in a file of JSON (``.json``), or the tables of one of TOML. Raises ``error``, one line that names the
    file and ends with ``hint``."""
    parse, form = (json.loads, "JSON") if path.suffix == ".json" else (tomllib.loads, "TOML")
    try:
        content = parse(b"".join(pieces(path, 64 << 20)).decode("utf-8"))
    except OSError as problem:
        raise error(f"{path}: can't be read ({reason(problem)}); {hint}") from problem
    except UnicodeDecodeError as problem:
        raise error(f"{path}: isn't text in UTF-8 ({reason(problem)}); {hint}") from problem
    except (RecursionError, ValueError) as problem:
        words = "nested too deeply" if isinstance(problem, RecursionError) else reason(problem)
        raise error(f"{path}: isn't valid {form} ({words}); {hint}") from problem
    if not isinstance(content, dict):
        raise error(f"{path}: holds no {form} object; {hint}")
    return content


def convert(content: Mapping[str, Any], kind: type[T], where: object, *, error: type[UserError], hint: str) -> T:
    """An object of JSON or TOML as a dataclass. Raises ``error``, one line that begins with ``where``, names the key
    and what it may be, and ends with ``hint``."""
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for key in content:
        if key not in known:
            meant = suggest(key, known).rstrip("?") or f"; there are {', '.join(known)}"
            raise error(f"{where}: unknown entry '{key}'{meant}; {hint}")
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as problem:
        words, _, place = str(problem).replace("`", "").partition(" - at $.")
        raise error(f"{where}: {f'{place}: ' * bool(place)}{words[0].lower()}{words[1:]}; {hint}") from problem


def suggest(word: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of an error; empty when nothing is close."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


FOREIGN = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""What is raised by code that takes data of others for its own: the file is at fault, not the code."""
