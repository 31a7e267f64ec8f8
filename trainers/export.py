"""A trained net as a checkpoint: ONNX in fp32 and int8, checked against torch.

Board size and batch stay free. The convolutions of the blocks are quantised to int8 with fixed scales; the rest, a
twentieth of the work, stays in fp32, and so does the residual stream.
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from safetensors.torch import save as serialize
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from arena import CheckpointError
from arena.files import reason
from arena.go.coords import MAX_SIZE, MIN_SIZE
from arena.go.game import Rules
from arena.go.planes import Encoder
from arena.system import cores
from bots.nets.catalogue import Classic, Net
from bots.nets.checkpoint import MODEL, MODEL_INT8, WEIGHTS, Checkpoint, Manifest, save
from bots.nets.inference import INT8_TOLERANCE, OnnxModel
from bots.nets.network import Outputs, fold_batch_norms, win_rates

OPSET, FLOAT = 17, onnx.TensorProto.FLOAT
LARGE = 2**31 - 1  # the end of a slice that has none
PARITY = 1e-4
"""How far a logit of the exported net may be from torch, relative to the largest logit where that is over 1."""
LEAST_AGREEMENT = 0.7
"""What int8_agreement must be for a model in int8 to be kept. Of the nets that ship it is 0.96 to 0.98; nets of random
weights, whose moves are close, are still above this."""
NOT_IN_INT8 = ("stack.0", ".spread")
"""How the names of convolutions end that stay in fp32, though they are of a block or a stack."""
PREPARED = {"onnx.infer": "onnxruntime.quant", "onnx.quant.pre_process": "onnxruntime.quant"}
"""Tells the quantiser that torch has already folded the graph; otherwise it logs a warning."""


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().to(torch.float32).contiguous().numpy().copy()


class Dimensions(NamedTuple):
    """The sizes of a tensor's dimensions ``first`` to ``last``, known only when the net runs."""

    of: Tensor
    first: int = 0
    last: int = 4


def _flatten(x: Tensor, first: int = 0, last: int = -1) -> Node:
    """Only the fixed sizes are written: the board's size is known when the net runs."""
    if not first:
        return "ReduceMax", (x,), {"axes": [1, 2, 3], "keepdims": 0}  # (B, 1, 1, 1) -> (B,)
    if first == 1 and last == -1:
        return "Flatten", (x,), {"axis": 1}
    after = x.shape[last + 1 :] if last > 0 else ()
    return "Reshape", (x, np.array([0] * first + [-1, *after])), {}


def _slice(x: Tensor, places: Sequence[Any]) -> Node:
    """A part between fixed bounds: ``x[:, 1:2]``, ``x[..., :4]``."""
    if places[0] is Ellipsis:
        places = [slice(None)] * (x.ndim - len(places) + 1) + [*places[1:]]
    cut = [axis for axis, place in enumerate(places) if place != slice(None)]
    starts, ends = [places[axis].start or 0 for axis in cut], [places[axis].stop or LARGE for axis in cut]
    return "Slice", (x, *map(np.array, (starts, ends, cut))), {}


def _transpose(x: Tensor, one: int, other: int) -> Node:
    order = list(range(x.ndim))
    order[one], order[other] = order[other], order[one]
    return "Transpose", (x,), {"perm": order}


def _unflatten(x: Tensor, axis: int, sizes: Sequence[int]) -> Node:
    return "Reshape", (x, np.array([*[0] * axis, *sizes, *x.shape[axis + 1 :]])), {}


Node = tuple[str, Sequence[Any], dict[str, Any]]
"""An operator of ONNX, its inputs (tensors, arrays, numbers, a ``Dimensions`` or None) and attributes."""

