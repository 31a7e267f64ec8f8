"""The command tune, and the search behind it."""

from pathlib import Path

import numpy as np
import pytest
from helpers.commandline import arena

from arena.ratings.spsa import proposal, spsa
from arena.results.store import Store


@pytest.mark.parametrize("seed", range(5))
def test_the_best_settings_are_found_within_a_tenth_of_their_range_in_3000_games(seed: int) -> None:
    """Games are won by Elo that falls with the square of the distance from the best settings: 100 at half a range."""
    best, random = np.array([0.7, 0.3, 0.55]), np.random.default_rng(seed)

    def score(_: int, first: np.ndarray, second: np.ndarray) -> float:
        ahead = 400 * float(((second - best) ** 2 - (first - best) ** 2).sum())
        return random.binomial(20, 1 / (1 + 10 ** (-ahead / 400))) / 10 - 1

    found = proposal([*spsa(np.array([0.1, 0.9, 0.1]), 150, score, seed)])
    assert np.abs(found - best).max() < 0.1


def test_games_are_played_and_the_same_command_goes_on_from_what_is_stored(tmp_path: Path) -> None:
    words = ("tune", "mcts:playouts=10@deadline=60", "c_uct=0:1", "threads_are_not=1:2")
    refused = arena(*words, folder=tmp_path)
    assert (
        refused.returncode == 2
        and "threads_are_not: mcts:playouts=10@deadline=60 has no such setting" in refused.stderr
    )
    words = (*words[:3], "playouts=5:20", "-n", "8", "--batch", "2", "--size", "5", "--sprt", "0", "400")
    first, second = (arena(*words, folder=tmp_path) for _ in range(2))
    assert first.returncode == 0 == second.returncode, first.stderr
    steps = [line.split(";")[0] for line in first.stdout.splitlines() if line.startswith("step ")]
    assert len(steps) == 4 and steps == [line.split(";")[0] for line in second.stdout.splitlines()[:4]]
    assert "c_uct=" in steps[0] and "playouts=" in steps[0] and "Proposed: mcts:" in first.stdout
    with Store.of(tmp_path / "results/tune") as store:
        assert sum(event.id.startswith("mcts") for event in store.events()) >= 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mcts", "c_uct=1:0"), "c_uct=1:0: not a setting and its range, such as c_puct=0.2:1.2"),
        (("mcts", "c_uct"), "c_uct: not a setting and its range"),
        (("mcts", "c_uct=-3:1"), "c_uct"),
        (("mcts", "c_uct=0:1", "-n", "10"), "--games 10 is less than a step's --batch 20"),
        (("nobody", "c_uct=0:1"), "nobody"),
    ],
)
def test_what_cant_be_tuned_is_refused_in_one_line(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = arena("tune", *words, folder=tmp_path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
