"""What the commands that play share: how games are played, as options, and an event from its start to its end."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from arena import ConfigError, StoreError, UserError, plural
from arena.cli.options import read_limits
from arena.cli.seats import play_people
from arena.players.config import TermsTable, first_given
from arena.system import cores

if TYPE_CHECKING:
    from arena.match.crew import AnyCrew
    from arena.match.ladder import Ladder
    from arena.match.openings import Opening
    from arena.match.runner import Control, Update
    from arena.match.schedule import Match, Terms, Tournament
    from arena.players.player import Player
    from arena.players.registry import Registry
    from arena.ratings import Sprt
    from arena.report.style import Console
    from arena.results.store import Store

E = TypeVar("E", bound="Match | Tournament | Ladder")

Workers = Annotated[int, typer.Option(help="Number of worker processes (default 0: one for each core).")]

Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Play on a Ray cluster: HOST:PORT, auto (this machine's cluster), or local (start one here).",
    ),
]


def say_preparing() -> None:
    """Have a terminal show something before what takes seconds is imported."""
    if sys.stdout.isatty():
        print("Preparing the games ...", flush=True)


def read_player(registry: Registry, spec: str, given: TermsTable, *, or_person: bool = False) -> Player:
    """The bot of this name, with these limits where it has none, once it is sure that it plays on this size; a person
    where that can be."""
    entry = registry.resolve(spec).with_limits(read_limits(given.limits or ""))
    return entry if or_person and entry.is_person else entry.checked(first_given(given.size, 9))


def read_terms(given: TermsTable, say: Callable[[str], None]) -> Terms:
    """The terms of an event; what there is to know of a book that is named is said. Unless openings are asked for, they
    are those that ship, then drawn ones. Raises UserError."""
    from arena.contract.adjudication import Adjudication
    from arena.go.game import Rules
    from arena.match.openings import read_book, shipped_book
    from arena.match.schedule import Terms

    rules = Rules.preset(first_given(given.rules, "cgos"), first_given(given.size, 9), given.komi)
    seed = first_given(given.seed, 1)
    book: tuple[Opening, ...] = ()
    if given.plies is not None and given.plies < 0:
        raise ConfigError(f"--plies {given.plies}: use 0 or more")
    if given.book is not None:
        if given.plies == 0:
            raise ConfigError("--plies 0 uses nothing of a book; give at least 1, or leave out --plies or --book")
        found = read_book(given.book, rules, given.plies, seed)
        book = found.openings
        say(f"{given.book}: {found}.")
    is_usual = given.book is None and given.plies is None
    if is_usual:
        book = shipped_book(rules, seed)
    adjudication = Adjudication.read(given.adjudicate or "")
    return Terms(
        rules, first_given(given.openings, 0), first_given(given.plies, PLIES), seed, adjudication, book, is_usual
    )


PLIES = 4
"""Moves of an opening that is drawn, by default."""


def printer(console: Console) -> Callable[[str], None]:
    """Prints a line."""
    return lambda line: console.print(line, highlight=False, markup=False)


def say_if_used_up(terms: Terms, games: int, say: Callable[[str], None]) -> None:
    """Say what follows a book that has too few openings for ``games`` games."""
    openings, pairs = len(terms.book), (games + 1) // 2
    if not openings or openings >= min(terms.openings or pairs, pairs):
        return
    if terms.then_drawn:
        found = plural(openings, "opening")
        say(f"The book has {found} for {pairs} pairs of games; the later pairs get random openings.")
    else:
        say(f"The openings are used in turn: there are {openings} for {pairs} pairs of games.")


def with_openings(event: E, results: Path) -> E:
    """The event with the openings that it began with, where it is stored and no others are asked for. Raises
    ConfigError, before anything is stored, where there are fewer openings than games need. An event that is stored with
    as many games has them: they aren't drawn again."""
    from arena.match.ladder import Ladder

    stored = list(_stored_plans(event, results))
    event = _as_begun(event, stored)
    if isinstance(event, Ladder):
        event.pairings()
        return event
    planned = (_games_each(plan) for plan, _ in stored if _is_same(plan, event))
    if _games_each(event) > max(planned, default=0):
        event.terms.require_openings(_games_each(event))
    return event


