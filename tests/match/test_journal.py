"""Games that were interrupted go on from their last move, whatever ended the processes that played them."""

import os
import signal
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from helpers.commandline import arena_begun
from helpers.games import fresh, match_of, pairings_of
from helpers.processes import family
from helpers.scripted_bots import Scripted, scripted

from arena import StoreError
from arena.contract.bot import Limits
from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Outcome
from arena.go.record import UNKNOWN, MoveStats
from arena.match.game_loop import GameLoop
from arena.match.journal import RESIGNATION, Assignment, Journal, Journals, create_journal, read_journal, write_games
from arena.match.runner import Control, play_event
from arena.results.store import Store

MATCH = match_of(games=4, size=5)
FIRST = pairings_of(MATCH)[0]
MOVES = ((20, MoveStats(0.5, None, 7, 0.25)), (21, UNKNOWN))


def journals(folder: Path) -> Journals:
    found = Journals(folder, MATCH.players, MATCH.terms.rules)
    found.load()
    return found


def kept(folder: Path, *moves: Any, pairing: Any = FIRST) -> Path:
    """A worker's journal of one game."""
    own = journals(folder)
    path = own.create(0, 2)
    journal = Journal(path)
    journal.start_game(1, own.key(pairing), continued=2, restarted=1)
    for number, (move, stats) in enumerate(moves, 1):
        journal.write_move(1, number, move, stats)
    journal.spend(1, 0.5)
    return path


def test_a_game_goes_on_from_its_last_move_with_what_was_spent_on_the_next(tmp_path: Path) -> None:
    kept(tmp_path / "e", *MOVES)
    for _ in range(2):  # also from the journal of workers that are gone
        game = journals(tmp_path / "e").assignment(FIRST, had_begun=True)
        assert game == Assignment(FIRST, MOVES, 0.5, continued=3, restarted=1)


def test_a_game_without_a_move_of_its_own_is_as_good_as_new(tmp_path: Path) -> None:
    kept(tmp_path / "e")
    assert journals(tmp_path / "e").assignment(FIRST, had_begun=False).continued == 2


def test_a_resignation_that_was_not_stored_is_not_decided_anew(tmp_path: Path) -> None:
    kept(tmp_path / "e", *MOVES, (RESIGNATION, UNKNOWN))
    game = journals(tmp_path / "e").assignment(FIRST, had_begun=True)
    loop = GameLoop(
        {name: Scripted() for name in MATCH.players}, MATCH.terms.rules, dict.fromkeys(MATCH.players, Limits())
    )
    loop.start_game(FIRST, game.played, game.seconds, game.continued, game.restarted)
    (record,) = loop.play_round()
    assert record.outcome == Outcome(WHITE, Ending.RESIGN)
    assert (record.length, record.continued, record.restarted) == (6, 3, 1)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:1000]), "was cut"),
        (lambda path: path.write_bytes(path.read_bytes()[:20]), "can't be read"),
        (lambda path: path.write_bytes(b"my own notes, " * 100), "not a journal"),
        (lambda path: create_journal(path, "other", 2, MATCH.terms.rules), "of another event"),
        (lambda path: path.unlink(), ""),
    ],
)
def test_a_game_whose_journal_is_damaged_begins_again_and_says_so(tmp_path: Path, damage: Any, words: str) -> None:
    folder = tmp_path / "e"
    damage(kept(folder, *MOVES))
    if not words:
        folder.rmdir()
    found = journals(folder)
    assert [words in line and "\n" not in line for line in found.news] == [True] * bool(words)
    assert found.assignment(FIRST, had_begun=True).played == ()
    assert found.assignment(FIRST, had_begun=True).restarted >= 1
    assert found.assignment(FIRST, had_begun=False).played == ()


@pytest.mark.parametrize("moves", [((0, UNKNOWN), (0, UNKNOWN)), ((4000, UNKNOWN),)])
def test_moves_that_the_power_cut_off_are_not_played(tmp_path: Path, moves: Any) -> None:
    kept(tmp_path / "e", *moves)
    game = journals(tmp_path / "e").assignment(FIRST, had_begun=True)
    assert (game.played, game.restarted) == ((), 2)


def test_a_game_of_other_players_is_another_game(tmp_path: Path) -> None:
    kept(tmp_path / "e", *MOVES)
    other = replace(MATCH, first=replace(MATCH.first, settings={"name": "changed"}))
    found = Journals(tmp_path / "e", other.players, MATCH.terms.rules)
    found.load()
    assert found.assignment(FIRST, had_begun=False) == Assignment(FIRST)


def test_a_journal_is_written_whole(tmp_path: Path) -> None:
    path = kept(tmp_path / "e", *MOVES)
    (game,), problem = read_journal(path, "e")
    write_games(tmp_path / "begun", "e", [game, game])
    assert not problem
    assert read_journal(tmp_path / "begun", "e") == ([game, game], "")


@pytest.mark.parametrize("how", ["closed", "finished", "worker"])
def test_no_game_is_played_twice_when_an_event_is_stopped_and_resumed(store: Store, tmp_path: Path, how: str) -> None:
    """Bots that play other moves each time write down every position that they see."""
    marker = tmp_path / "seen"
    first, second = (scripted("QUITTER", name, at=1000, marker=str(marker)) for name in ("one", "two"))
    event = replace(MATCH, first=first, second=second, games=40)
    for _ in range(3):
        control, is_hit = Control(), False
        updates = play_event(event, store, 2, control)
        for update in updates:
            if not update.resumed and update.records and not is_hit:
                is_hit = True
                if how == "worker":
                    for worker in family(os.getpid()).get("worker", []):
                        os.kill(worker, signal.SIGKILL)
                elif how == "finished":
                    control.finishing = True
                else:
                    updates.close()
    records = [*store.games(), *fresh(play_event(event, store, 2))]
    assert len({record.id for record in records}) == 40
    seen = defaultdict(list)
    for line in marker.read_text().splitlines():
        seed, *moves = line.split()
        seen[seed].append(moves)
    for record in records:
        for earlier, later in zip(seen[str(record.seed)], seen[str(record.seed)][1:], strict=False):
            assert later[: len(earlier)] == earlier
    assert not (tmp_path / "journals").exists()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["terminated", "worker"])
def test_a_match_of_equals_that_is_interrupted_again_and_again_ends_near_half(tmp_path: Path, how: str) -> None:
    """The first player's wins are short, its losses long: 43-0 when interrupted games were played anew."""
    (tmp_path / "fate.py").write_text("from helpers.scripted_bots import FATE as BOT\n")
    command = ["match", "fate.py", "fate.py:first=false", "-n", "120", "--size", "5", "--workers", "1"]
    kills, database = 0, tmp_path / "results" / "arena.db"

    def wins() -> list[bool]:
        """Of the first player, of the stored games."""
        with suppress(StoreError), Store.open(database) as store:
            return [(game.black == "fate.py") is (game.outcome.winner is BLACK) for game in store.games()]
        return []

    while len(wins()) < 120:
        with arena_begun(*command, folder=tmp_path) as process:
            while process.poll() is None:
                seen = len(wins())
                while len(wins()) < seen + 4 and process.poll() is None:
                    sleep(0.05)
                for victim in [process.pid] if how == "terminated" else family(process.pid).get("worker", []):
                    os.kill(victim, signal.SIGTERM if how == "terminated" else signal.SIGKILL)
                    kills += 1
                if how == "terminated":
                    process.wait()
            process.communicate()
    print(f"{how}: {kills} interruptions, {sum(wins())} of {len(wins())}")
    assert kills >= 10 and abs(sum(wins()) - 60) < 22  # four standard errors
