"""What a GTP session looks like from its first byte to its last, against a text that is kept."""

from __future__ import annotations

import re
from pathlib import Path

from commandline import arena_alone

GOLDEN = Path(__file__).parent / "golden" / "gtp.txt"
"""Lines that begin with ``>`` are sent, the others are the answers. The bot draws lots alike on every processor."""


def test_a_gtp_session_is_the_golden_one_byte_by_byte(tmp_path: Path) -> None:
    golden = GOLDEN.read_text(encoding="utf-8")
    sent = re.findall(r"^>(.*)\n", golden, re.MULTILINE)
    answers = re.sub(r"^>.*\n", "", golden, flags=re.MULTILINE)
    done = arena_alone("gtp", "random", "--seed", "1", folder=tmp_path, typed="".join(f"{line}\n" for line in sent))
    assert (done.stdout, done.returncode) == (answers, 0), done.stderr
