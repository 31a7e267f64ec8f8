"""A trained net as a checkpoint: ONNX in fp32 and int8, checked against torch. No training.

The graph is written node by node, with batch normalisations folded into the convolutions that they follow. Board size
and batch stay free. The 3x3 convolutions of the blocks are quantised to int8 with fixed scales; the rest, a twentieth
of the work, stays in fp32, and so does the residual stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file
from torch import Tensor, nn

from arena import CheckpointError
from arena.go.game import Rules
from arena.go.moves import MAX_SIZE, MIN_SIZE
from arena.go.planes import Encoder
from bots.nets.catalogue import Net
from bots.nets.checkpoint import MODEL, MODEL_INT8, WEIGHTS, Checkpoint, Manifest, save
from bots.nets.classics import AlphaGo, Classic, GoCNN, Trencseni
from bots.nets.network import Block, Network, PoolingBlock, win_rates

OPSET = 17
PARITY = 1e-4
"""How far the exported net may be from torch, in logits."""
WEIGHT_LEVELS = 63
"""Weights get 7 bits, -63 to 63: with 8 the AVX2 instruction that adds pairs of products saturates at 16 bits (ONNX
Runtime, "Quantize ONNX models", on reduce_range), and sums would differ from those of a processor with VNNI."""
OUTPUTS: dict[str, list[str | int]] = {
    "policy": ["batch", "moves"],
    "value": ["batch", 3],
    "ownership": ["batch", "points"],
    "score": ["batch"],
}
"""What a model may answer, and its shape; see ``bots.nets.network.Answer``."""
OUTLIERS = 1e-5
"""The share of calibration values that may fall outside an activation's range."""


@dataclass(frozen=True, slots=True)
class Range:
    """What values an activation takes; zero is always among them."""

    low: float
    high: float

    @property
    def scale(self) -> np.float32:
        return np.float32(max(self.high - self.low, 1e-6) / 255)

    @property
    def zero(self) -> np.uint8:
        return np.uint8(min(255, max(0, round(-self.low / float(self.scale)))))


