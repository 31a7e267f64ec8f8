"""A game as GTP and editors have it, and SGF files in and out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from arena import IllegalMove, RecordError
from arena.go.coords import BLACK, WHITE, Colour, Move, pass_move, sgf_from_move
from arena.go.game import Game, Rules
from arena.go.record import GameRecord, Stones
from arena.go.sgf import Node, read_nodes, read_setup, write_sgf


@dataclass(frozen=True, slots=True)
class Step:
    """A move. A ``forced`` one is played even if the rules forbid it: a file has it."""

    colour: Colour
    move: Move
    forced: bool = False


class Position:
    """A game in which either colour may move at any time, stones may be put down, and play may go on after two passes.

    A Game alternates. When a colour moves out of turn or stones are put down, ``game`` gives way to a new one that
    begins with the stones as they lie; what was taken until then and points for handicap stones stand in its komi, so
    that its margin is right. Ko and superko look back to that moment only.
    """

    def __init__(self, rules: Rules, seed: int, setup: Stones = ((), ()), first: Colour | None = None):
        """Raises ValueError as a Game does."""
        self.rules = rules
        self.seed = seed
        self.setup = setup
        self.steps: list[Step | Node] = []
        self.game = Game(rules, seed, *setup, to_play=first)
        self._first = first
        self._aside: Game | None = None
        self._placed = {colour: len(stones) for colour, stones in zip(Colour, setup, strict=True)}

    def turn(self, colour: Colour) -> Game:
        """The game with ``colour`` to move, for a bot to look at; the same object until a move is played."""
        game = self.game
        if game.to_play is not colour or len(game.moves) == game.rules.move_limit:
            if self._aside is None or self._aside.to_play is not colour:
                self._aside = _begun_anew(game, colour)
            game = self._aside
        game.outcome = None  # two passes end a game, but not play
        return game

    def play(self, colour: Colour, move: Move) -> None:
        """Raises IllegalMove, and then has changed nothing."""
        self._play(Step(colour, move))

    def force(self, colour: Colour, move: Move) -> None:
        """Play a move that stands in a file: one that the rules forbid, too, but on an empty point. They hold from
        there on, and superko knows the position. Raises IllegalMove."""
        try:
            self.play(colour, move)
        except IllegalMove:
            self._play(Step(colour, move, forced=True))

    def _play(self, step: Step) -> None:
        game = self.turn(step.colour)
        if step.forced:
            game = _forced(game, step.move)
        else:
            game.play(step.move)
        self.game, self._aside = game, None
        self._placed[step.colour] += step.move != pass_move(self.rules.size)
        self.steps.append(step)

    def put(self, node: Node) -> None:
        """Put down and take off the stones of a node. Raises ValueError when that leaves a group without a liberty."""
        before = self.game
        anew = _begun_anew(before, node.to_play or before.to_play)
        changed = {*node.black, *node.white, *node.empty}
        black, white = (
            [*(move for move in old if move not in changed), *new]
            for old, new in zip(anew.setup, (node.black, node.white), strict=True)
        )
        self.game, self._aside = Game(anew.rules, before.move_seed(), black, white, anew.to_play), None
        for colour in Colour:
            self._placed[colour] += self.game.board.count(colour) - before.board.count(colour)
        self.steps.append(node)

    def again(
        self, rules: Rules | None = None, seed: int | None = None, steps: Sequence[Step | Node] | None = None
    ) -> Position:
        """The same position reached anew, with something changed. Raises IllegalMove when that forbids a move."""
        twin = Position(rules or self.rules, self.seed if seed is None else seed, self.setup, self._first)
        for step in self.steps if steps is None else steps:
            if isinstance(step, Step):
                twin._play(step)
            else:
                twin.put(step)
        return twin

    def taken(self, colour: Colour) -> int:
        """How many stones of this colour have been taken off."""
        return self._placed[colour] - self.game.board.count(colour)

    def to_sgf(self) -> str:
        """The game as SGF, one line."""
        size = self.rules.size
        first = self._first or Game(self.rules, 0, *self.setup).to_play
        root = GameRecord(self.rules, (), None, setup=self.setup, first=first)
        nodes = [_sgf_of(step, size) for step in self.steps]
        return f"{write_sgf(root)[:-1]}{''.join(nodes)})"


def _sgf_of(step: Step | Node, size: int) -> str:
    if isinstance(step, Step):
        return f";{step.colour.letter}[{sgf_from_move(step.move, size)}]"
    stones = {"AB": step.black, "AW": step.white, "AE": step.empty}
    put = (f"{name}{''.join(f'[{sgf_from_move(move, size)}]' for move in at)}" for name, at in stones.items() if at)
    return f";{''.join(put)}{f'PL[{step.to_play.letter}]' if step.to_play else ''}"


def _begun_anew(game: Game, colour: Colour) -> Game:
    """A game that begins where this one is, with ``colour`` to move and the same margin."""
    stones = game.board.stones.reshape(-1)
    black, white = ([int(move) for move in (stones == each).nonzero()[0]] for each in (BLACK, WHITE))
    rules = replace(game.rules, komi=0.0, handicap_points=False)
    margin = Game(rules, 0, black, white, colour).margin()
    rules = replace(rules, komi=margin - game.margin())
    return Game(rules, game.move_seed(), black, white, colour)


def _forced(game: Game, move: Move) -> Game:
    """The game with a move played that its rules forbid; begun anew where it retakes a ko at once."""
    for begun in (game, _begun_anew(game, game.to_play)):
        strict, begun.rules = begun.rules, replace(begun.rules, superko=False, suicide=True)
        try:
            with suppress(IllegalMove):
                begun.play(move)
                return begun
        finally:
            begun.rules = strict
    raise IllegalMove("a move on a stone, or of a stone without liberties")


def read_position(data: bytes, rules: Rules, seed: int, number: int | None = None) -> Position:
    """The position of an SGF file before its move ``number``, or at its end, by these rules with the file's size and
    komi. Where those forbid a move, the file's own rules hold if they have superko and allow it; else the move is
    played all the same, and the rules hold from there. Raises RecordError."""
    own, nodes = read_nodes(data)
    rules = replace(rules, size=own.size, komi=own.komi, move_limit=own.move_limit)
    try:
        for tried in (rules, own) if own.superko else (rules,):
            with suppress(IllegalMove):
                return _replayed(nodes, Position.play, tried, seed, number)
        return _replayed(nodes, Position.force, rules, seed, number)
    except (IllegalMove, ValueError) as error:
        raise RecordError(f"illegal: {error}") from None


def _replayed(
    nodes: list[Node],
    play: Callable[[Position, Colour, Move], None],
    rules: Rules,
    seed: int,
    number: int | None,
) -> Position:
    """Raises IllegalMove, ValueError."""
    begin, setup, first = read_setup(nodes)
    position = Position(rules, seed, setup, first)
    left = len(nodes) * 2 if number is None else number - 1
    for place, node in enumerate(nodes[begin:]):
        if node.moves and left <= 0:
            break
        if node.is_setup and place:
            position.put(node)
        for colour, move in node.moves[: max(0, left)]:
            left -= 1
            play(position, colour, move)
    return position
