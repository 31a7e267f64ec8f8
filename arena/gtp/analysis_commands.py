"""The analysis of a position by a bot, and the lines in which KataGo's analysis commands report it.

A win rate, score or ownership is that of the side to move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import numpy as np

from arena.contract.bot import Bot, Candidate, Decision, RawNN
from arena.go.coords import BLACK, Colour, Move, gtp_from_move, pass_move
from arena.go.game import Game
from arena.gtp.arguments import COLOURS, NUMBER, CommandError, parse_colour, parse_number, parse_whole


@dataclass
class PositionAnalysis:
    """A bot and a position that it analyses. ``has_net`` says whether the bot can ``raw_nn``."""

    bot: Bot
    game: Game
    has_net: bool
    _after: dict[Move, RawNN] = field(default_factory=dict)  # each candidate's position is evaluated once

    def complete(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], Decision]:
        """Add the net's score and ownership after each candidate, and evaluate the position: its ownership is the
        candidates' mean, weighted by visits, and its score follows from that."""
        if self.has_net and (new := [each.move for each in candidates if each.move not in self._after]):
            raw_nns = self.bot.raw_nn([self.game.after(move) for move in new])
            self._after.update(zip(new, raw_nns, strict=True))
        completed = []
        for each in candidates:
            raw_nn = self._after.get(each.move)
            if raw_nn is not None and raw_nn.ownership is not None:
                owned, score = -raw_nn.ownership, each.score
                if score is None and raw_nn.score is not None:
                    score = -raw_nn.score
                score = self._lead(self.game.after(each.move), owned) if score is None else score
                each = replace(each, ownership=owned, score=score)
            completed.append(each)
        whole = self.bot.overview(self.game) or Decision(pass_move(self.game.rules.size))
        owners = [(each.visits, each.ownership) for each in completed if each.ownership is not None]
        if owners:
            visits, fields = zip(*owners, strict=True)
            whole = replace(whole, ownership=np.average(fields, axis=0, weights=visits))
        if whole.score is None and whole.ownership is not None:
            whole = replace(whole, score=self._lead(self.game, whole.ownership))
        return completed, whole

    def _lead(self, game: Game, ownership: np.ndarray) -> float:
        """The lead in points of the side to move in ``game``, computed from its predicted ownership."""
        sign = 1 if self.game.to_play is BLACK else -1
        return sign * game.expected_margin(sign * ownership)


def lower_bound(candidate: Candidate) -> float:
    """The lower end of a 95 % interval of a candidate's win rate, with each visit counted as an independent game."""
    rate = candidate.win_rate
    return max(0.0, rate - 1.96 * math.sqrt(rate * (1 - rate) / max(1, candidate.visits)))


# --- The commands ---


@dataclass(frozen=True, slots=True)
class AnalysisRequest:
    """The contents and the interval, in seconds, of the reports of an analysis."""

    colour: Colour
    interval: float
    max_moves: int
    root_info: bool
    ownership: bool
    moves_ownership: bool

    @classmethod
    def read(cls, words: list[str], colour: Colour) -> AnalysisRequest:
        """From ``[colour] [centiseconds] [key value]...``; unknown keys are ignored. Raises CommandError."""
        if words and words[0].lower() in COLOURS:
            colour, words = parse_colour(words, 0), words[1:]
        if words and NUMBER.fullmatch(words[0]):
            words = ["interval", *words]
        values = {key.lower(): value for key, value in zip_longest(words[::2], words[1::2], fillvalue="")}
        if {"avoid", "allow"} & values.keys():
            raise CommandError("avoid and allow are not supported")
        flags = (values.get(key, "").lower() == "true" for key in ("rootinfo", "ownership", "movesownership"))
        interval = parse_number([values.get("interval", "100")], 0) / 100
        return cls(colour, interval, max(1, parse_whole([values.get("maxmoves", "1000")], 0)), *flags)


def format_report(analysis: PositionAnalysis, found: Sequence[Candidate], request: AnalysisRequest) -> str:
    """A line of ``kata-analyze``, with ``rootInfo`` and ``ownership`` on request; empty without candidates."""
    candidates, whole = analysis.complete(found[: request.max_moves])
    size, parts = analysis.game.rules.size, []
    for order, each in enumerate(candidates):
        prior = "" if each.prior is None else f" prior {each.prior:.6f}"
        parts.append(
            f"info move {gtp_from_move(each.move, size)} visits {each.visits} winrate {each.win_rate:.6f}"
            f"{_score_words(each.score)}{prior} lcb {lower_bound(each):.6f} order {order} "
            f"pv {' '.join(gtp_from_move(move, size) for move in each.line)}"
        )
        if request.moves_ownership and each.ownership is not None:
            parts.append(f"movesOwnership {_ownership_words(each.ownership)}")
    if parts and request.root_info and whole.win_rate is not None:
        parts.append(f"rootInfo visits {whole.visits or 0} winrate {whole.win_rate:.6f}{_score_words(whole.score)}")
    if parts and request.ownership and whole.ownership is not None:
        parts.append(f"ownership {_ownership_words(whole.ownership)}")
    return " ".join(parts)


def _score_words(score: float | None) -> str:
    return "" if score is None else f" scoreMean {score:.3f} scoreLead {score:.3f}"


def _ownership_words(ownership: np.ndarray) -> str:
    return " ".join(f"{value:.4f}" for value in ownership.tolist())