class Graph:
    """An ONNX graph under construction: the net of ``network``, quantised where ``ranges`` knows an activation."""

    def __init__(self, network: Net, ranges: Mapping[str, Range] | None = None):
        self.ranges = ranges or {}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.observed: list[str] = []
        self._rounded: dict[str, str] = {}
        self._exact: dict[str, str] = {}
        self._planes = network.config.planes
        if isinstance(network, Network):
            self._network(network)
        else:
            self._classic(network)

    def model(self, observe: bool = False) -> onnx.ModelProto:
        """The finished model: planes -> those of ``OUTPUTS`` that the net has; with ``observe``, also all activations
        that can be quantised."""
        planes = self._planes
        inputs = [helper.make_tensor_value_info("planes", TensorProto.FLOAT, ["batch", planes, "size", "size"])]
        made = {node.name for node in self.nodes}
        outputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in OUTPUTS.items()
            if name in made
        ]
        if observe:
            shape = ["batch", None, None, None]
            outputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in self.observed]
        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="arena")
        model.ir_version = 8
        onnx.checker.check_model(model)
        return model

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def _constant(self, name: str, value: np.ndarray) -> str:
        self.constants[name] = value
        return name

    def _relu(self, x: str) -> str:
        return self._node("Relu", [x], f"{x}.relu")

    def _rounds(self, x: str) -> str:
        """``x`` through uint8 and back, with the fixed scale of its range; once for all who read it."""
        if x in self._exact:
            return x
        if x not in self._rounded:
            scale = self._constant(f"{x}.scale", np.array(self.ranges[x].scale))
            zero = self._constant(f"{x}.zero", np.array(self.ranges[x].zero))
            small = self._node("QuantizeLinear", [x, scale, zero], f"{x}.uint8")
            self._rounded[x] = self._node("DequantizeLinear", [small, scale, zero], f"{x}.rounded")
            self._exact[self._rounded[x]] = x
        return self._rounded[x]

    def _convolve(
        self,
        name: str,
        x: str,
        conv: nn.Conv2d,
        norm: nn.BatchNorm2d | None = None,
        relu: bool = False,
        tower: bool = False,
    ) -> str:
        """``conv`` and the ``norm`` after it in one; those of the tower may be quantised, and are observed for it."""
        weight, bias = folded(conv, norm)
        pad = int(conv.padding[0])
        before = self._exact.get(x, x)
        quantised = tower and before in self.ranges
        if tower and x not in self.observed:
            self.observed.append(x)
        if not quantised:
            inputs = [x, self._constant(f"{name}.weight", weight), self._constant(f"{name}.bias", bias)]
            y = self._node("Conv", inputs, name, pads=[pad] * 4)
            y = self._relu(y) if relu else y
        else:
            scale = self.ranges[before].scale
            scales = np.maximum(np.abs(weight).max((1, 2, 3)) / WEIGHT_LEVELS, 1e-9).astype(np.float32)
            scales = np.maximum(
                scales, np.abs(bias) / scale / 2**30
            )  # the bias, in int32, must fit a dying channel too
            small = np.rint(weight / scales[:, None, None, None]).astype(np.int8)
            steps = (scales * scale).astype(np.float32)
            w = [
                self._constant(f"{name}.weight", small),
                self._constant(f"{name}.weight.scale", scales),
                self._constant(f"{name}.weight.zero", np.zeros(len(scales), np.int8)),
            ]
            b = [
                self._constant(f"{name}.bias", np.rint(bias / steps).astype(np.int32)),
                self._constant(f"{name}.bias.scale", steps),
                self._constant(f"{name}.bias.zero", np.zeros(len(scales), np.int32)),
            ]
            inputs = [
                self._rounds(x),
                self._node("DequantizeLinear", w, f"{name}.weight.rounded", axis=0),
                self._node("DequantizeLinear", b, f"{name}.bias.rounded", axis=0),
            ]
            y = self._node("Conv", inputs, name, pads=[pad] * 4)
            y = self._rounds(self._relu(y) if relu else y)
        if tower and not quantised:
            self.observed.append(y)
        return y

    def _norm_relu(self, name: str, x: str, norm: nn.BatchNorm2d) -> str:
        """A norm that follows a sum and can't be folded."""
        values = {"scale": norm.weight, "bias": norm.bias, "mean": norm.running_mean, "var": norm.running_var}
        inputs = [self._constant(f"{name}.{key}", array(value)) for key, value in values.items() if value is not None]
        return self._relu(self._node("BatchNormalization", [x, *inputs], name, epsilon=norm.eps))

    def _pooled(self, name: str, x: str) -> str:
        mean = self._node("GlobalAveragePool", [x], f"{name}.mean")
        most = self._node("GlobalMaxPool", [x], f"{name}.max")
        return self._node("Concat", [mean, most], name, axis=1)

    def _network(self, network: Network) -> None:
        x = self._convolve("stem", "planes", network.stem)  # in fp32: the komi's plane takes few values, close together
        for i, block in enumerate(network.tower):
            name = f"block{i}"
            if isinstance(block, PoolingBlock):
                h = self._norm_relu(f"{name}.norm1", x, block.norm1)
                g = self._convolve(f"{name}.pool", h, block.pool, block.norm_pool, relu=True, tower=True)
                spread = self._spread(f"{name}.spread", self._pooled(f"{name}.pooled", g), block.spread, block.norm2)
                y = self._convolve(f"{name}.conv1", h, block.conv1, block.norm2, tower=True)
                y = self._relu(self._node("Add", [y, spread], f"{name}.biased"))
            elif isinstance(block, Block):
                h = self._norm_relu(f"{name}.norm1", x, block.norm1)
                y = self._convolve(f"{name}.conv1", h, block.conv1, block.norm2, relu=True, tower=True)
            else:
                raise TypeError(f"no export for a {type(block).__name__}")
            y = self._convolve(f"{name}.conv2", y, block.conv2, tower=True)
            x = self._node("Add", [x, y], name)
        x = self._norm_relu("norm", x, network.norm)

        policy = network.policy
        g = self._pooled("policy.pooled", self._convolve("policy.pool", x, policy.pool, policy.norm_pool, relu=True))
        y = self._convolve("policy.conv", x, policy.conv, policy.norm)
        y = self._relu(
            self._node("Add", [y, self._spread("policy.spread", g, policy.spread, policy.norm)], "policy.biased")
        )
        points = self._node("Flatten", [self._convolve("policy.points", y, policy.points)], "points", axis=1)
        passing = self._node("Flatten", [self._convolve("policy.passing", g, policy.passing)], "pass", axis=1)
        self._node("Concat", [points, passing], "policy", axis=1)

        value = network.value
        g = self._pooled("value.pooled", self._convolve("value.conv", x, value.conv, value.norm, relu=True))
        g = self._convolve("value.hidden", g, value.hidden, relu=True)
        self._node("Flatten", [self._convolve("value.result", g, value.result)], "value", axis=1)

        if network.ownership is not None and network.score is not None:
            ownership, score = network.ownership, network.score
            y = self._convolve("ownership.conv", x, ownership.conv, ownership.norm, relu=True)
            self._node("Flatten", [self._convolve("ownership.points", y, ownership.points)], "ownership", axis=1)
            g = self._pooled("score.pooled", self._convolve("score.conv", x, score.conv, score.norm, relu=True))
            g = self._convolve("score.hidden", g, score.hidden, relu=True)
            axes = self._constant("score.axes", np.array([1, 2, 3], np.int64))
            self._node("Squeeze", [self._convolve("score.result", g, score.result), axes], "score")

    def _classic(self, network: Classic) -> None:
        x = "planes"
        for number, layer in enumerate(network.stack):
            assert isinstance(layer, nn.Conv2d)
            x = self._convolve(f"stack{number}", x, layer, relu=True, tower=number > 0)
        if isinstance(network, Trencseni):
            y = self._convolve("hidden", x, network.hidden, relu=True)
            self._node("Flatten", [self._convolve("moves", y, network.moves)], "policy", axis=1)
        elif isinstance(network, AlphaGo):
            biases = self._constant("biases", array(network.biases))
            y = self._node("Add", [self._convolve("points.conv", x, network.points), biases], "points.biased")
            points = self._node("Flatten", [y], "points", axis=1)
            mean = self._node("GlobalAveragePool", [x], "mean")
            passing = self._node("Flatten", [self._convolve("passing", mean, network.passing)], "pass", axis=1)
            self._node("Concat", [points, passing], "policy", axis=1)
        elif isinstance(network, GoCNN):
            self._node("Flatten", [self._convolve("points", x, network.points)], "ownership", axis=1)
        else:
            raise TypeError(f"no export for a {type(network).__name__}")

    def _spread(self, name: str, g: str, conv: nn.Conv2d, norm: nn.BatchNorm2d) -> str:
        """A 1x1 map whose result is added before ``norm``, which the other summand has taken in, shift and all."""
        weight, bias = folded(conv, norm)
        _, shift = folded(_unbiased(conv), norm)
        inputs = [self._constant(f"{name}.weight", weight), self._constant(f"{name}.bias", bias - shift)]
        return self._node("Conv", [g, *inputs], name)


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().to(torch.float32).contiguous().numpy().copy()


