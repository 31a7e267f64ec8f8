"""Distillation: what a search finds goes into the net that plays without one, or leads a search itself. No records are
needed.

The teacher plays games against itself (``teachers.py``), and the net learns the shares of its visits (cross entropy:
Silver et al. 2017, "Mastering the game of Go without human knowledge", Methods, "Optimization"), a value between the
game's result and what the search said, and whose each point was at the end. The teacher may be a larger net, a larger
net's search, or the search of the very net that learns: one round of expert iteration.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from arena import ConfigError, RecordError
from arena.files import read_object
from arena.go.planes import Encoder
from arena.players.registry import Registry
from bots.nets.catalogue import Net
from bots.nets.checkpoint import Checkpoint, find
from bots.nets.network import SCORE_UNIT, expected_result
from trainers import metrics
from trainers.cluster import Lent, connected
from trainers.losses import search_loss, to_search_targets, to_tensors
from trainers.metrics import VALIDATION_POSITIONS
from trainers.progress import Made, Progress
from trainers.records import (
    NO_RESULT,
    TRAIN,
    Batch,
    BySize,
    Counted,
    Mixed,
    Rows,
    Source,
    Split,
    SplitRule,
    parts_of,
    read_split,
)
from trainers.replay import FORMAT_FILE, Replay, SearchBatch, SearchedGames, SearchRows, in_order, play_missing
from trainers.settings import Distill as Config
from trainers.teachers import Recipe, play_there
from trainers.train import (
    Run,
    build,
    claim,
    encoder_of,
    inherited_rules,
    joined,
    kept_to_one,
    origin_of,
)
from trainers.train import check as check_supervised

# --- What is learned from ---


@dataclass(frozen=True, slots=True)
class SearchSplit:
    """Searches apart by game: no game, under no symmetry, is in it twice."""

    train: SearchedGames
    validation: SearchedGames
    test: SearchedGames
    others: tuple[SearchedGames, ...]
    """On boards of other sizes, to learn from only."""


def read_earlier(config: Config) -> list[SearchedGames]:
    """The games in each of the folders ``earlier``, whatever their size. Raises RecordError for one without games."""
    found = []
    for folder in map(Path, config.earlier):
        size = read_object(folder / FORMAT_FILE, error=RecordError, hint="name a folder like distill-games-...").get(
            "size"
        )
        found.append(Replay(folder, int(size or 0)).searched)
    return found


def split_searches(
    config: Config, own: SearchedGames, earlier: Sequence[SearchedGames] = (), inherited: Sequence[SplitRule] = ()
) -> SearchSplit:
    """Searches apart, by hashes of the games' moves; ``earlier`` ones are to learn from only. Raises ConfigError where
    nothing is left to learn from or to be tested on."""
    by_size = {config.size: [own]}
    for one in earlier:
        by_size.setdefault(one.games.size, []).append(one)
    searched, *others = map(SearchedGames.joined, by_size.values())
    sides = parts_of(searched.games, (SplitRule.of(config, played=True), *inherited))
    sides[len(own.games) :][sides[len(own.games) :] >= 0] = TRAIN
    train, validation, test = (searched.select(sides == part) for part in range(3))
    if not len(train) or not len(test):
        raise ConfigError(f"{len(own.games)} games leave nothing to learn from or for the test; play more games")
    return SearchSplit(train, validation, test, tuple(others))


class RecordRows(Rows):
    """Rows of records, as if a teacher had been sure of each move that was played."""

    def batch(self, first: int, count: int) -> SearchBatch:
        batch = super().batch(first, count)
        shares = np.zeros((count, self.games.size**2 + 1), np.float32)
        shares[np.arange(count), batch.moves] = 1
        known = {item.name: getattr(batch, item.name) for item in fields(Batch)}
        return SearchBatch(**known, shares=shares, win_rates=np.full(count, np.nan, np.float32))


def rows_of(split: SearchSplit, records: Split | None, encoder: Encoder, config: Config) -> Source:
    """The endless order of training rows, each a ``SearchBatch``; those of several board sizes take turns."""
    known: list[Counted] = [
        SearchRows(some, encoder, config.seed, config.num_workers) for some in (split.train, *split.others)
    ]
    if records is not None:
        played = RecordRows(records.train, encoder, config.seed, config.num_workers)
        known[0] = Mixed(known[0], played, config.records_share)
    return BySize(known, config.batch_size, config.seed) if split.others else known[0]


# --- Measuring ---


def measure(network: Net, batches: Iterable[SearchBatch]) -> dict[str, float]:
    """How well a net predicts what a teacher found. Errors of the value are mean squares on a scale from -1 to 1: from
    the result, from the teacher's win rate, and of the teacher's from the result. The floor of the policy loss is the
    entropy of the shares; ``top1`` is of the teacher's most visited move."""
    sums = dict.fromkeys(("positions", "results", "rates", "both", "scored", "points"), 0.0)
    sums |= dict.fromkeys(("top1", "policy", "floor", "value", "teacher", "rate", "owned", "score"), 0.0)
    device = next(network.parameters()).device
    for batch in batches:
        with torch.no_grad():
            policy, value, ownership, score, *_ = network(to_tensors(batch, device)[0]).to(torch.device("cpu"))
        shares, owners = torch.from_numpy(batch.shares), torch.from_numpy(batch.owners)
        guess, rate, result = expected_result(value.double()).numpy(), 2.0 * batch.win_rates - 1, 1.0 - batch.results
        decided, judged = batch.results != NO_RESULT, ~np.isnan(rate)
        of_batch = {
            "positions": len(batch),
            "results": decided.sum(),
            "rates": judged.sum(),
            "both": (decided & judged).sum(),
            "top1": (policy.argmax(1) == torch.from_numpy(batch.moves)).sum(),
            "policy": -(shares * policy.log_softmax(1)).sum(),
            "floor": -torch.xlogy(shares, shares).sum(),
            "value": ((guess - result) ** 2)[decided].sum(),
            "teacher": ((rate - result) ** 2)[decided & judged].sum(),
            "rate": ((guess - rate) ** 2)[judged].sum(),
        }
        if ownership is not None and score is not None:
            scores = torch.from_numpy(batch.scores)
            of_batch |= {
                "scored": (~scores.isnan()).sum(),
                "points": (owners != 0).sum(),
                "owned": ((ownership > 0) == (owners > 0))[owners != 0].sum(),
                "score": (SCORE_UNIT * score - scores).abs().nansum(),
            }
        for name, part in of_batch.items():
            sums[name] += float(part)

    def mean(name: str, of: str) -> float:
        return sums[name] / max(1.0, sums[of])

    return {
        "positions": sums["positions"],
        "top1": mean("top1", "positions"),
        "policy_loss": mean("policy", "positions"),
        "policy_floor": mean("floor", "positions"),
        "results": sums["results"],
        "value_mse": mean("value", "results"),
        "teacher_mse": mean("teacher", "both"),
        "win_rate_mse": mean("rate", "rates"),
        "ownership": mean("owned", "points"),
        "score_error": mean("score", "scored"),
    }


