"""Training: rows and splits, what the loop promises on resuming and stopping, and supervised learning in small."""

import json
import math
import os
import resource
import sys
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import numpy as np
import pytest
import torch
from helpers.commandline import torchrun
from helpers.training import Killed, steps_logged
from torch.nn import functional
from typer.testing import CliRunner

from arena import CheckpointError, ConfigError, RecordError
from arena.cli import app
from arena.files import lock
from arena.go.coords import BLACK, WHITE, apply_symmetry, symmetry_table
from arena.go.game import Ending, Outcome
from arena.go.planes import find_encoder
from arena.go.record import GameRecord
from bots.nets.catalogue import load_network, named_network
from bots.nets.checkpoint import SHIPPED_NETS, Checkpoint
from bots.nets.inference import Evaluator
from bots.nets.network import Outputs
from bots.nets.rollout import RolloutPolicy, save_policy
from trainers import losses, sl
from trainers import records as data
from trainers.first_net import build, inherited_rules
from trainers.games import DRAW, DRAWN, LOSS, NO_RESULT, UNKNOWN, WIN, Games, Rows, encode_positions, results_of
from trainers.optimizers import Muon, build_optimizers, learning_rate
from trainers.settings import METRICS_FILE, STATE_FILE, Loop, Zero, listing
from trainers.train import Progress, Run, prefetch, read_tensors, write_tensors

SIZE = 7
ENCODER = find_encoder("arena-17")


pytestmark = pytest.mark.usefixtures("unexported")


@pytest.fixture(scope="module")
def games(records: list[GameRecord]) -> Games:
    return data.games_from_records(records, SIZE)


@pytest.fixture(scope="module")
def tiny(archive: Path) -> sl.Config:
    split: Any = {"data": (str(archive),), "test_from": "2018-01-01", "validation_split": 0.1}
    short: Any = {"batch_size": 32, "max_rows": 20 * 32, "validate_every": 256, "device": "cpu"}
    return sl.Config("tiny", SIZE, net="arena-2x16", **split, **short)


def test_an_epoch_has_every_position_once_and_batches_do_not_matter(games: Games) -> None:
    """A prefetch gives them in order, and passes errors on."""
    rows, again, other = (Rows(games, ENCODER, seed=seed) for seed in (5, 5, 6))
    places, symmetries = rows.positions(0, rows.per_epoch)
    assert np.array_equal(np.sort(places), np.arange(len(games.moves))) and set(symmetries) == set(range(8))
    late, _ = again.positions(rows.per_epoch - 3, 8)  # across the end of an epoch
    assert np.array_equal(late, [*places[-3:], *rows.positions(rows.per_epoch, 5)[0]])
    for different in (rows.positions(rows.per_epoch, 50)[0], other.positions(0, 50)[0]):
        assert not np.array_equal(different, places[:50])
    cpu = torch.device("cpu")
    with closing(prefetch(rows.batch, range(16, 136, 24), 8, cpu)) as batches:
        for number, (planes, target) in enumerate(batches):
            expected = rows.batch(16 + 24 * number, 8)
            assert np.array_equal(planes, expected.planes) and np.array_equal(target.moves, expected.moves)
    with pytest.raises(ValueError):
        next(prefetch(rows.batch, [-(10**9)], 8, cpu))


