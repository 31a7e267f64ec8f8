"""The settings of the trainers: a sentence on each, its default and range, presets, files of settings.

Imports neither torch nor Numba, so that the command line can explain a trainer without loading it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from arena import ConfigError
from arena.contract.settings import plain, read_object, read_value, suggest
from arena.files import write

GROUPS = SOURCE, NET, PLAYING, BUDGET, LEARNING, WATCHING, MACHINE = (
    "What it learns from",
    "What it becomes",
    "How it plays",
    "How long",
    "How it learns",
    "What is measured and saved",
    "Where it runs",
)
"""The groups in which settings are shown."""

SETTINGS_FILE, STATE_FILE, METRICS_FILE = "settings.json", "state.pt", "metrics.jsonl"
"""All settings of a run, what it is resumed from, and its log."""

OPTIMIZERS, SCHEDULES = ("muon", "adamw", "sgd"), ("cosine", "constant", "wsd")

RATES = {"muon": 0.04, "adamw": 0.005, "sgd": 0.1}
"""Learning rates at which the optimizers are alike: one that is chosen without a rate has the preset's, times the ratio
of theirs."""


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


def inherit(kind: type[Settings], name: str, default: Any) -> Any:
    """The setting ``name`` of ``kind`` with another default."""
    return field(default=default, metadata=kind.__dataclass_fields__[name].metadata)


def is_first() -> bool:
    """Whether this process is the one that reports and saves: alone, or the first of those that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


@dataclass(frozen=True)
class Settings:
    """Settings of every trainer."""

    name: str = option("", NET, "Name of the checkpoint and of the run")
    size: int = option(9, SOURCE, "Board size", 5, 19)
    seed: int = option(1, LEARNING, "Random seed", 0)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"(\w[\w.+-]{0,99})?", self.name):
            raise ConfigError(f"'{self.name[:99]}' can't name a checkpoint; use letters, digits, '-', '_', '.' and '+'")

    def ends(self) -> list[str]:
        """The names of the settings that can end a run."""
        return [item.name for item in fields(self) if item.name in ENDS]

    def limits(self) -> dict[str, float]:
        """What ends a run, by the names of its settings; those that aren't given have no limit."""
        return {name: limit for name in self.ends() if (limit := getattr(self, name))}


@dataclass(frozen=True)
class Records(Settings):
    """Settings of trainers that learn from game records."""

    data: tuple[str, ...] = option((), SOURCE, "SGF files, folders, archives or an arena.db, or one dataset")
    test_from: str = option("", SOURCE, "Test set: games of this day or later, as in 2018-03-01. A dataset has its own")
    test_split: float = option(0.05, SOURCE, "Share of games in the test set; with test_from, of undated ones", 0, 0.9)
    validation_split: float = option(0.01, SOURCE, "Share of the other games held out for validation", 0, 1)


@dataclass(frozen=True)
class Loop(Settings):
    """Settings of trainers that train a net in torch."""

    WARMUP: ClassVar[float] = 0.02  # share of the budget in which the learning rate rises
    WEIGHT_DECAY: ClassVar[float] = 0.01  # decoupled weight decay of the convolutions

    start: str = option("", NET, "Checkpoint to train on from, by name or folder; A,B,C for the mean of their weights")
    max_minutes: float | None = option(None, BUDGET, "Minutes of training, all sittings together", 0)
    optimizer: str = option("muon", LEARNING, "Optimizer", choices=OPTIMIZERS)
    learning_rate: float = option(0.04, LEARNING, "Peak learning rate (adamw: an eighth of muon's; sgd: 2.5 times)", 0)
    lr_schedule: str = option("cosine", LEARNING, "Learning-rate decay; wsd: in the last fifth only", choices=SCHEDULES)
    ema_decay: float = option(0.999, LEARNING, "Decay a step of the averaged weights, which are what is saved", 0, 1)
    save_minutes: float = option(1.0, WATCHING, "Minutes between saved states, from which a run can be resumed", 0)
    snapshot_minutes: float = option(10.0, WATCHING, "Minutes between checkpoints NAME-stepN (3 kept); 0 for none", 0)
    tensorboard: bool = option(False, WATCHING, "Log to TensorBoard, too")
    threads: int = option(1, MACHINE, "Threads of torch in each process", 1)
    num_workers: int = option(1, MACHINE, "Threads that prepare rows, in each process", 1)
    device: str = option("auto", MACHINE, "Device; auto takes cuda where there is one", choices=("auto", "cpu", "cuda"))
    bf16: bool = option(False, MACHINE, "Compute in bfloat16 where that is safe (autocast)")
    compile: bool = option(False, MACHINE, "Use torch.compile, which takes a minute at the start")


