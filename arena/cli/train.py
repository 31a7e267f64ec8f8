"""The command that trains nets: settings from a preset, a resumed run, a file and options; then one of the trainers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer import Argument, Option

from arena import ConfigError, UserError
from arena.cli.options import RESULTS, Cluster, Results, errors_of_option, registry_of

TRAINERS = ("sl", "rl", "value", "rollout", "ownership", "distill", "zero")

PLAY, PLAY_FIRST, WITH_BOTS = ("rl", "value", "distill", "zero"), ("value", "distill"), ("rl", "distill", "zero")
"""Trainers that play games, which a cluster can do; that play before they learn; that name bots."""

PREDICTED = {"sl": "top-1", "rollout": "top-1", "ownership": "points", "value": "results", "distill": "teacher's move"}
"""What the share is that the progress of a trainer shows."""

FIGURES = {
    "top1": ("top-1", ".1%"),
    "late_top1": ("top-1 from ply 15 on", ".1%"),
    "policy_loss": ("cross entropy of the policy", ".3f"),
    "ownership": ("points predicted", ".1%"),
    "brier": ("Brier score", ".3f"),
    "value_mse": ("squared error of the result", ".3f"),
    "value_floor": ("that of the best constant", ".3f"),
    "win_rate_mse": ("squared error of the teacher's win rate", ".3f"),
}
"""What is printed of a new checkpoint: titles and formats by the metrics' names."""


def train(
    ctx: typer.Context,
    trainer: Annotated[str, Argument(help="One of those above.")],
    data: Annotated[list[Path] | None, Option(help="SGF files, folders, archives or datasets.")] = None,
    name: Annotated[str | None, Option(help="Name of the run and of its checkpoint.")] = None,
    net: Annotated[str | None, Option(help="Net, such as arena-6x64 or alphago-12x192.")] = None,
    start: Annotated[str | None, Option(help="Checkpoint to start from.")] = None,
    max_minutes: Annotated[str | None, Option(metavar="NUMBER", help="Minutes of training.")] = None,
    preset: Annotated[str, Option(help="Settings to begin with: tiny, cpu or gpu (default cpu).")] = "cpu",
    settings_file: Annotated[Path | None, Option("--settings", help="TOML file of settings.")] = None,
    list_settings: Annotated[bool, Option("--list-settings", help="Print all settings as TOML.")] = False,
    resume: Annotated[str, Option(metavar="NAME", help="Resume this run with all its settings.")] = "",
    new: Annotated[bool, Option("--new", help="Start again instead of resuming the run of this name.")] = False,
    gate: Annotated[bool, Option("--gate", help="Then run arena gate on the net.")] = False,
    cluster: Cluster = None,
    players: Annotated[int, Option(help="With --cluster: cores that play (default 0: all).", min=0)] = 0,
    results: Results = RESULTS,
) -> None:
    """Train a net (pip install 'arena\\[train]').

    TRAINER says from what it learns; trainers/README.md explains each:
      sl         policy and value from game records (AlphaGo's first stage)
      rl         policy from games against its earlier versions (second stage)
      value      value head from games of the policy (third stage)
      rollout    fast policy for playouts, from game records
      ownership  who will own each point, from scored games (GoCNN)
      distill    visits, results and win rates of a search
      zero       games of its own search, from random weights (AlphaGo Zero)

    Every setting that --list-settings prints is an option, too, as in --batch-size 256. Values come from the preset,
    the resumed run, --settings and the options; the last one counts. Ctrl-C saves a playable checkpoint; the same
    command resumes the run.

    Examples:
      arena train sl --data games/ --name mine --max-minutes 90
      arena train value --games 20000 --max-minutes 20
      arena train distill --teacher alphago:visits=200 --play-minutes 60 --gate
      arena train zero --preset tiny
    """
    from trainers import settings as known

    if trainer not in TRAINERS:
        raise ConfigError(f"there is no trainer '{trainer}'; choose one of {', '.join(TRAINERS)}")
    settings = known.choose_preset(getattr(known, f"{trainer.upper()}_PRESETS"), preset)
    if resume:
        left = results / "training" / resume / known.SETTINGS_FILE
        if not left.is_file():
            raise ConfigError(f"no run '{resume}' to resume: there is no {left}")
        settings = known.change(settings, known.read_file(left), str(left))
    if settings_file is not None:
        settings = known.change(settings, known.read_file(settings_file), str(settings_file))
    typed: dict[str, Any] = {"name": name, "net": net, "start": start, "max_minutes": max_minutes}
    typed = {key: value for key, value in typed.items() if value is not None}
    if data:
        typed["data"] = list(map(str, data))
    typed |= read_settings(ctx.args)
    for key, value in typed.items():
        with errors_of_option(key) as option:
            known.change(settings, {key: value}, option)
    settings = known.change(settings, typed, "command line")
    if list_settings:
        print("\n".join(known.listing(settings)))
        return
    if cluster is not None and trainer not in PLAY:
        raise ConfigError(f"--cluster {cluster}: {trainer} plays no games; those that do are {', '.join(PLAY)}")
    if players and cluster is None:
        raise ConfigError(f"--players {players} needs --cluster")
    folder = run_trainer(trainer, settings, results, new, cluster, players)
    if known.is_first():
        print_result(trainer, settings, folder)
    if gate:
        from arena.cli import nets

        nets.gate(checkpoint=str(folder), results=results, size=str(settings.size))


