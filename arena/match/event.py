"""An event: a match, or a tournament of any style; as JSON, too."""

from dataclasses import replace
from typing import Any

import msgspec

from arena import ConfigError
from arena.match.schedule import Match, Style, Tournament
from arena.match.swiss import Swiss

Event = Match | Tournament | Swiss
"""What they share: ``event`` is the id of its games, ``players`` are by their names in the games, ``games`` is the
number of all games (in a Swiss tournament the maximum), ``settings`` never change. ``standings()`` is an empty counter.

``pairings(played, is_known)`` are the games planned so far, given those ``played``, in the order in which they begin;
those whose id ``is_known`` are left out. Once all are played, another call may plan more; else the event is over.
"""

KINDS: dict[str, type[Any]] = {"match": Match, "tournament": Tournament, "swiss": Swiss, "ladder": Swiss}
"""By the word in stored plans; versions before 0.2 wrote ladder for swiss."""


def event_to_json(event: Event) -> str:
    """The event with its players' settings, as far as those are stored, as one line of JSON."""
    kind, referee = next(name for name, made in KINDS.items() if isinstance(event, made)), event.terms.referee
    event = replace(event, terms=replace(event.terms, referee=referee and referee.stored))
    if isinstance(event, Match):
        event = replace(event, first=event.first.stored, second=event.second.stored)
    else:
        event = replace(event, entries=tuple(entry.stored for entry in event.entries))
    return msgspec.json.encode({"kind": kind, "event": event}).decode()


def event_from_json(text: str) -> Event:
    """The event that ``event_to_json`` wrote; its players can't be built. Raises ConfigError for any other text."""
    try:
        stored = msgspec.json.decode(text)
        data = stored["event"]
        for player in [data["first"], data["second"]] if "first" in data else data["entries"]:
            player["factory"] = ""
        if referee := data["terms"].get("referee"):
            referee["factory"] = ""
        event: Event = msgspec.convert(data, KINDS[stored["kind"]])
        return event
    except (msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError, ConfigError) as error:
        detail = f"{type(error).__name__}: {error}" if text else "there is none"
        raise ConfigError(f"the stored plan of an event can't be read ({detail}); play it again") from error


def games_asked(event: Event) -> int:
    """The number that ``-n`` sets: of all games; in a round robin or gauntlet, of the games of each two players."""
    return event.games_each if isinstance(event, Tournament) else event.games


def with_games(event: Event, games: int) -> Event:
    """The event with another number for ``-n``."""
    return replace(event, games_each=games) if isinstance(event, Tournament) else replace(event, games=games)


def continue_event(stored: Event, asked: Event) -> Event:
    """``asked`` with at least the games of ``stored``, which has begun. Raises ConfigError for another event."""
    old, new = _unchanging(stored), _unchanging(asked)
    if old != new:
        more = "or take another name"
        if isinstance(asked, Match):
            more = "a gate has one test" if asked.gate else "or add --name NAME --seed NUMBER for another match"
        raise ConfigError(f"{stored.event} began {old}, not {new}; repeat that, {more}")
    if left := [name for name in stored.players if name not in asked.players]:
        raise ConfigError(f"{stored.event} began with {', '.join(left)}, too; name all its bots, or take another name")
    planned, games = games_asked(stored), games_asked(asked)
    terms = replace(asked.terms, own_openings=stored.terms.own_openings)
    return replace(with_games(asked, max(planned, games)), terms=terms, grown=stored.grown or games > planned)


def _unchanging(event: Event) -> str:
    """What never changes in an event that has begun, beside its settings and players, in words."""
    if isinstance(event, Swiss):
        return f"with --precision {event.precision:g}"
    if isinstance(event, Tournament):
        first = f" of {event.entries[0].name}" if event.style is Style.GAUNTLET else ""
        return f"as a {event.style}{first}"
    if event.test is None:
        return "without --sprt"
    return f"with --sprt {event.test.elo0:g} {event.test.elo1:g} --alpha {event.test.alpha:g}"
