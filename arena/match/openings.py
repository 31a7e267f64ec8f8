"""Openings: drawn at random, or from a book of games."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice, product
from pathlib import Path
from random import Random
from threading import Lock

from arena import ConfigError, IllegalMove, plural
from arena.go.collection import Refusal, read_path
from arena.go.coords import BLACK, SYMMETRIES, Move, apply_symmetry, moves_by_sgf, symmetry_table
from arena.go.game import Game, Rules
from arena.go.record import GameRecord

Opening = tuple[Move, ...]

DRAWN = 100_000  # the most openings that are drawn, in some seconds; on 9x9 there are hardly more
TRIES = 1001  # draws one after the other without a new opening, until openings get longer


def draw_openings(rules: Rules, count: int, plies: int, seed: int) -> tuple[Opening, ...]:
    """``count`` openings of ``plies`` moves, distinct under the 8 symmetries; when there are no more of that length,
    they get longer by 2. A larger count begins with the same openings.

    Every move is a random point on the third line or higher (lower on boards below 9x9) that neighbours no stone, so
    that nothing is in danger when the bots take over. Raises ConfigError when there are fewer.
    """
    return tuple(draw_opening(rules, number, plies, seed) for number in range(count))


def draw_opening(rules: Rules, number: int, plies: int, seed: int, stones: Opening = ()) -> Opening:
    """The opening of this number, from 0, of those that ``draw_openings`` returns, or around handicap ``stones``.
    Thread-safe. Raises ConfigError when there are not that many."""
    if not plies:
        return ()
    drawn, more, lock = _drawing(rules, plies, seed, stones)
    with lock:
        drawn += islice(more, max(0, number + 1 - len(drawn)))
    if number < len(drawn):
        return drawn[number]
    raise ConfigError(
        f"there are only about {len(drawn)} different openings of {plies} plies or more on {rules.size}x{rules.size}; "
        f"use fewer games, or --openings {max(1, len(drawn) // 2)} to use them in turn"
    )


@lru_cache(maxsize=8)  # an event needs the same openings each time it lists its games
def _drawing(rules: Rules, plies: int, seed: int, stones: Opening) -> tuple[list[Opening], Iterator[Opening], Lock]:
    """The openings drawn so far, an iterator that draws more, and the lock to hold meanwhile."""
    return [], _draw(rules, plies, seed, stones), Lock()


@lru_cache(maxsize=8)
def count_openings(rules: Rules, most: int, plies: int, seed: int) -> int:
    """How many of the first ``most`` drawn openings have ``plies`` moves and no more."""
    number = 0
    with suppress(ConfigError):
        while number < most and len(draw_opening(rules, number, plies, seed)) == plies:
            number += 1
    return max(1, number)


def _draw(rules: Rules, plies: int, seed: int, stones: Opening) -> Iterator[Opening]:
    """Draw openings, no two the same under the 8 symmetries. Stones without neighbours are legal by any rules. After
    ``TRIES`` draws without a new one, openings get two moves longer. Around handicap stones, up to 9x9, the second line
    is used, too."""
    random = Random(f"openings of {rules.size} by {seed}")
    edge = min(1 if stones and rules.size <= 9 else 2, (rules.size - 5) // 2)
    inside = list(product(range(edge, rules.size - edge), repeat=2))
    every = [y * rules.size + x for y, x in inside]
    taken = {  # by a stone from later ones: its own point and its neighbours
        point: {other for other, (b, a) in zip(every, inside, strict=True) if abs(a - x) + abs(b - y) <= 1}
        for point, (y, x) in zip(every, inside, strict=True)
    }
    around = [point for point in every if not any(point in taken[stone] for stone in stones)]
    symmetries = symmetry_table(rules.size).tolist()
    seen, shorter, failures = set[tuple[int, ...]](), 0, 0  # openings of fewer moves, and draws since the last new one
    while len(seen) < DRAWN:
        if failures == TRIES:
            if len(seen) == shorter or plies + 2 >= rules.move_limit:
                return
            plies, shorter, failures = plies + 2, len(seen), 0
        free, moves = around, list[Move]()
        while free and len(moves) < plies:
            moves.append(move := random.choice(free))
            free = [point for point in free if point not in taken[move]]
        form = tuple(min(sorted(2 * row[move] + at % 2 for at, move in enumerate(moves)) for row in symmetries))
        failures += 1
        if len(moves) == plies and form not in seen:
            seen.add(form)
            failures = 0
            yield tuple(moves)


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


def read_book(
    path: str | Path, rules: Rules, plies: int | None = None, seed: int = 1
) -> tuple[tuple[Opening, ...], str]:
    """The openings of the games at ``path`` (as in ``read_path``), and a summary of what was read.

    An opening is the main line of a game, ``plies`` moves at most. Positions that are equal under the 8 symmetries
    count once; the order is a shuffle by ``seed``. Raises RecordError when the path can't be read, and ConfigError when
    it holds no opening for these rules.
    """
    found: dict[bytes, Opening] = {}
    left_out: Counter[str] = Counter()
    for item in read_path(path):
        try:
            game = _play_opening(item, rules, plies)
            if (position := position_key(game)) in found:
                raise ConfigError("that lead to the position of another")
            found[position] = tuple(game.moves)
        except ConfigError as error:
            left_out[str(error)] += 1
    reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.most_common())
    if not found:
        raise ConfigError(f"no game in {path} is an opening on {rules.size}x{rules.size}; left out: {reasons}")
    lengths = [len(opening) for opening in found.values()]
    summary = f"{plural(len(found), 'opening')} of {min(lengths)} to {max(lengths)} moves"
    return _shuffled([*found.values()], seed), f"{summary}; left out: {reasons}" if reasons else summary


def position_key(game: Game) -> bytes:
    """The stones and whose turn it is; the same for positions that are equal under the 8 symmetries."""
    stones = game.board.stones
    form = min(apply_symmetry(stones, symmetry).tobytes() for symmetry in range(SYMMETRIES))
    return bytes([len(game.moves) % 2]) + form


def _play_opening(item: GameRecord | Refusal, rules: Rules, plies: int | None) -> Game:
    """The opening of a game on the board. Raises ConfigError, in a few words, when it is none."""
    if isinstance(item, Refusal):
        raise ConfigError(item.reason)
    if item.rules.size != rules.size:
        raise ConfigError(f"on {item.rules.size}x{item.rules.size}")
    if any(item.setup) or item.first is not BLACK:
        raise ConfigError("with setup stones or White to begin")
    if not item.moves[:plies]:
        raise ConfigError("empty")
    game = Game(rules)
    try:
        for move in item.moves[:plies]:
            game.play(move)
    except IllegalMove:
        raise ConfigError("illegal move") from None
    if game.is_over:
        raise ConfigError("over")
    return game
