"""Nets beside the bare ONNX Runtime and, where it is installed, OpenVINO."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np
import onnxruntime

from arena.go.planes import find_encoder
from benchmarks.measure import interleaved, report, timed
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.inference import Evaluator, Precision, sample_planes

try:
    import openvino
except ImportError:
    openvino = None

Ask = Callable[[np.ndarray], object]


def _onnx_runtime(model: Path, planes: np.ndarray) -> Ask:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(os.fspath(model), options, providers=["CPUExecutionProvider"])
    return lambda planes: session.run(["policy", "value"], {"planes": planes})


def _openvino(model: Path, planes: np.ndarray) -> Ask:
    """For batches of this shape only, which is what makes it fast."""
    net = openvino.Core().read_model(model)
    net.reshape(list(planes.shape))
    options = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    request = openvino.Core().compile_model(net, "CPU", options).create_infer_request()
    return lambda planes: request.infer({0: planes})


def nets(share: float, name: str = "distilled-9x9") -> None:
    """Evaluations a second with planes ready, beside others on the same batch and model with one thread."""
    checkpoint = Checkpoint.open(find(name))
    evaluator = Evaluator(checkpoint)
    model = checkpoint.model(int8=evaluator.precision is Precision.INT8)
    others = {"ONNX Runtime": _onnx_runtime} | ({} if openvino is None else {"OpenVINO": _openvino})
    sample = sample_planes(find_encoder(checkpoint.manifest.encoder), 9)
    for batch in (1, 8, 32, 64):
        planes = np.resize(sample, (batch, *sample.shape[1:]))
        count = max(1, int(share * max(4, 256 // batch)))

        def speed(ask: Ask, planes: np.ndarray = planes, count: int = count) -> Callable[[int], float]:
            def asked() -> int:
                return len([ask(planes) for _ in range(count)]) * len(planes)

            return lambda seed: timed(asked, process_time)

        for title, begin in others.items():
            what = f"evaluations, {name} ({evaluator.precision}), batches of {batch}"
            ratio = interleaved(speed(evaluator.evaluate), speed(begin(model, planes)), rounds=11)
            report(what, "/s", *ratio, title)
