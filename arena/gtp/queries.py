"""KataGo's JSON protocol for analysis: queries in, a line each, and results out, in the order in which they are ready.

It is that of KataGo's docs/Analysis_Engine.md, so that KaTrain and others run on our bots. No processes are here.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TextIO

from arena import ConfigError, IllegalMove, UserError, __version__
from arena.contract.bot import Bot, Candidate, Decision, Limits, fault_words
from arena.go.game import Game, Rules
from arena.go.moves import BLACK, MAX_SIZE, MIN_SIZE, Colour, Move, gtp_from_move, move_from_gtp
from arena.gtp.position import Position
from arena.gtp.reports import Insight, lower_bound
from arena.gtp.words import COLOURS, Refused, nearest_rules, rules_of

SLICE = 0.2
"""Seconds that boards are searched at a stretch: so late is a query answered that stops or overtakes others."""

PATIENT = 25
"""Stretches after which a position gives way to all that have had fewer."""

AT_ONCE = 8
"""Positions that a bot with a net searches together."""

LONGEST_LINE = 1 << 22

_KNOWN = {
    *("id", "moves", "initialStones", "initialPlayer", "rules", "komi", "boardXSize", "boardYSize", "analyzeTurns"),
    *("maxVisits", "analysisPVLen", "avoidMoves", "allowMoves", "overrideSettings", "reportDuringSearchEvery"),
    *("priority", "priorities", "includeOwnership", "includeMovesOwnership", "includePolicy"),
}
_SETTINGS = {"reportAnalysisWinratesAs", "maxVisits", "maxTime"}


class Wrong(Exception):
    """A query can't be answered, because of one of its fields."""

    def __init__(self, words: str, field: str):
        super().__init__(words)
        self.field = field


@dataclass(eq=False)
class Task:
    """A position that waits for its analysis or is under way: one turn of a query. ``view`` is whose the win rates are,
    None for the side to move; ``number`` is that of its arrival."""

    id: str
    turn: int
    game: Game
    number: int
    priority: int = 0
    visits: int | None = None
    seconds: float | None = None
    every: float | None = None
    line: int = 15
    view: Colour | None = BLACK
    moves: frozenset[Move] | None = None
    ownership: bool = False
    moves_ownership: bool = False
    policy: bool = False
    insight: Insight | None = None
    found: list[Candidate] = field(default_factory=list)
    done: int = 0
    stretches: int = 0
    begun: float = 0.0
    reported: float = 0.0

    @property
    def urgency(self) -> tuple[int, int, int]:
        """The smallest is searched first."""
        return self.stretches // PATIENT, -self.priority, self.number

    def fits(self, other: Task) -> bool:
        """Whether both can be searched together."""
        same = (self.visits, self.seconds, self.game.rules.size) == (other.visits, other.seconds, other.game.rules.size)
        return self is other or (same and self.moves is None is other.moves)


