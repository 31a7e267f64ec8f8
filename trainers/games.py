"""Games as flat arrays, and their positions as training rows, encoded in a seeded order as batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from zlib import crc32

import numpy as np

from arena import RecordError
from arena.go.coords import BLACK, SYMMETRIES, WHITE, symmetry_table
from arena.go.kernels import CGOS_RULES
from arena.go.planes import Encoder, encode_rows
from arena.go.ranks import KNOTS, UNRANKED

UNKNOWN, BLACK_WON, WHITE_WON, DRAWN = range(4)  # the values of ``Games.winners``; 1 and 2 are also the colours
WIN, DRAW, LOSS = range(3)  # the classes of the value, for the side to move
NO_RESULT = -1  # the value target of a game without a known result; the loss leaves it out
LATE = 15  # few games still repeat earlier ones from this ply on


@dataclass(frozen=True, slots=True)
class Games:
    """Games of one size as flat arrays, Black first, no setup: game ``g`` is ``moves[starts[g]:starts[g + 1]]``."""

    size: int
    moves: np.ndarray  # (all moves,) uint16
    starts: np.ndarray  # (games + 1,) int64
    komis: np.ndarray  # (games,) float64, White's
    winners: np.ndarray  # (games,) uint8: UNKNOWN, BLACK_WON, WHITE_WON, DRAWN
    dates: np.ndarray  # (games,) int32: 20180301, or 0 where the record has none
    scored: np.ndarray  # (games,) bool: the recorded margin is that of the last position
    owners: np.ndarray  # (games, size²) int8: owners of the points in the last position: 1 Black, -1 White, 0 nobody
    ranks: np.ndarray  # (games, 2) int8: of Black and White, by ``rank_of``, or UNRANKED
    players: np.ndarray  # (games, 2) uint32: checksums of their names
    territory: np.ndarray  # (games,) bool: territory scoring

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Number of moves of each game; (games,) int64."""
        return np.diff(self.starts)

    @property
    def plies(self) -> np.ndarray:
        """Ply of each move in its game; (all moves,) int64."""
        return np.arange(len(self.moves)) - np.repeat(self.starts[:-1], self.lengths)

    def select(self, which: np.ndarray) -> "Games":
        """The games ``which``, a mask or indices."""
        indices = np.flatnonzero(which) if which.dtype == np.bool_ else which
        starts, flat = flat_ranges(self.starts[indices], self.lengths[indices])
        return Games(self.size, self.moves[flat], starts, **{name: getattr(self, name)[indices] for name in PER_GAME})


ARRAYS = tuple(item.name for item in fields(Games) if item.name != "size")
PER_GAME = ARRAYS[2:]


