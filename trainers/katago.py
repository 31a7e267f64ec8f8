"""Imports a KataGo model file as a checkpoint, which plays without KataGo and torch."""

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
from safetensors.torch import save as serialize

from arena import CheckpointError
from arena.go.game import PRESETS, Game, Rules
from arena.go.planes import Encoder, encode_games, find_encoder
from bots.nets.checkpoint import PACKS, SHIPPED_NETS, WEIGHTS, Checkpoint, Precision, find, save
from bots.nets.inference import Evaluator
from bots.nets.katago import ENCODER, HUMAN_ENCODER, read_katago
from bots.nets.packing import pack
from bots.policy import pick_move
from trainers.export import manifest_of, write_models

SIZE, GAMES, CHECKED = 9, 16, 256  # board size and games of the check, and their positions that are compared


def licence_of(name: str) -> str:
    """The licence of a net by its name."""
    if re.fullmatch(r"g170-.*", name):
        return "CC0 1.0, public domain (KataGo's run g170)"
    if re.fullmatch(r"(kata1|b\d+c\d+h?\d*nbt)\w*.*", name):
        return "KataGo's network license, MIT-style: https://katagotraining.org/network_license/"
    return "unknown: see where the file came from"


def real_positions(encoder: Encoder, count: int) -> np.ndarray:
    """Planes (count, P, n, n) of positions from games of a shipped net under all presets of rules."""
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
    """A checkpoint, and its speed and exactness on this processor with one thread."""

    checkpoint: Checkpoint
    precision: str  # chosen by ``auto``
    milliseconds: dict[int, float]  # for an evaluation, by batch size
    same_move: float  # share of positions with the same best move in fp32
    off: float  # mean difference of the win rate from fp32


def import_katago(path: Path, folder: Path, on_step: Callable[[str], None] = lambda _: None) -> Imported:
    """Make a checkpoint at ``folder`` from a model file; ``on_step`` gets the name of each step. No int8 ONNX: that of
    b10c384h6nbttflrs agreed with fp32 on 92 % of moves, with win rates 0.014 off. Raises CheckpointError, and leaves
    nothing, for a file that can't be read, an inexact export, or a folder that exists or can't be written."""
    for taken, hint in ((folder, ", or remove it"), (SHIPPED_NETS / folder.name, "")):
        if taken.exists():
            raise CheckpointError(f"{taken} exists; choose another --name{hint}")
    on_step(f"Reading {path.name}")
    network, digest = read_katago(path), hashlib.sha256(path.read_bytes()).hexdigest()
    encoder = find_encoder(HUMAN_ENCODER if network.people else ENCODER)
    on_step("Playing games for positions to check it on")
    planes = real_positions(encoder, CHECKED)
    origin = {"file": path.name, "sha256": digest, "net": network.name, "version": network.version}
    about = {"licence": licence_of(network.name), "trained_by": "KataGo (David J. Wu and contributors)"}
    rules = Rules.preset("tromp-taylor", SIZE)
    manifest = manifest_of(network, folder.name, encoder, rules, trainer="import", settings=origin | about)

    def write(aside: Path) -> dict[str, float]:
        state = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
        (aside / WEIGHTS).write_bytes(serialize(state))
        on_step("Exporting to ONNX and comparing with torch")
        packs = 0.0  # 1 if our own kernel can evaluate the net
        with suppress(ValueError):
            pack({name: tensor.numpy() for name, tensor in state.items()}, SIZE)
            packs = 1.0
        return {**write_models(network, aside, None, planes), PACKS: packs}

    made = save(folder, manifest, write)
    on_step("Measuring its speed")
    net, exact = Evaluator(made), Evaluator(made, Precision.FP32)
    found, expected = net.evaluate(planes), exact.evaluate(planes)
    same_move, off = (found[0].argmax(1) == expected[0].argmax(1)).mean(), np.abs(found[1] - expected[1]).mean()
    times = {batch: milliseconds(net, planes[:batch]) for batch in (1, 8)}
    return Imported(made, net.precision, times, float(same_move), float(off))


def milliseconds(net: Evaluator, planes: np.ndarray) -> float:
    """The median processor time for a position, in a batch of this size."""
    times = list[float]()
    while len(times) < 5 or (sum(times) < 1 and len(times) < 100):
        begin = process_time()
        net.evaluate(planes)
        times.append(process_time() - begin)
    return 1000 * float(np.median(times)) / len(planes)
