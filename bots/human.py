"""A person at the terminal; ``arena.people.session`` reads the moves."""

from dataclasses import dataclass
from typing import NoReturn

from arena import ConfigError
from arena.contract.bot import BotKind, setting


@dataclass(frozen=True, slots=True)
class Config:
    name: str = setting("", "name of the player")


def refuse(config: Config, size: int = 0) -> NoReturn:
    """For every command that asks its players for moves by itself."""
    raise ConfigError("a person can't play here; name a bot")


BOT = BotKind("a person at the terminal", Config, refuse, boards=1, check=refuse, interactive=True, revision=1)
