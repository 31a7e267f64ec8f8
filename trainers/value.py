"""A value net: who will win, from any position. AlphaGo's third stage; no moves are learned, nothing is searched.

After Silver et al. 2016, "Mastering the game of Go with deep neural networks and tree search", Methods ("Value network:
regression"). A game has three phases: U moves by a policy, U being uniform up to a limit; one random move; the rest by
a second policy. Learned from is the position after the random move, with the result: one a game, because the others
share their result with it, and a net would learn games by heart. It begins with a policy net, and the policy stays: the
divergence from it is part of the loss.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from arena import ConfigError
from arena.contract.code import SENT
from arena.go.game import Rules
from arena.go.planes import Encoder
from arena.players.registry import Registry
from bots.nets.catalogue import Net
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.inference import Evaluator
from bots.nets.network import Outputs, expected_result
from trainers import losses
from trainers.cluster import Lent, connected
from trainers.losses import Losses, Target, to_tensors
from trainers.metrics import TEST_POSITIONS, VALIDATION_POSITIONS
from trainers.positions import Positions
from trainers.progress import Made, Progress
from trainers.records import (
    NO_RESULT,
    UNKNOWN,
    Games,
    Mixed,
    OneEach,
    Split,
    SplitRule,
    encode_positions,
    parts_of,
    read_split,
)
from trainers.replay import Replay, play_missing
from trainers.selfplay import RANDOM, NewGame, PlayedGame, PlayGames, PolicyGames, draw_seeds
from trainers.settings import Value as Config
from trainers.train import (
    Run,
    build,
    claim,
    encoder_of,
    inherited_rules,
    joined,
    kept_to_one,
    origin_of,
    pick_device,
)
from trainers.train import check as check_supervised

if TYPE_CHECKING:
    from trainers.cluster import Stage

FORMAT = 2
"""Written into the name of every folder of games; a change of who plays what raises it."""

EARLY = 40
"""Positions before this move are measured apart: there playouts tell least."""

AT_ONCE_THERE = 128
"""Games that a core of a cluster plays at once."""

# --- The games ---


@dataclass(frozen=True, slots=True)
class Recipe:
    """Who plays the games, and how: all that they depend on."""

    policy: Checkpoint
    finisher: Checkpoint
    rules: Rules
    policy_moves: int
    """The most moves of the first phase."""
    seed: int

    @classmethod
    def of(cls, config: Config, results: Path) -> Recipe:
        """Raises CheckpointError for a checkpoint that isn't there or doesn't play on such boards."""
        names = (config.policy, config.finisher or config.policy)
        policy, finisher = (Checkpoint.open(find(name, results)) for name in names)
        for checkpoint in (policy, finisher):
            checkpoint.require_size(config.size)
            checkpoint.require("policy")
        return cls(policy, finisher, Rules.preset("cgos", config.size, config.komi), config.policy_moves, config.seed)

    def folder(self, cache: Path) -> Path:
        """Where games by this recipe are kept."""
        parts = (FORMAT, self.policy.identity, self.finisher.identity, self.rules, self.policy_moves, self.seed)
        return cache / f"value-games-{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}"

    def first_moves(self, number: int) -> tuple[int, int]:
        """The seed of the game of this number, and its U."""
        seed, drawn = draw_seeds(2, self.seed, number).tolist()
        return seed, drawn % self.policy_moves + 1

    def engine(self, numbers: deque[int], slots: int, precision: str, threads: int = 1, groups: int = 1) -> PlayGames:
        """Plays the games of ``numbers``, which are taken from the left; several threads may share them."""
        nets = [Evaluator(self.policy, precision)]
        if self.finisher.identity != self.policy.identity:
            nets.append(Evaluator(self.finisher, precision))
        lengths: dict[int, int] = {}

        def seats(which: np.ndarray, plies: np.ndarray) -> np.ndarray:
            first = np.array([lengths[number] for number in which.tolist()])
            return np.where(plies < first, 0, np.where(plies == first, RANDOM, len(nets) - 1))

        def begin() -> NewGame | None:
            try:
                number = numbers.popleft()
            except IndexError:
                return None
            seed, lengths[number] = self.first_moves(number)
            return NewGame(number, seed, self.rules.komi)

        return partial(PolicyGames(self.rules, nets, seats, slots, 1.0, threads, groups).play, begin)


def play_there(recipe: Recipe, numbers: Sequence[int], stage: Stage) -> Iterator[tuple[int, PlayedGame]]:
    """Play the games of these numbers on a node of a cluster, which may have been sent the nets."""

    def there(checkpoint: Checkpoint) -> Checkpoint:
        return Checkpoint.open(folder) if (folder := SENT / checkpoint.identity).is_dir() else checkpoint

    recipe = replace(recipe, policy=there(recipe.policy), finisher=there(recipe.finisher))
    for game in recipe.engine(deque(numbers), len(numbers), "auto")(lambda: not stage.is_over):
        yield game.number, game


def play_games(
    config: Config, recipe: Recipe, results: Path, on_made: Callable[[Made], None], lent: Lent | None
) -> None:
    """Play the games that are still missing, here or on the cores that are ``lent``."""
    replay = Replay(recipe.folder(results / "cache"), config.size)
    missing = replay.missing(config.games)
    if not missing:
        claim(config, results)
        return
    nets = {net.identity: net.folder for net in (recipe.policy, recipe.finisher)}
    players = [Registry(results=results).resolve(f"checkpoint:{folder}") for folder in nets.values()]
    with connected(lent, players, recipe.rules) as cores, kept_to_one(replay.folder, "; it plays the same games"):
        claim(config, results)
        if cores is not None:
            work = partial(play_there, recipe)
            engines: list[PlayGames] = [lambda goes_on: cores.play(work, missing, AT_ONCE_THERE, goes_on)]
        elif pick_device(config.device).type == "cpu":
            engines = [recipe.engine(missing, config.parallel_games, "auto") for _ in range(config.num_workers)]
        else:
            engines = [recipe.engine(missing, config.parallel_games, "bf16", config.num_workers, 2)]
        play_missing(replay, missing, engines, config.games, on_made)


def cut(games: Games, plies: np.ndarray) -> Games:
    """The games up to the move that followed on ``plies`` moves, with their results: each one's kept position is that
    before its last move. Those that ended before are left out."""
    long = games.lengths > plies
    games, plies = games.select(long), plies[long]
    starts = np.concatenate([[0], np.cumsum(plies + 1)]).astype(np.int64)
    flat = np.arange(starts[-1]) + np.repeat(games.starts[:-1] - starts[:-1], plies + 1)
    arrays = {item.name: getattr(games, item.name) for item in fields(Games)}
    return Games(**{**arrays, "moves": games.moves[flat], "starts": starts})


def read_own(config: Config, recipe: Recipe, results: Path, inherited: Sequence[SplitRule]) -> Split:
    """The kept positions of the games that were played. Raises ConfigError where nothing is left to learn from or to be
    tested on."""
    replay = Replay(recipe.folder(results / "cache"), config.size)
    games, numbers = replay.by_number(config.games)
    known = games.games.winners != UNKNOWN
    lengths = np.array([recipe.first_moves(number)[1] for number in numbers[known].tolist()])
    kept, rules = games.games.select(known), (SplitRule.of(config, played=True), *inherited)
    sides = parts_of(kept, rules)
    train, validation, test = (cut(kept.select(here := sides == part), lengths[here] + 1) for part in range(3))
    if not len(train) or not len(test):
        raise ConfigError(f"{config.games} games leave nothing to learn from or for the test; play more games")
    names = " and ".join(f"{net.manifest.name} ({net.identity[:12]})" for net in (recipe.policy, recipe.finisher))
    return Split(train, validation, test, rules, f"{config.games} games of {names}")


def read_records(config: Config, results: Path, inherited: Sequence[SplitRule]) -> Split:
    """The games of records whose result is known, apart as ``read_split`` does it."""
    split = read_split(config, results / "cache", inherited)
    parts = (part.select(part.winners != UNKNOWN) for part in (split.train, split.validation, split.test))
    train, validation, test = parts
    split = Split(train, validation, test, split.rules, split.source)
    if not len(split.train):
        raise ConfigError("no game of the records has a known result; give records with results")
    return split


# --- The loss ---


def loss(outputs: Outputs, targets: Target, before: Tensor | None) -> Losses:
    """How far a net's outputs are from what they should be; rows without a result, or a score, don't count for it.

    Of the value it is the cross entropy of win, draw and loss. Of the policy it is the divergence from ``before`` (B,
    n² + 1), the logits to be kept, or without them the cross entropy of the moves that were played. The accuracy is of
    the winner, in decided games.
    """
    assert outputs.policy is not None and outputs.value is not None  # what ``check`` makes sure of
    usual = losses.loss(outputs, targets)
    known = targets.results != NO_RESULT
    results = 1.0 - targets.results.to(outputs.value.dtype)
    guess = expected_result(outputs.value)
    policy = usual.policy
    if before is not None:
        policy = functional.kl_div(
            outputs.policy.log_softmax(1), before.log_softmax(1), reduction="batchmean", log_target=True
        )
    decided = known & (results != 0)
    right = ((guess.detach() * results > 0) & decided).sum() / decided.sum().clamp(min=1)
    return replace(usual, policy=policy, right=right)


# --- Measuring ---


def guesses(network: Net, positions: Positions, encoder: Encoder) -> np.ndarray:
    """The result that a net expects of each, for the side to move; (positions,) float64, from -1 to 1."""
    device, parts = next(network.parameters()).device, [np.empty(0)]
    for first in range(0, len(positions), 512):
        places = positions.places[first : first + 512]
        batch = encode_positions(positions.games, encoder, places, np.zeros(len(places), np.int64))
        with torch.no_grad():
            value = network(to_tensors(batch, device)[0]).value
        parts.append(expected_result(value.double()).cpu().numpy())
    return np.concatenate(parts)


def errors(name: str, guess: Mapping[str, Any], positions: Positions) -> dict[str, float]:
    """Mean squared errors of each guess on the scale from -1 to 1: of all positions, of those before move ``EARLY`` and
    of the later ones. A phase without positions has none."""
    early = positions.plies < EARLY
    phases = {"": early | ~early, f"_before_{EARLY}": early, f"_from_{EARLY}": ~early}
    return {
        f"{name}{phase}_{what}": float(((guess - positions.results) ** 2)[mask].mean())
        for what, guess in guess.items()
        for phase, mask in phases.items()
        if mask.any()
    }


Splits = Mapping[str, tuple[Split, bool]]
"""The games by their source, under the beginning of their figures' names, and whether they are cut games of its own."""


