"""The commands that train nets. Their options are the settings of the trainers, one for one."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from arena import ConfigError, UserError
from arena.cli.options import RESULTS, Results, registry_of
from arena.contract.settings import plain
from trainers.settings import (
    DISTILL_PRESETS,
    GROUPS,
    OWNERSHIP_PRESETS,
    RECORDS,
    RL,
    RL_PRESETS,
    ROLLOUT_PRESETS,
    SETTINGS_FILE,
    SL_PRESETS,
    VALUE_PRESETS,
    Records,
    change,
    choose_preset,
    is_paths,
    read_file,
)

Data = Annotated[
    list[Path] | None,
    typer.Option(
        help="SGF files, folders or archives to learn from, or one dataset; repeatable.",
        show_default=False,
        rich_help_panel=RECORDS,
    ),
]
Config = Annotated[
    Path | None, typer.Option(help="TOML file of settings, named as below with _ for -.", show_default=False)
]
Resume = Annotated[
    str, typer.Option(help="Go on with the run of this name, with all its settings.", show_default=False)
]
Gate = Annotated[bool, typer.Option("--gate", help="Then let it take its entry's place if it is stronger: arena gate.")]
New = Annotated[bool, typer.Option("--new", help="Begin anew where a run of this name was stopped.")]


def command(
    presets: Mapping[str, Records | RL], resumable: bool = True, plays: bool = True
) -> Callable[[Callable[[Any, Path], Path]], Callable[..., None]]:
    """Turn ``work(settings, results)`` into a command with an option for each setting of ``presets``.

    ``work`` gives the folder of the checkpoint. A setting's value is that of the command line, else of the file, else
    of the run to be resumed, else of the preset.
    """
    kind = type(next(iter(presets.values())))

    def decorate(work: Callable[[Any, Path], Path]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            results, preset, file = given.pop("results"), given.pop("preset"), given.pop("config")
            resume, new, gated = given.pop("resume", ""), given.pop("new", False), given.pop("gate", False)
            typed = {name: value for name, value in given.items() if value is not None}
            if paths := typed.pop("data", None):
                typed["records"] = [str(path) for path in paths]
            settings = choose_preset(presets, preset)
            if resume:
                left = results / "training" / resume / SETTINGS_FILE
                if not left.is_file():
                    raise ConfigError(f"no run '{resume}' to go on with: there is no {left}")
                settings = change(settings, read_file(left), str(left))
            if file is not None:
                settings = change(settings, read_file(file), str(file))
            settings = change(settings, typed, "command line")
            if new:
                for stale in (results / "training" / settings.name).rglob("*"):
                    if stale.is_file():
                        stale.unlink()
            folder = work(settings, results)
            if gated:
                _gate(folder, results)

        parameters = list(_parameters(kind, presets, resumable, plays))
        run.__doc__ = work.__doc__
        run.__name__ = work.__name__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _gate(folder: Path, results: Path) -> None:
    """``arena gate`` with its exit code."""
    from arena.cli.gate import Wanted, run_gate
    from arena.results.gate import Ruling

    if run_gate(Wanted(str(folder), results=results)) is not Ruling.ACCEPTED:
        raise typer.Exit(1)


def _parameters(
    kind: type[Records | RL], presets: Mapping[str, Records | RL], resumable: bool, plays: bool
) -> Iterator[inspect.Parameter]:
    def parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    if any(item.name == "records" for item in fields(kind)):
        yield parameter("data", Data, None)
    yield parameter(
        "preset", Annotated[str, typer.Option(help=f"Settings to begin with: {', '.join(presets)}.")], "cpu"
    )
    yield parameter("config", Config, None)
    if resumable:
        yield parameter("resume", Resume, "")
        yield parameter("new", New, False)
    if plays:
        yield parameter("gate", Gate, False)
    yield parameter("results", Results, Path(RESULTS))
    for item in sorted(fields(kind), key=lambda item: GROUPS.index(item.metadata["group"])):
        if item.name == "records":
            continue
        wanted = {"int": int, "float": float, "bool": bool}.get(str(item.type).removesuffix(" | None"), str)
        if is_paths(item):
            wanted = list[str]
        sentence = item.metadata["help"]
        if choices := item.metadata["choices"]:
            sentence += f" ({', '.join(choices)})"
        usual = plain(getattr(presets["cpu"], item.name) or "")
        option = typer.Option(
            help=f"{sentence[0].upper()}{sentence[1:]}." + (f" \\[default: {usual}]" if usual else ""),
            rich_help_panel=item.metadata["group"],
            show_default=False,
        )
        yield parameter(item.name, Annotated[wanted | None, option], None)


@command(SL_PRESETS)
def train_sl(settings: Any, results: Path) -> Path:
    """Learn a policy (and who wins) from game records, AlphaGo's first stage.

    Ctrl-C leaves a good checkpoint; the same command goes on, and so does --resume NAME. The net can be played at once
    as checkpoint:NAME. Settings come from the preset, a file (--config) and the options below; the last one counts.

    Example: [bold]arena train sl --data games/ --name mine --max-minutes 90 --processes 2[/bold]
    """
    sl = _trainer("sl")
    from arena.screen.progress import show_training

    with show_training(settings.name) as on_progress:
        folder = sl.train(settings, results, on_progress)
    metrics = _metrics(folder)
    part = "test" if "test_top1" in metrics else "validation"
    print(f"{folder}: {metrics[f'{part}_top1']:.1%} top-1 on {metrics[f'{part}_positions']:,.0f} {part} positions.")
    print(f"Play it: arena match checkpoint:{folder.name} sl -n 100")
    return folder


@command(OWNERSHIP_PRESETS, plays=False)
def train_ownership(settings: Any, results: Path) -> Path:
    """Learn whose each point will be at the end, from any position of a scored game: Gilmer's GoCNN.

    Only games teach whose recorded margin is that of the last position. The net plays no moves; arena eval measures it.

    Example: [bold]arena train ownership --data games/ --name territory[/bold]
    """
    ownership = _trainer("ownership")
    from arena.screen.progress import show_training

    with show_training(settings.name, right="points") as on_progress:
        folder = ownership.train(settings, results, on_progress)
    metrics = _metrics(folder)
    part = "test" if "test_ownership" in metrics else "validation"
    print(
        f"{folder}: {metrics[f'{part}_ownership']:.1%} of points foreseen, "
        f"on {metrics[f'{part}_positions']:,.0f} {part} positions."
    )
    print(f"Measure it: arena eval {folder.name} --data ...")
    return folder


@command(RL_PRESETS)
def train_rl(settings: Any, results: Path) -> Path:
    """Get stronger by playing against earlier selves, AlphaGo's second stage. It needs no records.

    It begins with a net that imitates (--start, from arena train sl): moves of won games get likelier, those of lost
    games less likely. Now and then it plays short matches against that net and a bot (--rate-against), whose scores are
    drawn as curves. Ctrl-C leaves a good checkpoint; the same command goes on, and so does --resume NAME.

    Example: [bold]arena train rl --start sl-9x9 --name rl --max-minutes 240[/bold]
    """
    rl = _trainer("rl")
    from arena.screen.progress import show_self_play

    with show_self_play(settings.name) as on_progress:
        folder = rl.train(settings, results, registry_of(None, results), on_progress)
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
    """Learn a quick policy for playouts from game records: AlphaGo's rollout policy. It takes minutes.

    Example: [bold]arena train rollout --data games/ --name mine[/bold]
    """
    rollout = _trainer("rollout")
    from arena.screen.progress import show_training

    with show_training(settings.name) as on_progress:
        folder = rollout.train(settings, results, on_progress)
    metrics = _metrics(folder)
    parts = [part for part in ("test", "validation") if f"{part}_top1" in metrics]
    if not parts:
        print(f"{folder}: no games were kept aside to measure it by.")
    for part in parts[:1]:
        print(
            f"{folder}: {metrics[f'{part}_top1']:.1%} top-1 on {metrics[f'{part}_positions']:,.0f} {part} positions, "
            f"{metrics[f'{part}_late_top1']:.1%} from ply {rollout.LATE} on."
        )
    return folder


@command(VALUE_PRESETS)
def train_value(settings: Any, results: Path) -> Path:
    """Learn who will win, from any position: AlphaGo's third stage. The policy stays as it was.

    First it plays games for it: 1 to 60 moves by --policy, one random move, the rest by --finisher; of each it keeps
    the position after the random move, with the result. That takes most of the time; the games stay in results/cache
    for every later run, and a command that was stopped goes on with them. --source records learns from --data instead.

    Errors are mean squares on a scale from -1 (lost) to 1 (won). A net must beat those beside it: the best constant,
    the score as it stands, and playouts. A test error far over that of training games: they were learned by heart.

    Example: [bold]arena train value --games 20000 --max-minutes 20 --processes 2[/bold]

    Example: [bold]arena train value --source records --data games/ --name from-records[/bold]
    """
    value = _trainer("value")
    from arena.screen.progress import show_training

    def tell(made: Any) -> None:
        print(
            f"{settings.name}: {made.games:,} of {made.wanted:,} games played, {made.positions_per_second:,.0f} "
            f"positions/s, {made.minutes_left:.0f} min left",
            file=sys.stderr,
        )

    with ExitStack() as stack:
        shown: list[Callable[[Any], None]] = []

        def on_progress(progress: Any) -> None:
            if not shown:  # the bar comes once the games are played
                shown.append(stack.enter_context(show_training(settings.name, right="results")))
            shown[0](progress)

        folder = value.train(settings, results, on_progress, tell)
    metrics = _metrics(folder)
    for part in (f"{source}{part}" for source in ("", "records_") for part in ("test", "validation")):
        if f"{part}_mse" in metrics and (part.endswith("test") or f"{part[:-10]}test_mse" not in metrics):
            print("\n".join(_errors(folder, part, metrics)))
    print(f"Play it: arena match checkpoint:{folder.name} sl -n 100")
    return folder


def _errors(folder: Path, part: str, metrics: Mapping[str, float]) -> Iterator[str]:
    """A value net's errors over a part of the positions, a line each for all, early and late ones."""
    yield f"{folder}: mean squared error on {metrics[f'{part}_positions']:,.0f} {part.replace('_', ' ')} positions"
    source = part.removesuffix("test").removesuffix("validation")
    for phase, title in (("", "all"), ("_before_40", "before move 40"), ("_from_40", "later")):
        named = {
            "net": f"{part}{phase}_mse",
            "training games": f"{source}train{phase}_mse",
            "before training": f"{part}{phase}_start",
            "constant": f"{part}{phase}_floor",
            "score": f"{part}{phase}_probe",
            "playouts": f"{part}{phase}_playouts",
            "net there": f"{part}{phase}_beside_playouts",
        }
        told = [f"{what} {metrics[name]:.3f}" for what, name in named.items() if name in metrics]
        if told:
            yield f"  {title}: {', '.join(told)}"


