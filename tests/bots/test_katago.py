"""KataGo's model files: every version and block computes what its slow twin does; a bad file is one line."""

import gzip
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from katago_files import NUMBERS, PLANES, write_net
from safetensors.torch import save_file

from arena import CheckpointError
from bots.nets.catalogue import network_from
from bots.nets.gpu import TorchModel
from bots.nets.inference import OnnxModel
from bots.nets.katago import read_katago
from trainers.export import write_model

HEADS = ("policy", "value", "ownership", "score")
TRANSFORMER = ("nested:attention:learned+ffn:gated", "ordinary")


def some_planes(size: int, count: int = 2) -> np.ndarray:
    """(count, 41, size, size); the rules have a superko in every other one."""
    random = np.random.default_rng(size)
    planes = random.integers(0, 2, (count, PLANES + NUMBERS, size, size)).astype(np.float32)
    planes[:, 0] = 1
    planes[:, PLANES:] = random.uniform(-1, 1, (count, NUMBERS, 1, 1))
    planes[:, PLANES + 6], planes[:, PLANES + 9] = np.arange(count)[:, None, None] % 2, 0
    return planes


def outputs_of(network: torch.nn.Module, planes: np.ndarray) -> dict[str, np.ndarray]:
    with torch.no_grad():
        return {head: part.numpy() for head, part in network(torch.from_numpy(planes))._asdict().items()}


def check_twin(folder: Path, name: str = "net.bin.gz", **shape: object) -> None:
    twin = write_net(folder / name, **shape)  # type: ignore[arg-type]
    network = read_katago(folder / name)
    for size in (5, 9):
        planes = some_planes(size)
        outputs = outputs_of(network, planes)
        for row in range(len(planes)):
            for head, expected in twin(planes[row].astype(np.float64)).items():
                np.testing.assert_allclose(outputs[head][row], expected, rtol=1e-4, atol=1e-4, err_msg=head)


@pytest.mark.parametrize("version", range(8, 18))
def test_each_version_computes_what_its_slow_twin_does(version: int, tmp_path: Path) -> None:
    check_twin(tmp_path, version=version, blocks=("ordinary", "pooling", "nested:ordinary"), activation="MISH")


@pytest.mark.parametrize(
    "block",
    ["attention:learned", "attention:fixed", "attention:", "attention:grouped learned", "ffn:gated", "ffn:"],
)
def test_each_block_of_a_transformer_computes_what_its_slow_twin_does(block: str, tmp_path: Path) -> None:
    check_twin(tmp_path, version=15, blocks=(block, f"nested:{block}"), activation="SILU")


@pytest.mark.parametrize("tip", ["norm", "point", "board"])
def test_each_norm_behind_the_trunk_computes_what_its_slow_twin_does(tip: str, tmp_path: Path) -> None:
    check_twin(tmp_path, version=17, tip=tip, activation="IDENTITY")


def test_a_text_file_is_read_like_a_binary_one(tmp_path: Path) -> None:
    check_twin(tmp_path, name="net.txt.gz", version=8)


@pytest.mark.parametrize("blocks", [("pooling", "nested:ordinary"), (*TRANSFORMER, "attention:grouped fixed", "ffn:")])
def test_an_exported_net_computes_what_torch_does_on_boards_and_in_batches_of_any_size(
    blocks: tuple[str, ...], tmp_path: Path
) -> None:
    write_net(tmp_path / "net.bin.gz", 17, blocks, "board", "MISH", width=16)  # multiples of 16, as in real nets
    network = read_katago(tmp_path / "net.bin.gz")
    save_file({name: part.contiguous() for name, part in network.state_dict().items()}, tmp_path / "net.safetensors")
    write_model(network, tmp_path / "net.onnx", some_planes(9), tmp_path / "net.safetensors")
    model = OnnxModel(tmp_path / "net.onnx", 1)
    for size in (5, 9, 19):
        planes = some_planes(size, 3)
        expected, together = outputs_of(network, planes), model.run(HEADS, planes)
        for head, part in zip(HEADS, together, strict=True):
            np.testing.assert_allclose(part, expected[head], rtol=1e-4, atol=1e-4, err_msg=head)
        for row in range(3):
            for part, alone in zip(together, model.run(HEADS, planes[row : row + 1]), strict=True):
                assert np.array_equal(part[row : row + 1], alone)


