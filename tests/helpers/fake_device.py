"""A pretended GPU: its tensors report a device of their own, compute on the processor and refuse tensors of the
processor beside them, as CUDA does. It counts launches and synchronisations, and says nothing of speed. No tests.

Torch lets Python stand in for the backend of one more kind of device (``PrivateUse1``), once in a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

KIND = "pretended"

COUNTS: Counter[str] = Counter()
"""Of "launches", which are operations carried out on the device, and "waits" of the processor for it."""


class Module(_DummyBackendModule):
    """What ``torch.get_device_module`` gives for it."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]

    def get_rng_state(self, _device: object) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, _state: Tensor, _device: object) -> None:
        """Chance is the processor's."""


class OnDevice(torch.Tensor):
    """A tensor of the device; ``held`` has its numbers."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> OnDevice:
        shape = (held.size(), held.stride(), held.storage_offset())
        made = torch.Tensor._make_wrapper_subclass(cls, *shape, dtype=held.dtype, device=torch.device(KIND, 0))
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return carry_out(operation, *args, **(kwargs or {}))


def carry_out(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """Carry out an operation of which a tensor is on the device, or the result will be."""
    name, stays = operation._schema.name, True
    if kwargs.get("device") is not None:
        stays = torch.device(kwargs["device"]).type == KIND
        kwargs["device"] = torch.device("cpu")
    given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
    here = {id(one.held): one for one in given if isinstance(one, OnDevice)}
    strangers = [one for one in given if one.ndim and not isinstance(one, OnDevice)]
    if here and strangers and name not in ("aten::copy_", "aten::_to_copy"):
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, not {KIND} and cpu")
    copied_away = name == "aten::copy_" and not isinstance(args[0], OnDevice)
    COUNTS["launches"] += not operation.is_view
    COUNTS["waits"] += name == "aten::_local_scalar_dense" or not stays or copied_away

    def held(one: Any) -> Any:
        return one.held if isinstance(one, OnDevice) else one

    def wrapped(one: Any) -> Any:
        if not isinstance(one, Tensor) or isinstance(one, OnDevice) or not stays:
            return one
        return here[id(one)] if id(one) in here else OnDevice(one)

    done = operation(*tree_map(held, args), **tree_map(held, kwargs))
    return args[0] if name == "aten::copy_" else tree_map(wrapped, done)


def rounding(name: str) -> Callable[..., Tensor]:
    """An operation that autocast computes in bfloat16."""

    def cast(one: Any) -> Any:
        return one.to(torch.bfloat16) if isinstance(one, Tensor) and one.is_floating_point() else one

    def compute(*args: Any, **kwargs: Any) -> Tensor:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
            return getattr(torch.ops.aten, name)(*tree_map(cast, args), **tree_map(cast, kwargs))  # type: ignore[no-any-return]

    return compute


@cache
def install() -> tuple[torch.library.Library, ...]:
    """Make the device known to torch, as long as this process lives; what is returned must live as long."""
    _setup_privateuseone_for_python_backend(KIND, Module())
    everything, some = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    everything.fallback(carry_out, "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in ("conv2d", "linear", "matmul"):
        some.impl(name, rounding(name), "AutocastPrivateUse1")
    return everything, some
