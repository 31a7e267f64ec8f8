"""Games played to learn from: that they depend on the settings only, that none is lost, and what is made of them."""

from pathlib import Path

import numpy as np
import pytest
from commandline import arena, refused
from planned import planned
from scripted_bots import scripted

from arena import ConfigError, StoreError
from arena.contract.adjudication import OFF
from arena.events.generation import GamesFile, Generation
from arena.events.runner import play_event
from arena.go.collection import read_path
from arena.go.game import Rules
from arena.go.record import Record
from arena.players.registry import Entry
from trainers.data import SplitRule
from trainers.dataset import Sieve, build

RULES = Rules.preset(size=7)
RANDOM = ("data", "generate", "fast-random", "--size", "7", "--workers", "1")


def generation(games: int, *entries: Entry, **changes: int) -> Generation:
    usual = {"entries": entries or (scripted("GOOD"),), "rules": RULES, "games": games, "plies": 8, "adjudication": OFF}
    return planned(Generation, **(usual | changes))


def play(path: Path, event: Generation, workers: int = 1) -> list[Record]:
    with GamesFile.open(path, event.event) as kept:
        for _ in play_event(event, kept, workers):
            pass
        kept.sort()
    return [record for record in read_path(path) if isinstance(record, Record)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of ten games."""
    path = tmp_path_factory.mktemp("whole") / "games.sgfs"
    done = arena(*RANDOM, "--games", "10", "--out", str(path), folder=path.parent, columns=200)
    assert done.returncode == 0, done.stderr
    assert "10 games of fast-random" in done.stdout and "10 counted; 0 repeat" in done.stdout
    assert f"arena data build {path} --out sets/games --size 7" in done.stdout
    return path


def test_a_cut_off_file_goes_on_and_more_games_are_added(whole: Path, tmp_path: Path) -> None:
    lines = whole.read_bytes().splitlines(keepends=True)
    cut = tmp_path / "games.sgfs"
    cut.write_bytes(b"".join([lines[4], lines[0], lines[2][:100]]))  # as it may stand when the process is killed
    done = arena(*RANDOM, "--games", "6", "--out", "games.sgfs", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert cut.read_bytes() == b"".join(lines[:6])
    done = arena(*RANDOM[:-1], "2", "--games", "10", "--out", "games.sgfs", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert cut.read_bytes() == whole.read_bytes()


def test_games_that_were_finished_are_kept_when_it_is_stopped(tmp_path: Path) -> None:
    event = generation(30)
    with GamesFile.open(tmp_path / "games.sgfs", event.event) as kept:
        updates = play_event(event, kept, 1)
        seen = 0
        for update in updates:
            seen += len(update.records)
            if seen:
                break
        updates.close()  # type: ignore[attr-defined]  # as a Ctrl-C does
        assert seen <= kept.count()
        stopped = kept.count()
    assert len((tmp_path / "games.sgfs").read_bytes().splitlines()) == stopped
    assert [record.id for record in play(tmp_path / "games.sgfs", event)] == [pair.id for pair in event.pairings()]


def test_a_dataset_of_the_games_knows_whose_each_point_is(whole: Path, tmp_path: Path) -> None:
    made = build([whole], tmp_path / "set", Sieve(7), SplitRule(validation=0.0))
    assert len(made.train) == 10 and made.train.scored.all()
    margins = made.train.owners.sum(1) - made.train.komis
    assert np.array_equal(made.train.winners, np.where(margins > 0, 1, np.where(margins < 0, 2, 3)))


def test_alone_a_bot_plays_both_sides_and_every_opening_is_another() -> None:
    pairings = generation(40).pairings()
    assert {(pairing.black, pairing.white) for pairing in pairings} == {("good", "good")}
    assert len({pairing.opening for pairing in pairings}) == len({pairing.seed for pairing in pairings}) == 40
    assert {len(pairing.opening) for pairing in pairings} == {8}
    assert generation(9).pairings() == pairings[:9]


def test_several_bots_meet_each_other_with_both_colours() -> None:
    three = [scripted("GOOD", name) for name in "abc"]
    pairings = generation(12, *three).pairings()
    meetings = [(pairing.black, pairing.white) for pairing in pairings]
    assert len(set(meetings)) == 6 and meetings[:6] == meetings[6:]
    assert not any(black == white for black, white in meetings)
    with pytest.raises(ConfigError, match="given twice"):
        generation(2, three[0], three[0])


def test_a_forfeit_is_kept_without_a_result(tmp_path: Path) -> None:
    records = play(tmp_path / "games.sgfs", generation(2, scripted("CRASH")))
    assert [record.outcome for record in records] == [None, None]
    assert all(record.reason for record in records)


@pytest.mark.parametrize("content", ["hello\n", "hello", "(;GM[1]SZ[7];B[aa])\n", "(;GM[1]SZ[7]EV[league];B[aa])"])
def test_a_file_of_something_else_is_refused_and_left_alone(content: str, tmp_path: Path) -> None:
    path = tmp_path / "games.sgfs"
    path.write_text(content)
    refused(arena(*RANDOM, "--out", "games.sgfs", folder=tmp_path), "games.sgfs holds other games")
    assert path.read_text() == content


def test_other_settings_want_another_file(whole: Path) -> None:
    before = whole.read_bytes()
    refused(arena(*RANDOM, "--seed", "2", "--out", str(whole), folder=whole.parent), "holds other games")
    assert whole.read_bytes() == before


def test_two_arenas_do_not_write_to_one_file(tmp_path: Path) -> None:
    with GamesFile.open(tmp_path / "games.sgfs", "one"), pytest.raises(StoreError, match="another arena writes"):
        GamesFile.open(tmp_path / "games.sgfs", "one")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["fast-randon", "--out", "a.sgfs"], "fast-random"),
        (["fast-random", "--out", "a.sgfs", "--size", "3"], "size"),
        (["fast-random", "--out", "a.txt"], "games.sgfs"),
        (["fast-random", "fast-random", "--out", "a.sgfs"], "given twice"),
        (["human", "--out", "a.sgfs"], "a person can't play here"),
        (["fast-random", "--out", "a.sgfs", "--plies", "-1"], "plies"),
    ],
)
def test_what_cannot_be_generated_is_refused_in_one_line(words: list[str], told: str, tmp_path: Path) -> None:
    refused(arena("data", "generate", *words, folder=tmp_path), told)
    assert not (tmp_path / "a.sgfs").exists()
