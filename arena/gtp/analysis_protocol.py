"""KataGo's JSON analysis protocol (its docs/Analysis_Engine.md): queries in, a line each, and results out."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Annotated, Any, Literal, TextIO

import msgspec

from arena import ConfigError, IllegalMove, UserError, __version__
from arena.contract.bot import Bot, Candidate, Limits, fault_words
from arena.go.coords import BLACK, MAX_SIZE, MIN_SIZE, Colour, Move, gtp_from_move, move_from_gtp
from arena.go.game import Game, Rules
from arena.gtp.analysis_commands import PositionAnalysis, lower_bound
from arena.gtp.arguments import COLOURS, Refused, nearest_rules, rules_of
from arena.gtp.position import Position

SLICE = 0.2
"""Seconds of a search before the next query is read."""

FAIR_SLICES = 25
"""Slices after which a position yields to all that have had fewer, whatever the priorities."""

BATCH = 8
"""Positions that a bot with a net searches together."""

MAX_LINE = 1 << 22

ACTIONS = ("query_version", "query_models", "clear_cache", "terminate", "terminate_all")


class QueryError(Exception):
    """A query can't be answered because of one of its fields."""

    def __init__(self, message: str, field: str):
        super().__init__(message)
        self.field = field


Visits = Annotated[int, msgspec.Meta(ge=1)] | None
Seconds = Annotated[float, msgspec.Meta(gt=0)] | None
Player = Literal["B", "W", "b", "w", "black", "white", "Black", "White", "BLACK", "WHITE"]


class MoveLimit(msgspec.Struct, rename="camel", frozen=True):
    """An item of ``allowMoves`` or ``avoidMoves``; it holds for the first move only."""

    player: Player
    moves: list[str]


class OverrideSettings(msgspec.Struct, rename="camel", frozen=True):
    """The settings of KataGo that a query may override here."""

    report_analysis_winrates_as: Literal["BLACK", "WHITE", "SIDETOMOVE"] = "BLACK"
    max_visits: Visits = None
    max_time: Seconds = None


class Query(msgspec.Struct, rename="camel", frozen=True):
    """The fields of a query that are supported."""

    id: str
    moves: list[tuple[Player, str]]
    rules: str | dict[str, Any]
    board_x_size: int
    board_y_size: int
    initial_stones: list[tuple[Player, str]] = []
    initial_player: Player | None = None
    komi: float | None = None
    analyze_turns: list[int] | None = None
    max_visits: Visits = None
    analysis_pv_len: int = msgspec.field(name="analysisPVLen", default=15)
    avoid_moves: list[MoveLimit] = []
    allow_moves: list[MoveLimit] = []
    override_settings: OverrideSettings = OverrideSettings()
    report_during_search_every: Seconds = None
    priority: int = 0
    priorities: list[int] | None = None
    include_ownership: bool = False
    include_moves_ownership: bool = False
    include_policy: bool = False


@dataclass(eq=False)
class Task:
    """One turn of a query: a position that waits for its analysis or is being searched."""

    query: Query
    turn: int
    game: Game
    number: int
    """Order of arrival."""
    priority: int
    moves: frozenset[Move] | None
    """The moves that the search may begin with; None for all."""
    analysis: PositionAnalysis
    candidates: list[Candidate] = field(default_factory=list)
    visits: int = 0
    slices: int = 0
    started: float = 0.0
    reported: float = 0.0

    @property
    def max_visits(self) -> int | None:
        return self.query.override_settings.max_visits or self.query.max_visits

    @property
    def max_time(self) -> float | None:
        return self.query.override_settings.max_time

    @property
    def order(self) -> tuple[int, int, int]:
        """The smallest is searched first."""
        return self.slices // FAIR_SLICES, -self.priority, self.number

    def can_join(self, other: Task) -> bool:
        """Whether both can be searched in one call of the bot."""
        limits = [(task.max_visits, task.max_time, task.game.rules.size) for task in (self, other)]
        return self is other or (limits[0] == limits[1] and self.moves is None is other.moves)


