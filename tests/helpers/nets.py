"""Nets of a few kilobytes as checkpoints that a bot loads: of random weights, or in ONNX, sound or doctored."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from helpers.reference import random_game
from onnx import TensorProto, helper, numpy_helper

from arena.go.coords import symmetry_table
from arena.go.game import Rules
from arena.go.planes import encode_game, find_encoder
from bots.nets.catalogue import named_network
from bots.nets.checkpoint import MANIFEST, MODEL, WEIGHTS, Manifest
from bots.nets.inference import sample_planes
from bots.nets.network import Network, NetworkConfig
from bots.search import puct
from trainers.export import export, manifest_of

SIZE, PLANES = 5, 17
ENCODER = find_encoder("arena-17")
ODD_WEIGHTS = np.random.default_rng(3).normal(0, 1, (SIZE**2 + 1, PLANES * SIZE**2)).astype(np.float32)
Net = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
SOUND = "sound"

node, tensor = helper.make_node, helper.make_tensor_value_info


@dataclass(frozen=True, slots=True)
class Head:
    """One output: (B, ``columns``) logits, all 0 but where ``fill`` is another number. ``rank`` is how many axes it
    has, ``type`` one of ONNX's; ``alone`` leaves out the axis of positions, as if there were one for all."""

    columns: int = SIZE * SIZE + 1
    fill: float = 0.0
    rank: int = 2
    type: str = "FLOAT"
    alone: bool = False


HEADS = {"policy": Head(), "value": Head(3)}


def small_model(heads: Mapping[str, Head], flaw: str = SOUND) -> bytes:
    """``flaw`` is what the policy does when a single position with a stone on it is evaluated, which is never so while
    a net is loaded: "nan" or "endless", else nothing."""
    constants = {
        "flat": np.array([-1, PLANES * SIZE * SIZE], np.int64),
        "one": np.array([1], np.int64),
        "parts": np.array([1, 1, PLANES - 2], np.int64),
        "for ever": np.array(2**62, np.int64),
        "true": np.array(True),
        "no axes": np.array([0], np.int64),
        "bad": np.array(np.nan, np.float32),
    }
    nodes = [node("Reshape", ["planes", "flat"], ["rows"])]
    outputs = []
    for name, head in heads.items():
        constants[f"{name} weights"] = np.full((PLANES * SIZE * SIZE, head.columns), head.fill, np.float32)
        nodes.append(node("MatMul", ["rows", f"{name} weights"], [f"{name} sums"]))
        last = f"{name} sums"
        if name == "policy" and flaw != SOUND:
            nodes += _flawed(last, flaw)
            last = "flawed"
        if head.alone:
            nodes.append(node("ReduceSum", [last, "no axes"], [f"{name} alone"], keepdims=0))
            last = f"{name} alone"
        for axis in range(2, head.rank):
            nodes.append(node("Unsqueeze", [last, "no axes"], [f"{name} {axis}"]))
            last = f"{name} {axis}"
        kind = getattr(TensorProto, head.type)
        nodes.append(node("Cast", [last], [name], to=kind))
        outputs.append(tensor(name, kind, None))
    given = tensor("planes", TensorProto.FLOAT, ["positions", PLANES, SIZE, SIZE])
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "small", [given], outputs, tensors)
    return onnx.ModelProto.SerializeToString(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    )


