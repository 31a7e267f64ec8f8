"""What files and checkpoints from elsewhere can't do, and what of a user's secrets is never stored or shown."""

import json
import os
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from helpers.commandline import arena, refused
from helpers.events import earlier_wins, games_of, store_event
from helpers.games import match_of, record_of
from helpers.nets import HEADS, small_model, small_net

from arena import CheckpointError, __version__
from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Rules
from arena.go.sgf import read_sgf
from arena.match.runner import play_event
from arena.match.schedule import Match, Terms
from arena.players.registry import Registry
from arena.report.page import games_data
from arena.results.store import Store
from bots.nets.checkpoint import SHIPPED_NETS, Checkpoint

ENGINE = f"{sys.executable} {Path(__file__).parents[1] / 'engines' / 'scripted.py'}"


def test_a_saved_game_names_no_command_that_is_run_but_an_engine_of_the_users_own(tmp_path: Path) -> None:
    """One move against random, its name replaced by an engine's command, and 'play --resume' ran it."""
    (tmp_path / "arena.toml").write_text(f'[bots.mine]\nkind = "gtp"\ncommand = "{ENGINE} good"\n')
    assert arena("play", "random", "--plain", "--size", "5", folder=tmp_path, typed="c3\n").returncode == 0
    path = tmp_path / "results" / "play" / "00001.sgf"
    saved = path.read_text()
    for name in ("gtp:command=touch ran", "mine:command=touch ran"):
        path.write_text(saved.replace('"white":"random"', f'"white":"{name}"'))
        assert name in path.read_text()
        done = arena("play", "--resume", "--plain", folder=tmp_path, typed="pass\n")
        refused(done, "put it into arena.toml if you trust that command")
        assert not (tmp_path / "ran").exists()
    path.write_text(saved.replace('"white":"random"', '"white":"mine"'))
    done = arena("play", "--resume", "--plain", folder=tmp_path, typed="pass\n")
    assert done.returncode == 0 and "mine" in done.stdout


def test_a_database_names_no_command_and_no_file_that_is_run(tmp_path: Path) -> None:
    match, evil = match_of("one", "other", 2), tmp_path / "evil.py"
    with Store.of(tmp_path / "results", write=True) as store:
        store_event(store, match, games_of(match, earlier_wins(match)))
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    for factory, kind, settings in (
        ("bots.gtp:BOT", "gtp", {"command": "touch ran"}),
        (f"{evil}:BOT", "random", {}),
        (f"{evil}:BOT", f"{evil}:BOT", {}),
    ):
        player = {"factory": factory, "kind": kind, "settings": settings}
        with closing(sqlite3.connect(tmp_path / "results" / "arena.db")) as database, database:
            plan = json.loads(database.execute("SELECT plan FROM events").fetchone()[0])
            for side in ("first", "second"):
                plan["event"][side] |= player
            database.execute("UPDATE events SET plan = ?", (json.dumps(plan),))
            change = "UPDATE players SET player = json_set(player, '$.factory', ?, '$.kind', ?, '$.settings', json(?))"
            database.execute(change, (factory, kind, json.dumps(settings)))
        for command in (("show", "1"), ("report",)):
            arena(*command, folder=tmp_path)
            assert not (tmp_path / "ran").exists()


def test_any_answer_of_an_engine_leaves_the_games_of_a_page_readable() -> None:
    """The paths were taken out of finished SGF, and with them the backslash before a bracket: no game was shown."""
    answer = """/home/ada/engine: its answer to 'genmove', '[["pass"]]', C:\\x\\]\\[y, is not a move"""
    match = match_of("alphago", "sl", games=2)
    games = [record_of(match, number, "sl", Ending.ILLEGAL, answer) for number in range(2)]
    data = games_data(games, 2, match.event)
    for shown, game in zip(json.loads(data)["games"], games, strict=True):
        read = read_sgf(shown["sgf"])
        assert read.moves == game.moves and '[["pass"]]' in read.reason and "/home/ada" not in shown["sgf"]


SECRET, KEY = "s3cr3t-t0k3n", "0.00271828"


def test_secrets_of_an_engine_are_neither_stored_nor_shown(tmp_path: Path) -> None:
    """The value of a variable stood in the database, and an argument of the command in the HTML report."""
    (tmp_path / "arena.toml").write_text(
        f'[bots.mine]\nkind = "gtp"\ncommand = "{ENGINE} good {KEY}"\nenv = {{TOKEN = "{SECRET}"}}\n'
    )
    match = ("match", "mine", "random", "-n", "2", "--size", "5", "--workers", "1")
    played = arena(*match, folder=tmp_path)
    assert played.returncode == 0, played.stderr
    shown = [played.stdout]
    for words in (("report", "--html", "page.html"), ("show", "1"), ("bots",)):
        shown.append(arena(*words, folder=tmp_path, columns=400).stdout)
    shown.append((tmp_path / "page.html").read_text())
    assert not re.search(f"{SECRET}|{KEY}", "\n".join(shown))
    assert "TOKEN" in shown[-1] and re.search("command=python[0-9.]* sha256:[0-9a-f]{8}", shown[-1])
    with closing(sqlite3.connect(tmp_path / "results" / "arena.db")) as database:
        assert database.execute("SELECT DISTINCT arena FROM games").fetchall() == [(__version__,)]
    stored = b"".join(path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file())
    assert SECRET.encode() not in stored and KEY.encode() not in stored
    assert (tmp_path / "results").stat().st_mode & 0o777 == 0o700
    assert "mine" in arena("bots", "mine", folder=tmp_path, columns=400).stdout
    refused(arena("match", "ran\a\bdom", "random", folder=tmp_path), "unknown bot 'ran??dom'")  # no bell rings


# --- Checkpoints ---


@pytest.mark.parametrize("name", ["manifest.json", "weights.safetensors", "model.onnx"])
def test_a_checkpoint_of_pipes_or_devices_or_gigabytes_is_refused_and_not_waited_for(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "net"
    shutil.copytree(SHIPPED_NETS / "sl-9x9", folder)
    for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path)):
        (folder / name).unlink()
        make(folder / name)
        with pytest.raises(CheckpointError, match=f"{name}: can't be read .it is not a regular file"):
            Checkpoint.open(folder)
    (folder / "manifest.json").unlink()
    with (folder / "manifest.json").open("wb") as file:
        file.truncate(4 << 30)
    with pytest.raises(CheckpointError, match="isn't valid JSON"):
        Checkpoint.open(folder)


def test_a_net_whose_answer_is_not_a_number_in_mid_game_forfeits_with_a_dossier(store: Store, tmp_path: Path) -> None:
    net = small_net(tmp_path / "net", small_model(HEADS, "nan"))
    player, opponent = map(Registry().resolve, (f"policy:checkpoint={net}", "fast-random"))
    for _ in play_event(Match(player, opponent, Terms(Rules.preset("cgos", 5), plies=0), 1), store, 1):
        pass
    (record,) = store.games()
    assert record.outcome is not None and record.outcome.ending is Ending.CRASH
    assert record.outcome.winner is (WHITE if record.black == player.name else BLACK)
    assert "its policy must be 26 finite numbers a position" in record.reason
    assert "Traceback" in record.fault_details and record.moves


def test_a_net_that_computes_for_ever_is_given_up_at_its_deadline(tmp_path: Path) -> None:
    small_net(tmp_path / "endless", small_model(HEADS, "endless"))
    done = arena("check", "policy:checkpoint=endless@deadline=1", "--size", "5", folder=tmp_path)
    assert done.returncode == 1 and "no answer within 1 s" in done.stdout
