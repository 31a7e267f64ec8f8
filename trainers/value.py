"""A value net: predicts the winner from any position, without search (AlphaGo's third stage).

After Silver et al. 2016, "Mastering the game of Go with deep neural networks and tree search", Methods ("Value network:
regression"). A game has U moves of a policy (U uniform up to a limit), a random move, then moves of a second policy.
Only the position after the random move is learned from, with the result. The net starts from a policy net; the
divergence from its policy is part of the loss.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from arena.go.game import Rules
from arena.players.player import Player
from arena.players.registry import Registry
from arena.results.gate import with_checkpoint
from bots.nets.catalogue import Net
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.inference import Evaluator
from bots.nets.network import Outputs, expected_result
from trainers import losses
from trainers.first_net import build, encoder_of, inherited_rules
from trainers.games import NO_RESULT, UNKNOWN, Games, Rows, in_order
from trainers.losses import Losses, Target
from trainers.metrics import TEST_POSITIONS, VALIDATION_POSITIONS, of_rows
from trainers.processes import join_processes, pick_device
from trainers.records import TEST, TRAIN, SplitRule, parts_of, too_few
from trainers.replay import Replay, play_games
from trainers.selfplay import RANDOM, NewGame, Parallelism, PlayGames, PolicyGames, draw_seeds, take_each
from trainers.settings import Value as Config
from trainers.train import Origin, Progress, Run, check

FORMAT = 2  # part of the names of folders of games; raised when the same settings give other games


@dataclass(frozen=True, slots=True)
class ValueGames:
    """The players and settings of the games; see ``replay.GamePlan``."""

    policy: Player
    finisher: Player
    rules: Rules
    policy_moves: int  # most moves of the first phase
    seed: int
    on_gpu: bool = False

    @classmethod
    def of(cls, config: Config, results: Path, on_gpu: bool = False) -> "ValueGames":
        """Raises UserError for a checkpoint that is missing or of another board size."""
        folders = [find(name, results) for name in (config.policy, config.finisher or config.policy)]
        entry = Registry().resolve("sl")  # a policy bot; folders can't be typed, as they may have commas
        policy, finisher = (with_checkpoint(entry, folder).checked(config.size) for folder in folders)
        rules = Rules.preset("cgos", config.size, config.komi)
        return cls(policy, finisher, rules, config.size**2 * 3 // 4, config.seed, on_gpu)

    def folder(self, cache: Path) -> Path:
        parts = (FORMAT, self.policy.net, self.finisher.net, self.rules, self.policy_moves, self.seed)
        return cache / f"value-games-{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}"

    def first_moves(self, number: int) -> tuple[int, int]:
        """The seed of the game of this number, and its U."""
        seed, drawn = draw_seeds(2, self.seed, number).tolist()
        return seed, drawn % self.policy_moves + 1

    def engines(self, numbers: deque[int], slots: int, threads: int) -> list[PlayGames]:
        folders = {player.net: player.config.checkpoint for player in (self.policy, self.finisher)}.values()
        lengths: dict[int, int] = {}

        def seats(which: np.ndarray, plies: np.ndarray) -> np.ndarray:
            first = np.array([lengths[number] for number in which.tolist()])
            return np.where(plies < first, 0, np.where(plies == first, RANDOM, len(folders) - 1))

        def new_game(number: int) -> NewGame:
            seed, lengths[number] = self.first_moves(number)
            return NewGame(number, seed, self.rules.komi)

        def engine(parallel: Parallelism) -> PlayGames:
            nets = [Evaluator(Checkpoint.open(folder), "bf16" if self.on_gpu else "auto") for folder in folders]
            return partial(PolicyGames(self.rules, nets, seats, parallel).play, map(new_game, take_each(numbers)))

        return [engine(parallel) for parallel in Parallelism.of(self.on_gpu, slots, threads)]


def read_positions(
    recipe: ValueGames, replay: Replay, count: int, rules: Sequence[SplitRule]
) -> tuple[Games, list[np.ndarray]]:
    """The first ``count`` games, and the flat indices of the positions for training, validation and test. A game has
    none if it ended before, or by the move limit. Raises ConfigError if training or test is empty."""
    searched, numbers = replay.by_number(count)
    plies = np.array([recipe.first_moves(number)[1] + 1 for number in numbers.tolist()])
    known = searched.games.winners != UNKNOWN
    games, plies = searched.games.select(known), plies[known]
    sides = np.where(games.lengths > plies, parts_of(games, rules), -1)
    parts = [(games.starts[:-1] + plies)[sides == part] for part in range(3)]
    if not len(parts[TRAIN]) or not len(parts[TEST]):
        raise too_few(count, rules)
    return games, parts


def loss(outputs: Outputs, targets: Target, before: Tensor | None) -> Losses:
    """As ``losses.loss``, with the policy's divergence from ``before`` (B, n² + 1), the start net's logits, if given.
    The accuracy is that of the winner in decided games."""
    assert outputs.policy is not None and outputs.value is not None  # ensured by ``check``
    usual = losses.loss(outputs, targets)
    results = 1.0 - targets.results.to(outputs.value.dtype)
    decided = (targets.results != NO_RESULT) & (results != 0)
    right = ((expected_result(outputs.value.detach()) * results > 0) & decided).sum() / decided.sum().clamp(min=1)
    if before is None:
        return replace(usual, right=right)
    logs, kept = outputs.policy.log_softmax(1), before.log_softmax(1)
    return replace(usual, right=right, policy=functional.kl_div(logs, kept, reduction="batchmean", log_target=True))


def train(
    config: Config,
    results: Path,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_made: Callable[[str], None] = lambda _: None,
) -> Path:
    """Play the missing games into cache/, then train as ``sl.train``."""
    check(config, ("policy", "value"), results)
    encoder = encoder_of(config, results)
    recipe = ValueGames.of(config, results, on_gpu=pick_device(config.device).type != "cpu")
    replay = play_games(config, recipe, results, on_made)
    rules = (SplitRule.of_played(config), *inherited_rules(config, results))
    games, (learned, validation, test) = read_positions(recipe, replay, config.games, rules)
    rows = Rows(games, encoder, config.seed, config.num_workers, learned)
    kept = Rows(games, encoder, config.seed + 1, 1, validation if len(validation) else learned)
    players = (f"{Path(bot.config.checkpoint).name} ({bot.net[:12]})" for bot in (recipe.policy, recipe.finisher))
    words = f"{config.games} games of {' and '.join(players)}"
    origin = Origin(encoder, recipe.rules, words, lambda count: kept.batch(0, count).planes, rules)
    network = build(config, results)
    before = deepcopy(network).eval() if config.start else None

    def errors(network: Net, part: str) -> dict[str, float]:
        places = {"train": learned, "validation": validation, "test": test}[part]
        count = VALIDATION_POSITIONS if part == "validation" else TEST_POSITIONS
        some = places[np.random.default_rng(config.seed).permutation(len(places))[:count]]
        return of_rows(network, in_order(games, encoder, some, 512), part) if len(some) else {}

    with join_processes(config) as device, Run(network.to(device).train(), config, results) as run:

        def measure(part: str) -> dict[str, float]:
            found = errors(run.averaged, part)
            if part == "test":
                found |= errors(run.averaged, "train")
                found |= {f"start_{name}": figure for name, figure in (errors(before, part) if before else {}).items()}
            return found

        if before is not None:
            before.to(device)

        def loss_of(planes: Tensor, targets: Target) -> tuple[Tensor, Mapping[str, Tensor]]:
            policy = None
            if before is not None:
                with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=config.bf16):
                    policy = before(planes).policy.to(torch.float32)
            terms = loss(run.forward(planes), targets, policy)
            return terms.total(config), terms.figures()

        return run.learn(rows.batch, loss_of, origin, measure, on_progress)
