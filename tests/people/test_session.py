"""A person's game without any picture: turns, undo, clocks, advice, dead stones, and the file it is kept in."""

import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from helpers.games import Clock
from helpers.scripted_bots import Scripted
from helpers.sessions import Oracle, kifu_of, sat

from arena import BotFault, BotKilled, RecordError, StoreError, UserError
from arena.contract.bot import Bot, Decision, Limits
from arena.contract.limits import TimeLeft
from arena.go.coords import BLACK, WHITE, Colour, gtp_from_move, move_from_gtp
from arena.go.game import Ending, Game, Outcome, Rules
from arena.go.record import MoveStats
from arena.go.sgf import read_sgf
from arena.people.adviser import Adviser
from arena.people.counting import count
from arena.people.saved_game import Phase, SavedGame, SavedGameFile, SessionState, is_held, saved_games
from arena.people.session import ActionRefused, GameSession
from arena.players.player import Player

PATIENCE = 600.0


class Deliberate(Scripted):
    """Decides when it is let, and says when it has begun."""

    def __init__(self, *moves: str):
        super().__init__(*moves)
        self.seen: list[str] = []
        self.begun, self.let = threading.Event(), threading.Event()

    def choose(self, game: Game, limits: Limits) -> Decision:
        self.seen.append(" ".join(gtp_from_move(move, game.rules.size) for move in game.moves))
        self.begun.set()
        assert self.let.wait(PATIENCE)
        return super().choose(game, limits)


def play(session: GameSession, *words: str) -> SessionState:
    """Moves of people, each when it is their turn; how things stand when the next is due."""
    for word in words:
        session.play(move_from_gtp(word, session.snapshot().size))
        settled(session)
    return session.snapshot()


def settled(session: GameSession) -> SessionState:
    """How things stand as soon as nothing is under way."""
    assert session.wait(lambda now: now.is_settled, PATIENCE)
    return session.snapshot()


def played(now: SessionState) -> str:
    return " ".join(gtp_from_move(move, now.size) for move in now.record.moves)


# --- Turns ---


@pytest.mark.smoke
def test_a_resignation_ends_a_persons_game_even_while_the_bot_thinks() -> None:
    bot = Deliberate("C3")
    with sat(kifu_of(), bot) as session:
        session.play(0)
        assert bot.begun.wait(PATIENCE)
        with pytest.raises(ActionRefused, match=r"It is bot's turn\."):
            session.play(1)
        session.resign()
        now = session.snapshot()
        assert now.record.outcome == Outcome(WHITE, Ending.RESIGN) and now.thinking is None
        bot.let.set()
        for late in (session.pass_turn, session.resign, session.undo, session.hint, session.score):
            with pytest.raises(ActionRefused, match=r"The game is over\."):
                late()
    assert played(session.snapshot()) == "A5" and bot.is_closed and session.has_ended


DIES = BotKilled("the engine was killed")


@pytest.mark.parametrize(
    ("script", "ending", "reason"),
    [
        ([BotFault("the engine died"), "B2"], Ending.CRASH, "the engine died"),
        ([ValueError("no such array"), "B2"], Ending.CRASH, "ValueError: no such array"),
        (["C3", "B2"], Ending.ILLEGAL, "illegal move 2: C3 is taken"),
        ([SystemExit("bye")], Ending.CRASH, "SystemExit: bye"),
        ([DIES, DIES, DIES], Ending.CRASH, "the engine was killed"),
    ],
)
def test_a_bot_that_fails_forfeits(script: list[str | BaseException], ending: Ending, reason: str) -> None:
    """After a call of sys.exit, or a kill, the game said that the bot thinks, for ever."""
    with sat(kifu_of(), Scripted(*script)) as session:
        now = play(session, "C3")
    assert (now.record.outcome, now.record.reason) == (Outcome(BLACK, ending), f"bot: {reason}")
    assert isinstance(script[0], SystemExit) or bool(now.record.fault_details) is isinstance(script[0], Exception)


def test_a_bot_that_is_killed_is_asked_again() -> None:
    with sat(kifu_of(), Scripted(DIES, DIES, "B3")) as session:
        assert played(play(session, "C3")) == "C3 B3"


def test_undo_takes_back_also_while_the_bot_thinks_and_the_bot_sees_the_present_position() -> None:
    bot = Deliberate("B3", "D4", "B2")
    with sat(kifu_of(), bot) as session:
        session.play(12)
        assert bot.begun.wait(PATIENCE)
        session.undo()
        assert session.snapshot().record.moves == ()
        bot.let.set()  # what it answers now is thrown away
        assert played(play(session, "C4")) == "C4 D4"
        session.undo()
        assert played(play(session, "C5", "D3")) == "C5 B2 D3 pass"
    assert bot.seen == ["C3", "C4", "C5", "C5 B2 D3"]


