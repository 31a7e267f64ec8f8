"""``arena play``: a person's game in words, from a pipe or at a terminal, kept whatever happens, stored at its end."""

import io
import re
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from helpers.commandline import ARENA, Done, arena, arena_alone, environment, refused
from helpers.games import console_of, output_of
from helpers.scripted_bots import Scripted
from helpers.sessions import FINAL, Oracle, kifu_of, sat

from arena.cli.people import PlaySetup
from arena.contract.bot import Limits
from arena.go.coords import BLACK, WHITE
from arena.go.game import Ending, Game, Outcome, Rules
from arena.people.adviser import Adviser
from arena.people.saved_game import saved_games
from arena.people.session import GameSession
from arena.players.registry import Registry
from arena.report.play import show_plainly
from arena.results.store import Store


@pytest.fixture
def typed(tmp_path: Path) -> Callable[..., Done]:
    """``arena play`` in this process, by a pipe of words."""
    return lambda lines, *options: arena(
        "play", *options, folder=tmp_path, columns=200, typed=lines.replace(" ", "\n") + "\n"
    )


def said(session: GameSession, *lines: str) -> str:
    """What a plain front says to these lines, as one text."""
    console = console_of(200, 25, terminal=False)
    show_plainly(session, console, io.StringIO("".join(f"{line}\n" for line in lines)))
    return output_of(console)


# --- In words ---


BOTH, SEVEN = (BLACK, WHITE), {"rules": Rules.preset("chinese", 7, 7.0), "diagram": FINAL}
OF_A_BOARD = re.compile(r" {4}A B| ?\d+ {2}\S|Taken off|. and . are dead|. is likely")
GAMES: dict[str, dict[str, Any]] = {
    "white": {"people": (WHITE,)},
    "two people": {"people": BOTH},
    "ko": {"people": BOTH, "diagram": ".XO..\nXO.O.\n.XO..\n.....\n....."},
    "capture": {"diagram": ".OX..\n.XX..\n.....\n.....\n....."},
    "two stones sent": {"people": BOTH, "diagram": ".O.O.\nXXOO.\n.XO..\n.XO..\n.XO.."},
    "chinese end": SEVEN,
    "cgos end": SEVEN | {"rules": Rules.preset("cgos", 7, 7.0)},
}
TALES = """
capture, bot E1 pass: a5 c3 undo resign
    Game play/00001: ada (Black) against bot (White), 5x5, chinese rules, komi 7. It is unrated: stones set up.
    Type a point such as d4, or: pass, undo, hint, score, board, resign, quit, help.
    Black plays A5 and captures 1 stone: B5. White plays E1. Black plays C3. White passes.
    2 moves taken back. Black is to play move 3. The game is unrated now (stones set up, undo).
    White won by resignation. The game is unrated: stones set up, undo.
white, bot C3: c3 b2
    Black plays C3.
    C3 is taken.
    White plays B2.
ko, bot pass: c4 b4
    B4 retakes the ko at once.
two stones sent, bot pass: pass a5 c5 b5
    B5 repeats the position after move 1 (superko).
chinese end, bot pass: done pass d4 c5 d4 done
    Dead stones are marked when both sides have passed.
    Dead: White's 1 stone: B5. Black has 28 points, White 21 and komi 7: draw.
    No stone lies there; done counts, continue plays on.
    komi 7: draw. The game is unrated: stones set up.
chinese end, bot pass: pass b5 done
    Dead: no stones.
    White won by 4 points. The game is unrated: stones set up, dead stones changed.
chinese end, bot pass F7: pass continue a5
    2 moves taken back. Black is to play move 1.
    White plays F7.
cgos end, bot pass: pass
    Black has 25 points, White 22 and komi 7: White won by 4 points.
"""
"""A game and what the bot plays, what is typed, and what is said of it, in this order."""


