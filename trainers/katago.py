"""A strong engine as a teacher: it is asked about many positions at once over KataGo's analysis protocol, JSON a line
(KataGo, docs/Analysis_Engine.md). It plays no game itself.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena import BotFault
from arena.contract.bot import Limits
from arena.go.coords import gtp_from_move, move_from_gtp, pass_move
from arena.go.game import Game, Rules
from bots import gtp
from bots.gtp import Engine, katago_rules, quoted, read_command

PATIENCE = 600.0
"""Seconds that an engine gets for all the positions that it is asked about at once."""


class Analyst:
    """An engine in its analysis mode. It starts with the first question, and anew after a fault."""

    def __init__(self, config: gtp.Config):
        """Raises ConfigError for a command that can't be run."""
        self._title = shlex.join(read_command(config, "analysis"))[:80]
        self._config = config
        self._engine: Engine | None = None
        self._asked = 0

    def search_targets(self, games: Sequence[Game], limits: Limits) -> tuple[np.ndarray, np.ndarray]:
        """The visits of each move (games, size² + 1), or with one visit the net's policy, and the win rates (games,) of
        the sides to move. Raises BotFault."""
        visits = limits.simulations or 1
        answers = self._ask([query(game, visits) for game in games])
        try:
            weights = [weights_of(answer, game.rules, visits) for answer, game in zip(answers, games, strict=True)]
            return np.array(weights), np.array([answer["rootInfo"]["winrate"] for answer in answers], np.float32)
        except (KeyError, TypeError, ValueError) as error:
            self.close()
            raise BotFault(f"{self._title}: its answer can't be read ({type(error).__name__}: {error})") from None

    def _ask(self, queries: Sequence[dict[str, Any]]) -> list[Mapping[str, Any]]:
        """The answers, in the order of the queries. Raises BotFault; the engine is gone then."""
        engine = self._engine = self._engine or Engine(self._config, "analysis")
        places = {f"{self._asked + number}": number for number in range(len(queries))}
        self._asked += len(queries)
        answers: dict[int, Mapping[str, Any]] = {}
        deadline = time.monotonic() + PATIENCE
        try:
            lines = (json.dumps({"id": name, **asked}) for name, asked in zip(places, queries, strict=True))
            engine.write("".join(f"{line}\n" for line in lines), deadline)
            while len(answers) < len(queries):
                answer = _parsed(next(engine.lines("a position", deadline)))
                if "error" in answer:
                    raise BotFault(f"{self._title}: refuses a position: {quoted(str(answer['error']), 200)}")
                place = places.get(str(answer.get("id")))
                if place is not None and "rootInfo" in answer and not answer.get("isDuringSearch"):
                    answers[place] = answer
        except BaseException:
            self.close()
            raise
        return [answers[place] for place in range(len(queries))]

    def close(self) -> None:
        """End the engine."""
        if self._engine is not None:
            self._engine.stop()
        self._engine = None


def query(game: Game, visits: int) -> dict[str, Any]:
    """What is asked about the present position of a game. Its net is to see the last moves: in its analysis mode KataGo
    hides them from it unless told otherwise, and other win rates come out (0.57 for 0.77 in one 9x9 opening)."""
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


def weights_of(answer: Mapping[str, Any], rules: Rules, visits: int) -> np.ndarray:
    """How an answer weighs each move (size² + 1,). Raises KeyError, TypeError or ValueError for one that can't be
    read."""
    moves = pass_move(rules.size) + 1
    if visits == 1:
        weights = np.maximum(np.array(answer["policy"], np.float64), 0)  # -1 for illegal moves
        if weights.shape != (moves,):
            raise ValueError(f"{len(weights)} moves in its policy, not {moves}")
    else:
        weights = np.zeros(moves)
        for told in answer["moveInfos"]:
            weights[move_from_gtp(told["move"], rules.size)] = told["visits"]
    if not np.isfinite(weights).all() or not weights.any():
        raise ValueError("no move has any weight")
    return weights


def _parsed(line: str) -> Mapping[str, Any]:
    """The object in a line; nothing for a line that isn't one, such as a greeting."""
    try:
        answer = json.loads(line)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
