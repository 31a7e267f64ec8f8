"""Records: SGF there and back, what is refused and why, files and archives of many games."""

import gzip
import lzma
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from helpers.reference import random_game
from hypothesis import given, settings
from hypothesis import strategies as st

from arena import RecordError
from arena.go.collection import Refusal, read_path
from arena.go.coords import BLACK, WHITE, move_from_gtp, moves_by_sgf, pass_move, sgf_from_move, symmetry_table
from arena.go.game import PRESETS, Ending, Game, Outcome, Rules, handicap_points
from arena.go.record import GameRecord
from arena.go.rule_names import UNKNOWN
from arena.go.sgf import MAX_BYTES, begin_at_last_setup, read_remarks, read_sgf, split_games, utf8, write_sgf

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=8)


@st.composite
def records(draw: st.DrawFn) -> GameRecord:
    """Games of legal moves and some passes, ended or not."""
    rules = Rules.preset(draw(st.sampled_from(list(PRESETS))), draw(st.sampled_from([5, 9, 13, 19])))
    handicap = draw(st.sampled_from([0, 0, 2, 4])) if rules.size > 7 else 0
    black = handicap_points(rules.size, handicap) if handicap else ()
    game = Game(rules, draw(st.integers(0, 2**63 - 1)), black=black)
    for choice in draw(st.lists(st.integers(0, 2**16), max_size=80)):
        if not game.is_over:
            legal = game.legal_moves().nonzero()[0]
            game.play(int(legal[choice % len(legal)]))
    ending = draw(st.sampled_from([None, Ending.RESIGN, Ending.TIME, Ending.ILLEGAL, Ending.CRASH]))
    if game.outcome is None and ending is not None:
        game.end(Outcome(draw(st.sampled_from([BLACK, WHITE])), ending))
    names = {name: draw(NAMES) for name in ("black", "white", "id", "event", "black_rank", "white_rank")}
    reason = draw(NAMES) if ending is Ending.CRASH else ""
    return GameRecord.from_game(game, date="2020-02-29", opening=draw(st.integers(0, 8)), reason=reason, **names)


@pytest.mark.smoke
@settings(max_examples=50)
@given(records(), st.integers(0, 7))
def test_a_record_comes_back_from_its_sgf_replays_and_has_the_opening_of_its_mirror(
    record: GameRecord, symmetry: int
) -> None:
    assert read_sgf(write_sgf(record)) == record
    game = record.replay()
    assert game.outcome == record.outcome
    assert GameRecord.from_game(game).moves == record.moves
    table = symmetry_table(record.rules.size)[symmetry].tolist()
    assert replace(record, moves=tuple(table[move] for move in record.moves)).opening_key == record.opening_key


def test_an_sgf_is_one_line_with_empty_passes_and_the_players() -> None:
    game = Game(Rules.preset("japanese", 9, 0.5), seed=7, black=handicap_points(9, 2))
    game.play(move_from_gtp("E5", 9))
    game.play(pass_move(9))
    game.end(Outcome(WHITE, Ending.CRASH))
    text = write_sgf(GameRecord.from_game(game, black="A]\\", white="B\nC", opening=1, reason="lost its mind", id="g1"))
    assert "\n" not in text and "PL[" not in text
    values = "FF[4] CA[UTF-8] RU[Japanese] KM[0.5] HA[2] AB[gc][cg] ;W[ee];B[] RE[W+F] GN[g1] PB[A\\]\\\\]".split()
    for value in (*values, "PW[B C]", "C[seed 7; opening 1; ending crash; reason: lost its mind]"):
        assert value in text


def test_who_begins_and_a_move_limit_come_back() -> None:
    unusual = GameRecord(Rules(), (), None, setup=((40,), (41,)), first=WHITE)
    assert "PL[W]" in write_sgf(unusual) and read_sgf(write_sgf(unusual)) == unusual
    for result in ("?", "B+R", "0"):
        record = read_sgf(f"(;AP[arena:1]SZ[5]RU[CGOS]KM[7]RE[{result}]C[ending move limit];B[aa];W[bb])")
        assert read_sgf(write_sgf(record)) == record
        assert record.outcome is None or record.rules.move_limit == 2
    single = GameRecord.from_game(Game(Rules.preset("chinese", 5), black=[12], to_play=WHITE))
    assert "HA[" not in write_sgf(single) and single.replay().margin() == 25 - 7  # a single stone is no handicap


