"""One Go position: stones, captures and the simple-ko point."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from arena.go import kernels
from arena.go.coords import GTP_COLUMNS, MAX_SIZE, Colour, Move, star_points


def point_from_move(move: Move, size: int) -> int:
    """A move as a point of the padded board; 0 passes."""
    row, column = divmod(move, size)
    return 0 if move == size * size else (row + 1) * kernels.WIDTH + column + 1


def move_from_point(point: int, size: int) -> Move:
    row, column = divmod(point, kernels.WIDTH)
    return size * size if point == 0 else (row - 1) * size + column - 1


class Board:
    """A mutable position, cheap to copy; ``array`` (1,) is a ``kernels.BOARD``."""

    __slots__ = ("array", "size")

    def __init__(self, size: int):
        """An empty board. Raises ValueError for a size above ``MAX_SIZE``."""
        if not 1 <= size <= MAX_SIZE:
            raise ValueError(f"a board of size {size} can't be held; sizes go up to {MAX_SIZE}")
        self.size = size
        self.array = np.zeros(1, kernels.BOARD)
        kernels.clear(self.array[0], size)

    def copy(self) -> Board:
        twin = Board.__new__(Board)
        twin.size = self.size
        twin.array = np.ndarray(1, kernels.BOARD, bytearray(self.array.tobytes()))  # 20 times as fast as its copy()
        return twin

    def put(self, move: Move, colour: Colour) -> None:
        """Place a setup stone. Raises ValueError when the point is taken or not on the board."""
        if self.stone(move):
            raise ValueError(f"two stones on one point of the setup: {move}")
        kernels.play(self.array[0], point_from_move(move, self.size), int(colour))
        self.array["ko"] = 0

    def without(self, moves: Collection[Move]) -> Board:
        """A copy without the stones at these points, ko and prisoners."""
        left = Board(self.size)
        for move, stone in enumerate(self.stones.reshape(-1).tolist()):
            if stone and move not in moves:
                left.put(move, Colour(stone))
        return left

    def stone(self, move: Move) -> int:
        """0 for an empty point, else the colour of its stone. Raises ValueError for a point that isn't on the board."""
        if not 0 <= move < self.size * self.size:
            raise ValueError(f"{move} is not a point of a {self.size}x{self.size} board")
        return int(self.array["colour"][0, point_from_move(move, self.size)])

    @property
    def stones(self) -> np.ndarray:
        """(size, size) uint8: 0 empty, 1 black, 2 white. A copy."""
        width = kernels.WIDTH
        cells = self.array["colour"][0, : width * width].reshape(width, width)
        return cells[1 : self.size + 1, 1 : self.size + 1].copy()

    @property
    def hash(self) -> int:
        """The Zobrist hash of the stones; the side to move isn't part of it."""
        return int(self.array["hash"][0])

    @property
    def ko_point(self) -> Move | None:
        """The point that simple ko forbids to the side to move."""
        point = int(self.array["ko"][0])
        return move_from_point(point, self.size) if point else None

    def count(self, colour: Colour) -> int:
        """The number of stones of this colour on the board."""
        return int(self.array["stones"][0, int(colour)])

    def captured_stones(self, colour: Colour) -> int:
        """The number of stones of this colour that were captured."""
        return int(self.array["prisoners"][0, int(colour)])

    def liberties(self, move: Move) -> int:
        """The liberties of the group at ``move``; 0 for an empty point."""
        point = point_from_move(move, self.size)
        return int(kernels.count_liberties(self.array[0], point, kernels.CELLS)) if self.stone(move) else 0

    def area_margin(self) -> int:
        """Black's margin before komi, counting stones and surrounded points; all stones count as alive."""
        return int(kernels.area_of(self.array))

    def territory_margin(self) -> int:
        """Black's margin before komi and prisoners, counting surrounded points only."""
        return int(kernels.territory_of(self.array))

    def owners(self) -> np.ndarray:
        """(size²,) uint8: the owner of each point by area, 0 for neither."""
        owners = np.zeros(self.size * self.size, np.uint8)
        kernels.owner_map(self.array, 0, owners)
        return owners

    def __str__(self) -> str:
        """One line per row with GTP's coordinates: ``X`` black, ``O`` white, ``+`` an empty star point."""
        signs = [".XO"[stone] for stone in self.stones.reshape(-1)]
        for star in star_points(self.size):
            signs[star] = signs[star].replace(".", "+")
        letters = f"   {' '.join(GTP_COLUMNS[: self.size])}"
        rows = range(self.size, 0, -1)
        lines = [f"{row:2d} {' '.join(signs[-row * self.size :][: self.size])} {row}" for row in rows]
        return "\n".join([letters, *lines, letters])
