"""Collections of game records: folders, archives and SGF files of many games, read as a stream."""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from arena import RecordError
from arena.files import reason
from arena.go.record import GameRecord
from arena.go.sgf import MAX_BYTES, read_sgf, split_games, utf8

_TEXTS = (".sgf", ".sgfs", ".sgfs.xz", ".sgfs.gz")
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")
_KINDS = (*_TEXTS, *_TARS, ".zip")

MAX_FILE = 256 << 20  # bytes of the longest .sgf file that is read
_DAMAGED = (lzma.LZMAError, zlib.error, tarfile.TarError, zipfile.BadZipFile, OSError, EOFError, RuntimeError)
_GARBAGE = (ValueError, TypeError)  # which tarfile and zipfile raise for some damaged archives

Text = tuple[str, int, bytes]
"""A game that isn't parsed: its file, its number in the file from 1, and its SGF."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A game that wasn't read: its number in the file from 1, and a short reason, by which refusals can be counted."""

    source: str
    number: int
    reason: str
    detail: str = ""


def is_collection(path: Path) -> bool:
    """Whether ``read_texts`` reads files of this name."""
    return path.name.lower().endswith(_KINDS)


def read_path(path: str | Path) -> Iterator[GameRecord | Refusal]:
    """Parse the games of ``read_texts``. Raises RecordError as ``read_texts`` does."""
    for source, number, sgf in read_texts(path):
        try:
            yield read_sgf(sgf)
        except RecordError as error:
            reason, _, detail = str(error).partition(": ")
            yield Refusal(source, number, reason, detail)


def read_texts(path: str | Path) -> Iterator[Text]:
    """Every game of a file or, in order of their names, of the files in a folder and its folders.

    Files are ``.sgf`` (any number of games), ``.sgfs`` (a game a line; also ``.sgfs.xz`` and ``.sgfs.gz``), and
    ``.zip`` and ``.tar`` (plain, gz, xz, bz2) with such files inside; other files are ignored. Games are streamed.
    Raises RecordError for a path that doesn't exist, is of another kind or has no games, and for a damaged file.
    """
    path = Path(path)
    if not path.exists():
        raise RecordError(f"{path}: no such file or folder")
    if path.is_file() and not is_collection(path):
        raise RecordError(f"{path} is not a game record; use {', '.join(_KINDS)} or a folder of them")
    empty = True
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if not (is_collection(file) and file.is_file()):
            continue
        try:
            for source, stream in _streams(file):
                texts = (text for text in _texts(source, stream) if text and not text.isspace())
                for number, text in enumerate(texts, 1):
                    empty = False
                    yield source, number, text
        except (*_DAMAGED, *_GARBAGE) as error:
            raise RecordError(f"{file} is damaged or can't be read: {reason(error)}") from error
    if empty:
        raise RecordError(f"{path} holds no games")


def _streams(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """The text files in a file, with their names: the file itself, or an archive's members."""
    name = path.name.lower()
    if name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for member in sorted(archive.namelist()):
                if member.lower().endswith(_TEXTS):
                    with archive.open(member) as stream:
                        yield f"{path}:{member}", stream
    elif name.endswith(_TARS):
        with tarfile.open(path, "r|*") as tar:
            for entry in tar:
                opened = tar.extractfile(entry) if entry.name.lower().endswith(_TEXTS) else None
                if opened is not None:
                    yield f"{path}:{entry.name}", opened
    else:
        with path.open("rb") as stream:
            yield str(path), stream


def _texts(name: str, stream: IO[bytes]) -> Iterator[bytes]:
    """The game texts of one file. A line that is too long is split into parts, which ``read_sgf`` refuses."""
    if not (kind := name.lower()).endswith(".sgf"):
        unpack = lzma.open if kind.endswith(".xz") else gzip.open if kind.endswith(".gz") else nullcontext
        with unpack(stream) as lines:
            yield from iter(partial(lines.readline, MAX_BYTES + 1), b"")
        return
    data = stream.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise RecordError(f"{name} is longer than {MAX_FILE >> 20} MB; convert it to .sgfs, one game per line")
    yield from split_games(utf8(data))
