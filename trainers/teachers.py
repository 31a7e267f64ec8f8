"""Teachers of ``distill``: nets, searches and engines in analysis mode, which evaluate positions of games."""

import json
import shlex
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple, cast

import numpy as np

from arena import BotFault
from arena.contract.bot import Limits
from arena.go.coords import gtp_from_move, move_from_gtp
from arena.go.game import Game, Rules
from arena.go.planes import NO_MOVE, encode_rows
from arena.players.player import Player
from bots import gtp, policy
from bots.gtp import Engine, katago_rules, quoted, read_command
from bots.nets.checkpoint import Checkpoint, Precision, find
from bots.nets.inference import Evaluator
from trainers import slots
from trainers.selfplay import CERTAIN, NOT_JUDGED, PlayedGame

AT_ONCE, AT_ONCE_ON_GPU = 64, 16_384  # positions that a teacher judges at once, about: whole games
MOST_MOVES = 10_000
SEARCHED_AT_ONCE = 32  # boards that are searched at once

Judged = tuple[np.ndarray, np.ndarray, np.ndarray | None]
"""For the side to move: shares of the moves (B, size² + 1), which sum to 1; win rates (B,), NaN if unknown; ownership
(B, size²) in [-1, 1], NaN if unknown, or None."""


class Teacher(NamedTuple):
    """Judges positions of one size. Thread-safe."""

    at_once: int  # positions that are best judged together, about
    judge: Callable[[Sequence[np.ndarray], float], Judged]
    """Judges the positions after some moves, each (moves,) uint16, with a komi. Raises BotFault if an engine fails."""
    close: Callable[[], None] = lambda: None


def build_teacher(player: Player, rules: Rules, threads: int) -> Teacher:
    """The teacher of a player's settings. Raises CheckpointError for a net that can't be loaded."""
    config = player.config
    if isinstance(config, policy.Config):
        net = Evaluator(Checkpoint.open(find(config.checkpoint)), config.precision)
        at_once = AT_ONCE_ON_GPU if net.precision is Precision.BF16 else AT_ONCE
        return Teacher(at_once, partial(judge_by_net, net, Lock(), rules.size, threads))
    bot: Any = Analyst(config) if isinstance(config, gtp.Config) else player.build()
    limits = Limits(simulations=player.limits.simulations)
    return Teacher(AT_ONCE, partial(judge_by_search, bot, limits, rules), bot.close)


def judge_by_net(
    net: Evaluator, evaluating: Lock, size: int, threads: int, moves: Sequence[np.ndarray], komi: float
) -> Judged:
    """Judge positions by a net without search. While one thread evaluates, another one may encode."""
    count, lengths = len(moves), np.array([len(each) for each in moves])
    starts, flat = np.append(0, lengths.cumsum()), np.concatenate(moves).astype(np.uint16)
    komis, sensible = np.full(count, komi), np.empty((count, size**2 + 1), np.bool_)
    known = (size, flat, starts, komis, np.arange(count), lengths, np.zeros(count, np.uint8))
    planes = encode_rows(net.encoder, *known, threads).reshape(count, -1, size, size)
    bounds = np.linspace(0, count, threads + 1).astype(int)

    def mark(begin: int, end: int) -> None:
        room = slots.GameSlots.empty(1, int(lengths.max()) + 1)
        slots.mark_sensible(room, size, flat, starts[begin : end + 1], komis[begin:end], sensible[begin:end], False)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(mark, bounds[:-1], bounds[1:]))
    with evaluating:
        logits, rates, owners, _ = net.evaluate_all(planes)
    logits[~sensible] = -np.inf
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True), rates, owners


def judge_by_search(searcher: Any, limits: Limits, rules: Rules, moves: Sequence[np.ndarray], komi: float) -> Judged:
    """Judge positions by an ``Analyst`` or a bot that searches."""
    games = []
    for number, each in enumerate(moves):
        game = Game(replace(rules, komi=komi, move_limit=MOST_MOVES), seed=number)  # lines may be long
        for move in each.tolist():
            game.play(move)
        games.append(game)
    parts = [games[first : first + SEARCHED_AT_ONCE] for first in range(0, len(games), SEARCHED_AT_ONCE)]
    found = [searcher.search_targets(part, limits) for part in parts]
    weights, rates, *owners = (np.concatenate(column) for column in zip(*found, strict=True))
    weights = weights * np.array([game.legal_moves() for game in games])  # a search finds superko late
    weights[:, -1] += ~weights.any(1)
    return weights / weights.sum(1, keepdims=True), rates, owners[0] if owners else None


