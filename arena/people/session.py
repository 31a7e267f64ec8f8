"""A game of a person against a bot, or of two people: turns, undo, clocks, hints, the count of dead stones.

A session belongs to one thread, which calls its methods and draws ``snapshot()``. Bots and playouts run in threads of
their own and send messages; ``update`` carries them out and checks the clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from math import inf
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic
from typing import Any, Self, TypeVar

import numpy as np

from arena import ArenaError, IllegalMove, UserError
from arena.contract.bot import Bot, Limits, describe_error
from arena.contract.limits import Clock
from arena.go.coords import BLACK, WHITE, Colour, Move, pass_move
from arena.go.game import Ending, Game, Outcome
from arena.go.record import UNKNOWN, MoveStats
from arena.match.game_loop import GameLoop, LiveGame, worth_keeping
from arena.match.schedule import Pairing
from arena.people.adviser import NO_DEADLINE, Adviser, catch_up
from arena.people.clocks import Clocks
from arena.people.counting import count, dead_stones, estimate_score, group_at
from arena.people.saved_game import Advice, Help, Phase, SavedGame, SessionState, Turn

T = TypeVar("T")

CLOCK_SECONDS = 0.1  # seconds between two looks at the clocks while something is waited for
BOT_EXIT_SECONDS = 2.0  # seconds that a bot has to finish when the session closes
_REFUSALS = {
    Phase.OVER: "The game is over.",
    Phase.COUNT: "Both sides have passed; mark the dead stones and accept the count, or play on.",
    Phase.PLAY: "Dead stones are marked when both sides have passed.",
}
"""Why what is for another phase can't be done."""


class ActionRefused(ArenaError):
    """An action that isn't possible now; the text is a sentence for the person."""


@dataclass(frozen=True, slots=True)
class Opponent:
    """A bot that plays a colour, within its own limits."""

    bot: Bot
    limits: Limits = field(default_factory=Limits)


class _Worker:
    """A daemon thread that runs jobs one after the other."""

    def __init__(self, name: str):
        self.jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self.thread = Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while (job := self.jobs.get()) is not None:
            job()


