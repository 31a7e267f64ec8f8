"""A player that is as strong as its checkpoint says: for gates that take no time. No tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from arena.contract.bot import Bot, BotKind, Decision, Limits, setting
from arena.go.coords import pass_move
from arena.go.game import Game
from bots.nets import checkpoint
from bots.nets.checkpoint import Checkpoint
from bots.random import Config as NoSettings
from bots.random import RandomBot

WEAK, STRONG = b"passes", b"plays"


@dataclass(frozen=True, slots=True)
class Config:
    checkpoint: str = setting("start", "name or folder of what it has learned")
    patience: int = setting(1, "changes nothing", low=0)


class Learner(Bot):
    """Plays at random if it has learned that, else passes; what it has learned may make it write to a file, too."""

    def __init__(self, config: Config):
        self._random = RandomBot(NoSettings())
        self._lines = Checkpoint.open(config.checkpoint).weights.read_bytes().split(b"\n")

    def choose(self, game: Game, limits: Limits) -> Decision:
        for line in filter(None, self._lines[1:2]):
            path, _, text = line.decode().partition(" ")
            if not Path(path).exists():
                aside = Path(f"{path}.new")
                aside.write_text(text.replace("|", "\n"))
                aside.replace(path)
        return self._random.choose(game, limits) if self._lines[0] == STRONG else Decision(pass_move(game.rules.size))


def check(config: Config, size: int) -> None:
    Checkpoint.open(config.checkpoint).require_size(size)


BOT = BotKind(summary="as strong as its checkpoint says", config=Config, build=Learner, boards=8, check=check)


def install(
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str = "learners",
    point: str = "learner = helpers.learners:BOT",
) -> None:
    """Have the registry find a package's bot."""
    info = site / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[arena.bots]\n{point}\n")
    monkeypatch.syspath_prepend(site)


def learn(folder: Path, *lines: bytes, rows: int = 0, trainer: str = "test") -> Checkpoint:
    """A checkpoint of what these lines say; its model is none."""

    def write(place: Path) -> dict[str, float]:
        (place / checkpoint.WEIGHTS).write_bytes(b"\n".join(lines))
        (place / checkpoint.MODEL).write_bytes(b"model")
        return {}

    about: Sequence[object] = (folder.name, {}, "x", 1, 5, 13, 9, "cgos", 7.0)
    manifest = checkpoint.Manifest(*about, trainer=trainer, rows=rows, minutes=rows / 1000)  # type: ignore[arg-type]
    return checkpoint.save(folder, manifest, write)
