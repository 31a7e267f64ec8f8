"""Games of self-play: played by nets or at random, and played again by the referee."""

from collections.abc import Iterator, Sequence

import numpy as np

from arena.go.game import Ending, Game, Rules
from arena.match.openings import Opening, draw_openings
from trainers.selfplay import RANDOM, NewGame, Parallelism, PlayedGame, PolicyGames, Seats, SelfPlayNet, draw_seeds

MANY = Parallelism(1024)


def at_random(numbers: np.ndarray, plies: np.ndarray) -> np.ndarray:
    return np.full(len(numbers), RANDOM)


def play(
    rules: Rules,
    count: int,
    nets: Sequence[SelfPlayNet] = (),
    seats: Seats = at_random,
    seed: int = 1,
    openings: Sequence[Opening] = (),
    parallel: Parallelism = MANY,
) -> list[PlayedGame]:
    """One game for each seed, in their order."""
    seeds = draw_seeds(count, seed).tolist()
    new = (NewGame(n, s, rules.komi, openings[n] if openings else ()) for n, s in enumerate(seeds))
    games = PolicyGames(rules, nets, seats, parallel._replace(slots=min(parallel.slots, count)))
    return sorted(games.play(new), key=lambda game: game.number)


def random_games(
    rules: Rules, count: int, seed: int = 1, plies: int = 2, parallel: Parallelism = MANY
) -> list[PlayedGame]:
    return play(rules, count, seed=seed, openings=draw_openings(rules, count, plies, 3), parallel=parallel)


def replayed(game: PlayedGame, rules: Rules) -> Iterator[tuple[Game, int]]:
    """The referee's game before each move, and the move; at the end it is checked."""
    referee = Game(rules)
    for move in game.moves.tolist():
        assert not referee.is_over
        yield referee, move
        referee.play(move)
    assert referee.outcome is not None and referee.outcome.margin == game.margin
    assert (referee.outcome.ending is Ending.SCORE) == game.is_sound
