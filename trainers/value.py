"""A value net: who will win, from any position. AlphaGo's third stage; no moves are learned, nothing is searched.

After Silver et al. 2016, "Mastering the game of Go with deep neural networks and tree search", Methods ("Value network:
regression"). It begins with a policy net, and the policy stays: the tower learns the value with the policy held to what
it was (the divergence from it is part of the loss), or doesn't learn at all. Where positions come from, and what they
are compared with, is in ``outcomes.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from arena import ConfigError
from arena.go.planes import Encoder
from arena.players.registry import Registry
from bots.nets.catalogue import Net
from bots.nets.network import Answer, expected_result
from trainers import data, outcomes, supervised
from trainers.cluster import Lent, connected
from trainers.losses import Losses, Target, to_tensors
from trainers.losses import loss as usual_loss
from trainers.outcomes import Positions, Probe, Recipe
from trainers.progress import Made, Progress
from trainers.settings import Value as Config
from trainers.supervised import Answering, Ask, Lesson, Loss, Weighed, answering_with, ask_start, encoder_of
from trainers.train import inherited_rules
from trainers.workers import Workers, kept_to_one, pick_device

OPENING = 40
"""Positions before this move are judged apart: there playouts tell least."""

BATCH = 512


# --- The loss ---


def loss(answer: Answer, target: Target, before: Tensor | None, squared: bool) -> Losses:
    """How far an answer is from what it should be; rows without a result, or without a score, don't count for it.

    Of the value it is the cross entropy of win, draw and loss, or the squared error of the expected result. Of the
    policy it is the divergence from ``before`` (B, n² + 1), the logits to be kept, or without them the cross entropy of
    the moves that were played. The accuracy is of the winner, in decided games.
    """
    assert answer.policy is not None and answer.value is not None  # what ``check`` asks for
    usual = usual_loss(answer, target)
    known = target.results != data.NO_RESULT
    results = 1.0 - target.results.to(answer.value.dtype)
    guess = expected_result(answer.value)
    value, policy = usual.value, usual.policy
    if squared:
        value = ((guess - results) ** 2 * known).sum() / known.sum().clamp(min=1)
    if before is not None:
        policy = functional.kl_div(
            answer.policy.log_softmax(1), before.log_softmax(1), reduction="batchmean", log_target=True
        )
    decided = known & (results != 0)
    right = (guess.detach() * results > 0) & decided
    share = right.sum() / decided.sum().clamp(min=1)
    return replace(usual, value=value, policy=policy, right=share)


def total(losses: Losses, config: Config) -> Tensor:
    """What is learned: the value, and beside it, by their weights, the rest."""
    return (
        losses.value
        + config.policy_weight * losses.policy
        + config.ownership_weight * losses.ownership
        + config.score_weight * losses.score
    )


# --- What is learned from ---


@dataclass(frozen=True, slots=True)
class Material:
    """The games of each source; the second is none where there is but one."""

    first: data.Split
    is_own: bool
    """Whether the first's are cut games of its own; else they are records."""
    second: data.Split | None = None

    @classmethod
    def read(cls, config: Config, results: Path) -> Material:
        """Raises ConfigError, CheckpointError or RecordError for settings or records that can't be used."""
        cache, rules = results / "cache", inherited_rules(config.start, results)
        own = None
        if config.source != "records":
            own = outcomes.own_split(config, Recipe.of(config, results), cache, rules)
        records = None if config.source == "self-play" else outcomes.records_split(config, cache, rules)
        if own is None:
            assert records is not None
            return cls(records, False)
        return cls(own, True, records)

    def rows(self, config: Config, encoder: Encoder, seed: int) -> data.Source:
        """The endless order of training rows."""

        def of(split: data.Split, is_own: bool) -> data.Rows:
            if config.positions == "all" and not is_own:
                return data.Rows(split.train, encoder, seed, config.num_workers)
            return data.OneEach(split.train, encoder, seed, config.num_workers, last=is_own)

        first = of(self.first, self.is_own)
        return first if self.second is None else data.Mixed(first, of(self.second, False), config.records_share)

    def judged(self, part: str, count: int, seed: int) -> Iterator[tuple[str, Positions]]:
        """Up to ``count`` positions, or all for 0, of each source that has games in ``part`` (train, validation,
        test), one a game, under the beginning of their figures' names."""
        for name, split in (("", self.first), ("records_", self.second)):
            if split is not None and len(games := getattr(split, part)):
                last = self.is_own and not name
                yield f"{name}{part}", Positions.some(games, count, seed, last)