def folded(conv: nn.Conv2d, norm: nn.BatchNorm2d | None) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias of one convolution that does what ``conv`` and then ``norm`` do; float32."""
    weight = conv.weight.detach().double()
    bias = torch.zeros(weight.shape[0], dtype=torch.float64) if conv.bias is None else conv.bias.detach().double()
    if norm is not None and norm.running_mean is not None and norm.running_var is not None:
        factor = norm.weight.detach().double() / (norm.running_var.double() + norm.eps).sqrt()
        weight = weight * factor[:, None, None, None]
        bias = (bias - norm.running_mean.double()) * factor + norm.bias.detach().double()
    return array(weight), array(bias)


def _unbiased(conv: nn.Conv2d) -> nn.Conv2d:
    twin = nn.Conv2d(conv.in_channels, conv.out_channels, conv.kernel_size, bias=False)  # type: ignore[arg-type]
    twin.weight = conv.weight
    return twin


def run_model(model: onnx.ModelProto | Path, planes: np.ndarray) -> dict[str, np.ndarray]:
    """All outputs of an ONNX model for ``planes`` (B, P, n, n), by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"planes": planes}), strict=True))


def calibrate(network: Net, planes: np.ndarray) -> dict[str, Range]:
    """The range of every activation that can be quantised, over the positions ``planes``."""
    graph = Graph(network)
    outputs = run_model(graph.model(observe=True), planes)
    ranges = {}
    for name in graph.observed:
        low, high = np.quantile(outputs[name], [OUTLIERS, 1 - OUTLIERS])
        ranges[name] = Range(min(0.0, float(low)), max(0.0, float(high)))
    return ranges


