"""The rollout policy: its features against a slow twin, what its playouts draw, training in small, its checkpoint."""

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.reference import Point, ReferenceBoard, is_self_atari, ring

from arena import CheckpointError
from arena.go import kernels
from arena.go.board import move_from_point, point_from_move
from arena.go.coords import move_from_gtp, symmetry_table
from arena.go.game import Game, Outcome, Rules
from arena.go.jit import kernel
from arena.go.kernels import BOARD, CELLS, U
from arena.go.record import GameRecord
from arena.go.sgf import write_sgf
from bots.nets.checkpoint import SHIPPED_NETS
from bots.nets.rollout import RolloutPolicy
from bots.search import rollouts
from trainers import records as data
from trainers import rollout

SIZE = 7

pytestmark = pytest.mark.xdist_group("rollout")  # one worker compiles the kernels of this file, not all of them


@kernel
def features_of(boards, colour, last, previous, captured, candidates, features, counts):
    scratch = np.empty((4, 2 * CELLS), np.int64)
    return rollouts.list_features(boards[0], colour, last, previous, captured, candidates, features, counts, scratch)


@kernel
def write_priors(boards, colour, last, previous, weights, priors):
    rollouts.policy_priors(boards[0], colour, last, previous, weights, priors)


@kernel
def draw_moves(boards, weighed, seed, counts):
    """Draw as many moves in the position as there are ``counts`` of a pass at first: counts by point, a pass at 0."""
    state = kernels.seeded(seed)
    sums, total = np.empty(32, np.float32), counts[0]
    counts[0] = 0
    for _ in range(total):
        chosen, state = rollouts.draw_move(boards[0], weighed, sums, state)
        counts[chosen] += 1


@kernel
def play_by_policy(boards, weights, seed, moves):
    """Play by the policy; counts illegal moves and eyes, and stones that were taken."""
    board, state = boards[0], kernels.seeded(seed)
    weighed, sums, scratch = np.zeros(CELLS, np.float32), np.empty(32, np.float32), np.zeros((3, 2 * CELLS), np.int64)
    last = previous = captured = np.int64(0)
    colour = 1
    forbidden = taken = 0
    for _ in range(moves):
        rollouts.weigh_moves(board, colour, last, previous, captured, weights, scratch, weighed)
        chosen, state = rollouts.draw_move(board, weighed, sums, state)
        captured, board.ko = np.int64(0), board.ko if chosen else 0
        if chosen:
            forbidden += board.colour[U(chosen)] != 0 or not kernels.is_legal(board, chosen, colour)
            forbidden += kernels.is_eye(board, chosen, colour)
            before = np.int64(board.empty_count)
            kernels.place(board, chosen, colour, np.bool_(False))
            captured = np.int64(board.empty_count) - before + 1
            taken += captured
        previous, last, colour = last, chosen, 3 - colour
    return forbidden, taken


def offset_code(rows: int, columns: int) -> int:
    near, far = sorted((min(abs(rows), rollouts.REACH - 1), min(abs(columns), rollouts.REACH - 1)))
    return near * rollouts.REACH + far


def spot_code(row: int, column: int, size: int) -> int:
    lines = sorted(min(at, size - 1 - at, rollouts.LINES - 1) for at in (row, column))
    return lines[0] * rollouts.LINES + lines[1]


def size_class(stones: int) -> int:
    return stones if stones <= 3 else 4 if stones <= 5 else 5


def seen_by(colour: int, code: int) -> int:
    """A ring with the colours as the side to move sees them."""
    fields = [(code >> 2 * i) & 3 for i in range(8)]
    return sum((field if colour == 1 or field in (0, 3) else 3 - field) << 2 * i for i, field in enumerate(fields))


