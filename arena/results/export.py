"""Ratings, reports and games for other programs: JSON Lines, pandas frames, CSV files, and SGF files in a folder.

The keys of JSON are listed in ``docs/guide.md``: they are added, never changed, as long as ``FORMAT`` stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from arena import StoreError, files
from arena.go.coords import gtp_from_move
from arena.match.standings import rated_places
from arena.results.league import NO_ANCHORS, league

if TYPE_CHECKING:  # these pull in the compiler
    import pandas as pd

    from arena.go.record import GameRecord
    from arena.match.standings import Standing
    from arena.ratings import Ratings
    from arena.results.analysis import Evaluation
    from arena.results.league import EventReport
    from arena.results.store import Pool, Store

FORMAT = 1  # grows when a key changes its meaning or goes

Row = dict[str, Any]


_UNPRINTED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What commands a terminal, ends a line or turns the direction of writing, and msgspec prints as it is."""


def json_line(type: str, values: Mapping[str, Any]) -> str:
    """One object, in a line that may be shown on a terminal."""
    line = msgspec.json.encode({"type": type, "format": FORMAT, **values}).decode()
    return _UNPRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


# --- Ratings ---


def pool_terms(pool: Pool) -> Row:
    return {"size": pool.size, "rules": pool.name, "komi": pool.komi, "handicap": pool.handicap}


def rating_rows(found: Ratings | None, pool: Pool) -> list[Row]:
    """A row for each player of a pool, the strongest first; none where nobody is rated."""
    if found is None:
        return []
    terms = pool_terms(pool)
    anchor = next(iter(found.zero)) if len(found.zero) == 1 else None
    scale = {"anchor": anchor, "zero": found.scale}
    return [{**terms, **_place_row(rank, one), **scale} for rank, one in enumerate(rated_places(found), 1)]


def misfit_rows(found: Ratings | None) -> list[Row]:
    """The results that the ratings don't explain, the least likely first."""
    misfits = [] if found is None else found.misfits()
    return [
        {**one._asdict(), "expected": round(one.expected, 1), "chance": float(f"{one.chance:.1g}")} for one in misfits
    ]


def _rounded(parts: Iterable[float | None]) -> list[float | None]:
    return [None if part is None else round(part, 1) for part in parts]


def _place_row(rank: int, one: Standing) -> Row:
    """An estimate is None where there is none, and as text, with the interval that is shown."""
    parts = _rounded((*(one.planned or (None,) * 3), *one.anytime))
    elo = {**dict(zip(ELO_COLUMNS, parts, strict=True)), "estimate": one.elo and str(one.elo)}
    score = None if one.score is None else round(one.score, 4)
    return {"rank": rank, "player": one.name, **elo, "games": one.games, "score": score}


ELO_COLUMNS = "elo low high anytime_low anytime_high".split()
RATING_COLUMNS = [*"size rules komi handicap rank player".split(), *ELO_COLUMNS, "games", "score", "estimate"]


def write_elo_csv(store: Store, path: Path, anchors: Mapping[str, float] = NO_ANCHORS) -> None:
    """Write the ratings of all pools, one after the other; ``anchors`` fix the scale as in ``league``. Ends of
    intervals that the games don't bound are missing. A link is replaced, not what it leads to. Raises ConfigError,
    StoreError."""
    import pandas as pd

    if path.is_symlink():
        path.unlink()
    rows = [row for pool in store.pools() for row in rating_rows(league(store, pool, anchors), pool)]
    write_csv(pd.DataFrame(rows, columns=RATING_COLUMNS), path)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame without its index; texts of others stay texts. Raises StoreError."""
    own = frame[[column for column in frame.columns if column == "estimate"]]  # may begin with a minus
    cells = frame.map(as_cell).assign(**own).set_axis([as_cell(name) for name in frame.columns], axis=1)
    files.write(path, cells.to_csv(index=False))


def as_cell(value: Any) -> Any:
    """A value for a table that a spreadsheet may open: a text that would be run as a formula there gets a quote."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


# --- Games ---


def _game_fields(record: GameRecord) -> Row:
    """Who played, by which rules, the result as in SGF, and how it ended."""
    names = ("id", "event", "date", "black", "white", "black_seconds", "white_seconds", "reason")
    rules, outcome = record.rules, record.outcome
    result, ending = ("", None) if outcome is None else (outcome.sgf, str(outcome.ending))
    terms = {"size": rules.size, "komi": rules.komi, "rules": rules.name, "handicap": record.handicap}
    return {**{name: getattr(record, name) for name in names}, **terms, "result": result, "ending": ending}