# --- Measuring ---


def guesses(ask: Ask, positions: Positions, encoder: Encoder) -> np.ndarray:
    """The result that a net expects of each, for the side to move; (positions,) float64, from -1 to 1."""
    parts = [np.empty(0)]
    for first in range(0, len(positions), BATCH):
        places = positions.places[first : first + BATCH]
        batch = data.encode_positions(positions.games, encoder, places, np.zeros(len(places), np.int64))
        with torch.no_grad():
            value = ask(batch).value
        assert value is not None
        parts.append(expected_result(value.double()).numpy())
    return np.concatenate(parts)


def errors(guess: np.ndarray | float, results: np.ndarray, plies: np.ndarray) -> Mapping[str, float]:
    """Mean squared errors on the scale from -1 to 1: of all positions, of those before move ``OPENING`` and of the
    later ones. A phase without positions has none."""
    squares = (guess - results) ** 2
    early = plies < OPENING
    phases = {"": np.ones(len(plies), np.bool_), f"_before_{OPENING}": early, f"_from_{OPENING}": ~early}
    return {phase: float(squares[mask].mean()) for phase, mask in phases.items() if mask.any()}


def figures(name: str, rivals: Mapping[str, np.ndarray | float], positions: Positions) -> Mapping[str, float]:
    """The errors of each rival's guesses about the same positions."""
    results, plies = positions.results, positions.plies
    told = {what: errors(guess, results, plies) for what, guess in rivals.items()}
    return {f"{name}{phase}_{what}": error for what, parts in told.items() for phase, error in parts.items()}


def judge(name: str, guess: np.ndarray, positions: Positions, constant: float, probe: Probe) -> Mapping[str, float]:
    """The errors of a net's guesses and, beside each, that of the constant (floor) and of the probe of the score."""
    rivals: dict[str, np.ndarray | float] = {"mse": guess, "floor": constant, "probe": probe(positions.scores())}
    return {f"{name}_positions": float(len(positions)), **figures(name, rivals, positions)}


def compare_playouts(name: str, guess: np.ndarray, positions: Positions, playouts: int) -> Mapping[str, float]:
    """The errors of the mean result of playouts, and of a net's guesses about the same positions."""
    rivals = {"playouts": positions.by_playouts(playouts), "beside_playouts": guess}
    return {f"{name}_playout_positions": float(len(positions)), **figures(name, rivals, positions)}


class Measuring:
    """What a net is measured by, the floor and the probe fitted once on positions of training games."""

    def __init__(self, config: Config, results: Path, material: Material):
        self._config, self._results, self._material = config, results, material
        self._encoder = encoder_of(config)

    @cached_property
    def _fitted(self) -> Mapping[str, tuple[Positions, float, Probe]]:
        """By source: positions of training games, the floor and the probe."""
        fitted = {}
        for name, positions in self._material.judged("train", self._config.test_positions, self._config.seed):
            probe = Probe.fitted(positions.scores(), positions.results)
            fitted[name.removesuffix("train")] = positions, outcomes.floor(positions.results), probe
        return fitted

    def validation(self, ask: Ask) -> Mapping[str, float]:
        """The figures of a net over validation positions."""
        told: dict[str, float] = {}
        for name, positions in self._material.judged(
            "validation", self._config.validation_positions, self._config.seed
        ):
            _, constant, probe = self._fitted[name.removesuffix("validation")]
            told |= judge(name, guesses(ask, positions, self._encoder), positions, constant, probe)
        return told

    def test(self, ask: Ask) -> Mapping[str, float]:
        """The figures of a net over test positions and as many of training games, the gap between the two, the errors
        of what it began with, and what playouts tell of some test positions."""
        config, told = self._config, dict[str, float]()
        before = ask_start(config, self._results)
        for name, positions in self._material.judged("test", config.test_positions, config.seed):
            source = name.removesuffix("test")
            learned, constant, probe = self._fitted[source]
            guess = guesses(ask, positions, self._encoder)
            told |= judge(f"{source}train", guesses(ask, learned, self._encoder), learned, constant, probe)
            told |= judge(name, guess, positions, constant, probe)
            if before is not None:
                told |= figures(name, {"start": guesses(before, positions, self._encoder)}, positions)
            told[f"{source}gap"] = told[f"{name}_mse"] - told[f"{source}train_mse"]
            if config.playouts:
                some = Positions(positions.games, positions.places[: config.playout_positions])
                told |= compare_playouts(name, guess[: len(some)], some, config.playouts)
        return told


