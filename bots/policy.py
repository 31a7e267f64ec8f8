"""A policy net without search: its most probable move, or a move drawn from its probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from arena.contract.bot import Bot, BotKind, Candidate, Decision, Limits, RawNN, setting
from bots.nets.checkpoint import Checkpoint, Precision, check_net, find

if TYPE_CHECKING:
    from arena.go.game import Game


@dataclass(frozen=True, slots=True)
class Config:
    checkpoint: str = setting("sl-9x9", "name or folder of the net")
    temperature: float = setting(0.0, "policy temperature for drawing moves; 0 plays the best move", low=0)
    precision: str = setting(
        "auto", "number format of the net; bf16 is for a GPU and large batches", choices=tuple(Precision)
    )


CANDIDATES = 16  # moves in an analysis


class Policy(Bot):
    def __init__(self, config: Config):
        from bots.nets.inference import Evaluator  # and with it ONNX Runtime: when a player is built

        self._temperature = config.temperature
        self._net = Evaluator(Checkpoint.open(find(config.checkpoint)), config.precision)

    def choose(self, game: Game, limits: Limits) -> Decision:
        return self.choose_all([game], limits)[0]

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        logits, win_rates = self._evaluate(games)
        return [
            Decision(self._move(game, row, win_rate), None if isnan(win_rate) else win_rate)
            for game, row, win_rate in zip(games, logits, win_rates.tolist(), strict=True)
        ]

    def _move(self, game: Game, logits: np.ndarray, win_rate: float) -> int | None:
        """The move to play; None to resign."""
        return pick_move(game, logits, self._temperature)

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        """The most probable moves with the win rates of the positions after them; none without a value head."""
        policy, sensible = self.raw_nn([game])[0].policy, game.sensible_moves()
        moves = [int(move) for move in policy.argsort()[::-1] if sensible[move]]
        moves = [move for move in moves if limits.moves is None or move in limits.moves][:CANDIDATES]
        if not self._net.has_value or not moves:
            return []
        after = self.raw_nn([game.after(move) for move in moves])
        return [
            Candidate(move, 1, 1 - raw_nn.win_rate, (move,), float(policy[move]))
            for move, raw_nn in zip(moves, after, strict=True)
        ]

    def overview(self, game: Game) -> Decision | None:
        [raw_nn] = self.raw_nn([game])
        win_rate = None if isnan(raw_nn.win_rate) else raw_nn.win_rate
        return Decision(pick_move(game, self._evaluate([game])[0][0], 0), win_rate, 1, raw_nn.ownership, raw_nn.score)

    def raw_nn(self, games: Sequence[Game], symmetry: int = 0) -> list[RawNN]:
        return self._net.raw_nn(games, symmetry)

    def _evaluate(self, games: Sequence[Game]) -> tuple[np.ndarray, np.ndarray]:
        """Logits (B, size² + 1) and win rates (B,)."""
        return self._net.evaluate(self._net.encode(games))


def pick_move(game: Game, logits: np.ndarray, temperature: float) -> int:
    """A sensible move by logits (size² + 1,): drawn at a temperature by the game's seed, or the best at 0."""
    moves = game.sensible_moves().nonzero()[0]
    scores = logits[moves].astype(np.float64)
    if temperature == 0:
        return int(moves[scores.argmax()])
    weights = np.exp((scores - scores.max()) / temperature)
    random = np.random.default_rng(game.move_seed())
    return int(moves[np.searchsorted(weights.cumsum(), random.random() * weights.sum())])


BOT = BotKind(
    summary="a policy net without search",
    config=Config,
    build=Policy,
    boards=64,
    check=check_net,
    heads=("policy",),
    tells_win_rate=True,
    analyses=True,
    teaches=True,
    revision=1,
)
