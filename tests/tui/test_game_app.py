"""A finished game: what is said of its positions, the full screen with keys and mouse, what a pipe gets."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from helpers.commandline import arena, arena_alone, refused
from helpers.games import match_of, record_of
from helpers.screens import Hand, use
from textual.drivers.headless_driver import HeadlessDriver

from arena.contract.bot import Candidate
from arena.go.coords import BLACK
from arena.go.record import MoveStats
from arena.go.sgf import Remark, are_by_players, move_notes, read_remarks, read_sgf, write_sgf
from arena.report.game import costs
from arena.results.analysis import AnalysisError, Evaluation
from arena.tui.app import ScreenFault, run_app
from arena.tui.game_app import GameApp

CLUB = """(;FF[4]GM[1]SZ[5]KM[6.5]RU[Chinese]PB[Anna]PW[Bruno]BR[3k]RE[W+3.5]DT[2026-02-03]C[A club game.]
;B[cc]SBKV[60.0]C[In the middle.]
;W[bc]SBKV[58]
;B[cb]SBKV[20]V[-7.5]C[Too slow: White gets the left side, and there is hardly anything that Black can do about it.]
;W[bb]SBKV[22]
;B[ab]SBKV[9]
;W[ac];B[tt];W[tt])"""

RECORD = read_sgf(CLUB)
REMARKS = read_remarks(CLUB, RECORD)


# --- What is said about positions ---


def test_remarks_are_read_beside_the_moves_that_they_belong_to_and_nonsense_is_left_out() -> None:
    assert [remark.win_rate for remark in REMARKS] == [None, 0.6, 0.58, 0.2, 0.22, 0.09, None, None, None]
    assert [remark.comment for remark in REMARKS[:2]] == ["A club game.", "In the middle."]
    assert REMARKS[3].margin == -7.5
    ours = write_sgf(record_of(match_of(size=5), 3, "sl"))  # whose first comment is notes of the arena
    nonsense = [f"(;GM[1]SZ[5];B[cc]{value})" for value in ("SBKV[nonsense]", "SBKV[101]", "V[1e9]", "C[]")]
    for text in (ours, *nonsense):
        assert all(remark == Remark() for remark in read_remarks(text, read_sgf(text)))
    passes = "(;GM[1]SZ[5];B[cc]C[one];W[tt]C[x];B[tt]C[y];W[bc]C[two])"  # passes that ended nothing
    assert [remark.comment for remark in read_remarks(passes, read_sgf(passes))] == ["", "one", "two"]


def test_a_move_costs_the_side_that_made_it_where_one_bot_judged_both() -> None:
    remarks = [Remark(win_rate=rate) for rate in (0.5, 0.6, 0.58, 0.2, None, 0.3)]
    assert costs(RECORD, remarks, False) == pytest.approx({1: -0.1, 2: -0.02, 3: 0.38})
    assert costs(RECORD, remarks, True) == {}
    game = replace(record_of(match_of(size=5), 7, "sl"), facts=(MoveStats(0.6),) * 6)
    assert are_by_players(write_sgf(game, move_notes(game)))
    assert not are_by_players(write_sgf(game, {0: {"AN": ["mcts"]}}))


# --- The full screen ---


def test_a_review_shows_evaluations_as_they_come() -> None:
    board = Evaluation(0, BLACK, 0.6, 12, (12, 6), (Candidate(12, 9, 0.6, (12, 6)),), margin=2.0)
    let = Event()

    def analyse() -> Iterator[Evaluation]:
        yield board
        assert let.wait(180)
        yield replace(board, number=1, win_rate=0.2)
        raise AnalysisError("out of memory")

    async def look(hand: Hand) -> None:
        await hand.until_shown(
            "Black wins 60%", "Expected of Black: C3 B4", "Analysing: 1 of 7 positions.", "3 · · A · ·"
        )
        let.set()
        await hand.until_shown("move 1: ● C3 40%", "The analysis stopped: out of memory")

    use(GameApp(RECORD, evaluations=analyse(), colours=False), look, (100, 30))


def test_an_error_in_a_handler_of_the_screen_is_raised_with_its_traceback_as_a_note() -> None:
    """Textual printed its own traceback, and nothing was written to a file."""

    class Broken(GameApp):
        def on_ready(self) -> None:
            raise ValueError("no such board")

    app = Broken(RECORD)
    app.driver_class = HeadlessDriver
    with pytest.raises(ScreenFault) as fault:
        run_app(app)
    assert fault.value.args == ("ValueError: no such board",) and "on_ready" in fault.value.__notes__[0]


@pytest.mark.smoke
def test_keys_go_through_the_game_and_m_from_mistake_to_mistake() -> None:
    app = GameApp(RECORD, REMARKS, colours=False)

    async def step(hand: Hand) -> None:
        for keys, number in (
            (("right", "n", " ", "enter"), 4),
            (("left", "p"), 2),
            (("end", "right"), 8),
            (("home",), 0),
            (("m",), 3),
            (("m",), 5),
            (("m",), 3),
        ):
            await hand.press(*keys)
            assert app.number == number
        for words in (
            "this move cost 38% of win rate",
            "Largest mistakes (m): move 3: ● C4 38%",
            "A B C D E",
            "Anna 3k",
        ):
            assert words in hand.text
        assert "Black wins 20%, White leads by 7.5" in hand.text and "Too slow: White gets the" in hand.text

    use(app, step, (100, 30))


# --- The command ---


def test_a_pipe_gets_a_diagram_and_the_moves_and_what_cant_be_shown_is_told_in_a_line(tmp_path: Path):
    (tmp_path / "club.sgf").write_text(CLUB)
    done = arena("show", "club.sgf", "--move", "3", folder=tmp_path)
    shown = done.stdout.splitlines()
    assert shown[:2] == ["● Anna 3k  ○ Bruno", "White won by 3.5 points · chinese rules, komi 6.5 · 2026-02-03"]
    assert " 4  · ·(●)· · " in shown and shown[-1] == "1 ● C3  2 ○ B3  3 ● C4"
    for words in ("move 3 of 8: ● C4", "Black wins 20%, White leads by 7.5", "this move cost 38%", "Too slow:"):
        assert words in done.stdout
    for words, said in (
        (["nowhere.sgf"], "nowhere.sgf"),
        (["club.sgf", "--move", "9"], "--move 9: the game has 8 moves"),
    ):
        refused(arena("show", *words, folder=tmp_path), said)


def test_one_of_several_games_of_a_file_is_shown_and_ascii_output_tells_the_colours_apart(tmp_path: Path):
    (tmp_path / "two.sgf").write_text("(;SZ[5]PB[Ann]PW[Bo];B[cc])(;SZ[5]PB[Cy]PW[Di];B[bb];W[dd])")
    done = arena("show", "two.sgf", folder=tmp_path)
    assert "Ann" in done.stdout and "two.sgf has 2 games; this is the first" in done.stderr
    done = arena_alone("show", "two.sgf", "--game", "2", folder=tmp_path, columns=0, PYTHONIOENCODING="ascii")
    assert done.stdout.startswith("X Cy  O Di") and " 4  . X . . . " in done.stdout and not done.stderr
    refused(arena("show", "two.sgf", "--game", "3", folder=tmp_path), "two.sgf has 2 games")


def test_the_policy_of_a_net_is_drawn_on_the_board_in_per_cent(tmp_path: Path):
    (tmp_path / "game.sgf").write_text("(;SZ[9]KM[7]RU[Chinese];B[ee];W[ec];B[gd];W[cd];B[dg])")
    done = arena("show", "game.sgf", "--net", "sl", folder=tmp_path)
    tens = [int(line.split(" ", 2)[2].count("0")) for line in done.stdout.splitlines()[4:13]]
    assert sum(tens) > 1 and "Black wins" in done.stdout  # several moves of one to nine per cent
    shares = [int(share) for share in re.findall(r"[A-J][1-9] (\d+)%", done.stdout.split("Policy:")[1])]
    assert len(shares) == 5 and shares == sorted(shares, reverse=True) and 50 < sum(shares) <= 100
    refused(arena("show", "game.sgf", "--net", "mcts", folder=tmp_path), "has no net")
