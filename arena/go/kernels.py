"""The compiled board: play, legality, eyes and scoring on one record per board.

The techniques (padded board, groups as linked lists with pseudo-liberties, packed neighbour counts, an incremental
list of empty points) are those of libEGO. ``tests/helpers/reference.py`` is the slow, obvious twin. Kernels check
nothing: ``Board`` and ``Game`` do.

*Points* are indices of the padded board (``(row + 1) * WIDTH + column + 1``); *moves* are ``row * size + column``.
Indices are cast to unsigned numbers, which spares Numba's handling of negative ones.
"""

from __future__ import annotations

import numpy as np

from arena.go.jit import inlined, kernel

WIDTH = 21  # the step from one row to the next on all sizes: 19 points and an edge on both sides
CELLS = 448  # of a record: 21 x 21 for a padded 19x19 board, rounded up to whole cache lines
EDGE = 3
NEIGHBOURS = (-WIDTH, -1, 1, WIDTH)  # steps to them
AROUND = (-WIDTH - 1, -WIDTH, -WIDTH + 1, -1, 1, WIDTH - 1, WIDTH, WIDTH + 1)

BOARD = np.dtype(
    (
        np.record,
        [
            ("hash", "u8"),  # Zobrist hash of the stones alone (positional)
            ("side", "i4"),  # the board is side x side (a numpy record has a `size` of its own)
            ("empty_count", "i4"),
            ("ko", "i4"),  # the point where simple ko forbids to play, or 0
            ("stones", "i4", (3,)),  # stones on the board by colour
            ("prisoners", "i4", (3,)),  # stones that were taken off, by their colour
            ("head", "u2", (CELLS,)),  # of a stone: the point that names its group
            ("next", "u2", (CELLS,)),  # of a stone: the next stone of its group, in a ring
            ("liberties", "u2", (CELLS,)),  # of a head: pseudo-liberties (pairs of a stone and an empty neighbour)
            ("empties", "u2", (CELLS,)),  # the empty points, in no order
            ("place", "u2", (CELLS,)),  # of an empty point: its index in `empties`
            ("ring", "u2", (CELLS,)),  # the colours of the 8 points around, row by row, two bits each
            ("around", "u2", (CELLS,)),  # neighbours: empty, black | edge << 4, white | edge << 8
            ("colour", "u1", (CELLS,)),  # 0 empty, 1 black, 2 white, 3 edge
        ],
    ),
    align=True,
)

# Rules as kernels take them, a sum of these: area scoring (else territory), positional superko, suicide.
AREA_SCORED, HAS_SUPERKO, HAS_SUICIDE = 1, 2, 4
CGOS_RULES = AREA_SCORED | HAS_SUPERKO

# Why a move is illegal.
LEGAL, OCCUPIED, SUICIDE, KO, SUPERKO, NO_ROOM = 0, 1, 2, 3, 4, 5


