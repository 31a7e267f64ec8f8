"""Evaluates positions with a net, in ONNX Runtime, in our int8 kernel or in torch."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import onnxruntime

from arena import CheckpointError, ConfigError
from arena.contract.bot import RawNN
from arena.files import reason
from arena.go.coords import symmetry_table
from arena.go.game import Game, Rules
from arena.go.jit import compile_together
from arena.go.planes import Encoder, encode_game, encode_games, find_encoder
from arena.go.ranks import UNRANKED
from bots.nets import int8
from bots.nets.checkpoint import MODEL_INT8, SCORE_UNIT, Checkpoint, Precision, has_fast_int8, has_own_kernel

if TYPE_CHECKING:
    from bots.nets.gpu import TorchModel

POLICY, VALUE, OWNERSHIP, SCORE = "policy", "value", "ownership", "score"
SAMPLES = 8  # positions on which int8 is compared with fp32 when a net is loaded

# The largest errors of int8: the mean difference of win rates from fp32, and the noise in the logits as a share of
# their variance. For sl-9x9 they are 0.004 and 0.001.
INT8_TOLERANCE = 0.05


def errors_of_int8(exact: tuple[np.ndarray, np.ndarray], rough: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """(noise in logits, difference of win rates) of int8, for ``INT8_TOLERANCE``, from outputs of
    ``Evaluator.evaluate``."""
    noise = (rough[0] - exact[0]).var(1).mean() / exact[0].var(1).mean()
    return float(noise), 0.0 if np.isnan(exact[1]).all() else float(np.abs(rough[1] - exact[1]).mean())


def sample_planes(encoder: Encoder, size: int) -> np.ndarray:
    """(SAMPLES, planes, size, size): fixed positions of random games at different lengths."""
    planes = []
    for number in range(SAMPLES):
        game = Game(Rules.preset("cgos", size), seed=number)
        while len(game.moves) < number * size * size // (SAMPLES + 1) and not game.is_over:
            game.play(game.random_move())
        planes.append(encode_game(encoder, game))
    return np.stack(planes)


class OnnxModel:
    """A net in ONNX Runtime. Its outputs for a position don't depend on the rest of the batch, bit for bit."""

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

    def run(self, heads: Sequence[str], planes: np.ndarray) -> list[np.ndarray]:
        """The outputs of these heads for ``planes`` (B, P, n, n) float32, each (B, ...) float32."""
        with self._in_one_line("run"):
            outputs: list[np.ndarray] = self._session.run(list(heads), {"planes": planes})
        return outputs

    @contextmanager
    def _in_one_line(self, does: str) -> Iterator[None]:
        """Turn exceptions of ONNX Runtime, which share no base class, into CheckpointError."""
        try:
            yield
        except Exception as error:
            words = f"{self._path}: ONNX Runtime can't {does} it ({reason(error)}); export the net again"
            raise CheckpointError(words) from error


Model: TypeAlias = "OnnxModel | int8.PackedModel | TorchModel"


def win_rates_of(value: np.ndarray) -> np.ndarray:
    """Win rates (B,) float32 from the logits of win, draw and loss (B, 3)."""
    odds = np.exp(value.astype(np.float64) - value.max(1, keepdims=True))
    return cast(np.ndarray, ((odds[:, 0] + 0.5 * odds[:, 1]) / odds.sum(1)).astype(np.float32))


