"""Games some at a time, with a column for each thing that is counted of them. Nothing is counted here.

A million stored games are counted from columns: to make an object of each takes longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, islice, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:  # as in tally
    from arena.go.game import Ending, Outcome
    from arena.go.moves import Colour
    from arena.go.record import Played

AT_ONCE = 1_000
"""Games of a batch, at most: as many as are counted fast."""

COLUMNS = (
    *("seq", "id", "date", "black", "white", "black_player", "white_player", "length", "opening", "black_seconds"),
    *("white_seconds", "reason", "unrated", "canonical", "first", "adjudged", "winner", "ending", "margin"),
)
"""Those of stored games: the fields of ``Score``, with the outcome's in its place."""

_OF_THE_OUTCOME = ("winner", "ending", "margin")


class Batch(Sequence["Played"]):
    """Games in a row. Columns are made when they are asked for, and so are games that come as columns."""

    __slots__ = ("_columns", "_games", "_length", "_make")

    def __init__(self, length: int, make: Callable[[str], Sequence[Any]], games: Sequence[Played] | None = None):
        """``make`` gives each of ``COLUMNS`` by its name."""
        self._length = length
        self._make = make
        self._games = games
        self._columns: dict[str, Sequence[Any]] = {}

    @classmethod
    def of(cls, games: Sequence[Played]) -> Batch:
        """The same games."""
        return games if isinstance(games, Batch) else cls(len(games), partial(_values, games), games)

    @classmethod
    def of_columns(cls, columns: Mapping[str, Sequence[Any]]) -> Batch:
        """From all of ``COLUMNS``."""
        return cls(len(columns["id"]), columns.__getitem__)

    @classmethod
    def joined(cls, batches: Sequence[Batch]) -> Batch:
        """All of some batches, one after the other."""
        if len(batches) == 1:
            return batches[0]
        if any(batch._games is not None for batch in batches):
            return cls.of([game for batch in batches for game in batch])
        length = sum(map(len, batches))
        return cls(length, lambda name: [*chain.from_iterable(batch.column(name) for batch in batches)])

    def column(self, name: str) -> Sequence[Any]:
        """One of ``COLUMNS``, a value a game. Colours are 1 and 2 or equal to that, endings equal to their text."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._make(name)
        return found

    def take(self, places: Sequence[int]) -> Batch:
        """The games at these places, in this order."""
        if self._games is not None:
            return Batch.of([self._games[place] for place in places])
        return Batch(len(places), lambda name: [*map(self.column(name).__getitem__, places)])

    def copy(self) -> Batch:
        """The same, to be kept without what it was taken from."""
        return self if self._games is not None else Batch.of_columns({name: self.column(name) for name in COLUMNS})

    def renamed(self, names: Mapping[str, str]) -> Batch:
        """The same games, their players under the names that are given by identity."""
        of_black, of_white = ([names[one] for one in self.column(of)] for of in ("black_player", "white_player"))
        if [*self.column("black")] == of_black and [*self.column("white")] == of_white:
            return self
        if self._games is None:
            names_given = {"black": of_black, "white": of_white}
            return Batch(len(self), lambda name: names_given.get(name) or self.column(name))
        from arena.go.record import renamed

        both = zip(self._games, of_black, of_white, strict=True)
        return Batch.of([renamed(game, black=black, white=white) for game, black, white in both])

    @property
    def is_sound(self) -> bool:
        """Whether colours and endings are some that there are."""
        try:
            {*map(colour_of, {*self.column("first"), *self.column("adjudged"), *self.column("winner")})}
            {*map(ending_of, {*self.column("ending")} - {None})}
        except ValueError:
            return False
        return True

    @property
    def finished(self) -> Batch:
        """Those whose outcome is known."""
        endings = self.column("ending")
        return self.take([place for place, one in enumerate(endings) if one is not None]) if None in endings else self

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Played]:
        if self._games is None:
            return map(_score, *map(self.column, COLUMNS))
        return iter(self._games)

    @overload
    def __getitem__(self, place: int) -> Played: ...
    @overload
    def __getitem__(self, place: slice) -> Batch: ...
    def __getitem__(self, place: int | slice) -> Played | Batch:
        if isinstance(place, slice):
            length = len(range(self._length)[place])
            if self._games is not None:
                return Batch.of(self._games[place])
            return self if length == self._length else Batch(length, lambda name: self.column(name)[place])
        if self._games is not None:
            return self._games[place]
        return _score(*(self.column(name)[place] for name in COLUMNS))


def batches(games: Iterable[Played]) -> Iterator[Batch]:
    """Games some at a time: as many as are counted fast, and don't fill the memory."""
    left = iter(games)
    while some := tuple(islice(left, AT_ONCE)):
        yield Batch.of(some)


def cut(batches: Iterable[Batch], ends: Iterable[int]) -> Iterator[Batch]:
    """The batches, cut after each given number of finished games."""
    begin, ends = 0, [*ends]
    for batch in batches:
        inside = [end - begin for end in ends if begin < end < begin + len(batch)]
        for low, high in pairwise([0, *inside, len(batch)]):
            yield batch[low:high]
        begin += len(batch)


def _values(games: Sequence[Played], name: str) -> Sequence[Any]:
    if name in _OF_THE_OUTCOME:
        return [game.outcome and getattr(game.outcome, name) for game in games]
    return [*map(attrgetter(name), games)]


@lru_cache(maxsize=4096)
def outcome_of(winner: int | None, ending: str | None, margin: float | None) -> Outcome | None:
    """As it is stored."""
    from arena.go.game import Outcome

    return None if ending is None else Outcome(colour_of(winner), ending_of(ending), margin)


@lru_cache
def ending_of(text: str) -> Ending:
    """As it is stored."""
    from arena.go.game import Ending

    return Ending(text)


@lru_cache
def colour_of(number: int | None) -> Colour | None:
    """As it is stored."""
    from arena.go.moves import Colour

    return None if number is None else Colour(number)


def _score(*values: Any) -> Played:
    from arena.go.record import Score

    *plain, first, adjudged, winner, ending, margin = values
    return Score._make([*plain, colour_of(first), colour_of(adjudged), outcome_of(winner, ending, margin)])