def test_rows_turn_with_the_board_and_owners_and_scores_are_the_side_to_moves_where_the_board_tells_the_margin(
    records: list[GameRecord], games: Games
) -> None:
    places = np.random.default_rng(1).integers(0, len(games.moves), 40)
    plain = encode_positions(games, ENCODER, places, np.zeros(40, np.int64))
    for symmetry in range(8):
        rows = encode_positions(games, ENCODER, places, np.full(40, symmetry))
        assert np.array_equal(rows.planes, apply_symmetry(plain.planes, symmetry))
        assert np.array_equal(rows.moves, symmetry_table(SIZE)[symmetry][games.moves[places]])
        for row, number in enumerate(np.searchsorted(games.starts, places, side="right") - 1):
            game, sign = records[number].replay(), 1 if rows.plies[row] % 2 == 0 else -1
            owners = sign * np.array([0, 1, -1])[game.board.owners()]
            assert np.array_equal(rows.owners[row][symmetry_table(SIZE)[symmetry][:-1]], owners)
            assert rows.scores[row] == sign * game.margin()
    winners, plies = np.array([BLACK, BLACK, WHITE, WHITE, DRAWN, UNKNOWN]), np.array([0, 1, 10, 11, 3, 4])
    assert list(results_of(winners, plies)) == [WIN, LOSS, LOSS, WIN, DRAW, NO_RESULT]
    others = [Outcome(BLACK, Ending.RESIGN), Outcome.scored(records[2].replay().margin() + 2)]
    wrong = [replace(record, outcome=other) for record, other in zip(records[1:], others, strict=False)]
    kept = data.games_from_records([records[0], *wrong], SIZE)
    rows = encode_positions(kept, ENCODER, kept.starts[:3], np.zeros(3, np.int64))
    assert list(np.isnan(rows.scores)) == [False, True, True] and not rows.owners[1:].any()


@pytest.mark.smoke
def test_the_loss_leaves_out_unknown_results() -> None:
    generator = torch.Generator().manual_seed(0)
    policy, value, ownership = (torch.randn(4, n, generator=generator, requires_grad=True) for n in (50, 3, 49))
    moves, results = torch.tensor([3, 49, 0, 7]), torch.tensor([WIN, NO_RESULT, LOSS, NO_RESULT])
    scores = torch.tensor([5.0, math.nan, -20.0, math.nan])
    answer = Outputs(policy, value, ownership, torch.zeros(4))
    found = losses.loss(answer, losses.Target(moves, results, torch.ones(4, 49), scores))
    assert torch.isclose(found.policy, functional.cross_entropy(policy, moves))
    assert torch.isclose(found.value, functional.cross_entropy(value[[0, 2]], results[[0, 2]]))
    assert torch.isclose(found.ownership, -functional.logsigmoid(ownership[[0, 2]]).mean())
    assert math.isclose(float(found.score), (0.5**2 / 2 + (2 - 0.5)) / 2)  # Huber's, of half a unit and of two
    found.total(sl.Config()).backward()
    for part in (value, ownership):
        assert part.grad is not None and part.grad.flatten(1).any(1).tolist() == [True, False, True, False]
    unknown = torch.full((4,), NO_RESULT), torch.zeros(4, 49), torch.full((4,), math.nan)
    nothing = losses.loss(answer, losses.Target(moves, *unknown))
    assert torch.equal(nothing.total(sl.Config()), nothing.policy)


@pytest.mark.parametrize("config", [sl.Config(learning_rate=0.1), Zero(learning_rate=0.1)])
def test_the_learning_rate_rises_then_falls(config: Loop) -> None:
    rates = [learning_rate(config, done / 100) for done in range(101)]
    assert max(rates) == rates[2] == 0.1 and rates[0] > 0
    assert rates[:3] == sorted(rates[:3]) and rates[2:] == sorted(rates[2:], reverse=True)
    assert math.isclose(rates[-1], 0.001)


def test_muon_steps_all_filters_at_once_as_it_would_one_by_one() -> None:
    """As it is written down (Jordan 2024)."""
    generator = torch.Generator().manual_seed(2)
    shapes = [(8, 8, 3, 3), (8, 8, 3, 3), (8, 5, 3, 3), (24, 6, 1, 1), (24, 6, 1, 1), (12, 7)]
    parameters = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    parameters[1].data = parameters[1].data.to(memory_format=torch.channels_last)
    momenta = [torch.zeros(shape) for shape in shapes]
    optimizer = Muon(parameters, lr=0.1, weight_decay=0.2)
    for _ in range(3):
        expected = []
        for parameter, momentum in zip(parameters, momenta, strict=True):
            parameter.grad = torch.randn(parameter.shape, generator=generator)
            momentum.mul_(0.95).add_(0.05 * parameter.grad)
            direction = (0.05 * parameter.grad + 0.95 * momentum).flatten(1)
            x = direction / (direction.norm() + 1e-7)
            for _ in range(5):
                x = 3.4445 * x - 4.7750 * x @ x.T @ x + 2.0315 * x @ x.T @ x @ x.T @ x
            longer = max(1.0, direction.shape[0] / direction.shape[1]) ** 0.5
            expected.append(parameter.detach() * (1 - 0.1 * 0.2) - 0.1 * longer * x.view_as(parameter))
        optimizer.step()
        for parameter, wanted in zip(parameters, expected, strict=True):
            torch.testing.assert_close(parameter.detach(), wanted, atol=1e-5, rtol=1e-4)


