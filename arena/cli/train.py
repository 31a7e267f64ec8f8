"""The commands that train nets. A few settings of a trainer are options; the others come by --settings and --set."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import fields
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena import ConfigError, UserError
from arena.cli.events import Cluster
from arena.cli.options import RESULTS, Results, registry_of
from arena.contract.settings import plain
from arena.files import suggest
from trainers.settings import (
    DISTILL_PRESETS,
    ENDS,
    OWNERSHIP_PRESETS,
    RL_PRESETS,
    ROLLOUT_PRESETS,
    SETTINGS_FILE,
    SL_PRESETS,
    VALUE_PRESETS,
    ZERO_PRESETS,
    Settings,
    change,
    choose_preset,
    is_first,
    is_paths,
    listing,
    read_file,
)

if TYPE_CHECKING:
    from trainers.cluster import Lent

File = Annotated[Path | None, typer.Option("--settings", help="TOML file of settings.", metavar="FILE")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="KEY=VALUE: any other setting; repeatable.", metavar="KEY=VALUE")
]
List = Annotated[bool, typer.Option("--list-settings", help="List all settings as TOML, and exit.")]
Resume = Annotated[str, typer.Option(help="Name of a run to resume with all its settings.")]
New = Annotated[bool, typer.Option("--new", help="Start again instead of resuming the run of this name.")]
Gate = Annotated[bool, typer.Option("--gate", help="Then run arena gate: promote the net if it is stronger.")]

Players = Annotated[int, typer.Option(help="With --cluster: most cores that play (default 0: all).")]


def command(
    presets: Mapping[str, Settings], resumable: bool = True, plays: bool = True, spreads: bool = False
) -> Callable[[Callable[..., Path]], Callable[..., None]]:
    """Turn ``work(settings, results)`` into a command with options for the settings that are ``SHOWN``.

    ``work`` gives the folder of the checkpoint; where it ``spreads``, it is told the cores of a cluster that it is
    ``lent``, too, or None.
    Values come from the preset, the resumed run, --settings, --set and the options; the last one counts.
    """
    kind = type(presets["cpu"])

    def decorate(work: Callable[..., Path]) -> Callable[..., None]:
        def run(ctx: typer.Context, **given: Any) -> None:
            _refuse_unknown(ctx, kind)
            results, resume, file = given.pop("results"), given.pop("resume", ""), given.pop("settings")
            new, gated, listed = given.pop("new", False), given.pop("gate", False), given.pop("list_settings")
            spread = [given.pop("cluster"), given.pop("players")] if spreads else []
            settings = choose_preset(presets, given.pop("preset"))
            pairs = _read_pairs(given.pop("set") or [])
            if resume:
                left = results / "training" / resume / SETTINGS_FILE
                if not left.is_file():
                    raise ConfigError(f"no run '{resume}' to resume: there is no {left}")
                settings = change(settings, read_file(left), str(left))
            if file is not None:
                settings = change(settings, read_file(file), str(file))
            settings = change(settings, pairs, "--set")
            typed = {name: value for name, value in given.items() if value is not None}
            paths = {name: list(map(str, value)) for name, value in typed.items() if isinstance(value, list)}
            ends = {name: value for name, value in pairs.items() if name in ENDS}
            settings = change(settings, ends | typed | paths, "command line")
            if listed:
                print("\n".join(listing(settings)))
                return
            lent = [_lent(settings, *spread)] if spreads else []
            steps, training = _trainer("train"), results / "training" / settings.name
            with steps.kept_to_one(training, ", or give another --name"):
                if new and settings.name and is_first():
                    for stale in training.rglob("*"):
                        if stale.is_file() and stale.name != steps.LOCK:
                            stale.unlink()
                folder = work(settings, results, *lent)
            if gated:
                _gate(folder, results)

        parameters = list(_parameters(presets, resumable, plays, spreads))
        run.__doc__ = f"{work.__doc__}\n\n    All other settings: [bold]--list-settings[/bold] lists them."
        run.__name__ = work.__name__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True}
"""What Typer must be told of these commands, for an option that isn't one is refused here."""


