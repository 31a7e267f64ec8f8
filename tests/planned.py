"""Events whose terms are given flat."""

from dataclasses import fields
from typing import Any, TypeVar

from arena.match.schedule import Terms

E = TypeVar("E")
FIELDS = frozenset(item.name for item in fields(Terms))


def planned(kind: type[E], **values: Any) -> E:
    """An event of this kind: what isn't one of its terms is its own."""
    terms = Terms(**{name: value for name, value in values.items() if name in FIELDS})
    return kind(terms=terms, **{name: value for name, value in values.items() if name not in FIELDS})


def changed(event: E, **values: Any) -> E:
    """The event with other values, its terms among them."""
    own = {name: getattr(event, name) for name in event.__dataclass_fields__ if name != "terms"}  # type: ignore[attr-defined]
    terms = {name: getattr(event.terms, name) for name in FIELDS}  # type: ignore[attr-defined]
    return planned(type(event), **(terms | own | values))