def chosen_plies(game: PlayedGame, share: float, seed: int) -> np.ndarray:
    """Draw a share of the plies after the opening; of plies where the last searches found the game decided, a quarter
    of that share."""
    shares = np.full(len(game.moves), share)
    certain = np.minimum(game.win_rates, 1 - game.win_rates) < slots.DECIDED_MARGIN
    for ply in range(game.given, len(game.moves)):
        before = int(np.searchsorted(game.plies, ply))
        if before >= slots.DECIDED_TURNS and certain[before - slots.DECIDED_TURNS : before].all():
            shares[ply] *= slots.DECIDED_FULL_SEARCH_FACTOR
    shares[: game.given] = 0
    return np.flatnonzero(np.random.default_rng(seed).random(len(shares)) < shares)


def positions_of(game: PlayedGame, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The plies (positions,) and lines (positions, LINE) of the positions to be judged."""
    chosen, none, of_tree = chosen_plies(game, share, seed), np.full((1, slots.LINE), NO_MOVE, np.int16), {}
    if game.lines is not None:
        of_tree = {ply: some[some[:, 0] != NO_MOVE] for ply, some in zip(game.plies.tolist(), game.lines, strict=True)}
    lines = [np.concatenate([none, of_tree.get(ply, none[:0])]) for ply in chosen.tolist()]
    return np.repeat(chosen, np.array([len(some) for some in lines], np.int64)), np.concatenate([none[:0], *lines])


def judged_games(
    games: Iterator[PlayedGame], teacher: Teacher, share: float, seed: int, workers: int = 0
) -> Iterator[PlayedGame]:
    """Replace the games' search results by the teacher's, at a share of their positions. With ``workers``, threads
    judge while the next games are played."""
    waiting, count = list[PlayedGame](), 0

    def judge(some: list[PlayedGame]) -> list[PlayedGame]:
        moves = [
            np.concatenate([game.moves[:ply], line[line != NO_MOVE]])
            for game in some
            for ply, line in zip(game.plies.tolist(), cast(np.ndarray, game.lines), strict=True)
        ]
        if not moves:
            return some
        shares, rates, owners = teacher.judge(moves, some[0].komi)
        columns = {"levels": np.rint(shares * slots.LEVELS).astype(np.uint16), "win_rates": rates.astype(np.float32)}
        if owners is not None:
            columns["owners"] = np.rint(np.nan_to_num(owners * CERTAIN, nan=NOT_JUDGED)).astype(np.int8)
        ends = pairwise(np.cumsum([0, *(len(game.plies) for game in some)]).tolist())
        parts = [{name: column[slice(*part)] for name, column in columns.items()} for part in ends]
        return [replace(game, **part) for game, part in zip(some, parts, strict=True)]

    with ThreadPoolExecutor(max(1, workers)) as pool:
        pending = deque[Future[list[PlayedGame]]]()
        for game in games:
            plies, lines = positions_of(game, share, seed + game.number)
            waiting.append(replace(game, plies=plies, lines=lines))
            count += len(plies)
            if count >= teacher.at_once:
                pending.append(pool.submit(judge, waiting))
                waiting, count = [], 0
            while len(pending) > workers or (pending and pending[0].done()):
                yield from pending.popleft().result()
        if waiting:
            pending.append(pool.submit(judge, waiting))
        while pending:
            yield from pending.popleft().result()


ENGINE_ANALYSIS_SECONDS = 600.0  # time limit for the positions of one call


class Analyst:
    """An engine in KataGo's analysis mode (docs/Analysis_Engine.md). It starts with the first call, and again after a
    fault."""

    def __init__(self, config: gtp.Config):
        """Raises ConfigError for a command that can't be run."""
        self._title = shlex.join(read_command(config, "analysis"))[:80]
        self._config = config
        self._engine: Engine | None = None
        self._sent = 0

    def search_targets(self, games: Sequence[Game], limits: Limits) -> tuple[np.ndarray, ...]:
        """Visits of each move (games, size² + 1), or the net's policy if there is one visit; win rates (games,) of the
        side to move; ownership (games, size²). Raises BotFault, and ends the engine, if it fails."""
        visits, deadline = limits.simulations or 1, time.monotonic() + ENGINE_ANALYSIS_SECONDS
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
            none = [np.nan] * games[0].rules.size ** 2
            owners = np.array([answers[name].get("ownership", none) for name in names], np.float32)
            return np.array(weights), rates, owners.reshape(len(games), len(none)).clip(-1, 1)
        except BaseException as error:
            self.close()
            if not isinstance(error, AttributeError | KeyError | TypeError | ValueError):
                raise
            raise BotFault(f"{self._title}: its answer can't be read ({type(error).__name__}: {error})") from None

    def close(self) -> None:
        if self._engine is not None:
            self._engine.stop()
        self._engine = None


def query(game: Game, visits: int) -> dict[str, Any]:
    """The query for the current position of a game. ``ignorePreRootHistory`` is off, or KataGo's net wouldn't see the
    last moves, and its win rates would differ (0.57 for 0.77 in one 9x9 opening)."""
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
    """The weight of each move (size² + 1,). Raises KeyError, TypeError or ValueError for an invalid answer."""
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
