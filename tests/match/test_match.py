"""The game loop with scripted players: whose fault a fault is, what a move costs, and what is recorded."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from helpers.games import Clock
from helpers.scripted_bots import Good, scripted

from arena.contract.bot import Bot, Decision, Limits
from arena.contract.limits import TimeLeft
from arena.go.board import Board
from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Game, Rules
from arena.go.record import UNKNOWN, GameRecord, MoveStats
from arena.match.game_loop import GameLoop, LiveGame
from arena.match.schedule import Pairing

SEVEN = Rules.preset("cgos", 7)
OPENING = (16, 30)
LIMITS = Limits(deadline=600.0)  # kernels may be compiled meanwhile


def pairing(number: int, black: str, white: str) -> Pairing:
    """Game n has the seed 1000 + n."""
    return Pairing(f"event/{number:05}", number, black, white, OPENING, seed=1000 + number)


def pairings(games: int) -> list[Pairing]:
    """Colours change from game to game."""
    return [pairing(n, *(("good", "bad") if n % 2 else ("bad", "good"))) for n in range(games)]


def play(bots: Mapping[str, Bot], games: Iterable[Pairing], **loop: Any) -> dict[int, GameRecord]:
    """All the games at once, by number; ``limits`` are those of players by name."""
    limits = dict.fromkeys(bots, LIMITS) | loop.pop("limits", {})
    place = GameLoop(bots, **({"rules": SEVEN, "limits": limits} | loop))
    for game in games:
        place.start_game(game)
    records = {}
    while place.live_games:
        records |= {int(record.id.rpartition("/")[2]): record for record in place.play_round()}
    return records


def players(kind: str, **settings: Any) -> dict[str, Bot]:
    return {"bad": scripted(kind, **settings).build(), "good": scripted("GOOD").build()}


class Watched(Good):
    """A good player; ``see`` is called with each game, when it has decided, and with the limits."""

    def __init__(self, see: Callable[[Game, Limits], object]):
        super().__init__(scripted("GOOD").config)
        self._see = see

    def choose(self, game: Game, limits: Limits) -> Decision:
        decision = super().choose(game, limits)
        self._see(game, limits)
        return decision


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Scripted players don't wait: this clock goes on instead."""
    passing = Clock()
    monkeypatch.setattr("helpers.scripted_bots.wait", passing.wait)
    return passing


@pytest.fixture(scope="module")
def undisturbed() -> dict[int, GameRecord]:
    """Games of good players; by then every kernel is compiled that a clock could have to wait for."""
    return play(players("GOOD"), pairings(10))


OWNERSHIP = "bad: TypeError: ownership is not an array of 49 numbers from -1 to 1"


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("kind", "ending", "reason"),
    [
        ("CRASH", Ending.CRASH, "bad: RuntimeError: no idea what to play"),
        ("FAULT", Ending.CRASH, "bad: the engine has left"),
        ("LATE", Ending.TIME, "bad: the engine thinks and thinks"),
        ("OCCUPIED", Ending.ILLEGAL, "bad: illegal move 9: "),
        ("OUTSIDE", Ending.ILLEGAL, "bad: illegal move 9: 50 is not a move on a 7x7 board"),
        ("WORD", Ending.CRASH, "bad: TypeError: a str is not a Decision"),
        ("HALF", Ending.CRASH, "bad: TypeError: 2.5 is not a move"),
        ("BOAST", Ending.CRASH, "bad: TypeError: 'high' is not a win rate"),
        ("UNDECIDED", Ending.CRASH, "bad: TypeError: nan is not a win rate"),
        ("VAGUE", Ending.CRASH, OWNERSHIP),
        ("LISTED", Ending.CRASH, OWNERSHIP),
        ("PICKY", Ending.CRASH, "bad: RuntimeError: one of these games is not to my taste"),
        ("GENEROUS", Ending.CRASH, "bad: TypeError: choose_all gave 2 decisions for 1 games"),
    ],
)
def test_a_fault_is_its_own_bots_forfeit_and_leaves_other_games_as_they_would_have_been(
    kind: str, ending: Ending, reason: str, undisturbed: dict[int, GameRecord]
) -> None:
    records = play(players(kind, seed=1004), pairings(10))
    guilty = records.pop(4)
    assert guilty.black == "bad" and guilty.outcome is not None
    assert (guilty.outcome.winner, guilty.outcome.ending, guilty.outcome.margin) == (WHITE, ending, None)
    assert guilty.reason.startswith(reason) and "\n" not in guilty.reason
    assert guilty.moves == undisturbed[4].moves[:8]
    for n, record in records.items():
        assert (record.moves, record.outcome) == (undisturbed[n].moves, undisturbed[n].outcome)
        assert not (record.reason or record.fault_details)


