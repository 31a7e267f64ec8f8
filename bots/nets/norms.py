"""Folding batch norms into the convolutions before them, in the state of a residual net: NumPy arrays or tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EPSILON = 1e-5  # what a norm adds to its variance (PyTorch's default)

FOLDS = {"norm": ("conv", "spread"), "norm2": ("conv1", "spread"), "norm_pool": ("pool",)}
"""The norms of a module that can be folded, and the convolutions whose sum each one takes, as far as they exist."""


def affine(state: Mapping[str, Any], norm: str) -> tuple[Any, Any]:
    """What a norm multiplies with and adds, (C,) each."""
    scale = state[f"{norm}.weight"] / (state[f"{norm}.running_var"] + EPSILON) ** 0.5
    return scale, state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * scale


def fold_norms(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of the same net without the norms of ``FOLDS``; nothing in ``state`` is changed."""
    folded = dict(state)
    for variance in [name for name in state if name.endswith(".running_var")]:
        norm = variance.removesuffix(".running_var")
        module, _, name = norm.rpartition(".")
        convolutions = [conv for each in FOLDS.get(name, ()) if f"{(conv := f'{module}.{each}')}.weight" in state]
        if not convolutions:
            continue
        scale, shift = affine(state, norm)
        for conv in convolutions:
            folded[f"{conv}.weight"] = state[f"{conv}.weight"] * scale[:, None, None, None]
            folded[f"{conv}.bias"] = state[f"{conv}.bias"] * scale if f"{conv}.bias" in state else 0 * scale
        folded[f"{convolutions[0]}.bias"] = folded[f"{convolutions[0]}.bias"] + shift
        for part in [part for part in folded if part.startswith(f"{norm}.")]:
            del folded[part]
    return folded
