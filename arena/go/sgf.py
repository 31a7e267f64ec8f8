"""SGF through sgfmill: game records, and comments on and evaluations of positions."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sgfmill import sgf_grammar, sgf_properties

from arena import ConfigError, RecordError, __version__
from arena.go.board import Board
from arena.go.coords import BLACK, MAX_SIZE, MIN_SIZE, WHITE, Colour, Move, moves_by_sgf, pass_move, sgf_from_move
from arena.go.game import Rules, Scoring
from arena.go.record import Ending, GameRecord, Outcome, Stones, usual_first
from arena.go.rule_names import UNKNOWN, find_preset

MAX_BYTES = 16 << 20  # the longest SGF text of one game that is read
MAX_MOVES = 3000  # the most moves of one game that are read

Notes = Mapping[int, Mapping[str, Sequence[str]]]
"""Additional SGF properties by node number and name, with unescaped values; the root is node 0."""

Properties = Mapping[str, list[bytes]]
"""A node of an SGF: sgfmill's raw values by the property's name."""

_NOTED_ENDINGS = (Ending.CRASH, Ending.MOVE_LIMIT, Ending.ADJUDICATED)  # RE has no word for these
_TEXTS = dict(PB="black", PW="white", BR="black_rank", WR="white_rank", DT="date", EV="event", GN="id")
"""Properties of the root that are fields of a record."""

_RU_VALUES = {"cgos": "CGOS", "tromp-taylor": "Tromp-Taylor", "chinese": "Chinese", "japanese": "Japanese"}


# --- Writing ---


def move_notes(record: GameRecord) -> Notes:
    """The statistics of the moves as SGF properties: a comment, Black's win rate in per cent (SBKV, which Sabaki draws
    as a graph) and Black's lead (V)."""
    found: dict[int, dict[str, list[str]]] = {}
    for number, fact in enumerate(record.facts, 1):
        black, words = record.mover(number) is BLACK, []
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


def write_sgf(
    record: GameRecord, notes: Notes | None = None, variations: Mapping[int, Sequence[Move]] | None = None
) -> str:
    """The game as SGF (FF[4]), in one line unless a note has several. ``notes`` are added to the nodes; ``variations``
    are alternatives to the moves from this number on. Not written: the players' identities, fault details, the seconds
    used, a move limit that didn't end the game, and rules that aren't a preset."""
    size = record.rules.size

    def points(moves: Iterable[Move]) -> list[bytes]:
        return [sgf_from_move(move, size).encode() for move in moves]

    def nodes_of(moves: Sequence[Move], first: int) -> list[dict[str, list[bytes]]]:
        return [{record.mover(number).letter: [point]} for number, point in enumerate(points(moves), first)]

    root = {name: [_escaped(" ".join(text.split()))] for name, text in _root_properties(record).items() if text}
    root |= {name: points(sorted(stones)) for name, stones in zip(("AB", "AW"), record.setup, strict=True) if stones}
    nodes = [root, *nodes_of(record.moves, 1)]
    for number, added in (notes or {}).items():
        for name, values in added.items():
            escaped = [_escaped(value) for value in values]
            own = nodes[number].get("C", []) if name == "C" else []  # stays last, as read_sgf expects
            nodes[number][name] = [b"\n".join([*escaped, *own])] if own else escaped
    whole = tree = sgf_grammar.Coarse_game_tree()
    for number, node in enumerate(nodes):
        if variations and number in variations:
            tree.children = [sgf_grammar.Coarse_game_tree(), sgf_grammar.Coarse_game_tree()]
            tree, other = tree.children
            other.sequence = nodes_of(variations[number], number)
        tree.sequence.append(node)
    text: str = sgf_grammar.serialise_game_tree(whole, wrap=None).decode()
    return text.strip()


def _escaped(text: str) -> bytes:
    return sgf_grammar.escape_text(text.encode("utf-8", "replace"))


