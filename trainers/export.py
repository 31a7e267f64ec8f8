"""A trained net as a checkpoint: ONNX in fp32 and int8, checked against torch. No training.

Board size and batch stay free. The convolutions of the blocks are quantised to int8 with fixed scales; the rest, a
twentieth of the work, stays in fp32, and so does the residual stream.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from safetensors.torch import save_file
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from arena import CheckpointError
from arena.go.game import Rules
from arena.go.moves import MAX_SIZE, MIN_SIZE
from arena.go.planes import Encoder
from bots.nets.catalogue import Net
from bots.nets.checkpoint import MODEL, MODEL_INT8, WEIGHTS, Checkpoint, Manifest, save
from bots.nets.network import win_rates

OPSET = 17
PARITY = 1e-4
"""How far a logit of the exported net may be from torch, relative to the largest logit where that is over 1."""
PREPARED = {"onnx.infer": "onnxruntime.quant", "onnx.quant.pre_process": "onnxruntime.quant"}
"""Tells the quantiser that torch has already folded the graph; otherwise it logs a warning."""


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().to(torch.float32).contiguous().numpy().copy()


def write_model(network: Net, path: Path, planes: np.ndarray) -> None:
    """Write ``network``, in evaluation mode, as ONNX in fp32; batch normalisation is folded into convolutions.
    ``planes`` (B, P, n, n) are any positions."""
    given = torch.from_numpy(planes[:2])
    with torch.no_grad():
        outputs = [name for name, part in network(given)._asdict().items() if part is not None]
    free: dict[str, dict[int, str]] = {name: {0: "batch"} for name in outputs}
    free["planes"] = {0: "batch", 2: "size", 3: "size"}
    with warnings.catch_warnings(), _disable_current_modes():  # a dispatch mode would hide operations from the trace
        warnings.simplefilter("ignore")  # the exporter through TorchScript is deprecated; the other folds no norms
        torch.onnx.export(
            network,
            (given,),
            path,
            dynamo=False,
            opset_version=OPSET,
            input_names=["planes"],
            output_names=outputs,
            dynamic_axes=free,
        )
    model = onnx.load(path)
    onnx.helper.set_model_props(model, PREPARED)
    onnx.save(model, path)


class Positions(CalibrationDataReader):
    """Planes (B, P, n, n) as the quantiser takes them."""

    def __init__(self, planes: np.ndarray):
        self._batches: Iterator[np.ndarray] = iter(np.array_split(planes, max(1, len(planes) // 32)))

    def get_next(self) -> dict[str, np.ndarray] | None:
        batch = next(self._batches, None)
        return None if batch is None else {"planes": batch}


def quantise(exact: Path, path: Path, planes: np.ndarray) -> None:
    """Write the model at ``exact`` with int8 convolutions in its blocks, scaled by what ``planes`` give.

    Weights get 7 bits (``reduce_range``): with 8 the AVX2 instruction that adds pairs of products saturates at 16 bits,
    and sums would differ from those of a processor with VNNI (ONNX Runtime, "Quantize ONNX models").
    """
    nodes = onnx.load(exact).graph.node
    blocks = [node for node in nodes if node.op_type == "Conv" and _is_in_a_block(node)]
    answers = {node.output[0] for node in blocks}
    activations = [node for node in nodes if node.op_type == "Relu" and node.input[0] in answers]
    quantize_static(
        exact,
        path,
        Positions(planes),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        nodes_to_quantize=[node.name for node in (*blocks, *activations)],
    )


def _is_in_a_block(node: onnx.NodeProto) -> bool:
    """Whether a convolution is one of a residual block or, in a classic net, one of its stack after the first."""
    width = next(one.ints[0] for one in node.attribute if one.name == "kernel_shape")
    return width > 1 and ("tower." in node.name or ("stack." in node.name and "stack.0/" not in node.name))


def run_model(model: Path, planes: np.ndarray) -> dict[str, np.ndarray]:
    """All outputs of an ONNX model for ``planes`` (B, P, n, n), by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"planes": planes}), strict=True))


@dataclass(frozen=True, slots=True)
class Parity:
    """How the exported nets compare with torch."""

    fp32_difference: float
    """The largest difference of any logit from torch, relative to the largest logit where that is over 1."""
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
    write_model(network, folder / MODEL, check)
    quantise(folder / MODEL, folder / MODEL_INT8, calibration)
    with torch.no_grad():
        said = network(torch.from_numpy(check))._asdict()
    exact = run_model(folder / MODEL, check)
    answers = {name: array(part) for name, part in said.items() if part is not None}
    difference = max(
        float(np.abs(part - exact[name]).max() / max(1.0, np.abs(part).max())) for name, part in answers.items()
    )
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
