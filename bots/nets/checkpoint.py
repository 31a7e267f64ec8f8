"""A checkpoint: a folder with a net or a rollout policy, its encoder and its origin."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from importlib.util import find_spec
from os.path import expanduser, isfile
from pathlib import Path
from typing import Any

from arena import CheckpointError
from arena.contract.settings import convert, read_object
from arena.files import open_regular, replacing
from arena.files import write as replace_file

FORMAT = 1  # the version of the manifest; a reader refuses any other

MANIFEST = "manifest.json"
WEIGHTS, MODEL, MODEL_INT8 = "weights.safetensors", "model.onnx", "model-int8.onnx"
FILES = (WEIGHTS, MODEL, MODEL_INT8)  # only the weights must be there: torch plays a net that has no ONNX

ROLLOUT = "rollout"  # the family of rollout policies
# The heads that players can use, by family; the arena's own nets have no family, and KataGo's have the same heads.
HEADS = {"": ("policy", "value"), "trencseni": ("policy",), "alphago": ("policy",), "gocnn": (), ROLLOUT: ("rollout",)}

SHIPPED_NETS = Path(__file__).parent.parent / "checkpoints"  # the nets that come with the package
AUTO = "auto"  # stands for the net that ships for a size of board
# The net of ``AUTO``, by the smallest board on which it plays better than the others.
NETS_BY_SIZE = {16: "distilled-19x19", 12: "distilled-13x13", 0: "distilled-9x9"}

SCORE_UNIT = 10.0  # points in a unit of a score head, whose outputs are then about as large as logits

COPY = "copy the whole checkpoint folder again"  # what to do about a damaged checkpoint

# Processor flags with which int8 is faster than fp32: on x86 VNNI or, as these nets have 7-bit weights, AVX2 (1.35
# times for single positions, 1.65 times for batches of 32, with 6 blocks of 56 channels); dot products on Arm.
INT8_FLAGS = frozenset({"avx2", "avx512_vnni", "avx_vnni", "asimddp"})
OWN_FLAGS = frozenset({"avx512f", "avx512bw", "avx512vl", "avx512_vnni"})  # required by our own kernel (``int8.py``)
PACKS = "packs"  # the metric that is 1 if our own kernel plays the net without an ONNX file in int8


class Precision(StrEnum):
    """The number format of a net."""

    AUTO = "auto"
    FP32 = "fp32"
    INT8 = "int8"
    BF16 = "bf16"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a checkpoint, stored as JSON beside the files that it describes.

    ``network`` has the fields of ``NetworkConfig``; or a ``family`` and the fields of ``ClassicConfig`` or
    ``KataGoConfig``, or the name of a rollout policy's ``features``. ``splits`` (the fields of
    ``trainers.records.SplitRule``) are the splits of the games that the net and its ancestors learned from.
    """

    name: str
    network: Mapping[str, Any]
    encoder: str  # the encoder's name; empty for a rollout policy
    planes: int  # the encoder's
    smallest: int  # the smallest board that it can play
    largest: int
    size: int  # of the boards in training
    rules: str  # of the games in training; mixed if there were several
    komi: float  # the usual komi of these games
    trainer: str = ""
    data: str = ""  # a digest of the records or checkpoints that it learned from
    rows: int = 0  # training rows, in all
    minutes: float = 0.0  # of training
    settings: Mapping[str, Any] = field(default_factory=dict)  # the trainer's
    metrics: Mapping[str, float] = field(default_factory=dict)  # measured when it was saved
    parent: str = ""  # the identity of the checkpoint from which training started
    splits: tuple[Mapping[str, Any], ...] = ()
    created: str = ""  # UTC, ISO 8601
    files: Mapping[str, str] = field(default_factory=dict)  # file name to sha256; filled in by ``save``
    gates: tuple[Mapping[str, Any], ...] = ()  # results of matches, the latest last; see ``add_gate``
    format: int = FORMAT

    @property
    def family(self) -> str:
        """Empty for the arena's own nets."""
        return str(self.network.get("family", ""))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A verified folder: its files are those that the manifest describes."""

    folder: Path
    manifest: Manifest

    @classmethod
    def open(cls, folder: str | Path) -> Checkpoint:
        """Read and verify a folder. Raises CheckpointError for one that is missing, damaged or from another version."""
        folder = Path(folder)
        if not folder.is_dir():
            raise CheckpointError(f"{folder}: no such checkpoint folder; give the folder that holds {MANIFEST}")
        path, again = folder / MANIFEST, "train it again"
        content = read_object(path, error=CheckpointError, hint=COPY)
        if (found := content.get("format")) != FORMAT:
            raise CheckpointError(f"{path}: has format {found!r} and this version reads {FORMAT}; {again}")
        manifest = convert(content, Manifest, path, error=CheckpointError, hint=again)
        if not {WEIGHTS} <= manifest.files.keys() <= set(FILES):
            raise CheckpointError(f"{path}: lists the files {[*manifest.files]}, not {WEIGHTS} and at most {FILES}")
        for name, expected in manifest.files.items():
            if _sha256(folder / name) != expected:
                raise CheckpointError(f"{folder / name}: isn't the file that {MANIFEST} describes (by sha256); {COPY}")
        return cls(folder, manifest)

    @property
    def identity(self) -> str:
        """The sha256 of the weights, by which game records name a net."""
        return self.manifest.files[WEIGHTS]

    @property
    def weights(self) -> Path:
        return self.folder / WEIGHTS

    def require_size(self, size: int) -> None:
        """Raise CheckpointError when this net can't play on boards of ``size``."""
        least, most = self.manifest.smallest, self.manifest.largest
        if not least <= size <= most:
            plays = f"it plays from {least}x{least} to {most}x{most}"
            raise CheckpointError(f"the net {self.manifest.name} can't play {size}x{size}; {plays}")

    def require(self, *heads: str) -> None:
        """Raise CheckpointError unless this is a net with these heads (policy, value) or, for ``rollout``, a rollout
        policy."""
        family = self.manifest.family
        if family == ROLLOUT and ROLLOUT not in heads:
            raise CheckpointError(f"{self.folder}: is a rollout policy, not a net; it can't play by itself")
        for head in sorted({*heads} - {*HEADS.get(family, HEADS[""])}):
            if head == ROLLOUT:
                raise CheckpointError(f"{self.folder}: is not a rollout policy; make one: arena train rollout")
            raise CheckpointError(f"the net {self.manifest.name} ({family}) has no {head}, which this player uses")

    def require_precision(self, precision: str) -> None:
        """Raise CheckpointError when this net can't be run with such numbers here."""
        if precision == Precision.INT8 and not self.packs:
            self.model(int8=True)
        if (precision == Precision.BF16 or not self.has_model) and find_spec("torch") is None:
            why = "precision bf16" if precision == Precision.BF16 else f"{self.folder}: has no {MODEL}, so that it"
            raise CheckpointError(f"{why} needs torch: pip install 'arena[train]'")

    @property
    def packs(self) -> bool:
        """Whether our own kernel can play the net on this processor without an ONNX file in int8."""
        return bool(self.manifest.metrics.get(PACKS)) and has_own_kernel()

    @property
    def has_model(self) -> bool:
        """Whether there is an ONNX file, so that the net plays without torch."""
        return MODEL in self.manifest.files

    def model(self, int8: bool = False) -> Path:
        """The ONNX file. Raises CheckpointError when there is none."""
        self.require()
        name = MODEL_INT8 if int8 else MODEL
        if name not in self.manifest.files:
            raise CheckpointError(f"{self.folder}: has no {name}; choose precision fp32")
        return self.folder / name