def test_a_net_is_built_again_from_its_manifest(tmp_path: Path) -> None:
    write_net(tmp_path / "net.bin.gz", 17, (*TRANSFORMER, "attention:grouped fixed"), "board", "SILU")
    network = read_katago(tmp_path / "net.bin.gz")
    again = network_from(json.loads(json.dumps(asdict(network.config))))
    again.load_state_dict(network.state_dict())
    planes, expected = some_planes(9), outputs_of(network, some_planes(9))
    for head, part in outputs_of(again, planes).items():
        assert np.array_equal(part, expected[head])
    rough = TorchModel(again, torch.device("cpu"), bf16=True).run(("policy", "value"), planes)
    assert np.abs(rough[0] - expected["policy"]).max() < 0.1


def test_a_description_of_no_net_is_refused_in_one_line(tmp_path: Path) -> None:
    write_net(tmp_path / "net.bin.gz")
    about = asdict(read_katago(tmp_path / "net.bin.gz").config)
    words = about["layers"].split()
    for changed in (words[:-1], [*words, "1"], ["99", *words[1:]], [*words[:9], "many", *words[10:]]):
        with pytest.raises(CheckpointError, match="manifest describes"):
            network_from(about | {"layers": " ".join(changed)})


BAD = {
    "not a gzip file": (lambda data: b"PK" + data, "can't be read"),
    "an empty file": (lambda data: b"", "isn't a net|is cut"),
    "a gzip file of something else": (lambda data: gzip.compress(b"\x00\xff" * 500), "isn't a net"),
    "a text": (lambda data: gzip.compress(b"Dear reader, this is no net."), "isn't|expected a number"),
    "cut by the network": (lambda data: data[: len(data) // 2], "is cut"),
    "cut before it was compressed": (lambda data: gzip.compress(gzip.decompress(data)[:-3000]), "is cut"),
    "bytes left over": (lambda data: gzip.compress(gzip.decompress(data) + b"more"), "4 bytes are left over"),
    "an unknown block": (
        lambda data: gzip.compress(gzip.decompress(data).replace(b"gpool_block", b"spiral_block")),
        "unknown block 'spiral_block'",
    ),
    "an unknown activation": (
        lambda data: gzip.compress(gzip.decompress(data).replace(b"ACTIVATION_MISH", b"ACTIVATION_COSH", 1)),
        "unknown activation 'ACTIVATION_COSH'",
    ),
    "an old version": (
        lambda data: gzip.compress(gzip.decompress(data).replace(b"small-net\n17", b"small-net\n5", 1)),
        "model version 5",
    ),
    "a new version": (
        lambda data: gzip.compress(gzip.decompress(data).replace(b"small-net\n17", b"small-net\n18", 1)),
        "model version 18",
    ),
    "a human-SL net": (
        lambda data: gzip.compress(gzip.decompress(data).replace(b"30.0\n0\n", b"30.0\n1\n", 1)),
        "metadata encoder",
    ),
    "an unknown head": (
        lambda data: gzip.compress(gzip.decompress(data).replace(b"value\n0\n", b"value\n1\n", 1)),
        "option A of the value = 1",
    ),
    "layers that don't fit": (
        lambda data: gzip.compress(gzip.decompress(data).replace(b"trunk\n2\n", b"trunk\n1\n", 1)),
        "gpool_block|isn't a net|no block of weights|expected a number",
    ),
    "a weight that isn't finite": (
        lambda data: gzip.compress(gzip.decompress(data).replace(b"@BIN@", b"@BIN@\x00\x00\xc0\x7f", 1)[:-5] + b"\n"),
        "isn't finite",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_one_line_that_names_it_and_leaves_nothing(case: str, tmp_path: Path) -> None:
    spoil, message = BAD[case]
    write_net(tmp_path / "net.bin.gz", 17, ("ordinary", "pooling"), "norm", "MISH")
    (tmp_path / "bad.bin.gz").write_bytes(spoil((tmp_path / "net.bin.gz").read_bytes()))
    with pytest.raises(CheckpointError, match=message) as raised:
        read_katago(tmp_path / "bad.bin.gz")
    assert "bad.bin.gz" in str(raised.value) and "\n" not in str(raised.value)


def test_a_net_too_large_for_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_net(tmp_path / "net.bin.gz")
    monkeypatch.setattr("bots.nets.katago.available_memory", lambda: 10_000)
    with pytest.raises(CheckpointError, match="too large for this machine"):
        read_katago(tmp_path / "net.bin.gz")