def test_setup_names_dates_and_the_main_line_are_read_also_by_old_long_names() -> None:
    record = read_sgf(
        "(;SZ[9]AB[aa][bb:cc]AW[ii]PB[Shusaku]PW[Gennan]BR[4d]WR[8d]DT[1846-09-11]EV[Ear]GN[x]"
        ";AE[bc]PL[W](;W[ee];B[tt](;W[ff])(;W[gg]))(;W[df]))"
    )
    assert record.setup == (tuple(sorted(moves_by_sgf(9)[point] for point in (b"aa", b"bb", b"cb", b"cc"))), (80,))
    assert record.first is WHITE
    assert record.moves == (40, 81, 50)
    assert (record.black, record.white, record.black_rank, record.white_rank) == ("Shusaku", "Gennan", "4d", "8d")
    assert (record.date, record.event, record.id) == ("1846-09-11", "Ear", "x")
    assert read_sgf("(;SZ[9];AB[ee];W[cc])").setup == ((40,), ())
    assert read_sgf("(;GaMe[1]SiZe[9];Black[ee];White[cc])").moves == (40, 20)
    assert read_sgf("(;SZ[9];B[ee];W[];B[];W[];B[cc])").moves == (40, 81, 20)  # without two passes that end nothing
    assert read_sgf("(;SZ[9];B[ee];W[];B[];W[];B[])").moves == (40, 81, 81)


def sgf_of(*points: str, rules: str = "Chinese") -> str:
    """The moves of both sides in turn, by GTP's names on 5x5."""
    moves = [sgf_from_move(move_from_gtp(point, 5), 5) for point in points]
    return f"(;SZ[5]RU[{rules}]" + "".join(f";{'BW'[n % 2]}[{move}]" for n, move in enumerate(moves)) + ")"


def test_results_rules_komi_and_size_are_read_in_their_many_forms() -> None:
    results = {
        "B+2.5": Outcome(BLACK, Ending.SCORE, 2.5),
        "W+12": Outcome(WHITE, Ending.SCORE, -12.0),
        "w+r": Outcome(WHITE, Ending.RESIGN),
        "Black + Time": Outcome(BLACK, Ending.TIME),
        "W+Forfeit": Outcome(WHITE, Ending.ILLEGAL),
        "B+3/4": Outcome(BLACK, Ending.SCORE),
        "B+0.5 (moves beyond 200 are lost)": Outcome(BLACK, Ending.SCORE, 0.5),
        "Jigo": Outcome(None, Ending.SCORE, 0.0),
        "Void": None,
    }
    for text, outcome in results.items():
        record = read_sgf(f"(;SZ[9]RE[{text}];B[ee])")
        assert (text, record.outcome) == (text, read_sgf(write_sgf(record)).outcome) == (text, outcome)
    presets = {"jp": "japanese", "cn": "chinese", "AGA": "chinese", "CGOS": "cgos", "": UNKNOWN, "house": UNKNOWN}
    presets |= dict.fromkeys(("NZ", "New Zealand", "Ing Goe", "koPOSITIONALscoreAREAtaxNONEsui1"), "tromp-taylor")
    presets['{"ko":"SIMPLE","scoring":"AREA","tax":"NONE","suicide":false,"whiteHandicapBonus":"N"}'] = "chinese"
    presets['{"ko":"SIMPLE","scoring":"TERRITORY","tax":"SEKI","suicide":false}'] = "japanese"
    for text, name in presets.items():
        record = read_sgf(f"(;SZ[9]RU[{text}];B[ee])")
        assert (text, record.rules.name) == (text, name)
        assert read_sgf(write_sgf(record)) == record
    komis = {"KM[5.5]": 5.5, "KM[6,5]": 6.5, "KM[none]RU[Japanese]": 6.5, "KM[0]": 0, "AB[ee]PL[W]": 0}
    for text, komi in (
        komis
        | {"KM[-2.5]": -2.5, "KM[375]": 7.5, "KM[3.75]": 7.5, "RU[Chinese]": 7, "KM[50]": 0.5, "KM[6.5 points]": 6.5}
    ).items():
        assert (text, read_sgf(f"(;SZ[9]{text})").rules.komi) == (text, komi)
    for text, size in {"(;;B[qd])": 19, "(;GM[1])": 19, "(;SZ[9:9])": 9}.items():
        assert read_sgf(text).rules.size == size


def test_charsets_are_read() -> None:
    assert read_sgf("(;CA[Big5]SZ[9]PB[許]PW[a])".encode("big5")).black == "許"  # its second byte is a backslash
    assert read_sgf("(;CA[big5]SZ[9]PB[許功])".encode()).black == "許功"
    assert read_sgf("(;SZ[9]PB[Müller])".encode("latin-1")).black == "Müller"
    assert read_sgf("(;CA[no-such-charset]SZ[9]PB[Müller])".encode("latin-1")).black == "Müller"
    assert read_sgf("(;SZ[9]PB[聂卫平])".encode("gb18030")).black == "聂卫平"  # without CA
    assert read_sgf("(;CA[UTF-16]SZ[9]PB[井山裕太])".encode("utf-16")).black == "井山裕太"


