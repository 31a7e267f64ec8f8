"""Analysis of a game: a bot's evaluation of each position, and the cost of each move; also as SGF properties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from arena import BotFault, UserError
from arena.contract.bot import Bot, Candidate, Limits
from arena.go.coords import BLACK, Colour, Move, gtp_from_move, pass_move, sgf_from_move
from arena.go.game import Game
from arena.go.record import GameRecord
from arena.go.sgf import Remark

if TYPE_CHECKING:
    from arena.contract.bot import RawNN
    from arena.players.player import Player

AT_ONCE = 8  # positions that a bot evaluates in one call: a net takes little more time for eight than for one
MISTAKE = 0.05  # win rate that a mistake costs, at least; a search of a few hundred visits is not more exact
LISTED = 5  # likeliest moves of a net in words
LABELS = "ABC"  # of the best candidates, on the board of an SGF file


class AnalysisError(UserError):
    """A game that this bot can't analyse."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A bot's evaluation of the position after ``number`` moves, as Black's view except for ``candidates``.

    ``win_rate`` in [0, 1] is that of the best move. ``ownership`` (size²,) in [-1, 1] is the predicted owner of each
    point, and ``margin`` the score by that, komi counted: for a net, the mean of that and of the one after the best
    move; None for a bot that reports neither. ``candidates`` of a search, the best first, have win rates of the side to
    move. ``line`` is the play expected, the best move itself first.
    """

    number: int
    to_play: Colour
    win_rate: float
    best: Move
    line: tuple[Move, ...]
    candidates: tuple[Candidate, ...] = ()
    visits: int | None = None
    margin: float | None = None
    ownership: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class PlayedMove:
    """A move of the game between the evaluations of the positions before and after it. ``number`` begins with 1."""

    number: int
    colour: Colour
    move: Move
    before: Evaluation
    after: Evaluation

    @property
    def loss(self) -> float:
        """Win rate that it cost whoever played it; below 0 where the bot likes the move better once it is played."""
        return (self.before.win_rate - self.after.win_rate) * (1 if self.colour is BLACK else -1)

    @property
    def points_lost(self) -> float | None:
        """Points that it cost whoever played it, where the bot knows the score."""
        if self.before.margin is None or self.after.margin is None:
            return None
        return (self.before.margin - self.after.margin) * (1 if self.colour is BLACK else -1)

    @property
    def is_best(self) -> bool:
        return self.move == self.before.best

    @property
    def is_mistake(self) -> bool:
        return not self.is_best and self.loss >= MISTAKE


def with_all_visits(entry: Player) -> Player:
    """The player without early stopping, which skips visits that can't change the move, only its win rate."""
    settings = {key: False if key == "stop_early" else value for key, value in entry.settings.items()}
    return replace(entry, settings=settings)


def evaluation_count(record: GameRecord) -> int:
    """The number of evaluations that ``analyse`` yields: of the position before each move and after the last one. The
    passes that ended a game are left out: dead stones are removed after them, and the bot doesn't know which."""
    passing = pass_move(record.rules.size)
    return len(record.moves) + 1 - 2 * (record.moves[-2:] == (passing, passing))


def analyse(record: GameRecord, bot: Bot, limits: Limits | None = None) -> Iterator[Evaluation]:
    """Evaluate the positions of a game from its first to its last, each within ``limits`` and independently of the
    others. The bot is best built by ``with_all_visits(entry).build()``. Raises AnalysisError when the bot reports no
    win rates or fails, RecordError when the moves break the rules."""
    limits = limits or Limits()
    at_once = 1 if limits.seconds is not None or type(bot).choose_all is Bot.choose_all else AT_ONCE
    # copies, as a bot may keep what it knows of a game by the object
    games = (game.copy() for game in islice(positions(record), evaluation_count(record)))
    while some := list(islice(games, at_once)):
        yield from _evaluate(some, bot, limits)