# --- Training ---


def check(config: Config, results: Path) -> None:
    """Raise ConfigError or CheckpointError for settings that can't be."""
    supervised.check(config, "value", ("policy", "value"), results)
    if config.source != "self-play" and not config.data:
        raise ConfigError(f"source = {config.source} needs game records: name them with --data, or choose self-play")
    if config.source == "self-play" and config.data:
        raise ConfigError("source = self-play reads no game records; choose records or both, or leave out --data")
    if config.test_split + config.validation_split >= 1:
        raise ConfigError("test_split and validation leave no games to learn from; lower them")
    if config.source == "both":
        outcomes.records_split(config, results / "cache")  # or hours of play would come before what is wrong with them


def train(
    config: Config,
    results: Path,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_made: Callable[[Made], None] = lambda _: None,
    lent: Lent | None = None,
) -> Path:
    """Play the games that are still missing, here or on the cores that are ``lent``, then train, or go on where a run
    of this name stopped; the checkpoint's folder. See ``supervised.train``; the games are in cache/, too."""
    check(config, results)
    if config.source != "records":
        recipe = Recipe.of(config, results)
        cache, device = results / "cache", pick_device(config.device, Workers())
        missing = outcomes.what_is_missing(config, recipe, cache)
        nets = {net.identity: net.folder for net in (recipe.policy, recipe.finisher)} if missing else {}
        entries = [Registry(results=results).resolve(f"checkpoint:{folder}") for folder in nets.values()]
        with connected(lent if missing else None, entries, recipe.rules) as cores:
            supervised.claim(config, results)
            if missing:
                with kept_to_one(recipe.folder(cache), "; it plays the same games"):
                    outcomes.make_games(config, recipe, cache, device, on_made, cores)
    return supervised.train(config, results, partial(lesson_of, config, results), on_progress)


def lesson_of(config: Config, results: Path) -> Lesson[Target]:
    """What is learned from games that are there; raises as ``Material.read`` does."""
    material, played = Material.read(config, results), ""
    if material.is_own:
        recipe = Recipe.of(config, results)
        named = [f"{net.manifest.name} ({net.identity[:12]})" for net in (recipe.policy, recipe.finisher)]
        played = f"{config.games} games of {' and '.join(named)}"
    measuring, encoder, split = Measuring(config, results, material), encoder_of(config), material.first
    kept = split.validation if len(split.validation) else split.train
    return Lesson(
        "value",
        komi=float(np.median(split.train.komis)),
        rows=partial(material.rows, config, encoder),
        kept=data.OneEach(kept, encoder, config.seed + 1, last=material.is_own),
        to_tensors=to_tensors,
        begin=partial(begin, config),
        watch=measuring.validation,
        test=measuring.test,
        played=played,
        splits=tuple(dict.fromkeys((*split.rules, *(material.second.rules if material.second else ())))),
    )


def begin(config: Config, network: Net) -> Loss[Target]:
    """The loss of a net that begins to learn, whose policy is held to what it is now."""
    before = None
    if config.start:
        before = answering_with(deepcopy(network).eval(), config)

    def weigh(answering: Answering, planes: Tensor, target: Target) -> Weighed:
        with torch.no_grad():
            held = None if before is None else before(planes).policy
        losses = loss(answering(planes), target, held, config.loss == "mse")
        return Weighed(total(losses, config), losses.right, losses.figures())

    return weigh
