"""An event: a match, a tournament or a ladder; as JSON, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from arena import ConfigError
from arena.match.ladder import Ladder
from arena.match.schedule import Match, Tournament

Event = Match | Tournament | Ladder
"""What they share: ``event`` is the id that its games are stored under, ``players`` are by the names that the games
carry, ``games`` is the number of games in all (of a ladder, the maximum), and ``settings`` never change in an event of
this name. ``standings()`` is an empty counter for its games.

``pairings(played, is_known)`` are the games that can be planned now, in the order in which they begin, whether they
were played or not; ``played`` are the event's games so far. When all planned games are among them, another call may
plan more; the event is over when it doesn't. Games whose id ``is_known`` are left out, and their openings aren't drawn.
"""

KINDS: dict[str, type[Any]] = {"match": Match, "tournament": Tournament, "ladder": Ladder}


def event_to_json(event: Event) -> str:
    """The event with its players' settings, as far as those are stored, as one line of JSON."""
    kind = next(name for name, made in KINDS.items() if isinstance(event, made))
    if isinstance(event, Match):
        event = replace(event, first=event.first.stored, second=event.second.stored)
    else:
        event = replace(event, entries=tuple(entry.stored for entry in event.entries))
    return msgspec.json.encode({"kind": kind, "event": event}).decode()


def event_from_json(text: str) -> Event:
    """The event that ``event_to_json`` wrote. The text doesn't say where its players' code is: they can't be built.
    Raises ConfigError for any other text."""
    try:
        stored = msgspec.json.decode(text)
        data = stored["event"]
        for player in [data["first"], data["second"]] if "first" in data else data["entries"]:
            player["factory"] = ""
        event: Event = msgspec.convert(data, KINDS[stored["kind"]])
        return event
    except (msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError, ConfigError) as error:
        detail = f"{type(error).__name__}: {error}" if text else "there is none"
        raise ConfigError(f"the stored plan of an event can't be read ({detail}); play it again") from error