# --- Clocks ---


def test_a_persons_clock_runs_in_turns_only_and_its_end_loses() -> None:
    clock = Clock()
    with sat(kifu_of(time=Limits(main=10)), Scripted("B3"), Limits(main=10), now=clock) as session:
        clock.now += 4
        assert session.snapshot().clocks == play(session, "C3").clocks == (TimeLeft(6, 0), TimeLeft(10, 0))
        clock.now += 5.5
        session.update()
        assert session.snapshot().phase is Phase.PLAY
        clock.now += 1
        with pytest.raises(ActionRefused):
            session.play(0)
        now = session.snapshot()
        assert (now.record.outcome, now.record.reason) == (Outcome(WHITE, Ending.TIME), "ada: out of time")
        assert session.snapshot().record.black_seconds == 10.5


def test_undo_gives_back_no_seconds_and_begins_no_new_period_of_byo_yomi() -> None:
    clock = Clock()
    with sat(kifu_of(time=Limits(main=10, byoyomi=30, stones=2)), Scripted("B3"), now=clock) as session:
        play(session, "C3")
        clock.now += 35
        session.undo()
        assert session.snapshot().clocks[0] == TimeLeft(5, 2)
        clock.now += 3
        assert play(session, "C3").clocks[0] == TimeLeft(2, 1)
        assert session.snapshot().record.black_seconds == 38


def test_the_clock_of_a_bot_runs_on_while_undo_takes_its_turn_back_and_its_end_loses() -> None:
    clock, bot = Clock(), Deliberate("B3")
    with sat(kifu_of(), bot, Limits(main=60), now=clock) as session:
        session.play(12)
        assert bot.begun.wait(PATIENCE)
        clock.now += 20
        session.undo()
        assert session.snapshot().clocks[1] == TimeLeft(40, 0)
        bot.let.set()
    bot = Deliberate("B3")
    with sat(kifu_of(), bot, Limits(main=10), now=clock) as session:
        session.play(12)
        assert bot.begun.wait(PATIENCE)
        clock.now += 11
        bot.let.set()
        now, limits = settled(session), bot.asked[0]
        assert now.record.outcome == Outcome(BLACK, Ending.TIME) and now.clocks[1] == TimeLeft(0.0, 0)
        assert now.record.reason == "bot: out of time: 11.00 s for a move, with 10.00 s left"
        assert limits.left == TimeLeft(10, 0) and 0 < (limits.seconds or 0) < 10


def test_a_bot_makes_ready_before_its_clock_runs() -> None:
    clock = Clock()

    class Prepared(Scripted):
        is_ready = False

        def prepare(self, game: Game, limits: Limits) -> None:
            clock.now += 0 if self.is_ready else 20
            self.is_ready = True

        def choose(self, game: Game, limits: Limits) -> Decision:
            self.prepare(game, limits)
            return super().choose(game, limits)

    with sat(kifu_of(), Prepared("B3"), Limits(main=10), now=clock) as session:
        now = play(session, "C3")
        assert (played(now), now.clocks[1], session.snapshot().record.white_seconds) == ("C3 B3", TimeLeft(10, 0), 0)


# --- Advice ---


def test_a_hint_comes_from_the_analyst_who_goes_on_where_it_was_and_the_game_is_unrated() -> None:
    with sat(kifu_of(), Scripted("B3"), adviser=Adviser("oracle", Oracle)) as session:
        session.hint()
        advice = settled(session).advice
        assert (advice.analyst, advice.colour, advice.candidates[0].visits) == ("oracle", BLACK, 20)
        session.hint()
        assert settled(session).advice.candidates[0].visits == 30
        now = play(session, "A1")
        assert (now.advice, now.advising, now.unrated) == (None, False, "hint")

    def fails() -> Bot:
        raise ValueError("no net")

    with sat(kifu_of(), adviser=Adviser("oracle", fails)) as session:
        session.hint()
        assert settled(session).advice.fault == "ValueError: no net"


