"""Distillation: what a search finds goes into the net that plays without one, or leads a search itself. No records are
needed.

The teacher plays games against itself (``teaching.py``), and the net learns the shares of its visits (cross entropy:
Silver et al. 2017, "Mastering the game of Go without human knowledge", Methods, "Optimization"), a value between the
game's result and what the search said, and whose each point was at the end. The teacher may be a larger net, a larger
net's search, or the search of the very net that learns: one round of expert iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from arena import ConfigError
from arena.go.planes import Encoder
from arena.players.registry import Registry
from bots.nets.network import SCORE_UNIT, Answer, expected_result
from trainers import data, dataset, supervised
from trainers.cluster import Lent, connected
from trainers.losses import Losses, Target, moved, to_tensors
from trainers.losses import loss as usual_loss
from trainers.progress import Made, Progress
from trainers.settings import Distill as Config
from trainers.supervised import Answering, Ask, Lesson, Weighed, ask_start, encoder_of, named
from trainers.teachers import Recipe
from trainers.teaching import (
    Findings,
    FoundRows,
    PlayedRows,
    Split,
    Taught,
    in_order,
    make_games,
    read_earlier,
    read_findings,
    split_findings,
    what_is_missing,
)
from trainers.train import inherited_rules
from trainers.workers import kept_to_one

# --- The loss ---


@dataclass(frozen=True, slots=True)
class TaughtTarget:
    """What a net should have said, after a teacher."""

    usual: Target
    """Its moves are those with the largest share."""
    shares: Tensor  # (B, n² + 1)
    win_rates: Tensor  # (B,), of the side to move; NaN where none is known


def loss(answer: Answer, target: TaughtTarget, outcome_share: float) -> Losses:
    """How far an answer is from what it should be.

    Of the policy it is the cross entropy with the teacher's shares. Of the value it is the cross entropy of win, draw
    and loss with the game's result and, in the share that is left by ``outcome_share``, that of winning, a draw being
    half of it, with the win rate: a win rate doesn't tell how likely a draw is. Where only one of them is known, it
    counts in full.
    """
    assert answer.policy is not None and answer.value is not None  # what ``check`` asks for
    usual = usual_loss(answer, target.usual)
    policy = -(target.shares * answer.policy.log_softmax(1)).sum(1).mean()

    decided, judged = target.usual.results != data.NO_RESULT, ~target.win_rates.isnan()
    by_result = functional.cross_entropy(
        answer.value, target.usual.results, ignore_index=data.NO_RESULT, reduction="none"
    )
    logs = answer.value.log_softmax(1)
    half = np.log(0.5)
    wins = torch.logaddexp(logs[:, data.WIN], logs[:, data.DRAW] + half)
    losses = torch.logaddexp(logs[:, data.LOSS], logs[:, data.DRAW] + half)
    rate = target.win_rates.nan_to_num()
    by_rate = -(rate * wins + (1 - rate) * losses)
    first = torch.where(judged, outcome_share, 1.0) * decided
    second = torch.where(decided, 1 - outcome_share, 1.0) * judged
    value = (first * by_result + second * by_rate).sum() / (decided | judged).sum().clamp(min=1)
    return replace(usual, policy=policy, value=value)


# --- Measuring ---


@dataclass(frozen=True, slots=True)
class Score:
    """How well a net tells what a teacher found; 0 for what isn't known. Errors of the value are mean squares on a
    scale from -1 to 1."""

    positions: int = 0
    top1: float = 0.0
    """The share of positions whose likeliest move is the teacher's most visited one."""
    policy_loss: float = 0.0
    """Mean cross entropy with the shares of the visits, in nats."""
    policy_floor: float = 0.0
    """The least that it can be: the entropy of those shares."""
    results: int = 0
    """Positions whose game has a known result."""
    value_mse: float = 0.0
    """The value's error beside the result."""
    teacher_mse: float = 0.0
    """That of the teacher's win rates, where it has some."""
    win_rate_mse: float = 0.0
    """The value's beside the teacher's."""
    ownership: float = 0.0
    """The share of owned points whose final owner was predicted; neutral points don't count."""
    score_error: float = 0.0
    """The mean absolute error of the score, in points."""


