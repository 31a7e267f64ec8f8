"""A game is stepped through: what keys and the mouse do, what is seen at every size, what a pipe gets."""

from dataclasses import replace
from pathlib import Path

import pytest
from commandline import arena, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from played import lines_of, match_of, record_of
from rich.cells import cell_len
from rich.console import Group
from terminal import Terminal

from arena.go.coords import BLACK, gtp_from_move, move_from_gtp
from arena.go.game import Ending, Outcome
from arena.go.record import UNKNOWN, MoveStats
from arena.go.sgf import Remark, are_by_players, move_notes, read_remarks, read_sgf, write_sgf
from arena.report.board import result_words
from arena.report.chart import draw_curve
from arena.results.store import Event, Store
from arena.screen.terminal import Act, Mouse, Paste, Press
from arena.screen.viewer import Viewer, costs, remarks_of_players

CLUB = """(;FF[4]GM[1]SZ[5]KM[6.5]RU[Chinese]PB[Anna]PW[Bruno]BR[3k]RE[W+3.5]DT[2026-02-03]C[A club game.]
;B[cc]SBKV[60.0]C[In the middle.]
;W[bc]SBKV[58]
;B[cb]SBKV[20]V[-7.5]C[Too slow: White gets the left side, and there is hardly anything that Black can do about it.]
LB[bb:A][bd:B]TR[dd]
;W[bb]SBKV[22]
;B[ab]SBKV[9]
;W[ac];B[tt];W[tt])"""

RECORD = read_sgf(CLUB)


def viewer(at: int = 0, **more: object) -> Viewer:
    return Viewer(RECORD, read_remarks(CLUB, RECORD), at=at, **more)  # type: ignore[arg-type]


def screen(viewer: Viewer, width: int, height: int) -> list[str]:
    lines = [line.plain.rstrip() for line in viewer.scene().fit(width, height).lines]
    assert len(lines) == height
    assert max(map(cell_len, lines)) <= width
    return lines


def press(viewer: Viewer, *keys: str) -> int:
    for key in keys:
        assert viewer.do(Press(key))
    return viewer.number


# --- What is said about positions ---


def said(text: str) -> list[Remark]:
    """The remarks of a text, without those that say nothing."""
    return [remark for remark in read_remarks(text, read_sgf(text)) if remark != Remark()]


def test_remarks_are_read_beside_the_moves_that_they_belong_to():
    remarks = read_remarks(CLUB, RECORD)
    assert [remark.win_rate for remark in remarks] == [None, 0.6, 0.58, 0.2, 0.22, 0.09, None, None, None]
    assert remarks[0].comment == "A club game." and remarks[1].comment == "In the middle."
    assert remarks[3].margin == -7.5
    letters = {move_from_gtp(point, 5): sign for point, sign in (("B4", "A"), ("B2", "B"), ("D2", "△"))}
    assert remarks[3].letters == letters


def test_remarks_that_are_none_or_make_no_sense_are_left_out():
    record = record_of(match_of(size=5), 3, "sl")  # our own files note things of a game
    assert said(write_sgf(record).replace("GM[1]", "GM[1]C[seed 3]")) == []
    for value in ("SBKV[nonsense]", "SBKV[101]", "V[1e9]", "LB[zz:A]", "LB[:A]", "LB[aa:]", "TR[]", "C[]"):
        assert said(f"(;GM[1]SZ[5];B[cc]{value})") == []
    text = "(;GM[1]SZ[5];B[cc]C[one];W[tt]C[x];B[tt]C[y];W[bc]C[two])"  # passes that ended nothing
    assert [remark.comment for remark in said(text)] == ["one", "two"]


def test_a_move_costs_the_side_that_made_it():
    found = costs(RECORD, [0.5, 0.6, 0.58, 0.2, None, 0.3])
    assert {number: round(cost, 2) for number, cost in found.items()} == {1: -0.1, 2: -0.02, 3: 0.38}


# --- What a person does ---