def _refuse_unknown(ctx: typer.Context, kind: type[Settings]) -> None:
    """Raise ConfigError for an option that isn't one; a setting by that name is given by --set."""
    if not ctx.args:
        return
    word = ctx.args[0].partition("=")[0]
    settings = {f"--{item.name.replace('_', '-')}": item.name for item in fields(kind)}
    name = word.lstrip("-").replace("-", "_")
    if word.startswith("--") and name in settings.values():
        raise ConfigError(f"{word} is a setting, not an option: give it as --set {name}=VALUE")
    options = [option for one in ctx.command.params for option in one.opts]
    hint = suggest(word, [*options, *settings]) or "; --list-settings lists them"
    raise ConfigError(f"unknown option '{word}'{hint}")


def _read_pairs(texts: list[str]) -> dict[str, str]:
    """What --set gives. Raises ConfigError for one that isn't KEY=VALUE, and for a key given twice."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: write KEY=VALUE, such as --set batch_size=128")
        name = name.strip().replace("-", "_")
        if name in pairs:
            raise ConfigError(f"--set {name} is given twice; separate the values of a list by commas")
        pairs[name] = value.strip()
    return pairs


def _lent(settings: Any, cluster: str | None, players: int) -> Lent | None:
    """Raises ConfigError for players that can't be."""
    if players < 0:
        raise ConfigError(f"--players {players}: give 1 or more, or 0 for all cores")
    if cluster is None and players:
        threads = "game_threads" if hasattr(settings, "game_threads") else "num_workers"
        raise ConfigError(f"--players {players}: that is for --cluster; here, give --set {threads}={players}")
    from trainers.cluster import Lent  # which loads the compiler

    return None if cluster is None else Lent(cluster, players, partial(_tell, settings.name))


def _tell(name: str, line: object) -> None:
    print(f"{name}: {line}", file=sys.stderr)


def _gate(folder: Path, results: Path) -> None:
    """``arena gate`` with its exit code."""
    from arena.cli.nets import Wanted, run_gate
    from arena.results.gate import Ruling

    if run_gate(Wanted(str(folder), results=results)) is not Ruling.ACCEPTED:
        raise typer.Exit(1)


def _parameters(
    presets: Mapping[str, Settings], resumable: bool, plays: bool, spreads: bool
) -> Iterator[inspect.Parameter]:
    def parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    yield parameter("ctx", typer.Context, inspect.Parameter.empty)
    known = {item.name: item for item in fields(presets["cpu"])}
    for name in presets["cpu"].SHOWN:
        item = known[name]
        kind = {"int": int, "float": float}.get(str(item.type).removesuffix(" | None"), str)
        usual = plain(getattr(presets["cpu"], name) or "")
        option = typer.Option(help=f"{item.metadata['help']}." + (f" \\[default: {usual}]" if usual else ""))
        yield parameter(name, Annotated[(list[Path] if is_paths(item) else kind) | None, option], None)
    preset = typer.Option(help=f"Settings to begin with: {', '.join(presets)}.")
    yield parameter("preset", Annotated[str, preset], "cpu")
    yield parameter("settings", File, None)
    yield parameter("set", Set, None)
    yield parameter("list_settings", List, False)
    if spreads:
        yield parameter("cluster", Cluster, None)
        yield parameter("players", Players, 0)
    if resumable:
        yield parameter("resume", Resume, "")
        yield parameter("new", New, False)
    if plays:
        yield parameter("gate", Gate, False)
    yield parameter("results", Results, Path(RESULTS))


@command(SL_PRESETS)
def train_sl(settings: Any, results: Path) -> Path:
    """Train a policy and value net on game records (AlphaGo's first stage).

    Ctrl-C saves a playable checkpoint; the same command resumes the run, and so does --resume NAME. Play the net as
    checkpoint:NAME. Settings come from the preset, --settings, --set and the options; the last one counts.

    Example: [bold]arena train sl --data games/ --name mine --max-minutes 90[/bold]
    """
    sl = _trainer("sl")
    with _shown(settings.name, "top-1") as on_progress:
        folder = sl.train(settings, results, on_progress)
    _print_figures(folder, {"top1": ("top-1", ".1%"), "late_top1": ("from ply 15 on", ".1%")})
    print(f"Play it: arena match checkpoint:{folder.name} sl -n 100")
    return folder


@command(OWNERSHIP_PRESETS, plays=False)
def train_ownership(settings: Any, results: Path) -> Path:
    """Train an ownership net on scored games (Gilmer's GoCNN).

    Only games whose recorded margin is that of the last position count. The net plays no moves; arena eval
    measures it.

    Example: [bold]arena train ownership --data games/ --name territory[/bold]
    """
    ownership = _trainer("ownership")
    with _shown(settings.name, "points") as on_progress:
        folder = ownership.train(settings, results, on_progress)
    _print_figures(folder, {"ownership": ("points predicted", ".1%"), "brier": ("Brier score", ".3f")})
    print(f"Measure it: arena eval {folder.name} --data ...")
    return folder


