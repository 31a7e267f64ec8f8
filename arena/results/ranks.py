"""Ranks of people: of a record's players by the net that imitates people, of a person by results against that net."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from arena.go.coords import Colour
from arena.go.planes import encode_games
from arena.go.ranks import HUMAN_LIKE, STRONGEST, UNRANKED, WEAKEST, WEAKEST_SEEN, rank_name, read_rank
from arena.go.record import GameRecord
from arena.players.player import Player
from bots.nets.inference import Evaluator

RANKS = np.arange(WEAKEST, STRONGEST + 1)
"""The ranks that are told apart, 30k to 6d."""

ASKED = RANKS[RANKS >= WEAKEST_SEEN][::2]
"""The ranks for which the net is evaluated; between them the likelihood is interpolated. The first stands for all that
are weaker."""

ELO = {-29: -222, -24: 0, -19: 185, -14: 293, -9: 520, -4: 683, 1: 809, 3: 837, 6: 850}
"""Elo of ``human-like`` by rank: of a round robin with 200 games a pair, the ends of 400 games with their neighbours
(docs/measurements.md)."""


@dataclass(frozen=True, slots=True)
class RankEstimate:
    """The likeliest rank and the central 95 % of the likelihood, on the scale of ``rank_of``. ``count`` is the number
    of moves or games."""

    rank: int
    low: int
    high: int
    count: int

    @classmethod
    def of(cls, log_likelihoods: np.ndarray, count: int) -> RankEstimate:
        """From the log likelihood of each of RANKS, (RANKS,)."""
        shares = np.exp(log_likelihoods - log_likelihoods.max())
        sums = shares.cumsum() / shares.sum()
        low, high = (int(RANKS[min(sums.searchsorted(at), len(RANKS) - 1)]) for at in (0.025, 0.975))
        return cls(int(RANKS[log_likelihoods.argmax()]), low, high, count)

    def __str__(self) -> str:
        return f"{rank_name(self.rank)} ({rank_name(self.low)} to {rank_name(self.high)})"


def ranks_by_moves(record: GameRecord, net: Evaluator) -> dict[Colour, RankEstimate]:
    """The rank at which each player's moves are likeliest, the opening left out; of who made a move. Raises
    RecordError, CheckpointError."""
    if not record.moves:
        return {}
    game, positions = replace(record, moves=(), outcome=None).replay(), []
    for move in record.moves:
        positions.append(game.copy())
        game.play(move)
    movers = np.array([position.to_play for position in positions[record.opening :]])
    legal, moves = np.array([position.legal_moves() for position in positions]), np.array(record.moves)
    likelihoods = []  # of each rank that is asked for, (moves,)
    for rank in ASKED.tolist():
        logits, _ = net.evaluate(encode_games(net.encoder, positions, ranks=(rank, UNRANKED)))
        odds = np.where(legal, logits.astype(np.float64), -np.inf)
        odds -= odds.max(1, keepdims=True)
        likelihoods.append(odds[np.arange(len(moves)), moves] - np.log(np.exp(odds).sum(1)))
    asked = np.array(likelihoods)[:, record.opening :]
    found = {}
    for colour in Colour:
        if count := int((movers == colour).sum()):
            own = np.interp(RANKS, ASKED, asked[:, movers == colour].sum(1), left=-np.inf)
            found[colour] = RankEstimate.of(own, count)
    return found


def rank_by_results(games: Iterable[GameRecord], players: Mapping[str, Player], name: str) -> RankEstimate | None:
    """The rank at which a person's results against `human-like` are likeliest, by ``ELO``; None without such a game.
    Games that don't count for ratings don't count here. A draw with the first opponent is added, so that the first
    results don't put a person at an end of the scale."""
    scores: list[tuple[float, int]] = []  # of the person, and the opponent's rank
    for game in games:
        if game.unrated or game.outcome is None or name not in (game.black, game.white):
            continue
        is_black = game.black == name
        opponent = players.get(game.white_player if is_black else game.black_player)
        if opponent is None or opponent.kind != HUMAN_LIKE:
            continue
        rank = read_rank(opponent.settings["rank"], opponent.name)
        scores.append((game.outcome.black_score if is_black else 1 - game.outcome.black_score, rank))
    total = np.zeros(len(RANKS))
    elo = np.interp(RANKS, list(ELO), list(ELO.values()))
    for score, rank in [*scores, *((0.5, rank) for _, rank in scores[:1])]:
        lead = elo - elo[rank - WEAKEST]
        total -= score * np.log1p(10 ** (-lead / 400)) + (1 - score) * np.log1p(10 ** (lead / 400))
    return RankEstimate.of(total, len(scores)) if scores else None
