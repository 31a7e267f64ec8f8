"""Games in lock step: the referee replays them, a slow twin tells the sensible moves; who decides, and how."""

import shutil
from itertools import pairwise
from threading import Event

import numpy as np
import pytest
import torch
from reference import ReferenceGame

from arena import ConfigError, IllegalMove
from arena.go.coords import BLACK
from arena.go.game import Ending, Game, Rules
from arena.go.planes import Encoder, Positions, find_encoder
from arena.go.sgf import read_sgf, write_sgf
from arena.match.openings import draw_openings
from bots.nets.catalogue import named_network
from trainers.data import BLACK_WON, DRAWN, WHITE_WON
from trainers.selfplay import GIVEN, NetPlayer, Played, Uniform, by_colour, draw_seeds, play, sensible_moves


class Wishes:
    """Likes the same moves everywhere; remembers how many it was asked about at once. A scripted player."""

    encoder = find_encoder("stones-1")

    def __init__(self, logits: np.ndarray, temperature: float = 1.0):
        self.wishes = logits.astype(np.float32)
        self.temperature = temperature
        self.batches: list[int] = []

    def logits(self, planes: np.ndarray) -> np.ndarray:
        self.batches.append(len(planes))
        return np.tile(self.wishes, (len(planes), 1))


def random_games(
    rules: Rules, count: int, seed: int = 1, slots: int = 8, threads: int = 1, groups: int = 1, plies: int = 2
) -> Played:
    everyone = np.zeros(count, np.int64)
    openings = draw_openings(rules, count, plies, 3)
    seeds = draw_seeds(count, seed)
    return play([Uniform()], by_colour(everyone, everyone), rules, seeds, openings, slots, threads, groups)


def moves_of(played: Played, number: int) -> list[int]:
    moves: list[int] = played.games.moves[played.games.starts[number] : played.games.starts[number + 1]].tolist()
    return moves


@pytest.mark.parametrize(
    "rules",
    [
        Rules.preset("cgos", 5, 0.0),
        Rules.preset("cgos", 9),
        Rules.preset("tromp-taylor", 6, 2.5),
        Rules.preset("cgos", 7, move_limit=31),
    ],
    ids=str,
)
def test_the_referee_agrees_with_every_move_every_end_and_every_score(rules: Rules) -> None:
    played = random_games(rules, 30)
    ends = set()
    for number, record in enumerate(played.records([("one", "other")] * 30)):
        game = Game(rules)
        moves = moves_of(played, number)
        for move in moves:
            assert not game.is_over
            game.play(move)
        assert game.outcome is not None and game.outcome == record.outcome
        assert played.margins[number] == game.margin()
        winner = BLACK_WON if game.margin() > 0 else WHITE_WON if game.margin() < 0 else DRAWN
        assert played.games.winners[number] == winner
        owners = np.array([0, 1, -1])[game.board.owners()]
        assert np.array_equal(played.games.owners[number], owners)
        ends.add(game.outcome.ending)
    assert (Ending.SCORE in ends) == (rules.move_limit > 31) and (Ending.MOVE_LIMIT in ends or rules.move_limit > 75)


def slow_mask(game: ReferenceGame, komi: float) -> np.ndarray:
    size = game.board.size
    mask = np.zeros(size * size + 1, np.bool_)
    for move in range(size * size):
        mask[move] = game.refusal(move) is None and not game.board.is_eye(divmod(move, size), game.colour)
    margin = game.board.area_margin() - komi
    is_lost = margin < 0 if game.colour == BLACK else margin > 0
    mask[-1] = not is_lost or not mask.any()
    return mask


@pytest.mark.parametrize(("name", "size", "komi"), [("cgos", 5, 0.0), ("tromp-taylor", 5, 7.0), ("cgos", 6, 1.5)])
def test_sensible_moves_are_those_of_the_slow_twin(name: str, size: int, komi: float) -> None:
    rules = Rules.preset(name, size, komi)
    played = random_games(rules, 4, plies=0)
    masks = sensible_moves(played.games, rules)
    fewer = passes = 0
    for number in range(4):
        game = ReferenceGame(size, rules.superko, rules.suicide)
        for place, move in enumerate(moves_of(played, number), int(played.games.starts[number])):
            expected = slow_mask(game, komi)
            assert np.array_equal(masks[place], expected), (number, place)
            free = sum(divmod(point, size) not in game.board.stones for point in range(size * size))
            fewer += int(expected[:-1].sum()) < free
            passes += int(expected[-1])
            assert expected[move]
            game.play(move)
    assert fewer > 10 and 0 < passes < len(masks)