def judge_moves(record: GameRecord, evaluations: Sequence[Evaluation]) -> list[PlayedMove]:
    """The moves whose positions before and after are evaluated, in the order of the game."""
    return [
        PlayedMove(after.number, before.to_play, record.moves[before.number], before, after)
        for before, after in pairwise(evaluations)
    ]


def mistakes(moves: Sequence[PlayedMove], most: int | None = 3, colour: Colour | None = None) -> list[PlayedMove]:
    """The ``most`` moves that cost the most (``is_mistake``), the worst first, of one colour or of both."""
    found = [move for move in moves if move.is_mistake and colour in (None, move.colour)]
    return sorted(found, key=lambda move: -move.loss)[:most]


def net_remarks(record: GameRecord, bot: Bot) -> list[Remark]:
    """What the bot's net alone says of each position: policy, win rate and, where it has them, owners. Raises
    CheckpointError for a net that can't evaluate them, RecordError when the moves break the rules."""
    remarks = []
    games = (game.copy() for game in positions(record))
    while some := list(islice(games, AT_ONCE)):
        for game, found in zip(some, bot.raw_nn(some), strict=True):
            sign = 1 if game.to_play is BLACK else -1
            rate = None if isnan(found.win_rate) else found.win_rate if sign > 0 else 1 - found.win_rate
            owners = found.ownership
            per_cent = None if owners is None else np.rint(100 * sign * owners).astype(np.int8).tobytes()
            shares = sorted(enumerate(found.policy.tolist()), key=lambda item: -item[1])
            best = (f"{gtp_from_move(move, game.rules.size)} {share:.0%}" for move, share in shares[:LISTED])
            policy = dict(enumerate(found.policy[:-1].tolist()))
            remarks.append(Remark(f"Policy: {', '.join(best)}", rate, policy=policy, ownership=per_cent))
    return remarks


def positions(record: GameRecord) -> Iterator[Game]:
    """The game after each number of moves: the same object, which is played on. Raises RecordError."""
    room = max(record.rules.move_limit, len(record.moves) + 1)  # the limit would end the game
    whole = replace(record, rules=replace(record.rules, move_limit=room), outcome=None)
    whole.replay()  # says what is wrong
    game = replace(whole, moves=()).replay()
    yield game
    for move in record.moves:
        game.outcome = None
        game.play(move)
        yield game


def _evaluate(games: Sequence[Game], bot: Bot, limits: Limits) -> Iterator[Evaluation]:
    try:
        decisions = bot.choose_all(games, limits)
        # a search goes on from what it has learnt of a game: here it is asked for that, and for hardly any more
        candidates = [bot.analyse(game, Limits(simulations=1)) for game in games]
    except BotFault as fault:
        raise AnalysisError(f"the bot failed: {' '.join(str(fault).split())}") from fault
    following = [game.copy() for game in games]  # after the move that was chosen
    for after, decision in zip(following, decisions, strict=True):
        if decision.move is not None and not after.is_over and after.legal_moves()[decision.move]:
            after.play(decision.move)
    has_ownership = all(decision.ownership is not None for decision in decisions)
    raw_nns: Sequence[RawNN | None] = (bot.raw_nn(following) if has_ownership else []) or [None] * len(games)
    for game, decision, weighed, after, raw_nn in zip(games, decisions, candidates, following, raw_nns, strict=True):
        if decision.win_rate is None:
            raise AnalysisError("it reports no win rates")
        ownership, margin = _blacks(game, decision.ownership), _blacks(game, decision.score)
        if margin is None and ownership is not None:
            margin = game.expected_margin(ownership)
            if raw_nn is not None and raw_nn.score is not None:
                margin = _blacks(after, raw_nn.score)
            elif raw_nn is not None and raw_nn.ownership is not None:
                # a net predicts a little less for the side to move, which would swing with every move
                margin = (margin + after.expected_margin(_blacks(after, raw_nn.ownership))) / 2
        best = decision.move  # None if it resigns, but something is the best there is
        if best is None:
            best = weighed[0].move if weighed else pass_move(game.rules.size)
        ordered = sorted(weighed, key=lambda candidate: candidate.move != best)
        yield Evaluation(
            number=len(game.moves),
            to_play=game.to_play,
            win_rate=decision.win_rate if game.to_play is BLACK else 1 - decision.win_rate,
            best=best,
            line=ordered[0].line if ordered and ordered[0].move == best else (best,),
            candidates=tuple(ordered),
            visits=decision.visits,
            margin=margin,
            ownership=ownership,
        )


