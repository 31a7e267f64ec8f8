"""What an SGF file says about each position: comments, win rates, scores, letters on the board. No moves, no setup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sgfmill import sgf_grammar

from arena import RecordError
from arena.go.moves import Move, move_from_sgf, pass_move
from arena.go.record import GameRecord, Properties, game_span, main_line, utf8

TRIANGLE = "△"


@dataclass(frozen=True, slots=True)
class Remark:
    """What is said about a position. ``win_rate`` is Black's, in [0, 1], and ``margin`` too is Black's, in points, komi
    counted. ``letters`` are of one sign each. ``ownership`` is size² int8, in per cent and positive for Black.
    ``instead`` are moves in place of the one that led here and those after it."""

    comment: str = ""
    win_rate: float | None = None
    margin: float | None = None
    letters: Mapping[Move, str] = field(default_factory=dict)
    ownership: bytes | None = None
    instead: tuple[Move, ...] = ()


def read_remarks(text: str | bytes, record: GameRecord) -> tuple[Remark, ...]:
    """One for each position of the record that was read from this text: before the first move, after it, and so on.

    Read are C, SBKV (Black's win rate in per cent, as Sabaki writes it), V, LB, TR, and the first variation beside a
    move. Values that make no sense are left out. What our own files note at the root is not a comment. Raises
    RecordError for text that is not SGF.
    """
    data = utf8(text)
    nodes, variations = main_line(data), _variations(data)
    size, number = record.rules.size, 0
    remarks = [Remark()] * (len(record.moves) + 1)
    for place, node in enumerate(nodes):
        played = next((node[name][0] for name in ("B", "W") if name in node), None)
        if played is not None:
            if number == len(record.moves) or _move(played, size) != record.moves[number]:
                continue  # the record is without it, such as passes that didn't end the game
            number += 1
        own = node is nodes[0] and _is_own(node)
        found = _remark(node, size, without_comment=own)
        if played is not None and place in variations:
            found = replace(found, instead=_moves(variations[place], size))
        if found != Remark():
            remarks[number] = found
    return tuple(remarks)


def are_by_players(text: str | bytes) -> bool:
    """Whether the remarks are what the players of a game of ours reported: what a bot adds later names it (AN)."""
    root = main_line(utf8(text))[0]
    return _is_own(root) and "AN" not in root


def _is_own(root: Properties) -> bool:
    return _text(root, "AP").startswith("arena:")


def _remark(node: Properties, size: int, without_comment: bool) -> Remark:
    win_rate = _number(node, "SBKV")
    letters = {}
    for value in node.get("TR", []):
        letters[_move(value, size)] = TRIANGLE
    for value in node.get("LB", []):
        point, _, label = value.partition(b":")
        sign = label.decode("utf-8", "replace").strip()[:1]
        if sign.isprintable() and sign:
            letters[_move(point, size)] = sign
    return Remark(
        comment="" if without_comment else _text(node, "C"),
        win_rate=None if win_rate is None or not 0 <= win_rate <= 100 else win_rate / 100,
        margin=_number(node, "V"),
        letters={move: sign for move, sign in letters.items() if move is not None and move != pass_move(size)},
    )


def _variations(data: bytes) -> dict[int, list[Properties]]:
    """The nodes of variations, by the place in the main line of the node that they stand beside. None where a variation
    is not SGF: then the main line alone is read."""
    found: dict[int, list[Properties]] = {}
    span = game_span(data, 0)
    if span is None:
        return found
    with suppress(ValueError):
        tree, place = sgf_grammar.parse_sgf_game(data[span[0] : span[2]]), 0
        while tree.children:
            place += len(tree.sequence)
            tree, *others = tree.children
            if others:
                found[place] = list(sgf_grammar.main_sequence_iter(others[0]))
    return found


def _moves(nodes: Sequence[Properties], size: int) -> tuple[Move, ...]:
    """The moves of nodes, up to the first node without one."""
    moves = []
    for node in nodes:
        values = node.get("B") or node.get("W")
        move = _move(values[0], size) if values else None
        if move is None:
            break
        moves.append(move)
    return tuple(moves)


def _move(value: bytes, size: int) -> Move | None:
    with suppress(RecordError, UnicodeDecodeError):
        return move_from_sgf(value.decode("ascii"), size)
    return None


def _number(node: Properties, name: str) -> float | None:
    with suppress(ValueError):
        value = float(_text(node, name))
        return value if abs(value) <= 1000 else None
    return None


def _text(node: Properties, name: str) -> str:
    if name not in node:
        return ""
    return sgf_grammar.text_value(node[name][0]).decode("utf-8", "replace").strip()
