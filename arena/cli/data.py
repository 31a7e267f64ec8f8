"""The commands that make datasets of records, and tell what is in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli import complete, events
from arena.cli.options import NO_TERMS, RESULTS, ConfigFile, Results, registry_of, takes
from arena.files import cores
from arena.players.tables import TermsTable, first_given

if TYPE_CHECKING:
    from arena.events.generation import GamesFile, Generation
    from arena.screen.tables import Sheet
    from trainers.dataset import Dataset

DATASET = "manifest.json"
"""The file that makes a folder a dataset."""

Paths = Annotated[list[Path], typer.Argument(help="SGF files, folders, .sgfs(.xz), .zip or .tar.* archives.")]


def data_build(
    paths: Paths,
    out: Annotated[Path, typer.Option(help="Folder to create.")],
    size: Annotated[int, typer.Option(help="Board size.", min=2, max=19)] = 9,
    rules: Annotated[list[str] | None, typer.Option(help="Only games by these rules (repeatable).")] = None,
    komi: Annotated[list[float] | None, typer.Option(help="Only games with this komi (repeatable).")] = None,
    rating: Annotated[float, typer.Option(help="Minimum Elo of both players (default 0: no minimum).", min=0)] = 0,
    rank: Annotated[str, typer.Option(help="Minimum rank of both players, such as 5k or 1d.")] = "",
    game_results: Annotated[
        str, typer.Option("--with-result", help="Required result: any, known or scored (counted at the end).")
    ] = "any",
    shortest: Annotated[int, typer.Option("--min-moves", help="Minimum number of moves.", min=1)] = 1,
    longest: Annotated[int, typer.Option("--max-moves", help="Maximum number of moves.", min=1)] = 3000,
    test_from: Annotated[
        str, typer.Option(help="Put games from this day on into the test set, such as 2018-03-01.")
    ] = "",
    test: Annotated[
        float, typer.Option(help="Share of games in the test set, if no day is given.", min=0, max=1)
    ] = 0.0,
    validation: Annotated[
        float, typer.Option(help="Share of the other games in the validation set.", min=0, max=1)
    ] = 0.01,
    dead_stones: Annotated[
        bool,
        typer.Option(
            "--dead-stones", help="Mark dead stones in games whose score on the board differs from the recorded result."
        ),
    ] = False,
    processes: Annotated[
        int, typer.Option(help="Number of reading processes (default 0: one for each core).", min=0)
    ] = 0,
) -> None:
    """Build a dataset from game records: no duplicates (under symmetry), split by game.

    Handicap games are left out. The split depends on each game alone, so it does not change when games are added.
    People stop before dead stones are captured. With --dead-stones, playouts mark them, or GNU Go if they fail and it
    is installed. If the score then matches the recorded result, the game also provides ownership targets.

    Examples: [bold]arena data build games/ --out sets/strong --rating 2400 --test-from 2018-03-01[/bold] ·
    [bold]arena data build ogs.zip --out sets/people --rank 1d --dead-stones[/bold]
    """
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from arena.screen.style import Console
    from trainers.data import SplitRule, day_of
    from trainers.dataset import Sieve, build

    sieve = Sieve(
        size, tuple(rules or ()), tuple(komi or ()), rating, rank, game_results, shortest, longest, dead_stones
    )
    rule = SplitRule(day_of(test_from), validation, test)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Reading", total=None)

        def show(read: int, kept: int) -> None:
            bar.update(task, description=f"{read:,} games read, {kept:,} kept")

        made = build(paths, out, sieve, rule, processes or cores(), show)
    Console().print(dataset_sheet(made))


@takes(TermsTable, "openings", "adjudicate")
def data_generate(
    bots: Annotated[
        list[str],
        typer.Argument(
            metavar="BOT",
            help="One bot to play itself, or several to play each other.",
            autocompletion=complete.bots,
        ),
    ],
    out: Annotated[Path, typer.Option(help="File to write, such as games.sgfs: one game on each line.")],
    games: Annotated[int, typer.Option("-n", "--games", help="Number of games.", min=1)] = 100,
    terms: TermsTable = NO_TERMS,
    workers: events.Workers = 0,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Let bots play training games, each from a different opening (default 8 plies). No game is adjudicated.

    The same command resumes, and a larger -n adds games. The bots' settings decide how much the games vary.

    Examples: [bold]arena data generate mcts:playouts=200 --games 1000 --out games.sgfs[/bold] ·
    [bold]arena data build games.sgfs --out sets/own[/bold]
    """
    from arena.events.generation import GamesFile, Generation
    from arena.screen.style import Console

    console = Console()
    processes = events.count_workers(workers)
    if terms.plies is None and terms.book is None:
        terms = replace(terms, plies=8)  # no two games begin alike
    agreed = events.read_terms(replace(terms, adjudicate="off"), events.printer(console))
    registry = registry_of(config, results)
    generation = Generation(tuple(events.read_player(registry, bot, terms) for bot in bots), agreed, games)
    generation.pairings()  # openings that don't exist are refused before anything is written
    with GamesFile.open(out, generation.event) as kept:
        try:
            _generate(generation, kept, processes)
        except KeyboardInterrupt:
            console.print(
                f"Stopped. {kept.count()} of {games} games are in {out}; the same command plays the rest.",
                highlight=False,
            )
            raise SystemExit(130) from None
        kept.sort()
        console.print(_summary(generation, kept), highlight=False, soft_wrap=True)


