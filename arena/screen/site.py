"""The pages of ``arena serve``: events and games of people. All of it is read from the store.

Nothing is played here: ``Desk`` begins games, and their sittings play them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from html import escape
from ipaddress import ip_address
from math import isfinite
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arena import IllegalMove, UserError
from arena.contract.limits import TimeLeft
from arena.go.coords import gtp_from_move
from arena.people.kifu import Snapshot
from arena.people.sitting import Refused, Sitting
from arena.report.page import draw_svgs, html_page, page
from arena.results.standings import Overview, last_games, overviews, read_report, trained_players
from arena.results.store import Store, database
from arena.screen.board import result_words

LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""Hosts under which a browser on this machine asks."""

MOST_GAMES = 16
"""Games that are open at once."""

TIDIED = 60.0
"""Seconds between two looks for such games."""

IDLE = 3600.0
"""Seconds after which a game that no browser asks about is put away; its file stays, and asked for it goes on."""

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LARGEST = 10_000
"""Bytes of a request."""


class Desk(Protocol):
    """Who begins games of people, and keeps them."""

    def begin(self, wish: Mapping[str, Any]) -> Sitting:
        """A new game, as asked for. Raises UserError."""

    def resume(self, id: str) -> Sitting:
        """A game that was left. Raises UserError."""

    def put_away(self, sitting: Sitting) -> None:
        """The sitting is over, or nobody is there any more: store the game, or leave it to be resumed."""

    def bots(self) -> list[tuple[str, str]]:
        """The names of those that can be played, each with a line about it."""


def site(results: Path, desk: Desk | None, hosts: Collection[str]) -> Starlette:
    """The application. Only with a desk can anything be changed; ``hosts`` are the names under which it answers besides
    addresses, which no other site can take for itself."""
    shown = Shown(results, desk is not None)
    routes = [
        Route("/", shown.index),
        Route("/event/{id}", shown.event),
    ]
    if desk is not None:
        tables = Tables(desk)
        routes += [
            Route("/play", tables.page),
            Route("/play/new", tables.begin, methods=["POST"]),
            Route("/play/{number:int}", tables.page),
            Route(
                "/play/{number:int}/state", tables.state, methods=["POST"]
            ),  # it may resume a game, and its clock runs
            Route("/play/{number:int}/do", tables.do, methods=["POST"]),
        ]
    guard = Middleware(_SameOrigin, hosts=hosts)
    app = Starlette(routes=routes, middleware=[guard], exception_handlers={UserError: _refused})
    app.state.close = (lambda: None) if desk is None else tables.close
    return app


