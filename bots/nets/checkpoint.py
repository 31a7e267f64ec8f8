"""A checkpoint: a folder with a net or a rollout policy, how to feed it and where it comes from. Evaluates nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from os.path import expanduser, isfile
from pathlib import Path
from typing import Any

from arena import CheckpointError
from arena.files import convert, pieces, read_object, replacing
from arena.files import write as replace_file

FORMAT = 1
"""The version of the manifest; a reader refuses any other."""

MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"
MODEL = "model.onnx"
MODEL_INT8 = "model-int8.onnx"
FILES = (WEIGHTS, MODEL, MODEL_INT8)
"""The files of a checkpoint. Only its weights must be there: torch plays a net that has no ONNX."""

ROLLOUT = "rollout"
"""The family of rollout policies."""

HEADS = {
    "": ("policy", "value"),
    "trencseni": ("policy",),
    "alphago": ("policy",),
    "gocnn": (),
    ROLLOUT: ("rollout",),
}
"""What players can use of a checkpoint, by its family; the arena's own nets have none."""

SHIPPED = Path(__file__).parent.parent / "checkpoints"
"""Where the nets lie that come with the package."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint is; plain data, stored as JSON beside the files it describes."""

    name: str
    network: Mapping[str, Any]
    """The fields of ``NetworkConfig``; or a ``family`` and the fields of ``ClassicConfig``, or of a rollout policy the
    name of its ``features``."""
    encoder: str
    """How a position becomes planes; empty for a rollout policy."""
    planes: int
    """How many planes that gives."""
    smallest: int
    """The smallest board it can play."""
    largest: int
    size: int
    """The size of the boards it learned from."""
    rules: str
    """The rules of the games it learned from; mixed when there were several."""
    komi: float
    """Their usual komi."""
    trainer: str = ""
    data: str = ""
    """A digest of the records or checkpoints it learned from."""
    rows: int = 0
    """Training rows it has seen."""
    minutes: float = 0.0
    """Time it was trained for."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The trainer's settings."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What was measured when it was saved."""
    parent: str = ""
    """The identity of the checkpoint it was trained on from."""
    splits: tuple[Mapping[str, Any], ...] = ()
    """By what the games were split that it, and those it was trained on from, learned from: the fields of
    ``trainers.records.SplitRule``."""
    created: str = ""
    """UTC, ISO 8601."""
    files: Mapping[str, str] = field(default_factory=dict)
    """File name to sha256; filled in by ``save``."""
    gates: tuple[Mapping[str, Any], ...] = ()
    """What matches said of it, the latest last; see ``add_gate``."""
    format: int = FORMAT

    @property
    def family(self) -> str:
        """Empty for the arena's own nets."""
        return str(self.network.get("family", ""))


MOST_BYTES = 2 << 30
"""Bytes of the longest file of a checkpoint that is read; the nets that ship have one megabyte."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder whose manifest was read and whose files are the ones the manifest names."""

    folder: Path
    manifest: Manifest

    @classmethod
    def open(cls, folder: str | Path) -> Checkpoint:
        """Read and verify a folder. Raises CheckpointError for one that is missing, damaged or from another version."""
        folder = Path(folder)
        if not folder.is_dir():
            raise CheckpointError(f"{folder}: no such checkpoint folder; give the folder that holds {MANIFEST}")
        manifest = _read_manifest(folder / MANIFEST)
        for name, expected in manifest.files.items():
            found = _sha256(folder / name)
            if found != expected:
                raise CheckpointError(
                    f"{folder / name}: isn't the file that {MANIFEST} describes "
                    f"(sha256 {found[:12]}, not {expected[:12]}); copy the whole folder again"
                )
        return cls(folder, manifest)

    @property
    def identity(self) -> str:
        """The sha256 of the weights: what a game's record names, wherever the folder lies."""
        return self.manifest.files[WEIGHTS]

    @property
    def weights(self) -> Path:
        return self.folder / WEIGHTS

    def require_size(self, size: int) -> None:
        """Raise CheckpointError when this net can't play on boards of ``size``."""
        least, most = self.manifest.smallest, self.manifest.largest
        if not least <= size <= most:
            raise CheckpointError(
                f"the net {self.manifest.name} can't play {size}x{size}; it plays from {least}x{least} to {most}x{most}"
            )

    def require(self, *heads: str) -> None:
        """Raise CheckpointError when the checkpoint lacks what a player uses: policy, value or rollout."""
        family = self.manifest.family
        for head in heads:
            if head in HEADS.get(family, HEADS[""]):
                continue
            if head == ROLLOUT:
                raise CheckpointError(f"{self.folder}: is not a rollout policy; train one with: arena train rollout")
            self.require_net()
            raise CheckpointError(f"the net {self.manifest.name} ({family}) has no {head} head, which this player uses")

    def require_net(self) -> None:
        """Raise CheckpointError for a rollout policy."""
        if self.manifest.family == ROLLOUT:
            raise CheckpointError(f"{self.folder}: is a rollout policy, not a net; it can't play by itself")

    def require_precision(self, precision: str) -> None:
        """Raise CheckpointError when this net can't be run with such numbers here."""
        if precision == "int8":
            self.model(int8=True)
        if (precision == "bf16" or not self.has_model) and find_spec("torch") is None:
            why = "precision bf16" if precision == "bf16" else f"{self.folder}: has no {MODEL}, so that it"
            raise CheckpointError(f"{why} needs torch: pip install 'arena[train]'")

    @property
    def has_model(self) -> bool:
        """Whether a net can be played without torch, from its ONNX file."""
        return MODEL in self.manifest.files

    def model(self, int8: bool = False) -> Path:
        """The ONNX file. Raises CheckpointError when this checkpoint has none in int8."""
        self.require_net()
        name = MODEL_INT8 if int8 else MODEL
        if name not in self.manifest.files:
            raise CheckpointError(f"{self.folder}: has no {name}; choose precision fp32")
        return self.folder / name


