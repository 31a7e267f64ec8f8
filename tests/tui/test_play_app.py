"""A person's game on the full screen: cursor, mouse, typed words, overlays, the count, every size."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from helpers.games import Clock
from helpers.screens import Hand, use
from helpers.scripted_bots import Scripted
from helpers.sessions import kifu_of, sat
from helpers.terminal import Terminal
from textual.events import Paste

from arena.contract.bot import Bot, Candidate, Decision, Limits
from arena.go.coords import BLACK, WHITE, move_from_gtp
from arena.go.game import Game
from arena.people.adviser import Adviser
from arena.people.saved_game import SavedGameFile
from arena.people.session import GameSession
from arena.tui.play_app import PlayApp

PATIENCE = 600.0  # kernels may be compiled meanwhile


class Likes(Scripted):
    """As an analyst it likes D3 and B2."""

    def analyse(self, game: Game, limits: Limits) -> list[Candidate]:
        best, other = points("D3", "B2")
        return [Candidate(best, 1200, 0.625, (best, other, best)), Candidate(other, 300, 0.5, (other,))]


Sit = Callable[..., tuple[PlayApp, GameSession]]


@pytest.fixture
def sit() -> Iterator[Sit]:
    """A screen and its game: after moves such as ``"C3 B2"``, against a bot, or both people's."""
    sessions = []

    def begin(
        moves: str = "", bot: Bot | None = None, time: str = "", clock: Clock | None = None, colours: bool = False
    ) -> tuple[PlayApp, GameSession]:
        people, limits = (BLACK, WHITE) if bot is None else (BLACK,), Limits.read(time, "time") if time else Limits()
        saved = kifu_of(people=people, time=limits, black="ada", white="bob")
        saved = replace(saved, record=replace(saved.record, moves=points(*moves.split())))
        sessions.append(sat(saved, bot, adviser=Adviser("oracle", Likes), now=clock or Clock()))
        return PlayApp(sessions[-1], colours, lambda _: ["An even opponent: arena play"]), sessions[-1]

    yield begin
    for session in sessions:
        session.close()


def points(*names: str) -> tuple[int, ...]:
    return tuple(move_from_gtp(name, 5) for name in names)


async def settled(hand: Hand, session: GameSession) -> None:
    assert session.wait(lambda now: now.is_settled, PATIENCE)
    await hand.pilot.pause()


def test_a_cursor_and_typed_points_are_shown_before_they_are_played(sit: Sit) -> None:
    app, session = sit("C3 B2")

    async def play(hand: Hand) -> None:
        await hand.press("up")
        assert "2 ·[○]· · ·" in hand.text
        await hand.press("right", "right", "down")
        assert "1 · · ·[•]·" in hand.text and "Enter plays D1" in hand.text
        await hand.press("enter", *["up"] * 6, *["left"] * 6)
        assert session.snapshot().record.moves == points("C3", "B2", "D1") and app.cursor == 0
        await hand.press("escape", "d", "2")
        assert app.cursor is None and "[◦]" in hand.text
        await hand.press("backspace", "3", "enter")
        await hand.type_in("B4", "pass", "a=qrn!?")
        assert session.snapshot().record.moves[3:] == points("D3", "B4", "pass")
        assert "'a=qrn!?' is not a point" in hand.text and not app.snapshot.unrated  # signs in a line ask for no help

    use(app, play)


def test_what_is_pasted_is_typed_and_lines_from_before_the_screen_opened_are_commands(sit: Sit) -> None:
    app, session = sit()

    async def play(hand: Hand) -> None:
        await hand.press("c", "3", "ctrl+j", "d", "4", "ctrl+j", "b", "2")
        assert session.snapshot().record.moves == points("C3", "D4") and app.input.value == "b2"
        await hand.press("escape")
        for pasted in ("c4\n", "(;GM[1]SZ[19]KM[7.5];B[pd];W[dp];B[pp]" * 9):
            app.input.post_message(Paste(pasted))
            await hand.pilot.pause()
            assert app.input.value.startswith("c4") and len(app.input.value) <= 100
        assert len(session.snapshot().record.moves) == 2
        await hand.press("escape", "q", "enter")

    use(app, play)
    assert app._exit and not app.choice and session.snapshot().record.outcome is None


def test_a_game_is_given_up_when_that_was_meant(sit: Sit) -> None:
    app, session = sit("C3")

    async def resign(hand: Hand) -> None:
        await hand.type_in("resign")
        assert "Resign the game? Press y to go ahead; anything else plays on." in hand.text
        assert all(words in hand.lines[-1] for words in ("^r Resign", "^q Quit"))
        await hand.press("a", "backspace", "y")
        assert session.snapshot().record.outcome is None and app.input.value == "y"
        await hand.press("escape", "ctrl+r", "y")
        assert "Black won by resignation" in hand.text and "n Rematch r Review" in hand.text
        assert "An even opponent: " in hand.text
        await hand.press("n")

    use(app, resign)
    assert app.choice == "rematch"