class _SameOrigin:
    """Refuses to change anything for another site's page, and to answer under the name of another site; says what the
    pages may load."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]):
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        origin = request.headers.get("origin")
        host = re.sub(r":\d*$", "", request.headers.get("host", ""))
        if host not in self._hosts and not _is_address(host):
            await JSONResponse({"error": f"there is no site called {host} here"}, 400)(scope, receive, send)
            return
        if request.method != "GET" and (
            origin != f"http://{request.headers.get('host', '')}"
            or request.headers.get("content-type") != "application/json"
            or int(request.headers.get("content-length") or LARGEST) >= LARGEST
        ):
            await JSONResponse({"error": "the request comes from another site's page"}, 403)(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = {
                    "content-security-policy": POLICY,
                    "cache-control": "no-store",
                    "referrer-policy": "no-referrer",
                }
                message["headers"] += [(name.encode(), value.encode()) for name, value in more.items()]
            await send(message)

        await self._app(scope, receive, guarded)


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        return bool(ip_address(host.removeprefix("[").removesuffix("]")))
    return False


def _refused(request: Request, error: Exception) -> Response:
    if request.url.path.endswith((".json", "/state", "/do", "/new")):
        return JSONResponse({"error": str(error)}, 409)
    return HTMLResponse(
        html_page("arena", [f"<h1>{escape(str(error))}</h1>", '<p><a href="/">All events</a></p>']), 404
    )


# --- Events ---


class Shown:
    """What there is to see of events."""

    def __init__(self, results: Path, plays: bool):
        self._results = results
        self._plays = plays
        self._pages: dict[str, tuple[int, str]] = {}  # of events, with the number of games by then
        self._drawing = Lock()  # plots are drawn one at a time

    def index(self, request: Request) -> Response:
        found: list[Overview] = []
        if database(self._results).exists():
            with Store.of(self._results) as store:
                found = overviews(store)[::-1]
        return HTMLResponse(html_page("arena", self._index(found), "serve.js"))

    def _index(self, found: list[Overview]) -> Iterator[str]:
        yield "<h1>arena</h1>"
        if self._plays:
            yield '<p><a href="/play">Play a game against a bot</a></p>'
        yield "<h2>Events</h2>"
        if not found:
            yield "<p>No event is stored yet; play one with 'arena match' or 'arena tournament'.</p>"
            return
        yield '<div class="wide"><table class="stacked"><tr><th>event<th>kind<th>players<th>games<th>made</tr>'
        for one in found:
            games = f"{one.stored}" if one.planned is None else f"{one.stored}/{one.planned}"
            cells = (f"{one.kind}", ", ".join(one.players), games, one.created[:10])
            link = f'<a href="/event/{escape(one.id)}">{escape(one.id)}</a>'
            yield f'<tr><td class="long">{link}{"".join(f"<td>{escape(cell)}" for cell in cells)}</tr>'
        yield "</table></div>"

    def event(self, request: Request) -> Response:
        id = request.path_params["id"]
        with self._drawing, Store.of(self._results) as store:
            store.event(id)
            known = self._pages.get(id)
            if known is None or known[0] != store.count(event=id):
                report = read_report(store, id, keep=False)
                drawings = draw_svgs(report, trained_players(report, self._results))
                known = report.stored, page(report, drawings, last_games(store, id), "serve.js")
                self._pages[id] = known
        return HTMLResponse(known[1].replace("<main", '<p><a href="/">All events</a></p><main', 1))


# --- Games of people ---


class Tables:
    """The games that people play, by their numbers."""

    def __init__(self, desk: Desk):
        self._desk = desk
        self._sittings: dict[int, tuple[Sitting, float]] = {}  # and when a browser asked last
        self._opening: dict[int, Lock] = {}  # held while the bots of a game are built
        self._over: set[int] = set()
        self._beginning = 0
        self._lock = Lock()
        self._closed = Event()
        Thread(target=self._tidy_often, daemon=True).start()

    def page(self, request: Request) -> Response:
        bots = "".join(
            f'<option value="{escape(name)}">{escape(f"{name}: {about}")}</option>' for name, about in self._desk.bots()
        )
        body = [
            '<p><a href="/">All events</a></p><h1>Play a game</h1><div id="play"></div>',
            f'<template id="bots">{bots}</template>',
        ]
        return HTMLResponse(html_page("arena: play", body, "serve.js"))

    async def begin(self, request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        wish = await _json(request)
        return await run_in_threadpool(self._begin, wish)

    def _begin(self, wish: Mapping[str, Any]) -> Response:
        with self._lock:
            self._require_room()
            self._beginning += 1
        try:
            sitting = self._desk.begin(wish)
            number = int(sitting.snapshot().id.rpartition("/")[2])
            with self._lock:
                self._sittings[number] = sitting, monotonic()
        finally:
            with self._lock:
                self._beginning -= 1
        return JSONResponse({"game": number})

    def _require_room(self) -> None:
        """Raises UserError where no further game may be opened."""
        if len(self._sittings.keys() - self._over) + self._beginning >= MOST_GAMES:
            raise UserError(f"{MOST_GAMES} games are open here; finish one of them first")

    def state(self, request: Request) -> Response:
        return self._state(request.path_params["number"])

    def _state(self, number: int) -> Response:
        sitting = self._sitting(number)
        sitting.tick()
        snapshot = sitting.snapshot()
        with self._lock:
            has_ended = snapshot.is_over and number not in self._over
            if has_ended:
                self._over.add(number)
        if has_ended:
            sitting.close()
            self._desk.put_away(sitting)
        return JSONResponse(_state_of(snapshot, sitting))

    async def do(self, request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        asked = await _json(request)
        return await run_in_threadpool(self._do, request.path_params["number"], asked)

    def _do(self, number: int, asked: Mapping[str, Any]) -> Response:
        sitting = self._sitting(number)
        acts = {
            "pass": sitting.pass_turn,
            "undo": sitting.undo,
            "resign": sitting.resign,
            "hint": sitting.hint,
            "score": sitting.score,
            "accept": sitting.accept,
            "continue": sitting.play_on,
        }
        act, point = asked.get("do"), asked.get("point")
        if number in self._over:
            return JSONResponse({"error": "The game is over."}, 409)
        if not asked.get("sure") and (question := _question(act, sitting.snapshot())):
            return JSONResponse({"error": "It was not done.", "question": question}, 409)
        try:
            if act in acts and point is None:
                acts[act]()
            elif act in ("play", "toggle") and isinstance(point, int) and 0 <= point < sitting.snapshot().size ** 2:
                (sitting.play if act == "play" else sitting.toggle)(point)
            else:
                return JSONResponse({"error": f"unknown request {act!r}"}, 400)
        except (IllegalMove, Refused) as error:
            return JSONResponse({"error": str(error)}, 409)
        return self._state(number)

    def _sitting(self, number: int) -> Sitting:
        """The game's, begun again from its file where nobody asked about it for long. Raises UserError."""
        with self._lock:
            opening = self._opening.setdefault(number, Lock())
        with opening:
            with self._lock:
                known = self._sittings.get(number)
                if known is None:
                    self._require_room()
            sitting = self._desk.resume(f"play/{number:05d}") if known is None else known[0]
            with self._lock:
                self._sittings[number] = sitting, monotonic()
        return sitting

    def _tidy_often(self) -> None:
        while not self._closed.wait(TIDIED):
            self._put_away(IDLE)

    def _put_away(self, idle: float) -> None:
        """End the games that nobody asked about for so many seconds, as they stand."""
        with self._lock:
            old = [number for number, (_, asked) in self._sittings.items() if monotonic() - asked >= idle]
            gone = {number: self._sittings.pop(number)[0] for number in old}
        for number, sitting in gone.items():
            if number not in self._over:
                sitting.close()
            self._desk.put_away(sitting)  # one that is over may not be stored yet

    def close(self) -> None:
        """End all games as they stand."""
        self._closed.set()
        self._put_away(0.0)


