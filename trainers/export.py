"""Exports a net as a checkpoint: ONNX in fp32 and int8, compared with torch. Board size and batch size stay free."""

import json
import logging
import struct
import warnings
from collections.abc import Collection, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from safetensors.torch import save as serialize
from torch import Tensor

from arena import CheckpointError
from arena.files import reason
from arena.go.coords import MAX_SIZE, MIN_SIZE
from arena.go.game import Rules
from arena.go.planes import Encoder
from arena.system import cores
from bots.nets.catalogue import Net
from bots.nets.checkpoint import MODEL, MODEL_INT8, WEIGHTS, Checkpoint, Manifest, save
from bots.nets.inference import INT8_TOLERANCE, OnnxModel
from bots.nets.network import Outputs, fold_batch_norms, win_rates

OPSET = 17
PARITY = 1e-4  # largest difference of a logit from torch, relative to the largest logit if that is over 1
LEAST_AGREEMENT = 0.7  # lowest int8_agreement that is kept; shipped nets have 0.96 to 0.98, random nets over 0.7
NOT_IN_INT8 = ("/stack.0/Conv", "/spread/Conv")  # suffixes of convolutions in blocks or stacks that stay in fp32
PREPARED = {"onnx.infer": "onnxruntime.quant", "onnx.quant.pre_process": "onnxruntime.quant"}
"""Properties without which the quantiser warns that the graph isn't folded, which torch has done."""


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().to(torch.float32).contiguous().numpy().copy()


def write_model(
    network: Net, path: Path, planes: np.ndarray, weights: Path | None = None, heads: Collection[str] = Outputs._fields
) -> None:
    """Write ``heads`` of ``network``, in evaluation mode, as ONNX in fp32. ``planes`` (B, P, n, n) are any positions.
    Batch norms are folded into convolutions, unless the model refers to ``weights``, a safetensors file in its folder.
    """
    net: Any = fold_batch_norms(network) if weights is None else network
    for head in {*Outputs._fields} - {*heads}:
        setattr(net, head, None)
    given = torch.from_numpy(planes[:2])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing, and of the older exporter
        torch.onnx.export(
            net,
            (given,),
            path,
            dynamo=False,  # the newer exporter needs onnxscript, and fixes the board size
            opset_version=OPSET,
            do_constant_folding=False,  # it renames weights
            input_names=["planes"],
            output_names=[head for head, part in net(given)._asdict().items() if part is not None],
            dynamic_axes={"planes": {0: "batch", 2: "size", 3: "size"}},
        )
    model = onnx.load(path)
    known = {number.name: number for number in model.graph.initializer}
    for node in [node for node in model.graph.node if node.op_type == "Identity" and node.input[0] in known]:
        model.graph.initializer.add().CopyFrom(known[node.input[0]])  # the exporter merged equal weights
        model.graph.initializer[-1].name = node.output[0]
        model.graph.node.remove(node)
    onnx.helper.set_model_props(model, PREPARED)
    if weights is not None:
        _point_to(weights, model)
    onnx.save(model, path)


def _point_to(weights: Path, model: onnx.ModelProto) -> None:
    """Make a model refer to the numbers in a safetensors file (8 bytes with the length of a header, the header, the
    numbers) as ONNX external data."""
    with weights.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        places = json.loads(file.read(length))
    for number in model.graph.initializer:
        if number.name not in places:  # a table computed from weights
            continue
        begin, end = places[number.name]["data_offsets"]
        onnx.external_data_helper.set_external_data(number, weights.name, 8 + length + begin, end - begin)
        number.ClearField("raw_data")


class CalibrationPlanes(CalibrationDataReader):
    """Planes (B, P, n, n) for the quantiser."""

    def __init__(self, planes: np.ndarray):
        self._batches: Iterator[np.ndarray] = iter(np.array_split(planes, max(1, len(planes) // 32)))

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(({"planes": batch} for batch in self._batches), None)


def quantise(exact: Path, path: Path, planes: np.ndarray) -> None:
    """Write the model at ``exact`` with int8 convolutions in its residual blocks, or the stack of a classic net, with
    fixed scales from ``planes``.

    Weights get 7 bits (``reduce_range``): with 8, AVX2 saturates at 16 bits when it adds pairs of products, and results
    differ from those of a processor with VNNI (ONNX Runtime, "Quantize ONNX models").
    """
    nodes = onnx.load(exact).graph.node
    inner = [node for node in nodes if node.name.startswith(("/tower.", "/stack.")) and node.op_type == "Conv"]
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
    """Write the ONNX files into ``folder``, which has the weights; int8 only with ``calibration``. Returns

    - fp32_difference: the largest difference of a logit from torch, relative to the largest logit if that is over 1;
    - int8_agreement: the share of positions with the same best move in int8 and fp32, or of points with one owner;
    - int8_win_rate_difference: the mean difference of win rates between int8 and fp32, if the net has a value.

    Drops an inexact int8 model, with a warning in the log. Raises CheckpointError if fp32 differs from torch.
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

    ``calibration`` and ``check`` are planes (B, P, n, n). If the export to ONNX fails, saves the weights alone, with a
    warning in the log. Raises CheckpointError, and changes nothing, if the folder can't be written.
    """

    def write(aside: Path) -> dict[str, float]:
        state = {name: tensor.detach().contiguous().clone() for name, tensor in network.eval().state_dict().items()}
        (aside / WEIGHTS).write_bytes(serialize(state))
        threads = torch.get_num_threads()
        torch.set_num_threads(cores())
        try:
            return write_models(network, aside, calibration, check)
        except Exception as error:  # any: a failed export must not lose the weights
            for model in (MODEL, MODEL_INT8):
                (aside / model).unlink(missing_ok=True)
            words = "%s: saved without ONNX (%s); torch plays it, which is slower on a processor"
            logging.getLogger(__name__).warning(words, folder.name, reason(error))
            return {}
        finally:
            torch.set_num_threads(threads)

    return save(folder, manifest, write)


def manifest_of(network: Net, name: str, encoder: Encoder, rules: Rules, **known: Any) -> Manifest:
    """The manifest of a net trained on games by ``rules``; ``known`` are other fields."""
    only, now = getattr(network.config, "size", 0), datetime.now(UTC).isoformat(timespec="seconds")
    sizes, shape = (only or MIN_SIZE, only or MAX_SIZE, rules.size), asdict(network.config)
    return Manifest(name, shape, encoder.name, encoder.planes, *sizes, rules.name, rules.komi, created=now, **known)
