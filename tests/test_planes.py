"""The encoder arena-17 against its slow twin, written here; and a digest that freezes what it computes."""

import hashlib

import numpy as np
import pytest
from reference import ReferenceBoard
from test_game import KO, play, position

from arena import CheckpointError
from arena.go.coords import BLACK, apply_symmetry, moves_by_sgf, pass_move
from arena.go.game import Game, Rules
from arena.go.planes import ENCODERS, encode_game, encode_games, encode_rows, find_encoder

ENCODER = find_encoder("arena-17")


def slow_planes(board: ReferenceBoard, colour: int, moves: list[int], komi: float) -> np.ndarray:
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


def random_game(size: int, rules: str, seed: int, most: int) -> Game:
    """Random legal moves, eyes kept for the most part; passes now and then, and kos where there are some to take."""
    game = Game(Rules.preset(rules, size, komi=float(seed - 4) + 0.5), seed=seed)
    random = np.random.default_rng(seed)
    while len(game.moves) < most and not game.is_over:
        legal = game.legal_moves()
        if random.random() < 0.9:
            legal = game.sensible_moves()
        choices = np.flatnonzero(legal[:-1])
        kos = [move for move in choices.tolist() if makes_ko(game, move)] if random.random() < 0.2 else []
        passes = not len(choices) or random.random() < 0.03
        game.play(pass_move(size) if passes else int(random.choice(kos or choices)))
    return game


def makes_ko(game: Game, move: int) -> bool:
    after = game.copy()
    after.play(move)
    return after.board.ko_point is not None


@pytest.mark.parametrize(
    ("size", "rules", "seeds", "most"),
    [
        (5, "tromp-taylor", range(8), 75),
        (7, "japanese", range(4), 100),
        (9, "cgos", range(3), 150),
        (13, "chinese", range(1), 200),
        (19, "cgos", range(1), 200),
    ],
)
def test_every_position_of_random_games_agrees_with_the_slow_twin(
    size: int, rules: str, seeds: range, most: int
) -> None:
    seen = np.zeros(17, bool)
    for seed in seeds:
        game = random_game(size, rules, seed, most)
        again, board = Game(game.rules), ReferenceBoard(size)
        for ply, move in enumerate([*game.moves, None]):
            rare = again.board.ko_point is not None or again.moves[-1:] == [pass_move(size)]
            if size < 13 or ply % 5 == 0 or rare:
                colour, komi = ply % 2 + 1, game.rules.komi
                expected = slow_planes(board, colour, game.moves[:ply], komi)
                symmetry = ply % 8
                planes = encode_game(ENCODER, again, symmetry)
                assert planes.shape == (17, size, size) and planes.dtype == np.float32
                assert (planes == apply_symmetry(expected, symmetry)).all()
                seen |= expected.any(axis=(1, 2))
            if move is None:
                break
            again.play(move)
            if move == size * size:
                board.ko = None
            else:
                board.put(divmod(move, size), ply % 2 + 1)
    assert seen.all(), "a plane that was never set proves nothing"


def test_the_planes_of_a_small_position_look_like_this() -> None:
    """White to play after Black took a ko at C4; komi 7 is White's."""
    game = play(position(KO, komi=7), "E1 pass C4")
    planes = encode_game(ENCODER, game)
    drawn = {
        number: "\n".join("".join(".1"[int(value)] for value in row) for row in planes[number])
        for number in range(17)
        if set(planes[number].reshape(-1).tolist()) == {0, 1}
    }
    shown = """
        0 own   1 them  3 own1  4 own2  5 own3  6 them1 7 them2 8 them3 9 ko    10 last 12 third
        ..1..   .1...   ..1..   .....   .....   .....   .1...   .....   .....   .....   .....
        ...1.   1.1..   .....   .....   ...1.   ..1..   .....   1....   .1...   ..1..   .....
        ..1..   .1...   .....   ..1..   .....   .....   .....   .1...   .....   .....   .....
        .....   .....   .....   .....   .....   .....   .....   .....   .....   .....   .....
        .....   ....1   .....   .....   .....   .....   ....1   .....   .....   .....   ....1
    """
    _, *rows = (line.split() for line in shown.strip().splitlines())
    columns = ["\n".join(column) for column in zip(*rows, strict=True)]
    assert drawn == dict(zip((0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 12), columns, strict=True))
    constant = {2: 1.0, 11: 0.0, 13: 0.0, 14: 0.0, 15: np.float32(7 / 15), 16: 0.0}
    assert all((planes[number] == value).all() for number, value in constant.items())


