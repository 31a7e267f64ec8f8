"""Imports a model file of KataGo's as a checkpoint, so that it plays without KataGo and without torch."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
from safetensors.torch import save as serialize
from torch import Tensor

from arena import CheckpointError
from arena.go.game import PRESETS, Game, Rules
from arena.go.planes import Encoder, encode_games, find_encoder
from bots.nets.checkpoint import PACKS, SHIPPED, WEIGHTS, Checkpoint, Precision, find, save
from bots.nets.inference import Evaluator
from bots.nets.katago import ENCODER, read_katago
from bots.nets.packing import pack
from bots.policy import pick_move
from trainers.export import describe, write_models

SIZE = 9  # of the boards of the games that the net is checked on
GAMES, CHECKED = 16, 256  # games, and positions of them

LICENCES = (
    (r"g170-.*", "CC0 1.0, public domain (KataGo's run g170)"),
    (
        r"(kata1|b\d+c\d+h?\d*nbt)\w*.*",
        "KataGo's network license, MIT-style: https://katagotraining.org/network_license/",
    ),
)
"""By the name of a net."""
UNKNOWN = "unknown: see where the file came from"


def licence_of(name: str) -> str:
    return next((licence for pattern, licence in LICENCES if re.fullmatch(pattern, name)), UNKNOWN)


def real_positions(encoder: Encoder, count: int) -> np.ndarray:
    """Planes (count, P, n, n) of positions from games of a net that ships, by all presets of rules."""
    net = Evaluator(Checkpoint.open(find("distilled-9x9", size=SIZE)))
    games = [Game(Rules.preset([*PRESETS][seed % len(PRESETS)], SIZE), seed=seed) for seed in range(GAMES)]
    planes = list[np.ndarray]()
    while unfinished := [game for game in games if not game.is_over and len(game.moves) < SIZE * SIZE]:
        planes.append(encode_games(encoder, unfinished))
        logits, _ = net.evaluate(net.encode(unfinished))
        for game, row in zip(unfinished, logits, strict=True):
            game.play(pick_move(game, row, temperature=1.0))
    found = np.concatenate(planes)
    return found[np.random.default_rng(1).permutation(len(found))[:count]]


@dataclass(frozen=True, slots=True)
class Imported:
    """A checkpoint, and what was measured of it on this processor, one thread."""

    checkpoint: Checkpoint
    precision: str  # that ``auto`` means here
    milliseconds: dict[int, float]  # of an evaluation, by size of batch
    same_move: float  # the share of positions where fp32 has the same likeliest move
    off: float  # the mean difference of the win rate from fp32


def import_katago(path: Path, folder: Path, on_step: Callable[[str], None] = lambda _: None) -> Imported:
    """Make a checkpoint at ``folder``, which doesn't exist, from a model file. ``on_step`` gets the name of each step.
    It has no ONNX in int8: that of b10c384h6nbttflrs had the likeliest move of fp32 in 92 % of positions, and win rates
    0.014 off. Raises CheckpointError, and leaves nothing behind, for a file that can't be read, a net that isn't
    exported exactly, or a folder that can't be written."""
    for taken in (folder, SHIPPED / folder.name):
        if taken.exists():
            raise CheckpointError(
                f"{taken} exists; choose another --name" + (", or remove it" if taken is folder else "")
            )
    encoder = find_encoder(ENCODER)
    on_step(f"Reading {path.name}")
    network, digest = read_katago(path), hashlib.sha256(path.read_bytes()).hexdigest()
    on_step("Playing games for positions to check it on")
    planes = real_positions(encoder, CHECKED)
    origin = {"file": path.name, "sha256": digest, "net": network.name, "version": network.version}
    about = {"licence": licence_of(network.name), "trained_by": "KataGo (David J. Wu and contributors)"}
    rules = Rules.preset("tromp-taylor", SIZE)
    manifest = describe(network, folder.name, encoder, rules, trainer="import", settings=origin | about)

    def write(aside: Path) -> dict[str, float]:
        state = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
        (aside / WEIGHTS).write_bytes(serialize(state))
        on_step("Exporting to ONNX and comparing with torch")
        return {**write_models(network, aside, None, planes), PACKS: float(packs(state))}

    made = save(folder, manifest, write)
    on_step("Measuring its speed")
    net, exact = Evaluator(made), Evaluator(made, Precision.FP32)
    found, expected = net.evaluate(planes), exact.evaluate(planes)
    same_move, off = (found[0].argmax(1) == expected[0].argmax(1)).mean(), np.abs(found[1] - expected[1]).mean()
    times = {batch: milliseconds(net, planes[:batch]) for batch in (1, 8)}
    return Imported(made, net.precision, times, float(same_move), float(off))


def packs(state: dict[str, Tensor]) -> bool:
    """Whether our own kernel can play the net with this state."""
    with suppress(ValueError):
        pack({name: tensor.numpy() for name, tensor in state.items()}, SIZE)
        return True
    return False


def milliseconds(net: Evaluator, planes: np.ndarray) -> float:
    """The median time of the processor for an evaluation, in batches like this one."""
    times = list[float]()
    while len(times) < 5 or (sum(times) < 1 and len(times) < 100):
        begin = process_time()
        net.evaluate(planes)
        times.append(process_time() - begin)
    return 1000 * float(np.median(times)) / len(planes)
