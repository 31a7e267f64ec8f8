"""An event from its options to its ratings: who plays by which terms, on which workers, shown how, ended how."""

from __future__ import annotations

import gc
import json
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena import ConfigError, plural
from arena.cli.options import size_doubts
from arena.cli.play import play_people
from arena.players.config import TermsTable, first_given
from arena.system import cores

if TYPE_CHECKING:
    from arena.contract.bot import Limits
    from arena.match.event import Event
    from arena.match.ladder import Ladder
    from arena.match.openings import Opening
    from arena.match.runner import AnyCrew, Control, Update
    from arena.match.schedule import Terms, Tournament
    from arena.players.player import Player
    from arena.players.registry import Registry
    from arena.report.log import EventState
    from arena.report.style import Console
    from arena.results.store import Store

PLIES = 4
"""Moves of an opening that is drawn, by default."""

FINISHING = "Finishing the games under way for at most {seconds:g} s, then stopping. Again (q, Ctrl-C) stops now."


# --- From options ---


def say_preparing() -> None:
    """Have a terminal show something before what takes seconds is imported."""
    if sys.stdout.isatty():
        print("Preparing the games ...", flush=True)


def read_player(registry: Registry, spec: str, given: TermsTable, *, or_person: bool = False) -> Player:
    """The bot of this name, with the limits of ``given`` where it has none. Raises UserError for one that doesn't play
    on this size, and for a person where none can play."""
    entry = registry.resolve(spec).with_limits(read_limits(given))
    return entry if or_person and entry.is_person else entry.checked(first_given(given.size, 9))


def read_limits(given: TermsTable) -> Limits:
    from arena.contract.bot import Limits

    return Limits.read(given.limits, "--limits") if given.limits else Limits()


def read_terms(given: TermsTable, say: Callable[[str], None]) -> Terms:
    """The terms of an event; what was read of a book that is named is said. Unless openings are asked for, they are
    those that ship, then drawn ones. Raises UserError."""
    from arena.contract.adjudication import Adjudication
    from arena.go.game import Rules
    from arena.match.openings import read_book, shipped_book
    from arena.match.schedule import Terms

    rules = Rules.preset(first_given(given.rules, "cgos"), first_given(given.size, 9), given.komi)
    seed, plies = first_given(given.seed, 1), first_given(given.plies, PLIES)
    is_usual = given.book is None and given.plies is None
    book: tuple[Opening, ...] = shipped_book(rules, seed) if is_usual else ()
    if given.book is not None:
        if given.plies == 0:
            raise ConfigError("--plies 0 uses nothing of a book; give at least 1, or leave out --plies or --book")
        found = read_book(given.book, rules, given.plies, seed)
        book = found.openings
        say(f"{given.book}: {found}.")
    adjudication = Adjudication.read(given.adjudicate or "")
    return Terms(rules, first_given(given.openings, 0), plies, seed, adjudication, book, is_usual)


def openings_note(terms: Terms, games: int) -> list[str]:
    """What follows a book that has too few openings for ``games`` games of a pair."""
    openings, pairs = len(terms.book), (games + 1) // 2
    if not openings or openings >= min(terms.openings or pairs, pairs):
        return []
    if terms.then_drawn:
        found = plural(openings, "opening")
        return [f"The book has {found} for {pairs} pairs of games; the later pairs get random openings."]
    return [f"The openings are used in turn: there are {openings} for {pairs} pairs of games."]


# --- Before it is played ---


def require_openings(event: Event, store: Store) -> None:
    """Raise ConfigError where there are fewer openings than the event's games need. Where as many games are stored,
    nothing is drawn again."""
    from arena.match.ladder import Ladder
    from arena.match.schedule import Match

    if isinstance(event, Ladder):
        event.pairings()
    elif store.count(event=event.event) < event.games:
        event.terms.require_openings(event.games if isinstance(event, Match) else event.games_each)


def note_event(store: Store, event: Event) -> None:
    """Store who plays what, and how many games of it."""
    from datetime import UTC, datetime

    from arena.match.event import event_to_json
    from arena.results.store import Event as StoredEvent

    store.add_players({entry.identity: entry for entry in event.players.values()})
    created = datetime.now(UTC).isoformat(timespec="seconds")
    store.add_event(StoredEvent(event.event, created, event.settings, event_to_json(event)))


