"""A finished game as data, and SGF in and out through sgfmill. No files, no archives, no databases."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
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
    pass_move,
    sgf_from_move,
    symmetry_table,
)
from arena.go.outcome import GameSummary as GameSummary

MAX_BYTES = 16 << 20
"""The longest SGF text of one game that is read unless told otherwise."""

MAX_MOVES = 3000
"""The most moves of one game that are read unless told otherwise."""

Stones = tuple[tuple[Move, ...], tuple[Move, ...]]
"""Setup stones: Black's, White's."""


Notes = Mapping[int, Mapping[str, Sequence[str]]]
"""Additional SGF properties by node number and name, with unescaped values; the root is node 0."""


class MoveStats(NamedTuple):
    """What is known of a move besides the move: what its player reported, and the seconds that it took; None where that
    isn't known. ``win_rate`` is in [0, 1] and ``score`` in points, both of the side that made the move."""

    win_rate: float | None = None
    score: float | None = None
    visits: int | None = None
    seconds: float | None = None

    @property
    def is_reported(self) -> bool:
        """Whether its player said anything."""
        return self[:3] != (None, None, None)

    @property
    def rounded(self) -> MoveStats:
        """As exactly as it is stored, and within what can be stored."""
        rate, score, visits, seconds = self
        return MoveStats(
            None if rate is None else round(min(1.0, max(0.0, rate)), 4),
            None if score is None else round(min(3000.0, max(-3000.0, score)), 1) + 0.0,
            None if visits is None else min(4_000_000_000, max(0, visits)),
            None if seconds is None else round(min(4e6, seconds), 3),
        )


UNKNOWN = MoveStats()