@command(DISTILL_PRESETS)
def train_distill(settings: Any, results: Path) -> Path:
    """Learn what a search finds: its visits become the policy of a net that plays without it, or leads a search anew.

    First --teacher plays games against itself. That takes most of the time; the games stay in results/cache for every
    later run, and a command that was stopped goes on with them. Then the net of --start learns the shares of the
    visits, the results and the win rates of the search. The teacher may be the search of the same net, a larger net's
    search, or a larger net alone (checkpoint:NAME,ensemble=true). With --data it goes on imitating records besides.

    Example: [bold]arena train distill --name better --play-minutes 60 --max-minutes 20 --gate[/bold]

    Example: [bold]arena train distill --teacher alphago:checkpoint=large,visits=400 --name small[/bold]
    """
    distill = _trainer("distill")
    from arena.screen.progress import show_training

    def tell(made: Any) -> None:
        print(
            f"{settings.name}: {made.games:,} of {made.wanted:,} games played, {made.findings:,} positions to learn "
            f"from, {made.moves_per_second:.1f} moves/s, {made.minutes_left:.0f} min left",
            file=sys.stderr,
        )

    registry = registry_of(None, results)
    with ExitStack() as stack:
        shown: list[Callable[[Any], None]] = []

        def on_progress(progress: Any) -> None:
            if not shown:  # the bar comes once the games are played
                shown.append(stack.enter_context(show_training(settings.name, right="teacher's move")))
            shown[0](progress)

        try:
            folder = distill.train(settings, results, registry, on_progress, tell)
        except KeyboardInterrupt:
            print(f"{settings.name}: stopped; the same command goes on with the games that are over.", file=sys.stderr)
            raise typer.Exit(130) from None
    print("\n".join(_distilled(folder, _metrics(folder))))
    games = distill.Recipe.of(settings, registry).folder(results / "cache")
    print(f"Its games stay in {games}; a later round learns from them, too, with --earlier.")
    print(f"Play it: arena match checkpoint:{folder.name} sl -n 100")
    return folder