def test_superko_is_kept_where_ko_alone_allows() -> None:
    """Without superko the masks of some games are others: these games would tell."""
    rules = Rules.preset("cgos", 5, 0.0)
    played = random_games(rules, 200, slots=200, plies=0)
    by_ko = Rules("ko", 5, 0.0, superko=False, move_limit=75)
    assert (sensible_moves(played.games, by_ko) > sensible_moves(played.games, rules)).any()


def test_who_likes_to_pass_does_not_while_the_board_is_lost() -> None:
    wishes = np.zeros(26)
    wishes[-1] = 30.0
    rules = Rules.preset("cgos", 5, 7.0)
    everyone = np.zeros(20, np.int64)
    played = play([Wishes(wishes)], by_colour(everyone, everyone), rules, draw_seeds(20, 1))
    for number in range(20):
        game = Game(rules)
        for move in moves_of(played, number):
            margin = game.margin() if game.to_play is BLACK else -game.margin()
            rest = game.sensible_moves()
            assert move != 25 or margin >= 0 or not rest[:-1].any()
            game.play(move)
    assert played.games.lengths.min() > 4
    assert (played.games.moves == 25).sum() > 100  # it does pass as soon as it leads


def test_a_game_depends_on_its_seed_and_its_opening_alone() -> None:
    rules = Rules.preset("cgos", 7)
    played = random_games(rules, 40, slots=40)
    for slots, threads, groups in ((3, 1, 1), (40, 3, 1), (40, 1, 2), (40, 3, 2), (7, 2, 3), (2, 1, 5)):
        other = random_games(rules, 40, slots=slots, threads=threads, groups=groups)
        assert np.array_equal(other.games.moves, played.games.moves)
        assert np.array_equal(other.margins, played.margins) and np.array_equal(other.deciders, played.deciders)
    changed = random_games(rules, 40, seed=2)
    assert all(moves_of(changed, number)[2:] != moves_of(played, number)[2:] for number in range(40))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_moves_are_drawn_as_often_as_the_temperature_says(temperature: float) -> None:
    rules = Rules.preset("cgos", 5, -1.0, move_limit=1)  # Black leads, so the pass is among the moves
    wishes = np.linspace(-2, 2, 26)
    everyone = np.zeros(20_000, np.int64)
    played = play([Wishes(wishes, temperature)], by_colour(everyone, everyone), rules, draw_seeds(20_000, 5))
    expected = np.exp(wishes / temperature)
    expected /= expected.sum()
    found = np.bincount(played.games.moves, minlength=26) / 20_000
    assert np.abs(found - expected).max() < 4 * np.sqrt(expected.max() / 20_000)


def test_at_temperature_0_two_players_play_one_game_over_and_over_but_for_openings() -> None:
    rules = Rules.preset("cgos", 5)
    best = Wishes(np.random.default_rng(1).normal(size=26), temperature=0)
    everyone = np.zeros(6, np.int64)
    seeds = draw_seeds(6, 1)
    alike = play([best], by_colour(everyone, everyone), rules, seeds)
    assert {tuple(moves_of(alike, number)) for number in range(6)} == {tuple(moves_of(alike, 0))}
    openings = draw_openings(rules, 6, 2, 1)
    apart = play([best], by_colour(everyone, everyone), rules, seeds, openings)
    assert len({tuple(moves_of(apart, number)) for number in range(6)}) == 6


def test_two_nets_with_a_colour_each_are_asked_about_all_games_at_once() -> None:
    rules = Rules.preset("cgos", 7, move_limit=12)
    one, other = Wishes(np.zeros(50)), Wishes(np.zeros(50))
    is_black = np.arange(10) % 2
    played = play([one, other], by_colour(1 - is_black, is_black), rules, draw_seeds(10, 1))
    assert sorted([*one.batches, *other.batches]) == [5, 5, *[10] * 11]
    assert played.speed.positions == 120 and played.speed.questions == 13
    assert played.speed.batch == pytest.approx(120 / 13) and played.speed.fill == pytest.approx(12 / 13)
    for number in range(10):
        decided = played.deciders[played.games.starts[number] : played.games.starts[number + 1]].tolist()
        assert decided == [number % 2, 1 - number % 2] * 6 or decided == [1 - number % 2, number % 2] * 6
        assert decided[0] == 1 - is_black[number]


def test_one_group_is_played_while_a_player_is_asked_about_another() -> None:
    """The first answer comes only after the positions of the other group have been encoded."""
    encoded = Event()

    batches, waited = [], []

    def encode(positions: Positions, count: int, tables: np.ndarray, planes: np.ndarray) -> None:
        batches.append(count)
        if len(batches) == 2:
            encoded.set()

    class Waiting(Uniform):
        encoder = Encoder("counting", 1, encode)

        def logits(self, planes: np.ndarray) -> np.ndarray:
            if not waited:
                waited.append(encoded.wait(30))
            return super().logits(planes)

    seats = by_colour(np.zeros(9, np.int64), np.zeros(9, np.int64))
    played = play([Waiting()], seats, Rules.preset("cgos", 5), draw_seeds(9, 1), groups=2)
    assert waited == [True]
    assert batches[:2] == [5, 4] and max(batches) == 5 and played.speed.slots == 5
    assert played.speed.positions == sum(batches) and played.speed.questions == len(batches)


