"""A full screen as tests use it: a Textual application without a terminal. No tests."""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any

from textual.app import App
from textual.pilot import Pilot

from arena.tui.app import BoardPane

PATIENCE = 180.0  # seconds after which a screen that doesn't change has failed
KEYS = {" ": "space", "!": "exclamation_mark", "=": "equals_sign", "?": "question_mark", ".": "full_stop"}


class Hand:
    """A person at a screen."""

    def __init__(self, app: App[None], pilot: Pilot[None]):
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*(KEYS.get(key, key) for key in keys))
        await self.pilot.pause()

    async def type_in(self, *lines: str) -> None:
        for line in lines:
            await self.press(*line, "enter")

    async def click_at(self, move: int) -> None:
        """Click at a point of a 5x5 board."""
        pane = self.app.query_one(BoardPane)
        row, column = divmod(move, 5)
        offset = (3 + pane.cell * (2 * column + 1), 1 + pane.cell * row + pane.cell // 2)
        await self.pilot.click("#board", offset=offset)
        await self.pilot.pause()

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until this is so; what the screen shows comes some time after what it is about."""
        end = monotonic() + PATIENCE
        while not is_so():
            assert monotonic() < end, f"waited in vain: {self.text}"
            await self.pilot.pause(0.02)

    async def until_shown(self, *words: str) -> None:
        """Wait until all of this is on the screen."""
        await self.until(lambda: all(word in self.text for word in words))

    async def until_closed(self) -> None:
        await self.until(lambda: not self.app.is_running)

    @property
    def lines(self) -> list[str]:
        """What is on the screen."""
        rows = self.app.screen._compositor.render_strips()
        assert [row.cell_length for row in rows] == [self.app.size.width] * self.app.size.height
        return [row.text.rstrip() for row in rows]

    @property
    def text(self) -> str:
        """The same in one line, with single spaces."""
        return " ".join(" ".join(self.lines).split())


def use(app: App[None], do: Callable[[Hand], Coroutine[Any, Any, None]], size: tuple[int, int] = (80, 24)) -> None:
    """Open a screen of this size and do something with it."""

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            hand = Hand(app, pilot)
            await hand.until(lambda: not app.is_running or hand.lines[-1])  # the footer is drawn last
            await do(hand)

    asyncio.run(run())