def _games_each(event: Match | Tournament | Ladder) -> int:
    """How many games two players are to play."""
    from arena.match.schedule import Match

    return event.games if isinstance(event, Match) else event.games_each


def _stored_plans(event: E, results: Path) -> Iterator[tuple[E, bool]]:
    """The stored events that may be this one, and whether no openings were asked for then."""
    from arena.match.schedule import Match, event_from_json
    from arena.results.store import Store

    with suppress(StoreError, ConfigError), Store.of(results) as store:  # who writes it says what is wrong
        for stored in store.events():
            if stored.id.startswith(event.key[:-8]) if isinstance(event, Match) else stored.id == event.event:
                plan = event_from_json(stored.plan)
                if isinstance(plan, type(event)):
                    yield plan, plan.terms.then_drawn


def _as_begun(event: E, stored: Sequence[tuple[E, bool]]) -> E:
    if event.terms.then_drawn and not any(_is_same(plan, event) for plan, _ in stored):
        for plan, is_usual in reversed(stored):
            old = plan.terms
            begun = replace(event, terms=replace(event.terms, plies=old.plies, book=old.book))
            if is_usual and _is_same(plan, begun):
                return begun
    return event


def _is_same(plan: E, event: E) -> bool:
    """Whether both have the same games, but for how many."""
    return plan.settings == event.settings


def count_workers(workers: int) -> int:
    """Of ``--workers``. Raises UserError."""
    if workers < 0:
        raise UserError(f"--workers {workers}: use 1 or more, or 0 for one per core")
    return workers or cores()


def sequential_test(hypotheses: tuple[float, float], alpha: float, beta: float) -> Sprt:
    """The test of ``--sprt``. Raises ConfigError for hypotheses or errors that can't be."""
    from arena.ratings import Sprt

    try:
        return Sprt(*hypotheses, alpha=alpha, beta=beta)
    except ValueError as error:
        raise ConfigError(f"--sprt: {error}") from None


@dataclass(frozen=True, slots=True)
class Live:
    """How events are played and shown: their people sit at this terminal. ``workers`` are as ``--workers`` says,
    and ``cluster`` is the address of the cluster that they are on, if any; ``hands`` are those that are lent."""

    console: Console
    results: Path
    workers: int
    cluster: str | None = None
    hands: int | AnyCrew = 0
    as_json: bool = False

    @classmethod
    def of(cls, console: Console, results: Path, workers: int, cluster: str | None, registry: Registry) -> Live:
        """As the options say, and arena.toml where they don't. Raises UserError."""
        if workers < 0:
            raise UserError(f"--workers {workers}: use 1 or more, or 0 for one per core")
        return cls(console, results, workers, cluster or registry.cluster.address)

    @contextmanager
    def lending(self, event: Match | Tournament | Ladder) -> Iterator[Live]:
        """The same with the workers that such an event is played by; to be entered before anything is stored. Raises
        UserError where there are none."""
        if self.cluster is None:
            yield replace(self, hands=self.workers or cores())
            return
        from arena.match.cluster import Cluster

        terms = event.terms
        with Cluster(self.cluster, self.workers, event.players, terms.rules, terms.adjudication) as hands:
            yield replace(self, hands=hands)

    @property
    def at_once(self) -> int:
        """How many workers play at once."""
        return self.hands if isinstance(self.hands, int) else self.hands.most

    def begin(self, event: Match | Tournament | Ladder, store: Store, more: Iterable[str] = ()) -> Any:
        """Say who has changed, and what ``more`` there is to say; store who plays what; then ``play``."""
        from arena.match.schedule import Match
        from arena.report.text import forecast_test

        test = [forecast_test(event.test, event.games)] if isinstance(event, Match) and event.test is not None else []
        doubts = size_doubts(event.players.values(), event.terms.rules.size)
        for line in [*changes(store, event.players.values()), *test, *more, *doubts]:
            printer(self.console)(line)
        note_event(store, event)
        return self.play(event, store)

    def _seats(self) -> Console:
        """Where people play: with JSON, not on the standard output."""
        from arena.report.style import Console

        return Console(stderr=True) if self.as_json else self.console

    def play(self, event: Match | Tournament | Ladder, store: Store) -> Any:
        """Play what is missing of an event and show it meanwhile; returns its state.
        Whatever ends it, the ratings are written."""
        from arena.match.runner import Control, play_event

        control = Control()
        with event_kept(event, store, self.console, self.results):
            updates = play_event(event, store, self.hands, control, play_people(event, self._seats()))
            updates = _told(updates, control)
            has_people = any(entry.is_person for entry in event.players.values())
            with nullcontext(_leave) if has_people else _finishing(control) as end:
                state = None
                if self.as_json:
                    print_games(event, updates, store)
                else:
                    state = show(event, updates, control, self.console)
            if control.finishing and store.count(event=event.event) < event.games:
                end()
            return state