def read_settings(words: Sequence[str]) -> dict[str, str]:
    """Options that are settings: ``--KEY VALUE``, ``--KEY=VALUE``, or ``--KEY`` for true. Raises ConfigError for other
    words, and for a key given twice."""
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


def run_trainer(trainer: str, settings: Any, results: Path, new: bool, cluster: str | None, players: int) -> Path:
    """Run a trainer and show its progress; returns the checkpoint's folder."""
    from trainers.settings import is_first

    try:
        module, steps = import_module(f"trainers.{trainer}"), import_module("trainers.train")
    except ImportError as error:
        raise UserError(f"training needs more packages ({error.name}): pip install 'arena[train]'") from None
    name, training = settings.name, results / "training" / settings.name
    arguments: dict[str, Any] = {}
    if trainer in WITH_BOTS:
        arguments["registry"] = registry_of(None, results)
    if trainer in PLAY_FIRST:
        arguments["on_made"] = lambda line: _say(name, line)
    if cluster is not None:
        from trainers.cluster import Lent  # which loads the compiler

        arguments["lent"] = Lent(cluster, players, lambda line: _say(name, line))
    with steps.kept_to_one(training, ", or give another --name"), ExitStack() as stack:
        if is_first():
            for stale in training.rglob("*") if new and name else ():
                if stale.is_file() and stale.name != steps.LOCK:
                    stale.unlink()
            _say(name, "starting")
            arguments["on_progress"] = _show_progress(trainer, name, stack)
        try:
            return cast(Path, module.train(settings, results, **arguments))
        except KeyboardInterrupt:
            if trainer in PLAY_FIRST:
                _say(name, "stopped. The same command resumes and keeps the finished games.")
            raise SystemExit(130) from None


def _say(name: str, line: object) -> None:
    print(f"{name}: {line}", file=sys.stderr)


def _show_progress(trainer: str, name: str, stack: ExitStack) -> Callable[[Any], None]:
    """What shows the progress of a run, from its first step until ``stack`` is closed."""
    from arena.report import progress

    own = {"rl": progress.ITERATION, "zero": progress.ROUND}
    words: Any = (
        progress.self_play_words(own[trainer]) if trainer in own else progress.training_words(PREDICTED[trainer])
    )
    shown: list[Callable[[Any], None]] = []

    def on_progress(step: Any) -> None:
        if not shown:  # before, games may be played
            shown.append(stack.enter_context(progress.show_training(name, words)))
        shown[0](step)

    return on_progress


def print_result(trainer: str, settings: Any, folder: Path) -> None:
    """Print what was measured of the new checkpoint, and what to do with it: shares of points against other bots, and
    figures of test positions, or else of validation positions, those of the net that it started from beside them."""
    from bots.nets.checkpoint import Checkpoint

    metrics = Checkpoint.open(folder).manifest.metrics
    part = next((part for part in ("test", "validation") if f"{part}_positions" in metrics), None)
    print(f"{folder}: on {metrics[f'{part}_positions']:,.0f} {part} positions" if part else f"{folder}: trained")
    for name, value in metrics.items():
        if name.startswith("share_against_") and not name.endswith(("_low", "_high")):
            low, high = metrics.get(f"{name}_low"), metrics.get(f"{name}_high")
            interval = "" if low is None or high is None else f" (95 %: {low:.1%} to {high:.1%})"
            rival = name.removeprefix("share_against_")
            if rival == "start":
                rival = f"{Path(settings.start).name} in {metrics['share_games']:,.0f} games"
            print(f"  scored {value:.1%} against {rival}{interval}")
    for name, (title, spelled) in FIGURES.items():
        if f"{part}_{name}" in metrics:
            before = metrics.get(f"start_{part}_{name}")
            beside = "" if before is None else f" (before {before:{spelled}})"
            print(f"  {title} {metrics[f'{part}_{name}']:{spelled}}{beside}")
    if trainer == "distill":
        from trainers.distill import Recipe

        games = Recipe.of(settings, registry_of(None, folder.parents[1])).folder(folder.parents[1] / "cache")
        print(f"Its games stay in {games}; a later round learns from them, too, with --earlier FOLDER.")
    if trainer == "ownership":
        print(f"Measure it: arena eval {folder.name} --data ...")
    elif trainer == "zero":
        bot = f"alphago:checkpoint={folder.name},search=gumbel,rollout_weight=0"
        print(f"Play it: arena match {bot} mcts -n 100 --size {settings.size}")
    elif trainer != "rollout":
        size = "" if settings.size == 9 else f" --size {settings.size}"
        print(f"Play it: arena match checkpoint:{folder.name} sl -n 100{size}")
