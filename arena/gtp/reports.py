"""What a bot thinks, in the words of Leela Zero, KataGo and CGOS: what is asked for, what is found, how it is written.

A win rate, score or ownership is that of the side to move.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from arena.contract.bot import Bot, Candidate, Decision, Glance
from arena.go.game import Game
from arena.go.moves import BLACK, Colour, Move, gtp_from_move, pass_move
from arena.gtp.words import COLOURS, NUMBER, Refused, colour_of, move_of, number_of, whole_of


@dataclass(frozen=True, slots=True)
class Request:
    """What an analysis is to report, and how often in seconds. ``moves`` are those that it may begin with."""

    colour: Colour
    interval: float = 1.0
    most: int = 1000
    root: bool = False
    ownership: bool = False
    moves_ownership: bool = False
    moves: frozenset[Move] | None = None

    @classmethod
    def read(cls, words: list[str], colour: Colour, size: int) -> Request:
        """From ``[colour] [centiseconds] [key value]...``; unknown keys are passed over. ``avoid`` and ``allow`` hold
        for the first move only, however deep they are to reach. Raises Refused."""
        found = cls(colour)
        if words and words[0].lower() in COLOURS:
            found = replace(found, colour=colour_of(words, 0))
            words = words[1:]
        if words and NUMBER.fullmatch(words[0]):
            words = ["interval", *words]
        avoided: set[Move] = set()
        while words:
            key, taken = words[0].lower(), 2
            match key:
                case "interval":
                    found = replace(found, interval=number_of(words, 1) / 100)
                case "maxmoves":
                    found = replace(found, most=max(1, whole_of(words, 1)))
                case "rootinfo":
                    found = replace(found, root=_is_true(words))
                case "ownership":
                    found = replace(found, ownership=_is_true(words))
                case "movesownership":
                    found = replace(found, moves_ownership=_is_true(words))
                case "avoid" | "allow":
                    taken = 4
                    player, named = colour_of(words, 1), (words[2] if len(words) > 2 else "").split(",")
                    points = {move_of(named, index, size) for index in range(len(named))}
                    if whole_of(words, 3) < 1:
                        raise Refused("syntax error")
                    if key == "allow" and (found.moves is not None or avoided):
                        raise Refused("allow can be given once, and not with avoid")
                    if key == "avoid" and found.moves is not None:
                        raise Refused("avoid can't be given with allow")
                    if player is found.colour:
                        avoided |= points if key == "avoid" else set()
                        found = replace(found, moves=frozenset(points) if key == "allow" else found.moves)
            words = words[taken:]
        return replace(found, moves=frozenset(range(size * size + 1)) - avoided) if avoided else found

    def among(self, game: Game) -> frozenset[Move] | None:
        """The legal ones of its moves, None for all. Raises Refused when there are none."""
        if self.moves is None:
            return None
        legal = game.legal_moves()
        moves = frozenset(move for move in self.moves if legal[move])
        if not moves:
            raise Refused("no legal move is allowed")
        return moves


def _is_true(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[1].lower() == "true"


@dataclass
class Insight:
    """What a bot knows of one position, asked while it searches or after it."""

    bot: Bot
    game: Game
    has_net: bool
    """Whether the bot can ``glance``."""
    _behind: dict[Move, Glance] = field(default_factory=dict)

    def whole(self, informed: Sequence[Candidate]) -> Decision:
        """The position as a whole: ownership is that behind the candidates, by their visits, where they have one; the
        score is that of the ownership."""
        decision = self.bot.overview(self.game) or Decision(pass_move(self.game.rules.size))
        owned = [each.visits * each.ownership for each in informed if each.ownership is not None]
        if owned:
            mean = np.sum(owned, axis=0) / sum(each.visits for each in informed if each.ownership is not None)
            decision = replace(decision, ownership=mean)
        if decision.score is None and decision.ownership is not None:
            return replace(decision, score=self._lead(self.game, decision.ownership, self.game.to_play))
        return decision

    def informed(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates with score and ownership, where the bot has a net that tells them: each move is asked about
        once."""
        new = [each.move for each in candidates if each.move not in self._behind]
        if not self.has_net or not candidates:
            return list(candidates)
        if new:
            told = self.bot.glance([self.game.after(move) for move in new])
            self._behind.update(zip(new, told, strict=True))
        return [self._with_score(each) for each in candidates]

    def _with_score(self, candidate: Candidate) -> Candidate:
        ownership = self._behind[candidate.move].ownership
        if ownership is None:
            return candidate
        own, colour = -ownership, self.game.to_play
        score = candidate.score
        if score is None:
            score = self._lead(self.game.after(candidate.move), own, colour)
        return replace(candidate, ownership=own, score=score)

    @staticmethod
    def _lead(game: Game, ownership: np.ndarray, colour: Colour) -> float:
        """How far ``colour`` is ahead when it gets the points that are positive."""
        sign = 1 if colour is BLACK else -1
        return sign * game.expected_margin(sign * ownership)


