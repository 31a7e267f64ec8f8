"""``results/arena.db``: finished games, events and players in SQLite.

One arena writes at a time, any number read meanwhile. A game is on disk when ``append`` returns, whole; what was not
acknowledged may be missing, whole. Every failure is a StoreError of one line.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar
from zlib import compress, decompress
from zlib import error as ZlibError

import msgspec
import numpy as np

from arena import ConfigError, StoreBusy, StoreError, __version__, files, plural
from arena.contract.settings import DECODE_ERRORS
from arena.go.coords import Colour
from arena.go.record import FIRST_MOVES, Ending, GameRecord, GameSummary, MoveStats, Outcome, opening_keys
from arena.players.player import Player

if TYPE_CHECKING:  # pulls in the compiler, without which players and results are read
    from arena.go.game import Rules

T = TypeVar("T")

SCHEMA = 1
_APPLICATION = 0x41524E41  # "ARNA" in the file's header, so that no other program's database is taken for results
STORE_LOCK_SECONDS = 10.0  # seconds to wait for a program that holds the file for a moment, such as a backup

GAMES_AT_ONCE = 1_000  # games that ``game_summaries`` reads at a time

# What a record and its row have under the same name and in the same form.
_TEXTS = (
    "id event black white black_player white_player black_rank white_rank reason fault_details date unrated".split()
)
_LATER = ("continued", "restarted", "black_late", "white_late")  # of which results of earlier versions have none
_NUMBERS = ("opening", "black_seconds", "white_seconds", *_LATER)
_RESULT = ("first", "adjudged", "winner", "ending", "margin")

_CREATE = (
    f"""
    CREATE TABLE games (
        seq         INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of arrival, never used twice
        {" TEXT NOT NULL, ".join(_TEXTS)} TEXT NOT NULL,
        size        INTEGER NOT NULL,
        komi        REAL NOT NULL,
        rules       TEXT NOT NULL,     -- JSON
        setup       TEXT,              -- JSON: Black's points, White's; NULL for an empty board
        first       INTEGER NOT NULL,  -- 1 Black, 2 White
        moves       BLOB NOT NULL,     -- little-endian uint16 each
        opening     INTEGER NOT NULL,
        seed        TEXT NOT NULL,     -- decimal; 64 bits without a sign don't fit an INTEGER
        winner      INTEGER,           -- 1 Black, 2 White, NULL for a draw or an unknown outcome
        ending      TEXT,              -- NULL for an unknown outcome
        margin      REAL,              -- Black's
        black_score REAL,              -- 1, 1/2 or 0; NULL for an unknown outcome
        adjudged    INTEGER,           -- 1 Black, 2 White, NULL where nothing was adjudicated
        black_seconds REAL NOT NULL, white_seconds REAL NOT NULL,
        arena       TEXT NOT NULL,     -- the version of arena that stored it
        {" INTEGER NOT NULL DEFAULT 0, ".join(_LATER)} INTEGER NOT NULL DEFAULT 0,
        stats       BLOB,              -- of each move, see _pack; NULL where nothing is known of any
        UNIQUE (id)
    ) STRICT
    """,
    "CREATE INDEX games_of_event ON games (event)",  # and in it, in the order of arrival
    """
    CREATE TABLE events (id TEXT PRIMARY KEY, created TEXT NOT NULL, settings TEXT NOT NULL, plan TEXT NOT NULL) STRICT
    """,
    "CREATE TABLE players (identity TEXT PRIMARY KEY, player TEXT NOT NULL) STRICT",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {SCHEMA}",
)
_SUMMARY = (
    "seq, id, date, black, white, black_player, white_player, length(moves) / 2, opening, black_seconds, "
    f"white_seconds, reason, unrated, {', '.join(_LATER)}, {', '.join(_RESULT)}, size, "
    f"ifnull(substr(moves, 1, 2 * iif(opening > 0, opening, {FIRST_MOVES})), x'')"
)
_RATED = "unrated = '' AND black_player <> '' AND white_player <> '' AND black_player <> white_player"  # may be rated


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A match or tournament: its settings never change; its plan, written by ``event_to_json``, may grow."""

    id: str
    created: str
    settings: dict[str, Any]
    plan: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """Games that may be rated together: of one size, komi, number of Black's handicap stones, and rules. ``rules`` and
    ``setup`` are as stored."""

    games: int
    rules: str
    setup: str | None
    size: int
    komi: float
    name: str  # of the rules
    handicap: int

    def __str__(self) -> str:
        stones = f", {self.handicap} handicap stones" if self.handicap else ""
        return f"{self.size}x{self.size}, {self.name} rules, komi {self.komi:g}{stones}"


