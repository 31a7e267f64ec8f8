"""The slow, obvious twin of the kernels: a position as a dict of stones, every question answered by a flood fill."""

from __future__ import annotations

from collections.abc import Iterator

EMPTY, BLACK, WHITE = 0, 1, 2


class ReferenceBoard:
    """Stones by (row, column). Knows captures, suicide and simple ko; the history is ``ReferenceGame``'s."""

    def __init__(self, size: int):
        self.size = size
        self.stones: dict[tuple[int, int], int] = {}
        self.ko: tuple[int, int] | None = None

    def copy(self) -> ReferenceBoard:
        twin = ReferenceBoard(self.size)
        twin.stones = dict(self.stones)
        twin.ko = self.ko
        return twin

    def neighbours(self, point: tuple[int, int]) -> Iterator[tuple[int, int]]:
        row, column = point
        for other in ((row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column)):
            if 0 <= other[0] < self.size and 0 <= other[1] < self.size:
                yield other

    def group(self, point: tuple[int, int]) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
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

    def liberties(self, point: tuple[int, int]) -> int:
        return sum(other not in self.stones for other in self.group(point)[1])

    def put(self, point: tuple[int, int], colour: int) -> set[tuple[int, int]]:
        """Play without asking whether it is legal; returns the points whose stones came off."""
        self.stones[point] = colour
        removed: set[tuple[int, int]] = set()
        for other in self.neighbours(point):
            if self.stones.get(other) == 3 - colour and self.liberties(other) == 0:
                removed |= self.group(other)[0]
                for dead in self.group(other)[0]:
                    del self.stones[dead]
        captured = set(removed)
        own, _ = self.group(point)
        if self.liberties(point) == 0:
            removed |= own
            for dead in own:
                del self.stones[dead]
        alone = own == {point} and point in self.stones
        self.ko = next(iter(captured)) if alone and len(captured) == 1 and self.liberties(point) == 1 else None
        return removed

    def refusal(self, point: tuple[int, int], colour: int, suicide: bool) -> str | None:
        if point in self.stones:
            return "taken"
        if point == self.ko:
            return "ko"
        after = self.copy()
        removed = after.put(point, colour)
        if point not in after.stones and (not suicide or len(removed) == 1):
            return "suicide"
        return None

    def is_eye(self, point: tuple[int, int], colour: int) -> bool:
        if point in self.stones or any(self.stones.get(other) != colour for other in self.neighbours(point)):
            return False
        row, column = point
        diagonals = [(row + a, column + b) for a in (-1, 1) for b in (-1, 1)]
        inside = [other for other in diagonals if 0 <= other[0] < self.size and 0 <= other[1] < self.size]
        bad = sum(self.stones.get(other) == 3 - colour for other in inside)
        return bad == 0 if len(inside) < 4 else bad <= 1

    def territory(self) -> dict[tuple[int, int], int]:
        """Who surrounds each empty point: BLACK, WHITE or EMPTY."""
        owners = {}
        for row in range(self.size):
            for column in range(self.size):
                if (row, column) not in self.stones:
                    _, border = self.group((row, column))
                    colours = {self.stones[point] for point in border}
                    owners[row, column] = colours.pop() if len(colours) == 1 else EMPTY
        return owners

    def area_margin(self) -> int:
        owned = [*self.stones.values(), *self.territory().values()]
        return owned.count(BLACK) - owned.count(WHITE)

    def territory_margin(self) -> int:
        owned = list(self.territory().values())
        return owned.count(BLACK) - owned.count(WHITE)

    def position(self) -> frozenset[tuple[tuple[int, int], int]]:
        return frozenset(self.stones.items())


class ReferenceGame:
    """Turns and positional superko over a ReferenceBoard."""

    def __init__(self, size: int, superko: bool, suicide: bool):
        self.board = ReferenceBoard(size)
        self.superko, self.suicide = superko, suicide
        self.colour = BLACK
        self.history = [self.board.position()]
        self.captured = {BLACK: 0, WHITE: 0}

    def refusal(self, move: int) -> str | None:
        size = self.board.size
        if move == size * size:
            return None
        point = divmod(move, size)
        reason = self.board.refusal(point, self.colour, self.suicide)
        if reason is None and self.superko:
            after = self.board.copy()
            after.put(point, self.colour)
            if after.position() in self.history:
                return "superko"
        return reason

    def play(self, move: int) -> None:
        size = self.board.size
        if move == size * size:
            self.board.ko = None
        else:
            before = dict(self.board.stones)
            before[divmod(move, size)] = self.colour
            for point in self.board.put(divmod(move, size), self.colour):
                self.captured[before[point]] += 1
        self.history.append(self.board.position())
        self.colour = 3 - self.colour
