"""What the tests of trainers share."""

from pathlib import Path

import pytest
from helpers.games import random_game
from helpers.nets import untrained

from arena.go.record import GameRecord
from arena.go.sgf import write_sgf


@pytest.fixture
def unexported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are saved without ONNX, which takes longer than their training."""
    monkeypatch.setattr("trainers.export.write_models", lambda *_: {})


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="session")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a net for 7x7 that has learned nothing."""
    return untrained(tmp_path_factory.mktemp("nets") / "first", 1)


@pytest.fixture(scope="session")
def records() -> list[GameRecord]:
    return [random_game(seed, f"20{17 + seed % 2}-05-{1 + seed % 28:02}") for seed in range(80)]


@pytest.fixture(scope="session")
def archive(records: list[GameRecord], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "random.sgfs"
    path.write_text("".join(f"{write_sgf(record)}\n" for record in records))
    return path
