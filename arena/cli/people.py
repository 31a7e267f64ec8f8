"""Games of people at this terminal or through a pipe, for the command play and for matches that have a person."""

from __future__ import annotations

import getpass
import os
import re
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import chain
from math import inf
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NoReturn

from typer import prompt

from arena import ConfigError, StoreBusy, StoreError, UserError, plural
from arena.cli import events
from arena.cli.bots import known_ratings
from arena.cli.options import size_doubts
from arena.cli.play import GameOptions
from arena.cli.results import read_game
from arena.contract.bot import Bot, Limits
from arena.files import remove_scratch, scratch
from arena.go.coords import BLACK, WHITE, Colour, Move
from arena.go.game import Game, Rules, handicap_points
from arena.go.ranks import HUMAN_LIKE, rank_name, rank_of
from arena.go.record import GameRecord, GameSummary
from arena.match.bot_process import BotProcess, BotStarter
from arena.match.schedule import Match
from arena.match.worker import warm_up
from arena.people.adviser import Adviser
from arena.people.counting import estimate_score
from arena.people.saved_game import EVENT, Help, SavedGame, SavedGameFile, is_held, saved_games
from arena.people.session import GameSession, Opponent
from arena.players.config import RULES, TermsTable, default
from arena.players.player import Player
from arena.players.registry import Registry
from arena.report.play import show_plainly
from arena.report.style import Console, has_screen
from arena.report.tables import opponents_table
from arena.report.text import print_sections, summary
from arena.results.analysis import Evaluation, analyse, with_all_visits
from arena.results.export import write_elo_csv
from arena.results.store import Store, database
from arena.system import running_clock

ANALYSTS = ("alphago", "mcts")
"""Who gives hints and reviews where the bot that is played can't: the first that plays on the size."""

GUEST = "guest"  # who plays without a name, and so without a rating
STORE_LOCK_SECONDS = 10.0  # how long a game that is over waits for another arena to release the results


def play_match(match: Match, new: bool, setup: PlaySetup, is_counted: bool) -> None:
    """Play the missing games of a match with a person, and store each one. ``is_counted`` is as in ``continue_stored``.
    Raises UserError, and SystemExit when the person leaves."""
    require_two(match.first, match.second)
    people = [player for player in match.players.values() if player.is_person]
    limits, may_play = next((person.limits for person in people if person.limits.time), Limits()), True
    if database(setup.results).exists():
        with Store.of(setup.results) as store:
            last = events.with_run_number(match, store, new)
            event, may_play = events.continue_stored(last, store, setup.console.print_line, is_counted)
            match = replace(match, run=last.run, games=event.games, grown=event.grown)
    while True:
        played = setup.stored(match.event)
        standings, stored = match.standings(), {game.id for game in played}
        standings.add(played)
        if not may_play or standings.is_decided or not (missing := match.pairings(played, stored.__contains__)):
            break
        pairing = missing[0]
        with SavedGameFile(setup.results / f"{pairing.id}.sgf") as file:
            if file.id in {game.id for game in setup.stored(match.event)}:
                continue  # another terminal has just played it
            sides = {BLACK: match.players[pairing.black], WHITE: match.players[pairing.white]}
            known = {"id": pairing.id, "event": match.event, "seed": pairing.seed}
            saved, bots = begin_game(match.terms.rules, sides, limits, pairing.opening, **known)
            saved = file.read() if file.path.exists() else saved
            if not saved.is_over:
                saved, _ = setup.play(file, saved, bots, "the same command continues it")
            if not (saved.is_over and setup.store([saved], match)):
                words = f"Stopped. {len(stored)} of {match.games} games are stored"
                setup.console.print_line(f"{words}; run the same command to play the rest.")
                setup.leave(130)
            file.path.unlink()
    print_sections(summary(standings), setup.console)
    setup.leave()