@pytest.mark.parametrize(
    "tale", re.findall(r"^\S.*\n(?:    .*\n)+", TALES, re.MULTILINE), ids=lambda tale: tale.split(":")[0]
)
def test_a_game_goes_as_it_is_told(tale: str) -> None:
    head, *answers = tale.splitlines()
    game, moves, lines = re.split(", bot |: ", head)
    with sat(kifu_of(**GAMES[game]), Scripted(*moves.split())) as session:
        shown = said(session, *lines.split()).splitlines()
    words = " ".join(line.strip() for line in shown if not OF_A_BOARD.match(line))
    for answer in answers:
        assert answer.strip() in words
        words = words.partition(answer.strip())[2]


def test_what_is_typed_wrong_or_asked_is_answered_and_the_game_goes_on() -> None:
    answers = {
        "i3": "There is no point I3 on this board, which goes from A1 to E5; the letter I is left out.",
        "passs": "'passs' is not a point (A1 to E5) or a command; did you mean 'pass'?",
        "": "Black, move 3: type a point such as d4, or help.",
        "hint": "No bot here can give a hint.",
        "HELP": "take back your last move",
    }
    with sat(kifu_of(), Scripted("B3")) as session:
        words = said(session, "c3", *answers, "quit")
        assert all(answer in words for answer in answers.values())
        assert session.snapshot().record.outcome is None and len(session.snapshot().turns) == 2


def test_the_board_is_drawn_after_every_answer_and_when_asked_for() -> None:
    rows = ["    A B C D E", " 5  · · ·(○)·", " 4  · · ● · ·", " 3  · ○ ● · ·", " 2  · · · · ·", " 1  · · · · ·"]
    with sat(kifu_of(), Scripted("B3", "D5"), adviser=Adviser("oracle", Oracle)) as session:
        words = said(session, "c3", "c4", "board", "hint", "score", "quit")
    assert words.count("\n".join(rows)) == 2
    assert "oracle would play, as Black:\nA C3: wins 60.0 %, 20 visits; C3\n" in words
    assert re.search(r"(leads by about \d+\.\d points|is about even), komi included, by 400 playouts", words)


# --- As a command ---


ADA = ("--as", "ada", "--size", "5", "--plain")


def test_a_finished_game_is_stored_and_counts_unless_there_was_help(tmp_path: Path, typed: Callable[..., Done]) -> None:
    done = typed("c3 resign", "fast-random", *ADA)
    assert "play/00001 is stored (it counts for arena elo)" in done.stdout, done.stderr
    assert "ada" in (tmp_path / "results" / "elo.csv").read_text()
    for path in (tmp_path / "results" / "play").iterdir():
        path.write_text("not a game")  # games that are stored are not read again
    done = typed("c3 undo resign", "fast-random", *ADA)
    assert "play/00002 is stored (unrated)" in done.stdout
    with Store.open(tmp_path / "results" / "arena.db") as store:
        rated, unrated = store.games(event="play")
        assert (rated.black, rated.white, rated.outcome) == ("ada", "fast-random", Outcome(WHITE, Ending.RESIGN))
        assert (rated.unrated, unrated.unrated) == ("", "undo")
        assert store.pools()[0].games == 1
    assert "resign (unrated: undo)" in arena("games", "--event", "play", folder=tmp_path, columns=200).stdout


def test_a_game_is_left_and_gone_on_with(typed: Callable[..., Done]) -> None:
    done = typed("c3 hint", "human:name=bob", *ADA, "--time", "main=600,byoyomi=30")
    assert "play/00001 is saved after move 1" in done.stdout and "arena play --resume" in done.stdout
    done = typed("c4 resign", "--resume", "1")
    assert "Game play/00001: ada (Black) against bob (White)" in done.stdout and "unrated: hint" in done.stdout
    assert "It continues after move 1. Black plays C3." in done.stdout and "White plays C4." in done.stdout
    refused(typed("", "--resume", "1"), "play/00001 is over")


def test_what_an_earlier_arena_could_not_store_is_stored_now(tmp_path: Path, typed: Callable[..., Done]) -> None:
    results = tmp_path / "results"
    with Store.open(results / "arena.db", write=True):
        done = typed("c3 resign", "human:name=bob", *ADA)
        assert "another arena" in done.stdout and "the next arena play will store it" in done.stdout
    done = typed("quit", "human:name=bob", *ADA)
    assert done.stdout.startswith("play/00001 is stored (it counts for arena elo)")
    with Store.open(results / "arena.db") as store:
        assert store.ids("play") == {"play/00001"} and len(store.players()) == 2


