"""Colours of a board for dark terminals, light ones, and eyes that want more contrast. Nothing is drawn here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

RGB = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a board. The wood lies between the stones in luminance, far from both, so that they are told apart
    without hues; ``darkest`` and ``lightest`` are wood that is all Black's or all White's."""

    name: str
    wood: RGB
    darkest: RGB
    lightest: RGB
    point: str
    cursor: str
    """What lies under the point where the cursor is."""
    label: str = "dim"
    """Of coordinates and of words that only explain."""
    black: str = "bold #000000"
    white: str = "bold #ffffff"
    mark: str = "bold #ffffff"

    @property
    def under(self) -> str:
        """The style of the wood that is nobody's."""
        return f"on #{_hex(self.wood)}"


DARK = Theme("dark", (0xA5, 0x76, 0x3F), (0x75, 0x54, 0x2D), (0xC0, 0x8A, 0x4A), "#6b4a22", "on #2f6ca8")
LIGHT = Theme(
    "light",
    (0xB0, 0x7E, 0x44),
    (0x7F, 0x5A, 0x2E),
    (0xC0, 0x8A, 0x4A),
    "#7a5427",
    "on #2f6fb8",
    mark="bold #000000",
)
HIGH_CONTRAST = Theme(
    "high-contrast",
    (0x76, 0x76, 0x76),
    (0x5C, 0x5C, 0x5C),
    (0x90, 0x90, 0x90),
    "#000000",
    "on #1f5fd0",
    label="bold",
    mark="bold #ffff00",
)

THEMES = {theme.name: theme for theme in (DARK, LIGHT, HIGH_CONTRAST)}


@lru_cache(maxsize=1024)
def shade(theme: Theme, share: int) -> str:
    """The style of the wood under a point that is Black's by so many per cent; negative ones are White's."""
    end = theme.darkest if share > 0 else theme.lightest
    far = min(100, abs(share)) / 100
    red, green, blue = (round(wood + far * (other - wood)) for wood, other in zip(theme.wood, end, strict=True))
    return f"on #{_hex((red, green, blue))}"


def _hex(colour: RGB) -> str:
    return "".join(f"{part:02x}" for part in colour)
