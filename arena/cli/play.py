"""The command play: a game of a person at this terminal or through a pipe."""

from dataclasses import dataclass, replace
from typing import Annotated

from arena import ConfigError
from arena.cli.options import RESULTS, Argument, ConfigFile, Option, ResultsFolder, registry_of, with_options
from arena.contract.settings import setting
from arena.go.ranks import HUMAN_LIKE, rank_name, read_rank
from arena.players.config import RULES


@dataclass(frozen=True, slots=True)
class GameOptions:
    """How a new game is to be played, as options; None is what wasn't given."""

    color: str | None = setting(None, "Your colour: black (default) or white.", choices=("black", "white"))
    size: int | None = setting(None, "Board size, 5 to 19 (default 9).", 5, 19)
    komi: float | None = setting(None, "Komi (default 7, over 9x9 7.5, with a handicap 0.5).")
    rules: str | None = setting(None, "chinese (default), japanese, cgos or tromp-taylor.", choices=RULES)
    handicap: int | None = setting(None, "Black's handicap: 2 to 9 stones; 1 is komi 0.5.", 0, 9)
    time: str | None = setting(None, "Clock: main=600, main=300,byoyomi=30 or byoyomi=60,stones=5.")


NO_OPTIONS = GameOptions()


@with_options(GameOptions)
def play(
    bot: Annotated[str | None, Argument(metavar="BOT")] = None,
    rank: Annotated[str | None, Option(metavar="RANK", help="Play a bot of this human rank, 30k to 6d.")] = None,
    given: GameOptions = NO_OPTIONS,
    start: Annotated[str | None, Option("--from", metavar="GAME", help="Play on from this SGF file or game.")] = None,
    move: Annotated[int | None, Option(metavar="NUMBER", help="With --from: after this many moves.", min=0)] = None,
    name: Annotated[
        str | None, Option("--as", metavar="NAME", help="Your name in the ratings (default: your login).")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Continue your last game, or the one of this id.")] = False,
    plain: Annotated[bool, Option("--plain", help="Lines of text instead of the full screen.")] = False,
    results: ResultsFolder = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Play against a bot, or another person, at this terminal.

    BOT is a bot, or human for a second person; with --resume it is the id of a game. Type d4, pass, undo, hint, score,
    resign or help. The game is saved after every move. Finished games are stored and count for arena elo unless you
    used help (undo, hint, score), a handicap, another komi or --from.

    --rank is a rank of the Online Go Server (2005 to 2020, 9x9). The bot moves, errs, passes and resigns as people of
    that rank did. Each game ends with the rank that fits your results against such bots.

    Examples:
      arena play alphago
      arena play --rank 12k
      arena play mcts --size 13 --time main=600,byoyomi=30
      arena play alphago --from game.sgf --move 30
      arena play random --plain < moves.txt
    """
    if resume and (name is not None or rank is not None or start is not None or given != NO_OPTIONS):
        raise ConfigError("a resumed game keeps its players, rules and clock; give only --resume and its id")
    if rank is not None:
        if bot is not None:
            raise ConfigError(f"--rank {rank} picks the bot; leave out {bot}")
        bot = f"{HUMAN_LIKE}:rank={rank_name(read_rank(rank, '--rank'))}"
    registry = registry_of(config, results, *([] if resume or bot is None else [bot]))
    from arena.cli import people
    from arena.people.saved_game import SavedGameFile

    setup = people.PlaySetup(registry, results, plain)
    if bot is None and not resume:
        bot = setup.choose_opponent(given.size or 9)
    position = None if start is None else people.starting_position(start, move, given, results)
    if start is None and move is not None:
        raise ConfigError(f"--move {move} needs --from, as in: arena play alphago --from game.sgf --move {move}")
    again, stored = True, setup.store_finished_games()
    while again:
        if resume:
            file = people.file_to_resume(results, bot, stored)
        else:
            saved, bots = people.new_game(registry, registry.resolve(bot or ""), name, given, position)
            file = SavedGameFile.create(results, stored)
        with file:
            if resume:
                saved, bots = people.rebuild_bots(file.read(), registry, setup.console.print_line)
            else:
                saved = replace(saved, record=replace(saved.record, id=file.id))
            saved, again = setup.play(file, saved, bots, "resume it with: arena play --resume")
        stored = setup.store_finished_games()
        if resume and again:
            opponent = next((saved.name(colour) for colour in bots), "human")
            setup.console.print_line(f"To play again: arena play {opponent}")
            break
        if not saved.handicap:
            given = replace(given, color="white" if saved.people[0].name == "BLACK" else "black")
    setup.leave()