def test_keys_and_numbers_go_through_the_game():
    seen = viewer()
    assert press(seen, "right", "n", " ", "enter") == 4
    assert press(seen, "left", "p") == 2
    assert press(seen, "left", "left", "left") == 0
    assert press(seen, "end", "right") == press(seen, "page down") == 8
    assert press(seen, "page up") == press(seen, "home") == 0
    seen = viewer()
    assert press(seen, "g", "5", "enter") == press(seen, "5", "enter") == 5
    assert press(seen, "3", "backspace", "7", "enter") == 7
    assert press(seen, "g", "2", "escape") == 7
    press(seen, "9", "9", "enter")
    assert "The game has 8 moves." in screen(seen, 80, 24)
    assert press(seen, "1", "home") == 0  # another key gives the number up
    seen.do(Paste("4\n"))
    assert press(seen, "enter") == 4
    assert not seen.do(Press("q"))


def test_m_goes_from_mistake_to_mistake():
    seen = viewer()
    assert seen.mistakes == [3, 5]
    assert [press(seen, "m") for _ in range(3)] == [3, 5, 3]
    press(plain := Viewer(RECORD), "m")
    assert "This game has no win rates; arena analyze adds them." in screen(plain, 80, 24)


def test_v_steps_through_the_variation_beside_a_move():
    text = "(;GM[1]SZ[5];B[cc];W[cb](;B[aa];W[bb])(;B[bb];W[db];B[ca];W[ee](;B[dd])(;B[de]))(;B[ab]))"
    record = read_sgf(text)
    assert [gtp_from_move(move, 5) for move in read_remarks(text, record)[3].instead] == ["B4", "D4", "C5", "E1", "D2"]
    seen = Viewer(record, read_remarks(text, record), at=3)
    press(seen, "v")
    assert "instead of A5, move 1 of 5: ● B4" in "\n".join(screen(seen, 80, 24))
    assert seen.board()[2].plain == " 4  ·(●)○ · · "
    press(seen, "right", "n", "n", "n", "n", "n")
    assert "instead of A5, move 5 of 5: ● D2" in "\n".join(screen(seen, 80, 24))
    press(seen, "left", "left")
    assert seen.board()[1].plain == " 5  · ·(●)· · "
    assert press(seen, "q") == 3 and "move 3 of 4: ● A5" in "\n".join(screen(seen, 80, 24))
    assert press(seen, "v", "home") == 0  # another key goes on in the game
    press(seen, "v")
    assert "No variation stands beside this move." in screen(seen, 80, 24)


@pytest.mark.parametrize("variation", ("(;B[cc])", "(;B[zz])", "(;C[no move])", "(;B)"))
def test_variations_that_make_no_sense_do_no_harm(variation: str):
    text = f"(;GM[1]SZ[5];B[cc];W[cb](;B[aa];W[bb]){variation})"
    record = read_sgf(text)
    seen = Viewer(record, read_remarks(text, record), at=3)
    assert press(seen, "v", "left") in (2, 3) and screen(seen, 80, 24)


def test_the_mouse_finds_the_move_at_a_stone_and_the_wheel_steps():
    seen = viewer(at=8)
    picture = seen.scene().fit(80, 24)
    row = next(index for index, line in enumerate(picture.lines) if line.plain.startswith(" 4 "))
    seen.do(Mouse(Act.CLICK, row, 6), picture)  # B4
    assert seen.number == 4
    seen.do(Mouse(Act.WHEEL_DOWN, 0, 0), picture)
    seen.do(Mouse(Act.WHEEL_UP, 0, 0), picture)
    seen.do(Mouse(Act.MOVE, row, 6), picture)
    seen.do(Mouse(Act.CLICK, 0, 0), picture)
    assert seen.number == 4
    seen.do(Mouse(Act.CLICK, row + 3, 12), picture)
    assert "Nobody played E1." in screen(seen, 80, 24)


# --- What is seen ---


def test_a_wide_screen_has_all_of_it_beside_the_board():
    assert screen(viewer(at=3), 80, 24) == [
        "● Anna 3k  ○ Bruno",
        "White won by 3.5 points · chinese rules, komi 6.5 · 2026-02-03",
        "",
        "    A B C D E    move 3 of 8: ● C4",
        " 5  · · · · ·    taken: ● 0 · ○ 0",
        " 4  · A(●)· ·    Black wins 20%, White leads by 7.5",
        " 3  · ○ ● · ·    this move cost 38% of win rate",
        " 2  · B · △ ·",
        " 1  · · · · ·    Too slow: White gets the left side, and there is hardly",
        "                 anything that Black can do about it.",
        "",
        "                 100 %│",
        "                      │",
        "                      │    ▂▂▂▂▁▁▁▁",
        "                  50 %│    ████████",
        "                      │    ████████",
        "                      │    ████████▃▃▃▃▄▄▄▄",
        "                   0 %│    ████████████████▅▅▅▅",
        "                                   ▲       ×",
        "",
        "                 Largest mistakes (m):",
        "                   move 3: ● C4  38%",
        "                   move 5: ● A4  13%",
        "← → a move · PgUp PgDn ten · Home End · g to a move · m next mistake · q leave",
    ]


