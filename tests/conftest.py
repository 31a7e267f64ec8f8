"""What holds for all tests: a Ctrl-C that a test sends to a process of its own is heard there.

A shell starts what runs in its background with Ctrl-C ignored, and every process below would inherit that.
"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    """An empty store."""
    from arena.results.store import Store

    with Store.open(tmp_path / "arena.db", write=True) as opened:
        yield opened
