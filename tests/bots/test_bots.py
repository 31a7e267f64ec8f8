"""One contract for every kind of bot, and what each kind promises besides."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from helpers.reference import position, random_game

from arena import ConfigError
from arena.contract.bot import Bot, Decision, Limits
from arena.go.coords import pass_move
from arena.go.game import BLACK, Game, Rules
from arena.players.registry import Registry
from bots.human_like import Config, HumanLike, resign_chance

SPECS = [
    "random",
    "fast-random",
    "mcts:playouts=40",
    "sl",
    "sl:temperature=1",
    "alphago:visits=12",
    "alphago:visits=12,rollout_weight=0.5,rollouts_full=0,rollout_policy=trained,virtual_loss_batch=4",
    "alphago:visits=12,search=gumbel",
    "human-like",
]

RESIGNS = "human-like"
"""The one that resigns; the others play to the end."""


@pytest.fixture(scope="module")
def players() -> Iterator[dict[str, Bot]]:
    registry = Registry()
    built = {spec: registry.resolve(spec).build() for spec in SPECS}
    yield built
    for bot in built.values():
        bot.close()


def some_games(count: int = 5, seed: int = 1) -> list[Game]:
    """Games at different lengths, some near their end."""
    games = [random_game(9, seed + number, number * 22) for number in range(count)]
    return [game for game in games if not game.is_over]


def as_data(decision: Decision) -> tuple[object, ...]:
    return decision.move, decision.win_rate, decision.visits


def test_the_contract_covers_every_kind() -> None:
    covered = {Registry().resolve(spec).kind for spec in SPECS}
    assert covered | {"human", "gtp"} == set(Registry().kinds)


@pytest.mark.parametrize("spec", SPECS)
class TestContract:
    def test_a_decision_is_legal_fills_no_eye_and_leaves_the_game_alone(
        self, spec: str, players: dict[str, Bot]
    ) -> None:
        for game in [*some_games(), *some_games(seed=30)]:
            before = str(game.board), list(game.moves), game.to_play, game.hashes.tolist()
            decision = players[spec].choose(game, Limits())
            assert (str(game.board), list(game.moves), game.to_play, game.hashes.tolist()) == before
            assert decision.win_rate is None or 0 <= decision.win_rate <= 1
            if decision.move is None:
                assert spec == RESIGNS
                continue
            assert game.legal_moves()[decision.move]
            assert decision.move == pass_move(9) or game.sensible_moves()[decision.move]

    def test_many_boards_get_the_decisions_that_each_gets_alone(self, spec: str, players: dict[str, Bot]) -> None:
        bot = players[spec]
        together = bot.choose_all(some_games(), Limits())
        alone = [bot.choose(game, Limits()) for game in some_games()]
        assert [as_data(decision) for decision in together] == [as_data(decision) for decision in alone]

    def test_a_game_is_played_to_its_end(self, spec: str, players: dict[str, Bot]) -> None:
        game = Game(Rules.preset(size=9, move_limit=60), seed=4)
        while not game.is_over:
            decision = players[spec].choose(game, Limits(simulations=8))
            if decision.move is None:
                assert spec == RESIGNS
                return
            game.play(decision.move)
        assert game.outcome is not None

    def test_a_bot_passes_when_nothing_sensible_is_left(self, spec: str, players: dict[str, Bot]) -> None:
        game = Game(Rules.preset("japanese"), seed=1)
        while not game.is_over:
            game.play(int(players["fast-random"].choose(game, Limits()).move or 0))
        last = Game(Rules.preset("japanese"), seed=1)
        for move in game.moves[:-2]:
            last.play(move)
        assert players[spec].choose(last, Limits()).move == pass_move(9)


@pytest.mark.parametrize("spec", ["random", "fast-random", "mcts:playouts=20"])
def test_bots_without_nets_play_every_size(spec: str) -> None:
    bot = Registry().resolve(spec).build()
    for size in (5, 13, 19):
        game = Game(Rules.preset(size=size), seed=2)
        for _ in range(12):
            game.play(int(bot.choose(game, Limits()).move or 0))


def test_a_policy_varies_at_a_temperature_and_does_not_pass_as_long_as_the_board_is_lost() -> None:
    sl, varied = (Registry().resolve(spec).build() for spec in ("sl", "sl:temperature=2"))
    games = [Game(Rules.preset(), seed=seed) for seed in range(12)]
    assert len({decision.move for decision in sl.choose_all(games, Limits())}) == 1
    assert len({decision.move for decision in varied.choose_all(games, Limits())}) > 3
    game = games[0]
    while not game.is_over:
        move, margin = sl.choose(game, Limits()).move, game.margin() if game.to_play is BLACK else -game.margin()
        assert move != 81 or margin >= 0 or not game.sensible_moves()[:-1].any()
        game.play(move)


def test_random_and_fast_random_choose_each_sensible_move_about_equally_often() -> None:
    game = some_games(5)[3]
    sensible = np.flatnonzero(game.sensible_moves()[:-1]).tolist()
    for name in ("random", "fast-random"):
        bot, counts = Registry().resolve(name).build(), Counter[int]()
        for game.seed in range(60 * len(sensible)):
            counts[int(bot.choose(game, Limits()).move or 0)] += 1
        assert sorted(counts) == sensible and 20 < min(counts.values()) <= max(counts.values()) < 110


@pytest.mark.parametrize("spec", ["mcts", "alphago:stop_early=false"])
def test_a_search_stops_at_its_seconds_or_its_simulations_whichever_come_first(spec: str) -> None:
    bot = Registry().resolve(spec).build()
    assert bot.choose(Game(Rules.preset()), Limits(seconds=600.0, simulations=40)).visits == 40
    assert 0 < bot.choose(Game(Rules.preset()), Limits(seconds=0.05, simulations=10**9)).visits < 10**6


def test_leaves_fill_a_batch_where_seconds_are_the_limit_and_stay_one_where_visits_are() -> None:
    """With virtual loss the same number of visits makes another tree; seconds that don't run out change no more."""

    def thought(leaves: int, limits: Limits) -> tuple[object, ...]:
        bot = Registry().resolve(f"alphago:virtual_loss_batch={leaves},stop_early=false,rollout_weight=0").build()
        return as_data(bot.choose(some_games()[0], limits))

    counted, timed = Limits(simulations=60), Limits(seconds=600.0, simulations=60)
    assert thought(0, counted) == thought(1, counted)
    assert thought(0, timed) == thought(8, timed) != thought(1, timed)


