"""A finished game: what is said of its positions, the full screen with keys and mouse, what a pipe gets."""

from dataclasses import replace
from pathlib import Path

import pytest
from commandline import arena, refused
from played import lines_of, match_of, record_of
from screens import Hand, use

from arena.go.coords import BLACK
from arena.go.game import Ending, Outcome
from arena.go.record import UNKNOWN, MoveStats
from arena.go.sgf import Remark, are_by_players, move_notes, read_remarks, read_sgf, write_sgf
from arena.report.chart import WinRateCurve
from arena.report.game import costs, result_words
from arena.results.store import Event, Store
from arena.tui.game_app import GameApp

CLUB = """(;FF[4]GM[1]SZ[5]KM[6.5]RU[Chinese]PB[Anna]PW[Bruno]BR[3k]RE[W+3.5]DT[2026-02-03]C[A club game.]
;B[cc]SBKV[60.0]C[In the middle.]
;W[bc]SBKV[58]
;B[cb]SBKV[20]V[-7.5]C[Too slow: White gets the left side, and there is hardly anything that Black can do about it.]
;W[bb]SBKV[22]
;B[ab]SBKV[9]
;W[ac];B[tt];W[tt])"""

RECORD = read_sgf(CLUB)


def viewer(at: int = 0, **more: object) -> GameApp:
    return GameApp(RECORD, read_remarks(CLUB, RECORD), at=at, colours=False, **more)  # type: ignore[arg-type]


# --- What is said about positions ---


def said(text: str) -> list[str]:
    """The comments of a text beside its moves; no other remarks are there."""
    remarks = [remark for remark in read_remarks(text, read_sgf(text)) if remark != Remark()]
    assert all(remark == Remark(comment=remark.comment) for remark in remarks)
    return [remark.comment for remark in remarks]


def test_remarks_are_read_beside_the_moves_that_they_belong_to_and_nonsense_is_left_out():
    remarks = read_remarks(CLUB, RECORD)
    assert [remark.win_rate for remark in remarks] == [None, 0.6, 0.58, 0.2, 0.22, 0.09, None, None, None]
    assert [remark.comment for remark in remarks[:2]] == ["A club game.", "In the middle."]
    assert remarks[3].margin == -7.5
    record = record_of(match_of(size=5), 3, "sl")  # our own files note things of a game
    assert said(write_sgf(record).replace("GM[1]", "GM[1]C[seed 3]")) == []
    for value in ("SBKV[nonsense]", "SBKV[101]", "V[1e9]", "C[]"):
        assert said(f"(;GM[1]SZ[5];B[cc]{value})") == []
    passes = "(;GM[1]SZ[5];B[cc]C[one];W[tt]C[x];B[tt]C[y];W[bc]C[two])"  # passes that ended nothing
    assert said(passes) == ["one", "two"]


def test_a_move_costs_the_side_that_made_it_where_one_bot_judged_both() -> None:
    remarks = [Remark(win_rate=rate) for rate in (0.5, 0.6, 0.58, 0.2, None, 0.3)]
    assert costs(RECORD, remarks, False) == pytest.approx({1: -0.1, 2: -0.02, 3: 0.38})
    assert costs(RECORD, remarks, True) == {}
    game = replace(record_of(match_of(size=5), 7, "sl"), facts=(MoveStats(0.6),) * 6)
    assert are_by_players(write_sgf(game, move_notes(game)))
    assert not are_by_players(write_sgf(game, {0: {"AN": ["mcts"]}}))


def test_a_curve_has_columns_for_every_move_or_a_part_of_them():
    lines = lines_of(WinRateCurve([1.0, 0.5, 0.0, None, 1.0], 4, [1]), 26, 9)
    assert lines[0] == "100 %│████            ████" and lines[3] == " 50 %│████▄▄▄▄        ████"
    assert lines[-1] == "          ×           ▲"
    many = lines_of(WinRateCurve([n / 999 for n in range(1000)], 999), 26, 9)
    assert all(len(line) <= 26 for line in many) and many[-1].endswith("▲")