def _blacks(game: Game, value: Any) -> Any:
    """A score or an ownership of the side to move, as Black's."""
    return value if value is None or game.to_play is BLACK else -value


# --- As files have it ---


def sgf_properties(record: GameRecord, evaluations: Sequence[Evaluation], bot: str) -> dict[int, dict[str, list[str]]]:
    """Properties for ``GameRecord.to_sgf``, by move number.

    Each node gets a comment, Black's win rate in per cent (SBKV, which Sabaki draws as a graph), the score if known (V)
    and labels at the best moves for the next player (LB). A mistake gets DO, or BM if it cost three times ``MISTAKE``.
    """
    size = record.rules.size
    found: dict[int, dict[str, list[str]]] = {0: {"AN": [bot]}}
    played = {move.number: move for move in judge_moves(record, evaluations)}
    for evaluation in evaluations:
        node = found.setdefault(evaluation.number, {})
        node["SBKV"] = [f"{100 * evaluation.win_rate:.2f}"]
        if evaluation.margin is not None:
            node["V"] = [f"{evaluation.margin:.1f}"]
        best = [candidate.move for candidate in evaluation.candidates] or [evaluation.best]
        labelled = [move for move in best[: len(LABELS)] if move != pass_move(size)]
        if labelled:
            node["LB"] = [f"{sgf_from_move(move, size)}:{label}" for move, label in zip(labelled, LABELS, strict=False)]
        move = played.get(evaluation.number)
        if move is not None and move.is_mistake:
            node.update({"BM": ["1"]} if move.loss >= 3 * MISTAKE else {"DO": [""]})
        node["C"] = ["\n".join(_comment(evaluation, move, size))]
    return found


def variations(record: GameRecord, evaluations: Sequence[Evaluation]) -> dict[int, tuple[Move, ...]]:
    """For ``GameRecord.to_sgf``: by the number of a mistake, the line that the bot would have played instead."""
    return {move.number: move.before.line for move in judge_moves(record, evaluations) if move.is_mistake}


def _comment(evaluation: Evaluation, move: PlayedMove | None, size: int) -> Iterator[str]:
    if move is not None:
        points = f"{'cost' if move.loss >= 0 else 'gained'} {100 * abs(move.loss):.1f} points of win rate"
        words = "the bot's own choice" if move.is_best else points
        yield f"{move.number}. {move.colour.name.title()} {gtp_from_move(move.move, size)}: {words}"
        if not move.is_best:
            yield f"Instead: {format_line(move.before.line, size)}"
    score = "" if evaluation.margin is None else f", score {format_margin(evaluation.margin)}"
    yield f"Black wins {evaluation.win_rate:.1%}{score}"
    yield f"Expected of {evaluation.to_play.name.title()}: {format_line(evaluation.line, size)}"


def format_line(line: Sequence[Move], size: int, most: int = 8) -> str:
    """The beginning of a line of play."""
    return " ".join(gtp_from_move(move, size) for move in line[:most])


def format_margin(margin: float) -> str:
    """``B+3.5``, ``W+0.5``, ``even``: who is ahead by how much, of Black's margin."""
    points = f"{abs(margin):.1f}"
    return "even" if points == "0.0" else f"{'B' if margin > 0 else 'W'}+{points}"
