"""Sets up the event of a command, plays and shows it, stores its games and writes the ratings."""

import gc
import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Group

from arena import ConfigError, StoreError, plural
from arena.cli.options import read_rules, size_doubts
from arena.contract.adjudication import Adjudication
from arena.contract.bot import Limits
from arena.go.record import GameRecord
from arena.match.cluster import Cluster
from arena.match.event import Event, continue_event, event_from_json, event_to_json, games_asked, with_games
from arena.match.openings import Opening, read_book, shipped_book
from arena.match.runner import AnyCrew, Control, GamesNotStored, Update, play_event
from arena.match.schedule import Match, Terms, Tournament
from arena.match.swiss import Swiss
from arena.players.config import TermsTable, default
from arena.players.player import Player
from arena.players.registry import Registry
from arena.report.figures import header, print_lines
from arena.report.style import Console, has_colours, has_screen
from arena.report.text import print_sections, summary, title
from arena.results.event_state import EventState
from arena.results.export import game_line, report_line, write_elo_csv
from arena.results.league import kind_of, read_report
from arena.results.store import Store, StoredEvent, journals_of
from arena.system import cores


def read_player(registry: Registry, spec: str, given: TermsTable) -> Player:
    """The bot of this name, with the given limits unless it has its own. Raises UserError for a size it can't play."""
    return registry.resolve(spec).with_limits(read_limits(given)).checked(default(given.size, 9))


def read_limits(given: TermsTable) -> Limits:
    return Limits.read(given.limits, "--limits") if given.limits else Limits()


def read_terms(given: TermsTable, registry: Registry, print_line: Callable[[str], None], handicap: int = 0) -> Terms:
    """The terms of an event, with shipped openings without --book, --plies and handicap. Raises UserError."""
    given = replace(given, komi=0.5) if handicap and given.komi is None else given
    rules, seed, plies = read_rules(given), default(given.seed, 1), default(given.plies, 4)
    is_usual = given.book is None and given.plies is None and not handicap
    book: tuple[Opening, ...] = shipped_book(rules, seed) if is_usual else ()
    if given.book is not None:
        if given.plies == 0:
            raise ConfigError("--plies 0 uses nothing of a book; give at least 1, or leave out --plies or --book")
        book, summary = read_book(given.book, rules, given.plies, seed)
        print_line(f"{given.book}: {summary}.")
    ends = Adjudication.read(given.adjudicate or "")
    referee = registry.resolve(given.referee).checked(rules.size) if given.referee else None
    if referee is not None and not referee.bot_kind.external:
        words = "only an engine over GTP, such as gnugo, says which stones are dead"
        raise ConfigError(f"--referee {given.referee}: {words}")
    return Terms(rules, given.openings or 0, plies, seed, ends, book, is_usual, handicap=handicap, referee=referee)


def event_notices(event: Event, store: Store) -> Iterator[str]:
    """Lines to show before the event. Raises ConfigError if games are missing and there are too few openings."""
    known = store.players()
    last = {player.name: identity for identity, player in known.items()}
    for entry in event.players.values():
        if entry.name in last and entry.identity not in known:
            games = plural(store.count(player=last[entry.name]), "game")
            yield f"{entry.name} is a new player: its settings, net, code or limits differ from those in {games}."
    if isinstance(event, Swiss):
        event.pairings()
    elif store.count(event=event.event) < event.games:
        each = event.games if isinstance(event, Match) else event.games_each
        event.terms.opening(event.terms.distinct_openings(each) - 1)
    yield from size_doubts(event.players.values(), event.terms.rules.size)


def with_run_number(match: Match, store: Store, new: bool) -> Match:
    """The match as its last run, or as a ``new`` one."""
    runs = sum(event.id.rpartition("-")[0] == match.key for event in store.events())
    return replace(match, run=max(1, runs + new))


def store_event(store: Store, event: Event) -> None:
    store.add_players({entry.identity: entry for entry in event.players.values()})
    created = datetime.now(UTC).isoformat(timespec="seconds")
    store.add_event(StoredEvent(event.event, created, event.settings, event_to_json(event)))


