"""Any bytes from elsewhere are read or refused in one line: kept inputs, a few made-up ones, and very many.

``FUZZ=20000 pytest -m slow tests/fuzz -k rows`` runs a target for that many examples.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from targets import TARGETS

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*/*"))
FEW, MANY = 40, int(os.environ.get("FUZZ", "200000"))


def fuzz(kind: str, examples: int) -> None:
    """Raises what the target raises, with the input that has the fewest bytes."""
    target = TARGETS[kind]
    limits = settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
    limits(given(target.inputs)(lambda given: target.check(*given)))()


@pytest.mark.parametrize("path", CORPUS, ids=[f"{path.parent.name}/{path.name}" for path in CORPUS])
def test_an_input_that_is_kept(path: Path) -> None:
    TARGETS[path.parent.name].check(path.name, path.read_bytes())


def test_every_target_has_a_corpus() -> None:
    assert {path.parent.name for path in CORPUS} == TARGETS.keys()


@pytest.mark.parametrize("kind", TARGETS)
def test_inputs_that_are_made_up(kind: str) -> None:
    fuzz(kind, FEW // TARGETS[kind].cost)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TARGETS)
def test_very_many_inputs_that_are_made_up(kind: str) -> None:
    fuzz(kind, MANY)