def test_a_narrow_screen_has_it_below():
    assert screen(viewer(at=1), 40, 24) == [
        "● Anna 3k  ○ Bruno",
        "White won by 3.5 points · 2026-02-03",
        "    A B C D E",
        " 5  · · · · ·",
        " 4  · · · · ·",
        " 3  · ·(●)· ·",
        " 2  · · · · ·",
        " 1  · · · · ·",
        "move 1 of 8: ● C3",
        "taken: ● 0 · ○ 0",
        "Black wins 60%",
        "",
        "In the middle.",
        "",
        "100 %│",
        "     │",
        "     │   ▂▂▂▁▁▁",
        " 50 %│   ██████",
        "     │   ██████",
        "     │   ██████▃▃▃▄▄▄",
        "  0 %│   ████████████▅▅▅",
        "         ▲     ×     ×",
        "2 ○ B3    3 ● C4    4 ○ B4    5 ● A4",
        "← → move · g go to · m mistake · q leave",
    ]


def test_ascii_only_is_ascii_only():
    picture = viewer(at=3).scene().fit(100, 30)
    text = "\n".join(lines_of(Group(*picture.lines), 100, 30, encoding="ascii"))
    assert text.isascii()
    assert " 4  . A(X). .    " in text and " 2  . B . ^ ." in text


def test_what_doesnt_fit_is_left_out_and_the_board_comes_first():
    small = screen(viewer(at=1), 14, 7)
    assert small[1:5] == ["    A B C D E", " 5  · · · · ·", " 4  · · · · ·", " 3  · ·(●)· ·"]
    assert " ".join(screen(viewer(at=1), 13, 9)[-3:]).replace(" ", "").startswith("Theboardneeds14x7,thisis13x9.")


@settings(max_examples=60, deadline=None)
@given(width=st.integers(1, 130), height=st.integers(1, 45), at=st.integers(0, 8))
def test_it_fits_every_terminal(width: int, height: int, at: int):
    picture = viewer(at=at).scene().fit(width, height)
    assert len(picture.lines) == height
    assert all(cell_len(line.plain.rstrip()) <= width for line in picture.lines)


def test_a_comment_in_letters_of_two_cells_is_folded_and_not_cut():
    text = "白は左辺を取り、黒はもう手がない。" * 3
    seen = Viewer(RECORD, [Remark(text)])
    for width, height in ((40, 24), (60, 24), (100, 30)):
        picture = seen.scene().fit(width, height)
        shown = "".join(line.plain[0 if width == 40 else 17 :].strip() for line in picture.lines)
        assert text in shown and max(cell_len(line.plain.rstrip()) for line in picture.lines) <= width


def test_a_curve_has_a_column_for_every_move_or_means_of_them():
    def drawn(rates: list[float | None], at: int = 0) -> list[str]:
        return lines_of(Group(*draw_curve(rates, at, 26, 4)), 26, 9, encoding="ascii")

    assert drawn([1.0, 0.5, 0.0, None, 1.0], 4) == [
        "100 %|####            ####",
        " 50 %|####~~~~        ####",
        "  0 %|########        ####",
        "                      ^",
    ]
    many = drawn([n / 999 for n in range(1000)], 999)
    assert all(len(line) <= 26 for line in many) and many[-1].endswith("^")
    assert draw_curve([None, None], 0, 80, 24) == draw_curve([0.5], 0, 12, 24) == draw_curve([0.5], 0, 80, 3) == []


def test_a_move_costs_what_its_own_player_reports_less_afterwards():
    match = match_of("alphago", "sl", size=5)
    game = record_of(match, 7, "sl")
    rates = [0.6, 0.9, 0.58, 0.9, 0.3, 0.9]  # of who moves: the two never agree
    game = replace(game, facts=tuple(MoveStats(rate) for rate in rates))
    rates_of_black = [remark.win_rate for remark in remarks_of_players(game)]
    assert costs(game, rates_of_black, by_players=True) == pytest.approx({1: 0.02, 2: 0.0, 3: 0.28, 4: 0.0})
    assert are_by_players(write_sgf(game, move_notes(game))) and not are_by_players(
        write_sgf(game, {0: {"AN": ["mcts"]}})
    )


