"""Nets in torch, by name as trainers are told them and as manifests describe them. Trains nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from arena import CheckpointError, ConfigError
from arena.files import reason
from bots.nets.checkpoint import Checkpoint
from bots.nets.classics import FAMILIES, Classic, ClassicConfig
from bots.nets.network import Network, NetworkConfig

Net = Network | Classic
"""Planes (B, P, n, n) -> ``Outputs``; its ``config`` is what ``network_from`` builds it from again."""

ENCODERS = {"arena": "arena-17", "trencseni": "stones-1", "alphago": "alphago-48", "gocnn": "gocnn-8"}
"""What each family of nets is fed with unless a trainer is told otherwise."""

LARGEST = 4096
"""The most blocks, channels or planes of a net that is read from a manifest."""

PAST_HEADS = frozenset({"opponent_policy", "soft_policy"})
"""Heads that nets had while they were trained. Manifests name them, and ``auxiliary`` weights are theirs."""

EXAMPLES = "arena-6x56, trencseni-cnn, alphago-12x192, gocnn-5x64"


def named_network(name: str, planes: int, size: int) -> Net:
    """An untrained net: arena-BLOCKSxCHANNELS, trencseni-cnn, or alphago- or gocnn-LAYERSxCHANNELS.

    ``planes`` are those of its encoder; ``size`` is that of the boards, for families that play one size only. Raises
    ConfigError for any other name.
    """
    family, numbers = _parse(name)
    if family == "trencseni":
        return FAMILIES[family](ClassicConfig(family, planes, layers=3, channels=32, size=size))
    depth, channels = numbers
    if family == "arena":
        return Network(NetworkConfig(planes, depth, channels, pooling_blocks=min(2, depth), area=1))
    return FAMILIES[family](ClassicConfig(family, planes, depth, channels, size if family == "alphago" else 0))


def usual_encoder(name: str) -> str:
    """The encoder that the net of this name was thought out for. Raises ConfigError for an unknown name."""
    return ENCODERS[_parse(name)[0]]


def _parse(name: str) -> tuple[str, tuple[int, int]]:
    if name == "trencseni-cnn":
        return "trencseni", (0, 0)
    found = re.fullmatch(r"(arena|alphago|gocnn)-(\d{1,3})x(\d{1,4})", name)
    if not found or not int(found[2]) or not int(found[3]):
        raise ConfigError(f"unknown net '{name}'; name one like {EXAMPLES}")
    return found[1], (int(found[2]), int(found[3]))


def network_from(description: Mapping[str, Any]) -> Net:
    """The untrained net that a manifest describes. Raises CheckpointError for a description of no net."""
    sizes = [value for value in description.values() if isinstance(value, int)]
    if any(abs(value) > LARGEST for value in sizes):
        raise CheckpointError(f"the manifest describes a net with {max(sizes, key=abs)} of something; it is damaged")
    try:
        if "family" not in description:
            known = {key: value for key, value in description.items() if key not in PAST_HEADS}
            return Network(NetworkConfig(**known))
        config = ClassicConfig(**description)
        return FAMILIES[config.family](config)
    except (TypeError, KeyError, ValueError) as error:
        raise CheckpointError(f"the manifest describes a net that this version doesn't know ({error})") from error


def load_network(checkpoint: Checkpoint) -> Net:
    """The net of a checkpoint with its weights. Raises CheckpointError for a net that this version doesn't know, or a
    rollout policy."""
    checkpoint.require()
    network = network_from(checkpoint.manifest.network)
    load_weights(network, checkpoint)
    return network


def load_weights(network: Net, checkpoint: Checkpoint, strict: bool = True) -> None:
    """Give a net the weights of a checkpoint; unless ``strict``, those that it lacks stay. Raises CheckpointError for
    weights of another net."""
    try:
        found = load_file(checkpoint.weights)
        weights = {name: found[name] for name in found if not name.startswith("auxiliary.")}
        network.load_state_dict(weights, strict=strict)
    except (SafetensorError, RuntimeError) as error:  # tensors of other names or shapes
        raise CheckpointError(f"{checkpoint.weights}: doesn't fit the net of its manifest ({reason(error)})") from error


def parameters(network: nn.Module) -> int:
    """How many numbers it has learned."""
    return sum(parameter.numel() for parameter in network.parameters())
