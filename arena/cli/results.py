"""The commands about results: ratings, the report of an event, and watching a running one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import UserError
from arena.cli import complete
from arena.cli.options import RESULTS, Json, Quiet, Results, board_colours, require_file

if TYPE_CHECKING:
    from arena.results.live import Look
    from arena.results.store import Event as StoredEvent
    from arena.results.store import Store


def elo(
    size: Annotated[int | None, typer.Option(help="Only games on this board size.")] = None,
    rules: Annotated[str | None, typer.Option(help="Only games by these rules.")] = None,
    komi: Annotated[float | None, typer.Option(help="Only games with this komi.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the table to this file.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    results: Results = Path(RESULTS),
) -> None:
    """Rate all players from all stored games.

    Ratings are joint Bradley-Terry with 95 % intervals.

    Each combination of size, rules, komi and handicap has a table of its own, the one with most games first.

    Examples: [bold]arena elo --csv ratings.csv[/bold] · [bold]arena elo --size 19[/bold]
    """
    from arena.results.frames import ratings_table, write_elo_csv
    from arena.results.store import Store
    from arena.screen.style import Console
    from arena.screen.tables import elo_table

    require_file(quiet, csv=csv)
    with Store.of(results) as store:
        console, wanted = Console(), {"size": size, "name": rules, "komi": komi}
        pools = [
            pool
            for pool in store.pools()
            if all(value is None or getattr(pool, key) == value for key, value in wanted.items())
        ]
        if quiet:
            pass
        elif as_json:
            from arena.results.league import league
            from arena.results.lines import rating_lines

            for pool in pools:
                for words in rating_lines(league(store, pool), pool):
                    print(words)
        else:
            for number, pool in enumerate(pools):
                if number:
                    console.print()
                console.print(elo_table(ratings_table(store, pool), pool))
            if not pools:
                console.print(elo_table(None))
        if csv is not None:
            write_elo_csv(store, csv)
            if not as_json and not quiet:
                print(f"Written to {csv}.")


def report(
    event: Annotated[
        str | None,
        typer.Argument(
            help="A match, tournament or ladder (default: the last one played).", autocompletion=complete.events
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the events instead.")] = False,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write standings, crosstable, LOS, endings and games as CSV files."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write everything, with plots and games, as one HTML page.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    results: Results = Path(RESULTS),
) -> None:
    """Report an event: ratings, LOS, endings, times and faults.

    This also works while the event is running.

    Examples: [bold]arena report[/bold] · [bold]arena report --list[/bold] ·
    [bold]arena report league --html league.html --csv tables[/bold]
    """
    from arena import UserError
    from arena.results.store import Store
    from arena.results.stored import last_games, overviews, read_report
    from arena.screen.report import overviews_sheet, print_report
    from arena.screen.style import Console

    console = Console()
    require_file(quiet, csv=csv, html=html)
    with Store.of(results) as store:
        if listed:
            if event is not None or csv or html:
                raise UserError("--list can't be combined with an event or an output file")
            if as_json:
                from arena.results.lines import event_line

                for one in overviews(store):
                    print(event_line(one))
            else:
                console.print(overviews_sheet(overviews(store)))
            return
        found = read_report(store, event, keep=csv is not None)
        shown = [] if html is None else last_games(store, found.id)
    written = []
    if csv is not None:
        from arena.results.frames import write_event_csv

        written += write_event_csv(found, csv)
    if html is not None:
        from arena.results.stored import trained_players
        from arena.screen.pages import draw_svgs, write_page

        written.append(write_page(found, draw_svgs(found, trained_players(found, results)), shown, html))
    if quiet:
        return
    if as_json:
        from arena.results.lines import report_line

        print(report_line(found))
        return
    if event is None:
        words = "This is the last event; 'arena report --list' lists all."
        console.print(words, highlight=False)
    print_report(found, console)
    for path in written:
        print(f"Written to {path}.")


def watch(
    event: Annotated[
        str | None,
        typer.Argument(
            metavar="EVENT", help="Event to watch (default: the one that is running).", autocompletion=complete.events
        ),
    ] = None,
    results: Results = Path(RESULTS),
) -> None:
    """Watch an event that another terminal is playing.

    Ctrl-C or q leaves; the event continues. The exit code is 1 if it ends before all its games are played.

    Example: [bold]arena match sl alphago -n 400[/bold] here, [bold]arena watch[/bold] there
    """
    from arena.events.schedule import event_from_json
    from arena.results.live import End, Watch, look_at
    from arena.results.store import Store
    from arena.screen.events import show_watched
    from arena.screen.style import Console

    console, theme = Console(), board_colours()
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
            words = f"{played.event} continues in process {look.live.process}. To watch it again: arena watch"
            console.print(words, markup=False, highlight=False)
            raise SystemExit(130) from None
    if watched.end in (End.STOPPED, End.DIED):
        raise typer.Exit(1)


def _not_running(store: Store, look: Look | None, wanted: StoredEvent | None) -> str:
    """Why there is nothing to watch, and what there is instead."""
    if look is not None and look.has_died and (wanted is None or wanted.id == look.live.event):
        go_on = f"; resume it with: {look.live.command}" if look.live.command else "; the same command plays the rest"
        return f"the process that played {look.live.event} ({look.live.process}) has died{go_on}"
    if look is not None and not look.has_died and wanted is not None:
        return f"{wanted.id} isn't running, {look.live.event} is: arena watch; for the other: arena report {wanted.id}"
    events = store.events()
    shown = wanted or (events[-1] if events else None)
    if shown is None:
        return f"no event is running in {store.path.parent}, and none was played"
    latest = f"{shown.id} isn't running" if wanted else f"no event is running in {store.path.parent}"
    return f"{latest}; {'see it' if wanted else f'the latest is {shown.id}'}: arena report {shown.id}"
