"""The value net: whose view a sign is of, one position a game, games in three phases, and what stands beside errors."""

from __future__ import annotations

import json
import math
from collections import deque
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from lent_cores import CoresHere
from small_nets import untrained
from test_training import Killed, killed_at, random_game
from torch.nn import functional

from arena import CheckpointError, ConfigError, RecordError
from arena.go.game import Game
from arena.go.planes import find_encoder
from arena.go.sgf import write_sgf
from bots.nets.checkpoint import Checkpoint
from bots.nets.inference import Evaluator, sample_planes
from bots.nets.network import Outputs
from trainers import records as data
from trainers import replay, value
from trainers.losses import Target
from trainers.positions import Positions
from trainers.progress import Made, Progress
from trainers.records import DRAW, LOSS, NO_RESULT, WIN, Games
from trainers.replay import Replay, make_chunk, searched_games
from trainers.selfplay import RANDOM
from trainers.settings import METRICS_FILE, SETTINGS_FILE
from trainers.settings import Value as Config
from trainers.value import Recipe

SIZE = 7
ENCODER = find_encoder("arena-17")


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("nets")
    return untrained(folder / "first", 1), untrained(folder / "second", 2)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "random.sgfs"
    dated = (random_game(seed, f"20{17 + seed % 2}-05-01") for seed in range(40))
    path.write_text("".join(f"{write_sgf(record)}\n" for record in dated))
    return path


@pytest.fixture(scope="module")
def games() -> Games:
    return data.games_from_records((random_game(seed) for seed in range(30)), SIZE)


@pytest.fixture(scope="module")
def tiny(nets: tuple[Path, Path]) -> Config:
    return Config(
        name="tiny",
        policy=str(nets[0]),
        start=str(nets[0]),
        net="arena-1x8",
        size=SIZE,
        games=60,
        policy_moves=12,
        test_split=0.3,
        validation_split=0.1,
        batch_size=16,
        max_rows=8 * 16,
        validate_every=64,
        device="cpu",
    )


