"""Training on a GPU: on a pretended one everywhere, and on a real one where there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from pretended import KIND, install
from test_training import SIZE, random_game
from test_value import untrained

from arena.players.registry import Registry
from bots.nets.catalogue import load_network
from bots.nets.checkpoint import Checkpoint
from trainers import distill, loop, ownership, rl, sl, value
from trainers.settings import RL, SL, Distill, Loop, Ownership, Value

Train = Callable[[Loop, Path], Path]
"""Trains by some settings under a folder of results; the checkpoint's folder."""

REAL = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"))


@pytest.fixture(params=[KIND, REAL])
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What torch calls the device that trainers take for a GPU."""
    monkeypatch.setattr(loop, "GPU", request.param)
    if request.param == KIND:
        install()
        monkeypatch.setattr(torch.Tensor, "pin_memory", torch.Tensor.clone)
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        request.addfinalizer(lambda: torch.__future__.set_overwrite_module_params_on_conversion(False))
    return str(request.param)


def trainers(folder: Path) -> dict[str, tuple[Loop, Train]]:
    """Every trainer that learns with torch, with settings that take seconds."""
    archive, net = folder / "random.sgfs", str(untrained(folder / "net", 1))
    archive.write_text("".join(f"{random_game(seed, '2017-05-01').to_sgf()}\n" for seed in range(20)))
    records = {"data": (str(archive),), "test_from": "", "validation_split": 0.2, "playouts": 0}
    taught = {"teacher": f"alphago:checkpoint={net},visits=8,rollout_weight=0", "games": 24, "parallel_games": 24}
    usual = {"size": SIZE, "net": "arena-1x8", "batch_size": 16, "max_rows": 64, "validate_every": 32}

    def registered(train: Callable[..., Path], config: Loop, results: Path) -> Path:
        return train(config, results, Registry())

    kinds: dict[str, tuple[type[Loop], Train, dict[str, Any]]] = {
        "sl": (SL, sl.train, usual | records),  # type: ignore[dict-item]  # each takes its own settings
        "ownership": (Ownership, ownership.train, usual | records | {"net": "gocnn-2x8"}),  # type: ignore[dict-item]
        "value": (Value, value.train, usual | records | {"start": net, "source": "records"}),  # type: ignore[dict-item]
        "distill": (Distill, partial(registered, distill.train), usual | taught | {"start": net, "test_split": 0.2}),
        "rl": (
            RL,
            partial(registered, rl.train),
            {"start": net, "size": SIZE, "games": 4, "max_iterations": 2, "eval_games": 2, "final_eval_games": 2}
            | {"eval_opponent": "", "pool_every": 1, "baseline": "value", "gae_lambda": 0.9, "optimizer": "muon"},
        ),
    }
    return {
        name: (kind("run", **{key: given for key, given in told.items() if key in kind.__dataclass_fields__}), train)
        for name, (kind, train, told) in kinds.items()
    }


@pytest.mark.parametrize(
    ("name", "bf16"),
    [("sl", False), ("ownership", False), ("value", False), ("distill", False), ("rl", False), ("value", True)],
)
def test_a_trainer_learns_on_a_gpu_and_goes_on_there(gpu: str, name: str, bf16: bool, tmp_path: Path) -> None:
    """It ends as a run on the processor does, which the pretended device computes with."""
    config, train = trainers(tmp_path)[name]
    end = "max_iterations" if name == "rl" else "max_rows"
    config = replace(config, device="cuda", bf16=bf16, ema_decay=0.5)
    half = replace(config, **{end: getattr(config, end) // 2})
    train(half, tmp_path / gpu)
    there = load_network(Checkpoint.open(train(config, tmp_path / gpu))).state_dict()
    if bf16 or gpu != KIND:
        return
    train(replace(half, device="cpu"), tmp_path / "cpu")
    here = load_network(Checkpoint.open(train(replace(config, device="cpu"), tmp_path / "cpu"))).state_dict()
    for key, weights in here.items():
        torch.testing.assert_close(there[key], weights, atol=1e-4, rtol=1e-3)
