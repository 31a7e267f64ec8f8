"""The command that trains a rollout policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from arena import ConfigError, UserError
from arena.cli.options import RESULTS, Results


def train_rollout(
    data: Annotated[
        list[Path], typer.Option(help="SGF files, folders or archives to learn from; repeatable.", show_default=False)
    ],
    name: Annotated[str, typer.Option(help="The checkpoint's name.")] = "rollout",
    preset: Annotated[str, typer.Option(help="tiny, to see that all works, or cpu.")] = "cpu",
    size: Annotated[int, typer.Option(help="Board size of the games to use.")] = 9,
    epochs: Annotated[
        float | None, typer.Option(help="How often each game is learned from.", show_default="the preset's")
    ] = None,
    test_from: Annotated[
        str, typer.Option(help="Games of this day or later are the test; '' for none.")
    ] = "2018-03-01",
    seed: Annotated[int, typer.Option(help="Where the order of the games starts.")] = 1,
    results: Results = Path(RESULTS),
) -> None:
    """Learn a quick policy for playouts from game records: AlphaGo's rollout policy. It takes minutes.

    Example: [bold]arena train rollout --data games/ --name mine[/bold]
    """
    try:
        from trainers import rollout
    except ImportError as error:
        raise UserError(f"training needs more packages ({error.name}): pip install 'arena[train]'") from None
    from arena.screen.training import show_training
    from bots.nets.rollout import RolloutPolicy

    if preset not in rollout.PRESETS:
        raise ConfigError(f"unknown preset '{preset}'; there are {', '.join(rollout.PRESETS)}")
    config = replace(
        rollout.PRESETS[preset],
        name=name,
        records=tuple(str(path) for path in data),
        size=size,
        test_from=test_from,
        seed=seed,
    )
    if epochs is not None:
        config = replace(config, epochs=epochs)
    with show_training(config.name) as on_progress:
        folder = rollout.train(config, results, on_progress)
    metrics = RolloutPolicy.open(folder).manifest.metrics
    parts = [part for part in ("test", "validation") if f"{part}_top1" in metrics]
    if not parts:
        print(f"{folder}: no games were kept aside to measure it by.")
    for part in parts[:1]:
        print(
            f"{folder}: {metrics[f'{part}_top1']:.1%} top-1 on {metrics[f'{part}_positions']:,.0f} {part} positions, "
            f"{metrics[f'{part}_late_top1']:.1%} from ply {rollout.LATE} on."
        )
