"""Terms: what holds for all games of an event, and the openings that follow from it. Who plays is not here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from arena import ConfigError
from arena.contract.adjudication import Adjudication
from arena.events.openings import Drawn, Opening
from arena.go.game import Rules


@dataclass(frozen=True, slots=True)
class Terms:
    """By which rules games are played, from which openings, and when they are adjudicated.

    ``openings`` is the number of distinct openings, which are used in turn; 0 gives each pair of games its own, or the
    next of the ``book``. ``plies`` is the length of openings that are drawn. A book that is used up is used again, or
    with ``then_drawn`` openings are drawn from there on. Raises ConfigError for what can't be.
    """

    rules: Rules
    openings: int = 0
    plies: int = 4
    seed: int = 1
    adjudication: Adjudication = field(default_factory=Adjudication)
    book: tuple[Opening, ...] = ()
    then_drawn: bool = False

    def __post_init__(self) -> None:
        require("openings", self.openings, 0)
        require("plies", self.plies, 0)
        if self.plies >= self.rules.move_limit and not self.book:
            limit = self.rules.move_limit
            raise ConfigError(f"an opening of {self.plies} plies leaves no game; the move limit is {limit}")

    @property
    def settings(self) -> dict[str, object]:
        """Plain data; a book stands there by its digest, without the length of openings unless some may be drawn."""
        opened: dict[str, object] = {"plies": self.plies} if self.then_drawn or not self.book else {}
        if self.book:
            opened["book"] = hashlib.sha256(json.dumps(self.book).encode()).hexdigest()[:12]
        return {
            "rules": asdict(self.rules),
            "openings": self.openings,
            **opened,
            "seed": self.seed,
            "adjudication": asdict(self.adjudication),
        }

    def openings_for(self, games: int) -> Sequence[Opening]:
        """The openings that two players use in turn in this many games, drawn as they are asked for. Raises ConfigError
        when there are fewer."""
        pairs = (games + 1) // 2
        wanted = min(self.openings or pairs, pairs)
        if self.book and not self.then_drawn:
            return self.book[:wanted]
        return Drawn(self.rules, wanted, self.plies, self.seed, self.book)

    def require_openings(self, games: int) -> None:
        """Draw all openings that these games need. Raises ConfigError when there are fewer."""
        self.openings_for(games)[-1:]


MOST = 10_000_000
"""The most games of an event: a plan of more doesn't fit into memory."""


def require(what: str, value: int, least: int) -> None:
    """Raise ConfigError for fewer than ``least`` or more than ``MOST``."""
    if not least <= value <= MOST:
        bound = f"at least {least}" if value < least else f"at most {MOST}"
        raise ConfigError(f"{value} {what} can't be played; give {bound}")
