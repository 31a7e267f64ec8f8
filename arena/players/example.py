"""The arena.toml that explains itself, every table of it commented out. Nothing is read or written here."""

from __future__ import annotations

import re
import tomllib

ARENA_TOML = """\
# What "arena" knows of bots and tournaments in this folder. All that begins with # is an example: take the # away
# from a table, and it holds. "arena bots" lists who can play then, "arena doctor" says whether the file is right.

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

# [bots.quick]
# kind = "uct"
# limits = "seconds=0.2"   # as typed behind '@': seconds=, simulations=, or a clock, main=60,byoyomi=5

# [bots.corner]
# kind = "corner.py:BOT"   # a bot of your own: a Python file beside this one, run when you name the bot

# Engines from outside speak GTP. See by "arena check NAME" that one starts, moves and counts as we do.

# [bots.gnugo]
# kind = "gtp"
# command = "gnugo --mode gtp --level 10 --max-level 10 --chinese-rules --positional-superko --capture-all-dead"
# limits = "main=60,byoyomi=5"   # without --max-level, GNU Go that is told its time would think above its level

# [bots.pachi]             # the Go engine; the Debian package of that name is another game
# kind = "gtp"
# command = "pachi -t =1000 threads=1 pass_all_alive"   # at least 500 playouts; it takes dead stones

# [bots.katago]
# kind = "gtp"
# command = "katago gtp -model MODEL.bin.gz -config gtp.cfg"   # your paths; maxVisits in gtp.cfg sets its strength
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

# Colours of the boards, live or not: dark, light or high-contrast. The variable ARENA_THEME goes before it.

# [screen]
# theme = "light"
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