def changes(store: Store, entries: Iterable[Player]) -> Iterator[str]:
    """A line for each player that isn't who played under its name and with its settings before."""

    def typed(player: Player) -> tuple[str, str, dict[str, Any]]:
        stored = player.stored  # whose precision suits the processor only
        return stored.name, stored.kind, {key: value for key, value in stored.settings.items() if key != "precision"}

    known = store.players()
    for entry in entries:
        earlier = [old for old in known.values() if typed(old) == typed(entry)]
        if earlier and entry.identity not in known:
            old = earlier[-1]
            games = plural(store.count(player=old.identity), "stored game")
            if old.net != entry.net:
                words = f"has a different net than in {games} ({old.net[:8]}, now {entry.net[:8]})"
            elif old.code != entry.code:
                words = f"has changed since {games}"
            else:
                words = f"has other limits or precision than in {games}"
            yield f"{entry.name} {words}: it is a new player."


def participants_note(store: Store, event: Tournament | Ladder) -> Iterator[str]:
    """A line for each player of a stored tournament or ladder that no longer takes part. Raises ConfigError when it was
    played by other settings, or its name is another kind of event's."""
    stored = next((one.settings for one in store.events() if one.id == event.event), None)
    if stored is None:
        return
    styles = {"tournament": " (to resume it: --style round-robin)", "ladder": " (to resume it: --style ladder)"}
    kind = next(kind for kind in styles if kind in event.settings)
    if kind not in stored:
        other = next((other for other in styles if other in stored), "match")
        how = styles.get(other, "")
        raise ConfigError(f"'{event.name}' is a stored {other}{how}; take another name for the {kind}")
    old, new = _flat(stored), _flat(json.loads(json.dumps(event.settings)))
    if changed := [f"{key} {old.get(key)}, not {new.get(key)}" for key in new | old if old.get(key) != new.get(key)]:
        raise ConfigError(f"{kind} '{event.name}' is stored with {'; '.join(changed)}; take another name")
    playing = {entry.identity: entry.name for entry in event.entries}
    for identity, name in store.participants(event.event).items():
        if identity not in playing:
            games = store.count(event=event.event, player=identity)
            kept = f"{plural(games, 'game')} stay{'s' if games == 1 else ''} stored"
            if name in playing.values():
                yield f"{name} has changed; of the earlier {name} {kept}, and the new one joins."
            else:
                yield f"{name} doesn't take part now; of it {kept}."


def _flat(settings: dict[str, Any]) -> dict[str, str]:
    """Settings as they are typed: the rule set's name is ``rules``."""
    flat = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    for group in ("rules", "adjudication"):
        flat |= {"rules" if key == "name" else key: value for key, value in settings.get(group, {}).items()}
    return {key: f"{value:g}" if isinstance(value, float) else str(value) for key, value in flat.items()}


# --- Played and shown ---


@dataclass(frozen=True, slots=True)
class EventSetup:
    """Where events are played, stored and shown. ``workers`` is 0 for one per core; ``crew`` is set once it is
    entered."""

    console: Console
    results: Path
    workers: int
    cluster: str | None = None
    as_json: bool = False
    crew: int | AnyCrew = 0

    @contextmanager
    def with_crew(self, event: Event) -> Iterator[EventSetup]:
        """The same with the workers that play such an event. Raises UserError where there are none."""
        if self.cluster is None:
            yield replace(self, crew=self.workers or cores())
            return
        from arena.match.cluster import Cluster

        terms = event.terms
        with Cluster(self.cluster, self.workers, event.players, terms.rules, terms.adjudication) as crew:
            yield replace(self, crew=crew)

    def begin(self, event: Event, store: Store, notes: Iterable[str] = ()) -> Any:
        """Say what is to be known, store who plays what, and play; returns the event's state."""
        gc.freeze()  # imported modules are never freed: scanning them in each collection takes 0.2 s
        require_openings(event, store)
        doubts = size_doubts(event.players.values(), event.terms.rules.size)
        for line in [*changes(store, event.players.values()), *notes, *doubts]:
            self.console.say(line)
        note_event(store, event)
        return self.play(event, store)

    def play(self, event: Event, store: Store) -> Any:
        """Play what is missing of an event and show it meanwhile; returns its state. Whatever ends it, the ratings are
        written."""
        from arena.match.runner import Control, play_event
        from arena.report.log import EventState

        control, state = Control(), EventState(event)
        has_people = any(entry.is_person for entry in event.players.values())
        with event_kept(state, store, self.console, self.results):
            updates = play_event(event, store, self.crew, control, play_people(event, self.console))
            updates = _with_news_of_the_end(updates, control)
            with nullcontext(_interrupt) if has_people else _finishing(control) as end:
                if self.as_json:
                    print_games(event, updates, store)
                else:
                    show(state, updates, control, self.console)
            if control.finishing and store.count(event=event.event) < event.games:
                end()
            return state


