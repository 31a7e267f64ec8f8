"""What a match came to, in lines that read the same on a screen and in a log. Nothing live."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from arena.events.schedule import Event, Match
from arena.events.tally import Forfeit, Judge, Tally
from arena.go.game import Ending
from arena.go.moves import BLACK, WHITE
from arena.ratings import Sprt, Verdict
from arena.screen import style
from arena.screen.style import some

SHOWN_FORFEITS = 5
LABELS = 11
WARNINGS = ("Warning", "Forfeit", "Alarm")


def setting_line(event: Event) -> str:
    """What is played, in a few words."""
    rules = event.terms.rules
    return f"{rules.size}x{rules.size}, {rules.name} rules, komi {rules.komi:g}"


def headline(tally: Tally) -> str:
    """``alphago beat sl 94-6 in 100 games``: always of the first player."""
    own, other = tally.points, tally.games - tally.points
    score = f"{own:g}-{other:g} in {some(tally.games, 'game')}"
    if own == other:
        return f"{tally.first} and {tally.second} drew {score}"
    return f"{tally.first} {'beat' if own > other else 'lost to'} {tally.second} {score}"


def verdict(judge: Judge, test: Sprt) -> str:
    """What a sequential test has shown, in words."""
    first, state = judge.tally.first, judge.state
    llr = (
        "no pair is complete"
        if state is None
        else f"LLR {state.llr:+.2f}, bounds {state.lower:.2f} and {state.upper:.2f}"
    )
    errors = f"alpha {test.alpha:g}, beta {test.beta:g}"
    if state is not None and state.verdict is Verdict.H1:
        words = f"accepted: {first} is stronger by {test.elo1:g} Elo rather than {test.elo0:g}"
    elif state is not None and state.verdict is Verdict.H0:
        words = f"rejected: {first} is stronger by {test.elo0:g} Elo at most, rather than {test.elo1:g}"
    else:
        words = f"undecided between {test.elo0:g} and {test.elo1:g} Elo; more games (-n) go on from here"
    return f"{words} ({llr}; {errors})"


def summary(match: Match, tally: Tally) -> list[tuple[str, str]]:
    """Label and text of each line below the headline; a forfeit or a warning takes one of its own."""
    lines = [
        *strength_lines(tally),
        ("Endings", ", ".join(_ending(tally, ending) for ending in tally.endings)),
        ("Length", f"{tally.mean_length or 0:.1f} moves a game"),
        (
            "Time",
            ", ".join(f"{name} {style.seconds(tally.seconds_a_move(name))}" for name in match.players) + " a move",
        ),
    ]
    lines += forfeit_lines(tally.forfeits)
    if tally.repeats:
        distinct = tally.games - tally.repeats
        lines.append(
            (
                "Warning",
                f"this pairing repeats itself: only {distinct} of {tally.games} games differ, and identical ones count "
                "once in the Elo; use more openings or bots that vary",
            )
        )
    return lines


def strength_lines(tally: Tally) -> list[tuple[str, str]]:
    """How much stronger the first player is, and the scores that say so."""
    comparison, counts = tally.comparison(), tally.counts
    evidence = some(counts.games // 2, "pair")
    whole = tally.results()
    return [
        ("Elo", f"{comparison.elo} (95 %) for {tally.first}, from {evidence}; LOS {style.likelihood(comparison.los)}"),
        ("Score", f"{style.score(whole)}, {style.per_cent(tally.points / tally.games)}"),
        ("By colour", _colours(tally)),
    ]


def forfeit_lines(forfeits: Sequence[Forfeit]) -> list[tuple[str, str]]:
    """The first few games that were lost by a fault, and how many more there are."""
    lines = [
        ("Forfeit", f"{forfeit.reason} ({forfeit.ending}, game {forfeit.id})") for forfeit in forfeits[:SHOWN_FORFEITS]
    ]
    more = len(forfeits) - SHOWN_FORFEITS
    return [*lines, ("", f"and {some(more, 'more forfeit')}")] if more > 0 else lines


def _colours(tally: Tally) -> str:
    parts = []
    for colour, label in ((BLACK, "as Black"), (WHITE, "as White")):
        counts = tally.results(colour=colour)
        share = style.per_cent(counts.points / counts.games if counts.games else None)
        parts.append(f"{label} {style.score(counts)} ({share})")
    return f"{', '.join(parts)}; Black took {style.per_cent(tally.black_points / tally.games)}"


def _ending(tally: Tally, ending: Ending) -> str:
    """``score 60 (alphago 55, sl 5)``."""
    counts = tally.results(ending=ending)
    won = [(tally.first, counts.wins), (tally.second, counts.losses), ("drawn", counts.draws)]
    return f"{ending} {counts.games} ({', '.join(f'{name} {number}' for name, number in won if number)})"


def test_lines(judge: Judge) -> list[tuple[str, str]]:
    """What a match's sequential test says, if it has one, and how many games wait to be counted."""
    lines = [] if judge.test is None else [("SPRT", verdict(judge, judge.test))]
    if judge.waiting:
        lines.append(("Waiting", f"{some(judge.waiting, 'game')} will count when all earlier ones are over"))
    return lines


def print_summary(match: Match, judge: Judge, console: Console) -> None:
    """The headline and what stands behind it."""
    if not judge.tally.games:
        console.print("no pair of games is complete", highlight=False)
        return
    print_facts(headline(judge.tally), [*test_lines(judge), *summary(match, judge.tally)], console)


def print_facts(headline: str, facts: Sequence[tuple[str, str]], console: Console) -> None:
    """A headline, then labels and texts; where there is no terminal, a line each, however long."""
    ascii_only = console.options.ascii_only
    lines = [(label, style.spell(text, ascii_only)) for label, text in facts]
    title = Text(style.spell(headline, ascii_only), "bold")
    if not console.is_terminal:
        console.print(title, soft_wrap=True)
        for label, text in lines:
            console.print(f"  {label:{LABELS}}{text}", soft_wrap=True, markup=False, highlight=False)
        return
    grid = Table.grid(padding=0)
    grid.add_column(width=LABELS)
    grid.add_column(overflow="fold")
    for label, text in lines:
        grid.add_row(Text(label, style.WARNING if label in WARNINGS else style.LABEL), Text(text))
    console.print(Text(), title, grid, sep="\n")
