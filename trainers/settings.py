"""The settings of the trainers, their presets, and files of settings. Imports neither torch nor Numba."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from arena import ConfigError
from arena.contract.settings import format_value, read_object, read_value, setting, suggest
from arena.files import write

SETTINGS_FILE, STATE_FILE, METRICS_FILE = "settings.json", "state.pt", "metrics.jsonl"  # in the folder of a run
RATES = {"muon": 0.04, "adamw": 0.005, "sgd": 0.1}  # equivalent learning rates
ENDS = ("max_rows", "max_minutes", "max_iterations", "max_games")  # settings that end a run

ADJUSTABLE = frozenset(
    "max_rows max_minutes max_iterations max_games data save_minutes snapshot_minutes validate_every eval_opponents "
    "eval_games parallel_games threads num_workers device compile learning_rate".split()
)
"""Settings that a resumed run may change; all others affect what a step learns."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """A Ray cluster for the games of ``zero``: ``workers`` cores (0: all); ``on_news`` gets lines about its nodes."""

    address: str
    workers: int = 0
    on_news: Callable[[str], None] = lambda _: None


def inherit(kind: type[Settings], name: str, default: Any) -> Any:
    """The setting ``name`` of ``kind`` with another default."""
    return field(default=default, metadata=kind.__dataclass_fields__[name].metadata)


def require_name(name: str) -> None:
    """Raise ConfigError for an invalid name of a checkpoint."""
    if not re.fullmatch(r"\w[\w.+-]{0,99}", name):
        raise ConfigError(f"'{name[:99]}' can't name a checkpoint; use letters, digits, '-', '_', '.' and '+'")


def is_first() -> bool:
    """Whether this process reports and saves: it is alone, or the first of torchrun's."""
    return os.environ.get("RANK", "0") == "0"


@dataclass(frozen=True)
class Settings:
    name: str = setting("", "Name of the checkpoint and of the run")
    size: int = setting(9, "Board size", 5, 19)
    seed: int = setting(1, "Random seed", 0)

    def __post_init__(self) -> None:
        if self.name:
            require_name(self.name)

    @property
    def trainer(self) -> str:
        return type(self).__name__.lower()

    def ends(self) -> list[str]:
        """The settings that can end a run."""
        return [item.name for item in fields(self) if item.name in ENDS]

    def limits(self) -> dict[str, float]:
        """The limits that are given, by their settings."""
        return {name: limit for name in self.ends() if (limit := getattr(self, name))}


@dataclass(frozen=True)
class HeldOut(Settings):
    test_split: float = setting(0.05, "Share of games in the test set; with test_from, of undated ones", 0, 0.9)
    validation_split: float = setting(0.01, "Share of the other games held out for validation", 0, 1)


@dataclass(frozen=True)
class Records(HeldOut):
    data: tuple[str, ...] = setting((), "SGF files, folders, archives or an arena.db, or one dataset")
    test_from: str = setting("", "Test set: games of this day or later, as in 2018-03-01. A dataset has its own")


@dataclass(frozen=True)
class Loop(Settings):
    WARMUP: ClassVar[float] = 0.02  # share of the budget in which the learning rate rises
    DECAY: ClassVar[float] = 1.0  # share, at its end, in which it falls: along a cosine where that is all of it
    WEIGHT_DECAY: ClassVar[float] = 0.01  # decoupled weight decay of the convolutions
    ownership_weight: ClassVar[float] = 0.3  # in the loss: a mean over points; the weight of the policy loss is 1
    score_weight: ClassVar[float] = 0.1

    start: str = setting("", "Checkpoint to train on from, by name or folder")
    max_minutes: float | None = setting(None, "Minutes of training, all sittings together", 0)
    optimizer: str = setting("muon", "Optimizer", choices=tuple(RATES))
    learning_rate: float = setting(0.04, "Peak learning rate (adamw: an eighth of muon's; sgd: 2.5 times)", 0)
    ema_decay: float = setting(0.999, "Decay a step of the averaged weights, which are what is saved", 0, 1)
    save_minutes: float = setting(1.0, "Minutes between saved states, from which a run can be resumed", 0)
    snapshot_minutes: float = setting(10.0, "Minutes between checkpoints NAME-stepN (3 kept); 0 for none", 0)
    threads: int = setting(1, "Threads of torch in each process", 1)
    num_workers: int = setting(1, "Threads that prepare rows and play games, in each process", 1)
    device: str = setting("auto", "Device; auto takes cuda where there is one", choices=("auto", "cpu", "cuda"))
    bf16: bool = setting(False, "Compute in bfloat16 where that is safe (autocast)")
    compile: bool = setting(False, "Use torch.compile, which takes a minute at the start")


