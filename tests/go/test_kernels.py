"""The kernels against their slow twin, move by move in random games; also uncompiled and with checked bounds."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from helpers.reference import ReferenceGame
from sgfmill.boards import Board as SgfmillBoard

import arena
from arena import IllegalMove
from arena.go.board import Board
from arena.go.game import Game, Outcome, Rules, Scoring

REASONS = {"taken": "is taken", "ko": "retakes the ko", "suicide": "is suicide", "superko": "superko"}


def play_beside_the_twin(size: int, preset: str, seed: int, most: int) -> set[str | None]:
    """Play a random game on both boards, comparing all that the kernels know before every move; some moves may fill
    eyes, so that suicides, long captures and repetitions happen. Returns why moves were refused."""
    rules = Rules.preset(preset, size, move_limit=10_000)
    game, twin, other = Game(rules, seed=seed), ReferenceGame(size, rules.superko, rules.suicide), SgfmillBoard(size)
    random, eyes, met = np.random.default_rng(seed), 0.3 if seed % 2 else 0.1, set[str | None]()
    for number in range(most):
        legal, refusals = game.legal_moves(), [twin.refusal(move) for move in range(size * size + 1)]
        assert legal.tolist() == [refusal is None for refusal in refusals]
        met.update(refusals)
        compare(game, twin, deep=number % 7 == 0)
        sensible = legal if random.random() < eyes else game.sensible_moves()
        choices = np.flatnonzero(sensible[:-1])
        move = int(random.choice(choices)) if len(choices) else size * size
        illegal = np.flatnonzero(~legal)
        if len(illegal):
            refused = int(random.choice(illegal))
            with pytest.raises(IllegalMove, match=REASONS[refusals[refused] or ""]):
                game.play(refused)
        placed = game.placed_stones(game.to_play)
        if move != size * size:
            other.play(size - 1 - move // size, move % size, game.to_play.letter.lower())
        game.play(move)
        twin.play(move)
        assert game.placed_stones(game.to_play.opponent) == placed + (move != size * size)
        assert (len(game.hashes), int(game.hashes[-1])) == (number + 2, game.board.hash)
        if game.is_over:
            assert game.outcome == Outcome.scored(game.margin())
            break
    compare(game, twin, deep=True)
    assert game.board.area_margin() == other.area_score()
    return met


def compare(game: Game, twin: ReferenceGame, deep: bool) -> None:
    size = game.rules.size
    stones = [[twin.board.stones.get((row, column), 0) for column in range(size)] for row in range(size)]
    assert game.board.stones.tolist() == stones
    assert game.board.ko_point == (None if twin.board.ko is None else twin.board.ko[0] * size + twin.board.ko[1])
    assert game.captured_stones(1) == twin.captured[1] and game.captured_stones(2) == twin.captured[2]
    if deep:
        rebuilt = Board(size)
        for (row, column), colour in twin.board.stones.items():
            rebuilt.put(row * size + column, colour)
            assert game.board.liberties(row * size + column) == twin.board.liberties((row, column))
        assert rebuilt.hash == game.board.hash
        eyes = [twin.board.is_eye(divmod(move, size), int(game.to_play)) for move in range(size * size)]
        assert game.sensible_moves()[:-1].tolist() == (game.legal_moves()[:-1] & ~np.array(eyes)).tolist()
        assert game.board.area_margin() == twin.board.area_margin()
        assert game.board.territory_margin() == twin.board.territory_margin()
        points = twin.board.territory_margin() + twin.captured[2] - twin.captured[1]
        points = points if game.rules.scoring is Scoring.TERRITORY else twin.board.area_margin()
        assert game.margin() == points - game.rules.komi
        owners = {**twin.board.territory(), **twin.board.stones}
        assert game.board.owners().tolist() == [owners[divmod(move, size)] for move in range(size * size)]


SMALL = product([(5, 6, 250), (9, 2, 250)], ["cgos", "tromp-taylor", "japanese"])


@pytest.mark.smoke
@pytest.mark.parametrize(("how", "preset"), [*SMALL, ((19, 1, 9), "cgos")])
def test_random_games_agree_with_the_slow_twin(how: tuple[int, int, int], preset: str) -> None:
    size, games, most = how
    met = set().union(*(play_beside_the_twin(size, preset, seed, most) for seed in range(games)))
    assert size > 5 or preset != "cgos" or {"ko", "superko", "suicide", "taken"} <= met, "that would prove little"


@pytest.mark.parametrize("switch", ["NUMBA_DISABLE_JIT", pytest.param("NUMBA_BOUNDSCHECK", marks=pytest.mark.slow)])
def test_the_kernels_also_agree_uncompiled_and_with_checked_bounds(switch: str) -> None:
    folder = Path(__file__).parents[1]
    code = (
        "from test_kernels import play_beside_the_twin as play\n"
        "for size, rules in ((5, 'cgos'), (5, 'tromp-taylor'), (9, 'cgos')): play(size, rules, 3, 60)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parent), str(folder), str(folder.parent)])
    code += (
        "from arena.contract.bot import Limits\n"
        "from arena.go.game import Game, Rules\n"
        "from bots.alphago import AlphaGo, Config\n"
        "print(AlphaGo(Config(visits=4)).choose(Game(Rules.preset()), Limits()).visits)\n"
    )
    assert int(run(code, folder, **{switch: "1", "PYTHONPATH": path}).stdout) > 1


def run(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of Python's that has run this code in a folder."""
    settings = {"cwd": folder, "env": {**os.environ, **environment}, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", code], timeout=240, **settings)
    assert done.returncode == 0, done.stderr
    return done


TINY = "from arena.go.jit import kernel\n\n\n@kernel\ndef double(number):\n    return 2 * number\n"


def test_a_damaged_cache_of_kernels_is_made_anew(tmp_path: Path) -> None:
    """Empty, cut or garbage, in the index or in the machine code."""
    names = [f"double_{number}" for number in range(6)]
    (tmp_path / "tiny.py").write_text("".join(TINY.replace("double", name) for name in names))
    code = f"import tiny; kernels = [tiny.{', tiny.'.join(names)}]; assert all(one(21) == 42 for one in kernels); "
    code += "print(sum(sum(one.stats.cache_hits.values()) for one in kernels))"

    def hits() -> int:
        return int(run(code, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache")).stdout)

    assert hits() == 0
    damages = [lambda whole: b"", lambda whole: whole[:-50], lambda whole: bytes(range(256))]
    for name, (kind, damage) in zip(names, product(("nbi", "nbc"), damages), strict=True):
        (path,) = (tmp_path / "cache").rglob(f"tiny.{name}-*.{kind}")
        path.write_bytes(damage(path.read_bytes()))
    assert (hits(), hits()) == (0, 6)


def test_two_environments_share_the_kernels_of_the_same_sources(tmp_path: Path) -> None:
    package = Path(arena.__file__).parent
    code = "from arena.go import tiny; assert tiny.double(21) == 42; print(sum(tiny.double.stats.cache_hits.values()))"

    def hits(folder: Path) -> int:
        return int(run(code, folder, XDG_CACHE_HOME=str(tmp_path), NUMBA_CACHE_DIR="", PYTHONPATH=str(folder)).stdout)

    for name in ("one", "other"):
        shutil.copytree(package, tmp_path / name / "arena", ignore=shutil.ignore_patterns("__pycache__"))
        (tmp_path / name / "arena/go/tiny.py").write_text(TINY)
    assert [hits(tmp_path / name) for name in ("one", "other")] == [0, 1]
    (tmp_path / "other/arena/go/tiny.py").write_text(TINY.replace("2 *", "0 * number + 42 +  0 *"))
    assert hits(tmp_path / "other") == 0


def test_variants_of_a_kernel_that_several_processes_save_at_once_are_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(TINY)
    code, cache = "import tiny; assert tiny.double({0}) == 2 * {0}", tmp_path / "cache"
    with ThreadPoolExecutor(3) as threads:
        list(
            threads.map(lambda value: run(code.format(value), tmp_path, NUMBA_CACHE_DIR=str(cache)), ("3", "3.5", "3j"))
        )
    assert len(list(cache.rglob("*.nbc"))) == 3


def test_without_a_place_for_compiled_kernels_they_are_compiled_and_that_is_said_once(tmp_path: Path) -> None:
    """Also with a number of threads that Numba itself can't work with."""
    (tmp_path / "tiny.py").write_text(TINY + TINY.replace("double", "triple").replace("2 *", "3 *"))
    (tmp_path / "file").touch()
    code, cache = "import tiny; print(tiny.double(21) + tiny.triple(21))", str(tmp_path / "file" / "in")
    done = run(code, tmp_path, NUMBA_CACHE_DIR=cache, NUMBA_NUM_THREADS="0")
    assert done.stdout == "105\n" and done.stderr.count("\n") == 1 and "can't be kept" in done.stderr