def database(results: Path) -> Path:
    """The file in a folder of results."""
    return results / "arena.db"


def journals_of(results: Path, event: str) -> Path:
    """The folder in a folder of results where the games of an event are kept that are under way."""
    return results / "journals" / event


class Store:
    """The database, open for one thread; ``with`` closes it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: IO[bytes] | None):
        """For ``Store.open``: takes over an open connection and, to write, the lock."""
        self.path, self._connection, self._lock = path, connection, lock
        self._file = path.stat()

    @classmethod
    def of(cls, results: Path, *, write: bool = False, print_line: Callable[[str], None] | None = None) -> Store:
        """The database in a folder of results, as ``open`` opens it."""
        return cls.open(database(results), write=write, print_line=print_line)

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False, print_line: Callable[[str], None] | None = None) -> Store:
        """Open the results at ``path``. With ``write``, a missing file and its folder are created, and no other arena
        can write until this one is closed. While another one writes, ``print_line`` gets a line and this waits; without
        it, this raises. Raises StoreError for a file that is missing, in use, damaged or of another version."""
        path = Path(path)
        if path.exists() and not path.is_file():
            raise StoreError(f"{path} is not a file; results are kept in a file")
        if not write and not os.path.exists(path):
            raise StoreError(f"there are no results at {path}; play some games with 'arena match'")
        with ExitStack() as opened:
            lock = opened.enter_context(_take_lock(path, print_line)) if write else None
            store = cls(path, _connect(path, write), lock)
            opened.pop_all()
            return store

    def check_place(self) -> None:
        """Raises StoreError when the file was moved, deleted or replaced since it was opened to be written."""
        try:
            is_there = self._lock is None or os.path.samestat(self.path.stat(), self._file)
        except OSError:
            is_there = False
        if not is_there:
            raise StoreError(
                f"{self.path} was moved or deleted while games were played; put it back and run the same command again"
            )

    def close(self) -> None:
        """Close the file and release the writer's lock. A second call does nothing."""
        try:
            with _in_one_line(self.path):
                self._connection.close()
        finally:
            if self._lock is not None:
                self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Games ---

    def append(self, records: Sequence[GameRecord], patience: float = STORE_LOCK_SECONDS) -> None:
        """Store finished games in one transaction; they are durable on return. Raises StoreError, and then none of them
        is stored: an id that is empty or already there, a disk that is full; StoreBusy when another program holds the
        file for ``patience`` seconds."""
        rows = [_row_from_record(record) for record in records]
        self.check_place()
        with self._transaction(patience):
            for row in rows:
                columns, values = ", ".join(row), ", ".join(f":{name}" for name in row)
                insert = f"INSERT INTO games ({columns}) VALUES ({values}) ON CONFLICT (id) DO NOTHING"
                if not self._connection.execute(insert, row).rowcount:
                    raise StoreError(f"game '{row['id']}' is already in {self.path}; nothing of its batch was stored")

    def journals(self, event: str) -> Path:
        """The folder of an event's journals."""
        return journals_of(self.path.parent, event)

    def ids(self, event: str) -> set[str]:
        """The ids of an event's games."""
        return {row["id"] for row in self._all("SELECT id FROM games WHERE event = ?", event)}

    def game(self, text: str) -> GameRecord:
        """The game of this id, or of the row with this number. Raises StoreError when there is none."""
        number = int(text) if text.isdecimal() and len(text) < 19 else None  # fewer than 2**63
        for _, record in self._records("id = :id OR seq = :number", {"id": text, "number": number}):
            return record
        raise StoreError(f"there is no game '{text}' in {self.path}; 'arena games' lists them")

    def number(self, id: str) -> int:
        """The number of the row of this game."""
        return int(self._all("SELECT seq FROM games WHERE id = ?", id)[0]["seq"])

    def games(self, **wanted: Any) -> Iterator[GameRecord]:
        """The games of ``numbered_games``."""
        return (record for _, record in self.numbered_games(**wanted))

    def numbered_games(
        self, *, limit: int | None = None, newest_first: bool = False, **wanted: Any
    ) -> Iterator[tuple[int, GameRecord]]:
        """At most ``limit`` games in the order of their arrival, or the newest first, read lazily, each with the number
        of its row, which is unique in the file. ``wanted`` are the filters of ``count``."""
        condition, values = _condition(**wanted)
        values["limit"] = -1 if limit is None else max(0, limit)
        yield from self._records(f"{condition} ORDER BY seq {'DESC' if newest_first else 'ASC'} LIMIT :limit", values)

    def _records(self, condition: str, values: dict[str, Any]) -> Iterator[tuple[int, GameRecord]]:
        with _in_one_line(self.path):
            for row in self._connection.execute(f"SELECT * FROM games WHERE {condition}", values):
                try:
                    record = _record_from_row(row)
                except (*DECODE_ERRORS, ConfigError, struct.error, ZlibError, msgspec.MsgspecError) as error:
                    raise self._damaged(f"game '{row['id']}'", error) from error
                yield row["seq"], record

    def game_summaries(
        self, *, event: str | None = None, pool: Pool | None = None, at_once: int = GAMES_AT_ONCE
    ) -> Iterator[list[GameSummary]]:
        """Games without their moves, in the order of their arrival, ``at_once`` at a time: all, those of an event, or
        those of a pool that may be rated. Raises StoreError for one that is damaged."""
        condition, values = _condition(event=event)
        if pool is not None:
            condition += f" AND {_RATED} AND rules = :rules AND setup IS :setup"
            values |= {"rules": pool.rules, "setup": pool.setup}
        with _in_one_line(self.path):
            cursor = self._connection.cursor()
            cursor.row_factory = None
            cursor.execute(f"SELECT {_SUMMARY} FROM games WHERE {condition} ORDER BY seq", values)
            while rows := cursor.fetchmany(at_once):
                keys = _opening_keys([row[-2:] for row in rows])
                yield [self._game_summary(row, key) for row, key in zip(rows, keys, strict=True)]

    def _game_summary(self, row: tuple[Any, ...], opening_key: int) -> GameSummary:
        try:
            return GameSummary._make((*row[:-7], opening_key, *_decode_result(*row[-7:-2])))
        except DECODE_ERRORS as error:
            raise self._damaged(f"game '{row[1]}'", error) from error

    def participants(self, event: str) -> dict[str, str]:
        """The players of an event's games: names by identity, the latest name of each."""
        both = "SELECT black_player AS identity, black AS name, seq FROM games WHERE event = ?1 "
        both += "UNION ALL SELECT white_player, white, seq FROM games WHERE event = ?1"
        query = f"SELECT identity, name FROM ({both}) GROUP BY identity, name ORDER BY max(seq)"
        return dict(map(tuple, self._all(query, event)))

    def count(self, **wanted: Any) -> int:
        """The number of games of an ``event`` (id) and of players (names or identities) with these ``endings``."""
        condition, values = _condition(**wanted)
        return int(self._all(f"SELECT count(*) FROM games WHERE {condition}", **values)[0][0])

    def names(self) -> list[str]:
        """The names of all players of stored games."""
        return [str(name) for (name,) in self._all("SELECT black FROM games UNION SELECT white FROM games")]

    def pools(self) -> list[Pool]:
        """The pools of games that may be rated together, the largest first, those with handicap stones last."""
        query = f"""
            SELECT count(*) AS games, rules, setup, size, komi, json_extract(rules, '$.name'),
                coalesce(json_array_length(setup, '$[0]'), 0)
            FROM games WHERE black_score IS NOT NULL AND {_RATED}
            GROUP BY rules, setup ORDER BY setup IS NOT NULL, games DESC, rules, setup
        """
        return [Pool(*row) for row in self._all(query)]

    def events_of(self, pool: Pool) -> dict[str, int]:
        """The events whose games are in a pool, with the numbers of these."""
        query = f"SELECT event, count(*) FROM games WHERE {_RATED} AND rules = ? AND setup IS ? GROUP BY event"
        return dict(map(tuple, self._all(query, pool.rules, pool.setup)))

    def damage(self) -> str:
        """The errors that SQLite's check finds in the file, in one line; empty when there are none."""
        return _one_line("; ".join(row[0] for row in self._all("PRAGMA quick_check(3)"))).removeprefix("ok")

    # --- Events and players ---

    def add_event(self, event: StoredEvent) -> None:
        """Store an event, or the new plan of a stored one. Raises StoreError if that one has other settings."""
        settings = msgspec.json.encode(event.settings, order="sorted").decode()
        insert = "INSERT INTO events VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET plan = excluded.plan"
        with self._transaction():
            for known in self.events():
                if known.id == event.id and known.settings != msgspec.json.decode(settings):
                    raise StoreError(f"event '{event.id}' is in {self.path} with other settings; take another name")
            self._connection.execute(insert, (event.id, event.created, settings, event.plan))

    def event(self, id: str) -> StoredEvent:
        """The event of this id, or the only one whose id begins so. Raises StoreError with the nearest ids."""
        known = {event.id: event for event in self.events()}
        fits = [id] if id in known else [one for one in known if id and one.startswith(id)]
        if len(fits) > 1:
            raise StoreError(f"'{id}' fits {len(fits)} events in {self.path}, as {fits[0]}; give more of the id")
        if not fits:
            close = ", ".join(get_close_matches(id, known, n=3, cutoff=0.4) or [*known][-3:]) or "none"
            raise StoreError(f"there is no event '{id}' in {self.path}; there are {close}")
        return known[fits[0]]

    def rename_event(self, event: StoredEvent, renamed: StoredEvent) -> None:
        """Store an event and its games under another id. Raises StoreError when that is taken."""
        with self._transaction():
            if renamed.id in {known.id for known in self.events()}:
                raise StoreError(f"there is an event '{renamed.id}' already; take another name")
            settings = msgspec.json.encode(renamed.settings, order="sorted").decode()
            update = "UPDATE events SET id = ?, settings = ?, plan = ? WHERE id = ?"
            self._connection.execute(update, (renamed.id, settings, renamed.plan, event.id))
            update = "UPDATE games SET event = :new, id = :new || substr(id, length(:old) + 1) WHERE event = :old"
            self._connection.execute(update, {"new": renamed.id, "old": event.id})

    def delete_event(self, event: StoredEvent) -> None:
        """Remove an event, its games and the journals of games under way."""
        with self._transaction():
            self._connection.execute("DELETE FROM games WHERE event = ?", (event.id,))
            self._connection.execute("DELETE FROM events WHERE id = ?", (event.id,))
        shutil.rmtree(self.journals(event.id), ignore_errors=True)

    def latest_event(self) -> StoredEvent:
        """The event whose game arrived last, or else the one added last. Raises StoreError when there is none."""
        last = "(SELECT max(seq) FROM games WHERE event = events.id)"
        for row in self._all(f"SELECT id FROM events ORDER BY ifnull({last}, 0) DESC, rowid DESC LIMIT 1"):
            return self.event(row["id"])
        raise StoreError(f"no event is stored in {self.path}; play one with 'arena match' or 'arena tournament'")

    def events(self) -> list[StoredEvent]:
        """All events, in the order they were added."""
        return [
            StoredEvent(id, created, self._decode(f"event '{id}'", settings, dict[str, Any]), plan)
            for id, created, settings, plan in self._all(
                "SELECT id, created, settings, plan FROM events ORDER BY rowid"
            )
        ]

    def add_players(self, players: Mapping[str, Player]) -> None:
        """Store players by identity in one transaction; one whose identity is known takes the new name."""
        rows = [(identity, msgspec.json.encode(player.stored).decode()) for identity, player in players.items()]
        insert = "INSERT INTO players VALUES (?, ?) ON CONFLICT (identity) DO UPDATE SET player = excluded.player"
        with self._transaction():
            self._connection.executemany(insert, rows)

    def players(self) -> dict[str, Player]:
        """All players by identity, in the order they were first added."""
        rows = self._all("SELECT identity, player FROM players ORDER BY rowid")
        players = {identity: self._decode(f"player '{identity}'", text, Player) for identity, text in rows}
        return {identity: player.stored for identity, player in players.items()}  # the text names no code

    def _decode(self, what: str, text: str, type: type[T]) -> T:
        try:
            return msgspec.json.decode(text, type=type)
        except (*DECODE_ERRORS, msgspec.MsgspecError) as error:
            raise self._damaged(what, error) from error

    def _damaged(self, what: str, error: Exception) -> StoreError:
        return StoreError(_one_line(f"{what} in {self.path} is damaged ({error}); restore the file from a copy"))

    # --- Inside ---

    def _all(self, query: str, *values: Any, **named: Any) -> list[sqlite3.Row]:
        with _in_one_line(self.path):
            return self._connection.execute(query, named or values).fetchall()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """A read transaction: all reads in this block see the same state, even while others store games."""
        with _in_one_line(self.path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    @contextmanager
    def _transaction(self, patience: float = STORE_LOCK_SECONDS) -> Iterator[None]:
        if self._lock is None:
            raise StoreError(f"{self.path} is open for reading; open it with write=True to store anything")
        with _in_one_line(self.path):
            self._connection.execute(f"PRAGMA busy_timeout = {round(1000 * patience)}")
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # after some errors SQLite has already rolled back
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {round(1000 * STORE_LOCK_SECONDS)}")


# --- Opening ---


def _take_lock(path: Path, print_line: Callable[[str], None] | None) -> IO[bytes]:
    """The open lock file; closing it, or the end of the process, releases the lock. Raises StoreError."""
    try:
        return files.lock(Path(f"{path}.lock"))
    except BlockingIOError as error:
        held = f"{path} is being written by another arena"
        if print_line is None:
            raise StoreBusy(f"{held}; wait until it ends or stop it") from error
        print_line(f"{held}; waiting until it ends.")
        return files.lock(Path(f"{path}.lock"), waits=True)
    except OSError as error:
        raise StoreError(f"{path} can't be written ({error.strerror}); use a folder that can be") from error


def _require_columns(connection: sqlite3.Connection, path: Path, write: bool) -> None:
    """Add the columns that earlier versions didn't make, for this connection only if it doesn't write, and drop the one
    that only they made. Raises StoreError where the tables aren't those that this version makes."""
    with closing(sqlite3.connect(":memory:")) as new:
        for statement in _CREATE:
            new.execute(statement)
        query = "SELECT t.name || '.' || c.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c"
        here, there = ({str(name) for (name,) in each.execute(query)} for each in (new, connection))
    later = [name for name in _LATER if f"games.{name}" not in there]
    here -= {f"games.{name}" for name in later}
    if "games.canonical" in there and write:
        connection.execute("ALTER TABLE games DROP COLUMN canonical")
    there -= {"games.canonical"}
    if changed := ", ".join(sorted(here ^ there)):
        raise _other_version(path, f"has other columns ({changed})")
    for name in later if write else ():
        connection.execute(f"ALTER TABLE games ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0")
    if later and not write:
        connection.execute(f"CREATE TEMP VIEW games AS SELECT *, 0 AS {', 0 AS '.join(later)} FROM main.games")


def _other_version(path: Path, how: str) -> StoreError:
    return StoreError(f"{path} {how}: another version of arena wrote it; use that version, or move the file away")


def _read_only_uri(path: Path) -> str:
    """The URI to read a database. SQLite writes files of its own beside it. On a read-only disk the database is read
    without them; if its log has games, a copy is read."""
    log, index = (Path(f"{path}-{end}") for end in ("wal", "shm"))
    if os.access(path.absolute().parent, os.W_OK) or index.exists():
        return f"{path.absolute().as_uri()}?mode=ro"
    if log.exists() and log.stat().st_size:
        copy = Path(tempfile.mkdtemp(dir=files.scratch())) / path.name
        for file in (path, log):
            shutil.copyfile(file, copy.with_name(file.name))
        return f"{copy.as_uri()}?mode=ro"
    return f"{path.absolute().as_uri()}?mode=ro&immutable=1"


def _connect(path: Path, write: bool) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=rwc" if write else _read_only_uri(path)
    with _in_one_line(path):
        connection = sqlite3.connect(
            uri, uri=True, timeout=STORE_LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.row_factory = sqlite3.Row
            (found,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            ids = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            if not found and not write:
                raise StoreError(f"there are no results in {path} yet; play some games with 'arena match'")
            if found and ids[0] != _APPLICATION:
                raise StoreError(f"{path} is another program's database; use another path")
            if found and ids[1] != SCHEMA:
                raise _other_version(path, f"has schema {ids[1]}, this one {SCHEMA}")
            if found:
                _require_columns(connection, path, write)
            if write:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
            if not found:
                connection.execute("BEGIN IMMEDIATE")
                for statement in _CREATE:
                    connection.execute(statement)
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def _in_one_line(path: Path) -> Iterator[None]:
    """Raise an error of SQLite as a StoreError that names the file and what to do."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte of an extended code is its class
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreBusy(f"another program holds {path}; close it, then run the same command again") from error
        if code == sqlite3.SQLITE_FULL:
            raise StoreError(f"no room on the disk for {path}; free some, then run the same command again") from error
        if code == sqlite3.SQLITE_IOERR:
            raise StoreError(f"the disk failed with {path} ({error}); check the disk and its free space") from error
        advice = "if it is damaged, move it away or restore it from a copy"
        raise StoreError(_one_line(f"{path} can't be used ({error}); {advice}")) from error


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _condition(
    event: str | None = None, player: str | Sequence[str] = (), endings: Sequence[str] = ()
) -> tuple[str, dict[str, Any]]:
    """An SQL condition and the values it names."""
    players, among = [player] if isinstance(player, str) else [*player], "IN (SELECT value FROM json_each(:players))"
    conditions = {
        "event = :event": event is not None,
        f"(black {among} OR white {among} OR black_player {among} OR white_player {among})": bool(players),
        "ending IN (SELECT value FROM json_each(:endings))": bool(endings),
    }
    values = {"event": event, "players": json.dumps(players), "endings": json.dumps([*map(str, endings)])}
    return " AND ".join(["TRUE", *(text for text, holds in conditions.items() if holds)]), values


# --- Rows and records ---


def _row_from_record(record: GameRecord) -> dict[str, Any]:
    if not record.id:
        raise StoreError(f"a game of '{record.black}' and '{record.white}' has no id; only games of events are stored")
    outcome, size, setup = record.outcome, record.rules.size, [[int(point) for point in own] for own in record.setup]
    if any(not 0 <= move <= size * size for move in (*setup[0], *setup[1], *record.moves)):
        raise StoreError(f"game '{record.id}' can't be stored: it has moves outside its board")
    # lone surrogates, as from an engine's undecodable output, don't cost the game
    return {
        **{name: getattr(record, name).encode("utf-8", "backslashreplace").decode() for name in _TEXTS},
        **{name: getattr(record, name) for name in _NUMBERS},
        "size": size,
        "komi": float(record.rules.komi),
        "rules": record.rules.to_json(),
        "setup": json.dumps(setup, separators=(",", ":")) if any(setup) else None,
        "first": int(record.first),
        "moves": struct.pack(f"<{len(record.moves)}H", *record.moves),
        "seed": str(record.seed),
        "winner": outcome and outcome.winner and int(outcome.winner),
        "ending": outcome and outcome.ending.value,
        "margin": outcome and outcome.margin,
        "black_score": outcome and outcome.black_score,
        "adjudged": record.adjudged and int(record.adjudged),
        "arena": __version__,
        "stats": _pack(record.facts),
    }


_PARTS = (10_000, 10, 1, 1_000)  # of its unit, in which each field of ``MoveStats`` is stored as a whole number


def _pack(stats: Sequence[MoveStats]) -> bytes | None:
    """A list for each field, encoded as MessagePack and compressed by zlib; None where all values are None."""
    if not any(value is not None for move in stats for value in move):
        return None
    columns = zip(_PARTS, zip(*stats, strict=True), strict=True)
    whole = [[None if value is None else round(value * parts) for value in column] for parts, column in columns]
    return compress(msgspec.msgpack.encode(whole), 9)


def _unpack(packed: bytes | None) -> tuple[MoveStats, ...]:
    if packed is None:
        return ()
    columns = zip(_PARTS, msgspec.msgpack.decode(decompress(packed), type=list[list[int | None]]), strict=True)
    stats = [[value if value is None or parts == 1 else value / parts for value in whole] for parts, whole in columns]
    return tuple(map(MoveStats, *stats))


@lru_cache(maxsize=4096)
def _decode_result(
    first: int, adjudged: int | None, winner: int | None, ending: str | None, margin: float | None
) -> tuple[Colour, Colour | None, Outcome | None]:
    won = None if winner is None else Colour(winner)
    outcome = None if ending is None else Outcome(won, Ending(ending), margin)
    return Colour(first), None if adjudged is None else Colour(adjudged), outcome


def _record_from_row(row: sqlite3.Row) -> GameRecord:
    black, white = msgspec.json.decode(row["setup"] or "[[],[]]", type=tuple[tuple[int, ...], tuple[int, ...]])
    rules, facts = _rules_from_json(row["rules"]), _unpack(row["stats"])
    moves = struct.unpack(f"<{len(row['moves']) // 2}H", row["moves"])
    if facts and len(facts) != len(moves):
        raise ValueError(f"{len(facts)} figures for {plural(len(moves), 'move')}")
    if not all(0 <= move <= rules.size**2 for move in (*black, *white, *moves)):
        raise ValueError("a point outside the board")
    first, adjudged, outcome = _decode_result(*(row[name] for name in _RESULT))
    same = {name: row[name] for name in (*_TEXTS, *_NUMBERS)}
    seed, setup = int(row["seed"]), (black, white)
    return GameRecord(
        rules, moves, outcome, setup=setup, first=first, seed=seed, adjudged=adjudged, facts=facts, **same
    )


def _opening_keys(rows: Sequence[tuple[int, bytes]]) -> list[int]:
    """Of the openings of games, each with the size of its board; 0 for a size that no board has."""
    keys, kinds = [0] * len(rows), defaultdict[tuple[int, int], list[int]](list)
    for at, (size, moves) in enumerate(rows):
        if 1 < size < 26:
            kinds[size, len(moves) // 2].append(at)
    for (size, length), places in kinds.items():
        moves = b"".join(rows[at][1][: 2 * length] for at in places)
        openings = np.frombuffer(moves, "<u2").reshape(len(places), length).clip(max=size * size)
        for at, key in zip(places, opening_keys(size, openings), strict=True):
            keys[at] = key
    return keys


@lru_cache(maxsize=64)
def _rules_from_json(text: str) -> Rules:
    from arena.go.game import Rules

    return Rules.from_json(json.loads(text))
