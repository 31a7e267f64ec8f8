"""Adjudication: ending decided games early, by the win rates that the bots report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from random import Random

from arena import plural
from arena.contract.settings import read_settings, setting, split_pairs
from arena.go.coords import Colour


@dataclass(frozen=True, slots=True)
class Adjudication:
    """Two rules, each off at 0, and the share of games that check them.

    ``agree``: for ``turns`` turns of each side, both have reported that the same side wins, with a win rate of at most
    this for the loser. ``resign``: one side has reported a win rate below this for as many turns. ``play_on`` is the
    share of adjudicated games that are played to their end, which shows how often the rules are wrong.
    """

    agree: float = setting(0.02, low=0, high=0.5)
    resign: float = setting(0.0, low=0, high=0.5)
    turns: int = setting(3, low=1)
    play_on: float = setting(0.05, low=0, high=1)

    @classmethod
    def read(cls, text: str) -> Adjudication:
        """``agree=0.02,resign=0.05,turns=3,play-on=0.05`` over the defaults, or ``off``. Raises ConfigError."""
        if text == "off":
            return OFF
        example = "agree=0.02; off plays every game out"
        given = split_pairs(text.replace("play-on", "play_on"), "--adjudicate", "rule", example)
        return cls(**read_settings(given, {item.name: item for item in fields(cls)}, "--adjudicate", "rule"))

    def verdict(self, win_rates: Sequence[float | None], first: Colour) -> tuple[Colour, str] | None:
        """The side that loses by these rules, if any, and the reason, with ``{}`` for its name. ``win_rates`` has one
        for each move, of the side that made it, or None; ``first`` made the first. If both sides report a win rate
        below ``resign``, neither loses."""
        lately = {first: win_rates[0::2][-self.turns :], first.opponent: win_rates[1::2][-self.turns :]}
        reported = {colour: [rate for rate in rates if rate is not None] for colour, rates in lately.items()}
        full = {colour: rates for colour, rates in reported.items() if len(rates) == self.turns}
        turns = plural(self.turns, "turn")
        if self.agree and len(full) == 2:
            for colour, rates in full.items():
                if max(rates) <= self.agree and min(full[colour.opponent]) >= 1 - self.agree:
                    return colour, f"both sides gave {{}} at most {100 * self.agree:g} % for {turns}"
        resigning = [colour for colour, rates in full.items() if max(rates) < self.resign]
        if len(resigning) != 1:
            return None
        return resigning[0], f"{{}} gave itself under {100 * self.resign:g} % for {turns}"

    def plays_on(self, seed: int) -> bool:
        """Whether the game of this seed is played to its end even where ``verdict`` would end it."""
        return Random(f"play on {seed}").random() < self.play_on


OFF = Adjudication(agree=0.0, resign=0.0)  # every game is played to its end
