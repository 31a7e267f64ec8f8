"""The command that shows another command's full screen in a browser."""

from __future__ import annotations

import socket
from typing import Annotated

from typer import Argument, Option

from arena import ConfigError, UserError

SCREENS = ("match", "tournament", "gate", "play", "show")
"""The commands that have a full screen."""


def serve(
    command: Annotated[list[str], Argument(help="The command, as typed after 'arena'.")],
    port: Annotated[int, Option(help="Port (default 8380).", min=1, max=65535)] = 8380,
) -> None:
    """Show a command's full screen in a browser on this machine.

    Each browser gets a process of its own, at most 8 at once. Closing the page ends it as Ctrl-C does. Results can be
    written by one event at a time. Ctrl-C ends the server.

    Examples:
      arena serve play alphago
      arena serve --port 9000 match sl mcts -n 100
    """
    if command[0] not in SCREENS:
        raise ConfigError(f"'{command[0]}' has no full screen; serve one of: {', '.join(SCREENS)}")
    try:
        from arena.tui.serve import LOCAL, LocalServer
    except ImportError as error:
        raise UserError(f"serving needs more packages ({error.name}): pip install 'arena[serve]'") from None
    try:
        socket.create_server((LOCAL, port)).close()
    except OSError as error:
        raise UserError(f"port {port} can't be used ({error.strerror}); use another --port") from None
    LocalServer(command, port).serve()
