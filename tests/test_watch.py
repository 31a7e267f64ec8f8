"""An event that one process plays and others look at: what is told, what is seen, and how the end of it is known."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from commandline import arena, arena_begun, environment, refused
from played import console_of, glance_of, lines_of, match_of, output_of, record_of, screen_of

from arena.events.runner import Control, Update
from arena.events.schedule import event_to_json
from arena.results.live import LOOK_EVERY, End, Watch, live_file, look_at, publish
from arena.results.store import Event, Store
from arena.screen.events import MatchView, show_watched

MATCH = match_of("alphago", "sl", games=6)
GLANCE = glance_of(MATCH, 3, "E5 C3", (0.5, None), bytes([0, 100, 156] * 27))


class Player:
    """Updates that a test gives one by one; it knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = False
        self._next = Update()
        self.updates = self._play()

    def _play(self) -> Generator[Update, None, None]:
        try:
            while True:
                yield self._next
        finally:
            self.closed = True

    def tell(self, published: Iterator[Update], update: Update) -> None:
        self._next = update
        assert next(published) is update


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "arena.db", write=True) as opened:
        opened.add_event(Event(MATCH.event, "2026-01-01", "{}", event_to_json(MATCH)))
        yield opened


def test_what_is_played_is_told_in_a_file_that_goes_with_the_event(tmp_path: Path) -> None:
    database, player = tmp_path / "arena.db", Player()
    told = publish(player.updates, MATCH, database, control=Control(), command="arena match alphago sl")
    assert look_at(database) is None
    player.tell(told, Update((record_of(MATCH, 0, "sl"),), resumed=True))
    live = look_at(database).live
    assert (live.event, live.process, live.resumed) == (MATCH.event, os.getpid(), 1)
    assert (live.command, live.waited) == ("arena match alphago sl", None)
    told.close()
    assert player.closed and list(tmp_path.iterdir()) == []


def test_the_boards_under_way_are_told_until_their_games_are_over(tmp_path: Path) -> None:
    database, player, control = tmp_path / "arena.db", Player(), Control()
    told = publish(player.updates, MATCH, database, control=control)
    player.tell(told, Update(glances=(GLANCE,), workers=2))
    live = look_at(database).live
    assert live.glances == (GLANCE,) and live.workers == 2 and live.waited is not None and not live.paused
    control.paused = True  # a change that is told at once
    player.tell(told, Update((record_of(MATCH, 3, "sl"),)))
    assert look_at(database).live.paused and look_at(database).live.glances == ()
    told.close()


def test_a_file_that_cant_be_written_stops_no_event_and_an_error_of_the_player_takes_it_along(tmp_path: Path) -> None:
    def failing() -> Iterator[Update]:
        yield Update()
        raise KeyboardInterrupt

    player, file = Player(), tmp_path / "file"
    file.touch()
    told = publish(player.updates, MATCH, file / "arena.db")
    player.tell(told, Update(workers=1))
    told.close()
    assert player.closed
    told = publish(failing(), MATCH, tmp_path / "arena.db")
    next(told)
    with pytest.raises(KeyboardInterrupt):
        next(told)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"event": 1}', "\xff"])
def test_a_file_that_is_no_such_file_tells_nothing(tmp_path: Path, text: str) -> None:
    live_file(tmp_path / "arena.db").write_bytes(text.encode("latin-1"))
    assert look_at(tmp_path / "arena.db") is None


def test_who_looks_sees_the_same_games_boards_and_time_as_the_player(store: Store, tmp_path: Path) -> None:
    games = [record_of(MATCH, number, "sl") for number in range(6)]
    store.append(games[:2])
    player = Player()
    told = publish(player.updates, MATCH, store.path)
    player.tell(told, Update(tuple(games[:2]), resumed=True))
    store.append(games[2:3])
    with Store.open(store.path) as reader:
        watch = Watch(MATCH, reader, look_at(store.path))
        assert watch.clock() == 0.0
        updates = watch.updates()
        first, second = next(updates), next(updates)
        assert first.resumed and [record.id for record in first.records] == [game.id for game in games[:2]]
        assert [record.id for record in second.records] == [games[2].id]
        assert next(updates).records == ()
        store.append(games[3:])
        assert [record.id for record in next(updates).records] == [game.id for game in games[3:]]
        assert watch.clock() >= LOOK_EVERY
        told.close()
        list(updates)
        assert watch.end is End.OVER