# --- Training ---


def with_net_named(config: Config, results: Path) -> Config:
    """The settings with the net that they mean: where they name none, one of the shape of ``start``. Raises
    ConfigError, CheckpointError."""
    if config.net:
        return config
    if not config.start:
        raise ConfigError("without start there is no net; give --set net=arena-BLOCKSxCHANNELS")
    shape = Checkpoint.open(find(config.start, results)).manifest.network
    return replace(config, net=f"arena-{shape.get('blocks', 0)}x{shape.get('channels', 0)}")


def check(config: Config, results: Path) -> None:
    """Raise ConfigError or CheckpointError for settings that can't be."""
    check_supervised(config, "distill", ("policy", "value"), results)
    if config.test_split + config.validation_split >= 1:
        raise ConfigError("test_split and validation leave no games to learn from; lower them")


def play_games(
    config: Config, recipe: Recipe, results: Path, on_made: Callable[[Made], None], lent: Lent | None
) -> Replay:
    """Play the games that are still missing, here or on the cores that are ``lent``; all that are there."""
    replay = Replay(recipe.folder(results / "cache"), config.size)
    minutes = math.inf if config.play_minutes is None else config.play_minutes - replay.seconds / 60
    missing = replay.missing(config.games) if minutes > 0 else deque[int]()
    with connected(lent if missing else None, [recipe.teacher], recipe.rules) as cores:
        claim(config, results)
        if missing:
            with kept_to_one(replay.folder, "; it plays the same games"):
                if cores is None:
                    engines = recipe.engines(missing, config.parallel_games, config.game_threads)
                else:
                    work = partial(play_there, replace(recipe, teacher=recipe.teacher.packed()))
                    engines = [lambda goes_on: cores.play(work, missing, config.parallel_games, goes_on)]
                play_missing(replay, missing, engines, config.games, on_made, minutes)
    return replay


