"""The command that reports on an event: in the terminal, as CSV, as a picture, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena.cli import complete
from arena.cli.options import RESULTS, Results


def report(
    event: Annotated[
        str | None,
        typer.Argument(
            help="A match, tournament or ladder; the one played last unless given.", autocompletion=complete.events
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the events instead.")] = False,
    csv: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write standings, crosstable, LOS, endings and games there.")
    ] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Draw the ratings here, too.")] = False,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the ratings into this picture.")] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all of it, with plots and games, as one page.")
    ] = None,
    results: Results = Path(RESULTS),
) -> None:
    """Say what an event's games add up to: ratings, who is stronger than whom, endings, times, faults.

    Works while the event is still being played, too.

    Examples: [bold]arena report[/bold] · [bold]arena report league --plot[/bold] ·
    [bold]arena report league --html league.html --csv tables[/bold] · [bold]arena report --list[/bold]
    """
    from rich.console import Console

    from arena import UserError
    from arena.results.store import Store
    from arena.results.stored import overviews, read_report
    from arena.screen.report import overviews_sheet, print_plots, print_report

    console = Console()
    with Store.of(results) as store:
        if listed:
            if event is not None or csv or plot or png or html:
                raise UserError("--list takes no event and writes nothing; leave one of them out")
            console.print(overviews_sheet(overviews(store)))
            return
        found = read_report(store, event, keep=csv is not None or html is not None)
    written = []
    if csv is not None:
        from arena.results.frames import write_event_csv

        written += write_event_csv(found, csv)
    if png is not None or html is not None:
        from arena.results.nets import trained_players
        from arena.screen.pages import draw_png, draw_svgs, write_page

        trained = trained_players(found, results)
        if png is not None:
            written.append(draw_png(found, trained, png))
        if html is not None:
            written.append(write_page(found, draw_svgs(found, trained), html))
    if event is None:
        words = "The event played last; 'arena report --list' has all."
        console.print(words, highlight=False, soft_wrap=not console.is_terminal)
    print_report(found, console)
    if plot:
        print_plots(found, console)
    for path in written:
        print(f"Written to {path}.")
