"""Nets at play: checkpoints verify themselves, exports answer as torch does, answers don't depend on the batch."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.nets import lively_network, random_positions, stir

from arena import CheckpointError
from arena.contract.bot import Limits
from arena.go.game import Game, Rules
from arena.go.planes import find_encoder
from arena.players.registry import Registry
from bots.nets.catalogue import load_network, named_network, usual_encoder
from bots.nets.checkpoint import (
    MANIFEST,
    MODEL,
    MODEL_INT8,
    SHIPPED_NETS,
    WEIGHTS,
    Checkpoint,
    Manifest,
    find,
    has_own_kernel,
    save,
)
from bots.nets.gpu import LARGEST, TorchModel
from bots.nets.inference import Evaluator
from bots.nets.network import Network, fold_batch_norms
from trainers.export import export, manifest_of, write_model
from trainers.train import forget_snapshots

ENCODER = find_encoder("arena-17")
RULES = Rules.preset("cgos", 9)
NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="captures graphs, which needs a CUDA device")


def saved(folder: Path, manifest: Manifest, **files: Checkpoint | bytes) -> Checkpoint:
    """A checkpoint whose weights, ``model`` and ``int8`` are those of others, or these bytes."""
    names = {"weights": WEIGHTS, "model": MODEL, "int8": MODEL_INT8}

    def write(place: Path) -> dict[str, float]:
        for kind, source in files.items():
            content = source if isinstance(source, bytes) else (source.folder / names[kind]).read_bytes()
            (place / names[kind]).write_bytes(content)
        return {}

    return save(folder, manifest, write)


def exported(network: Network, folder: Path) -> Checkpoint:
    manifest = manifest_of(network, folder.name, ENCODER, RULES)
    return export(network, folder, manifest, random_positions(9, 64, 1), random_positions(9, 64, 2))


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return exported(lively_network(), tmp_path_factory.mktemp("nets") / "checkpoints" / "lively")


@pytest.mark.parametrize("size", [5, 9, 19])
def test_an_exported_net_answers_as_torch_does_on_every_size(net: Checkpoint, size: int) -> None:
    planes = random_positions(size, 12, 3)
    policy, win_rates = Evaluator(net, "fp32").evaluate(planes)
    with torch.no_grad():
        expected_policy, value, *_ = lively_network()(torch.from_numpy(planes))
    odds = value.double().softmax(1)
    assert policy.dtype == win_rates.dtype == np.float32
    np.testing.assert_allclose(policy, expected_policy.numpy(), atol=1e-4)
    np.testing.assert_allclose(win_rates, (odds[:, 0] + odds[:, 1] / 2).numpy(), atol=1e-5)
    for shape, words in (((1, 17, 21, 21), "21x21"), ((1, 16, 9, 9), "17"), ((1, 17, 9, 8), "shape")):
        with pytest.raises(CheckpointError, match=words):
            Evaluator(net, "fp32").evaluate(np.zeros(shape, np.float32))


def test_a_channel_that_has_died_does_not_spoil_int8(tmp_path: Path) -> None:
    """Its bias, counted in steps as small as its weights, once left the range of int32."""
    network = lively_network()
    network.tower[0].norm2.weight.data[:3] = 1e-12
    network.tower[0].norm2.bias.data[:3] = 0.5
    dying = exported(network, tmp_path / "dying")
    assert dying.manifest.metrics["int8_agreement"] > 0.85
    assert dying.manifest.metrics["int8_win_rate_difference"] < 0.02


def test_a_model_in_int8_that_names_other_moves_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planes = random_positions(9, 64)
    monkeypatch.setattr("trainers.export.quantise", lambda exact, path, _: write_model(lively_network(9), path, planes))
    made = exported(lively_network(), tmp_path / "rough")
    assert made.manifest.metrics["int8_agreement"] < 0.7
    assert set(made.manifest.files) == {WEIGHTS, MODEL} and Evaluator(made).precision == "fp32"


def test_a_net_that_answers_nan_in_its_last_head_has_no_model(tmp_path: Path) -> None:
    """The first head is the exact one, and the largest difference was once that of any head that isn't NaN."""
    network = lively_network()
    assert network.score is not None
    network.score.result.bias.data.fill_(torch.nan)  # type: ignore[union-attr]  # it has a bias
    assert set(exported(network, tmp_path / "broken").manifest.files) == {WEIGHTS}


