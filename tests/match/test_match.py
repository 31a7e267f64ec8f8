"""A room of scripted players: whose fault a fault is, and that it is nobody else's."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from scripted_bots import scripted

from arena.contract.bot import Bot, Decision, Limits
from arena.contract.limits import TimeLeft
from arena.go.board import Board
from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Game, Rules
from arena.go.record import UNKNOWN, GameRecord, MoveStats
from arena.go.sgf import move_notes, read_remarks, write_sgf
from arena.match.game_loop import GameLoop, lost_record
from arena.match.schedule import Pairing
from arena.players.registry import Registry

SEVEN = Rules.preset("cgos", 7)
OPENING = (16, 30)
LIMITS = Limits(deadline=600.0)  # kernels may be compiled meanwhile


def pairing(number: int, black: str, white: str) -> Pairing:
    return Pairing(f"event/{number:05}", number, black, white, OPENING, seed=1000 + number)


def pairings(first: str, second: str, games: int) -> list[Pairing]:
    """Colours change from game to game; game 1000 + n has the seed n."""
    return [pairing(n, *((second, first) if n % 2 else (first, second))) for n in range(games)]


def play(players: Mapping[str, Bot], games: Iterable[Pairing], **loop: Any) -> dict[int, GameRecord]:
    """All the games at once, by number; ``limits`` are those of all players, or of each by name."""
    limits = loop.pop("limits", LIMITS)
    by_name = (
        {name: LIMITS for name in players} | limits if isinstance(limits, dict) else dict.fromkeys(players, limits)
    )
    place = GameLoop(players, **({"rules": SEVEN, "limits": by_name} | loop))
    for game in games:
        place.start_game(game)
    records = {}
    while place.live_games:
        for record in place.play_round():
            records[int(record.id.rpartition("/")[2])] = record
    return records


@pytest.fixture(scope="module")
def compiled() -> None:
    """Every kernel that a clock could have to wait for."""
    play(players("GOOD"), [pairing(1, "bad", "good")])


def players(kind: str, **settings: Any) -> dict[str, Bot]:
    return {"bad": scripted(kind, **settings).build(), "good": scripted("GOOD").build()}


FAULTS = [
    ("CRASH", Ending.CRASH, "bad: RuntimeError: no idea what to play"),
    ("FAULT", Ending.CRASH, "bad: the engine has left"),
    ("LATE", Ending.TIME, "bad: the engine thinks and thinks"),
    ("OCCUPIED", Ending.ILLEGAL, "bad: illegal move 9: "),
    ("OUTSIDE", Ending.ILLEGAL, "bad: illegal move 9: 50 is not a move on a 7x7 board"),
    ("NEGATIVE", Ending.ILLEGAL, "bad: illegal move 9: -1 is not a move on a 7x7 board"),
    ("WORD", Ending.CRASH, "bad: TypeError: a str is not a Decision"),
    ("NOTHING", Ending.CRASH, "bad: TypeError: a NoneType is not a Decision"),
    ("HALF", Ending.CRASH, "bad: TypeError: 2.5 is not a move"),
    ("BOAST", Ending.CRASH, "bad: TypeError: 'high' is not a win rate"),
    ("PROUD", Ending.CRASH, "bad: TypeError: 1.5 is not a win rate"),
    ("UNDECIDED", Ending.CRASH, "bad: TypeError: nan is not a win rate"),
    ("GREEDY", Ending.CRASH, "bad: TypeError: ownership is not an array of 49 numbers from -1 to 1"),
    ("VAGUE", Ending.CRASH, "bad: TypeError: ownership is not an array of 49 numbers from -1 to 1"),
    ("SQUARE", Ending.CRASH, "bad: TypeError: ownership is not an array of 49 numbers from -1 to 1"),
    ("LISTED", Ending.CRASH, "bad: TypeError: ownership is not an array of 49 numbers from -1 to 1"),
    ("PICKY", Ending.CRASH, "bad: RuntimeError: one of these games is not to my taste"),
    ("GENEROUS", Ending.CRASH, "bad: TypeError: choose_all gave 2 decisions for 1 games"),
]


@pytest.fixture(scope="module")
def undisturbed() -> dict[int, GameRecord]:
    return play(players("GOOD"), pairings("bad", "good", 10))


@pytest.mark.parametrize(("kind", "ending", "reason"), FAULTS)
def test_a_fault_is_its_own_bots_forfeit_and_leaves_other_games_as_they_would_have_been(
    kind: str, ending: Ending, reason: str, undisturbed: dict[int, GameRecord]
) -> None:
    records = play(players(kind, seed=1004), pairings("bad", "good", 10))
    assert [n for n, record in records.items() if record.outcome and record.outcome.ending.is_forfeit] == [4]
    guilty = records.pop(4)
    assert guilty.black == "bad" and guilty.outcome is not None
    assert (guilty.outcome.winner, guilty.outcome.ending, guilty.outcome.margin) == (WHITE, ending, None)
    assert guilty.reason.startswith(reason) and "\n" not in guilty.reason
    assert guilty.moves == undisturbed[4].moves[:8]
    for n, record in records.items():
        assert (record.moves, record.outcome) == (undisturbed[n].moves, undisturbed[n].outcome)
    assert not any(record.reason or record.fault_details for record in records.values())


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ("main=0.2,lag=0", r"out of time: 0\.[3-9]\d s for a move, with 0\.20 s left"),
        ("main=0.1,lag=0.1", r"out of time: 0\.[3-9]\d s for a move, with 0\.10 s left"),
        ("byoyomi=0.2,lag=0", r"out of time: 0\.[3-9]\d s for a move, with 0\.20 s left"),
        ("main=0.1,byoyomi=0.1,lag=0", r"out of time: 0\.\d\d s for a move, with 0\.\d\d s left"),
        ("seconds=0.2,lag=0.01", r"took 0\.[3-9] s for a move; the limit is 0\.21 s"),
        ("deadline=0.1", r"took 0\.[3-9] s for a move; the limit is 0\.1 s"),
        ("main=60,deadline=0.2", r"took 0\.[3-9] s for a move; the limit is 0\.2 s"),
        *((limits, None) for limits in ("main=9", "byoyomi=9", "seconds=0.01", "seconds=0.01,lag=9", "main=0.1,lag=9")),
    ],
)
def test_a_move_beyond_what_the_clock_has_and_the_lag_forfeits_on_time(
    compiled: None, limits: str, reason: str | None
) -> None:
    record = play(players("SLOW"), [pairing(1, "bad", "good")], limits={"bad": Limits.read(limits, "")})[1]
    if reason is None:
        assert record.outcome.ending is Ending.RESIGN
    else:
        assert (record.outcome.winner, record.outcome.ending) == (WHITE, Ending.TIME)
        assert re.match(f"bad: {reason}", record.reason), record.reason


def test_a_bot_is_told_how_long_to_think_and_what_its_clock_shows(compiled: None) -> None:
    told: dict[str, list[Limits]] = {"a": [], "b": []}

    class Listener(type(scripted("GOOD").build())):  # type: ignore[misc]
        def choose(self, game: Game, limits: Limits) -> Decision:
            told["a" if game.to_play is BLACK else "b"].append(limits)
            return super().choose(game, limits)

    bots = {name: Listener(scripted("GOOD").config) for name in told}
    limits = {"a": Limits(main=100, byoyomi=30, stones=3), "b": Limits(seconds=2, simulations=7)}
    record = play(bots, [pairing(1, "a", "b")], limits=limits)[1]
    assert set(told["b"]) == {limits["b"]}
    assert all((mine.main, mine.byoyomi, mine.stones) == (100, 30, 3) for mine in told["a"])
    shown = [mine.left for mine in told["a"] if mine.left is not None]
    assert shown[0] == TimeLeft(100, 0)
    seconds = [left.seconds for left in shown]
    assert seconds == sorted(seconds, reverse=True)
    assert 100 - seconds[-1] <= record.black_seconds + 0.001
    assert told["a"][0].seconds == pytest.approx(100 / 18.6 + 10 - 0.2)  # half of the moves that 0.8 * 49 leave
    assert told["a"][0].allowed == pytest.approx(130.2)


def test_every_game_has_its_own_clock(compiled: None) -> None:
    games = [pairing(n, "bad", "good") for n in range(3)]
    records = play(players("PONDERER"), games, limits={"bad": Limits(main=0.4, lag=0)})
    for record in records.values():
        assert record.outcome.ending is Ending.TIME
        assert 2 * 4 <= len(record.moves) - 2 <= 2 * 8
        assert record.black_seconds > 0.4


def test_each_game_is_charged_the_seconds_of_its_own_moves_and_an_equal_part_of_a_call_for_many() -> None:
    games = [pairing(1, "bad", "good"), pairing(2, "good", "bad")]
    records = play(players("SLOW", seed=1002, at=10), games)
    assert records[2].white_seconds >= 0.3
    assert records[1].black_seconds < 0.3
    assert records[2].black_seconds < 0.3
    records = play(players("DELIBERATE"), [pairing(n, "bad", "good") for n in range(3)])
    assert min(record.black_seconds for record in records.values()) >= 0.1
    assert records[1].black_seconds == records[2].black_seconds  # the first call was for game 0 alone


def test_a_game_that_is_slow_among_many_is_late_alone(compiled: None) -> None:
    bad = {"bad": scripted("SLUGGISH", seed=1004, at=12).build(), "good": scripted("GOOD").build()}
    records = play(bad, pairings("bad", "good", 10), limits={"bad": Limits(deadline=0.2)})
    assert records.pop(4).reason.startswith("bad: took 0.3 s for a move; the limit is 0.2 s")
    assert [record.reason for record in records.values()] == [""] * 9


def test_what_moves_overrun_their_clock_by_adds_up_over_a_game(compiled: None) -> None:
    """A bot that took 0.16 s a move for ever on ``main=1`` never ran out of time."""
    time = 0.0

    class Slow(type(scripted("GOOD").build())):  # type: ignore[misc]
        def choose(self, game: Game, limits: Limits) -> Decision:
            nonlocal time
            time += 0.16
            return super().choose(game, limits)

    bots = {"bad": Slow(scripted("GOOD").config), "good": scripted("GOOD").build()}
    record = play(bots, [pairing(1, "bad", "good")], limits={"bad": Limits(main=1)}, now=lambda: time)[1]
    assert record.reason.startswith("bad: out of time") and record.outcome.ending is Ending.TIME
    assert sum(fact.seconds for fact in record.facts[2::2]) == pytest.approx(7 * 0.16)  # of 1.2 s with the allowance


# --- What a bot does to its game ---


def plays_on(game: Game) -> None:
    game.play(int(game.legal_moves().nonzero()[0][0]))


def takes_stones(game: Game) -> None:
    """Clears the board but for its own first stone."""
    own = game.to_play
    game.board = Board(game.rules.size)
    game.board.put(0, own)


def spoils_the_memory(game: Game) -> None:
    game.board.array["colour"][:] = 0
    game.hashes[:] = 0
    game.moves.clear()


@pytest.mark.parametrize("change", [plays_on, takes_stones, spoils_the_memory, lambda game: game.resign(game.to_play)])
@pytest.mark.parametrize("raises", [False, True])
def test_a_bot_that_changes_its_game_changes_nobody_elses(
    change: Any, raises: bool, undisturbed: dict[int, GameRecord]
) -> None:
    """Its opponent forfeited, or lost the stones that were taken off."""

    class Meddler(type(scripted("GOOD").build())):  # type: ignore[misc]
        def choose(self, game: Game, limits: Limits) -> Decision:
            assert seen.setdefault(game.seed, game) is game  # bots keep what they know by the object
            decision = super().choose(game, limits)
            change(game)
            if raises:
                raise RuntimeError("meddled")
            return decision

    seen: dict[int, Game] = {}
    bots = {"bad": Meddler(scripted("GOOD").config), "good": scripted("GOOD").build()}
    for number, record in play(bots, pairings("bad", "good", 4)).items():
        if raises:
            assert record.reason == "bad: RuntimeError: meddled"
        else:
            assert (record.moves, record.outcome) == (undisturbed[number].moves, undisturbed[number].outcome)


def test_two_passes_a_resignation_and_the_move_limit_are_no_forfeits() -> None:
    both = {"a": scripted("PASSES").build(), "b": scripted("PASSES").build()}
    passed = play(both, [pairing(1, "a", "b")])[1]
    assert passed.outcome.ending is Ending.SCORE
    assert len(passed.moves) == 10
    resigned = play(players("RESIGNS"), [pairing(1, "bad", "good")])[1]
    assert (resigned.outcome.winner, resigned.outcome.ending) == (WHITE, Ending.RESIGN)
    short = play(players("GOOD"), [pairing(1, "bad", "good")], rules=Rules.preset("cgos", 7, move_limit=20))[1]
    assert short.outcome.ending is Ending.MOVE_LIMIT
    assert len(short.moves) == 20
    assert not any(record.reason for record in (passed, resigned, short))


def test_a_record_names_its_players_event_opening_and_seed_also_of_a_game_lost_with_its_process() -> None:
    record = play(players("GOOD"), [pairing(7, "bad", "good")])[7]
    assert (record.id, record.event, record.black, record.white) == ("event/00007", "event", "bad", "good")
    assert record.moves[:2] == OPENING
    assert (record.opening, record.seed, record.rules) == (2, 1007, SEVEN)
    assert record.replay().outcome == record.outcome
    lost = (pairing(1, "a", "b"), SEVEN, "b", Ending.CRASH, "its process ended with SIGSEGV", "stack")
    record = lost_record(*lost)
    assert (record.outcome.winner, record.outcome.ending) == (BLACK, Ending.CRASH)
    assert record.reason == "b: its process ended with SIGSEGV"
    assert record.fault_details == "stack"
    assert record.moves == OPENING
    known = lost_record(*lost, played=[(3, MoveStats(0.25, None, 7, 0.5))])
    assert (known.moves, known.outcome) == ((*OPENING, 3), record.outcome)
    assert known.facts[2] == MoveStats(0.25, None, 7, 0.5) and known.black_seconds == 0.5


def test_a_record_keeps_what_the_bots_reported_of_each_move_and_nothing_where_they_did_not() -> None:
    bots = {"a": scripted("PUNDIT", at=3).build(), "b": scripted("GOOD").build()}
    for names in ("ab", "bb"):
        loop = GameLoop(bots, SEVEN, dict.fromkeys(bots, LIMITS))
        loop.start_game(pairing(1, *names))
        record = next(record for _ in range(500) for record in loop.play_round())
        if names == "bb":
            assert record.facts == ()
            continue
        assert len(record.facts) == len(record.moves)
        assert record.facts[:2] == (UNKNOWN, UNKNOWN)
        assert [fact.win_rate for fact in record.facts[2:6]] == [0.5, None, 0.99, None]
        assert all(fact.seconds is not None for fact in record.facts[2:])
        assert move_notes(record)[5]["SBKV"] == ["99.00"] and move_notes(record)[5]["C"][0].startswith(
            "Black wins 99.0%"
        )
        assert read_remarks(write_sgf(record, move_notes(record)), record)[5].win_rate == 0.99


def test_a_game_is_the_same_whatever_is_played_beside_it() -> None:
    entry = Registry().resolve("uct:playouts=12,max_tree_mb=1")
    games = pairings("a", "b", 12)
    together = play({"a": entry.build(), "b": entry.build()}, games)
    alone = {}
    for game in games:
        alone |= play({"a": entry.build(), "b": entry.build()}, [game])
    assert {n: record.moves for n, record in together.items()} == {n: record.moves for n, record in alone.items()}
    assert len({record.moves for record in together.values()}) == 12
