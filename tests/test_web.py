"""Pages in a real browser: the games of a written report, a running event, a game of a person.

Skipped without Chromium or selenium.
"""

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from played import match_of, record_of
from stored_events import store_event

from arena.go.record import UNKNOWN, MoveStats
from arena.go.sgf import write_sgf
from arena.report.page import draw_svgs, html_page, script_data, write_page
from arena.results.standings import last_games, read_report
from arena.results.store import Store

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install 'arena[test]'")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
    pytest.mark.xdist_group("a browser"),
]
FLAGS = (
    *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking"),
    *("disable-component-update", "disable-sync"),
)
ROOT = Path(__file__).parents[1]
WRONG = "document.querySelectorAll('.wrong')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
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


def accept_question(browser: Any) -> None:
    from selenium.webdriver.support.expected_conditions import alert_is_present
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 10).until(alert_is_present()).accept()


def press(browser: Any, *keys: str) -> str:
    """Press keys, and read what is said of the move."""
    find(browser, "h1").click()
    for key in keys:
        find(browser, "body").send_keys(key)
    return str(find(browser, ".fact").text)


def test_a_reports_games_are_stepped_through(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    match = match_of("alphago", "sl", games=4)
    games = [record_of(match, number, "sl") for number in range(4)]
    moves = len(games[-1].moves)
    facts = [MoveStats(0.9 if number < 6 else 0.2, visits=number) for number in range(moves)]
    games[-1] = replace(games[-1], facts=(*[UNKNOWN] * 2, *facts[2:]))
    with Store.open(tmp_path / "arena.db", write=True) as store:
        store_event(store, match, games)
        report = read_report(store)
        path = write_page(report, draw_svgs(report, []), last_games(store, report.event), tmp_path / "page.html")
    browser.get(path.as_uri())
    assert len(browser.find_elements("css selector", ".wall .small")) == 4
    assert press(browser, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT).startswith(f"Move 3 of {moves}: ●")
    stones = len(browser.find_elements("css selector", ".viewer .shudan-stone-image:not(.shudan-sign_0)"))
    assert stones == 3
    assert press(browser, "m").startswith("Move 5 of") and press(browser, "m").startswith("Move 6 of")
    assert "5 visits" in find(browser, ".fact").text
    assert press(browser, Keys.END).startswith(f"Move {moves} of") and press(browser, Keys.HOME).startswith("Move 0 of")
    find(browser, ".worst button").click()
    assert find(browser, ".fact").text.startswith(("Move 5", "Move 6"))
    find(browser, ".graph").click()
    assert find(browser, ".fact").text.startswith(f"Move {moves // 2} of")
    find(browser, ".wall .small:last-child").click()
    assert find(browser, ".pick select").get_property("value") == "3"
    browser.set_window_size(400, 800)
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.get_log("browser") == []


def test_one_game_that_cannot_be_read_hides_no_other(browser: Any, tmp_path: Path) -> None:
    match = match_of("alphago", "sl", games=2)
    games = [
        {"id": game.id, "sgf": write_sgf(game)} for game in (record_of(match, number, "sl") for number in range(2))
    ]
    games[0]["sgf"] = "(;FF[4"
    body = ['<h1>x</h1><div id="viewer"></div>', script_data("games", {"note": "", "games": games})]
    (tmp_path / "page.html").write_text(html_page("x", body))
    browser.get((tmp_path / "page.html").as_uri())
    boards = browser.find_elements("css selector", ".wall .small")
    assert "can't be shown" in boards[0].text and "B+2.5" in boards[1].text


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a running ``arena serve --play``, and its folder, in which a match is being played."""
    pytest.importorskip("uvicorn", reason="needs pip install 'arena[serve]'")
    pytest.importorskip("starlette", reason="needs pip install 'arena[serve]'")
    match = ("match", "mcts:playouts=3000", "mcts:playouts=3001", "-n", "500", "--workers", "1")
    with started(*match, folder=tmp_path) as playing:
        assert playing.stdout is not None
        while not (tmp_path / "results" / "arena.db").exists():
            assert playing.stdout.readline()
        with started("serve", "--play", "--port", "0", folder=tmp_path) as serving:
            assert serving.stdout is not None
            yield serving.stdout.readline().split()[0].rstrip("/"), tmp_path
            playing.terminate()
            playing.wait(30)  # it held the database
    with Store.of(tmp_path / "results") as store:
        assert [game.white for game in store.games(event="play")] == ["fast-random"]


@contextmanager
def started(*arguments: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "arena", *arguments]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
        assert process.wait(30) in (130, 143)


def asked(address: str, path: str, body: dict[str, Any] | None = None, **headers: str) -> tuple[int, Any]:
    """The answer's status and object."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, None


def test_an_event_is_shown_and_a_game_is_played_in_the_browser(browser: Any, served: tuple[str, Path]) -> None:
    address, folder = served
    browser.set_window_size(900, 900)
    browser.get(address)
    find(browser, "td.long a").click()
    assert "mcts:playouts=3000" in find(browser, "#report").text

    assert asked(address, "/play/00007/state", Host="elsewhere.example")[0] == 400
    wish = {"bot": "fast-random", "size": 5, "rules": "chinese"}
    assert asked(address, "/play/new", wish)[0] == 403  # without an origin, or with another site's
    assert asked(address, "/play/new", wish, Origin="http://elsewhere.example")[0] == 403
    assert asked(address, "/play/new", {"bot": "file.py:BOT"}, Origin=address)[0] == 409
    assert asked(address, "/play/new", {**wish, "size": 99}, Origin=address)[0] == 409
    assert asked(address, "/play/00007/state", {}, Origin=address)[0] == 409

    browser.get(f"{address}/play")
    for name, value in (("bot", "fast-random"), ("size", "5")):
        find(browser, f"select[name={name}] option[value='{value}']").click()
    find(browser, "form button").click()
    point = ".shudan-vertex[data-x='2'][data-y='2']"
    find(browser, f".board.mine {point}").click()
    assert find(browser, f"{point}.shudan-sign_1")
    find(browser, ".board.mine")  # the bot has answered
    find(browser, point).click()
    assert "That move is not legal." in find(browser, ".wrong").text
    find(browser, ".controls button:last-child").click()
    accept_question(browser)
    find(browser, ".controls a")  # to another game
    assert find(browser, ".fact b").text == "White won by resignation"
    number = browser.current_url.rpartition("/")[2]
    code, state = asked(address, f"/play/{number}/state", {}, Origin=address)
    assert (code, state["phase"], state["size"]) == (200, "over", 5)
    assert asked(address, f"/play/{number}/do", {"do": "undo"}, Origin=address)[0] == 409
    assert (folder / "results" / "play" / f"{int(number):05}.sgf").exists()
    assert [line for line in browser.get_log("browser") if "409" not in line["message"]] == []


def test_two_tabs_a_refresh_and_a_new_server_show_the_same_game(browser: Any, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs pip install 'arena[serve]'")
    pytest.importorskip("starlette", reason="needs pip install 'arena[serve]'")
    from selenium.webdriver.support.ui import WebDriverWait

    browser.set_window_size(400, 900)
    browser.implicitly_wait(60)
    first = browser.current_window_handle

    def play(column: int) -> None:
        point = f".shudan-vertex[data-x='{column}'][data-y='2']"
        find(browser, f".board.mine {point}:not(.shudan-sign_1):not(.shudan-sign_-1)").click()
        assert find(browser, f"{point}.shudan-sign_1")
        find(browser, ".board.mine")  # the bot has answered

    def stones() -> list[list[tuple[str, str]]]:
        found = (browser.find_elements("css selector", f".shudan-vertex.shudan-sign_{sign}") for sign in (1, -1))
        return [[(one.get_attribute("data-x"), one.get_attribute("data-y")) for one in those] for those in found]

    with started("serve", "--play", "--port", "0", folder=tmp_path) as serving:
        assert serving.stdout is not None
        address = serving.stdout.readline().split()[0].rstrip("/")
        browser.get(f"{address}/play")
        for name, value in (("bot", "level-1"), ("size", "5"), ("rules", "cgos")):
            find(browser, f"select[name={name}] option[value='{value}']").click()
        find(browser, "input[name=time]").send_keys("main=600")
        find(browser, "form button").click()
        play(2)
        game = browser.current_url
        browser.switch_to.new_window("tab")
        browser.get(game)
        assert find(browser, ".shudan-vertex[data-x='2'][data-y='2'].shudan-sign_1")
        second = browser.current_window_handle
        seen = stones()
        browser.refresh()
        assert find(browser, ".board.mine") and stones() == seen
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.switch_to.window(first)
    assert find(browser, ".wrong").text == "The server doesn't answer. Start arena serve again, and this page goes on."
    with started("serve", "--play", "--port", address.rpartition(":")[2], folder=tmp_path) as serving:
        assert serving.stdout is not None and serving.stdout.readline()
        WebDriverWait(browser, 60).until(lambda _: not browser.execute_script(f"return {WRONG}.length"))
        assert stones() == seen
        assert " 9:" in find(browser, ".names").text  # the clock goes on, it doesn't begin again
        browser.switch_to.window(second)
        find(browser, ".controls button:last-child").click()
        accept_question(browser)
        assert find(browser, ".controls a") and "White won by resignation" in find(browser, ".fact").text
    browser.close()
    browser.switch_to.window(first)
    browser.get_log("browser")