def starts_of(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def flat_ranges(begins: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets of concatenated ranges, (ranges + 1,) int64, and all of their indices."""
    starts = starts_of(lengths)
    return starts, np.arange(starts[-1]) + np.repeat(begins - starts[:-1], lengths)


def join_games(parts: Sequence[Games]) -> Games:
    lengths = np.concatenate([part.lengths for part in parts])
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("moves", *PER_GAME)}
    return Games(parts[0].size, starts=starts_of(lengths), **arrays)


def some_games(games: Games, positions: int, seed: int) -> Games:
    """Random whole games with about ``positions`` positions; all games for 0."""
    if not positions or positions >= len(games.moves):
        return games
    order = np.random.default_rng(seed).permutation(len(games))
    return games.select(order[: int((games.lengths[order].cumsum() < positions).sum()) + 1])


@dataclass(frozen=True, slots=True)
class Batch:
    """Training rows, from the view of the side to move; ``shares`` and ``win_rates`` are of a search or a teacher."""

    planes: np.ndarray  # (B, P, n, n) float32
    moves: np.ndarray  # (B,) int64: the move played or, after a search, that with the largest share
    results: np.ndarray  # (B,) int64: WIN, DRAW, LOSS or NO_RESULT
    plies: np.ndarray  # (B,) int64: moves played before
    owners: np.ndarray  # (B, n²) int8 or float32 in [-1, 1]: final or predicted owners; 1 is the side to move
    scores: np.ndarray  # (B,) float32: final margin with komi; NaN if unknown
    shares: np.ndarray | None = None  # (B, n² + 1) float32: of the visits or the improved policy; they sum to 1
    win_rates: np.ndarray | None = None  # (B,) float32 in [0, 1]; NaN if unknown

    def __len__(self) -> int:
        return len(self.moves)


class Rows:
    """An endless random order of rows: every position once an epoch, under a random symmetry. Row ``i`` depends only on
    the games, the seed and ``i``."""

    def __init__(
        self, games: Games, encoder: Encoder, seed: int = 0, threads: int = 1, places: np.ndarray | None = None
    ):
        """``places`` are flat indices of the positions; default all."""
        if not len(games.moves):
            raise RecordError("no training rows: no games are left after the split")
        self.games, self.encoder, self.seed, self.threads = games, encoder, seed, threads
        self._places = np.arange(len(games.moves)) if places is None else places
        self.per_epoch = len(self._places)
        self._epoch, self._order = -1, np.empty((2, 0), np.int64)  # positions and symmetries of the last epoch drawn

    def positions(self, first: int, count: int) -> np.ndarray:
        """Flat position indices and symmetries of rows ``first`` to ``first + count``; (2, count) int64."""
        parts = []
        while count:
            epoch, offset = divmod(first, self.per_epoch)
            self._shuffle(epoch)
            parts.append(self._order[:, offset : offset + count])
            first, count = first + parts[-1].shape[1], count - parts[-1].shape[1]
        return np.concatenate(parts, 1)

    def batch(self, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count``. For an encoder with ranks, one row in eight hides both, and one the
        opponent's, so that the net learns to play without."""
        places, symmetries = self.positions(first, count)
        shown = None
        if self.encoder.has_players:
            drawn = np.array([crc32(row.to_bytes(8, "big")) % 8 for row in range(first, first + count)])
            shown = np.stack([drawn != 0, drawn > 1], 1)
        return encode_positions(self.games, self.encoder, places, symmetries, self.threads, shown)

    def _shuffle(self, epoch: int) -> None:
        """Draw the order of an epoch: a permutation or, for an encoder with ranks, draws with replacement, weighted by
        1 / sqrt(frequency of the rank)."""
        if epoch == self._epoch:
            return
        generator, games = np.random.default_rng([self.seed, epoch]), self.games
        if self.encoder.has_players:
            ranks = games.ranks[np.repeat(np.arange(len(games)), games.lengths), games.plies % 2][self._places]
            near = np.where(ranks == UNRANKED, len(KNOTS), np.abs(ranks[:, None] - KNOTS).argmin(1))
            weights = np.bincount(near, minlength=len(KNOTS) + 1).clip(1)[near] ** -0.5
            order = generator.choice(self.per_epoch, self.per_epoch, p=weights / weights.sum())
        else:
            order = generator.permutation(self.per_epoch)
        symmetries = generator.integers(0, SYMMETRIES, self.per_epoch, np.uint8)
        self._epoch, self._order = epoch, np.stack([self._places[order], symmetries])


def encode_positions(
    games: Games,
    encoder: Encoder,
    places: np.ndarray,
    symmetries: np.ndarray,
    threads: int = 1,
    shown: np.ndarray | None = None,
) -> Batch:
    """The rows of the positions before the moves at flat indices ``places``. ``shown`` (rows, 2) bool masks the ranks,
    own and opponent's, for an encoder that has them; default all."""
    owners = np.searchsorted(games.starts, places, side="right") - 1
    plies = places - games.starts[owners]
    lists = (games.size, games.moves, games.starts, games.komis)
    rules = np.where(games.territory, 0, CGOS_RULES)
    planes = encode_rows(encoder, *lists, owners, plies, symmetries, threads, rules)
    if encoder.has_players:
        ranks = games.ranks[owners[:, None], plies[:, None] % 2 ^ [0, 1]]  # (rows, 2): own, opponent's
        own, opponent = (ranks if shown is None else np.where(shown, ranks, UNRANKED)).T
        encoder.write_players(planes, own, opponent, games.territory[owners])
    tables = symmetry_table(games.size)
    signs = np.where(plies % 2 == 0, 1, -1)
    final = games.owners[owners] * (signs * games.scored[owners])[:, None].astype(np.int8)
    turned = np.empty_like(final)
    np.put_along_axis(turned, tables[symmetries, :-1].astype(np.int64), final, 1)
    margins = games.owners[owners].sum(1, dtype=np.float32) - games.komis[owners]
    return Batch(
        planes.reshape(len(places), encoder.planes, games.size, games.size),
        tables[symmetries, games.moves[places]].astype(np.int64),
        results_of(games.winners[owners], plies),
        plies,
        turned,
        np.where(games.scored[owners], signs * margins, np.nan).astype(np.float32),
    )


def results_of(winners: np.ndarray, plies: np.ndarray) -> np.ndarray:
    """WIN, DRAW, LOSS or NO_RESULT for the side to move at each ply; int64."""
    to_play = np.where(plies % 2 == 0, int(BLACK), int(WHITE))
    decided = np.where(winners == to_play, WIN, LOSS)
    return np.where(winners == UNKNOWN, NO_RESULT, np.where(winners == DRAWN, DRAW, decided))


def in_order(games: Games, encoder: Encoder, places: np.ndarray, size: int, threads: int = 1) -> Iterator[Batch]:
    """The positions at flat indices ``places`` in batches of ``size``, without symmetries, for measuring."""
    for first in range(0, len(places), size):
        some = places[first : first + size]
        yield encode_positions(games, encoder, some, np.zeros_like(some), threads)