@pytest.mark.parametrize("error", [ValueError("no net"), SystemExit("no net")])
def test_an_error_in_an_estimate_is_shown_and_later_hints_are_answered(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """It ended the thread of all advice, with a traceback across the screen."""

    def fail(game: Game) -> NoReturn:
        raise error

    monkeypatch.setattr("arena.people.session.estimate_score", fail)
    with sat(kifu_of(), adviser=Adviser("oracle", Oracle)) as session:
        session.score()
        now = settled(session)
        assert now.trouble == f"the playouts can't run: {type(error).__name__}: no net" and not now.estimating
        session.hint()
        assert settled(session).advice.candidates[0].visits == 20


def test_an_estimate_of_a_settled_board_is_its_count() -> None:
    with sat(kifu_of(diagram="X.XO.\nXXXOO\nX.XO.\nXXXOO\nX.XO.")) as session:
        session.score()
        estimate = settled(session).estimate
    assert (estimate.margin, estimate.playouts) == (15 - 10 - 7, 400)
    owners = np.frombuffer(estimate.ownership, np.int8).reshape(5, 5)
    assert (owners[:, :3] == 100).all() and (owners[:, 3:] == -100).all()


# --- The count ---


def test_why_no_dead_stones_are_proposed_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(board: object) -> NoReturn:
        raise UserError("the net is damaged")

    monkeypatch.setattr("arena.people.session.dead_stones", fail)
    with sat(kifu_of(people=(BLACK, WHITE), white="bob")) as session:
        now = play(session, "pass", "pass")
    assert (now.trouble, now.dead) == ("the playouts can't run: the net is damaged", ())


@pytest.mark.parametrize("name", ["chinese", "japanese", "cgos"])
def test_a_count_comes_to_what_the_game_says(name: str) -> None:
    for seed in range(8):
        dice, game = random.Random(seed), Game(Rules.preset(name, 5), seed, black=(6, 18), to_play=Colour(1 + seed % 2))
        while not game.is_over and len(game.moves) < 60:
            game.play(game.random_move())
        stones = np.flatnonzero(game.board.stones.reshape(-1)).tolist()
        dead = tuple(sorted(dice.sample(stones, min(3, len(stones)))))
        assert (count(game, dead).margin, count(game).margin) == (game.margin(dead), game.margin())


# --- What is kept ---


def test_every_change_is_told_to_the_keeper_and_is_enough_to_go_on() -> None:
    kept: list[SavedGame] = []
    clock, time = Clock(), Limits(main=100)
    with sat(kifu_of(time=time), Scripted("B3", "D3"), time, keep=kept.append, now=clock) as session:
        clock.now += 7
        play(session, "C3", "C4")
        session.undo()
        before = session.snapshot()
    saved = SavedGame.from_sgf(kept[-1].to_sgf())
    assert SavedGame.from_sgf(saved.to_sgf()) == saved and saved.clocks == before.clocks

    def keep(saved: SavedGame) -> None:
        raise StoreError("no room on the disk")

    with sat(saved, Scripted("D3"), time, keep=keep, now=clock) as again:
        now = again.snapshot()
        assert now.turns == before.turns and now.trouble == "no room on the disk"
        assert (now.clocks, now.helps, now.points) == (before.clocks, before.helps, before.points)
        assert played(play(again, "C4")) == "C3 B3 C4 D3"  # the trouble is not the end


def test_a_saved_game_with_fewer_figures_than_moves_loses_no_move() -> None:
    """Moves without figures were dropped, and the game was written anew."""
    stats = (MoveStats(seconds=4.0), MoveStats(0.4, None, None, 2.0))
    record = replace(kifu_of().record, moves=(12, 11, 7, 8), facts=stats)
    kept: list[SavedGame] = []
    with sat(SavedGame.from_sgf(SavedGame(record, (BLACK,)).to_sgf()), keep=kept.append) as session:
        assert played(session.snapshot()) == "C3 B3 C4 D4"
    assert kept[-1].record.moves == record.moves and kept[-1].record.facts[:2] == stats


@pytest.mark.smoke
def test_a_game_is_kept_in_a_file_that_other_programs_read_and_one_arena_writes(tmp_path: Path) -> None:
    people = (Player("ada", "human"),)
    with SavedGameFile.create(tmp_path) as file:
        with sat(replace(kifu_of(), players=people), Scripted("B3"), keep=file.write) as session:
            play(session, "C3")
        assert read_sgf(file.path.read_text()).moves == (12, 11) and file.read().players == people
        assert list(tmp_path.rglob(".*.sgf*")) == [] and is_held(tmp_path, file.id)
        with pytest.raises(UserError, match="another terminal"):
            SavedGameFile.open(tmp_path, file.id)
    assert [id for id, _ in saved_games(tmp_path)] == ["play/00001"]
    assert not is_held(tmp_path, file.id) and not list(tmp_path.rglob(".*"))
    with SavedGameFile.create(tmp_path, {"play/00002"}) as other:
        assert other.id == "play/00003"


def test_a_file_that_is_no_game_to_go_on_with_is_refused() -> None:
    for own, words in (
        ("", "arena play"),
        ('ARENA[{"format":9}]', "another version of arena"),
        ('ARENA[{"format":3}]', "damaged"),
        ("ARENA[{]", "damaged"),
    ):
        with pytest.raises(RecordError, match=words):
            SavedGame.from_sgf(f"(;FF[4]SZ[9]{own};B[aa])")