@dataclass(frozen=True)
class Supervised(Loop, Records):
    """Settings of trainers whose nets learn from rows."""

    net: str = option("arena-6x64", NET, "Net: arena-BLOCKSxCHANNELS, trencseni-cnn or alphago-LAYERSxCHANNELS")
    encoder: str = option("", NET, "Encoder of positions; '' for the usual one of the net")
    max_rows: int | None = option(None, BUDGET, "Training rows", 1)
    batch_size: int = option(256, LEARNING, "Rows a step, over all processes of torchrun", 1)
    validate_every: int = option(50_000, WATCHING, "Rows between validations", 1)


def is_paths(item: Field[Any]) -> bool:
    """Whether a setting is a list of paths."""
    return item.type in (tuple[str, ...], "tuple[str, ...]")


ADJUSTABLE = frozenset(
    "data max_rows max_minutes max_iterations max_games save_minutes snapshot_minutes eval_opponents eval_visits "
    "tensorboard threads num_workers device compile validate_every parallel_games game_threads eval_every eval_games "
    "eval_opponent".split()
)
"""Settings that a resumed run may change: where it runs, its end and its reports, not what a step learns."""

ENDS = frozenset({"max_rows", "max_minutes", "max_iterations", "max_games"})  # settings that end a run

TINY: dict[str, Any] = {"batch_size": 32, "max_rows": 2_000, "ema_decay": 0.99, "validate_every": 1_000}
"""What the tiny presets of trainers that play first share."""

GPU: dict[str, Any] = {"num_workers": 8, "device": "cuda", "bf16": True, "compile": True}  # what the gpu presets share


@dataclass(frozen=True)
class SL(Supervised):
    """Settings of ``trainers.sl``."""

    value_weight: float = option(0.4, LEARNING, "Weight of the value loss; that of the policy loss is 1", 0)
    ownership_weight: float = option(0.3, LEARNING, "Weight of the ownership loss, a mean over points", 0)
    score_weight: float = option(0.1, LEARNING, "Weight of the score loss", 0)


SL_PRESETS = {
    "tiny": SL("tiny", net="arena-2x16", batch_size=64, max_rows=20_000, validate_every=5_000),
    "cpu": SL("sl", net="arena-6x56", batch_size=128, max_minutes=90, ema_decay=0.9995, validate_every=100_000),
    "gpu": SL("sl-large", net="arena-10x128", batch_size=1024, max_minutes=25, validate_every=500_000, **GPU),
}


@dataclass(frozen=True)
class Ownership(Supervised):
    """Settings of ``trainers.ownership``."""

    net: str = option("gocnn-5x64", NET, "Net: gocnn-LAYERSxCHANNELS or arena-BLOCKSxCHANNELS")


OWNERSHIP_PRESETS = {
    "tiny": Ownership("tiny-ownership", net="gocnn-3x16", batch_size=64, max_rows=20_000, validate_every=5_000),
    "cpu": Ownership("ownership", batch_size=128, max_minutes=20, learning_rate=0.01, validate_every=100_000),
    "gpu": Ownership("ownership", batch_size=1024, max_minutes=10, validate_every=500_000, **GPU),
}


@dataclass(frozen=True)
class Rollout(Records):
    """Settings of ``trainers.rollout``."""

    epochs: float = option(0.6, BUDGET, "Passes over the games; less than one is enough", 1e-6)
    learning_rate: float = option(0.3, LEARNING, "Initial learning rate; it falls linearly to a fiftieth", 1e-9)


ROLLOUT_PRESETS = {"tiny": Rollout("tiny-rollout", epochs=0.02), "cpu": Rollout("rollout")}


