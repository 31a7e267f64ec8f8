"""Residual nets in the 8 bits of ``bots.nets.vnni``: a net is packed in milliseconds, where exporting a model takes
half a second."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import torch
from torch import nn

from bots.nets import vnni
from bots.nets.network import Network, PoolingBlock, folded


def fits(network: nn.Module) -> TypeGuard[Network]:
    """Whether a net can be packed: a residual one with all heads, whose channels fill registers."""
    if not isinstance(network, Network):
        return False
    shape = network.config
    return all(count % vnni.LANES == 0 for count in (shape.channels, shape.head_channels, shape.pooled_channels))


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


def _numbers(tensor: torch.Tensor | None) -> np.ndarray:
    assert tensor is not None
    array: np.ndarray = tensor.detach().cpu().float().numpy()
    return array


def _affine(norm: nn.BatchNorm2d) -> tuple[np.ndarray, np.ndarray]:
    """What a norm multiplies with and adds."""
    assert norm.running_mean is not None and norm.running_var is not None
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    return _numbers(scale), _numbers(norm.bias - norm.running_mean * scale)


def _highest(network: Network, planes: np.ndarray) -> dict[nn.Module, float]:
    """The largest number that each convolution is given for ``planes``."""
    found: dict[nn.Module, float] = {}

    def note(module: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        found[module] = max(1e-3, float(given[0].max()))

    hooks = [one.register_forward_pre_hook(note) for one in network.modules() if isinstance(one, nn.Conv2d)]
    with torch.no_grad():
        network(torch.from_numpy(planes), ("policy", "value"))
    for hook in hooks:
        hook.remove()
    return found


def pack(network: Network, planes: np.ndarray) -> dict[str, np.ndarray]:
    """The net, which is on the processor, in 8 bits that ``planes`` (B, P, n, n) float32 don't overrun, for
    ``vnni.lay_out``."""
    net = folded(network)
    shape = net.config
    channels, pooled, head = shape.channels, shape.pooled_channels, shape.head_channels
    highest, packer = _highest(net, planes), _Packer()
    stem = packer.add(_numbers(net.stem.weight))
    levels = np.rint(_numbers(net.stem.weight) / stem[:, None, None, None])
    stem_shift = -vnni.ZERO * levels.sum((1, 2, 3)) * stem / vnni.INPUT
    tables: dict[str, list[np.ndarray]] = {name: [] for name in vnni.BY_POINT[2:]}
    pool_scale, pool_shift, spread = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    pools: list[bool] = []
    empty = np.zeros(pooled, np.float32)
    for block in net.tower:
        assert isinstance(block.conv1, nn.Conv2d) and isinstance(block.conv2, nn.Conv2d)
        assert isinstance(block.norm1, nn.BatchNorm2d)
        given, between = 255 / highest[block.conv1], 255 / highest[block.conv2]
        scale, shift = _affine(block.norm1)
        tables["norm_scale"].append(scale * given)
        tables["norm_shift"].append(shift * given)
        first = packer.add(_numbers(block.conv1.weight))
        shift = _numbers(block.conv1.bias)
        if isinstance(block, PoolingBlock):
            steps = packer.add(_numbers(block.pool.weight))
            pool_scale.append(steps / given)
            pool_shift.append(_numbers(block.pool.bias))
            spread.append(_numbers(block.spread.weight)[:, :, 0, 0].T * between)
            shift = shift + _numbers(block.spread.bias)
        else:
            packer.add(None)
            pool_scale.append(empty)
            pool_shift.append(empty)
            spread.append(np.zeros((2 * pooled, channels), np.float32))
        pools.append(isinstance(block, PoolingBlock))
        tables["inner_scale"].append(first / given * between)
        tables["inner_shift"].append(shift * between)
        second = packer.add(_numbers(block.conv2.weight))
        tables["outer_scale"].append(second / between)
        none = np.zeros(channels, np.float32)
        tables["outer_shift"].append(none if block.conv2.bias is None else _numbers(block.conv2.bias))
    given = 255 / highest[net.policy.conv]
    scale, shift = _affine(net.norm)
    tables["norm_scale"].append(scale * given)
    tables["norm_shift"].append(shift * given)
    heads = (net.policy.conv, net.policy.pool, net.value.conv)
    head_steps = packer.add(np.concatenate([_numbers(conv.weight) for conv in heads]))
    head_shift = np.concatenate([_numbers(conv.bias) for conv in heads])
    head_shift[:head] += _numbers(net.policy.spread.bias)
    policy_steps = 255 / highest[net.policy.points]
    points = packer.add(_numbers(net.policy.points.weight))

    def matrix(conv: nn.Conv2d) -> np.ndarray:
        rows = np.concatenate([_numbers(conv.weight)[:, :, 0, 0].T, _numbers(conv.bias)[None]])
        return np.ascontiguousarray(rows, np.float32)

    names = {name: np.stack(table).astype(np.float32) for name, table in tables.items()}
    return names | {
        "pools": np.array(pools, np.int64),
        "weights": np.concatenate(packer.parts),
        "begins": np.array(packer.begins, np.int64),
        "stem_scale": (stem / vnni.INPUT).astype(np.float32),
        "stem_shift": stem_shift.astype(np.float32),
        "pool_scale": np.stack(pool_scale).astype(np.float32),
        "pool_shift": np.stack(pool_shift).astype(np.float32),
        "spread": np.ascontiguousarray(np.stack(spread), np.float32),
        "head_scale": (head_steps / given).astype(np.float32),
        "head_shift": head_shift.astype(np.float32),
        "policy_spread": np.ascontiguousarray(_numbers(net.policy.spread.weight)[:, :, 0, 0].T, np.float32),
        "policy_steps": np.array([policy_steps], np.float32),
        "point_scale": np.array([points[0] / policy_steps], np.float32),
        "passing": matrix(net.policy.passing)[:, 0].copy(),
        "hidden": matrix(net.value.hidden),
        "result": matrix(net.value.result),
    }