def measure(ask: Ask, batches: Iterable[Taught]) -> Score:
    """Ask about every batch."""
    sums = dict.fromkeys(("right", "loss", "floor", "value", "teacher", "rate", "points", "predicted", "error"), 0.0)
    positions = results = rates = both = scored = 0
    for batch in batches:
        with torch.no_grad():
            policy, value, ownership, score, *_ = ask(batch)
        assert policy is not None and value is not None
        shares = torch.from_numpy(batch.shares)
        positions += len(batch)
        sums["right"] += float((policy.argmax(1) == torch.from_numpy(batch.moves)).sum())
        sums["loss"] += float(-(shares * policy.log_softmax(1)).sum())
        sums["floor"] += float(-torch.xlogy(shares, shares).sum())
        said, found = expected_result(value.double()).numpy(), 2 * batch.win_rates.astype(np.float64) - 1
        decided, judged = batch.results != data.NO_RESULT, ~np.isnan(found)
        told = 1.0 - batch.results
        results, rates = results + int(decided.sum()), rates + int(judged.sum())
        both += int((decided & judged).sum())
        sums["value"] += float(((said - told) ** 2)[decided].sum())
        sums["teacher"] += float(((found - told) ** 2)[decided & judged].sum())
        sums["rate"] += float(((said - found) ** 2)[judged].sum())
        if ownership is not None and score is not None:
            owners, scores = torch.from_numpy(batch.owners), torch.from_numpy(batch.scores)
            scored += int((~scores.isnan()).sum())
            sums["points"] += float((owners != 0).sum())
            sums["predicted"] += float(((ownership > 0) == (owners > 0))[owners != 0].sum())
            sums["error"] += float((SCORE_UNIT * score - scores).abs().nansum())
    return Score(
        positions=positions,
        top1=sums["right"] / max(1, positions),
        policy_loss=sums["loss"] / max(1, positions),
        policy_floor=sums["floor"] / max(1, positions),
        results=results,
        value_mse=sums["value"] / max(1, results),
        teacher_mse=sums["teacher"] / max(1, both),
        win_rate_mse=sums["rate"] / max(1, rates),
        ownership=sums["predicted"] / max(1.0, sums["points"]),
        score_error=sums["error"] / max(1, scored),
    )


# --- What is learned from ---


@dataclass(frozen=True, slots=True)
class Material:
    """What the teacher found and, where records were given, those."""

    found: Split
    records: data.Split | None = None

    @classmethod
    def read(cls, config: Config, recipe: Recipe, results: Path) -> Material:
        """Raises ConfigError or RecordError for games or records that can't be used."""
        cache = results / "cache"
        rules = inherited_rules(config.start, results)
        found = split_findings(config, read_findings(config, recipe, cache), read_earlier(config), rules)
        return cls(found, dataset.read_split(config, cache, rules) if config.data else None)

    def rules(self, config: Config, results: Path) -> tuple[data.SplitRule, ...]:
        """By what all the games are apart."""
        records = self.records.rules if self.records else ()
        return tuple(
            dict.fromkeys((data.SplitRule.of(config, played=True), *inherited_rules(config.start, results), *records))
        )

    def rows(self, config: Config, encoder: Encoder, seed: int) -> data.Source:
        """The endless order of training rows, each a ``Taught``."""
        known: list[data.Counted] = [
            FoundRows(some, encoder, seed, config.num_workers) for some in (self.found.train, *self.found.others)
        ]
        if self.records is not None:
            played = PlayedRows(self.records.train, encoder, seed, config.num_workers)
            known[0] = data.Mixed(known[0], played, config.records_share)
        return data.BySize(known, config.batch_size, seed) if self.found.others else known[0]

    def figures(self, config: Config, encoder: Encoder, part: str, ask: Ask) -> dict[str, float]:
        """The figures of a net over ``part`` (validation or test), those of records under a name of their own."""
        count = config.validation_positions if part == "validation" else config.test_positions
        told: dict[str, float] = {}
        findings: Findings = getattr(self.found, part)
        if len(findings):
            told |= named(part, asdict(measure(ask, in_order(findings, encoder, count))))
        if self.records is not None and len(getattr(self.records, part)):
            told |= named("records", supervised.figures_of(config, self.records, part, ask, supervised.figures))
        return told


