"""Teachers, whose searches are learned from: bots on the arena's game loop, and engines in their analysis mode."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from arena import BotFault
from arena.contract.bot import Bot, Decision, Limits
from arena.go.coords import gtp_from_move, move_from_gtp
from arena.go.game import Ending, Game, Rules
from arena.match.schedule import Pairing
from bots import gtp
from bots.gtp import Engine, katago_rules, quoted, read_command
from trainers.ratings import PATIENT, GoesOn, play_bots
from trainers.selfplay import CERTAIN, NOT_JUDGED, NewGame, PlayedGame
from trainers.slots import (
    DECIDED_FULL_SEARCH_FACTOR,
    DECIDED_MARGIN,
    DECIDED_TURNS,
    SelfPlayParams,
    chances,
    draw_move,
    to_levels,
)

TEACHER = "teacher"


class Teacher(Protocol):
    """A bot that returns what it found, not only what it would play."""

    def search_targets(self, games: Sequence[Game], limits: Limits) -> tuple[np.ndarray, ...]:
        """The weight of each move (games, size² + 1), at least 0 and not all 0, and the win rates (games,) of the sides
        to move, NaN where it has none. A teacher may add ownership (games, size²) in [-1, 1], also of their side,
        NaN where it has none."""


class TeachingBot(Bot):
    """A teacher that plays against itself: a share of its moves is searched in full and noted, a smaller one in a game
    that is decided. Its random numbers depend on the games' seeds alone. A ``player``, if given, chooses the moves."""

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
        cheap = min(params.cheap_search_visits, visits or params.cheap_search_visits)
        self._player, self._other_visits = player, player_visits if player else cheap
        self._found: dict[int, dict[int, tuple[np.ndarray, ...]]] = {}  # by the game's seed, by ply

    def choose(self, game: Game, limits: Limits) -> Decision:
        return self.choose_all([game], limits)[0]

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        params, drawn = self._params, [chances(game.move_seed()) for game in games]
        full = [place for place, (chance, _) in enumerate(drawn) if chance < self._full_search_prob(games[place])]
        found = _search(self._teacher, self._visits, games, full)
        for place, (row, *others) in found.items():
            levels = np.empty(len(row), np.uint16)
            to_levels(row, levels)
            self._found.setdefault(games[place].seed, {})[len(games[place].moves)] = levels, *others
        rest = [place for place in range(len(games)) if self._player or place not in found]
        found |= _search(self._player or self._teacher, self._other_visits, games, rest)
        early = [params.temperature if len(game.moves) < params.temperature_moves else 0.0 for game in games]
        draws = zip(early, drawn, strict=True)
        return [Decision(int(draw_move(found[n][0], heat, chance))) for n, (heat, (_, chance)) in enumerate(draws)]

    def _full_search_prob(self, game: Game) -> float:
        """Lower in a game where the last full searches found one side winning for certain."""
        rates = [float(rate) for _, rate, *_ in self._found.get(game.seed, {}).values()][-DECIDED_TURNS:]
        decided = len(rates) == DECIDED_TURNS and all(min(rate, 1 - rate) < DECIDED_MARGIN for rate in rates)
        return self._params.full_search_prob * (DECIDED_FULL_SEARCH_FACTOR if decided else 1)

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
            levels, win_rates, *owners = zip(*found.values(), strict=True) if found else ([], [])
            yield PlayedGame(
                int(record.id),
                np.array(record.moves, np.uint16),
                rules.komi,
                outcome.margin,
                outcome.ending is Ending.SCORE,
                np.array(list(found), np.int64),
                np.array(levels, np.uint16).reshape(-1, rules.size**2 + 1),
                np.array(win_rates, np.float32),
                np.rint(np.nan_to_num(np.array(owners[0]) * CERTAIN, nan=NOT_JUDGED)).astype(np.int8)
                if owners
                else None,
            )


def _search(
    teacher: Teacher, visits: int | None, games: Sequence[Game], places: Sequence[int]
) -> dict[int, tuple[np.ndarray, ...]]:
    """By place among the games what the teacher found, with the weights of legal moves only: a search doesn't know that
    superko forbids a move before it tries it."""
    if not places:
        return {}
    rows, *others = teacher.search_targets([games[place] for place in places], Limits(simulations=visits))
    rows = rows * np.array([games[place].legal_moves() for place in places])
    rows[:, -1] += ~rows.any(1)
    return dict(zip(places, zip(rows, *others, strict=True), strict=True))