def test_boards_that_changed_are_passed_on_once_and_those_of_finished_games_never(store: Store) -> None:
    player, control = Player(), Control()
    told = publish(player.updates, MATCH, store.path, control=control)
    player.tell(told, Update(glances=(GLANCE,), workers=1))
    with Store.open(store.path) as reader:
        watch = Watch(MATCH, reader, look_at(store.path))
        updates = watch.updates()
        next(updates)
        assert next(updates).glances == (GLANCE,)
        assert next(updates).glances == ()
        later = replace(GLANCE, moves=(*GLANCE.moves, 5), win_rates=(*GLANCE.win_rates, 0.4))
        control.paused = True
        player.tell(told, Update(glances=(later,), workers=1))
        update = next(updates)
        assert update.glances == (later,) and update.paused
        store.append([record_of(MATCH, 3, "sl")])
        assert next(updates).records and next(updates).glances == ()
        told.close()
        list(updates)
        assert watch.end is End.STOPPED


PLAYER = """
import os, sys
from pathlib import Path
from played import match_of
from arena.results.live import publish
from arena.events.runner import Update
told = publish(iter([Update(workers=1)]), match_of("alphago", "sl", games=6), Path(sys.argv[1]), command="arena match")
next(told)
os._exit(9)
"""


def test_a_player_that_was_killed_is_known_to_be_dead_though_its_file_is_left(store: Store, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", PLAYER, str(store.path)], env=environment(), timeout=60)
    look = look_at(store.path)
    assert look.has_died
    far = replace(look, live=replace(look.live, place="another machine"))
    assert not far.has_died and replace(far, age=60.0).has_died
    console = console_of(80, 24, terminal=False)
    watch = Watch(MATCH, store, look)
    show_watched(MATCH, watch, console)
    assert watch.end is End.DIED
    assert "has died. 0 of 6 games are stored; resume it with: arena match" in output_of(console)


def until(process: subprocess.Popen[str], pattern: str) -> None:
    """Read what it writes up to a line that begins so."""
    for line in process.stdout:
        if re.match(pattern, line):
            return
    raise AssertionError(process.communicate())


@pytest.fixture
def player(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A match that is stopped (SIGSTOP) after its first games, so that nobody looks too late."""
    command = ("match", "mcts:playouts=20", "random", "-n", "100", "--size", "7", "--workers", "1")
    process = arena_begun(*command, folder=tmp_path)
    until(process, r"\d+ of 100")
    process.send_signal(signal.SIGSTOP)
    yield process
    process.kill()
    process.communicate(timeout=60)


def test_two_watchers_leave_or_stay_and_the_event_goes_on_to_its_end(
    player: subprocess.Popen[str], tmp_path: Path
) -> None:
    stays, leaves = arena_begun("watch", folder=tmp_path), arena_begun("watch", folder=tmp_path)
    for watcher in (stays, leaves):
        until(watcher, "mcts:playouts=20 against random: 100 games, 7x7")
    leaves.send_signal(signal.SIGINT)
    left, errors = leaves.communicate(timeout=60)
    assert leaves.returncode == 130 and "continues in process" in left and errors == ""
    player.send_signal(signal.SIGCONT)
    played, _ = player.communicate(timeout=120)
    watched, errors = stays.communicate(timeout=60)
    assert (player.returncode, stays.returncode) == (0, 0), errors
    assert played[played.index("mcts:playouts=20 beat random") : played.index("Games in")] in watched
    assert not live_file(tmp_path / "results" / "arena.db").exists()


def test_a_killed_player_is_reported_and_its_event_goes_on_by_the_same_command(
    player: subprocess.Popen[str], tmp_path: Path
) -> None:
    watcher = arena_begun("watch", folder=tmp_path)
    until(watcher, "mcts:playouts=20 against random")
    player.kill()
    told, errors = watcher.communicate(timeout=60)
    assert watcher.returncode == 1 and errors == ""
    assert re.search(r"The process that played it \(\d+\) has died. \d+ of 100 games are stored; resume it with", told)
    refused(arena("watch", folder=tmp_path), "has died; resume it with: arena match mcts:playouts=20 random -n 100")


def test_without_a_running_event_the_latest_is_named(store: Store, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    store.close()
    store.path.rename(tmp_path / "results" / "arena.db")
    refused(arena("watch", folder=tmp_path), "no event is running", f"arena report {MATCH.event}")
    refused(arena("watch", MATCH.event, folder=tmp_path), "isn't running", f"arena report {MATCH.event}")


def test_a_pause_is_shown_as_that_of_the_player() -> None:
    view = MatchView(MATCH, lambda: 0.0)
    view.add(Update(paused=True))
    shown = " ".join(lines_of(screen_of(view), 80, 24))
    assert "PAUSED" in shown and "space" not in shown
    view.add(Update(paused=False))
    assert "PAUSED" not in " ".join(lines_of(screen_of(view), 80, 24))