def _root_properties(record: GameRecord) -> dict[str, str]:
    usual, outcome = usual_first(record.setup), record.outcome
    comment = {
        f"seed {record.seed}": record.seed,
        f"opening {record.opening}": record.opening,
        f"ending {outcome and outcome.ending}": outcome is not None and outcome.ending in _NOTED_ENDINGS,
        f"adjudged {record.adjudged and record.adjudged.letter}": record.adjudged,
        f"unrated ({record.unrated})": record.unrated,
        f"reason: {record.reason}": record.reason,
    }
    return {
        **{"FF": "4", "GM": "1", "CA": "UTF-8", "AP": f"arena:{__version__}"},
        "SZ": str(record.rules.size),
        "KM": f"{record.rules.komi:g}",
        "RU": "" if record.rules.name == UNKNOWN else _RU_VALUES.get(record.rules.name, record.rules.name),
        "RE": "?" if outcome is None else outcome.sgf,
        "HA": str(record.handicap) if record.handicap > 1 else "",
        "PL": "" if record.first is usual else record.first.letter,
        **{name: getattr(record, field) for name, field in _TEXTS.items()},
        "C": "; ".join(part for part, is_there in comment.items() if is_there),
    }


# --- The text and its nodes ---

_CHARSET = re.compile(rb"CA\s*\[\s*([A-Za-z0-9_.:-]{1,40})\s*\]")
_GB2312 = re.compile(rb"(?:[^\x80-\xff]|[\xa1-\xf7][\xa1-\xfe])*")  # pairs that are rare in Latin-1 text
_NO_FIRST_NODE = re.compile(rb"\A(\s*\(\s*)(?=[A-Z]{1,2}\s*\[)")


def utf8(text: str | bytes) -> bytes:
    """Recode an SGF to UTF-8 before it is parsed: Asian charsets use the bytes of ``]`` and ``\\`` inside characters.
    Add a missing ``;`` before the first node, as in Nihon Ki-in's files."""
    return _NO_FIRST_NODE.sub(rb"\1;", _recoded(text))


def _recoded(text: str | bytes) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "replace")
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return text.decode("utf-16", "replace").encode()
    charset = _CHARSET.search(text)
    with suppress(UnicodeDecodeError):
        text.decode("utf-8")
        return text
    with suppress(LookupError, ValueError):
        if charset or _GB2312.fullmatch(text):
            return text.decode(charset[1].decode() if charset else "gb18030", "replace").encode("utf-8", "replace")
    return text.decode("latin-1").encode()


def split_games(data: bytes) -> Iterator[bytes]:
    """The games of an SGF collection in UTF-8; an incomplete game includes all text after it."""
    start = 0
    while True:
        tokens, end = sgf_grammar.tokenise(data, start)
        is_whole = bool(tokens) and tokens.count(("D", b"(")) == tokens.count(("D", b")"))
        if tokens or start == 0:
            yield data[start:end] if is_whole else data[start:]
        if not is_whole:
            return
        start = end


def _main_line(text: str | bytes) -> list[Properties]:
    """The nodes of the first game's main line, without variations. With HA[n], Black's first n moves become AB if they
    come in a row. Raises RecordError."""
    try:
        line = list(sgf_grammar.main_sequence_iter(sgf_grammar.parse_sgf_game(utf8(text))))
    except ValueError as error:
        raise RecordError(f"not an SGF: {error}") from None
    number = int(count[:3]) if (count := _text(line[0], "HA")).isdecimal() else 0
    nodes = [place for place, node in enumerate(line) if node.keys() & {"B", "W", "AB", "AW"}][:number]
    if number > 1 and len(nodes) == number and all("B" in line[place] and "AB" not in line[place] for place in nodes):
        for place in nodes:
            line[place] = {"AB" if name == "B" else name: values for name, values in line[place].items()}
    return line


