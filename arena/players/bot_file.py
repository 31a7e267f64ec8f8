"""The commented example of arena.toml, and changes of one setting that keep every other byte."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import MutableMapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from arena import ConfigError, files

ARENA_TOML = """\
# The bots and tournaments of this folder. Lines that begin with # are examples: remove the # of a table to use it.
# "arena bots" then lists the players, and "arena doctor" checks the file.

# Bots of your own: [bots.NAME] with a kind and its settings ("arena bots NAME" explains them).
# A table without a kind changes the settings of a bot that exists, as in [bots.mcts].

# [bots.mcts]
# playouts = 5000

# [bots.alphago-deep]
# kind = "alphago"
# visits = 800

# [bots.mine]
# kind = "policy"          # a net that "arena train" made, without search; kind = "alphago" plays it with search
# checkpoint = "mine"      # results/checkpoints/mine, or the path of such a folder
# gpus = 0.25              # of a GPU, for each worker on a cluster that has this bot

# [bots.quick]
# kind = "uct"
# limits = "seconds=0.2"   # as typed behind '@': seconds=, simulations=, or a clock, main=60,byoyomi=5

# [bots.corner]
# kind = "corner.py:BOT"   # a bot of your own: a Python file beside this one, run when you name the bot

# Engines from outside speak GTP. "arena check NAME" checks one.

# [bots.gnugo]
# kind = "gtp"
# command = "gnugo --mode gtp --level 10 --max-level 10 --chinese-rules --positional-superko --capture-all-dead"
# limits = "main=60,byoyomi=5"   # without --max-level, GNU Go plays above its level when it gets a time

# [bots.pachi]             # the Go engine; the Debian package of that name is another game
# kind = "gtp"
# command = "pachi -t =1000 threads=1 pass_all_alive"   # at least 500 playouts; it captures dead stones

# [bots.katago]
# kind = "gtp"
# command = "katago gtp -model MODEL.bin.gz -config gtp.cfg"   # your paths; katago@simulations=50 sets its visits
# analysis = "katago analysis -model MODEL.bin.gz -config analysis.cfg"   # for: arena train distill --teacher katago
# startup = 120            # seconds: the first start tunes itself to the GPU

# [bots.leela-zero]
# kind = "gtp"
# command = "leelaz --gtp --noponder --visits 800 --weights WEIGHTS.gz"   # your path; 19x19 only, by area scoring
# startup = 120

# [bots.fuego]
# kind = "gtp"
# command = "fuego"
# limits = "seconds=1"

# Tournaments: "arena tournament league" plays this one, or what is missing of it.

# [tournaments.league]
# bots = ["random", "mcts", "sl", "alphago", "mcts:playouts=5000"]
# games = 40               # of each two players
# style = "round-robin"    # or "gauntlet": the first against the rest; or "ladder"
# size = 9                 # and komi, rules, openings, book, plies, seed, limits, adjudicate

# Where events are played without --cluster: a Ray cluster.

# [cluster]
# address = "192.168.1.10:6379"   # or "auto"
"""


def engine_table(name: str) -> str:
    """The lines that make this engine a bot, without the signs that comment them out. Raises KeyError."""
    for block in ARENA_TOML.split("\n\n"):
        if block.startswith(f"# [bots.{name}]"):
            return re.sub("(?m)^# ", "", block.strip())
    raise KeyError(name)


def engine_command(name: str) -> str:
    """The command in that table."""
    return str(tomllib.loads(engine_table(name))["bots"][name]["command"])


@dataclass(frozen=True, slots=True)
class Change:
    """A setting of a bot that was changed in a file: its value now, and before, where it had one there.
    ``is_new_table`` and ``is_new_file`` say what was made for it."""

    path: Path
    bot: str
    setting: str
    value: str
    before: str | None
    is_new_table: bool
    is_new_file: bool


def require_writable(path: Path) -> None:
    """Raise ConfigError when the file, or one in its place, can't be written. What it holds isn't looked at."""
    place = path.resolve()
    if place.exists() and not place.is_file():
        raise ConfigError(f"{path} is not a file; name another with --config")
    if place.exists() and not os.access(place, os.W_OK):
        raise ConfigError(f"{path} can't be written; make it writable, or name another file with --config")
    if not os.access(place.parent, os.W_OK):
        raise ConfigError(f"{place.parent} can't be written, and {path} lies there; make it writable")


def set_bot(path: Path, name: str, setting: str, value: str) -> Change:
    """Give a bot another value of a setting, in its table or, where there is none, in a new one at the file's end; a
    file that isn't there is made.

    The new file is written aside and renamed. Raises ConfigError, and then has changed nothing.
    """
    require_writable(path)
    is_new_file = not path.exists()
    try:
        content = b"" if is_new_file else path.read_bytes()
        old = content.decode()
        before = tomllib.loads(old)
        document = tomlkit.parse(old)
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, TOMLKitError) as error:
        raise ConfigError(f"{path}: isn't valid TOML ({' '.join(str(error).split())}); correct it") from error
    known = before.get("bots", {})
    try:
        expected = deepcopy(before)
        expected.setdefault("bots", {}).setdefault(name, {})[setting] = value
        new = _changed(old, document, name, setting, value)
        right = tomllib.loads(new) == expected
    except (TOMLKitError, tomllib.TOMLDecodeError, ValueError, TypeError, AttributeError):
        right = False  # a way to write tables that isn't foreseen here
    if not right:
        raise ConfigError(f'{path} can\'t be changed automatically; set {setting} = "{value}" for {name} there')
    files.write(path, new, error=ConfigError, hint="the file is unchanged")
    return Change(path, name, setting, value, known.get(name, {}).get(setting), name not in known, is_new_file)


def _changed(old: str, document: tomlkit.TOMLDocument, name: str, setting: str, value: str) -> str:
    """The text of the file with the setting."""
    newline = "\r\n" if "\r\n" in old else "\n"
    bots: Any = document.get("bots", {})
    if name not in bots and not (isinstance(bots, MutableMapping) and type(bots).__name__ == "InlineTable"):
        lines = [f"[bots.{tomlkit.key(name).as_string()}]", f"{setting} = {tomlkit.string(value).as_string()}", ""]
        gap = "" if not old else newline if old.endswith("\n") else 2 * newline
        return old + gap + newline.join(lines)
    if name not in bots:
        bots[name] = tomlkit.inline_table()
    table = bots[name]
    if setting in table or not isinstance(table, Table):
        table[setting] = value
        return tomlkit.dumps(document)
    item = tomlkit.string(value)
    item.trivia.trail = newline
    body = table.value.body
    after = []  # blank lines and comments before the next table stay there
    while body and body[-1][0] is None:
        after.append(body.pop())
    if not after and not old.endswith("\n"):
        return _changed(old + newline, tomlkit.parse(old + newline), name, setting, value)
    table.append(setting, item)
    body.extend(reversed(after))
    return tomlkit.dumps(document)
