"""Games, ratings, reports and plans as JSON Lines: one object a line, its keys as ``docs/json.md`` lists them.

Keys are added, never changed, as long as ``FORMAT`` stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from arena.contract.settings import COMMANDS, describe
from arena.go.coords import gtp_from_move
from arena.go.record import GameRecord
from arena.ratings import Estimate
from arena.results.event import Findings, Report

if TYPE_CHECKING:
    from arena.match.standings import League
    from arena.players.player import Player
    from arena.results.store import Pool
    from arena.results.stored import Overview

FORMAT = 1
"""Grows when a key changes its meaning or goes."""


def line(type: str, values: Mapping[str, Any]) -> str:
    """One object, in a line."""
    return json.dumps({"type": type, "format": FORMAT, **values}, ensure_ascii=False, separators=(",", ":"))


def _elo(elo: Estimate | None) -> dict[str, Any]:
    """An estimate, each part None where it isn't known, and as text."""
    if elo is None:
        return {"elo": None, "low": None, "high": None, "estimate": None}
    parts = {"elo": elo.value, "low": elo.interval.low, "high": elo.interval.high}
    return {key: None if one is None or not isfinite(one) else round(one, 1) for key, one in parts.items()} | {
        "estimate": str(elo)
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def game_line(record: GameRecord, number: int | None = None) -> str:
    """A stored game, its number in the database, its moves and what was reported of them."""
    outcome, size = record.outcome, record.rules.size
    return line(
        "game",
        {
            "id": record.id,
            "number": number,
            "event": record.event,
            "date": record.date,
            "black": record.black,
            "white": record.white,
            "black_player": record.black_player,
            "white_player": record.white_player,
            "size": size,
            "komi": record.rules.komi,
            "rules": record.rules.name,
            "handicap": [gtp_from_move(move, size) for move in record.setup[0]],
            "result": "" if outcome is None else outcome.sgf,
            "winner": None if outcome is None or outcome.winner is None else outcome.winner.name.lower(),
            "ending": None if outcome is None else str(outcome.ending),
            "margin": None if outcome is None else outcome.margin,
            "reason": record.reason,
            "adjudged": None if record.adjudged is None else record.adjudged.name.lower(),
            "unrated": record.unrated,
            "black_seconds": record.black_seconds,
            "white_seconds": record.white_seconds,
            "seed": str(record.seed),
            "opening": record.opening,
            "moves": [gtp_from_move(move, size) for move in record.moves],
            "facts": [fact._asdict() for fact in record.facts],
        },
    )


def rating_lines(found: League | None, pool: Pool) -> list[str]:
    """A line for each player of a pool, the strongest first."""
    shared = {"size": pool.size, "rules": pool.name, "komi": pool.komi, "handicap": pool.handicap}
    standings = () if found is None else found.standings
    anchor = "" if found is None else found.anchor
    return [
        line(
            "rating",
            {
                **shared,
                "rank": rank,
                "player": one.name,
                **_elo(one.elo),
                "games": one.games,
                "score": None if one.score is None else round(one.score, 4),
                "anchor": anchor,
            },
        )
        for rank, one in enumerate(standings, 1)
    ]


def event_line(event: Overview) -> str:
    """One of the list of events."""
    shown = {"id": event.id, "kind": str(event.kind), "players": event.players, "games": event.stored}
    return line("event", {**shown, "planned": event.planned, "created": event.created})


def report_line(report: Report) -> str:
    """What is known of an event."""
    return line(
        "report",
        {
            "event": report.id,
            "kind": str(report.kind),
            "created": report.created,
            "size": report.rules.size,
            "rules": report.rules.name,
            "komi": report.rules.komi,
            "games": report.stored,
            "counted": report.counted,
            "planned": report.planned,
            **_found(report),
        },
    )


def _found(report: Findings) -> dict[str, Any]:
    tally, names = report.tally, [place.name for place in report.places]
    test = None
    if report.test is not None:
        state = report.test.state
        test = {
            "elo0": report.test.test.elo0,
            "elo1": report.test.test.elo1,
            "llr": None if state is None else round(state.llr, 4),
            "lower": None if state is None else round(state.lower, 4),
            "upper": None if state is None else round(state.upper, 4),
            "verdict": None if state is None or state.verdict is None else state.verdict.name.lower(),
        }
    return {
        "anchor": report.anchor,
        "standings": [
            {
                "rank": rank,
                "player": one.name,
                **_elo(one.elo),
                "games": one.games,
                "score": None if one.score is None else round(one.score, 4),
                "seconds_a_move": _rounded(report.table.seconds_a_move(one.name)),
            }
            for rank, one in enumerate(report.places, 1)
        ],
        "won_drawn_lost": None
        if tally is None
        else [tally.results().wins, tally.results().draws, tally.results().losses],
        "pairs": None if tally is None else list(tally.counts.counts),
        "sprt": test,
        "los": {
            name: {other: round(los, 4) for other in names if (los := report.los(name, other)) is not None}
            for name in names
        },
        "endings": {str(count.ending): count.games for count in report.endings},
    }


def bot_line(entry: Player, summary: str, elo: Estimate | None) -> str:
    """One of those that can play."""
    return line(
        "bot",
        {
            "name": entry.name,
            "kind": entry.kind,
            "summary": summary,
            "settings": {
                key: describe(key, value) if key in COMMANDS else value
                for key, value in entry.settings.items()
                if isinstance(value, str | int | float | bool)
            },
            "limits": str(entry.limits),
            **_elo(elo),
        },
    )