# --- Time ---


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ("main=0.2,lag=0", "out of time: 0.30 s for a move, with 0.20 s left"),
        ("main=0.1,lag=0.1", "out of time: 0.30 s for a move, with 0.10 s left"),
        ("main=0.1,byoyomi=0.1,lag=0", "out of time: 0.30 s for a move, with 0.20 s left"),
        ("seconds=0.2,lag=0.01", "took 0.3 s for a move; the limit is 0.21 s"),
        ("main=60,deadline=0.2", "took 0.3 s for a move; the limit is 0.2 s"),
        *((limits, None) for limits in ("byoyomi=9", "seconds=0.01", "main=0.1,lag=9")),
    ],
)
def test_a_move_beyond_what_the_clock_has_and_the_lag_forfeits_on_time(
    limits: str, reason: str | None, clock: Clock
) -> None:
    read = {"bad": Limits.read(limits, "")}
    record = play(players("SLOW"), [pairing(1, "bad", "good")], limits=read, now=clock)[1]
    if reason is None:
        assert record.outcome.ending is Ending.RESIGN
    else:
        assert (record.outcome.winner, record.outcome.ending) == (WHITE, Ending.TIME)
        assert record.reason == f"bad: {reason}"


@pytest.mark.usefixtures("undisturbed")
def test_a_bot_is_told_how_long_to_think_and_what_its_clock_shows() -> None:
    told: dict[str, list[Limits]] = {"a": [], "b": []}
    bots = {name: Watched(lambda _, limits, name=name: told[name].append(limits)) for name in told}  # type: ignore[misc]
    limits = {"a": Limits(main=100, byoyomi=30, stones=3), "b": Limits(seconds=2, simulations=7)}
    record = play(bots, [pairing(1, "a", "b")], limits=limits)[1]
    assert set(told["b"]) == {limits["b"]}
    assert all((mine.main, mine.byoyomi, mine.stones) == (100, 30, 3) for mine in told["a"])
    assert told["a"][0].left == TimeLeft(100, 0)
    seconds = [mine.left.seconds for mine in told["a"] if mine.left is not None]
    assert seconds == sorted(seconds, reverse=True) and 100 - seconds[-1] <= record.black_seconds + 0.001
    assert told["a"][0].seconds == pytest.approx(100 / 18.6 + 10 - 0.2)  # half of the moves that 0.8 * 49 leave
    assert told["a"][0].allowed == pytest.approx(130.2)


def test_each_game_has_its_own_clock_and_is_charged_its_own_moves_and_an_equal_part_of_a_call_for_many(
    clock: Clock,
) -> None:
    games = [pairing(n, "bad", "good") for n in range(3)]
    for record in play(players("PONDERER"), games, limits={"bad": Limits(main=0.42, lag=0)}, now=clock).values():
        assert record.outcome.ending is Ending.TIME and record.black_seconds == pytest.approx(9 * 0.05)
        assert len(record.moves) - 2 == 2 * 8
    one, other = pairing(1, "bad", "good"), pairing(2, "good", "bad")
    records = play(players("SLOW", seed=1002, at=10), [one, other], now=clock)
    assert (records[1].black_seconds, records[2].black_seconds) == (0, 0)
    assert records[2].white_seconds == pytest.approx(0.3)
    records = play(players("DELIBERATE"), games, now=clock)
    assert [record.black_seconds for record in records.values()] == pytest.approx([0.1] * 3)


