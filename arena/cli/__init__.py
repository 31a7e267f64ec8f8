"""The command line: its commands, their help, and how it ends. Commands import what is heavy themselves."""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from arena import UserError, __version__
from arena.cli import bots, match, nets, play, results, train

# --- The commands ---


METAVARS = {"int": "NUMBER", "float": "NUMBER", "Path": "FILE", "bool": ""}


class PlainNames:
    """Help that names values by upper-case words instead of types, and shows no default twice."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in parameters:
            each.show_default = each.show_default and "(default" not in (each.help or "")
            if each.param_type_name == "argument":
                each.display_type_rich, each.metavar = (lambda ctx: None), each.metavar or each.name.upper()
            elif each.metavar is None:
                kind = each.bare_type().removeprefix("list[").removesuffix("]")
                each.metavar = METAVARS.get(kind, each.name.upper())
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]  # type: ignore[misc]


class Command(PlainNames, TyperCommand): ...


class Group(PlainNames, TyperGroup):
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
    "Play": (match.match, match.tournament, play.play, bots.serve),
    "Results and games": (results.elo, results.report, results.games, results.show, results.analyze),
    "Nets": (nets.gate, nets.eval_, nets.import_, train.train),
    "Bots and setup": (bots.bots, bots.check, bots.gtp, bots.analysis, bots.doctor),
}
CONTEXTS: dict[str, dict[str, Any]] = {
    "serve": {"allow_interspersed_args": False, "ignore_unknown_options": True},  # options behind COMMAND are its own
    "train": {"allow_extra_args": True, "ignore_unknown_options": True},  # a trainer's settings are options, too
}

app = typer.Typer(
    cls=Group,
    help=manual(ABOUT),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for panel, commands in PANELS.items():
    for command in commands:
        name, about = command.__name__.rstrip("_"), manual(command.__doc__)
        app.command(name, cls=Command, help=about, rich_help_panel=panel, context_settings=CONTEXTS.get(name))(command)
datasets = typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode=None, help=manual(DATA))
datasets.command("build", cls=Command, help=manual(nets.build.__doc__))(nets.build)
app.add_typer(datasets, name="data", rich_help_panel="Nets")


@app.callback()
def _arena(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


def _version(wanted: bool) -> None:
    if wanted:
        print(f"arena {__version__}")
        raise typer.Exit


# --- Its end ---

EXTRAS = {"torch": "train", "onnx": "train", "textual_serve": "serve", "aiohttp": "serve"}
"""The packages that a plain installation lacks, and what installs them."""


class Terminated(KeyboardInterrupt):
    """A Ctrl-C that came as another signal, whose number is its argument. Python may end as if by SIGINT where one of
    its own was seen."""


def main() -> None:
    """Run the command line; a user's error is one line on stderr and exit code 2.

    SIGTERM and SIGHUP end a command as Ctrl-C does, with everything closed; the exit code is 128 and their number. A
    signal that is ignored from the start, as under nohup, stays so.
    """
    came: list[int] = []

    def end(number: int, frame: object) -> None:
        came.append(number)
        if len(came) == 1:  # what is ending already isn't disturbed: a lost terminal is often reported twice
            raise Terminated(number)

    both = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in both if signal.getsignal(number) is not signal.SIG_IGN}
    try:
        _run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            raise SystemExit(128 + came[0])


def _run() -> None:
    open_closed_streams()
    if os.environ.get("COLUMNS", "").strip("0") == "":
        os.environ.pop("COLUMNS", None)  # 0 means that the width isn't known; Rich would print nothing
    try:
        try:
            code = app(prog_name="arena", standalone_mode=False)
        finally:
            sys.stdout.flush()  # else a full disk is met after everything
        raise SystemExit(code or 0)
    except typer.Abort:  # the end of input at a question
        raise SystemExit(1) from None
    except typer.TyperException as error:  # a command line that isn't understood
        if type(error).__name__ == "NoArgsIsHelpError":  # the help has been printed
            raise SystemExit(2) from None
        _fail(_with_help(_misuse(error)))
    except UserError as error:
        _fail(_with_help(str(error)) if str(error).startswith("--") else str(error))
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            _fail(_note_fault(error), 1)
        _fail(f"this needs more packages ({error.name}): pip install 'arena[{extra}]'")
    except BrokenPipeError:  # the reader of a pipe has left, as `head` does
        abandon_output()
        raise SystemExit(1) from None
    except OSError as error:  # a disk, a limit or a name that the system refuses
        abandon_output()
        _fail(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error))
    except Exception as error:
        _fail(_note_fault(error), 1)


def _note_fault(error: Exception) -> str:
    """Write the traceback of an error that nobody expected to the folder of results, or else among the temporary files.
    Returns a line about it."""
    import platform
    import tempfile
    import traceback
    from datetime import datetime

    folder = dict(zip(sys.argv, sys.argv[1:], strict=False)).get("--results", "results")
    folder = folder if os.access(folder, os.W_OK) else tempfile.gettempdir()
    path = os.path.join(folder, f"fault-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.txt")
    with suppress(OSError), open(path, "x", encoding="utf-8", errors="replace") as file:
        file.write(f"arena {__version__}, Python {platform.python_version()}, {platform.platform()}\n\n")
        traceback.print_exception(error, file=file)
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"this is a fault of arena itself ({what}); please report it with the traceback in {path} and your command"


def _misuse(error: typer.TyperException) -> str:
    """What is wrong on the command line: for a value, the option, the value and what is allowed."""
    words = error.format_message().rstrip(".")
    cause = getattr(error.__cause__, "errors", None)  # pydantic's, which Typer reads values by
    option = max(getattr(getattr(error, "param", None), "opts", [""]), key=len)
    if cause is not None and option.startswith("--"):
        first = cause()[0]
        words = f"{option} {first['input']}: {first['msg']}".replace("Input should be", "expected")
        return words.partition(", unable to parse")[0]
    return words[:1].lower() + words[1:]


def _with_help(words: str) -> str:
    """An error of an option, with the command whose help lists what is allowed."""
    command: Any = typer.main.get_command(app)
    path = ["arena"]
    for word in sys.argv[1:]:
        command = getattr(command, "commands", {}).get(word)
        path += [word] * (command is not None)
    return f"{words}; see '{' '.join(path)} --help'"


def _fail(words: str, code: int = 2) -> NoReturn:
    """End with one line that is fit for a terminal and of at most about 1,000 characters."""
    from arena.report.style import HARMLESS

    line = " ".join(words.split()).translate(HARMLESS)
    with suppress(OSError):
        print(f"arena: {line if len(line) <= 1000 else f'{line[:750]} ... {line[-250:]}'}", file=sys.stderr)
    raise SystemExit(code) from None


def open_closed_streams() -> None:
    """Have closed standard streams lead nowhere. A file that is opened later would take their number, and what is meant
    for the screen would be written into that."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free, which is this one
            os.set_inheritable(descriptor, True)
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False))


def abandon_output() -> None:
    """Forget what can't be written, so that Python's end doesn't try once more."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