def test_a_game_waits_a_moment_for_another_terminal_that_stores_its_own(
    tmp_path: Path, typed: Callable[..., Done]
) -> None:
    """Where two games ended at once, one of them wasn't stored."""
    store = Store.open(tmp_path / "results" / "arena.db", write=True)
    timer = Timer(1.5, store.close)
    timer.start()
    done = typed("c3 resign", "human:name=bob", *ADA)
    timer.join()
    assert "play/00001 is stored" in done.stdout, done.stdout


def test_a_game_that_another_terminal_has_stored_costs_the_next_one_nothing(tmp_path: Path) -> None:
    """The batch of both games was refused."""
    setup = PlaySetup(Registry(), tmp_path)
    one, other = (
        replace(kifu_of(), record=replace(kifu_of().record, id=f"play/{number}", outcome=Outcome(BLACK, Ending.RESIGN)))
        for number in (1, 2)
    )
    assert setup.store([one]) and setup.store([one, other])
    assert [game.id for game in setup.stored("play")] == ["play/1", "play/2"]


FILE_BOT = """
from arena.contract.bot import Bot, BotKind, Candidate, Decision
from bots.random import Config
import os
class Corner(Bot):
    def __init__(self, config): open("processes", "a").write(f"{os.getpid()} ")
    def choose(self, game, limits): return Decision(game.legal_moves().tolist().index(True))
    def analyse(self, game, limits): return [Candidate(3, 10, 0.6, (3, 4))]
BOT = BotKind("corner", Config, Corner, analyses=True)
"""


def test_a_bot_of_a_python_file_plays_and_gives_hints_in_processes_of_its_own_and_is_resumed(tmp_path: Path) -> None:
    """It ran in the process of the screen, and --resume refused it."""
    (tmp_path / "corner.py").write_text(FILE_BOT)
    done = arena_alone("play", "corner.py", *ADA, folder=tmp_path, typed="c3\nhint\nquit\n")
    assert "White plays A5." in done.stdout and "A D5: wins 60.0 %, 10 visits; D5 E5" in done.stdout, done.stderr
    done = arena_alone("play", "--resume", "--plain", folder=tmp_path, typed="d3\nresign\n")
    assert "White plays B5." in done.stdout and "play/00001 is stored" in done.stdout, done.stderr
    processes = {*(tmp_path / "processes").read_text().split()}
    assert len(processes) == 3 and not any(Path("/proc", process).exists() for process in processes)


def test_a_game_goes_on_from_any_position_of_a_record(tmp_path: Path, typed: Callable[..., Done]) -> None:
    (tmp_path / "club.sgf").write_text("(;SZ[5]KM[6]RU[Chinese]AB[aa];W[cc];B[bb];W[dd];B[tt];W[tt])")
    start = ("random", "--as", "ada", "--plain", "--from", "club.sgf")
    done = typed("undo board a1 quit", *start, "--move", "3")
    for words in ("ada (Black) against random", "It is unrated: handicap 1, begun from a position, komi 6.", "5  ●"):
        assert words in done.stdout, done.stderr
    assert "begins after an opening of 3 moves" in done.stdout and "no move of yours to take back" in done.stdout
    refused(typed("", *start), "the game is over after move 5")
    refused(typed("", *start, "--move", "9"), "--move 9: the game has 5 moves")
    refused(typed("", *start, "--komi", "7"), "--from keeps the game's size, rules, komi")
    refused(typed("", "random", "--move", "3"), "--move 3 needs --from")
    (tmp_path / "bare.sgf").write_text("(;SZ[5]KM[6];B[bb])")  # which names no rules
    assert "5x5, chinese rules, komi 6" in typed("quit", "random", "--plain", "--from", "bare.sgf").stdout


def test_a_bot_that_imitates_people_does_not_answer_an_early_pass_with_a_pass() -> None:
    game = Game(Rules.preset("chinese", 9))
    for move in (40, 0, 81):
        game.play(move)
    with closing(Registry().resolve("kyu-15").build()) as bot:
        assert bot.choose(game, Limits()).move != 81


