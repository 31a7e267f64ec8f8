"""Gumbel search: the paper's formulas written out slowly, and figures of mctx."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from helpers.nets import odd_net, run_search

from arena.go.board import move_from_point
from arena.go.game import Game, Rules
from arena.go.jit import kernel
from arena.go.planes import ENCODERS, encode_game
from bots.alphago import Config
from bots.search import gumbel, puct, tree

ENCODER = ENCODERS["arena-17"]
SIZE = 5
MOVES = SIZE * SIZE + 1
PARAMS = tree.params_of(Config(search="gumbel", stop_early=False), puct.PuctParams)._replace(symmetries=False)


def visits_in_turn(moves: int, simulations: int) -> list[int]:
    """Sequential halving: of each simulation the visits that the considered move has (algorithm 1)."""
    if moves <= 1:
        return list(range(simulations))
    visits, found, left = [0] * moves, list[int](), moves
    while len(found) < simulations:
        for _ in range(max(1, simulations // (math.ceil(math.log2(moves)) * left))):
            found += visits[:left]
            visits[:left] = [count + 1 for count in visits[:left]]
        left = max(2, left // 2)
    return found[:simulations]


def softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max())
    return raised / raised.sum()


def sigma(counts: np.ndarray, prior: np.ndarray, q: np.ndarray, v: float) -> np.ndarray:
    """sigma(completed Q) of a node's moves, equations 8 and 10, with v_mix of appendix D; ``v`` is the net's word."""
    visited, mixed = counts > 0, v
    if counts.sum():
        mean = (prior * q)[visited].sum() / prior[visited].sum()
        mixed = (v + counts.sum() * mean) / (1 + counts.sum())
    return (50.0 + counts.max()) * np.where(visited, q, mixed)


@dataclass
class Slow:
    """A node of the slow tree, by the paper's names, all for the side to move there."""

    game: Game
    moves: list[int] = field(default_factory=list)
    logits: np.ndarray = field(default_factory=lambda: np.empty(0))
    v: float = 0.0
    children: dict[int, "Slow"] = field(default_factory=dict)
    results: list[float] = field(default_factory=list)  # of all simulations through it

    def evaluate(self) -> float:
        """Ask the net, and know the moves."""
        logits, rates = odd_net(encode_game(ENCODER, self.game)[None])
        self.moves = [*np.flatnonzero(self.game.sensible_moves()[:-1]).tolist(), MOVES - 1]
        self.logits = logits[0, self.moves].astype(np.float64)
        self.v = float(rates[0])
        return self.v

    def count(self, move: int) -> int:
        return len(self.children[move].results) if move in self.children else 0

    def q(self, move: int) -> float:
        """The mean result of a visited move."""
        return 1 - float(np.mean(self.children[move].results))

    @property
    def counts(self) -> np.ndarray:
        return np.array([self.count(move) for move in self.moves])

    @property
    def sigma(self) -> np.ndarray:
        q = np.array([self.q(move) if self.count(move) else 0.0 for move in self.moves])
        return sigma(self.counts, softmax(self.logits), q, self.v)

    @property
    def improved(self) -> np.ndarray:
        """Equation 11."""
        return softmax(self.logits + self.sigma)

    def child(self, move: int) -> "Slow":
        if move not in self.children:
            game = self.game.copy()
            game.play(move)
            self.children[move] = Slow(game)
        return self.children[move]

    def choose_inside(self) -> int:
        """Equation 14."""
        return self.moves[int((self.improved - self.counts / (1 + self.counts.sum())).argmax())]


def slow_search(game: Game, simulations: int, noise: dict[int, float], considered: int) -> tuple[Slow, int]:
    """The root after so many simulations, and the move that is played; ``noise`` is a move's."""
    root = Slow(game)
    root.results.append(root.evaluate())
    told = np.array([noise[move] for move in root.moves])
    for wanted in visits_in_turn(min(considered, len(root.moves)), simulations):
        scores = root.logits + told + root.sigma
        move = root.moves[int(np.where(root.counts == wanted, scores, -np.inf).argmax())]
        path = [root, root.child(move)]
        while path[-1].moves:
            path.append(path[-1].child(path[-1].choose_inside()))
        value = path[-1].evaluate()
        for node in reversed(path):
            node.results.append(value)
            value = 1 - value
    scores = np.where(root.counts == root.counts.max(), root.logits + told + root.sigma, -np.inf)
    return root, root.moves[int(scores.argmax())]


def fast_search(
    simulations: int, scale: float, params: puct.PuctParams = PARAMS
) -> tuple[tree.TreePool, int, dict[int, int]]:
    """A forest with one searched tree, its slot, and which of the root's children each move is."""
    forest, game = tree.TreePool(20_000), after_two_moves()
    slot = int(forest.slots_of([game])[0])
    forest.roots[slot]["simulations"] = simulations
    gumbel.draw_gumbel(forest.roots, slot, MOVES, scale)
    run_search(forest, np.array([slot]), SIZE, odd_net, simulations + 1, params)
    first, children = int(forest.nodes.first[slot, 0]), int(forest.nodes.children[slot, 0])
    points = forest.nodes.point[slot, first : first + children]
    return forest, slot, {move_from_point(int(point), SIZE): first + i for i, point in enumerate(points)}


