"""Asking a net for policies and win rates, with ONNX Runtime or on a GPU. No search, no caching of answers."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Protocol

import numpy as np
import onnxruntime
from safetensors.numpy import load_file

from arena import CheckpointError, ConfigError
from arena.contract.bot import RawNN
from arena.files import reason
from arena.go.coords import symmetry_table
from arena.go.game import Game, Rules
from arena.go.kernels import random_move
from arena.go.planes import Encoder, encode_game, encode_games, find_encoder
from bots.nets import vnni
from bots.nets.checkpoint import MODEL_INT8, Checkpoint, has_fast_int8
from bots.nets.packing import pack


class Precision(StrEnum):
    """What a net computes with."""

    AUTO = "auto"
    FP32 = "fp32"
    INT8 = "int8"
    BF16 = "bf16"


POLICY, VALUE, OWNERSHIP = "policy", "value", "ownership"
"""What is asked of a net; it may have more to say."""

ASKED = 8
"""Positions on which int8 is compared with fp32 when a net is loaded."""

RANGES = "ranges"
"""Names what a model in int8 tells of the same net packed: how large the numbers in it become."""

DOUBT = 0.05
"""How far int8 may be from fp32: in the mean over the positions of the win rate, and in the share of the variance of
the logits. Of sl-9x9 they are 0.004 and 0.001."""


def errors_of_int8(exact: tuple[np.ndarray, np.ndarray], rough: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """How far int8 is from fp32, for ``DOUBT``; both are what ``Evaluator.evaluate`` returns of the same positions."""
    noise = (rough[0] - exact[0]).var(1).mean() / exact[0].var(1).mean()
    return float(noise), 0.0 if np.isnan(exact[1]).all() else float(np.abs(rough[1] - exact[1]).mean())


def sample_planes(encoder: Encoder, size: int) -> np.ndarray:
    """(ASKED, planes, size, size): always the same positions, of random games at different lengths."""
    planes = []
    for number in range(ASKED):
        game = Game(Rules.preset("cgos", size), seed=number)
        while len(game.moves) < number * size * size // (ASKED + 1) and not game.is_over:
            hashes, colour = game.hashes, int(game.to_play)
            game.play(random_move(game.board.array, 0, colour, hashes, len(hashes), True, game.move_seed()))
        planes.append(encode_game(encoder, game))
    return np.stack(planes)


class Model(Protocol):
    """What computes a net's answers."""

    outputs: set[str]
    """What it can be asked for: "policy", "value", "ownership"."""

    def run(self, asked: Sequence[str], planes: np.ndarray) -> list[np.ndarray]:
        """What is asked for about ``planes`` (B, P, n, n) float32, each of it (B, ...) float32."""
        ...


