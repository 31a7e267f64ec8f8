"""A room of scripted players: whose fault a fault is, and that it is nobody else's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from scripted_bots import scripted

from arena.bot import Bot, Limits
from arena.go.game import Ending, Rules
from arena.go.moves import BLACK, WHITE
from arena.go.record import Record
from arena.match import Room, Turn, lost_record
from arena.registry import Registry
from arena.schedule import Pairing

SEVEN = Rules.preset("cgos", 7)
OPENING = (16, 30)
LIMITS = Limits(deadline=600.0)  # kernels may be compiled meanwhile


def pairing(number: int, black: str, white: str) -> Pairing:
    return Pairing(f"event/{number:05}", number, black, white, OPENING, seed=1000 + number)


def pairings(first: str, second: str, games: int) -> list[Pairing]:
    """Colours change from game to game; game 1000 + n has the seed n."""
    return [pairing(n, *((second, first) if n % 2 else (first, second))) for n in range(games)]


def play(players: Mapping[str, Bot], games: Iterable[Pairing], **room: Any) -> dict[int, Record]:
    """All the games at once, by number."""
    room = {"rules": SEVEN, "limits": LIMITS} | room
    place = Room(players, **room)
    for game in games:
        place.seat(game)
    records = {}
    while place.tables:
        for record in place.play_round():
            records[int(record.id.rpartition("/")[2])] = record
    return records


def players(kind: str, **settings: Any) -> dict[str, Bot]:
    return {"bad": scripted(kind, **settings).build(), "good": scripted("GOOD").build()}


FAULTS = [
    ("CRASH", Ending.CRASH, "bad: RuntimeError: no idea what to play"),
    ("FAULT", Ending.CRASH, "bad: the engine has left"),
    ("LATE", Ending.TIME, "bad: the engine thinks and thinks"),
    ("OCCUPIED", Ending.ILLEGAL, "bad: illegal move 9: "),
    ("OUTSIDE", Ending.ILLEGAL, "bad: illegal move 9: 50 is no move on a 7x7 board"),
    ("NEGATIVE", Ending.ILLEGAL, "bad: illegal move 9: -1 is no move on a 7x7 board"),
    ("WORD", Ending.CRASH, "bad: TypeError: a str is no Decision"),
    ("NOTHING", Ending.CRASH, "bad: TypeError: a NoneType is no Decision"),
    ("HALF", Ending.CRASH, "bad: TypeError: 2.5 is no move"),
    ("BOAST", Ending.CRASH, "bad: TypeError: 'high' is no win rate"),
    ("PICKY", Ending.CRASH, "bad: RuntimeError: one of these games is not to my taste"),
    ("GENEROUS", Ending.CRASH, "bad: TypeError: choose_all gave 2 decisions for 1 games"),
]


@pytest.mark.parametrize(("kind", "ending", "reason"), FAULTS)
def test_a_fault_is_its_own_bots_forfeit_with_the_reason_in_one_line(kind: str, ending: Ending, reason: str) -> None:
    record = play(players(kind), [pairing(1, "bad", "good")])[1]
    assert record.outcome is not None
    assert (record.outcome.winner, record.outcome.ending, record.outcome.margin) == (WHITE, ending, None)
    assert record.reason.startswith(reason)
    assert "\n" not in record.reason
    assert len(record.moves) == 8
    assert record.outcome.ending.is_forfeit


@pytest.mark.parametrize("kind", [kind for kind, _, _ in FAULTS])
def test_one_guilty_game_among_many_leaves_the_others_as_they_would_have_been(kind: str) -> None:
    games = pairings("bad", "good", 10)
    undisturbed = play(players("GOOD"), games)
    records = play(players(kind, seed=1004), games)
    assert [n for n, record in records.items() if record.outcome and record.outcome.ending.is_forfeit] == [4]
    assert records[4].outcome is not None
    assert records[4].outcome.winner is (BLACK if records[4].white == "bad" else WHITE)
    assert records[4].moves == undisturbed[4].moves[:8]
    del records[4], undisturbed[4]
    assert {n: record.moves for n, record in records.items()} == {n: record.moves for n, record in undisturbed.items()}
    assert {n: record.outcome for n, record in records.items()} == {
        n: record.outcome for n, record in undisturbed.items()
    }
    assert not any(record.reason or record.dossier for record in records.values())


def test_the_dossier_of_a_crash_holds_its_traceback() -> None:
    record = play(players("CRASH"), [pairing(1, "good", "bad")])[1]
    assert record.outcome is not None
    assert record.outcome.winner is BLACK
    assert record.dossier.startswith("Traceback")
    assert "in misbehave" in record.dossier
    assert record.dossier.rstrip().endswith("what to play")


def test_a_move_that_takes_longer_than_the_deadline_forfeits_on_time() -> None:
    record = play(players("SLOW"), [pairing(1, "bad", "good")], limits=Limits(deadline=0.1))[1]
    assert record.outcome is not None
    assert (record.outcome.winner, record.outcome.ending) == (WHITE, Ending.TIME)
    assert record.reason.startswith("bad: took 0.")
    assert "the limit is 0.1 s" in record.reason


def test_each_game_is_charged_the_seconds_that_its_own_moves_took() -> None:
    games = [pairing(1, "bad", "good"), pairing(2, "good", "bad")]
    records = play(players("SLOW", seed=1002, at=10), games)
    assert records[2].white_seconds >= 0.3
    assert records[1].black_seconds < 0.3
    assert records[2].black_seconds < 0.3


def test_a_call_for_many_games_is_charged_in_equal_parts() -> None:
    records = play(players("DELIBERATE"), [pairing(n, "bad", "good") for n in range(3)])
    spent = [record.black_seconds for record in records.values()]
    assert min(spent) >= 0.1
    assert max(spent) - min(spent) < 0.002


def test_a_bot_with_a_call_for_many_games_is_called_once_a_round() -> None:
    turns: list[Turn | None] = []
    bots = {"many": scripted("MANY").build(), "one": scripted("GOOD").build()}
    room = Room(bots, SEVEN, LIMITS, on_turn=turns.append)
    for n in range(3):
        room.seat(pairing(n, "many", "one"))
    assert list(room.play_round()) == []
    assert turns == [Turn("many", 3), None, Turn("one", 1), Turn("one", 1), Turn("one", 1), None]


def test_a_watchdog_hears_of_a_call_before_it_is_made() -> None:
    heard: list[Turn | None] = []
    seen: list[Turn | None] = []

    class Watched(type(scripted("GOOD").build())):  # type: ignore[misc]
        def choose(self, game: Any, limits: Limits) -> Any:
            seen.append(heard[-1])
            return super().choose(game, limits)

    config = scripted("GOOD").config
    room = Room({"a": Watched(config), "b": Watched(config)}, SEVEN, LIMITS, on_turn=heard.append)
    room.seat(pairing(1, "a", "b"))
    list(room.play_round())
    assert seen == [Turn("a", 1), Turn("b", 1)]
    assert heard[-1] is None


def test_two_passes_a_resignation_and_the_move_limit_are_no_forfeits() -> None:
    both = {"a": scripted("PASSES").build(), "b": scripted("PASSES").build()}
    passed = play(both, [pairing(1, "a", "b")])[1]
    assert passed.outcome is not None
    assert passed.outcome.ending is Ending.SCORE
    assert len(passed.moves) == 10
    resigned = play(players("RESIGNS"), [pairing(1, "bad", "good")])[1]
    assert resigned.outcome is not None
    assert (resigned.outcome.winner, resigned.outcome.ending) == (WHITE, Ending.RESIGN)
    short = play(players("GOOD"), [pairing(1, "bad", "good")], rules=Rules.preset("cgos", 7, move_limit=20))[1]
    assert short.outcome is not None
    assert short.outcome.ending is Ending.MOVE_LIMIT
    assert len(short.moves) == 20
    assert not any(record.reason for record in (passed, resigned, short))


def test_a_record_names_its_players_event_opening_and_seed() -> None:
    record = play(players("GOOD"), [pairing(7, "bad", "good")])[7]
    assert (record.id, record.event, record.black, record.white) == ("event/00007", "event", "bad", "good")
    assert record.moves[:2] == OPENING
    assert (record.opening, record.seed, record.rules) == (2, 1007, SEVEN)
    assert record.replay().outcome == record.outcome


@pytest.mark.parametrize("name", ["random", "fast-random", "uct:playouts=12,memory=1"])
def test_a_game_is_the_same_whatever_is_played_beside_it(name: str) -> None:
    entry = Registry().resolve(name)
    games = pairings("a", "b", 12)
    together = play({"a": entry.build(), "b": entry.build()}, games)
    alone = {}
    for game in games:
        alone |= play({"a": entry.build(), "b": entry.build()}, [game])
    assert {n: record.moves for n, record in together.items()} == {n: record.moves for n, record in alone.items()}
    assert len({record.moves for record in together.values()}) == 12


def test_a_game_lost_with_its_process_is_recorded_from_its_opening() -> None:
    record = lost_record(pairing(1, "a", "b"), SEVEN, "b", Ending.CRASH, "its process ended with SIGSEGV", "stack")
    assert record.outcome is not None
    assert (record.outcome.winner, record.outcome.ending) == (BLACK, Ending.CRASH)
    assert record.reason == "b: its process ended with SIGSEGV"
    assert record.dossier == "stack"
    assert record.moves == OPENING
