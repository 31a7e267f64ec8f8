"""Journals: the moves of games under way, in files that outlive the processes that play them.

Each worker maps a file of its own into memory. If the worker or the command is killed, the file keeps every move.
"""

import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import isnan, nan
from pathlib import Path
from struct import Struct, error
from typing import NamedTuple

from arena import IllegalMove, UserError, files
from arena.contract.settings import open_regular
from arena.go.coords import Move
from arena.go.game import Rules
from arena.go.record import MoveStats
from arena.match.game_loop import LiveGame, PlayedMoves
from arena.match.schedule import Pairing
from arena.players.player import Player

MAGIC = b"arena journal 1\n"
HEAD = Struct("<16s16s2Q16x")  # MAGIC, the digest of the event, the number of slots, rows of a slot
SLOT = Struct("<16s4d16x")  # key of the game (zeros: none), moves, seconds on the next, continued, restarted
ROW = Struct("<5d")  # the move plus 1 (0 was never written), win rate, score, visits, seconds; NaN for None
FINISHED = 64  # slots besides those of the boards: a game that is over stays until as many others have begun
RESIGNATION = -1  # in the place of a move
BEGUN = "begun"  # the file with the games of workers that are gone

Players = Mapping[str, Player]  # by their names


@dataclass(frozen=True, slots=True)
class Assignment:
    """A game for a worker: a new one, or one that was interrupted, as it stood. ``played`` are the moves after the
    opening, ``seconds`` how long the side to move has thought."""

    pairing: Pairing
    played: PlayedMoves = ()
    seconds: float = 0.0
    continued: int = 0
    restarted: int = 0


class JournalGame(NamedTuple):
    """A game in a journal. ``played`` is None where its moves can't be read."""

    key: bytes
    played: PlayedMoves | None
    seconds: float = 0.0
    continued: int = 0
    restarted: int = 0


def game_key(pairing: Pairing, players: Players, rules: Rules) -> bytes:
    """16 bytes that identify a game by its id, opening, seed, rules and players' identities."""
    identities = tuple(players[name].identity if name in players else None for name in (pairing.black, pairing.white))
    text = repr((pairing.id, pairing.seed, tuple(map(int, pairing.opening)), rules.to_json(), identities))
    return blake2b(text.encode(), digest_size=16).digest()


# --- One file ---


def create_journal(path: Path, event: str, boards: int, rules: Rules) -> None:
    """Make an empty journal of a worker with ``boards`` boards. Raises OSError: the file has its full size."""
    slots = boards + FINISHED
    content = HEAD.pack(MAGIC, _digest(event), slots, rules.move_limit + 1)
    path.write_bytes(content + bytes(slots * _slot_size(rules.move_limit + 1)))


class Journal:
    """The journal of a worker, in its own hands: slots with a game each."""

    def __init__(self, path: Path):
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        _, _, self.slots, rows = HEAD.unpack_from(self._map)
        self._size = _slot_size(rows)

    def start_game(self, slot: int, key: bytes, continued: int = 0, restarted: int = 0) -> None:
        place = HEAD.size + slot * self._size
        SLOT.pack_into(self._map, place, bytes(16), 0.0, 0.0, continued, restarted)
        self._map[place : place + 16] = key

    def write_move(self, slot: int, number: int, move: Move, stats: MoveStats) -> None:
        """Add the move of this number, from 1."""
        place = HEAD.size + slot * self._size
        known = [nan if value is None else value for value in stats]
        row = place + SLOT.size + (number - 1) * ROW.size
        ROW.pack_into(self._map, row, move + 1 if move >= 0 else move, *known)
        _COUNTS.pack_into(self._map, place + 16, number, 0.0)

    def spend(self, slot: int, seconds: float) -> None:
        """Note the seconds that were spent on the next move."""
        _SECONDS.pack_into(self._map, HEAD.size + slot * self._size + 24, seconds)


_COUNTS, _SECONDS = Struct("<2d"), Struct("<d")  # in a slot, after the key


def read_journal(path: Path, event: str) -> tuple[list[JournalGame], str]:
    """The games in a journal, and what is wrong with it, empty where nothing is."""
    try:
        with open_regular(path) as file:
            content = file.read()
        magic, digest, slots, rows = HEAD.unpack_from(content)
    except (OSError, error):
        return [], "it can't be read"
    if magic != MAGIC:
        return [], "it is not a journal of this version"
    if digest != _digest(event):
        return [], "it is of another event"
    size, games = _slot_size(rows), list[JournalGame]()
    for place in range(HEAD.size, min(HEAD.size + slots * size, len(content) - SLOT.size + 1), size):
        key, moves, seconds, continued, restarted = SLOT.unpack_from(content, place)
        if any(key):
            played = _read_moves(content, place + SLOT.size, int(moves)) if 0 <= moves <= rows else None
            games.append(JournalGame(key, played, seconds, int(continued), int(restarted)))
    return games, "" if len(content) >= HEAD.size + slots * size else "it was cut"