class AnalysisEngine:
    """Searches the positions of queries with one bot and passes every answer to ``send``.

    ``limits`` hold where a query has no maxVisits. ``check`` raises a UserError for a board size that the bot can't
    play. Not thread-safe.
    """

    def __init__(
        self,
        bot: Bot,
        send: Callable[[dict[str, Any]], None],
        name: str = "arena",
        check: Callable[[int], object] = lambda size: None,
        limits: Limits | None = None,
        has_net: bool = False,
    ):
        self._bot = bot
        self._send = send
        self._name = name
        self._check = check
        self._limits = limits or Limits()
        self._has_net = has_net
        self._tasks: list[Task] = []
        self._arrived = 0
        self._visits_per_slice = 32  # adapted to the time that they take

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    # --- Queries ---

    def read_line(self, line: str) -> None:
        """Read a query; what is wrong with it is sent as an error."""
        if not line.strip():
            return
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._send({"error": f"not JSON: {' '.join(str(error).split())[:200]}"})
            return
        if not isinstance(fields, dict) or not isinstance(fields.get("id"), str):
            self._send({"error": "a query is an object with an id, which is a string", "field": "id"})
            return
        try:
            if "action" in fields:
                self._act(fields)
            else:
                self._tasks += self._tasks_of({name: value for name, value in fields.items() if value is not None})
        except QueryError as error:
            self._send({"error": str(error), "field": error.field, "id": fields["id"]})

    def _act(self, fields: dict[str, Any]) -> None:
        action = fields["action"]
        if action not in ACTIONS:
            raise QueryError(f"unknown action; there are {', '.join(ACTIONS)}", "action")
        if action == "query_version":
            fields = {**fields, "version": __version__, "git_hash": "<omitted>"}
        elif action == "query_models":
            model = {"name": self._name, "internalName": self._name, "maxBatchSize": BATCH, "version": 1}
            fields = {**fields, "models": [{**model, "usesHumanSLProfile": False, "usingFP16": False}]}
        elif action == "terminate" and not isinstance(fields.get("terminateId"), str):
            raise QueryError("expected a string", "terminateId")
        self._send(fields)
        if action.startswith("terminate"):
            turns = fields.get("turnNumbers")
            for task in [*self._tasks]:
                if action == "terminate_all" or task.query.id == fields["terminateId"]:
                    if not isinstance(turns, list) or task.turn in turns:
                        self._finish(task)

    def _tasks_of(self, fields: dict[str, Any]) -> list[Task]:
        """The positions of a query, after warnings about what is ignored. Raises QueryError."""
        query = _convert(fields)
        unknown = sorted(name for name in fields if name not in _names(Query) and fields[name] is not False)
        warnings = [("not supported, and ignored", name) for name in unknown]
        settings = fields.get("overrideSettings", {})
        if left := sorted(name for name in settings if name not in _names(OverrideSettings) and settings[name]):
            warnings.append((f"not supported, and ignored: {', '.join(left)}", "overrideSettings"))
        rules = self._rules_of(query, warnings)
        turns = [len(query.moves)] if query.analyze_turns is None else query.analyze_turns
        if not all(0 <= turn <= len(query.moves) for turn in turns):
            raise QueryError(f"turns go from 0 to {len(query.moves)}, the number of moves", "analyzeTurns")
        priorities = [query.priority] * len(turns) if query.priorities is None else query.priorities
        if len(priorities) != len(turns):
            raise QueryError("as many as there are analyzeTurns", "priorities")
        if query.include_policy and not self._has_net:
            warnings.append(("this bot has no policy net", "includePolicy"))
        games = _games_of(query, rules, turns)
        tasks = []
        for turn, priority in zip(turns, priorities, strict=True):
            self._arrived += 1
            game = games[turn].copy()
            analysis = PositionAnalysis(self._bot, game, self._has_net)
            tasks.append(Task(query, turn, game, self._arrived, priority, _allowed_moves(query, game), analysis))
        for message, name in warnings:
            self._send({"warning": message, "field": name, "id": query.id})
        return tasks

    def _rules_of(self, query: Query, warnings: list[tuple[str, str]]) -> Rules:
        size = query.board_x_size
        if query.board_y_size != size:
            raise QueryError("the board must be square", "boardYSize")
        try:
            if not MIN_SIZE <= size <= MAX_SIZE:
                raise UserError(f"sizes go from {MIN_SIZE} to {MAX_SIZE}")
            self._check(size)
        except UserError as error:
            raise QueryError(str(error), "boardXSize") from None
        preset = Rules(size=size, move_limit=3 * size * size)
        try:
            rules = rules_of(query.rules if isinstance(query.rules, str) else json.dumps(query.rules), preset)
        except Refused as refusal:
            if isinstance(query.rules, str):
                raise QueryError(str(refusal), "rules") from None
            rules = nearest_rules(query.rules, preset)
            warnings.append((f"the nearest rules are used: {rules.name}", "rules"))
        try:
            return Rules.preset(rules.name, size, query.komi)
        except (ConfigError, ValueError, OverflowError) as error:
            raise QueryError(str(error), "komi") from None

    # --- Search ---

    def search_slice(self) -> None:
        """Search the most urgent position, and those that can join it, for a slice; send the results that are ready."""
        started = time.monotonic()
        first = min(self._tasks, key=lambda task: task.order)
        tasks = sorted((task for task in self._tasks if task.can_join(first)), key=lambda task: task.order)
        tasks = tasks[: BATCH if self._has_net else 1]
        for task in tasks:
            if not task.slices:
                task.started = task.reported = started
        try:
            self._search(tasks)
        except Exception as error:  # a bot may raise anything; the other queries are still answered
            logging.getLogger(__name__).error("the bot failed", exc_info=error)
            for task in tasks:
                self._tasks.remove(task)
                failure = f"the bot failed: {fault_words(error)}"
                self._send({"error": failure, "id": task.query.id, "turnNumber": task.turn})
            return
        seconds = time.monotonic() - started
        if seconds < SLICE / 2 and first.max_visits is not None:
            self._visits_per_slice *= 2
        elif seconds > 2 * SLICE:
            self._visits_per_slice = max(8, self._visits_per_slice // 2)

    def _search(self, tasks: list[Task]) -> None:
        first = tasks[0]
        limits = replace(self._limits, deadline=86400.0, lag=None, moves=first.moves)
        if first.max_visits is not None or first.max_time is not None:
            visits = min(task.visits for task in tasks) + self._visits_per_slice
            limits = Limits(simulations=min(visits, first.max_visits or visits), deadline=86400.0, moves=first.moves)
        found = self._bot.analyse_all([task.game for task in tasks], limits)
        now = time.monotonic()
        for task, candidates in zip(tasks, found, strict=True):
            before, task.candidates = task.visits, candidates
            whole = self._bot.overview(task.game)
            task.visits = max(before, (whole.visits if whole else None) or 0)
            task.slices += 1
            wanted = task.max_visits or (0 if task.max_time is None else task.visits + 1)
            is_late = task.max_time is not None and now >= task.started + task.max_time
            every = task.query.report_during_search_every
            if task.visits >= wanted or task.visits == before or is_late:
                self._finish(task)
            elif every is not None and candidates and now >= task.reported + every:
                task.reported = now
                self._send(self._result(task, is_partial=True))

    def _finish(self, task: Task) -> None:
        self._tasks.remove(task)
        if task.candidates:
            self._send(self._result(task))
        else:
            self._send({"id": task.query.id, "isDuringSearch": False, "noResults": True, "turnNumber": task.turn})

    def _result(self, task: Task, is_partial: bool = False) -> dict[str, Any]:
        query, game = task.query, task.game
        view = {"BLACK": BLACK, "WHITE": BLACK.opponent}.get(query.override_settings.report_analysis_winrates_as)
        flip = view not in (None, game.to_play)  # values are those of the other side than the one to move
        candidates = task.analysis.with_scores(task.candidates)
        whole = task.analysis.overview(candidates)
        infos = []
        for order, each in enumerate(candidates):
            low = lower_bound(each)
            info = {
                "move": gtp_from_move(each.move, game.rules.size),
                "visits": each.visits,
                "edgeVisits": each.visits,
                "order": order,
                "pv": [gtp_from_move(move, game.rules.size) for move in each.line[: query.analysis_pv_len + 1]],
                "lcb": round(1 - low if flip else low, 6),
                "utilityLcb": round(1 - 2 * low if flip else 2 * low - 1, 6),
                **_values(each.win_rate, whole.score if each.score is None else each.score, flip),
            }
            if each.prior is not None:
                info["prior"] = round(each.prior, 6)
            if query.include_moves_ownership and each.ownership is not None:
                info["ownership"] = _flipped(each.ownership, flip)
            infos.append(info)
        root = {
            "currentPlayer": game.to_play.letter,
            "visits": whole.visits or task.visits,
            "thisHash": f"{game.board.hash:016X}{int(game.to_play)}",
            **_values(0.5 if whole.win_rate is None else whole.win_rate, whole.score, flip),
        }
        result = {"id": query.id, "isDuringSearch": is_partial, "moveInfos": infos, "rootInfo": root}
        result["turnNumber"] = task.turn
        if query.include_ownership and whole.ownership is not None:
            result["ownership"] = _flipped(whole.ownership, flip)
        if query.include_policy and self._has_net:
            [raw_nn] = self._bot.raw_nn([game])
            shares = zip(raw_nn.policy.tolist(), game.legal_moves(), strict=True)
            result["policy"] = [round(share, 6) if is_legal else -1 for share, is_legal in shares]
            root["rawWinrate"] = 1 - raw_nn.win_rate if flip else raw_nn.win_rate
        return result


def _values(win_rate: float, score: float | None, flip: bool) -> dict[str, float]:
    rate = 1 - win_rate if flip else win_rate
    values = {"winrate": round(rate, 6), "utility": round(2 * rate - 1, 6)}
    if score is not None:
        lead = round(-score if flip else score, 3)
        values |= {"scoreLead": lead, "scoreMean": lead, "scoreSelfplay": lead}
    return values


def _flipped(ownership: Any, flip: bool) -> list[float]:
    return [round(value, 4) for value in (-ownership if flip else ownership).tolist()]


# --- Fields of a query ---


def _convert(fields: Mapping[str, Any]) -> Query:
    """Raises QueryError with the name of the first field that is wrong."""
    try:
        return msgspec.convert(fields, Query)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        found = re.match(r"\.(\w+)", path) or re.search(r"field `(\w+)`", message)
        allowed = "; players are B and W, views BLACK, WHITE and SIDETOMOVE" if "enum" in message else ""
        raise QueryError(f"{message[:1].lower()}{message[1:]}{allowed}", found[1] if found else "id") from None


def _names(struct: type[msgspec.Struct]) -> set[str]:
    return {each.encode_name for each in msgspec.structs.fields(struct)}


def _move_of(field: str, text: str, size: int) -> Move:
    try:
        return move_from_gtp(text, size)
    except ValueError as error:
        raise QueryError(str(error), field) from None


def _games_of(query: Query, rules: Rules, turns: Sequence[int]) -> dict[int, Game]:
    """The game at each turn. Only the last move must be legal: superko may differ where the game was played."""
    size = rules.size
    stones = [(COLOURS[player.lower()], _move_of("initialStones", at, size)) for player, at in query.initial_stones]
    moves = [(COLOURS[player.lower()], _move_of("moves", at, size)) for player, at in query.moves]
    black, white = (tuple(move for owner, move in stones if owner is colour) for colour in Colour)
    first = COLOURS[query.initial_player.lower()] if query.initial_player else moves[0][0] if moves else None
    try:
        position = Position(rules, 0, (black, white), first)
    except (ValueError, IndexError):
        raise QueryError("two stones on a point, or a group without a liberty", "initialStones") from None
    games = {0: position.turn(position.game.to_play).copy()}
    for number, (colour, move) in enumerate(moves, 1):
        try:
            if number == len(moves):
                position.play(colour, move)
            else:
                position.force(colour, move)
        except IllegalMove as error:
            raise QueryError(f"Illegal move {number}: {gtp_from_move(move, size)} ({error})", "moves") from None
        if number in turns:
            games[number] = position.turn(position.game.to_play).copy()
    return games


def _allowed_moves(query: Query, game: Game) -> frozenset[Move] | None:
    """The legal moves that the search may begin with; None for all."""
    legal = found = frozenset(game.legal_moves().nonzero()[0].tolist())
    for name, limits in (("allowMoves", query.allow_moves), ("avoidMoves", query.avoid_moves)):
        for limit in limits:
            moves = {_move_of(name, text, game.rules.size) for text in limit.moves}
            if COLOURS[limit.player.lower()] is game.to_play:
                found = found & moves if name == "allowMoves" else found - moves
        if not found:
            raise QueryError("no legal move is allowed", name)
    return None if found == legal else found


def run(engine: AnalysisEngine, lines: TextIO) -> None:
    """Read queries while positions are searched, until there are no more of either."""
    inbox: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        while line := lines.readline(MAX_LINE):
            inbox.put(line)
        inbox.put("")

    Thread(target=listen, daemon=True).start()
    is_open = True
    while is_open or engine.is_busy:
        with suppress(Empty):
            while line := inbox.get(block=is_open and not engine.is_busy):
                engine.read_line(line)
            is_open = False
        if engine.is_busy:
            engine.search_slice()