def continue_stored(
    event: Event, store: Store, print_line: Callable[[str], None], is_counted: bool
) -> tuple[Event, bool]:
    """The event as it is stored, with the games of ``event`` where these are more, and whether any may be played. An
    event without stored games is new. ``is_counted`` says that the number of games was asked for; else, unless players
    join, the stored one counts. Raises ConfigError where anything else differs."""
    found = next((one for one in store.events() if one.id == event.event), None)
    if found is None or not store.count(event=found.id):
        return event, True
    if not isinstance(event, Match):
        _require_same_terms(found.settings, event)
    try:
        stored = event_from_json(found.plan)
    except ConfigError:  # by an earlier version; it is written anew
        return event, True
    planned, games = games_asked(stored), games_asked(event)
    if not is_counted and (not isinstance(event, Swiss) or event.players.keys() == stored.players.keys()):
        event = with_games(event, planned)
    if is_counted and games < planned:
        again = "--new starts again" if isinstance(event, Match) else "take another name for a new one"
        print_line(f"{event.event} has {planned} planned games: with -n {games}, none is played ({again}).")
    return continue_event(stored, event), not is_counted or games >= planned


def _require_same_terms(stored: dict[str, Any], event: Tournament | Swiss) -> None:
    """Raise ConfigError for the name of a stored event that was played by other settings, or is of another kind."""
    if (kind := kind_of(event.settings)) != (other := kind_of(stored)):
        raise ConfigError(f"'{event.name}' is a stored {other}; take another name, or the --style that it began with")
    old, new = _flat(stored), _flat(json.loads(json.dumps(event.settings)))
    if changed := [f"{key} {old.get(key)}, not {new.get(key)}" for key in new | old if old.get(key) != new.get(key)]:
        raise ConfigError(f"{kind} '{event.name}' is stored with {'; '.join(changed)}; take another name")


def _flat(settings: dict[str, Any]) -> dict[str, str]:
    """Settings as they are typed: the rule set's name is ``rules``."""
    flat = dict(settings)
    for group in ("rules", "adjudication"):
        flat |= {"rules" if key == "name" else key: value for key, value in flat.pop(group, {}).items()}
    return {key: f"{value:g}" if isinstance(value, float) else str(value) for key, value in flat.items()}


@dataclass
class EventSetup:
    """How a command plays, stores and shows events. ``workers`` 0 means one per core; ``opened`` sets ``crew``."""

    registry: Registry
    results: Path
    workers: int
    cluster: str | None
    as_json: bool = False
    rings: bool = False
    crew: int | AnyCrew = 0

    def __post_init__(self) -> None:
        self.console = Console(stderr=self.as_json)
        self.cluster = self.cluster or self.registry.cluster.address

    @contextmanager
    def opened(self, event: Event) -> Iterator[Store]:
        """The results, while there are workers that play such an event. Raises UserError where there are none."""
        with ExitStack() as stack:
            self.crew = self.workers or cores()
            if self.cluster is not None:
                journals = journals_of(self.results, event.event)
                crew = Cluster(self.cluster, self.workers, event.players, event.terms, journals)
                self.crew = stack.enter_context(crew)
            yield stack.enter_context(Store.of(self.results, write=True, print_line=self.console.print_line))

    def play(self, event: Event, store: Store, is_counted: bool = True) -> EventState:
        """Store the event, play and show its missing games; returns its state. Ratings are written after an error, too.
        ``is_counted`` is as in ``continue_stored``. Raises ConfigError for an event that is stored with other
        settings."""
        gc.freeze()  # imported modules are never freed: scanning them in each collection takes 0.2 s
        event, may_play = continue_stored(event, store, self.console.print_line, is_counted)
        for line in event_notices(event, store):
            self.console.print_line(line)
        store_event(store, event)
        state = EventState(event)
        with ratings_written(state, store, self.console, self.results, self.registry.anchors):
            self.show(state, store, may_play)
        if state.standings.is_decided and state.stored == state.resumed:
            more = "for more games, play another match: --name NAME --seed NUMBER."
            self.console.print_line(f"The test is decided; {more}")
        return state

    def show(self, state: EventState, store: Store, may_play: bool = True) -> None:
        """Play the games of an event that are missing in ``store``, if they may be played, and show them meanwhile."""
        event, control = state.event, Control(finishing=not may_play)
        updates = play_event(event, store, self.crew, control)
        with _stop_signals(control) as end:
            if self.as_json:
                print_games(event, updates, store)
            else:
                show(state, updates, control, self.console, self.rings)
            if may_play and control.finishing and not _is_complete(event, store):
                end()


