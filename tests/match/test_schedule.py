"""Openings and pairings of matches: what is to be played follows from an event's settings, and from nothing else."""

import hashlib
import json
import random
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from helpers.events import planned
from helpers.scripted_bots import scripted
from hypothesis import given, settings
from hypothesis import strategies as st

from arena import ConfigError
from arena.cli.events import read_terms
from arena.contract.adjudication import Adjudication
from arena.contract.bot import Limits
from arena.go.coords import symmetry_table
from arena.go.game import Rules
from arena.match.event import Event, continue_event, event_from_json, event_to_json
from arena.match.openings import BOOKS, Opening, draw_openings, read_book, shipped_book
from arena.match.schedule import Gate, Match, Style, Terms, Tournament
from arena.match.swiss import Swiss
from arena.players.config import TermsTable
from arena.players.registry import Registry
from arena.ratings import Sprt
from benchmarks.openings import main

NINE = Rules.preset("cgos", 9)


def match(**changes: Any) -> Match:
    usual: dict[str, Any] = {"first": scripted("GOOD", "a"), "second": scripted("MANY", "b"), "rules": NINE, "games": 8}
    return planned(Match, **(usual | changes))


def forms(opening: Opening, size: int) -> set[tuple[frozenset[int], frozenset[int]]]:
    """The positions that an opening leads to under the 8 symmetries: Black's stones, White's."""
    return {
        (frozenset(int(table[move]) for move in opening[0::2]), frozenset(int(table[move]) for move in opening[1::2]))
        for table in symmetry_table(size)
    }


# --- Openings ---