def test_the_end_of_a_game_is_told_in_whole_words_and_clocks_run(sit: Sit) -> None:
    app, _ = sit("C3", time="main=60", clock=(clock := Clock()))

    async def wait(hand: Hand) -> None:
        clock.now += 52
        await hand.until_shown("○ bob captures 0 8.0")
        clock.now += 10
        await hand.until_shown("Black won on time (bob: out of time)")

    use(app, wait, (100, 24))


def test_the_screen_is_alive_while_the_bot_thinks(sit: Sit) -> None:
    let = Event()

    class Slow(Scripted):
        def choose(self, game: Game, limits: Limits) -> Decision:
            assert let.wait(PATIENCE)
            return super().choose(game, limits)

    app, session = sit(bot=Slow("B2"))

    async def play(hand: Hand) -> None:
        await hand.type_in("c3")
        assert "bob thinks" in hand.text
        await hand.type_in("d4")
        assert "It is bob's turn." in hand.text
        await hand.press("escape", "?")
        await hand.until_shown("two passes end the game", "take back your last move")
        await hand.press("q", "d", "4")  # the first of them closes the help
        let.set()
        await settled(hand, session)
        await hand.until_shown("2 ·(○)· · ·", "your turn (●)")
        assert app.input.value == "d4"

    use(app, play)


def test_a_hint_and_a_score_are_asked_for_twice_and_shown_until_the_next_move(sit: Sit) -> None:
    app, session = sit(bot=Likes("B3", "C2"))

    async def ask(hand: Hand) -> None:
        await hand.type_in("c3")
        await settled(hand, session)
        await hand.type_in("hint")
        assert "A hint makes this game unrated." in hand.text and not session.snapshot().unrated
        await hand.press("y", "escape")
        await settled(hand, session)
        await hand.until_shown("A D3: wins 62.5 %, 1,200 visits; D3 B2", "3 ·(○)● A ·")
        await hand.press("=")
        await settled(hand, session)
        await hand.until_shown("oracle", "Score:", "▪ Black's")
        await hand.type_in("d3")
        await settled(hand, session)
        await hand.until(lambda: not any(word in hand.text for word in ("oracle", "Score:", "▪ Black's")))

    use(app, ask, (100, 30))


def test_dead_stones_are_marked_changed_and_counted(sit: Sit) -> None:
    app, session = sit("C1 D1 C2 D2 C3 D3 C4 D4 C5 D5 E3 A3 pass pass")

    async def count(hand: Hand) -> None:
        await settled(hand, session)
        await hand.until_shown("d4, done, continue, undo")
        assert "^d Done ^o Continue" in hand.text
        assert "Pass" not in hand.text and "Hint" not in hand.text
        before = session.snapshot().dead
        await hand.click_at(points("A3")[0])
        await hand.type_in("e3")
        assert session.snapshot().dead != before
        await hand.type_in("done")
        assert "won by" in hand.text and "which stones are dead?" not in hand.text

    use(app, count)


@pytest.mark.parametrize("size", [(20, 6), (40, 20), (80, 24), (160, 50)])
def test_it_fits_every_terminal_and_a_second_click_on_a_point_plays_there(sit: Sit, size: tuple[int, int]) -> None:
    app, session = sit("C3 B2", colours=size[0] != 80)

    async def look(hand: Hand) -> None:
        if size[0] >= 40:
            for point in points("C3", "D4"):
                await hand.click_at(point)
            assert len(session.snapshot().record.moves) == 2 and "Click D4 again to play." in hand.text
            await hand.click_at(point)
            assert session.snapshot().record.moves[2:] == points("D4")
            assert "bob captures 0" in hand.text and "ada" in hand.text and "A B C D E" in hand.text
            assert "? Help" in hand.lines[-1]

    use(app, look, size)


# --- In a terminal ---


def test_a_person_plays_with_keys_and_fast_words_and_a_closed_terminal_loses_nothing(tmp_path: Path) -> None:
    """Where lines were typed faster than the screen reads, Enter was read after the keys that came behind it."""
    with Terminal("play", "random", "--size", "5", cwd=tmp_path) as terminal:
        terminal.press("c3\n")  # before the screen opens
        terminal.until("move 2")
        terminal.press("\x1a")
        terminal.until("stopped, sane")
        terminal.resize(60, 24)
        terminal.press("go on\n")
        terminal.until("A   B   C   D   E")
        os.kill(terminal.job, signal.SIGHUP)
        assert terminal.until_it_ends() == 129 and terminal.is_sane
    with SavedGameFile.open(tmp_path / "results", "play/00001") as file:
        saved = file.read()
    assert saved.record.moves[:1] == points("C3") and len(saved.record.moves) == 2
    with Terminal("play", "--resume", cwd=tmp_path) as terminal:
        terminal.until("move 2")
        terminal.press("board\rresign\ry\r")
        terminal.until("White won by resignation")
        terminal.press("q")
        assert terminal.until_it_ends() == 0
