"""Ratings, reports and games for other programs: JSON Lines, pandas frames, CSV files, and SGF files in a folder.

The keys of JSON are listed in ``docs/guide.md``: they are added, never changed, as long as ``FORMAT`` stays. A file is
written aside and renamed, so that a reader sees the old one or the new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from arena import StoreError, files
from arena.go.coords import gtp_from_move
from arena.ratings import Estimate
from arena.results.league import league

if TYPE_CHECKING:  # these pull in the compiler
    import pandas as pd

    from arena.go.game import Rules
    from arena.go.record import GameRecord, Played
    from arena.match.standings import League, Standing, Standings
    from arena.results.analysis import Evaluation
    from arena.results.league import Overview, Report
    from arena.results.store import Pool, Store

FORMAT = 1
"""Grows when a key changes its meaning or goes."""

Row = dict[str, Any]


def json_line(type: str, values: Mapping[str, Any]) -> str:
    """One object, in a line."""
    return msgspec.json.encode({"type": type, "format": FORMAT, **values}).decode()


def _elo(elo: Estimate | None) -> Row:
    """An estimate, each part None where it isn't known, and as text."""
    if elo is None:
        return dict.fromkeys(("elo", "low", "high", "estimate"))
    parts = {"elo": elo.value, "low": elo.low, "high": elo.high}
    known = {key: None if part is None or not isfinite(part) else round(part, 1) for key, part in parts.items()}
    return {**known, "estimate": str(elo)}


# --- Ratings ---


def rating_rows(found: League | None, pool: Pool) -> list[Row]:
    """A row for each player of a pool, the strongest first; none where there is no league."""
    terms = {"size": pool.size, "rules": pool.name, "komi": pool.komi, "handicap": pool.handicap}
    if found is None:
        return []
    return [{**terms, **_place_row(rank, one), "anchor": found.anchor} for rank, one in enumerate(found.standings, 1)]


def _place_row(rank: int, one: Standing) -> Row:
    score = None if one.score is None else round(one.score, 4)
    return {"rank": rank, "player": one.name, **_elo(one.elo), "games": one.games, "score": score}


RATING_COLUMNS = "size rules komi handicap rank player elo low high games score estimate".split()


def ratings_frame(store: Store, counted: Standings | None = None) -> pd.DataFrame:
    """The ratings of all pools, one after the other; ``counted`` saves time as in ``league``. Ends of intervals that
    the games don't bound are missing."""
    import pandas as pd

    rows = [row for pool in store.pools() for row in rating_rows(league(store, pool, counted), pool)]
    return pd.DataFrame(rows, columns=RATING_COLUMNS)


def write_elo_csv(store: Store, path: Path, counted: Standings | None = None) -> None:
    """Write ``ratings_frame``. Raises StoreError."""
    write_csv(ratings_frame(store, counted), path)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame without its index; texts of others stay texts. Raises StoreError."""
    own = frame[[column for column in frame.columns if column == "estimate"]]  # may begin with a minus
    cells = frame.map(as_cell).assign(**own).set_axis([as_cell(name) for name in frame.columns], axis=1)
    files.write(path, cells.to_csv(index=False))


def as_cell(value: Any) -> Any:
    """A value for a table that a spreadsheet may open: a text that would be run as a formula there gets a quote."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


# --- Games ---


def game_line(record: GameRecord, number: int) -> str:
    """A stored game as JSON: its number in the database, its moves and what was reported of them."""
    outcome, size = record.outcome, record.rules.size
    names = ("id", "event", "date", "black", "white", "black_player", "white_player", "reason", "unrated", "opening")
    return json_line(
        "game",
        {
            **{name: getattr(record, name) for name in (*names, "black_seconds", "white_seconds")},
            "number": number,
            "size": size,
            "komi": record.rules.komi,
            "rules": record.rules.name,
            "handicap": [gtp_from_move(move, size) for move in record.setup[0]],
            "result": "" if outcome is None else outcome.sgf,
            "winner": None if outcome is None or outcome.winner is None else outcome.winner.name.lower(),
            "ending": None if outcome is None else str(outcome.ending),
            "margin": None if outcome is None else outcome.margin,
            "adjudged": None if record.adjudged is None else record.adjudged.name.lower(),
            "seed": str(record.seed),
            "moves": [gtp_from_move(move, size) for move in record.moves],
            "facts": [fact._asdict() for fact in record.facts],
        },
    )


GAME_COLUMNS = (
    "id event date black white size komi rules result ending moves black_seconds white_seconds reason adjudged".split()
)


def _game_row(game: Played, event: str, rules: Rules) -> Row:
    """Who played, by which rules, the result as in SGF, how it ended, and whom an adjudication gave it to."""
    outcome = game.outcome
    return {
        **{key: getattr(game, key) for key in ("id", "date", "black", "white", "black_seconds", "white_seconds")},
        "event": event,
        "size": rules.size,
        "komi": rules.komi,
        "rules": rules.name,
        "result": "" if outcome is None else outcome.sgf,
        "ending": "" if outcome is None else str(outcome.ending),
        "moves": game.length,
        "reason": game.reason,
        "adjudged": "" if game.adjudged is None else game.adjudged.letter,
    }


