"""The commands about results: ratings and the report of an event."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena import UserError
from arena.cli import complete
from arena.cli.options import RESULTS, Json, Quiet, Results, require_file


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
    from arena.report.style import Console
    from arena.report.tables import elo_table
    from arena.results.export import json_line, rating_rows, write_elo_csv
    from arena.results.standings import league
    from arena.results.store import Store

    require_file(quiet, csv=csv)
    with Store.of(results) as store:
        console, wanted = Console(), {"size": size, "name": rules, "komi": komi}
        pools = [
            pool
            for pool in store.pools()
            if all(value is None or getattr(pool, key) == value for key, value in wanted.items())
        ]
        for number, pool in enumerate([] if quiet else pools):
            found = league(store, pool)
            if as_json:
                for row in rating_rows(found, pool):
                    print(json_line("rating", row))
            else:
                if number:
                    console.print()
                console.print(elo_table(found, pool))
        if not pools and not as_json and not quiet:
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
    from arena.report.style import Console
    from arena.report.text import overviews_sheet, print_report
    from arena.results.export import event_line, report_line, write_event_csv
    from arena.results.standings import last_games, overviews, read_report
    from arena.results.store import Store

    console = Console()
    require_file(quiet, csv=csv, html=html)
    with Store.of(results) as store:
        if listed:
            if event is not None or csv or html:
                raise UserError("--list can't be combined with an event or an output file")
            if as_json:
                for one in overviews(store):
                    print(event_line(one))
            else:
                console.print(overviews_sheet(overviews(store)))
            return
        found = read_report(store, event, keep=csv is not None)
        shown = [] if html is None else last_games(store, found.event)
    written = []
    if csv is not None:
        written += write_event_csv(found, csv)
    if html is not None:
        from arena.report.page import write_page

        written.append(write_page(found, shown, html))
    if quiet:
        return
    if as_json:
        print(report_line(found))
        return
    if event is None:
        words = "This is the last event; 'arena report --list' lists all."
        console.print(words, highlight=False)
    print_report(found, console)
    for path in written:
        print(f"Written to {path}.")