def _flawed(logits: str, flaw: str) -> list[onnx.NodeProto]:
    """Nodes from ``logits`` to "flawed"."""
    same = [node("Identity", [logits], ["as before"])]
    if flaw == "nan":
        worse = [node("Add", [logits, "bad"], ["worse"])]
    else:
        inputs = [tensor("turn", TensorProto.INT64, []), tensor("go on", TensorProto.BOOL, [])]
        inputs.append(tensor("carried", TensorProto.FLOAT, None))
        outputs = [tensor("go on next", TensorProto.BOOL, []), tensor("carried next", TensorProto.FLOAT, None)]
        nodes = [node("Identity", [name], [f"{name} next"]) for name in ("go on", "carried")]
        body = helper.make_graph(nodes, "body", inputs, outputs)
        worse = [node("Loop", ["for ever", "true", logits], ["worse"], body=body)]
    branches = {
        name: helper.make_graph(nodes, name, [], [tensor(out, TensorProto.FLOAT, None)])
        for name, nodes, out in (("then_branch", worse, "worse"), ("else_branch", same, "as before"))
    }
    return [
        node("Split", ["planes", "parts"], ["own", "theirs", "rest"], axis=1),
        node("Shape", ["planes"], ["batch"], start=0, end=1),
        node("Equal", ["batch", "one"], ["is single"]),
        node("ReduceMax", ["theirs"], ["any"], keepdims=0),
        node("Cast", ["any"], ["is played"], to=TensorProto.BOOL),
        node("And", ["is single", "is played"], ["is time"]),
        node("If", ["is time"], ["flawed"], **branches),
    ]


def small_net(folder: Path, model: bytes, weights: bytes = b"", **changed: object) -> Path:
    """A checkpoint of these files, whose manifest has what is ``changed`` in it; returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {MODEL: model, WEIGHTS: weights}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    manifest = Manifest(folder.name, {}, "arena-17", PLANES, SIZE, SIZE, SIZE, "cgos", 7.0, files=hashes)
    (folder / MANIFEST).write_text(json.dumps({**asdict(manifest), **changed}))
    return folder


def untrained(folder: Path, seed: int, size: int = 7) -> Path:
    """A checkpoint of a net that has learned nothing, in fp32 alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = named_network("arena-1x8", PLANES, size)
    encoder = find_encoder("arena-17")
    manifest = manifest_of(network, folder.name, encoder, Rules.preset("cgos", size))
    return export(network, folder, manifest, None, sample_planes(encoder, size)).folder


def run_search(
    trees: Any, slots: Any, size: int, net: Net, visits: int, params: Any, per_game: int = 1, weights: Any = None
) -> None:
    leaves = puct.Leaves.empty(len(slots) * per_game)
    planes = np.empty((len(slots) * per_game, ENCODER.planes, size * size), np.float32)
    tables, known = symmetry_table(size), (trees.boards, trees.roots, trees.hashes, trees.nodes)
    while count := puct.select_leaves(
        *known, slots, visits, per_game, params, leaves, *puct.select_options(params, leaves)
    ):
        ENCODER.encode(leaves.positions, count, planes)
        found = net(planes[:count])
        puct.expand_leaves(
            trees.roots, trees.nodes, trees.owners, params, tables, leaves, count, *found, params, weights
        )


def odd_net(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knows nothing, and says something else of every position and move; it rarely passes."""
    told = planes.reshape(len(planes), -1) @ ODD_WEIGHTS.T
    rates = 1 / (1 + np.exp(-told.mean(1)))
    told[:, -1] = -20
    return told, rates.astype(np.float32)


def random_positions(size: int, count: int, seed: int = 0) -> np.ndarray:
    """Planes (count, 17, size, size) of positions of random games."""
    games = (random_game(size, 1000 * seed + number, number % (size * size)) for number in range(count))
    return np.stack([encode_game(ENCODER, game) for game in games])


def stir(network: torch.nn.Module) -> None:
    """Let the norms have seen something, so that folding them matters."""
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.uniform_(module.bias, -0.5, 0.5)
            torch.nn.init.uniform_(module.running_mean, -0.2, 0.2)
            torch.nn.init.uniform_(module.running_var, 0.3, 2.0)


def lively_network(seed: int = 0) -> Network:
    """An untrained net, stirred."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = Network(NetworkConfig(blocks=3, channels=24, pooled_channels=8, head_channels=8, area=1))
        stir(network)
        torch.nn.init.normal_(network.policy.passing.weight, 0, 0.3)
    return network.eval()
