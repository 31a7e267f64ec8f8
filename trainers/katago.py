"""A strong engine as a teacher: many positions at once over KataGo's analysis protocol (docs/Analysis_Engine.md)."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena import BotFault
from arena.contract.bot import Limits
from arena.go.coords import gtp_from_move, move_from_gtp
from arena.go.game import Game
from bots import gtp
from bots.gtp import Engine, katago_rules, quoted, read_command

PATIENCE = 600.0  # seconds that an engine gets for all the positions that it is sent at once


class Analyst:
    """An engine in its analysis mode. It starts with the first question, and anew after a fault."""

    def __init__(self, config: gtp.Config):
        """Raises ConfigError for a command that can't be run."""
        self._title = shlex.join(read_command(config, "analysis"))[:80]
        self._config = config
        self._engine: Engine | None = None
        self._sent = 0

    def search_targets(self, games: Sequence[Game], limits: Limits) -> tuple[np.ndarray, np.ndarray]:
        """The visits of each move (games, size² + 1), or with one visit the net's policy, and the win rates (games,) of
        the sides to move. Raises BotFault; the engine is gone then."""
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
            return np.array(weights), np.array([answers[name]["rootInfo"]["winrate"] for name in names], np.float32)
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