def test_what_a_player_raises_comes_through() -> None:
    class Broken(Uniform):
        def logits(self, planes: np.ndarray) -> np.ndarray:
            raise MemoryError("no room for the net")

    seats = by_colour(np.zeros(4, np.int64), np.zeros(4, np.int64))
    for groups in (1, 2):
        with pytest.raises(MemoryError, match="no room"):
            play([Broken()], seats, Rules.preset("cgos", 5), draw_seeds(4, 1), groups=groups)


def test_a_game_can_be_one_players_then_at_random_then_anothers() -> None:
    rules = Rules.preset("cgos", 5)
    first, last = Wishes(np.zeros(26)), Wishes(np.zeros(26))
    turn = np.arange(1, 13)

    def seats(games: np.ndarray, plies: np.ndarray) -> np.ndarray:
        return 1 - np.sign(turn[games] - plies)

    played = play([first, Uniform(), last], seats, rules, draw_seeds(12, 1), slots=5)
    for number in range(12):
        decided = played.deciders[played.games.starts[number] : played.games.starts[number + 1]].tolist()
        rest = len(decided) - turn[number] - 1
        assert decided == [0] * turn[number] + [1] + [2] * rest and rest > 0


def test_an_opening_is_given_and_one_that_cannot_be_is_refused() -> None:
    rules = Rules.preset("cgos", 5)
    seats = by_colour(np.zeros(2, np.int64), np.zeros(2, np.int64))
    played = play([Uniform()], seats, rules, draw_seeds(2, 1), [(12, 7, 3), (25, 6)])
    assert moves_of(played, 0)[:3] == [12, 7, 3] and moves_of(played, 1)[:2] == [25, 6]
    given = [played.deciders[begin : begin + 4].tolist() for begin in played.games.starts[:-1]]
    assert given == [[GIVEN, GIVEN, GIVEN, 0], [GIVEN, GIVEN, 0, 0]] and played.openings.tolist() == [3, 2]
    for opening in ((12, 12), (25, 25), tuple(range(25)) * 3):
        with pytest.raises(IllegalMove, match="opening"):
            play([Uniform()], seats, rules, draw_seeds(2, 1), [opening, opening])
    with pytest.raises(ConfigError, match="prisoners"):
        play([Uniform()], seats, Rules.preset("japanese", 5), draw_seeds(2, 1))


def test_games_are_records_that_are_read_back() -> None:
    rules = Rules.preset("cgos", 7)
    played = random_games(rules, 4)
    for number, record in enumerate(played.records([("rl@10", "sl-9x9")] * 4, event="match")):
        back = read_sgf(write_sgf(record))
        assert back.moves == record.moves == tuple(moves_of(played, number))
        assert back.outcome == record.outcome and (back.black, back.white) == ("rl@10", "sl-9x9")
        assert back.replay().margin() == played.margins[number] and back.opening == 2


def test_points_are_those_of_the_side_asked_for_and_no_game_is_no_mistake() -> None:
    played = random_games(Rules.preset("cgos", 5, 0.0), 60)
    black, white = played.points(np.ones(60, np.bool_)), played.points(np.zeros(60, np.bool_))
    assert np.array_equal(black + white, np.ones(60))
    assert np.array_equal(black == 1, played.games.winners == BLACK_WON)
    assert {*black.tolist()} >= {0.0, 1.0}
    nobody = np.empty(0, np.int64)
    played = play([Uniform()], by_colour(nobody, nobody), Rules.preset("cgos", 5), draw_seeds(0, 1))
    assert len(played.games) == 0 and list(pairwise(played.games.starts)) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compiled_net_says_what_a_plain_one_does_also_after_it_has_learned() -> None:
    torch.manual_seed(1)
    network = named_network("arena-2x16", 17, 9)
    plain, compiled = (
        NetPlayer(network, find_encoder("arena-17"), torch.device("cpu"), compile=compile) for compile in (False, True)
    )
    for _ in range(2):
        for batch in (64, 7, 1):
            planes = np.random.default_rng(batch).random((batch, 17, 9, 9), np.float32)
            assert np.abs(plain.logits(planes) - compiled.logits(planes)).max() < 1e-4
        with torch.no_grad():
            for parameter in network.parameters():
                parameter += 0.01 * torch.randn_like(parameter)
