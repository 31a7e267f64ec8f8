"""What records add up to: tallies against counts by hand, the league's table, CSV that is never half written."""

import csv
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arena import StoreError
from arena.go.coords import BLACK, WHITE, symmetry_table
from arena.go.game import Ending, Outcome, Rules
from arena.go.record import GameRecord
from arena.match.standings import Standings
from arena.players.player import Player
from arena.ratings import PairCounts
from arena.ratings.elo import ZERO
from arena.results.export import games_frame, write_elo_csv
from arena.results.league import league, player_ratings
from arena.results.store import Store

RULES = Rules()


def record(
    number: int,
    winner: str | None,
    *,
    players: tuple[str, str] = ("new", "old"),
    ending: Ending = Ending.SCORE,
    event: str = "match-1",
    **fields: Any,
) -> GameRecord:
    """Game ``number`` of a match, from 0: the first player has Black in the even ones. Moves differ unless given."""
    black, white = players if number % 2 == 0 else players[::-1]
    colour = None if winner is None else BLACK if winner == black else WHITE
    moves = tuple(random.Random(f"{event} {number}").sample(range(RULES.size**2), 10))
    scored = ending in (Ending.SCORE, Ending.MOVE_LIMIT)
    margin = None if not scored else 0.0 if colour is None else 3.0 if colour is BLACK else -3.0
    usual = {"id": f"{event}/{number + 1:05d}", "event": event, "moves": moves, "opening": 4}
    names = {"black": black, "white": white, "black_player": f"id-{black}", "white_player": f"id-{white}"}
    return GameRecord(RULES, outcome=Outcome(colour, ending, margin), **(names | usual | fields))


def standings_of(*records: GameRecord) -> Standings:
    table = Standings({"new": "new", "old": "old"}, is_match=True)
    table.add(records)
    return table


# --- A match ---


def test_identical_games_count_once_in_the_estimate_even_mirrored():
    moves = (20, 22, 24, 40, 41, 42)
    mirrored = tuple(int(move) for move in symmetry_table(RULES.size)[3][list(moves)])
    table = standings_of(
        record(0, "new", moves=moves),
        record(1, "old", moves=moves),  # the other colours: another game
        record(2, "new", moves=mirrored),
        record(3, "old", moves=moves),
        record(4, "new"),
        record(5, "new"),
    )
    tally = table.between("new", "old")
    assert tally.games == 6
    assert tally.repeats == 2
    assert tally.counts == PairCounts(0, 0, 1, 0, 1)


# --- The league ---


def fill(store: Store, pairing: tuple[str, str], wins: int, losses: int) -> None:
    winners = [pairing[0]] * wins + [pairing[1]] * losses
    random.Random(1).shuffle(winners)
    event = "-".join(pairing)
    store.append([record(n, winner, players=pairing, event=event) for n, winner in enumerate(winners)])
    store.add_players({f"id-{name}": Player(name, "uct") for name in pairing})


def test_ratings_are_relative_to_the_weakest_of_those_who_have_beaten_each_other(store: Store):
    fill(store, ("strong", "middle"), 30, 10)
    fill(store, ("middle", "weak"), 30, 10)
    fill(store, ("weak", "hopeless"), 20, 0)
    found = league(store)
    assert found is not None and found.anchor == "weak"
    assert [one.name for one in found.standings] == ["strong", "middle", "weak", "hopeless"]
    assert [(one.games, one.score) for one in found.standings] == [(40, 0.75), (80, 0.5), (60, 0.5), (20, 0.0)]
    strong, middle, weak, hopeless = found.elo.values()
    assert 150 < middle.value < 250
    assert 300 < strong.value < 500
    assert strong.low < strong.value < strong.high
    assert weak == ZERO
    assert hopeless.value < hopeless.high < -300 and hopeless.low is None


def test_players_of_one_name_are_told_apart_and_games_of_a_player_with_itself_rate_nobody(store: Store):
    itself = record(0, "bot", players=("bot", "bot (2)"))
    store.append([replace(itself, black_player="id-bot", white_player="id-bot")])
    assert player_ratings(store) == (None, {}) and league(store) is None
    fill(store, ("bot", "rival"), 6, 4)
    fill(store, ("other", "rival"), 6, 4)
    store.add_players({"id-other": Player("bot", "uct", settings={"playouts": 9})})
    assert {one.name for one in league(store).standings} == {"bot (id-bot)", "bot (id-oth)", "rival"}
    assert player_ratings(store)[1].keys() == {"id-bot", "id-other", "id-rival"}


def test_the_csv_has_the_table_and_one_that_cant_be_written_is_one_clear_line(store: Store, tmp_path: Path):
    path = tmp_path / "out" / "elo.csv"
    write_elo_csv(store, path)
    assert path.read_text("utf-8").strip() == "size,rules,komi,handicap,rank,player,elo,low,high,games,score,estimate"
    fill(store, ("strong", "weak"), 30, 10)
    write_elo_csv(store, path)
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["player"] for row in rows] == ["strong", "weak"]
    assert float(rows[0]["low"]) < float(rows[0]["elo"]) < float(rows[0]["high"])
    assert [each.name for each in path.parent.iterdir()] == ["elo.csv"]
    with pytest.raises(StoreError, match=r"^[^\n]*can't be written[^\n]*$"):
        write_elo_csv(store, path / "elo.csv")
    frame = games_frame([record(0, "new"), record(1, "old", ending=Ending.RESIGN, adjudged=WHITE)])
    columns = [list(frame[name]) for name in ("black", "result", "ending", "moves", "adjudged")]
    assert columns == [["new", "old"], ["B+3", "B+R"], ["score", "resign"], [10, 10], ["", "W"]]
    assert list(games_frame([]).columns) == list(frame.columns)


UNRATED, ELSEWHERE = {"unrated": "by hand"}, {"event": "match-2"}
OTHERS = {
    "none": ([], 6),
    "of another event": ([record(0, "new", **ELSEWHERE)], 6),
    "unrated, and of another event": ([record(6, "new", **UNRATED), record(0, "new", **ELSEWHERE)], 7),
    "without an outcome": ([replace(record(6, "new"), outcome=None)], 7),
    "not counted": ([record(6, "new")], 6),
    "an older player of that name": ([], 6),
    "by other rules": ([replace(record(6, "new"), rules=Rules(komi=0.5))], 7),
}


@pytest.mark.parametrize("others", OTHERS)
def test_the_csv_after_an_event_is_that_of_all_stored_games(
    others: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """They are read again unless the event has counted all of them."""
    more, counted = OTHERS[others]
    fill(store, ("new", "old"), 4, 2)
    store.append(more)
    if others == "an older player of that name":
        store.add_players({"id-older": Player("new", "uct", settings={"playouts": 9})})
    games = [game for batch in store.game_summaries() for game in batch][:counted]
    standings = standings_of(*games)
    write_elo_csv(store, tmp_path / "read.csv")
    if others == "none":
        monkeypatch.delattr(Store, "game_summaries")
    write_elo_csv(store, tmp_path / "counted.csv", standings)
    assert (tmp_path / "counted.csv").read_text() == (tmp_path / "read.csv").read_text()