@pytest.mark.parametrize("size", [5, 9, 13, 19])
def test_rows_from_move_lists_equal_those_of_games(size: int) -> None:
    """Plies of some games in any order, some twice, with every symmetry."""
    games = [random_game(size, "tromp-taylor" if size == 5 else "cgos", seed, 60) for seed in range(3)]
    moves = np.concatenate([np.array(game.moves, np.uint16) for game in games])
    starts = np.cumsum([0, *(len(game.moves) for game in games)])
    komis = np.array([game.rules.komi for game in games], np.float32)
    owners = np.concatenate([np.full(len(game.moves), number) for number, game in enumerate(games)])
    plies = np.concatenate([np.arange(len(game.moves)) for game in games])
    symmetries = (np.arange(len(moves)) % 8).astype(np.uint8)
    expected = []
    for game in games:
        again = Game(game.rules)
        for move in game.moves:
            expected.append(encode_game(ENCODER, again, len(expected) % 8))
            again.play(move)
    order = np.random.default_rng(size).integers(0, len(moves), 2 * len(moves))
    planes = encode_rows(ENCODER, size, moves, starts, komis, owners[order], plies[order], symmetries[order])
    assert (planes.reshape(-1, 17, size, size) == np.array(expected)[order]).all()


# A random game in SGF points (tt passes), with captures, kos and passes.
FROZEN_GAME = """
    ab cc dd bi ed hg gf ia cb bg tt fi ba bb hc fb ei ff cd ce af dc bf bd tt ii da gb ha fh
    bh ac ae id ga ci db ef bc ie be fe ib de cg gi tt di eh eg ea bb ag cf ai tt fd ic hd df
    gc hh fg eb ca dg fc if ec ee dh bc hb ih ge hf cf dg eg ce ef aa ch ff ab gg bi fe ci df
    tt he ee fe ff aa de ab dg fa ba ig db ca ea fb fa da tt eb ad cb gb db ba aa cc fb ca bb
"""
FROZEN_DIGESTS = {
    "stones-1": "7d85c21aa34c72aaef0f6e92f596f003fe6e70f4c732612af5900ff60f7bd3db",
    "gocnn-8": "7bb1c3b1195e1441f5de3d6f22e51fcbf6cd64c6631b47bc110c392f90fcedcd",
    "arena-17": "6ebb586e0fafb10f4d81c393e4ffbc8260766d5f0bf05d595bffc6904f456252",
    "alphago-48": "bc18eb8c1d5fdc934decddb82223c6fee8faaf2547662e08acbf36f55f898853",
    "alphago-49": "172b2c962f14578a597eb1180dbf26fa21ab13710272eb8f264ff6966343ab3d",
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
        planes = encode_game(ENCODERS[name], game, number % 8)
        digest.update(planes.astype("<f4").tobytes())
    assert kos > 2 and game.captured_stones(1) > 5 and game.captured_stones(2) > 5
    assert digest.hexdigest() == FROZEN_DIGESTS[name]


def test_the_encoders_are_found_by_name() -> None:
    planes = {"stones-1": 1, "gocnn-8": 8, "arena-17": 17, "alphago-48": 48, "alphago-49": 49}
    assert {name: encoder.planes for name, encoder in ENCODERS.items()} == planes
    assert ENCODERS["arena-17"] is ENCODER
    words = "unknown encoder 'arena-18'; this version has stones-1, gocnn-8, arena-17"
    with pytest.raises(CheckpointError, match=words):
        find_encoder("arena-18")


def test_games_on_boards_of_several_sizes_are_not_encoded_beyond_the_smaller_board() -> None:
    games = [Game(Rules.preset("cgos", size)) for size in (19, 5)]
    with pytest.raises(ValueError, match="several sizes"):
        encode_games(ENCODERS["arena-17"], games)
