"""The tactical positions, the parser of their files, and the benchmarks' command line; no speed is judged here."""

import tarfile
from pathlib import Path

import numpy as np
import pytest
from helpers.learners import learn
from helpers.nets import untrained

from arena import ConfigError
from arena.contract.bot import Limits
from arena.go.coords import BLACK, WHITE, move_from_gtp
from arena.go.planes import find_encoder
from arena.players.registry import Registry
from benchmarks import gpu_round
from benchmarks.__main__ import main
from benchmarks.tactics import PositionError, all_positions, choose_moves, find_playable, read_positions
from bots.nets.checkpoint import WEIGHTS, Checkpoint
from bots.nets.inference import Evaluator, sample_planes
from bots.nets.lanes import has_tiles

POSITIONS = all_positions()

WHOLE = """
# what this category is about

name: capture
play: black
why: One liberty is left.
checked: by eye
. . . . .
. . X . .
. X O * .
. ! X . .
. . . . .

name: pass
play: white
after: A1 B1
right: pass
level: easy
komi: 3.5
why: Nothing is left.
checked: by eye
. . . . .
. X X X .
. X . X .
. X X X .
. . . . .
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "tried.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_positions_of_eleven_categories_are_legal_and_no_two_ask_the_same() -> None:
    """Reading a file has checked that the right moves can be played."""
    categories = "captures connections endgame killing ko ladders living nets seki semeai snapbacks"
    assert len(POSITIONS) >= 60 and {position.category for position in POSITIONS} == set(categories.split())
    assert len({(position.category, position.name) for position in POSITIONS}) == len(POSITIONS)
    assert len({(position.rows, position.to_play, position.played) for position in POSITIONS}) == len(POSITIONS)
    for position in POSITIONS:
        game = position.game()
        assert game.to_play is position.to_play and game.outcome is None
        assert len(position.right) < game.legal_moves().sum(), f"every move is right: {position.name}"


@pytest.mark.slow
def test_a_search_solves_the_easy_positions() -> None:
    easy = [position for position in POSITIONS if position.level == "easy"]
    moves = choose_moves(Registry().resolve("mcts:playouts=4000").build(), easy, Limits())
    assert len(easy) >= 15 and [one.name for one in easy if moves[one] not in one.right] == []


def test_a_file_of_positions_says_what_is_asked_and_what_is_right(tmp_path: Path) -> None:
    capture, passed = read_positions(written(tmp_path, WHOLE))
    assert (capture.category, capture.name, capture.why) == ("tried", "capture", "One liberty is left.")
    assert (capture.to_play, capture.rules.komi) == (BLACK, 7)
    assert capture.right == {move_from_gtp("D3", 5)}
    assert (passed.to_play, passed.right, passed.rules.komi) == (WHITE, {25}, 3.5)
    assert (passed.level, capture.level) == ("easy", "hard")
    assert passed.game().moves == [move_from_gtp(word, 5) for word in ("A1", "B1")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("why: One", "whi: One"), "tried.txt, line 4: Object contains unknown field `whi`"),
        ((". X O * .", ". X O . ."), "tried.txt, line 4: there is no right move; mark it with * or add 'right: pass'"),
        (("after: A1 B1", "after: C4 B1"), "tried, 'pass': C4 is taken"),
        (("right: pass", "right: C4"), "tried.txt, line 14: C4 can't be played"),
        ((WHOLE, "# nothing but a comment\n"), "there is no position in it"),
    ],
)
def test_a_faulty_position_is_refused_by_file_line_and_reason(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    assert change[0] in WHOLE
    with pytest.raises(PositionError) as refusal:
        read_positions(written(tmp_path, WHOLE.replace(*change)))
    assert message in str(refusal.value)


def test_the_table_has_a_row_a_bot_and_a_column_a_category(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tactics", "fast-random", "--only", "captures", "--only", "ladders", "--missed"]) == 0
    lines = capsys.readouterr().out.splitlines()
    captures = sum(position.category == "captures" for position in POSITIONS)
    assert lines[0] == "| bot | captures | ladders | all |"
    assert lines[2].startswith("| fast-random | ") and f"/{captures} | " in lines[2]
    assert any("right is" in line for line in lines[3:]), "random moves solve all of them?"
    nine = [position for position in POSITIONS if position.rules.size == 9]
    assert find_playable(Registry().resolve("kyu-10"), POSITIONS) == nine != POSITIONS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tactics", "--only", "magic"], "there is no category 'magic'; there are captures, connections"),
        (["openings", "alphago", "--out", "no/such/folder/book.sgfs"], "no/such/folder/book.sgfs can't be written"),
    ],
)
def test_what_cant_be_asked_is_refused_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    outputs = capsys.readouterr()
    assert message in outputs.err and len(outputs.err.splitlines()) == 1 and outputs.out == ""


def test_each_measurement_of_speed_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--share", "0.01"]) == 0
    machine, _, *table = capsys.readouterr().out.splitlines()
    assert "cores" in machine and len(table) == 2 + 3 + 2 + 4 + has_tiles()
    assert all(any(sign.isdigit() for sign in line.split("|")[2]) for line in table[2:])


def test_the_teacher_of_a_gpu_round_is_half_as_large_and_judges_as_before(tmp_path: Path) -> None:
    """And what can't be played is one line, with what the stages said beside it."""
    whole = untrained(tmp_path / "whole", 1)
    assert gpu_round.main([str(tmp_path / "luggage"), "--pack", str(whole)]) == 0
    packed, planes = tmp_path / "luggage" / gpu_round.TEACHER, sample_planes(find_encoder("arena-17"), 9)
    assert (packed / WEIGHTS).stat().st_size < 0.7 * (whole / WEIGHTS).stat().st_size
    (logits, rates), (others, near) = (
        Evaluator(Checkpoint.open(net), "fp32").evaluate(planes) for net in (whole, packed)
    )
    assert np.abs(logits - others).max() < 0.05 and np.abs(rates - near).max() < 0.01
    with pytest.raises(ConfigError, match="has no teacher; make it with --pack"):
        gpu_round.main([str(tmp_path / "nothing"), "--out", str(tmp_path / "out")])


def test_what_a_student_left_comes_back_whatever_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its net, else its last snapshot, else its state."""
    settings = gpu_round.Round("luggage", str(tmp_path / "out"), students="1x8=first,2x8")
    (tmp_path / "out").mkdir()
    learn(settings.results / "checkpoints" / "round-1x8-on-step20", b"weights")
    training = settings.results / "training" / "round-2x8"
    training.mkdir(parents=True)
    (training / "state.pt").write_bytes(b"state")
    for student in settings.students.split(","):
        gpu_round.collect(settings, student)
    assert "round-1x8-on-step20" in capsys.readouterr().out
    found = [tarfile.open(tmp_path / "out" / f"{name}.tar.gz").getnames() for name in ("round-1x8-on", "round-2x8")]
    assert f"round-1x8-on-step20/{WEIGHTS}" in found[0] and found[1] == ["state.pt"]
