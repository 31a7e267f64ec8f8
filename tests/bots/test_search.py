"""The tree search: what UCT and PUCT promise, with a scripted net in place of a trained one."""

import os
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.katago_files import write_net
from helpers.nets import run_search
from helpers.reference import wild_game

from arena import CheckpointError
from arena.contract.bot import Limits
from arena.go import kernels
from arena.go.board import move_from_point
from arena.go.coords import SYMMETRIES, Colour, move_from_gtp, pass_move, symmetry_table
from arena.go.game import BLACK, PRESETS, WHITE, Game, Rules
from arena.go.jit import kernel
from arena.go.planes import ENCODERS, encode_game
from bots.alphago import AlphaGo
from bots.alphago import Config as AlphaGoConfig
from bots.nets.checkpoint import has_own_kernel
from bots.nets.rollout import shipped_weights
from bots.search import puct, tree, uct
from bots.search.rollouts import expand_weights, policy_playout, tie
from bots.uct import Config, Uct
from trainers.katago import import_katago

Net = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
ENCODER = ENCODERS["arena-17"]
STATM = Path("/proc/self/statm")
FULL = tree.params_of(Config(policy=0.0), uct.UctParams)
BARE = FULL._replace(c_uct=0.0, rave=0.0, priors=0.0)
TRUST_NET = tree.params_of(AlphaGoConfig(), puct.PuctParams)._replace(
    c_puct=0.8, rollout_weight=0.0, rollouts_full=0.0, symmetries=False, stop_early=False
)
TRUST_ROLLOUTS = TRUST_NET._replace(rollout_weight=1.0)