class GameSession:
    """A game with people in it. Only ``wait`` and ``close`` block. The bots are closed with the session."""

    def __init__(
        self,
        saved: SavedGame,
        opponents: Mapping[Colour, Opponent],
        adviser: Adviser | None = None,
        keep: Callable[[SavedGame], None] = lambda saved: None,
        now: Callable[[], float] = monotonic,
    ):
        """``keep`` is called with the game after every change; its UserError is shown as ``trouble``. Raises
        RecordError for illegal moves in ``saved``."""
        self._opponents, self._adviser, self._keep = opponents, adviser, keep
        self._messages: SimpleQueue[tuple[object, Callable[[], None]]] = SimpleQueue()
        self._has_come = Event()
        self._wake: Callable[[], object] = lambda: None
        self._position = object()  # another one after each change: a message about an earlier one is dropped
        self._player, self._helper = _Worker("bot"), _Worker("adviser")
        self._time = now
        limits = {colour: opponents[colour].limits if colour in opponents else saved.time for colour in Colour}
        self._clocks = Clocks(limits, saved.clocks, self._time)
        self._live: LiveGame | None = None  # the bot's, for its thread alone
        self._now = SessionState(**{field.name: getattr(saved, field.name) for field in fields(SavedGame)})
        self._replay(saved.record.moves)
        self._begin_turn()

    def snapshot(self) -> SessionState:
        running = self._now.to_play if self._now.phase is Phase.PLAY else None
        black, white = (self._clocks.left(colour, colour is running) for colour in Colour)
        return replace(self._now, clocks=(black, white))

    def subscribe(self, wake: Callable[[], object]) -> None:
        """Have ``wake`` called, from any thread, when ``update`` has something to do."""
        self._wake = wake

    def update(self) -> None:
        """Carry out messages of other threads, and check the clocks. Call it a few times a second."""
        self._has_come.clear()
        while not self._messages.empty():
            position, message = self._messages.get()
            if position is self._position:
                message()
        loser = self._now.to_play
        if self._now.is_persons_turn and self._clocks.is_late(loser):
            self._end(Outcome(loser.opponent, Ending.TIME), f"{self._now.name(loser)}: out of time")

    def wait(self, until: Callable[[SessionState], bool], timeout: float = inf) -> bool:
        """Wait until a snapshot fulfils ``until``; returns False after ``timeout`` seconds."""
        end = monotonic() + timeout
        while True:
            self.update()
            if until(self.snapshot()):
                return True
            if monotonic() >= end:
                return False
            self._has_come.wait(min(CLOCK_SECONDS, end - monotonic()))

    # --- What a person can do ---

    def play(self, move: Move) -> None:
        """Play for the person to move. Raises IllegalMove or ActionRefused with a sentence, having changed nothing."""
        self._require(Phase.PLAY)
        colour = self._now.to_play
        if colour not in self._now.people:
            raise ActionRefused(f"It is {self._now.name(colour)}'s turn.")
        try:
            captured = _play(self._game, move)
        except IllegalMove as error:
            raise IllegalMove(f"{error}.") from None
        self._add_turn(move, captured, MoveStats(seconds=self._end_turn(has_moved=True)))

    def pass_turn(self) -> None:
        self.play(pass_move(self._now.size))

    def resign(self) -> None:
        """Resign for the side to move if a person plays it, else for the person. Raises ActionRefused after the end."""
        self._require(Phase.PLAY, Phase.COUNT)
        people = self._now.people
        loser = self._now.to_play if self._now.to_play in people else people[0]
        self._end(Outcome(loser.opponent, Ending.RESIGN))

    def undo(self) -> None:
        """Take back the person's last move and all since. Clocks aren't set back, and the game becomes unrated. Raises
        ActionRefused without such a move, and after the end."""
        self._require(Phase.PLAY, Phase.COUNT)
        turns = self._now.turns[self._now.record.opening :]
        own = [turn.number - 1 for turn in turns if turn.colour in self._now.people]
        if not own:
            raise ActionRefused("There is no move of yours to take back.")
        self._note_help(Help.UNDO)
        self._go_back(own[-1])

    def hint(self) -> None:
        """Start or continue a search of the adviser, which sets ``advice``; the game is unrated. Raises
        ActionRefused."""
        self._require(Phase.PLAY)
        if (adviser := self._adviser) is None:
            raise ActionRefused("No bot here can give a hint.")
        self._note_help(Help.HINT)
        self._update(advising=True)
        game, colour, position = self._game.copy(), self._now.to_play, self._position
        self._start(
            self._helper,
            lambda: adviser.hint(game, lambda: position is self._position),
            lambda found: self._update(advice=Advice(adviser.name, colour, tuple(found)), advising=False),
            lambda words: self._update(advice=Advice(adviser.name, colour, (), words), advising=False),
        )

    def score(self) -> None:
        """Start an estimate by playouts, which sets ``estimate``; the game is unrated. Raises ActionRefused."""
        self._require(Phase.PLAY)
        self._note_help(Help.SCORE)
        self._update(estimating=True)
        game = self._game.copy()
        self._start(
            self._helper,
            partial(estimate_score, game),
            lambda found: self._update(estimate=found, estimating=False),
            lambda words: self._update(trouble=f"the playouts can't run: {words}", estimating=False),
        )

    # --- The count ---

    def toggle(self, move: Move) -> None:
        """Mark the group at a point as dead, or as alive again. Raises ActionRefused if there is none, and while
        playing."""
        dead = set(self._require_marks())
        if move == pass_move(self._now.size) or not self._game.board.stone(move):
            raise ActionRefused("No stone lies there; done counts, continue plays on.")
        group = group_at(self._game.board, move)
        self._mark(tuple(sorted(dead - group if move in dead else dead | group)))

    def accept(self) -> None:
        """Agree on the dead stones and count; a bot's game is unrated if they were changed. Raises ActionRefused."""
        dead = self._require_marks()
        if dead != self._now.proposed and self._opponents:  # two people have agreed on it
            self._note_help(Help.DEAD)
        self._end(Outcome.scored(self._game.margin(dead)))

    def play_on(self) -> None:
        """Take the passes back and play on. Raises ActionRefused outside of the count."""
        self._require(Phase.COUNT)
        kept = len(self._now.turns) - 1
        if self._now.turns[kept].colour not in self._now.people:
            kept -= 1
        self._go_back(kept)

    # --- The end ---

    @property
    def has_ended(self) -> bool:
        """Whether both threads have ended; a bot that thinks may go on for a while after ``close``."""
        return not (self._player.thread.is_alive() or self._helper.thread.is_alive())

    def close(self) -> None:
        """End the session as it stands, and its bots."""
        self._position = object()
        self._save()  # what the clocks show
        for opponent in self._opponents.values():
            self._player.jobs.put(opponent.bot.close)
        if self._adviser is not None:
            self._helper.jobs.put(self._adviser.close)
        for worker in (self._player, self._helper):
            worker.jobs.put(None)
        for worker in (self._player, self._helper):
            worker.thread.join(BOT_EXIT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Inside ---

    def _update(self, **changes: Any) -> None:
        self._now = replace(self._now, **changes)

    def _update_record(self, **changes: Any) -> None:
        self._update(record=replace(self._now.record, **changes))

    def _save(self) -> None:
        self._update_record(unrated=self._now.unrated)
        try:
            self._keep(self.snapshot())
            self._update(trouble="")
        except UserError as error:
            self._update(trouble=str(error))

    def _require(self, *phases: Phase) -> None:
        self.update()
        if self._now.phase not in phases:
            raise ActionRefused(_REFUSALS[self._now.phase])

    def _require_marks(self) -> tuple[Move, ...]:
        self._require(Phase.COUNT)
        if self._now.dead is None:
            raise ActionRefused("The program is still looking for dead stones. Try again in a moment.")
        return self._now.dead

    def _note_help(self, help: Help) -> None:
        """Note that the person has had help. Raises ActionRefused in a game of an event."""
        if self._now.is_of_event:
            raise ActionRefused("There is no help in a match; play on, or resign.")
        if help not in self._now.helps:
            self._update(helps=(*self._now.helps, help))
            self._save()

    def _replay(self, moves: tuple[Move, ...]) -> None:
        """Set up the position after these moves."""
        self._game = replace(self._now.record, moves=(), outcome=None).replay()
        turns, stats = [], [*self._now.record.facts, *[UNKNOWN] * len(moves)]
        for number, move in enumerate(moves, 1):
            colour = self._game.to_play
            turns.append(Turn(number, colour, move, _play(self._game, move), stats[number - 1]))
        self._place(tuple(turns))

    def _place(self, turns: tuple[Turn, ...]) -> None:
        """Show the position after these turns, which is the game's."""
        game = self._game
        self._update_record(moves=tuple(game.moves), facts=worth_keeping([turn.fact for turn in turns]))
        self._update(
            turns=turns,
            points=game.board.stones.tobytes(),
            prisoners=(game.captured_stones(BLACK), game.captured_stones(WHITE)),
        )

    def _add_turn(self, move: Move, captured: tuple[Move, ...], stats: MoveStats) -> None:
        """Add a move that was played on the board, after its time was counted."""
        turn = Turn(len(self._game.moves), self._now.to_play, move, captured, stats.rounded)
        self._place((*self._now.turns, turn))
        self._begin_turn()

    def _end_turn(self, has_moved: bool = False, seconds: float | None = None) -> float:
        """Stop the clock of the running turn, and return its seconds; a bot's are given."""
        colour = self._now.to_play
        seconds = self._clocks.end(colour, has_moved=has_moved, seconds=seconds)
        key = "black_seconds" if colour is BLACK else "white_seconds"
        self._update_record(**{key: round(getattr(self._now.record, key) + seconds, 3)})
        return seconds

    def _go_back(self, kept: int) -> None:
        """Take back all but the first ``kept`` moves. The clock of the running turn is not restored."""
        self._end_turn()
        self._update(dead=None, proposed=None, count=None)
        self._replay(self._now.record.moves[:kept])
        self._begin_turn()

    def _begin_turn(self) -> None:
        """Begin the turn of a new position; answers about the position before are dropped."""
        self._position = object()
        self._update(thinking=None, advice=None, estimate=None, advising=False, estimating=False)
        self._clocks.begin(None)
        game = self._game
        if self._now.phase is not Phase.OVER and game.is_over:
            agreed = game.rules.agrees_on_dead and game.is_passed_out and not self._now.is_of_event
            if not agreed:  # a game at its limit counts as it is, too
                self._update_record(outcome=game.outcome)
                self._update(dead=(), proposed=())
        if self._now.dead is not None:
            self._update(count=count(game, self._now.dead))
        if self._now.phase is Phase.PLAY and self._now.to_play in self._opponents:
            self._ask_bot(self._now.to_play)
        elif self._now.phase is Phase.PLAY:
            self._clocks.begin(self._time())
        elif self._now.phase is Phase.COUNT and self._now.dead is None:
            board = game.board.copy()
            self._start(self._helper, lambda: dead_stones(board), self._propose, lambda words: self._propose((), words))
        self._save()

    def _propose(self, dead: tuple[Move, ...], fault: str = "") -> None:
        """Mark the stones that the program takes for dead; none after a fault."""
        self._update(proposed=dead)
        self._mark(dead)
        if fault:
            self._update(trouble=f"the playouts can't run: {fault}")

    def _mark(self, dead: tuple[Move, ...]) -> None:
        self._update(dead=dead, count=count(self._game, dead))
        self._save()

    def _end(self, outcome: Outcome, reason: str = "", fault_details: str = "", seconds: float | None = None) -> None:
        self._end_turn(seconds=seconds)
        if outcome.ending is Ending.TIME and outcome.winner is not None:
            self._clocks.run_out(outcome.winner.opponent)
        self._position = object()
        self._update_record(outcome=outcome, reason=reason, fault_details=fault_details)
        self._update(thinking=None, advising=False, estimating=False)
        self._save()

    # --- Other threads ---

    def _start(
        self, worker: _Worker, find: Callable[[], T], show: Callable[[T], None], fail: Callable[[str], None]
    ) -> None:
        """Run ``find`` in a worker's thread; ``show`` its result or ``fail`` with an error, unless the position
        changed."""
        position = self._position

        def job() -> None:
            if position is self._position:
                try:
                    message = partial(show, find())
                except BaseException as error:  # a bot may call sys.exit
                    message = partial(fail, describe_error(error))
                self._send(position, message)

        worker.jobs.put(job)

    def _send(self, position: object, message: Callable[[], None]) -> None:
        self._messages.put((position, message))
        self._has_come.set()
        self._wake()

    def _ask_bot(self, colour: Colour) -> None:
        self._update(thinking=colour)
        game, clock = self._game.copy(), self._clocks.of(colour)
        find = partial(self._decide, colour, game, clock, self._position)
        self._start(self._player, find, self._take_answer, self._forfeit)

    def _decide(self, colour: Colour, game: Game, clock: Clock | None, position: object) -> LiveGame:
        """Have the bot decide as in a match, in its thread. Its search tree of the game is kept."""
        own = catch_up(None if self._live is None else self._live.game, game)
        if self._live is None or own is not self._live.game:
            self._live = LiveGame(Pairing(self._now.id, 0, *self._now.names, (), game.seed), own)
        live, opponent, known = self._live, self._opponents[colour], len(own.moves)
        live.clocks, live.seconds[colour] = {} if clock is None else {colour: clock}, 0.0

        def begin_clock(*_: object) -> None:
            """The clock runs from the bot's call on; it makes ready before, in a call of its own."""
            self._send(position, partial(self._clocks.begin, self._time()))

        name, limits = self._now.name(colour), opponent.limits
        if limits.time is None and limits.deadline is None:  # the person can stop waiting at any time
            limits = replace(limits, deadline=NO_DEADLINE)
        loop = GameLoop({name: opponent.bot}, game.rules, {name: limits}, on_call=begin_clock, now=self._time)
        while len(own.moves) == known and own.outcome is None:  # a bot that is killed is asked again
            loop.live_games = [live]
            list(loop.play_round())
        return live

    def _forfeit(self, fault: str) -> None:
        """End the game for a bot that raised SystemExit; ``_decide`` handles other faults."""
        loser = self._now.to_play
        self._end(Outcome(loser.opponent, Ending.CRASH), f"{self._now.name(loser)}: {fault}")

    def _take_answer(self, live: LiveGame) -> None:
        """Take over the bot's move, or the end of the game."""
        game, seconds = live.game, live.seconds[self._now.to_play]
        if len(game.moves) > len(self._game.moves):
            self._end_turn(True, seconds)
            self._add_turn(game.moves[-1], _play(self._game, game.moves[-1]), live.facts[-1])
        elif game.outcome is not None:
            self._end(game.outcome, live.reason, live.fault_details, seconds)


def _play(game: Game, move: Move) -> tuple[Move, ...]:
    """Play, and return the captured points. Raises IllegalMove, and then has changed nothing."""
    before = game.board.stones.reshape(-1)
    colour = game.to_play
    game.play(move)
    after = game.board.stones.reshape(-1)
    if move < len(before):
        before[move] = int(colour)
    return tuple(np.flatnonzero((before > 0) & (after == 0)).tolist())
