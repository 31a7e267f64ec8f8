"""Asking a net for policies and win rates with ONNX Runtime. No torch, no search, no caching of answers."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

import numpy as np
import onnxruntime

from arena import CheckpointError, ConfigError
from arena.go.planes import find_encoder
from bots.nets.checkpoint import MODEL_INT8, Checkpoint


class Precision(StrEnum):
    """What a net computes with."""

    AUTO = "auto"
    FP32 = "fp32"
    INT8 = "int8"


INT8_FLAGS = frozenset({"avx2", "avx512_vnni", "avx_vnni", "asimddp"})
"""Processor flags of the instructions that make int8 pay: VNNI or, as these nets have 7-bit weights, AVX2 on x86; dot
products on Arm. On AVX2 without VNNI, 6 blocks of 56 channels were 1.35 times as fast as in fp32 alone and 1.65 times
as fast in batches of 32."""


def has_fast_int8(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor has instructions that make int8 pay, by its own description; False where there is none."""
    try:
        words = cpuinfo.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return False
    return not INT8_FLAGS.isdisjoint(words)


class Evaluator:
    """A net ready to play, on one thread.

    The answer about a position is the same bit for bit whatever other positions are asked about in the same call, so a
    game doesn't depend on how many are played beside it. It may differ between processors and between precisions.
    """

    def __init__(self, checkpoint: Checkpoint, precision: str = Precision.AUTO):
        """Load the net. ``auto`` takes int8 where the processor is made for it and the checkpoint has it, else fp32: by
        the processor's flags and not by timing, so that the same machine always plays the same game. Raises
        CheckpointError for a net that can't be loaded, ConfigError for an unknown precision."""
        if precision not in tuple(Precision):
            raise ConfigError(f"unknown precision '{precision}'; there are {', '.join(Precision)}")
        if precision == Precision.AUTO:
            fast = has_fast_int8() and MODEL_INT8 in checkpoint.manifest.files
            precision = Precision.INT8 if fast else Precision.FP32
        self.checkpoint = checkpoint
        self.precision = Precision(precision)
        self.encoder = find_encoder(checkpoint.manifest.encoder)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        path = checkpoint.model(int8=self.precision is Precision.INT8)
        try:
            self._session = onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's own errors share no base class
            raise CheckpointError(f"{path}: ONNX Runtime can't load it ({error}); export the net again") from error

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Policy logits (B, n² + 1) float32 and win rates (B,) float32 in [0, 1], for the side to move.

        ``planes`` is (B, P, n, n) float32 by the encoder of the checkpoint's manifest. A draw is half a win.
        Raises CheckpointError for a size that the net can't play.
        """
        manifest = self.checkpoint.manifest
        size = planes.shape[-1]
        if planes.ndim != 4 or planes.shape[1] != manifest.planes or planes.shape[2] != size:
            raise CheckpointError(
                f"{manifest.name}: planes of shape {planes.shape} don't fit; it takes (B, {manifest.planes}, n, n)"
            )
        self.checkpoint.require_size(size)
        policy, value = self._session.run(["policy", "value"], {"planes": np.ascontiguousarray(planes, np.float32)})
        odds = np.exp(value.astype(np.float64) - value.max(1, keepdims=True))  # (B, 3): win, draw, loss
        win_rate = (odds[:, 0] + 0.5 * odds[:, 1]) / odds.sum(1)
        return policy, win_rate.astype(np.float32)
