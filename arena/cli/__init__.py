"""The command line: its commands, their help, and how it ends. Commands import what is heavy themselves."""

import inspect
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from arena import UserError, __version__
from arena.cli import bots, match, nets, play, results, train, tune
from arena.cli.options import Option


class Group(TyperGroup):
    """Commands under the headings of their panels."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            panels.setdefault(panel, []).append((name, command.get_short_help_str(limit=64)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def manual(docstring: str | None) -> str:
    """A docstring as help, in which paragraphs with indented lines stay as they are."""
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(f"\b\n{lines}" if "\n  " in lines else lines for lines in paragraphs)


ABOUT = """Play Go bots against each other and measure which one is stronger.
Example:
  arena match sl alphago -n 100
"""
DATA = """Make datasets from game records.

Example:
  arena data build games/ --out sets/strong
"""
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Play": (match.match, match.tournament, tune.tune, play.play, bots.serve),
    "Results and games": (results.elo, results.report, results.games, results.show, results.analyze),
    "Nets": (nets.gate, nets.eval_, nets.import_, train.train),
    "Bots and setup": (bots.bots, bots.check, bots.gtp, bots.analysis, bots.doctor),
}
CONTEXTS: dict[str, dict[str, Any]] = {
    "match": {"allow_extra_args": True},  # a third bot is refused by name
    "serve": {"allow_interspersed_args": False, "ignore_unknown_options": True},  # options behind COMMAND are its own
    "train": {"allow_extra_args": True, "ignore_unknown_options": True},  # a trainer's settings are options, too
}

app = typer.Typer(
    cls=Group,
    help=manual(ABOUT),
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for panel, commands in PANELS.items():
    for command in commands:
        name, about = command.__name__.rstrip("_"), manual(command.__doc__)
        app.command(name, help=about, rich_help_panel=panel, context_settings=CONTEXTS.get(name))(command)
datasets = typer.Typer(cls=Group, rich_markup_mode=None, help=manual(DATA))
datasets.command("build", help=manual(nets.build.__doc__))(nets.build)
app.add_typer(datasets, name="data", rich_help_panel="Nets")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"arena {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _arena(
    ctx: typer.Context,
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
        raise typer.Exit(2)


EXTRAS = {"torch": "train", "onnx": "train", "textual_serve": "serve", "aiohttp": "serve"}
"""Packages that a plain installation lacks, and the extra that installs each."""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, handled like Ctrl-C; the argument is the signal's number."""


def main() -> None:
    """Run the command line. A user's error is one line on stderr and exit code 2. SIGTERM and SIGHUP end a command as
    Ctrl-C does, with exit code 128 + the signal's number; signals ignored from the start, as under nohup, stay
    ignored."""
    received: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        received.append(number)
        if len(received) == 1:  # a lost terminal is often reported twice; the second must not disturb the clean-up
            raise Terminated(number)

    both = (signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.signal(n, interrupt) for n in both if signal.getsignal(n) is not signal.SIG_IGN}
    try:
        _run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            raise SystemExit(128 + received[0])


def _run() -> None:
    open_closed_streams()
    if os.environ.get("COLUMNS", "").strip("0") == "":
        os.environ.pop("COLUMNS", None)  # 0 means that the width isn't known; Rich would print nothing
    try:
        try:
            code = app(prog_name="arena", standalone_mode=False)
        finally:
            sys.stdout.flush()  # otherwise Python reports a full disk after everything else
        raise SystemExit(code or 0)
    except typer.Abort:  # the end of input at a question
        raise SystemExit(1) from None
    except typer.TyperException as error:
        words, context = error.format_message(), getattr(error, "ctx", None)
        command = context.command_path if context else " ".join(["arena", *sys.argv[1:2]])
        _fail(f"{words[:1].lower()}{words[1:].rstrip('.')}{'.' * (words[-1:] != '?')} See '{command} --help'.")
    except UserError as error:
        _fail(f"{error}. See 'arena {sys.argv[1]} --help'." if str(error).startswith("--") else str(error))
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            _fail(_write_traceback(error), 1)
        _fail(f"this needs more packages ({error.name}): pip install 'arena[{extra}]'")
    except BrokenPipeError:  # the reader of a pipe has left, as `head` does
        abandon_output()
        raise SystemExit(1) from None
    except OSError as error:  # a disk, a limit or a name that the system refuses
        abandon_output()
        _fail(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error))
    except Exception as error:
        _fail(_write_traceback(error), 1)


def _write_traceback(error: Exception) -> str:
    """Write the traceback of a bug in arena to the results folder or the temporary files; returns what to print."""
    import platform
    import tempfile
    import traceback

    folder = dict(pairwise(sys.argv)).get("--results", "results")
    folder = folder if os.access(folder, os.W_OK) else tempfile.gettempdir()
    path = os.path.join(folder, f"traceback-{os.getpid()}.txt")
    with suppress(OSError), open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(f"arena {__version__}, Python {platform.python_version()}, {platform.platform()}\n\n")
        traceback.print_exception(error, file=file)
    what = " ".join(traceback.format_exception_only(error)[0].split())
    return f"this is a bug in arena ({what}); please report it with your command and the traceback in {path}"


def _fail(words: str, code: int = 2) -> NoReturn:
    """End with one line that is fit for a terminal and of at most about 1,000 characters."""
    from arena.report.style import CONTROL_SIGNS

    line = " ".join(words.split()).translate(CONTROL_SIGNS)
    with suppress(OSError):
        print(f"arena: {line if len(line) <= 1000 else f'{line[:750]} ... {line[-250:]}'}", file=sys.stderr)
    raise SystemExit(code) from None


def open_closed_streams() -> None:
    """Open closed standard streams on /dev/null. Otherwise the next file to be opened, such as the database, would get
    the number of stdout, and output for the screen would be written into it."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free, which is this one
            os.set_inheritable(descriptor, True)
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False))


def abandon_output() -> None:
    """Discard buffered output that can't be written, so that Python doesn't try again at exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
