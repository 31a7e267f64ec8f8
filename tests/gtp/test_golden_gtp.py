"""What a GTP session and an analysis look like from the first byte to the last, against texts that are kept."""

import re
from io import StringIO
from pathlib import Path

import pytest
from helpers.commandline import arena, arena_alone

from arena.go.game import Rules
from arena.gtp.server import Server, serve
from arena.players.registry import Registry

GOLDEN = Path(__file__).parents[1] / "golden"
"""In ``gtp*.txt`` lines that begin with ``>`` are sent, the others are the answers. The bots draw lots alike on every
processor and have no net."""


def session(name: str) -> tuple[str, str]:
    """What is sent, and the answers."""
    golden = (GOLDEN / name).read_text(encoding="utf-8")
    sent = "".join(f"{line}\n" for line in re.findall(r"^>(.*)\n", golden, re.MULTILINE))
    return sent, re.sub(r"^>.*\n", "", golden, flags=re.MULTILINE)


def test_a_gtp_session_is_the_golden_one_byte_by_byte(tmp_path: Path) -> None:
    sent, answers = session("gtp.txt")
    done = arena_alone("gtp", "random", "--seed", "1", folder=tmp_path, typed=sent)
    assert (done.stdout, done.returncode) == (answers, 0), done.stderr


@pytest.mark.smoke
def test_refusals_scores_undo_handicap_and_rules_are_the_golden_ones() -> None:
    (sent, answers), output = session("gtp-board.txt"), StringIO()
    serve(Server(Registry().resolve("random").build(), Rules.preset()), StringIO(sent), output)
    assert output.getvalue() == answers


def test_an_analysis_is_the_golden_one(tmp_path: Path) -> None:
    (tmp_path / "game.sgf").write_text("(;GM[1]FF[4]SZ[7]KM[7]RU[cgos];B[dd];W[cc];B[ce];W[bd];B[])")
    done = arena("analyze", "game.sgf", "--bot", "mcts@simulations=40", folder=tmp_path)
    assert (done.stdout, done.returncode) == ((GOLDEN / "analysis.txt").read_text(encoding="utf-8"), 0), done.stderr