def test_a_game_that_is_slow_among_many_is_late_alone(clock: Clock) -> None:
    bad = players("SLUGGISH", seed=1004, at=12)
    records = play(bad, pairings(10), limits={"bad": Limits(deadline=0.2)}, now=clock)
    assert records.pop(4).reason == "bad: took 0.3 s for a move; the limit is 0.2 s"
    assert [record.reason for record in records.values()] == [""] * 9


def test_what_moves_overrun_their_clock_by_adds_up_over_a_game() -> None:
    """A bot that took 0.16 s a move for ever on ``main=1`` never ran out of time."""
    clock = Clock()
    bots = players("GOOD") | {"bad": Watched(lambda *_: clock.wait(0.16))}
    record = play(bots, [pairing(1, "bad", "good")], limits={"bad": Limits(main=1)}, now=clock)[1]
    assert record.reason.startswith("bad: out of time") and record.outcome.ending is Ending.TIME
    assert sum(fact.seconds for fact in record.facts[2::2]) == pytest.approx(7 * 0.16)  # of 1.2 s with the allowance


# --- What a bot does to its game ---


def takes_stones(game: Game) -> None:
    """Clears the board but for its own first stone."""
    own = game.to_play
    game.board = Board(game.rules.size)
    game.board.put(0, own)


def spoils_the_memory(game: Game) -> None:
    game.board.array["colour"][:] = 0
    game.hashes[:] = 0
    game.moves.clear()


CHANGES = (
    lambda game: game.play(int(game.legal_moves().nonzero()[0][0])),
    takes_stones,
    spoils_the_memory,
    lambda game: game.resign(game.to_play),
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_bot_that_changes_its_game_changes_nobody_elses(change: Any, undisturbed: dict[int, GameRecord]) -> None:
    """Its opponent forfeited, or lost the stones that were taken off."""
    seen: dict[int, Game] = {}

    def meddle(game: Game, _: Limits) -> None:
        assert seen.setdefault(game.seed, game) is game  # bots keep what they know by the object
        change(game)

    bots = players("GOOD") | {"bad": Watched(meddle)}
    for number, record in play(bots, pairings(4)).items():
        assert (record.moves, record.outcome) == (undisturbed[number].moves, undisturbed[number].outcome)


# --- Records ---


def test_a_record_names_its_players_event_opening_and_seed_also_of_a_game_lost_with_its_process(
    undisturbed: dict[int, GameRecord],
) -> None:
    record = undisturbed[8]
    assert (record.id, record.event, record.black, record.white) == ("event/00008", "event", "bad", "good")
    assert (record.moves[:2], record.opening, record.seed, record.rules) == (OPENING, 2, 1008, SEVEN)
    assert record.replay().outcome == record.outcome
    lost = LiveGame.begin(pairing(1, "a", "b"), SEVEN, [(3, MoveStats(0.25, None, 7, 0.5))])
    lost.forfeit(WHITE, Ending.CRASH, "its process ended with SIGSEGV", "stack")
    record = lost.record()
    assert (record.outcome.winner, record.outcome.ending) == (BLACK, Ending.CRASH)
    assert (record.reason, record.fault_details) == ("b: its process ended with SIGSEGV", "stack")
    assert (record.moves, record.black_seconds) == ((*OPENING, 3), 0.5)
    assert record.facts[2] == MoveStats(0.25, None, 7, 0.5)


def test_a_record_keeps_what_the_bots_reported_of_each_move_and_nothing_where_they_did_not(
    undisturbed: dict[int, GameRecord],
) -> None:
    assert undisturbed[1].facts == ()
    record = play(players("PUNDIT", at=3), [pairing(1, "bad", "good")])[1]
    assert len(record.facts) == len(record.moves) and record.facts[:2] == (UNKNOWN, UNKNOWN)
    assert [fact.win_rate for fact in record.facts[2:6]] == [0.5, None, 0.99, None]
    assert all(fact.seconds is not None for fact in record.facts[2:])