def _generate(generation: Generation, kept: GamesFile, processes: int) -> None:
    """Play what is missing, with a bar where there is a terminal."""
    from contextlib import closing

    from arena.events.runner import play_event
    from arena.screen.progress import show_counting

    with (
        show_counting("games", generation.games) as show,
        closing(play_event(generation, kept, processes)) as updates,
    ):
        for _ in updates:
            show(kept.count())


def _summary(generation: Generation, kept: GamesFile) -> str:
    """What is in the file, in a few lines."""
    from collections import Counter
    from statistics import median

    records = list(kept.games())
    endings = Counter("forfeited" if record.outcome is None else record.outcome.ending.value for record in records)
    words = {"score": "counted", "resign": "resigned", "move limit": "stopped at the move limit"}
    ended = ", ".join(f"{count:,} {words.get(ending, ending)}" for ending, count in endings.most_common())
    repeated = len(records) - len({record.canonical_moves() for record in records})
    names = " and ".join(generation.players)
    lines = [
        f"{kept.path}: {len(records):,} games of {names}, {median(len(record.moves) for record in records):g} moves "
        f"(median); {ended}; {repeated:,} repeat another under symmetry."
    ]
    for record in [record for record in records if record.outcome is None][:1]:
        lines.append(f"Forfeited games have no result; the first: {record.reason}")
    size = "" if generation.terms.rules.size == 9 else f" --size {generation.terms.rules.size}"
    lines.append(f"A dataset of them: arena data build {kept.path} --out sets/{kept.path.stem}{size}")
    return "\n".join(lines)


