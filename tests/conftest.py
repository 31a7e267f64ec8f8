"""Settings of all tests, so that they do the same on every machine and in every shell.

A shell starts what runs in its background with Ctrl-C ignored, and every process below would inherit that. Rich,
Textual and Typer read the variables, some of which CI services set.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SCREEN = "COLUMNS LINES NO_COLOR COLORTERM FORCE_COLOR PY_COLORS TERMINAL_WIDTH TTY_COMPATIBLE TTY_INTERACTIVE"
OTHERS = "GITHUB_ACTIONS WORLD_SIZE RANK LOCAL_RANK PYTHONSAFEPATH"
for name in [*SCREEN.split(), *OTHERS.split(), *(name for name in os.environ if name.startswith("TEXTUAL"))]:
    os.environ.pop(name, None)
os.environ["TERM"] = "xterm-256color"
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "localhost,127.0.0.1"

settings.register_profile("any machine", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    """An empty store."""
    from arena.results.store import Store

    with Store.open(tmp_path / "arena.db", write=True) as opened:
        yield opened