def _distilled(folder: Path, metrics: Mapping[str, float]) -> Iterator[str]:
    """What a net has learned of its teacher, beside what it knew before, where games were kept aside to tell."""
    part = "test" if "test_top1" in metrics else "validation"
    if f"{part}_top1" not in metrics:
        yield f"{folder}: no games were kept aside to measure it by."
        return
    yield f"{folder}: on {metrics[f'{part}_positions']:,.0f} {part} positions (before)"
    figures = {
        "top1": ("the teacher's move", ".1%"),
        "policy_loss": ("cross entropy", ".3f"),
        "value_mse": ("squared error of the result", ".3f"),
        "win_rate_mse": ("of the teacher's win rate", ".3f"),
    }
    for name, (title, spelled) in figures.items():
        before = metrics.get(f"start_{part}_{name}")
        yield f"  {title} {metrics[f'{part}_{name}']:{spelled}}" + ("" if before is None else f" ({before:{spelled}})")


def _trainer(name: str) -> Any:
    """A trainer's module. Raises UserError where its packages aren't installed."""
    try:
        return import_module(f"trainers.{name}")
    except ImportError as error:
        raise UserError(f"training needs more packages ({error.name}): pip install 'arena[train]'") from None


def _metrics(folder: Path) -> Mapping[str, float]:
    from bots.nets.checkpoint import Checkpoint

    return Checkpoint.open(folder).manifest.metrics
