"""What records add up to: tallies against counts by hand, the league's table, CSV that is never half written."""

import csv
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arena import StoreError
from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Outcome, Rules
from arena.go.record import GameRecord
from arena.match.standings import rated_places
from arena.players.player import Player
from arena.results.export import write_elo_csv
from arena.results.league import league, player_ratings
from arena.results.store import Store

RULES = Rules()


def record(
    number: int, winner: str, players: tuple[str, str] = ("new", "old"), event: str = "match-1", **fields: Any
) -> GameRecord:
    """Game ``number`` of a match, from 0, with moves of its own: the first player has Black in the even ones."""
    black, white = players if number % 2 == 0 else players[::-1]
    moves = tuple(random.Random(f"{event} {number}").sample(range(RULES.size**2), 10))
    outcome = Outcome(BLACK, Ending.SCORE, 3.0) if winner == black else Outcome(WHITE, Ending.RESIGN)
    usual = {"id": f"{event}/{number + 1:05d}", "event": event, "outcome": outcome}
    names = {"black": black, "white": white, "black_player": f"id-{black}", "white_player": f"id-{white}"}
    return GameRecord(RULES, moves, **(names | usual | fields))


# --- The league ---


def fill(store: Store, pairing: tuple[str, str], wins: int, losses: int) -> None:
    winners = [pairing[0]] * wins + [pairing[1]] * losses
    random.Random(1).shuffle(winners)
    event = "-".join(pairing)
    store.append([record(n, winner, players=pairing, event=event) for n, winner in enumerate(winners)])
    store.add_players({f"id-{name}": Player(name, "uct") for name in pairing})


def test_ratings_are_relative_to_the_mean_of_those_who_have_beaten_each_other(store: Store):
    fill(store, ("strong", "middle"), 30, 10)
    fill(store, ("middle", "weak"), 30, 10)
    fill(store, ("weak", "hopeless"), 20, 0)
    found = league(store)
    assert found is not None and [*found.zero] == ["middle", "strong", "weak"]
    places = rated_places(found)
    assert [one.name for one in places] == ["strong", "middle", "weak", "hopeless"]
    assert [(one.games, one.score) for one in places] == [(40, 0.75), (80, 0.5), (60, 0.5), (20, 0.0)]
    strong, middle, weak, hopeless = (one.elo for one in places)
    assert strong.value == pytest.approx(190, abs=10) and weak.value == pytest.approx(-190, abs=10)
    assert strong.low < strong.value < strong.high and middle.low < 0 < middle.high
    assert hopeless.value < hopeless.high < weak.value and hopeless.low is None


def test_players_of_one_name_are_told_apart_and_games_of_a_player_with_itself_rate_nobody(store: Store):
    itself = record(0, "bot", players=("bot", "bot (2)"))
    store.append([replace(itself, black_player="id-bot", white_player="id-bot")])
    assert player_ratings(store) == (None, {}) and league(store) is None
    fill(store, ("bot", "rival"), 6, 4)
    fill(store, ("other", "rival"), 6, 4)
    store.add_players({"id-other": Player("bot", "uct", settings={"playouts": 9})})
    assert {*league(store).players} == {"bot (id-bot)", "bot (id-oth)", "rival"}
    assert player_ratings(store)[1].keys() == {"id-bot", "id-other", "id-rival"}


def test_the_csv_has_the_table_and_one_that_cant_be_written_is_one_clear_line(store: Store, tmp_path: Path):
    path = tmp_path / "out" / "elo.csv"
    fill(store, ("strong", "weak"), 30, 10)
    write_elo_csv(store, path)
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["player"] for row in rows] == ["strong", "weak"]
    assert float(rows[0]["low"]) < float(rows[0]["elo"]) < float(rows[0]["high"])

    with pytest.raises(StoreError, match=r"^[^\n]*can't be written[^\n]*$"):
        write_elo_csv(store, path / "elo.csv")
