"""Where a net begins: with the weights of a checkpoint, be its net of the same shape or a smaller one. No training.

A larger net begins by saying what the smaller one says, and learns from there; growing a net instead of beginning anew
is Net2Net's idea (Chen, Goodfellow and Shlens 2016). Here no channel is copied: new ones hold random features that
nothing reads yet, as the weights that old ones would read them with are 0, and a new block adds 0 to what passes
through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from arena import CheckpointError
from bots.nets.catalogue import Net, load_network, load_weights, network_from
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.network import Network, NetworkConfig
from trainers.data import SplitRule

GROWING = frozenset({"blocks", "channels"})
"""What may be larger than the checkpoint's."""

OPTIONAL = frozenset({"area"})
"""Heads, which may be there in one of the two alone."""


def inherited_rules(start: str, results: Path) -> tuple[SplitRule, ...]:
    """By what the games were split that a checkpoint and those before it learned from; none without a ``start``. Raises
    CheckpointError."""
    known = Checkpoint.open(find(start, results)).manifest.splits if start else ()
    return tuple(SplitRule(**rule) for rule in known)


def start_from(network: Net, checkpoint: Checkpoint) -> None:
    """Give ``network`` the weights of a checkpoint to train on from; heads that the checkpoint hasn't keep theirs.

    A residual net may have more blocks and channels than the checkpoint's: it then says what that says. Raises
    CheckpointError for a net of another shape.
    """
    wanted = asdict(network.config)
    given = asdict(network_from(checkpoint.manifest.network).config)
    other = {key for key in given if key not in OPTIONAL and wanted.get(key) != given[key]}
    alike = wanted.keys() == given.keys()
    if alike and not other:
        load_weights(network, checkpoint, strict=False)
    elif alike and isinstance(network, Network) and other <= GROWING and all(given[key] < wanted[key] for key in other):
        small = load_network(checkpoint)
        assert isinstance(small, Network)  # its shape is told in the same words
        grow(small, network)
    else:
        raise CheckpointError(
            f"{checkpoint.folder}: can't be trained on from, its net is another: "
            f"{', '.join(f'{key} {given[key]}' for key in given if key in other)}; --net needs its shape, or more "
            "blocks and channels"
        )


def grow(small: Network, large: Network) -> None:
    """Make ``large`` say what ``small`` says; both have as many pooling blocks, and heads of one size."""
    inner = dict(places(small.config, large.config))
    with torch.no_grad():
        for name in ("stem", "norm", "policy", "value", "ownership", "score"):
            old, new = getattr(small, name), getattr(large, name)
            if old is not None and new is not None:
                _embed(old, new)
        for place, block in enumerate(large.tower):
            if place in inner:
                _embed(small.tower[inner[place]], block)
            else:
                nn.init.zeros_(block.conv2.weight)  # type: ignore[union-attr, arg-type]  # every block has one


def places(small: NetworkConfig, large: NetworkConfig) -> Iterator[tuple[int, int]]:
    """Which block of the larger tower is which of the smaller: pairs (place there, place here). Both pool at the ends
    of equal parts of the tower; what a part has more is new."""
    here = 0
    for there in range(large.blocks):
        if here < small.blocks and large.pools(there) == small.pools(here):
            yield there, here
            here += 1


def _embed(old: nn.Module, new: nn.Module) -> None:
    """Put the weights of ``old`` into the first channels of ``new``, which don't read the others."""
    given: dict[str, Tensor] = old.state_dict()
    for name, tensor in new.state_dict().items():
        weights = given[name]
        if weights.ndim == 4:
            outputs, inputs = weights.shape[:2]
            tensor[:outputs, inputs:] = 0
            tensor[:outputs, :inputs] = weights
        elif weights.ndim:
            tensor[: len(weights)] = weights
        else:
            tensor.copy_(weights)