def begin_at_last_setup(text: str | bytes) -> bytes:
    """The SGF text in UTF-8. A game with stones set up in its middle begins at the last such node, from the position
    there. Raises RecordError."""
    line = _main_line(text)
    size, last, has_move = _size(line[0]), 0, False
    for number, node in enumerate(line):
        if has_move and any(_placed(node, size)):
            last = number
        has_move |= bool(node.keys() & {"B", "W"})
    if not last:
        return utf8(text)
    board, to_play = Board(size), None
    for number, node in enumerate(line[: last + 1]):
        black, white, empty = _placed(node, size)
        board = board.without([*black, *white, *empty]) if black or white or empty else board
        played = _played(node, size, number) if number < last else []
        to_play = played[-1][0].opponent if played else to_play
        stones = [*((BLACK, move) for move in black), *((WHITE, move) for move in white), *played]
        for colour, move in stones:
            if move != pass_move(size):
                try:
                    board.put(move, colour)
                except ValueError as error:
                    raise RecordError(f"illegal move: node {number}, {error}") from None
    root = {name: values for name, values in line[0].items() if name not in ("AB", "AW", "AE", "B", "W", "PL", "HA")}
    for colour in Colour:
        if on_board := [move for move in range(size * size) if board.stone(move) == colour]:
            root[f"A{colour.letter}"] = [sgf_from_move(move, size).encode() for move in on_board]
    rest = {name: values for name, values in line[last].items() if name not in ("AB", "AW", "AE")}
    tree = sgf_grammar.Coarse_game_tree()
    tree.sequence = [root | {"PL": [to_play.letter.encode()]} if to_play else root, rest, *line[last + 1 :]]
    found: bytes = sgf_grammar.serialise_game_tree(tree, wrap=None)
    return found


def _text(node: Properties, name: str, one_line: bool = True) -> str:
    if name not in node:
        return ""
    value = sgf_grammar.simpletext_value if one_line else sgf_grammar.text_value
    return value(node[name][0]).decode("utf-8", "replace").strip()


def _setup_and_moves(line: Sequence[Properties], size: int) -> tuple[Stones, Colour | None, list[Move]]:
    """The stones set up before the first move, the side that begins, if given, and the moves. Raises RecordError."""
    stones: tuple[set[Move], set[Move]] = (set(), set())
    first = last = None
    moves: list[Move] = []
    for number, node in enumerate(line):
        placed = _placed(node, size)
        if moves and any(placed):
            raise RecordError(f"setup stones after the first move: move {len(moves)}")
        for own, new in zip(stones, placed, strict=False):
            own.difference_update(*placed)
            own.update(new)
        if not moves:
            first = {"b": BLACK, "w": WHITE}.get(_text(node, "PL")[:1].lower()) or first
        played = _played(node, size, number)
        if len(played) > 1:
            raise RecordError(f"two moves in one node: move {len(moves) + 1}")
        for colour, move in played:
            if colour is last:
                raise RecordError(f"a colour plays twice in a row: move {len(moves) + 1}")
            first, last = first if moves else colour, colour
            moves.append(move)
    return (tuple(sorted(stones[0])), tuple(sorted(stones[1]))), first, moves


def _played(node: Properties, size: int, number: int) -> list[tuple[Colour, Move]]:
    names, found = moves_by_sgf(size), []
    for colour, value in [(each, value) for each in Colour for value in node.get(each.letter, ())]:
        if (move := names.get(value.strip())) is None:
            raise RecordError(f"no point of the board: {value[:20].decode('utf-8', 'replace')!r} in node {number}")
        found.append((colour, move))
    return found


def _placed(node: Properties, size: int) -> list[list[Move]]:
    """The points of AB, AW and AE."""
    return [_points(node[name], size) if name in node else [] for name in ("AB", "AW", "AE")]


def _points(values: list[bytes], size: int) -> list[Move]:
    try:
        points = sgf_properties.interpret_point_list(filter(None, values), sgf_properties.Presenter(size, "UTF-8"))
    except ValueError:
        raise RecordError(
            f"no point of the board: setup {b' '.join(values)[:40].decode('utf-8', 'replace')!r}"
        ) from None
    return [(size - 1 - row) * size + column for row, column in points]