def new_game(
    registry: Registry, entry: Player, name: str | None, given: GameOptions, position: GameRecord | None = None
) -> tuple[SavedGame, dict[Colour, Player]]:
    """A game before its first move, or from the end of ``position``, and the bots in it by colour. Raises UserError."""
    size, stones = given.size or 9, given.handicap or 0
    if stones == 1 and given.komi is not None:
        raise ConfigError("--handicap 1 is a game without a handicap stone at komi 0.5; leave out --komi")
    setup = tuple(sorted(handicap_points(size, stones))) if stones > 1 else ()
    begins: dict[str, Any] = {"setup": (setup, ()), "first": WHITE if setup else BLACK, "moves": ()}
    begins["rules"] = Rules.preset(given.rules or "chinese", size, default(given.komi, 0.5 if stones else None))
    colour = WHITE if given.color == "white" else BLACK
    if position is not None:
        begins = {name: getattr(position, name) for name in begins}
        if given.color is None:
            colour = position.mover(len(position.moves) + 1)
    person = _person(registry, name)
    limits = Limits.read(given.time, "--time") if given.time is not None else Limits()
    if given.time is not None and (limits.time is None or limits.simulations is not None):
        raise ConfigError(f"--time {given.time} is not a clock; write main=600 (seconds), or main=300,byoyomi=30")
    if entry.is_person:
        opponent = _person(registry, entry.settings.get("name") or GUEST)
        require_two(person, opponent)
    else:
        opponent = entry.with_limits(limits).checked(begins["rules"].size)
    sides = {colour: person, colour.opponent: opponent}
    return begin_game(sides=sides, limits=limits, **begins, event=EVENT, seed=secrets.randbits(48))


def begin_game(
    rules: Rules, sides: Mapping[Colour, Player], limits: Limits, moves: tuple[Move, ...] = (), **fields: Any
) -> tuple[SavedGame, dict[Colour, Player]]:
    """A game of these players after an opening of ``moves``, and its bots. ``limits`` are the people's; ``fields`` are
    more fields of the record."""
    black, white = (sides[colour] for colour in Colour)
    for key, side in (("black_player", black), ("white_player", white)):
        fields[key] = "" if side.name == GUEST else side.identity
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    record = GameRecord(rules, moves, None, black.name, white.name, opening=len(moves), date=date, **fields)
    bots = {colour: side for colour, side in sides.items() if not side.is_person}
    people = tuple(colour for colour in Colour if colour not in bots)
    players = tuple(side.stored for side in sides.values() if side.name != GUEST)
    return SavedGame(record, people, limits, players=players), bots


def starting_position(text: str, move: int | None, given: GameOptions, results: Path) -> GameRecord:
    """The game to play on from, up to a number of moves. Raises UserError."""
    if (given.size, given.rules, given.komi, given.handicap) != (None,) * 4:
        raise ConfigError("--from keeps the game's size, rules, komi and handicap; leave these options out")
    record, _ = read_game(text, results)
    moves = record.moves if move is None else record.moves[:move]
    if move is not None and move > len(moves):
        raise UserError(f"--move {move}: the game has {plural(len(moves), 'move')}")
    rules = record.rules
    if rules.name not in RULES:  # the file doesn't say, or names rules that aren't known here
        rules = Rules.preset("chinese", rules.size, rules.komi)
    position = replace(record, rules=rules, moves=moves, outcome=None, facts=())
    if position.replay().is_passed_out:
        raise UserError(f"the game is over after move {len(moves)}; choose an earlier one with --move")
    return position


def _person(registry: Registry, name: str | None) -> Player:
    """The player of a person with this name; without one, of the login's name, or a guest. Raises ConfigError."""
    if name is None:
        with suppress(OSError, KeyError, ConfigError):
            return _person(registry, getpass.getuser())
        name = GUEST
    if re.fullmatch(r"\w[\w .'-]{0,39}", name) is None:
        raise ConfigError(f"'{name}' is not a name for a player; use up to 40 letters, digits, spaces and . - _ '")
    if name in {entry.name for entry in registry.entries}:
        raise ConfigError(f"'{name}' is a bot's name; take another with --as")
    human = registry.entry("human")
    return replace(human, name=name, settings={**human.settings, "name": name})


def read_side(registry: Registry, spec: str, given: TermsTable) -> Player:
    """A player of a match: the bot of this name, or a person, who is called as in ``play``. Raises UserError."""
    entry = registry.resolve(spec)
    if not entry.is_person:
        return events.read_player(registry, spec, given)
    person = _person(registry, entry.settings.get("name") or None)
    if person.name == GUEST:
        raise ConfigError("the games of a match are rated; name the person, as in human:name=ada")
    return person.with_limits(entry.limits).with_limits(events.read_limits(given))


def require_two(one: Player, other: Player) -> None:
    """Raise ConfigError for a person who plays against himself."""
    if one.name == other.name:
        raise ConfigError(f"both players are called {one.name}; name the second one: human:name=bob")


def file_to_resume(results: Path, id: str | None, stored: set[str]) -> SavedGameFile:
    """The file of the game of this id, or of the unfinished one that was played last. Raises UserError."""
    if id is None:
        kept = [id for id, saved in saved_games(results, stored) if saved.record.moves and not saved.is_over]
        id = next((id for id in reversed(kept) if not is_held(results, id)), None)
        if id is None:
            raise UserError(f"there is no unfinished game in {results / EVENT}; start one, as in: arena play alphago")
    return SavedGameFile.open(results, f"{EVENT}/{id:0>5}" if id.isdecimal() else id)


