"""A person's game on the whole screen: cursor, mouse, typed words, overlays, the count, the review, every size."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played import Clock, console_of, lines_of
from rich.cells import cell_len
from rich.console import Group
from terminal import Terminal
from test_sitting import Scripted

from arena.contract.bot import Bot, Candidate, Decision, Limits
from arena.contract.limits import TimeLeft
from arena.go.coords import BLACK, WHITE, move_from_gtp
from arena.go.game import Game, Rules
from arena.go.record import GameRecord
from arena.people.adviser import Analyst
from arena.people.kifu import Kifu, KifuFile, Phase
from arena.people.sitting import Opponent, Sitting
from arena.results.analysis import Evaluation, analyse
from arena.screen.play import Seat
from arena.screen.play_frame import clock_words
from arena.screen.terminal import Act, Gone, Mouse, Paste, Press, Stage
from arena.screen.viewer import Review, remarks_of, show_review

PATIENCE = 60.0


class Likes(Scripted):
    """As an analyst it likes D3 and B2."""

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        best, other = (move_from_gtp(point, game.rules.size) for point in ("D3", "B2"))
        return [Candidate(best, 1200, 0.625, (best, other, best)), Candidate(other, 300, 0.5, (other,))]


Sit = Callable[..., Seat]


@pytest.fixture
def sit() -> Iterator[Sit]:
    """A person's seat at a game: after moves such as ``"C3 B2"``, against a bot, or both people's."""
    sittings = []

    def seat(moves: str = "", bot: Bot | None = None, rules: str = "chinese", time: str = "", **more: object) -> Seat:
        preset = Rules.preset(rules, 5)
        played = tuple(move_from_gtp(word, 5) for word in moves.split())
        record = GameRecord(preset, played, None, black="ada", white="bob", id="play/1", event="play")
        record = replace(record, black_player="person", white_player="another")
        people = (BLACK, WHITE) if bot is None else (BLACK,)
        opponents = {} if bot is None else {WHITE: Opponent(bot)}
        limits = Limits.read(time, "time") if time else Limits()
        kifu = Kifu(record, people, limits)
        sitting = Sitting(kifu, opponents, Analyst("oracle", Likes), now=more.get("clock", Clock()))  # type: ignore
        sittings.append(sitting)
        made = Seat(sitting, **{"clock": Clock(), **more})  # type: ignore[arg-type]
        made.sitting = sitting  # type: ignore[attr-defined]
        return made

    yield seat
    for sitting in sittings:
        sitting.close()


def screen(seat: Seat, width: int = 80, height: int = 24) -> list[str]:
    seat.look()
    lines = [line.plain.rstrip() for line in seat.picture(width, height).lines]
    assert len(lines) <= height and all(cell_len(line) <= width for line in lines)
    return lines


def text(seat: Seat, width: int = 80, height: int = 24) -> str:
    return "\n".join(screen(seat, width, height))


def press(seat: Seat, *keys: str) -> None:
    for key in keys:
        assert seat.do(Press(key))


def type_in(seat: Seat, *words: str) -> None:
    for word in words:
        press(seat, *word, "enter")


def mouse(seat: Seat, act: Act, point: str, width: int = 80, height: int = 24) -> None:
    picture = seat.picture(width, height)
    row, column = divmod(move_from_gtp(point, 5), 5)
    seat.do(Mouse(act, picture.top + 1 + row, 4 + 2 * column), picture)


def moves(seat: Seat) -> tuple[int, ...]:
    return seat.sitting.snapshot().record.moves  # type: ignore[attr-defined, no-any-return]


def points(*names: str) -> tuple[int, ...]:
    return tuple(move_from_gtp(name, 5) for name in names)


def settled(seat: Seat) -> None:
    """Wait until nobody thinks any more."""
    assert seat.sitting.wait(lambda now: now.is_settled, PATIENCE)  # type: ignore[attr-defined]
    seat.look()


# --- Moves ---


def test_the_arrows_bring_a_cursor_that_shows_the_stone_and_stays_on_the_board(sit: Sit):
    seat = sit("C3 B2")
    press(seat, "up")
    assert " 2  ·[○]· · ·" in text(seat)
    press(seat, "right", "right", "down")
    assert " 1  · · ·[•]·" in text(seat)
    assert "Enter plays D1" in text(seat)
    assert moves(seat) == points("C3", "B2")
    press(seat, "enter")
    assert moves(seat) == points("C3", "B2", "D1")
    press(seat, "down", "right", "right", " ")
    assert moves(seat) == points("C3", "B2", "D1", "E1")
    seat = sit()
    press(seat, "enter")
    assert seat.cursor == 12
    press(seat, *["up"] * 9, *["left"] * 9)
    assert seat.cursor == 0
    press(seat, *["down"] * 9, *["right"] * 9)
    assert seat.cursor == 24
    press(seat, "escape")
    assert seat.cursor is None and "[" not in "".join(screen(seat)[2:9])


def test_typed_coordinates_are_shown_before_enter_plays_them_and_pasted_text_is_typed_and_nothing_more(sit: Sit):
    seat = sit()
    press(seat, "d", "2")
    assert " 2  · · ·[•]·" in text(seat) and "> d2_" in text(seat)
    press(seat, "backspace", "3")
    assert " 3  · · ·[•]·" in text(seat)
    press(seat, "enter")
    assert moves(seat) == points("D3") and "> _" in text(seat)
    type_in(seat, "B4", "pass")
    assert moves(seat) == points("D3", "B4", "pass")
    seat = sit()
    seat.do(Paste("c3\n"))
    assert moves(seat) == () and "> c3_" in text(seat)
    press(seat, "enter")
    assert moves(seat) == points("C3")
    seat.do(Paste("(;GM[1]SZ[19]KM[7.5];B[pd];W[dp]\n;B[pp]\x1b[C" * 9))
    assert "That is too long for a move; the end was dropped." in text(seat)
    press(seat, "escape")
    assert "> _" in text(seat)


def test_the_mouse_hovers_and_places_and_where_nothing_hovers_the_second_click_places(sit: Sit):
    seat = sit()
    mouse(seat, Act.MOVE, "B4")
    assert " 4  ·[•]· · ·" in text(seat)
    mouse(seat, Act.CLICK, "B4")
    assert moves(seat) == points("B4")
    seat = sit("C3")
    mouse(seat, Act.CLICK, "D4", 40, 24)
    assert moves(seat) == points("C3")
    assert "Click D4 again to play there." in text(seat, 40, 24) and "[◦]" in text(seat, 40, 24)
    mouse(seat, Act.CLICK, "C3", 40, 24)
    assert "C3 is taken" in text(seat)
    mouse(seat, Act.CLICK, "D4", 40, 24)
    mouse(seat, Act.CLICK, "D4", 40, 24)
    assert moves(seat) == points("C3", "D4")
    seat.do(Mouse(Act.CLICK, 0, 70), seat.picture(80, 24))  # beside the board
    assert moves(seat) == points("C3", "D4")


def test_what_a_move_would_take_is_shown_and_a_ko_is_explained(sit: Sit):
    seat = sit("A2 A1 E5")
    assert "B1 takes 1." not in text(seat)
    type_in(seat, "E4")
    press(seat, "b", "1")
    assert "B1 takes 1." in text(seat)
    assert " 1  ◦[•]· · ·" in text(seat)
    press(seat, "enter")
    assert "captures 1" in text(seat)
    seat = sit("B3 C3 C4 D4 C2 D2 E1 E3 D3")
    assert "captures 1" in text(seat)
    press(seat, "c", "3")
    for _ in ("before Enter", "after it"):
        assert "C3 retakes the ko at once: play elsewhere first." in text(seat) and len(moves(seat)) == 9
        press(seat, "enter")


def test_what_cant_be_done_is_told_in_a_line(sit: Sit):
    for typed, said in {
        "undp": "'undp' is not a point (A1 to E5) or a command; did you mean 'undo'?",
        "p": "'p' is not a point (A1 to E5) or a command",  # of p4, where the board has one
        "review": "The review is available when the game is over.",
    }.items():
        type_in(seat := sit(), typed)
        assert said in text(seat)


def test_a_game_is_given_up_or_left_when_that_was_meant(sit: Sit):
    seat = sit("C3")
    type_in(seat, "resign")
    assert "Resign the game? y resigns, anything else plays on." in text(seat)
    press(seat, "left", "enter")
    assert seat.snapshot.phase is Phase.PLAY
    type_in(seat, "resign")
    press(seat, "enter", "y")
    assert seat.snapshot.phase is Phase.PLAY and "> y_" in text(seat)
    press(seat, "escape")
    type_in(seat, "resign")
    press(seat, "y")
    assert "Black won by resignation" in text(seat)
    press(seat, "r")
    assert seat.wants_review
    press(seat, "n")
    assert seat.wants_rematch
    assert not seat.do(Press("q"))
    press(seat := sit(), *"quit")
    assert not any(map(seat.do, (Press("enter"), Press("ctrl-d"), Gone())))


def test_a_q_leaves_when_no_letter_follows(sit: Sit):
    seat = sit("C3", clock=(clock := Clock()))
    press(seat, "q")
    assert "Leaving; the game is saved." in text(seat) and not seat.has_left
    press(seat, "u")
    clock.now += 5
    assert not seat.has_left and "> qu_" in text(seat)
    press(seat, "escape", "q")
    clock.now += 1
    assert seat.has_left


def test_help_that_makes_a_game_unrated_is_asked_for_twice(sit: Sit):
    for typed, words in (("hint", "A hint makes"), ("=", "A score makes")):
        seat, keys = sit("C3 B2"), (typed if typed == "=" else [*typed, "enter"])
        press(seat, *keys)
        assert f"{words} this game unrated. y goes ahead, anything else doesn't." in text(seat)
        press(seat, "enter")
        assert not seat.snapshot.unrated and not seat.snapshot.advising and not seat.shows_score
        press(seat, *keys, "y")
        settled(seat)
        assert seat.snapshot.unrated == {"=": "score"}.get(typed, typed)
        type_in(seat, "score")
        assert "makes" not in seat.message


def test_a_sign_inside_a_typed_line_is_text_and_leaves_a_rated_game_rated(
    sit: Sit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    seat = sit("C3", Likes("D3"))
    settled(seat)
    type_in(seat, "save a=yes!?.sgf")
    assert (tmp_path / "a=yes!?.sgf").exists()
    assert seat.snapshot.is_rated and not seat.shows_help


def test_brackets_of_the_last_move_and_of_a_cursor_beside_it_do_not_collide(sit: Sit):
    seat = sit("C3")
    press(seat, "enter", "right")
    assert " 3  · · ●[◦]·" in text(seat)
    press(seat, "right")
    assert " 3  · ·(●)·[◦]" in text(seat)


def test_the_end_of_a_game_is_told_in_whole_words(sit: Sit):
    seat = sit("C3", time="main=60", clock=(clock := Clock()))
    clock.now += 70
    lines = screen(seat, 50, 24)
    at = next(number for number, line in enumerate(lines) if "Black won on time" in line)
    assert " ".join(line[17:].strip() for line in lines[at : at + 2]) == "Black won on time (bob: out of time)"


def test_help_is_a_page_that_any_key_leaves(sit: Sit):
    seat = sit()
    press(seat, "?")
    for width, height in ((40, 24), (80, 24), (120, 40)):
        lines = screen(seat, width, height)
        assert "Any key goes back." in lines and "..." not in " ".join(lines)
    press(seat, "q")
    assert "> _" in text(seat)


def test_a_copy_of_the_game_is_written_where_it_is_asked_for(sit: Sit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seat = sit("C3", kept=Path("results/play/00001.sgf"))
    type_in(seat, "save")
    assert "The game is saved in results/play/00001.sgf after every move." in text(seat)
    monkeypatch.chdir(tmp_path)
    type_in(seat, "save Copy.sgf")
    assert "Written to Copy.sgf." in text(seat)
    assert "B[cc]" in (tmp_path / "Copy.sgf").read_text()
    type_in(seat, "save Copy.sgf")
    assert "can't be written: File exists" in seat.message


# --- A bot on the other side ---


def test_the_screen_is_alive_while_the_bot_thinks(sit: Sit):
    from threading import Event

    let, clock = Event(), Clock()

    class Slow(Scripted):
        def choose(self, game: Game, limits: Limits) -> Decision:
            assert let.wait(PATIENCE)
            return super().choose(game, limits)

    seat = sit(bot=Slow("B2"), clock=clock)
    type_in(seat, "c3")
    assert "⠋ bob thinks" in text(seat) and seat.patience == pytest.approx(0.1)
    clock.now += 12.1
    assert "⠙ bob thinks, 0:12" in text(seat)
    type_in(seat, "d4")
    assert "It is bob's turn." in text(seat)
    press(seat, "d", "4")
    assert "> d4_" in text(seat)  # what is typed meanwhile stays
    let.set()
    settled(seat)
    assert " 2  ·(○)· · ·" in text(seat) and "your turn (●)" in text(seat) and "> d4_" in text(seat)
    assert seat.patience is None


def test_clocks_are_shown_and_run(sit: Sit):
    clock = Clock()
    seat = sit(time="main=600,byoyomi=30,stones=5", clock=clock)
    clock.now += 19
    assert "captures 0     9:41" in text(seat) and "captures 0    10:00" in text(seat)
    assert seat.patience == pytest.approx(0.2)
    clock.now += 700
    assert "White won on time (ada: out of time)" in text(seat)
    assert [clock_words(TimeLeft(*left)) for left in ((9.94, 0), (25, 3), (3700, 0))] == ["9.9", "0:25/3", "1:01:40"]


# --- Overlays ---


def test_an_enter_behind_a_yes_places_no_stone(sit: Sit):
    seat = sit()
    press(seat, "up", "!", "y", "enter")
    settled(seat)
    assert "no move yet" in text(seat)


def test_hints_stay_on_and_follow_the_game(sit: Sit):
    seat = sit(bot=Scripted("B4", "A4"))
    press(seat, "!", "y")
    settled(seat)
    assert screen(seat)[2:11] == [
        "    A B C D E    ● ada                         captures 0",
        " 5  · · · · ·    ○ bob                         captures 0",
        " 4  · · · · ·    no move yet",
        " 3  · · · A ·    your turn (●)",
        " 2  · B · · ·",
        " 1  · · · · ·    oracle, 1,500 visits:",
        "                 A D3    62%  1,200  B2 D3",
        "                 B B2    50%    300",
        "",
    ]
    assert " 3  · · · A ·" in text(seat) and "A D3" in text(seat) and "! hide" in text(seat)
    press(seat, "d", "3")  # the line of play from there
    assert " 3  · · ·[•]·" in text(seat) and " 2  · 2 · · ·" in text(seat)
    press(seat, "escape")
    type_in(seat, "c3")
    settled(seat)
    settled(seat)
    assert " 3  · ·[●]A ·" in text(seat)  # for the next move, unasked
    press(seat, "!")
    assert " 3  · ·[●]· ·" in text(seat) and "unrated: hint" in text(seat)


def test_a_hint_asked_for_again_is_thought_about_longer_and_an_estimate_can_be_switched_off(sit: Sit):
    seat = sit("C3 pass C2 pass C1 pass C4 pass C5 pass")
    advice = []
    for words in (("hint", "y"), ("hint",)):
        type_in(seat, *words)
        settled(seat)
        advice.append(seat.snapshot.advice)
    assert advice[1] is not advice[0] and seat.shows_hints
    press(seat, "=")
    settled(seat)
    assert "score: Black leads by about" in text(seat) and "▪" in text(seat)
    press(seat, "=")
    assert "score:" not in text(seat) and "▪" not in text(seat)


# --- The end ---


def test_dead_stones_are_marked_changed_and_counted(sit: Sit):
    seat = sit("C1 D1 C2 D2 C3 D3 C4 D4 C5 D5 E3 A3 pass pass", rules="japanese")
    settled(seat)
    assert "which stones are dead?" in text(seat)
    if not seat.snapshot.dead:  # what the program takes for dead is not this test's affair
        type_in(seat, "a3", "e3")
    assert screen(seat)[2:8] == [
        "    A B C D E    ● ada                         captures 0",
        " 5  ▪ ▪ ● ○ ▫    ○ bob                         captures 0",
        " 4  ▪ ▪ ● ○ ▫    move 14: ○ pass",
        " 3  ◦ ▪ ● ○ •    which stones are dead?",
        " 2  ▪ ▪ ● ○ ▫",
        " 1  ▪ ▪ ● ○ ▫    Black has 11 points, White 6 and komi 6.5. White wins by 1.5",
    ]
    mouse(seat, Act.CLICK, "A3")
    assert " 3 [○]· ● ○ •" in text(seat)
    press(seat, "enter")
    assert " 3 [◦]▪ ● ○ •" in text(seat)
    type_in(seat, "b1")
    assert "No stone lies there; done counts, continue plays on." in text(seat)
    type_in(seat, "done")
    assert "White won by" in text(seat) or "Black won by" in text(seat)
    assert "r review" in text(seat)


# --- Every size ---


def test_a_terminal_of_80_columns_has_all_beside_the_board(sit: Sit):
    seat = sit("A2 A1 B2", time="main=300")
    press(seat, "b", "1")
    assert screen(seat) == [
        "5x5 · chinese rules · komi 7",
        "",
        "    A B C D E    ● ada                captures 0     5:00",
        " 5  · · · · ·    ○ bob                captures 0     5:00",
        " 4  · · · · ·    move 3: ● B2",
        " 3  · · · · ·    bob to play (○)",
        " 2  ●(●)· · ·",
        " 1  ○[◦]· · ·",
        *[""] * 14,
        "> b1_",
        "arrows or mouse, Enter plays · d4 · pass · undo · ! hint · = score · ? help",
    ]
    wide = screen(seat, 120, 40)
    assert wide[:8] == screen(seat)[:8] and wide[-2:] == screen(seat)[-2:] and len(wide) == 40


def test_a_terminal_of_40_columns_has_all_below_the_board(sit: Sit):
    seat = sit("C3 B2")
    press(seat, "d", "4")
    assert lines_of(Group(*seat.picture(40, 20).lines), 40, 20, encoding="ascii") == [
        "5x5 | chinese rules | komi 7",
        "    A B C D E",
        " 5  . . . . .",
        " 4  . . .[b].",
        " 3  . . X . .",
        " 2  .(O). . .",
        " 1  . . . . .",
        "X ada                         captures 0",
        "O bob                         captures 0",
        "move 2: O B2",
        "ada to play (X)",
        *[""] * 7,
        "> d4_",
        "arrows Enter | ! hint | = score | ? help",
    ]


def test_a_terminal_that_is_too_small_says_so_and_still_plays(sit: Sit):
    seat = sit()
    shown = " ".join(screen(seat, 30, 5))
    assert "The board needs 14x7, this is 30x5." in shown and "> _" in shown
    press(seat, "c", "3", "enter")
    assert moves(seat) == points("C3")


@settings(max_examples=40, deadline=None)
@given(width=st.integers(1, 130), height=st.integers(1, 45))
def test_it_fits_every_terminal(width: int, height: int):
    record = GameRecord(Rules.preset("chinese", 5), points("C3"), None, black="a" * 60, white="b", id="play/1")
    sitting = Sitting(Kifu(record, (BLACK, WHITE)), {})
    seat = Seat(sitting)
    press(seat, "left")
    screen(seat, width, height)
    press(seat, "?")
    screen(seat, width, height)
    sitting.close()


# --- A review ---


class Judge(Bot):
    """Gives Black these win rates, position by position."""

    def __init__(self, *rates: float):
        self._rates = rates

    def choose(self, game: Game, limits: Limits) -> Decision:
        rate = self._rates[len(game.moves)]
        return Decision(24 - len(game.moves), win_rate=rate if game.to_play is BLACK else 1 - rate, visits=10)


RECORD = GameRecord(Rules.preset("chinese", 5), points("C3", "B2", "D4", "A1"), None, black="ada", white="bob")
RATES = (0.5, 0.6, 0.58, 0.2, 0.45)


def evaluations() -> list[Evaluation]:
    return list(analyse(RECORD, Judge(*RATES), at_once=1))


def shown_of(review: Review) -> str:
    return "\n".join(line.plain for line in review.scene().fit(80, 24).lines)


def test_a_review_fills_in_as_evaluations_come():
    review, both = Review(RECORD, WHITE), Review(RECORD)
    assert both.mistakes == []
    for number, evaluation in enumerate(evaluations()):
        assert f"evaluated {number} of 5 positions" in shown_of(review)
        review.learn(evaluation)
        both.learn(evaluation)
    assert (review.mistakes, both.mistakes) == ([4], [3, 4])
    shown = shown_of(review)
    assert "evaluated" not in shown and "this move cost 25% of win rate" in shown and "instead of A1: B1" in shown
    remarks = remarks_of(RECORD, evaluations())
    assert [remark.win_rate for remark in remarks] == pytest.approx(list(RATES))
    assert remarks[3].comment.splitlines()[0].startswith("instead of D4: ")
    review.fault = "oracle: no net"
    assert "oracle: no net" in shown_of(review)


@pytest.mark.parametrize(("last", "stays"), [(Press("q"), True), (Gone(), False)])
def test_a_person_looks_around_while_a_review_goes_on_and_leaves(last: Press | Gone, stays: bool):
    review = Review(RECORD)

    def evaluate(record: GameRecord) -> Iterator[Evaluation]:
        yield from evaluations()
        for typed in (Press("home"), Press("m"), Press("m"), last):
            stage.tell(typed)

    with Stage(console_of(80, 24)) as stage:
        assert show_review(review, evaluate, stage) is stays
    assert review.is_complete and review.number == 4


# --- In a terminal ---

PLAY = ["-c", "from arena.cli import main; main()", "play", "random", "--size", "5", "--as", "ada", "--seed", "1"]


def test_a_person_plays_with_keys_mouse_and_words_through_a_resize(tmp_path: Path):
    with Terminal(*PLAY, cwd=tmp_path) as terminal:
        terminal.until("your turn (●)")
        terminal.press("\x1b[200~c3\x1b[201~")
        terminal.until("[▐██▌]")  # large points
        terminal.press("\r")
        terminal.until("move 2: ○")
        terminal.resize(40, 24)
        terminal.until(lambda lines: lines[7].startswith("● ada"))
        places = [(row, column) for row in range(2, 7) for column in (4, 6, 8, 10, 12)]
        free = next((row, column) for row, column in places if terminal.lines[row][column : column + 1] == "·")
        for button in (35, 0):
            terminal.press(f"\x1b[<{button};{free[1] + 1};{free[0] + 1}M")
        terminal.until("move 4: ○")
        terminal.press("resign\ry")
        terminal.until("White won by resignation")
        terminal.press("q")
        assert terminal.until_it_ends() == 0
        assert terminal.is_sane
        assert "resigns" in terminal.text


def test_a_closed_terminal_loses_nothing(tmp_path: Path):
    with Terminal(*PLAY, cwd=tmp_path) as terminal:
        terminal.until("your turn (●)")
        terminal.press("c3\r")
        terminal.until("move 2: ○")
        os.kill(terminal.job, signal.SIGHUP)
        terminal.until(lambda lines: "ended" in "".join(lines))
    with KifuFile.open(tmp_path / "results", "play/00001") as file:
        assert len(file.read().record.moves) == 2