def test_a_net_whose_export_differs_from_torch_is_saved_without_it_and_plays(
    net: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was learned in days was lost by the last bits of a logit."""
    monkeypatch.setattr("trainers.export.PARITY", 0.0)
    planes, saved = random_positions(9, 4), exported(lively_network(), tmp_path / "saved")
    assert set(Checkpoint.open(saved.folder).manifest.files) == {WEIGHTS}
    for mine, theirs in zip(Evaluator(saved).evaluate(planes), Evaluator(net, "fp32").evaluate(planes), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)
    with pytest.raises(CheckpointError, match="choose precision fp32"):
        Evaluator(saved, "int8")
    bot = Registry(results=tmp_path).resolve(f"checkpoint:{saved.folder}").build()
    assert bot.choose(Game(RULES), Limits()).move is not None


def test_snapshots_of_a_run_are_pruned(net: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    manifest = replace(net.manifest, settings={"name": "run"})
    for step in (90, 100, 110, 120, 5):  # the last is of a run that began anew: those of the one before outlived it
        saved(tmp_path / f"run-step{step}", manifest, weights=net, model=net)
        forget_snapshots(folder, 3)
    (tmp_path / "run-steps").mkdir()
    assert {path.name for path in tmp_path.iterdir()} == {"run-step110", "run-step120", "run-step5", "run-steps"}
    assert set(Checkpoint.open(tmp_path / "run-step120").manifest.files) == {WEIGHTS, MODEL}
    theirs = replace(net.manifest, settings={"name": "run-step6"})  # another run has such a name
    saved(tmp_path / "run-step6", theirs, weights=net)
    forget_snapshots(folder)
    assert {path.name for path in tmp_path.iterdir()} == {"run-step6", "run-steps"}


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("name", ["lively", "sl-9x9"])
def test_an_answer_is_the_same_bit_for_bit_in_every_batch(net: Checkpoint, precision: str, name: str) -> None:
    evaluator = Evaluator(net if name == "lively" else Checkpoint.open(SHIPPED_NETS / name), precision)
    planes = random_positions(9, 64, 5)
    alone = [evaluator.evaluate(planes[i : i + 1]) for i in range(64)]
    policies, win_rates = (np.concatenate(part) for part in zip(*alone, strict=True))
    for batch in (2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64):
        policy, win_rate = evaluator.evaluate(planes[-batch:])
        assert np.array_equal(policy, policies[-batch:]) and np.array_equal(win_rate, win_rates[-batch:]), batch


def test_bfloat16_says_what_fp32_says(net: Checkpoint) -> None:
    planes = random_positions(9, 32, 5)
    exact, rough = Evaluator(net, "fp32"), Evaluator(net, "bf16")
    (policy, win_rates), (rough_policy, rough_win_rates) = exact.evaluate(planes), rough.evaluate(planes)
    assert 0 < (policy - rough_policy).var(1).mean() < 0.01 * policy.var(1).mean()
    assert np.abs(win_rates - rough_win_rates).max() < 0.05


@pytest.mark.parametrize(("device", "apart"), [("cpu", 1e-4), pytest.param("cuda", 1e-2, marks=NEEDS_CUDA)])
@pytest.mark.parametrize("name", ["arena-4x16", "trencseni-cnn", "alphago-3x16", "alphagonet-2x16", "gocnn-3x16"])
def test_a_torch_model_says_what_its_network_does_and_learns_with_it(name: str, device: str, apart: float) -> None:
    torch.manual_seed(1)
    planes = find_encoder(usual_encoder(name)).planes
    network = named_network(name, planes, 9)
    stir(network)
    model = TorchModel(network, torch.device(device), bf16=False)
    for batch in (1, 7, 33 if device == "cpu" else LARGEST + 3):  # which is parted
        asked = np.random.default_rng(batch).random((batch, planes, 9, 9), np.float32)
        with torch.no_grad():
            said = network.eval()(torch.from_numpy(asked))._asdict()
        exact = {head: part for head, part in said.items() if part is not None}
        assert model.outputs == set(exact)
        for heads in (list(exact), *([head] for head in exact)):
            for head, told in zip(heads, model.run(heads, asked), strict=True):
                np.testing.assert_allclose(told, exact[head].numpy(), atol=apart)
        before = model.run(list(exact), asked)
        with torch.no_grad():
            for parameter in network.train().parameters():
                parameter += 0.01 * torch.randn_like(parameter)
        assert all(map(np.array_equal, before, model.run(list(exact), asked)))  # until it is told
        model.refresh()


def test_graphs_that_replay_wait_for_weights_that_are_copied_on_another_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    model, events = TorchModel(lively_network(), torch.device("cpu"), bf16=False), list[str]()

    class Stream(str):
        def wait_stream(self, other: str) -> None:
            events.append(f"{self} waits for {other}")

    def copied(network: Network) -> Network:
        events.append("weights are copied")
        return fold_batch_norms(network)

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: Stream("copying"))
    monkeypatch.setattr("bots.nets.gpu.fold_batch_norms", copied)
    model.stream = Stream("replaying")  # type: ignore[assignment]  # it has what is used of one
    model.refresh()
    assert events == ["copying waits for replaying", "weights are copied", "replaying waits for copying"]


def test_int8_that_computes_something_else_gives_way_to_fp32_with_one_warning(
    net: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stand-in for a processor that saturates: another net's numbers in int8."""
    monkeypatch.setattr("bots.nets.inference.has_fast_int8", lambda: True)
    assert Evaluator(net).precision == "int8" and not caplog.records
    planes, other = random_positions(9, 64, 6), exported(lively_network(9), tmp_path / "other")
    faulty = saved(tmp_path / "faulty", replace(net.manifest, name="faulty"), weights=net, model=net, int8=other)
    evaluator = Evaluator(faulty)
    assert evaluator.precision == "fp32"
    assert np.array_equal(evaluator.evaluate(planes)[0], Evaluator(net, "fp32").evaluate(planes)[0])
    assert [record.levelname for record in caplog.records] == ["WARNING"] and "it plays in fp32" in caplog.text
    with pytest.raises(CheckpointError, match=r"faulty: int8 differs from fp32 .* use precision=fp32"):
        Evaluator(faulty, "int8")


@pytest.mark.skipif(not has_own_kernel(), reason="the processor has no AVX-512 VNNI")
def test_own_kernels_play_where_the_processor_is_made_for_them() -> None:
    checkpoint, game = Checkpoint.open(SHIPPED_NETS / "zero-9x9"), Game(Rules.preset(), seed=1)
    packed, threaded, exact = (Evaluator(checkpoint, *how) for how in (("int8", 1), ("int8", 2), ("fp32", 1)))
    assert [type(one._model).__name__ for one in (packed, threaded, exact)] == ["PackedModel", "OnnxModel", "OnnxModel"]
    said, other, wanted = (one.raw_nn([game])[0] for one in (packed, threaded, exact))
    assert (said.policy != other.policy).any() and (said.ownership != other.ownership).any()
    assert said.ownership == pytest.approx(wanted.ownership, abs=0.05)
    assert said.policy == pytest.approx(wanted.policy, abs=0.02)
    assert said.win_rate == pytest.approx(wanted.win_rate, abs=0.02)


def copy_of(net: Checkpoint, folder: Path) -> Path:
    return Path(shutil.copytree(net.folder, folder))


@pytest.mark.smoke
@pytest.mark.parametrize("name", [WEIGHTS, MODEL, MODEL_INT8, MANIFEST])
def test_a_changed_or_missing_file_is_named(net: Checkpoint, tmp_path: Path, name: str) -> None:
    folder = copy_of(net, tmp_path / "copy")
    whole = (folder / name).read_bytes()
    half = len(whole) // 2
    for content in (b"", b"[1]", whole[:half], b"\xff\xfe", whole[:half] + b"\xf0" + whole[half + 1 :], None):
        (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
        with pytest.raises(CheckpointError, match=name) as caught:
            Checkpoint.open(folder)
        assert "\n" not in str(caught.value) and "copy" in str(caught.value)


def test_a_wrong_manifest_or_model_is_refused(net: Checkpoint, tmp_path: Path) -> None:
    folder = copy_of(net, tmp_path / "copy")
    content = json.loads((folder / MANIFEST).read_text())
    for entries, expected in (
        ({"format": 99}, "format 99"),
        ({"komi": "seven"}, "komi"),
        ({"encoder": "arena-18"}, "arena-18"),
        ({"files": {}}, WEIGHTS),
        ({"files": {WEIGHTS: "0", MODEL: "0", "../../secret": "0"}}, "secret"),
    ):
        (folder / MANIFEST).write_text(json.dumps(content | entries))
        with pytest.raises(CheckpointError, match=expected):
            Evaluator(Checkpoint.open(folder))
    bad = saved(tmp_path / "bad", net.manifest, weights=b"not a net", model=b"not a net")
    with pytest.raises(CheckpointError, match="can't load"):
        Evaluator(bad, "fp32")


def test_saving_that_fails_leaves_what_was_there(net: Checkpoint, tmp_path: Path) -> None:
    folder = copy_of(net, tmp_path / "copy")

    def write(aside: Path) -> dict[str, float]:
        (aside / WEIGHTS).write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save(folder, replace(net.manifest, name="new"), write)
    with pytest.raises(CheckpointError, match="can't be saved without"):
        save(folder, net.manifest, lambda aside: {})
    assert Checkpoint.open(folder).manifest == net.manifest and list(tmp_path.iterdir()) == [folder]


def test_a_name_is_looked_for_in_the_results_then_among_the_shipped(net: Checkpoint, tmp_path: Path) -> None:
    results = net.folder.parent.parent
    assert find("lively", results) == net.folder
    assert find("sl-9x9", tmp_path) == SHIPPED_NETS / "sl-9x9"
    assert find(str(net.folder), tmp_path) == net.folder
    copy_of(net, tmp_path / "checkpoints" / "sl-9x9")
    assert find("sl-9x9", tmp_path) == tmp_path / "checkpoints" / "sl-9x9"
    with pytest.raises(CheckpointError, match=r"livelly.*lively"):
        find("livelly", results)


@pytest.mark.parametrize("name", sorted(path.parent.name for path in SHIPPED_NETS.glob(f"*/{MODEL}")))
def test_the_nets_that_ship_verify(name: str) -> None:
    shipped = Checkpoint.open(SHIPPED_NETS / name)
    assert shipped.manifest.name == name
    assert any(shipped.manifest.metrics.get(count, 0) > 0 for count in ("test_positions", "share_games", "games"))
    Evaluator(shipped, "fp32")
    Evaluator(shipped, "int8")
    load_network(shipped)