def test_a_result_is_told_in_words():
    results = {Outcome.scored(0.5): "Black won by 0.5 points", Outcome.scored(-1.0): "White won by 1 point"}
    results |= {Outcome.scored(0.0): "draw", Outcome(BLACK, Ending.RESIGN): "Black won by resignation"}
    results |= {Outcome(BLACK, Ending.CRASH): "Black won by forfeit"}
    assert {outcome: result_words(outcome) for outcome in results} == results


# --- The full screen ---


def test_keys_go_through_the_game_and_m_from_mistake_to_mistake() -> None:
    app = viewer()

    async def step(hand: Hand) -> None:
        for keys, number in (
            (("right", "n", " ", "enter"), 4),
            (("left", "p"), 2),
            (("end", "right"), 8),
            (("pageup",), 0),
            (("pagedown", "home"), 0),
            (("m",), 3),
            (("m",), 5),
            (("m",), 3),
        ):
            await hand.press(*keys)
            assert app.number == number
        assert "this move cost 38% of win rate" in hand.text and "Largest mistakes (m): move 3: ● C4 38%" in hand.text
        await hand.press("q")
        assert not app.is_running or app._exit

    use(app, step, (100, 30))


@pytest.mark.parametrize(("size", "colours"), [((20, 6), False), ((40, 20), True), ((80, 24), False)])
def test_it_fits_every_screen_and_the_board_comes_first(size: tuple[int, int], colours: bool) -> None:
    app = viewer(3)
    app.colours = colours

    async def look(hand: Hand) -> None:
        assert "Anna 3k" in hand.text or size[0] < 40
        if size[0] >= 40:
            assert "A B C D E" in hand.text and "move 3 of 8: ● C4" in hand.text
        if size[0] >= 80:
            assert "Black wins 20%, White leads by 7.5" in hand.text and "Too slow: White gets the" in hand.text

    use(app, look, size)


# --- The command ---


def test_a_pipe_gets_a_diagram_and_the_moves_and_what_cant_be_shown_is_told_in_a_line(tmp_path: Path):
    (tmp_path / "club.sgf").write_text(CLUB)
    done = arena("show", "club.sgf", "--move", "3", folder=tmp_path)
    shown = done.stdout.splitlines()
    assert shown[:2] == ["● Anna 3k  ○ Bruno", "White won by 3.5 points · chinese rules, komi 6.5 · 2026-02-03"]
    assert " 4  · ·(●)· · " in shown and shown[-1] == "1 ● C3  2 ○ B3  3 ● C4"
    for words in (
        "move 3 of 8: ● C4",
        "Black wins 20%, White leads by 7.5",
        "this move cost 38% of win rate",
        "Too slow:",
    ):
        assert words in done.stdout
    for words, said in (
        (["nowhere.sgf"], "nowhere.sgf"),
        (["."], "folder"),
        (["club.sgf", "--move", "9"], "--move 9: the game has 8 moves"),
    ):
        refused(arena("show", *words, folder=tmp_path), said)


def test_a_stored_game_is_shown_by_its_number(tmp_path: Path):
    match = match_of("alphago", "sl", size=5)
    game = record_of(match, 7, "sl")
    facts = [UNKNOWN] * len(game.moves)
    facts[4] = MoveStats(0.75, 3.5, 1200, 0.25)
    with Store.open(tmp_path / "results" / "arena.db", write=True) as store:
        store.add_event(Event(match.event, "2026-01-01", "{}", "{}"))
        store.append([replace(game, facts=tuple(facts))])
    done = arena("show", "1", folder=tmp_path)
    assert done.returncode == 0 and "● " in done.stdout and "alphago" in done.stdout
    told = arena("show", "1", "--move", "5", folder=tmp_path).stdout
    assert "Black wins 75%, Black leads by 3.5" in told and "1200 visits, 0.25 s" in told
    assert arena("games", "--sgf", "sgf", folder=tmp_path).returncode == 0
    (path,) = (tmp_path / "sgf").rglob("*.sgf")
    assert "C[Black wins 75.0%, B+3.5, 1200 visits, 0.25 s]SBKV[75.00]V[3.5]" in path.read_text()
    refused(arena("show", "12", folder=tmp_path), "there is no game")
