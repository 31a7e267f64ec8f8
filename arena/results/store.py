"""``results/arena.db``: finished games, events and players in SQLite.

One arena writes at a time, any number read meanwhile. A game is on disk when ``append`` returns, whole; what was not
acknowledged may be missing, whole. Every failure is a StoreError of one line.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self
from zlib import compress, decompress
from zlib import error as ZlibError

import msgspec

from arena import ConfigError, StoreBusy, StoreError, __version__, files
from arena.files import FOREIGN
from arena.go.coords import Colour
from arena.go.record import Ending, GameSummary, Outcome
from arena.players.player import Player

if TYPE_CHECKING:  # players and results are read without games: these pull in the compiler
    from arena.go.game import Rules
    from arena.go.record import GameRecord, MoveStats

SCHEMA = 1
_APPLICATION = 0x41524E41  # "ARNA" in the file's header, so that no other program's database is taken for results
_OLDEST_SQLITE = (3, 37, 0)  # STRICT tables
_PATIENCE = 10.0  # seconds to wait for a program that holds the file for a moment, such as a backup

AT_ONCE = 1_000
"""Games that ``game_summaries`` reads at a time, at most."""

_CREATE = (
    """
    CREATE TABLE games (
        seq           INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of arrival, never used twice
        id            TEXT NOT NULL UNIQUE,
        event         TEXT NOT NULL,
        black         TEXT NOT NULL,
        white         TEXT NOT NULL,
        black_player  TEXT NOT NULL,
        white_player  TEXT NOT NULL,
        black_rank    TEXT NOT NULL,
        white_rank    TEXT NOT NULL,
        size          INTEGER NOT NULL,
        komi          REAL NOT NULL,
        rules         TEXT NOT NULL,     -- JSON
        setup         TEXT,              -- JSON: Black's points, White's; NULL for an empty board
        first         INTEGER NOT NULL,  -- 1 Black, 2 White
        moves         BLOB NOT NULL,     -- little-endian uint16 each
        canonical     BLOB NOT NULL,     -- 16 bytes, the same for games that are identical but for a symmetry
        opening       INTEGER NOT NULL,
        seed          TEXT NOT NULL,     -- decimal; 64 bits without a sign don't fit an INTEGER
        winner        INTEGER,           -- 1 Black, 2 White, NULL for a draw or an unknown outcome
        ending        TEXT,              -- NULL for an unknown outcome
        margin        REAL,              -- Black's
        black_score   REAL,              -- 1, 1/2 or 0; NULL for an unknown outcome
        reason        TEXT NOT NULL,
        fault_details TEXT NOT NULL,
        adjudged      INTEGER,           -- 1 Black, 2 White, NULL where nothing was adjudicated
        black_seconds REAL NOT NULL,
        white_seconds REAL NOT NULL,
        date          TEXT NOT NULL,
        unrated       TEXT NOT NULL DEFAULT '',  -- why the game doesn't count for ratings; empty where it does
        arena         TEXT NOT NULL DEFAULT '',  -- the version of arena that stored it
        facts         BLOB               -- what is known of each move, see _PACKED; NULL where that is nothing
    ) STRICT
    """,
    "CREATE INDEX games_of_event ON games (event)",  # and in it, in the order of arrival
    """
    CREATE TABLE events (
        id       TEXT PRIMARY KEY,
        created  TEXT NOT NULL,
        settings TEXT NOT NULL,
        plan     TEXT NOT NULL DEFAULT ''
    ) STRICT
    """,
    """
    CREATE TABLE players (
        identity TEXT PRIMARY KEY,
        player   TEXT NOT NULL  -- JSON
    ) STRICT
    """,
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {SCHEMA}",
)

_SCORED = (
    *("seq", "id", "date", "black", "white", "black_player", "white_player", "length(moves) / 2", "opening"),
    *("black_seconds", "white_seconds", "reason", "unrated", "canonical", "first", "adjudged"),
    *("winner", "ending", "margin"),
)
_RATED = "unrated = '' AND black_player <> '' AND white_player <> '' AND black_player <> white_player"
"""The condition for games that may count for ratings."""

# What a record and its row have under the same name and in the same form.
_NAMES = ("black", "white", "black_player", "white_player", "black_rank", "white_rank")
_TEXTS = ("id", "event", *_NAMES, "reason", "fault_details", "date", "unrated")
_NUMBERS = ("opening", "black_seconds", "white_seconds")


@dataclass(frozen=True, slots=True)
class Event:
    """A match or tournament: when it was made, and in whatever text the maker chose, its settings, which never change,
    and its plan, which may grow: who plays how many games."""

    id: str
    created: str
    settings: str
    plan: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """Games that may be rated together: of one size, rules, komi and handicap; ``rules`` and ``setup`` as stored."""

    rules: str
    setup: str | None
    games: int

    @property
    def size(self) -> int:
        return int(json.loads(self.rules)["size"])

    @property
    def komi(self) -> float:
        return float(json.loads(self.rules)["komi"])

    @property
    def name(self) -> str:
        """Of the rules."""
        return str(json.loads(self.rules)["name"])

    @property
    def handicap(self) -> int:
        """Stones that Black has on the board before the first move."""
        return len(json.loads(self.setup)[0]) if self.setup else 0

    def __str__(self) -> str:
        stones = f", {self.handicap} handicap stones" if self.handicap else ""
        return f"{self.size}x{self.size}, {self.name} rules, komi {self.komi:g}{stones}"


def database(results: Path) -> Path:
    """The file in a folder of results."""
    return results / "arena.db"


class Store:
    """The database, open for one thread; ``with`` closes it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: IO[bytes] | None):
        """For ``Store.open``: takes over an open connection and, to write, the lock."""
        self.path = path
        self._connection = connection
        self._lock = lock
        self._file = files.identity(path)
        self._written = self._last = 0  # bytes of the log and the last game, as they were stored by this

    @classmethod
    def of(cls, results: Path, *, write: bool = False) -> Store:
        """The database in a folder of results, as ``open`` opens it."""
        return cls.open(database(results), write=write)

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False) -> Store:
        """The results at ``path``. To write makes the file and its folder where missing, and shuts out other writers
        until closed. Raises StoreError when they aren't there to be read, another arena writes them, they are damaged,
        or another version of arena wrote them."""
        path = Path(path)
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            wanted = ".".join(map(str, _OLDEST_SQLITE))
            raise StoreError(f"Python's SQLite is {sqlite3.sqlite_version}; arena needs {wanted} or newer")
        if path.is_dir():
            raise StoreError(f"{path} is a folder; results are kept in a file")
        if not write and not os.path.exists(path):
            raise StoreError(f"there are no results at {path}; play some games with 'arena match'")
        lock = _take_lock(path) if write else None
        try:
            return cls(path, _connect(path, write), lock)
        except BaseException:
            if lock is not None:
                lock.close()
            raise

    def check_place(self) -> None:
        """Raises StoreError when the file was moved, deleted or replaced since it was opened to be written."""
        try:
            is_there = self._lock is None or files.identity(self.path) == self._file
        except OSError:
            is_there = False
        if not is_there:
            raise StoreError(
                f"{self.path} was moved or deleted while games were played; put it back and run the same command again"
            )
        if self._lock is not None and self._size_of_log() < self._written:
            self._require_all()

    def _size_of_log(self) -> int:
        with suppress(OSError):
            return os.stat(f"{self.path}-wal").st_size
        return 0

    def _require_all(self) -> None:
        """The log is shorter than it was: have SQLite read it anew, instead of copying what isn't there any more into
        the database. Raises StoreError when games are gone."""
        with suppress(OSError), open(f"{self.path}-shm", "r+b") as index:
            index.write(bytes(136))  # the header, twice, and the marks of a checkpoint
        try:
            last = self._connection.execute("SELECT ifnull(max(seq), 0) FROM games").fetchone()[0]
        except sqlite3.Error:
            last = 0
        if last < self._last:
            raise StoreError(
                f"another program cut {self.path}-wal while games were played, and {self._last - last} games are "
                "gone; run the same command again"
            )

    def close(self) -> None:
        """Free the file, and the lock of a writer. Once more does nothing."""
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

    def append(self, records: Sequence[GameRecord], patience: float = _PATIENCE) -> None:
        """Store finished games in one transaction; they are durable on return. Raises StoreError, and then none of them
        is stored: an id that is empty or already there, a disk that is full. StoreBusy is raised when another program
        holds the file for ``patience`` seconds."""
        rows = [_row_from_record(record) for record in records]
        self.check_place()
        with self._transaction(patience):
            for row in rows:
                names = ", ".join(row)
                added = self._connection.execute(
                    f"INSERT INTO games ({names}) VALUES (:{names.replace(' ', ' :')}) ON CONFLICT (id) DO NOTHING", row
                )
                if not added.rowcount:
                    raise StoreError(f"game '{row['id']}' is already in {self.path}; nothing of its batch was stored")
            self._last = self._connection.execute("SELECT ifnull(max(seq), 0) FROM games").fetchone()[0]

    def ids(self, event: str) -> set[str]:
        """The ids of an event's games."""
        with _in_one_line(self.path):
            return {row["id"] for row in self._connection.execute("SELECT id FROM games WHERE event = ?", (event,))}

    def game(self, id: str) -> GameRecord:
        """The game of this id. Raises StoreError when there is none."""
        with _in_one_line(self.path):
            row = self._connection.execute("SELECT * FROM games WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise StoreError(f"there is no game '{id}' in {self.path}; 'arena games' lists them")
        return self._record(row)

    def find_game(self, text: str) -> GameRecord:
        """The game whose row has the number ``text``, as ``numbered_games`` gives it; else the game whose id is
        ``text``, or the only one whose id begins or ends so: ``league/7`` ends with the game's number in its event.
        Raises StoreError when there is none, or more than one."""
        event, _, number = text.rpartition("/")
        if text.isdecimal():
            for _, record in self._numbered("seq = :seq", {"seq": min(int(number), 2**63 - 1)}):
                return record
            return self.game(text)
        tail = f"/{number:0>5}" if number.isdecimal() else text
        fits = {
            "tail": tail,
            "head": event if number.isdecimal() else "",
            "whole": event + tail if number.isdecimal() else text,
            "text": text,
        }
        query = """
            SELECT id FROM games WHERE id = :text OR substr(id, 1, length(:text)) = :text
            OR (substr(id, -length(:tail)) = :tail
                AND (substr(id, 1, length(:head)) = :head OR substr(id, -length(:whole)) = :whole))
            ORDER BY id <> :text, seq DESC
        """
        with _in_one_line(self.path):
            found = [row["id"] for row in self._connection.execute(query, fits)]
        if len(found) > 1 and found[0] != text:
            listed = ", ".join(found[:4]) + (", ..." if len(found) > 4 else "")
            raise StoreError(f"'{text}' fits {len(found)} games in {self.path}: {listed}; give more of the id")
        return self.game(found[0] if found else text)

    def latest_ids(self, beginning: str, most: int) -> list[str]:
        """At most ``most`` ids with this beginning, the latest game first."""
        query = "SELECT id FROM games WHERE substr(id, 1, length(?1)) = ?1 ORDER BY seq DESC LIMIT ?2"
        with _in_one_line(self.path):
            return [row["id"] for row in self._connection.execute(query, (beginning, most))]

    def games(self, **wanted: Any) -> Iterator[GameRecord]:
        """The games of ``numbered_games``."""
        return (record for _, record in self.numbered_games(**wanted))

    def numbered_games(
        self,
        *,
        limit: int | None = None,
        newest_first: bool = False,
        spread: int | None = None,
        **wanted: Any,
    ) -> Iterator[tuple[int, GameRecord]]:
        """Games in the order of their arrival, or the other way round, read as they are asked for, each with the number
        of its row, which no other game of the file has. ``wanted`` are the filters of ``count``.

        ``limit`` keeps the first N in that order, and ``spread`` keeps N at equal distances.
        """
        condition, values = _condition(**wanted)
        total = 0 if spread is None else self._number(condition, values)
        if spread is not None and spread < total:
            values |= {"spread": spread, "total": total}
            condition = f"""seq IN (
                SELECT seq FROM (SELECT seq, row_number() OVER (ORDER BY seq) - 1 AS place FROM games WHERE {condition})
                WHERE (place * :spread + :total - 1) / :total * :total / :spread = place
            )"""
        order = "DESC" if newest_first else "ASC"
        values["limit"] = -1 if limit is None else max(0, limit)
        return self._numbered(f"{condition} ORDER BY seq {order} LIMIT :limit", values)

    def game_summaries(self, *, event: str | None = None, pool: Pool | None = None) -> Iterator[list[GameSummary]]:
        """Games without their moves, in the order of their arrival, read some at a time: all, those of an event, or
        those of a pool that may be rated. Raises StoreError for one that is damaged."""
        condition, values = _condition(event=event)
        if pool is not None:
            condition += f" AND {_RATED} AND rules = :rules AND setup IS :setup"
            values |= {"rules": pool.rules, "setup": pool.setup}
        with _in_one_line(self.path):
            cursor = self._connection.cursor()
            cursor.row_factory = None
            cursor.execute(f"SELECT {', '.join(_SCORED)} FROM games WHERE {condition} ORDER BY seq", values)
            while rows := cursor.fetchmany(AT_ONCE):
                yield [self._game_summary(row) for row in rows]

    def _game_summary(self, row: tuple[Any, ...]) -> GameSummary:
        try:
            return GameSummary._make((*row[:14], _colour(row[14]), _colour(row[15]), _outcome(*row[16:])))
        except FOREIGN as error:
            raise StoreError(_damaged(row[1], self.path, error)) from error

    def participants(self, event: str) -> dict[str, str]:
        """Who has played in an event: names by identity, the latest name of each."""
        query = """
            SELECT identity, name FROM (
                SELECT black_player AS identity, black AS name, seq FROM games WHERE event = :event
                UNION ALL SELECT white_player, white, seq FROM games WHERE event = :event
            ) GROUP BY identity, name ORDER BY max(seq)
        """
        with _in_one_line(self.path):
            return {row["identity"]: row["name"] for row in self._connection.execute(query, {"event": event})}

    def count(self, **wanted: Any) -> int:
        """How many games there are of this ``event`` (by its id), with this ``player`` and this ``opponent``, won by
        this ``winner`` (names or identities), of this ``size``, that ended like this (``endings``)."""
        return self._number(*_condition(**wanted))

    def _number(self, condition: str, values: dict[str, Any]) -> int:
        with _in_one_line(self.path):
            return int(self._connection.execute(f"SELECT count(*) FROM games WHERE {condition}", values).fetchone()[0])

    def pools(self) -> list[Pool]:
        """What rated games there are, by what may be rated together, the most games first."""
        query = f"""
            SELECT rules, setup, count(*) AS games FROM games WHERE black_score IS NOT NULL AND {_RATED}
            GROUP BY rules, setup ORDER BY games DESC, rules, setup
        """
        with _in_one_line(self.path):
            pools = [Pool(*row) for row in self._connection.execute(query)]
        for pool in pools:
            try:
                str(pool)
            except FOREIGN as error:
                raise StoreError(
                    f"a game's rules or handicap in {self.path} are damaged; restore it from a copy"
                ) from error
        return pools

    def damage(self) -> str:
        """What SQLite's check finds wrong with the file, in a line; empty when it is sound."""
        with _in_one_line(self.path):
            found = [str(row[0]) for row in self._connection.execute("PRAGMA quick_check(3)")]
        return "" if found == ["ok"] else _one_line("; ".join(found))

    # --- Events and players ---

    def add_event(self, event: Event) -> None:
        """Store an event. One that is there with the same settings takes the new plan, so that it can be resumed;
        raises StoreError when its settings are others."""
        with self._transaction():
            known = self._connection.execute("SELECT settings FROM events WHERE id = ?", (event.id,)).fetchone()
            if known is None:
                self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?)", astuple(event))
            elif known["settings"] == event.settings:
                self._connection.execute("UPDATE events SET plan = ? WHERE id = ?", (event.plan, event.id))
            else:
                raise StoreError(f"event '{event.id}' is in {self.path} with other settings; take another name for it")

    def event(self, id: str) -> Event:
        """The event of this id, or the only one whose id begins so. Raises StoreError when there is none, or more, with
        the nearest names."""
        known = {event.id: event for event in self.events()}
        fits = [one for one in known if id and one.startswith(id)]
        if id not in known and len(fits) == 1:
            return known[fits[0]]
        if id not in known and fits:
            listed = ", ".join(fits[:4]) + (", ..." if len(fits) > 4 else "")
            raise StoreError(f"'{id}' fits {len(fits)} events in {self.path}: {listed}; give more of the id")
        if id not in known:
            close = get_close_matches(id, known, n=3, cutoff=0.4) or list(known)[-3:]
            listed = f"; there are {', '.join(close)}" if close else ""
            raise StoreError(f"there is no event '{id}' in {self.path}{listed}")
        return known[id]

    def latest_event(self) -> str:
        """The event of the game that arrived last; empty without games."""
        with _in_one_line(self.path):
            row = self._connection.execute("SELECT event FROM games ORDER BY seq DESC LIMIT 1").fetchone()
        return row["event"] if row else ""

    def events(self) -> list[Event]:
        """All events, in the order they were added."""
        with _in_one_line(self.path):
            rows = self._connection.execute("SELECT id, created, settings, plan FROM events ORDER BY rowid")
            events = [Event(*row) for row in rows]
        for event in events:
            self._check_object(f"event '{event.id}'", event.settings)
        return events

    def add_players(self, players: Mapping[str, Player]) -> None:
        """Store players by identity in one transaction; one whose identity is known takes the new name."""
        rows = [(identity, msgspec.json.encode(player.stored).decode()) for identity, player in players.items()]
        with self._transaction():
            self._connection.executemany(
                "INSERT INTO players VALUES (?, ?) ON CONFLICT (identity) DO UPDATE SET player = excluded.player",
                rows,
            )

    def players(self) -> dict[str, Player]:
        """All players by identity, in the order they were first added."""
        with _in_one_line(self.path):
            rows = self._connection.execute("SELECT identity, player FROM players ORDER BY rowid").fetchall()
        players = {}
        for identity, text in rows:
            try:
                players[identity] = msgspec.json.decode(text, type=Player).stored  # the text names no code
            except (*FOREIGN, msgspec.MsgspecError) as error:
                detail = f"player '{identity}' in {self.path} is damaged ({error})"
                raise StoreError(f"{detail}; restore it from a copy") from error
        return players

    def _check_object(self, what: str, text: str) -> None:
        """Raises StoreError for a text that isn't an object of JSON: no arena wrote it."""
        try:
            is_object = isinstance(json.loads(text), dict)
        except FOREIGN:
            is_object = False
        if not is_object:
            raise StoreError(f"{what} in {self.path} is damaged (its settings aren't JSON); restore it from a copy")

    # --- Inside ---

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """For a reader: what is read meanwhile is of one moment, whatever others store."""
        with _in_one_line(self.path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    def _numbered(self, condition: str, values: dict[str, Any]) -> Iterator[tuple[int, GameRecord]]:
        with _in_one_line(self.path):
            for row in self._connection.execute(f"SELECT * FROM games WHERE {condition}", values):
                yield row["seq"], self._record(row)

    def _record(self, row: sqlite3.Row) -> GameRecord:
        try:
            return _record_from_row(row)
        except (*FOREIGN, ConfigError, struct.error) as error:
            raise StoreError(_damaged(row["id"], self.path, error)) from error

    @contextmanager
    def _transaction(self, patience: float = _PATIENCE) -> Iterator[None]:
        if self._lock is None:
            raise StoreError(f"{self.path} is open for reading; open it with write=True to store anything")
        with _in_one_line(self.path):
            self._connection.execute(f"PRAGMA busy_timeout = {round(1000 * patience)}")
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
                self._written = self._size_of_log()
            except BaseException:
                if self._connection.in_transaction:  # after some errors SQLite has already rolled back
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {round(1000 * _PATIENCE)}")


# --- Opening ---


def _take_lock(path: Path) -> IO[bytes]:
    """The open lock file, which names this process; closing it, or dying, gives it back. Raises StoreError."""
    try:
        return files.lock(Path(f"{path}.lock"))
    except files.Held as error:
        process = f" (process {error.process})" if error.process else ""
        raise StoreError(f"{path} is being written by another arena{process}; wait until it ends or stop it") from error
    except OSError as error:
        raise StoreError(f"{path} can't be written ({error.strerror}); use a folder that can be") from error


def _connect(path: Path, write: bool) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={'rwc' if write else 'ro'}"
    with _in_one_line(path):
        connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
            if empty and not write:
                raise StoreError(f"there are no results in {path} yet; play some games with 'arena match'")
            if not empty:
                _check_origin(connection, path)
            if write:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
            if empty:
                connection.execute("BEGIN IMMEDIATE")
                for statement in _CREATE:
                    connection.execute(statement)
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection


def _check_origin(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise StoreError(f"{path} is another program's database; use another path")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA:
        raise StoreError(
            f"{path} was written by another version of arena (schema {version}, this one has {SCHEMA}); "
            "use that version, or move the file away"
        )
    found, wanted = _columns(connection), _own_columns()
    for table, columns in wanted.items():
        if changed := sorted(columns ^ found.get(table, set())):
            raise StoreError(
                f"the table '{table}' in {path} was changed (column {', '.join(changed)}); restore the file from a copy"
            )


def _columns(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """The names of the columns of each table."""
    found: dict[str, set[str]] = {}
    query = "SELECT t.name, c.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c WHERE t.type = 'table'"
    for table, column in connection.execute(query):
        found.setdefault(table, set()).add(column)
    return found


@cache
def _own_columns() -> dict[str, set[str]]:
    """The same of a new database."""
    connection = sqlite3.connect(":memory:")
    for statement in _CREATE:
        connection.execute(statement)
    found = _columns(connection)
    connection.close()
    del found["sqlite_sequence"]
    return found


@contextmanager
def _in_one_line(path: Path) -> Iterator[None]:
    """Whatever SQLite raises becomes a StoreError that names the file and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        kind = StoreError
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:  # the low byte of an extended code is its class
            case sqlite3.SQLITE_FULL:
                text = f"no room on the disk for {path}; free some, then run the same command again"
            case sqlite3.SQLITE_NOTADB:
                text = f"{path} is not a database; move it away, then run the same command again"
            case sqlite3.SQLITE_CORRUPT:
                text = f"{path} is damaged ({error}); move it away or restore it from a copy"
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                kind = StoreBusy
                text = f"another program holds {path}; close it, then run the same command again"
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
                text = f"{path} can't be used ({error}); its folder has to be there and writable, for reading too"
            case sqlite3.SQLITE_IOERR:
                text = f"the disk failed with {path} ({error}); check the disk and its free space"
            case _:
                text = f"{path} can't be used ({error}); if it is damaged, move it away or restore it from a copy"
        raise kind(_one_line(text)) from error


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _condition(
    *,
    event: str | None = None,
    player: str | None = None,
    opponent: str | None = None,
    winner: str | None = None,
    size: int | None = None,
    endings: Sequence[str] = (),
) -> tuple[str, dict[str, Any]]:
    """An SQL condition and the values it names."""
    won = "CASE winner WHEN 1 THEN :winner IN (black, black_player) WHEN 2 THEN :winner IN (white, white_player) END"
    given = {
        "event = :event": event,
        ":player IN (black, white, black_player, white_player)": player,
        ":opponent IN (black, white, black_player, white_player)": opponent,
        won: winner,
        "size = :size": size,
        "ending IN (SELECT value FROM json_each(:endings))": endings or None,
    }
    condition = " AND ".join(["TRUE", *(text for text, value in given.items() if value is not None)])
    values = {"event": event, "player": player, "opponent": opponent, "winner": winner, "size": size}
    return condition, values | {"endings": json.dumps([str(ending) for ending in endings])}


# --- Rows and records ---


def _row_from_record(record: GameRecord) -> dict[str, Any]:
    if not record.id:
        raise StoreError(f"a game of '{record.black}' and '{record.white}' has no id; only games of events are stored")
    outcome, size = record.outcome, record.rules.size
    setup = [[int(point) for point in points] for points in record.setup]
    if any(not 0 <= move <= size * size for move in (*setup[0], *setup[1], *record.moves)):
        raise StoreError(f"game '{record.id}' can't be stored: it has moves outside its board")
    row: dict[str, Any] = {
        "size": size,
        "komi": float(record.rules.komi),
        "rules": record.rules.to_json(),
        "setup": _compact_json(setup) if any(setup) else None,
        "first": int(record.first),
        "moves": struct.pack(f"<{len(record.moves)}H", *record.moves),
        "canonical": record.canonical,
        "seed": str(record.seed),
        "winner": None if outcome is None or outcome.winner is None else int(outcome.winner),
        "ending": None if outcome is None else outcome.ending.value,
        "margin": None if outcome is None else outcome.margin,
        "black_score": None if outcome is None else outcome.black_score,
        "adjudged": None if record.adjudged is None else int(record.adjudged),
    }
    for name in _TEXTS:  # lone surrogates, as from an engine's undecodable output, don't cost the game
        row[name] = getattr(record, name).encode("utf-8", "backslashreplace").decode()
    for name in _NUMBERS:
        row[name] = getattr(record, name)
    row["arena"] = __version__
    row["facts"] = _packed(record.facts)
    return row


_PACKED = (("<u2", 1e4), ("<i2", 10), ("<u4", 1), ("<u4", 1e3))
"""How the facts of all moves are packed: a byte for the form, 1, then with zlib a column for each field of
``MoveStats``, of this type and in these parts of its unit; the last value of the type that there is stands for an
unknown one."""


def _packed(facts: Sequence[MoveStats]) -> bytes | None:
    """As they are stored; None where nothing is known of any move."""
    import numpy as np

    if not any(value is not None for fact in facts for value in fact):
        return None
    columns = []
    for (form, parts), column in zip(_PACKED, zip(*facts, strict=True), strict=True):
        unknown = np.iinfo(form).max
        columns.append(np.array([unknown if one is None else round(one * parts) for one in column], form).tobytes())
    return b"\1" + compress(b"".join(columns), 9)


def _unpacked(packed: bytes | None) -> tuple[MoveStats, ...]:
    """Raises ValueError for what isn't packed so."""
    import numpy as np

    from arena.go.record import MoveStats

    if packed is None:
        return ()
    try:
        data = decompress(packed[1:])
    except ZlibError as error:
        raise ValueError(str(error)) from None
    if packed[:1] != b"\1" or len(data) % sum(np.dtype(form).itemsize for form, _ in _PACKED):
        raise ValueError("its facts are in another form")
    moves, begin, columns = len(data) // sum(np.dtype(form).itemsize for form, _ in _PACKED), 0, []
    for form, parts in _PACKED:
        values = np.frombuffer(data, form, moves, begin).tolist()
        begin += moves * np.dtype(form).itemsize
        unknown = np.iinfo(form).max
        columns.append([None if one == unknown else one if parts == 1 else one / parts for one in values])
    return tuple(map(MoveStats, *columns))


@lru_cache(maxsize=16)
def _colour(number: int | None) -> Colour | None:
    return None if number is None else Colour(number)


@lru_cache(maxsize=4096)
def _outcome(winner: int | None, ending: str | None, margin: float | None) -> Outcome | None:
    return None if ending is None else Outcome(_colour(winner), Ending(ending), margin)


def _record_from_row(row: sqlite3.Row) -> GameRecord:
    """Raises what is in FOREIGN, ConfigError or struct.error when the row doesn't hold a record."""
    from arena.go.record import GameRecord

    black, white = json.loads(row["setup"]) if row["setup"] else ((), ())
    moves = row["moves"]
    return GameRecord(
        rules=_rules_from_json(row["rules"]),
        moves=struct.unpack(f"<{len(moves) // 2}H", moves),
        outcome=_outcome(row["winner"], row["ending"], row["margin"]),
        setup=(tuple(black), tuple(white)),
        first=Colour(row["first"]),
        seed=int(row["seed"]),
        adjudged=_colour(row["adjudged"]),
        facts=_unpacked(row["facts"]),
        **{name: row[name] for name in (*_TEXTS, *_NUMBERS)},
    )


def _damaged(id: object, path: Path, error: Exception) -> str:
    return _one_line(f"game '{id}' in {path} is damaged ({error}); restore the file from a copy")


@lru_cache(maxsize=64)
def _rules_from_json(text: str) -> Rules:
    from arena.go.game import Rules

    return Rules.from_json(json.loads(text))


def _compact_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