# --- As it is written ---


def lower_bound(candidate: Candidate) -> float:
    """The lower end of a 95 % interval of its win rate, its visits taken as independent games."""
    rate = candidate.win_rate
    return max(0.0, rate - 1.96 * math.sqrt(rate * (1 - rate) / candidate.visits))


def leela_zero(share: float) -> str:
    """A share in hundredths of a percent."""
    return f"{share * 10000:.0f}"


def katago(share: float) -> str:
    return f"{share:.6f}"


def report(candidates: Sequence[Candidate], whole: Decision | None, asked: Request, size: int, kata: bool) -> str:
    """A line of ``kata-analyze`` or ``lz-analyze``, with ``rootInfo`` and ``ownership`` of ``whole`` if asked for;
    empty without candidates."""
    if not candidates:
        return ""
    parts = [_info(order, each, asked, size, kata) for order, each in enumerate(candidates[: asked.most])]
    if whole is not None and kata and asked.root and whole.win_rate is not None:
        parts.append(f"rootInfo visits {whole.visits or 0} winrate {katago(whole.win_rate)}{_score(whole.score)}")
    if whole is not None and kata and asked.ownership and whole.ownership is not None:
        parts.append(f"ownership {_field(whole.ownership)}")
    return " ".join(parts)


def _info(order: int, candidate: Candidate, asked: Request, size: int, kata: bool) -> str:
    share = katago if kata else leela_zero
    prior = "" if candidate.prior is None else f" prior {share(candidate.prior)}"
    score = _score(candidate.score) if kata else ""
    line = " ".join(gtp_from_move(move, size) for move in candidate.line)
    own = ""
    if kata and asked.moves_ownership and candidate.ownership is not None:
        own = f" movesOwnership {_field(candidate.ownership)}"
    return (
        f"info move {gtp_from_move(candidate.move, size)} visits {candidate.visits} winrate {share(candidate.win_rate)}"
        f"{score}{prior} lcb {share(lower_bound(candidate))} order {order} pv {line}{own}"
    )


def _score(score: float | None) -> str:
    return "" if score is None else f" scoreMean {score:.3f} scoreLead {score:.3f}"


def _field(ownership: np.ndarray) -> str:
    return " ".join(f"{value:.4f}" for value in ownership.tolist())


_SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def cgos(candidates: Sequence[Candidate], whole: Decision, size: int) -> str:
    """The line of JSON that a CGOS client passes on with a move; ownership is a sign for each point."""
    moves = [
        _known(
            move=gtp_from_move(each.move, size),
            visits=each.visits,
            winrate=_rounded(each.win_rate),
            score=_rounded(each.score),
            prior=_rounded(each.prior),
            pv=" ".join(gtp_from_move(move, size) for move in each.line[1:]),
        )
        for each in candidates
    ]
    ownership = None
    if whole.ownership is not None:
        ownership = "".join(_SIGNS[round((value + 1) / 2 * 62)] for value in whole.ownership.tolist())
    told = _known(
        winrate=_rounded(whole.win_rate),
        score=_rounded(whole.score),
        visits=whole.visits,
        moves=moves,
        ownership=ownership,
    )
    return json.dumps(told, separators=(",", ":"))


def _known(**facts: object) -> dict[str, object]:
    return {key: value for key, value in facts.items() if value is not None}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def raw(glance: Glance, game: Game, symmetry: int) -> str:
    """``kata-raw-nn``'s answer for one symmetry: White's view, illegal moves as NAN."""
    size, legal = game.rules.size, game.legal_moves()
    sign = 1 if game.to_play is BLACK else -1
    white = glance.win_rate if game.to_play is not BLACK else 1 - glance.win_rate
    lines = [f"symmetry {symmetry}"]
    if not math.isnan(white):
        lines += [f"whiteWin {white:.6f}", f"whiteLoss {1 - white:.6f}", "noResult 0.000000"]
    if glance.ownership is not None:
        lines.append(f"whiteLead {-game.expected_margin(sign * glance.ownership):.3f}")
    policy = [f"{share:.6f}" if legal[move] else "NAN" for move, share in enumerate(glance.policy.tolist())]
    lines += ["policy", *rows(policy[:-1], size), f"policyPass {policy[-1]}"]
    if glance.ownership is not None:
        own = (-sign * glance.ownership).tolist()
        lines += ["whiteOwnership", *rows([f"{value:.4f}" for value in own], size)]
    return "\n".join(lines)


def rows(values: Sequence[str], size: int) -> list[str]:
    """A field of the board, a row a line from the top."""
    return [" ".join(values[start : start + size]) for start in range(0, size * size, size)]
