"""Openings: drawn at random, or from a book of games. Who plays them is not here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, product
from pathlib import Path
from random import Random
from threading import Lock

import numpy as np

from arena import ConfigError, IllegalMove
from arena.go.collection import Refusal, read_path
from arena.go.coords import BLACK, SYMMETRIES, Move, apply_symmetry, moves_by_sgf, pass_move, symmetry_table
from arena.go.game import Game, Rules
from arena.go.record import GameRecord

Opening = tuple[Move, ...]

DRAWN = 100_000  # the most openings that are drawn, in one or two seconds; on 9x9 there are hardly more
TRIES = 1001  # draws one after the other without a new opening, until openings get longer


def draw_openings(rules: Rules, count: int, plies: int, seed: int) -> tuple[Opening, ...]:
    """``count`` openings of ``plies`` moves, none the same as another under the 8 symmetries; when there are no more of
    that length, they get longer by 2. The first of more are those of fewer.

    Every move is a random legal point on the third line or higher (lower on boards below 9x9, where that leaves hardly
    any) that neighbours no stone: nothing is in danger when the bots take over, and what an opening is worth to Black
    cancels over the two colours. Raises ConfigError when there are not that many.
    """
    openings = Openings(rules, count, plies, seed)
    return tuple(openings[number] for number in range(count))


class Openings:
    """Those of a book, then what ``draw_openings`` returns, as far as they are asked for: none are drawn in vain."""

    def __init__(self, rules: Rules, count: int, plies: int, seed: int, book: Sequence[Opening] = ()):
        if plies and count > max(DRAWN, len(book)):
            raise ConfigError(
                f"{2 * count} games need {count} different openings, and there are {DRAWN}; use fewer games, "
                f"or --openings {DRAWN} to use them in turn"
            )
        self._draw = partial(_drawing, rules, plies, seed) if plies else None
        self._count, self._book = count, book

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Opening:
        """Raises ConfigError when there are not that many."""
        if number >= self._count:
            raise IndexError(number)
        if number < len(self._book):
            return self._book[number]
        return self._draw()[number - len(self._book)] if self._draw else ()


@lru_cache(maxsize=8)  # an event asks for the same ones whenever it lists its games, and a ladder for a few more
def _drawing(rules: Rules, plies: int, seed: int) -> _Drawing:
    return _Drawing(rules, plies, seed)


class _Drawing:
    """Openings that were drawn, and how to draw more. Points are counted from 0 among those that may be drawn."""

    def __init__(self, rules: Rules, plies: int, seed: int):
        self._rules, self._plies, self._length = rules, plies, plies
        self._lock = Lock()
        edge = min(2, (rules.size - 5) // 2)
        inside = list(product(range(edge, rules.size - edge), repeat=2))
        self._points = np.array([y * rules.size + x for y, x in inside] + [pass_move(rules.size)])
        self._near = [  # what a stone takes from later ones: its own point and its neighbours
            bytes(at for at, (y, x) in enumerate(inside) if abs(y - row) + abs(x - column) <= 1)
            for row, column in inside
        ]
        # the first of each 32 random bits: 8 are enough for any point
        random = Random(f"openings of {rules.size} by {seed}")
        self._chance = chain.from_iterable(iter(lambda: random.randbytes(1 << 12)[3::4], b""))
        # a number for each stone, 0 for a pass: their sum tells positions apart, but for a chance of 1 in 2**64
        stones = np.random.default_rng(1).integers(1 << 64, size=(2, pass_move(rules.size) + 1), dtype=np.uint64)
        stones[:, -1] = 0
        self._stones = stones[:, symmetry_table(rules.size).T].reshape(-1, SYMMETRIES)  # Black's moves, then White's
        self._seen = {0}  # positions of openings, each by the least number that it has under the 8 symmetries
        self._drawn: list[Opening] = []
        self._shorter = 0  # openings of fewer moves
        self._failures = 0

    def __getitem__(self, number: int) -> Opening:
        """Raises ConfigError when there are not that many."""
        with self._lock:  # several threads may ask, and chance is one sequence
            while len(self._drawn) <= number:
                self._draw()
        return self._drawn[number]

    def _draw(self) -> None:
        """Draw as often as openings can't get longer in between. Stones without neighbours are legal by any rules."""
        if self._failures == TRIES:
            self._lengthen()
        draws = self._points[self._random_moves(TRIES - self._failures)]
        colours = np.arange(self._length) % 2 * (len(self._stones) // 2)
        forms = self._stones.take(draws.T + colours[:, None], 0).sum(0).min(1)  # from (moves, draws, 8)
        for form, moves in zip(forms.tolist(), draws.tolist(), strict=True):
            self._failures += 1
            if form not in self._seen:
                self._seen.add(form)
                self._drawn.append(tuple(moves))
                self._failures = 0

    def _random_moves(self, draws: int) -> np.ndarray:
        """A row of moves for each of ``draws`` openings; all are passes where there is no room for so many."""
        chance, near = self._chance, self._near
        every, passes = bytes(range(len(near))), bytes([len(near)] * self._length)
        moves = bytearray()
        for _ in range(draws):
            free = every
            for done in range(self._length):
                if not free:
                    moves[-done:] = passes
                    break
                most = len(free)
                unused = 8 - most.bit_length()
                while (place := next(chance) >> unused) >= most:
                    pass
                move = free[place]
                moves.append(move)
                free = free.translate(None, near[move])
        return np.frombuffer(moves, np.uint8).reshape(draws, -1)

    def _lengthen(self) -> None:
        if len(self._drawn) == self._shorter or self._length + 2 >= self._rules.move_limit:
            found, size = len(self._drawn), self._rules.size
            raise ConfigError(
                f"there are only about {found} different openings of {self._plies} plies or more on {size}x{size}; "
                f"use fewer games, or --openings {max(1, found // 2)} to use them in turn"
            )
        self._length, self._shorter, self._failures = self._length + 2, len(self._drawn), 0


# --- Books ---

BOOKS = Path(__file__).parent / "books"
"""The balanced openings that ship, a file for each size: SIZExSIZE.sgfs, made by ``python -m benchmarks openings``."""


def shipped_book(rules: Rules, seed: int = 1) -> tuple[Opening, ...]:
    """The balanced openings that ship for these rules, shuffled by ``seed``; none where there are none for this size,
    komi and scoring. They are those of ``read_book``, which takes a hundred times as long."""
    path, usual = BOOKS / f"{rules.size}x{rules.size}.sgfs", Rules.preset("cgos", rules.size)
    if not path.exists() or (rules.komi, rules.scoring) != (usual.komi, usual.scoring):
        return ()
    names = moves_by_sgf(rules.size)
    games = path.read_bytes().splitlines()
    return _shuffled([tuple(names[name] for name in re.findall(rb"[;\]][BW]\[(..)\]", game)) for game in games], seed)


def _shuffled(openings: list[Opening], seed: int) -> tuple[Opening, ...]:
    Random(f"book by {seed}").shuffle(openings)
    return tuple(openings)


@dataclass(frozen=True, slots=True)
class Book:
    """The openings of a set of games: which were taken, how many lead to a position that another leads to, and how
    many games were refused, by reason."""

    openings: tuple[Opening, ...]
    repeated: int
    refused: Mapping[str, int]

    def __str__(self) -> str:
        lengths = [len(opening) for opening in self.openings]
        some = "opening" if len(lengths) == 1 else "openings"
        moves = f"{min(lengths)}" if min(lengths) == max(lengths) else f"{min(lengths)} to {max(lengths)}"
        words = [f"{len(lengths)} {some} of {moves} moves"]
        if self.repeated:
            same = (
                "that leads to the same position was" if self.repeated == 1 else "that lead to the same position were"
            )
            words.append(f"{self.repeated} {same} left out")
        if self.refused:
            words.append(f"refused were {_listed(self.refused)}")
        return "; ".join(words)


def read_book(path: str | Path, rules: Rules, plies: int | None = None, seed: int = 1) -> Book:
    """The openings of the games at ``path`` (as in ``read_path``): the main line of each, ``plies`` moves at most.

    Positions that are equal under the 8 symmetries count once; the order is a shuffle by ``seed``. Raises RecordError
    when the path can't be read, and ConfigError when it holds no opening for these rules.
    """
    found: dict[bytes, Opening] = {}
    refused: Counter[str] = Counter()
    taken = 0
    for item in read_path(path):
        try:
            game = _opened(item, rules, plies)
        except ConfigError as error:
            refused[str(error)] += 1
            continue
        taken += 1
        found.setdefault(position_of(game), tuple(game.moves))
    if not found:
        size = f"{rules.size}x{rules.size}"
        raise ConfigError(f"no game in {path} is an opening on {size}: refused were {_listed(refused)}")
    return Book(_shuffled([*found.values()], seed), taken - len(found), dict(refused.most_common()))


def position_of(game: Game) -> bytes:
    """The stones and whose turn it is; the same for positions that are equal under the 8 symmetries."""
    stones = game.board.stones
    form = min(apply_symmetry(stones, symmetry).tobytes() for symmetry in range(SYMMETRIES))
    return bytes([len(game.moves) % 2]) + form


def _opened(item: GameRecord | Refusal, rules: Rules, plies: int | None) -> Game:
    """The opening of a game on the board. Raises ConfigError, in a word or two, when it is none."""
    if isinstance(item, Refusal):
        raise ConfigError(item.reason)
    if item.rules.size != rules.size:
        raise ConfigError(f"on {item.rules.size}x{item.rules.size}")
    if any(item.setup):
        raise ConfigError("with setup stones")
    if item.first is not BLACK:
        raise ConfigError("begun by White")
    if not item.moves[:plies]:
        raise ConfigError("empty")
    game = Game(rules)
    try:
        for move in item.moves[:plies]:
            if game.is_over:
                break
            game.play(move)
    except IllegalMove:
        raise ConfigError("illegal move") from None
    if game.is_over:
        raise ConfigError("over")
    return game


def _listed(refused: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in refused.items())
