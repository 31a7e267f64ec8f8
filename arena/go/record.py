"""A finished game as data, and SGF in and out through sgfmill. No collections on disk other than text, no databases."""

from __future__ import annotations

import gzip
import lzma
import re
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any

from sgfmill import sgf_grammar, sgf_properties

from arena import ConfigError, IllegalMove, RecordError, __version__
from arena.go.game import Ending, Game, Outcome, Rules
from arena.go.moves import (
    BLACK,
    MAX_SIZE,
    MIN_SIZE,
    WHITE,
    Colour,
    Move,
    gtp_from_move,
    pass_move,
    sgf_from_move,
    symmetry_table,
)

MAX_BYTES = 16 << 20
"""The longest SGF text of one game that is read unless told otherwise."""

MAX_MOVES = 3000
"""The most moves of one game that are read unless told otherwise."""

Stones = tuple[tuple[Move, ...], tuple[Move, ...]]
"""Setup stones: Black's, White's."""


@dataclass(frozen=True, slots=True)
class Record:
    """A finished game and everything known of it; enough to play it again.

    ``black`` and ``white`` are names; ``black_player`` and ``white_player`` identify exactly what played (kind, settings
    and net), where that is known. ``outcome`` is None when the source doesn't say. ``opening`` counts the moves that were
    given, not chosen. ``reason`` tells in a line why a game was forfeited. ``seconds`` are what each side used.
    """

    rules: Rules
    moves: tuple[Move, ...]
    outcome: Outcome | None
    black: str = ""
    white: str = ""
    setup: Stones = ((), ())
    first: Colour = BLACK
    id: str = ""
    event: str = ""
    black_player: str = ""
    white_player: str = ""
    black_rank: str = ""
    white_rank: str = ""
    date: str = ""
    seed: int = 0
    opening: int = 0
    reason: str = ""
    dossier: str = ""
    black_seconds: float = 0.0
    white_seconds: float = 0.0

    @classmethod
    def from_game(cls, game: Game, **fields: Any) -> Record:
        """The record of a game as it stands; ``fields`` are those that a game doesn't know, by name."""
        first = game.to_play if len(game.moves) % 2 == 0 else game.to_play.opponent
        return cls(
            rules=game.rules,
            moves=tuple(game.moves),
            outcome=game.outcome,
            setup=game.setup,
            first=first,
            seed=game.seed,
            **fields,
        )

    def replay(self) -> Game:
        """The game played again from its setup. Its outcome is the record's, so None where that doesn't know it.

        Raises RecordError, ``illegal setup: ...`` or ``illegal move: ...`` with the number of the move and the reason.
        """
        try:
            game = Game(self.rules, self.seed, *self.setup, to_play=self.first)
        except ValueError as error:
            raise RecordError(f"illegal setup: {error}") from None
        try:
            for move in self.moves:
                game.play(move)
        except IllegalMove as error:
            number = len(game.moves) + 1
            raise RecordError(f"illegal move: move {number} by {game.to_play.name.title()}, {error}") from None
        game.outcome = self.outcome
        return game

    def canonical_moves(self) -> tuple[tuple[Move, ...], tuple[Move, ...], tuple[Move, ...]]:
        """Black's setup, White's setup (both sorted) and the moves, in the smallest of the 8 symmetric forms.

        Two games on one size of board are the same up to symmetry when these are equal. The smallest form of a game
        begins with the smallest form of its opening.
        """
        table = symmetry_table(self.rules.size).astype(">u2")
        black, white = (np.sort(table[:, list(stones)], axis=1) for stones in self.setup)
        moves = table[:, list(self.moves)]
        best = min(range(len(table)), key=lambda s: (black[s].tobytes(), white[s].tobytes(), moves[s].tobytes()))
        return tuple(black[best].tolist()), tuple(white[best].tolist()), tuple(moves[best].tolist())

    def to_sgf(self) -> str:
        """The game as one line of SGF (FF[4]).

        Not kept are the exact players, the dossier, the seconds used, and a move limit that didn't end the game.
        """
        size = self.rules.size
        black, white = ([sgf_from_move(move, size).encode() for move in sorted(stones)] for stones in self.setup)
        root: dict[str, list[bytes]] = {
            name: [sgf_grammar.escape_text(" ".join(text.split()).encode("utf-8", "replace"))]
            for name, text in self._properties().items()
            if text
        }
        root["AP"] = [sgf_properties.serialise_AP(("arena", __version__), sgf_properties.Presenter(size, "UTF-8"))]
        if black:
            root["AB"] = black
        if white:
            root["AW"] = white
        tree = sgf_grammar.Coarse_game_tree()
        tree.sequence.append(root)
        colour = self.first
        for move in self.moves:
            tree.sequence.append({colour.letter: [sgf_from_move(move, size).encode()]})
            colour = colour.opponent
        return sgf_grammar.serialise_game_tree(tree, wrap=None).decode().strip()

    def _properties(self) -> dict[str, str]:
        black, white = self.setup
        usual = WHITE if black and not white else BLACK
        handicap = len(black) if usual is WHITE and self.first is WHITE else 0
        return {
            "FF": "4",
            "GM": "1",
            "CA": "UTF-8",
            "SZ": str(self.rules.size),
            "KM": f"{self.rules.komi:g}",
            "RU": _RU_VALUES.get(self.rules.name, self.rules.name),
            "RE": _result(self.outcome),
            "HA": str(handicap) if handicap > 1 else "",
            "PL": "" if self.first is usual else self.first.letter,
            "PB": self.black,
            "PW": self.white,
            "BR": self.black_rank,
            "WR": self.white_rank,
            "DT": self.date,
            "EV": self.event,
            "GN": self.id,
            "C": self._comment(),
        }

    def _comment(self) -> str:
        parts = [f"seed {self.seed}"] if self.seed else []
        if self.opening:
            parts.append(f"opening {self.opening}")
        if self.outcome is not None and self.outcome.ending in _NOTED_ENDINGS:
            parts.append(f"ending {self.outcome.ending}")
        if self.reason:
            parts.append(f"reason: {self.reason}")
        return "; ".join(parts)


