"""The command that shows events, stored games and games of people in a browser."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena import ConfigError, StoreError, UserError
from arena.cli.options import RESULTS, Results, registry_of

if TYPE_CHECKING:
    from arena.people.kifu import KifuFile
    from arena.people.sitting import Sitting
    from arena.players.registry import Registry


def serve(
    play: Annotated[bool, typer.Option("--play", help="Let people play against bots in the browser.")] = False,
    port: Annotated[int, typer.Option(help="Port (default 8380; 0: any free one).", min=0, max=65535)] = 8380,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Anyone who reaches another one than 127.0.0.1 sees everything.")
    ] = "127.0.0.1",
    results: Results = Path(RESULTS),
) -> None:
    """Show events and games in a browser.

    Pages are read from the database, and nothing can be changed unless --play is given. With --play, games against bots
    are saved and stored as those of [bold]arena play[/bold]; resume one there or here. Ctrl-C ends the command.

    Examples: [bold]arena serve[/bold] · [bold]arena serve --play --port 9000[/bold]
    """
    try:
        import uvicorn

        from arena.screen.site import LOCAL, site
    except ImportError as error:
        raise UserError(f"serving needs more packages ({error.name}): pip install 'arena[serve]'") from None
    registry = registry_of(None, results)
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UserError(f"{host}:{port} can't be listened on ({error.strerror}); use another --port") from None
    hosts = {host, socket.gethostname(), socket.getfqdn(), *LOCAL}
    app = site(results, ThisDesk(registry, results) if play else None, hosts)
    with listener:
        where = f"[{host}]" if ":" in host else host
        print(f"http://{where}:{listener.getsockname()[1]}/ shows {results} (Ctrl-C ends it).", flush=True)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        finally:
            app.state.close()


class ThisDesk:
    """Begins games of people as ``arena play`` does, and stores them."""

    def __init__(self, registry: Registry, results: Path):
        self._registry = registry
        self._results = results
        self._files: dict[str, KifuFile] = {}
        self._lock = Lock()

    def bots(self) -> list[tuple[str, str]]:
        entries = [one for one in self._registry.entries if not one.is_person and not one.missing]
        files = [(one.name, f"from {one.kind}") for one in self._registry.files]  # they aren't run before one is chosen
        return [*((one.name, one.bot_kind.summary) for one in entries), *files]

    def begin(self, wish: Mapping[str, Any]) -> Sitting:
        from arena.cli.play import store_finished, stored_ids
        from arena.cli.seats import Wish, arranged
        from arena.contract.settings import read_value
        from arena.people.kifu import KifuFile

        bot, typed = wish.get("bot"), {item.name: item for item in fields(Wish) if item.metadata}
        if not isinstance(bot, str) or bot not in {name for name, _ in self.bots()}:
            raise ConfigError(f"there is no bot {bot!r} to play")
        given = {name: wish[name] for name in typed if wish.get(name) not in (None, "")}
        if odd := next((name for name, value in given.items() if not isinstance(value, str | int | float)), None):
            raise ConfigError(f"{odd} is not a text or a number")
        read = {name: read_value(value, typed[name], name) for name, value in given.items()}
        read.setdefault("seed", secrets.randbits(48))
        store_finished(self._results, lambda words: None)
        try:
            kifu, bots = arranged(self._registry, self._registry.resolve(bot), None, Wish(**read))
        except ConfigError as error:  # which speaks of options
            raise ConfigError(str(error).replace("--time", "clock").replace("--", "")) from error
        with self._lock:
            file = KifuFile.create(self._results, stored_ids(self._results))
        try:
            return self._sit_down(file.begin(kifu), bots, file)
        except BaseException:
            file.remove()
            file.close()
            raise

    def resume(self, id: str) -> Sitting:
        from arena.cli.play import recast
        from arena.people.kifu import KifuFile

        file = KifuFile.open(self._results, id)
        try:
            kifu = file.read()
            kifu, bots = (kifu, {}) if kifu.is_over else recast(kifu, self._registry, lambda words: None)
            return self._sit_down(kifu, bots, file)
        except BaseException:
            file.close()
            raise

    def _sit_down(self, kifu: Any, bots: Any, file: KifuFile) -> Sitting:
        from arena.cli.play import advisers, analyst
        from arena.cli.seats import opponents_of
        from arena.people.sitting import Sitting

        judges = advisers(bots, self._registry, kifu.size)
        sitting = Sitting(kifu, opponents_of(bots, kifu.rules), analyst(judges), file.write)
        self._files[file.id] = file
        return sitting

    def put_away(self, sitting: Sitting) -> None:
        from arena.cli.play import store_games, stored_ids

        kifu = sitting.snapshot()
        if kifu.is_over and kifu.id not in stored_ids(self._results):
            try:
                store_games([kifu], self._results)
            except StoreError:  # an event is being played: `store_finished` does it later
                pass
        file = self._files.get(kifu.id)
        if file is not None and sitting.has_ended:
            if not kifu.record.moves and not kifu.is_over:
                file.remove()
            file.close()
            del self._files[kifu.id]
