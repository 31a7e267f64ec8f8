"""Queries, results and positions of KataGo's JSON analysis protocol (its docs/Analysis_Engine.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from arena import ConfigError, IllegalMove, UserError
from arena.contract.bot import Bot, Candidate
from arena.go.coords import BLACK, WHITE, Colour, Move, gtp_from_move, move_from_gtp
from arena.go.game import Game, Rules
from arena.gtp.analysis_commands import PositionAnalysis, lower_bound
from arena.gtp.arguments import COLOURS, CommandError, parse_rules
from arena.gtp.position import Position


class QueryError(Exception):
    """A query can't be answered because of one of its fields."""

    def __init__(self, message: str, field: str):
        super().__init__(message)
        self.field = field


Visits = Annotated[int, msgspec.Meta(ge=1)] | None
Seconds = Annotated[float, msgspec.Meta(gt=0)] | None
Side = Literal["B", "W", "b", "w", "black", "white", "Black", "White", "BLACK", "WHITE"]


class MoveLimit(msgspec.Struct, rename="camel", frozen=True):
    """An item of ``allowMoves`` or ``avoidMoves``, applied to the first move only."""

    player: Side
    moves: list[str]


class OverrideSettings(msgspec.Struct, rename="camel", frozen=True):
    """The settings of KataGo that a query may override here."""

    report_analysis_winrates_as: Literal["BLACK", "WHITE", "SIDETOMOVE"] = "BLACK"
    max_visits: Visits = None
    max_time: Seconds = None


class Query(msgspec.Struct, rename="camel", frozen=True):
    """The fields of a query that are supported."""

    id: str
    moves: list[tuple[Side, str]]
    rules: str | dict[str, Any]
    board_x_size: int
    board_y_size: int
    initial_stones: list[tuple[Side, str]] = []
    initial_player: Side | None = None
    komi: float | None = None
    analyze_turns: list[int] | None = None
    max_visits: Visits = None
    analysis_pv_len: int = msgspec.field(name="analysisPVLen", default=15)
    avoid_moves: list[MoveLimit] = []
    allow_moves: list[MoveLimit] = []
    override_settings: OverrideSettings = OverrideSettings()
    report_during_search_every: Seconds = None
    priority: int = 0
    include_ownership: bool = False
    include_moves_ownership: bool = False
    include_policy: bool = False


def read_query(fields: Mapping[str, Any]) -> Query:
    """Raises QueryError with the name of the first field that is wrong."""
    try:
        return msgspec.convert({name: value for name, value in fields.items() if value is not None}, Query)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        found = re.match(r"\.(\w+)", path) or re.search(r"field `(\w+)`", message)
        allowed = "; players are B and W, views BLACK, WHITE and SIDETOMOVE" if "enum" in message else ""
        raise QueryError(f"{message[:1].lower()}{message[1:]}{allowed}", found[1] if found else "id") from None


@dataclass(eq=False)
class Task:
    """A position of a query to search. ``moves`` are the allowed first moves (None: all); ``started`` is 0 at first."""

    query: Query
    turn: int
    moves: frozenset[Move] | None
    analysis: PositionAnalysis
    candidates: Sequence[Candidate] = ()
    visits: int = 0
    started: float = 0.0
    reported: float = 0.0

    @property
    def bounds(self) -> tuple[int | None, float | None]:
        """The most visits and seconds that the query allows."""
        settings = self.query.override_settings
        return self.query.max_visits or settings.max_visits, settings.max_time


def make_result(task: Task) -> dict[str, Any]:
    """The result of a task so far, with the task's own ``visits`` if the bot reports none."""
    query, analysis, game = task.query, task.analysis, task.analysis.game
    view = {"BLACK": BLACK, "WHITE": WHITE}.get(query.override_settings.report_analysis_winrates_as)
    flip = view not in (None, game.to_play)  # values are those of the other side than the one to move
    candidates, whole = analysis.complete(task.candidates)

    def share(win_rate: float) -> float:
        return round(1 - win_rate if flip else win_rate, 6)

    def values(win_rate: float | None, score: float | None) -> dict[str, Any]:
        rate = share(0.5 if win_rate is None else win_rate)
        lead = None if score is None else round(-score if flip else score, 3)
        scores = dict.fromkeys(("scoreLead", "scoreMean", "scoreSelfplay"), lead)
        return {"winrate": rate, "utility": round(2 * rate - 1, 6), **scores}

    def owners(ownership: np.ndarray | None, is_wanted: bool) -> list[float] | None:
        if ownership is None or not is_wanted:
            return None
        return [round(value, 4) for value in (-ownership if flip else ownership).tolist()]

    infos = []
    for order, each in enumerate(candidates):
        low, line = share(lower_bound(each)), each.line[: query.analysis_pv_len + 1]
        info = {
            "move": gtp_from_move(each.move, game.rules.size),
            "visits": each.visits,
            "edgeVisits": each.visits,
            "order": order,
            **values(each.win_rate, whole.score if each.score is None else each.score),
            "lcb": low,
            "utilityLcb": round(2 * low - 1, 6),
            "prior": None if each.prior is None else round(each.prior, 6),
            "pv": [gtp_from_move(move, game.rules.size) for move in line],
            "ownership": owners(each.ownership, query.include_moves_ownership),
        }
        infos.append(_without_none(info))
    root = {
        "currentPlayer": game.to_play.letter,
        "visits": whole.visits or task.visits,
        "thisHash": f"{game.board.hash:016X}{int(game.to_play)}",
        **values(whole.win_rate, whole.score),
    }
    policy = None
    if query.include_policy and analysis.has_net:
        [raw_nn] = analysis.bot.raw_nn([game])
        shares = zip(raw_nn.policy.tolist(), game.legal_moves(), strict=True)
        policy = [round(each, 6) if is_legal else -1 for each, is_legal in shares]
        root["rawWinrate"] = share(raw_nn.win_rate)
    result = {"id": query.id, "turnNumber": task.turn, "isDuringSearch": False}
    result |= {"moveInfos": infos, "rootInfo": _without_none(root), "policy": policy}
    return _without_none({**result, "ownership": owners(whole.ownership, query.include_ownership)})


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