@dataclass(frozen=True, slots=True)
class GameRecord:
    """A finished game and everything known of it; enough to play it again.

    ``black`` and ``white`` are names; ``black_player`` and ``white_player`` identify exactly what played (kind,
    settings and net), where that is known. ``outcome`` is None when the source doesn't say. ``opening`` counts the
    moves that were given, not chosen. ``reason`` tells in a line why a game was forfeited or adjudicated. ``adjudged``
    is whom an adjudication gave the game to: with another ending than that, it was played on to see whether that holds.
    ``seconds`` are what each side used. ``unrated`` tells in a few words why the game doesn't count for ratings.
    ``facts`` has one for each move, or none where nothing is known of any.
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
    fault_details: str = ""
    adjudged: Colour | None = None
    black_seconds: float = 0.0
    white_seconds: float = 0.0
    unrated: str = ""
    facts: tuple[MoveStats, ...] = ()

    @classmethod
    def from_game(cls, game: Game, **fields: Any) -> GameRecord:
        """The record of a game as it stands; ``fields`` are those that a game doesn't know, by name."""
        black, white = game.setup
        first = game.to_play if len(game.moves) % 2 == 0 else game.to_play.opponent
        return cls(
            rules=game.rules,
            moves=tuple(game.moves),
            outcome=game.outcome,
            setup=(tuple(sorted(black)), tuple(sorted(white))),
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

    @property
    def canonical(self) -> bytes:
        """16 bytes, the same for games by the same rules that are identical but for a symmetry."""
        return _canonical(self.rules, self.setup, self.first, self.moves)

    @property
    def length(self) -> int:
        """Moves, the opening counted."""
        return len(self.moves)

    def mover(self, number: int) -> Colour:
        """Who made the move of this number, from 1."""
        return self.first if number % 2 else self.first.opponent

    @property
    def notes(self) -> Notes:
        """The facts as SGF properties: a comment in words, Black's win rate in per cent (SBKV, which Sabaki draws as a
        graph) and Black's lead (V)."""
        found: dict[int, dict[str, list[str]]] = {}
        for number, fact in enumerate(self.facts, 1):
            black, words = self.mover(number) is BLACK, []
            node = found.setdefault(number, {})
            if fact.win_rate is not None:
                rate = 100 * (fact.win_rate if black else 1 - fact.win_rate)
                words.append(f"Black wins {rate:.1f}%")
                node["SBKV"] = [f"{rate:.2f}"]
            if fact.score is not None:
                lead = (fact.score if black else -fact.score) + 0.0
                words.append(f"{'B' if lead >= 0 else 'W'}+{abs(lead):.1f}")
                node["V"] = [f"{lead:.1f}"]
            if fact.visits is not None:
                words.append(f"{fact.visits} visits")
            if fact.seconds is not None:
                words.append(f"{fact.seconds:g} s")
            if words:
                node["C"] = [", ".join(words)]
        return found

    def to_sgf(self, notes: Notes | None = None, variations: Mapping[int, Sequence[Move]] | None = None) -> str:
        """The game as SGF (FF[4]), one line unless a note has more; ``notes`` are added to its nodes, and
        ``variations``, moves in place of the move of this number and those after it, stand beside them.

        Not kept are the exact players, the details of a fault, the seconds used, and a move limit that didn't end the
        game. Of rules that differ from the preset of their name, only what ``read_sgf`` finds out by itself comes back.
        """
        size = self.rules.size
        root = {
            name: [sgf_grammar.escape_text(" ".join(text.split()).encode("utf-8", "replace"))]
            for name, text in self._root_properties().items()
            if text
        }
        for name, stones in zip(("AB", "AW"), self.setup, strict=True):
            if stones:
                root[name] = [sgf_from_move(move, size).encode() for move in sorted(stones)]
        names = _names_of_moves(size)
        colours = (self.first.opponent.letter, self.first.letter)
        nodes = ["", *(f";{colours[number % 2]}[{names[move]}]" for number, move in enumerate(self.moves, 1))]
        noted: Notes = {0: {}, **(notes or {})}
        for number, added in noted.items():
            node = {colours[number % 2]: [names[self.moves[number - 1]].encode()]} if number else root
            for name, values in added.items():
                escaped = [sgf_grammar.escape_text(value.encode("utf-8", "replace")) for value in values]
                own = node.get("C", []) if name == "C" else []  # it stays at the end, where it is read
                node[name] = [b"\n".join([*escaped, *own])] if own else escaped
            tree = sgf_grammar.Coarse_game_tree()
            tree.sequence.append(node)
            nodes[number] = sgf_grammar.serialise_game_tree(tree, wrap=None).decode().strip()[1:-1]
        text = ""
        for number in reversed(range(len(nodes))):
            text = nodes[number] + text
            if variations and number in variations:
                line = enumerate(variations[number], number)
                text = f"({text})({''.join(f';{colours[ply % 2]}[{names[move]}]' for ply, move in line)})"
        return f"({text})"

    def _root_properties(self) -> dict[str, str]:
        usual = _usual_first(self.setup)
        handicap = len(self.setup[0]) if usual is self.first is WHITE else 0
        return {
            "FF": "4",
            "GM": "1",
            "CA": "UTF-8",
            "AP": f"arena:{__version__}",
            "SZ": str(self.rules.size),
            "KM": f"{self.rules.komi:g}",
            "RU": _RU_VALUES.get(self.rules.name, self.rules.name),
            "RE": "?" if self.outcome is None else self.outcome.sgf,
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
        parts = []
        if self.seed:
            parts.append(f"seed {self.seed}")
        if self.opening:
            parts.append(f"opening {self.opening}")
        if self.outcome is not None and self.outcome.ending in _NOTED_ENDINGS:
            parts.append(f"ending {self.outcome.ending}")
        if self.adjudged is not None:
            parts.append(f"adjudged {self.adjudged.letter}")
        if self.unrated:
            parts.append(f"unrated ({self.unrated})")
        if self.reason:
            parts.append(f"reason: {self.reason}")
        return "; ".join(parts)


# Reading SGF.

_RU_VALUES = {"cgos": "CGOS", "tromp-taylor": "Tromp-Taylor", "chinese": "Chinese", "japanese": "Japanese"}

_RU_BEGINNINGS = {
    "cgos": ("cgos",),
    "tromp-taylor": ("tromp", "tt", "nz", "newzealand", "goe", "ing", "應", "应"),
    "chinese": ("chin", "cn", "中", "aga", "bga", "ffg", "french", "british"),
}

_NOTED_ENDINGS = (Ending.CRASH, Ending.MOVE_LIMIT, Ending.ADJUDICATED)  # RE has no word for these

_WINNER = re.compile(r"(b|w|black|white)\s*\+\s*(.*)", re.DOTALL)
_MARGIN = re.compile(r"[0-9]{1,4}(?:\.[0-9]{0,4})?(?!\S)")
_LOSSES = {"r": Ending.RESIGN, "t": Ending.TIME, "f": Ending.ILLEGAL, "i": Ending.ILLEGAL}

_CHARSET = re.compile(rb"CA\s*\[\s*([A-Za-z0-9_.:-]{1,40})\s*\]")

_SETUP = frozenset({"AB", "AW", "AE"})

Properties = Mapping[str, list[bytes]]
"""A node of an SGF: raw values by the name of the property, as sgfmill gives them."""


Played = GameRecord | GameSummary
"""What can be counted."""


@lru_cache(maxsize=512)  # a game that is over is counted in several places
def _canonical(rules: Rules, setup: Stones, first: Colour, moves: tuple[Move, ...]) -> bytes:
    form = GameRecord(rules, moves, None, setup=setup).canonical_moves()
    text = json.dumps([rules.to_json(), int(first), form], separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).digest()


def read_sgf(text: str | bytes, *, max_bytes: int = MAX_BYTES, max_moves: int = MAX_MOVES) -> GameRecord:
    """The first game of an SGF text, its main line.

    Read are the setup before the first move, players, ranks, date, event, game name (as ``id``), komi, rules and
    result; from our own files also what their root comment says. Bytes are UTF-8, else what CA says, else Latin-1.

    The record always replays. Its rules are the preset that RU names: New Zealand and Ing rules count as
    ``tromp-taylor``, those of the AGA and its European kin as ``chinese``, all others and none as ``japanese``. When a
    move breaks them, superko is dropped, then suicide allowed, then both; immediate retaking of a ko stays forbidden.
    The move limit is raised to fit. A missing komi is the preset's, or 0 with handicap stones. After two passes play
    may have gone on: those two are left out, and passes beyond two at the end too. A forfeit without a known cause is
    taken as one for an illegal move. A missing size means 19x19, but is refused when no stone lies beyond 13x13.

    Raises RecordError, ``reason: detail`` or just a reason; the part before the first colon is short and fit to count.
    """
    if len(text) > max_bytes:
        raise RecordError(f"too large: {len(text)} bytes")
    nodes = main_line(utf8(text))
    root = nodes[0]
    if _text(root, "GM") not in ("", "1"):
        raise RecordError("not Go")
    size = _size(root)
    begin = next((index for index, node in enumerate(nodes) if "B" in node or "W" in node), len(nodes))
    setup, first = _setup(nodes[: begin + 1], size)
    moves = _moves(nodes[begin:], size)
    if len(moves) > max_moves:
        raise RecordError(f"more than {max_moves} moves")
    if begin < len(nodes):
        first = BLACK if "B" in nodes[begin] else WHITE
    if "SZ" not in root:
        _check_standard_size(setup, moves)
    if first is WHITE and setup == ((), ()) and _text(root, "HA").isdecimal() and int(_text(root, "HA")[:3]) > 1:
        raise RecordError("handicap stones missing")
    moves = _settled(moves, pass_move(size))
    note, _, reason = (_text(root, "C") if _text(root, "AP").startswith("arena:") else "").partition("reason: ")
    ending = next((ending for ending in _NOTED_ENDINGS if f"ending {ending}" in note), None)
    outcome = _outcome(_text(root, "RE"), ending)
    stopped = outcome is not None and outcome.ending is Ending.MOVE_LIMIT  # a result that RE doesn't give has no ending
    limit = len(moves) if stopped else max(len(moves), 3 * size * size)
    record = GameRecord(
        rules=_rules(root, size, limit, handicap=_usual_first(setup) is WHITE),
        moves=tuple(moves),
        outcome=outcome,
        black=_text(root, "PB"),
        white=_text(root, "PW"),
        setup=setup,
        first=first or _usual_first(setup),
        id=_text(root, "GN"),
        event=_text(root, "EV"),
        black_rank=_text(root, "BR"),
        white_rank=_text(root, "WR"),
        date=_text(root, "DT"),
        seed=_noted_number(note, "seed"),
        opening=_noted_number(note, "opening"),
        adjudged=next((colour for colour in Colour if f"adjudged {colour.letter}" in note), None),
        unrated=_noted_words(note, "unrated"),
        reason=reason,
    )
    return _legal(record)


_FIRST = re.compile(rb"\(\s*;")
_PARTS = re.compile(rb"\[[^\]\\]*(?:\\.[^\]\\]*)*\]|[();]", re.DOTALL)
"""The values of a game's text, each as a whole, and what divides it into nodes and variations."""

MAX_NODES = 100_000
"""The most nodes of a main line that are read."""


def main_line(data: bytes) -> list[Properties]:
    """The nodes of the first game's main line; its variations are passed over. Raises RecordError."""
    if (span := game_span(data, 0)) is not None:
        begin, fork, _ = (
            span  # the first variation is the main one, so nothing of it stands behind a bracket that closes
        )
        parts = _PARTS.findall(data, begin, fork)
        if parts.count(b";") > MAX_NODES:
            raise RecordError(f"more than {MAX_NODES} nodes")
        if parts.count(b"(") > 1:
            line = _PARTS.sub(lambda part: b"" if part[0] == b"(" else part[0], data[begin:fork])
            data = b"(" + line + b")"
        else:
            data = data[begin:fork] + b")"
    try:
        return list(sgf_grammar.main_sequence_iter(sgf_grammar.parse_sgf_game(data)))
    except ValueError as error:
        raise RecordError(f"not an SGF: {error}") from None


def game_span(data: bytes, start: int) -> tuple[int, int, int] | None:
    """Where the next game begins, where its first bracket closes and where it ends; None when it isn't whole."""
    first = _FIRST.search(data, start)
    depth = fork = 0
    for part in _PARTS.finditer(data, first.start()) if first else ():
        depth += (part[0] == b"(") - (part[0] == b")")
        if part[0] == b")":
            fork = fork or part.start()
            if depth == 0:
                return first.start(), fork, part.end()  # type: ignore[union-attr]
    return None


def utf8(text: str | bytes) -> bytes:
    """SGF's structure is ASCII, which some of Asia's charsets reuse inside letters: so recode before parsing."""
    if isinstance(text, str):
        return text.encode("utf-8", "replace")
    try:
        text.decode("utf-8")
        return text
    except UnicodeDecodeError:
        charset = _CHARSET.search(text)
    if charset is not None:
        with suppress(LookupError, ValueError):
            return text.decode(charset[1].decode(), "replace").encode("utf-8", "replace")
    return text.decode("latin-1").encode()


def _text(root: Properties, name: str) -> str:
    if name not in root:
        return ""
    return sgf_grammar.simpletext_value(root[name][0]).decode("utf-8", "replace").strip()


class Node(NamedTuple):
    """What one node of an editor's file does, in this order: stones put down and taken off, who is to move, moves."""

    black: tuple[Move, ...]
    white: tuple[Move, ...]
    empty: tuple[Move, ...]
    to_play: Colour | None
    moves: tuple[tuple[Colour, Move], ...]

    @property
    def is_setup(self) -> bool:
        return bool(self.black or self.white or self.empty)


def read_nodes(text: str | bytes) -> tuple[Rules, list[Node]]:
    """The main line of the first game of an SGF text, as an editor shows it: stones may be set up at any time, a colour
    may play twice, and no move is judged. The rules are those of ``read_sgf``, on boards from 2x2; a missing size means
    19x19. Raises RecordError."""
    nodes = main_line(utf8(text))
    root = nodes[0]
    size = _size(root, smallest=2)
    names = _moves_by_name(size)
    found: list[Node] = []
    for node in nodes:
        black, white, empty = (tuple(sorted(_points(node.get(name, []), size))) for name in ("AB", "AW", "AE"))
        moves = [(colour, value) for colour in Colour for value in node.get(colour.letter, [])]
        if any(value not in names for _, value in moves):
            raise RecordError(f"no point of the board: a move in node {len(found)}")
        to_play = {"b": BLACK, "w": WHITE}.get(_text(node, "PL")[:1].lower())
        found.append(Node(black, white, empty, to_play, tuple((colour, names[value]) for colour, value in moves)))
    rules = _rules(root, size, 3 * size * size, handicap=bool(found[0].black and not found[0].white))
    return rules, found


def _usual_first(setup: Stones) -> Colour:
    """Who begins when nothing else is said: White when only Black has stones."""
    return WHITE if setup[0] and not setup[1] else BLACK


def _size(root: Properties, smallest: int = MIN_SIZE) -> int:
    text = _text(root, "SZ") or str(MAX_SIZE)
    columns, _, rows = text.partition(":")
    if rows and columns.strip() != rows.strip():
        raise RecordError(f"rectangular board: {text[:20]!r}")
    if not re.fullmatch(r"\s*[0-9]{1,5}\s*", columns):
        raise RecordError(f"no size: SZ is {text[:20]!r}")
    if not smallest <= int(columns) <= MAX_SIZE:
        raise RecordError(f"size {int(columns)}")
    return int(columns)


def _check_standard_size(setup: Stones, moves: list[Move]) -> None:
    """Doubt a missing size: 9x9 and 13x13 games are written without one too."""
    stones = [move for move in (*setup[0], *setup[1], *moves) if move != pass_move(MAX_SIZE)]
    if stones and max(max(divmod(move, MAX_SIZE)) for move in stones) < 13:
        raise RecordError("no size: and no stone beyond 13x13")


def _setup(nodes: list[Properties], size: int) -> tuple[Stones, Colour | None]:
    """The stones set up and who begins, if it's said."""
    stones: dict[str, set[Move]] = {"AB": set(), "AW": set(), "AE": set()}
    first = None
    for node in nodes:
        if not _SETUP.isdisjoint(node):
            placed = {name: _points(node.get(name, []), size) for name in stones}
            changed = set().union(*placed.values())
            stones = {name: (stones[name] - changed) | placed[name] for name in stones}
        if "PL" in node:
            first = {"b": BLACK, "w": WHITE}.get(_text(node, "PL")[:1].lower(), first)
    return (tuple(sorted(stones["AB"])), tuple(sorted(stones["AW"]))), first


def _points(values: list[bytes], size: int) -> set[Move]:
    try:
        points = sgf_properties.interpret_point_list(filter(None, values), sgf_properties.Presenter(size, "UTF-8"))
    except ValueError:
        raise RecordError(f"no point of the board: setup {b' '.join(values)[:40]!r}") from None
    return {(size - 1 - row) * size + column for row, column in points}


@cache
def _names_of_moves(size: int) -> list[str]:
    return [sgf_from_move(move, size) for move in range(size * size + 1)]


@cache
def _moves_by_name(size: int) -> dict[bytes, Move]:
    return {b"tt": pass_move(size)} | {sgf_from_move(move, size).encode(): move for move in range(size * size + 1)}


def _moves(nodes: list[Properties], size: int) -> list[Move]:
    """The moves of nodes of which the first has one."""
    names = _moves_by_name(size)
    moves: list[Move] = []
    last = ""
    for node in nodes:
        colour = "B" if "B" in node else "W" if "W" in node else ""
        if moves and not _SETUP.isdisjoint(node):
            raise RecordError(f"setup stones after the first move: move {len(moves)}")
        if not colour:
            continue
        values = node[colour]
        if len(values) > 1 or (colour == "B" and "W" in node):
            raise RecordError(f"two moves in one node: move {len(moves) + 1}")
        if colour == last:
            raise RecordError(f"a colour plays twice in a row: move {len(moves) + 1}")
        if values[0] not in names:
            raise RecordError(f"no point of the board: move {len(moves) + 1} is {values[0][:20]!r}")
        moves.append(names[values[0]])
        last = colour
    return moves


def _settled(moves: list[Move], passing: Move) -> list[Move]:
    """The moves without any pair of passes that didn't end the game."""
    end = len(moves)
    while end > 2 and moves[end - 3 : end] == [passing] * 3:
        end -= 1
    kept: list[Move] = []
    for move in moves[:end]:
        if kept[-2:] == [passing, passing]:
            del kept[-2:]
        kept.append(move)
    return kept


def _rules(root: Properties, size: int, move_limit: int, handicap: bool) -> Rules:
    word = "".join(character for character in _text(root, "RU").lower() if character.isalnum())
    name = next((name for name, beginnings in _RU_BEGINNINGS.items() if word.startswith(beginnings)), "japanese")
    komi = 0.0 if handicap else None
    with suppress(ValueError):
        komi = float(_text(root, "KM").replace(",", "."))
    if komi in (275, 325, 375, 550, 650, 750):  # as the Fox server writes it
        komi /= 100
    if komi in (2.75, 3.25, 3.75):  # in stones, as in China, worth two points each
        komi *= 2
    try:
        rules = Rules.preset(name, max(size, MIN_SIZE), komi, max(1, move_limit))
        return replace(rules, size=size)
    except ConfigError as error:
        raise RecordError(f"komi: {error}") from None


def _outcome(text: str, ending: Ending | None) -> Outcome | None:
    """The outcome of an RE value; ``ending`` is what the comment says of it."""
    text = text.lower()
    if text in ("0", "draw", "jigo"):
        return Outcome.scored(0.0, ending or Ending.SCORE)
    match = _WINNER.match(text)
    if match is None:
        return None
    winner = BLACK if match[1][0] == "b" else WHITE
    margin = _MARGIN.match(match[2])
    if margin is not None and float(margin[0]):
        return Outcome.scored(float(margin[0]) * (1 if winner is BLACK else -1), ending or Ending.SCORE)
    return Outcome(winner, ending or _LOSSES.get(match[2][:1], Ending.SCORE))


def _noted_number(note: str, name: str) -> int:
    match = re.search(rf"\b{name} (-?[0-9]{{1,40}})\b", note)
    return int(match[1]) if match else 0


def _noted_words(note: str, name: str) -> str:
    match = re.search(rf"\b{name} \(([^()]*)\)", note)
    return match[1] if match else ""


def _legal(record: GameRecord) -> GameRecord:
    """The record under the strictest rules that it replays by, from its own on. Raises RecordError."""
    own = record.rules
    *strict, loosest = dict.fromkeys(
        replace(own, superko=superko, suicide=suicide)
        for suicide in (own.suicide, True)
        for superko in (own.superko, False)
    )
    for rules in strict:
        candidate = replace(record, rules=rules)
        with suppress(RecordError):
            candidate.replay()
            return candidate
    candidate = replace(record, rules=loosest)
    candidate.replay()
    return candidate
