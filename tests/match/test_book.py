"""Balanced openings: made, used by default, and kept by events that began with others."""

from pathlib import Path

import pytest
from stored_events import player

from arena import ConfigError
from arena.cli.events import read_terms
from arena.go.game import Rules
from arena.match.openings import draw_openings, read_book
from arena.match.schedule import Terms
from arena.players.config import TermsTable
from benchmarks.openings import main

NINE = Rules.preset("cgos", 9)
A, B = player("a"), player("b")
MADE = ("alphago", "--plies", "2", "--visits", "100", "--seed", "3")


def usual(**given: object) -> Terms:
    return read_terms(TermsTable(**given), print)  # type: ignore[arg-type]


def test_a_book_that_ships_is_used_unless_openings_are_asked_for() -> None:
    assert usual().book and usual().then_drawn
    assert len(set(usual(openings=3).openings_for(20))) == 3
    assert usual(openings=3).openings_for(20)[0] in usual().book
    assert [*usual(plies=4).openings_for(8)] == [*draw_openings(NINE, 4, 4, 1)]
    assert not usual(size=7).book and not usual(komi=0.5).book and not usual(rules="japanese").book


def test_openings_are_made_and_more_begin_with_the_same(tmp_path: Path) -> None:
    path = tmp_path / "book.sgfs"
    assert main([*MADE, "--out", str(path), "-n", "3"]) == 0
    first = path.read_text()
    assert main([*MADE, "--out", str(path), "-n", "5"]) == 0 and path.read_text().startswith(first)
    book = read_book(path, NINE)
    assert {len(opening) for opening in book.openings} == {2} and len(book.openings) == 5 and not book.repeated
    with pytest.raises(ConfigError, match="random has no policy"):
        main(["random", "--out", str(tmp_path / "x.sgfs")])