@dataclass(frozen=True)
class Supervised(Loop, HeldOut):
    net: str = setting("arena-6x64", "Net: arena-BLOCKSxCHANNELS, trencseni-cnn or alphago-LAYERSxCHANNELS")
    encoder: str = setting("", "Encoder of positions; '' for that of start, or the usual one of the net")
    average: tuple[str, ...] = setting((), "Checkpoints whose mean with start is begun with: those of one net's runs")
    max_rows: int | None = setting(None, "Training rows", 1)
    batch_size: int = setting(256, "Rows a step, over all processes of torchrun", 1)
    validate_every: int = setting(50_000, "Rows between validations", 1)


@dataclass(frozen=True)
class SL(Supervised, Records):
    value_weight: float = setting(0.4, "Weight of the value loss; that of the policy loss is 1", 0)


@dataclass(frozen=True)
class Ownership(Supervised, Records):
    net: str = setting("gocnn-5x64", "Net: gocnn-LAYERSxCHANNELS or arena-BLOCKSxCHANNELS")


@dataclass(frozen=True)
class Rollout(Records):
    epochs: float = setting(0.6, "Passes over the games; less than one is enough", 1e-6)
    learning_rate: float = setting(0.3, "Initial learning rate; it falls linearly to a fiftieth", 1e-9)


@dataclass(frozen=True)
class RL(Loop):
    WARMUP = WEIGHT_DECAY = 0.0
    ownership_weight = 0.05
    score_weight = 0.02

    start: str = setting("sl-9x9", "Checkpoint to begin with and to be measured against, by name or folder")
    komi: float = setting(7.0, "Komi, by CGOS rules", -361, 361)
    games: int = setting(64, "Games an iteration, half with each colour; an iteration is one step", 2)
    plies: int = setting(4, "Moves of the random openings; each is played with both colours", 0, 60)
    pool_every: int = setting(10, "Iterations between snapshots for the pool of opponents, each with its matches", 1)
    max_iterations: int | None = setting(None, "Iterations", 1)
    optimizer: str = inherit(Loop, "optimizer", "adamw")
    learning_rate: float = inherit(Loop, "learning_rate", 0.0002)
    ema_decay: float = inherit(Loop, "ema_decay", 0.8)
    gae_lambda: float = setting(1.0, "GAE lambda (1 = Monte Carlo returns)", 0, 1)
    entropy_weight: float = setting(0.0, "Weight of the entropy bonus, in nats a move", 0)
    value_weight: float = inherit(SL, "value_weight", 0.1)
    eval_opponents: tuple[str, ...] = setting(("mcts:playouts=300",), "Bots to play up to 40 games against, too")
    eval_games: int = setting(100, "Games of a match with the first net; 4 times as many in the last one", 2)


@dataclass(frozen=True)
class Value(Supervised):
    value_weight: ClassVar[float] = 1.0

    policy: str = setting("sl-9x9", "Checkpoint that plays a game's first moves")
    finisher: str = setting("", "Checkpoint that plays a game to its end; '' for the policy")
    games: int = setting(200_000, "Number of games; one position of each is learned from", 10)
    komi: float = setting(7.0, "Komi", -1000, 1000)
    net: str = setting("arena-6x56", "Net: arena-BLOCKSxCHANNELS")
    start: str = setting("sl-9x9", "Checkpoint to start from; its policy stays; '' for none")
    learning_rate: float = inherit(Loop, "learning_rate", 0.01)
    parallel_games: int = setting(1_024, "Games under way at once, in each thread", 1)


