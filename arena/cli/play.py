"""The command for people: a game against a bot, or of two people, in the terminal or in a pipe; and the tutorial."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import ConfigError, StoreError, UserError
from arena.cli import events
from arena.cli.options import RESULTS, ConfigFile, Results, ThemeName, read_theme, registry_of, takes
from arena.cli.seats import Wish, arranged, opponents_of

if TYPE_CHECKING:
    from arena.go.moves import Colour
    from arena.go.record import Record
    from arena.people.adviser import Analyst
    from arena.people.kifu import Kifu, KifuFile
    from arena.players.registry import Entry, Registry
    from arena.results.analysis import Evaluation
    from arena.screen.viewer import Evaluate


NO_WISH = Wish()

ANALYSTS = ("alphago", "mcts")
"""Who gives hints where the bot that is played can't: the first that plays on the size."""


@takes(Wish)
def play(
    bot: Annotated[
        str | None,
        typer.Argument(
            metavar="[BOT]",
            help="Opponent: NAME, NAME:setting=value,... or checkpoint:PATH. human is a second person here. "
            "With --resume, the id of a game.",
        ),
    ] = None,
    wish: Wish = NO_WISH,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Your name in the ratings (default: your login name).")
    ] = None,
    fair: Annotated[
        bool, typer.Option("--fair", help="Choose colour, handicap and komi to balance your ratings.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue your last game, or the one with the given id.")
    ] = False,
    tutorial: Annotated[
        bool, typer.Option("--tutorial", help="Learn the rules of Go in ten screens, then play a first game.")
    ] = False,
    first: Annotated[
        int | None,
        typer.Option(
            "--from", help="With --tutorial: the screen to begin with (default 1; 11 is the game).", min=1, max=11
        ),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Describe every change in words, for screen readers and logs.")
    ] = False,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII characters only.")] = False,
    theme: ThemeName = None,
    results: Results = Path(RESULTS),
    config: ConfigFile = None,
) -> None:
    """Play a game against BOT: type [bold]d4[/bold], [bold]pass[/bold], [bold]undo[/bold], [bold]hint[/bold],
    [bold]score[/bold], [bold]resign[/bold], [bold]help[/bold].

    The game is saved after every move; --resume continues it. Finished games are stored with those of bots, and count
    for arena elo unless you used help (undo, hint, score), a handicap or another komi.

    --tutorial teaches the rules on a 5x5 board. Each screen asks for a move or a number; type hint, skip, back or quit
    at any time. The game at its end is against BOT (default fast-random, which plays at random).

    Examples: [bold]arena play alphago[/bold] · [bold]arena play mcts:playouts=200 --size 5 --color white[/bold] ·
    [bold]arena play alphago --fair --as ada[/bold] · [bold]arena play mcts --time main=600,byoyomi=30[/bold] ·
    [bold]arena play sl --handicap 3 --rules japanese[/bold] · [bold]arena play --resume[/bold] ·
    [bold]arena play random --plain < moves.txt[/bold] · [bold]arena play --tutorial[/bold] ·
    [bold]arena play mcts --tutorial --from 11[/bold]
    """
    from arena.go.game import Game
    from arena.people.counting import estimated
    from arena.people.kifu import KifuFile
    from arena.people.sitting import Sitting
    from arena.screen.plain_play import Lines
    from arena.screen.play import Look, sit_down
    from arena.screen.style import Console

    is_own = fair or name is not None or wish != NO_WISH
    if tutorial:
        if is_own or resume or ascii_only:
            raise ConfigError("the tutorial has its own board and rules; give BOT, --from and --plain only")
        teach_rules(bot or "fast-random", first or 1, plain, results, config)
        return
    if first is not None:
        raise ConfigError("--from needs --tutorial")
    console = Console(ascii_only=ascii_only)
    say = events.printer(console)
    registry = registry_of(config, results)
    colours = read_theme(theme, registry)
    _store_finished(results, say)
    with ExitStack() as stack:
        if resume:
            if is_own:
                raise ConfigError("a resumed game keeps its players, rules and clock; give only --resume and its id")
            file = stack.enter_context(_file_to_resume(results, bot))
            kifu = file.read()
            if kifu.is_over:
                raise UserError(f"{file.id} is over; 'arena games --event play' lists it")
            kifu, bots = _recast(kifu, registry, say)
            opponents = opponents_of(bots, kifu.rules)
        else:
            if bot is None:
                raise ConfigError("name a bot to play, as in: arena play alphago; 'arena bots' lists them")
            wish = replace(wish, fair=fair, seed=secrets.randbits(48) if wish.seed is None else wish.seed)
            kifu, bots = arranged(registry, registry.resolve(bot), name, wish, results, say)
            opponents = opponents_of(bots, kifu.rules)
            file = stack.enter_context(KifuFile.create(results, _stored_ids(results)))
            kifu = replace(kifu, record=replace(kifu.record, id=file.id))
            file.write(kifu)
        if kifu.time.time is not None:
            estimated(Game(kifu.rules), playouts=2)  # what is compiled later would run on somebody's clock
        advisers = list(_advisers(bots, registry, kifu.size))
        sitting, code = Sitting(kifu, opponents, _analyst(advisers), file.write), 0
        try:
            with sitting:
                lines, evaluate = Lines(sys.stdin), _evaluator(advisers)
                look = Look(plain, colours)
                sit_down(sitting, console, lines, look, kept=file.path, evaluate=evaluate)
        except KeyboardInterrupt:
            console.print()
            code = 130
        _part(file.read(), file, results, say)
    if not sitting.has_ended:  # Python would wait for threads of the bot's own
        sys.stdout.flush()
        os._exit(code)
    raise SystemExit(code)