def twin_features(
    board: ReferenceBoard, colour: int, last: Point | None, previous: Point | None, captured: set[Point]
) -> dict[Point | None, list[int]]:
    """The codes of every move that the policy considers, sorted; None is the pass."""
    filled = len(board.stones) * 100 // board.size**2
    phase = sum(filled >= end for end in (2, 5, 10, 17, 26, 38, 54))
    found: dict[Point | None, list[int]] = {None: [rollouts.PASS + 2 * phase + (last is None)]}
    for p in np.ndindex(board.size, board.size):
        if board.refusal(p, colour, suicide=False) is not None or board.is_eye(p, colour):
            continue
        cross = 0
        captures, rescues, gives = [0], [0], [0]
        for place, (down, right) in enumerate(((-1, 0), (0, -1), (0, 1), (1, 0))):
            q = p[0] + down, p[1] + right
            inside = 0 <= q[0] < board.size and 0 <= q[1] < board.size
            there = board.stones.get(q, 0) if inside else 3
            kind = int(there == 3)
            if there in (1, 2):
                count, stones = min(3, board.liberties(q)), len(board.group(q)[0])
                kind = (1 if there == colour else 4) + count
                if count == 1:
                    (rescues if there == colour else captures).append(stones)
                if count == 2 and there != colour:
                    gives.append(stones)
            cross |= kind << 3 * place
        after = board.copy()
        after.put(p, colour)
        own = [q for q in board.neighbours(p) if board.stones.get(q) == colour]
        if max(captures) or any(board.liberties(q) > 2 for q in own):
            safety = 0
        elif (room := len(after.open_points(p))) >= 2:
            safety = 0 if room >= 3 else 1
        else:
            assert is_self_atari(board, p, colour)
            largest = max([len(board.group(q)[0]) for q in own], default=0)
            safety = 2 if largest == 0 else 3 if largest <= 2 else 4
        tactics = (safety * rollouts.SIZES + size_class(max(captures))) * rollouts.SIZES + size_class(max(rescues))
        codes = [
            rollouts.RING + seen_by(colour, ring(board, p)),
            rollouts.CROSS + cross,
            rollouts.TACTICS + tactics * rollouts.GIVEN + min(3, max(gives)),
            rollouts.SPOT + phase * rollouts.SPOTS + spot_code(*p, board.size),
        ]
        for begin, other in ((rollouts.LAST, last), (rollouts.PREVIOUS, previous)):
            if other is not None:
                codes.append(begin + offset_code(p[0] - other[0], p[1] - other[1]))
        if last is not None:
            codes += answers(board, colour, last, p)
        if 3 <= len(captured) <= 6 and p in captured:
            beside = sum(q in captured for q in board.neighbours(p))
            codes.append(rollouts.NAKADE + (len(captured) - 3) * 5 + beside)
        found[p] = sorted(codes)
    return found


def answers(board: ReferenceBoard, colour: int, last: Point, p: Point) -> set[int]:
    codes = set()
    row, column = last[0] - p[0] + 1, last[1] - p[1] + 1
    if 0 <= row < 3 and 0 <= column < 3:
        direction = 3 * row + column
        codes.add(rollouts.RESPONSE + (direction - (direction > 4) << 16) + seen_by(colour, ring(board, p)))

    def note(kind: int, group: Point) -> None:
        codes.add(rollouts.ANSWER + kind * rollouts.SIZES + size_class(len(board.group(group)[0])))

    if p in board.open_points(last) and board.liberties(last) <= 2:
        note(rollouts.TAKE if board.liberties(last) == 1 else rollouts.CHASE, last)
    for q in board.neighbours(last):
        if board.stones.get(q) != colour or board.liberties(q) > 2:
            continue
        if p in board.open_points(q):
            note(rollouts.ESCAPE if board.liberties(q) == 1 else rollouts.EXTEND, q)
        around = board.group(q)[1] - board.open_points(q)
        if board.liberties(q) == 1 and any(board.open_points(r) == {p} for r in around):
            note(rollouts.COUNTER, q)
    return codes


def random_positions(size: int, seed: int) -> Iterator[tuple[Game, ReferenceBoard, set[Point]]]:
    """Positions of a game of random moves that fill eyes at times, with the stones that the last move took."""
    game, twin = Game(Rules.preset("cgos", size), seed=seed), ReferenceBoard(size)
    random = np.random.default_rng(seed)
    for _ in range(3 * size * size):
        choices = np.flatnonzero((game.sensible_moves() if random.random() > 0.05 else game.legal_moves())[:-1])
        if not len(choices):
            return
        move, colour, before = int(random.choice(choices)), int(game.to_play), set(twin.stones)
        game.play(move)
        twin.put(divmod(move, size), colour)
        yield game, twin, before - set(twin.stones)


