"""A trained net as a checkpoint: ONNX in fp32 and int8, checked against torch.

Board size and batch stay free. The convolutions of the blocks are quantised to int8 with fixed scales; the rest, a
twentieth of the work, stays in fp32, and so does the residual stream.
"""

from __future__ import annotations

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
PARITY = 1e-4
"""How far a logit of the exported net may be from torch, relative to the largest logit where that is over 1."""
LEAST_AGREEMENT = 0.7
"""What int8_agreement must be for a model in int8 to be kept. Of the nets that ship it is 0.96 to 0.98; nets of random
weights, whose moves are close, are still above this."""
NOT_IN_INT8 = ("/stack.0/Conv", "/spread/Conv")
"""How the names of convolutions end that stay in fp32, though they are of a block or a stack."""
PREPARED = {"onnx.infer": "onnxruntime.quant", "onnx.quant.pre_process": "onnxruntime.quant"}
"""Tells the quantiser that torch has already folded the graph; otherwise it logs a warning."""


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().to(torch.float32).contiguous().numpy().copy()


def write_model(
    network: Net, path: Path, planes: np.ndarray, weights: Path | None = None, heads: Collection[str] = Outputs._fields
) -> None:
    """Write ``network``, in evaluation mode, as ONNX in fp32, as far as ``heads`` need it; batch norms are folded into
    convolutions. ``planes`` (B, P, n, n) are any positions. With ``weights``, its safetensors file in the same folder,
    nothing is folded, and the model has its numbers from there instead of having them again."""
    net: Any = fold_batch_norms(network) if weights is None else network
    for head in {*Outputs._fields} - {*heads}:
        setattr(net, head, None)
    given = torch.from_numpy(planes[:2])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing: sizes that are fixed, and that this exporter is the older one
        torch.onnx.export(
            net,
            (given,),
            path,
            dynamo=False,  # the newer one needs onnxscript, and can't leave the size of the board free
            opset_version=OPSET,
            do_constant_folding=False,  # which would rename weights
            input_names=["planes"],
            output_names=[head for head, part in net(given)._asdict().items() if part is not None],
            dynamic_axes={"planes": {0: "batch", 2: "size", 3: "size"}},
        )
    model = onnx.load(path)
    known = {number.name: number for number in model.graph.initializer}
    for node in [node for node in model.graph.node if node.op_type == "Identity" and node.input[0] in known]:
        model.graph.initializer.add().CopyFrom(known[node.input[0]])  # weights that are alike were made one
        model.graph.initializer[-1].name = node.output[0]
        model.graph.node.remove(node)
    onnx.helper.set_model_props(model, PREPARED)
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
