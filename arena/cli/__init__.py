"""The command line, where things are wired together. What is heavy is imported by the command that needs it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Annotated, NoReturn

import typer

from arena import UserError, __version__
from arena.cli import (
    analyze,
    data,
    doctor,
    evaluate,
    gate,
    inspect,
    look,
    match,
    play,
    report,
    serve,
    show,
    tournament,
    train,
)
from arena.cli.manual import add_manuals, manual
from arena.cli.streams import abandon_output, disarm_rich, one_line, open_closed_streams

ABOUT = """Play Go bots against each other, rate them, and see whether the new one got stronger.

Each command explains itself, with examples: [bold]arena match --help[/bold]. The exit code is 2 for what can't be done
as asked, with a line that says why, 130 after Ctrl-C, 143 after SIGTERM and 129 after SIGHUP.

Examples: [bold]arena doctor[/bold] · [bold]arena play --tutorial[/bold] · [bold]arena match sl alphago -n 100[/bold]
"""
DATA = """Make datasets of game records, or of games played for them.

Examples: [bold]arena data build games/ --out sets/strong[/bold] · [bold]arena data stats sets/strong[/bold]
"""
TRAIN = """Train nets (needs: pip install 'arena\\[train]').

Examples: [bold]arena train sl --data games/ --name mine[/bold] · [bold]arena train rl --name rl[/bold]
"""

app = typer.Typer(
    name="arena",
    help=manual(ABOUT),
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Play": (play.play, analyze.analyze),
    "Compete": (match.match, tournament.tournament, inspect.watch),
    "Results": (look.elo, report.report),
    "Games": (look.games, show.show),
    "Engines": (look.bots, inspect.check, serve.gtp),
    "Nets": (gate.gate,),
    "Setup": (doctor.doctor,),
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.command("eval", rich_help_panel="Nets")(evaluate.evaluate)

data_app = typer.Typer(no_args_is_help=True, help=manual(DATA))
data_app.command("build")(data.data_build)
data_app.command("generate")(data.data_generate)
data_app.command("stats")(data.data_stats)
app.add_typer(data_app, name="data", rich_help_panel="Games")

train_app = typer.Typer(no_args_is_help=True, help=manual(TRAIN))
train_app.command("sl", context_settings=train.EXTRA)(train.train_sl)
train_app.command("rl", context_settings=train.EXTRA)(train.train_rl)
train_app.command("rollout", context_settings=train.EXTRA)(train.train_rollout)
train_app.command("ownership", context_settings=train.EXTRA)(train.train_ownership)
train_app.command("value", context_settings=train.EXTRA)(train.train_value)
train_app.command("distill", context_settings=train.EXTRA)(train.train_distill)
app.add_typer(train_app, name="train", rich_help_panel="Nets")

add_manuals(app)


@app.callback()
def _arena(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _version(wanted: bool) -> None:
    if wanted:
        print(f"arena {__version__}")
        raise typer.Exit


class Terminated(KeyboardInterrupt):
    """A Ctrl-C that came as another signal. Python may end as if by SIGINT where one of its own was seen."""


def main() -> None:
    """Run the command line; a user's error is one line on stderr and exit code 2.

    SIGTERM and SIGHUP end a command as Ctrl-C does, with everything closed; the exit code is 128 and their number. A
    signal that is ignored from the start, as under nohup, stays so.
    """
    came: list[int] = []

    def end(number: int, frame: object) -> None:
        came.append(number)
        if len(came) == 1:  # who is ending already isn't disturbed: a lost terminal is often told of twice
            raise Terminated

    try:
        with ExitStack() as exits:
            for number in (signal.SIGTERM, signal.SIGHUP):
                before = signal.getsignal(number)
                if before is not signal.SIG_IGN and threading.current_thread() is threading.main_thread():
                    signal.signal(number, end)
                    exits.callback(signal.signal, number, before)
            _run()
    finally:
        if came:
            raise SystemExit(128 + came[0])


def _run() -> None:
    open_closed_streams()
    disarm_rich()
    try:
        try:
            app(prog_name="arena")
        finally:
            sys.stdout.flush()  # else a full disk is met after everything
    except UserError as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader of a pipe has left, as `head` does
        abandon_output()
        raise SystemExit(1) from None
    except OSError as error:  # a disk, a limit or a name that the system refuses
        abandon_output()
        _fail(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error))


def _fail(words: str) -> NoReturn:
    with suppress(OSError):
        print(f"arena: {one_line(words)}", file=sys.stderr)
    raise SystemExit(2) from None
