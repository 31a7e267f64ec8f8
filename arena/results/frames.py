"""Ratings and games as pandas frames, and as CSV that is never half written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.files import cell, write
from arena.results.league import league

if TYPE_CHECKING:
    import pandas as pd

    from arena.go.game import Rules
    from arena.go.record import GameRecord, Played
    from arena.results.event import Report
    from arena.results.store import Pool, Store


TERMS = ("size", "rules", "komi", "handicap")
"""The columns of elo.csv that say what a row's games were played by."""


def ratings_table(store: Store, pool: Pool | None = None, *, anchor: str | None = None) -> pd.DataFrame:
    """The ratings in a pool, a row a player: rank, player, elo, low, high (95 %), games, score, the estimate as text.

    The default pool is the one with the most games. An end of the interval is missing where the games don't bound it.
    ``attrs`` has the anchor's name (``anchor``), the virtual games that each player drew (``prior``) and the text of
    what Black is worth (``black_advantage``).
    """
    import pandas as pd

    found = league(store, pool, anchor=anchor)
    standings = () if found is None else found.standings
    estimates = [] if found is None else list(found.elo.values())
    frame = pd.DataFrame(
        {
            "rank": pd.Series([rank for rank, _ in enumerate(standings, 1)], dtype="int64"),
            "player": pd.Series([standing.name for standing in standings], dtype="str"),
            "elo": pd.Series([elo.value for elo in estimates], dtype="float64"),
            "low": pd.Series([elo.interval.low for elo in estimates], dtype="float64"),
            "high": pd.Series([elo.interval.high for elo in estimates], dtype="float64"),
            "games": pd.Series([standing.games for standing in standings], dtype="int64"),
            "score": pd.Series([standing.score for standing in standings], dtype="float64"),
            "estimate": pd.Series(list(map(str, estimates)), dtype="str"),
        }
    )
    if found is not None:
        black = found.ratings.black_advantage
        frame.attrs = {
            "anchor": found.anchor,
            "prior": found.ratings.prior,
            "black_advantage": None if black is None else str(black),
        }
    return frame


def write_elo_csv(store: Store, path: Path) -> None:
    """Write the ratings of all pools, one after the other: by size, rules, komi and handicap. They are written aside,
    then renamed: who reads ``path`` sees the old table or the new one. Raises StoreError."""
    import pandas as pd

    tables = [ratings_table(store, pool).assign(**_terms(pool)) for pool in store.pools()]
    table = pd.concat(tables) if tables else ratings_table(store).assign(**dict.fromkeys(TERMS))
    columns = [*TERMS, *(column for column in table.columns if column not in TERMS)]
    write_csv(table[columns].round({"elo": 1, "low": 1, "high": 1, "score": 4}), path)


def _terms(pool: Pool) -> dict[str, Any]:
    return dict(zip(TERMS, (pool.size, pool.name, pool.komi, pool.handicap), strict=True))


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame without its index, aside, then rename; texts of others stay texts. Raises StoreError."""
    own = frame[[column for column in frame.columns if column == "estimate"]]  # may begin with a minus
    write(
        path, frame.map(cell).assign(**own).set_axis([cell(name) for name in frame.columns], axis=1).to_csv(index=False)
    )


# --- Games ---

GAME_COLUMNS = [
    *("id", "event", "date", "black", "white", "size", "komi", "rules", "result", "ending", "moves"),
    *("black_seconds", "white_seconds", "reason", "adjudged"),
]


def games_table(games: Iterable[Played], event: str, rules: Rules) -> pd.DataFrame:
    """Games of an event, a row each: who played, by which rules, the result as in SGF, how it ended, moves, seconds,
    and whom an adjudication gave it to."""
    import pandas as pd

    games = list(games)
    columns = {
        "id": [game.id for game in games],
        "event": event,
        "date": [game.date for game in games],
        "black": [game.black for game in games],
        "white": [game.white for game in games],
        "size": rules.size,
        "komi": rules.komi,
        "rules": rules.name,
        "result": ["" if game.outcome is None else game.outcome.sgf for game in games],
        "ending": ["" if game.outcome is None else str(game.outcome.ending) for game in games],
        "moves": [game.length for game in games],
        "black_seconds": [game.black_seconds for game in games],
        "white_seconds": [game.white_seconds for game in games],
        "reason": [game.reason for game in games],
        "adjudged": ["" if game.adjudged is None else game.adjudged.letter for game in games],
    }
    return pd.DataFrame(columns, columns=GAME_COLUMNS)


def all_games(games: Iterable[GameRecord]) -> pd.DataFrame:
    """Games of any events and rules, a row each, in the columns of ``games_table``."""
    import pandas as pd

    frames = [games_table([game], game.event, game.rules) for game in games]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=GAME_COLUMNS)


# --- One event ---


def event_frames(report: Report) -> dict[str, pd.DataFrame]:
    """An event's tables by name: ``standings``, ``crosstable`` (a row for each player and each other one that it has
    met), ``los`` (the likelihood that the row's player is stronger than the column's), ``endings``, ``games``.

    What the games don't give is missing.
    """
    import pandas as pd

    names = [place.name for place in report.places]
    standings = []
    for rank, place in enumerate(report.places, 1):
        elo = place.elo
        standings.append(
            {
                "rank": rank,
                "player": place.name,
                "elo": None if elo is None else elo.value,
                "low": None if elo is None else elo.interval.low,
                "high": None if elo is None else elo.interval.high,
                "games": place.games,
                "score": place.score,
                "estimate": "" if elo is None else str(elo),
                "seconds_a_move": report.table.seconds_a_move(place.name),
            }
        )
    meetings = []
    for name in names:
        for other in names:
            met = report.table.meetings(name, other)
            if met.games:
                counts = {"games": met.games, "won": met.wins, "drawn": met.draws, "lost": met.losses}
                meetings.append({"player": name, "opponent": other, **counts, "points": met.points})
    los = pd.DataFrame([[report.los(name, other) for other in names] for name in names], columns=names, dtype="float64")
    los.insert(0, "player", names, allow_duplicates=True)
    endings = [
        {"ending": str(count.ending), "player": name, "won": count.won[name], "lost": count.lost[name]}
        for count in report.endings
        for name in names
    ]
    return {
        "standings": pd.DataFrame(standings).round({"elo": 1, "low": 1, "high": 1, "score": 4, "seconds_a_move": 6}),
        "crosstable": pd.DataFrame(meetings, columns=["player", "opponent", "games", "won", "drawn", "lost", "points"]),
        "los": los.round(4),
        "endings": pd.DataFrame(endings, columns=["ending", "player", "won", "lost"]),
        "games": games_table(report.games, report.id, report.rules),
    }


def write_event_csv(report: Report, folder: Path) -> list[Path]:
    """Write each of ``event_frames`` to a file of its name; returns the paths. Raises StoreError."""
    paths = []
    for name, frame in event_frames(report).items():
        paths.append(folder / f"{name}.csv")
        write_csv(frame, paths[-1])
    return paths