def rebuild_bots(
    saved: SavedGame, registry: Registry, print_line: Callable[[str], None]
) -> tuple[SavedGame, dict[Colour, Player]]:
    """A saved game and its bots, by the names in its file. Raises UserError for unknown bots and finished games."""
    if saved.is_over:
        raise UserError(f"{saved.id} is over; 'arena games --event play' lists it")
    bots = {}
    for colour, identity in zip(Colour, (saved.record.black_player, saved.record.white_player), strict=True):
        if colour not in saved.people:
            name = saved.name(colour)
            is_file = name.partition(":")[0].endswith(".py")  # typed when the game began
            bots[colour] = (registry.resolve if is_file else registry.resolve_stored)(name).checked(saved.size)
            if bots[colour].identity != identity and Help.OTHER_BOT not in saved.helps:
                print_line(f"{name} has other settings or another net now; the game is unrated.")
                saved = replace(saved, helps=(*saved.helps, Help.OTHER_BOT))
    return saved, bots


class PlaySetup:
    """The bots, results and console of a command in which people play one game after the other."""

    def __init__(self, registry: Registry, results: Path, plain: bool = False):
        self.registry, self.results, self.console = registry, results, Console()
        self._has_screen = has_screen(self.console) and not plain
        self._has_ended = True  # nothing is at work that Python would wait for
        self._code = 0  # of the signal that ended a game

    def choose_opponent(self, size: int) -> str:
        """Ask at a terminal whom to play: a number of the list, a bot or a rank. Raises ConfigError elsewhere."""
        if not (self.console.is_terminal and sys.stdin.isatty()):
            raise ConfigError("name a bot, or --rank 12k, as in: arena play alphago; 'arena bots' lists them")
        found: dict[str, Player] = {}  # of a kind and its bots that are the same player, the last
        for entry in self.registry.entries:
            with suppress(UserError):
                if not (entry.is_person or entry.bot_kind.external):
                    found[entry.identity] = entry.checked(size)
        ratings, _ = known_ratings(self.registry, self.results)
        bots = sorted(found.values(), key=lambda bot: ratings[bot.identity].value if bot.identity in ratings else inf)
        self.console.print(opponents_table(bots, ratings))
        typed: str = prompt("Opponent", default="1", show_default=False).strip()
        if typed.isdecimal() and 0 < int(typed) <= len(bots):
            return bots[int(typed) - 1].name
        return typed if rank_of(typed) is None else f"{HUMAN_LIKE}:rank={typed}"

    def stored(self, event: str) -> list[GameSummary]:
        """The stored games of an event; none where there are no results yet."""
        if not database(self.results).exists():
            return []
        with Store.of(self.results) as store:
            return [*chain.from_iterable(store.game_summaries(event=event))]

    def play(
        self, file: SavedGameFile, saved: SavedGame, bots: Mapping[Colour, Player], hint: str
    ) -> tuple[SavedGame, bool]:
        """Let people play a game, kept in its file. Returns it when it is over or left, and whether another one is
        wanted. ``hint`` says how to continue a game that was left. Raises UserError."""
        for doubt in size_doubts(bots.values(), saved.size):
            self.console.print_line(doubt)
        opponents = self._prepare_bots(bots, saved.record.rules)
        file.write(saved)
        analyst, again = self._analyst(bots, saved.size), False
        adviser = None if analyst is None else Adviser(analyst.name, partial(self._build, analyst))
        session = GameSession(saved, opponents, adviser, file.write, running_clock)
        try:
            with session:
                if self._has_screen:
                    from arena.tui.play_app import show_play

                    review = None if analyst is None else partial(self._analyse, analyst)
                    again = show_play(session, self.console, self._rank_lines, review)
                else:
                    show_plainly(session, self.console, sys.stdin)
        except KeyboardInterrupt as stop:
            self.console.print()
            self._code = 128 + (stop.args[0] if stop.args else signal.SIGINT)
        self._has_ended, saved = session.has_ended, session.snapshot()
        if not saved.is_over and saved.persons_turns:
            self.console.print_line(f"{file.id} is saved after move {len(saved.turns)} in {file.path}; {hint}")
        elif not saved.is_over:
            file.path.unlink(missing_ok=True)
            self.console.print_line("You played no move, so nothing is saved.")
        return saved, again

    def leave(self, code: int = 0) -> NoReturn:
        """End the command, also while a bot thinks, with the code of the signal that came, if any."""
        if self._has_ended:
            raise SystemExit(self._code or code)
        remove_scratch()
        sys.stdout.flush()
        os._exit(self._code or code)

    @cached_property
    def _starter(self) -> BotStarter:
        return BotStarter()

    def _build(self, entry: Player) -> Bot:
        """The bot of a player; one that doesn't ship gets a process of its own, as in a match. Raises UserError."""
        if entry.ships:
            return entry.build()
        return BotProcess(self._starter, entry, scratch() / f"stderr-{secrets.token_hex(4)}")

    def _prepare_bots(self, bots: Mapping[Colour, Player], rules: Rules) -> dict[Colour, Opponent]:
        """Build the bots and compile the kernels of the game, before a clock or a screen runs. Raises UserError."""
        opponents = {}
        if not all(entry.ships for entry in bots.values()):
            _ = self._starter  # forked before any thread starts
        with self.console.status("[dim]Getting ready; the first run on a machine compiles for up to a minute"):
            for colour, entry in bots.items():
                opponents[colour] = Opponent(self._build(entry), entry.limits)
                if entry.bot_kind.boards > 1:
                    warm_up(opponents[colour].bot, rules)
            estimate_score(Game(rules), playouts=2)
        running_clock.start(lambda seconds: None)
        return opponents

    def _analyst(self, bots: Mapping[Colour, Player], size: int) -> Player | None:
        """Who gives hints and reviews: the bot that is played, unless it errs as people do, else a usual one."""
        found = [bot for bot in bots.values() if bot.kind != HUMAN_LIKE]
        for name in ANALYSTS:
            with suppress(UserError):
                found.append(self.registry.resolve(name).checked(size))
        return next((entry for entry in found if entry.bot_kind.analyses), None)

    def _analyse(self, analyst: Player, record: GameRecord) -> Iterator[Evaluation]:
        with closing(self._build(with_all_visits(analyst))) as bot:
            yield from analyse(record, bot, analyst.limits)

    def store_finished_games(self) -> set[str]:
        """Store the finished games of ``play`` that aren't stored yet; returns the ids of all stored games."""
        stored = {game.id for game in self.stored(EVENT)}
        found = saved_games(self.results, stored)
        games = [saved for _, saved in found if saved.is_over and not is_held(self.results, saved.id)]
        for saved in games if games and self.store(games) else ():
            stored.add(saved.id)
            counts = "unrated" if saved.record.unrated else "it counts for arena elo"
            self.console.print_line(f"{saved.id} is stored ({counts}). To review it: arena analyze {saved.id}")
            for line in self._rank_lines(saved):
                self.console.print_line(line)
        return stored

    def store(self, games: Sequence[SavedGame], match: Match | None = None) -> bool:
        """Store finished games and their match together; print why, and return False, if another arena blocks this."""
        end, words = monotonic() + STORE_LOCK_SECONDS, ", ".join(saved.id for saved in games)
        while True:
            try:
                with Store.of(self.results, write=True) as store:
                    if match is not None:
                        events.store_event(store, match)
                    store.add_players({player.identity: player for saved in games for player in saved.players})
                    known = {id for event in {saved.record.event for saved in games} for id in store.ids(event)}
                    store.append([saved.record for saved in games if saved.id not in known])
                    if any(not saved.record.unrated for saved in games):
                        write_elo_csv(store, self.results / "elo.csv")
                return True
            except StoreError as error:
                if not isinstance(error, StoreBusy) or monotonic() >= end:
                    later = "the next arena play" if match is None else "the same command"
                    self.console.print_line(f"{words} is saved, and {later} will store it: {error}.")
                    return False
                sleep(0.1)

    def _rank_lines(self, saved: SavedGame) -> list[str]:
        """The rank that fits a person's results, and an even opponent; nothing unless a ranked bot was played."""
        from arena.people.ranks import rank_by_results  # it loads ONNX Runtime

        if saved.unrated or all(player.kind != HUMAN_LIKE for player in saved.players):
            return []
        name, games, players = saved.name(saved.people[0]), [saved.record], {one.identity: one for one in saved.players}
        if database(self.results).exists():
            with Store.of(self.results) as store:
                games += [game for game in store.games(event=EVENT, player=name) if game.id != saved.id]
                players |= store.players()
        found = rank_by_results(games, players, name)
        if found is None:
            return []
        return [
            f"{name}'s results over {plural(found.count, 'game')} fit {found}, 95 % interval in brackets.",
            f"An even opponent: arena play --rank {rank_name(found.rank)}",
        ]