# --- Reading a record ---

_WINNER = re.compile(r"(b|w|black|white)\s*\+\s*(.*)", re.DOTALL)
_MARGIN = re.compile(r"[0-9]{1,4}(?:\.[0-9]{0,4})?(?!\S)")
_LOSSES = {"r": Ending.RESIGN, "t": Ending.TIME, "f": Ending.ILLEGAL, "i": Ending.ILLEGAL}


def read_sgf(text: str | bytes) -> GameRecord:
    """The first game of an SGF text, its main line. Bytes are UTF-8, else what CA says, else Latin-1.

    The record always replays. Its rules are the preset closest to RU (``rule_names``). Without one, the rules are named
    ``unknown``: area scoring, simple ko. If a move breaks the rules, superko is dropped, then suicide allowed, then
    both. The move limit is raised to fit. A missing komi is the preset's, or 0 with handicap stones. With HA[n], n
    moves of Black in a row at the start are handicap stones. Two passes after which play went on are left out. A
    forfeit without a known cause counts as one for an illegal move. A missing size means 19x19 if a stone lies beyond
    13x13. Stones set up in the middle of a game are refused; see ``begin_at_last_setup``.

    Raises RecordError, ``reason: detail`` or just a reason; the reason is short, so that refusals can be counted by it.
    """
    if len(text) > MAX_BYTES:
        raise RecordError(f"too large: {len(text)} bytes")
    line = _main_line(text)
    root = line[0]
    if _text(root, "GM") not in ("", "1"):
        raise RecordError(f"not Go: GM is {_text(root, 'GM')[:20]}, and 1 is Go")
    size = _size(root)
    setup, first, moves = _setup_and_moves(line, size)
    if len(moves) > MAX_MOVES:
        raise RecordError(f"more than {MAX_MOVES} moves")
    if "SZ" not in root:  # 9x9 and 13x13 games are written without one too
        stones = [move for move in (*setup[0], *setup[1], *moves) if move != pass_move(size)]
        if stones and max(max(divmod(move, size)) for move in stones) < 13:
            raise RecordError("no size: and no stone beyond 13x13")
    if first is WHITE and setup == ((), ()) and _text(root, "HA").isdecimal() and int(_text(root, "HA")[:3]) > 1:
        raise RecordError("handicap stones missing")
    moves = _without_resumed_passes(moves, pass_move(size))
    note, _, reason = (_text(root, "C") if _is_ours(root) else "").partition("reason: ")

    def noted(pattern: str) -> str:
        found = re.search(pattern, note)
        return found[1] if found else ""

    ending = next((ending for ending in _NOTED_ENDINGS if f"ending {ending}" in note), None)
    outcome = _outcome(_text(root, "RE"), ending)
    stopped = outcome is not None and outcome.ending is Ending.MOVE_LIMIT  # a result that RE doesn't give has no ending
    limit = len(moves) if stopped else max(len(moves), 3 * size * size)
    record = GameRecord(
        rules=_rules(root, size, limit, handicap=usual_first(setup) is WHITE),
        moves=tuple(moves),
        outcome=outcome,
        setup=setup,
        first=first or usual_first(setup),
        seed=int(noted(r"\bseed (-?[0-9]{1,40})\b") or 0),
        opening=int(noted(r"\bopening (-?[0-9]{1,40})\b") or 0),
        adjudged=next((colour for colour in Colour if f"adjudged {colour.letter}" in note), None),
        unrated=noted(r"\bunrated \(([^()]*)\)"),
        reason=reason,
        **{field: _text(root, name) for name, field in _TEXTS.items()},  # type: ignore[arg-type]  # all of them texts
    )
    return _legal(record)


def _is_ours(root: Properties) -> bool:
    return _text(root, "AP").startswith("arena:")