@dataclass(frozen=True)
class Distill(Supervised):
    ownership_weight = 0.1
    score_weight = 0.05

    teacher: str = setting(
        "alphago:visits=200",
        "Bot to learn from: an alphago, policy:checkpoint=NAME for a net alone, or an engine with an analysis mode",
    )
    teacher_license: str = setting("", "Licence of an engine's net, for the manifest")
    player: str = setting(
        "",
        "Alphago or policy that plays what the teacher judges; '' for an alphago that teaches by its own games, "
        "and the policy of start for other teachers",
    )
    policy_share: float = setting(0.0, "Share of the player's games whose moves its policy draws, without search", 0, 1)
    tree_positions: int = setting(0, "Positions of the player's tree that the teacher judges with each of the game", 0)
    records: tuple[str, ...] = setting((), "SGF files, folders, archives, an arena.db or a dataset: games begin so")
    record_share: float = setting(0.5, "Share of the games that begin with a prefix of a record, cut at random", 0, 1)
    games: int = setting(2_000, "Number of games, each from an opening of its own", 10)
    play_minutes: float | None = setting(None, "Minutes of play, all sittings together; then no game begins", 0)
    full_search_prob: float = setting(
        0.5, "Share of the moves that are judged; of a search's own games, of fully searched ones", 0.01, 1
    )
    cheap_search_visits: int = setting(30, "Playout cap randomization: visits for the other moves", 2)
    plies: int = setting(8, "Most random moves at the start of a game", 0, 20)
    temperature: float = setting(0.8, "Temperature of the visits when first moves are drawn; 0 for none", 0, 10)
    temperature_moves: int = setting(16, "Moves drawn so; later ones are the most visited", 0)
    komi: float = setting(7.0, "Komi", -361, 361)
    earlier: tuple[str, ...] = setting(
        (), "Folders of earlier games to learn from, too, of boards of this size: results/cache/distill-games-*"
    )
    validation_split: float = inherit(HeldOut, "validation_split", 0.03)
    net: str = setting("", "Net: arena-BLOCKSxCHANNELS, also wider than that of start; '' for its shape")
    start: str = setting("distilled-9x9", "Checkpoint to start from; '' for none")
    learning_rate: float = inherit(Loop, "learning_rate", 0.01)
    outcome_share: float = setting(0.5, "Weight of the result in the value target, beside the win rate", 0, 1)
    value_weight: float = inherit(SL, "value_weight", 0.4)
    parallel_games: int = setting(32, "Games under way at once, in each thread", 1)


@dataclass(frozen=True)
class Zero(Loop):
    WARMUP = 0.01
    DECAY = 0.2
    ownership_weight = 1.5

    net: str = setting("arena-4x32", "Net: arena-BLOCKSxCHANNELS")
    encoder: str = inherit(Supervised, "encoder", "")
    visits: int = setting(32, "Visits for a move that is searched in full, which is learned from", 2)
    full_search_prob: float = inherit(Distill, "full_search_prob", 0.3)
    cheap_search_visits: int = inherit(Distill, "cheap_search_visits", 12)
    komi: float | None = setting(None, "Mean komi (default: Black's mean margin in the last games)", -361, 361)
    max_games: int | None = setting(None, "Games", 1)
    max_minutes: float | None = setting(60, "Minutes of play and training, all sittings together", 0)
    batch_size: int = setting(256, "Rows a step", 1)
    replay_ratio: float = setting(4.0, "Training rows for each new row", 0.01, 100)
    replay_window: int = setting(250_000, "New rows up to which all are used; then it grows slower", 1_000)
    learning_rate: float = inherit(Loop, "learning_rate", 0.02)
    ema_decay: float = inherit(Loop, "ema_decay", 0.995)
    outcome_share: float = inherit(Distill, "outcome_share", 0.7)
    value_weight: float = inherit(SL, "value_weight", 1.5)
    snapshot_minutes: float = setting(5.0, "Minutes between checkpoints NAME-stepN, which play matches", 0.01)
    eval_opponents: tuple[str, ...] = setting(
        ("random", "mcts:playouts=100", "mcts:playouts=1000"), "Bots that each checkpoint plays a match with"
    )
    eval_games: int = setting(20, "Games of such a match, half with each colour", 2)
    num_workers: int = inherit(Loop, "num_workers", 2)
    parallel_games: int = inherit(Distill, "parallel_games", 128)


