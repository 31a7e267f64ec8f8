"""The command line, where things are wired together. What is heavy is imported by the command that needs it."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from arena import UserError, __version__
from arena.cli import compete, complete, doctor, engines, games, nets, play, results, serve


def manual(docstring: str) -> str:
    """Help for Typer of a command's docstring, whose paragraphs that begin with ``Example:`` or ``Examples:`` list
    commands between dots; the lines of a paragraph are joined, as Typer would break where the source does."""
    paragraphs, examples = [], []
    for paragraph in inspect.cleandoc(docstring).split("\n\n"):
        text = " ".join(paragraph.split())
        if text.startswith(("Example:", "Examples:")):
            examples += [example.strip() for example in text.partition(":")[2].split(" · ")]
        else:
            paragraphs.append(text)
    if not examples:
        return "\n\n".join(paragraphs)
    if len(examples) == 1:
        return "\n\n".join([*paragraphs, f"Example: {examples[0]}"])
    listed = ["Examples:", *(f"  {example}" for example in examples)]
    if len(paragraphs) == 1:
        listed.insert(0, "")  # Typer takes the indentation of its second paragraph away, unless that begins so
    return "\n\n".join([*paragraphs, "\n".join(listed)])


def add_manuals(app: typer.Typer) -> None:
    """Give every command of an application, and of those in it, its help in this form."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.help = manual(command.callback.__doc__ or "")
            name_values(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_manuals(group.typer_instance)


def name_values(callback: Callable[..., None]) -> None:
    """Have the help name each option's value by a word, and show a default once where the help states it."""
    parameters = inspect.signature(callback, eval_str=True).parameters
    callback.__annotations__.update({name: parameter.annotation for name, parameter in parameters.items()})
    for parameter in parameters.values():
        for option in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(option, OptionInfo):
                option.show_default = option.show_default and "(default" not in (option.help or "")
                option.metavar = option.metavar or _metavar(parameter, option.help or "")


def _metavar(parameter: inspect.Parameter, help: str) -> str | None:
    kind = parameter.annotation.__origin__
    kinds = {kind, *get_args(kind)}
    if bool in kinds:
        return None
    if kinds & {int, float}:
        return "NUMBER"
    return ("FOLDER" if help.startswith("Folder") else "FILE") if Path in kinds else parameter.name.upper()


def without_types(parameters: list[Any]) -> list[Any]:
    """The parameters, whose help names flags and arguments without their types."""
    for each in parameters:
        if each.param_type_name == "argument":
            each.display_type_rich = lambda ctx: None
        elif each.metavar is None:
            each.metavar = ""
    return parameters


class Command(TyperCommand):
    """A command whose help names values by plain words."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


class Group(TyperGroup):
    """The commands of the first level."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_types(super().get_params(ctx))


ABOUT = """Play Go bots against each other and measure which one is stronger.

Example: [bold]arena match sl alphago -n 100[/bold]
"""
DATA = """Make datasets from game records, and summarise them.

Examples: [bold]arena data build games/ --out sets/strong[/bold] · [bold]arena data stats sets/strong[/bold]
"""
TRAIN = """Train nets (pip install 'arena\\[train]').

Examples: [bold]arena train sl --data games/ --name mine[/bold] · [bold]arena train rl --name rl[/bold]
"""


class Later(TyperGroup):
    """The COMMANDS of the module that has the group's name, which is imported when one of them is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        if not self.commands:
            loaded = typer.Typer(rich_markup_mode="rich")
            module = import_module(f"arena.cli.{self.name}")
            for name, command in module.COMMANDS.items():
                loaded.command(name, cls=Command, context_settings=module.SETTINGS)(command)
            add_manuals(loaded)
            self.commands = typer.main.get_command(loaded).commands  # type: ignore[attr-defined]
        return list(self.commands)

    def get_command(self, ctx: Any, name: str) -> Any:
        return self.commands.get(name) if name in self.list_commands(ctx) else None


app = typer.Typer(
    name="arena",
    cls=Group,
    help=manual(ABOUT),
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Play": (compete.match, compete.tournament, play.play),
    "Results and games": (results.elo, results.report, games.games, games.show, games.analyze),
    "Nets": (nets.gate,),
    "Bots and setup": (engines.bots, engines.check, engines.gtp, engines.analysis, doctor.doctor),
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(cls=Command, rich_help_panel=panel)(command)
BEHIND = {"allow_interspersed_args": False, "ignore_unknown_options": True}  # options behind a command are its own
app.command(cls=Command, rich_help_panel="Play", context_settings=BEHIND)(serve.serve)
app.command("eval", cls=Command, rich_help_panel="Nets")(nets.evaluate)

app.add_typer(typer.Typer(cls=Later, no_args_is_help=True, help=manual(DATA)), name="data", rich_help_panel="Nets")
app.add_typer(typer.Typer(cls=Later, no_args_is_help=True, help=manual(TRAIN)), name="train", rich_help_panel="Nets")
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
    try:
        try:
            with complete.colons_in_bash():
                code = app(prog_name="arena", standalone_mode=False)
        finally:
            sys.stdout.flush()  # else a full disk is met after everything
        raise SystemExit(code or 0)
    except typer.Abort:  # the end of input at a question
        raise SystemExit(1) from None
    except typer.TyperException as error:  # a command line that isn't understood
        if type(error).__name__ == "NoArgsIsHelpError":  # the help has been printed
            raise SystemExit(2) from None
        named, words = getattr(getattr(error, "ctx", None), "command_path", "arena"), error.format_message()
        words = words.replace("Input should be", "expected").partition(", unable to parse")[0]
        _fail(f"{words[0].lower()}{words[1:].rstrip('.')}; see '{named} --help'")
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


# --- The three standard streams: open, and free of what a terminal would obey ---

LONGEST = 1000
"""Characters of a line that says what is wrong; of a longer one the middle is left out."""


def open_closed_streams() -> None:
    """Have what is closed lead nowhere. A file that is opened later would take its number, and what is meant for the
    screen would be written into that."""
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


def one_line(text: str) -> str:
    """A text from anywhere as one line that is fit for a terminal and not endless."""
    from arena.report.style import HARMLESS

    line = " ".join(text.split()).translate(HARMLESS)
    return line if len(line) <= LONGEST else f"{line[: LONGEST * 3 // 4]} ... {line[-LONGEST // 4 :]}"
