"""What an SGF file says about each position: comments, win rates, scores, letters on the board. No moves, no setup."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from sgfmill import sgf_grammar

from arena import RecordError
from arena.go.moves import Move, move_from_sgf, pass_move
from arena.go.record import Properties, Record, main_line, utf8

TRIANGLE = "△"


@dataclass(frozen=True, slots=True)
class Remark:
    """What is said about a position. ``win_rate`` is Black's, in [0, 1], and ``margin`` too is Black's, in points, komi
    counted. ``letters`` are of one sign each. ``ownership`` is size² int8, in per cent and positive for Black."""

    comment: str = ""
    win_rate: float | None = None
    margin: float | None = None
    letters: Mapping[Move, str] = field(default_factory=dict)
    ownership: bytes | None = None


def read_remarks(text: str | bytes, record: Record) -> tuple[Remark, ...]:
    """One for each position of the record that was read from this text: before the first move, after it, and so on.

    Read are C, SBKV (Black's win rate in per cent, as Sabaki writes it), V, LB and TR. Values that make no sense are
    left out. What our own files note at the root is not a comment. Raises RecordError for text that is not SGF.
    """
    nodes = main_line(utf8(text))
    size, number = record.rules.size, 0
    remarks = [Remark()] * (len(record.moves) + 1)
    for node in nodes:
        played = next((node[name][0] for name in ("B", "W") if name in node), None)
        if played is not None:
            if number == len(record.moves) or _move(played, size) != record.moves[number]:
                continue  # the record is without it, such as passes that didn't end the game
            number += 1
        own = node is nodes[0] and _is_own(node)
        found = _remark(node, size, without_comment=own)
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