# --- Presets ---

TINY: dict[str, Any] = {"batch_size": 32, "max_rows": 2_000, "ema_decay": 0.99, "validate_every": 1_000}
TINY |= {"test_split": 0.3, "validation_split": 0.1}
TINY_RECORDS: dict[str, Any] = {"batch_size": 64, "max_rows": 20_000, "validate_every": 5_000}
CPU: dict[str, Any] = {"batch_size": 128, "validate_every": 100_000}
GPU: dict[str, Any] = {"num_workers": 8, "device": "cuda", "bf16": True, "compile": True}
GPU_ROWS = GPU | {"batch_size": 1024, "validate_every": 500_000}
RL_GPU = GPU | {"start": "distilled-9x9", "games": 1024, "learning_rate": 0.0006, "ema_decay": 0.9, "compile": False}
RL_GPU |= {"gae_lambda": 0.9, "entropy_weight": 0.01, "eval_games": 256}
DISTILL_GPU = GPU_ROWS | {"teacher": "alphago:visits=200,precision=bf16", "parallel_games": 128, "num_workers": 16}
DISTILL_GPU |= {"full_search_prob": 1.0, "learning_rate": 0.02, "outcome_share": 0.4}
ZERO_TINY: dict[str, Any] = {"size": 5, "net": "arena-2x16", "visits": 16, "cheap_search_visits": 8, "batch_size": 128}
ZERO_TINY |= {"max_minutes": 1, "replay_window": 20_000, "ema_decay": 0.98, "snapshot_minutes": 2.0, "eval_games": 10}
ZERO_GPU = GPU | {"net": "arena-6x96", "visits": 64, "full_search_prob": 0.25, "cheap_search_visits": 16}
ZERO_GPU |= {"batch_size": 1024, "parallel_games": 256, "num_workers": 16}

PRESETS: dict[str, dict[str, Settings]] = {
    "sl": {
        "tiny": SL("tiny", net="arena-2x16", **TINY_RECORDS),
        "cpu": SL("sl", net="arena-6x56", max_minutes=90, ema_decay=0.9995, **CPU),
        "gpu": SL("sl-large", net="arena-10x128", max_minutes=25, **GPU_ROWS),
    },
    "ownership": {
        "tiny": Ownership("tiny-ownership", net="gocnn-3x16", **TINY_RECORDS),
        "cpu": Ownership("ownership", max_minutes=20, learning_rate=0.01, **CPU),
        "gpu": Ownership("ownership", max_minutes=10, **GPU_ROWS),
    },
    "rollout": {"tiny": Rollout("tiny-rollout", epochs=0.02), "cpu": Rollout("rollout")},
    "rl": {
        "tiny": RL("tiny-rl", games=16, max_iterations=20, pool_every=5, eval_games=16),
        "cpu": RL("rl", games=64, max_minutes=240, threads=2, num_workers=2),
        "gpu": RL("rl-large", max_minutes=25, **RL_GPU),
    },
    "value": {
        "tiny": Value("tiny-value", games=200, **TINY),
        "cpu": Value("value", max_minutes=60, ema_decay=0.9995, **CPU),
        "gpu": Value("value", games=1_000_000, max_minutes=10, parallel_games=512, **GPU_ROWS),
    },
    "distill": {
        "tiny": Distill("tiny-distill", teacher="alphago:visits=20", games=40, cheap_search_visits=5, **TINY),
        "cpu": Distill("distilled", max_minutes=30, ema_decay=0.998, num_workers=2, **CPU | {"validate_every": 20_000}),
        "gpu": Distill("distilled", games=20_000, max_minutes=10, **DISTILL_GPU),
    },
    "zero": {
        "tiny": Zero("tiny-zero", eval_opponents=("random",), **ZERO_TINY),
        "cpu": Zero("zero"),
        "gpu": Zero("zero-large", max_minutes=25, **ZERO_GPU),
    },
}
"""By the names of trainers; cpu is the default."""


