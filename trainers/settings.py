"""What the trainers can be told: settings with a sentence on each, presets, files of settings. Trains nothing.

Imports neither torch nor Numba, so that the command line can explain a trainer without loading it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from arena import ConfigError
from arena.contract.settings import read_value, suggest
from arena.files import read_json, read_toml, write

GROUPS = RECORDS, NET, PLAYING, BUDGET, LEARNING, WATCHING, MACHINE = (
    "What it learns from",
    "What it becomes",
    "How it plays",
    "How long",
    "How it learns",
    "What is measured and saved",
    "Where it runs",
)
"""The groups in which settings are shown."""

SETTINGS_FILE = "settings.json"
"""All settings of a run, beside its state."""


def option(
    default: Any,
    group: str,
    help: str,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field of a trainer's settings: its default, where it is shown, a sentence, and what values it takes."""
    metadata = {"group": group, "help": help, "low": low, "high": high, "choices": choices}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Records:
    """What everyone is told who learns from game records."""

    name: str = option("", NET, "the checkpoint's name, and the run's")
    records: tuple[str, ...] = option((), RECORDS, "SGF files, folders and archives, or the folder of a dataset")
    size: int = option(9, RECORDS, "only games on boards of this size are used", 5, 19)
    test_from: str = option(
        "2018-03-01", RECORDS, "games of this day or later are the test; '' for none; a dataset has its own test"
    )
    validation: float = option(0.01, RECORDS, "the share of the other games that is kept aside to watch the run", 0, 1)
    test_positions: int = option(60_000, WATCHING, "positions of the test, in whole games; 0 for all", 0)
    seed: int = option(1, LEARNING, "where first weights and the order of the rows start", 0)


@dataclass(frozen=True, slots=True)
class Supervised(Records):
    """What is told to trainers of nets that learn from records."""

    net: str = option("arena-6x64", NET, "its name: arena-BLOCKSxCHANNELS, trencseni-cnn or alphago-LAYERSxCHANNELS")
    encoder: str = option("", NET, "how a position becomes planes; the net's own way unless given")
    start: str = option("", NET, "a checkpoint to train on from, by name or folder; its net may be smaller")
    max_rows: int | None = option(None, BUDGET, "the end, in training rows", 1)
    max_minutes: float | None = option(None, BUDGET, "the end, in minutes of training, all sittings together", 0)
    batch: int = option(256, LEARNING, "rows a step, all processes together", 1)
    optimizer: str = option("muon", LEARNING, "what makes steps of gradients", choices=("muon", "adamw", "sgd"))
    learning_rate: float = option(0.04, LEARNING, "the highest, after the warm-up", 0)
    schedule: str = option("cosine", LEARNING, "how it falls", choices=("cosine", "linear", "constant"))
    warm_up: float = option(0.02, LEARNING, "the share of the budget in which it rises", 0, 0.9)
    weight_decay: float = option(0.01, LEARNING, "decoupled, of convolutions", 0)
    average: float = option(0.999, LEARNING, "how much of the averaged weights, which are saved, stays at a step", 0, 1)
    clip: float = option(10.0, LEARNING, "the highest norm of a gradient", 0)
    check_every: int = option(50_000, WATCHING, "validation after so many rows", 1)
    check_positions: int = option(8_000, WATCHING, "positions of a validation", 1)
    save_minutes: float = option(5.0, WATCHING, "how often the state is saved that a run goes on from", 0)
    tensorboard: bool = option(False, WATCHING, "write the figures for TensorBoard, too")
    processes: int = option(1, MACHINE, "processes that share each batch; on a CPU one a core is fastest", 1)
    threads: int = option(1, MACHINE, "threads of torch in each process", 1)
    loaders: int = option(1, MACHINE, "threads that make rows, in each process", 1)
    device: str = option("auto", MACHINE, "auto is cuda if there is one", choices=("auto", "cpu", "cuda"))
    bf16: bool = option(False, MACHINE, "compute in bfloat16 where that is safe (autocast)")
    compile: bool = option(False, MACHINE, "let torch.compile fuse the net; takes a minute first")


def is_paths(item: Field[Any]) -> bool:
    """Whether a setting is a list of paths."""
    return item.type in (tuple[str, ...], "tuple[str, ...]")


