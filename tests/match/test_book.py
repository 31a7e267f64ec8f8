"""Balanced openings: made, used by default, and kept by events that began with others."""

from pathlib import Path

import pytest
from stored_events import CREATED, player

from arena import ConfigError
from arena.cli.events import read_terms, with_openings
from arena.go.game import Rules
from arena.match.openings import draw_openings, read_book
from arena.match.schedule import Match, Terms, Tournament, event_to_json
from arena.players.config import TermsTable
from arena.results.store import Event, Store
from benchmarks.openings import main

NINE = Rules.preset("cgos", 9)
A, B = player("a"), player("b")
MADE = ("alphago", "--plies", "2", "--visits", "100", "--seed", "3")


def usual(**given: object) -> Terms:
    return read_terms(TermsTable(**given), print)  # type: ignore[arg-type]


def stored(event: Match | Tournament, folder: Path) -> None:
    with Store.of(folder, write=True) as store:
        store.add_event(Event(event.event, CREATED, event.settings, event_to_json(event)))


def test_a_book_that_ships_is_used_unless_openings_are_asked_for() -> None:
    assert usual().book and usual().then_drawn
    assert len(set(usual(openings=3).openings_for(20))) == 3
    assert usual(openings=3).openings_for(20)[0] in usual().book
    assert usual(plies=4).openings_for(8)[:] == [*draw_openings(NINE, 4, 4, 1)]
    assert not usual(size=7).book and not usual(komi=0.5).book and not usual(rules="japanese").book


def test_an_event_keeps_the_openings_that_it_began_with(tmp_path: Path) -> None:
    old = Terms(NINE, book=((20, 60), (30, 50)), then_drawn=True)
    for event in (Match(A, B, old, 10), Tournament("league", (A, B), old, 10)):
        stored(event, tmp_path)
    now = Match(A, B, usual(), 20)
    assert with_openings(now, tmp_path).pairings()[:10] == Match(A, B, old, 10).pairings()
    now_league = Tournament("league", (A, B), usual(), 10)
    assert with_openings(now_league, tmp_path).settings == Tournament("league", (A, B), old, 10).settings
    stored(with_openings(now, tmp_path), tmp_path)  # more games are planned now
    assert with_openings(now, tmp_path).key == Match(A, B, old, 10).key
    assert with_openings(Match(A, B, usual(seed=2), 20), tmp_path).terms.book


def test_openings_that_were_asked_for_are_no_others_event(tmp_path: Path) -> None:
    stored(Match(A, B, usual(plies=4), 10), tmp_path)
    assert with_openings(Match(A, B, usual(), 10), tmp_path).terms.book == usual().book


def test_openings_are_made_and_more_begin_with_the_same(tmp_path: Path) -> None:
    path = tmp_path / "book.sgfs"
    assert main([*MADE, "--out", str(path), "-n", "3"]) == 0
    first = path.read_text()
    assert main([*MADE, "--out", str(path), "-n", "5"]) == 0 and path.read_text().startswith(first)
    book = read_book(path, NINE)
    assert {len(opening) for opening in book.openings} == {2} and len(book.openings) == 5 and not book.repeated
    with pytest.raises(ConfigError, match="random has no policy"):
        main(["random", "--out", str(tmp_path / "x.sgfs")])
