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