@dataclass(frozen=True)
class RL(Loop):
    """Settings of ``trainers.rl``."""

    WARMUP = 0.0
    WEIGHT_DECAY = 0.0

    start: str = option("sl-9x9", NET, "Checkpoint to begin with and to be measured against, by name or folder")
    komi: float = option(7.0, PLAYING, "Komi, by CGOS rules", -361, 361)
    games: int = option(64, PLAYING, "Games an iteration, half with each colour; an iteration is one step", 2)
    plies: int = option(4, PLAYING, "Moves of the random openings; each is played with both colours", 0, 60)
    pool_every: int = option(10, PLAYING, "Iterations between snapshots of the net for the pool of opponents", 1)
    max_iterations: int | None = option(None, BUDGET, "Iterations", 1)
    optimizer: str = inherit(Loop, "optimizer", "adamw")
    learning_rate: float = inherit(Loop, "learning_rate", 0.0002)
    lr_schedule: str = inherit(Loop, "lr_schedule", "constant")
    ema_decay: float = inherit(Loop, "ema_decay", 0.8)
    gae_lambda: float = option(1.0, LEARNING, "GAE lambda (1 = Monte Carlo returns)", 0, 1)
    entropy_weight: float = option(0.0, LEARNING, "Weight of the entropy bonus, in nats a move", 0)
    value_weight: float = inherit(SL, "value_weight", 0.1)
    ownership_weight: float = inherit(SL, "ownership_weight", 0.05)
    score_weight: float = inherit(SL, "score_weight", 0.02)
    eval_every: int = option(10, WATCHING, "Iterations between matches against the first net and the opponent", 1)
    eval_games: int = option(100, WATCHING, "Games of a match with the first net; 4 times as many in the last one", 2)
    eval_opponent: str = option("mcts:playouts=300", WATCHING, "Bot to play up to 40 games against, too; '' for none")
    micro_batch_size: int = option(512, MACHINE, "Rows in memory at once; all rows of an iteration make one step", 1)


RL_PRESETS = {
    "tiny": RL("tiny-rl", games=16, max_iterations=20, pool_every=5, eval_every=5, eval_games=16),
    "cpu": RL("rl", games=64, max_minutes=240, threads=2, num_workers=2),
    "gpu": RL(
        "rl-large",
        start="distilled-9x9",
        games=1024,
        max_minutes=25,
        learning_rate=0.0006,
        lr_schedule="cosine",
        ema_decay=0.9,
        gae_lambda=0.9,
        entropy_weight=0.01,
        eval_every=20,
        eval_games=512,
        micro_batch_size=8192,
        num_workers=12,
        device="cuda",
        bf16=True,
    ),
}


@dataclass(frozen=True)
class Value(Supervised):
    """Settings of ``trainers.value``."""

    value_weight: ClassVar[float] = 1.0
    policy: str = option("sl-9x9", SOURCE, "Checkpoint that plays a game's first moves")
    finisher: str = option("", SOURCE, "Checkpoint that plays a game to its end; '' for the policy")
    games: int = option(200_000, SOURCE, "Number of games; one position of each is learned from", 10)
    policy_moves: int = option(60, SOURCE, "Most moves by the policy, before one random move and then the position", 1)
    komi: float = option(7.0, SOURCE, "Komi", -1000, 1000)
    net: str = option("arena-6x56", NET, "Net: arena-BLOCKSxCHANNELS")
    start: str = option("sl-9x9", NET, "Checkpoint to start from; its policy stays; '' for none")
    learning_rate: float = inherit(Loop, "learning_rate", 0.01)
    ownership_weight: float = inherit(SL, "ownership_weight", 0.3)
    score_weight: float = inherit(SL, "score_weight", 0.1)
    parallel_games: int = option(1_024, MACHINE, "Games under way at once", 1)


VALUE_PRESETS = {
    "tiny": Value("tiny-value", games=200, test_split=0.3, validation_split=0.1, **TINY),
    "cpu": Value("value", batch_size=128, max_minutes=60, ema_decay=0.9995, validate_every=100_000),
    "gpu": Value(
        "value", games=1_000_000, batch_size=1024, max_minutes=10, validate_every=500_000, parallel_games=4_096, **GPU
    ),
}


@dataclass(frozen=True)
class Distill(Supervised):
    """Settings of ``trainers.distill``."""

    teacher: str = option(
        "alphago:visits=200",
        SOURCE,
        "Bot to learn from: an alphago, checkpoint:NAME for a net alone, or an engine with an analysis mode",
    )
    teacher_license: str = option("", SOURCE, "Licence of an engine's net, for the manifest")
    player: str = option("", SOURCE, "Bot that plays the moves, which the teacher then only judges; '' for the teacher")
    games: int = option(2_000, SOURCE, "Number of games, each from an opening of its own", 10)
    play_minutes: float | None = option(None, SOURCE, "Minutes of play, all sittings together; then no game begins", 0)
    full_search_prob: float = option(0.5, SOURCE, "Playout cap randomization: share of fully searched moves", 0.01, 1)
    cheap_search_visits: int = option(30, SOURCE, "Playout cap randomization: visits for the other moves", 2)
    plies: int = option(8, SOURCE, "Most random moves at the start of a game", 0, 20)
    temperature: float = option(0.8, SOURCE, "Temperature of the visits when first moves are drawn; 0 for none", 0, 10)
    temperature_moves: int = option(16, SOURCE, "Moves drawn so; later ones are the most visited", 0)
    komi: float = option(7.0, SOURCE, "Komi", -361, 361)
    earlier: tuple[str, ...] = option(
        (), SOURCE, "Folders of earlier games to learn from, too, of boards of this size: results/cache/distill-games-*"
    )
    validation_split: float = inherit(Records, "validation_split", 0.03)
    records_share: float = option(0.25, SOURCE, "With --data: share of the rows that imitate records", 0, 1)
    net: str = option("", NET, "Net: arena-BLOCKSxCHANNELS; '' for one of the shape of start")
    start: str = option("distilled-9x9", NET, "Checkpoint to start from, or the mean of A,B,C; '' for none")
    learning_rate: float = inherit(Loop, "learning_rate", 0.01)
    outcome_share: float = option(0.5, LEARNING, "Weight of the result in the value target, beside the win rate", 0, 1)
    value_weight: float = inherit(SL, "value_weight", 0.4)
    ownership_weight: float = inherit(SL, "ownership_weight", 0.1)
    score_weight: float = inherit(SL, "score_weight", 0.05)
    parallel_games: int = option(32, MACHINE, "Games under way at once, in each game thread", 1)
    game_threads: int = option(1, MACHINE, "Threads that play games, each with a teacher of its own", 1)


