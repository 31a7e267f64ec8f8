"""KataGo's JSON protocol for analysis: queries to an engine in this process, then a real one."""

import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.commandline import arena, arena_alone, refused
from helpers.reference import board_of_diagram

from arena import CheckpointError
from arena.contract.bot import Bot, Candidate, Decision, Limits, RawNN
from arena.go.game import Game, Rules
from arena.gtp.analysis_engine import AnalysisEngine
from arena.players.registry import Registry


class Counting(Bot):
    """Visits its first move as often as it may, and keeps what it was asked."""

    def __init__(self, fails: bool = False):
        self.asked: list[list[Game]] = []
        self.visits: dict[int, int] = {}
        self.fails = fails

    def choose(self, game: Game, limits: Limits) -> Decision:
        raise NotImplementedError

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        self.asked.append([game])
        if self.fails:
            raise RuntimeError("no idea")
        self.visits[id(game)] = limits.simulations or 7
        move = min(limits.moves) if limits.moves else 0
        return [Candidate(move, self.visits[id(game)], 0.75, (move, 3), 0.5, 2.0)]

    def overview(self, game: Game) -> Decision | None:
        return Decision(0, 0.75, self.visits[id(game)], score=2.0)


def answers(engine_bot: Bot, *queries: dict[str, Any] | str, **more: Any) -> list[dict[str, Any]]:
    """What is said to these queries, from the first to the end of input."""
    said: list[dict[str, Any]] = []
    engine = AnalysisEngine(engine_bot, lambda line: said.append(json.loads(line)), **more)
    for query in queries:
        engine.read_line(query if isinstance(query, str) else json.dumps(query))
    while engine.is_busy:
        engine.search_slice()
    return said


def query(name: str = "q", size: int = 5, **fields: Any) -> dict[str, Any]:
    return {"id": name, "moves": [], "rules": "tromp-taylor", "boardXSize": size, "boardYSize": size, **fields}


def test_each_turn_asked_for_gets_one_result() -> None:
    moves = [["B", "C3"], ["W", "D3"]]
    told = answers(Counting(), query(moves=moves, analyzeTurns=[0, 1, 2], maxVisits=10, analysisPVLen=0))
    assert [(each["id"], each["turnNumber"], each["isDuringSearch"]) for each in told] == [
        ("q", turn, False) for turn in (0, 1, 2)
    ]
    black, white, _ = told
    assert black["rootInfo"]["currentPlayer"] == "B" and white["rootInfo"]["currentPlayer"] == "W"
    assert (black["rootInfo"]["winrate"], white["rootInfo"]["winrate"]) == (0.75, 0.25)
    assert (black["rootInfo"]["scoreLead"], white["rootInfo"]["scoreLead"]) == (2.0, -2.0)
    [info] = white["moveInfos"]
    assert (info["move"], info["visits"], info["order"], info["pv"], info["winrate"]) == ("A5", 10, 0, ["A5"], 0.25)
    assert answers(Counting(), query(moves=moves))[0]["turnNumber"] == 2
    told = answers(Counting(), query(analyzeTurns=[0, 0], maxVisits=5, overrideSettings={"maxVisits": 9}))
    assert [each["moveInfos"][0]["visits"] for each in told] == [5]
    for view, rate in (("BLACK", 0.25), ("WHITE", 0.75), ("SIDETOMOVE", 0.75)):
        [told] = [answers(Counting(), query(initialPlayer="W", overrideSettings={"reportAnalysisWinratesAs": view}))[0]]
        assert told["moveInfos"][0]["winrate"] == told["rootInfo"]["winrate"] == rate


def test_the_position_is_that_of_stones_moves_rules_and_komi() -> None:
    stones = [["B", "A1"], ["W", "E5"]]
    answers(
        bot := Counting(), query(initialStones=stones, moves=[["W", "C3"], ["W", "C4"]], rules="japanese", komi=0.5)
    )
    answers(bot, query(rules=Rules.preset("japanese").katago()))
    [game], [other] = bot.asked
    assert game.board.stones.tolist() == board_of_diagram("....O ..O.. ..O.. ..... X....").stones.tolist()
    assert (game.rules.name, other.rules.name, game.to_play.letter) == ("japanese", "japanese", "B")