@pytest.fixture(scope="module")
def results(tiny: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the games of ``tiny`` have been played."""
    folder = tmp_path_factory.mktemp("results")
    value.play_games(tiny, Recipe.of(tiny, folder), folder, lambda _: None, None)
    return folder


def read(recipe: Recipe, results: Path, count: int = 60) -> tuple[Games, np.ndarray]:
    searched, numbers = Replay(recipe.folder(results / "cache"), SIZE).by_number(count)
    return searched.games, numbers


def prefix(games: Games, game: int) -> list[int]:
    moves: list[int] = games.moves[games.starts[game] : games.starts[game + 1]].tolist()
    return moves


# --- Signs ---


def test_a_position_where_black_is_to_move_and_black_won_is_a_win(games: Games) -> None:
    for ply, winner, result in ((4, 1, WIN), (4, 2, LOSS), (5, 1, LOSS), (5, 2, WIN), (4, 3, DRAW), (5, 3, DRAW)):
        game = replace(games.select(np.array([0])), winners=np.array([winner], np.uint8))
        cut = value.cut(game, np.array([ply]))
        batch = data.OneEach(cut, ENCODER, last=True).batch(0, 3)
        assert batch.results.tolist() == [result] * 3 and batch.plies.tolist() == [ply] * 3
        assert Positions.some(cut, 0, 1, last=True).results.tolist() == [1 - result]


def test_a_net_that_is_sure_of_the_right_result_has_no_error_and_of_the_wrong_one_all() -> None:
    results = torch.tensor([WIN, DRAW, LOSS, NO_RESULT])
    moves = torch.zeros(4, dtype=torch.int64)
    target = Target(moves, results, torch.zeros(4, 49), torch.full((4,), math.nan))
    sure = 50 * functional.one_hot(results.clamp(min=0), 3).float()
    policy = torch.randn(4, 50, generator=torch.Generator().manual_seed(1))
    right = value.loss(Outputs(policy, sure), target, policy)
    assert abs(float(right.value)) < 1e-6 and right.right == 1 and abs(float(right.policy)) < 1e-6
    wrong = value.loss(Outputs(policy, sure.flip(1)), target, -policy)
    assert math.isclose(float(wrong.value), (50 + 0 + 50) / 3, rel_tol=1e-5) and wrong.right == 0
    kept, told = policy.softmax(1), (-policy).softmax(1)
    assert torch.isclose(wrong.policy, (told * (told / kept).log()).sum(1).mean())
    played = value.loss(Outputs(policy, sure), target, None)
    assert torch.isclose(played.policy, functional.cross_entropy(policy, target.moves))


# --- Rows ---


def test_no_game_gives_two_rows_in_an_epoch(games: Games) -> None:
    rows = data.OneEach(games, ENCODER, seed=3)
    epochs = [rows.positions(len(games) * epoch, len(games))[0] for epoch in range(2)]
    for places in epochs:
        owners = np.searchsorted(games.starts, places, side="right") - 1
        assert sorted(owners) == list(range(len(games)))
    assert set(epochs[0]) != set(epochs[1])  # other positions of the same games
    last = data.OneEach(games, ENCODER, seed=3, last=True).positions(0, len(games))[0]
    assert sorted(last) == (games.starts[1:] - 1).tolist()


def test_a_mixture_has_its_share_of_each_and_loses_no_row(games: Games) -> None:
    first, second = data.OneEach(games, ENCODER, 1), data.Rows(games, ENCODER, 2)
    mixed = data.Mixed(first, second, 0.3)
    batches = [mixed.batch(start, 7) for start in range(0, 70, 7)]
    mine, theirs = first.batch(0, 49), second.batch(0, 21)
    for item in fields(data.Batch):
        told = np.concatenate([getattr(batch, item.name) for batch in batches])
        both = np.concatenate([getattr(mine, item.name), getattr(theirs, item.name)])
        assert sorted(row.tobytes() for row in told) == sorted(row.tobytes() for row in both), item.name


# --- Games in three phases ---


@pytest.mark.parametrize("other", [False, True])
def test_a_game_has_three_phases_and_keeps_the_position_after_the_random_move(
    tiny: Config, nets: tuple[Path, Path], tmp_path: Path, other: bool
) -> None:
    recipe = Recipe.of(replace(tiny, finisher=str(nets[1]) if other else ""), tmp_path)
    played = list(recipe.engine(deque(range(5, 25)), 8, "auto")(lambda: True))
    games = searched_games(SIZE, make_chunk(played, SIZE)).games
    lengths = np.array([recipe.first_moves(game.number)[1] for game in played])
    assert lengths.min() >= 1 and lengths.max() <= 12 and len(set(lengths.tolist())) > 5
    cut = value.cut(games, lengths + 1)
    assert len(cut) == len(played) == 20
    for number, u in enumerate(lengths.tolist()):
        whole, game = prefix(games, number), Game(recipe.rules)
        decided = [0] * u + [RANDOM] + [1 if other else 0] * (len(whole) - u - 1)
        assert played[number].deciders is not None and played[number].deciders.tolist() == decided
        for move in whole:
            game.play(move)
        assert game.outcome is not None and game.outcome.margin == played[number].margin
        assert games.winners[number] == (game.outcome.winner or data.DRAWN) == cut.winners[number]
        assert prefix(cut, number) == whole[: u + 2]  # the kept position is that before the last of these
    batch = data.OneEach(cut, ENCODER, last=True).batch(0, 20)
    assert sorted(batch.plies) == sorted(lengths + 1)


def test_games_in_parts_on_lent_cores_are_the_same(tiny: Config, results: Path, tmp_path: Path) -> None:
    recipe, replay = Recipe.of(tiny, tmp_path), Replay(tmp_path, SIZE)
    replay.add(list(CoresHere().play(partial(value.play_there, recipe), deque(range(60)), 7)))
    there, here = replay.by_number(60)[0].games, read(recipe, results)[0]
    assert all(np.array_equal(getattr(there, item.name), getattr(here, item.name)) for item in fields(Games))


def test_a_game_that_ended_before_the_kept_position_gives_none(games: Games) -> None:
    plies = games.lengths.copy()
    plies[:3] -= 1
    assert len(value.cut(games, plies)) == 3


def test_games_that_were_stopped_go_on_and_are_the_same(
    tiny: Config, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "CHUNK_SECONDS", 0.01)
    recipe, seen = Recipe.of(tiny, tmp_path), list[Made]()

    def stop(made: Made) -> None:
        seen.append(made)
        raise Killed

    with pytest.raises(Killed):
        value.play_games(tiny, recipe, tmp_path, stop, None)
    folder = recipe.folder(tmp_path / "cache")
    first, before = sorted(folder.glob("*.npz"))[0], len(read(recipe, tmp_path)[1])
    written = first.stat().st_mtime_ns
    value.play_games(tiny, recipe, tmp_path, seen.append, None)
    assert seen[-1].games == 60 and before >= seen[0].games and first.stat().st_mtime_ns == written
    whole, parts = (read(recipe, where) for where in (results, tmp_path))
    assert np.array_equal(whole[1], parts[1])
    for item in fields(Games):
        assert np.array_equal(getattr(whole[0], item.name), getattr(parts[0], item.name)), item.name
    first.write_bytes(first.read_bytes()[:-100])  # damaged ones are played again, too
    value.play_games(tiny, recipe, tmp_path, seen.append, None)
    assert read(recipe, tmp_path)[1].tolist() == list(range(60))
    count = len(seen)
    value.play_games(replace(tiny, games=70), recipe, tmp_path, seen.append, None)
    assert seen[-1].games == 70 and seen[count].games > 60


def test_held_out_games_share_nothing_with_the_others(tiny: Config, results: Path) -> None:
    recipe = Recipe.of(tiny, results)
    split = value.read_own(tiny, recipe, results, ())
    parts = (split.train, split.validation, split.test)
    keys = [{data.canonical_key(np.array(prefix(part, g)), SIZE) for g in range(len(part))} for part in parts]
    assert sum(map(len, keys)) == len(set.union(*keys)) == 60 and all(keys)


# --- What stands beside an error ---


def test_errors_are_told_of_early_and_late_positions_apart(games: Games) -> None:
    positions = Positions.some(games, 0, 1, last=False)
    early, results = positions.plies < value.EARLY, positions.results
    found = value.errors("x", {"mse": np.zeros(len(positions)), "floor": 1.0}, positions)
    assert 0 < early.sum() < len(early)
    assert found["x_mse"] == pytest.approx((results**2).mean())
    assert found["x_before_40_floor"] == pytest.approx(((1 - results[early]) ** 2).mean())
    assert found["x_from_40_floor"] == pytest.approx(((1 - results[~early]) ** 2).mean())


# --- Training ---


def test_training_lowers_the_error_and_leaves_a_net_that_plays(tiny: Config, results: Path) -> None:
    config = replace(tiny, name="learned", max_rows=60 * 16, ema_decay=0.9, learning_rate=0.02)
    seen: list[Progress] = []
    folder = value.train(config, results, seen.append)
    checkpoint = Checkpoint.open(folder)
    metrics = checkpoint.manifest.metrics
    assert seen[-1].rows == 60 * 16 and seen[-1].loss < seen[4].loss
    assert metrics["train_mse"] < metrics["train_floor"]
    assert metrics["gap"] == pytest.approx(metrics["test_mse"] - metrics["train_mse"], abs=1e-4)
    assert {
        "test_start",
        "test_floor",
        "test_before_40_mse",
        "validation_mse",
    } <= metrics.keys()
    assert checkpoint.manifest.trainer == "value" and "60 games of first" in checkpoint.manifest.data
    logged = json.loads((results / "training" / "learned" / METRICS_FILE).read_text().splitlines()[0])
    assert {"validation_mse", "validation_floor", "policy_loss"} <= logged.keys()
    policy, win_rates = Evaluator(checkpoint).evaluate(sample_planes(ENCODER, SIZE))
    assert np.isfinite(policy).all() and ((win_rates > 0) & (win_rates < 1)).all()


def test_a_killed_run_goes_on_bit_for_bit(tiny: Config, archive: Path, results: Path) -> None:
    config = replace(tiny, source="both", data=(str(archive),), test_from="2018-01-01", name="whole")
    whole = Checkpoint.open(value.train(config, results))
    parts = replace(config, name="parts", save_minutes=0)
    with pytest.raises(Killed):
        value.train(parts, results, killed_at(3))
    again = Checkpoint.open(value.train(parts, results))
    assert whole.identity == again.identity and whole.manifest.metrics == again.manifest.metrics
    assert {"test_mse", "records_test_mse", "records_gap"} <= whole.manifest.metrics.keys()


def test_records_teach_one_position_a_game(tiny: Config, archive: Path, tmp_path: Path) -> None:
    config = replace(tiny, source="records", data=(str(archive),), test_from="2018-01-01", max_rows=32)
    manifest = Checkpoint.open(value.train(config, tmp_path)).manifest
    assert "test_mse" in manifest.metrics and "random.sgfs; sha256" in manifest.data
    assert not list(tmp_path.glob("cache/value-games-*"))  # nothing is played for it


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"source": "records"}, "--data"),
        ({"data": ("x.sgf",)}, "source = self-play reads no game records"),
        ({"source": "both", "data": ("nowhere.sgf",)}, "nowhere.sgf: can't be read"),
        ({"test_split": 0.9, "validation_split": 0.1}, "no games to learn from"),
        ({"net": "gocnn-3x16", "start": ""}, "has no policy and no value"),
        ({"policy": "nobody"}, "no checkpoint 'nobody'"),
        ({"size": 4}, "can't play 4x4"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(
    tiny: Config, tmp_path: Path, change: dict[str, object], expected: str
) -> None:
    with pytest.raises((ConfigError, CheckpointError, RecordError), match=expected):
        value.train(replace(tiny, **change), tmp_path)  # type: ignore[arg-type]  # wrong on purpose
    assert not any(tmp_path.iterdir())


def test_a_run_has_its_settings_while_games_are_played_and_a_state_that_does_not_fit_is_told_before(
    tiny: Config, results: Path, tmp_path: Path
) -> None:
    def stop(_: Made) -> None:
        raise Killed

    with pytest.raises(Killed):
        value.train(tiny, tmp_path, on_made=stop)
    assert (tmp_path / "training" / "tiny" / SETTINGS_FILE).is_file()  # what --resume reads
    begun, seen = replace(tiny, name="begun", max_rows=16), list[Made]()
    value.train(begun, results)
    with pytest.raises(CheckpointError, match="this run has games = 60, not 80"):
        value.train(replace(begun, games=80), results, on_made=seen.append)
    assert seen == []


def test_torchrun_is_told_to_wait_for_the_games(tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="60 games are still to be played"):
        value.train(tiny, tmp_path)