# --- A game that goes on ---


def _file_to_resume(results: Path, id: str | None) -> KifuFile:
    """The file of the game of this id, or of the unfinished one that was played last. Raises UserError."""
    from arena.people.kifu import EVENT, KifuFile, is_held, kept_games

    if id is not None:
        number = id.rpartition("/")[2]
        return KifuFile.open(results, f"{EVENT}/{number:0>5}" if number.isdecimal() else id)
    kept = [(id, kifu) for id, kifu in kept_games(results) if kifu.record.moves and not kifu.is_over]
    waiting = [id for id, _ in kept if not is_held(results, id)]
    if not waiting:
        raise UserError(f"there is no unfinished game in {results / EVENT}; start one, as in: arena play alphago")
    return KifuFile.open(results, waiting[-1])


def _recast(kifu: Kifu, registry: Registry, say: Callable[[str], None]) -> tuple[Kifu, dict[Colour, Entry]]:
    """The game with the bots that play it now. Raises UserError when one can't be had any more."""
    from arena.go.moves import BLACK, WHITE, Colour
    from arena.people.kifu import Help

    bots = {}
    identities = {BLACK: kifu.record.black_player, WHITE: kifu.record.white_player}
    for colour in set(Colour) - set(kifu.people):
        name = kifu.name(colour)
        bots[colour] = entry = registry.resolve(name).checked(kifu.size)
        if entry.identity != identities[colour] and Help.OTHER_BOT not in kifu.helps:
            say(f"{name} has other settings or another net now; the game is unrated.")
            kifu = replace(kifu, helps=(*kifu.helps, Help.OTHER_BOT))
    return kifu, bots


# --- Playing ---


def _advisers(bots: dict[Colour, Entry], registry: Registry, size: int) -> Iterator[Entry]:
    """Who may be asked about the game: the bots that are played, then the usual ones that play on this size."""
    yield from bots.values()
    for name in ANALYSTS:
        with suppress(UserError):
            yield registry.resolve(name).checked(size)


def _analyst(advisers: Iterable[Entry]) -> Analyst | None:
    """Who gives hints: another of the bot that is played where it can analyse, else the first that can."""
    from arena.people.adviser import Analyst

    return next((Analyst(entry.name, entry.build) for entry in advisers if entry.bot_kind.analyses), None)