ADJUSTABLE = frozenset(
    "records max_rows max_minutes save_minutes tensorboard threads loaders device compile test_positions check_every "
    "check_positions slots players playout_positions".split()
)
"""Settings that a resumed run may change: where it runs, its end and its reports, not what a step learns."""


@dataclass(frozen=True, slots=True)
class SL(Supervised):
    """What ``trainers.sl`` is told."""

    value_weight: float = option(0.4, LEARNING, "the weight of the value loss beside the policy loss", 0)
    ownership_weight: float = option(0.3, LEARNING, "the weight of the ownership loss", 0)
    score_weight: float = option(0.1, LEARNING, "the weight of the score loss", 0)
    label_smoothing: float = option(0.0, LEARNING, "the share of the target that all moves have alike", 0, 0.99)


SL_PRESETS = {
    "tiny": SL("tiny", net="arena-2x16", batch=64, max_rows=20_000, check_every=5_000, test_positions=5_000),
    "cpu": SL("sl", net="arena-6x56", batch=128, max_minutes=90, average=0.9995, check_every=100_000),
    "gpu": SL(
        "sl-large",
        net="arena-10x128",
        batch=1024,
        max_minutes=25,
        check_every=500_000,
        check_positions=20_000,
        save_minutes=1,
        loaders=8,
        device="cuda",
        bf16=True,
        compile=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Ownership(Supervised):
    """What ``trainers.ownership`` is told."""

    net: str = option("gocnn-5x64", NET, "its name: gocnn-LAYERSxCHANNELS, or arena-BLOCKSxCHANNELS")
    loss: str = option("squared", LEARNING, "of a point's probability", choices=("squared", "cross-entropy"))


OWNERSHIP_PRESETS = {
    "tiny": Ownership(
        "tiny-ownership", net="gocnn-3x16", batch=64, max_rows=20_000, check_every=5_000, test_positions=5_000
    ),
    "cpu": Ownership("ownership", batch=128, max_minutes=20, learning_rate=0.01, check_every=100_000),
    "gpu": Ownership(
        "ownership", batch=1024, max_minutes=10, save_minutes=1, loaders=8, device="cuda", bf16=True, compile=True
    ),
}


@dataclass(frozen=True, slots=True)
class Rollout(Records):
    """What ``trainers.rollout`` is told; the policy plays on boards of all sizes."""

    epochs: float = option(0.6, BUDGET, "how often each game is learned from; less than once is enough", 1e-6)
    batch: int = option(32, LEARNING, "positions a step", 1)
    learning_rate: float = option(0.3, LEARNING, "at the start; it falls to a fiftieth in a line", 1e-9)
    shrink: float = option(1e-4, LEARNING, "L2 of the weights that a step touches, so that rare ones stay small", 0)
    test_positions: int = option(200_000, WATCHING, "positions of the test, in whole games; 0 for all", 0)


ROLLOUT_PRESETS = {
    "tiny": Rollout("tiny-rollout", epochs=0.02, test_positions=5_000),
    "cpu": Rollout("rollout"),
}


@dataclass(frozen=True, slots=True)
class RL:
    """What ``trainers.rl`` is told, which learns from games of its own."""

    name: str = option("rl", NET, "the checkpoint's name, and the run's")
    start: str = option("sl-9x9", NET, "the checkpoint to begin with and to be measured against, by name or folder")
    size: int = option(9, PLAYING, "the size of the boards", 5, 19)
    komi: float = option(7.0, PLAYING, "White's, by CGOS rules", -361, 361)
    games: int = option(64, PLAYING, "games an iteration, half with each colour; their mean makes one step", 2)
    plies: int = option(4, PLAYING, "moves of the random openings; each is played with both colours", 0, 60)
    temperature: float = option(1.0, PLAYING, "moves are drawn from probabilities ^ (1 / temperature)", 0.05, 10)
    pool_every: int = option(10, PLAYING, "after so many iterations the net joins the pool of its opponents", 1)
    pool_size: int = option(20, PLAYING, "opponents in the pool: the first net and the latest others", 1)
    max_iterations: int | None = option(None, BUDGET, "the end, in iterations", 1)
    max_minutes: float | None = option(None, BUDGET, "the end, in minutes of training, all sittings together", 0)
    optimizer: str = option("adamw", LEARNING, "what makes steps of gradients", choices=("muon", "adamw", "sgd"))
    learning_rate: float = option(0.0002, LEARNING, "the highest, after the warm-up", 0)
    schedule: str = option("constant", LEARNING, "how it falls", choices=("cosine", "linear", "constant"))
    warm_up: float = option(0.0, LEARNING, "the share of the budget in which it rises", 0, 0.9)
    weight_decay: float = option(0.0, LEARNING, "decoupled, of convolutions", 0)
    average: float = option(0.8, LEARNING, "how much of the averaged weights, which are saved, stays at a step", 0, 1)
    clip: float = option(10.0, LEARNING, "the highest norm of a gradient", 0)
    baseline: str = option(
        "colour",
        LEARNING,
        "what is taken off a return: nothing, its mean so far with that colour, or the net's own forecast",
        choices=("none", "colour", "value"),
    )
    trace: float = option(
        1.0,
        LEARNING,
        "with baseline value: the share of a later change of the forecast that a move is credited with, a move; 1: all",
        0,
        1,
    )
    least: float = option(0.0, LEARNING, "moves credited with less, either way, are left out, which spares time", 0, 2)
    entropy_weight: float = option(0.0, LEARNING, "how much a policy that stays open is worth, in nats a move", 0)
    divergence_weight: float = option(
        0.0, LEARNING, "how much it costs to leave the first net's policy, in nats a move", 0
    )
    value_weight: float = option(0.1, LEARNING, "the weight of the value loss, a move", 0)
    ownership_weight: float = option(0.05, LEARNING, "the weight of the ownership loss, a move", 0)
    score_weight: float = option(0.02, LEARNING, "the weight of the score loss, a move", 0)
    seed: int = option(1, LEARNING, "where the games start", 0)
    rate_every: int = option(10, WATCHING, "after so many iterations it plays a match against the first net", 1)
    rate_games: int = option(100, WATCHING, "games of that match, half with each colour", 2)
    rate_temperature: float = option(1.0, WATCHING, "how both draw their moves there; 0 plays the best", 0, 10)
    rate_against: str = option(
        "mcts:playouts=300", WATCHING, "a bot that it plays then, too, named as in a match; '' for none"
    )
    rate_bot_games: int = option(40, WATCHING, "games of that other match, half with each colour", 2)
    final_games: int = option(400, WATCHING, "games of the last match, which the manifest tells of", 2)
    save_minutes: float = option(5.0, WATCHING, "how often the state is saved that a run goes on from", 0)
    save_games: bool = option(False, WATCHING, "keep the games of those matches, as SGF beside the state")
    tensorboard: bool = option(False, WATCHING, "write the figures for TensorBoard, too")
    batch: int = option(512, MACHINE, "rows that are learned from at once; all of an iteration make one step", 1)
    threads: int = option(1, MACHINE, "threads of torch", 1)
    loaders: int = option(1, MACHINE, "threads that play moves and make rows", 1)
    device: str = option("auto", MACHINE, "auto is cuda if there is one", choices=("auto", "cpu", "cuda"))
    bf16: bool = option(False, MACHINE, "compute in bfloat16 where that is safe (autocast)")
    compile: bool = option(False, MACHINE, "let torch.compile fuse the nets that play; takes a minute first")


RL_ADJUSTABLE = frozenset(
    "max_iterations max_minutes save_minutes save_games tensorboard threads loaders device compile rate_every "
    "rate_games rate_temperature rate_against rate_bot_games final_games".split()
)
"""Settings of RL that a resumed run may change."""

RL_PRESETS = {
    "tiny": RL(
        "tiny-rl",
        games=16,
        max_iterations=20,
        pool_every=5,
        rate_every=5,
        rate_games=32,
        rate_bot_games=8,
        final_games=64,
    ),
    "cpu": RL(games=64, max_minutes=240, threads=2, loaders=2),
    "gpu": RL(
        "rl-large",
        games=1024,
        max_minutes=25,
        rate_every=20,
        rate_games=512,
        final_games=2000,
        save_minutes=1,
        batch=8192,
        loaders=12,
        device="cuda",
        bf16=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Value(Supervised):
    """What ``trainers.value`` is told."""

    source: str = option(
        "self-play",
        RECORDS,
        "where positions come from: games that policies play for it, game records (--data), or both",
        choices=("self-play", "records", "both"),
    )
    policy: str = option("sl-9x9", RECORDS, "self-play: the checkpoint that plays a game's first moves")
    finisher: str = option("", RECORDS, "self-play: the checkpoint that plays it to the end; the policy unless given")
    games: int = option(200_000, RECORDS, "self-play: how many games; one position of each is learned from", 10)
    policy_moves: int = option(
        60,
        RECORDS,
        "self-play: the policy plays from 1 to so many moves, then one is random, then comes the position",
        1,
    )
    komi: float = option(7.0, RECORDS, "self-play: White's", -1000, 1000)
    test_share: float = option(0.05, RECORDS, "self-play: the share of the games that is the test", 0, 0.9)
    positions: str = option(
        "one",
        RECORDS,
        "records: one random position a game and epoch, or all, which it learns by heart",
        choices=("one", "all"),
    )
    records_share: float = option(0.5, RECORDS, "both: the share of the rows that are of records", 0.01, 0.99)
    net: str = option("arena-6x56", NET, "its name: arena-BLOCKSxCHANNELS")
    start: str = option(
        "sl-9x9", NET, "a checkpoint to train on from, whose policy stays; its net may be smaller; '' for none"
    )
    loss: str = option(
        "wdl",
        LEARNING,
        "cross entropy of win, draw and loss, or squared error as AlphaGo's",
        choices=("wdl", "squared"),
    )
    freeze: str = option(
        "none", LEARNING, "trunk: only the heads of value, ownership and score learn", choices=("none", "trunk")
    )
    learning_rate: float = option(0.01, LEARNING, "the highest, after the warm-up", 0)
    policy_weight: float = option(1.0, LEARNING, "what holds the policy to that of start; without one, to the moves", 0)
    ownership_weight: float = option(0.3, LEARNING, "the weight of the ownership loss, of scored games", 0)
    score_weight: float = option(0.1, LEARNING, "the weight of the score loss, of scored games", 0)
    playouts: int = option(100, WATCHING, "playouts of the rollout policy to compare with; 0 for none", 0)
    playout_positions: int = option(1_000, WATCHING, "test positions that they start from", 1)
    chunk: int = option(1_024, MACHINE, "self-play: games in a file; a stopped command loses those of one", 1)
    slots: int = option(1_024, MACHINE, "self-play: games at a time", 1)


VALUE_PRESETS = {
    "tiny": Value(
        "tiny-value",
        games=200,
        test_share=0.3,
        validation=0.1,
        batch=32,
        max_rows=2_000,
        average=0.99,
        check_every=1_000,
        test_positions=1_000,
        playout_positions=50,
        chunk=100,
    ),
    "cpu": Value("value", batch=128, max_minutes=60, average=0.9995, check_every=100_000),
    "gpu": Value(
        "value",
        games=1_000_000,
        batch=1024,
        max_minutes=10,
        check_every=500_000,
        check_positions=10_000,
        save_minutes=1,
        chunk=20_000,
        slots=4_096,
        loaders=8,
        device="cuda",
        bf16=True,
        compile=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Distill(Supervised):
    """What ``trainers.distill`` is told."""

    teacher: str = option(
        "alphago:visits=200",
        RECORDS,
        "who plays the games and weighs the moves, named as in a match: an alphago, or checkpoint:NAME for a net alone",
    )
    games: int = option(2_000, RECORDS, "how many games, each from an opening of its own", 10)
    play_minutes: float | None = option(
        None, RECORDS, "begin no more games after so many minutes of playing, all sittings together", 0
    )
    deep_share: float = option(
        0.5, RECORDS, "the share of the moves that are thought over in full; only those are learned from", 0.01, 1
    )
    cheap_visits: int = option(30, RECORDS, "visits of a search for the other moves", 2)
    plies: int = option(8, RECORDS, "a game begins with 0 to so many random moves", 0, 20)
    temperature: float = option(
        0.8, RECORDS, "first moves are drawn from the visits ^ (1 / temperature); 0 plays the best", 0, 10
    )
    temperature_moves: int = option(16, RECORDS, "up to this move; later the most visited is played", 0)
    komi: float = option(7.0, RECORDS, "White's", -361, 361)
    earlier: tuple[str, ...] = option(
        (),
        RECORDS,
        "folders of earlier games to learn from, too: results/cache/distill-games-...; repeatable",
    )
    test_share: float = option(0.05, RECORDS, "the share of the games that is the test", 0, 0.9)
    validation: float = option(0.03, RECORDS, "the share of the games that is kept aside to watch the run", 0, 1)
    records_share: float = option(
        0.25, RECORDS, "with --data: the share of the rows that are of records, whose moves it goes on imitating", 0, 1
    )
    test_from: str = option(
        "2018-03-01",
        RECORDS,
        "records of this day or later are a test of their own; '' for none; a dataset has its own",
    )
    net: str = option("arena-8x64", NET, "its name: arena-BLOCKSxCHANNELS")
    start: str = option("distilled-9x9", NET, "a checkpoint to train on from, whose net may be smaller; '' for none")
    learning_rate: float = option(0.01, LEARNING, "the highest, after the warm-up", 0)
    sharpening: float = option(1.0, LEARNING, "targets are the shares of the visits ^ this: over 1 sharpens them", 0.1)
    outcome_share: float = option(
        0.5, LEARNING, "how much of the value's target is the result of the game; the rest is the search's", 0, 1
    )
    value_weight: float = option(0.4, LEARNING, "the weight of the value loss beside the policy loss", 0)
    ownership_weight: float = option(0.1, LEARNING, "the weight of the ownership loss", 0)
    score_weight: float = option(0.05, LEARNING, "the weight of the score loss", 0)
    chunk: int = option(16, MACHINE, "games in a file; a killed command loses those of one", 1)
    slots: int = option(32, MACHINE, "games at a time, in each thread that plays", 1)
    players: int = option(1, MACHINE, "threads that play games, each with a teacher of its own", 1)


DISTILL_PRESETS = {
    "tiny": Distill(
        "tiny-distill",
        teacher="alphago:visits=20",
        games=40,
        cheap_visits=5,
        test_share=0.2,
        validation=0.1,
        batch=32,
        max_rows=2_000,
        average=0.99,
        check_every=1_000,
    ),
    "cpu": Distill("distilled", batch=128, max_minutes=30, average=0.998, check_every=20_000, players=2),
    "gpu": Distill(
        "distilled",
        games=20_000,
        batch=1024,
        max_minutes=10,
        check_every=500_000,
        check_positions=20_000,
        save_minutes=1,
        players=16,
        loaders=8,
        device="cuda",
        bf16=True,
        compile=True,
    ),
}

Told = TypeVar("Told", bound=Records | RL)


def choose_preset(presets: Mapping[str, Told], name: str) -> Told:
    """The settings of this name. Raises ConfigError."""
    if name not in presets:
        raise ConfigError(f"unknown preset '{name}'; there are {', '.join(presets)}")
    return presets[name]


def change(settings: Told, given: Mapping[str, Any], where: str) -> Told:
    """``settings`` with other values for some, from TOML or from text.

    Where only one end of the run is given, the other one no longer counts. Raises ConfigError, which begins with
    ``where``, for unknown names and for values of the wrong kind.
    """
    known = {item.name: item for item in fields(settings)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"{where}: unknown setting '{name}'{suggest(name, known)}")
        if is_paths(known[name]):
            if not isinstance(value, list | tuple) or not all(isinstance(path, str) for path in value):
                raise ConfigError(f"{where}: {name} = {value!r} is not a list of paths")
            values[name] = tuple(value)
        else:
            values[name] = None if value is None else read_value(value, known[name], where)
    ends = {"max_rows", "max_minutes", "max_iterations"} & known.keys()
    if given_ends := ends & values.keys():
        values.update(dict.fromkeys(ends - given_ends))
    return replace(settings, **values)


def read_file(path: Path) -> dict[str, Any]:
    """The settings in a TOML file, or those that a run left as JSON; still to be checked. Raises ConfigError."""
    read = read_json if path.suffix == ".json" else read_toml
    return read(path, error=ConfigError, hint="give a TOML file of settings")


def write_file(settings: Records | RL, folder: Path) -> None:
    """Keep the settings of a run beside its state."""
    write(folder / SETTINGS_FILE, json.dumps(asdict(settings), indent=2) + "\n", error=ConfigError)