def test_a_handicap_of_1_is_a_game_at_komi_half_a_point(typed: Callable[..., Done]) -> None:
    assert "komi 0.5. It is unrated: komi 0.5." in typed("quit", "random", *ADA, "--handicap", "1").stdout


# --- A match ---


def in_a_match(folder: Path, opponent: str, typed: str, *options: str) -> Done:
    match = ("match", "human:name=ada", opponent, "--size", "5", "--plies", "0", *options)
    return arena(*match, folder=folder, columns=200, typed=typed)


def test_a_person_can_not_play_a_match_against_himself(tmp_path: Path) -> None:
    """A traceback came, and the event was damaged for good."""
    refused(in_a_match(tmp_path, "human:name=ada", ""), "both players are called ada", "human:name=bob")
    done = in_a_match(tmp_path, "human:name=bob", "resign\n", "-n", "1")
    assert "ada lost to human:name=bob" in done.stdout or "ada lost to bob" in done.stdout, done.stderr


def test_a_persons_games_are_stored_and_rated_and_a_test_that_they_decide_ends_the_match(tmp_path: Path) -> None:
    done = in_a_match(tmp_path, "fast-random", "resign\n" * 200, "-n", "200", "--sprt", "0", "200")
    assert done.returncode == 0 and re.search(r"ada lost to fast-random 0-\d+ in \d+ games", done.stdout), done.stderr
    with Store.of(tmp_path / "results") as store:
        (event,) = store.events()
        games = list(store.games(event=event.id))
    assert 10 < len(games) < 150
    assert [(game.black, game.unrated) for game in games[:2]] == [("ada", ""), ("fast-random", "")]
    assert "fast-random" in arena("report", folder=tmp_path, columns=200).stdout
    assert "ada" in arena("elo", folder=tmp_path, columns=200).stdout


# --- Changed, wrong, killed ---


def test_a_bot_that_has_changed_goes_on_and_the_game_is_unrated(tmp_path: Path, typed: Callable[..., Done]) -> None:
    for kind, command in (("random", ("c3", "changing", *ADA)), ("fast-random", ("resign", "--resume"))):
        (tmp_path / "arena.toml").write_text(f'[bots.changing]\nkind = "{kind}"\n')
        done = typed(*command)
    for words in ("changing has other settings or another net now", "unrated: another bot went on"):
        assert words in done.stdout


def test_wrong_options_are_refused_in_one_line(tmp_path: Path, typed: Callable[..., Done]) -> None:
    for options, words in {
        "": ("name a bot", "arena play alphago"),
        "random --as mcts": ("'mcts' is a bot's name", "--as"),
        "human:name=ada --as ada": ("both players are called ada",),
        "random --handicap 1 --komi 7": ("--handicap 1", "leave out --komi"),
        "--resume --size 9": ("--resume", "keeps"),
        "--resume": ("no unfinished game", "arena play alphago"),
    }.items():
        refused(typed("", *options.split()), *words)
    assert not list(tmp_path.rglob("*.sgf"))


def test_a_game_in_a_pipe_that_is_killed_goes_on_where_it_was(tmp_path: Path, typed: Callable[..., Done]) -> None:
    command = [*ARENA, "play", "random", "--size", "5", "--as", "ada"]
    settings = {"cwd": tmp_path, "env": dict(environment(COLUMNS="40", PYTHONUNBUFFERED="1")), "text": True}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **settings) as process:  # type: ignore[call-overload]
        process.stdin.write("c3\nc3\n")
        process.stdin.flush()
        seen = []
        while "is taken" not in "".join(seen):
            seen.append(process.stdout.readline())
            assert seen[-1], seen
        process.kill()
    assert "\x1b" not in "".join(seen)
    answer = next(line.strip() for line in seen if line.startswith("White plays"))
    ((_, saved),) = saved_games(tmp_path / "results")
    assert len(saved.record.moves) == 2 and not saved.is_over
    done = typed("resign", "--resume", "--plain")
    assert f"It continues after move 2. {answer}" in done.stdout and "play/00001 is stored" in done.stdout