class OnnxModel:
    """A net in ONNX Runtime on the processor. What it says of a position is the same bit for bit whatever else it is
    asked in the same call."""

    outputs: set[str]

    def __init__(self, path: Path, threads: int):
        """Raises CheckpointError for a file that can't be loaded."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        self._path = path
        with self._in_one_line("load"):
            self._session = onnxruntime.InferenceSession(
                os.fspath(path), options, providers=["CPUExecutionProvider"], enable_fallback=0
            )  # a fallback prints
            self.outputs = {output.name for output in self._session.get_outputs()}
            self.ranges: list[float] = json.loads(self._session.get_modelmeta().custom_metadata_map.get(RANGES, "[]"))

    def run(self, asked: Sequence[str], planes: np.ndarray) -> list[np.ndarray]:
        with self._in_one_line("run"):
            answers: list[np.ndarray] = self._session.run(list(asked), {"planes": planes})
        return answers

    @contextmanager
    def _in_one_line(self, does: str) -> Iterator[None]:
        """Whatever ONNX Runtime raises becomes a CheckpointError: its own errors share no base class."""
        try:
            yield
        except Exception as error:
            words = f"{self._path}: ONNX Runtime can't {does} it ({reason(error)}); export the net again"
            raise CheckpointError(words) from error


class PackedModel:
    """A net in int8 on a processor with AVX-512 VNNI. Other heads than policy and value are those of ``rest``."""

    def __init__(self, arrays: Mapping[str, np.ndarray], rest: Model | None = None):
        self.outputs = {POLICY, VALUE} | (rest.outputs if rest else set())
        self._arrays, self._rest = arrays, rest
        self._nets: dict[int, vnni.Packed] = {}  # by size

    @classmethod
    def of(cls, checkpoint: Checkpoint, rest: OnnxModel) -> PackedModel:
        """Raises CheckpointError for weights that can't be packed."""
        try:
            return cls(pack(load_file(checkpoint.weights), rest.ranges), rest)
        except Exception as error:
            words = f"{checkpoint.weights}: can't be packed ({reason(error)}); export the net again"
            raise CheckpointError(words) from error

    def run(self, asked: Sequence[str], planes: np.ndarray) -> list[np.ndarray]:
        if self._rest is not None and not {POLICY, VALUE}.issuperset(asked):
            return self._rest.run(asked, planes)
        size = planes.shape[-1]
        if size not in self._nets:
            self._nets[size] = vnni.lay_out(self._arrays, size)
        found = dict(zip((POLICY, VALUE), vnni.evaluate(self._nets[size], planes), strict=True))
        return [found[name] for name in asked]


