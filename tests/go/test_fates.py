"""Dead stones and seki as a game is counted by them: known positions, the search of a race, and a score over GTP."""

from io import StringIO

import pytest
from reference import board_of_diagram
from test_dead import ALIVE, FATES, FINAL

from arena.go.board import Board
from arena.go.game import Game, Rules
from arena.gtp.server import Server, serve
from arena.people.counting import Fates, agreed_fates, fates, group_at
from arena.people.seki import survives
from bots.random import BOT

REST = "......... ......... .X.X.X.X. ......... ......... ........."


def of(rows: str) -> Board:
    return board_of_diagram("\n".join(rows.split()))


def drawn(board: Board, dead: tuple[int, ...]) -> list[str]:
    signs = [".XO"[stone] for stone in board.stones.reshape(-1)]
    for move in dead:
        signs[move] = signs[move].lower()
    return ["".join(signs[row : row + board.size]) for row in range(0, len(signs), board.size)]


@pytest.mark.parametrize("left", [pytest.param(rows, id=name) for name, rows in FATES.items()])
def test_known_positions_are_judged_right(left: str) -> None:
    rows = [one + other for one, other in zip(left.split(), ALIVE, strict=True)]
    assert drawn(of(" ".join(rows)), fates(of(" ".join(rows))).dead) == rows


RACES = {
    "two liberties in common: who plays first is captured": ("XO.XXX.OX XOOOOOOOX XXXXXXXXX", True),
    "black stones that White's own eye is free to take": ("XO.XXX.OX XOOOOOOOX XXXXXXXX.", True),
    "two stones whose capture costs White nothing": ("XO..XX.OX XOOOOOOOX XXXXXXXXX", False),
    "stones without an enemy that is short of liberties": ("....X.... ......... .........", False),
}
"""The upper rows, and whether Black's stones in the middle of the first one live in a seki."""


@pytest.mark.parametrize(("rows", "expected"), RACES.values(), ids=RACES)
def test_a_seki_is_told_from_stones_that_can_be_taken(rows: str, expected: bool) -> None:
    board = of(f"{rows} {REST}")
    assert survives(board, group_at(board, 4)) is expected


def score(rules: str, *commands: str) -> list[str]:
    """The answers of a server on the final position of a game, with a judge of dead stones."""
    output = StringIO()
    stones = [f"{sign}{number}" for number, sign in enumerate("".join(FINAL)) if sign != "."]
    plays = [f"play {'b' if stone[0] == 'X' else 'w'} {at(int(stone[1:]))}" for stone in stones]
    server = Server(BOT.build(BOT.config()), Rules.preset(rules, 7, 6.5), judge=agreed_fates)
    serve(server, StringIO("\n".join([*plays, *commands, ""])), output)
    return [answer.removeprefix("=").strip() for answer in output.getvalue().split("\n\n")[len(plays) : -1]]


def at(move: int) -> str:
    row, column = divmod(move, 7)
    return f"{'ABCDEFG'[column]}{7 - row}"


def test_the_score_over_gtp_takes_dead_stones_off_where_the_rules_do() -> None:
    asked = ("final_score", "final_status_list dead", "final_status_list seki")
    assert score("chinese", *asked) == ["B+0.5", "B5", ""]
    assert score("cgos", *asked) == ["W+3.5", "", ""]
    alive = score("chinese", "final_status_list alive")[0].split()
    assert "B5" not in alive and len(alive) == sum(sign != "." for sign in "".join(FINAL)) - 1


def test_no_stone_is_dead_by_rules_that_count_all_as_alive() -> None:
    for name, dead in (("chinese", (15,)), ("japanese", (15,)), ("cgos", ()), ("tromp-taylor", ())):
        game = Game(Rules.preset(name, 7))
        game.board = board_of_diagram("\n".join(FINAL))
        assert agreed_fates(game) == Fates(dead)