def show(state: EventState, updates: Iterator[Update], control: Control, console: Console, rings: bool = False) -> None:
    """Show an event on the full screen or as lines until its updates end, then print its summary and, if ``rings``,
    ring the terminal's bell. An exception that ends it early is raised after the updates are closed."""
    if has_screen(console):
        from arena.tui.event_app import show_event

        try:
            show_event(state, updates, control, has_colours(console))
        finally:
            console.print(Group(*header(state)))
    else:
        print_lines(state, updates, console)
    print_sections(summary(state.standings), console)
    console.set_window_title(f"arena: {title(state.standings)}")
    if rings:
        console.bell()


def print_games(event: Event, updates: Iterable[Update], store: Store) -> None:
    """Print a JSON object for each game as it ends, then one for the report."""
    for update in updates:
        for record in () if update.resumed else update.records:
            if isinstance(record, GameRecord):
                print(game_line(record, store.number(record.id)), flush=True)
    print(report_line(read_report(store, event.event)), flush=True)


@contextmanager
def _stop_signals(control: Control) -> Iterator[Callable[[], None]]:
    """The first Ctrl-C or SIGTERM lets the games under way finish; the second, or the first of a paused event, ends the
    command. Calling the yielded function ends the command as the received signal would, or as Ctrl-C."""
    both = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in both.items() if handler is not signal.SIG_IGN}
    received: list[int] = []

    def end() -> None:
        number = signal.Signals(received[0]) if received else signal.SIGINT
        if callable(handler := before.get(number)):
            handler(number, None)
        raise KeyboardInterrupt

    def interrupt(number: int, frame: object) -> None:
        received.append(number)
        if control.finishing or control.paused:
            end()
        control.finishing = True

    for number in before:
        signal.signal(number, interrupt)
    try:
        yield end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_complete(event: Event, store: Store) -> bool:
    """Whether all games of an event are stored, or its test is decided."""
    standings = event.standings()
    for games in store.game_summaries(event=event.event) if standings.tests else ():
        standings.add(games)
    return standings.is_decided or store.count(event=event.event) >= event.games


@contextmanager
def ratings_written(
    state: EventState, store: Store, console: Console, results: Path, anchors: Mapping[str, float] | None = None
) -> Iterator[None]:
    """Write the ratings when the block ends, also by an error or Ctrl-C, which then prints how to resume. Anchors that
    contradict the games are left out."""
    ratings, event = results / "elo.csv", state.event
    try:
        yield
    except (KeyboardInterrupt, GamesNotStored) as stop:
        words = f"Stopped. {store.count(event=event.event)} of {event.games} games are stored"
        if isinstance(stop, GamesNotStored):
            words += f", and {stop.games} finished ones are not, because another program has locked {store.path}"
        if not _is_complete(event, store):  # otherwise Ctrl-C came too late
            console.print_line(f"{words}; the same command plays the rest.")
            raise SystemExit(130) from None
    finally:
        with suppress(StoreError) if isinstance(sys.exception(), StoreError) else nullcontext():  # the first one counts
            store.check_place()
            if store.count():
                try:
                    write_elo_csv(store, ratings, anchors or {})
                except ConfigError as error:
                    console.print_line(f"{error}. {ratings} has the ratings without anchors.")
                    write_elo_csv(store, ratings)
    console.print_line(f"Games in {store.path}, ratings in {ratings} (arena elo).")
