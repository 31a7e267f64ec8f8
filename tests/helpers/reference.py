"""The slow, obvious twin of the kernels: a position as a dict of stones, every question answered by a flood fill."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from typing import Any

import numpy as np

from arena.go.alive import SAFE, TAKEN
from arena.go.board import Board
from arena.go.coords import Colour, pass_move
from arena.go.game import Game, Rules
from arena.go.record import Stones

EMPTY, BLACK, WHITE = 0, 1, 2

Point = tuple[int, int]


@cache
def neighbours(size: int, point: Point) -> tuple[Point, ...]:
    row, column = point
    others = ((row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column))
    return tuple(other for other in others if 0 <= other[0] < size and 0 <= other[1] < size)


class ReferenceBoard:
    """Stones by (row, column). Knows captures, suicide and simple ko; the history is ``ReferenceGame``'s."""

    def __init__(self, size: int):
        self.size = size
        self.stones: dict[Point, int] = {}
        self.ko: Point | None = None

    def copy(self) -> ReferenceBoard:
        twin = ReferenceBoard(self.size)
        twin.stones = dict(self.stones)
        twin.ko = self.ko
        return twin

    def neighbours(self, point: Point) -> tuple[Point, ...]:
        return neighbours(self.size, point)

    def group(self, point: Point) -> tuple[set[Point], set[Point]]:
        """The connected points of the same content, and the other points that they touch."""
        content = self.stones.get(point, EMPTY)
        inside, border, todo = {point}, set(), [point]
        while todo:
            for other in self.neighbours(todo.pop()):
                if self.stones.get(other, EMPTY) != content:
                    border.add(other)
                elif other not in inside:
                    inside.add(other)
                    todo.append(other)
        return inside, border

    def open_points(self, point: Point) -> set[Point]:
        """The liberties of the group at a point."""
        return self.group(point)[1] - self.stones.keys()

    def liberties(self, point: Point) -> int:
        return len(self.open_points(point))

    def put(self, point: Point, colour: int) -> set[Point]:
        """Play without asking whether it is legal; returns the points whose stones came off."""
        self.stones[point] = colour
        removed: set[Point] = set()
        for other in self.neighbours(point):
            if self.stones.get(other) == 3 - colour and self.liberties(other) == 0:
                removed |= self.group(other)[0]
                for dead in self.group(other)[0]:
                    del self.stones[dead]
        captured = set(removed)
        own, border = self.group(point)
        if all(other in self.stones for other in border):
            removed |= own
            for dead in own:
                del self.stones[dead]
        alone = own == {point} and point in self.stones
        self.ko = next(iter(captured)) if alone and len(captured) == 1 and self.liberties(point) == 1 else None
        return removed

    def refusal(self, point: Point, colour: int, suicide: bool) -> str | None:
        after = self.after(point, colour, suicide)
        return after if isinstance(after, str) else None

    def after(self, point: Point, colour: int, suicide: bool) -> ReferenceBoard | str:
        """The board once this was played, or why it can't be."""
        if point in self.stones:
            return "taken"
        if point == self.ko:
            return "ko"
        after = self.copy()
        removed = after.put(point, colour)
        if point not in after.stones and (not suicide or len(removed) == 1):
            return "suicide"
        return after

    def played(self, point: Point, colour: int) -> ReferenceBoard | None:
        """The board after a move, None if it is illegal; suicide is."""
        after = self.after(point, colour, suicide=False)
        return None if isinstance(after, str) else after

    def is_eye(self, point: Point, colour: int) -> bool:
        if point in self.stones or any(self.stones.get(other) != colour for other in self.neighbours(point)):
            return False
        diagonals = [(point[0] + down, point[1] + right) for down in (-1, 1) for right in (-1, 1)]
        inside = [other for other in diagonals if set(other) <= set(range(self.size))]
        bad = sum(self.stones.get(other) == 3 - colour for other in inside)
        return bad == 0 if len(inside) < 4 else bad <= 1

    def territory(self) -> dict[Point, int]:
        """Who surrounds each empty point: BLACK, WHITE or EMPTY."""
        owners = {}
        for point in np.ndindex(self.size, self.size):
            if point not in self.stones:
                colours = {self.stones[other] for other in self.group(point)[1]}
                owners[point] = colours.pop() if len(colours) == 1 else EMPTY
        return owners

    def area_margin(self) -> int:
        owned = [*self.stones.values(), *self.territory().values()]
        return owned.count(BLACK) - owned.count(WHITE)

    def territory_margin(self) -> int:
        owned = list(self.territory().values())
        return owned.count(BLACK) - owned.count(WHITE)

    def position(self) -> frozenset[tuple[Point, int]]:
        return frozenset(self.stones.items())


class ReferenceGame:
    """Turns and positional superko over a ReferenceBoard."""

    def __init__(self, size: int, superko: bool, suicide: bool):
        self.board = ReferenceBoard(size)
        self.superko, self.suicide = superko, suicide
        self.colour = BLACK
        self.history = {self.board.position()}
        self.captured = {BLACK: 0, WHITE: 0}

    def refusal(self, move: int) -> str | None:
        size = self.board.size
        if move == size * size:
            return None
        point = divmod(move, size)
        after = self.board.after(point, self.colour, self.suicide)
        if isinstance(after, str):
            return after
        return "superko" if self.superko and after.position() in self.history else None

    def play(self, move: int) -> None:
        point = divmod(move, self.board.size)
        if move == self.board.size**2:
            self.board.ko = None
        else:
            before = {**self.board.stones, point: self.colour}
            for taken in self.board.put(point, self.colour):
                self.captured[before[taken]] += 1
        self.history.add(self.board.position())
        self.colour = 3 - self.colour


