"""The kernel of small integers says what torch and, of KataGo's blocks, their slow twins say."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.katago_files import some_planes, write_net
from helpers.nets import lively_network, random_positions

from arena import CheckpointError
from bots.nets.checkpoint import Checkpoint, has_own_kernel, precision_here
from bots.nets.inference import Evaluator
from bots.nets.int8 import PackedModel
from bots.nets.katago import read_katago
from bots.nets.network import Network, NetworkConfig
from bots.nets.packing import Unfit, pack
from trainers.katago import import_katago

pytestmark = pytest.mark.skipif(not has_own_kernel(), reason="the processor has no AVX-512 VNNI")

HEADS = ("policy", "value", "score", "ownership")
WIDE = 1e-2  # what share of the variance is noise where a product is in 8 bits; in 16 bits a hundredth of it
BLOCKS = {
    "ordinary": WIDE,
    "pooling": WIDE,
    "nested:ordinary": WIDE,
    "attention:learned": WIDE / 100,
    "attention:grouped fixed": WIDE / 100,
    "ffn:gated": WIDE,
    "nested:attention:learned+ffn:": WIDE,
}


def state_of(network: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: part.numpy() for name, part in network.state_dict().items()}


def small_network(**shape: int) -> Network:
    standard = {"blocks": 1, "pooling_blocks": 1, "channels": 32, "pooled_channels": 16, "head_channels": 32}
    return Network(NetworkConfig(**{**standard, **shape})).eval()


def check(found: np.ndarray, expected: np.ndarray, noise: float) -> None:
    """``noise`` is a share of the variance; of a number a position, of the square."""
    whole = expected.var() if expected.ndim > 1 else np.square(expected).mean()
    assert found.shape == expected.shape and np.square(found - expected).mean() < noise * whole


def check_beside_torch(
    network: torch.nn.Module, planes: np.ndarray, heads: Sequence[str] = HEADS[:2], noise: float = WIDE
) -> None:
    with torch.no_grad():
        outputs = network(torch.from_numpy(planes))._asdict()
    found = PackedModel(state_of(network), 9, tiles=False).run(heads, planes)
    for head, part in zip(heads, found, strict=True):
        check(part, outputs[head].numpy(), noise)
    assert all(map(np.array_equal, PackedModel(state_of(network), 9).run(heads, planes), found))  # with tiles, or again


@pytest.mark.parametrize("activation", ["RELU", "MISH", "SILU"])
@pytest.mark.parametrize("block", BLOCKS)
def test_each_block_of_katagos_computes_what_its_slow_twin_does(block: str, activation: str, tmp_path: Path) -> None:
    twin = write_net(tmp_path / "net.bin.gz", 17, (block,), activation=activation, width=16)
    network = read_katago(tmp_path / "net.bin.gz")
    model, planes = PackedModel(state_of(network), 9), some_planes(5, 3)
    expected = [twin(row.astype(np.float64)) for row in planes]
    for head, part in zip(HEADS, model.run(HEADS, planes), strict=True):
        check(part, np.stack([row[head] for row in expected]), 10 * BLOCKS[block])  # of few numbers
    for size in (6, 9, 19):
        check_beside_torch(network, some_planes(size, 3), noise=BLOCKS[block])


@pytest.mark.parametrize("tip", ["norm", "point", "board"])
@pytest.mark.parametrize("version", [8, 17])
def test_each_version_and_tip_of_katagos_computes_what_torch_does(version: int, tip: str, tmp_path: Path) -> None:
    if version < 15 and tip != "norm":
        pytest.skip("it has no such tip")
    write_net(tmp_path / "net.bin.gz", version, ("pooling",), tip, "MISH", width=16)
    check_beside_torch(read_katago(tmp_path / "net.bin.gz"), some_planes(9, 4), HEADS)


def test_an_answer_is_the_same_bit_for_bit_alone_and_in_a_batch(tmp_path: Path) -> None:
    write_net(tmp_path / "net.bin.gz", 17, ("nested:attention:learned+ffn:gated", "pooling"), "board", "MISH", width=16)
    model, planes = PackedModel(state_of(read_katago(tmp_path / "net.bin.gz")), 9), some_planes(9, 5)
    together = model.run(HEADS, planes)
    for row in range(5):
        for part, alone in zip(together, model.run(HEADS, planes[row : row + 1]), strict=True):
            assert np.array_equal(part[row : row + 1], alone)


def test_komi_counts_beyond_thirty_points() -> None:
    """Plane 15, komi / 15, was cut at 2."""
    planes = np.repeat(random_positions(9, 4, 3), 8, 0)
    planes[:, 15] = np.linspace(-400, 400, 32, dtype=np.float32)[:, None, None] / 15
    check_beside_torch(small_network(blocks=2, pooling_blocks=2), planes)


@pytest.mark.parametrize("size", [5, 9, 19])
def test_ownership_and_score_of_our_nets_are_what_torch_computes(size: int) -> None:
    network = small_network(area=1)
    with torch.no_grad():
        for part in (network.ownership, network.score):
            for weights in part.parameters():
                weights.normal_(0, 0.3)
    check_beside_torch(network, random_positions(size, 4), HEADS)


def test_sums_of_the_largest_products_stay_within_32_bits() -> None:
    network = small_network(channels=64)
    with torch.no_grad():
        network.stem.weight.fill_(1.0)
        network.stem.weight[:, :3] *= -3
        network.value.conv.weight.fill_(0.5)
    planes = np.full((2, 17, 9, 9), 31.9, np.float32)
    planes[1, :3] = -31.9
    check_beside_torch(network, planes)


def test_what_does_not_fit_the_kernel_is_refused(tmp_path: Path) -> None:
    write_net(tmp_path / "net.bin.gz")
    broken = state_of(small_network())
    broken["stem.weight"][0] = np.nan
    for state in (state_of(read_katago(tmp_path / "net.bin.gz")), state_of(lively_network()), broken):
        with pytest.raises(Unfit):
            pack(state, 9)
    with pytest.raises(CheckpointError, match="5 planes don't fit a net of 17"):
        PackedModel(state_of(small_network()), 9).run(("policy",), np.zeros((1, 5, 9, 9), np.float32))


def test_an_imported_net_plays_in_this_kernel_where_the_processor_has_it_and_else_in_fp32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_net(tmp_path / "net.bin.gz", 17, ("nested:attention:learned+ffn:gated",), activation="MISH", width=16)
    imported = import_katago(tmp_path / "net.bin.gz", tmp_path / "net")
    checkpoint = Checkpoint.open(tmp_path / "net")
    checkpoint.require_precision("int8")
    assert imported.precision == precision_here(checkpoint.folder) == "int8"
    assert type(Evaluator(checkpoint, threads=2)._model) is PackedModel
    monkeypatch.setattr("bots.nets.checkpoint.has_own_kernel", lambda: False)
    assert Evaluator(checkpoint).precision == precision_here(checkpoint.folder) == "fp32"
    with pytest.raises(CheckpointError, match=r"has no model-int8.onnx; choose precision fp32"):
        Evaluator(checkpoint, "int8")