def show(event: Match | Tournament | Ladder, updates: Iterator[Update], control: Control, console: Console) -> Any:
    """Show an event until its updates end, on the full screen where no person plays in it, else as lines; then sum it
    up. Returns its state. What ends it early comes through after the updates are closed."""
    from rich.console import Group

    from arena.report.figures import head
    from arena.report.log import EventState, print_lines
    from arena.report.style import has_colours, has_screen
    from arena.report.text import print_summary

    state = EventState(event)
    if has_screen(console) and not any(entry.is_person for entry in event.players.values()):
        from arena.tui.event_app import show_event

        try:
            show_event(state, updates, control, has_colours(console))
        finally:
            console.print(Group(*head(state, console.width)))
    else:
        print_lines(state, updates, console)
    print_summary(state.standings, console)
    return state


def _leave() -> None:
    raise KeyboardInterrupt


FINISHING = "Finishing the games under way for at most {seconds:g} s, then stopping. Again (q, Ctrl-C) stops now."


def _told(updates: Generator[Update, None, None], control: Control) -> Generator[Update, None, None]:
    """The updates, the first after Ctrl-C with the news of it."""
    from arena.match.runner import FINISH

    is_told = False
    with closing(updates):
        for update in updates:
            if control.finishing and not is_told:
                is_told, update = True, replace(update, news=(*update.news, FINISHING.format(seconds=FINISH)))
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

    if threading.current_thread() is threading.main_thread():
        heard = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    else:
        heard = {}
    for number in heard:
        signal.signal(number, interrupt)
    try:
        yield end
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)


def print_games(event: Match | Tournament | Ladder, updates: Iterable[Update], store: Store) -> None:
    """A line of JSON for each game as it ends, then one for what all games say."""
    from arena.go.record import GameRecord
    from arena.results.export import game_line, report_line
    from arena.results.standings import read_report

    for update in updates:
        for record in () if update.resumed else update.records:
            if isinstance(record, GameRecord):
                print(game_line(record, store.number(record.id)), flush=True)
    print(report_line(read_report(store, event.event, keep=False)), flush=True)


@contextmanager
def event_kept(event: Match | Tournament | Ladder, store: Store, console: Console, results: Path) -> Iterator[None]:
    """Whatever ends an event, the ratings are written, if there are new games; Ctrl-C says how to go on."""
    from arena.match.runner import GamesNotStored
    from arena.results.export import write_elo_csv

    before, ratings = store.count(), results / "elo.csv"
    try:
        yield
    except (KeyboardInterrupt, GamesNotStored) as stop:
        done = min(store.count(event=event.event), event.games)  # a smaller -n plans fewer than are stored
        lost = ""
        if isinstance(stop, GamesNotStored):
            lost = f", and {stop.games} finished ones are not, because another program has locked {store.path}"
        printer(console)(f"Stopped. {done} of {event.games} games are stored{lost}; the same command plays the rest.")
        raise SystemExit(130) from None
    finally:
        store.check_place()
        if store.count() != before or (before and not ratings.exists()):
            write_elo_csv(store, ratings)
    console.print(f"Games in {store.path}, ratings in {ratings} (arena elo).", highlight=False)


