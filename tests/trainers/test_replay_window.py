"""Files of games that are learned from, and the window of the latest ones."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.selfplay import random_games

from arena import ConfigError
from arena.go.game import Rules
from arena.go.planes import find_encoder
from trainers.games import UNKNOWN
from trainers.replay import Replay, make_chunk, searched_games, shares_of, window
from trainers.selfplay import PlayedGame

SIZE = 5
ENCODER = find_encoder("arena-17")


@pytest.fixture(scope="module")
def played() -> list[PlayedGame]:
    """Random games with findings at every third move, as if a search had made them."""
    random, games = np.random.default_rng(1), random_games(Rules.preset("cgos", SIZE, 1.5), 40)
    found = []
    for game in games:
        plies = np.arange(1, len(game.moves), 3)
        levels = random.integers(0, 256, (len(plies), SIZE * SIZE + 1)).astype(np.uint16)
        found.append(replace(game, plies=plies, levels=levels, win_rates=random.random(len(plies), np.float32)))
    return found


def test_files_of_games_are_read_as_they_were_written(played: list[PlayedGame], tmp_path: Path) -> None:
    replay = Replay(tmp_path, SIZE, 10_000)
    for part in (played[:5], played[5:20], played[20:]):
        replay.add(part, 7.0)
    again = Replay(tmp_path, SIZE, 10_000)
    assert (again.rows, again.games, again.positions) == (replay.rows, replay.games, replay.positions)
    assert again.games == len(played) and again.seconds == 21 and again.numbers.tolist() == list(range(40))
    found, row = again.searched, 0
    for number, game in enumerate(played):
        assert found.games.owners[number].sum() - found.games.komis[number] == game.margin
        assert (found.games.winners[number] == UNKNOWN) == (not game.is_sound)
        for ply, levels, rate in zip(game.plies, game.levels, game.win_rates, strict=True):
            assert found.places[row] == found.games.starts[number] + ply and found.win_rates[row] == rate
            assert shares_of(found.levels[row]) == pytest.approx(levels / levels.sum())
            row += 1
    rows = again.batch(1, ENCODER, 1, 5, 32)
    assert (rows.planes == again.batch(1, ENCODER, 2, 5, 32).planes).all() and rows.shares.sum(1) == pytest.approx(1)
    assert found.levels.dtype == np.uint8 and len(searched_games(SIZE, make_chunk([], SIZE))) == 0


def test_games_are_given_by_their_numbers_each_once(played: list[PlayedGame], tmp_path: Path) -> None:
    replay = Replay(tmp_path, SIZE)
    for part in (played[20:30], played[:5], played[25:35]):
        replay.add(part)
    found, numbers = replay.by_number(33)
    assert numbers.tolist() == [*range(5), *range(20, 33)] and len(found.games) == 18
    for number, game in zip(numbers.tolist(), range(18), strict=True):
        begin, end = found.games.starts[game : game + 2]
        assert found.games.moves[begin:end].tolist() == played[number].moves.tolist()


def test_damaged_files_are_skipped_and_other_sizes_refused(
    played: list[PlayedGame], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replay = Replay(tmp_path, SIZE, 10_000)
    for part in (played[:5], played[5:10], played[10:15], played[15:20]):
        replay.add(part)
    first, second, third, _ = sorted(tmp_path.glob("*.npz"))
    first.write_bytes(b"")
    second.write_bytes(second.read_bytes()[:-200])
    content = bytearray(third.read_bytes())
    content[len(content) // 2] ^= 0xFF
    third.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        again = Replay(tmp_path, SIZE, 10_000)
    assert len(caplog.messages) == 3 and all("is damaged and skipped" in message for message in caplog.messages)
    assert again.games == 20 and len(again.searched.games) == 5
    with pytest.raises(ConfigError, match="another name"):
        Replay(tmp_path, 7, 10_000)


def test_the_window_grows_as_in_katago_and_older_files_go(played: list[PlayedGame], tmp_path: Path) -> None:
    assert window(200, 250) == 200 and window(250, 250) == 250
    assert window(1_000_000, 250_000) == int(250_000 * (1 + 0.4 * (4**0.75 - 1) / 0.75))
    replay = Replay(tmp_path, SIZE, 50)
    for begin in range(0, 40, 4):
        replay.add(played[begin : begin + 4])
    kept = len(replay.searched)
    assert window(replay.rows, 50) <= kept < replay.rows
    assert len(list(tmp_path.glob("*.npz"))) < 10
    again = Replay(tmp_path, SIZE, 50)
    assert len(again.searched) == kept and again.rows == replay.rows
