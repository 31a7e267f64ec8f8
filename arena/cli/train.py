"""The commands that train nets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena import UserError
from arena.cli.options import RESULTS, Results


def train_sl(
    data: Annotated[
        list[Path], typer.Option(help="SGF files, folders or archives to learn from; repeatable.", show_default=False)
    ],
    name: Annotated[str, typer.Option(help="The checkpoint's name, and the run's.")] = "sl",
    size: Annotated[int, typer.Option(help="Board size of the games to use.")] = 9,
    minutes: Annotated[float, typer.Option(help="The end of the run, in minutes of training.")] = 60.0,
    rows: Annotated[
        int | None, typer.Option(help="The end of the run, in training rows instead.", show_default=False)
    ] = None,
    blocks: Annotated[int, typer.Option(help="Residual blocks of the net.")] = 6,
    channels: Annotated[int, typer.Option(help="Channels of the net.")] = 64,
    batch: Annotated[int, typer.Option(help="Rows a step.")] = 128,
    optimizer: Annotated[str, typer.Option(help="muon, adamw or sgd.")] = "muon",
    learning_rate: Annotated[float, typer.Option(help="The highest learning rate.")] = 0.04,
    test_from: Annotated[
        str, typer.Option(help="Games of this day or later are the test; '' for none.")
    ] = "2018-03-01",
    seed: Annotated[int, typer.Option(help="Where first weights and the order of rows start.")] = 1,
    processes: Annotated[
        int, typer.Option(help="Processes that share each batch; on a CPU one a core is fastest.")
    ] = 1,
    threads: Annotated[int, typer.Option(help="Threads of torch in each process.")] = 1,
    results: Results = Path(RESULTS),
) -> None:
    """Learn a policy (and who wins) from game records, AlphaGo's first stage.

    Ctrl-C leaves a good checkpoint; the same command goes on. The net can be played at once as checkpoint:NAME.

    Example: [bold]arena train sl --data games/ --name mine --minutes 90[/bold]
    """
    try:
        from trainers import sl
    except ImportError as error:
        raise UserError(f"training needs more packages ({error.name}): pip install 'arena[train]'") from None
    from arena.screen.training import show_training

    config = sl.Config(
        name=name,
        records=tuple(str(path) for path in data),
        size=size,
        max_minutes=None if rows else minutes,
        max_rows=rows,
        blocks=blocks,
        channels=channels,
        batch=batch,
        optimizer=optimizer,
        learning_rate=learning_rate,
        test_from=test_from,
        seed=seed,
        processes=processes,
        threads=threads,
    )
    with show_training(config.name) as on_progress:
        folder = sl.train(config, results, on_progress)
    from bots.nets.checkpoint import Checkpoint

    metrics = Checkpoint.open(folder).manifest.metrics
    part = "test" if "test_top1" in metrics else "validation"
    print(f"{folder}: {metrics[f'{part}_top1']:.1%} top-1 on {metrics[f'{part}_positions']:,.0f} {part} positions.")
    print(f"Play it: arena match checkpoint:{folder.name} sl -n 100")