def _zobrist() -> np.ndarray:
    """Random numbers for (colour, cell), by splitmix64 from a fixed seed: hashes are the same in every process."""
    state = np.arange(1, 3 * CELLS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (state ^ (state >> np.uint64(31))).reshape(3, CELLS)


ZOBRIST = _zobrist()

U = np.uint64


@inlined
def next_random(state):
    """xorshift64 (Marsaglia 2003); the state must not be 0."""
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    state ^= state >> np.uint64(27)
    return state


@inlined
def seeded(seed):
    """A state for ``next_random``, far from those of nearby seeds (splitmix64)."""
    state = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (state ^ (state >> np.uint64(31))) | np.uint64(1)


@inlined
def below(state, bound):
    """A number in [0, bound) from the upper half of the state."""
    return np.int64(((state >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@inlined
def point_of(board, move):
    return (move // board.side + 1) * WIDTH + move % board.side + 1


@inlined
def move_of(board, point):
    return (point // WIDTH - 1) * board.side + point % WIDTH - 1


@kernel
def clear(board, size):
    """Make ``board`` an empty board."""
    board.hash = np.uint64(0)
    board.side = size
    board.empty_count = 0
    board.ko = 0
    for colour in range(3):
        board.stones[colour] = 0
        board.prisoners[colour] = 0
    for p in range(CELLS):
        board.head[p] = p
        board.next[p] = p
        board.liberties[p] = CELLS  # the edge is never short of them
        board.empties[p] = 0
        board.place[p] = 0
        board.around[p] = 0
        board.colour[p] = EDGE
        board.ring[p] = 0
    for row in range(1, size + 1):
        for column in range(1, size + 1):
            p = row * WIDTH + column
            edges = int(row == 1) + int(row == size) + int(column == 1) + int(column == size)
            board.colour[p] = 0
            board.liberties[p] = 0
            board.place[p] = board.empty_count
            board.empties[board.empty_count] = p
            board.empty_count += 1
            board.around[p] = (4 - edges) + (edges << 4) + (edges << 8)
            for i in range(9):
                near_row, near_column = row + i // 3 - 1, column + i % 3 - 1
                if not (0 < near_row <= size and 0 < near_column <= size):
                    board.ring[p] |= EDGE << 2 * (i - (i > 4))


@inlined
def is_eye(board, p, colour):
    """Whether ``p`` is empty and surrounded by ``colour`` for good: at most one diagonal is lost, at the edge none."""
    if ((board.around[U(p)] >> (4 * colour)) & 15) != 4:
        return False
    other = 3 - colour
    a = np.int64(board.colour[U(p - WIDTH - 1)])
    b = np.int64(board.colour[U(p - WIDTH + 1)])
    c = np.int64(board.colour[U(p + WIDTH - 1)])
    d = np.int64(board.colour[U(p + WIDTH + 1)])
    bad = int(a == other) + int(b == other) + int(c == other) + int(d == other)
    edge = int(a == EDGE or b == EDGE or c == EDGE or d == EDGE)
    return bad + edge < 2


@inlined
def is_legal(board, p, colour):
    """Whether ``colour`` may play on the empty point ``p``: no simple ko, no suicide. Superko is the game's."""
    if p == board.ko:
        return False
    if board.around[U(p)] & 15:
        return True
    return is_suicide(board, p, colour) == 0


@inlined
def _last_liberties(board, n0, n1, n2, n3):
    """For each neighbour of an empty point, 1 if the point is the only liberty of the neighbour's group, else 0."""
    h0, h1 = np.int64(board.head[n0]), np.int64(board.head[n1])
    h2, h3 = np.int64(board.head[n2]), np.int64(board.head[n3])
    same01, same02, same03 = int(h0 == h1), int(h0 == h2), int(h0 == h3)
    same12, same13, same23 = int(h1 == h2), int(h1 == h3), int(h2 == h3)
    return (
        int(np.int64(board.liberties[U(h0)]) == 1 + same01 + same02 + same03),
        int(np.int64(board.liberties[U(h1)]) == 1 + same01 + same12 + same13),
        int(np.int64(board.liberties[U(h2)]) == 1 + same02 + same12 + same23),
        int(np.int64(board.liberties[U(h3)]) == 1 + same03 + same13 + same23),
    )


# Bit 2 * colour + (is last liberty) of a neighbour: does it give a stone played here no liberty? An own group with
# another liberty gives one, and so does a captured group. Shifts of a constant avoid badly predicted branches.
_BLACK_DIES, _WHITE_DIES = np.int64(0b11_01_10_11), np.int64(0b11_10_01_11)


@inlined
def is_suicide(board, p, colour):
    """1 if a stone at ``p``, which has no empty neighbours, neither captures nor joins a group with another liberty."""
    n0, n1, n2, n3 = U(p - WIDTH), U(p - 1), U(p + 1), U(p + WIDTH)
    last0, last1, last2, last3 = _last_liberties(board, n0, n1, n2, n3)
    dies = _BLACK_DIES if colour == 1 else _WHITE_DIES
    return (
        (dies >> (2 * np.int64(board.colour[n0]) + last0))
        & (dies >> (2 * np.int64(board.colour[n1]) + last1))
        & (dies >> (2 * np.int64(board.colour[n2]) + last2))
        & (dies >> (2 * np.int64(board.colour[n3]) + last3))
    ) & 1


@inlined
def turn_ring(board, p, colour):
    """Add a colour at ``p`` to the rings of the 8 points around, or remove it."""
    for step in AROUND:
        board.ring[U(p - step)] ^= colour
        colour <<= 2


@inlined
def _remove_group(board, head, hashing):
    """Take a group off; returns the number of its stones."""
    colour = np.int64(board.colour[U(head)])
    step = np.int64(1) - (np.int64(1) << (4 * colour))
    start = np.int64(head)
    p = start
    count = 0
    while True:
        following = np.int64(board.next[U(p)])
        board.colour[U(p)] = 0
        board.head[U(p)] = p
        board.next[U(p)] = p
        if hashing:
            board.hash ^= ZOBRIST[U(colour), U(p)]
        turn_ring(board, p, colour)
        board.place[U(p)] = board.empty_count
        board.empties[U(board.empty_count)] = p
        board.empty_count += 1
        count += 1
        for near in NEIGHBOURS:
            board.around[U(p + near)] += step
            board.liberties[U(board.head[U(p + near)])] += 1
        p = following
        if p == start:
            break
    board.stones[U(colour)] -= count
    board.prisoners[U(colour)] += count
    return count


@inlined
def _join(board, head, old):
    """Merge the group of the head ``old`` into the group of ``head``."""
    board.liberties[U(head)] += board.liberties[U(old)]
    stone = old
    while True:
        board.head[U(stone)] = head
        stone = np.int64(board.next[U(stone)])
        if stone == old:
            break
    following = board.next[U(head)]
    board.next[U(head)] = board.next[U(old)]
    board.next[U(old)] = following


@kernel
def play(board, p, colour):
    """``place``, and update the hash."""
    place(board, p, colour, np.bool_(True))


@inlined
def place(board, p, colour, hashing):
    """Put a stone of ``colour`` on the empty point ``p``, which must be legal: join, capture, set the ko point. Update
    the hash if ``hashing``; playouts don't use it."""
    board.empty_count -= 1
    last = board.empties[U(board.empty_count)]
    index = board.place[U(p)]
    board.empties[U(index)] = last
    board.place[U(last)] = index
    surrounded = ((board.around[U(p)] >> (4 * (3 - colour))) & 15) == 4
    n0, n1, n2, n3 = U(p - WIDTH), U(p - 1), U(p + 1), U(p + WIDTH)
    board.colour[U(p)] = colour
    if hashing:
        board.hash ^= ZOBRIST[U(colour), U(p)]
    board.stones[U(colour)] += 1
    turn_ring(board, p, colour)
    change = (np.int64(1) << (4 * colour)) - 1
    for step in NEIGHBOURS:
        board.around[U(p + step)] += change
        board.liberties[U(board.head[U(p + step)])] -= 1
    h0, h1 = np.int64(board.head[n0]), np.int64(board.head[n1])
    h2, h3 = np.int64(board.head[n2]), np.int64(board.head[n3])
    c0, c1 = np.int64(board.colour[n0]), np.int64(board.colour[n1])
    c2, c3 = np.int64(board.colour[n2]), np.int64(board.colour[n3])
    # One branch that is seldom taken, instead of four unpredictable ones.
    other = 3 - colour
    captures = False
    for step in NEIGHBOURS:
        q = U(p + step)
        captures |= (board.colour[q] == other) & (board.liberties[U(board.head[q])] == 0)
    # Without branches, the stone joins the last own group around, or is a new one. Joining several groups is rare.
    head = np.int64(p)
    head = h0 if c0 == colour else head
    head = h1 if c1 == colour else head
    head = h2 if c2 == colour else head
    head = h3 if c3 == colour else head
    board.liberties[U(p)] = 0
    board.liberties[U(head)] += board.around[U(p)] & 15
    board.head[U(p)] = head
    following = board.next[U(head)]
    board.next[U(head)] = p
    board.next[U(p)] = following
    if ((c0 == colour) & (h0 != head)) | ((c1 == colour) & (h1 != head)) | ((c2 == colour) & (h2 != head)):
        if c0 == colour and h0 != head:
            _join(board, head, h0)
        if c1 == colour and board.head[n1] != head:
            _join(board, head, np.int64(board.head[n1]))
        if c2 == colour and board.head[n2] != head:
            _join(board, head, np.int64(board.head[n2]))
    board.ko = 0
    if captures:
        captured = np.int64(0)
        taken = np.int64(0)
        for step in NEIGHBOURS:
            q = U(p + step)
            if board.colour[q] == other and board.liberties[U(board.head[q])] == 0:
                captured += _remove_group(board, np.int64(board.head[q]), hashing)
                taken = p + step
        if surrounded and captured == 1:
            board.ko = taken


@inlined
def region_owner(board, start, seen, region):
    """Write the empty region of ``start`` to ``region`` and mark it ``seen``; (points, bit set of colours reached)."""
    region[0] = start
    seen[start] = 1
    points = 1
    reach = 0
    looked_at = 0
    while looked_at < points:
        p = np.int64(region[looked_at])
        looked_at += 1
        for step in NEIGHBOURS:
            q = p + step
            colour = np.int64(board.colour[U(q)])
            if colour == 0:
                if not seen[q]:
                    seen[q] = 1
                    region[points] = q
                    points += 1
            elif colour != EDGE:
                reach |= colour
    return points, reach


@inlined
def area_score(board):
    """Black's margin before komi by area: stones, and empty regions that reach one colour only (Tromp-Taylor)."""
    return np.int64(board.stones[1] - board.stones[2]) + territory_score(board)


@inlined
def placed_score(board):
    """Black's stones placed minus White's. Area margin = territory margin with prisoners + this."""
    return np.int64(board.stones[1] + board.prisoners[1]) - np.int64(board.stones[2] + board.prisoners[2])


@inlined
def territory_score(board):
    """Black's surrounded empty points minus White's."""
    seen = np.zeros(CELLS, np.uint8)
    region = np.empty(CELLS, np.int16)
    margin = np.int64(0)
    for i in range(board.empty_count):
        p = np.int64(board.empties[U(i)])
        if not seen[p]:
            points, reach = region_owner(board, p, seen, region)
            if reach == 1:
                margin += points
            elif reach == 2:
                margin -= points
    return margin


@inlined
def put_aside(board, i, left):
    """Exchange the empty points of the indices ``i`` and ``left``."""
    p, last = board.empties[U(i)], board.empties[U(left)]
    board.empties[U(i)] = last
    board.place[U(last)] = i
    board.empties[U(left)] = p
    board.place[U(p)] = left


@inlined
def first_liberties(board, stone, enough):
    """(liberties of the group of ``stone``, counted up to ``enough``, the first two of them, stones visited)."""
    count = stones = np.int64(0)
    first = second = np.int64(0)
    p = np.int64(stone)
    while True:
        stones += 1
        if board.around[U(p)] & 15:
            for step in NEIGHBOURS:
                q = p + step
                if board.colour[U(q)] == 0 and q != first and q != second:
                    count += 1
                    if count == enough:
                        return count, first, second, stones
                    if count == 1:
                        first = q
                    else:
                        second = q
        p = np.int64(board.next[U(p)])
        if p == stone:
            return count, first, second, stones


@inlined
def last_liberty(board, head):
    """The only liberty of a group, or 0 when it has several."""
    if board.liberties[U(head)] > 4:  # a single point borders at most 4 stones of a group
        return np.int64(0)
    count, only, _, _ = first_liberties(board, head, 2)
    return only if count == 1 else np.int64(0)


@inlined
def group_liberties(board, counts):
    """Write the number of liberties of each group to ``counts`` (CELLS,) at its head."""
    for p in range(WIDTH * (board.side + 2)):
        counts[p] = 0
    for i in range(board.empty_count):
        p = np.int64(board.empties[U(i)])
        a = np.int64(board.head[U(p - WIDTH)])
        b = np.int64(board.head[U(p - 1)])
        c = np.int64(board.head[U(p + 1)])
        d = np.int64(board.head[U(p + WIDTH)])
        counts[U(a)] += 1
        if b != a:
            counts[U(b)] += 1
        if c != a and c != b:
            counts[U(c)] += 1
        if d != a and d != b and d != c:
            counts[U(d)] += 1


@inlined
def mark_group(board, stone, table, plane):
    """Write 1 to the points of a group in ``plane`` (n²,), turned by ``table``."""
    p = np.int64(stone)
    while True:
        plane[table[move_of(board, p)]] = 1
        p = np.int64(board.next[U(p)])
        if p == stone:
            return


# Python calls the kernels below with arrays of boards: a single board takes ten times as long to pass.


@kernel
def area_of(boards):
    return area_score(boards[0])


@kernel
def territory_of(boards):
    return territory_score(boards[0])


@inlined
def illegal_reason(board, p, colour, suicide):
    """LEGAL, or why ``p`` is illegal apart from superko. ``suicide`` allows suicide of several stones, never of one."""
    if board.colour[U(p)] != 0:
        return OCCUPIED
    if p == board.ko:
        return KO
    if board.around[U(p)] & 15 or is_suicide(board, p, colour) == 0:
        return LEGAL
    if suicide:
        for step in NEIGHBOURS:
            if board.colour[U(p + step)] == colour:
                return LEGAL
    return SUICIDE


@inlined
def play_any(board, p, colour):
    """Like ``play``; a suicide removes its group."""
    play(board, p, colour)
    head = np.int64(board.head[U(p)])
    if board.liberties[U(head)] == 0:
        _remove_group(board, head, np.bool_(True))
        board.ko = 0


@inlined
def play_move(board, move, colour):
    """Play a legal move, which may be a pass or suicide."""
    if move == np.int64(board.side) * np.int64(board.side):
        board.ko = 0
    else:
        play_any(board, point_of(board, move), colour)


@inlined
def _removed_hash(board, head, colour):
    value = np.uint64(0)
    p = np.int64(head)
    while True:
        value ^= ZOBRIST[U(colour), U(p)]
        p = np.int64(board.next[U(p)])
        if p == head:
            return value


@inlined
def hash_after(board, p, colour):
    """The positional hash after ``colour`` plays the legal point ``p`` (suicide counted); the board is unchanged."""
    lasts = _last_liberties(board, U(p - WIDTH), U(p - 1), U(p + 1), U(p + WIDTH))
    dies = board.around[U(p)] & 15 == 0 and is_suicide(board, p, colour) != 0
    going = colour if dies else 3 - colour
    value = board.hash if dies else board.hash ^ ZOBRIST[U(colour), U(p)]
    for i in range(4):
        head = np.int64(board.head[U(p + NEIGHBOURS[i])])
        stays = lasts[i] == 0 or np.int64(board.colour[U(head)]) != going
        for j in range(i):  # a group that touches the point twice goes once
            stays = stays or np.int64(board.head[U(p + NEIGHBOURS[j])]) == head
        if not stays:
            value ^= _removed_hash(board, head, going)
    return value


@inlined
def repeats(hashes, count, value):
    """The index of the latest of ``hashes[:count]`` that equals ``value``, or -1."""
    for i in range(count - 1, -1, -1):
        if hashes[i] == value:
            return i
    return -1


@kernel
def referee(boards, index, move, colour, hashes, count, superko, suicide):
    """Play a move if it is legal. ``hashes[:count]`` are the hashes of all positions so far, this one last; the new one
    is written to ``hashes[count]``. Returns (LEGAL or why not, the index of the position that superko would repeat)."""
    if not 0 < count < hashes.shape[0]:
        return NO_ROOM, -1
    board = boards[index]
    if move == board.side * board.side:
        board.ko = 0
        hashes[count] = board.hash
        return LEGAL, -1
    p = point_of(board, move)
    reason = illegal_reason(board, p, colour, suicide)
    if reason != LEGAL:
        return reason, -1
    if superko:
        earlier = repeats(hashes, count, hash_after(board, p, colour))
        if earlier >= 0:
            return SUPERKO, earlier
    play_any(board, p, colour)
    hashes[count] = board.hash
    return LEGAL, -1


@inlined
def is_allowed(board, p, colour, hashes, count, superko, suicide):
    """Whether ``colour`` may play at the empty point ``p``; ``hashes[:count]`` are the hashes of all positions."""
    if illegal_reason(board, p, colour, suicide) != LEGAL:
        return False
    return not superko or repeats(hashes, count, hash_after(board, p, colour)) < 0


@kernel
def legal_mask(boards, index, colour, hashes, count, superko, suicide, eyes, mask):
    """Write the legal moves to ``mask`` (size² + 1, bool); those that fill an own eye only if ``eyes``."""
    board = boards[index]
    mask[:] = False
    mask[board.side * board.side] = True
    for i in range(board.empty_count):
        p = np.int64(board.empties[U(i)])
        if eyes or not is_eye(board, p, colour):
            mask[move_of(board, p)] = is_allowed(board, p, colour, hashes, count, superko, suicide)


@kernel
def random_move(boards, index, colour, hashes, count, superko, seed):
    """A uniformly random legal move that fills no own eye, or a pass if there is none. Only the order of the board's
    empty points changes."""
    board = boards[index]
    left = np.int64(board.empty_count)
    state = seeded(seed)
    while left > 0:
        state = next_random(state)
        i = below(state, left)
        p = np.int64(board.empties[U(i)])
        if not is_eye(board, p, colour) and is_allowed(board, p, colour, hashes, count, superko, np.bool_(False)):
            return move_of(board, p)
        left -= 1
        put_aside(board, i, left)
    return np.int64(board.side * board.side)


@kernel
def owner_map(boards, index, owners):
    """Write the owner of each point by area to ``owners`` (size²): 1 black, 2 white, 0 neither."""
    board = boards[index]
    seen = np.zeros(CELLS, np.uint8)
    region = np.empty(CELLS, np.int16)
    for move in range(board.side * board.side):
        p = np.int64(point_of(board, move))
        if board.colour[U(p)] != 0:
            owners[move] = board.colour[U(p)]
        elif not seen[p]:
            points, reach = region_owner(board, p, seen, region)
            for i in range(points):
                owners[move_of(board, np.int64(region[i]))] = reach % 3


@kernel
def count_liberties(board, p, enough):
    """The liberties of the group at ``p``, counted up to ``enough``."""
    seen = np.zeros(CELLS, np.uint8)
    count = 0
    stone = np.int64(p)
    while True:
        for step in NEIGHBOURS:
            q = stone + step
            if board.colour[U(q)] == 0 and not seen[q]:
                seen[q] = 1
                count += 1
                if count >= enough:
                    return count
        stone = np.int64(board.next[U(stone)])
        if stone == p:
            return count
