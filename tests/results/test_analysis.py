"""What a bot thinks of a game's positions, what moves cost by that, and the files and tables it is told in."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.commandline import arena, refused
from sgfmill.sgf import Sgf_game

from arena import BotFault
from arena.contract.bot import Bot, Candidate, Decision, Limits, RawNN
from arena.go.coords import BLACK, WHITE, move_from_gtp, moves_by_sgf
from arena.go.game import Game, Outcome, Rules
from arena.go.record import GameRecord
from arena.go.sgf import read_sgf, write_sgf
from arena.players.registry import Registry
from arena.results import analysis
from arena.results.analysis import AnalysisError, analyse, judge_moves
from arena.results.export import analysis_frame, write_csv
from arena.results.store import Store

FIVE = Rules.preset(size=5)


def game_of(moves: str, rules: Rules = FIVE, **fields: str) -> GameRecord:
    return GameRecord(rules, tuple(move_from_gtp(word, rules.size) for word in moves.split()), None, **fields)


class Forecaster(Bot):
    """Gives the side to move these win rates, by how many moves were played, and would always play A1 or what is named;
    every empty point will be Black's by ``owned``."""

    def __init__(self, win_rates: list[float], best: str = "A1", owned: float | None = None):
        self.win_rates, self.best, self.owned = win_rates, best, owned
        self.asked: list[int] = []

    def choose(self, game: Game, limits: Limits) -> Decision:
        self.asked.append(len(game.moves))
        ownership = None
        if self.owned is not None:
            stones = game.board.stones.reshape(-1)
            black = np.where(stones == BLACK, 1.0, np.where(stones == WHITE, -1.0, self.owned))
            ownership = black if game.to_play is BLACK else -black
        size = game.rules.size
        return Decision(move_from_gtp(self.best, size), self.win_rates[len(game.moves)], 7, ownership)


class Broken(Bot):
    def choose(self, game: Game, limits: Limits) -> Decision:
        raise BotFault("it\nbroke")


class Searcher(Forecaster):
    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        points = [move_from_gtp(word, game.rules.size) for word in ("A2", "A1", "pass")]
        return [Candidate(point, 5 - place, 0.4, (point, 7)) for place, point in enumerate(points)]


def test_win_rates_are_blacks_losses_are_of_whoever_moved_and_the_largest_mistakes_come_first() -> None:
    record = game_of("C3 D3 A1 D4 B3 E1")
    # Black loses 0.1, White 0.3, Black 0.4 by what the bot would have played, White 0.2, Black 0.02, White 0.05
    found = list(analyse(record, Forecaster([0.5, 0.6, 0.7, 0.7, 0.5, 0.52, 0.55])))
    assert [evaluation.win_rate for evaluation in found] == pytest.approx([0.5, 0.4, 0.7, 0.3, 0.5, 0.48, 0.55])
    moves = judge_moves(record, found)
    assert [move.colour for move in moves] == [BLACK, WHITE] * 3
    assert [move.loss for move in moves] == pytest.approx([0.1, 0.3, 0.4, 0.2, 0.02, 0.07])
    assert [move.number for move in analysis.mistakes(moves)] == [2, 4, 1]
    assert [move.number for move in analysis.mistakes(moves, most=1)] == [2]
    assert moves[2].is_best and not moves[2].is_mistake


def test_each_position_is_asked_about_once_and_the_last_passes_are_not() -> None:
    for moves, expected in (("C3 D3 pass pass", 3), ("C3 pass", 3), ("", 1)):
        record = game_of(moves)
        bot = Forecaster([0.5] * 9)
        assert [evaluation.number for evaluation in analyse(record, bot)] == list(range(expected))
        assert bot.asked == list(range(expected)) and analysis.evaluation_count(record) == expected
    with pytest.raises(AnalysisError, match="the bot failed: it broke"):
        list(analyse(game_of("C3"), Broken()))


@pytest.mark.parametrize(("rules", "stones"), [("cgos", 2), ("japanese", 0)])
def test_the_score_counts_as_the_rules_do(rules: str, stones: int) -> None:
    """Two stones of handicap, then one move each: area scoring counts both, and 21 points are left."""
    record = replace(game_of("C3 D3", Rules.preset(rules, 5, komi=0.5)), setup=((0, 4), ()), first=WHITE)
    last = list(analyse(record, Forecaster([0.5] * 3, owned=0.5)))[-1]
    assert last.margin == pytest.approx(stones + 21 * 0.5 - 0.5)


def test_the_score_does_not_swing_with_the_side_to_move() -> None:
    class Pessimist(Forecaster):
        """Predicts a tenth of a point less for the side to move on each of 25 points."""

        def choose(self, game: Game, limits: Limits) -> Decision:
            return Decision(0, 0.5, 1, np.full(25, -0.1))

        def raw_nn(self, games: Sequence[Game], symmetry: int = 0) -> list[RawNN]:
            return [RawNN(np.ones(26) / 26, 0.5, np.full(25, -0.1)) for _ in games]

    found = list(analyse(game_of("C3 D3 B2", Rules.preset(size=5, komi=0.5)), Pessimist([])))
    assert [evaluation.margin for evaluation in found] == pytest.approx([-0.5] * 4)


