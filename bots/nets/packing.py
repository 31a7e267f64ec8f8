"""Residual nets in the 8 bits of ``bots.nets.vnni``, from their weights and from how large the numbers in them become.
Takes milliseconds, and loads no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bots.nets import vnni

EPSILON = 1e-5
"""What a norm adds to its variance (PyTorch's default)."""


class _Packer:
    """The weights of convolutions, one after another."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []
        self.begins: list[int] = []
        self._length = 0

    def add(self, weights: np.ndarray | None) -> np.ndarray:
        """Take (O, I, k, k) float32 in, by 8-bit steps of each output; how large a step is, (O rounded up,) float32."""
        self.begins.append(self._length)
        if weights is None:
            return np.zeros(0, np.float32)
        outputs, inputs, width, _ = weights.shape
        steps: np.ndarray = np.abs(weights).max((1, 2, 3)) / 127 + 1e-12
        wide, deep = -(-outputs // vnni.LANES) * vnni.LANES, -(-inputs // 4) * 4
        levels = np.zeros((wide, width * width, deep), np.int8)
        rounded = np.rint(weights / steps[:, None, None, None])
        levels[:outputs, :, :inputs] = rounded.transpose(0, 2, 3, 1).reshape(outputs, width * width, inputs)
        rows = levels.reshape(wide, width * width * deep // 4, 4)
        done = 0
        while done < wide:
            count = 2 * vnni.LANES if wide - done >= 2 * vnni.LANES else vnni.LANES
            self.parts.append(rows[done : done + count].transpose(1, 0, 2).reshape(-1))
            done += count
        self._length += levels.size
        return np.pad(steps, (0, wide - outputs)).astype(np.float32)


class _State:
    """A net's numbers by their names in PyTorch."""

    def __init__(self, numbers: Mapping[str, np.ndarray]):
        self._numbers = numbers

    def __getitem__(self, name: str) -> np.ndarray:
        return self._numbers[name]

    def affine(self, norm: str) -> tuple[np.ndarray, np.ndarray]:
        """What a norm multiplies with and adds."""
        scale = self[f"{norm}.weight"] / np.sqrt(self[f"{norm}.running_var"] + np.float32(EPSILON))
        return scale, self[f"{norm}.bias"] - self[f"{norm}.running_mean"] * scale

    def folded(self, conv: str, norm: str) -> tuple[np.ndarray, np.ndarray]:
        """The weights and the bias of a convolution without bias and the norm behind it as one convolution."""
        scale, shift = self.affine(norm)
        return self[f"{conv}.weight"] * scale[:, None, None, None], shift

    def spread(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        """What pooled features are multiplied with, (2 pooled, outputs), and the bias, with the norm behind."""
        scale, _ = self.affine(f"{part}.norm" if part == "policy" else f"{part}.norm2")
        return (self[f"{part}.spread.weight"][:, :, 0, 0] * scale[:, None]).T, self[f"{part}.spread.bias"] * scale

    def matrix(self, conv: str) -> np.ndarray:
        """(inputs + 1, outputs) of a 1x1 convolution; the last row is the bias."""
        return np.concatenate([self[f"{conv}.weight"][:, :, 0, 0].T, self[f"{conv}.bias"][None]])


def pack(numbers: Mapping[str, np.ndarray], ranges: Sequence[float]) -> dict[str, np.ndarray]:
    """The net with this state, by PyTorch's names, in 8 bits for ``vnni.lay_out``.

    ``ranges`` are the largest numbers that its convolutions are given: the two of each block, the policy's first and
    last. Raises KeyError for another net, ValueError where that is not their number.
    """
    net, packer = _State(numbers), _Packer()
    blocks = 1 + max(int(name.split(".")[1]) for name in numbers if name.startswith("tower."))
    if len(ranges) != 2 * blocks + 2:
        raise ValueError(f"{len(ranges)} ranges for {blocks} blocks")
    steps_of_1 = [255 / highest for highest in ranges]
    channels = len(net["stem.weight"])
    pooled, head = len(net["policy.pool.weight"]), len(net["policy.conv.weight"])
    stem = packer.add(net["stem.weight"])
    levels = np.rint(net["stem.weight"] / stem[:, None, None, None])
    tables: dict[str, list[np.ndarray]] = {name: [] for name in vnni.BY_POINT[2:]}
    pools = np.array([f"tower.{block}.pool.weight" in numbers for block in range(blocks)], np.int64)
    pool_scale, pool_shift = np.zeros((2, blocks, pooled), np.float32)
    spread = np.zeros((blocks, 2 * pooled, channels), np.float32)
    for block in range(blocks):
        name, given, between = f"tower.{block}", steps_of_1[2 * block], steps_of_1[2 * block + 1]
        scale, shift = net.affine(f"{name}.norm1")
        tables["norm_scale"].append(scale * given)
        tables["norm_shift"].append(shift * given)
        weights, bias = net.folded(f"{name}.conv1", f"{name}.norm2")
        first = packer.add(weights)
        if pools[block]:
            weights, pool_shift[block] = net.folded(f"{name}.pool", f"{name}.norm_pool")
            pool_scale[block] = packer.add(weights) / given
            matrix, more = net.spread(name)
            spread[block], bias = matrix * between, bias + more
        else:
            packer.add(None)
        tables["inner_scale"].append(first / given * between)
        tables["inner_shift"].append(bias * between)
        tables["outer_scale"].append(packer.add(net[f"{name}.conv2.weight"]) / between)
        tables["outer_shift"].append(np.zeros(channels, np.float32))
    given, policy_steps = steps_of_1[-2:]
    scale, shift = net.affine("norm")
    tables["norm_scale"].append(scale * given)
    tables["norm_shift"].append(shift * given)
    heads = [net.folded(*names) for names in HEADS]
    head_steps = packer.add(np.concatenate([weights for weights, _ in heads]))
    head_shift = np.concatenate([bias for _, bias in heads])
    policy_spread, bias = net.spread("policy")
    head_shift[:head] += bias
    points = packer.add(net["policy.points.weight"])
    arrays = {name: np.stack(table) for name, table in tables.items()} | {
        "stem_scale": stem / vnni.INPUT,
        "stem_shift": -vnni.ZERO * levels.sum((1, 2, 3)) * stem / vnni.INPUT,
        "pool_scale": pool_scale,
        "pool_shift": pool_shift,
        "spread": spread,
        "head_scale": head_steps / given,
        "head_shift": head_shift,
        "policy_spread": policy_spread,
        "policy_steps": np.array([policy_steps]),
        "point_scale": points[:1] / policy_steps,
        "passing": net.matrix("policy.passing")[:, 0],
        "hidden": net.matrix("value.hidden"),
        "result": net.matrix("value.result"),
    }
    return {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()} | {
        "pools": pools,
        "weights": np.concatenate(packer.parts),
        "begins": np.array(packer.begins, np.int64),
    }


HEADS = (("policy.conv", "policy.norm"), ("policy.pool", "policy.norm_pool"), ("value.conv", "value.norm"))
"""The convolutions behind the tower that are one, and their norms."""
