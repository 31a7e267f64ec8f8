"""A person of a given rank, imitated by a net that has learned from people's games: moves, passes and resignations."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from arena import ConfigError
from arena.contract.bot import BotKind, setting
from arena.go.ranks import WEAKEST_SEEN, read_rank
from bots.nets.checkpoint import Checkpoint, Precision, check_net, find
from bots.policy import Policy

if TYPE_CHECKING:
    from arena.go.game import Game


# Policy temperature by rank, chosen so that each rank beats the next weaker one about as often as people do. The net's
# policy mixes many people and is less consistent than each of them, so strong ranks have low temperatures. Below
# ``WEAKEST_SEEN`` high temperatures stand in for games that the net hasn't seen.
TEMPERATURES = {-29: 2.2, -24: 1.75, -19: 1.4, -14: 1.05, -9: 1.05, -4: 0.8, 1: 0.42, 3: 0.1, 6: 0.1}

# The number of opening moves, and their lowest temperature: strong ranks would always open alike.
OPENING, OPENING_TEMPERATURE = 6, 0.7

# The probability that a person resigns at a move, as a logistic function: constant, and weights of the logit of the
# net's win rate, of the rank, and of moves played per point of the board (docs/measurements.md).
RESIGNING = (-6.411, -0.576, 0.041, 2.968)
RESIGNABLE = 0.15  # the highest win rate to resign at; people who resigned above were misjudged, or had to leave

EARLIEST_PASS = 0.25  # stones per point of the board: 32 of 18,263 people on 9x9 passed before move 20

ENCODER = "human-34"  # encodes the ranks of both players
KATAGO_ENCODER = "katago-human"
KATAGO_TEMPERATURE = 0.85  # of KataGo's human-SL nets, which know ranks from 25k on; as in KataGo's example for them


@dataclass(frozen=True, slots=True)
class Config:
    rank: str = setting("10k", "rank to play at, 30k to 6d: that of OGS, 2005 to 2020")
    min_share: float = setting(
        0.03, "moves with less than this share of the best move's probability are not played", low=0, high=1
    )
    checkpoint: str = setting("human-9x9", f"name or folder of a net with the encoder {ENCODER}")
    precision: str = setting("auto", "number format of the net", choices=tuple(Precision))


class HumanLike(Policy):
    """Draws each move from the net's policy for its rank, against an opponent of the same rank."""

    def __init__(self, config: Config):
        from bots.nets.inference import Evaluator

        self._rank = read_rank(config.rank, "rank =")
        self._min_share = config.min_share
        checkpoint, rank = Checkpoint.open(find(config.checkpoint)), self._rank
        self._temperature = KATAGO_TEMPERATURE
        if checkpoint.manifest.encoder == ENCODER:
            self._temperature = float(np.interp(rank, list(TEMPERATURES), list(TEMPERATURES.values())))
            rank = max(rank, WEAKEST_SEEN)
        self._net = Evaluator(checkpoint, config.precision, ranks=(rank, rank))

    def _move(self, game: Game, logits: np.ndarray, win_rate: float) -> int | None:
        """A random sensible move by the policy; None to resign. If the rules require dead stones to be captured, it
        captures its opponent's before it passes."""
        random = np.random.default_rng(game.move_seed())
        if random.random() < resign_chance(win_rate, self._rank, len(game.moves) / game.rules.size**2):
            return None
        is_opening = len(game.moves) < OPENING
        temperature = max(self._temperature, OPENING_TEMPERATURE) if is_opening else self._temperature
        scores = (logits.astype(np.float64) - logits.max()) / temperature
        sensible = game.sensible_moves()
        stones = max(len(game.moves), int(np.count_nonzero(game.board.stones)))  # a position may be set up
        is_early = stones < EARLIEST_PASS * game.rules.size**2
        sensible[-1] = not (is_early and sensible[:-1].any())  # people also pass in lost positions
        shares = np.where(sensible, np.exp(scores), 0.0)
        move = _draw_move(np.where(shares < self._min_share * shares.max(), 0.0, shares), random)
        if move == game.rules.size**2 and not game.rules.agrees_on_dead:
            taking = np.where(_next_to_dead(game), shares, 0.0)
            return _draw_move(taking, random) if taking.any() else move
        return move


def _draw_move(odds: np.ndarray, random: np.random.Generator) -> int:
    sums = odds.cumsum()
    return int(sums.searchsorted(random.random() * sums[-1], side="right"))


def _next_to_dead(game: Game) -> np.ndarray:
    """(size² + 1,) bool: the moves beside the opponent's dead stones, as judged by playouts."""
    from bots.nets.rollout import shipped_weights
    from bots.search.dead import judge

    size = game.rules.size
    fates, _ = judge(game.board, shipped_weights(size))
    dead = np.pad(fates.reshape(size, size) & (game.board.stones == int(game.to_play.opponent)), 1)
    beside = np.logical_or.reduce([np.roll(dead, step, axis) for step in (-1, 1) for axis in (0, 1)])
    return np.append(beside[1:-1, 1:-1].reshape(-1), False)


def resign_chance(win_rate: float, rank: int, fullness: float) -> float:
    if win_rate > RESIGNABLE:
        return 0.0
    constant, by_rate, by_rank, by_fullness = RESIGNING
    rate = min(max(win_rate, 1e-4), 1 - 1e-4)
    score = constant + by_rate * log(rate / (1 - rate)) + by_rank * rank + by_fullness * fullness
    return 1 / (1 + exp(-score))


def check(config: Config, size: int) -> None:
    """Raise ConfigError for an unknown rank, a net without ranks or another size than the net's, CheckpointError for a
    net that can't be played."""
    read_rank(config.rank, "rank =")
    check_net(config, size)
    net = Checkpoint.open(find(config.checkpoint)).manifest
    if net.encoder not in (ENCODER, KATAGO_ENCODER):
        raise ConfigError(f"the net {net.name} knows no ranks; use one with the encoder {ENCODER}, not {net.encoder}")
    if net.encoder == ENCODER and size != net.size:
        words = f"use --size {net.size}, or import a human-SL net of KataGo's and play human-like:checkpoint=NAME"
        raise ConfigError(f"{net.name} knows how people play on {net.size}x{net.size} only; {words}")


BOT = BotKind(
    summary="a person of a given rank, by a net that learned from people's games",
    config=Config,
    build=HumanLike,
    boards=64,
    check=check,
    heads=("policy", "value"),
    tells_win_rate=True,
    analyses=True,
    revision=2,
)
