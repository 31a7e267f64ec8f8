"""The analysis commands of Leela Zero and KataGo: what they ask for, and the lines that answer them.

A win rate, score or ownership is that of the side to move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from arena.contract.bot import Bot, Candidate, Decision, RawNN
from arena.go.coords import BLACK, Colour, Move, gtp_from_move, pass_move
from arena.go.game import Game
from arena.gtp.arguments import COLOURS, NUMBER, Refused, colour_of, move_of, number_of, whole_of


@dataclass(frozen=True, slots=True)
class AnalysisRequest:
    """What an analysis is to report, and every how many seconds. ``moves`` are those that it may begin with."""

    colour: Colour
    interval: float = 1.0
    max_moves: int = 1000
    root_info: bool = False
    ownership: bool = False
    moves_ownership: bool = False
    moves: frozenset[Move] | None = None

    @classmethod
    def read(cls, words: list[str], colour: Colour, size: int) -> AnalysisRequest:
        """From ``[colour] [centiseconds] [key value]...``; unknown keys are ignored. ``avoid`` and ``allow`` apply to
        the first move only, whatever their depth. Raises Refused."""
        found = cls(colour)
        if words and words[0].lower() in COLOURS:
            found = replace(found, colour=colour_of(words, 0))
            words = words[1:]
        if words and NUMBER.fullmatch(words[0]):
            words = ["interval", *words]
        while words:
            key, taken = words[0].lower(), 2
            if key == "interval":
                found = replace(found, interval=number_of(words, 1) / 100)
            elif key == "maxmoves":
                found = replace(found, max_moves=max(1, whole_of(words, 1)))
            elif key in _FLAGS:
                flag: dict[str, Any] = {_FLAGS[key]: len(words) > 1 and words[1].lower() == "true"}
                found = replace(found, **flag)
            elif key in ("avoid", "allow"):
                taken = 4
                player, named = colour_of(words, 1), (words[2] if len(words) > 2 else "").split(",")
                points = {move_of(named, index, size) for index in range(len(named))}
                if player is found.colour:
                    before = frozenset(range(size * size + 1)) if found.moves is None else found.moves
                    found = replace(found, moves=before & points if key == "allow" else before - points)
            words = words[taken:]
        return found

    def legal_moves(self, game: Game) -> frozenset[Move] | None:
        """Its moves that are legal, None for all. Raises Refused when there are none."""
        if self.moves is None:
            return None
        legal = game.legal_moves()
        moves = frozenset(move for move in self.moves if legal[move])
        if not moves:
            raise Refused("no legal move is allowed")
        return moves


_FLAGS = {"rootinfo": "root_info", "ownership": "ownership", "movesownership": "moves_ownership"}


@dataclass
class PositionAnalysis:
    """A bot's analysis of one position with what its net adds: each candidate's score and ownership.

    ``has_net`` says whether the bot can ``raw_nn``.
    """

    bot: Bot
    game: Game
    has_net: bool
    _after: dict[Move, RawNN] = field(default_factory=dict)

    def with_scores(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates with score and ownership, if the bot's net predicts them; each move is evaluated once."""
        if not self.has_net:
            return list(candidates)
        new = [each.move for each in candidates if each.move not in self._after]
        if new:
            raw_nns = self.bot.raw_nn([self.game.after(move) for move in new])
            self._after.update(zip(new, raw_nns, strict=True))
        return [self._with_score(each) for each in candidates]

    def _with_score(self, candidate: Candidate) -> Candidate:
        ownership = self._after[candidate.move].ownership
        if ownership is None:
            return candidate
        score = candidate.score
        if score is None:
            score = _lead(self.game.after(candidate.move), -ownership, self.game.to_play)
        return replace(candidate, ownership=-ownership, score=score)

    def overview(self, candidates: Sequence[Candidate]) -> Decision:
        """The whole position. Ownership is the candidates' mean by visits, if they have one; the score follows from
        it."""
        decision = self.bot.overview(self.game) or Decision(pass_move(self.game.rules.size))
        owned = [(each.visits, each.ownership) for each in candidates if each.ownership is not None]
        if owned:
            visits, fields = zip(*owned, strict=True)
            decision = replace(decision, ownership=np.average(fields, axis=0, weights=visits))
        if decision.score is None and decision.ownership is not None:
            decision = replace(decision, score=_lead(self.game, decision.ownership, self.game.to_play))
        return decision


def _lead(game: Game, ownership: np.ndarray, colour: Colour) -> float:
    """By how many points ``colour`` is ahead if it gets the points whose ownership is positive."""
    sign = 1 if colour is BLACK else -1
    return sign * game.expected_margin(sign * ownership)


def lower_bound(candidate: Candidate) -> float:
    """The lower end of a 95 % interval of its win rate, its visits taken as independent games."""
    rate = candidate.win_rate
    return max(0.0, rate - 1.96 * math.sqrt(rate * (1 - rate) / candidate.visits))


def format_report(analysis: PositionAnalysis, candidates: Sequence[Candidate], asked: AnalysisRequest) -> str:
    """A line of ``kata-analyze``, with ``rootInfo`` and ``ownership`` if they are asked for; empty without
    candidates."""
    candidates = analysis.with_scores(candidates[: asked.max_moves])
    parts = []
    for order, each in enumerate(candidates):
        parts.append(_info(order, each, analysis.game.rules.size, lambda share: f"{share:.6f}", _score(each.score)))
        if asked.moves_ownership and each.ownership is not None:
            parts.append(f"movesOwnership {_field(each.ownership)}")
    if candidates and (asked.root_info or asked.ownership):
        whole = analysis.overview(candidates)
        if asked.root_info and whole.win_rate is not None:
            parts.append(f"rootInfo visits {whole.visits or 0} winrate {whole.win_rate:.6f}{_score(whole.score)}")
        if asked.ownership and whole.ownership is not None:
            parts.append(f"ownership {_field(whole.ownership)}")
    return " ".join(parts)


def format_lz_report(analysis: PositionAnalysis, candidates: Sequence[Candidate], asked: AnalysisRequest) -> str:
    """A line of ``lz-analyze``: shares in hundredths of a per cent; empty without candidates."""
    size = analysis.game.rules.size
    shown = enumerate(candidates[: asked.max_moves])
    return " ".join(_info(order, each, size, lambda share: f"{share * 10000:.0f}") for order, each in shown)


def _info(order: int, candidate: Candidate, size: int, share: Callable[[float], str], score: str = "") -> str:
    prior = "" if candidate.prior is None else f" prior {share(candidate.prior)}"
    line = " ".join(gtp_from_move(move, size) for move in candidate.line)
    return (
        f"info move {gtp_from_move(candidate.move, size)} visits {candidate.visits} winrate {share(candidate.win_rate)}"
        f"{score}{prior} lcb {share(lower_bound(candidate))} order {order} pv {line}"
    )


def _score(score: float | None) -> str:
    return "" if score is None else f" scoreMean {score:.3f} scoreLead {score:.3f}"


def _field(ownership: np.ndarray) -> str:
    return " ".join(f"{value:.4f}" for value in ownership.tolist())