def measure(network: Net, splits: Splits, part: str, count: int, config: Config) -> dict[str, float]:
    """The errors of a net over up to ``count`` positions of ``part`` (train, validation, test), beside those of the
    mean result of training games (floor)."""
    found: dict[str, float] = {}
    for source, (split, is_own) in splits.items():
        if len(games := getattr(split, part)):
            positions = Positions.some(games, count, config.seed, is_own)
            floor = float(Positions.some(split.train, TEST_POSITIONS, config.seed, is_own).results.mean())
            rivals = {"mse": guesses(network, positions, encoder_of(config)), "floor": floor}
            found |= {
                f"{source}{part}_positions": float(len(positions)),
                **errors(f"{source}{part}", rivals, positions),
            }
    return found


def test(network: Net, before: Net | None, splits: Splits, config: Config) -> dict[str, float]:
    """The errors over test positions and as many of training games, the gap between the two, and the errors of the net
    from which the run started."""
    count, encoder = TEST_POSITIONS, encoder_of(config)
    found = {**measure(network, splits, "train", count, config), **measure(network, splits, "test", count, config)}
    for source, (split, is_own) in splits.items():
        if len(split.test):
            name, positions = f"{source}test", Positions.some(split.test, count, config.seed, is_own)
            found[f"{source}gap"] = found[f"{name}_mse"] - found[f"{source}train_mse"]
            if before is not None:
                found |= errors(name, {"start": guesses(before, positions, encoder)}, positions)
    return found