class Engine:
    """One bot, and the positions that it is to analyse. ``say`` takes every answer.

    ``limits`` hold where a query names no visits; ``check`` is that of a ``Server``.
    """

    def __init__(
        self,
        bot: Bot,
        say: Callable[[dict[str, Any]], None],
        name: str = "arena",
        check: Callable[[int], object] = lambda size: None,
        limits: Limits | None = None,
        has_net: bool = False,
    ):
        self._bot = bot
        self._say = say
        self._name = name
        self._check = check
        self._limits = limits or Limits()
        self._has_net = has_net
        self._tasks: list[Task] = []
        self._arrived = 0
        self._stretch = 32  # visits, adapted to the time that they take

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    # --- Queries ---

    def take(self, line: str) -> None:
        """Take a line of input in. What is wrong with it is said."""
        if not line.strip():
            return
        try:
            query = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._say({"error": f"not JSON: {' '.join(str(error).split())[:200]}"})
            return
        name = query.get("id") if isinstance(query, dict) else None
        if not isinstance(name, str):
            self._say({"error": "a query is an object with an id, which is a string", "field": "id"})
            return
        try:
            if "action" in query:
                self._act(query)
            else:
                tasks = self._tasks_of(query)
                self._tasks += tasks
        except Wrong as wrong:
            self._say({"error": str(wrong), "field": wrong.field, "id": name})

    def _act(self, query: dict[str, Any]) -> None:
        match query["action"]:
            case "query_version":
                self._say({**query, "version": __version__, "git_hash": "<omitted>"})
            case "query_models":
                model = {"name": self._name, "internalName": self._name, "maxBatchSize": AT_ONCE}
                self._say(
                    {**query, "models": [{**model, "usesHumanSLProfile": False, "version": 1, "usingFP16": False}]}
                )
            case "clear_cache":
                self._say(query)  # there is none: each position is searched anew
            case "terminate" | "terminate_all" as action:
                turns = _of(query, "turnNumbers", list, None)
                wanted = _of(query, "terminateId", str) if action == "terminate" else None
                self._say(query)
                for task in [*self._tasks]:
                    if wanted in (None, task.id) and (turns is None or task.turn in turns):
                        self._finish(task)
            case _:
                allowed = "query_version, query_models, clear_cache, terminate, terminate_all"
                raise Wrong(f"unknown action; there are {allowed}", "action")

    def _tasks_of(self, query: dict[str, Any]) -> list[Task]:
        """The positions of a query. Raises Wrong."""
        warnings: list[tuple[str, str]] = []
        settings = _of(query, "overrideSettings", dict, {})
        unknown = sorted(name for name in query if name not in _KNOWN and query[name] not in (False, None))
        warnings += [("not supported, and ignored", name) for name in unknown]
        if left := sorted(name for name in settings if name not in _SETTINGS and settings[name] not in (0, False)):
            warnings.append((f"not supported, and ignored: {', '.join(left)}", "overrideSettings"))
        rules = self._rules_of(query, warnings)
        moves = [_placed(query, "moves", item, rules.size) for item in _of(query, "moves", list)]
        turns = _whole_list(query, "analyzeTurns", [len(moves)])
        if not all(0 <= turn <= len(moves) for turn in turns):
            raise Wrong(f"turns go from 0 to {len(moves)}, the number of moves", "analyzeTurns")
        priorities = _whole_list(query, "priorities", [_whole(query, "priority", 0)] * len(turns))
        if len(priorities) != len(turns):
            raise Wrong("as many as there are analyzeTurns", "priorities")
        view = settings.get("reportAnalysisWinratesAs", "BLACK")
        if view not in ("BLACK", "WHITE", "SIDETOMOVE"):
            raise Wrong("reportAnalysisWinratesAs is BLACK, WHITE or SIDETOMOVE", "overrideSettings")
        asked = Task(
            id=query["id"],
            turn=0,
            game=Game(rules),
            number=0,
            visits=_positive(settings, "maxVisits", "overrideSettings") or _positive(query, "maxVisits", "maxVisits"),
            seconds=_seconds(settings, "maxTime", "overrideSettings"),
            every=_seconds(query, "reportDuringSearchEvery", "reportDuringSearchEvery"),
            line=_whole(query, "analysisPVLen", 15),
            view=COLOURS.get(view.lower()),
            ownership=bool(query.get("includeOwnership")),
            moves_ownership=bool(query.get("includeMovesOwnership")),
            policy=bool(query.get("includePolicy")),
        )
        if asked.policy and not self._has_net:
            warnings.append(("this bot has no policy net", "includePolicy"))
        games = self._games_of(query, rules, moves, turns)
        tasks = []
        for turn, priority in zip(turns, priorities, strict=True):
            self._arrived += 1
            game = games[turn].copy()
            allowed = self._allowed(query, game)
            tasks.append(
                replace(asked, turn=turn, game=game, number=self._arrived, priority=priority, moves=allowed, found=[])
            )
        for words, name in warnings:
            self._say({"warning": words, "field": name, "id": query["id"]})
        return tasks

    def _rules_of(self, query: dict[str, Any], warnings: list[tuple[str, str]]) -> Rules:
        size = _whole(query, "boardXSize", None)
        if _whole(query, "boardYSize", None) != size:
            raise Wrong("the board must be square", "boardYSize")
        try:
            if not MIN_SIZE <= size <= MAX_SIZE:
                raise UserError(f"sizes go from {MIN_SIZE} to {MAX_SIZE}")
            self._check(size)
        except UserError as error:
            raise Wrong(str(error), "boardXSize") from None
        asked = query.get("rules")
        if not isinstance(asked, str | dict):
            raise Wrong("rules are a name or an object", "rules")
        plain = Rules(size=size, move_limit=3 * size * size)
        try:
            rules = rules_of(asked if isinstance(asked, str) else json.dumps(asked), plain)
        except Refused as refusal:
            if isinstance(asked, str):
                raise Wrong(str(refusal), "rules") from None
            rules = nearest_rules(asked, plain)
            warnings.append((f"the nearest rules are used: {rules.name}", "rules"))
        komi = query.get("komi")
        if komi is not None and (isinstance(komi, bool) or not isinstance(komi, int | float)):
            raise Wrong("komi is a number", "komi")
        try:
            return Rules.preset(rules.name, size, komi)
        except (ConfigError, ValueError, OverflowError) as error:
            raise Wrong(str(error), "komi") from None

    def _games_of(
        self, query: dict[str, Any], rules: Rules, moves: Sequence[tuple[Colour, Move]], turns: Sequence[int]
    ) -> dict[int, Game]:
        """The game at each turn. A position that is repeated before the last move is nobody's fault here."""
        placed = [_placed(query, "initialStones", item, rules.size) for item in _of(query, "initialStones", list, [])]
        setup = tuple(tuple(move for owner, move in placed if owner is colour) for colour in Colour)
        first = query.get("initialPlayer")
        if first is not None and str(first).lower() not in COLOURS:
            raise Wrong("B or W", "initialPlayer")
        begins = COLOURS[first.lower()] if first else moves[0][0] if moves else None
        try:
            position = Position(rules, 0, (setup[0], setup[1]), begins)
        except (ValueError, IndexError):
            raise Wrong("two stones on a point, or a group without a liberty", "initialStones") from None
        games = {0: position.turn(position.game.to_play).copy()}
        for number, (colour, move) in enumerate(moves, 1):
            try:
                if number == len(moves):
                    position.play(colour, move)
                else:
                    position.force(colour, move)
            except IllegalMove as error:
                raise Wrong(f"Illegal move {number}: {gtp_from_move(move, rules.size)} ({error})", "moves") from None
            if number in turns:
                games[number] = position.turn(position.game.to_play).copy()
        return games

    def _allowed(self, query: dict[str, Any], game: Game) -> frozenset[Move] | None:
        """The moves that the analysis may begin with; None for all."""
        size = game.rules.size
        found: set[Move] | None = None
        for name in ("allowMoves", "avoidMoves"):
            for item in _of(query, name, list, []):
                if not isinstance(item, dict) or str(item.get("player")).lower() not in COLOURS:
                    raise Wrong("objects with player, moves and untilDepth", name)
                named = {_point(name, each, size) for each in _of(item, "moves", list)}
                if COLOURS[item["player"].lower()] is game.to_play:
                    before = set(game.legal_moves().nonzero()[0].tolist()) if found is None else found
                    found = before & named if name == "allowMoves" else before - named
        if found is not None and not found:
            raise Wrong("no legal move is allowed", "allowMoves" if "allowMoves" in query else "avoidMoves")
        return None if found is None else frozenset(found)

    # --- Search ---

    def work(self) -> None:
        """Search the most urgent position for a while, and those with it that fit; say what is ready."""
        begun = time.monotonic()
        first = min(self._tasks, key=lambda task: task.urgency)
        together = sorted((task for task in self._tasks if task.fits(first)), key=lambda task: task.urgency)
        group = together[: AT_ONCE if self._has_net else 1]
        for task in group:
            if task.insight is None:
                task.insight = Insight(self._bot, task.game, self._has_net)
                task.begun = task.reported = begun
        try:
            self._search(group)
        except Exception as error:  # a bot may raise anything; the other queries are still answered
            logging.getLogger(__name__).error("the bot failed", exc_info=error)
            for task in group:
                self._tasks.remove(task)
                self._say({"error": f"the bot failed: {fault_words(error)}", "id": task.id, "turnNumber": task.turn})
            return
        taken = time.monotonic() - begun
        if taken < SLICE / 2 and first.visits is not None:
            self._stretch *= 2
        elif taken > 2 * SLICE:
            self._stretch = max(8, self._stretch // 2)

    def _search(self, group: list[Task]) -> None:
        first = group[0]
        limits = replace(self._limits, deadline=86400.0, lag=None, moves=first.moves)
        if first.visits is not None or first.seconds is not None:
            visits = min(task.done for task in group) + self._stretch
            limits = Limits(simulations=min(visits, first.visits or visits), deadline=86400.0, moves=first.moves)
        found = self._bot.analyse_all([task.game for task in group], limits)
        now = time.monotonic()
        for task, candidates in zip(group, found, strict=True):
            before, task.found = task.done, candidates
            whole = self._bot.overview(task.game)
            task.done = max(before, (whole.visits if whole else None) or 0)
            task.stretches += 1
            wanted = task.visits if task.visits is not None else 0 if task.seconds is None else task.done + 1
            late = task.seconds is not None and now >= task.begun + task.seconds
            if task.done >= wanted or task.done == before or late:
                self._finish(task)
            elif task.every is not None and candidates and now >= task.reported + task.every:
                task.reported = now
                self._say(self._result(task, is_partial=True))

    def _finish(self, task: Task) -> None:
        self._tasks.remove(task)
        if task.found:
            self._say(self._result(task))
        else:
            self._say({"id": task.id, "isDuringSearch": False, "noResults": True, "turnNumber": task.turn})

    # --- Results ---

    def _result(self, task: Task, is_partial: bool = False) -> dict[str, Any]:
        game, insight = task.game, task.insight
        assert insight is not None
        turned = task.view not in (None, game.to_play)
        informed = insight.informed(task.found)
        whole = insight.whole(informed)
        result: dict[str, Any] = {
            "id": task.id,
            "isDuringSearch": is_partial,
            "moveInfos": [self._move_info(order, each, task, whole, turned) for order, each in enumerate(informed)],
            "rootInfo": {
                "currentPlayer": game.to_play.letter,
                "visits": whole.visits or task.done,
                "thisHash": f"{game.board.hash:016X}{int(game.to_play)}",
                **_values(whole.win_rate if whole.win_rate is not None else 0.5, whole.score, turned),
            },
            "turnNumber": task.turn,
        }
        if task.ownership and whole.ownership is not None:
            result["ownership"] = _turned(whole.ownership, turned)
        if task.policy and self._has_net:
            [glance] = self._bot.glance([game])
            legal = game.legal_moves()
            result["policy"] = [
                round(share, 6) if legal[move] else -1 for move, share in enumerate(glance.policy.tolist())
            ]
            result["rootInfo"]["rawWinrate"] = 1 - glance.win_rate if turned else glance.win_rate
        return result

    def _move_info(self, order: int, candidate: Candidate, task: Task, whole: Decision, turned: bool) -> dict[str, Any]:
        """A move; its score is that of the position where the bot knows no other."""
        size = task.game.rules.size
        score = candidate.score if candidate.score is not None else whole.score
        low = lower_bound(candidate)
        info = {
            "move": gtp_from_move(candidate.move, size),
            "visits": candidate.visits,
            "edgeVisits": candidate.visits,
            "order": order,
            "pv": [gtp_from_move(move, size) for move in candidate.line[: task.line + 1]],
            "lcb": round(1 - low if turned else low, 6),
            "utilityLcb": round(1 - 2 * low if turned else 2 * low - 1, 6),
            **_values(candidate.win_rate, score, turned),
        }
        if candidate.prior is not None:
            info["prior"] = round(candidate.prior, 6)
        if task.moves_ownership and candidate.ownership is not None:
            info["ownership"] = _turned(candidate.ownership, turned)
        return info


def _values(win_rate: float, score: float | None, turned: bool) -> dict[str, float]:
    """A win rate and a score, turned to the other side's if so."""
    rate = 1 - win_rate if turned else win_rate
    told = {"winrate": round(rate, 6), "utility": round(2 * rate - 1, 6)}
    if score is not None:
        lead = round(-score if turned else score, 3)
        told |= {"scoreLead": lead, "scoreMean": lead, "scoreSelfplay": lead}
    return told


def _turned(ownership: Any, turned: bool) -> list[float]:
    return [round(value, 4) for value in (-ownership if turned else ownership).tolist()]


# --- Fields of a query ---


def _of(query: dict[str, Any], name: str, kind: type, default: Any = ...) -> Any:
    value = query.get(name)
    if value is None and default is not ...:
        return default
    if not isinstance(value, kind):
        raise Wrong(f"{name} is {'a list' if kind is list else 'an object' if kind is dict else 'a string'}", name)
    return value


def _whole(query: dict[str, Any], name: str, default: int | None) -> int:
    value = query.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Wrong(f"{name} is a whole number", name)
    return value


def _whole_list(query: dict[str, Any], name: str, default: list[int]) -> list[int]:
    values: list[int] = _of(query, name, list, default)
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        raise Wrong(f"{name} is a list of whole numbers", name)
    return values


def _positive(query: dict[str, Any], name: str, told: str) -> int | None:
    value = query.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise Wrong(f"{name} is a whole number from 1", told)
    return value


def _seconds(query: dict[str, Any], name: str, told: str) -> float | None:
    value = query.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
        raise Wrong(f"{name} is a number of seconds above 0", told)
    return value


def _placed(query: dict[str, Any], name: str, item: Any, size: int) -> tuple[Colour, Move]:
    if not (isinstance(item, list) and len(item) == 2 and str(item[0]).lower() in COLOURS):
        raise Wrong('a list of pairs such as ["B", "Q4"]', name)
    return COLOURS[item[0].lower()], _point(name, item[1], size)


def _point(name: str, text: Any, size: int) -> Move:
    try:
        return move_from_gtp(str(text), size)
    except ValueError as error:
        raise Wrong(str(error), name) from None


# --- The conversation ---


def converse(engine: Engine, lines: TextIO) -> None:
    """Take lines in while positions are searched, and end when there are no more of either."""
    heard: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        while line := lines.readline(LONGEST_LINE):
            heard.put(line)
        heard.put("")

    Thread(target=listen, daemon=True).start()
    open_ended = True
    while open_ended or engine.is_busy:
        with suppress(Empty):
            while line := heard.get(block=open_ended and not engine.is_busy):
                engine.take(line)
            open_ended = False
        if engine.is_busy:
            engine.work()
