"""Tournaments: who meets whom, what a stored one plays when it goes on, what its games add up to, and its screen."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planned import planned
from played import (
    CONTROL,
    SIZES,
    Clock,
    between,
    console_of,
    ladder_of,
    lines_of,
    output_of,
    pairings_of,
    record_of,
    screen_of,
    snapshot_of,
    tournament_of,
    words_of,
)
from rich.cells import cell_len
from scripted_bots import scripted

from arena import ConfigError
from arena.contract.adjudication import Adjudication
from arena.go.game import Ending, Rules
from arena.go.record import GameRecord
from arena.match.ladder import widest_gap
from arena.match.runner import Update, play_event
from arena.match.schedule import Match, Style, Terms, Tournament
from arena.match.standings import Standings
from arena.match.worker import Snapshot
from arena.results.league import league
from arena.results.store import Store
from arena.screen.events import TournamentView, show

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
        ((), {}, "at least 2 bots; league has 0"),
        (("a", "b", "a"), {}, "'a' is given twice; a tournament takes each bot once"),
        (("a", "b"), {"name": "my/league"}, "'my/league' is not a name for a tournament"),
        (("a", "b"), {"name": ""}, "'' is not a name"),
        (("a", "b"), {"games_each": 0}, "0 games can't be played; give at least 1"),
        (("a", "b"), {"openings": -1}, "-1 openings can't be played"),
        (("a", "b"), {"plies": -1}, "-1 plies can't be played"),
        ((), {"entries": (ONE, replace(ONE, name="two"))}, "'one' and 'two' are the same bot"),
    ],
)
def test_what_can_not_be_played_is_refused(names: tuple[str, ...], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tournament(*names, **changes)


# --- Playing, going on, joining ---


def fresh(updates: Iterator[Update]) -> list[GameRecord]:
    return [record for update in updates if not update.resumed for record in update.records]


def essence(records: Iterator[GameRecord] | list[GameRecord]) -> dict[str, tuple[Any, ...]]:
    return {record.id: (record.black_player, record.white_player, record.moves, record.outcome) for record in records}


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


def records_of(played: Tournament, upsets: int = 5) -> list[GameRecord]:
    """The earlier in the list of players wins, but for every so many games."""
    names = list(played.players)
    found = []
    for number, pairing in enumerate(pairings_of(played)):
        strong, weak = sorted((pairing.black, pairing.white), key=names.index)
        found.append(record_of(played, pairing, weak if number % upsets == 1 else strong))
    return found


def cycle_of(played: Tournament) -> list[GameRecord]:
    """Rock beats scissors, scissors beat paper, paper beats rock."""
    beats = {frozenset(("rock", "scissors")): "rock", frozenset(("paper", "rock")): "paper"}
    return [
        record_of(played, pairing, beats.get(frozenset((pairing.black, pairing.white)), "scissors"))
        for pairing in pairings_of(played)
    ]


def table_of(played: Tournament, records: list[GameRecord]) -> Standings:
    table = Standings({entry.identity: name for name, entry in played.players.items()})
    for record in records:
        table.add([record])
    return table


def test_the_crosstable_has_everybodys_points_against_everybody() -> None:
    played = tournament_of("a", "b", "c")
    winners = {"ab": ["a", "a", "b", None], "ac": ["a", "a", "a", "a"], "bc": ["c", "b", "b", "b"]}
    records = []
    for pair, won in winners.items():
        for pairing, winner in zip(between(pairings_of(played), *pair), won, strict=True):
            records.append(record_of(played, pairing, winner))
    table = table_of(played, records)
    assert table.games == 12
    assert table.meetings("a", "b").points == 2.5
    assert table.meetings("b", "a").points == 1.5
    assert table.meetings("c", "a").points == 0
    assert (table.meetings("b").points, table.meetings("b").games) == (4.5, 8)
    assert table.meetings("a", "a").games == 0
    assert table.endings == [(Ending.SCORE, 12)]
    assert table.lengths == [24] * 12
    assert table.seconds_a_move("a") == pytest.approx(1.5 / 10)


def test_a_game_of_others_is_refused_and_one_under_another_name_is_kept() -> None:
    played = tournament_of("a", "b", "c")
    table = table_of(tournament_of("a", "b"), [])
    with pytest.raises(ValueError, match="is not one of a, b"):
        table.add([record_of(played, between(pairings_of(played), "a", "c")[0], "a")])
    assert table.games == 0
    table = Standings({played.players["a"].identity: "renamed", played.players["b"].identity: "b"})
    table.add([record_of(played, between(pairings_of(played), "a", "b")[0], "a")])
    assert table.meetings("renamed", "b").points == 1


def test_the_ratings_on_the_screen_are_those_of_the_store(store: Store) -> None:
    played = tournament_of("a", "b", "c", "d", games_each=10)
    records = records_of(played)
    store.append(records)
    store.add_players({entry.identity: entry for entry in played.players.values()})
    store.append([replace(records[0], id="another/1", event="another")])
    stored, live = league(store), table_of(played, records).league()
    assert stored is not None and live is not None
    assert live.standings == stored.standings
    assert live.anchor == stored.anchor == "d"
    assert [standing.name for standing in live.standings] == ["a", "b", "c", "d"]


# --- The screen ---


def running_view(played: Tournament, clock: Clock) -> TournamentView:
    """Half of the games from earlier, then five more, the last one forfeited, and one to watch."""
    view = TournamentView(played, clock)
    records = records_of(played)
    half = len(records) // 2
    view.add(Update(tuple(records[:half]), resumed=True))
    clock.now += 10
    watched = pairings_of(played)[half + 6]
    view.add(Update(snapshots=(Snapshot(watched, (*watched.opening, 24), (None,) * 5),), workers=2))
    clock.now += 20
    pairing = pairings_of(played)[half + 4]
    crashed = record_of(played, pairing, pairing.white, Ending.CRASH, f"{pairing.black}: broke")
    view.add(Update((*records[half : half + 4], crashed), workers=2))
    return view


NAMES = [
    ("a", "b", "c", "d"),
    tuple(f"checkpoint:runs/long-name-{n},temperature=0.25" for n in range(9)),
    ("碁" * 30, "b"),
]


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("names", NAMES, ids=["short", "many", "wide"])
@pytest.mark.parametrize("size", [7, 19])
def test_a_frame_fits_the_terminal_and_ranks_the_players(
    width: int, height: int, names: tuple[str, ...], size: int
) -> None:
    played = tournament_of(*names, games_each=20, size=size)
    lines = lines_of(screen_of(running_view(played, Clock())), width, height)
    assert len(lines) < height
    text = " ".join(" ".join(lines).split())
    done = played.games // 2 + 5
    assert f"{done} of {played.games}" in text
    assert "0:30" in text and "left" in text and "games/s" in text
    ranks = [line for line in lines if re.match(r" ?\d+ \S.* \d+ +\d+\.\d %", line)]
    assert len(ranks) == len(names) or re.fullmatch(rf"and {len(names) - len(ranks)} more", lines[-1])
    assert any(sign in ranks[0] for sign in ("±", "≥", " to "))


def test_standings_crosstable_last_games_and_a_board_stand_side_by_side() -> None:
    lines = lines_of(screen_of(running_view(tournament_of("a", "b", "c", "d", games_each=20), Clock())), 100, 40)
    assert lines[0].startswith("league ")
    assert lines[0].endswith("round robin, 4 bots, 7x7, cgos rules, komi 7")
    head = next(line for line in lines if line.startswith(" # player"))
    assert re.search(r"Elo games +score +1 +2 +3 +4", head)
    first = lines[lines.index(head) + 1]
    assert re.search(r" 1 a .* ± .* 100\.0 % +× +\d+ +\d+ +\d+|1 a .* % +× +\d", first)
    assert any(line.startswith(" 4 d ") and " 0 " in line for line in lines)
    games = lines[next(n for n, line in enumerate(lines) if line.startswith("Last games")) + 1 :]
    assert re.match(r"● \w +○ \w +W\+F +crash", games[0])
    assert re.match(r"● \w +○ \w +[BW]\+2\.5 +score", games[1])
    assert any("A B C D E F G" in line for line in lines)
    assert any("move 5" in line for line in lines)


def test_standings_that_are_too_long_say_how_many_are_left_out_and_ascii_consoles_get_ascii_only() -> None:
    lines = lines_of(screen_of(running_view(tournament_of(*(f"bot{n}" for n in range(20))), Clock())), 60, 14)
    assert len(lines) == 13
    assert lines[-1] == "and 14 more"
    view = running_view(tournament_of("ä", "碁", "c", games_each=10), Clock())
    assert "\n".join(lines_of(screen_of(view), 120, 40, encoding="ascii")).isascii()


def test_before_the_first_game_the_layout_is_the_later_one() -> None:
    played = tournament_of("a", "b", "c")

    def head(lines: list[str]) -> int:
        return next(number for number, line in enumerate(lines) if line.startswith(" # player"))

    for width, height in SIZES:
        view = TournamentView(played, Clock())
        view.add(Update(resumed=True))
        before = lines_of(screen_of(view), width, height)
        assert "starting" in " ".join(before)
        view.add(Update((records_of(played)[0],), workers=1))
        after = lines_of(screen_of(view), width, height)
        assert len(before) == len(after)
        assert head(before) == head(after)


def test_a_panel_or_lines_tell_how_far_each_pairing_is() -> None:
    clock, played = Clock(), tournament_of("a", "b", "c", "d", games_each=20)
    view, pairings = TournamentView(played, clock), pairings_of(played)
    ab, cd = between(pairings, "a", "b"), between(pairings, "c", "d")
    view.add(Update(tuple(record_of(played, pairing, "a") for pairing in ab[:4]), resumed=True))
    view.add(Update(snapshots=(snapshot_of(played, ab[4], "D4"), snapshot_of(played, cd[0], "D4")), workers=1))
    clock.now += 30
    view.add(Update(tuple(record_of(played, pairing, "a") for pairing in ab[4:10]), workers=1))
    view.add(Update(snapshots=(snapshot_of(played, ab[10], ""),)))
    left = 30 * 10 / 6  # of the 16 games since the start, 6 took 30 s
    for width, height in ((60, 40), (120, 40), (200, 60)):
        lines = lines_of(screen_of(view), width, height)
        start = next(n for n, line in enumerate(lines) if "Under way" in line)
        assert re.search(rf"\ba – b +10/20 +0:{left:.0f} left", lines[start + 1])
        assert re.search(r"\bc – d +0/20\b", lines[start + 2])
    assert not any("Under way" in line for line in lines_of(screen_of(view), 80, 14))


def test_of_many_pairings_those_with_most_to_play_are_shown() -> None:
    played = tournament_of(*"abcdef", games_each=20)
    view = TournamentView(played, Clock())
    pairings = pairings_of(played)
    snapshots = tuple(snapshot_of(played, pairing, "D4") for pairing in pairings[15:30])
    view.add(Update((record_of(played, pairings[0], "a"),), snapshots=snapshots, workers=1))
    words = words_of(lines_of(screen_of(view), 60, 40))
    assert "Under way, 4 of 15" in words
    wide = words_of(lines_of(screen_of(view), 200, 60))
    assert "Under way, " not in wide
    assert wide.count("/20") == 15


def test_a_ladder_shows_its_round_and_the_widest_interval_between_neighbours() -> None:
    clock, played = Clock(), ladder_of("a", "b", "c", games=100, precision=30.0)
    view = TournamentView(played, clock)
    for width, height in SIZES:
        assert "widest interval" in words_of(lines_of(screen_of(view), width, height))
    first = pairings_of(played)
    winners = [sorted((pairing.black, pairing.white))[pairing.number == 3] for pairing in first]
    records = [record_of(played, pairing, winner) for pairing, winner in zip(first, winners, strict=True)]
    view.add(Update(tuple(records[:4]), snapshots=(snapshot_of(played, first[4], "D4"),), workers=1))
    words = words_of(lines_of(screen_of(view), 80, 24))
    assert "round 1" in words and "ladder, 3 bots" in words
    view.add(Update(tuple(records[4:]), workers=1))
    second = [pairing for pairing in played.pairings(records) if "/0002-" in pairing.id]
    view.add(Update(snapshots=(snapshot_of(played, second[0], "D4"),), workers=1))
    clock.now += 1
    view.add(Update())
    gap = widest_gap(view.league.ratings)  # type: ignore[union-attr]
    above, below = (view.tally.players[identity] for identity in gap[:2])
    for width, height in SIZES:
        words = words_of(lines_of(screen_of(view), width, height))
        assert f"widest interval: {above} – {below} ±{gap[2]:.0f} (to within 30)" in words
        assert "round 2" in words


def test_results_that_no_ratings_explain_raise_an_alarm_while_it_goes_on() -> None:
    played = tournament_of("rock", "paper", "scissors", games_each=20)
    view = TournamentView(played, Clock())
    view.add(Update(tuple(cycle_of(played)), workers=1))
    for width, height in SIZES:
        line = next(line for line in lines_of(screen_of(view), width, height) if line.startswith("! "))
        assert re.match(r"! \w+ against \w+ (20-0|0-20), ", line)
    quiet = TournamentView(played, Clock())
    quiet.add(Update(tuple(records_of(played)), workers=1))
    assert quiet.warning == ""


def test_everybody_is_rated_once_a_second_and_in_the_end() -> None:
    clock, played = Clock(), tournament_of("a", "b", games_each=10)
    view, records = TournamentView(played, clock), records_of(played)

    def rated() -> int:
        return sum(standing.games for standing in view.league.standings) // 2

    view.add(Update((records[0],), workers=1))
    assert rated() == 1
    for record in records[1:5]:
        clock.now += 0.1
        view.add(Update((record,), workers=1))
    assert rated() == 1
    clock.now += 1
    view.add(Update())
    assert rated() == 5
    view.add(Update(tuple(records[5:]), workers=1))
    assert rated() == 5
    view.finish()
    assert rated() == 10


def whole(played: Tournament, closed: list[str]) -> Iterator[Update]:
    try:
        yield Update(resumed=True)
        for record in records_of(played):
            yield Update((record,), workers=2)
    finally:
        closed.append("closed")


def test_a_pipe_gets_plain_lines_and_the_end_is_summed_up() -> None:
    played, closed = tournament_of("a", "b", "c", games_each=10), list[str]()
    console = console_of(100, 25, terminal=False)
    table = show(played, whole(played, closed), console, Clock()).tally
    assert table.games == 30 and closed == ["closed"]
    text = output_of(console)
    assert not CONTROL.search(text)
    lines = text.splitlines()
    assert lines[0] == "league: round robin of 3 bots, 30 games, 7x7, cgos rules, komi 7"
    assert len([line for line in lines if re.match(r"\d+ of 30, [abc] ", line)]) == 9
    assert "league: a is first after 30 games" in lines
    assert any(re.match(r"1 +a +\+\d+ \(\+\d+ to \+\d+\) +20 +\d\d\.\d %", line) for line in lines)
    assert any(re.match(r"3 +c +0 +20 +\d+\.\d %", line) for line in lines)
    assert any(re.search(r"1 +a +\d+(\.5)?/10 +\d+(\.5)?/10", line) for line in lines)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_terminal_is_left_with_the_standings_and_its_cursor(width: int, height: int) -> None:
    played, closed = tournament_of("a", "b", "c"), list[str]()
    console = console_of(width, height)
    show(played, whole(played, closed), console)
    text = output_of(console)
    assert closed == ["closed"]
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    plain = re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", text)
    assert max(cell_len(line) for line in plain.splitlines()) <= width
    assert "league: a is first after 12 games" in plain