def check_net(config: Any, size: int) -> None:
    """Raise CheckpointError when the net of a config with a ``checkpoint`` and a ``precision`` is missing, damaged, or
    can't play on boards of this size or in this precision."""
    checkpoint = Checkpoint.open(find(config.checkpoint, size=size))
    checkpoint.require_size(size)
    checkpoint.require_precision(config.precision)


def find(name: str | Path, results: str | Path = "results", size: int = 9) -> Path:
    """The folder of ``name``: ``results``/checkpoints/NAME, a net that ships, or a path, in this order. ``AUTO`` is the
    net that ships for boards of ``size``. Raises CheckpointError when there is none."""
    if name == AUTO:
        return SHIPPED_NETS / next(net for smallest, net in NETS_BY_SIZE.items() if size >= smallest)
    text, own = str(name), Path(results) / "checkpoints"
    bare = Path(text).name == text and text not in ("", ".", "..")
    for place in (*([own / text, SHIPPED_NETS / text] if bare else []), Path(expanduser(text))):
        if isfile(place / MANIFEST):  # also where the name is too long for the system
            return place
    if not bare:
        raise CheckpointError(f"{text}: no checkpoint there; give a folder that holds {MANIFEST}")
    raise CheckpointError(f"no checkpoint '{text}' in {own}; there are {', '.join(list_checkpoints(results))}")