def train(
    config: Config,
    results: Path,
    registry: Registry,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_made: Callable[[Made], None] = lambda _: None,
    lent: Lent | None = None,
) -> Path:
    """Play the games that are still missing, then train, or go on where a run of this name stopped; the checkpoint's
    folder. The teacher is one of ``registry``, and plays where it is ``lent`` cores. Games are in cache/; otherwise as
    ``sl.train``. Interrupted while they are played it raises KeyboardInterrupt."""
    config = with_net_named(config, results)
    check(config, results)
    encoder, inherited = encoder_of(config), inherited_rules(config.start, results)
    earlier = read_earlier(config)  # before the games: or hours of play would come before what is wrong with them
    records = read_split(config, results / "cache", inherited) if config.data else None
    recipe = Recipe.of(config, registry)
    replay = play_games(config, recipe, results, on_made, lent)

    # What is learned from
    split = split_searches(config, replay.by_number(config.games)[0], earlier, inherited)
    rows = rows_of(split, records, encoder, config)
    kept = SearchRows(split.validation if len(split.validation) else split.train, encoder, config.seed + 1)
    of_records = records.rules if records else ()
    rules = tuple(dict.fromkeys((SplitRule.of(config, played=True), *inherited, *of_records)))
    parts = (split.train, split.validation, split.test)
    words = f"{sum(len(part.games) for part in parts)} games of {config.teacher} ({recipe.teacher.identity})"
    words += f"{' and earlier ones' if config.earlier else ''}, {sum(map(len, parts))} positions"
    words += f"; {records.source}" if records else ""
    origin = origin_of(config, results, "distill", config.komi, words, lambda count: kept.batch(0, count).planes, rules)
    before = build(config, results).eval() if config.start else None

    def figures(network: Net, part: str, prefix: str = "") -> dict[str, float]:
        """The figures of a net over ``part`` (validation or test), those of records under a name of their own."""
        count = VALIDATION_POSITIONS if part == "validation" else config.test_positions
        found: dict[str, float] = {}
        searched: SearchedGames = getattr(split, part)
        if len(searched):
            taught = measure(network, in_order(searched, encoder, count))
            found |= {f"{prefix}{part}_{name}": figure for name, figure in taught.items()}
        if records is not None:
            of = metrics.of_records(network, encoder, records, part, config)
            found |= {f"{prefix}records_{name}": figure for name, figure in of.items()}
        return found

    # Learn
    with joined(config) as device, Run(build(config, results).to(device).train(), config, results) as run:
        run.restore()
        with run.batches(rows, to_search_targets, config.batch_size) as batches:
            for planes, targets in batches:
                losses = search_loss(run.forward(planes), targets, config.outcome_share)
                on_progress(run.step(losses.total(config), config.batch_size, losses.figures()))
                run.validate_when_due(config.validate_every, lambda: figures(run.averaged, "validation"))
                run.snapshot_when_due(origin)
                run.save_when_due()

        def test() -> dict[str, float]:
            found = figures(run.averaged, "test")
            return found if before is None else found | figures(before.to(device), "test", "start_")

        return run.finish(origin, lambda: figures(run.averaged, "validation"), test)