def choose_preset(trainer: str, name: str) -> Settings:
    """The settings of a preset. Raises ConfigError."""
    presets = PRESETS[trainer]
    if name not in presets:
        raise ConfigError(f"unknown preset '{name}'; there are {', '.join(presets)}")
    return presets[name]


# --- Reading and writing ---

Chosen = TypeVar("Chosen", bound=Settings)


def change(settings: Chosen, given: Mapping[str, Any], where: str) -> Chosen:
    """``settings`` with values from TOML or from text, where commas separate the items of a list.

    A given end of the run removes the other ends; an optimizer without a learning rate scales it by ``RATES``. Raises
    ConfigError, beginning with ``where``, for unknown names and wrong values.
    """
    known = {item.name: item for item in fields(settings)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            hint = suggest(name, known) or "; --list-settings lists them"
            raise ConfigError(f"{where}: unknown setting '{name}'{hint}")
        if known[name].type == "tuple[str, ...]" and isinstance(value, str):
            value = [part for part in value.split(",") if part]
        values[name] = None if value is None else read_value(value, known[name], where)
    if isinstance(settings, Loop) and "optimizer" in values and "learning_rate" not in values:
        rate = settings.learning_rate * RATES[values["optimizer"]] / RATES[settings.optimizer]
        values["learning_rate"] = float(f"{rate:.6g}")
    if values.keys() & settings.ends():
        values = dict.fromkeys(settings.ends()) | values
    return replace(settings, **values)


def listing(settings: Settings) -> Iterator[str]:
    """All settings as lines of TOML with their help and range; a setting without value is commented out."""
    for item in fields(settings):
        value = getattr(settings, item.name)
        low, high, choices = (item.metadata[key] for key in ("low", "high", "choices"))
        taken = ", ".join(choices) or ("true or false" if item.type == "bool" else "")
        if low is not None:
            taken = f"{format_value(low)} or more" if high is None else f"{format_value(low)} to {format_value(high)}"
        toml = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
        given = f"# {item.name} =" if value is None else f"{item.name} = {toml}"
        yield f"{given:<38} # {item.metadata['help']}{taken and f' ({taken})'}."


def read_file(path: Path) -> dict[str, Any]:
    """The unchecked settings in a TOML file, or in the JSON of a run. Raises ConfigError."""
    return read_object(path, error=ConfigError, hint="give a TOML file of settings")


def settings_of_a_step(settings: Settings) -> dict[str, Any]:
    """The settings that a resumed run may not change, with values as in a saved state."""
    found = {name: value for name, value in asdict(settings).items() if name not in ADJUSTABLE}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def portable_settings(settings: Settings) -> dict[str, Any]:
    """All settings for a manifest; paths are cut to their names, for privacy."""
    found = asdict(settings)
    for name in {"data", "earlier", "average", "records"} & found.keys():
        found[name] = [Path(path).name for path in found[name]]
    for name in {"start", "policy", "finisher"} & found.keys():
        found[name] = Path(found[name]).name
    return found


def write_file(settings: Settings, folder: Path) -> None:
    """Write the settings of a run beside its state."""
    write(folder / SETTINGS_FILE, json.dumps(asdict(settings), indent=2) + "\n", error=ConfigError)