ENDS = ("stem.", "stack.0.", "points.", "passing.", "result.", "moves.")


@pytest.mark.parametrize("name", ["arena-3x16", "trencseni-cnn", "alphago-3x16", "alphagonet-2x16", "gocnn-3x16"])
def test_muon_takes_neither_the_first_nor_a_last_layer_of_any_net(name: str) -> None:
    network = torch.nn.Sequential(named_network(name, ENCODER.planes, SIZE))  # as ``rl`` has one in another module
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    groups = [optimizer.param_groups[0]["params"] for optimizer in build_optimizers(network, sl.Config())]
    muon, adam = ({names[id(parameter)] for parameter in group} for group in groups)
    assert muon and not muon & adam and muon | adam == set(names.values())
    assert all(name.endswith("weight") for name in muon)
    assert not [name for name in muon for end in ENDS if end in name]


@pytest.mark.parametrize(("net", "optimizer"), [("arena-2x16", "muon"), ("trencseni-cnn", "adamw")])
def test_a_run_that_is_killed_once_its_state_is_saved_goes_on_bit_for_bit_and_lacks_no_line_of_its_log(
    tiny: sl.Config, tmp_path: Path, net: str, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second net has dropout."""
    config = replace(tiny, net=net, optimizer=optimizer, max_rows=12 * 32, validate_every=64)
    whole = Checkpoint.open(sl.train(config, tmp_path / "whole"))
    save = Run.save

    def saved(run: Run) -> Path:
        path = save(run)
        if run.step_count == 4:
            monkeypatch.setattr(Run, "save", save)
            raise Killed
        return path

    monkeypatch.setattr(Run, "save", saved)
    with pytest.raises(Killed):
        sl.train(replace(config, save_minutes=0), tmp_path / "parts")
    parts = Checkpoint.open(sl.train(config, tmp_path / "parts"))
    assert whole.identity == parts.identity and whole.manifest.rows == parts.manifest.rows == 12 * 32
    assert whole.manifest.metrics == parts.manifest.metrics
    assert steps_logged(tmp_path / "parts" / "training" / "tiny") == [2, 4, 6, 8, 10, 12]


def test_training_lowers_the_loss_and_leaves_a_net_that_plays(
    tiny: sl.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # it is exported
    seen: list[Progress] = []
    folder = sl.train(replace(tiny, max_rows=90 * 32, ema_decay=0.9), tmp_path, seen.append)
    assert [progress.step for progress in seen] == list(range(1, 91)) and seen[-1].minutes_left is not None
    trained = Checkpoint.open(folder)
    manifest = trained.manifest
    assert seen[0].loss > 4 > 3.75 > manifest.metrics["test_policy_loss"]  # ln 50 is 3.91
    assert manifest.metrics["test_positions"] > 1000 and manifest.metrics["fp32_difference"] < 1e-4
    assert (manifest.size, manifest.komi, manifest.rows, manifest.trainer) == (SIZE, 7.0, 90 * 32, "sl")
    assert "random.sgfs; sha256 " in manifest.data and str(tmp_path) not in str(manifest)
    assert len(Evaluator(trained).evaluate(np.zeros((2, 17, SIZE, SIZE), np.float32))[0]) == 2
    lines = [json.loads(line) for line in (tmp_path / "training" / "tiny" / METRICS_FILE).read_text().splitlines()]
    assert [line["rows"] for line in lines] == [*range(256, 90 * 32, 256), 90 * 32]  # and once more at the end
    heads = [f"{head}_loss" for head in ("policy", "value", "ownership", "score")]
    assert all(line[figure] > 0 for line in lines for figure in ("loss", "learning_rate", "grad_norm", *heads))


def test_a_run_can_be_played_meanwhile_its_older_snapshots_go_and_a_damaged_state_is_refused(
    tiny: sl.Config, tmp_path: Path
) -> None:
    there: list[set[str]] = []

    def look(progress: Progress) -> None:
        paths = [path for path in (tmp_path / "checkpoints").glob("tiny-step*") if path.is_dir()]
        there.append({path.name for path in paths})
        for path in paths:
            load_network(Checkpoint.open(path))
        if progress.step == 6:
            raise Killed

    config = replace(tiny, snapshot_minutes=1e-9, max_rows=7 * 32)
    with pytest.raises(Killed):
        sl.train(config, tmp_path, look)
    assert there[-1] == {"tiny-step3", "tiny-step4", "tiny-step5"}
    config = replace(config, snapshot_minutes=0)
    sl.train(config, tmp_path)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["tiny"]
    os.truncate(tmp_path / "training" / "tiny" / STATE_FILE, 1000)
    with pytest.raises(CheckpointError, match="state"):
        sl.train(config, tmp_path)


def test_a_run_starts_from_a_narrower_net_or_one_without_ranks_and_computes_what_it_did(
    tiny: sl.Config, tmp_path: Path
) -> None:
    narrow = Checkpoint.open(sl.train(replace(tiny, name="narrow", max_rows=64), tmp_path))
    people = replace(tiny, start="narrow", encoder="human-34", name="people", max_rows=64)
    wider = replace(tiny, start="narrow", net="arena-2x24", encoder="arena-31", name="wide", max_rows=96)
    random = torch.rand(4, 34, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
    for config, planes in ((people, 34), (wider, 31)):
        with torch.no_grad():
            before = load_network(narrow).eval()(random[:, :17])
            after = build(config, tmp_path).eval()(random[:, :planes])
        assert all(torch.allclose(*outputs, atol=1e-5) for outputs in zip(before, after, strict=True))
    manifest = Checkpoint.open(sl.train(people, tmp_path)).manifest
    assert (manifest.encoder, manifest.planes, manifest.parent) == ("human-34", 34, narrow.identity)
    wide = Checkpoint.open(sl.train(wider, tmp_path))
    learned = load_network(wide).state_dict()["tower.1.conv1.weight"]
    assert learned.shape == (24, 24, 3, 3) and learned[:16, 16:].any()  # the new channels are used
    on = sl.train(replace(wider, name="on", start="wide", encoder="", max_rows=32), tmp_path)
    assert Checkpoint.open(on).manifest.encoder == "arena-31"  # that of its start
    for config, shape in (
        (replace(tiny, start="narrow", net="arena-2x8"), "channels 16"),
        (replace(wider, start="wide", encoder="arena-17"), "planes 31"),
        (replace(wider, net="arena-3x24"), "blocks 2"),
        (replace(wider, start="wide", net="arena-2x16"), "channels 24"),
    ):
        with pytest.raises(CheckpointError, match=f"{shape}; give its net"):
            sl.train(replace(config, name="wrong"), tmp_path)


def test_a_run_begins_with_the_mean_of_several_nets(tiny: sl.Config, tmp_path: Path) -> None:
    nets = []
    for number, split in enumerate((0.1, 0.2), 1):
        config = replace(tiny, name=f"net{number}", seed=number, max_rows=64, validation_split=split)
        nets.append(load_network(Checkpoint.open(sl.train(config, tmp_path))).state_dict())
    both = replace(tiny, start="net1", average=("net2",), name="mean")
    mean = build(both, tmp_path).state_dict()
    for key, (one, two) in ((key, (net[key] for net in nets)) for key in mean):
        assert torch.allclose(mean[key].double(), (one.double() + two) / 2, atol=1e-6)
    assert {rule.validation for rule in inherited_rules(both, tmp_path)} == {0.1, 0.2}
    saved = load_network(Checkpoint.open(sl.train(replace(both, learning_rate=0.0, max_rows=1), tmp_path)))
    assert all(torch.allclose(mean[key], parameter, atol=1e-6) for key, parameter in saved.named_parameters())
    with pytest.raises(ConfigError, match="give --start"):
        sl.train(replace(both, start=""), tmp_path)


def test_a_childs_held_out_games_are_never_its_parents_training_games(tiny: sl.Config, tmp_path: Path) -> None:
    def keys(part: Games) -> set[bytes]:
        return {data.canonical_key(part.moves[a:b], SIZE) for a, b in pairwise(part.starts)}

    cache = tmp_path / "cache"
    short = replace(tiny, max_rows=64, test_from="", test_split=0.2, validation_split=0.2)
    sl.train(replace(short, name="parent"), tmp_path)
    learned = keys(data.read_split(short, cache).train)
    other = replace(short, start="parent", name="child", test_from="2018-01-01", validation_split=0.4)
    assert keys(data.read_split(other, cache).test) & learned  # or nothing is shown
    rules = inherited_rules(other, tmp_path)
    data.build([Path(tiny.data[0])], tmp_path / "set", data.GameFilter(SIZE), data.SplitRule(20180101, 0.4))
    for given in (other, replace(other, data=(str(tmp_path / "set"),))):
        split = data.read_split(given, cache, rules)
        assert len(split.test) and len(split.validation)
        assert not (keys(split.test) | keys(split.validation)) & learned
    sl.train(other, tmp_path)
    first, *before = inherited_rules(replace(short, start="child"), tmp_path)
    assert first == data.SplitRule(20180101, 0.4, 0.2) and tuple(before) == rules
    for manifest in (tmp_path / "checkpoints" / "child" / "manifest.json", tmp_path / "set" / data.MANIFEST):
        manifest.write_text(manifest.read_text().replace('"by_player"', '"by_club"'))
    with pytest.raises(CheckpointError, match=r"child: .* a split that this version doesn't know .*by_club"):
        inherited_rules(replace(short, start="child"), tmp_path)
    with pytest.raises(RecordError, match=r"set: .* a split that this version doesn't know .*by_club"):
        data.read_split(replace(other, data=(str(tmp_path / "set"),)), cache)


@pytest.mark.slow
def test_two_processes_of_torchrun_learn_what_one_does(tiny: sl.Config, tmp_path: Path) -> None:
    """A net without batch norms, which would be each process's own. The first process alone saves and reports. Nor
    does a run wait for gradients of heads that have none."""
    config = replace(tiny, net="alphago-2x8", optimizer="sgd", max_rows=6 * 32, validate_every=96)
    alone = sl.train(config, tmp_path / "alone")
    (tmp_path / "run.toml").write_text("\n".join(listing(config)))
    assert torchrun("sl --settings run.toml --new", tmp_path).count("test positions") == 1
    assert len(steps_logged(tmp_path / "results" / "training" / "tiny")) == 2
    folders = alone, tmp_path / "results" / "checkpoints" / "tiny"
    before, after = (load_network(Checkpoint.open(folder)).state_dict() for folder in folders)
    untrained = build(config, tmp_path).state_dict()
    assert all(torch.allclose(before[key], after[key], atol=1e-5) for key in before)
    assert not all(torch.allclose(before[key], untrained[key], atol=1e-4) for key in before)
    words = f"ownership --data {tiny.data[0]} --preset tiny --net arena-1x8 --max-rows 256 --device cpu --size 7"
    torchrun(words, tmp_path)


def test_of_two_trainers_on_one_name_the_second_is_refused(tmp_path: Path) -> None:
    training = tmp_path / "training" / "mine"
    with lock(training / "lock"):
        (training / "state.pt").write_text("precious")
        second = CliRunner().invoke(app, ["train", "sl", "--name", "mine", "--new", "--results", str(tmp_path)])
        assert f"{training} is in use by another process" in str(second.exception)
        assert (training / "state.pt").read_text() == "precious"


def begin(folder: Path, **changes: Any) -> Run:
    return Run(torch.nn.Linear(4, 4), sl.Config("run", **{"max_rows": 100, **changes}), folder)


def step(run: Run) -> None:
    run.step(run.network(torch.ones(2, 4)).sum(), {}, 2)


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """Torch and safetensors raised errors of their own, with tracebacks."""
    policy, before = RolloutPolicy.open(SHIPPED_NETS / "rollout-9x9"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(CheckpointError, match=r"state\.pt can't be written"):
            write_tensors(tmp_path / "state.pt", {"network": torch.zeros(10_000)})
        with pytest.raises(CheckpointError, match="policy can't be written"):
            save_policy(tmp_path / "policy", policy.checkpoint.manifest, policy.learned)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("rows", [640, 20_000])
def test_a_run_whose_numbers_are_not_finite_stops_and_saves_none(rows: int, tiny: sl.Config, tmp_path: Path) -> None:
    """It was reported as perfect, and couldn't be resumed."""
    config = replace(tiny, optimizer="sgd", learning_rate=1e9, max_rows=rows, save_minutes=0.0)
    with pytest.raises(ConfigError, match=r"weights aren't finite after step \d+; start again with --new and a lower"):
        sl.train(config, tmp_path)
    state = tmp_path / "training" / "tiny" / STATE_FILE
    saved = read_tensors(state)["network"] if state.exists() else {}
    assert all(tensor.isfinite().all() for tensor in saved.values())
    assert not list((tmp_path / "checkpoints").glob("*"))


def test_a_damaged_state_is_never_another_one(tmp_path: Path) -> None:
    """Of 60 states with one flipped bit 52 were read, as other states."""
    run, random = begin(tmp_path), np.random.default_rng(1)
    step(run)
    whole, (path, state) = run.save().read_bytes(), (tmp_path / STATE_FILE, read_tensors(run.folder / STATE_FILE))
    refused = 0
    for place in random.choice(8 * len(whole), 200, replace=False).tolist():
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            found = read_tensors(path)
        except CheckpointError:
            refused += 1
        else:  # in what no reader looks at
            assert found.keys() == state.keys() and found["counters"] == state["counters"]
            for part in ("network", "averaged"):
                assert all(torch.equal(found[part][key], state[part][key]) for key in state[part])
    assert refused > 50


def test_damaged_lines_of_a_log_are_dropped(tmp_path: Path) -> None:
    """A resumed run ended with a traceback. JSON has no NaN."""
    run = begin(tmp_path)
    for _ in range(2):
        step(run)
        run.log(nothing=math.nan)
    run.save()
    log = run.folder / METRICS_FILE
    first, second = log.read_bytes().splitlines(keepends=True)
    assert b"NaN" not in first and "nothing" not in json.loads(first)
    log.write_bytes(b"garbage\n" + first + b"[1]\n\xff\xfe{}\n{}\n" + second + b'{"step": 2')
    assert begin(tmp_path).restore() and log.read_bytes() == first + second


def test_figures_are_written_for_tensorboard_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Mock()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", writer)
    with begin(tmp_path) as run:
        step(run)
        run.log(loss=0.25)
    first, *scalars, last = writer.mock_calls
    assert first == call.SummaryWriter(run.folder, purge_step=1) and last == call.SummaryWriter().close()
    assert call.SummaryWriter().add_scalar("loss", 0.25, 1) in scalars


def test_a_resumed_run_forgets_the_figures_of_steps_that_it_makes_again(tmp_path: Path) -> None:
    run = begin(tmp_path)
    for number in range(4):
        step(run)
        run.log(loss=float(number))
        if number == 1:
            run.save()
    state = read_tensors(run.folder / STATE_FILE)
    del state["settings"]["average"]  # a setting that an earlier version hadn't
    write_tensors(run.folder / STATE_FILE, state)
    again = begin(tmp_path)
    before = [tensor.data_ptr() for tensor in again.averaged.parameters()]
    assert again.restore() and again.step_count == 2
    again.log(loss=9.0)
    assert steps_logged(run.folder) == [1, 2, 2]
    # averaged weights came back on the processor, and the next step on a GPU crashed
    assert [tensor.data_ptr() for tensor in again.averaged.parameters()] == before


def test_the_first_step_of_a_sitting_which_may_compile_the_net_counts_for_nothing_in_a_budget_of_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But what a run plays before it counts: the first iteration of ``rl`` was left out."""
    now = 0.0
    monkeypatch.setattr("trainers.train.time.monotonic", lambda: now)
    for plays, spent in ((False, 30), (True, 120)):
        run = begin(tmp_path, max_rows=None, max_minutes=10)
        if plays:
            run.count_minutes()
        for seconds in (90.0, 30.0):
            now += seconds
            step(run)
        assert run.seconds == spent and run.done == pytest.approx(spent / 600)