# --- The positions of a query ---


def make_tasks(query: Query, bot: Bot, has_net: bool, check: Callable[[int], object]) -> list[Task]:
    """A task for each turn that is asked for. Raises QueryError; ``check`` raises UserError for a size."""
    turns = [len(query.moves)] if query.analyze_turns is None else list(dict.fromkeys(query.analyze_turns))
    rules = _query_rules(query, check)
    if not all(0 <= turn <= len(query.moves) for turn in turns):
        raise QueryError(f"turns go from 0 to {len(query.moves)}, the number of moves", "analyzeTurns")
    games = _replay_games(query, rules, turns)
    return [
        Task(query, turn, _allowed_moves(query, games[turn]), PositionAnalysis(bot, games[turn].copy(), has_net))
        for turn in turns
    ]


@contextmanager
def _errors_of_field(field: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn these errors into a QueryError about the field."""
    try:
        yield
    except errors as error:
        raise QueryError(str(error), field) from None


def _query_rules(query: Query, check: Callable[[int], object]) -> Rules:
    size = query.board_x_size
    if query.board_y_size != size:
        raise QueryError("the board must be square", "boardYSize")
    with _errors_of_field("boardXSize", UserError):
        rules = Rules.preset(size=size)
        check(size)
    with _errors_of_field("rules", CommandError):
        name = parse_rules(query.rules, rules).name
    with _errors_of_field("komi", ConfigError, ValueError, OverflowError):
        return Rules.preset(name, size, query.komi)


def _replay_games(query: Query, rules: Rules, turns: Sequence[int]) -> dict[int, Game]:
    """The game at each turn. Only the last move must obey superko and suicide: earlier rules may have been others."""
    size, lax = rules.size, replace(rules, superko=False, suicide=True)
    stones = [(COLOURS[player.lower()], _query_move("initialStones", at, size)) for player, at in query.initial_stones]
    moves = [(COLOURS[player.lower()], _query_move("moves", at, size)) for player, at in query.moves]
    black, white = (tuple(move for owner, move in stones if owner is colour) for colour in Colour)
    first = COLOURS[query.initial_player.lower()] if query.initial_player else moves[0][0] if moves else None
    try:
        position = Position(lax, 0, (black, white), first)
    except ValueError:
        raise QueryError("two stones on a point, or a group without a liberty", "initialStones") from None

    def strict_copy(colour: Colour) -> Game:
        game = position.turn(colour).copy()
        game.rules = replace(game.rules, superko=rules.superko, suicide=rules.suicide)
        return game

    games = {0: strict_copy(position.game.to_play)}
    for number, (colour, move) in enumerate(moves, 1):
        try:
            if number == len(moves):
                strict_copy(colour).play(move)
            position.play(colour, move)
        except IllegalMove as error:
            raise QueryError(f"Illegal move {number}: {gtp_from_move(move, size)} ({error})", "moves") from None
        if number in turns:
            games[number] = strict_copy(position.game.to_play)
    return games


def _allowed_moves(query: Query, game: Game) -> frozenset[Move] | None:
    """The legal moves that the search may begin with; None for all."""
    legal = found = frozenset(game.legal_moves().nonzero()[0].tolist())
    for name, limits in (("allowMoves", query.allow_moves), ("avoidMoves", query.avoid_moves)):
        for limit in limits:
            moves = {_query_move(name, text, game.rules.size) for text in limit.moves}
            if COLOURS[limit.player.lower()] is game.to_play:
                found = found & moves if name == "allowMoves" else found - moves
        if not found:
            raise QueryError("no legal move is allowed", name)
    return None if found == legal else found


def _query_move(field: str, text: str, size: int) -> Move:
    with _errors_of_field(field, ValueError):
        return move_from_gtp(text, size)