def after_two_moves() -> Game:
    game = Game(Rules.preset("cgos", SIZE), seed=5)
    for move in (12, 6):
        game.play(move)
    return game


@pytest.mark.parametrize(("simulations", "considered"), [(3, 16), (16, 16), (50, 1), (50, 5), (150, 16), (150, 23)])
def test_a_gumbel_search_grows_the_tree_of_the_paper(simulations: int, considered: int) -> None:
    params = PARAMS._replace(gumbel_sample_size=considered)
    forest, slot, found = fast_search(simulations, 1.0, params)
    noise, first = forest.roots[slot]["noise"], min(found.values())
    told = {move: float(noise[child - first]) for move, child in found.items()}
    slow, move = slow_search(after_two_moves(), simulations, told, considered)
    assert set(found) == set(slow.moves)
    visits = {move: int(forest.nodes.visits[slot, child]) for move, child in found.items()}
    assert visits == {move: slow.count(move) for move in slow.moves}
    values = [forest.nodes.value[slot, found[move]] for move in slow.children]
    assert values == pytest.approx([slow.q(move) for move in slow.children], abs=1e-5)
    assert improved(forest, slot)[slow.moves] == pytest.approx(slow.improved, abs=2e-4)
    assert int(gumbel.best_move(forest.nodes, forest.roots, slot, PARAMS)) == found[move]


def improved(forest: tree.TreePool, slot: int) -> np.ndarray:
    shares = np.empty(MOVES, np.float32)
    gumbel.improved_policy(forest.boards, forest.nodes, slot, PARAMS, shares)
    return shares


def test_a_gumbel_search_finds_what_mctx_finds() -> None:
    """Version 0.0.71 for this position and net, without noise (gumbel_muzero_policy, discount -1, values from -1 to 1,
    value_scale 0.5, maxvisit_init 50, rescale_values off): visits where there are several, shares from 0.01 on."""
    forest, slot, found = fast_search(50, 0.0)
    assert int(gumbel.best_move(forest.nodes, forest.roots, slot, PARAMS)) == found[20]
    visits = {move: int(forest.nodes.visits[slot, child]) for move, child in sorted(found.items())}
    several = {1: 2, 4: 2, 5: 2, 11: 5, 13: 5, 18: 12, 20: 12, 21: 2}
    assert {move: count for move, count in visits.items() if count > 1} == several
    shares = {11: 0.05969, 14: 0.01395, 17: 0.46739, 18: 0.03442, 20: 0.12788, 23: 0.23783, 24: 0.04032}
    policy = improved(forest, slot)
    assert {int(move): policy[move] for move in np.flatnonzero(policy >= 0.01)} == pytest.approx(shares, abs=1e-4)


def test_where_superko_leaves_a_pass_that_loses_all_of_the_policy_is_the_pass() -> None:
    forest, slot, found = fast_search(3, 0.0)
    for move, child in found.items():
        forest.nodes.visits[slot, child] = 0 if move == MOVES - 1 else tree.FORBIDDEN
    forest.nodes.prior[slot, found[MOVES - 1]] = 0
    policy = improved(forest, slot)
    assert policy[-1] == 1 and policy[:-1].max() == 0
    assert int(gumbel.best_move(forest.nodes, forest.roots, slot, PARAMS)) == found[MOVES - 1]


@kernel
def _chosen_inside(nodes, params):  # type: ignore[no-untyped-def]
    return gumbel.choose_inside(nodes, 0, 0, params)


def test_inside_the_tree_a_low_result_is_not_lost_below_the_smallest_number() -> None:
    random = np.random.default_rng(1)
    for best in (0.99, 0.5, 0.2, 0.1, 0.05, 0.01):
        for most in (1, 10, 24, 32, 48, 100, 400, 5000):
            for _ in range(5):
                visits = np.array([0, most, *random.integers(0, most + 1, 4)])
                prior = random.dirichlet(np.ones(len(visits)))
                value = np.array([0.0, best, *random.uniform(0, best, 4)])
                nodes = tree.Nodes.empty(1, len(visits) + 1)
                nodes.first[0, 0], nodes.children[0, 0] = 1, len(visits)
                nodes.visits[0], nodes.prior[0], nodes.value[0] = [1 + visits.sum(), *visits], [1, *prior], [1, *value]
                told = min(1.0, max(0.0, -(visits * value).sum()))  # it lost each time, seen by the other side
                scores = softmax(np.log(prior) + sigma(visits, prior, value, told)) - visits / (1 + visits.sum())
                chosen = int(_chosen_inside(nodes, PARAMS)) - 1
                assert scores[chosen] >= scores.max() - 1e-3, (best, most, visits, prior, value)