def _evaluator(advisers: Iterable[Entry]) -> Evaluate | None:
    """Who evaluates a game's positions for the review: the first that reports win rates."""
    from arena.results.analysis import analyse, patient

    judge = next((entry for entry in advisers if entry.bot_kind.tells_win_rate), None)
    if judge is None:
        return None

    def evaluate(record: Record) -> Iterator[Evaluation]:
        with closing(patient(judge).build()) as bot:
            yield from analyse(record, bot, at_once=1)

    return evaluate


# --- Keeping ---


def _part(kifu: Kifu, file: KifuFile, results: Path, say: Callable[[str], None]) -> None:
    """Say what becomes of the game: it is stored when it is over, and waits when it isn't."""
    moves = len(kifu.record.moves)
    own = moves if kifu.record.first in kifu.people else moves // 2  # a bot may have begun
    if kifu.is_over:
        try:
            _store([kifu], results)
        except StoreError as error:
            say(f"{file.id} is saved in {file.path}; the next arena play will store it: {error}.")
            return
        counts = "unrated" if kifu.record.unrated else "it counts for arena elo"
        say(f"{file.id} is stored ({counts}); its moves are in {file.path}. To review it: arena analyze {file.id}")
    elif own:
        say(f"{file.id} is saved after move {moves} in {file.path}; resume it with: arena play --resume")
    else:
        file.remove()
        say("You played no move, so nothing is saved.")


def _store(kifus: list[Kifu], results: Path) -> None:
    """Finished games into the results, and the ratings that follow. Raises StoreError."""
    from arena.results.store import Store

    with Store.of(results, write=True) as store:
        store.add_players({player.identity: player for kifu in kifus for player in kifu.players}.values())
        store.append([kifu.record for kifu in kifus])
        if any(not kifu.record.unrated for kifu in kifus):
            from arena.results.frames import write_elo_csv

            write_elo_csv(store, results / "elo.csv")


def _store_finished(results: Path, say: Callable[[str], None]) -> None:
    """Store what an earlier arena finished and had no time to store, or couldn't: as far as that goes now."""
    from arena.people.kifu import is_held, kept_games

    stored = _stored_ids(results)
    left = [kifu for id, kifu in kept_games(results) if kifu.is_over and id not in stored and not is_held(results, id)]
    if left:
        try:
            _store(left, results)
        except StoreError as error:
            say(f"{len(left)} finished games still wait to be stored: {error}.")
        else:
            say(f"Stored now: {', '.join(kifu.record.id for kifu in left)}.")


def _stored_ids(results: Path) -> set[str]:
    """The ids of the games of people that are in the results."""
    from arena.people.kifu import EVENT
    from arena.results.store import Store, database

    if not database(results).exists():
        return set()
    with Store.of(results) as store:
        return store.ids(EVENT)


def teach_rules(against: str, first: int, plain: bool, results: Path, config: Path | None) -> None:
    """The tutorial from screen ``first`` on, then a game against this bot; in a terminal or a pipe. Raises UserError
    for a bot that can't be played on its board."""
    from random import SystemRandom

    from arena.people.tutorial import SIZE
    from arena.screen.plain_play import Lines
    from arena.screen.style import Console
    from arena.screen.tutorial import Left, Talk, farewell, play, teach

    entry = registry_of(config, results).resolve(against)
    entry.checked(SIZE)
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    console = Console(no_color=True) if plain else Console()
    lines = Lines(sys.stdin)
    talk = Talk(console, input if at_terminal else _read, plain, waits=at_terminal and not plain)
    try:
        teach(talk, first)
        play(talk, entry.build(), entry.name, SystemRandom().getrandbits(31), lines)
    except Left as left:
        farewell(talk, [f"Continue later with: arena play --tutorial --from {left.number}"])
        return
    except KeyboardInterrupt:
        print()
        raise SystemExit(130) from None
    farewell(
        talk,
        [
            "Those are all the rules. Against a stronger opponent: arena play mcts --tutorial --from 11. "
            "On a real board: arena play mcts --size 9."
        ],
    )


def _read(prompt: str) -> str:
    """A line of a pipe; what was read stands in the output as if typed."""
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    print(f"{prompt}{line.rstrip()}")
    return line
