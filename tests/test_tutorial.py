"""The lessons against the real rules, and as a person meets them: typed, in a pipe, at a terminal."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import arena, refused
from played import console_of, output_of
from terminal import Terminal

from arena.go.moves import WHITE, gtp_from_move, move_from_gtp
from arena.people.tutorial import LESSONS, SIZE, Lesson, reply
from arena.screen.tutorial import Left, Talk, teach

ANSWERS = ["C3", "4", "C2", "C2", "E1", "C3", "B5", "B5", "pass", "13"]
"""The right answer to each lesson."""


def lesson(title: str) -> Lesson:
    return next(lesson for lesson in LESSONS if lesson.title == title)


def test_there_are_ten_lessons_and_the_real_rules_take_each_answer() -> None:
    assert len(LESSONS) == len(ANSWERS) == 10
    for taught, answer in zip(LESSONS, ANSWERS, strict=True):
        assert reply(taught, answer).is_right and reply(taught, f" {answer.lower()} ").is_right
        assert taught.praise in reply(taught, answer).words


@pytest.mark.parametrize("taught", LESSONS, ids=lambda taught: taught.title)
def test_whatever_is_typed_gets_a_word_and_a_wrong_answer_a_hint(taught: Lesson) -> None:
    right = set(taught.moves) or {gtp_from_move(move, SIZE) for move in range(SIZE * SIZE)}
    for typed in ["", "Z9", "C33", "pass", "-4", "½", "D1", "A5", "quit now", "0"]:
        said = reply(taught, typed)
        expected = typed == str(taught.number) if taught.number else typed in right or (typed,) == taught.moves
        assert said.is_right == expected
        assert said.is_right or (taught.hint in said.words and not said.game.moves)


def test_every_move_is_right_or_answered_by_what_the_rules_say() -> None:
    for taught in LESSONS[1:]:
        for move in range(SIZE * SIZE + 1):
            point = gtp_from_move(move, SIZE)
            if taught.number is None and point not in taught.moves:
                legal = bool(taught.game().legal_moves()[move])
                assert ("forbidden" in reply(taught, point).words[0]) != legal


def test_what_the_words_say_of_the_positions_is_so() -> None:
    group = lesson("Liberties").game().board
    assert group.liberties(move_from_gtp("C3", SIZE)) == 4
    saved = reply(lesson("Escape"), "C2").game
    assert saved.board.liberties(move_from_gtp("C3", SIZE)) == 3
    assert reply(lesson("Capture"), "C2").game.prisoners(WHITE) == 1
    taken = reply(lesson("Suicide"), "E1").game
    assert taken.prisoners(WHITE) == 2
    assert "White B3: forbidden, B3 retakes the ko at once." in reply(lesson("Ko"), "C3").words
    assert [words.split(",")[0] for words in reply(lesson("Life"), "B5").words[1:]] == [
        "White A5: forbidden",
        "White C5: forbidden",
    ]
    over = reply(lesson("Passing"), "pass").game
    assert over.is_over and over.margin() == 0.5


def test_the_dead_group_is_dead_and_the_living_one_lives() -> None:
    """Whatever its owner plays first, Black takes White's group or keeps it from a second eye; a living group has two
    eyes at once."""
    life = reply(lesson("Life"), "B5").game
    eyes = [move_from_gtp(word, SIZE) for word in ("A5", "C5")]
    assert life.to_play is WHITE and not life.legal_moves()[eyes].any()
    for first in ("A5", "C5"):
        game = reply(lesson("Death"), "B5").game
        game.play(move_from_gtp(first, SIZE))
        second = "C5" if first == "A5" else "A5"
        game.play(move_from_gtp(second, SIZE))
        assert game.prisoners(WHITE) >= 6  # all of it is gone


# --- On a screen ---


def talk_of(*typed: str, plain: bool = False, waits: bool = False) -> Talk:
    lines: Iterator[str] = iter(typed)

    def ask(prompt: str) -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    return Talk(console_of(60, 40, terminal=False), ask, plain, waits)


def test_one_goes_through_all_lessons_back_and_past_them() -> None:
    talk = talk_of("C3", "back", "C3", "", "5", "4", *ANSWERS[2:9], "skip")
    teach(talk)
    text = output_of(talk.console)
    assert text.count("1 of 10: Stones") == 2 and text.count("10 of 10: Counting") == 1
    assert "Not 5." in text and "Or: skip, back, quit." in text


def test_who_leaves_or_stops_typing_is_told_where_to_go_on() -> None:
    for typed in (["C3", "4"], ["C3", "4", "quit"], ["C3", "", "4", "", "q"]):
        with pytest.raises(Left) as left:
            teach(talk_of(*typed, waits="" in typed))
        assert left.value.number == 3


def test_plain_says_positions_in_words_and_draws_nothing() -> None:
    talk = talk_of("C3", "4", "C2", plain=True)
    with pytest.raises(Left):
        teach(talk)
    text = output_of(talk.console)
    assert "Black: C4 B3 D3. White: C3." in text and "Black: C4 B3 D3 C2. White: none." in text
    assert "A B C D E" not in text


# --- The command ---


def test_the_tutorial_runs_in_a_pipe(tmp_path: Path) -> None:
    typed = "12\n13\nx9\nc3\nc3\nresign\n"
    done = arena("play", "--tutorial", "--from", "10", "--plain", folder=tmp_path, columns=200, typed=typed)
    assert done.returncode == 0, done.stderr
    assert "Not 12." in done.stdout and "> 13" in done.stdout
    assert "There is no point X9" in done.stdout and "C3 is taken" in done.stdout
    assert "beginner resigns: White (fast-random) wins." in done.stdout and "unrated" not in done.stdout
    assert "arena play mcts --tutorial --from 11" in " ".join(done.stdout.split())
    assert "\x1b" not in done.stdout and not list(tmp_path.iterdir())


def test_a_person_learns_at_a_terminal(tmp_path: Path) -> None:
    with Terminal(
        "-c", "from arena.cli import main; main()", "play", "--tutorial", width=60, height=40, cwd=tmp_path
    ) as terminal:
        terminal.until("type C3")
        terminal.press("b2\r")
        terminal.until("Enter continues.")
        terminal.press("\r")
        terminal.until("2 of 10: Liberties")
        terminal.until(lambda lines: ">" in lines)  # Python itself hears no Ctrl-C just before it reads
        terminal.press("\x03")
        assert terminal.until_it_ends() == 130
        assert terminal.is_sane


def test_whom_to_play_is_checked_before_the_lessons(tmp_path: Path) -> None:
    refused(arena("play", "human", "--tutorial", folder=tmp_path), "a person can't play here")
    refused(arena("play", "leela", "--tutorial", folder=tmp_path), "unknown bot")
    refused(arena("play", "mcts", "--tutorial", "--size", "9", folder=tmp_path), "BOT, --from and --plain only")
    refused(arena("play", "mcts", "--from", "3", folder=tmp_path), "--from 3 is a screen, which needs --tutorial")
