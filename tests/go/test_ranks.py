"""Ranks as people write them, and the planes that tell a net who plays."""

import numpy as np
import pytest

from arena import ConfigError
from arena.go.coords import BLACK
from arena.go.game import Game, Rules
from arena.go.planes import encode_game, encode_games, encode_rows, find_encoder
from arena.go.ranks import KNOTS, PLAYER_PLANES, UNRANKED, player_planes, rank_name, rank_of, read_rank

HUMAN = find_encoder("human-34")


def test_ranks_are_read_and_named() -> None:
    ranks = {"30k": -29, "1k": 0, "1d": 1, "9 dan": 9, "3p": 12, "5k?": -4, "-5k": None, "2374": None, "": None}
    assert {text: rank_of(text) for text in ranks} == ranks
    assert [rank_name(rank) for rank in (-29, -0.6, 0, 0.6, 6)] == ["30k", "2k", "1k", "1d", "6d"]
    for text in ("40k", "7d", "3p", "strong"):
        with pytest.raises(ConfigError, match=f"^--rank {text} is not a rank; write 30k to 1k or 1d to 6d, such as"):
            read_rank(text, "--rank")


def test_a_rank_is_shared_by_its_two_nearest_knots_and_no_rank_shows_nothing() -> None:
    own, opponent = np.array([-29, -26, 6, UNRANKED]), np.array([UNRANKED, 1, -60, 30])
    planes = player_planes(own, opponent, np.array([True, False, True, False]))
    assert planes.shape == (4, PLAYER_PLANES)
    sides = planes[:, :-1].reshape(4, 2, len(KNOTS))
    assert sides[0, 0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0] and not sides[0, 1].any()
    assert np.allclose(sides[1, 0], [0.4, 0.6, 0, 0, 0, 0, 0, 0]) and sides[1, 1].argmax() == 6
    assert sides[2, 0].argmax() == 7 and sides[2, 1].argmax() == 0  # beyond the ends are the ends
    assert not sides[3, 0].any() and planes[:, -1].tolist() == [1, 0, 1, 0]


def test_the_net_of_people_sees_what_ours_sees_and_who_plays() -> None:
    game = Game(Rules.preset("japanese", 7), 0)
    for move in (24, 17, 49, 10):
        game.play(move)
    planes = encode_games(HUMAN, [game], 3, ranks=(-11, UNRANKED))[0]
    assert np.array_equal(planes[:17], encode_game(find_encoder("arena-17"), game, 3))
    wanted = player_planes(np.array([-11]), np.array([UNRANKED]), np.array([True]))[0]
    assert np.array_equal(planes[17:], np.broadcast_to(wanted[:, None, None], (PLAYER_PLANES, 7, 7)))
    assert game.to_play is BLACK
    moves, starts = np.array(game.moves, np.uint16), np.array([0, 4])
    rows = encode_rows(HUMAN, 7, moves, starts, np.array([6.5]), np.array([0]), np.array([3]), np.array([5]))
    assert not rows[:, -PLAYER_PLANES:].any()  # whoever has the records adds them
