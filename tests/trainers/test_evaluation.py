"""Measuring a net on records: figures against obvious loops, guesses that know nothing, and the command."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from played import random_game
from test_training import SIZE
from torch.nn import functional
from typer.testing import CliRunner

from arena.cli import app
from arena.go.coords import BLACK
from arena.go.game import Ending, Outcome, Rules
from arena.go.planes import find_encoder
from arena.go.record import GameRecord
from arena.go.sgf import write_sgf
from bots.nets.network import SCORE_UNIT, Network, NetworkConfig
from trainers import records as data
from trainers.export import describe, export
from trainers.metrics import PLIES, evaluate, nearest_stones, phases

ENCODER = find_encoder("arena-17")


@pytest.fixture(scope="module")
def records() -> list[GameRecord]:
    return [random_game(seed, f"2017-05-{1 + seed:02}") for seed in range(8)]


@pytest.fixture(scope="module")
def games(records: list[GameRecord]) -> data.Games:
    return data.games_from_records(records, SIZE)


@pytest.fixture(scope="module")
def network() -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Network(NetworkConfig(blocks=2, channels=16, area=1)).eval()


def test_the_interval_takes_whole_games(games: data.Games, network: Network) -> None:
    found = evaluate(network, ENCODER, games)
    (_, whole), _, *parts = phases(found)
    assert sum(part["positions"] for _, part in parts) == whole["positions"] == len(games.moves)
    right, positions = np.bincount(found.games, found.columns["top1"]), games.lengths
    drawn = np.random.default_rng(1).integers(0, len(games), (4000, len(games)))
    by_drawing = 1.96 * (right[drawn].sum(1) / positions[drawn].sum(1)).std()
    assert abs(found.top1_error - by_drawing) < 0.25 * by_drawing
    assert np.isnan(evaluate(network, ENCODER, games.select(np.arange(1))).top1_error)


def test_the_figures_are_those_of_a_loop_over_positions(games: data.Games, network: Network) -> None:
    found = evaluate(network, ENCODER, games)
    rows = data.encode_positions(games, ENCODER, np.arange(len(games.moves)), np.zeros(len(games.moves), np.int64))
    with torch.no_grad():
        answer = network(torch.from_numpy(rows.planes))
    assert answer.ownership is not None and answer.score is not None
    for first, last in ((0, PLIES - 1), (5, 20)):
        ranks, losses, errors, results, off, right, points = [], [], [], [], [], 0, 0
        surprises, sizes = [], []
        for i in range(len(rows)):
            if not first <= rows.plies[i] <= last:
                continue
            move = int(rows.moves[i])
            ranks.append(int((answer.policy[i] > answer.policy[i, move]).sum()))
            losses.append(float(-functional.log_softmax(answer.policy[i], 0)[move]))
            win, _draw, loss = answer.value[i].softmax(0).tolist()
            result = [1, 0, -1][rows.results[i]]
            surprises.append(-float(functional.log_softmax(answer.value[i], 0)[int(rows.results[i])]))
            sizes.append(abs(float(rows.scores[i])))
            results.append(result)
            errors.append((win - loss - result) ** 2)
            off.append(abs(SCORE_UNIT * float(answer.score[i]) - float(rows.scores[i])))
            for point in range(SIZE * SIZE):
                if rows.owners[i, point]:
                    points += 1
                    right += (float(answer.ownership[i, point]) > 0) == (rows.owners[i, point] > 0)
        figures = found.figures(first, last)
        assert figures["positions"] == len(ranks)
        for share, k in ((figures["top1"], 1), (figures["top3"], 3), (figures["top5"], 5)):
            assert share == pytest.approx(np.mean(np.array(ranks) < k))
        assert figures["policy_loss"] == pytest.approx(np.mean(losses), rel=1e-4)
        assert figures["value_error"] == pytest.approx(np.mean(errors), rel=1e-4)
        assert figures["value_floor"] == pytest.approx(np.var(results))
        assert figures["score_error"] == pytest.approx(np.mean(off), rel=1e-4)
        assert figures["score_floor"] == pytest.approx(np.mean(sizes))
        assert figures["value_loss"] == pytest.approx(np.mean(surprises), rel=1e-4)
        shares = [results.count(result) / len(results) for result in (1, 0, -1) if result in results]
        assert figures["value_loss_floor"] == pytest.approx(-sum(share * np.log(share) for share in shares))
        games_there = sum(int(length) > first for length in games.lengths)
        assert {figures[name] for name in ("games", "result_games", "scored_games")} == {games_there}
        assert figures["results"] == figures["scored"] == figures["positions"]
        assert figures["ownership"] == pytest.approx(right / points)


def test_a_point_is_its_nearest_stones() -> None:
    stones = np.random.default_rng(0).choice([0, 0, 0, 1, -1], (20, 25))
    for row, guess in zip(stones, nearest_stones(stones), strict=True):
        for point in range(25):
            y, x = divmod(point, 5)
            steps = {
                side: min([abs(y - s // 5) + abs(x - s % 5) for s in np.flatnonzero(row == side)], default=99)
                for side in (1, -1)
            }
            assert guess[point] == np.sign(steps[-1] - steps[1])


@pytest.fixture(scope="module")
def folder(network: Network, games: data.Games, tmp_path_factory: pytest.TempPathFactory) -> Path:
    planes = data.encode_positions(games, ENCODER, np.arange(64), np.zeros(64, np.int64)).planes
    manifest = describe(network, "untrained", ENCODER, Rules.preset("cgos", SIZE))
    return export(network, tmp_path_factory.mktemp("nets") / "untrained", manifest, planes, planes).folder


def test_the_command_shows_tables_and_on_what_they_rest(
    folder: Path, records: list[GameRecord], tmp_path: Path
) -> None:
    resigned = [replace(record, outcome=Outcome(BLACK, Ending.RESIGN)) for record in records[:3]]
    archive = tmp_path / "games.sgfs"
    archive.write_text("".join(f"{write_sgf(record)}\n" for record in [*resigned, *records[3:]]))
    told = ["eval", str(folder), "--data", str(archive), "--size", str(SIZE), "--results", str(tmp_path)]
    shown = " ".join(CliRunner().invoke(app, told, catch_exceptions=False).stdout.split())
    assert "5 of 8 games have a last position that gives their score" in shown
    for word in ("top-1", "16 on", "constant", "even game", "by nearest stone"):
        assert word in shown
    late = CliRunner().invoke(app, [*told, "--from", "2019-01-01"])
    assert "no game is of 2019-01-01 or later" in str(late.exception)