def test_a_missing_first_node_blank_passes_and_the_pass_beyond_the_corner_are_read() -> None:
    assert read_sgf("(\nSZ[9]\nKM[7]\n;B[ee];W[cc])").moves == (40, 20)
    assert [*split_games(utf8(b"(\nSZ[9]\n;B[ee])"))] == [b"(\n;SZ[9]\n;B[ee])"]
    assert read_sgf("(;SZ[9];B[ee];W[  ])").moves == (40, 81)
    assert read_sgf("(;SZ[18];B[aa];W[ss])").moves == (0, 324)


def test_handicap_stones_written_as_moves_of_black_are_set_up() -> None:
    text = "(;SZ[9]HA[2]KM[0.5]RU[Chinese];B[cc]C[one];B[gg];W[ee]C[two];B[ff])"
    record = read_sgf(text)
    assert (record.setup, record.first, record.moves) == (((20, 60), ()), WHITE, (40, 50))
    assert [remark.comment for remark in read_remarks(text, record)] == ["one", "two", ""]


def test_a_game_with_stones_set_up_in_its_middle_begins_there() -> None:
    text = begin_at_last_setup("(;SZ[9]KM[7]RU[CGOS]AB[aa];B[ee];W[cc];B[gh];AE[ee]AB[gg]AW[gc]C[here];W[dd];B[ff])")
    record = read_sgf(text)
    assert (record.setup, record.first, record.moves) == (((0, 60, 69), (20, 24)), WHITE, (30, 50))
    assert read_remarks(text, record)[0].comment == "here"
    assert begin_at_last_setup("(;SZ[9]AB[aa];W[ee])") == b"(;SZ[9]AB[aa];W[ee])"


def test_suicide_repetition_and_length_are_allowed_by_the_rules_of_a_record_that_has_them() -> None:
    record = read_sgf(sgf_of("A1", "A2", "E5", "B2", "E4", "C1", "B1"))
    assert record.rules == replace(Rules.preset("chinese", 5), suicide=True)
    assert record.replay().board.stone(move_from_gtp("A1", 5)) == 0
    record = read_sgf(sgf_of("E5", "A2", "E4", "B2", "D5", "C1", "A1", "pass", "B1", rules="Tromp-Taylor"))
    assert record.rules == replace(Rules.preset("tromp-taylor", 5), superko=False)
    circle = ["A1", "pass", "B1", "pass"]  # two black stones, again and again, that take themselves off
    record = read_sgf(sgf_of("E5", "A2", "E4", "B2", "D5", "C1", *circle * 20, rules="Tromp-Taylor"))
    assert len(record.moves) == record.rules.move_limit == 86