def _read_moves(content: bytes, place: int, moves: int) -> PlayedMoves | None:
    if place + moves * ROW.size > len(content):
        return None
    played = []
    for move, *row in ROW.iter_unpack(content[place : place + moves * ROW.size]):
        if move == 0 or isnan(move):
            return None  # the power went before this row was on the disk
        rate, score, visits, seconds = (None if isnan(value) else value for value in row)
        stats = MoveStats(rate, score, None if visits is None else int(visits), seconds)
        played.append((int(move) - 1 if move > 0 else RESIGNATION, stats))
    return tuple(played)


def write_games(path: Path, event: str, games: Sequence[JournalGame]) -> None:
    """Write a journal of these games whole. Raises StoreError."""
    rows = max((len(game.played or ()) for game in games), default=0)
    size = _slot_size(rows)
    content = bytearray(HEAD.pack(MAGIC, _digest(event), len(games), rows)) + bytes(len(games) * size)
    with files.replacing(path) as aside:
        aside.write_bytes(content)
        journal = Journal(aside)
        for slot, game in enumerate(games):
            journal.start_game(slot, game.key, game.continued, game.restarted)
            for number, (move, stats) in enumerate(game.played or (), 1):
                journal.write_move(slot, number, move, stats)
            journal.spend(slot, game.seconds)


def _slot_size(rows: int) -> int:
    return SLOT.size + rows * ROW.size


def _digest(event: str) -> bytes:
    return blake2b(event.encode(), digest_size=16).digest()


# --- The journals of an event ---


class Journals:
    """The journals of an event's games, in a folder of its own: one a worker, and one of workers that are gone."""

    def __init__(self, folder: Path, players: Players, rules: Rules):
        self.folder, self._players, self._rules = folder, players, rules
        self.news: list[str] = []  # lines about journals that can't be used, which the reader removes
        self._is_complete = folder.is_dir()  # whether the folder has all games that were begun
        self._games: dict[bytes, JournalGame] = {}

    def key(self, pairing: Pairing) -> bytes:
        return game_key(pairing, self._players, self._rules)

    def load(self) -> None:
        """Read the games of earlier runs. Raises StoreError."""
        if paths := sorted(path for path in self.folder.glob("*") if path.is_file()):
            self.retire(paths)

    def create(self, number: int, boards: int) -> Path:
        """A new journal for a worker. Raises UserError where there is no room for it."""
        path = self.folder / f"worker-{number}"
        try:
            files.make_private(self.folder)
            create_journal(path, self.folder.name, boards, self._rules)
        except OSError as problem:
            words = f"{path} can't be written ({files.reason(problem)}); the games under way are kept there"
            raise UserError(words) from problem
        return path

    def interrupted(self, path: Path, sent: Iterable[Assignment]) -> Iterator[Assignment]:
        """The games of a worker's journal that are among those sent to it, as they stand."""
        known = {self.key(game.pairing): game for game in sent}
        for game in read_journal(path, self.folder.name)[0]:
            if before := known.get(game.key):
                played = before.played if game.played is None else max(before.played, game.played, key=len)
                yield replace(before, played=played, seconds=game.seconds)

    def retire(self, paths: Sequence[Path]) -> None:
        """Move the games of journals whose workers are gone to the one of such games. Raises StoreError."""
        for path in paths:
            games, problem = read_journal(path, self.folder.name)
            if problem:
                self._is_complete = False
                self.news.append(f"{path}: {problem}; games that can't be continued begin again")
            for game in games:
                if game.played is None:
                    game = JournalGame(game.key, (), 0.0, game.continued, game.restarted + 1)
                known = self._games.get(game.key)
                if known is None or len(game.played or ()) >= len(known.played or ()):
                    self._games[game.key] = game
        write_games(self.folder / BEGUN, self.folder.name, [*self._games.values()])
        for path in paths:
            if path.name != BEGUN:
                path.unlink(missing_ok=True)

    def forget(self, pairing: Pairing) -> None:
        if self._games:
            self._games.pop(self.key(pairing), None)

    def keep(self, games: Iterable[Assignment]) -> None:
        """Write down these games, and those of earlier runs. Raises StoreError."""
        for game in games:
            key = self.key(game.pairing)
            self._games[key] = JournalGame(key, game.played, game.seconds, game.continued, game.restarted)
        files.make_private(self.folder)
        write_games(self.folder / BEGUN, self.folder.name, [*self._games.values()])

    def assignment(self, pairing: Pairing, had_begun: bool) -> Assignment:
        """A planned game, as it stands. ``had_begun``: without a journal it counts as one that has to begin again."""
        game = self._games.get(self.key(pairing)) if self._games else None
        if game is None:
            return Assignment(pairing, restarted=int(had_begun and not self._is_complete))
        stands = Assignment(pairing, game.played or (), game.seconds, game.continued, game.restarted)
        try:
            LiveGame.begin(pairing, self._rules, stands.played)
        except (IllegalMove, LookupError, ValueError):  # the power went before all of it was on the disk
            return Assignment(pairing, continued=game.continued, restarted=game.restarted + 1)
        return continued(stands)


def continued(game: Assignment) -> Assignment:
    """The game of a process that is gone, to go on. One without a move of its own is as good as new."""
    return replace(game, continued=game.continued + 1) if game.played else game
