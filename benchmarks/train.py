"""Learning and self-play with torch: on a GPU where there is one, else on one thread of the processor."""

from __future__ import annotations

import resource
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from arena.go.game import Rules
from arena.go.planes import find_encoder
from arena.players.registry import Registry
from benchmarks.measure import interleaved, report, row
from bots.nets.catalogue import named_network
from bots.nets.gpu import TorchModel
from trainers import sl
from trainers.data import Rows
from trainers.loop import Run, to_tensors
from trainers.optimizers import Plan
from trainers.selfplay import NetPlayer, Uniform, by_colour, draw_seeds, groups_on, play
from trainers.settings import SL
from trainers.teachers import Finished, Recipe, Searches, play_games
from trainers.workers import Workers, pick_device

ENCODER = find_encoder("arena-17")

ON_GPU = ("arena-10x128", 2048, 2048, 1024)
ON_CPU = ("arena-6x56", 128, 64, 64)
"""A net, the rows of a step, the positions of a question, the games at once."""

SEARCH = "alphago:visits={},rollout_weight=0,stop_early=false,settled=false"


class Even:
    """Evaluates positions in no time: all moves are alike, and half of the games won."""

    encoder = ENCODER

    def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((len(planes), 82), np.float32), np.full(len(planes), 0.5, np.float32)


class Counting(TorchDispatchMode):
    """Counts operations as they are dispatched, those that only look at a tensor otherwise aside: about as many as a
    GPU would be given kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        self.counts[func._schema.name] += not func.is_view
        return func(*args, **(kwargs or {}))


def train() -> None:
    """A step of ``arena train sl``, questions to a net, games of self-play."""
    device = pick_device("auto", Workers())
    gpu = device.type != "cpu"
    torch.set_num_threads(1)
    name, batch, asked, slots = ON_GPU if gpu else ON_CPU
    seats = by_colour(np.zeros(256, np.int64), np.zeros(256, np.int64))
    games = play([Uniform()], seats, Rules.preset(), draw_seeds(256, 1)).games
    _steps(name, batch, device, Rows(games, ENCODER, threads=8 if gpu else 1))
    _questions(name, asked, device)
    _self_play(name, slots, device)
    _searches(256 if gpu else 64)
    most = torch.cuda.max_memory_allocated(device) if gpu else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row("memory, at most", f"{most / 2**20:,.0f} MiB", str(device))


def _waited(device: torch.device, work: Callable[[], object]) -> float:
    """Seconds that ``work`` takes, to its end on the device."""
    started = perf_counter()
    work()
    if device.type != "cpu":
        torch.cuda.synchronize(device)
    return perf_counter() - started


def _steps(name: str, batch: int, device: torch.device, rows: Rows) -> None:
    with tempfile.TemporaryDirectory() as folder:
        network = named_network(name, ENCODER.planes, 9).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        run = Run(network.train(), Plan(learning_rate=0.01, max_rows=10**9), Path(folder))

        def forward() -> sl.Losses:
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type != "cpu"):
                answer = network(planes)
            return sl.loss(answer.to(torch.float32), wanted)

        def backward(losses: sl.Losses) -> None:
            run.forget()
            losses.total(SL()).backward()

        def update(losses: sl.Losses) -> None:
            run.update(batch, {"loss": losses.policy, "right": losses.right, **losses.parts()})

        parts: dict[str, list[float]] = {"rows": [], "net": [], "update": []}

        def step(number: int) -> float:
            nonlocal planes, wanted
            started = perf_counter()
            planes, wanted = to_tensors(rows.batch(number * batch, batch), device)
            encoded = perf_counter()
            held: list[sl.Losses] = []
            seconds = _waited(device, lambda: (held.append(forward()), backward(held[0])))
            updating = _waited(device, lambda: update(held[0]))
            for part, took in zip(parts.values(), (encoded - started, seconds, updating), strict=True):
                part.append(took)
            return batch / (perf_counter() - started)

        planes, wanted = to_tensors(rows.batch(0, batch), device)
        (rates,) = interleaved(step, rounds=15)
        report(f"learning {name}, {batch} rows a step, one after another", "rows/s", rates)
        shares = [sum(took) / sum(map(sum, parts.values())) for took in parts.values()]
        row("  of that: rows made, forward and backward, update", " / ".join(f"{share:.0%}" for share in shares), "")
        with Counting() as ahead:
            losses = forward()
        with Counting() as back:
            backward(losses)
        with Counting() as updating:
            update(losses)
        operations = " / ".join(str(sum(part.counts.values())) for part in (ahead, back, updating))
        row("  operations a step: forward, backward, update", operations, "")


def _questions(name: str, batch: int, device: torch.device) -> None:
    network = named_network(name, ENCODER.planes, 9).eval().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    planes = np.random.default_rng(1).random((batch, ENCODER.planes, 9, 9), np.float32)
    for bf16 in (False, True):
        model = TorchModel(network, device, bf16)

        def ours(_: int, model: TorchModel = model) -> float:
            return batch / _waited(device, lambda: model.run(["policy", "value"], planes))

        def plain(_: int, bf16: bool = bf16) -> float:
            def ask() -> None:
                with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                    answer = network(torch.from_numpy(planes).to(device).to(memory_format=torch.channels_last))
                for part in (answer.policy, answer.value):
                    part.float().cpu()

            return batch / _waited(device, ask)

        what = f"policies and values of {name}, {batch} at once, {'bfloat16' if bf16 else 'float32'}"
        report(what, "/s", *interleaved(ours, plain, rounds=15), "the plain module")


def _self_play(name: str, slots: int, device: torch.device) -> None:
    player = NetPlayer(named_network(name, ENCODER.planes, 9), ENCODER, device, bf16=True)
    seats = by_colour(np.zeros(slots, np.int64), np.zeros(slots, np.int64))
    speed = play(
        [player],
        seats,
        Rules.preset("cgos", 9, move_limit=60),
        draw_seeds(slots, 1),
        slots=slots,
        threads=8 if device.type != "cpu" else 1,
        groups=groups_on(device),
    ).speed
    row(
        f"self-play of {name} without a search, {slots} games at once",
        f"{speed.per_second:,.0f} positions/s",
        str(speed),
    )


def _searches(slots: int) -> None:
    """What a move costs beside the net: in slots, and where the bot is asked for all moves of a round at once."""
    for visits in (2, 32):
        teacher = Registry().resolve(SEARCH.format(visits))
        recipe = Recipe(teacher, Rules.preset("cgos", 9, move_limit=40), 1.0, 2, 0, 1.0, 40, 1)
        bot = teacher.build()
        bot._net = Even()  # type: ignore[attr-defined]  # it is an alphago

        def in_slots(number: int, recipe: Recipe = recipe) -> float:
            return _took(Searches(recipe, Even(), slots).play(numbers(number), lambda: True))

        def by_bot(number: int, recipe: Recipe = recipe, bot: Any = bot) -> float:
            return _took(play_games(bot, recipe, numbers(number), slots, lambda: True))

        def numbers(number: int) -> deque[int]:
            return deque(range(number * slots, (number + 1) * slots))

        what = f"{slots} games of a search: a move of {visits} visits, beside the net"
        report(what, "us", *interleaved(in_slots, by_bot), "asking the bot")


def _took(games: Iterable[Finished]) -> float:
    """Microseconds a move."""
    started = perf_counter()
    moves = sum(len(game.moves) for game in games)
    return 1e6 * (perf_counter() - started) / moves