@pytest.mark.parametrize(("size", "seed"), [(5, 1), (5, 2), (7, 3), (9, 4)])
def test_the_features_are_those_of_the_slow_twin(size: int, seed: int) -> None:
    candidates, counts = np.empty(CELLS, np.int64), np.empty(CELLS, np.int64)
    features = np.empty((CELLS, rollouts.MAX_FEATURES), np.int64)
    seen: set[int] = set()
    for number, (game, board, captured) in enumerate(random_positions(size, seed)):
        if number % 2 and len(captured) < 3:
            continue
        recent = [None, *(divmod(move, size) for move in game.moves)]
        points = [0 if p is None else int(point_from_move(p[0] * size + p[1], size)) for p in recent]
        last, previous, colour = points[-1], points[-2], int(game.to_play)
        count = features_of(game.board.array, colour, last, previous, len(captured), candidates, features, counts)
        ours = {
            None if point == 0 else divmod(move_from_point(int(point), size), size): sorted(features[k, : counts[k]])
            for k, point in enumerate(candidates[:count])
        }
        assert ours == twin_features(board, colour, recent[-1], recent[-2], captured)
        seen |= {code for codes in ours.values() for code in codes}
    for begin in (rollouts.TACTICS, rollouts.SPOT, rollouts.LAST, rollouts.PREVIOUS, rollouts.RESPONSE):
        assert any(begin <= code for code in seen)
    for kind in (rollouts.TAKE, rollouts.CHASE, rollouts.ESCAPE, rollouts.COUNTER, rollouts.EXTEND):
        assert any((code - rollouts.ANSWER) // rollouts.SIZES == kind for code in seen), kind
    assert size > 5 or any(rollouts.NAKADE <= code < rollouts.PASS for code in seen)


def game_of(*moves: int) -> Game:
    game = Game(Rules.preset("cgos", SIZE))
    for move in moves:
        game.play(move)
    return game


def any_weights(size: int, seed: int = 0) -> rollouts.Weights:
    """By chance, the same under symmetry."""
    return rollouts.expand_weights(np.random.default_rng(seed).normal(0, 0.7, len(rollout.untrained())), size)


def priors(game: Game, weights: rollouts.Weights) -> np.ndarray:
    """By point, a pass at 0."""
    size, found = game.rules.size, np.zeros(CELLS, np.float32)
    previous, last = (int(point_from_move(move, size)) for move in [size * size, size * size, *game.moves][-2:])
    write_priors(game.board.array, int(game.to_play), last, previous, weights, found)
    return found


def by_move(by_point: np.ndarray, size: int) -> np.ndarray:
    return by_point[[point_from_move(move, size) for move in range(size * size + 1)]]


def probabilities(game: Game, weights: rollouts.Weights) -> np.ndarray:
    return by_move(priors(game, weights), game.rules.size)


@pytest.mark.parametrize("size", [5, 9, 19])
def test_no_move_is_illegal_or_fills_an_eye(size: int) -> None:
    boards = np.zeros(1, BOARD)
    for seed in range(3):
        kernels.clear(boards[0], size)
        forbidden, taken = play_by_policy(boards, any_weights(size, seed), seed, 3 * size * size)
        assert forbidden == 0 and taken > 5


def test_probabilities_do_not_depend_on_symmetry_or_colour() -> None:
    weights = any_weights(SIZE)
    moves = [move for game, _, _ in random_positions(SIZE, 5) for move in game.moves[-1:]][:40]
    expected = probabilities(game_of(*moves), weights)
    for table in symmetry_table(SIZE):
        turned = game_of(*table[moves].tolist())
        assert probabilities(turned, weights)[table] == pytest.approx(expected, abs=1e-6)
    assert probabilities(game_of(SIZE * SIZE, *moves), weights) == pytest.approx(expected, abs=1e-6)


def test_moves_are_drawn_as_the_probabilities_say() -> None:
    game = game_of(*(move_from_gtp(word, SIZE) for word in "D4 D5 E4 C4 E5 D3 C5".split()))
    weighed, counts = priors(game, any_weights(SIZE, 3)), np.zeros(CELLS, np.int64)
    total = counts[0] = 20_000
    expected = by_move(weighed, SIZE)
    draw_moves(game.board.array, weighed, 1, counts)
    seen = by_move(counts, SIZE)
    assert seen.sum() == total and not seen[expected == 0].any()
    often = expected * total > 5
    error = ((seen - expected * total)[often] ** 2 / (expected * total)[often]).sum()
    assert error < often.sum() + 4 * np.sqrt(2 * often.sum())  # 4 sigma of chi square


def played_by_habit(seed: int) -> GameRecord:
    """A game whose moves are beside the last one where that can be: something to learn."""
    game, random = Game(Rules.preset("cgos", SIZE), seed), np.random.default_rng(seed)
    for _ in range(30):
        choices = np.flatnonzero(game.legal_moves()[:-1])
        last = game.moves[-1] if game.moves else 10**6
        near = choices[np.abs(choices // SIZE - last // SIZE) + np.abs(choices % SIZE - last % SIZE) == 1]
        game.play(int(random.choice(near if len(near) else choices)))
    game.outcome = Outcome.scored(game.margin())
    return GameRecord.from_game(game, date=f"2017-05-{1 + seed % 28:02}")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> rollout.Config:
    path = tmp_path_factory.mktemp("records") / "habit.sgfs"
    path.write_text("".join(f"{write_sgf(played_by_habit(seed))}\n" for seed in range(60)))
    records = {"data": (str(path),), "test_from": "2017-05-20", "validation_split": 0.1}
    return rollout.Config("habit", SIZE, epochs=5, **records)


@pytest.fixture(scope="module")
def trained(config: rollout.Config, tmp_path_factory: pytest.TempPathFactory) -> RolloutPolicy:
    return RolloutPolicy.open(rollout.train(config, tmp_path_factory.mktemp("results")))


def test_training_beats_all_moves_as_likely_on_games_kept_aside_and_the_same_seed_learns_the_same(
    trained: RolloutPolicy, config: rollout.Config, tmp_path: Path
) -> None:
    metrics = trained.checkpoint.manifest.metrics
    assert metrics["test_positions"] > 300
    assert metrics["test_loss"] < 2.2 < 3 < metrics["test_uniform_loss"] and metrics["test_top1"] > 0.2
    again = RolloutPolicy.open(rollout.train(config, tmp_path))
    assert again.checkpoint.identity == trained.checkpoint.identity


def test_the_loss_is_that_of_the_probabilities(trained: RolloutPolicy, config: rollout.Config, tmp_path: Path) -> None:
    games = data.load_games([Path(config.data[0])], SIZE, tmp_path).select(np.arange(3))
    once, twice = (rollouts.expand_weights(trained.learned, SIZE, sharpness) for sharpness in (1.0, 2.0))
    losses = []
    for begin, end in itertools.pairwise(games.starts):
        game = Game(Rules.preset("cgos", SIZE))
        for move in games.moves[begin:end].tolist():
            chance = probabilities(game, once)[move]
            losses += [-np.log(chance)] if chance > 0 else []  # nakade can't be seen here, and hasn't been learned
            game.play(move)
    assert rollout.measure(trained.learned, games)["loss"] == pytest.approx(np.mean(losses), abs=1e-3)
    plain, sharp = (probabilities(game_of(24), weights) for weights in (once, twice))
    assert sharp == pytest.approx(plain**2 / (plain**2).sum(), abs=1e-5)


def test_the_policy_that_ships_is_read_and_a_damaged_or_another_checkpoint_refused(
    trained: RolloutPolicy, tmp_path: Path
) -> None:
    shipped = RolloutPolicy.open(SHIPPED_NETS / "rollout-9x9")
    assert shipped.checkpoint.manifest.metrics["test_top1"] > 0.36
    assert probabilities(Game(Rules.preset("cgos", 9)), rollouts.expand_weights(shipped.learned, 9)).argmax() == 40
    with pytest.raises(CheckpointError, match="not a rollout policy"):
        RolloutPolicy.open(SHIPPED_NETS / "sl-9x9")
    folder = shutil.copytree(trained.checkpoint.folder, tmp_path / "mine")
    content = json.loads((folder / "manifest.json").read_text())
    changed = {**content, "network": {"family": "rollout", "features": "rollout-0"}}
    (folder / "manifest.json").write_text(json.dumps(changed))
    with pytest.raises(CheckpointError, match="rollout-0"):
        RolloutPolicy.open(folder)
