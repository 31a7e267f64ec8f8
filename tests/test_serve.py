"""Games of people over HTTP, without a browser: what another site can't do, and what isn't done without a question."""

import asyncio
import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from commandline import arena, arena_begun

pytest.importorskip("uvicorn", reason="needs pip install 'arena[serve]'")
pytest.importorskip("starlette", reason="needs pip install 'arena[serve]'")

from starlette.requests import Request

from arena.cli.serve import ThisDesk
from arena.players.registry import Registry
from arena.screen import site

BOT_FILE = (Path(__file__).parents[1] / "bots" / "fast_random.py").read_text("utf-8")

SLOW = """
import time
from pathlib import Path
from arena.contract.bot import BotKind
from bots.random import Config, RandomBot

def build(config):
    while not Path('READY').exists():
        time.sleep(0.01)
    return RandomBot(config)

BOT = BotKind("takes its time to start", config=Config, build=build)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bot that is a file, and a game that was left after a move."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "corner.py").write_text(BOT_FILE)
    (folder / "slow.py").write_text(SLOW.replace("READY", str(folder / "ready")))
    (folder / "arena.toml").write_text('[bots.corner]\nkind = "corner.py:BOT"\n[bots.slow]\nkind = "slow.py:BOT"\n')
    (folder / "ready").touch()
    for bot in ("random", "slow"):
        assert arena("play", bot, "--plain", "--size", "5", folder=folder, typed="c3\n").returncode == 0
    (folder / "ready").unlink()
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Where ``arena serve --play`` answers, on all addresses of this machine."""
    with arena_begun("serve", "--play", "--port", "0", "--host", "0.0.0.0", folder=folder) as process:
        port = re.search(r":(\d+)/", process.stdout.readline())[1]
        yield f"http://127.0.0.1:{port}"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def ask(address: str, path: str, body: dict[str, Any] | None = None, **headers: str) -> tuple[int, Any]:
    """The status and the text or object of an answer; with a body it is a POST, from a page of the site itself."""
    usual = {} if body is None else {"Content-Type": "application/json", "Origin": address}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address + path, data, usual | headers)) as answer:
            code, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        code, text = error.code, error.read().decode()
    return code, json.loads(text) if text.startswith("{") else text


def test_another_site_resumes_no_game(address: str, folder: Path) -> None:
    """A GET as an <img> of any site sends it started the clock of a game that was left."""
    lock = folder / "results" / "play" / ".00001.lock"
    assert ask(address, "/play/1/state")[0] == 405
    assert ask(address, "/play/1/state", {}, Origin="http://elsewhere.example")[0] == 403
    assert not lock.exists()
    code, state = ask(address, "/play/1/state", {})
    assert (code, state["phase"], lock.exists()) == (200, "play", True)


def test_every_address_is_served_but_no_name_of_another_site(address: str) -> None:
    """With --host 0.0.0.0 the name wasn't checked."""
    for name in ("elsewhere.example", "elsewhere.example:80", "127.0.0.1.elsewhere.example", ""):
        assert ask(address, "/", Host=name)[0] == 400, name
    for name in ("localhost", "192.168.1.7:8380", "[::1]:8380"):
        assert ask(address, "/", Host=name)[0] == 200, name


def test_the_bots_that_can_be_chosen_can_be_played(address: str) -> None:
    bots = set(re.findall(r'<option value="([^"]+)"', ask(address, "/play")[1]))
    assert {"random", "corner"} <= bots and not {"gtp", "human"} & bots
    assert ask(address, "/play/new", {"bot": "corner", "size": 5})[0] == 200


def test_a_clock_that_cannot_be_read_is_explained_without_options(address: str) -> None:
    code, answer = ask(address, "/play/new", {"bot": "random", "time": "10 minutes"})
    assert code == 409 and answer["error"].startswith("clock: ") and "main=600" in answer["error"]
    assert "--" not in answer["error"]


def test_resigning_and_help_in_a_rated_game_are_done_after_a_question_only(address: str) -> None:
    number = ask(address, "/play/new", {"bot": "random", "size": 5})[1]["game"]
    for act in ("hint", "score", "undo", "resign"):
        code, answer = ask(address, f"/play/{number}/do", {"do": act})
        assert code == 409 and answer["question"].endswith("?")
        state = ask(address, f"/play/{number}/state", {})[1]
        assert (state["phase"], state["unrated"]) == ("play", "")
    assert ask(address, f"/play/{number}/do", {"do": "score", "sure": True})[1]["unrated"] == "score"
    assert ask(address, f"/play/{number}/do", {"do": "hint"})[0] == 200  # nothing is lost by it any more
    assert ask(address, f"/play/{number}/do", {"do": "resign", "sure": True})[1]["phase"] == "over"


def test_a_bot_that_is_slow_to_start_holds_up_no_other_game(address: str, folder: Path) -> None:
    number = ask(address, "/play/new", {"bot": "random", "size": 5})[1]["game"]
    with ThreadPoolExecutor(1) as other:
        opening = other.submit(ask, address, "/play/2/state", {})
        while not (folder / "results" / "play" / ".00002.lock").exists():
            time.sleep(0.01)
        assert ask(address, f"/play/{number}/state", {})[0] == 200 and not opening.done()
        (folder / "ready").touch()
        assert opening.result()[0] == 200


def test_an_idle_game_is_put_away_though_nobody_begins_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "IDLE", 0.0)
    monkeypatch.setattr(site, "TIDIED", 0.01)
    tables = site.Tables(ThisDesk(Registry(results=tmp_path), tmp_path))

    async def body() -> dict[str, Any]:
        return {"type": "http.request", "body": b'{"bot": "random", "size": 5}'}

    assert asyncio.run(tables.begin(Request({"type": "http", "headers": []}, body))).status_code == 200
    end = time.monotonic() + 20
    while os.listdir(tmp_path / "play") and time.monotonic() < end:  # nothing was played, so nothing stays
        time.sleep(0.01)
    assert os.listdir(tmp_path / "play") == []
    tables.close()


def test_only_so_many_games_are_open_at_once(address: str) -> None:
    opened = []
    for _ in range(40):
        code, answer = ask(address, "/play/new", {"bot": "random", "size": 5})
        if code != 200:
            break
        opened.append(answer["game"])
    assert code == 409 and "games are open" in answer["error"] and opened
    assert ask(address, f"/play/{opened[0]}/do", {"do": "resign", "sure": True})[0] == 200
    assert ask(address, "/play/new", {"bot": "random", "size": 5})[0] == 200
