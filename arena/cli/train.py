"""The command train: reads the settings of a run, then runs one of the trainers."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from arena import ConfigError
from arena.cli import options
from arena.cli.nets import gate as gate_command
from arena.cli.options import RESULTS, Argument, Option, ResultsFolder, errors_of_option, registry_of

TRAINERS = ("sl", "rl", "value", "rollout", "ownership", "distill", "zero")


def train(
    ctx: typer.Context,
    trainer: Annotated[str, Argument(metavar="TRAINER")],
    preset: Annotated[
        str, Option(metavar="PRESET", help="Settings to begin with: tiny, cpu or gpu (default cpu).")
    ] = "cpu",
    settings_file: Annotated[Path | None, Option("--settings", metavar="FILE", help="TOML file of settings.")] = None,
    list_settings: Annotated[bool, Option("--list-settings", help="Print all settings as TOML.")] = False,
    resume: Annotated[str, Option(metavar="NAME", help="Resume this run with all its settings.")] = "",
    new: Annotated[bool, Option("--new", help="Start again instead of resuming the run.")] = False,
    gate: Annotated[bool, Option("--gate", help="Then run arena gate on the net.")] = False,
    cluster: options.ClusterAddress = None,
    workers: options.Workers = 0,
    results: ResultsFolder = RESULTS,
) -> None:
    """Train a net (pip install 'arena[train]').

    TRAINER says from what it learns; trainers/README.md explains each:
      sl         policy and value from game records (AlphaGo's first stage)
      rl         policy from games against its earlier versions (second stage)
      value      value head from games of the policy (third stage)
      rollout    fast policy for playouts, from game records
      ownership  who will own each point, from scored games (GoCNN)
      distill    visits, results and win rates of a search
      zero       games of its own search, from random weights (AlphaGo Zero)

    Every setting that --list-settings prints is an option, too, such as --name,
    --data, --net, --start, --max-minutes and --batch-size. Values come from the
    preset, the resumed run, --settings and the options; the last one counts.
    Ctrl-C saves a playable checkpoint; the same command resumes the run.

    Examples:
      arena train sl --data games/ --name mine --max-minutes 90
      arena train value --games 20000 --max-minutes 20
      arena train distill --teacher alphago:visits=200 --play-minutes 60 --gate
      arena train zero --preset tiny
    """
    from trainers import settings as known

    if trainer not in TRAINERS:
        raise ConfigError(f"there is no trainer '{trainer}'; choose one of {', '.join(TRAINERS)}")
    settings = known.choose_preset(trainer, preset)
    if resume:
        left = results / "training" / resume / known.SETTINGS_FILE
        if not left.is_file():
            raise ConfigError(f"no run '{resume}' to resume: there is no {left}")
        found = known.read_file(left)
        if found.keys() != {item.name for item in fields(settings)}:
            raise ConfigError(f"--resume {resume}: this run is not one of {trainer}; name the trainer that began it")
        settings = known.change(settings, found, f"--resume {resume}")
    if settings_file is not None:
        settings = known.change(settings, known.read_file(settings_file), str(settings_file))
    typed = read_options(ctx.args)
    for key, value in typed.items():
        with errors_of_option(key) as option:
            known.change(settings, {key: value}, option)
    settings = known.change(settings, typed, "command line")
    if list_settings:
        print("\n".join(known.listing(settings)))
        return
    if cluster is not None and trainer != "zero":
        raise ConfigError(f"--cluster {cluster}: only zero plays its games on a cluster; leave it out for {trainer}")
    if workers and cluster is None:
        raise ConfigError(f"--workers {workers} needs --cluster; on this machine it is --num-workers")
    folder, was_stopped = run_trainer(trainer, settings, results, new, cluster, workers)
    if not known.is_first():
        return
    size = "" if settings.size == 9 else f" --size {settings.size}"
    print_result(trainer, folder, size)
    if gate and was_stopped:
        print(f"The run was stopped, so it isn't gated. To gate the net as it is: arena gate {folder.name}{size}")
    elif gate:
        gate_command(checkpoint=str(folder), results=results, size=str(settings.size))


def read_options(words: Sequence[str]) -> dict[str, str]:
    """Settings from ``--KEY VALUE``, ``--KEY=VALUE``, or ``--KEY`` for true. Raises ConfigError for anything else."""
    found: dict[str, str] = {}
    left = list(words)
    while left:
        option, equals, value = left.pop(0).partition("=")
        if not option.startswith("--"):
            raise ConfigError(f"unexpected '{option}'; a setting is given as in --batch-size 256")
        if not equals:
            value = left.pop(0) if left and not left[0].startswith("--") else "true"
        key = option[2:].replace("-", "_")
        if key in found:
            raise ConfigError(f"{option} is given twice; separate the values of a list by commas")
        found[key] = value
    return found


def run_trainer(
    trainer: str, settings: Any, results: Path, new: bool, cluster: str | None, workers: int
) -> tuple[Path, bool]:
    """Run a trainer and show its progress; returns the checkpoint's folder, and whether a signal stopped the run."""
    from arena.report import progress
    from trainers.settings import ClusterOptions, is_first

    module, processes = import_module(f"trainers.{trainer}"), import_module("trainers.processes")
    name, training = settings.name, results / "training" / settings.name

    def print_line(line: object) -> None:
        print(f"{name}: {line}", file=sys.stderr)

    known = signature(module.train).parameters
    arguments: dict[str, Any] = {"registry": registry_of(None, results)} if "registry" in known else {}
    if "on_made" in known:
        arguments["on_made"] = print_line
    if cluster is not None:
        arguments["cluster"] = ClusterOptions(cluster, workers, print_line)
    with processes.lock_folder(training, ", or give another --name"), ExitStack() as stack:
        if is_first():
            for stale in training.rglob("*") if new and name else ():
                if stale.is_file() and stale.name != processes.LOCK:
                    stale.unlink()
            print_line("starting")
            right = {"ownership": "points", "value": "results", "distill": "teacher's move"}.get(trainer, "top-1")
            own = {"rl": progress.ITERATION, "zero": progress.ROUND}
            words: Any = progress.self_play_words(own[trainer]) if trainer in own else progress.training_words(right)
            show = cache(lambda: stack.enter_context(progress.show_training(name, words)))
            arguments["on_progress"] = lambda step: show()(step)  # not before: games may be played first
        processes.stopped.clear()
        try:
            folder = module.train(settings, results, **arguments)
        except KeyboardInterrupt:
            if "on_made" in known:
                print_line("stopped. The same command resumes and keeps the finished games.")
            raise SystemExit(130) from None
        return folder, processes.stopped.is_set()


def print_result(trainer: str, folder: Path, size: str) -> None:
    """Print the metrics on the test set, or else the validation set, and a command that uses the new checkpoint."""
    from arena.report.tables import metrics_table
    from bots.nets.checkpoint import Checkpoint

    metrics = Checkpoint.open(folder).manifest.metrics
    part = next((part for part in ("test", "validation") if f"{part}_positions" in metrics), None)
    print(f"{folder}: on {metrics[f'{part}_positions']:,.0f} {part} positions" if part else f"{folder}: trained")
    if (measured := metrics_table(metrics, f"{part}_")).rows:
        options.open_console().print(measured)
    if trainer == "ownership":
        print(f"Measure it: arena eval {folder.name} --data ...")
    elif trainer == "zero":
        bot = f"alphago:checkpoint={folder.name},search=gumbel"
        print(f"Play it: arena match {bot} mcts -n 100{size}")
    elif trainer != "rollout":
        print(f"Play it: arena match checkpoint:{folder.name} sl -n 100{size}")
