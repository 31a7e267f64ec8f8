"""When the arena ends a game before its last move, by what the bots themselves think of it. No boards, no clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import isfinite
from random import Random

from arena import ConfigError
from arena.go.moves import Colour


@dataclass(frozen=True, slots=True)
class Adjudication:
    """Two rules, each off at 0, and how often they are checked by playing on.

    ``agree``: both sides have thought for ``turns`` turns of their own that the same side wins, each with at most this
    chance for the loser. ``resign``: one side has given itself less than this chance for as many turns. ``play_on`` is
    the share of such games that go on to their end, which shows how often the rules are wrong.
    """

    agree: float = 0.02
    resign: float = 0.0
    turns: int = 3
    play_on: float = 0.05

    def __post_init__(self) -> None:
        for name, value, high in (
            ("agree", self.agree, 0.5),
            ("resign", self.resign, 0.5),
            ("play-on", self.play_on, 1),
        ):
            if not isfinite(value) or not 0 <= value <= high:
                raise ConfigError(f"--adjudicate: {name}={value:g} is out of range; it goes from 0 to {high:g}")
        if self.turns < 1:
            raise ConfigError(f"--adjudicate: turns={self.turns} is out of range; it goes from 1")

    @classmethod
    def read(cls, text: str) -> Adjudication:
        """``agree=0.02,resign=0.05,turns=3,play-on=0.05``, what isn't named as by default, or ``off``.

        Raises ConfigError.
        """
        if text == "off":
            return cls(agree=0.0, resign=0.0)
        known = {field.name.replace("_", "-"): field for field in fields(cls)}
        values: dict[str, float | int] = {}
        for part in filter(None, text.split(",")):
            key, _, value = part.partition("=")
            if key not in known:
                raise ConfigError(f"--adjudicate: unknown word '{key}'; there are {', '.join(known)}, and off")
            try:
                values[known[key].name] = int(value) if key == "turns" else float(value)
            except ValueError:
                raise ConfigError(f"--adjudicate: {key}={value!r} is no number") from None
        return cls(**values)  # type: ignore[arg-type]

    def loser(self, win_rates: Sequence[float | None], first: Colour) -> Colour | None:
        """Who has lost by these rules, if anybody.

        ``win_rates`` has one for each move so far, of the side that made it, None where it didn't tell; ``first`` made
        the first.
        """
        turns = {first: win_rates[0::2][-self.turns :], first.opponent: win_rates[1::2][-self.turns :]}
        told = {colour: [rate for rate in rates if rate is not None] for colour, rates in turns.items()}
        for colour, own in told.items():
            if len(own) < self.turns:
                continue
            if self.resign and max(own) < self.resign:
                return colour
            other = told[colour.opponent]
            if self.agree and len(other) == self.turns and max(own) <= self.agree and min(other) >= 1 - self.agree:
                return colour
        return None

    def plays_on(self, seed: int) -> bool:
        """Whether the game of this seed is one of those that are played on."""
        return Random(f"play on {seed}").random() < self.play_on
