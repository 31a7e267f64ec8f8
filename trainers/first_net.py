"""The net that a run begins with: untrained, a checkpoint, or the mean of several."""

from copy import deepcopy
from dataclasses import asdict
from pathlib import Path

import torch

from arena import CheckpointError, ConfigError
from arena.go.planes import ENCODERS, Encoder, find_encoder
from bots.nets.catalogue import Net, load_weights, named_network, network_from, usual_encoder
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.katago import FAMILY
from bots.nets.network import Network
from trainers.records import SplitRule
from trainers.settings import RL, Loop, Supervised, Zero


def start_of(config: RL | Zero, results: Path) -> Checkpoint:
    """The start net of a run. Raises CheckpointError if it is missing, ConfigError if the run would replace it."""
    start = Checkpoint.open(find(config.start, results))
    if start.folder.resolve() == (results / "checkpoints" / config.name).resolve():
        raise ConfigError(f"{config.name} can't begin with itself, which it would replace; give it another name")
    start.require("policy", "value")
    start.require_size(config.size)
    return start


def _starts(config: Loop, results: Path) -> list[Checkpoint]:
    """The start nets; none for an untrained net."""
    names = (config.start, *(config.average if isinstance(config, Supervised) else ())) if config.start else ()
    return [Checkpoint.open(find(name, results)) for name in names]


def inherited_rules(config: Loop, results: Path) -> tuple[SplitRule, ...]:
    """The split rules of the start nets and their ancestors, whose training games must not be in the test. Raises
    CheckpointError, also for a rule of another version."""
    stored = [(checkpoint, rule) for checkpoint in _starts(config, results) for rule in checkpoint.manifest.splits]
    return tuple(dict.fromkeys(SplitRule.read(rule, start.folder, CheckpointError) for start, rule in stored))


def encoder_of(config: Supervised | Zero, results: Path) -> Encoder:
    """Raises ConfigError for an unknown net, CheckpointError for an unknown encoder or start."""
    start = "" if config.encoder else next((start.manifest.encoder for start in _starts(config, results)), "")
    return find_encoder(config.encoder or start or usual_encoder(config.net))


def build(config: Supervised | Zero, results: Path) -> Net:
    """The net to begin with: seeded random weights, those of ``start``, or the mean of ``start`` and ``average``.
    Raises CheckpointError."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        network = named_network(config.net, encoder_of(config, results).planes, config.size)
    if starts := _starts(config, results):
        nets = [deepcopy(network) for _ in starts]
        for net, checkpoint in zip(nets, starts, strict=True):
            start_from(net, checkpoint)
        for mean, *values in zip(*(net.state_dict().values() for net in (network, *nets)), strict=True):
            mean.copy_(torch.stack([value.double() for value in values]).mean(0))
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's hints


def start_from(network: Net, checkpoint: Checkpoint) -> None:
    """Load a checkpoint's weights into ``network``; heads that the checkpoint lacks keep theirs. Additional channels
    and planes of ``network`` have no effect at first. Raises CheckpointError for a net of another shape."""
    if checkpoint.manifest.family == FAMILY:
        words = f"learn from it: arena train distill --teacher policy:checkpoint={checkpoint.folder.name}"
        raise CheckpointError(f"{checkpoint.folder}: a net of KataGo's can't be trained on from; {words}")
    wanted, given = asdict(network.config), asdict(network_from(checkpoint.manifest.network).config)
    other = {key for key in given if key != "area" and wanted.get(key) != given[key]}  # one of the two may lack it
    if isinstance(network, Network) and wanted["channels"] > given["channels"]:
        other.discard("channels")
    bases = {encoder.base for encoder in ENCODERS.values() if encoder.planes == wanted.get("planes")}
    if checkpoint.manifest.encoder in bases:
        other.discard("planes")
    if other or wanted.keys() != given.keys():
        shape = ", ".join(f"{key} {given[key]}" for key in given if key in other)
        raise CheckpointError(
            f"{checkpoint.folder}: can't be trained on from, its net is another: {shape}; give its net and encoder"
        )
    load_weights(network, checkpoint, strict=False)