REFUSED = {
    "not an SGF": ["", "(;SZ[9];B[ee]", "(;SZ[9]B)", "(;[9])"],
    "not Go": ["(;GM[3];B[ee])"],
    "rectangular board": ["(;SZ[9:13];B[ee])"],
    "size 25": ["(;SZ[25];B[ee])"],
    "no size": ["(;;B[ee];W[cc])", "(;SZ[nine];B[ee])", "(;SZ[-9];B[ee])"],
    "no point of the board": ["(;SZ[9];B[jk])", "(;SZ[9];B[e])", "(;SZ[9]AB[jj])", "(;SZ[9]AB[cc:aa])"],
    "two moves in one node": ["(;SZ[9];B[ee]W[cc])", "(;SZ[9];B[ee][cc])"],
    "a colour plays twice in a row": ["(;SZ[9];B[ee];B[cc])"],
    "setup stones after the first move": ["(;SZ[9];B[ee];AB[cc];W[gg])", "(;SZ[9];B[ee];AB[cc]AW[gg])"],
    "handicap stones missing": ["(;SZ[9]HA[2];W[ee])"],
    "illegal setup": ["(;SZ[9]AB[ee]AW[ee])", "(;SZ[9]AB[aa]AW[ab][ba])"],
    "illegal move": [
        "(;SZ[9];B[ee];W[ee])",
        sgf_of("E5", "A2", "D5", "B1", "A1"),
        sgf_of("B3", "E3", "C4", "D4", "C2", "D2", "A1", "C3", "D3", "C3"),
    ],
    "too large": [f"(;SZ[9]{' ' * MAX_BYTES})"],
    "more than 3000 moves": [f"(;SZ[9]{';B[ee];W[]' * 2000})"],
    "komi": ["(;SZ[9]KM[9999];B[ee])", "(;SZ[9]KM[0.99];B[ee])"],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused_and_why(reason: str) -> None:
    for text in REFUSED[reason]:
        with pytest.raises(RecordError) as refused:
            read_sgf(text)
        assert str(refused.value).partition(": ")[0] == reason, text[:80]
        assert "\n" not in str(refused.value)


# --- Files and archives of many games ---

ARCHIVES = {"zip": "zip", "tar": "tar", "tar.gz": "gztar", "tar.bz2": "bztar", "tar.xz": "xztar"}
FIVE = [f"(;SZ[9];B[{point}])" for point in ("aa", "bb", "cc", "dd", "ee")]


def write(path: Path, games: Iterable[str], member: str = "a.sgfs") -> Path:
    """A file of these games, archived and packed as the end of its name says."""
    path.parent.mkdir(exist_ok=True)
    data, name, end = "\n".join(games).encode(), *path.name.split(".", 1)
    if end in ARCHIVES:
        with TemporaryDirectory() as folder:
            (Path(folder) / member).write_bytes(data)
            shutil.make_archive(str(path.parent / name), ARCHIVES[end], folder)
    else:
        path.write_bytes({"xz": lzma.compress, "gz": gzip.compress}.get(end[-2:], bytes)(data))
    return path


def first_moves(path: Path | str) -> list[int]:
    return [item.moves[0] if isinstance(item, GameRecord) else -1 for item in read_path(path)]


def test_files_and_archives_of_many_games_are_read(tmp_path: Path) -> None:
    """A folder's in order of their names, with those of the folders in it."""
    names = "a.sgf a.sgfs a.sgfs.xz a.sgfs.gz A.SGF in/x.zip in/x.tar in/x.tar.gz in/x.tar.xz in/x.tar.bz2".split()
    for name in names:
        path = write(tmp_path / name, FIVE)
        assert (name, first_moves(path)) == (name, first_moves(str(path))) == (name, [0, 10, 20, 30, 40])
    (tmp_path / "c.sgf").mkdir()
    (tmp_path / "notes.txt").write_text(FIVE[0])
    write(tmp_path / "in" / "other.zip", FIVE, "readme.txt")
    assert first_moves(tmp_path) == [0, 10, 20, 30, 40] * len(names)


def test_a_game_that_is_refused_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sgfs", [FIVE[0], "nonsense", "(;SZ[25];B[aa])", "(;SZ[9];B[ee];W[ee])", FIVE[0]])
    first, *refused, last = read_path(path)
    assert isinstance(first, GameRecord) and isinstance(last, GameRecord)
    assert refused == [
        Refusal(str(path), 2, "not an SGF", "no SGF data found"),
        Refusal(str(path), 3, "size 25", "boards from 5x5 to 19x19 are supported"),
        Refusal(str(path), 4, "illegal move", "move 2 by White, E5 is taken"),
    ]
    path = write(tmp_path / "x.zip", ["nonsense"])
    assert [(item.source, item.reason) for item in read_path(path)] == [(f"{path}:a.sgfs", "not an SGF")]
    path = write(tmp_path / "a.sgf", [FIVE[0], "(;SZ[9];B[ee](;W[cc])(;W[dd])"])  # a broken game takes the rest with it
    assert [(item.number, item.reason) for item in list(read_path(path))[1:]] == [(2, "not an SGF")]


def test_a_file_that_is_too_long_is_named_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name was in lower case."""
    (path := tmp_path / "Large.SGF").write_text("(;SZ[9])")
    monkeypatch.setattr("arena.go.collection.MAX_FILE", 4)
    with pytest.raises(RecordError, match=r"Large\.SGF is longer than"):
        list(read_path(path))


@pytest.mark.parametrize("name", ["x.sgfs.xz", "x.sgfs.gz", "x.zip", "x.tar", "x.tar.xz"])
def test_a_path_without_games_or_a_damaged_file_is_an_error_that_names_it(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, ["", ""])
    for empty in (path, tmp_path):
        with pytest.raises(RecordError, match=f"{empty.name} holds no games"):
            list(read_path(empty))
    write(path, (write_sgf(GameRecord.from_game(random_game(9, seed, 60))) for seed in range(20)))
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"\0garbage" * 200):
        path.write_bytes(damaged)
        with pytest.raises(RecordError, match=f"{name} is damaged or can't be read: ") as error:
            list(read_path(path))
        assert "\n" not in str(error.value)
