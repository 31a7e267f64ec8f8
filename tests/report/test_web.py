"""Pages in a real browser, if there is Chromium: the games of a report, hostile names; and a full screen as a page."""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from helpers.commandline import ARENA, environment
from helpers.events import store_event
from helpers.games import match_of, record_of
from helpers.processes import processes_of

from arena.go.game import Ending
from arena.go.record import UNKNOWN, GameRecord, MoveStats
from arena.match.schedule import Match
from arena.report.page import write_page
from arena.results.league import last_games, read_report
from arena.results.store import Store

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.xdist_group("a browser")
FLAGS = ("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install 'arena[test]'")
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    driver.implicitly_wait(10)
    yield driver
    driver.quit()


def find(browser: Any, selector: str) -> Any:
    return browser.find_element("css selector", selector)


def press(browser: Any, *keys: str) -> str:
    """Press keys, and read what is said of the move."""
    find(browser, "h1").click()
    for key in keys:
        find(browser, "body").send_keys(key)
    return str(find(browser, ".fact").text)


def page_of(folder: Path, match: Match, games: list[GameRecord]) -> Path:
    with Store.open(folder / "arena.db", write=True) as store:
        store_event(store, match, games)
        return write_page(read_report(store), last_games(store, match.event), folder / "page.html")


def test_a_reports_games_are_stepped_through(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    match = match_of("alphago", "sl", games=4)
    games = [record_of(match, number, "sl") for number in range(4)]
    moves = len(games[-1].moves)
    facts = [MoveStats(0.9 if number < 6 else 0.2, visits=number) for number in range(2, moves)]
    games[-1] = replace(games[-1], facts=(UNKNOWN, UNKNOWN, *facts))
    browser.get(page_of(tmp_path, match, games).as_uri())
    assert len(browser.find_elements("css selector", ".wall .small")) == 4
    assert find(browser, ".fact").text.startswith(f"Move 6 of {moves}: ○")  # the worst move of all games
    keys = (Keys.HOME, *[Keys.ARROW_RIGHT] * 3)
    assert press(browser, *keys).startswith(f"Move 3 of {moves}: ●")
    assert len(browser.find_elements("css selector", ".viewer .shudan-stone-image:not(.shudan-sign_0)")) == 3
    assert press(browser, "m").startswith("Move 5 of") and press(browser, "m").startswith("Move 6 of")
    assert "5 visits" in find(browser, ".fact").text
    assert press(browser, Keys.END).startswith(f"Move {moves} of") and press(browser, Keys.HOME).startswith("Move 0 of")
    for selector, words in ((".worst button", ("Move 5", "Move 6")), (".graph", (f"Move {moves // 2} of",))):
        find(browser, selector).click()
        assert find(browser, ".fact").text.startswith(words)
    find(browser, ".wall .small:last-child").click()
    assert find(browser, ".pick select").get_property("value") == "3"
    browser.set_window_size(400, 800)
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.get_log("browser") == []


def test_hostile_names_and_reasons_are_text_and_an_unreadable_game_hides_no_other(browser: Any, tmp_path: Path) -> None:
    names = ("<img src=x onerror=window.done=1>", "</script><script>window.done=1</script>")
    match = match_of(*names, games=2)
    reason = "<svg onload=window.done=1> ]]> <!-- &lt;script&gt; \u2028"
    games = [record_of(match, 0, names[0]), record_of(match, 1, names[1], Ending.CRASH, reason)]
    path = page_of(tmp_path, match, games)
    browser.get(path.as_uri())
    assert names[0] in find(browser, "h1").text and names[1] in find(browser, ".names").text
    assert "<svg onload=window.done=1>" in find(browser, "#report").text
    assert browser.execute_script("return window.done === undefined")
    path.write_text(re.sub(r'"sgf": ".*?[^\\]"', '"sgf": "(;FF[4"', path.read_text("utf-8"), count=1), "utf-8")
    browser.get(path.as_uri())
    boards = browser.find_elements("css selector", ".wall .small")
    assert "can't be shown" in boards[0].text and "+2.5" in boards[1].text
    assert browser.get_log("browser") == []


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """The address of a served game, its token, and the folder of its temporary files."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "game.sgf").write_text("(;GM[1]SZ[5]PB[Anna]PW[Bruno];B[cc];W[bb])")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*ARENA, "serve", "--port", str(port), "show", "game.sgf"]
    usual = environment(TMPDIR=str(folder))
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=usual) as process:
        try:
            line = process.stdout.readline()  # type: ignore[union-attr]
            token = re.match(rf"http://127\.0\.0\.1:{port}/\?token=(\S{{20,}}) shows arena show game.sgf", line)
            assert token is not None, line
            end = monotonic() + 60
            while monotonic() < end:  # the port opens a moment after the line
                with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
            yield f"http://127.0.0.1:{port}", token[1], folder
        finally:
            process.terminate()


def test_a_full_screen_is_served_to_this_user_and_to_no_other_site(served: tuple[str, str, Path]) -> None:
    """Other users of the machine could open the page, which asked another site for a font."""
    address, token, _ = served
    port = address.rpartition(":")[2]
    for path, headers in (
        ("/", {}),
        ("/?token=wrong", {}),
        (f"/?token={token}", {"Host": "elsewhere.example"}),
        (f"/?token={token}", {"Origin": "http://elsewhere.example"}),
        (f"/ws?token={token}", {"Origin": f"http://elsewhere.example:{port}"}),
        (f"/ws?token={token}", {}),
        ("/ws", {"Origin": address}),
    ):
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(urllib.request.Request(address + path, headers=headers))
        assert refusal.value.code == 403
    with urllib.request.urlopen(f"{address}/?token={token}") as page:
        text, headers = page.read().decode(), page.headers
    assert "Starting arena show game.sgf ..." in text and "You can close this page." in text
    assert not re.search("https?://(?!127)(?!www.w3.org)", text)
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert re.fullmatch(rf"arena-{port}={token}; HttpOnly; Path=/; SameSite=Strict", headers["Set-Cookie"])


@pytest.mark.parametrize("redraws", [0, 30])
def test_the_processes_of_a_visitor_who_has_left_end_within_5_seconds_though_they_are_busy(
    served: tuple[str, str, Path], redraws: int
) -> None:
    """They were waited for, however long; those whose screens couldn't be written any more were left alone."""
    aiohttp = pytest.importorskip("aiohttp")
    address, token, folder = served

    async def visit() -> int:
        headers = {"Origin": address, "Cookie": f"arena-{address.rpartition(':')[2]}={token}"}
        timeout = aiohttp.ClientWSTimeout(ws_close=0.5)
        connect = partial(aiohttp.ClientSession.ws_connect, url=f"{address}/ws", headers=headers, timeout=timeout)
        async with aiohttp.ClientSession() as session, connect(session) as page:
            await page.receive()  # the screen is there
            ((visitor, _), (server, _)) = sorted(processes_of(folder), key=lambda process: " serve " in process[1])
            for width in range(redraws):
                await page.send_json(["resize", {"width": 80 + width, "height": 40}])
            if redraws:
                await asyncio.sleep(0.2)
                os.kill(server, signal.SIGSTOP)
                await asyncio.sleep(0.5)  # a screen waits for the server
            os.kill(visitor, signal.SIGSTOP)
        os.kill(server, signal.SIGCONT)
        return visitor

    visitor, end = asyncio.run(visit()), monotonic() + 5
    while visitor in dict(processes_of(folder)):
        assert monotonic() < end
        sleep(0.05)
