"""The encoders against slow twins that ask one question a point, ladders, ranks, and digests that freeze them."""

import hashlib
from collections import Counter

import numpy as np
import pytest
from helpers.reference import Point, ReferenceBoard, follow, position, wild_game

from arena import ConfigError
from arena.go.coords import BLACK, WHITE, apply_symmetry, gtp_from_move, move_from_gtp, moves_by_sgf
from arena.go.game import PRESETS, Game, Rules, handicap_points
from arena.go.ladders import DEPTH, EFFORT
from arena.go.planes import ENCODERS, Encoder, encode_game, encode_games, encode_rows, find_encoder
from arena.go.ranks import KNOTS, PLAYER_PLANES, UNRANKED, player_planes, rank_name, rank_of, read_rank

ENCODER = find_encoder("arena-17")


def slow_arena(board: ReferenceBoard, colour: int, moves: list[int], komi: float) -> np.ndarray:
    """(17, n, n) float32 of a position seen by ``colour``, one obvious question a point."""
    size = board.size
    planes = np.zeros((17, size, size), np.float32)
    planes[2] = 1
    for (row, column), stone in board.stones.items():
        theirs = stone != colour
        planes[1 if theirs else 0, row, column] = 1
        liberties = board.liberties((row, column))
        if liberties in (1, 2, 3):
            planes[(5 if theirs else 2) + liberties, row, column] = 1
    if board.ko is not None:
        planes[9][board.ko] = 1
    for age, move in enumerate(reversed(moves[-5:])):
        if move != size * size:
            planes[10 + age][divmod(move, size)] = 1
    planes[15] = komi / 15 if colour != BLACK else -komi / 15
    planes[16] = float(moves[-1:] == [size * size])
    return planes


Effort = Counter[str]
"""Counts the ataris that were looked at."""


def replies(board: ReferenceBoard, stone: Point) -> list[Point]:
    """The moves that may save a group in atari: its last liberty, and captures around it."""
    around = [other for other in board.group(stone)[1] if other in board.stones and board.liberties(other) == 1]
    captures = [point for other in around for point in board.open_points(other)]
    return list(dict.fromkeys([*board.open_points(stone), *captures]))


def is_caught(board: ReferenceBoard, stone: Point, effort: Effort) -> bool:
    """Whether the group of ``stone``, in atari and on the move, can be chased until it is captured."""
    effort["spent"] += 1
    return not any(is_saved(board, reply, stone, effort) for reply in replies(board, stone))


def is_saved(board: ReferenceBoard, point: Point, stone: Point, effort: Effort) -> bool:
    """Whether the group of ``stone`` can't be chased any more after its side plays a point."""
    played = board.played(point, board.stones[stone])
    count = 0 if played is None else played.liberties(stone)
    return played is not None and (count > 2 or (count == 2 and not is_chased(played, stone, effort)))


def is_chased(board: ReferenceBoard, stone: Point, effort: Effort) -> bool:
    """Whether an atari on the group of ``stone``, which has two liberties, catches it."""
    ataris = [board.played(point, 3 - board.stones[stone]) for point in board.open_points(stone)]
    return any(atari is not None and is_caught(atari, stone, effort) for atari in ataris)


def captures_in_ladder(board: ReferenceBoard, point: Point, colour: int, effort: Effort) -> bool:
    chased = [other for other in board.neighbours(point) if board.stones.get(other) == 3 - colour]
    chased = [other for other in chased if board.liberties(other) == 2]
    played = board.played(point, colour)
    return played is not None and any(is_caught(played, other, effort) for other in chased)


def escapes_a_ladder(board: ReferenceBoard, point: Point, colour: int, effort: Effort) -> bool:
    own = [stone for stone, there in board.stones.items() if there == colour and board.liberties(stone) == 1]
    return any(point in replies(board, stone) and is_saved(board, point, stone, effort) for stone in own)


def slow_alphago(board: ReferenceBoard, colour: int, moves: list[int], effort: Effort) -> np.ndarray:
    size = board.size
    planes = np.zeros((48, size, size), np.float32)
    planes[3] = 1
    for point in np.ndindex(size, size):
        stone = board.stones.get(point)
        if stone is not None:
            planes[0 if stone == colour else 1][point] = 1
            ages = [age for age, move in enumerate(reversed(moves)) if move == point[0] * size + point[1]]
            planes[4 + min([*ages, 7])][point] = 1
            planes[11 + min(board.liberties(point), 8)][point] = 1
            continue
        planes[2][point] = 1
        played = board.played(point, colour)
        if played is None:
            continue
        captured = sum(point not in played.stones for point in board.stones)
        planes[20 + min(captured, 7)][point] = 1
        if played.liberties(point) == 1:
            planes[27 + min(len(played.group(point)[0]), 8)][point] = 1
        planes[35 + min(played.liberties(point), 8)][point] = 1
        planes[44][point] = captures_in_ladder(board, point, colour, effort)
        planes[45][point] = escapes_a_ladder(board, point, colour, effort)
        planes[46][point] = not board.is_eye(point, colour)
    return planes