@pytest.mark.parametrize("search", ["puct", "gumbel"])
@pytest.mark.parametrize("limits", [Limits(simulations=1), Limits(seconds=1e-9)])
def test_alphago_neither_resigns_nor_plays_at_random_when_it_has_hardly_any_time(search: str, limits: Limits) -> None:
    """A root without visited moves once gave a win rate of 0 and a move drawn from all."""
    bot = Registry().resolve(f"alphago:search={search},resign=0.2,virtual_loss_batch=1").build()
    decisions = bot.choose_all([Game(Rules.preset(), seed) for seed in range(3)], limits)
    policy = bot.raw_nn([Game(Rules.preset())])[0].policy
    assert all(it.move is not None and policy[it.move] > 0.05 and (it.visits or 0) >= 2 for it in decisions)


@pytest.mark.parametrize("mixing", [0, 1])
def test_alphago_tells_whose_points_will_be_with_rollouts_and_without(mixing: float) -> None:
    """Two walls part the board; what is told is seen by the side to move."""
    game = Game(Rules.preset("cgos", 9, 7.0))
    for row in range(9):
        game.play(row * 9 + 3)
        game.play(row * 9 + 5)
    bot = Registry().resolve(f"alphago:rollout_weight={mixing},rollouts_full=0,visits=40").build()
    of_black = bot.choose(game, Limits()).ownership
    game.play(4)
    of_white = bot.choose(game, Limits()).ownership
    assert of_black is not None and of_white is not None
    for seen in (of_black, -of_white):
        points = seen.reshape(9, 9)
        assert (points[:, :4] > 0.2).all() and (points[:, 5:] < -0.2).all(), points.round(1)


# --- The bot that plays like a person of a rank ---

WON = "...XO.... ...XO.... ...XO.... ...XO.... ...XO.... ..XXO.... .X.XOO... ...XO.O.. ...XO...."
DEAD = WON.replace("...XO.... ..XX", "...XO.X.. ..XX")
"""A Black stone lies dead on White's side."""

BESIDE_DEAD = {33, 41, 43, 51}


def test_moves_below_the_share_are_not_played_and_the_same_game_is_played_alike() -> None:
    bot = HumanLike(Config(rank="15k", min_share=0.1))  # at a temperature of 1.05
    games = [Game(Rules.preset(size=9), seed) for seed in range(300)]
    moves = [decision.move for decision in bot.choose_all(games, Limits())]
    policy = bot.raw_nn(games[:1])[0].policy
    assert np.abs(policy - HumanLike(Config(rank="3d")).raw_nn(games[:1])[0].policy).sum() > 0.05  # of another rank
    assert {move for move in moves if move is not None} <= set(np.flatnonzero(policy > 0.08 * policy.max()).tolist())
    assert len(set(moves)) > 3
    assert moves == [decision.move for decision in bot.choose_all(games, Limits())]


@pytest.mark.parametrize("rules", ["cgos", "chinese"])
def test_where_no_stone_counts_as_dead_it_captures_before_it_passes(rules: str) -> None:
    bot = HumanLike(Config(rank="3d", min_share=1.0))  # always the likeliest move
    games = [position(diagram, rules, komi=7.0) for diagram in (WON, DEAD)]
    for game in games:
        game.play(pass_move(9))
    settled, dead = (bot.choose(game, Limits()).move for game in games)
    assert settled == pass_move(9)
    assert dead == pass_move(9) if rules == "chinese" else dead in BESIDE_DEAD


def test_a_net_that_knows_no_ranks_is_refused() -> None:
    with pytest.raises(ConfigError, match="the net sl-9x9 knows no ranks; use one with the encoder human-34"):
        Registry().resolve("human-like:checkpoint=sl-9x9").checked(9)


def test_the_chance_of_a_resignation_rises_as_the_game_is_lost_and_fills_up() -> None:
    for rank in (-24, -4, 3):
        chances = [resign_chance(rate, rank, 0.6) for rate in (0.0, 0.01, 0.1, 0.5, 1.0)]
        assert chances == sorted(chances, reverse=True) and chances[0] > 0.03 and chances[-2] < 0.01
        assert resign_chance(0.05, rank, 0.1) < resign_chance(0.05, rank, 0.7)
