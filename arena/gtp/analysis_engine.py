"""Answers queries in KataGo's analysis protocol with one bot, the most urgent positions first."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TextIO

import msgspec

from arena import __version__
from arena.contract.bot import Bot, Limits, describe_error
from arena.gtp.analysis_protocol import QueryError, Task, make_result, make_tasks, read_query

SLICE_SECONDS = 0.2  # seconds of search between two looks at the input
BATCH = 8  # positions that a bot with a net searches together
MAX_LINE_CHARACTERS = 1 << 22

ACTIONS = ("query_version", "clear_cache", "terminate", "terminate_all")


class AnalysisEngine:
    """Answers queries with one bot; ``send`` gets each answer as a line of JSON. ``limits`` hold for queries without
    maxVisits. ``check`` raises a UserError for a board size that the bot can't play. Not thread-safe."""

    def __init__(
        self,
        bot: Bot,
        send: Callable[[str], object],
        check: Callable[[int], object] = lambda size: None,
        limits: Limits | None = None,
        has_net: bool = False,
    ):
        self._bot, self._check, self._has_net = bot, check, has_net
        self._send: Callable[[Any], object] = lambda answer: send(json.dumps(answer, separators=(",", ":")))
        self._limits = limits or Limits()
        self._tasks: list[Task] = []  # the most urgent first
        self._visits_per_slice = 32  # adapted to the time that they take

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    def read_line(self, line: str) -> None:
        """Read a query. Errors in it are sent as answers."""
        if not line.strip():
            return
        try:
            fields = msgspec.json.decode(line)
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
                self._tasks += make_tasks(read_query(fields), self._bot, self._has_net, self._check)
                self._tasks.sort(key=lambda task: -task.query.priority)
        except QueryError as error:
            self._send({"id": fields["id"], "error": str(error), "field": error.field})

    def _act(self, fields: dict[str, Any]) -> None:
        action, turns = fields["action"], fields.get("turnNumbers")
        if action not in ACTIONS:
            raise QueryError(f"unknown action; there are {', '.join(ACTIONS)}", "action")
        if action == "terminate" and not isinstance(fields.get("terminateId"), str):
            raise QueryError("expected a string", "terminateId")
        version = {"version": __version__, "git_hash": "<omitted>"} if action == "query_version" else {}
        self._send({**fields, **version})
        for task in [*self._tasks] if action.startswith("terminate") else ():
            is_meant = action == "terminate_all" or task.query.id == fields["terminateId"]
            if is_meant and (not isinstance(turns, list) or task.turn in turns):
                self._answer([task], lambda tasks: {task: _final_result(task) for task in tasks})

    def search_slice(self) -> None:
        """Search the most urgent position, and those that can join it, for a slice; send the results that are ready."""
        started, first = time.monotonic(), self._tasks[0]
        alike = [task for task in self._tasks if task is first or _can_join(task, first)]
        tasks = alike[: BATCH if self._has_net else 1]
        for task in tasks:
            task.started = task.started or started
            task.reported = task.reported or started
        self._answer(tasks, self._search)
        seconds = time.monotonic() - started
        if seconds < SLICE_SECONDS / 2 and first.bounds[0] is not None:
            self._visits_per_slice *= 2
        elif seconds > 2 * SLICE_SECONDS:
            self._visits_per_slice = max(8, self._visits_per_slice // 2)

    def _answer(self, tasks: list[Task], find: Callable[[list[Task]], dict[Task, dict[str, Any]]]) -> None:
        """Send what ``find`` reports about tasks. A task ends with its result, or with an error where the bot fails."""
        try:
            found = find(tasks)
        except Exception as error:  # a bot may raise anything; the other queries are still answered
            logging.getLogger(__name__).error("the bot failed", exc_info=error)
            words = f"the bot failed: {describe_error(error)}"
            found = {task: {"id": task.query.id, "turnNumber": task.turn, "error": words} for task in tasks}
        for task, report in found.items():
            if not report.get("isDuringSearch"):
                self._tasks.remove(task)
            self._send(report)

    def _search(self, tasks: list[Task]) -> dict[Task, dict[str, Any]]:
        """Search for a slice; returns the results that are final or due during the search."""
        (max_visits, max_time), moves = tasks[0].bounds, tasks[0].moves
        limits = replace(self._limits, deadline=86400.0, lag=None, moves=moves)
        if max_visits is not None or max_time is not None:
            visits = min(task.visits for task in tasks) + self._visits_per_slice
            limits = Limits(simulations=min(visits, max_visits or visits), deadline=86400.0, moves=moves)
        found = self._bot.analyse_all([task.analysis.game for task in tasks], limits)
        now, reports = time.monotonic(), {}
        for task, candidates in zip(tasks, found, strict=True):
            before, task.candidates = task.visits, candidates
            whole = self._bot.overview(task.analysis.game)
            task.visits = max(before, (whole.visits if whole else None) or 0)
            wanted = max_visits or (0 if max_time is None else task.visits + 1)
            is_late = max_time is not None and now >= task.started + max_time
            every = task.query.report_during_search_every
            if task.visits >= wanted or task.visits == before or is_late:
                reports[task] = _final_result(task)
            elif every is not None and candidates and now >= task.reported + every:
                task.reported = now
                reports[task] = {**make_result(task), "isDuringSearch": True}
        return reports


def _final_result(task: Task) -> dict[str, Any]:
    nothing = {"id": task.query.id, "isDuringSearch": False, "turnNumber": task.turn, "noResults": True}
    return make_result(task) if task.candidates else nothing


def _can_join(task: Task, first: Task) -> bool:
    """Whether both can be searched in one call of the bot."""
    sizes = {each.analysis.game.rules.size for each in (task, first)}
    return task.bounds == first.bounds and task.moves is None is first.moves and len(sizes) == 1


def run(engine: AnalysisEngine, lines: TextIO) -> None:
    """Read queries while positions are searched, until there are no more of either."""
    inbox: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        while line := lines.readline(MAX_LINE_CHARACTERS):
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
