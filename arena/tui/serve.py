"""A command's full screen in a browser: one process for each visitor, on this machine only."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from aiohttp import web
from textual_serve.server import Server

LOCAL = "127.0.0.1"

VISITORS = 8


class LocalServer(Server):
    """Serves a command of the arena; a request under another host's name, or from another site's page, is refused."""

    def __init__(self, command: Sequence[str], port: int):
        words = [sys.executable, "-m", "arena", *command]
        super().__init__(f"exec {shlex.join(words)}", host=LOCAL, port=port, title=shlex.join(["arena", *command]))
        self._hosts = {f"{name}:{port}" for name in (LOCAL, "localhost")}
        self._visitors = 0

    def initialize_logging(self) -> None:
        """Print what goes wrong, and not every request."""
        logging.basicConfig(level=logging.WARNING, format="%(message)s")

    async def handle_index(self, request: web.Request) -> Any:
        self._check(request, is_socket=False)
        return await super().handle_index(request)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        self._check(request, is_socket=True)
        if self._visitors >= VISITORS:
            raise web.HTTPServiceUnavailable(text=f"{VISITORS} browsers are served already; close one")
        self._visitors += 1
        try:
            return await super().handle_websocket(request)
        finally:
            self._visitors -= 1

    async def handle_download(self, request: web.Request) -> web.StreamResponse:
        self._check(request, is_socket=False)
        return await super().handle_download(request)

    def _check(self, request: web.Request, is_socket: bool) -> None:
        origin = request.headers.get("Origin", "")
        if request.host not in self._hosts:
            raise web.HTTPForbidden(text=f"there is no site called {request.host} here")
        if (origin or is_socket) and origin not in {f"http://{host}" for host in self._hosts}:
            raise web.HTTPForbidden(text="the request comes from another site's page")

    async def on_startup(self, app: web.Application) -> None:
        print(f"http://{LOCAL}:{self.port}/ shows {self.title} (Ctrl-C ends it).", flush=True)