@command(RL_PRESETS, spreads=True)
def train_rl(settings: Any, results: Path, lent: Lent | None) -> Path:
    """Train a policy by games against its earlier versions (AlphaGo's second stage).

    It starts from a net of arena train sl (--start). Moves of won games become more likely, those of lost
    games less likely. It regularly plays short matches against that net and a bot (--eval-opponent), whose scores
    are plotted as curves. Ctrl-C saves a playable checkpoint; the same command resumes the run, and so does --resume
    NAME.

    Example: [bold]arena train rl --start sl-9x9 --name rl --max-minutes 240[/bold]
    """
    rl = _trainer("rl")
    from arena.report.progress import iteration_words, show_training

    with show_training(settings.name, iteration_words) as on_progress:
        folder = rl.train(settings, results, registry_of(None, results), on_progress, lent)
    metrics = _metrics(folder)
    print(
        f"{folder}: scored {metrics['share_against_start']:.1%} against {Path(settings.start).name} in "
        f"{metrics['share_games']:,.0f} games "
        f"(95 %: {metrics['share_against_start_low']:.1%} to {metrics['share_against_start_high']:.1%})."
    )
    print(f"Play it: arena match checkpoint:{folder.name} sl -n 100")
    return folder


@command(ROLLOUT_PRESETS, resumable=False)
def train_rollout(settings: Any, results: Path) -> Path:
    """Train a fast policy for playouts on game records (AlphaGo's rollout policy). It takes minutes.

    Example: [bold]arena train rollout --data games/ --name mine[/bold]
    """
    rollout = _trainer("rollout")
    with _shown(settings.name, "top-1") as on_progress:
        folder = rollout.train(settings, results, on_progress)
    _print_figures(folder, {"top1": ("top-1", ".1%"), "late_top1": ("from ply 15 on", ".1%")})
    return folder


@command(VALUE_PRESETS, spreads=True)
def train_value(settings: Any, results: Path, lent: Lent | None) -> Path:
    """Train a value head (AlphaGo's third stage). The policy stays as it was.

    First it plays games: 1 to 60 moves by --policy, one random move, the rest by the finisher. It learns from the
    position after the random move, with the result. Playing takes most of the time; the games stay in results/cache
    for later runs, and the same command reuses them.

    Errors are mean squares on a scale from -1 (lost) to 1 (won), next to those of the best constant. A test error far
    above the training error is overfitting.

    Example: [bold]arena train value --games 20000 --max-minutes 20[/bold]
    """
    value = _trainer("value")
    with _plays_first(settings.name, "results") as (on_progress, tell):
        folder = value.train(settings, results, on_progress, tell, lent)
    errors = {"mse": "squared error of the result", "start": "before training", "floor": "of the best constant"}
    _print_figures(folder, {name: (title, ".3f") for name, title in errors.items()})
    print(f"Play it: arena match checkpoint:{folder.name} sl -n 100")
    return folder


@contextmanager
def _shown(name: str, right: str) -> Iterator[Callable[[Any], None]]:
    """What shows the progress of a run; nothing in a process that doesn't report."""
    from arena.report.progress import show_training, training_words

    with show_training(name, training_words(right)) if is_first() else nullcontext(lambda _: None) as on_progress:
        yield on_progress


@contextmanager
def _plays_first(name: str, right: str) -> Iterator[tuple[Callable[[Any], None], Callable[[Any], None]]]:
    """What shows the progress of a run, and of the games that it plays first: the bar begins after them."""
    with ExitStack() as stack:
        shown: list[Callable[[Any], None]] = []

        def on_progress(progress: Any) -> None:
            if not shown:
                shown.append(stack.enter_context(_shown(name, right)))
            shown[0](progress)

        yield on_progress, partial(_tell, name)


