"""Measuring a net on records: figures against obvious loops, guesses that know nothing, and the command."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional
from typer.testing import CliRunner

from arena import CheckpointError
from arena.cli import app
from arena.go.coords import BLACK
from arena.go.game import Ending, Outcome
from arena.go.planes import find_encoder
from arena.go.record import GameRecord
from arena.go.sgf import write_sgf
from bots.nets.network import SCORE_UNIT, Network, NetworkConfig, Outputs
from trainers import metrics
from trainers import records as data
from trainers.games import Games, encode_positions
from trainers.metrics import PLIES, evaluate, phases

SIZE = 7

ENCODER = find_encoder("arena-17")


@pytest.fixture(scope="module")
def games(records: list[GameRecord]) -> Games:
    return data.games_from_records(records[:8], SIZE)


@pytest.fixture(scope="module")
def network() -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Network(NetworkConfig(blocks=2, channels=16, area=1)).eval()


def test_the_interval_takes_whole_games(games: Games, network: Network) -> None:
    found = evaluate(network, ENCODER, games)
    (_, whole), _, *parts = phases(found)
    assert sum(part["positions"] for _, part in parts) == whole["positions"] == len(games.moves)
    right, positions = np.bincount(found.games, found.columns["top1"]), games.lengths
    drawn = np.random.default_rng(1).integers(0, len(games), (4000, len(games)))
    by_drawing = 1.96 * (right[drawn].sum(1) / positions[drawn].sum(1)).std()
    assert abs(found.top1_error - by_drawing) < 0.25 * by_drawing
    assert np.isnan(evaluate(network, ENCODER, games.select(np.arange(1))).top1_error)


@pytest.mark.parametrize(("first", "last"), [(0, PLIES - 1), (5, 20)])
def test_the_figures_are_those_of_a_loop_over_positions(first: int, last: int, games: Games, network: Network) -> None:
    rows = encode_positions(games, ENCODER, np.arange(len(games.moves)), np.zeros(len(games.moves), np.int64))
    with torch.no_grad():
        answer = network(torch.from_numpy(rows.planes))
    assert answer.ownership is not None and answer.score is not None
    ranks, results, points, columns = [], [], [], defaultdict[str, list[float]](list)
    for i in np.flatnonzero((rows.plies >= first) & (rows.plies <= last)):
        move, result = int(rows.moves[i]), [1, 0, -1][rows.results[i]]
        win, _draw, loss = answer.value[i].softmax(0).tolist()
        ranks.append(int((answer.policy[i] > answer.policy[i, move]).sum()))
        results.append(result)
        columns["policy_loss"].append(-float(functional.log_softmax(answer.policy[i], 0)[move]))
        columns["value_loss"].append(-float(functional.log_softmax(answer.value[i], 0)[int(rows.results[i])]))
        columns["value_error"].append((win - loss - result) ** 2)
        columns["score_error"].append(abs(SCORE_UNIT * float(answer.score[i]) - float(rows.scores[i])))
        columns["score_floor"].append(abs(float(rows.scores[i])))
        for point in np.flatnonzero(rows.owners[i]):
            points.append((float(answer.ownership[i, point]) > 0) == (rows.owners[i, point] > 0))
    figures = evaluate(network, ENCODER, games).figures(first, last)
    expected = {name: np.mean(column) for name, column in columns.items()}
    expected |= {f"top{k}": np.mean(np.array(ranks) < k) for k in (1, 3, 5)}
    shares = [results.count(result) / len(results) for result in (1, 0, -1) if result in results]
    expected |= {"value_floor": np.var(results), "value_loss_floor": -sum(share * np.log(share) for share in shares)}
    expected |= dict.fromkeys(("positions", "results", "scored"), len(ranks)) | {"ownership": np.mean(points)}
    expected |= dict.fromkeys(("games", "result_games", "scored_games"), (games.lengths > first).sum())
    assert {name: figures[name] for name in expected} == pytest.approx(expected, rel=1e-4)


def test_a_net_that_knows_nothing_is_seldom_right_and_one_of_nan_is_refused(games: Games, network: Network) -> None:
    """Both had a top-1 of 100 %: a tie counted as right, and so did no number at all. Missing heads had a loss of 0."""

    class Constant(torch.nn.Module):
        def __init__(self, value: float):
            super().__init__()
            self.unused, self.value = torch.nn.Parameter(torch.zeros(1)), value

        def forward(self, planes: torch.Tensor) -> Outputs:
            return Outputs(torch.full((len(planes), SIZE**2 + 1), self.value))

    split = data.Split(games, games, games, (), "")
    found = metrics.of_records(Constant(0.0), ENCODER, split, "test", 1)  # type: ignore[arg-type]  # all that is asked
    assert found["test_top1"] == pytest.approx(1 / 50) and found["test_policy_loss"] == pytest.approx(np.log(50))
    assert not {"test_value_loss", "test_ownership", "test_score_error", "test_brier"} & found.keys()
    with pytest.raises(CheckpointError, match="aren't finite"):
        metrics.of_records(Constant(np.nan), ENCODER, split, "test", 1)  # type: ignore[arg-type]  # all that is asked


def test_the_command_shows_tables_and_on_what_they_rest(records: list[GameRecord], net: Path, tmp_path: Path) -> None:
    resigned = [replace(record, outcome=Outcome(BLACK, Ending.RESIGN)) for record in records[:3]]
    archive = tmp_path / "games.sgfs"
    archive.write_text("".join(f"{write_sgf(record)}\n" for record in [*resigned, *records[3:8]]))
    command = ["eval", str(net), "--data", str(archive), "--size", str(SIZE), "--results", str(tmp_path)]
    shown = " ".join(CliRunner().invoke(app, command, catch_exceptions=False).stdout.split())
    for words in ("5 of 8 games", "top-1", "16 on", "constant", "even game", "owners predicted"):
        assert words in shown
    late = CliRunner().invoke(app, [*command, "--from", "2019-01-01"])
    assert "no game is of 2019-01-01 or later" in str(late.exception)
    data.build([archive], tmp_path / "set", data.GameFilter(SIZE), data.SplitRule())
    mixed = CliRunner().invoke(app, ["eval", str(net), "--data", str(tmp_path / "set"), *command[2:]])
    assert "set is a dataset; evaluate it alone" in str(mixed.exception)