def slow_ladders(board: ReferenceBoard, colour: int, effort: Effort) -> np.ndarray:
    """(14, n, n): what arena-31 has behind the planes of arena-17."""
    planes = np.zeros((14, board.size, board.size), np.float32)
    for point in np.ndindex(board.size, board.size):
        stone = board.stones.get(point)
        for turn, mover in enumerate((colour, 3 - colour)):
            played = board.played(point, mover) if stone is None else None
            if played is not None:
                planes[8 + turn][point] = played.liberties(point) == 1
                planes[4 + turn][point] = captures_in_ladder(board, point, mover, effort)
                planes[6 + turn][point] = escapes_a_ladder(board, point, mover, effort)
        if stone is not None:
            theirs, open_points = int(stone != colour), board.open_points(point)
            if len(open_points) == 1:
                planes[0 + theirs][point] = is_caught(board, point, effort)
            elif len(open_points) == 2:
                planes[2 + theirs][point] = is_chased(board, point, effort)
            elif len(open_points) in (4, 5):
                planes[2 + 2 * len(open_points) + theirs][point] = 1
    return planes


def slow_gocnn(board: ReferenceBoard, colour: int) -> np.ndarray:
    planes = np.zeros((8, board.size, board.size), np.float32)
    planes[7] = colour == BLACK  # it was ones
    for point, stone in board.stones.items():
        planes[(0 if stone == colour else 3) + min(board.liberties(point), 3) - 1][point] = 1
    if board.ko is not None:
        planes[6][board.ko] = 1
    return planes


@pytest.mark.parametrize(
    ("size", "rules", "seeds", "most"),
    [(5, "tromp-taylor", 8, 75), (7, "japanese", 4, 100), (9, "cgos", 3, 150), (13, "chinese", 1, 200)],
)
def test_the_encoders_agree_with_their_slow_twins(size: int, rules: str, seeds: int, most: int) -> None:
    """Those of others in fewer positions, where no chase is so long that it is cut short."""
    seen, rare = np.zeros((3, 48), bool), {25, 26, 27, 33, 34, 35, 47}  # six stones and more; zeros
    for seed in range(seeds):
        game = wild_game(size, rules, seed, most)
        for again, board, ply in follow(game):
            colour, effort, moves = ply % 2 + 1, Effort(), game.moves[:ply]
            expected = {"arena-17": slow_arena(board, colour, moves, game.rules.komi)}
            if size < 10 and ply < 50 and seed < 3:
                alphago = slow_alphago(board, colour, moves, effort)
                assert effort["spent"] < min(EFFORT, DEPTH), "a chase this long is cut short"
                expected |= {"alphago-48": alphago, "stones-1": alphago[:1] - alphago[1:2]}
                expected["gocnn-8c"] = slow_gocnn(board, colour)
                ladders = slow_ladders(board, colour, effort)
                expected["arena-31"] = np.concatenate([expected["arena-17"], ladders])
                seen[2, :14] |= ladders.any(axis=(1, 2))
                seen[1] |= alphago.any(axis=(1, 2))
            seen[0, :17] |= expected["arena-17"].any(axis=(1, 2))
            for name, planes in expected.items():
                encoded = encode_game(find_encoder(name), again, ply % 8)
                assert encoded.dtype == np.float32 and np.array_equal(encoded, apply_symmetry(planes, ply % 8))
    assert seen[0, :17].all() and (size != 9 or seen[2, :14].all()), "a plane that was never set proves nothing"
    assert size > 5 or set(np.flatnonzero(~seen[1]).tolist()) <= rare, "a plane that was never set proves nothing"