WRONG: dict[str, list[tuple[Any, str]]] = {
    "moves": [
        ([["B", "Z9"]], "'Z9' is not a point of a 5x5 board"),
        ([["B", "C3"], ["W", "C3"]], "Illegal move 2: C3"),
        ("C3", "expected `array`"),
        ([["green", "C3"]], "players are B and W"),
    ],
    "rules": [("chess", "unknown rules"), ({"tax": "ALL"}, "rules not supported"), (None, "missing required field")],
    "boardXSize": [(4, "5 to 19"), ("5", "expected `int`"), (13, "the net plays 5x5 only")],
    "boardYSize": [(7, "square")],
    "komi": [(0.3, "a whole or half number"), ("7", "expected `float")],
    "analyzeTurns": [([1], "from 0 to 0")],
    "maxVisits": [(0, ">= 1")],
    "initialStones": [([["B", "A1"], ["W", "A1"]], "two stones on a point")],
    "initialPlayer": [("X", "players are B and W")],
    "allowMoves": [([{"player": "B", "moves": [], "untilDepth": 1}], "no legal move")],
    "avoidMoves": [(["A1"], "expected `object`")],
    "overrideSettings": [({"reportAnalysisWinratesAs": "RED"}, "SIDETOMOVE")],
    "action": [("dance", "query_version")],
}


@pytest.mark.parametrize("field", WRONG)
def test_what_is_wrong_with_a_query_is_said_with_its_field(field: str) -> None:
    def check(size: int) -> None:
        if size != 5:
            raise CheckpointError("the net plays 5x5 only")

    for value, words in WRONG[field]:
        square = {"boardYSize": value} if field == "boardXSize" and isinstance(value, int) else {}
        [told] = answers(Counting(), {**query(), field: value, **square}, check=check)
        assert (told["id"], told["field"]) == ("q", field) and words in told["error"]


def test_lines_that_are_no_queries_are_refused_and_the_most_urgent_of_the_rest_are_answered_first() -> None:
    told = answers(Counting(), "", "nonsense", "[" * 100_000, "[1]", '{"moves": []}', query(foo=1))
    assert [each.get("error", "")[:10] for each in told[:2]] == ["not JSON: "] * 2
    assert [each["field"] for each in told[2:4]] == ["id", "id"] and told[4]["turnNumber"] == 0
    failed, fine = answers(Counting(fails=True), query(), {"id": "v", "action": "query_version"})[::-1]
    assert failed["error"] == "the bot failed: RuntimeError: no idea" and fine["version"]
    urgent = query("c", moves=[["B", "A1"]], analyzeTurns=[0, 1], priority=3, maxVisits=5)
    told = answers(Counting(), query("a", maxVisits=5), query("b", maxVisits=5, priority=-1), urgent)
    assert [(each["id"], each["turnNumber"]) for each in told] == [("c", 0), ("c", 1), ("a", 0), ("b", 0)]


def test_a_long_search_reports_gives_way_and_is_terminated() -> None:
    said: list[dict[str, Any]] = []
    engine = AnalysisEngine(Counting(), lambda line: said.append(json.loads(line)))
    for asked in (query("long", maxVisits=10**9, reportDuringSearchEvery=0.001), query("never", maxVisits=10**9)):
        engine.read_line(json.dumps(asked))
    for _ in range(3):
        engine.search_slice()
        time.sleep(0.002)
    assert said and all(each["isDuringSearch"] for each in said)
    engine.read_line(json.dumps(query("short", maxVisits=3, priority=1)))
    engine.search_slice()
    assert (said[-1]["id"], said[-1]["moveInfos"][0]["visits"]) == ("short", 3)
    stop = {"id": "t", "action": "terminate", "terminateId": "long", "turnNumbers": [0]}
    engine.read_line(json.dumps(stop))
    assert said[-2] == stop and (said[-1]["id"], said[-1]["isDuringSearch"]) == ("long", False)
    engine.read_line('{"id":"all","action":"terminate_all"}')
    assert said[-1] == {"id": "never", "isDuringSearch": False, "noResults": True, "turnNumber": 0}
    assert not engine.is_busy