DISTILL_PRESETS = {
    "tiny": Distill(
        "tiny-distill",
        teacher="alphago:visits=20",
        games=40,
        cheap_search_visits=5,
        test_split=0.2,
        validation_split=0.1,
        **TINY,
    ),
    "cpu": Distill("distilled", batch_size=128, max_minutes=30, ema_decay=0.998, validate_every=20_000, game_threads=2),
    "gpu": Distill(
        "distilled",
        teacher="alphago:visits=200,precision=bf16",
        games=20_000,
        full_search_prob=1.0,
        learning_rate=0.02,
        outcome_share=0.4,
        parallel_games=128,
        batch_size=1024,
        max_minutes=10,
        validate_every=500_000,
        game_threads=16,
        **GPU,
    ),
}


@dataclass(frozen=True)
class Zero(Loop):
    """Settings of ``trainers.zero``."""

    WARMUP = 0.01

    sizes: str = option("", PLAYING, "Curriculum up to --size: 5,7,9, or with shares of the budget: 5:0.1,7:0.2,9")
    net: str = option("arena-4x32", NET, "Net: arena-BLOCKSxCHANNELS")
    encoder: str = option("", NET, "Encoder of positions; '' for the usual one of the net")
    visits: int = option(32, PLAYING, "Visits for a move that is searched in full, which is learned from", 2)
    full_search_prob: float = option(0.3, PLAYING, "Playout cap randomization: share of fully searched moves", 0.01, 1)
    cheap_search_visits: int = option(12, PLAYING, "Playout cap randomization: visits for the other moves", 2)
    komi: float | None = option(None, PLAYING, "Mean komi (default: Black's mean margin in the last games)", -361, 361)
    komi_stdev: float = option(1.0, PLAYING, "Standard deviation of komi, five-fold in a tenth of the games", 0, 50)
    max_games: int | None = option(None, BUDGET, "Games", 1)
    max_minutes: float | None = option(60, BUDGET, "Minutes of play and training, all sittings together", 0)
    batch_size: int = option(256, LEARNING, "Rows a step", 1)
    replay_ratio: float = option(4.0, LEARNING, "Training rows for each new row", 0.01, 100)
    replay_window: int = option(250_000, LEARNING, "New rows up to which all are used; then it grows slower", 1_000)
    learning_rate: float = inherit(Loop, "learning_rate", 0.02)
    lr_schedule: str = inherit(Loop, "lr_schedule", "wsd")
    ema_decay: float = inherit(Loop, "ema_decay", 0.995)
    outcome_share: float = inherit(Distill, "outcome_share", 0.7)
    value_weight: float = inherit(SL, "value_weight", 1.5)
    ownership_weight: float = inherit(SL, "ownership_weight", 1.5)
    score_weight: float = inherit(SL, "score_weight", 0.1)
    snapshot_minutes: float = option(5.0, WATCHING, "Minutes between checkpoints NAME-stepN, which play matches", 0.01)
    eval_opponents: tuple[str, ...] = option(
        ("random", "mcts:playouts=100", "mcts:playouts=1000"), WATCHING, "Bots that each checkpoint plays a match with"
    )
    eval_games: int = option(20, WATCHING, "Games of such a match, half with each colour", 2)
    eval_visits: int = option(100, WATCHING, "Visits per move in such a match", 2)
    round_rows: int = option(2_000, MACHINE, "New rows between two training phases", 1)
    parallel_games: int = option(128, MACHINE, "Games under way at once, in each game thread", 1)
    game_threads: int = option(2, MACHINE, "Threads that play games", 1)