def drawn_slowly(size: int, count: int, plies: int, seed: int) -> list[Opening]:
    """The slow twin: each move by ``random.choice`` of the points that are free and touch no stone."""
    dice = random.Random(f"openings of {size} by {seed}")
    inside = range(edge := min(2, (size - 5) // 2), size - edge)
    drawn: list[Opening] = []
    seen: set[Any] = set()
    failures = 0
    while len(drawn) < count:
        plies, failures = (plies + 2, 0) if failures > 1000 else (plies, failures)
        moves: list[tuple[int, int]] = []
        while len(moves) < plies and (
            free := [point for point in product(inside, inside) if all(apart(point, one) for one in moves)]
        ):
            moves.append(dice.choice(free))
        opening = tuple(row * size + column for row, column in moves)
        failures += 1
        if len(opening) == plies and not forms(opening, size) & seen:
            failures = 0
            seen |= forms(opening, size)
            drawn.append(opening)
    return drawn


def apart(point: tuple[int, int], other: tuple[int, int]) -> bool:
    return abs(point[0] - other[0]) + abs(point[1] - other[1]) > 1


@pytest.mark.parametrize(
    ("size", "plies", "count", "seed"),
    [(5, 1, 40, 3), (6, 3, 60, 2**40), (9, 2, 200, 3), (13, 4, 60, 3), (19, 6, 20, 3)],
)
def test_the_openings_of_a_seed_are_those_of_a_slow_twin(size: int, plies: int, count: int, seed: int) -> None:
    drawn = draw_openings(Rules.preset("cgos", size), count, plies, seed)
    assert [*drawn] == drawn_slowly(size, count, plies, seed)


@pytest.mark.parametrize(("size", "plies", "digest"), [(9, 6, "e1e83c3993e26812"), (19, 4, "5e1b7bdfe8e3f748")])
def test_the_openings_of_stored_events_stay_what_they_are(size: int, plies: int, digest: str) -> None:
    """On 9x9 there are fewer distinct openings of 4 moves than this."""
    drawn = draw_openings(Rules.preset("cgos", size), 8000, 4, 1)
    assert hashlib.sha256(json.dumps(drawn).encode()).hexdigest()[:16] == digest
    assert (len(drawn[0]), len(drawn[-1])) == (4, plies)


def test_openings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"about 0 different openings of 30 plies or more on 5x5; .*--openings 1"):
        draw_openings(Rules.preset("cgos", 5), 1, 30, seed=1)


# --- Pairings ---


@settings(max_examples=20)
@given(games=st.integers(1, 40), more=st.integers(0, 40), openings=st.integers(0, 12), seed=st.integers(0, 2**40))
def test_both_players_open_each_opening_with_both_colours_and_more_games_begin_with_the_same(
    games: int, more: int, openings: int, seed: int
) -> None:
    short, long = (match(games=count, openings=openings, seed=seed) for count in (games, games + more))
    pairings, pairs = short.pairings(), (games + 1) // 2
    assert len(pairings) == games and long.event == short.event
    assert long.pairings()[:games] == pairings
    for first, second in zip(pairings[0::2], pairings[1::2], strict=False):
        assert first.opening == second.opening
        assert (first.black, first.white) == ("a", "b") == (second.white, second.black)
    assert len({pairing.opening for pairing in pairings}) == min(openings or pairs, pairs)


def test_every_setting_but_the_number_of_games_makes_another_event() -> None:
    a, b = match().first, match().second
    changes: dict[str, list[Any]] = {
        "first": [scripted("GOOD", "a", at=9), replace(a, net="x"), replace(a, limits=Limits(seconds=1))],
        "second": [scripted("MANY", "b", seed=1), a],
        "rules": [Rules.preset("cgos", 9, komi=6.5), Rules.preset("cgos", 9, move_limit=100)],
        **{"openings": [3], "plies": [2], "seed": [2], "name": ["x"], "gate": [Gate("a", "new")]},
        "adjudication": [Adjudication.read("off"), Adjudication(turns=5)],
        "book": [((3, 4), (5, 6)), ((5, 6), (3, 4))],
    }
    keys = [match().key, match(first=b, second=a).key]
    keys += [match(**{name: value}).key for name, values in changes.items() for value in values]
    assert len(set(keys)) == len(keys)
    again = match(run=2)
    assert match(games=100).event == match().event != again.event and again.key == match().key
    assert not {p.id for p in again.pairings()} & {p.id for p in match().pairings()}
    assert [p.opening for p in again.pairings()] == [p.opening for p in match().pairings()]
    itself = match(first=a, second=a)
    assert {(p.black, p.white) for p in itself.pairings()} == {("a", "a (2)"), ("a (2)", "a")}


def test_each_two_players_of_a_new_tournament_have_openings_in_an_order_of_their_own() -> None:
    """With the same openings for all, ten openings were all that a league of twenty rested on."""
    entries = tuple(scripted("GOOD", name, at=at) for at, name in enumerate("abcd"))
    terms = Terms(NINE, book=shipped_book(NINE), then_drawn=True, own_openings=True)
    league, shared = (Tournament("league", entries, one, 40) for one in (terms, replace(terms, own_openings=False)))
    used: dict[frozenset[str], list[Opening]] = {}
    for pairing in league.pairings():
        used.setdefault(frozenset((pairing.black, pairing.white)), []).append(pairing.opening)
    for openings in used.values():
        assert len(set(openings)) == 20 and openings[0::2] == openings[1::2] and set(openings) <= set(terms.book)
    assert len({opening for openings in used.values() for opening in openings}) > 100  # of 120; the book has 600
    assert len({pairing.opening for pairing in shared.pairings()}) == 20 and shared.settings == league.settings
    more = replace(league, entries=(*entries[:2], scripted("MANY", "new"), *entries[2:]), games_each=50)
    assert {pairing.id: pairing for pairing in league.pairings()}.items() <= {
        one.id: one for one in more.pairings()
    }.items()
    stored = event_from_json(event_to_json(shared))  # what began with one order for all goes on with it
    assert continue_event(stored, replace(league, games_each=60)) == replace(shared, games_each=60, grown=True)
    short = Tournament("short", entries, Terms(NINE, plies=2, own_openings=True), 20)
    assert {len(pairing.opening) for pairing in short.pairings()} == {2}


# --- Books ---


def sgf(moves: str, size: int = 9, more: str = "") -> str:
    """A game of SGF coordinates, Black first."""
    nodes = [f";{'BW'[number % 2]}[{move}]" for number, move in enumerate(moves.split())]
    return f"(;GM[1]SZ[{size}]{more}{''.join(nodes)})"


def test_a_book_has_the_main_lines_of_its_games_without_repeated_positions_and_what_is_no_opening(
    tmp_path: Path,
) -> None:
    path = tmp_path / "book.sgf"
    games = ["(;GM[1]SZ[9];B[cc];W[gg](;B[cg];W[gc])(;B[ee]))", sgf("dd ff"), sgf("ff dd"), sgf("ee")]
    games += [sgf("cc", size=13), sgf("cc", more="AB[ee]"), sgf("cc cc"), sgf(""), "(;GM[1]SZ[9];B[cc"]
    path.write_text("\n".join(games))
    openings, summary = read_book(path, NINE)
    assert set(openings) == {(20, 60, 56, 24), (30, 50), (40,)}
    assert summary.startswith("3 openings of 1 to 4 moves; left out: 1 that lead")
    for words in ("1 on 13x13", "1 with setup stones or White to begin", "1 illegal move", "1 empty"):
        assert words in summary
    assert set(read_book(path, NINE, plies=2)[0]) == {(20, 60), (30, 50), (40,)}
    with pytest.raises(ConfigError, match=r"no game in .* is an opening on 19x19; left out: 6 on 9x9, 1 on 13x13"):
        read_book(path, Rules.preset(size=19))


def test_a_books_openings_are_used_in_turn_or_then_drawn_and_those_that_ship_unless_others_are_asked_for() -> None:
    book = ((20, 60), (30, 50), (40,))
    league = Tournament("league", (match().first, match().second), Terms(NINE, book=book), games_each=8)
    for event in (match(book=book, games=8), league):
        assert [pairing.opening for pairing in event.pairings()] == [one for one in (*book, book[0]) for _ in range(2)]
    assert {pairing.opening for pairing in match(book=book, openings=2, games=8).pairings()} == set(book[:2])
    more = match(book=book, then_drawn=True, games=10)
    assert [pairing.opening for pairing in more.pairings()[::2]] == [*book, *draw_openings(NINE, 2, 4, 1)]
    assert more.key != match(book=book).key and match(then_drawn=True).key == match().key
    usual = read_terms(TermsTable(), Registry(), print)
    assert usual.then_drawn and usual.book == shipped_book(NINE, 1)
    assert not read_terms(TermsTable(komi=0.5), Registry(), print).book


@pytest.mark.parametrize(("size", "least"), [(9, 500), (13, 200)])
def test_the_books_that_ship_hold_balanced_openings_for_the_usual_komi(size: int, least: int) -> None:
    rules, path = Rules.preset("cgos", size), BOOKS / f"{size}x{size}.sgfs"
    openings, summary = read_book(path, rules, seed=5)
    assert len(openings) >= least and "left out" not in summary
    assert shipped_book(rules, 5) == openings
    rates = re.findall(r"SBKV\[([\d.]+)\]", path.read_text())
    assert len(rates) == len(openings) and all(40 <= float(rate) <= 60 for rate in rates)


def test_openings_are_made_and_more_begin_with_the_same(tmp_path: Path) -> None:
    path, made = tmp_path / "book.sgfs", ("alphago", "--plies", "2", "--visits", "8", "--seed", "3")
    assert main([*made, "--out", str(path), "--count", "2"]) == 0
    first = path.read_text()
    assert main([*made, "--out", str(path), "--count", "3"]) == 0 and path.read_text().startswith(first)
    assert read_book(path, NINE)[1] == "3 openings of 2 to 2 moves"


# --- Events as text ---

ENTRIES = (
    scripted("GOOD", "a"),
    replace(scripted("MANY", "b"), limits=Limits(main=60, byoyomi=5), net="f00d"),
    scripted("GOOD", "größer: 碁", at=3),
)
EVENTS: list[Event] = [
    Match(*ENTRIES[:2], Terms(Rules.preset("japanese", 13, 0.5), openings=4, plies=2, seed=2**40), 30, 3, name="x"),
    Match(ENTRIES[0], ENTRIES[0], Terms(NINE, adjudication=Adjudication.read("resign=0.1"), book=((1, 2), (3,))), 2),
    Match(*ENTRIES[:2], Terms(NINE), 200, name="gated", test=Sprt(0, 35), gate=Gate("a", "new")),
    Tournament("league", ENTRIES, Terms(NINE), games_each=6, style=Style.GAUNTLET),
    Swiss("climb", ENTRIES, Terms(NINE, book=((1, 2), (3,))), games=300, precision=40.0, block=4),
]


def test_the_id_of_a_match_of_a_bot_by_its_path_is_no_option() -> None:
    """It began with "-", and 'arena report ID' refused it."""
    path = scripted("GOOD", "/srv/bots/mine.py")
    assert Match(path, scripted("GOOD", "---"), Terms(Rules.preset()), 2).key.startswith("srv-bots-mine.py-bot-")


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.event)
def test_an_event_comes_back_from_its_text(event: Event) -> None:
    text = event_to_json(event)
    assert "\n" not in text
    back = event_from_json(text)
    assert [*back.players.values()] == [replace(entry, factory="") for entry in event.players.values()]
    assert (type(back), back.terms, back.settings) == (type(event), event.terms, event.settings)
    assert back.pairings() == event.pairings()
    if isinstance(event, Match) and isinstance(back, Match):
        assert (back.test, back.gate) == (event.test, event.gate)


@pytest.mark.parametrize("text", ["no json", '{"event": "duel"}', '{"event": "match", "first": 3}'])
def test_any_other_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^[^\n]*plan of an event can't be read[^\n]*$"):
        event_from_json(text)


def test_a_referee_makes_another_match_and_is_stored_without_its_command_line() -> None:
    engine = Registry().resolve("gtp:command=engine --key secret")
    one = match()
    two = replace(one, terms=replace(one.terms, referee=engine))
    assert one.key != two.key and "referee" not in one.settings and "secret" not in event_to_json(two)
    stored = event_from_json(event_to_json(two))
    assert stored.terms.referee is not None and stored.terms.referee.identity == engine.identity
    assert continue_event(stored, two) == two and stored.settings == two.settings
