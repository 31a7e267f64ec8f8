"""What files from elsewhere can't do, and what of a user's secrets is never stored or shown."""

import json
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from helpers.commandline import arena, refused
from helpers.games import match_of, record_of

from arena import __version__
from arena.go.game import Ending
from arena.go.sgf import read_sgf
from arena.report.page import games_data

ENGINE = f"{sys.executable} {Path(__file__).parents[1] / 'engines' / 'scripted.py'}"


def change_plan(folder: Path, factory: str, kind: str, settings: dict[str, str]) -> None:
    """Have the players of a stored event be others."""
    with closing(sqlite3.connect(folder / "results" / "arena.db")) as database, database:
        plan = json.loads(database.execute("SELECT plan FROM events").fetchone()[0])
        player = {"factory": factory, "kind": kind, "settings": settings}
        plan["event"]["first"] |= player
        plan["event"]["second"] |= player
        database.execute("UPDATE events SET plan = ?", (json.dumps(plan),))
        stored = [json.loads(text) for (text,) in database.execute("SELECT player FROM players").fetchall()]
        changed = [(json.dumps(one | player), one["name"]) for one in stored]
        database.executemany("UPDATE players SET player = ? WHERE player ->> 'name' = ?", changed)


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
    match = ("match", "random", "fast-random", "-n", "2", "--size", "5", "--workers", "1")
    assert arena(*match, folder=tmp_path).returncode == 0
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    for factory, kind, settings in (
        ("bots.gtp:BOT", "gtp", {"command": "touch ran"}),
        (f"{evil}:BOT", "random", {}),
        (f"{evil}:BOT", f"{evil}:BOT", {}),
    ):
        change_plan(tmp_path, factory, kind, settings)
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