def game_line(record: GameRecord, number: int) -> str:
    """A stored game as JSON: its number in the database, its moves and what was reported of them."""
    outcome, size = record.outcome, record.rules.size
    names = ("black_player", "white_player", "unrated", "opening", "continued", "restarted", "black_late", "white_late")
    more = {
        "number": number,
        "handicap": [gtp_from_move(move, size) for move in record.setup[0]],
        "winner": None if outcome is None or outcome.winner is None else outcome.winner.name.lower(),
        "margin": None if outcome is None else outcome.margin,
        "adjudged": None if record.adjudged is None else record.adjudged.name.lower(),
        "seed": str(record.seed),
        "moves": [gtp_from_move(move, size) for move in record.moves],
        "facts": [fact._asdict() for fact in record.facts],
    }
    return json_line("game", {**_game_fields(record), **{name: getattr(record, name) for name in names}, **more})


GAME_COLUMNS = [
    *"id event date black white size komi rules handicap result ending".split(),
    *"moves black_seconds white_seconds reason adjudged".split(),
]


def write_games_csv(games: Iterable[GameRecord], path: Path) -> None:
    """Write a row for each game, with its number of moves and the winner by adjudication. Raises StoreError."""
    import pandas as pd

    more = ((game, game.adjudged and game.adjudged.letter) for game in games)
    rows = [_game_fields(game) | {"moves": game.length, "adjudged": winner} for game, winner in more]
    write_csv(pd.DataFrame(rows, columns=GAME_COLUMNS), path)


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
            files.write_unsynced(path, f"{write_sgf(game, move_notes(game))}\n")
    except OSError as error:
        raise StoreError(f"{folder} can't be written ({files.reason(error)}); use a folder that can be") from error


# --- Events ---


def _standing_rows(found: EventReport) -> Iterator[Row]:
    for rank, one in enumerate(found.places, 1):
        seconds = found.seconds_a_move(one.name)
        yield {**_place_row(rank, one), "seconds_a_move": None if seconds is None else round(seconds, 6)}


def report_line(report: EventReport) -> str:
    """What is known of an event as JSON."""
    tally, names, test = report.tally, [place.name for place in report.places], report.test

    found = {
        "event": report.event,
        "kind": report.kind,
        "created": report.created,
        "size": report.rules.size,
        "rules": report.rules.name,
        "komi": report.rules.komi,
        "handicap": report.settings.get("handicap", 0),
        "games": report.stored,
        "counted": report.games,
        "planned": report.planned,
        "is_final": report.is_final,
        "anchor": report.anchor or None,
        "openings": report.openings,
        "misfits": misfit_rows(report.league),
        "standings": list(_standing_rows(report)),
        "won_drawn_lost": None if tally is None else tally.results(),
        "pairs": None if tally is None else tally.counts,
        "sprt": None,
        "los": {
            name: {other: round(los, 4) for other in names if (los := report.los(name, other)) is not None}
            for name in names
        },
        "anytime": {
            one: {other: _rounded(report.anytime(one, other)) for other in names if report.meetings(one, other).games}
            for one in names
        },
        "endings": {str(ending): won.total() for ending, won in report.endings.items()},
    }
    if test is not None:
        state = test.state
        known = {key: state and round(getattr(state, key), 4) for key in ("llr", "lower", "upper")}
        verdict = state and state.verdict.name.lower()
        found["sprt"] = {"elo0": test.test.elo0, "elo1": test.test.elo1, **known, "verdict": verdict}
    return json_line("report", found)


def write_event_csv(report: EventReport, folder: Path) -> list[Path]:
    """Write ``standings.csv`` and ``crosstable.csv`` (a row for each player and each other one that it has met) to a
    folder; returns the paths. What the games don't give is missing. Raises StoreError."""
    import pandas as pd

    names = [place.name for place in report.places]
    met = [(one, other, report.meetings(one, other)) for one in names for other in names]
    meetings = [(*pair, one.games, *one, one.points) for *pair, one in met if one.games]
    standings = ["rank", "player", *ELO_COLUMNS, "games", "score", "estimate", "seconds_a_move"]
    paths = [folder / "standings.csv", folder / "crosstable.csv"]
    write_csv(pd.DataFrame(_standing_rows(report), columns=standings), paths[0])
    write_csv(pd.DataFrame(meetings, columns="player opponent games won drawn lost points".split()), paths[1])
    return paths


# --- Analyses and bots ---


ANALYSIS_COLUMNS = "move colour played win_rate_before win_rate_after loss".split()
ANALYSIS_COLUMNS += "score_before score_after points_lost best line visits".split()


def analysis_frame(record: GameRecord, evaluations: Sequence[Evaluation]) -> pd.DataFrame:
    """A row for each move; win rates and scores, before and after it, are Black's, and losses are of who moved."""
    import pandas as pd

    from arena.results.analysis import format_line, judge_moves

    rows, size = [], record.rules.size
    for move in judge_moves(record, evaluations):
        before, after = move.before, move.after
        rates, points = (before.win_rate, after.win_rate, move.loss), (before.margin, after.margin, move.points_lost)
        best = gtp_from_move(before.best, size), format_line(before.line, size), before.visits
        rows.append((move.number, move.colour.letter, gtp_from_move(move.move, size), *rates, *points, *best))
    return pd.DataFrame(rows, columns=ANALYSIS_COLUMNS).round(4)