def test_a_result_is_told_in_words():
    results = {Outcome.scored(0.5): "Black won by 0.5 points", Outcome.scored(-1.0): "White won by 1 point"}
    results |= {Outcome.scored(0.0): "draw", Outcome(BLACK, Ending.RESIGN): "Black won by resignation"}
    results |= {Outcome(BLACK, Ending.CRASH): "Black won by forfeit"}
    assert {outcome: result_words(outcome) for outcome in results} == results


# --- The command ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With an SGF file, and a stored game."""
    (tmp_path / "club.sgf").write_text(CLUB)
    match = match_of("alphago", "sl", size=5)
    with Store.open(tmp_path / "results" / "arena.db", write=True) as store:
        store.add_event(Event(match.event, "2026-01-01", "{}", "{}"))
        game = record_of(match, 7, "sl")
        told = [
            MoveStats(0.75, 3.5, 1200, 0.25) if number == 5 else UNKNOWN for number in range(1, len(game.moves) + 1)
        ]
        store.append([replace(game, facts=tuple(told))])
    return tmp_path


def test_a_pipe_gets_a_diagram_and_the_moves(folder: Path):
    done = arena("show", "club.sgf", "--move", "3", folder=folder)
    assert done.returncode == 0 and done.stdout.splitlines() == [
        "● Anna 3k  ○ Bruno",
        "White won by 3.5 points · chinese rules, komi 6.5 · 2026-02-03",
        "",
        "    A B C D E ",
        " 5  · · · · · ",
        " 4  · A(●)· · ",
        " 3  · ○ ● · · ",
        " 2  · B · △ · ",
        " 1  · · · · · ",
        "",
        "move 3 of 8: ● C4",
        "taken: ● 0 · ○ 0",
        "Black wins 20%, White leads by 7.5",
        "this move cost 38% of win rate",
        "",
        "Too slow: White gets the left side, and there is hardly anything that Black can do about it.",
        "",
        "1 ● C3    2 ○ B3    3 ● C4",
    ]
    assert "8 ○ pass" in arena("show", "club.sgf", folder=folder).stdout


def test_a_stored_game_is_shown_by_its_number(folder: Path):
    done = arena("show", "1", folder=folder)
    assert done.returncode == 0 and "● " in done.stdout and "alphago" in done.stdout
    told = arena("show", "1", "--move", "5", folder=folder).stdout
    assert "Black wins 75%, Black leads by 3.5" in told and "1,200 visits, 0.25 s" in told
    assert arena("games", "--sgf", "sgf", folder=folder).returncode == 0
    (path,) = (folder / "sgf").rglob("*.sgf")
    assert "C[Black wins 75.0%, B+3.5, 1200 visits, 0.25 s]SBKV[75.00]V[3.5]" in path.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "12"], "there is no game"),
        (["show", "nowhere.sgf"], "nowhere.sgf"),
        (["show", "."], "folder"),
        (["show", "club.sgf", "--move", "9"], "--move 9: the game has 8 moves"),
    ],
)
def test_what_cant_be_shown_is_told_in_a_line(folder: Path, words: list[str], said: str):
    refused(arena(*words, folder=folder), said)


def test_a_person_at_a_terminal_steps_resizes_and_leaves(folder: Path):
    show = ["-c", "from arena.cli import main; main()", "show", "club.sgf"]
    with Terminal(*show, cwd=folder) as terminal:
        terminal.until("the beginning; 8 moves follow")
        terminal.press("\x1b[C\x1b[C\x1b[C")
        terminal.until("move 3 of 8")
        terminal.resize(40, 24)
        terminal.until(lambda lines: lines[2] == "    A B C D E")
        terminal.press("\x1b[200~7\x1b[201~\r")
        terminal.until("move 7 of 8: ● pass")
        terminal.press("\x1b[<0;8;6M\x1b[<0;8;6m")
        terminal.until("move 1 of 8: ● C3")
        terminal.press("q")
        assert terminal.until_it_ends() == 0
        assert terminal.is_sane
