"""Ranks of people: of a record's players by the net that imitates people, of a person by results against that net."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from arena.go.coords import Colour
from arena.go.planes import encode_games
from arena.go.ranks import HUMAN_LIKE, STRONGEST, UNRANKED, WEAKEST, WEAKEST_SEEN, rank_name, read_rank
from arena.go.record import GameRecord
from arena.players.player import Player
from arena.ratings import Z95
from bots.nets.inference import Evaluator

RANKS = np.arange(WEAKEST, STRONGEST + 1)  # the ranks that are told apart, 30k to 6d
ASKED = RANKS[RANKS >= WEAKEST_SEEN][::2]
"""The ranks for which the net is evaluated; between them the likelihood is interpolated. The first stands for all that
are weaker."""

ELO = {-29: -216, -24: 0, -19: 175, -14: 312, -9: 502, -4: 685, 1: 803, 3: 814, 6: 820}
"""Elo of ``human-like`` by rank: of a round robin with 100 games a pair, the ends of 400 games with their neighbours
(docs/measurements.md)."""

ELO_ERROR = 35.0  # standard error of the distance of two of them: each is known to ± 50 Elo (95 %)


@dataclass(frozen=True, slots=True)
class RankEstimate:
    """The likeliest rank and its 95 % interval, on the scale of ``rank_of``, from ``count`` moves or games."""

    rank: int
    low: int
    high: int
    count: int

    @classmethod
    def of(cls, log_likelihoods: np.ndarray, count: int) -> RankEstimate:
        """From the log likelihood of each of RANKS, (RANKS,). The interval has the ranks that a likelihood-ratio test
        at 5 % keeps: after three games it misses the ends of the scale in 1 % of cases, where the central 95 % of the
        likelihood miss them in 12 %."""
        kept = RANKS[2 * (log_likelihoods.max() - log_likelihoods) < Z95**2]
        return cls(int(RANKS[log_likelihoods.argmax()]), int(kept[0]), int(kept[-1]), count)

    def __str__(self) -> str:
        return f"{rank_name(self.rank)} ({rank_name(self.low)} to {rank_name(self.high)})"


def ranks_by_moves(record: GameRecord, net: Evaluator) -> dict[Colour, RankEstimate]:
    """The rank at which the moves after the opening are likeliest, of each colour that made one. Raises RecordError,
    CheckpointError."""
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
    sums = {colour: asked[:, movers == colour].sum(1) for colour in Colour if colour in movers}
    return {
        colour: RankEstimate.of(np.interp(RANKS, ASKED, own, left=-np.inf), int((movers == colour).sum()))
        for colour, own in sums.items()
    }


def rank_by_results(games: Iterable[GameRecord], players: Mapping[str, Player], name: str) -> RankEstimate | None:
    """The rank at which a person's rated results against `human-like` are likeliest, by ``ELO``; None without such a
    game. A draw with the first opponent is added: one result doesn't put a person at an end of the scale."""
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
    elo, errors = np.interp(RANKS, list(ELO), list(ELO.values())), ELO_ERROR * np.linspace(-3, 3, 61)
    shares = np.exp(-0.5 * (errors / ELO_ERROR) ** 2)
    against: dict[int, list[float]] = defaultdict(list)
    for score, rank in [*scores, *((0.5, rank) for _, rank in scores[:1])]:
        against[rank].append(score)
    total = np.zeros(len(RANKS))
    for rank, own in against.items():  # all of a bot's games share the error of its Elo
        lead = elo - elo[rank - WEAKEST] + errors[:, None]
        won, lost = np.log1p(10 ** (-lead / 400)), np.log1p(10 ** (lead / 400))
        likelihoods = -sum(own) * won - (len(own) - sum(own)) * lost
        total += np.logaddexp.reduce(likelihoods + np.log(shares / shares.sum())[:, None])
    return RankEstimate.of(total, len(scores)) if scores else None
