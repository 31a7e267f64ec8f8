"""Tournaments: who meets whom, and what a stored one plays when it goes on."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from helpers.events import planned
from helpers.games import between, essence, fresh
from helpers.scripted_bots import scripted
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.contract.adjudication import Adjudication
from arena.go.game import Rules
from arena.match.runner import play_event
from arena.match.schedule import Match, Style, Terms, Tournament
from arena.results.store import Store

SEVEN, FIVE = Rules.preset("cgos", 7), Rules.preset("cgos", 5)


def numbered(count: int, **changes: Any) -> Tournament:
    usual: dict[str, Any] = {"name": "league", "rules": SEVEN, "games_each": 4}
    entries = tuple(scripted("GOOD", f"bot{number}", at=number) for number in range(count))
    return planned(Tournament, **({"entries": entries} | usual | changes))


@settings(max_examples=20)
@given(players=st.integers(2, 8), games=st.integers(1, 9), openings=st.integers(0, 3), seed=st.integers(0, 2**40))
def test_each_two_players_open_the_same_openings_with_both_colours_and_standings_fill_evenly(
    players: int, games: int, openings: int, seed: int
) -> None:
    """At any moment, no two players have met two games more often than two others, and nobody is far ahead."""
    league = numbered(players, games_each=games, openings=openings, seed=seed)
    pairings = league.pairings()
    assert len(pairings) == league.games == games * players * (players - 1) // 2
    assert len({pairing.id for pairing in pairings}) == len({pairing.seed for pairing in pairings}) == len(pairings)
    drawn = Match(*league.entries[:2], Terms(SEVEN, openings, seed=seed), games).pairings()
    for one, other in combinations(league.players, 2):
        met = between(pairings, one, other)
        assert [pairing.opening for pairing in met] == [pairing.opening for pairing in drawn]
        for first, second in zip(met[0::2], met[1::2], strict=False):
            assert (first.black, first.white) == (second.white, second.black)
    counts = Counter(dict.fromkeys(map(frozenset, combinations(league.players, 2)), 0)), Counter[str]()
    for pairing in pairings:
        counts[0][frozenset((pairing.black, pairing.white))] += 1
        counts[1].update((pairing.black, pairing.white))
        assert max(counts[0].values()) - min(counts[0].values()) <= 1
        assert max(counts[1].values()) - min(counts[1][name] for name in league.players) <= 2


def test_a_game_depends_on_its_two_players_and_the_terms_only() -> None:
    three, four = numbered(3), numbered(4)
    known, more = ({pairing.id: pairing for pairing in event.pairings()} for event in (three, four))
    assert known.items() <= more.items()
    assert all("bot3" in (more[id].black, more[id].white) for id in more.keys() - known.keys())
    turned, longer = replace(four, entries=four.entries[::-1]), replace(four, games_each=6)
    assert {pairing.id: pairing for pairing in turned.pairings()} == more
    assert more.items() <= {pairing.id: pairing for pairing in longer.pairings()}.items()
    gauntlet = replace(four, style=Style.GAUNTLET)
    assert gauntlet.games == 12
    assert gauntlet.pairings() == [one for one in gauntlet.pairings() if more[one.id] == one and "bot0" in str(one)]
    changed = replace(three, entries=(*three.entries[:2], scripted("GOOD", "bot2", at=99)))
    same = {pairing.id for pairing in changed.pairings()} & set(known)
    assert same == {pairing.id for pairing in between(three.pairings(), "bot0", "bot1")}
    assert four.settings == longer.settings == gauntlet.settings == three.settings
    changes: list[dict[str, Any]] = [{"openings": 3}, {"plies": 2}, {"seed": 2}, {"rules": FIVE}]
    changes += [{"rules": Rules.preset("cgos", 7, 6.5)}, {"adjudication": Adjudication.read("resign=0.2")}]
    assert all(numbered(3, **change).settings != three.settings for change in changes)


@pytest.mark.smoke
def test_a_tournament_goes_on_where_it_stopped_and_takes_new_players(store: Store, tmp_path: Path) -> None:
    three, four = numbered(3, rules=FIVE), numbered(4, rules=FIVE)
    updates = play_event(three, store, 1)
    next(update for update in updates if update.records)
    updates.close()
    kept = store.ids("league")
    rest = fresh(play_event(three, store, 2))
    assert 0 < len(kept) and not kept & {record.id for record in rest}
    assert len(kept) + len(rest) == three.games == store.count(event="league")
    joined = fresh(play_event(four, store, 1))
    assert len(joined) == 12 and all("bot3" in (record.black, record.white) for record in joined)
    with Store.open(tmp_path / "once.db", write=True) as other:
        list(play_event(four, other, 1))
        assert essence(other.games()) == essence(store.games())
