"""A terminal arena for Go bots: the version, and the errors that every part shares."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arena.contract.bot import Bot as Bot
    from arena.contract.bot import BotKind as BotKind
    from arena.contract.bot import Decision as Decision
    from arena.contract.bot import setting as setting

__version__ = "0.2.0"

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Threads of numpy's linear algebra wait for each other by spinning: beside other load, inverting a matrix of 200
players took 290 ms instead of 1 ms."""


class ArenaError(Exception):
    """The base class of all errors that this project raises on purpose."""


class UserError(ArenaError):
    """Input that can't be used; the text is one line that names it and the fix. The exit code is 2."""


class ConfigError(UserError):
    """A bot, setting, rule or option that doesn't exist, or a value out of range."""


class RecordError(UserError):
    """A game record that can't be read, or whose moves break the rules."""


class CheckpointError(UserError):
    """A checkpoint folder that is missing, damaged or made for something else."""


class StoreError(UserError):
    """A results database that can't be opened, read or written."""


class StoreBusy(StoreError):
    """Another program has locked the results database. Nothing was changed; a retry may succeed."""


class IllegalMove(ArenaError):
    """A move that the rules forbid, with the reason. Nothing was changed."""


class BotFault(ArenaError):
    """A bot can't go on, such as one whose engine stopped answering. It forfeits the game."""


class BotTimeout(BotFault):
    """A bot that did not answer in time. It forfeits the game on time."""


class BotKilled(BotFault):
    """A process that a bot needs, such as its engine, was killed by a signal. The move is retried a few times."""


def plural(number: float, thing: str) -> str:
    """``1 game``, ``2,000 games``, ``2.5 points``."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {thing}{'s' if number != 1 else ''}"


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """What the authors of bots import from here; loaded when it is used."""
        if name in ("Bot", "BotKind", "Decision", "setting"):
            return getattr(import_module("arena.contract.bot"), name)
        raise AttributeError(f"module 'arena' has no attribute '{name}'")