# --- Training ---


def check(config: Config, results: Path) -> None:
    """Raise ConfigError or CheckpointError for settings that can't be."""
    check_supervised(config, "value", ("policy", "value"), results)
    if config.source != "self-play" and not config.data:
        raise ConfigError(f"source = {config.source} needs game records: name them with --data, or choose self-play")
    if config.source == "self-play" and config.data:
        raise ConfigError("source = self-play reads no game records; choose records or both, or leave out --data")
    if config.test_split + config.validation_split >= 1:
        raise ConfigError("test_split and validation leave no games to learn from; lower them")


def train(
    config: Config,
    results: Path,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_made: Callable[[Made], None] = lambda _: None,
    lent: Lent | None = None,
) -> Path:
    """Play the games that are still missing, here or on the cores that are ``lent``, then train, or go on where a run
    of this name stopped; the checkpoint's folder. Games are in cache/; otherwise as ``sl.train``."""
    check(config, results)
    encoder, inherited = encoder_of(config), inherited_rules(config.start, results)
    splits: dict[str, tuple[Split, bool]] = {}
    if config.source != "self-play":  # before the games: or hours of play would come before what is wrong with them
        splits["records_" if config.source == "both" else ""] = read_records(config, results, inherited), False
    if config.source != "records":
        recipe = Recipe.of(config, results)
        play_games(config, recipe, results, on_made, lent)
        splits = {"": (read_own(config, recipe, results, inherited), True), **splits}

    orders = [
        OneEach(split.train, encoder, config.seed, config.num_workers, last=is_own) for split, is_own in splits.values()
    ]
    rows = Mixed(orders[0], orders[1], config.records_share) if len(orders) > 1 else orders[0]
    split, is_own = splits[""]
    kept = OneEach(split.validation if len(split.validation) else split.train, encoder, config.seed + 1, last=is_own)
    rules = tuple(dict.fromkeys(rule for each, _ in splits.values() for rule in each.rules))
    words = "; ".join(each.source for each, _ in splits.values())
    origin = origin_of(config, results, "value", split.komi, words, lambda count: kept.batch(0, count).planes, rules)
    network = build(config, results)
    before = deepcopy(network).eval() if config.start else None

    with joined(config) as device, Run(network.to(device).train(), config, results) as run:
        if before is not None:
            before.to(device)
        run.restore()

        def validation() -> dict[str, float]:
            return measure(run.averaged, splits, "validation", VALIDATION_POSITIONS, config)

        with run.batches(rows, to_tensors, config.batch_size) as batches:
            for planes, targets in batches:
                with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=config.bf16):
                    policy = None if before is None else before(planes).policy.to(torch.float32)
                parts = loss(run.forward(planes), targets, policy)
                total = (
                    parts.value
                    + parts.policy
                    + config.ownership_weight * parts.ownership
                    + config.score_weight * parts.score
                )
                on_progress(run.step(total, config.batch_size, parts.figures()))
                run.validate_when_due(config.validate_every, validation)
                run.snapshot_when_due(origin)
                run.save_when_due()
        return run.finish(origin, validation, lambda: test(run.averaged, before, splits, config))