def test_a_net_that_fails_in_a_result_is_that_querys_error_also_when_it_is_terminated() -> None:
    """It once ended the engine with a traceback."""

    class Netless(Counting):
        def raw_nn(self, games: Sequence[Game], symmetry: int = 0) -> list[RawNN]:
            raise RuntimeError("no net")

    last = {"id": "v", "action": "query_version"}
    failed, fine = answers(Netless(), query(maxVisits=5), last, has_net=True)[::-1]
    assert failed["error"] == "the bot failed: RuntimeError: no net" and fine["version"]
    said: list[dict[str, Any]] = []
    engine = AnalysisEngine(Netless(), lambda line: said.append(json.loads(line)), has_net=True)
    engine.read_line(json.dumps(query(maxVisits=10**9)))
    engine.search_slice()
    engine.read_line('{"id":"all","action":"terminate_all"}')
    assert said[-1]["error"] == failed["error"] and not engine.is_busy


def test_a_reader_that_has_left_is_no_fault_of_the_bot() -> None:
    def send(line: str) -> None:
        raise BrokenPipeError

    engine = AnalysisEngine(Counting(), send)
    engine.read_line(json.dumps(query(maxVisits=5)))
    with pytest.raises(BrokenPipeError):
        engine.search_slice()


def test_our_bots_answer_with_ownership_policy_and_only_allowed_moves_together_as_if_alone() -> None:
    moves = [["B", "D4"], ["W", "D2"], ["B", "pass"], ["W", "C4"]]
    flags = {"includeOwnership": True, "includeMovesOwnership": True, "includePolicy": True}
    allow = [{"player": "B", "moves": ["C3", "B2"], "untilDepth": 1}]
    whole = query("whole", moves=moves, maxVisits=40, **flags)
    part = query("part", moves=moves, maxVisits=20, allowMoves=allow)
    with closing(Registry().resolve("mcts:stop_early=false").build()) as bot:
        _, told = answers(bot, whole, part)
    assert {info["move"] for info in told["moveInfos"]} <= {"C3", "B2"} and told["moveInfos"]
    with closing(Registry().resolve("alphago:stop_early=false").build()) as bot:
        *_, together, told = answers(bot, {**whole, "analyzeTurns": [0, 1, 2, 4]}, part, has_net=True)
    assert {info["move"] for info in told["moveInfos"]} <= {"C3", "B2"} and told["moveInfos"]
    with closing(Registry().resolve("alphago:stop_early=false").build()) as bot:
        [alone] = answers(bot, whole, has_net=True)
    assert together["moveInfos"] == alone["moveInfos"]
    assert alone["rootInfo"]["visits"] >= 40 and abs(alone["rootInfo"]["scoreLead"]) < 33
    policy = alone["policy"]
    assert len(alone["ownership"]) == 25 and len(policy) == 26 and policy[8] == -1
    assert sum(share for share in policy if share > 0) == pytest.approx(1, abs=1e-4)
    assert all(len(info["ownership"]) == 25 and "prior" in info for info in alone["moveInfos"])


def test_the_command_answers_from_pipe_to_pipe(tmp_path: Path) -> None:
    typed = f"{json.dumps(query('ä', maxVisits=20))}\n\nx"
    done = arena_alone("analysis", "mcts", folder=tmp_path, typed=typed)
    error, result = (json.loads(line) for line in done.stdout.splitlines())
    assert (done.returncode, done.stderr) == (0, "")
    assert error["error"].startswith("not JSON") and (result["id"], result["moveInfos"][0]["order"]) == ("ä", 0)
    assert done.stdout.isascii()
    refused(arena("analysis", "random", folder=tmp_path), "doesn't analyse")