def games_frame(games: Iterable[GameRecord]) -> pd.DataFrame:
    """Games of any events, a row each."""
    import pandas as pd

    return pd.DataFrame([_game_row(game, game.event, game.rules) for game in games], columns=GAME_COLUMNS)


def write_sgf_files(games: Iterable[GameRecord], folder: Path) -> None:
    """Write a file for each game, in a folder for each event. Raises StoreError."""
    from arena.go.sgf import move_notes, write_sgf

    def place(id: str) -> Path:
        # an id of a database from elsewhere doesn't lead out of the folder
        return folder.joinpath(*(re.sub(r"[^\w.-]|^\.+", "_", part) for part in f"{id}.sgf".split("/") if part))

    try:
        for game in games:
            path = place(game.id)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{write_sgf(game, move_notes(game))}\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{folder} can't be written ({files.reason(error)}); use a folder that can be") from error


# --- Events ---


def event_line(event: Overview) -> str:
    """One of the list of events as JSON."""
    return json_line("event", event._asdict())


def _standing_rows(found: Report) -> Iterator[Row]:
    for rank, one in enumerate(found.places, 1):
        seconds = found.seconds_a_move(one.name)
        yield {**_place_row(rank, one), "seconds_a_move": None if seconds is None else round(seconds, 6)}


def report_line(report: Report) -> str:
    """What is known of an event as JSON."""
    tally, names, test = report.tally, [place.name for place in report.places], report.test
    counts = None if tally is None else tally.results()
    found = {
        "event": report.event,
        "kind": report.kind,
        "created": report.created,
        "size": report.rules.size,
        "rules": report.rules.name,
        "komi": report.rules.komi,
        "games": report.stored,
        "counted": report.games,
        "planned": report.planned,
        "anchor": report.anchor,
        "standings": list(_standing_rows(report)),
        "won_drawn_lost": None if counts is None else [counts.wins, counts.draws, counts.losses],
        "pairs": None if tally is None else tally.counts,
        "sprt": None,
        "los": {
            name: {other: round(los, 4) for other in names if (los := report.los(name, other)) is not None}
            for name in names
        },
        "endings": {str(ending): won.total() for ending, won in report.endings.items()},
    }
    if test is not None:
        state = test.state
        known = {key: None if state is None else round(getattr(state, key), 4) for key in ("llr", "lower", "upper")}
        verdict = None if state is None or state.verdict is None else state.verdict.name.lower()
        found["sprt"] = {"elo0": test.test.elo0, "elo1": test.test.elo1, **known, "verdict": verdict}
    return json_line("report", found)


def write_event_csv(report: Report, folder: Path) -> list[Path]:
    """Write an event's tables to a folder: ``standings.csv``, ``crosstable.csv`` (a row for each player and each other
    one that it has met) and ``games.csv``; returns the paths. What the games don't give is missing. Raises
    StoreError."""
    import pandas as pd

    names = [place.name for place in report.places]
    met = [(one, other, report.meetings(one, other)) for one in names for other in names]
    meetings = [(*pair, one.games, one.wins, one.draws, one.losses, one.points) for *pair, one in met if one.games]
    games = (_game_row(game, report.event, report.rules) for game in report.counted)
    columns = {
        "standings": "rank player elo low high games score estimate seconds_a_move".split(),
        "crosstable": "player opponent games won drawn lost points".split(),
        "games": GAME_COLUMNS,
    }
    paths = []
    for (name, titles), rows in zip(columns.items(), (_standing_rows(report), meetings, games), strict=True):
        paths.append(folder / f"{name}.csv")
        write_csv(pd.DataFrame(rows, columns=titles), paths[-1])
    return paths


# --- Analyses and bots ---


ANALYSIS_COLUMNS = (
    *("move", "colour", "played", "win_rate_before", "win_rate_after", "loss"),
    *("score_before", "score_after", "points_lost", "best", "line", "visits"),
)


def analysis_frame(record: GameRecord, evaluations: Sequence[Evaluation]) -> pd.DataFrame:
    """A row for each move; win rates and scores, before and after it, are Black's, and losses are of who moved."""
    import pandas as pd

    from arena.results.analysis import judge, spelled

    rows, size = [], record.rules.size
    for move in judge(record, evaluations):
        before, after = move.before, move.after
        rates, points = (before.win_rate, after.win_rate, move.loss), (before.margin, after.margin, move.points_lost)
        best = gtp_from_move(before.best, size), spelled(before.line, size), before.visits
        rows.append((move.number, move.colour.letter, gtp_from_move(move.move, size), *rates, *points, *best))
    return pd.DataFrame(rows, columns=ANALYSIS_COLUMNS).round(4)