@dataclass(frozen=True, slots=True)
class Parity:
    """How the exported nets compare with torch."""

    fp32_difference: float
    """The largest difference of any logit from torch."""
    int8_agreement: float
    """The share of positions where int8 and fp32 name the same likeliest move; of points, where a net has no policy."""
    int8_win_rate_difference: float | None
    """The mean difference of the win rate between the two; None where a net has no value."""


def write_files(network: Net, folder: Path, calibration: np.ndarray, check: np.ndarray) -> Parity:
    """Write weights and models into ``folder``; ``calibration`` and ``check`` are planes (B, P, n, n) of positions.

    Raises CheckpointError when the exported net doesn't answer as torch does.
    """
    network = network.eval()
    state = {name: tensor.detach().contiguous().clone() for name, tensor in network.state_dict().items()}
    save_file(state, folder / WEIGHTS)
    onnx.save(Graph(network).model(), folder / MODEL)
    onnx.save(Graph(network, calibrate(network, calibration)).model(), folder / MODEL_INT8)
    with torch.no_grad():
        said = network(torch.from_numpy(check))._asdict()
    exact = run_model(folder / MODEL, check)
    difference = max(float(np.abs(array(part) - exact[name]).max()) for name, part in said.items() if part is not None)
    if not difference < PARITY:
        raise CheckpointError(
            f"{folder / MODEL}: differs from torch by {difference:.2g}, more than {PARITY:g}; not saved"
        )
    rough = run_model(folder / MODEL_INT8, check)
    if "policy" in exact:
        same = exact["policy"].argmax(1) == rough["policy"].argmax(1)
    else:
        same = (exact["ownership"] > 0) == (rough["ownership"] > 0)
    apart = None
    if "value" in exact:
        rates = [win_rates(torch.from_numpy(outputs["value"])) for outputs in (exact, rough)]
        apart = float((rates[0] - rates[1]).abs().mean())
    return Parity(difference, float(same.mean()), apart)


def export(network: Net, folder: Path, manifest: Manifest, calibration: np.ndarray, check: np.ndarray) -> Checkpoint:
    """Save ``network`` as the checkpoint ``folder``, with the figures of ``Parity`` among the manifest's metrics.

    ``calibration`` and ``check`` are planes (B, P, n, n) of positions. Raises CheckpointError, and leaves what was
    there, when the exported net doesn't answer as torch does.
    """

    def write(aside: Path) -> dict[str, float]:
        parity = write_files(network, aside, calibration, check)
        return {name: float(f"{value:.3g}") for name, value in asdict(parity).items() if value is not None}

    return save(folder, manifest, write)


def describe(network: Net, name: str, encoder: Encoder, rules: Rules, **known: Any) -> Manifest:
    """The manifest of a net that learned from games by ``rules``; ``known`` are its other fields."""
    only = getattr(network.config, "size", 0)
    return Manifest(
        name=name,
        network=asdict(network.config),
        encoder=encoder.name,
        planes=encoder.planes,
        smallest=only or MIN_SIZE,
        largest=only or MAX_SIZE,
        size=rules.size,
        rules=rules.name,
        komi=rules.komi,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        **known,
    )
