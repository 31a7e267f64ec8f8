"""Tournaments: who meets whom, what a stored one plays when it goes on, and what its games add up to."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planned import planned
from played import between, essence, fresh, pairings_of, record_of, tournament_of
from scripted_bots import scripted
from stored_events import earlier_wins, games_of, store_event

from arena import ConfigError
from arena.contract.adjudication import Adjudication
from arena.go.game import Rules
from arena.match.runner import play_event
from arena.match.schedule import Match, Style, Terms, Tournament
from arena.match.standings import Standings
from arena.results.league import league
from arena.results.store import Store

SEVEN = Rules.preset("cgos", 7)
FIVE = Rules.preset("cgos", 5)
ONE = scripted("GOOD", "one")


def tournament(*names: str, **changes: Any) -> Tournament:
    usual: dict[str, Any] = {"name": "league", "rules": SEVEN, "games_each": 4}
    entries = tuple(scripted("GOOD", name, at=index) for index, name in enumerate(names))
    return planned(Tournament, **({"entries": entries} | usual | changes))


def numbered(count: int, **changes: Any) -> Tournament:
    return tournament(*(f"bot{number}" for number in range(count)), **changes)


# --- Who meets whom ---


@settings(max_examples=20, deadline=None)
@given(players=st.integers(2, 7), games=st.integers(1, 9), openings=st.integers(0, 3), seed=st.integers(0, 2**40))
def test_each_two_players_open_the_same_openings_with_both_colours(
    players: int, games: int, openings: int, seed: int
) -> None:
    played = numbered(players, games_each=games, openings=openings, seed=seed)
    pairings = played.pairings()
    assert len(pairings) == played.games == games * players * (players - 1) // 2
    assert len({pairing.id for pairing in pairings}) == len({pairing.seed for pairing in pairings}) == len(pairings)
    drawn = Match(played.entries[0], played.entries[1], Terms(SEVEN, openings, seed=seed), games).pairings()
    for one, other in combinations(played.players, 2):
        met = between(pairings, one, other)
        assert [pairing.opening for pairing in met] == [pairing.opening for pairing in drawn]
        for first, second in zip(met[0::2], met[1::2], strict=False):
            assert (first.black, first.white) == (second.white, second.black)


@pytest.mark.parametrize("players", [2, 3, 4, 5, 8])
def test_standings_fill_evenly(players: int) -> None:
    """At any moment, no two players have met two games more often than two others, and nobody is far ahead."""
    played = numbered(players)
    met: Counter[frozenset[str]] = Counter()
    games: Counter[str] = Counter()
    for pairing in played.pairings():
        met[frozenset((pairing.black, pairing.white))] += 1
        games.update((pairing.black, pairing.white))
        everybody = [met[frozenset(pair)] for pair in combinations(played.players, 2)]
        assert max(everybody) - min(everybody) <= 1
        assert max(games[name] for name in played.players) - min(games[name] for name in played.players) <= 2


def test_a_gauntlet_is_the_first_against_the_rest() -> None:
    played = tournament("new", "a", "b", "c", style=Style.GAUNTLET)
    pairings = played.pairings()
    assert played.games == len(pairings) == 12
    assert all("new" in (pairing.black, pairing.white) for pairing in pairings)
    everybody = {pairing.id: pairing for pairing in replace(played, style=Style.ROUND_ROBIN).pairings()}
    assert all(everybody[pairing.id] == pairing for pairing in pairings)


def test_a_game_depends_on_its_two_players_and_their_settings_only() -> None:
    three, four = numbered(3), numbered(4)
    known = {pairing.id: pairing for pairing in three.pairings()}
    more = {pairing.id: pairing for pairing in four.pairings()}
    assert known.items() <= more.items()
    assert all("bot3" in (more[id].black, more[id].white) for id in more.keys() - known.keys())
    turned = replace(four, entries=four.entries[::-1])
    assert {pairing.id: pairing for pairing in turned.pairings()} == more
    longer = {pairing.id: pairing for pairing in replace(four, games_each=6).pairings()}
    assert more.items() <= longer.items()
    changed = replace(three, entries=(*three.entries[:2], scripted("GOOD", "bot2", at=99)))
    same = {pairing.id for pairing in changed.pairings()} & set(known)
    assert same == {pairing.id for pairing in between(three.pairings(), "bot0", "bot1")}


def test_players_games_and_style_are_no_settings_of_the_event() -> None:
    usual = numbered(3)
    others = (numbered(5), numbered(3, games_each=8), numbered(3, style=Style.GAUNTLET))
    assert all(other.settings == usual.settings for other in others)
    changes: list[dict[str, Any]] = [{"openings": 3}, {"plies": 2}, {"seed": 2}, {"rules": FIVE}]
    changes += [{"rules": Rules.preset("cgos", 7, 6.5)}, {"adjudication": Adjudication.read("resign=0.2")}]
    assert all(numbered(3, **change).settings != usual.settings for change in changes)


@pytest.mark.parametrize(
    ("names", "changes", "message"),
    [
        (("a",), {}, "a tournament takes at least 2 bots; league has 1"),
        (("a", "b", "a"), {}, "'a' is given twice; a tournament takes each bot once"),
        (("a", "b"), {"name": "my/league"}, "'my/league' is not a name for a tournament"),
        (("a", "b"), {"games_each": 0}, "0 games can't be played; give at least 1"),
        ((), {"entries": (ONE, replace(ONE, name="two"))}, "'one' and 'two' are the same bot"),
    ],
)
def test_what_can_not_be_played_is_refused(names: tuple[str, ...], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tournament(*names, **changes)


# --- Playing, going on, joining ---


def test_a_tournament_goes_on_where_it_stopped_and_takes_new_players(store: Store, tmp_path: Path) -> None:
    three, four = numbered(3, rules=FIVE), numbered(4, rules=FIVE)
    updates = play_event(three, store, 1)
    for update in updates:
        if update.records:
            break
    updates.close()  # type: ignore[attr-defined]
    kept = store.ids("league")
    assert 0 < len(kept) <= three.games
    rest = fresh(play_event(three, store, 2))
    assert not kept & {record.id for record in rest}
    assert len(kept) + len(rest) == three.games == store.count(event="league")
    joined = fresh(play_event(four, store, 1))
    assert len(joined) == 12
    assert all("bot3" in (record.black, record.white) for record in joined)
    with Store.open(tmp_path / "once.db", write=True) as other:
        list(play_event(four, other, 1))
        assert essence(other.games()) == essence(store.games())
    changed = replace(three, entries=(*three.entries[:2], scripted("GOOD", "bot2", at=99)))
    assert len(fresh(play_event(changed, store, 1))) == 8
    assert list(store.participants("league").values()).count("bot2") == 2
    assert store.participants("other") == {}


# --- What games add up to ---


def test_a_game_of_others_is_refused_and_one_under_another_name_is_kept() -> None:
    played = tournament_of("a", "b", "c")
    table = tournament_of("a", "b").standings()
    with pytest.raises(ValueError, match="is not one of a, b"):
        table.add([record_of(played, between(pairings_of(played), "a", "c")[0], "a")])
    assert table.games == 0
    table = Standings({played.players["a"].identity: "renamed", played.players["b"].identity: "b"})
    table.add([record_of(played, between(pairings_of(played), "a", "b")[0], "a")])
    assert table.meetings("renamed", "b").points == 1


def test_the_ratings_on_the_screen_are_those_of_the_store(store: Store) -> None:
    played = tournament_of("a", "b", "c", "d", games_each=10)
    records = games_of(played, earlier_wins(played))
    store_event(store, played, records)
    store.append([replace(records[0], id="another/1", event="another")])
    table = played.standings()
    for record in records:
        table.add([record])
    stored, live = league(store), table.league
    assert stored is not None and live is not None
    assert live.standings == stored.standings
    assert live.anchor == stored.anchor == "d"
    assert [standing.name for standing in live.standings] == ["a", "b", "c", "d"]