ZERO_PRESETS = {
    "tiny": Zero(
        "tiny-zero",
        size=5,
        net="arena-2x16",
        visits=16,
        cheap_search_visits=8,
        max_minutes=1,
        batch_size=128,
        round_rows=1_000,
        komi_stdev=4.0,
        replay_window=20_000,
        ema_decay=0.98,
        snapshot_minutes=2.0,
        eval_opponents=("random",),
        eval_games=10,
        eval_visits=16,
    ),
    "cpu": Zero("zero"),
    "gpu": Zero(
        "zero-large",
        net="arena-6x96",
        visits=64,
        full_search_prob=0.25,
        cheap_search_visits=16,
        max_minutes=25,
        batch_size=1024,
        round_rows=20_000,
        parallel_games=256,
        game_threads=16,
        **GPU,
    ),
}

Told = TypeVar("Told", bound=Settings)


def choose_preset(presets: Mapping[str, Told], name: str) -> Told:
    """The settings of this name. Raises ConfigError."""
    if name not in presets:
        raise ConfigError(f"unknown preset '{name}'; there are {', '.join(presets)}")
    return presets[name]


def change(settings: Told, given: Mapping[str, Any], where: str) -> Told:
    """``settings`` with other values for some, from TOML or from text, where commas part paths.

    Where only one end of the run is given, the other one no longer counts. Raises ConfigError, which begins with
    ``where``, for unknown names and for values of the wrong kind.
    """
    known = {item.name: item for item in fields(settings)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            hint = suggest(name, known) or "; --list-settings lists them"
            raise ConfigError(f"{where}: unknown setting '{name}'{hint}")
        if is_paths(known[name]):
            paths = [path for path in value.split(",") if path] if isinstance(value, str) else value
            if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
                raise ConfigError(f"{where}: {name} = {value!r} is not a list of paths")
            values[name] = tuple(paths)
        else:
            values[name] = None if value is None else read_value(value, known[name], where)
    if isinstance(settings, Loop) and "optimizer" in values and "learning_rate" not in values:
        rate = settings.learning_rate * RATES[values["optimizer"]] / RATES[settings.optimizer]
        values["learning_rate"] = float(f"{rate:.6g}")
    ends = ENDS & known.keys()
    if given_ends := ends & values.keys():
        values.update(dict.fromkeys(ends - given_ends))
    return replace(settings, **values)


def listing(settings: Settings) -> Iterator[str]:
    """All settings as lines of TOML, each with its sentence and range; what has no value stands in a comment."""
    items = sorted(fields(settings), key=lambda item: GROUPS.index(item.metadata["group"]))
    for number, item in enumerate(items):
        group, value = item.metadata["group"], getattr(settings, item.name)
        if not number or group != items[number - 1].metadata["group"]:
            yield ("\n" if number else "") + f"# {group}"
        given = f"# {item.name} =" if value is None else f"{item.name} = {_toml(value)}"
        yield f"{given:<38} # {item.metadata['help']}{_range(item)}."


def _toml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _range(item: Field[Any]) -> str:
    """Which values a setting takes, in brackets; empty where any will do."""
    low, high, choices = (item.metadata[key] for key in ("low", "high", "choices"))
    if choices:
        return f" ({', '.join(choices)})"
    if low is None:
        return " (true or false)" if item.type == "bool" else ""
    return f" ({plain(low)} or more)" if high is None else f" ({plain(low)} to {plain(high)})"


def read_file(path: Path) -> dict[str, Any]:
    """The settings in a TOML file, or those that a run left as JSON; still to be checked. Raises ConfigError."""
    return read_object(path, error=ConfigError, hint="give a TOML file of settings")


def settings_of_a_step(settings: Settings) -> dict[str, Any]:
    """The settings that a resumed run must have as it had them, with values as a saved state has them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
        if name not in ADJUSTABLE
    }


def portable_settings(settings: Settings) -> dict[str, Any]:
    """All settings for a manifest; of paths the names alone, as where they lie is nobody else's business."""
    found = asdict(settings)
    for item in fields(settings):
        value = found[item.name]
        if is_paths(item) and item.name != "eval_opponents":
            found[item.name] = [Path(path).name for path in value]
        elif item.name in ("start", "policy", "finisher"):
            found[item.name] = ",".join(Path(name).name for name in value.split(","))
    return found


def write_file(settings: Settings, folder: Path) -> None:
    """Keep the settings of a run beside its state."""
    write(folder / SETTINGS_FILE, json.dumps(asdict(settings), indent=2) + "\n", error=ConfigError)