# --- Training ---


def check(config: Config, results: Path) -> None:
    """Raise ConfigError, CheckpointError or RecordError for settings that can't be."""
    supervised.check(config, "distill", ("policy", "value"), results)
    if config.test_split + config.validation_split >= 1:
        raise ConfigError("test_split and validation leave no games to learn from; lower them")
    read_earlier(config)  # or hours of play would come before what is wrong with them
    if config.data:
        dataset.read_split(config, results / "cache", inherited_rules(config.start, results))


def train(
    config: Config,
    results: Path,
    registry: Registry,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_made: Callable[[Made], None] = lambda _: None,
    lent: Lent | None = None,
) -> Path:
    """Play the games that are still missing, then train, or go on where a run of this name stopped; the checkpoint's
    folder. The teacher is one of ``registry``, and plays where it is ``lent`` cores.

    See ``supervised.train``; the games are in cache/, too. Interrupted while they are played it raises
    KeyboardInterrupt.
    """
    config = supervised.with_net_named(config, results)
    check(config, results)
    recipe = Recipe.of(config, registry)
    missing, _ = what_is_missing(config, recipe, results / "cache")
    with connected(lent if missing else None, [recipe.teacher], recipe.rules) as cores:
        supervised.claim(config, results)
        if missing:
            with kept_to_one(recipe.folder(results / "cache"), "; it plays the same games"):
                make_games(config, recipe, results / "cache", on_made, cores)
    return supervised.train(config, results, partial(lesson_of, config, recipe, results), on_progress)


def lesson_of(config: Config, recipe: Recipe, results: Path) -> Lesson[TaughtTarget]:
    """What is learned from games that are there; raises as ``Material.read`` does."""
    material, encoder = Material.read(config, recipe, results), encoder_of(config)
    figures, split = partial(material.figures, config, encoder), material.found
    parts = (split.train, split.validation, split.test)

    def test(ask: Ask) -> Mapping[str, float]:
        before = ask_start(config, results)
        return figures("test", ask) | ({} if before is None else named("start", figures("test", before)))

    return Lesson(
        "distill",
        komi=config.komi,
        rows=partial(material.rows, config, encoder),
        kept=FoundRows(split.validation if len(split.validation) else split.train, encoder, config.seed + 1),
        to_tensors=to_taught,
        begin=lambda _: partial(weigh, config),
        watch=partial(figures, "validation"),
        test=test,
        splits=material.rules(config, results),
        played=f"{sum(len(part.games) for part in parts)} games of {config.teacher} ({recipe.teacher.identity})"
        f"{' and earlier ones' if config.earlier else ''}, {sum(map(len, parts))} positions",
    )


def to_taught(batch: data.Batch, device: torch.device) -> tuple[Tensor, TaughtTarget]:
    """Planes (B, P, n, n) and what the net should say of them, on ``device``."""
    assert isinstance(batch, Taught)  # what ``Material.rows`` gives
    planes, usual = to_tensors(batch, device)
    return planes, TaughtTarget(usual, moved(batch.shares, device), moved(batch.win_rates, device))


def weigh(config: Config, answering: Answering, planes: Tensor, target: TaughtTarget) -> Weighed:
    losses = loss(answering(planes), target, config.outcome_share)
    return Weighed(losses.total(config), losses.right, losses.figures())