def show(state: EventState, updates: Iterator[Update], control: Control, console: Console) -> None:
    """Show an event until its updates end, on the full screen where no person plays in it, else as lines; then sum it
    up. What ends it early comes through after the updates are closed."""
    from rich.console import Group

    from arena.report.figures import head
    from arena.report.log import print_lines
    from arena.report.style import has_colours, has_screen
    from arena.report.text import print_summary

    if has_screen(console) and not any(entry.is_person for entry in state.event.players.values()):
        from arena.tui.event_app import show_event

        try:
            show_event(state, updates, control, has_colours(console))
        finally:
            console.print(Group(*head(state, console.width)))
    else:
        print_lines(state, updates, console)
    print_summary(state.standings, console)


def print_games(event: Event, updates: Iterable[Update], store: Store) -> None:
    """A line of JSON for each game as it ends, then one for what all games say."""
    from arena.go.record import GameRecord
    from arena.results.export import game_line, report_line
    from arena.results.league import read_report

    for update in updates:
        for record in () if update.resumed else update.records:
            if isinstance(record, GameRecord):
                print(game_line(record, store.number(record.id)), flush=True)
    print(report_line(read_report(store, event.event, keep=False)), flush=True)


# --- Its end ---


def _interrupt() -> None:
    raise KeyboardInterrupt


def _with_news_of_the_end(updates: Generator[Update, None, None], control: Control) -> Generator[Update, None, None]:
    """The updates, the first after Ctrl-C with a line about it."""
    from arena.match.runner import FINISH

    is_said = False
    with closing(updates):
        for update in updates:
            if control.finishing and not is_said:
                is_said, update = True, replace(update, news=(*update.news, FINISHING.format(seconds=FINISH)))
            yield update


@contextmanager
def _finishing(control: Control) -> Iterator[Callable[[], None]]:
    """The first Ctrl-C or SIGTERM has the games under way finished, the second ends the command; so does one where the
    event is paused. What is given ends the command as the signal does that came, or as Ctrl-C."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    came: list[int] = []

    def end() -> None:
        handler = before[signal.Signals(came[0] if came else signal.SIGINT)]
        if callable(handler):
            handler(came[0] if came else signal.SIGINT, None)
        raise KeyboardInterrupt

    def interrupt(number: int, frame: object) -> None:
        came.append(number)
        if control.finishing or control.paused:
            end()
        control.finishing = True

    is_main = threading.current_thread() is threading.main_thread()
    heard = {number: handler for number, handler in before.items() if is_main and handler is not signal.SIG_IGN}
    for number in heard:
        signal.signal(number, interrupt)
    try:
        yield end
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)


@contextmanager
def event_kept(state: EventState, store: Store, console: Console, results: Path) -> Iterator[None]:
    """Whatever ends an event, the ratings are written, if there are new games; Ctrl-C says how to go on."""
    from arena.match.runner import GamesNotStored
    from arena.results.export import write_elo_csv

    before, ratings, event = store.count(), results / "elo.csv", state.event
    try:
        yield
    except (KeyboardInterrupt, GamesNotStored) as stop:
        done = min(store.count(event=event.event), event.games)  # a smaller -n plans fewer than are stored
        lost = ""
        if isinstance(stop, GamesNotStored):
            lost = f", and {stop.games} finished ones are not, because another program has locked {store.path}"
        words = f"Stopped. {done} of {event.games} games are stored{lost}; the same command plays the rest."
        console.say(words)
        raise SystemExit(130) from None
    finally:
        store.check_place()
        if store.count() != before or (before and not ratings.exists()):
            write_elo_csv(store, ratings)
    console.say(f"Games in {store.path}, ratings in {ratings} (arena elo).")
