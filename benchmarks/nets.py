"""Nets beside the bare ONNX Runtime."""

from __future__ import annotations

import os
from time import process_time

import numpy as np
import onnxruntime

from arena.go.game import Game, Rules
from arena.go.planes import encode_game
from benchmarks.measure import interleaved, report, timed
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.inference import Evaluator, Precision


def nets(name: str = "sl-9x9") -> None:
    """Evaluations a second with planes ready, beside ``session.run`` on the same batch with the same options."""
    checkpoint = Checkpoint.open(find(name))
    evaluator = Evaluator(checkpoint)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    model = os.fspath(checkpoint.model(int8=evaluator.precision is Precision.INT8))
    bare = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    game = Game(Rules.preset())
    for batch in (1, 32):
        planes = np.stack([encode_game(evaluator.encoder, game)] * batch)  # (B, planes, n, n)
        count = 256 // batch

        def ours(seed: int, planes: np.ndarray = planes, count: int = count) -> float:
            return timed(
                lambda: (len([evaluator.evaluate(planes) for _ in range(count)]), count * len(planes))[1], process_time
            )

        def theirs(seed: int, planes: np.ndarray = planes, count: int = count) -> float:
            feed = {"planes": planes}
            return timed(
                lambda: (len([bare.run(None, feed) for _ in range(count)]), count * len(planes))[1], process_time
            )

        what = f"{name} ({evaluator.precision}), batches of {batch}"
        report(f"evaluations, {what}", "/s", *interleaved(ours, theirs, rounds=11), "bare ONNX Runtime")
