"""The commands that look closer: at a bot before it plays, and at a running event."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import UserError
from arena.cli import complete
from arena.cli.options import RESULTS, ConfigFile, Results, read_theme, registry_of

if TYPE_CHECKING:
    from arena.contract.finding import Begun, Finding
    from arena.go.game import Rules
    from arena.players.registry import Entry, Registry
    from arena.results.live import Look
    from arena.results.store import Event as StoredEvent
    from arena.results.store import Store


def check(
    bots: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BOT ...]",
            help="Bots as in a match; all of arena.toml unless given.",
            autocompletion=complete.bots,
        ),
    ] = None,
    size: Annotated[int, typer.Option(help="Board size, 5 to 19.")] = 9,
    komi: Annotated[float | None, typer.Option(help="Komi; 7 on 9x9, 7.5 above.")] = None,
    rules: Annotated[str, typer.Option(help="cgos, tromp-taylor, chinese or japanese.")] = "cgos",
    run: Annotated[bool, typer.Option("--run", help="Without names: start the engines of arena.toml, too.")] = False,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """See whether bots are ready for an event: each starts, plays some moves against itself and ends.

    For an engine it also tells name and version, how it knows its time, and whether it counts as we do. Without names,
    the bots of arena.toml are checked; its engines are only listed unless --run is given. The exit code is 1 when a
    bot fails.

    Examples: [bold]arena check[/bold] · [bold]arena check gnugo alphago --size 19[/bold] ·
    [bold]arena check "gtp:command=gnugo --mode gtp"[/bold]
    """
    from contextlib import closing

    from rich.console import Console

    from arena.contract.finding import Verdict
    from arena.go.game import Rules
    from arena.screen.check import show_check

    preset = Rules.preset(rules, size, komi)
    registry = registry_of(config, results)
    console = Console()
    names = bots or []
    if not bots:
        names, engines = _declared(registry)
        for entry in [] if run else engines:
            words = f"{entry.name} isn't started without --run: {dict(entry.settings).get('command', entry.kind)}"
            console.print(words, soft_wrap=not console.is_terminal, markup=False, highlight=False)
        names += [entry.name for entry in engines if run]
    for name in bots or []:
        if registry.resolve(name).is_person:
            raise UserError(f"{name}: a person can't be checked; name a bot")
    failed = []
    for number, name in enumerate(names):
        if number:
            console.print()
        with closing(_probed(registry, name, preset)) as steps:
            if show_check(name, steps, console) is Verdict.FAILED:
                failed.append(name)
    if len(names) > 1:
        ready = f"{len(names) - len(failed)} of {len(names)} bots are ready"
        words = f"{ready}; not {', '.join(failed)}" if failed else ready
        console.print(f"\n{words}.", soft_wrap=not console.is_terminal, markup=False, highlight=False)
    if failed:
        raise typer.Exit(1)


def _declared(registry: Registry) -> tuple[list[str], list[Entry]]:
    """The bots that arena.toml declares or changes, people left out; and those of its bots that would run something
    else: engines and Python files. Raises UserError when there are none."""
    from arena.players.registry import ARENA, PACKAGE

    found = [
        entry
        for entry in registry.entries
        if entry.source != ARENA and not entry.source.startswith(PACKAGE) and not entry.is_person
    ]
    if not found and not registry.files:
        raise UserError("arena.toml declares no bots; name those to check, as in: arena check alphago")
    engines = [entry for entry in found if entry.bot_kind.code is not None]
    return [entry.name for entry in found if entry not in engines], [*engines, *registry.files]


def _probed(registry: Registry, name: str, rules: Rules) -> Generator[Begun | Finding, None, None]:
    """The steps of a look at a bot; one that can't be had, as for want of its net, fails in the first."""
    from arena.contract.finding import Finding, Verdict
    from arena.events.probe import probe

    try:
        entry = registry.resolve(name)
    except UserError as error:
        yield Finding("start", Verdict.FAILED, str(error))
        return
    yield from probe(entry, rules)


def watch(
    event: Annotated[
        str | None,
        typer.Argument(metavar="[EVENT]", help="The running one unless given.", autocompletion=complete.events),
    ] = None,
    results: Results = Path(RESULTS),
) -> None:
    """Look on while another terminal plays: the same live screen, or lines in a pipe.

    Ctrl-C or q leaves; the event goes on. The exit code is 1 when it ends before all its games are played.

    Example: [bold]arena match sl alphago -n 400[/bold] here, [bold]arena watch[/bold] there
    """
    from rich.console import Console

    from arena.events.schedule import event_from_json
    from arena.results.live import End, Watch, look_at
    from arena.results.store import Store
    from arena.screen.watch import show_watched

    console, theme = Console(), read_theme(None, registry_of(None, results))
    with Store.of(results) as store:
        look = look_at(store.path)
        stored = None if event is None else store.event(event)
        if look is None or look.has_died or (stored is not None and stored.id != look.live.event):
            raise UserError(_not_running(store, look, stored))
        played = event_from_json((stored or store.event(look.live.event)).plan)
        watched = Watch(played, store, look)
        try:
            show_watched(played, watched, console, theme)
        except KeyboardInterrupt:
            words = f"You have left; {played.event} goes on in process {look.live.process}. See it again: arena watch"
            console.print(words, soft_wrap=not console.is_terminal, markup=False, highlight=False)
            raise SystemExit(130) from None
    if watched.end in (End.STOPPED, End.DIED):
        raise typer.Exit(1)


def _not_running(store: Store, look: Look | None, wanted: StoredEvent | None) -> str:
    """Why there is nothing to watch, and what there is instead."""
    if look is not None and look.has_died and (wanted is None or wanted.id == look.live.event):
        go_on = f"; go on with: {look.live.command}" if look.live.command else "; the same command plays the rest"
        return f"the process that played {look.live.event} ({look.live.process}) has died{go_on}"
    if look is not None and not look.has_died and wanted is not None:
        return (
            f"{wanted.id} isn't running, {look.live.event} is: arena watch; see the other by: arena report {wanted.id}"
        )
    events = store.events()
    shown = wanted or (events[-1] if events else None)
    if shown is None:
        return f"no event is running in {store.path.parent}, and none was played"
    latest = f"{shown.id} isn't running" if wanted else f"no event is running in {store.path.parent}"
    return f"{latest}; {'see it' if wanted else f'the latest is {shown.id}'}: arena report {shown.id}"
