"""KataGo's model files: every version and block computes what its slow twin does; a bad file is one line."""

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.commandline import ROOT, arena
from helpers.katago_files import some_planes, write_net
from safetensors.torch import save_file

from arena import CheckpointError, ConfigError
from arena.contract.bot import Limits
from arena.go.coords import move_from_gtp
from arena.go.game import Game, Rules
from arena.go.planes import ENCODERS, encode_games, find_encoder
from arena.go.ranks import read_rank
from arena.players.registry import Registry
from bots.nets.catalogue import named_network, network_from
from bots.nets.checkpoint import Checkpoint
from bots.nets.gpu import TorchModel
from bots.nets.inference import OnnxModel
from bots.nets.katago import read_katago
from trainers.export import write_model
from trainers.first_net import start_from
from trainers.katago import import_katago

HEADS = ("policy", "value", "ownership", "score")
TRANSFORMER = ("nested:attention:learned+ffn:gated", "ordinary")


def outputs_of(network: torch.nn.Module, planes: np.ndarray) -> dict[str, np.ndarray]:
    with torch.no_grad():
        return {head: part.numpy() for head, part in network(torch.from_numpy(planes))._asdict().items()}


def check_twin(folder: Path, **shape: object) -> None:
    twin = write_net(folder / "net.bin.gz", **shape)  # type: ignore[arg-type]
    network = read_katago(folder / "net.bin.gz")
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
    ["attention:learned", "attention:fixed", "attention:grouped learned", "ffn:gated", "ffn:"],
)
def test_each_block_of_a_transformer_computes_what_its_slow_twin_does(block: str, tmp_path: Path) -> None:
    check_twin(tmp_path, version=15, blocks=(block, f"nested:{block}"), activation="SILU")


def test_a_human_sl_net_answers_for_each_rank_as_katago_does(tmp_path: Path) -> None:
    """The numbers are KataGo's own, for a small net of random weights."""
    write_net(tmp_path / "net.bin.gz", 15, activation="MISH", human=True)
    network, game = read_katago(tmp_path / "net.bin.gz"), Game(Rules.preset("tromp-taylor", 9, 7.0))
    for point in ("D4", "F6", "E5"):
        game.play(move_from_gtp(point, 9))
    golden = json.loads((Path(__file__).parents[1] / "golden" / "katago_human.json").read_text())["ranks"]
    for name, expected in golden.items():
        rank = read_rank(name, "rank")
        found = outputs_of(network, encode_games(ENCODERS["katago-human"], [game], 0, (rank, rank)))
        policy = np.array(expected["policy"], float)
        logits = np.where(np.isnan(policy), -np.inf, found["policy"][0].astype(float))
        shares = np.exp(logits - logits.max())
        np.testing.assert_allclose((shares / shares.sum())[~np.isnan(policy)], policy[~np.isnan(policy)], atol=2e-6)
        value = np.exp(found["value"][0].astype(float))
        assert value[0] / value.sum() == pytest.approx(expected["win"], abs=2e-6)  # White is to move
    assert golden["5k"]["policy"] != golden["20k"]["policy"]


def test_a_human_sl_net_plays_as_people_on_all_sizes(tmp_path: Path) -> None:
    write_net(tmp_path / "net.bin.gz", 15, activation="MISH", human=True)
    made = import_katago(tmp_path / "net.bin.gz", tmp_path / "results" / "checkpoints" / "people").checkpoint
    assert made.manifest.encoder == "katago-human" and not made.packs
    registry = Registry(results=tmp_path / "results")
    for size in (9, 13):
        bot = registry.resolve("human-like:rank=25k,checkpoint=people").checked(size).build()
        assert bot.choose(Game(Rules.preset("cgos", size)), Limits()).move is not None
    with pytest.raises(ConfigError, match=r"human-9x9 knows how people play on 9x9 only; .* human-SL net"):
        registry.resolve("kyu-5").checked(13)


