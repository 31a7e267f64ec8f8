"""Teachers, whose searches are learned from: bots on the arena's game loop, and engines in their analysis mode."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from arena import BotFault
from arena.contract.bot import Bot, Decision, Limits
from arena.go.coords import Move, gtp_from_move, move_from_gtp
from arena.go.game import Ending, Game, Rules
from arena.go.planes import NO_MOVE
from arena.match.schedule import Pairing
from bots import gtp
from bots.alphago import AlphaGo
from bots.gtp import Engine, katago_rules, quoted, read_command
from trainers.ratings import PATIENT, GoesOn, play_bots
from trainers.selfplay import CERTAIN, LINE, NOT_JUDGED, NewGame, PlayedGame
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

Place = tuple[int, tuple[Move, ...]]
"""Where a position is: how many moves of the game come before it, and then those of a line in its tree."""


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
        tree_positions: int = 0,
    ):
        """``visits`` are those of a full search, None for as many as the teacher has. With each position of a game,
        ``tree_positions`` of the player's tree are searched."""
        self._teacher, self._visits, self._params = teacher, visits, params
        cheap = min(params.cheap_search_visits, visits or params.cheap_search_visits)
        self._player, self._other_visits = player, player_visits if player else cheap
        self._tree_positions = tree_positions
        self._found: dict[int, dict[Place, tuple[np.ndarray, ...]]] = {}  # by the game's seed

    def choose(self, game: Game, limits: Limits) -> Decision:
        return self.choose_all([game], limits)[0]

    def choose_all(self, games: Sequence[Game], limits: Limits) -> list[Decision]:
        params, drawn = self._params, [chances(game.move_seed()) for game in games]
        full = [place for place, (chance, _) in enumerate(drawn) if chance < self._full_search_prob(games[place])]
        rest = [place for place in range(len(games)) if self._player or place not in full]
        played = _search(self._player or self._teacher, self._other_visits, games, rest)
        asked: list[tuple[Game, Place]] = [(games[place], (len(games[place].moves), ())) for place in full]
        asked += [one for place in full for one in self._in_tree(games[place])]
        searched = _search(self._teacher, self._visits, [game for game, _ in asked], range(len(asked)))
        for number, (game, place) in enumerate(asked):
            row, *others = searched[number]
            levels = np.empty(len(row), np.uint16)
            to_levels(row, levels)
            self._found.setdefault(game.seed, {})[place] = levels, *others
        found = {place: searched[number] for number, place in enumerate(full)} | played
        early = [params.temperature if len(game.moves) < params.temperature_moves else 0.0 for game in games]
        draws = zip(early, drawn, strict=True)
        return [Decision(int(draw_move(found[n][0], heat, chance))) for n, (heat, (_, chance)) in enumerate(draws)]

    def _in_tree(self, game: Game) -> list[tuple[Game, Place]]:
        """Positions of the player's tree, as games, and their places."""
        found = []
        if self._tree_positions:
            for line in cast(AlphaGo, self._player).tree_lines(game, self._tree_positions, game.move_seed()):
                ahead = game.copy()
                for move in line[:LINE]:
                    if not ahead.is_over:  # a search doesn't know the move limit
                        ahead.play(move)
                found.append((ahead, (len(game.moves), tuple(line[:LINE]))))
        return [(ahead, place) for ahead, place in found if not ahead.is_over]

    def _full_search_prob(self, game: Game) -> float:
        """Lower in a game where the last full searches found one side winning for certain."""
        found = self._found.get(game.seed, {}).items()
        rates = [float(rate) for (_, line), (_, rate, *_) in found if not line][-DECIDED_TURNS:]
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
                np.array([ply for ply, _ in found], np.int64),
                np.array(levels, np.uint16).reshape(-1, rules.size**2 + 1),
                np.array(win_rates, np.float32),
                np.rint(np.nan_to_num(np.array(owners[0]) * CERTAIN, nan=NOT_JUDGED)).astype(np.int8)
                if owners
                else None,
                np.array([[*line, *[NO_MOVE] * (LINE - len(line))] for _, line in found], np.int16).reshape(-1, LINE)
                if self._tree_positions
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
