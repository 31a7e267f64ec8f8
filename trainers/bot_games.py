"""Games of bots for trainers, on the arena's own game loop: matches that rate a net, and games of a teacher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from arena import BotFault
from arena.contract.bot import Bot, Decision, Limits
from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Game, Rules
from arena.go.planes import encode_games
from arena.go.record import GameRecord
from arena.match.game_loop import GameLoop
from arena.match.openings import draw_openings
from arena.match.schedule import Pairing
from arena.players.player import Player
from bots.policy import pick_move
from trainers.progress import Rating
from trainers.selfplay import Evaluator, NewGame, PlayedGame, draw_seeds
from trainers.slots import SelfPlayParams, chances, draw_move, to_levels

PATIENT = Limits(deadline=3600)  # of a net or a teacher: its first move may compile kernels or have the net captured

GoesOn = Callable[[], bool]


def play_bots(
    players: Mapping[str, Bot],
    limits: Mapping[str, Limits],
    rules: Rules,
    pairings: Iterable[Pairing],
    slots: int,
    goes_on: GoesOn,
) -> Iterator[GameRecord]:
    """Play games, ``slots`` at once, as they end; those under way are lost once it no longer ``goes_on``, which is
    checked before every round of moves."""
    loop, waiting = GameLoop(players, rules, limits), iter(pairings)
    while goes_on():
        while len(loop.live_games) < slots and (pairing := next(waiting, None)) is not None:
            loop.start_game(pairing)
        if not loop.live_games:
            return
        yield from loop.play_round()


# --- Matches ---


class PolicyBot(Bot):
    """A net that plays by its policy alone."""

    def __init__(self, net: Evaluator, temperature: float = 1.0):
        self._net, self._temperature = net, temperature

    def choose(self, game: Game, limits: Limits) -> Decision:
        return self.choose_all([game], limits)[0]

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        logits, _ = self._net.evaluate(encode_games(self._net.encoder, games))
        return [Decision(pick_move(game, row, self._temperature)) for game, row in zip(games, logits, strict=True)]


class RatingMatch(NamedTuple):
    """A match that shows how strong a net is: pairs of games, each with an opening of its own and both colours."""

    rules: Rules
    games: int
    plies: int  # random moves of an opening
    key: tuple[int, ...]  # draws the openings by its first number, and the games' seeds by all of them

    def play(
        self, player: Bot, opponent: Bot, limits: Limits = PATIENT, slots: int = 1, goes_on: GoesOn = lambda: True
    ) -> np.ndarray:
        """The points of the player, (games,) float64, 1 for a win and 1/2 for a draw; fewer where it no longer
        ``goes_on``. A fault of the opponent is a game lost by it; one of the player raises RuntimeError."""
        openings = draw_openings(self.rules, self.games // 2, self.plies, self.key[0])
        pairings, points = list[Pairing](), dict[int, float]()
        for number, seed in enumerate((draw_seeds(self.games, *self.key) >> np.uint64(1)).tolist()):
            colours = ("opponent", "net") if number % 2 else ("net", "opponent")
            pairings.append(Pairing(str(number), number, *colours, openings[number // 2], seed))
        players, allowed = {"net": player, "opponent": opponent}, {"net": PATIENT, "opponent": limits}
        for record in play_bots(players, allowed, self.rules, pairings, slots, goes_on):
            outcome = record.outcome
            assert outcome is not None  # its game is over
            winner = {BLACK: record.black, WHITE: record.white, None: ""}[outcome.winner]
            if winner == "opponent" and outcome.ending.is_forfeit:
                raise RuntimeError(record.reason)
            points[int(record.id)] = float(winner == "net") if winner else 0.5
        return np.array([points[number] for number in sorted(points)])

    def rate(self, iteration: int, player: Bot, opponent: Player, goes_on: GoesOn = lambda: True) -> Rating | None:
        """The result of a match against a bot of the registry; None where it no longer ``goes_on`` before its end."""
        bot = opponent.build()
        try:
            points = self.play(player, bot, opponent.limits, min(self.games, opponent.bot_kind.boards), goes_on)
        finally:
            bot.close()
        return Rating.of(iteration, opponent.name, points) if len(points) == self.games else None


# --- Games of a teacher ---

TEACHER = "teacher"


class Teacher(Protocol):
    """A bot that returns what it found, not only what it would play."""

    def search_targets(self, games: Sequence[Game], limits: Limits) -> tuple[np.ndarray, np.ndarray]:
        """The weight of each move (games, size² + 1), at least 0 and not all 0, and the win rates (games,) of the sides
        to move, NaN where it has none."""


class TeachingBot(Bot):
    """A teacher that plays against itself: a share of its moves is searched in full and noted. Its chances depend on
    the games' seeds alone. A ``player``, if given, chooses the moves."""

    def __init__(
        self,
        teacher: Teacher,
        visits: int | None,
        params: SelfPlayParams,
        player: Teacher | None = None,
        player_visits: int | None = None,
    ):
        """``visits`` are those of a full search, None for as many as the teacher has."""
        self._teacher, self._visits, self._params = teacher, visits, params
        self._player, self._other_visits = player, player_visits if player else params.cheap_search_visits
        self._found: dict[int, dict[int, tuple[np.ndarray, float]]] = {}  # by the game's seed, by ply

    def choose(self, game: Game, limits: Limits) -> Decision:
        return self.choose_all([game], limits)[0]

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        params, drawn = self._params, [chances(game.move_seed()) for game in games]
        full = [place for place, (chance, _) in enumerate(drawn) if chance < params.full_search_prob]
        found = _search(self._teacher, self._visits, games, full)
        for place, (row, win_rate) in found.items():
            levels = np.empty(len(row), np.uint16)
            to_levels(row, levels)
            self._found.setdefault(games[place].seed, {})[len(games[place].moves)] = levels, win_rate
        rest = [place for place in range(len(games)) if self._player or place not in found]
        found |= _search(self._player or self._teacher, self._other_visits, games, rest)
        early = [params.temperature if len(game.moves) < params.temperature_moves else 0.0 for game in games]
        draws = zip(early, drawn, strict=True)
        return [Decision(int(draw_move(found[n][0], heat, chance))) for n, (heat, (_, chance)) in enumerate(draws)]

    def play(
        self, rules: Rules, new_games: Iterator[NewGame], slots: int, goes_on: GoesOn = lambda: True
    ) -> Iterator[PlayedGame]:
        """As ``selfplay.SelfPlayGames.play``. Raises BotFault for a fault of the teacher."""
        pairings = (Pairing(str(new.number), new.number, TEACHER, TEACHER, new.opening, new.seed) for new in new_games)
        for record in play_bots({TEACHER: self}, {TEACHER: PATIENT}, rules, pairings, slots, goes_on):
            outcome = record.outcome
            if outcome is None or outcome.margin is None:
                raise BotFault(record.reason)
            found = self._found.pop(record.seed, {})
            yield PlayedGame(
                int(record.id),
                np.array(record.moves, np.uint16),
                rules.komi,
                outcome.margin,
                outcome.ending is Ending.SCORE,
                np.array(list(found), np.int64),
                np.array([levels for levels, _ in found.values()], np.uint16).reshape(-1, rules.size**2 + 1),
                np.array([win_rate for _, win_rate in found.values()], np.float32),
            )


def _search(
    teacher: Teacher, visits: int | None, games: Sequence[Game], places: Sequence[int]
) -> dict[int, tuple[np.ndarray, float]]:
    """By place among the games: the weights of legal moves, for a search doesn't know before it tries a move that
    superko forbids it; and the win rate."""
    if not places:
        return {}
    rows, rates = teacher.search_targets([games[place] for place in places], Limits(simulations=visits))
    rows = rows * np.array([games[place].legal_moves() for place in places])
    rows[:, -1] += ~rows.any(1)
    return dict(zip(places, zip(rows, rates.tolist(), strict=True), strict=True))