class Evaluator:
    """A net ready to play. Except in bfloat16, the outputs for a position don't depend on the rest of the batch, bit
    for bit, so that a game doesn't depend on other games. They may differ between processors and precisions."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        precision: str = Precision.AUTO,
        threads: int = 1,
        ranks: tuple[int, int] = (UNRANKED, UNRANKED),
        kernels: Callable[[Game, Evaluator], Mapping[str, Callable[[], object]]] | None = None,
    ):
        """Load the net. ``auto`` is int8 if it is faster by the processor's flags (not by timing, so that a machine
        always plays the same game) and agrees with fp32; else fp32. ``ranks``, of the side to move and its opponent,
        are for an encoder that ``has_players``. ``kernels`` returns more calls for ``compile_together``. Raises
        CheckpointError for a net that can't be loaded or has no policy, ConfigError for an unknown precision."""
        if precision not in tuple(Precision):
            raise ConfigError(f"unknown precision '{precision}'; there are {', '.join(Precision)}")
        self.checkpoint = checkpoint
        self.encoder = find_encoder(checkpoint.manifest.encoder)
        self._threads, self._ranks = threads, ranks
        self.precision = Precision(precision)
        if self.precision is Precision.AUTO:
            fast = checkpoint.packs or (has_fast_int8() and MODEL_INT8 in checkpoint.manifest.files)
            self.precision = Precision.INT8 if fast else Precision.FP32
        checkpoint.require(POLICY)
        self._model = self._load(self.precision)
        # The score head of KataGo's nets is better than the sum of ownership; for our nets this isn't known.
        self._heads = {*self._model.outputs} - ({SCORE} if not checkpoint.manifest.family else set())
        self.has_value, self.has_ownership = VALUE in self._heads, OWNERSHIP in self._heads
        size = checkpoint.manifest.size
        game, blank = Game(Rules.preset("cgos", size)), np.zeros((1, self.encoder.planes, size, size), np.float32)
        net = {self.encoder.name: lambda: self.encode([game]), "net": lambda: self.evaluate(blank)}
        rules = {"random": game.random_move, "sensible": game.sensible_moves, "play": lambda: game.play(size**2)}
        compile_together({**net, **(kernels(game, self) if kernels else {}), **rules})
        samples = sample_planes(self.encoder, size)
        found = self.evaluate(samples)
        if self.precision is Precision.INT8:
            self._check_int8(samples, found, may_change=precision == Precision.AUTO)

    def _load(self, precision: Precision) -> Model:
        if precision is Precision.INT8 and self.checkpoint.packs:
            return int8.PackedModel.of(self.checkpoint)
        own = self.checkpoint.manifest.family == "" and has_own_kernel() and self._threads == 1
        if precision is Precision.INT8 and own:
            with suppress(int8.Unfit):
                return int8.PackedModel.of(self.checkpoint)
        if precision is Precision.INT8 or (precision is Precision.FP32 and self.checkpoint.has_model):
            return OnnxModel(self.checkpoint.model(int8=precision is Precision.INT8), self._threads)
        self.checkpoint.require_precision(precision)
        from bots.nets.gpu import TorchModel  # torch is heavy, and may not be there

        return TorchModel.of(self.checkpoint, bf16=precision is Precision.BF16)

    def _check_int8(self, planes: np.ndarray, rough: tuple[np.ndarray, np.ndarray], may_change: bool) -> None:
        """Change to fp32 if the outputs of int8 for these planes, ``rough``, differ, as on a processor that saturates.
        Raises CheckpointError then, unless ``may_change``."""
        model = self._model
        self.precision, self._model = Precision.FP32, self._load(Precision.FP32)
        noise, apart = errors_of_int8(self.evaluate(planes), rough)
        if max(noise, apart) <= INT8_TOLERANCE:
            self.precision, self._model = Precision.INT8, model
            return
        words = f"{self.checkpoint.manifest.name}: int8 differs from fp32 on this processor "
        words += f"(logits by {100 * noise:.0f} %, win rates by {apart:.2f})"
        if not may_change:
            raise CheckpointError(f"{words}; use precision=fp32")
        logging.getLogger(__name__).warning("%s; it plays in fp32", words)

    def encode(self, games: Sequence[Game], symmetry: int = 0) -> np.ndarray:
        """The planes (B, P, n, n) of the present positions of games on boards of one size, under a symmetry."""
        return encode_games(self.encoder, games, symmetry, self._ranks)

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Policy logits (B, n² + 1) and win rates (B,) in [0, 1], a draw being half a win, NaN without a value head;
        both float32, of the side to move, for ``planes`` (B, P, n, n) float32. Raises CheckpointError for a size that
        the net can't play."""
        policy, win_rates, *_ = self.evaluate_all(planes, (POLICY, VALUE))
        return policy, win_rates

    def evaluate_all(
        self, planes: np.ndarray, wanted: Sequence[str] = (POLICY, VALUE, OWNERSHIP, SCORE)
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """The results of ``evaluate`` and ``ownership``, and the lead of the side to move in points (B,) float64, komi
        counted; None for heads that the net lacks or that aren't ``wanted``."""
        found = self._run(planes, [head for head in wanted if head in self._heads or head == POLICY])
        none = np.full(len(planes), np.nan, np.float32)
        return (
            found[POLICY],
            win_rates_of(found[VALUE]) if VALUE in found else none,
            np.tanh(found[OWNERSHIP] / 2) if OWNERSHIP in found else None,
            SCORE_UNIT * found[SCORE].astype(np.float64) if SCORE in found else None,
        )

    def packed(self, size: int) -> int8.Packed | None:
        """The net as ``search.search`` takes it; None where it doesn't run in that kernel. Raises CheckpointError for a
        size that the net can't play."""
        self.checkpoint.require_size(size)
        fits = self.has_value and self.encoder.in_search and isinstance(self._model, int8.PackedModel)
        return cast(int8.PackedModel, self._model).packed(size) if fits else None

    def ownership(self, planes: np.ndarray) -> np.ndarray:
        """(B, n²) float32 in [-1, 1]: the predicted owner of each point, positive for the side to move. Only for a net
        that ``has_ownership``. Raises as ``evaluate``."""
        return np.tanh(self._run(planes, [OWNERSHIP])[OWNERSHIP] / 2)

    def raw_nn(self, games: Sequence[Game], symmetry: int = 0) -> list[RawNN]:
        """The outputs for these positions of one size, evaluated under a symmetry. Raises CheckpointError."""
        planes = self.encode(games, symmetry)
        table = symmetry_table(games[0].rules.size)[symmetry]
        logits, win_rates, owners, leads = self.evaluate_all(planes)
        none = [None] * len(games)
        owned, scores = none if owners is None else owners[:, table[:-1]], none if leads is None else leads.tolist()
        found = []
        for game, row, win_rate, *rest in zip(games, logits[:, table], win_rates, owned, scores, strict=True):
            odds = np.where(game.legal_moves(), np.exp(row.astype(np.float64) - row.max()), 0.0)
            found.append(RawNN(odds / odds.sum(), float(win_rate), *rest))
        return found

    def _run(self, planes: np.ndarray, heads: Sequence[str]) -> dict[str, np.ndarray]:
        """The outputs of some heads. Raises CheckpointError for planes that don't fit the net, and for outputs of wrong
        shape or that aren't finite."""
        manifest, size = self.checkpoint.manifest, planes.shape[-1]
        if planes.ndim != 4 or planes.shape[1] != manifest.planes or planes.shape[2] != size:
            fits = f"(B, {manifest.planes}, n, n)"
            raise CheckpointError(f"{manifest.name}: planes of shape {planes.shape} don't fit; it takes {fits}")
        self.checkpoint.require_size(size)
        found = dict(zip(heads, self._model.run(heads, np.ascontiguousarray(planes, np.float32)), strict=True))
        shapes = {POLICY: (size**2 + 1,), VALUE: (3,), OWNERSHIP: (size**2,), SCORE: ()}
        for head, output in found.items():
            known = getattr(output, "dtype", None) == np.float32 and output.shape == (len(planes), *shapes[head])
            if not known or not isfinite(output.sum(dtype=np.float64)):
                words = f"its {head} must be {sum(shapes[head])} finite numbers a position"
                raise CheckpointError(f"{manifest.name}: {words}")
        return found