# --- Engines ---

PATIENCE = 600.0  # seconds that an engine gets for all the positions that it is sent at once


class Analyst:
    """An engine in KataGo's analysis mode (docs/Analysis_Engine.md), which takes many positions at once. It starts with
    the first of them, and anew after a fault."""

    def __init__(self, config: gtp.Config):
        """Raises ConfigError for a command that can't be run."""
        self._title = shlex.join(read_command(config, "analysis"))[:80]
        self._config = config
        self._engine: Engine | None = None
        self._sent = 0

    def search_targets(self, games: Sequence[Game], limits: Limits) -> tuple[np.ndarray, ...]:
        """The visits of each move (games, size² + 1), or with one visit the net's policy, the win rates (games,) of the
        sides to move, and ownership (games, size²). Raises BotFault; the engine is gone then."""
        visits, deadline = limits.simulations or 1, time.monotonic() + PATIENCE
        names = [str(self._sent + number) for number in range(len(games))]
        self._sent += len(games)
        answers: dict[str, Mapping[str, Any]] = {}
        try:
            engine = self._engine = self._engine or Engine(self._config, "analysis")
            queries = [json.dumps({"id": name, **query(game, visits)}) for name, game in zip(names, games, strict=True)]
            engine.write("".join(f"{line}\n" for line in queries), deadline)
            while len(answers) < len(games):
                try:
                    answer = json.loads(next(engine.lines("a position", deadline)))
                except ValueError:  # not JSON, such as a greeting
                    continue
                if "error" in answer:
                    raise BotFault(f"{self._title}: refuses a position: {quoted(str(answer['error']), 200)}")
                if answer.get("id") in names and "rootInfo" in answer and not answer.get("isDuringSearch"):
                    answers[answer["id"]] = answer
            weights = [weights_of(answers[name], games[0].rules.size, visits) for name in names]
            rates = np.array([answers[name]["rootInfo"]["winrate"] for name in names], np.float32)
            none = [np.nan] * games[0].rules.size ** 2  # of an engine that doesn't tell
            owners = np.array([answers[name].get("ownership", none) for name in names], np.float32)
            return np.array(weights), rates, owners.reshape(len(games), len(none)).clip(-1, 1)
        except BaseException as error:
            self.close()
            if not isinstance(error, AttributeError | KeyError | TypeError | ValueError):
                raise
            raise BotFault(f"{self._title}: its answer can't be read ({type(error).__name__}: {error})") from None

    def close(self) -> None:
        """End the engine."""
        if self._engine is not None:
            self._engine.stop()
        self._engine = None


def query(game: Game, visits: int) -> dict[str, Any]:
    """The present position of a game. Its net is to see the last moves: in its analysis mode KataGo hides them from it
    by default, and returns other win rates (0.57 for 0.77 in one 9x9 opening)."""
    size, (black, white) = game.rules.size, game.setup
    stones = [["B", gtp_from_move(move, size)] for move in black] + [["W", gtp_from_move(move, size)] for move in white]
    return {
        "initialStones": stones,
        "moves": [["BW"[ply % 2], gtp_from_move(move, size)] for ply, move in enumerate(game.moves)],
        "rules": json.loads(katago_rules(game.rules)),
        "komi": game.rules.komi,
        "boardXSize": size,
        "boardYSize": size,
        "maxVisits": visits,
        "includePolicy": visits == 1,
        "includeOwnership": True,
        "analysisPVLen": 1,
        "overrideSettings": {"reportAnalysisWinratesAs": "SIDETOMOVE", "ignorePreRootHistory": False},
    }


def weights_of(answer: Mapping[str, Any], size: int, visits: int) -> np.ndarray:
    """How an answer weighs each move (size² + 1,). Raises KeyError, TypeError or ValueError for one that can't be
    read."""
    moves = size**2 + 1
    if visits == 1:
        weights = np.maximum(np.array(answer["policy"], np.float64), 0)  # -1 for illegal moves
        if weights.shape != (moves,):
            raise ValueError(f"{len(weights)} moves in its policy, not {moves}")
    else:
        weights = np.zeros(moves)
        for info in answer["moveInfos"]:
            weights[move_from_gtp(info["move"], size)] = info["visits"]
    if not np.isfinite(weights).all() or not weights.any():
        raise ValueError("no move has any weight")
    return weights