AUTO = "auto"
"""Stands for the net that ships for a size of board."""

LARGE = 16
"""The smallest board on which the net of 19x19 plays better than that of 9x9."""


def find(name: str | Path, results: str | Path = "results", size: int = 9) -> Path:
    """The folder that ``name`` means: a path, ``results``/checkpoints/NAME, or a net that comes with the package;
    ``AUTO`` is the one of the latter for boards of ``size``.

    A bare name is looked for in ``results`` first. Raises CheckpointError when there is none.
    """
    if name == AUTO:
        return SHIPPED / ("distilled-9x9" if size < LARGE else "distilled-19x19")
    text = str(name)
    bare = Path(text).name == text and text not in ("", ".", "..")
    places = [Path(results) / "checkpoints" / text, SHIPPED / text] if bare else []
    places.append(Path(expanduser(text)))
    for place in places:
        if isfile(place / MANIFEST):  # also where the name is too long for the system
            return place
    if not bare:
        raise CheckpointError(f"{text}: no checkpoint there; give a folder that holds {MANIFEST}")
    raise CheckpointError(
        f"no checkpoint '{text}' in {places[0].parent}, and none comes with the package; "
        f"there are {', '.join(known(results)) or 'none'}"
    )


def known(results: str | Path = "results") -> list[str]:
    """The bare names that ``find`` resolves, sorted."""
    folders = (Path(results) / "checkpoints", SHIPPED)
    return sorted({path.parent.name for folder in folders for path in folder.glob(f"[!.]*/{MANIFEST}")})


INT8_FLAGS = frozenset({"avx2", "avx512_vnni", "avx_vnni", "asimddp"})
"""Processor flags of the instructions that make int8 pay: VNNI or, as these nets have 7-bit weights, AVX2 on x86; dot
products on Arm. On AVX2 without VNNI, 6 blocks of 56 channels were 1.35 times as fast as in fp32 alone and 1.65 times
as fast in batches of 32."""


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The words of the processor's own description, its flags among them; none where there is no such file."""
    try:
        return frozenset(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return frozenset()


def has_fast_int8(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor has instructions that make int8 pay."""
    return not INT8_FLAGS.isdisjoint(cpu_flags(cpuinfo))


def precision_here(folder: Path) -> str:
    """The numbers that suit this processor and the checkpoint there: int8 or fp32."""
    return "int8" if has_fast_int8() and (folder / MODEL_INT8).is_file() else "fp32"


def save(folder: str | Path, manifest: Manifest, write: Callable[[Path], Mapping[str, float]]) -> Checkpoint:
    """Make a checkpoint at ``folder``, in place of one that may be there.

    ``write`` puts the files into the folder that it is given and returns what it measured. That and the files' hashes
    go into the manifest, and only then the complete folder gets the name.

    Stopped at any moment this leaves the old checkpoint or the new one.
    """
    folder = Path(folder)
    with replacing(folder, error=CheckpointError) as new:
        new.mkdir()
        metrics = {**manifest.metrics, **write(new)}
        if not (new / WEIGHTS).is_file():
            raise CheckpointError(f"{folder}: can't be saved without {WEIGHTS}; write every file")
        present = [name for name in FILES if (new / name).is_file()]
        files = {name: _sha256(new / name) for name in present}
        manifest = replace(manifest, metrics=metrics, files=files, gates=())  # no match has tested these weights
        (new / MANIFEST).write_text(_to_json(asdict(manifest)), encoding="utf-8")
        for path in new.iterdir():
            path.chmod(0o644)  # some writers make files that only their owner may read
    return Checkpoint(folder, manifest)


def add_gate(folder: Path, gate: Mapping[str, Any]) -> None:
    """Add what a match showed of a checkpoint to its manifest, in place of an earlier result of that event. The weights
    and their hashes stay. Raises CheckpointError when it can't be written."""
    path = folder / MANIFEST
    content = read_object(path, error=CheckpointError, hint="copy the whole checkpoint folder again")
    content["gates"] = [*(old for old in content.get("gates", ()) if old.get("event") != gate["event"]), dict(gate)]
    replace_file(path, _to_json(content), error=CheckpointError)


def keep(folder: Path, kept: Path) -> None:
    """Copy a checkpoint to ``kept``, which is there whole or not at all; one that is there gives way. Raises
    CheckpointError when it can't be written."""
    with replacing(kept, error=CheckpointError) as new:
        shutil.copytree(folder, new)


def _to_json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


def _sha256(path: Path) -> str:
    try:
        digest = hashlib.sha256()
        for piece in pieces(path, MOST_BYTES):
            digest.update(piece)
        return digest.hexdigest()
    except OSError as error:
        raise CheckpointError(
            f"{path}: can't be read ({error.strerror}); copy the whole checkpoint folder again"
        ) from error


def _read_manifest(path: Path) -> Manifest:
    content = read_object(path, error=CheckpointError, hint="copy the whole checkpoint folder again")
    if content.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: has format {content.get('format')!r} and this version reads {FORMAT}; train it again"
        )
    manifest = convert(content, Manifest, path, error=CheckpointError, hint="train it again")
    if WEIGHTS not in manifest.files:
        raise CheckpointError(f"{path}: doesn't list {WEIGHTS}; train it again")
    for name in manifest.files:
        if name not in FILES:
            raise CheckpointError(f"{path}: lists a file '{name}' that no checkpoint has; train it again")
    return manifest
