"""The command line, where things are wired together. What is heavy is imported by the command that needs it."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from arena import UserError, __version__
from arena.cli import data, evaluate, gate, inspect, look, play, report, serve, tournament, train

app = typer.Typer(
    name="arena",
    help="Play Go bots against each other, rate them, and see whether the new one got stronger.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    play.match,
    play.plan,
    tournament.tournament,
    tournament.ladder,
    look.bots,
    look.elo,
    look.games,
    look.export,
    serve.gtp,
    inspect.watch,
    inspect.replay,
    inspect.check,
    inspect.dossier,
    report.report,
    gate.gate,
    gate.history,
):
    app.command()(command)
app.command("eval")(evaluate.evaluate)

records_app = typer.Typer(no_args_is_help=True, help="Look at game records.")
records_app.command("stats")(look.records_stats)
app.add_typer(records_app, name="records")

data_app = typer.Typer(no_args_is_help=True, help="Make datasets of game records, or of games played for them.")
data_app.command("build")(data.data_build)
data_app.command("generate")(data.data_generate)
data_app.command("stats")(data.data_stats)
app.add_typer(data_app, name="data")

train_app = typer.Typer(no_args_is_help=True, help="Train nets (needs: pip install 'arena\\[train]').")
train_app.command("sl")(train.train_sl)
train_app.command("rl")(train.train_rl)
train_app.command("rollout")(train.train_rollout)
train_app.command("ownership")(train.train_ownership)
train_app.command("value")(train.train_value)
train_app.command("distill")(train.train_distill)
app.add_typer(train_app, name="train")


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


def main() -> None:
    """Run the command line; a user's error is one line on stderr and exit code 2."""
    try:
        app()
    except UserError as error:
        print(f"arena: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:  # the reader of a pipe has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