def size_doubts(entries: Iterable[Player], size: int) -> list[str]:
    """A line for each player whose net learned on smaller boards."""
    return [f"{doubt}." for entry in entries if (doubt := entry.doubt_on(size))]


def note_event(store: Store, played: Match | Tournament | Ladder) -> None:
    """Store who plays what, and how many games of it."""
    from datetime import UTC, datetime

    from arena.match.schedule import event_to_json
    from arena.results.store import Event

    store.add_players({entry.identity: entry for entry in played.players.values()})
    created = datetime.now(UTC).isoformat(timespec="seconds")
    store.add_event(Event(played.event, created, played.settings, event_to_json(played)))


def changes(store: Store, entries: Iterable[Player]) -> Iterator[str]:
    """A line for each player that isn't who played under its name and with its settings before: what has changed."""
    known = store.players()
    for entry in entries:
        earlier = [old for old in known.values() if _as_typed(old) == _as_typed(entry)]
        if not earlier or entry.identity in known:
            continue
        old = earlier[-1]
        games = plural(store.count(player=old.identity), "stored game")
        if old.net != entry.net:
            words = f"has a different net than in {games} ({old.net[:8]}, now {entry.net[:8]})"
        elif old.code != entry.code:
            words = f"has changed since {games} (code {old.code[:12] or 'unknown'}, now {entry.code[:12]})"
        else:
            words = f"has other limits or precision than in {games}"
        yield f"{entry.name} {words}: it is a new player."


def _as_typed(player: Player) -> tuple[str, str, dict[str, Any]]:
    """What two players have in common that differ in net, code or the numbers that suit a processor only."""
    stored = player.stored
    return stored.name, stored.kind, {key: value for key, value in stored.settings.items() if key != "precision"}


def news(store: Store, played: Tournament | Ladder) -> Iterator[str]:
    """What is to be said of a stored tournament or ladder before it goes on: who has changed and who is missing.

    Raises ConfigError when it was played by other settings, or its name is another kind of event's.
    """
    stored = next((event.settings for event in store.events() if event.id == played.event), None)
    if stored is None:
        return
    kinds = ("tournament", "ladder")
    kind = next(kind for kind in kinds if kind in played.settings)
    if kind not in stored:
        other = next((other for other in kinds if other in stored), "match")
        style = {"tournament": "round-robin", "ladder": "ladder"}.get(other)
        hint = f" (to resume it: --style {style})" if style else ""
        raise ConfigError(f"'{played.name}' is a stored {other}{hint}; take another name for the {kind}")
    old, new = _flat(stored), _flat(json.loads(json.dumps(played.settings)))
    changed = [key for key in (new | old) if old.get(key) != new.get(key)]
    if changed:
        words = [f"{key} {_plain(old.get(key))}, not {_plain(new.get(key))}" for key in changed]
        raise ConfigError(f"{kind} '{played.name}' is stored with {'; '.join(words)}; take another name")
    playing = {entry.identity: entry.name for entry in played.entries}
    for identity, name in store.participants(played.event).items():
        if identity not in playing:
            games = store.count(event=played.event, player=identity)
            kept = f"{plural(games, 'game')} stay{'s' if games == 1 else ''} stored"
            if name in playing.values():
                yield f"{name} has changed; of the earlier {name} {kept}, and the new one joins."
            else:
                yield f"{name} doesn't take part now; of it {kept}."


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "unset" if value is None else str(value)


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without their grouping: the rule set's name is ``rules``, adjudication is as it is typed."""
    flat = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    rules = dict(settings["rules"])
    flat |= {"rules": rules.pop("name")} | rules
    if "adjudication" in settings:
        typed = (f"{key.replace('_', '-')}={value:g}" for key, value in sorted(settings["adjudication"].items()))
        flat["adjudicate"] = ",".join(typed)
    return flat