def board_of_diagram(diagram: str) -> Board:
    """The board of a text diagram: a row a line, or rows parted by spaces; ``X`` black, ``O`` white, in any case."""
    lines = diagram.strip().splitlines()
    rows = [line.replace(" ", "").upper() for line in (lines if len(lines) > 1 else diagram.split())]
    board = Board(len(rows))
    for move, sign in enumerate("".join(rows)):
        if sign != ".":
            board.put(move, Colour("XO".index(sign) + 1))
    return board


def position(diagram: str, rules: str = "cgos", to_play: Colour = Colour.BLACK, **options: Any) -> Game:
    """A game that starts from a diagram, with komi 0 unless given."""
    board = board_of_diagram(diagram)
    black, white = (np.flatnonzero(board.stones.reshape(-1) == colour).tolist() for colour in Colour)
    rules_here = Rules.preset(rules, board.size, **{"komi": 0.0, **options})
    return Game(rules_here, seed=1, black=black, white=white, to_play=to_play)


def drawn(board: Board, dead: Collection[int]) -> list[str]:
    """The position, a row a string, with the stones at these points in small letters."""
    signs = [".XO"[stone] for stone in board.stones.reshape(-1)]
    signs = [sign.lower() if move in dead else sign for move, sign in enumerate(signs)]
    return ["".join(signs[row : row + board.size]) for row in range(0, len(signs), board.size)]


def twin_of(board: Board) -> ReferenceBoard:
    """The same stones on the slow board."""
    twin = ReferenceBoard(board.size)
    twin.stones = {point: int(stone) for point, stone in np.ndenumerate(board.stones) if stone}
    return twin


def random_game(size: int, seed: int, moves: int, rules: str = "cgos", **options: Any) -> Game:
    """A game of random moves that fill no own eye. It stops after this number of moves, or when it ends."""
    game = Game(Rules.preset(rules, size, **options), seed)
    while len(game.moves) < moves and not game.is_over:
        game.play(game.random_move())
    return game


def wild_game(size: int, rules: str, seed: int, most: int, komi: float | None = None, setup: Stones = ((), ())) -> Game:
    """Random legal moves, eyes kept for the most part; some passes, and kos where there are some to take."""
    game = Game(Rules.preset(rules, size, komi=float(seed - 4) + 0.5 if komi is None else komi), seed, *setup)
    random = np.random.default_rng(seed)
    while len(game.moves) < most and not game.is_over:
        choices = np.flatnonzero((game.sensible_moves() if random.random() < 0.9 else game.legal_moves())[:-1])
        prefers_ko = random.random() < 0.2
        kos = [move for move in choices if prefers_ko and game.after(int(move)).board.ko_point is not None]
        passes = not len(choices) or random.random() < 0.03
        game.play(pass_move(size) if passes else int(random.choice(kos or choices)))
    return game


def follow(game: Game) -> Iterator[tuple[Game, ReferenceBoard, int]]:
    """A game played again from its setup beside the slow board: each position, with the number of moves before it."""
    again = Game(game.rules, 0, *game.setup, game.first)
    board = twin_of(again.board)
    yield again, board, 0
    for ply, move in enumerate(game.moves, 1):
        colour, again.outcome = int(again.to_play), None
        again.play(move)
        if move == pass_move(game.rules.size):
            board.ko = None
        else:
            board.put(divmod(move, game.rules.size), colour)
        yield again, board, ply


def groups(board: ReferenceBoard, colours: set[int]) -> list[set[Point]]:
    """The connected sets of points whose contents are among ``colours``."""
    left = {point for point in np.ndindex(board.size, board.size) if board.stones.get(point, 0) in colours}
    found = []
    while left:
        todo = [left.pop()]
        for point in todo:
            near = left.intersection(board.neighbours(point))
            todo += near
            left -= near
        found.append(set(todo))
    return found


def slow_map(board: ReferenceBoard, colour: int, suicide: bool = True) -> np.ndarray:
    """Benson's algorithm as it is told: take away chains and regions until none has to go."""

    def touches(point: Point, stones: set[Point]) -> bool:
        return not stones.isdisjoint(board.neighbours(point))

    chains = groups(board, {colour})
    regions = groups(board, {0, 3 - colour})
    changed = True
    while changed:
        asked = [region if suicide else region - board.stones.keys() for region in regions]
        vital = [[points for points in asked if all(touches(point, chain) for point in points)] for chain in chains]
        staying = [chain for chain, eyes in zip(chains, vital, strict=True) if len(eyes) >= 2]
        lost = {point for point, stone in board.stones.items() if stone == colour} - set().union(*staying)
        enclosed = [region for region in regions if not any(touches(point, lost) for point in region)]
        changed = (len(staying), len(enclosed)) != (len(chains), len(regions))
        chains, regions = staying, enclosed
    owned = np.zeros((board.size, board.size), np.uint8)
    if not chains:
        return owned
    for chain in chains:
        for point in chain:
            owned[point] = SAFE
    stones = set().union(*chains)
    for region in regions:
        if sum(not touches(point, stones) for point in region) <= 1:
            for point in region:
                owned[point] = TAKEN if any(other in board.stones for other in region) else SAFE
    return owned


def is_self_atari(board: ReferenceBoard, point: Point, colour: int) -> bool:
    after = board.copy()
    return after.put(point, colour) == set() and len(after.open_points(point)) == 1


def ring(board: ReferenceBoard, point: Point) -> int:
    around = [(point[0] + i // 3 - 1, point[1] + i % 3 - 1) for i in range(9) if i != 4]
    inside = [0 <= row < board.size and 0 <= column < board.size for row, column in around]
    colours = [board.stones.get(other, 0) if there else 3 for other, there in zip(around, inside, strict=True)]
    return sum(colour << 2 * place for place, colour in enumerate(colours))
