"""A checkpoint of a linear rollout policy: a folder with its weights and a manifest. Trains nothing, plays nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arena import CheckpointError
from arena.files import replacing
from bots.nets.checkpoint import LATER, MANIFEST, WEIGHTS, to_json

if TYPE_CHECKING:
    from bots.search.rollouts import Weights

FORMAT = 1
"""The version of the manifest; a reader refuses any other."""

TRAINER = "rollout"

TENSOR = "learned"
"""The one tensor in the file of weights: (weights,) float32, in the order of ``bots.search.rollouts.tie``."""


@dataclass(frozen=True, slots=True)
class RolloutManifest:
    """What a rollout policy is; plain data, stored as JSON beside its weights."""

    name: str
    features: str
    """What a weight belongs to: the name of a set of features, with its version."""
    size: int
    """The size of the boards it learned from; it plays on all."""
    rules: str
    komi: float
    """The usual komi of the games it learned from."""
    data: str = ""
    """The records it learned from, and a digest of them."""
    positions: int = 0
    """Positions it learned from, those seen twice counted twice."""
    minutes: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    created: str = ""
    """UTC, ISO 8601."""
    files: Mapping[str, str] = field(default_factory=dict)
    """File name to sha256; filled in by ``save``."""
    gates: Sequence[Mapping[str, Any]] = ()
    """As a net's: what matches said of it; see ``checkpoint.add_gate``."""
    trainer: str = TRAINER
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class RolloutPolicy:
    """A folder whose manifest was read and whose weights are those that the manifest names."""

    folder: Path
    manifest: RolloutManifest
    learned: np.ndarray
    """(weights,) float32."""

    @classmethod
    def open(cls, folder: str | Path) -> RolloutPolicy:
        """Read and verify a folder. Raises CheckpointError for one that is missing, damaged, a net or of a version that
        isn't known here."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        from bots.search import rollouts

        folder = Path(folder)
        if not folder.is_dir():
            raise CheckpointError(f"{folder}: no such checkpoint folder; give the folder that holds {MANIFEST}")
        manifest = _read_manifest(folder / MANIFEST)
        if manifest.features != rollouts.FEATURES:
            raise CheckpointError(
                f"{folder}: has the features {manifest.features!r} and this version knows {rollouts.FEATURES}; "
                "train it again: arena train rollout"
            )
        try:
            learned = load(_verified(folder, manifest))[TENSOR]
        except (SafetensorError, KeyError) as error:
            raise CheckpointError(f"{folder / WEIGHTS}: holds no weights ({error}); train it again") from error
        if learned.shape != (int(rollouts.tie().max()) + 1,):
            raise CheckpointError(f"{folder / WEIGHTS}: holds {learned.shape} weights; train it again")
        return cls(folder, manifest, learned)

    @property
    def identity(self) -> str:
        """The sha256 of the weights."""
        return self.manifest.files[WEIGHTS]

    def weights(self, size: int, sharpness: float = 1.0) -> Weights:
        """What playouts on boards of ``size`` need; see ``bots.search.rollouts.spread``."""
        from bots.search import rollouts

        return rollouts.spread(self.learned, size, sharpness)


def identity_of(folder: Path) -> str:
    """The sha256 of a policy's weights, as ``RolloutPolicy.identity``, without loading them. Raises CheckpointError."""
    manifest = _read_manifest(folder / MANIFEST)
    _verified(folder, manifest)
    return manifest.files[WEIGHTS]


def _verified(folder: Path, manifest: RolloutManifest) -> bytes:
    """The content of the file of weights that the manifest names."""
    content = _read(folder / WEIGHTS)
    found, expected = hashlib.sha256(content).hexdigest(), manifest.files.get(WEIGHTS, "")
    if found != expected:
        raise CheckpointError(
            f"{folder / WEIGHTS}: isn't the file that {MANIFEST} describes "
            f"(sha256 {found[:12]}, not {expected[:12]}); copy the whole folder again"
        )
    return content


def save(folder: str | Path, manifest: RolloutManifest, learned: np.ndarray) -> RolloutPolicy:
    """Write a checkpoint aside, then give it the name ``folder``, in place of one that may be there."""
    from safetensors.numpy import save as to_bytes

    folder = Path(folder)
    learned = np.ascontiguousarray(learned, np.float32)
    content = to_bytes({TENSOR: learned})
    manifest = replace(manifest, files={WEIGHTS: hashlib.sha256(content).hexdigest()}, gates=())
    with replacing(folder, error=CheckpointError) as new:
        new.mkdir()
        (new / WEIGHTS).write_bytes(content)
        (new / MANIFEST).write_text(to_json(asdict(manifest)), encoding="utf-8")
    return RolloutPolicy(folder, manifest, learned)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"{path}: can't be read ({error.strerror}); copy the whole checkpoint folder again"
        ) from error


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "Sequence[Mapping[str, Any]]": (list,),
}


def _read_manifest(path: Path) -> RolloutManifest:
    try:
        content = json.loads(_read(path).decode())
    except ValueError as error:
        raise CheckpointError(f"{path}: isn't JSON ({error}); copy the whole checkpoint folder again") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: isn't a manifest; copy the whole checkpoint folder again")
    if content.get("trainer") != TRAINER:
        raise CheckpointError(f"{path.parent}: is no rollout policy; train one with: arena train rollout")
    if content.get("format") != FORMAT:
        raise CheckpointError(f"{path}: has format {content.get('format')!r} and this version reads {FORMAT}")
    for known in fields(RolloutManifest):
        if known.name not in content and known.name in LATER:
            continue
        if known.name not in content:
            raise CheckpointError(f"{path}: '{known.name}' is missing; train the policy again")
        value = content[known.name]
        if not isinstance(value, _KINDS.get(str(known.type), (dict,))) or isinstance(value, bool):
            raise CheckpointError(f"{path}: '{known.name}' has a value of the wrong kind; train the policy again")
    unknown = [name for name in content if name not in {known.name for known in fields(RolloutManifest)}]
    if unknown:
        raise CheckpointError(f"{path}: unknown entry '{unknown[0]}'; train the policy again")
    return RolloutManifest(**content)