class Evaluator:
    """A net ready to play, on one thread unless more are asked for.

    The answer about a position is the same bit for bit whatever other positions are asked about in the same call, so a
    game doesn't depend on how many are played beside it; not so in bfloat16. It may differ between processors and
    between precisions.
    """

    def __init__(self, checkpoint: Checkpoint, precision: str = Precision.AUTO, threads: int = 1):
        """Load the net. ``auto`` takes int8 where the processor is made for it and the checkpoint has it, else fp32: by
        the processor's flags and not by timing, so that the same machine always plays the same game. Where int8 doesn't
        compute here what fp32 does, ``auto`` takes fp32 with a warning in the log, and ``int8`` is refused. ``bf16`` is
        for a GPU. Raises CheckpointError for a net that can't be loaded so or has no policy, ConfigError for an unknown
        precision."""
        if precision not in tuple(Precision):
            raise ConfigError(f"unknown precision '{precision}'; there are {', '.join(Precision)}")
        self.checkpoint = checkpoint
        self.encoder = find_encoder(checkpoint.manifest.encoder)
        self._threads = threads
        self.precision = Precision(precision)
        if self.precision is Precision.AUTO:
            fast = has_fast_int8() and MODEL_INT8 in checkpoint.manifest.files
            self.precision = Precision.INT8 if fast else Precision.FP32
        self._model = self._load(self.precision)
        checkpoint.require(POLICY)
        self.has_value, self.has_ownership = VALUE in self._model.outputs, OWNERSHIP in self._model.outputs
        if self.precision is Precision.INT8:
            self._doubt(may_change=precision == Precision.AUTO)
        else:
            self.evaluate(sample_planes(self.encoder, checkpoint.manifest.size))

    def _load(self, precision: Precision) -> Model:
        if precision is Precision.INT8 or (precision is Precision.FP32 and self.checkpoint.has_model):
            model = OnnxModel(self.checkpoint.model(int8=precision is Precision.INT8), self._threads)
            packs = bool(model.ranges) and vnni.is_supported() and self._threads == 1
            return PackedModel.of(self.checkpoint, model) if packs else model
        self.checkpoint.require_precision(precision)
        from bots.nets.gpu import TorchModel  # torch is heavy, and may not be there

        return TorchModel.of(self.checkpoint, bf16=precision is Precision.BF16)

    def _doubt(self, may_change: bool) -> None:
        """Go back to fp32 where int8 answers something else: a processor may saturate where others don't. Raises
        CheckpointError where it may not."""
        planes = sample_planes(self.encoder, self.checkpoint.manifest.size)
        rough, int8 = self.evaluate(planes), self._model
        self.precision, self._model = Precision.FP32, self._load(Precision.FP32)
        noise, apart = errors_of_int8(self.evaluate(planes), rough)
        if noise <= DOUBT and apart <= DOUBT:
            self.precision, self._model = Precision.INT8, int8
            return
        words = (
            f"{self.checkpoint.manifest.name}: int8 differs from fp32 on this processor "
            f"(logits by {100 * noise:.0f} %, win rates by {apart:.2f})"
        )
        if not may_change:
            raise CheckpointError(f"{words}; use precision=fp32")
        logging.getLogger(__name__).warning("%s; it plays in fp32", words)

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Policy logits (B, n² + 1) float32 and win rates (B,) float32 in [0, 1], for the side to move.

        ``planes`` is (B, P, n, n) float32 by the encoder of the checkpoint's manifest. A draw is half a win. The win
        rates of a net without a value are NaN.
        Raises CheckpointError for a size that the net can't play.
        """
        given = self._checked(planes)
        moves = given.shape[-1] ** 2 + 1
        if not self.has_value:
            (policy,) = self._model.run([POLICY], given)
            self._require_numbers(policy, given, POLICY, moves)
            return policy, np.full(len(policy), np.nan, np.float32)
        policy, value = self._model.run([POLICY, VALUE], given)
        self._require_numbers(policy, given, POLICY, moves)
        self._require_numbers(value, given, VALUE, 3)
        odds = np.exp(value.astype(np.float64) - value.max(1, keepdims=True))  # (B, 3): win, draw, loss
        win_rate = (odds[:, 0] + 0.5 * odds[:, 1]) / odds.sum(1)
        return policy, win_rate.astype(np.float32)

    def _require_numbers(self, answer: np.ndarray, given: np.ndarray, what: str, columns: int) -> None:
        """Raise CheckpointError for an answer of another shape, or one that isn't of finite numbers: a sum tells."""
        if (
            getattr(answer, "dtype", None) != np.float32
            or answer.shape != (len(given), columns)
            or not isfinite(answer.sum(dtype=np.float64))
        ):
            raise CheckpointError(
                f"{self.checkpoint.manifest.name}: its {what} must be {columns} finite numbers a position"
            )

    def ownership(self, planes: np.ndarray) -> np.ndarray:
        """Whose each point will be: (B, n²) float32 in [-1, 1], positive for the side to move.

        ``planes`` are those of ``evaluate``, which raises the same. Only a net that ``has_ownership`` can be asked.
        """
        given = self._checked(planes)
        (logits,) = self._model.run([OWNERSHIP], given)
        self._require_numbers(logits, given, OWNERSHIP, given.shape[-1] ** 2)
        return np.tanh(logits / 2)

    def raw_nn(self, games: Sequence[Game], symmetry: int = 0) -> list[RawNN]:
        """The outputs for each of these positions, which are of one size, evaluated under a symmetry. Raises
        CheckpointError."""
        planes = encode_games(self.encoder, games, symmetry)
        table = symmetry_table(games[0].rules.size)[symmetry]
        logits, win_rates = self.evaluate(planes)
        owners = self.ownership(planes)[:, table[:-1]] if self.has_ownership else [None] * len(games)
        found = []
        for game, row, win_rate, points in zip(games, logits[:, table], win_rates, owners, strict=True):
            odds = np.where(game.legal_moves(), np.exp(row.astype(np.float64) - row.max()), 0.0)
            found.append(RawNN(odds / odds.sum(), float(win_rate), points))
        return found

    def _checked(self, planes: np.ndarray) -> np.ndarray:
        """The planes as a model takes them. Raises CheckpointError for planes that the net can't take."""
        manifest = self.checkpoint.manifest
        size = planes.shape[-1]
        if planes.ndim != 4 or planes.shape[1] != manifest.planes or planes.shape[2] != size:
            raise CheckpointError(
                f"{manifest.name}: planes of shape {planes.shape} don't fit; it takes (B, {manifest.planes}, n, n)"
            )
        self.checkpoint.require_size(size)
        return np.ascontiguousarray(planes, np.float32)