@takes(TermsTable, "openings", "plies", "book", "limits", "adjudicate")
def data_openings(
    bot: Annotated[
        str,
        typer.Argument(metavar="BOT", help="Bot whose policy and search are used.", autocompletion=complete.bots),
    ],
    out: Annotated[Path, typer.Option(help="File to write, such as book.sgfs: one opening on each line.")],
    count: Annotated[int, typer.Option("-n", "--count", help="Number of openings.", min=1)] = 100,
    plies: Annotated[int, typer.Option(help="Moves of an opening.", min=1, max=60)] = 6,
    temperature: Annotated[
        float, typer.Option(help="Softmax temperature of the policy: above 1 flattens it.", min=0.1, max=10)
    ] = 1.0,
    visits: Annotated[int, typer.Option(help="Visits of the search that judges an opening.", min=100)] = 3000,
    least: Annotated[float, typer.Option(help="Minimum win rate of each side.", min=0, max=0.5)] = 0.4,
    terms: TermsTable = NO_TERMS,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Make a book of balanced openings, for --book.

    Moves are drawn from the bot's policy. An opening is kept if a search gives each side a win rate of at least
    --least, and if it is new under the 8 symmetries. The same command resumes, and a larger -n adds openings.

    Examples: [bold]arena data openings alphago --out book.sgfs -n 200[/bold] ·
    [bold]arena match sl alphago --book book.sgfs[/bold]
    """
    from arena.results.book import Making, make_book
    from arena.screen.progress import show_counting
    from arena.screen.style import Console

    rules = events.read_terms(terms, print).rules
    entry = events.read_player(registry_of(config, results), bot, terms)
    making = Making(entry, rules, plies, temperature, visits, least, first_given(terms.seed, 1))
    console = Console()
    try:
        with show_counting("openings", count) as show:
            for done in make_book(making, out, count):
                show(done)
    except KeyboardInterrupt:
        console.print(f"Stopped. The openings found so far are in {out}; the same command finds the rest.")
        raise SystemExit(130) from None
    console.print(f"{out}: {count:,} openings of {plies} moves.", highlight=False, soft_wrap=True)


def data_stats(paths: Paths) -> None:
    """Summarise datasets or game records: games, positions, results, lengths, and what was refused and why.

    Examples: [bold]arena data stats sets/strong[/bold] · [bold]arena data stats games/ more.sgfs.xz[/bold]
    """
    from rich.progress import track

    from arena.go.collection import read_each, statistics
    from arena.screen.style import Console
    from arena.screen.tables import statistics_table

    records = [path for path in paths if not (path / DATASET).is_file()]
    if len(records) < len(paths):
        from trainers.dataset import Dataset

        for path in paths:
            if path not in records:
                Console().print(dataset_sheet(Dataset.open(path, verify=True)))
    if records:
        items = (item for path in records for item in read_each(path))
        counted = statistics(track(items, "Reading", console=Console(stderr=True), transient=True, total=None))
        Console().print(statistics_table(counted))


_SETTLED = {
    "AS_IT_STANDS": "counted as it stands",
    "PLAYOUTS": "counted, dead by playouts",
    "GNUGO": "counted, dead by GNU Go",
    "DISPUTED": "counted, but not so",
}


def dataset_sheet(dataset: Dataset) -> Sheet:
    """A row for each figure, a column for each part, the rejects below."""
    from arena.screen.tables import Sheet
    from trainers.dataset import PARTS, figures

    manifest, parts = dataset.manifest, [figures(getattr(dataset, part), dataset.ratings(part)) for part in PARTS]
    fields = {
        **{name: name for name in ("games", "positions")},
        **{"Black won": "black_won", "White won": "white_won", "draws": "drawn", "unknown": "unknown"},
        **{"moves, median": "median_length", "moves, most": "longest", "both rated": "rated"},
    }
    rows = [(name, *(f"{getattr(part, field):,}" for part in parts)) for name, field in fields.items()]
    ratings = ("rating_low", "rating_median", "rating_high")
    spread = (" / ".join(f"{getattr(part, one):.0f}" for one in ratings) if part.rated else "-" for part in parts)
    rows.append(("Elo 5 % / 50 % / 95 %", *spread))
    for year in sorted({year for part in parts for year in part.years}):
        rows.append((str(year) if year else "no date", *(f"{part.years.get(year, 0):,}" for part in parts)))
    counts = {"games read": manifest.read, **{f"left out: {reason}": n for reason, n in manifest.rejects.items()}}
    settled = manifest.dead_stones or {}
    counts |= {_SETTLED[name]: n for name, n in settled.items() if name != "GNUGO" or manifest.gnugo}
    rows += [(name, f"{count:,}", *[""] * (len(PARTS) - 1)) for name, count in counts.items()]
    title = f"{dataset.folder} ({manifest.size}x{manifest.size})"
    return Sheet((title, *PARTS), rows, numbers=tuple(range(1, len(PARTS) + 1)), flexible=(0,))


COMMANDS = {"build": data_build, "generate": data_generate, "openings": data_openings, "stats": data_stats}
SETTINGS: dict[str, bool] = {}
