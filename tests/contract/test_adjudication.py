"""Games that are given to a side before their end: by which rules, in whose words, and which are played on."""

import pytest
from helpers.scripted_bots import scripted
from hypothesis import given
from hypothesis import strategies as st

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


def reported(*pairs: tuple[float | None, float | None]) -> Rates:
    """What Black and White said, turn by turn."""
    return [rate for pair in pairs for rate in pair]


# --- The rules ---

RESIGN = Adjudication(agree=0.0, resign=0.05, turns=2)


@pytest.mark.parametrize(
    ("rules", "rates", "loser"),
    [
        (AGREE, reported(*[(0.99, 0.01)] * 3), WHITE),
        (AGREE, reported(*[(0.01, 0.99)] * 3), BLACK),
        (AGREE, reported(*[(0.02, 0.98)] * 3), BLACK),
        (AGREE, reported((0.5, 0.5), *[(0.01, 0.99)] * 3), BLACK),
        (AGREE, reported((0.03, 0.99), *[(0.01, 0.99)] * 2), None),
        (AGREE, reported((0.01, 0.97), *[(0.01, 0.99)] * 2), None),
        (AGREE, reported(*[(0.01, 0.99)] * 2), None),
        (AGREE, reported(*[(0.99, 0.01)] * 2, (0.99, None)), None),
        (AGREE, reported(*[(None, 0.01)] * 3), None),
        (AGREE, reported(*[(0.99, 0.99)] * 3), None),
        (AGREE, [], None),
        (RESIGN, reported(*[(0.04, 0.5)] * 2), BLACK),
        (RESIGN, reported(*[(0.04, None)] * 2), BLACK),
        (RESIGN, reported(*[(None, 0.04)] * 2), WHITE),
        (RESIGN, reported((0.05, 0.5), (0.04, 0.5)), None),
        (RESIGN, reported((0.04, 0.5), (None, 0.5), (0.04, 0.5)), None),
        (RESIGN, reported(*[(0.04, 0.04)] * 2), None),
    ],
)
def test_both_sides_agree_or_one_gives_up_for_so_many_turns(
    rules: Adjudication, rates: Rates, loser: Colour | None
) -> None:
    for first, expected in ((BLACK, loser), (WHITE, loser and loser.opponent)):
        verdict = rules.verdict(rates, first)
        assert (verdict and verdict[0]) is expected


@given(st.lists(st.floats(0, 1), max_size=30))
def test_switched_off_no_game_is_decided_and_the_share_played_on_is_the_one_asked_for(rates: list[float]) -> None:
    assert OFF.verdict(rates, BLACK) is None
    assert Adjudication.read("off") == OFF
    assert 150 <= sum(Adjudication(play_on=0.2).plays_on(seed) for seed in range(1000)) <= 250


def test_rules_that_can_not_be_are_refused_in_one_line() -> None:
    for text, message in (
        ("agree=0.6", "agree = 0.6 is out of range; allowed: from 0 to 0.5"),
        ("play-on=2", "play_on = 2 is out of range; allowed: from 0 to 1"),
        ("agree", "'agree' is not a rule=value"),
        ("turn=3", "unknown rule 'turn'; did you mean 'turns'?"),
    ):
        with pytest.raises(ConfigError) as caught:
            Adjudication.read(text)
        assert message in str(caught.value) and "\n" not in str(caught.value)


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


def test_a_game_that_both_have_given_up_for_one_side_ends_there_or_is_played_on_and_keeps_whom_it_was_given_to() -> (
    None
):
    record = play(AGREE, "PUNDIT", "PUNDIT")[0]
    assert (record.outcome.winner, record.outcome.ending, record.outcome.margin) == (BLACK, Ending.ADJUDICATED, None)
    assert not record.outcome.ending.is_forfeit and record.adjudged is BLACK and len(record.moves) == 8 + 6
    assert record.reason == "both sides gave PUNDIT 1 at most 2 % for 3 turns"
    [played_on], [ended] = (play(rules, "PUNDIT", "PUNDIT") for rules in (Adjudication(play_on=1.0), OFF))
    assert (played_on.adjudged, ended.adjudged, ended.outcome.ending) == (BLACK, None, Ending.SCORE)
    assert (played_on.moves, played_on.outcome, played_on.reason) == (ended.moves, ended.outcome, "")
    rules = Adjudication(play_on=0.5)  # the seed decides
    endings = [record.outcome.ending for record in play(rules, "PUNDIT", "PUNDIT", range(10))]
    assert [ending is not Ending.ADJUDICATED for ending in endings] == [rules.plays_on(seed) for seed in range(10)]
    assert len({*endings}) == 2


def test_a_game_of_a_bot_that_tells_no_win_rate_goes_to_its_end_and_a_resignation_stays_one() -> None:
    for record in (*play(AGREE, "GOOD", "PUNDIT", range(2), at=0), *play(AGREE, "PUNDIT", "GOOD", range(2), at=0)):
        assert (record.outcome.ending, record.adjudged) == (Ending.SCORE, None)
    record = play(Adjudication(turns=1), "PUNDIT", "RESIGNS")[0]
    assert (record.outcome.ending, record.adjudged) == (Ending.RESIGN, None)
