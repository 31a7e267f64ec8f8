"""What a search may leave out because the stones around it are pass-alive at the root."""

from __future__ import annotations

from arena.go.alive import SAFE
from arena.go.jit import inlined
from arena.go.kernels import CELLS, WIDTH, U


@inlined
def fills_own(board, root, colour):
    """Whether all that ``colour`` can do in its pass-alive territory is to fill it: no stone has come to threaten."""
    for p in range(WIDTH + 1, WIDTH * (board.side + 1) - 1):
        if root.alive[U((colour - 1) * CELLS + p)] == SAFE and board.colour[U(p)] == 3 - colour:
            return False
    return True


@inlined
def is_pointless(board, root, p, colour, own):
    """Whether a stone at ``p`` can't change what the board is worth, by area and with what is pass-alive at the root:
    it fills ``own`` territory, or it is lost among the other side's stones. In a ko that may be a threat."""
    if root.alive[U((colour - 1) * CELLS + p)] == SAFE:
        return own
    return root.alive[U((2 - colour) * CELLS + p)] != 0 and board.ko == 0
