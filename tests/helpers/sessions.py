"""A person's game and its session, without a screen."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from helpers.reference import board_of_diagram
from helpers.scripted_bots import Scripted

from arena.contract.bot import Bot, Candidate, Limits
from arena.go.coords import BLACK, Colour, move_from_gtp
from arena.go.game import Game, Rules
from arena.go.record import GameRecord
from arena.people.saved_game import EVENT, SavedGame
from arena.people.session import GameSession, Opponent


class Oracle(Scripted):
    """Analyses: C3 from the second time on, ten visits more each time."""

    times = 0

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        self.times += 1
        move = move_from_gtp("C3", game.rules.size)
        return [Candidate(move, 10 * self.times, 0.6, (move,))] if self.times > 1 else []


def kifu_of(
    rules: Rules | None = None, people: Sequence[Colour] = (BLACK,), diagram: str = "", **fields: Any
) -> SavedGame:
    """A game before its first move, of ada and a bot; ``diagram`` sets stones up."""
    rules = rules or Rules.preset("chinese", 5)
    stones = board_of_diagram(diagram).stones.reshape(-1) if diagram else np.zeros(0)
    setup = tuple(tuple(np.flatnonzero(stones == colour).tolist()) for colour in Colour)
    names = {"black": "ada", "white": "bot"} if tuple(people) == (BLACK,) else {"black": "bot", "white": "ada"}
    time = fields.pop("time", Limits())
    usual = {"black_player": "1", "white_player": "2", "id": "play/00001", "event": EVENT, "seed": 5, "setup": setup}
    return SavedGame(GameRecord(rules, (), None, **(usual | names | fields)), tuple(people), time)


def sat(saved: SavedGame, bot: Bot | None = None, limits: Limits | None = None, **more: Any) -> GameSession:
    """The session of a game in which the bot plays whatever colour no person does."""
    others = [colour for colour in Colour if colour not in saved.people]
    return GameSession(saved, {colour: Opponent(bot or Scripted(), limits or Limits()) for colour in others}, **more)


FINAL = ".X.XO.O\nXXXXOOO\n.O.XO.O\nXXXXOOO\n.X.XO.O\nXXXXOOO\nXXXXOOO"
"""White's stone at B5 is dead: by area Black owns 28 points, White 21."""