@pytest.mark.parametrize("spec", ["mcts:playouts=30", "alphago:visits=6,max_tree_mb=1"])
def test_an_evaluation_does_not_depend_on_the_others(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And patience has a search use all its visits."""
    record = game_of("C3 D3 B3 D4")
    entry = analysis.with_all_visits(Registry().resolve(spec))
    assert entry.settings["stop_early"] is False
    together = list(analyse(record, entry.build()))
    monkeypatch.setattr(analysis, "AT_ONCE", 1)
    alone = list(analyse(record, entry.build()))
    for one, other in zip(together, alone, strict=True):
        assert (one.win_rate, one.best, one.line, one.margin) == (other.win_rate, other.best, other.line, other.margin)
        assert one.candidates and one.candidates[0].move == one.best


# --- Files ---


def test_a_margin_of_nothing_is_nobodys_lead() -> None:
    """White led by 0.0 in one place, Black in another."""
    assert [analysis.format_margin(margin) for margin in (3.5, -0.5, 0.0, -0.04)] == ["B+3.5", "W+0.5", "even", "even"]


def test_the_bots_line_instead_of_a_mistake_is_a_variation_and_the_csv_has_a_row_a_move(tmp_path: Path) -> None:
    record = game_of("C3 D3 B3 A1")
    found = list(analyse(record, Searcher([0.5, 0.6, 0.7, 0.2, 0.8], owned=0.0)))
    lines = analysis.variations(record, found)
    assert set(lines) == {move.number for move in judge_moves(record, found) if move.is_mistake} and len(lines) > 1
    text = write_sgf(record, analysis.sgf_properties(record, found, "a bot"), lines)
    assert read_sgf(text) == record
    node = Sgf_game.from_string(text).get_root()
    for number in range(1, len(record.moves) + 1):
        beside = [moves_by_sgf(5)[other.get_raw_move()[1]] for other in node[1:]]
        assert beside == [line[0] for line in [lines.get(number)] if line]
        node = node[0]
    write_csv(analysis_frame(record, found), tmp_path / "a.csv")
    head, _, second, *_ = (tmp_path / "a.csv").read_text().splitlines()
    assert head.startswith("move,colour,played,win_rate_before,win_rate_after,loss,score_before,score_after,points_")
    assert second == "2,W,D3,0.4,0.7,0.3,-6.0,-7.0,-1.0,A1,A1 C4,7"


# --- The command ---


def test_a_stored_game_and_a_file_are_analysed(tmp_path: Path) -> None:
    record = game_of("C3 D3 B3", black="one", white="other", id="event/00007", event="event")
    with Store.of(tmp_path / "results", write=True) as store:
        store.append([replace(record, outcome=Outcome.scored(3.0))])
    done = arena("analyze", "1", "--bot", "sl", "--sgf", "out/a.sgf", "--csv", "a.csv", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("● one  ○ other\nBlack won by 3 points · cgos rules, komi 7")
    assert "Analysed by sl." in done.stdout
    written = (tmp_path / "out" / "a.sgf").read_text()
    assert read_sgf(written).moves == record.moves and written.count("SBKV[") == 4
    assert (tmp_path / "a.csv").read_text().count("\n") == 4
    again = arena("analyze", "out/a.sgf", "--bot", "sl", folder=tmp_path)
    assert again.returncode == 0 and again.stdout.splitlines()[3:] == done.stdout.splitlines()[3:-2]


def test_the_table_is_the_golden_one(tmp_path: Path) -> None:
    (tmp_path / "game.sgf").write_text("(;GM[1]FF[4]SZ[7]KM[7]RU[cgos];B[dd];W[cc];B[ce];W[bd];B[])")
    done = arena("analyze", "game.sgf", "--bot", "mcts@simulations=40", folder=tmp_path)
    golden = Path(__file__).parents[1] / "golden" / "analysis.txt"
    assert (done.stdout, done.returncode) == (golden.read_text(encoding="utf-8"), 0), done.stderr


REFUSALS = {
    "g.sgf --bot sl": ("g.sgf", "illegal move: move 2"),
    "none.sgf": ("no file none.sgf",),
    "good.sgf --bot random": ("random reports no win rates", "these can: alphago"),
    "good.sgf --bot sl --sgf good.sgf": ("is the input, and its comments would be lost",),
}


def test_what_cannot_be_analysed_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "g.sgf").write_text("(;SZ[5];B[cc];W[cc])")
    (tmp_path / "good.sgf").write_text("(;SZ[5];B[cc])")
    for given, words in REFUSALS.items():
        refused(arena("analyze", *given.split(), folder=tmp_path), *words)
