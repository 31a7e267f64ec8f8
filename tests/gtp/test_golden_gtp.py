"""What a GTP session and an analysis look like from the first byte to the last, against texts that are kept."""

import re
from pathlib import Path

from commandline import arena, arena_alone

GOLDEN = Path(__file__).parents[1] / "golden"
"""In ``gtp.txt`` lines that begin with ``>`` are sent, the others are the answers. Both bots draw lots alike on every
processor and have no net."""


def test_a_gtp_session_is_the_golden_one_byte_by_byte(tmp_path: Path) -> None:
    golden = (GOLDEN / "gtp.txt").read_text(encoding="utf-8")
    sent = re.findall(r"^>(.*)\n", golden, re.MULTILINE)
    answers = re.sub(r"^>.*\n", "", golden, flags=re.MULTILINE)
    done = arena_alone("gtp", "random", "--seed", "1", folder=tmp_path, typed="".join(f"{line}\n" for line in sent))
    assert (done.stdout, done.returncode) == (answers, 0), done.stderr


def test_an_analysis_is_the_golden_one(tmp_path: Path) -> None:
    (tmp_path / "game.sgf").write_text("(;GM[1]FF[4]SZ[7]KM[7]RU[cgos];B[dd];W[cc];B[ce];W[bd];B[])")
    done = arena("analyze", "game.sgf", "--bot", "mcts@simulations=40", folder=tmp_path)
    assert (done.stdout, done.returncode) == ((GOLDEN / "analysis.txt").read_text(encoding="utf-8"), 0), done.stderr
