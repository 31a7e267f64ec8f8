"""Games that are given to a side before their end: by which rules, in whose words, and which are played on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_bots import scripted

from arena import ConfigError
from arena.contract.adjudication import OFF, Adjudication
from arena.contract.bot import Limits
from arena.go.coords import BLACK, WHITE, Colour
from arena.go.game import Ending, Rules
from arena.go.record import GameRecord
from arena.match.game_loop import GameLoop
from arena.match.schedule import Pairing

SEVEN = Rules.preset("cgos", 7)
AGREE = Adjudication(agree=0.02, turns=3, play_on=0.0)
Rates = list[float | None]


def loser_by(rules: Adjudication, rates: Rates, first: Colour) -> Colour | None:
    verdict = rules.verdict(rates, first)
    return None if verdict is None else verdict[0]


def told(*pairs: tuple[float | None, float | None]) -> Rates:
    """What Black and White said, turn by turn."""
    return [rate for pair in pairs for rate in pair]


# --- The rules ---


@pytest.mark.parametrize(
    ("rates", "loser"),
    [
        (told((0.99, 0.01), (0.99, 0.01), (0.99, 0.01)), WHITE),
        (told((0.01, 0.99), (0.01, 0.99), (0.01, 0.99)), BLACK),
        (told((0.02, 0.98), (0.02, 0.98), (0.02, 0.98)), BLACK),
        (told((0.03, 0.99), (0.01, 0.99), (0.01, 0.99)), None),
        (told((0.01, 0.97), (0.01, 0.99), (0.01, 0.99)), None),
        (told((0.5, 0.5), (0.01, 0.99), (0.01, 0.99), (0.01, 0.99)), BLACK),
        (told((0.01, 0.99), (0.01, 0.99)), None),
        (told((0.99, 0.01), (0.99, 0.01), (0.99, None)), None),
        (told((None, 0.01), (None, 0.01), (None, 0.01)), None),
        (told((0.99, 0.99), (0.99, 0.99), (0.99, 0.99)), None),
        ([0.99, 0.01, 0.99, 0.01, 0.99], None),
        ([], None),
    ],
)
def test_both_sides_agree_for_so_many_turns_each(rates: Rates, loser: Colour | None) -> None:
    assert loser_by(AGREE, rates, BLACK) is loser
    assert loser_by(AGREE, rates, WHITE) is (None if loser is None else loser.opponent)


@pytest.mark.parametrize(
    ("rates", "loser"),
    [
        (told((0.04, 0.5), (0.04, 0.5)), BLACK),
        (told((0.04, None), (0.04, None)), BLACK),
        (told((None, 0.04), (None, 0.04)), WHITE),
        (told((0.05, 0.5), (0.04, 0.5)), None),
        (told((0.04, 0.5), (None, 0.5), (0.04, 0.5)), None),
        (told((0.04, 0.04), (0.04, 0.04)), None),
    ],
)
def test_one_side_gives_up_unless_both_do(rates: Rates, loser: Colour | None) -> None:
    assert loser_by(Adjudication(agree=0.0, resign=0.05, turns=2), rates, BLACK) is loser


@given(st.lists(st.floats(0, 1), max_size=30))
def test_switched_off_no_game_is_decided_and_the_share_played_on_is_the_one_asked_for(rates: list[float]) -> None:
    assert OFF.verdict(rates, BLACK) is None
    assert Adjudication.read("off") == OFF
    assert 150 <= sum(Adjudication(play_on=0.2).plays_on(seed) for seed in range(1000)) <= 250


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agree=0.6", "agree = 0.6 is out of range; allowed: from 0 to 0.5"),
        ("resign=nan", "resign = 'nan' is not a number"),
        ("play-on=2", "play_on = 2 is out of range; allowed: from 0 to 1"),
        ("turns=0", "turns = 0 is out of range; allowed: from 1"),
        ("turns=2.5", "turns = '2.5' is not a whole number"),
        ("agree=much", "agree = 'much' is not a number"),
        ("agree", "'agree' is not a rule=value"),
        ("turn=3", "unknown rule 'turn'; did you mean 'turns'?"),
    ],
)
def test_rules_that_can_not_be_are_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Adjudication.read(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# --- In games ---


def play(rules: Adjudication, black: str, white: str, seeds: range = range(1), at: int = 8) -> list[GameRecord]:
    """One game for each seed, side by side, in the order of the seeds."""
    players = {f"{name} {number}": scripted(name, at=at).build() for number, name in enumerate((black, white))}
    loop = GameLoop(players, SEVEN, dict.fromkeys(players, Limits(deadline=600.0)), rules)
    for seed in seeds:
        loop.start_game(Pairing(f"event/{seed:05}", seed, *players, opening=(16, 30), seed=seed))
    records: list[GameRecord] = []
    while loop.live_games:
        records += loop.play_round()
    return sorted(records, key=lambda record: record.seed)


def test_a_game_that_both_have_given_up_for_one_side_ends_there() -> None:
    record = play(AGREE, "PUNDIT", "PUNDIT")[0]
    assert (record.outcome.winner, record.outcome.ending, record.outcome.margin) == (BLACK, Ending.ADJUDICATED, None)
    assert not record.outcome.ending.is_forfeit
    assert record.reason == "both sides gave PUNDIT 1 at most 2 % for 3 turns"
    assert record.adjudged is BLACK
    assert len(record.moves) == 8 + 6


def test_a_game_played_on_keeps_whom_it_was_given_to_and_how_it_ended() -> None:
    record = play(Adjudication(play_on=1.0), "PUNDIT", "PUNDIT")[0]
    ended = play(OFF, "PUNDIT", "PUNDIT")[0]
    assert record.adjudged is BLACK
    assert ended.adjudged is None
    assert (record.moves, record.outcome, record.reason) == (ended.moves, ended.outcome, "")
    assert record.outcome.ending is Ending.SCORE


def test_the_seed_decides_which_games_are_played_on() -> None:
    rules = Adjudication(play_on=0.5)
    records = play(rules, "PUNDIT", "PUNDIT", range(10))
    ended = [record.outcome is not None and record.outcome.ending is Ending.ADJUDICATED for record in records]
    assert ended == [not rules.plays_on(seed) for seed in range(10)]
    assert 0 < sum(ended) < 10


def test_a_game_of_a_bot_that_tells_no_win_rate_goes_to_its_end_and_a_resignation_stays_one() -> None:
    for record in (*play(AGREE, "GOOD", "PUNDIT", range(2), at=0), *play(AGREE, "PUNDIT", "GOOD", range(2), at=0)):
        assert (record.outcome.ending, record.adjudged) == (Ending.SCORE, None)
    record = play(Adjudication(turns=1), "PUNDIT", "RESIGNS")[0]
    assert (record.outcome.ending, record.adjudged) == (Ending.RESIGN, None)
