"""A command's full screen in a browser: one process for each visitor, for this user only."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from html import escape
from pathlib import Path
from time import monotonic
from typing import Any

from aiohttp import web
from textual_serve.server import Server

from arena.files import scratch

LOCAL = "127.0.0.1"
VISITORS = 8  # at once
LEAVE_SECONDS = 3.0  # how long a visitor's process may take to end by itself after the visitor has left
SESSION = "import os, sys; os.setsid(); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
"""Runs Python in a session of its own, so that all processes of a visitor can be ended."""

COMPILES = "<small>The first start on a machine compiles for up to a minute.</small></div>"

_visit: ContextVar[Path] = ContextVar("_visit")  # the file for the number of the visitor's process


class LocalServer(Server):
    """Serves a command of the arena under an address with a token, which only this user knows; a request under another
    host's name, or from another site's page, is refused. The page asks no other host for anything."""

    def __init__(self, command: Sequence[str], port: int):
        self._command = [sys.executable, "-c", SESSION, "-m", "arena", *command]
        name = escape(shlex.join(["arena", *command]))
        kept = "Your game is saved. You can close this page." if command[0] == "play" else "You can close this page."
        self._words = {f"<div>{name}</div>": f"<div>Starting {name} ...<br>{COMPILES}", "Session ended.": kept}
        super().__init__("", host=LOCAL, port=port, title=shlex.join(["arena", *command]))
        self._host, self._token, self._cookie = f"{LOCAL}:{port}", secrets.token_urlsafe(16), f"arena-{port}"
        self._visitors = 0

    @property
    def command(self) -> str:
        """The shell command of the present visitor."""
        return f"echo $$ > {shlex.quote(str(_visit.get()))}; exec {shlex.join(self._command)}"

    @command.setter
    def command(self, command: str) -> None:
        """The base class sets it once."""

    def initialize_logging(self) -> None:
        """Print what goes wrong, and not every request."""
        logging.basicConfig(level=logging.WARNING, format="%(message)s")

    async def handle_index(self, request: web.Request) -> Any:
        self._check(request, is_socket=False)
        page: Any = await super().handle_index(request)
        text = re.sub(r"<link[^>]*https://[^>]*>", "", page.text)  # fonts of another site
        for there, ours in self._words.items():
            text = text.replace(there, ours)
        page.text = text
        sources = f"'self' 'unsafe-inline' 'unsafe-eval' data: ws://{self._host}"
        page.headers["Content-Security-Policy"] = f"default-src {sources}; base-uri 'none'; form-action 'none'"
        page.set_cookie(self._cookie, self._token, httponly=True, samesite="Strict")
        return page

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        self._check(request, is_socket=True)
        if self._visitors >= VISITORS:
            raise web.HTTPServiceUnavailable(text=f"{VISITORS} browsers are served already; close one")
        self._visitors += 1
        _visit.set(scratch() / f"visitor-{secrets.token_hex(8)}")
        leaving = asyncio.create_task(self._end_after(request, _visit.get()))
        try:
            return await super().handle_websocket(request)  # may return while the processes run on
        finally:
            leaving.cancel()
            self._visitors -= 1
            await self._end_visit(_visit.get())

    async def _end_after(self, request: web.Request, number: Path) -> None:
        """End the visit when the browser has gone."""
        while request.transport is not None and not request.transport.is_closing():
            await asyncio.sleep(0.1)
        await self._end_visit(number)

    async def _end_visit(self, number: Path) -> None:
        """Give a visitor's processes ``LEAVE_SECONDS`` to end by themselves."""
        with suppress(OSError, ValueError):
            group, end = int(number.read_text()), monotonic() + LEAVE_SECONDS
            while monotonic() < end:
                os.killpg(group, 0)  # an error when they have ended
                await asyncio.sleep(0.1)
            os.killpg(group, signal.SIGKILL)

    async def handle_download(self, request: web.Request) -> web.StreamResponse:
        self._check(request, is_socket=False)
        return await super().handle_download(request)

    def _check(self, request: web.Request, is_socket: bool) -> None:
        origin = request.headers.get("Origin", "")
        if request.host != self._host:
            raise web.HTTPForbidden(text=f"there is no site called {request.host} here; use http://{self._host}/")
        if (origin or is_socket) and origin != f"http://{self._host}":
            raise web.HTTPForbidden(text="the request comes from another site's page")
        known = request.query.get("token") or request.cookies.get(self._cookie, "")
        if not secrets.compare_digest(known.encode(), self._token.encode()):
            raise web.HTTPForbidden(text="open the address that 'arena serve' has printed, with its token")

    async def on_startup(self, app: web.Application) -> None:
        print(f"http://{self._host}/?token={self._token} shows {self.title} (Ctrl-C ends it).", flush=True)