def _size(root: Properties) -> int:
    text = _text(root, "SZ") or str(MAX_SIZE)
    found = re.fullmatch(r"([0-9]{1,5})\s*(?::\s*([0-9]{1,5}))?", text)
    if not found:
        raise RecordError(f"no size: SZ is {text[:20]!r}")
    if found[2] not in (None, found[1]):
        raise RecordError(f"rectangular board: {text[:20]!r}")
    if not MIN_SIZE <= int(found[1]) <= MAX_SIZE:
        raise RecordError(f"size {int(found[1])}: boards from 5x5 to 19x19 are supported")
    return int(found[1])


def _without_resumed_passes(moves: list[Move], passing: Move) -> list[Move]:
    """The moves without pairs of passes that didn't end the game."""
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
    name, text = find_preset(_text(root, "RU")), _text(root, "KM").replace(",", ".")
    komi = 0.0 if handicap else None
    if number := re.match(r"[+-]?[0-9]{1,5}(\.[0-9]{0,5})?", text):
        komi = float(number[0])
    if komi is not None and komi >= 50 and komi % 25 == 0:  # as the Fox server writes it
        komi /= 100
    if komi in (2.75, 3.25, 3.75):  # in stones, as in China, worth two points each
        komi *= 2
    try:
        rules = Rules.preset(name or "japanese", size, komi, max(1, move_limit))
    except ConfigError as error:
        raise RecordError(f"komi: {error}") from None
    return rules if name else replace(rules, name=UNKNOWN, scoring=Scoring.AREA)


def _outcome(text: str, ending: Ending | None) -> Outcome | None:
    """The outcome of an RE value; ``ending`` is the one noted in the comment, if any."""
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


def _legal(record: GameRecord) -> GameRecord:
    """The record with the strictest rules by which it replays, starting with its own. Raises RecordError."""
    own = record.rules
    for superko, suicide in ((own.superko, own.suicide), (False, own.suicide), (own.superko, True), (False, True)):
        candidate = replace(record, rules=replace(own, superko=superko, suicide=suicide))
        try:
            candidate.replay()
            return candidate
        except RecordError as error:
            problem = error
    raise problem


# --- Reading remarks about positions ---


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark about a position. ``win_rate``, in [0, 1], and ``margin``, in points, komi counted, are Black's;
    ``letters`` has one character for each marked point. ``policy`` (a net's probabilities) and ``ownership`` (size²
    int8 in per cent, positive for Black) are not stored in SGF."""

    comment: str = ""
    win_rate: float | None = None
    margin: float | None = None
    letters: Mapping[Move, str] = field(default_factory=dict)
    policy: Mapping[Move, float] = field(default_factory=dict)
    ownership: bytes | None = None


def read_remarks(text: str | bytes, record: GameRecord) -> tuple[Remark, ...]:
    """The remarks of the SGF that ``record`` was read from, one for each position including the first; from C, SBKV
    (Sabaki's property for Black's win rate in per cent) and V. Raises RecordError for text that is not SGF."""
    names, number = moves_by_sgf(record.rules.size), 0
    remarks = [Remark()] * (len(record.moves) + 1)
    for place, node in enumerate(_main_line(text)):
        value = next((node[colour.letter][0] for colour in Colour if colour.letter in node), None)
        if value is not None:
            if number == len(record.moves) or names.get(value) != record.moves[number]:
                continue  # a move that the record leaves out, such as a pass that didn't end the game
            number += 1
        comment = "" if place == 0 and _is_ours(node) else _text(node, "C", one_line=False)
        win_rate, margin = _number(node, "SBKV", 0, 100), _number(node, "V", -1000, 1000)
        found = Remark(comment, win_rate and win_rate / 100, margin)
        if found != Remark():
            remarks[number] = found
    return tuple(remarks)


def are_by_players(text: str | bytes) -> bool:
    """Whether the remarks are those of an arena game's players; a later analysis names its bot in AN."""
    root = _main_line(text)[0]
    return _is_ours(root) and "AN" not in root


def _number(node: Properties, name: str, least: float, most: float) -> float | None:
    with suppress(ValueError):
        if least <= (value := float(_text(node, name))) <= most:
            return value
    return None
