"""Engines that teach: asked about many positions at once, in JSON."""

import shlex
import sys
from collections import deque
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.selfplay import replayed

from arena import BotFault, ConfigError
from arena.contract.bot import Limits
from arena.go.game import Game, Rules
from arena.go.planes import find_encoder
from arena.players.registry import Registry
from bots import gtp
from trainers.distill import TeacherGames
from trainers.replay import Replay, SearchedGames, encode_searches
from trainers.selfplay import NOT_JUDGED
from trainers.settings import PRESETS, change
from trainers.teachers import Analyst

pytestmark = pytest.mark.xdist_group("selfplay")  # one worker compiles the kernels of self-play, not all of them

ENGINE = """
import json, sys
mood = sys.argv[1]
print("hello, I analyse")
queries = []
for line in sys.stdin:
    query = json.loads(line)
    if mood == "refuses":
        print(json.dumps({"error": "komi of the wrong kind", "id": query["id"]}), flush=True)
        continue
    if mood == "dies" and query["moves"][2:]:
        sys.exit(3)
    size, moves = query["boardXSize"], query["moves"]
    black = 1 / (1 + 2.718281828 ** (query["komi"] - len(moves)))  # Black wins by as many points as there were moves
    black_moves = len(moves) % 2 == 0
    is_own = query["overrideSettings"]["reportAnalysisWinratesAs"] == "SIDETOMOVE"
    rate = black if black_moves or not is_own else 1 - black
    if query["overrideSettings"].get("ignorePreRootHistory", True):  # as KataGo does unless it is told otherwise
        rate = 0.5
    taken = {point for _, point in moves} - {"pass"}
    points = ["ABCDEFGHJ"[column] + str(size - row) for row in range(size) for column in range(size)] + ["pass"]
    policy = [-1 if point in taken else 1 + number for number, point in enumerate(points)]
    stones = {point: 1 if (colour == "B") == black_moves else -1 for colour, point in moves}
    infos = [{"move": "pass", "visits": 1}, {"move": "C3", "visits": query["maxVisits"] - 2}]
    answer = {"id": query["id"], "isDuringSearch": False, "rootInfo": {"winrate": rate}, "moveInfos": infos}
    if mood != "silent":
        answer["ownership"] = [stones.get(point, 0) for point in points[:-1]]
    if query["includePolicy"]:
        answer["policy"] = policy[:3] if mood == "short" else policy
    queries.append(answer)
    if len(queries) == (2 if mood == "late" else 1):  # the later one first, after a report on the way
        print(json.dumps({**queries[0], "isDuringSearch": True, "rootInfo": {"winrate": 0.123}}))
        print(json.dumps({"id": "who?", "warning": "of something"}))
        for answer in reversed(queries):
            print(json.dumps(answer), flush=True)
        queries = []
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engine") / "analyse.py"
    path.write_text(ENGINE)
    return path


def command(script: Path, mood: str = "") -> str:
    return shlex.join([sys.executable, str(script), mood])


@pytest.fixture
def games() -> list[Game]:
    first, second = (Game(Rules.preset("cgos", 5, 1.5), seed=1) for _ in range(2))
    for move in (12, 3, 4):
        second.play(move)
    return [first, second]


def test_answers_belong_to_their_positions_and_rates_to_the_side_to_move(script: Path, games: list[Game]) -> None:
    with closing(Analyst(gtp.Config("none", analysis=command(script, "late")))) as analyst:
        for _ in range(2):
            weights, rates, owners = analyst.search_targets(games, Limits(simulations=1))
            assert not owners[0].any() and {move: owners[1, move] for move in (12, 3, 4)} == {12: -1, 3: 1, 4: -1}
            black = 1 / (1 + np.exp(1.5 - np.array([0, 3])))
            assert rates == pytest.approx([black[0], 1 - black[1]], abs=1e-6)
            assert weights[0].tolist() == list(range(1, 27))
            assert weights[1].tolist() == [0 if move in (12, 3, 4) else move + 1 for move in range(26)]
        weights, *_ = analyst.search_targets(games, Limits(simulations=50))
    assert {move: weights[0, move] for move in np.flatnonzero(weights[0]).tolist()} == {12: 48, 25: 1}


@pytest.mark.parametrize(
    ("mood", "words"),
    [("refuses", "komi of the wrong kind"), ("dies", "exit code 3"), ("short", "3 moves in its policy, not 26")],
)
def test_an_engine_that_fails_is_named_and_started_anew(mood: str, words: str, script: Path, games: list[Game]) -> None:
    with closing(Analyst(gtp.Config("none", analysis=command(script, mood)))) as analyst:
        for _ in range(2):
            with pytest.raises(BotFault, match=words):
                analyst.search_targets(games, Limits(simulations=1))


def test_an_engine_without_ownership_teaches_the_rest(script: Path, tmp_path: Path) -> None:
    config = tmp_path / "arena.toml"
    config.write_text(f"[bots.wise]\nkind = 'gtp'\ncommand = 'none'\nanalysis = {command(script, 'silent')!r}\n")
    told = change(PRESETS["distill"]["tiny"], {"teacher": "wise@simulations=1", "size": 5}, "test")
    (engine,) = TeacherGames.of(told, Registry(config, tmp_path / "results"), tmp_path).engines(deque(range(2)), 2, 1)
    replay = Replay(tmp_path / "kept", 5)
    replay.add(list(engine(lambda: True)))
    every = np.arange(len(replay.searched))
    batch = encode_searches(replay.searched, find_encoder("arena-17"), every, every % 8)
    assert len(batch) and set(np.unique(batch.owners)) <= {-1, 0, 1}


def test_it_judges_the_moves_of_a_player_or_of_the_student(script: Path, tmp_path: Path) -> None:
    config = tmp_path / "arena.toml"
    config.write_text(f"[bots.wise]\nkind = 'gtp'\ncommand = 'none'\nanalysis = {command(script)!r}\n")
    registry = Registry(config, tmp_path / "results")
    given = {"teacher": "wise@simulations=1", "size": 5, "full_search_prob": 0.5, "temperature_moves": 8, "plies": 2}
    told = change(PRESETS["distill"]["tiny"], given, "test")
    own = TeacherGames.of(told, registry, tmp_path)
    of_player = TeacherGames.of(replace(told, player="policy"), registry, tmp_path)
    searching = TeacherGames.of(replace(told, player="alphago:visits=4"), registry, tmp_path)
    assert len({recipe.folder(tmp_path) for recipe in (own, of_player, searching)}) == 3
    assert own.player is not None and own.player.net == registry.resolve("checkpoint:distilled-9x9").net
    for recipe in (searching, of_player):
        (engine,) = recipe.engines(deque(range(4)), 4, 1)
        over = list(engine(lambda: True))
        assert len(over) == 4
        for finished in over:
            found = dict(zip(finished.plies.tolist(), finished.levels, strict=True))
            for ply, (game, _) in enumerate(replayed(finished, recipe.rules)):
                if ply in found:  # the teacher's: the last points are the best
                    assert found[ply].argmax() == 25 and not found[ply][~game.legal_moves()].any()
    replay, encoder = Replay(tmp_path / "kept", 5), find_encoder("arena-17")
    replay.add(over)
    unjudged = np.full_like(replay.searched.owners, NOT_JUDGED)
    searched = SearchedGames.joined([replay.searched, replace(replay.searched, owners=unjudged)])
    which = np.tile(np.arange(len(searched)), 2)
    batch = encode_searches(searched, encoder, which, np.arange(len(which)) % 8)
    mine, other = batch.planes[:, :2].reshape(2 * len(searched), 2, 25).transpose(1, 0, 2)
    early, judged = batch.plies < 4, which < len(searched) // 2  # early: nothing can be captured yet
    assert (early & judged).any() and np.allclose(batch.owners[early & judged], (mine - other)[early & judged])
    komi = np.where(batch.plies % 2 == 0, 1, -1) * recipe.rules.komi
    assert np.allclose(batch.scores[judged], batch.owners[judged].sum(1) - komi[judged])
    assert set(np.unique(batch.owners[~judged])) <= {-1, 0, 1}
    first = [finished.moves for finished in over]
    (engine,) = replace(of_player, teacher=registry.resolve("policy")).engines(deque(range(4)), 4, 1)
    assert all(np.array_equal(a, b.moves) for a, b in zip(first, engine(lambda: True), strict=True))


TREE = {"teacher": "alphago", "tree_positions": 2}


@pytest.mark.parametrize(
    ("lines", "given", "words"),
    [
        ("command = 'none'", {}, "has no analysis mode"),
        ("command = 'none'\nanalysis = 'nosuchprogram analysis'", {}, "there is no program"),
        ("command = 'none'\nanalysis = 'python3'", {"player": "random"}, "can't play for a teacher"),
        ("command = 'none'\nanalysis = 'python3'", {"player": "alphago@seconds=1"}, "uses limits in seconds"),
        ("command = 'none'", TREE, "player that searches; give --player alphago"),
        ("command = 'none'", {"player": "checkpoint:distilled-9x9", **TREE}, "player that searches; give --player"),
    ],
)
def test_what_can_not_teach_is_refused(lines: str, given: dict[str, object], words: str, tmp_path: Path) -> None:
    config = tmp_path / "arena.toml"
    config.write_text(f"[bots.wise]\nkind = 'gtp'\n{lines}\n")
    told = change(PRESETS["distill"]["tiny"], {"teacher": "wise", **given}, "test")
    with pytest.raises(ConfigError, match=words):
        TeacherGames.of(told, Registry(config, tmp_path / "results"), tmp_path)