OPERATIONS: dict[str, Callable[..., Node]] = {
    "conv2d": lambda x, w, b=None, _=1, pads=(0, 0), *rest: (
        "Conv",
        (x, w, b),
        {"kernel_shape": w.shape[2:], "pads": 2 * pads},
    ),
    "batch_norm": lambda x, mean, var, weight, bias, eps, **rest: (
        ("BatchNormalization", (x, weight, bias, mean, var), {"epsilon": eps})
    ),
    "relu": lambda x: ("Relu", (x,), {}),
    "sigmoid": lambda x: ("Sigmoid", (x,), {}),
    "softplus": lambda x: ("Softplus", (x,), {}),
    "tanh": lambda x: ("Tanh", (x,), {}),
    "sqrt": lambda x: ("Sqrt", (x,), {}),
    "square": lambda x: ("Pow", (x, 2.0), {}),
    "softmax": lambda x, axis: ("Softmax", (x,), {"axis": axis}),
    "add": lambda x, y: ("Add", (x, y), {}),
    "sub": lambda x, y: ("Sub", (x, y), {}),
    "mul": lambda x, y: ("Mul", (x, y), {}),
    "div": lambda x, y: ("Div", (x, y), {}),
    "matmul": lambda x, y: ("MatMul", (x, y), {}),
    "cat": lambda parts, axis: ("Concat", parts, {"axis": axis}),
    "mean": lambda x, axes, keepdim: ("ReduceMean", (x,), {"axes": axes, "keepdims": int(keepdim)}),
    "sum": lambda x, axis, keepdim: ("ReduceSum", (x, np.array([axis])), {"keepdims": int(keepdim)}),
    "amax": lambda x, axes, keepdim: ("ReduceMax", (x,), {"axes": axes, "keepdims": int(keepdim)}),
    "flatten": _flatten,
    "unflatten": _unflatten,
    "transpose": _transpose,
    "reshape_as": lambda x, other: ("Reshape", (x, Dimensions(other)), {}),
    "getitem": _slice,
    "dropout": lambda x, *rest, **more: ("Identity", (x,), {}),
    "float": lambda x: ("Identity", (x,), {}),
    "to": lambda x, *rest: ("Identity", (x,), {}),
}
"""The operations of our nets in ONNX, by their names in torch and what they are called with there."""


def _attend(q: Tensor, k: Tensor, v: Tensor, enable_gqa: bool) -> Tensor:
    """Scaled dot-product attention (B, heads, L, depth), in which groups of heads may share keys and values."""
    q = q * q.shape[-1] ** -0.5
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    return (q @ k.transpose(2, 3)).softmax(-1) @ v


COMPOSITES: dict[str, Callable[..., Tensor]] = {
    "silu": lambda x, **rest: x * x.sigmoid(),
    "mish": lambda x, **rest: x * nn.functional.softplus(x).tanh(),
    "rms_norm": lambda x, shape, weight, eps: x / (x.square().mean((-1,), True) + eps).sqrt() * weight,
    "scaled_dot_product_attention": _attend,
}
"""Operations that are recorded as their parts."""


WEIGHED = ("Conv", "MatMul", "BatchNormalization")
"""The operators of which a layer has one at most: its node is named for the layer."""


class Tape(TorchFunctionMode):
    """Records what a net computes as nodes of ONNX. A table that a net narrows is narrowed to the size of the board."""

    def __init__(self, network: nn.Module, planes: Tensor):
        super().__init__()
        self.nodes: list[onnx.NodeProto] = []
        self.weights = {name: tensor for name, tensor in (*network.named_parameters(), *network.named_buffers())}
        self.names = {id(tensor): name for name, tensor in self.weights.items()} | {id(planes): "planes"}
        self._planes = planes
        self._results: list[Tensor] = []  # as long as they are there no other has the id of one

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = function.__name__.strip("_"), kwargs or {}
        if name in COMPOSITES:
            with self:
                return COMPOSITES[name](*args, **kwargs)
        result = function(*args, **kwargs)
        if isinstance(result, Tensor):
            self.names[id(result)] = self._note(name, args, kwargs)
            self._results.append(result)
        return result

    def _note(self, name: str, args: Any, kwargs: Any) -> str:
        """Add a node; returns the name of its output."""
        if name == "narrow":
            bounds = (np.array([0]), Dimensions(self._planes, 3), np.array([args[1]]))
            node: Node = "Slice", (args[0], *bounds), {}
        elif name == "repeat_interleave":
            x, times, axis = args
            node = "Gather", (x, np.arange(x.shape[axis]).repeat(times)), {"axis": axis}
        else:
            node = OPERATIONS[name](*args, **kwargs)
        kind, given, attributes = node
        inputs = [self._input(part) for part in given if part is not None]
        output = f"{kind} {len(self.nodes)}"
        weighed = [part for part in inputs if part in self.weights]
        named = weighed[-1].rpartition(".")[0] if weighed and kind in WEIGHED else output
        self.nodes.append(onnx.helper.make_node(kind, inputs, [output], named, **attributes))
        return output

    def _input(self, part: Any) -> str:
        if isinstance(part, Tensor):
            return self.names[id(part)]
        output = f"Constant {len(self.nodes)}"
        if isinstance(part, Dimensions):
            node = onnx.helper.make_node("Shape", [self._input(part.of)], [output], start=part.first, end=part.last)
        else:
            numbers = np.array(part, np.float32 if isinstance(part, float) else None)
            node = onnx.helper.make_node("Constant", [], [output], value=onnx.numpy_helper.from_array(numbers))
        self.nodes.append(node)
        return output


