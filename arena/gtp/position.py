"""A game by the rules of GTP: either colour may move at any time, and moves can be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from arena.go.coords import Colour, Move, pass_move
from arena.go.game import Game, Rules
from arena.go.record import Stones

Step = tuple[Colour, Move]


class Position:
    """A game in which either colour may move at any time, and play may go on after two passes. If a colour moves out of
    turn, a new Game starts from the current stones, with an empty superko history and a komi that keeps the margin."""

    def __init__(self, rules: Rules, seed: int, setup: Stones = ((), ()), first: Colour | None = None):
        """Raises ValueError as a Game does."""
        self.rules = rules
        self.seed = seed
        self.setup = setup
        self.steps: list[Step] = []
        self.game = Game(rules, seed, *setup, to_play=first)
        self._first = first
        self._aside: Game | None = None

    def turn(self, colour: Colour) -> Game:
        """The game with ``colour`` to move; the same object until a move is played."""
        game = self.game
        if game.to_play is not colour or len(game.moves) == game.rules.move_limit:
            if self._aside is None or self._aside.to_play is not colour:
                self._aside = _restart_from(game, colour)
            game = self._aside
        game.outcome = None  # two passes end a game, but not play
        return game

    def play(self, colour: Colour, move: Move) -> None:
        """Raises IllegalMove, and then has changed nothing."""
        game = self.turn(colour)
        game.play(move)
        self.game, self._aside = game, None
        self.steps.append((colour, move))

    def again(
        self, rules: Rules | None = None, seed: int | None = None, steps: Sequence[Step] | None = None
    ) -> Position:
        """A new Position with other rules, seed or steps. Raises IllegalMove if a step is illegal there."""
        twin = Position(rules or self.rules, self.seed if seed is None else seed, self.setup, self._first)
        for colour, move in self.steps if steps is None else steps:
            twin.play(colour, move)
        return twin

    def captured_stones(self, colour: Colour) -> int:
        """The number of stones of this colour that were captured."""
        passing = pass_move(self.rules.size)
        played = sum(player is colour and move != passing for player, move in self.steps)
        return len(self.setup[colour - 1]) + played - self.game.board.count(colour)


def _restart_from(game: Game, colour: Colour) -> Game:
    """A game that begins where this one is, with ``colour`` to move and the same margin."""
    stones = game.board.stones.reshape(-1)
    black, white = ([int(move) for move in (stones == each).nonzero()[0]] for each in Colour)
    rules = replace(game.rules, komi=0.0, handicap_points=False)
    margin = Game(rules, 0, black, white, colour).margin()
    rules = replace(rules, komi=margin - game.margin())
    return Game(rules, game.move_seed(), black, white, colour)