def flat_net(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knows nothing: every move as likely, every position even."""
    return np.zeros((len(planes), planes.shape[2] + 1), np.float32), np.full(len(planes), 0.5, np.float32)


def stone_counter(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Likes to have more stones than the other side; its policy is a fixed function of the planes."""
    own, theirs = planes[:, 0].sum(1), planes[:, 1].sum(1)
    logits = np.concatenate([planes[:, 3:9].sum(1) + planes[:, 10], np.full((len(planes), 1), -1, np.float32)], 1)
    return logits.astype(np.float32), (1 / (1 + np.exp(theirs - own))).astype(np.float32)


def game_of(moves: str, size: int = 9, preset: str = "cgos", seed: int = 1) -> Game:
    """A game after moves in GTP coordinates."""
    game = Game(Rules.preset(preset, size), seed=seed)
    for word in moves.split():
        game.play(move_from_gtp(word, size))
    return game


def stones_game(black: str, white: str, size: int = 9, preset: str = "cgos", komi: float = 7.0) -> Game:
    """A game in which these stones were played in turn, the side that has run out passing; no pass follows another."""
    game = Game(Rules.preset(preset, size, komi=komi), seed=1)
    for words in zip_longest(black.split(), white.split(), fillvalue="pass"):
        for word in words:
            game.play(move_from_gtp(word, size))
    return game


def search(
    trees: tree.TreePool,
    games: Sequence[Game],
    net: Net,
    visits: int,
    params: Any = TRUST_NET,
    keep: bool = False,
    settled: bool = False,
    per_game: int = 1,
) -> np.ndarray:
    """Search all games in lock step; returns their slots."""
    slots = trees.slots_of(list(games), keep=keep)
    if settled:
        puct.prune_pass_alive(trees.boards, trees.roots, trees.nodes, slots)
    run_search(trees, slots, games[0].rules.size, net, visits, params, per_game)
    return slots


def grown(
    game: Game, visits: int, params: Any = TRUST_NET, net: Net = flat_net, capacity: int = 100_000, **how: Any
) -> tuple[Any, int]:
    """Trees with the tree of one game, searched with either algorithm, and its slot."""
    if not isinstance(params, uct.UctParams):
        trees = tree.TreePool(capacity)
        return trees, int(search(trees, [game], net, visits, params, **how)[0])
    trees = tree.TreePool(capacity, rave=True)
    slot = int(trees.slots_of([game])[0])
    known = (trees.boards, trees.roots, trees.hashes, trees.nodes, trees.owners)
    uct.search(*known, slot, visits, params, expand_weights(np.zeros(tie().max() + 1), game.rules.size))
    return trees, slot


def family_of(trees: tree.TreePool, slot: int, node: int = 0) -> slice:
    """Where a node's children are."""
    first = int(trees.nodes.first[slot, node])
    return slice(first, first + int(trees.nodes.children[slot, node]))


def children(trees: tree.TreePool, slot: int, size: int) -> dict[int, tuple[int, float]]:
    """Move -> (visits, value) of the root's children."""
    family = family_of(trees, slot)
    columns = (column[slot, family].tolist() for column in (trees.nodes.point, trees.nodes.visits, trees.nodes.value))
    return {move_from_point(point, size): (count, value) for point, count, value in zip(*columns, strict=True)}


def test_a_uct_simulation_leaves_nothing_behind_that_the_next_one_counts() -> None:
    """Who plays first where a stone was captured is not remembered: 400 searches of one simulation make the same tree
    as one of 400."""
    game = stones_game(black="D5 D6 E4 F5 F6", white="E5 E6")  # E7 captures both
    (at_once, slot), (in_steps, _) = grown(game, 400, FULL), grown(game, 1, FULL)
    known = (in_steps.boards, in_steps.roots, in_steps.hashes, in_steps.nodes, in_steps.owners)
    for visits in range(2, 401):
        uct.search(*known, slot, 1, FULL, expand_weights(np.zeros(tie().max() + 1), 9))
        assert in_steps.nodes.visits[slot, 0] == visits
    used = int(at_once.roots[slot]["used"])
    for one, other in zip(at_once.nodes, in_steps.nodes, strict=True):
        np.testing.assert_array_equal(one[slot, :used], other[slot, :used])


@pytest.mark.parametrize("per_game", [1, 4])
@pytest.mark.parametrize("params", [TRUST_NET, TRUST_ROLLOUTS])
def test_visits_count_simulations_and_nothing_stays_pending(params: puct.PuctParams, per_game: int) -> None:
    trees, slot = grown(game_of("E5 D4"), 300, params, stone_counter, per_game=per_game)
    used = trees.roots[slot]["used"]
    assert trees.nodes.visits[slot, 0] == 300
    assert (trees.nodes.pending[slot, :used] == 0).all()
    for node in np.flatnonzero(trees.nodes.first[slot, :used] >= 0):
        below = trees.nodes.visits[slot, family_of(trees, slot, node)]
        assert trees.nodes.visits[slot, node] == 1 + below[below > 0].sum()  # its own evaluation, and what went on


@pytest.mark.parametrize("rules", PRESETS)
@pytest.mark.parametrize("played", [0, 1, 24])
def test_leaves_are_encoded_as_the_same_positions_of_a_game(rules: str, played: int) -> None:
    """With the positions before them and what superko forbids; several trees at once."""
    encoder, trees, params = ENCODERS["katago-22"], tree.TreePool(100_000), TRUST_NET._replace(symmetries=True)
    games = [wild_game(5, rules, seed, played) for seed in (6, 1)]
    games = [game for game in games if not game.is_over]
    slots = trees.slots_of(games, earlier=True)
    leaves, planes = puct.Leaves.empty(8, has_past=True), np.empty((8, encoder.planes, 25), np.float32)
    tables, known = symmetry_table(5), (trees.boards, trees.roots, trees.hashes, trees.nodes)
    depths, superkos, options = set(), 0, puct.select_options(params, leaves)
    while count := puct.select_leaves(*known, slots, 120, 4, params, leaves, *options):
        encoder.encode(leaves.positions, count, planes)
        for leaf in range(count):
            slot = leaves.slots[leaf]
            game = games[slots.tolist().index(slot)]
            for node in leaves.paths[leaf, 1 : leaves.depths[leaf]]:
                game = game.after(move_from_point(int(trees.nodes.point[slot, node]), 5))
            expected = encode_game(encoder, game, int(leaves.positions.symmetries[leaf]))
            assert np.array_equal(planes[leaf].reshape(expected.shape), expected)
            depths.add(int(leaves.depths[leaf]))
            superkos += expected[6].sum() > (game.board.ko_point is not None)
        found = stone_counter(planes[:count])
        puct.expand_leaves(trees.roots, trees.nodes, trees.owners, params, tables, leaves, count, *found, params)
    assert {1, 2, 3, 4} <= depths and (played < 24 or rules == "japanese" or superkos)


@kernel
def playout_after(boards, colour, last, previous, weights, state):
    """A playout of the trained policy on ``boards[0]``, after the moves ``previous`` and ``last``."""
    last, previous = kernels.point_of(boards[0], last), kernels.point_of(boards[0], previous)
    return policy_playout(boards[0], colour, last, previous, weights, state)


def test_leaves_are_worth_the_mean_of_games_that_the_trained_policy_plays_out() -> None:
    weights = shipped_weights(9)
    for seed in range(4):
        games = [game_of("D4 F6 C5 F4 G5 E6 E5 C3", seed=seed) for _ in range(2)]
        trees, black_wins, game = tree.TreePool(1000), 0, games[0]
        slot, other = trees.slots_of(games)
        run_search(trees, np.array([other]), 9, flat_net, 1, TRUST_NET)  # moves are shuffled before the rollouts
        state = trees.roots["random"][other]
        for _ in range(puct.ROLLOUTS):
            last, previous = game.moves[:-3:-1]
            boards = trees.boards[slot : slot + 1].copy()
            margin, _, state = playout_after(boards, 1, last, previous, weights, np.uint64(state))
            black_wins += (1 + np.sign(margin - game.compensation)) / 2
        run_search(trees, np.array([slot]), 9, flat_net, 1, TRUST_ROLLOUTS, weights=weights)
        assert 1 - trees.nodes.value[slot, 0] == black_wins / puct.ROLLOUTS
        assert trees.roots["random"][slot] == state


def test_the_net_sees_each_symmetry_and_its_answer_is_turned_back() -> None:
    """A net that wants to play beside the last stone does so, whichever way the board was turned for it."""

    def beside(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        grid = planes[:, 1].reshape(-1, 9, 9)
        near = sum(np.roll(grid, shift, axis) for shift in (-1, 1) for axis in (1, 2)).reshape(-1, 81)
        logits = np.concatenate([20 * near, np.full((len(planes), 1), -20)], 1).astype(np.float32)
        return logits, np.full(len(planes), 0.5, np.float32)

    game = game_of("C7")
    wanted = {move_from_gtp(point, 9) for point in ("B7", "D7", "C6", "C8")}
    for seed in range(2 * SYMMETRIES):
        game.seed = seed
        found = children(*grown(game, 20, TRUST_NET._replace(symmetries=True), beside), 9)
        assert {move for move, (visits, _) in found.items() if visits} <= wanted


def test_what_was_learnt_is_kept_when_the_game_goes_on_and_forgotten_when_it_goes_elsewhere() -> None:
    game = game_of("E5")
    trees, slot = grown(game, 200, net=stone_counter)
    known = children(trees, slot, 9)
    game.play(max(known, key=known.__getitem__))
    assert int(trees.slots_of([game])[0]) == slot and trees.nodes.visits[slot, 0] == known[game.moves[-1]][0]
    trees.slots_of([game], keep=False)
    assert trees.nodes.visits[slot, 0] == 0


def test_a_search_stops_early_only_where_its_move_stays_the_same() -> None:
    game = game_of("E5 E6 D6 A9 F6 A8")
    full, early = (Uct(Config(playouts=2000, stop_early=stops)).choose(game, Limits()) for stops in (False, True))
    assert early.move == full.move and full.visits == 2000 and 0 < early.visits < 2000


SETTLED_BLACK = "B7 E7 G7 A6 B6 C6 D6 E6 F6 G6"
SETTLED_WHITE = "A5 B5 C5 D5 E5 F5 G5 A4 B4 C4 D4 E4 F4 G4 A3 D3 G3 A2 B2 C2 D2 E2 F2 G2 C1 E1"
"""On 7x7, Black lives on the two upper lines with eyes of one and two points, White below with some of two."""


@pytest.mark.parametrize("to_play", [BLACK, WHITE])
def test_where_all_is_pass_alive_there_is_only_the_pass(to_play: Colour) -> None:
    game = stones_game(SETTLED_BLACK, SETTLED_WHITE, 7, komi=7.0 if to_play is BLACK else -40.0)
    if to_play is WHITE:  # who would win at once by a second pass with the other komi
        game.play(pass_move(7))
    assert game.to_play is to_play
    assert len(children(*grown(game, 60), 7)) > 5
    settled = children(*grown(game, 60, settled=True), 7)
    assert list(settled) == [pass_move(7)]
    expected = float((game.margin() > 0) is (to_play is BLACK))
    assert settled[pass_move(7)][1] == pytest.approx(expected, abs=0.05)
    by_territory = stones_game(SETTLED_BLACK, SETTLED_WHITE, 7, "japanese")
    assert len(children(*grown(by_territory, 20, settled=True), 7)) > 5
    dead = stones_game(SETTLED_BLACK, SETTLED_WHITE + " C7", 7)  # in Black's eye of two points: it counts until taken
    assert set(children(*grown(dead, 8, settled=True), 7)) == {move_from_gtp("D7", 7), pass_move(7)}


@pytest.mark.parametrize("ko", [True, False])
def test_a_threat_in_settled_territory_stays_while_there_is_a_ko(ko: bool) -> None:
    """Black is pass-alive on the upper two lines and has just taken a ko at D4, or has taken it a while ago."""
    black = "B4 C5 C3 B9 E9 F9 G9 H9 J9 A8 B8 C8 D8 E8 F8 G8 H8 J8 D4"
    game = stones_game(black if ko else f"{black} J1", "D5 E4 D3 C4")
    last = Game(game.rules, seed=1)
    for move in game.moves[:-1]:  # but White's last pass
        last.play(move)
    assert last.to_play is WHITE and (last.board.ko_point is not None) == ko
    moves = children(*grown(last, 8, settled=True), 9)
    assert (move_from_gtp("C9", 9) in moves) == ko
    assert move_from_gtp("E5", 9) in moves


def test_a_tree_that_is_kept_forgets_the_moves_that_have_become_pointless() -> None:
    """White's last stone makes it pass-alive; Black's moves inside were in the tree before."""
    stones = SETTLED_WHITE.split()
    game = stones_game(SETTLED_BLACK, " ".join(stones[:-1]), 7)
    game.play(pass_move(7))
    trees, _ = grown(game, 400, settled=True)
    game.play(move_from_gtp(stones[-1], 7))
    slot = int(search(trees, [game], flat_net, 400, keep=True, settled=True)[0])
    assert list(children(trees, slot, 7)) == [pass_move(7)]
    assert trees.nodes.visits[slot, 0] >= 400


@pytest.mark.skipif(not STATM.exists(), reason="the system doesn't tell how much memory is taken")
def test_a_pool_takes_memory_as_its_trees_grow() -> None:
    """64 trees of 16 megabytes each once took 900 at their first node."""
    before = int(STATM.read_text().split()[1])
    trees = tree.TreePool(16 * 2**20 // 24)
    games = [game_of("E5", seed=seed) for seed in range(64)]
    search(trees, games, flat_net, 4)
    pages = int(STATM.read_text().split()[1]) - before
    assert pages * os.sysconf("SC_PAGE_SIZE") < 200 * 2**20


def test_trees_lose_nothing_when_they_get_more_room_or_more_games_come() -> None:
    games = [game_of("E5", seed=seed) for seed in range(2)]
    wide, narrow = tree.TreePool(50_000), tree.TreePool(100, most=20_000)
    slots = search(wide, games, stone_counter, 40)
    assert list(narrow.slots_of(games)) == list(slots)
    for visits in range(1, 41):
        narrow.make_room(slots, 82)
        search(narrow, games, stone_counter, visits, keep=True)
    used = int(narrow.roots["used"].max())
    assert used <= narrow.capacity < 2 * used + 82
    narrow.make_room(slots, 10**9)
    assert narrow.capacity == narrow.nodes.visits.shape[1] == 20_000
    others = [game_of("D4", seed=seed) for seed in range(9)]
    search(narrow, others, stone_counter, 20)
    assert list(narrow.slots_of(games)) == list(slots)
    assert all(children(narrow, slot, 9) == children(wide, slot, 9) for slot in slots)


@pytest.mark.parametrize("leaves", [1, 4])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_after_an_exception_in_the_net_a_decision_is_that_of_a_fresh_bot(
    precision: str, leaves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leaves that had waited for the net once kept their virtual losses and were never expanded."""
    config = AlphaGoConfig(visits=40, virtual_loss_batch=leaves, precision=precision)
    bot, fresh = AlphaGo(config), AlphaGo(config)
    games = [game_of("E5"), game_of("E5 C3", seed=2)]
    for game, decision in zip(games, bot.choose_all(games, Limits()), strict=True):
        game.play(decision.move)
    net = bot._net(9)
    answers, packed = iter([net.evaluate]), net.packed(9)  # the second answer fails
    with monkeypatch.context() as patch:
        if packed:
            broken = packed.net._replace(numbers=packed.net.numbers * np.float32("nan"))
            patch.setattr(net, "packed", lambda size: packed._replace(net=broken))
        else:
            patch.setattr(net, "evaluate", lambda planes: next(answers)(planes))
        with pytest.raises((StopIteration, RuntimeError, CheckpointError)) as caught:
            bot.choose_all(games, Limits())
        assert not packed or "its outputs must be finite numbers" in str(caught.value)
    again, expected = (
        [(one.move, one.win_rate, one.visits) for one in player.choose_all(games, Limits())] for player in (bot, fresh)
    )
    assert again == expected


@pytest.mark.skipif(not has_own_kernel(), reason="the processor has no AVX-512 VNNI")
@pytest.mark.parametrize("leaves", [1, 4])
@pytest.mark.parametrize("net", ["distilled-9x9", "zero-9x9", "katago"])
def test_a_search_within_one_kernel_is_that_with_the_net_outside(
    net: str, leaves: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if net == "katago":
        write_net(tmp_path / "net.bin.gz", 17, ("attention:learned", "pooling"), activation="MISH", width=16)
        import_katago(tmp_path / "net.bin.gz", tmp_path / "net")
    checkpoint = str(tmp_path / "net") if net == "katago" else net
    bots = [AlphaGo(AlphaGoConfig(checkpoint, visits=60, virtual_loss_batch=leaves)) for _ in range(2)]
    assert bots[0]._net(9).packed(9)
    monkeypatch.setattr(bots[1], "_packed", lambda *_: None)
    for size in (9, 6):
        games = [game_of("E5 C3", size, preset) for preset in ("cgos", "japanese")]
        for _ in range(4):
            inside, outside = ([str(one) for one in bot.choose_all(games, Limits())] for bot in bots)
            assert inside == outside
            assert bots[0].analyse(games[0], Limits(simulations=70)) == bots[1].analyse(
                games[0], Limits(simulations=70)
            )
            for game, one in zip(games, bots[0].choose_all(games, Limits()), strict=True):
                game.play(one.move)


@pytest.mark.parametrize("params", [FULL, TRUST_NET], ids=["uct", "puct"])
def test_a_full_tree_is_searched_on_without_growing_and_superko_never(params: Any) -> None:
    """White has just taken a ko under area scoring; retaking at once would repeat the position."""
    trees, slot = grown(game_of("E5"), 500, params, stone_counter, capacity=300)
    assert trees.nodes.visits[slot, 0] == 500 and trees.roots[slot]["used"] <= 300
    game = game_of("B1 C1 A2 D2 B3 C3 E9 B2 C2 A9 F9 B2", size=9)
    ko = move_from_gtp("C2", 9)
    assert game.board.stone(ko) == 0 and not game.legal_moves()[ko]
    assert children(*grown(game, 300, params), 9).get(ko, (0, 0.0))[0] <= 0


@pytest.mark.parametrize(
    ("preset", "komi", "passes"),
    [("cgos", 0.0, True), ("cgos", 7.0, False), ("japanese", -0.5, True), ("japanese", 0.5, False)],
)
def test_a_second_pass_is_thought_of_only_where_it_does_not_lose(preset: str, komi: float, passes: bool) -> None:
    """White has passed with a stone less than Black: the net would pass in any case. By territory, where a stone in
    one's own costs a point, too: the search once counted by area."""
    game = stones_game("E5 D3", "C3", preset=preset, komi=komi)

    def keen_to_pass(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits, win_rates = flat_net(planes)
        logits[:, -1] = 8
        return logits, win_rates

    trees, slot = grown(game, 60, net=keen_to_pass)
    assert (trees.best(slot, 9)[0] == pass_move(9)) == passes
    if passes:  # a second pass that wins is all that is searched
        assert children(trees, slot, 9) == {pass_move(9): (59, 1.0)}
    visits, value = children(*grown(game, 200, BARE), 9)[pass_move(9)]  # of UCT
    assert visits > 0 and value == passes


@pytest.mark.parametrize("gumbel", [False, True])
def test_a_root_whose_moves_are_all_forbidden_is_searched_without_touching_the_last_node(gumbel: bool) -> None:
    game, params = game_of("E5"), TRUST_NET._replace(gumbel=gumbel)
    trees, slot = grown(game, 20, params)
    trees.allow(slot, 9, ())
    columns = [column for column in trees.nodes if column.size]
    for column in columns:
        column[slot, -1] = 77
    search(trees, [game], flat_net, 40, params, keep=True)
    assert {float(column[slot, -1]) for column in columns} == {77.0}
    assert trees.nodes.visits[slot, 0] == 40 and not trees.candidates(slot, 9)


def test_mean_squares_are_those_of_all_results_below_a_node() -> None:
    trees = tree.TreePool(2**15)
    [slot] = search(trees, [game_of("E5 C3 G7")], stone_counter, 300)
    nodes, checked = trees.nodes, 0
    for node in range(int(trees.roots[slot]["used"])):
        count, first = int(nodes.visits[slot, node]), int(nodes.first[slot, node])
        if first < 0 or count < 2:
            continue
        family = slice(first, first + int(nodes.children[slot, node]))
        visits, values, squares = (
            column[slot, family].astype(float) for column in (nodes.visits, nodes.value, nodes.square)
        )
        assert (visits >= 0).all()
        own = count * nodes.value[slot, node] - (visits * (1 - values)).sum()  # the node's first result
        below = own**2 + (visits * (1 - 2 * values + squares)).sum()
        assert nodes.square[slot, node] == pytest.approx(below / count, abs=1e-4)
        checked += 1
    assert checked > 20


@pytest.mark.parametrize(
    ("visits", "values", "variances", "best"),
    [
        ([60, 40], [0.5, 0.51], [0.01, 0.01], 0),  # more visits are surer
        ([60, 40], [0.5, 0.60], [0.01, 0.01], 1),
        ([60, 40], [0.5, 0.60], [0.01, 0.09], 0),  # its results scatter
        ([50, 50], [0.5, 0.50], [0.02, 0.01], 1),
        ([90, 13, 0], [0.5, 0.9, 0.0], [0.01, 0.0, 0.0], 0),  # below 15 % of the most visits
        ([90, 14, 0], [0.5, 0.9, 0.0], [0.01, 0.0, 0.0], 1),
        ([tree.FORBIDDEN, 1, 2], [0.9, 0.9, 0.4], [0.0, 0.0, 0.0], 2),  # one result says little
        ([0, 0], [0.0, 0.0], [0.0, 0.0], -1),
    ],
)
def test_the_surest_move_has_the_highest_lower_confidence_bound(
    visits: list[int], values: list[float], variances: list[float], best: int
) -> None:
    nodes = tree.Nodes.empty(1, 4)
    nodes.first[0, 0], nodes.children[0, 0] = 1, len(visits)
    below = slice(1, 1 + len(visits))
    nodes.visits[0, below], nodes.value[0, below] = visits, values
    nodes.square[0, below] = np.square(values) + variances
    chosen = int(tree.surest_child(nodes, 0, 5.0))
    assert chosen == (best + 1 if best >= 0 else -1)