def write_model(
    network: Net, path: Path, planes: np.ndarray, weights: Path | None = None, heads: Collection[str] = Outputs._fields
) -> None:
    """Write ``network``, in evaluation mode, as ONNX in fp32, as far as ``heads`` need it; batch norms are folded into
    convolutions. ``planes`` (B, P, n, n) are any positions. With ``weights``, its safetensors file in the same folder,
    nothing is folded, and the model has its numbers from there instead of having them again."""
    net: Any = fold_batch_norms(network) if weights is None else network
    given, make = torch.from_numpy(planes[:2]), onnx.helper
    with torch.no_grad(), Tape(net, given) as tape:
        answer = net(given) if isinstance(net, Classic) else net(given, heads)
    outputs = {head: part for head, part in answer._asdict().items() if part is not None}
    ends = [make.make_node("Identity", [tape.names[id(part)]], [head]) for head, part in outputs.items()]
    shapes = {head: ["batch", *[None] * (part.ndim - 1)] for head, part in outputs.items()}
    used = {name for node in tape.nodes for name in node.input} & tape.weights.keys()
    graph = make.make_graph(
        [*tape.nodes, *ends],
        "net",
        [make.make_tensor_value_info("planes", FLOAT, ["batch", planes.shape[1], "size", "size"])],
        [make.make_tensor_value_info(head, FLOAT, shape) for head, shape in shapes.items()],
        [onnx.numpy_helper.from_array(array(tape.weights[name]), name) for name in sorted(used)],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", OPSET)], ir_version=8)
    make.set_model_props(model, PREPARED)
    if weights is not None:
        _point_to(weights, model)
    onnx.save(model, path)


def _point_to(weights: Path, model: onnx.ModelProto) -> None:
    """Have a model take its numbers from a safetensors file: a header behind its length in 8 bytes, then the numbers
    (the format's documentation); ONNX calls that external data."""
    with weights.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        places = json.loads(file.read(length))
    for number in model.graph.initializer:
        if number.name not in places:  # tables that were computed from weights
            continue
        begin, end = places[number.name]["data_offsets"]
        onnx.external_data_helper.set_external_data(number, weights.name, 8 + length + begin, end - begin)
        number.ClearField("raw_data")


class CalibrationPlanes(CalibrationDataReader):
    """Planes (B, P, n, n) as the quantiser takes them."""

    def __init__(self, planes: np.ndarray):
        self._batches: Iterator[np.ndarray] = iter(np.array_split(planes, max(1, len(planes) // 32)))

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(({"planes": batch} for batch in self._batches), None)


def quantise(exact: Path, path: Path, planes: np.ndarray) -> None:
    """Write the model at ``exact`` with int8 convolutions in its residual blocks or, of a classic net, its stack after
    the first, scaled by what ``planes`` give.

    Weights get 7 bits (``reduce_range``): with 8 the AVX2 instruction that adds pairs of products saturates at 16 bits,
    and sums would differ from those of a processor with VNNI (ONNX Runtime, "Quantize ONNX models").
    """
    nodes = onnx.load(exact).graph.node
    inner = [node for node in nodes if node.name.startswith(("tower.", "stack.")) and node.op_type == "Conv"]
    answers = {node.output[0] for node in inner if not node.name.endswith(NOT_IN_INT8)}
    quantize_static(
        exact,
        path,
        CalibrationPlanes(planes),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        nodes_to_quantize=[
            node.name for node in nodes if answers & {node.output[0], *(node.input if node.op_type == "Relu" else ())}
        ],
    )


def write_models(network: Net, folder: Path, calibration: np.ndarray | None, check: np.ndarray) -> dict[str, float]:
    """Write the ONNX files into ``folder``, which has the weights; without ``calibration`` none in int8. How they
    compare with torch:

    - fp32_difference: the largest of any logit from torch, relative to the largest logit where that is over 1;
    - int8_agreement: the share of positions where int8 and fp32 name the same likeliest move, or of points;
    - int8_win_rate_difference: the mean between the two, where a net has a value.

    A model in int8 that agrees too little isn't kept, with a warning in the log. Raises CheckpointError when fp32
    doesn't answer as torch does.
    """
    write_model(network, folder / MODEL, check, folder / WEIGHTS)
    with torch.no_grad():
        outputs = network(torch.from_numpy(check))._asdict()
    answers = {head: array(part) for head, part in outputs.items() if part is not None}
    exact = dict(zip(answers, OnnxModel(folder / MODEL, cores()).run(list(answers), check), strict=True))
    differences = [np.abs(part - exact[head]).max() / max(1.0, np.abs(part).max()) for head, part in answers.items()]
    difference = float(np.max(differences))  # NaN if one is
    if not difference < PARITY:
        raise CheckpointError(f"it differs from torch by {difference:.2g}, more than {PARITY:g}")
    measured = {"fp32_difference": float(f"{difference:.3g}")}
    if calibration is None:
        return measured
    with TemporaryDirectory() as aside:
        write_model(network, Path(aside) / MODEL, check)
        quantise(Path(aside) / MODEL, folder / MODEL_INT8, calibration)
    rough = dict(zip(answers, OnnxModel(folder / MODEL_INT8, cores()).run(list(answers), check), strict=True))
    choices = [found["policy"].argmax(1) if "policy" in found else found["ownership"] > 0 for found in (exact, rough)]
    measured["int8_agreement"] = float(f"{(choices[0] == choices[1]).mean():.3g}")
    if "value" in exact:
        one, other = (win_rates(torch.from_numpy(found["value"])) for found in (exact, rough))
        measured["int8_win_rate_difference"] = float(f"{float((one - other).abs().mean()):.3g}")
    if measured["int8_agreement"] < LEAST_AGREEMENT or measured.get("int8_win_rate_difference", 0.0) > INT8_TOLERANCE:
        (folder / MODEL_INT8).unlink()
        words = "%s: saved without int8, which agrees with fp32 on %.1f %% only, or win rates differ; it plays in fp32"
        logging.getLogger(__name__).warning(words, folder.name, 100 * measured["int8_agreement"])
    return measured


def export(
    network: Net, folder: Path, manifest: Manifest, calibration: np.ndarray | None, check: np.ndarray
) -> Checkpoint:
    """Save ``network`` as the checkpoint ``folder``, with the figures of ``write_models`` among the manifest's metrics.

    ``calibration`` and ``check`` are planes (B, P, n, n) of positions. Where no ONNX can be made of it, or one that
    doesn't answer as torch does, the weights are saved alone, with a warning in the log. Raises CheckpointError where
    nothing can be written, and leaves what was there.
    """

    def write(aside: Path) -> dict[str, float]:
        state = {name: tensor.detach().contiguous().clone() for name, tensor in network.eval().state_dict().items()}
        (aside / WEIGHTS).write_bytes(serialize(state))  # an OSError where it can't be written
        threads = torch.get_num_threads()
        torch.set_num_threads(cores())  # of this process
        try:
            return write_models(network, aside, calibration, check)
        except Exception as error:  # of any kind: a failed export must not lose the weights
            for model in (MODEL, MODEL_INT8):
                (aside / model).unlink(missing_ok=True)
            words = "%s: saved without ONNX (%s); torch plays it, which is slower on a processor"
            logging.getLogger(__name__).warning(words, folder.name, reason(error))
            return {}
        finally:
            torch.set_num_threads(threads)

    return save(folder, manifest, write)


def describe(network: Net, name: str, encoder: Encoder, rules: Rules, **known: Any) -> Manifest:
    """The manifest of a net that learned from games by ``rules``; ``known`` are its other fields."""
    only, now = getattr(network.config, "size", 0), datetime.now(UTC).isoformat(timespec="seconds")
    sizes, shape = (only or MIN_SIZE, only or MAX_SIZE, rules.size), asdict(network.config)
    return Manifest(name, shape, encoder.name, encoder.planes, *sizes, rules.name, rules.komi, created=now, **known)