def _question(act: object, now: Snapshot) -> str:
    """What a person is to be asked before this is done; empty where nothing is lost by it."""
    if act == "resign":
        return "Resign this game?"
    if act in ("hint", "score", "undo") and now.is_rated:
        return f"The game will not count for your rating after: {act}. Go on?"
    return ""


async def _json(request: Request) -> Mapping[str, Any]:
    """The request's object. Raises UserError."""
    try:
        found = await request.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UserError("the request isn't a JSON object")
    return found


def _state_of(now: Snapshot, sitting: Sitting) -> dict[str, Any]:
    """How a game stands, for a browser."""
    size, outcome, advice, estimate = now.size, now.outcome, now.advice, now.estimate
    legal: list[int] = []
    if now.is_persons_turn:
        legal = [point for point, fits in enumerate(now.record.replay().legal_moves()[:-1].tolist()) if fits]
    return {
        "id": now.id,
        "size": size,
        "rules": f"{size}x{size}, {now.rules.name} rules, komi {now.rules.komi:g}",
        "names": now.names,
        "people": [int(colour) for colour in now.people],
        "toPlay": int(now.to_play),
        "phase": now.phase.value,
        "result": None if outcome is None else result_words(outcome),
        "reason": now.record.reason,
        "points": list(now.points),
        "last": now.last,
        "moves": len(now.record.moves),
        "prisoners": now.prisoners,
        "clocks": [_clock(left) for left in now.clocks],
        "thinking": now.thinking is not None,
        "working": bool(now.advising or now.estimating),
        "legal": legal,
        "dead": now.dead or (),
        "count": None if now.count is None else now.count.margin,
        "advice": None
        if advice is None
        else {
            "by": advice.analyst,
            "fault": advice.fault,
            "moves": [
                {
                    "point": one.move,
                    "name": gtp_from_move(one.move, size),
                    "winRate": one.win_rate,
                    "visits": one.visits,
                    "line": [gtp_from_move(move, size) for move in one.line[:6]],
                }
                for one in advice.candidates[:3]
            ],
        },
        "estimate": None
        if estimate is None
        else {"margin": estimate.margin, "owners": [value - 256 * (value > 127) for value in estimate.ownership]},
        "unrated": now.unrated,
        "trouble": now.trouble,
    }


def _clock(left: TimeLeft | None) -> dict[str, float] | None:
    if left is None or not isfinite(left.seconds):
        return None
    return {"seconds": round(max(0.0, left.seconds), 1), "stones": left.stones}