@command(DISTILL_PRESETS, spreads=True)
def train_distill(settings: Any, results: Path, lent: Lent | None) -> Path:
    """Train a net on the visits, results and win rates of a search.

    First --teacher plays games against itself. Playing takes most of the time; the games stay in results/cache for
    later runs, and the same command reuses them. Then the net of --start learns from them. The teacher may be
    the search of the same net, a larger net's search, or a larger net alone (checkpoint:NAME,ensemble=true). With
    --data it goes on imitating records, too.

    Example: [bold]arena train distill --name better --play-minutes 60 --max-minutes 20 --gate[/bold]

    Example: [bold]arena train distill --teacher alphago:checkpoint=large,visits=400 --name small[/bold]
    """
    distill = _trainer("distill")
    registry = registry_of(None, results)
    with _plays_first(settings.name, "teacher's move") as (on_progress, tell):
        try:
            folder = distill.train(settings, results, registry, on_progress, tell, lent)
        except KeyboardInterrupt:
            print(f"{settings.name}: stopped. The same command resumes and keeps the finished games.", file=sys.stderr)
            raise typer.Exit(130) from None
    errors = {"value_mse": "squared error of the result", "win_rate_mse": "of the teacher's win rate"}
    figures = {"top1": ("the teacher's move", ".1%"), "policy_loss": ("cross entropy", ".3f")}
    _print_figures(folder, figures | {name: (title, ".3f") for name, title in errors.items()})
    games = distill.Recipe.of(settings, registry).folder(results / "cache")
    print(f"Its games stay in {games}; a later round learns from them, too, with --set earlier=DIR.")
    print(f"Play it: arena match checkpoint:{folder.name} sl -n 100")
    return folder


@command(ZERO_PRESETS, spreads=True)
def train_zero(settings: Any, results: Path, lent: Lent | None) -> Path:
    """Train a net on games of its own search, from random weights (AlphaGo Zero).

    Playing and learning alternate. It regularly saves a checkpoint, whose search plays short matches against other
    bots; their scores are plotted as curves. --start begins with a checkpoint instead of random weights. Ctrl-C saves a
    playable checkpoint; the same command resumes the run, and so does --resume NAME.

    Example: [bold]arena train zero --preset tiny[/bold]

    Example: [bold]arena train zero --name z9 --size 9 --max-minutes 120[/bold]
    """
    zero = _trainer("zero")
    from arena.report.progress import round_words, show_training

    with show_training(settings.name, round_words) as on_progress:
        folder = zero.train(settings, results, registry_of(None, results), on_progress, lent)
    metrics = _metrics(folder)
    print(f"{folder}: {metrics['games']:,.0f} games, {metrics['positions']:,.0f} positions.")
    for name, share in metrics.items():
        if name.startswith("share_against_"):
            print(f"  scored {share:.0%} against {name.removeprefix('share_against_')}")
    bot = f"alphago:checkpoint={folder.name},search=gumbel,rollout_weight=0"
    print(f"Play it: arena match {bot} mcts -n 100 --size {settings.size}")
    return folder


def _trainer(name: str) -> Any:
    """A trainer's module. Raises UserError where its packages aren't installed."""
    try:
        return import_module(f"trainers.{name}")
    except ImportError as error:
        raise UserError(f"training needs more packages ({error.name}): pip install 'arena[train]'") from None


def _metrics(folder: Path) -> Mapping[str, float]:
    """What was measured of the new checkpoint. Ends the command in a process that doesn't save one."""
    if not is_first():
        raise typer.Exit
    from bots.nets.checkpoint import Checkpoint

    return Checkpoint.open(folder).manifest.metrics


def _print_figures(folder: Path, figures: Mapping[str, tuple[str, str]]) -> None:
    """Print what was measured of a new checkpoint on test positions, or else on validation positions: ``figures`` are
    titles and formats by the metrics' names. Those of the net that it started from stand beside them."""
    metrics = _metrics(folder)
    part = next((part for part in ("test", "validation") if f"{part}_positions" in metrics), None)
    if part is None:
        print(f"{folder}: not measured, because no games were held out.")
        return
    print(f"{folder}: on {metrics[f'{part}_positions']:,.0f} {part} positions")
    for name, (title, spelled) in figures.items():
        if f"{part}_{name}" in metrics:
            before = metrics.get(f"start_{part}_{name}")
            beside = "" if before is None else f" (before {before:{spelled}})"
            print(f"  {title} {metrics[f'{part}_{name}']:{spelled}}{beside}")


COMMANDS = {
    "sl": train_sl,
    "rl": train_rl,
    "rollout": train_rollout,
    "ownership": train_ownership,
    "value": train_value,
    "distill": train_distill,
    "zero": train_zero,
}