@pytest.mark.parametrize("tip", ["norm", "point", "board"])
def test_each_norm_behind_the_trunk_computes_what_its_slow_twin_does(tip: str, tmp_path: Path) -> None:
    check_twin(tmp_path, version=17, tip=tip, activation="IDENTITY")


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


def packed(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """The change of a compressed file that changes its content."""
    return lambda data: gzip.compress(change(gzip.decompress(data)))


def swapped(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return packed(lambda content: content.replace(old, new, 1))


BAD = {
    "not a gzip file": (lambda data: b"PK" + data, "can't be read"),
    "an empty file": (lambda data: b"", "isn't a net|is cut"),
    "a gzip file of something else": (packed(lambda _: b"\x00\xff" * 500), "isn't a net"),
    "a text": (packed(lambda _: b"Dear reader, this is no net."), "isn't|expected a number"),
    "cut by the network": (lambda data: data[: len(data) // 2], "can't be read"),
    "cut before it was compressed": (packed(lambda content: content[:-3000]), "be cut"),
    "bytes left over": (packed(lambda content: content + b"more"), "4 bytes are left over"),
    "an unknown block": (swapped(b"gpool_block", b"spiral_block"), "unknown block 'spiral_block'"),
    "an unknown activation": (swapped(b"TION_MISH", b"TION_COSH"), "unknown activation 'ACTIVATION_COSH'"),
    "an old version": (swapped(b"small-net\n17", b"small-net\n5"), "model version 5"),
    "a new version": (swapped(b"small-net\n17", b"small-net\n18"), "model version 18"),
    "an unknown encoder of metadata": (swapped(b"30.0\n0\n", b"30.0\n2\n"), "option metadata encoder = 2"),
    "other inputs": (swapped(b"30.0\n0\n0\n", b"30.0\n0\n1\n"), "option pass-alive areas as if suicide were legal = 1"),
    "an unknown head": (swapped(b"value\n0\n", b"value\n1\n"), "option A of the value = 1"),
    "layers that don't fit": (
        swapped(b"trunk\n2\n", b"trunk\n1\n"),
        "gpool_block|isn't a net|no block of weights|expected a number",
    ),
    "a weight that isn't finite": (
        packed(lambda content: content.replace(b"@BIN@", b"@BIN@\x00\x00\xc0\x7f", 1)[:-5] + b"\n"),
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


# --- Real nets ---

NETS = os.environ.get("ARENA_KATAGO_NETS", "")
"""A folder of KataGo's files: g170-b6c96*, b7c96h3tfrs-test5-cnorm* and b10c384h6nbttflrs*, each .bin.gz."""


@pytest.mark.skipif(not NETS, reason="needs nets of KataGo's in the folder ARENA_KATAGO_NETS")
@pytest.mark.parametrize("net", ["b6 g170-b6c96", "t7 b7c96h3tfrs-test5-cnorm", "b10 b10c384h6nbttflrs"])
def test_a_net_of_katagos_evaluates_as_katago_does(net: str, tmp_path: Path) -> None:
    golden = json.loads((ROOT / "tests" / "golden" / "katago.json").read_text())
    key, prefix = net.split()
    files = sorted(Path(NETS).glob(f"{prefix}*.bin.gz"))
    if not files:
        pytest.skip(f"{NETS} has no {prefix}*.bin.gz")
    games = [Game(Rules.preset("tromp-taylor", golden["size"], golden["komi"])) for _ in golden["positions"]]
    for game, position in zip(games, golden["positions"], strict=True):
        for move in position["moves"]:
            game.play(move_from_gtp(move, golden["size"]))
    planes, network = encode_games(find_encoder("katago-22"), games), read_katago(files[0])
    write_model(network, tmp_path / "net.onnx", planes)
    model = OnnxModel(tmp_path / "net.onnx", 1)
    exact, exported = outputs_of(network, planes), model.run(HEADS, planes)
    for outputs in (exact, dict(zip(HEADS, exported, strict=True))):
        for row, (game, position) in enumerate(zip(games, golden["positions"], strict=True)):
            found, sign = position[key], 1 if game.to_play == 2 else -1
            odds = np.exp(outputs["value"][row] - outputs["value"][row].max())
            assert (odds / odds.sum())[1 - sign] == pytest.approx(found["white_win"], abs=0.0005)
            assert sign * 10 * outputs["score"][row] == pytest.approx(found["white_lead"], abs=0.001)
            owners = sign * np.tanh(outputs["ownership"][row] / 2)
            np.testing.assert_allclose(owners, found["white_ownership"], atol=0.0005)
            expected = np.array([*found["policy"], found["policy_pass"]], float)  # None, so NaN, where it is illegal
            shares = np.exp(outputs["policy"][row]) * ~np.isnan(expected)
            np.testing.assert_allclose(shares / shares.sum(), np.nan_to_num(expected), atol=0.0005)
    for row in range(len(planes)):
        for together, alone in zip(exported, model.run(HEADS, planes[row : row + 1]), strict=True):
            assert np.array_equal(together[row : row + 1], alone)


# --- The command ---


def test_an_imported_net_plays_like_any_other_and_its_name_is_taken(tmp_path: Path) -> None:
    write_net(tmp_path / "small.bin.gz", 17, TRANSFORMER, "board", "SILU", width=2)
    done = arena("import", "small.bin.gz", "--name", "small", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "arena match policy:checkpoint=small" in done.stdout and "at batch 8" in done.stdout
    folder = tmp_path / "results" / "checkpoints" / "small"
    bot = Registry().resolve(f"alphago:checkpoint={folder},visits=4").build()
    games = [Game(Rules.preset(rules, size)) for rules in ("japanese", "tromp-taylor") for size in (7, 13)]
    for game in games:
        for _ in range(3):
            game.play(bot.choose(game, Limits()).move or 0)
        assert bot.raw_nn([game])[0].ownership is not None
    with pytest.raises(CheckpointError, match=r"distill --teacher policy:checkpoint=small"):
        start_from(named_network("arena-2x16", 41, 9), Checkpoint.open(folder))
    again = arena("import", "small.bin.gz", "--name", "small", folder=tmp_path)
    assert again.returncode == 2 and "exists; choose another --name" in again.stderr
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest["settings"]["sha256"]) == 64 and manifest["encoder"] == "katago-22"


@pytest.mark.parametrize("name", ["../up", "distilled-9x9", ""])
def test_a_name_that_no_checkpoint_can_have_is_refused(name: str, tmp_path: Path) -> None:
    write_net(tmp_path / "small.bin.gz")
    done = arena("import", "small.bin.gz", "--name", name, folder=tmp_path)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "results").exists()


def test_a_failed_import_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_net(tmp_path / "small.bin.gz")
    (tmp_path / "cut.bin.gz").write_bytes((tmp_path / "small.bin.gz").read_bytes()[:-9])
    for name in ("cut.bin.gz", "missing.bin.gz"):
        done = arena("import", name, "--name", "mine", folder=tmp_path)
        assert done.returncode == 2 and name in done.stderr and len(done.stderr.splitlines()) == 1
    monkeypatch.setattr("trainers.export.PARITY", 0.0)
    done = arena("import", "small.bin.gz", "--name", "mine", folder=tmp_path)
    assert done.returncode == 2 and "differs from torch" in done.stderr
    assert list(tmp_path.glob("results/checkpoints/*")) == []


def test_subnormal_weights_are_read_as_0(tmp_path: Path) -> None:
    write_net(tmp_path / "net.bin.gz")
    data = bytearray(gzip.decompress((tmp_path / "net.bin.gz").read_bytes()))
    begin = data.find(b"@BIN@") + 5
    data[begin : begin + 4] = np.float32(1e-40).tobytes()
    (tmp_path / "net.bin.gz").write_bytes(gzip.compress(data))
    weights = [
        tensor for tensor in read_katago(tmp_path / "net.bin.gz").state_dict().values() if tensor.is_floating_point()
    ]
    assert not any(((tensor != 0) & (tensor.abs() < np.finfo(np.float32).tiny)).any() for tensor in weights)