def list_checkpoints(results: str | Path = "results") -> list[str]:
    """The bare names that ``find`` resolves, sorted."""
    folders = (Path(results) / "checkpoints", SHIPPED_NETS)
    return sorted({path.parent.name for folder in folders for path in folder.glob(f"[!.]*/{MANIFEST}")})


def cpu_flags() -> frozenset[str]:
    """The words of /proc/cpuinfo, among them the processor's flags; none where there is no such file."""
    cpuinfo = Path("/proc/cpuinfo")
    return frozenset(cpuinfo.read_text(errors="replace").split()) if cpuinfo.is_file() else frozenset()


def has_fast_int8() -> bool:
    """Whether the processor has instructions that make int8 faster than fp32."""
    return not INT8_FLAGS.isdisjoint(cpu_flags())


def has_own_kernel() -> bool:
    """Whether the processor has the instructions of our own kernel, which has no uncompiled form."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0") and cpu_flags() >= OWN_FLAGS


def precision_here(folder: Path) -> str:
    """The precision of ``auto`` for a checkpoint on this processor: int8 or fp32. Raises CheckpointError for a manifest
    that can't be read."""
    if has_fast_int8() and (folder / MODEL_INT8).is_file():
        return "int8"
    metrics = read_object(folder / MANIFEST, error=CheckpointError, hint=COPY).get("metrics")
    return "int8" if isinstance(metrics, dict) and metrics.get(PACKS) and has_own_kernel() else "fp32"


def save(folder: str | Path, manifest: Manifest, write: Callable[[Path], Mapping[str, float]]) -> Checkpoint:
    """Write a checkpoint to ``folder``, atomically replacing one that may be there. ``write`` writes the files into the
    folder that it is given, and returns metrics."""
    folder = Path(folder)
    with replacing(folder, error=CheckpointError) as new:
        new.mkdir()
        metrics = {**manifest.metrics, **write(new)}
        if not (new / WEIGHTS).is_file():
            raise CheckpointError(f"{folder}: can't be saved without {WEIGHTS}; write every file")
        files = {name: _sha256(new / name) for name in FILES if (new / name).is_file()}
        manifest = replace(manifest, metrics=metrics, files=files, gates=())  # no match has tested these weights
        (new / MANIFEST).write_text(_to_json(asdict(manifest)), encoding="utf-8")
        for path in new.iterdir():
            path.chmod(0o644)  # some writers make files that only their owner may read
    return Checkpoint(folder, manifest)


def add_gate(folder: Path, gate: Mapping[str, Any]) -> None:
    """Add the result of a gate to a checkpoint's manifest, replacing an earlier result of that event. Raises
    CheckpointError when it can't be written."""
    path = folder / MANIFEST
    content = read_object(path, error=CheckpointError, hint=COPY)
    content["gates"] = [*(old for old in content.get("gates", ()) if old.get("event") != gate["event"]), dict(gate)]
    replace_file(path, _to_json(content), error=CheckpointError)


def copy_checkpoint(folder: Path, kept: Path) -> None:
    """Copy a checkpoint to ``kept``, replacing one that may be there. Raises CheckpointError when it can't."""
    with replacing(kept, error=CheckpointError) as new:
        shutil.copytree(folder, new)


def _to_json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


def _sha256(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: can't be read ({error.strerror}); {COPY}") from error
