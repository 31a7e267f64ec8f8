"""Supervised learning: a net that imitates strong games and foresees how they end. No self-play, no search.

Learns the next move (cross entropy, as AlphaGo's SL policy: Silver et al. 2016, "Mastering the game of Go with deep
neural networks and tree search", Methods) and, from the same rows where the record tells, who wins, whose each point
will be and by how much (Wu 2019, "Accelerating self-play learning in Go", section 4.2).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from arena import ConfigError
from arena.go.game import Rules
from arena.go.planes import find_encoder
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.network import SCORE_UNIT, Answer, Network, NetworkConfig
from trainers import data
from trainers.export import describe, export, start_from
from trainers.loop import Plan, Progress, Run, Target, Workers, keep_freed_memory, pick_device, to_tensors


@dataclass(frozen=True, slots=True)
class Config:
    """What to learn from, what to build, and for how long."""

    name: str = "sl-9x9"
    """The checkpoint's name; the run's own files are kept under it too."""
    records: tuple[str, ...] = ()
    """SGF files, folders of them, or .sgfs.xz files with a game a line."""
    size: int = 9
    """Only games on boards of this size are used."""
    test_from: str = "2018-03-01"
    """Games dated this day or later are the test; empty for a run without a test."""
    validation: float = 0.01
    """The share of the other games that is kept aside to watch the run."""
    encoder: str = "arena-17"
    """How a position becomes planes."""
    blocks: int = 6
    """Residual blocks of the net."""
    channels: int = 64
    """Channels of the net."""
    batch: int = 256
    """Rows a step, all processes together."""
    max_rows: int | None = None
    """The end of the run, in training rows."""
    max_minutes: float | None = None
    """The end of the run, in minutes of training."""
    optimizer: str = "muon"
    """muon, adamw or sgd."""
    learning_rate: float = 0.04
    """The highest learning rate, after the warm-up."""
    weight_decay: float = 0.01
    """Decoupled weight decay of the convolutions."""
    average: float = 0.999
    """How much of the averaged weights, which the checkpoint gets, stays at each step."""
    value_weight: float = 0.4
    """The weight of the value loss beside the policy loss."""
    ownership_weight: float = 0.3
    """The weight of the ownership loss."""
    score_weight: float = 0.1
    """The weight of the score loss."""
    start: str = ""
    """A checkpoint to train on from, by name or folder; empty to start with random weights."""
    save_minutes: float = 5.0
    """How often the state is saved that a run goes on from."""
    check_every: int = 50_000
    """Validation after so many rows."""
    check_positions: int = 8_000
    """Positions of a validation."""
    test_positions: int = 60_000
    """Positions of the test, of whole games drawn by the seed; 0 for all."""
    seed: int = 1
    """Where the first weights and the order of the rows start."""
    processes: int = 1
    """Processes that share each batch; on a CPU one a core is fastest. Where torchrun started some, those are used."""
    threads: int = 1
    """Threads of torch in each process. Two threads that wait for each other on a busy CPU are slower than one."""
    device: str = "auto"
    """cpu, cuda, or auto for cuda where there is one."""
    bf16: bool = False
    """Compute in bfloat16 where that is safe (autocast)."""

    def plan(self) -> Plan:
        """The part of the settings that the loop needs. Raises ConfigError."""
        return Plan(
            learning_rate=self.learning_rate,
            max_rows=self.max_rows,
            max_minutes=self.max_minutes,
            optimizer=self.optimizer,
            weight_decay=self.weight_decay,
            average=self.average,
            save_minutes=self.save_minutes,
        )


@dataclass(frozen=True, slots=True)
class Losses:
    """The parts of the loss, each a scalar, and the share of rows whose likeliest move was played."""

    policy: Tensor
    value: Tensor
    ownership: Tensor
    score: Tensor
    top1: float

    def total(self, config: Config) -> Tensor:
        return (
            self.policy
            + config.value_weight * self.value
            + config.ownership_weight * self.ownership
            + config.score_weight * self.score
        )


def loss(answer: Answer, target: Target) -> Losses:
    """How far an answer is from what it should be.

    Cross entropy of the move, of the result and, as a mean over points, of the owner (a point of no one's is half of
    each side's); Huber's loss of the score. Rows where one of them isn't known don't count for it.
    """
    known = (target.results != data.NO_RESULT).sum().clamp(min=1)
    value = functional.cross_entropy(answer.value, target.results, ignore_index=data.NO_RESULT, reduction="sum")
    ownership = score = answer.value.new_zeros(())
    if answer.ownership is not None and answer.score is not None:
        scored = ~target.scores.isnan()
        count = scored.sum().clamp(min=1)
        shares = (target.owners.to(answer.ownership.dtype) + 1) / 2
        by_point = functional.binary_cross_entropy_with_logits(answer.ownership, shares, reduction="none")
        ownership = (by_point.mean(1) * scored).sum() / count
        wanted = target.scores.nan_to_num() / SCORE_UNIT
        score = (functional.smooth_l1_loss(answer.score, wanted, reduction="none") * scored).sum() / count
    return Losses(
        policy=functional.cross_entropy(answer.policy, target.moves),
        value=value / known,
        ownership=ownership,
        score=score,
        top1=float((answer.policy.detach().argmax(1) == target.moves).float().mean()),
    )


@dataclass(frozen=True, slots=True)
class Score:
    """How well a net tells the moves and results of some positions."""

    positions: int = 0
    top1: float = 0.0
    """The share of positions whose likeliest move was played."""
    policy_loss: float = 0.0
    """Mean cross entropy, in nats."""
    late_positions: int = 0
    """Positions from ply 15 on, where games have parted."""
    late_top1: float = 0.0
    results: int = 0
    """Positions whose game has a known result."""
    value_loss: float = 0.0
    """Mean cross entropy over win, draw and loss, in nats."""
    value_floor: float = 0.0
    """What the best constant would get: the value has learned something when its loss is below."""
    scored: int = 0
    """Positions whose game was scored, where the net foresees ownership."""
    ownership: float = 0.0
    """The share of their points whose owner was foreseen; points of no one's aside."""
    score_error: float = 0.0
    """The mean absolute error of the score, in points."""


LATE = 15

Ask = Callable[[data.Batch], Answer]
"""What a net, on the CPU, says of a batch."""


def measure(ask: Ask, batches: Iterable[data.Batch]) -> Score:
    """Ask about every batch."""
    positions = right = late = late_right = 0
    scored = points = points_right = 0
    policy_sum = value_sum = error_sum = 0.0
    counts = torch.zeros(3, dtype=torch.float64)
    for batch in batches:
        with torch.no_grad():
            policy, value, ownership, score = ask(batch)
        moves, results = torch.from_numpy(batch.moves), torch.from_numpy(batch.results)
        hits = policy.argmax(1) == moves
        is_late = torch.from_numpy(batch.plies >= LATE)
        positions += len(batch)
        right += int(hits.sum())
        late += int(is_late.sum())
        late_right += int((hits & is_late).sum())
        policy_sum += float(functional.cross_entropy(policy, moves, reduction="sum"))
        value_sum += float(functional.cross_entropy(value, results, ignore_index=data.NO_RESULT, reduction="sum"))
        counts += torch.bincount(results[results != data.NO_RESULT], minlength=3)
        if ownership is not None and score is not None:
            owners, scores = torch.from_numpy(batch.owners), torch.from_numpy(batch.scores)
            scored += int((~scores.isnan()).sum())
            points += int((owners != 0).sum())
            points_right += int(((ownership > 0) == (owners > 0))[owners != 0].sum())
            error_sum += float((SCORE_UNIT * score - scores).abs().nansum())
    known = float(counts.sum())
    shares = counts[counts > 0] / max(1.0, known)
    return Score(
        positions=positions,
        top1=right / max(1, positions),
        policy_loss=policy_sum / max(1, positions),
        late_positions=late,
        late_top1=late_right / max(1, late),
        results=int(known),
        value_loss=value_sum / max(1.0, known),
        value_floor=float(-(shares * shares.log()).sum()),
        scored=scored,
        ownership=points_right / max(1, points),
        score_error=error_sum / max(1, scored),
    )


def build(config: Config) -> Network:
    """The net to begin with: that of ``start``, or untrained and the same for the same seed. Raises CheckpointError."""
    encoder = find_encoder(config.encoder)
    shape = NetworkConfig(planes=encoder.planes, blocks=config.blocks, channels=config.channels, area=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        network = Network(shape)
    if config.start:
        start_from(network, Checkpoint.open(find(config.start)))
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's hints


def ask_with(network: nn.Module, device: torch.device) -> Ask:
    """Ask ``network`` in evaluation mode."""

    def ask(batch: data.Batch) -> Answer:
        network.eval()
        answer: Answer = network(to_tensors(batch, device)[0])
        return answer.to(torch.device("cpu"))

    return ask


def train(config: Config, results: Path, on_progress: Callable[[Progress], None] = lambda _: None) -> Path:
    """Train, or go on where a run of this name stopped, and return the checkpoint's folder.

    Files go under ``results``: cache/, training/NAME/ and checkpoints/NAME/. Stopped by SIGINT or SIGTERM it saves its
    state and a checkpoint without the test figures, and returns as always. Raises RecordError for records that can't be
    used, ConfigError for settings that can't be, and CheckpointError for a state that doesn't fit.
    """
    check(config)
    split = read(config, results)  # before other processes start: they find it in the cache
    with Workers.joined(config.processes, partial(join, config, results)) as workers:
        learned = learn(config, results, split, workers, on_progress)
    if workers.rank:
        return results / "checkpoints" / config.name
    return save_checkpoint(config, results, split, learned)


def check(config: Config) -> None:
    """Raise ConfigError or CheckpointError for settings that can't be."""
    config.plan()
    find_encoder(config.encoder)
    if not config.records:
        raise ConfigError("no game records to learn from: name SGF files, folders or .sgfs.xz files")
    if config.processes < 1 or config.batch % config.processes:
        raise ConfigError(
            f"a batch of {config.batch} can't be shared by {config.processes} processes; choose a multiple"
        )
    pick_device(config.device, Workers())


def join(config: Config, results: Path, workers: Workers) -> None:
    """What another process does that shares the batches of ``train``."""
    learn(config, results, read(config, results), workers)


def read(config: Config, results: Path) -> data.Split:
    """The games of the records, split."""
    day = data.day_of(config.test_from)
    games = data.load_games([Path(path) for path in config.records], config.size, results / "cache")
    return data.split_by_game(games, day, config.validation)


@dataclass(frozen=True, slots=True)
class Learned:
    """What a run came to: the averaged net, on the CPU, and its figures."""

    network: Network
    rows: int
    minutes: float
    metrics: Mapping[str, float]


def learn(
    config: Config,
    results: Path,
    split: data.Split,
    workers: Workers,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Learned:
    """Train until the budget is spent or a signal comes; the first of the workers also watches, measures and saves."""
    encoder = find_encoder(config.encoder)
    device = pick_device(config.device, workers)
    keep_freed_memory()
    torch.set_num_threads(config.threads)
    watched = data.some_games(split.validation, config.check_positions, config.seed)
    network, averaged = build(config).to(device), build(config).to(device)
    settings = {key: value for key, value in asdict(config).items() if key not in ADJUSTABLE}
    run = Run(network, config.plan(), results / "training" / config.name, settings, workers)
    run.restore()

    def score(games: data.Games) -> Score:
        averaged.load_state_dict(run.averaged)
        return measure(ask_with(averaged, device), data.in_order(games, encoder))

    share = config.batch // workers.count
    rows = data.Rows(split.train, encoder, config.seed)
    ahead = data.Prefetch(rows, run.rows + workers.rank * share, share, config.batch)
    with run.stopping_on_signals(), ahead as batches:
        network.train()
        asked = time.monotonic()
        for batch in batches:
            waited = time.monotonic() - asked
            if run.is_over:
                break
            planes, target = to_tensors(batch, device)
            with torch.autocast(device.type, torch.bfloat16, enabled=config.bf16):
                answer: Answer = network(planes)
            losses = loss(answer.to(torch.float32), target)
            progress = run.step(losses.total(config), config.batch, losses.top1, waited)
            on_progress(progress)
            if workers.rank == 0 and run.rows // config.check_every > (run.rows - config.batch) // config.check_every:
                log(run, progress, score(watched))
            asked = time.monotonic()
    metrics: dict[str, float] = {}
    if workers.rank == 0:
        run.save()
        metrics = {f"validation_{key}": value for key, value in asdict(score(watched)).items()}
        if run.done >= 1 and len(split.test):
            test = data.some_games(split.test, config.test_positions, config.seed)
            metrics |= {f"test_{key}": value for key, value in asdict(score(test)).items()}
    return Learned(averaged.cpu(), run.rows, run.seconds / 60, metrics)


def log(run: Run, progress: Progress, score: Score) -> None:
    run.log(
        loss=round(progress.loss, 4),
        top1=round(progress.top1, 4),
        rows_per_second=round(progress.rows_per_second, 1),
        validation_top1=round(score.top1, 4),
        validation_loss=round(score.policy_loss, 4),
        validation_value=round(score.value_loss, 4),
        value_floor=round(score.value_floor, 4),
        validation_ownership=round(score.ownership, 4),
        validation_score_error=round(score.score_error, 3),
    )


def save_checkpoint(config: Config, results: Path, split: data.Split, learned: Learned) -> Path:
    """Export a net with all that is known of its training; its folder."""
    encoder = find_encoder(config.encoder)
    files = [Path(path) for path in config.records]
    manifest = describe(
        learned.network,
        config.name,
        encoder,
        Rules.preset("cgos", config.size, float(np.median(split.train.komis))),
        trainer="sl",
        data=f"{', '.join(file.name for file in files)}; sha256 {data.digest_of(files)}",
        rows=learned.rows,
        minutes=round(learned.minutes, 1),
        settings={**asdict(config), "records": [file.name for file in files]},
        metrics={key: round(value, 5) for key, value in learned.metrics.items()},
        parent=Checkpoint.open(find(config.start)).identity if config.start else "",
    )
    checked = split.validation if len(split.validation) else split.train
    calibration = data.Rows(split.train, encoder, config.seed + 1).batch(0, CALIBRATION)
    check = data.Rows(checked, encoder, config.seed + 1).batch(0, PARITY_ROWS)
    folder = results / "checkpoints" / config.name
    return export(learned.network, folder, manifest, calibration.planes, check.planes).folder


CALIBRATION, PARITY_ROWS = 256, 1024
"""Positions that set the int8 scales, and positions on which the exported nets are compared."""

ADJUSTABLE = frozenset(
    "max_rows max_minutes save_minutes threads records device test_positions check_every check_positions".split()
)
"""Settings that a resumed run may change: where it runs, its end and its reports, not what a step learns."""
