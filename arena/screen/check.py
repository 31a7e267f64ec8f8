"""Shows what a look at a player finds, step by step. Nothing is looked at here."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from arena.contract.finding import Begun, Finding, Verdict
from arena.screen import style

SIGNS = {Verdict.OK: "✓", Verdict.NOTE: "!", Verdict.FAILED: "✗"}
ASCII_SIGNS = {Verdict.OK: "+", Verdict.NOTE: "!", Verdict.FAILED: "x"}
STYLES = {Verdict.OK: "", Verdict.NOTE: style.WARNING, Verdict.FAILED: style.WARNING}

VERDICTS, STEPS = 9, 10


def show_check(name: str, steps: Iterator[Begun | Finding], console: Console) -> Verdict:
    """Show the steps as they come, a line each, and return the worst that was found."""
    worst = Verdict.OK
    console.print(Text(style.spell(name, console.options.ascii_only), "bold"))
    spinner = "line" if console.options.ascii_only else "dots"
    with console.status("", spinner=spinner) as status:
        for step in steps:
            if isinstance(step, Begun):
                status.update(Text(f"{step.step}: up to {step.seconds:.0f} s", style.LABEL))
                continue
            worst = max(worst, step.verdict, key=list(Verdict).index)
            _print(step, console)
    return worst


def _print(found: Finding, console: Console) -> None:
    """A line, on a terminal as many as it takes, and what belongs below it."""
    ascii_only = console.options.ascii_only
    details = [Text(style.spell(f"    {line}", ascii_only), style.LABEL) for line in found.details.splitlines()]
    sign = (ASCII_SIGNS if ascii_only else SIGNS)[found.verdict]
    words = (f"  {sign} {found.verdict}", found.step, style.spell(found.text, ascii_only))
    if not console.is_terminal:
        line = f"{words[0]:{VERDICTS + 2}}{words[1]:{STEPS}}{words[2]}"
        console.print(line, *details, sep="\n", soft_wrap=True, markup=False, highlight=False)
        return
    grid = Table.grid(padding=0)
    grid.add_column(width=VERDICTS + 2)
    grid.add_column(width=STEPS)
    grid.add_column(overflow="fold")
    text = STYLES[found.verdict]
    grid.add_row(Text(words[0], text), Text(words[1], style.LABEL), Text(words[2]))
    console.print(grid)
    for detail in details:  # the terminal breaks what is too long, so that it can be copied whole
        console.print(detail, soft_wrap=True)