@pytest.mark.parametrize("size", [5, 9, 19])
@pytest.mark.parametrize("encoder", [ENCODER, find_encoder("katago-22")], ids=lambda encoder: encoder.name)
def test_rows_from_move_lists_equal_those_of_games(encoder: Encoder, size: int) -> None:
    """Plies of games by all rules in any order, some twice, with every symmetry."""
    games = [wild_game(size, rules, seed, 90) for rules in PRESETS for seed in range(3 if size < 19 else 1)]
    moves = np.concatenate([np.array(game.moves, np.uint16) for game in games])
    starts = np.cumsum([0, *(len(game.moves) for game in games)])
    komis = np.array([game.rules.komi for game in games], np.float32)
    rules = np.array([game.rules.bits for game in games]) if encoder.has_past else None
    owners = np.repeat(np.arange(len(games)), np.diff(starts))
    plies = np.arange(len(moves)) - starts[owners]
    symmetries = (np.arange(len(moves)) % 8).astype(np.uint8)
    expected: list[np.ndarray] = []
    for game in games:
        expected += [encode_game(encoder, again, (len(expected) + ply) % 8) for again, _, ply in follow(game)][:-1]
    order = np.random.default_rng(size).integers(0, len(moves), 2 * len(moves))
    rows = owners[order], plies[order], symmetries[order]
    planes = encode_rows(encoder, size, moves, starts, komis, *rows, 2, rules)
    assert (planes.reshape(-1, encoder.planes, size, size) == np.array(expected)[order]).all()


# A random game in SGF points (tt passes), with captures, kos and passes.
FROZEN_GAME = """
    ab cc dd bi ed hg gf ia cb bg tt fi ba bb hc fb ei ff cd ce af dc bf bd tt ii da gb ha fh
    bh ac ae id ga ci db ef bc ie be fe ib de cg gi tt di eh eg ea bb ag cf ai tt fd ic hd df
    gc hh fg eb ca dg fc if ec ee dh bc hb ih ge hf cf dg eg ce ef aa ch ff ab gg bi fe ci df
    tt he ee fe ff aa de ab dg fa ba ig db ca ea fb fa da tt eb ad cb gb db ba aa cc fb ca bb
"""
FROZEN_DIGESTS = {
    "stones-1": "7d85c21aa34c72aaef0f6e92f596f003fe6e70f4c732612af5900ff60f7bd3db",
    "gocnn-8c": "11d981f9f308f6a74464b5c447ce4ce1b9adf2a4c02c06a7d038e55e8345b3b6",
    "arena-17": "6ebb586e0fafb10f4d81c393e4ffbc8260766d5f0bf05d595bffc6904f456252",
    "arena-31": "634045dcaff596c6c5136fd64531788d9c9b1ff6228fe0d937517da1c19cb453",
    "alphago-48": "bc18eb8c1d5fdc934decddb82223c6fee8faaf2547662e08acbf36f55f898853",
    "katago-22": "d3c7ea4f33e20cf63ccff8641ad1b7bfba9bf35faf694fdac5bfdd88e6a01212",
    "human-34": "4d2325b4020427d7640a5f6256df04bcaa26c71e0503da78b24862ae5d8f6f93",
    "katago-human": "914211f46e203b373baf7bbdbb5abc59500aedbb0b31d98a4751669c3a62051a",
}


@pytest.mark.parametrize("name", ENCODERS)
def test_what_an_encoder_computes_is_frozen(name: str) -> None:
    """A checkpoint names its encoder: when this fails, the change needs a new encoder with a new name."""
    game = Game(Rules.preset("cgos", 9, komi=7.5))
    digest = hashlib.sha256()
    kos = 0
    for number, move in enumerate(FROZEN_GAME.split()):
        game.play(moves_by_sgf(9)[move.encode()])
        kos += game.board.ko_point is not None
        planes = encode_games(ENCODERS[name], [game], number % 8, ranks=(-11, 3))[0]
        digest.update(planes.astype("<f4").tobytes())
    assert kos > 2 and game.captured_stones(1) > 5 and game.captured_stones(2) > 5
    assert digest.hexdigest() == FROZEN_DIGESTS[name]


def test_komi_has_the_points_that_white_gets_for_handicap_stones() -> None:
    """A net saw another komi than the search around it."""
    stones = handicap_points(9, 4)
    given, equal = (Game(Rules.preset(rules, 9, komi), black=stones) for rules, komi in (("chinese", 1), ("cgos", 5)))
    assert (encode_game(ENCODER, given) == encode_game(ENCODER, equal)).all()


@pytest.mark.parametrize(("breaker", "captures"), [(".", ["D3"]), ("O", [])])
def test_a_ladder_runs_across_the_board_until_a_stone_breaks_it(breaker: str, captures: list[str]) -> None:
    """A white stone at C3 that Black chases to the upper right, and there another at G7."""
    rows = f"......... ......... ......{breaker}.. ......... ......... .X....... .XO...... ..X...... ........."
    planes = encode_game(find_encoder("alphago-48"), position(rows))
    assert [gtp_from_move(int(move), 9) for move in np.flatnonzero(planes[44])] == captures
    game = position(rows, to_play=WHITE)
    game.board.put(move_from_gtp("D3", 9), BLACK)
    assert encode_game(find_encoder("alphago-48"), game)[45].any() == (breaker == "O")


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
