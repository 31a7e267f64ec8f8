"""Help on what is not a command: how bots are named, limits, ratings, rules, files. The site shows these texts, too."""

from __future__ import annotations

from typing import Annotated

import typer

from arena import ConfigError

BOTS = """\
How bots are named

A bot is written the same way in every command and in arena.toml:

  mcts                         a bot that ships, or [bots.NAME] in arena.toml
  mcts:playouts=500,threads=2  the same bot with other settings
  checkpoint:mine              a net that "arena train" made, without search
  alphago:checkpoint=mine      the same net inside a search
  gtp:command=gnugo --mode gtp an engine that speaks GTP (quote the whole)
  human                        a person at this terminal

Limits follow an @, as in mcts:playouts=500@seconds=1 (arena help limits).

"arena bots" lists the bots. "arena bots mcts" explains the settings of one.
A player is its kind, settings, net, limits and code. If one of them changes,
it is another player with its own rating. NAME#CODE plays a bot in a Python
file as it was before a change.
"""

LIMITS = """\
Limits: how long a bot may think

Limits follow an @ behind a bot, as in mcts@seconds=1. The option --limits sets
them for every bot that has none.

  seconds=S      think for S seconds per move; more does not forfeit
  simulations=N  N playouts or visits per move, for bots that search
  main=S         a clock: S seconds for the whole game
  byoyomi=S      then periods of S seconds
  stones=N       moves in each period (default 1)
  lag=S          grace beyond the clock in a whole game, or beyond "seconds"
                 in each move, before the bot forfeits (default 0.2 with a
                 clock)
  deadline=S     a move that takes longer forfeits (default 60 + 2 * seconds)

Clocks run outside the bot. Starting an engine takes no time from its clock.
The same bot with other limits is another player with its own rating.
"""

RATINGS = """\
Ratings: how strength is measured

Elo        difference in strength: +100 is an expected score of 64 %,
           +200 of 76 %, +400 of 91 %
interval   contains the true difference in 95 of 100 such matches; while it
           contains 0, no difference is shown
pairs      each opening is played twice with colours swapped, and the
           statistics count pairs
LOS        likelihood of superiority: probability that the first is stronger
SPRT       sequential test (match --sprt 0 35, gate): stops when the games
           decide between two Elo differences; LLR is its log-likelihood ratio

"arena elo" rates all players from all stored games by a joint Bradley-Terry
model, with one table for each size, rules, komi and handicap. Ratings are
relative to the anchor, the player at 0. "match A B --plan" estimates the
number of games that a difference needs.
"""

RULES = """\
Rules, and how a game ends

  --rules       scoring    suicide  superko     dead stones
  cgos          area       no       positional  count as alive (the default)
  tromp-taylor  area       yes      positional  count as alive
  chinese       area       no       positional  marked in games with a person
  japanese      territory  no       none        marked in games with a person

Games between bots are scored as the board stands: capture dead stones first.
Komi is 7 up to 9x9 and 7.5 above (6.5 with japanese). Sizes: 5x5 to 19x19.
A game ends after two passes, by resignation, after 3 * size^2 moves, by a
fault (time, illegal move, crash), or by adjudication: both bots have given
the same side less than 2 % for three turns (--adjudicate off plays all games
to the end).
"""

FILES = """\
Files: what arena reads and writes

Read from the current folder (--config FILE names another):
  arena.toml                  bots, engines, tournaments, colours, cluster;
                              "arena doctor --init" writes one to start from

Written below results/ (--results FOLDER names another):
  arena.db                    all games and events (SQLite)
  elo.csv                     ratings, rewritten after each event
  checkpoints/NAME/           nets: weights, ONNX models, manifest.json
  training/NAME/              state and metrics.jsonl of a training run
  cache/                      games of self-play; may be deleted

Elsewhere:
  the user's cache folder     compiled kernels, nets that a cluster sent
  the user's data folder      versions of bots in one Python file

Game records are SGF files (.sgf, .sgfs), folders, or archives of them.
"arena games --sgf FOLDER" exports stored games.
Exit codes: 0 success; 1 a negative result (a rejected gate, a failed check);
2 an error, explained in one line; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
"""

TOPICS = {"bots": BOTS, "limits": LIMITS, "ratings": RATINGS, "rules": RULES, "files": FILES}


def _complete() -> list[str]:
    return list(TOPICS)


def explain(
    ctx: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(help="bots, limits, ratings, rules, files, or a command.", autocompletion=_complete),
    ] = None,
) -> None:
    """Explain a topic: bots, limits, ratings, rules or files.

    With the name of a command it prints the command's help.

    Examples: [bold]arena help bots[/bold] · [bold]arena help match[/bold]
    """
    if topic in TOPICS:
        print(TOPICS[topic], end="")
        return
    group = ctx.parent
    if topic is None or group is None:
        for name, text in TOPICS.items():
            print(f"arena help {name:9}{text.partition(chr(10))[0]}")
        return
    command = group.command.get_command(group, topic)  # type: ignore[attr-defined]  # it is a group
    if command is None:
        raise ConfigError(f"no topic or command '{topic}'; topics are {', '.join(TOPICS)}")
    command.main(["--help"], prog_name=f"arena {topic}", standalone_mode=False)
