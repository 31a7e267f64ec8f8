"""One sitting of a person against a bot, or of two people: turns, undo, advice, clocks, the count of dead stones.

Nothing is printed and no file is written: fronts call the methods from any thread and look at frozen snapshots; who
keeps the game is told after every move. The bot thinks in a thread of its own, so that a screen stays alive.

A front in short: ``snapshot()`` to draw, ``play``, ``undo``, ``resign``, ``hint`` ... as the person asks, each of which
raises ``Refused`` or ``IllegalMove`` with a sentence to show; ``tick()`` a few times a second where there are clocks;
``subscribe`` or ``wait`` to hear of changes that come by themselves: the bot's moves, advice, the end.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from threading import Condition, RLock, Thread
from time import monotonic
from typing import Self

import numpy as np

from arena import ArenaError, BotFault, BotTimeout, IllegalMove, UserError
from arena.contract.bot import Bot, Candidate, Decision, Limits
from arena.contract.clock import LAG, Clock, TimeLeft
from arena.events.room import check_decision
from arena.go.game import Ending, Game, Outcome, Rules
from arena.go.moves import BLACK, WHITE, Colour, Move, pass_move
from arena.go.record import Record
from arena.people.counting import PLAYOUTS, Estimate, count, dead_stones, estimated, group_at
from arena.people.kifu import Help, Kifu
from arena.people.snapshot import Advice, Phase, Preview, Snapshot, Turn

AGREED = frozenset({"chinese", "japanese"})
"""The rules by which players agree on dead stones after two passes; by the others all stones on the board are alive."""

PATIENCE = 86400.0
"""Seconds after which a bot would be given up where nobody set a time: the person can stop waiting at any time."""

HINT = Limits(seconds=1.0)
"""How long an analyst thinks about a hint unless told otherwise."""

ATTEMPTS = 20
"""How often it is asked until it knows a move: a slow net has visited none after the first time."""

GRACE = 2.0
"""Seconds that a bot has to come to its end when the sitting closes."""


class Refused(ArenaError):
    """What can't be done now; the text is a sentence for the person."""


@dataclass(frozen=True, slots=True)
class Opponent:
    """A bot that plays a colour, within its own limits."""

    bot: Bot
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Analyst:
    """Whom hints are asked of: a bot that can analyse, by name, built when it is first needed."""

    name: str
    build: Callable[[], Bot]


class Sitting:
    """A game with people in it, from its first move or from where it was left.

    All methods may be called from any thread, and return at once but for ``wait`` and ``close``. The bots are closed
    with the sitting.
    """

    def __init__(
        self,
        kifu: Kifu,
        opponents: Mapping[Colour, Opponent],
        analyst: Analyst | None = None,
        keep: Callable[[Kifu], None] = lambda kifu: None,
        now: Callable[[], float] = monotonic,
    ):
        """``opponents`` play the colours that aren't the kifu's people. ``keep`` is called with the game after every
        change; a UserError that it raises is shown as ``trouble``. Raises RecordError when the kifu's moves aren't
        legal."""
        self._kifu = kifu
        self._opponents = dict(opponents)
        self._analyst = analyst
        self._keep = keep
        self._now = now
        self._changed = Condition(RLock())
        self._listeners: list[Callable[[], None]] = []
        self._version = 0
        self._ticket = 0  # of the position: what was asked about another one is thrown away
        self._trouble = ""
        self._player, self._adviser = _Worker("bot"), _Worker("analyst")
        self._built: Bot | None = None
        self._studied: Game | None = None  # the analyst's own copy of the game, so that it goes on from move to move

        record = kifu.record
        self._outcome, self._reason, self._dossier = record.outcome, record.reason, record.dossier
        self._helps = kifu.helps
        self._dead, self._proposed = kifu.dead, kifu.proposed
        self._seconds = {BLACK: record.black_seconds, WHITE: record.white_seconds}
        self._clocks = self._make_clocks()
        self._turns: list[Turn] = []
        self._game, self._turns = self._replayed(record.moves)
        self._since: float | None = None  # when the running turn began, or went on
        self._spent = 0.0  # what it took before
        self._paused = False
        self._thinking: Colour | None = None
        self._advice: Advice | None = None
        self._estimate: Estimate | None = None
        self._advising = self._estimating = 0
        with self._changing():
            self._begin_turn()

    # --- What there is to see ---

    def snapshot(self) -> Snapshot:
        """How things stand now."""
        with self._changed:
            game, record = self._game, self._kifu.record
            return Snapshot(
                version=self._version,
                id=record.id,
                rules=game.rules,
                phase=self._phase,
                names=(record.black, record.white),
                people=self._kifu.people,
                setup=game.setup,
                points=game.board.stones.tobytes(),
                to_play=game.to_play,
                turns=tuple(self._turns),
                prisoners=(game.prisoners(BLACK), game.prisoners(WHITE)),
                thinking=self._thinking,
                is_paused=self._paused,
                clocks=(self._shown(BLACK), self._shown(WHITE)),
                advice=self._advice,
                advising=self._advising > 0,
                estimate=self._estimate,
                estimating=self._estimating > 0,
                dead=self._dead,
                count=None if self._dead is None or self._phase is Phase.PLAY else count(game, self._dead),
                outcome=self._outcome,
                reason=self._reason,
                helps=self._helps,
                unrated=self._unrated,
                trouble=self._trouble,
            )

    def record(self) -> Record:
        """The game so far as a record; over or not."""
        with self._changed:
            return self._as_kifu().record

    def preview(self, move: Move) -> Preview:
        """What the move would do, for the side to move; nothing changes."""
        with self._changed:
            if self._phase is not Phase.PLAY:
                return Preview(move, "The game is over." if self._phase is Phase.OVER else "Both sides have passed.")
            game = self._game.copy()
            try:
                return Preview(move, captured=_play(game, move))
            except IllegalMove as error:
                return Preview(move, explained(error))

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called after every change, from whichever thread made it; it had better be quick."""
        with self._changed:
            self._listeners.append(listener)

    def wait(self, until: Callable[[Snapshot], bool], timeout: float | None = None) -> bool:
        """Wait until a snapshot is as asked for; tells whether it is. With clocks, the end of time is noticed."""
        end = None if timeout is None else monotonic() + timeout
        while True:
            self.tick()
            with self._changed:
                if until(self.snapshot()):
                    return True
                left = None if end is None else end - monotonic()
                if left is not None and left <= 0:
                    return False
                step = 0.1 if self._since is not None and self._game.to_play in self._clocks else None
                self._changed.wait(left if step is None else step if left is None else min(left, step))

    # --- What a person can do ---

    def play(self, move: Move) -> None:
        """Play for the person whose turn it is. Raises IllegalMove with a sentence, Refused when it is nobody's turn;
        then nothing has changed."""
        self.tick()
        with self._changing():
            self._require(Phase.PLAY)
            if self._game.to_play not in self._kifu.people:
                raise Refused(f"It is {self._name(self._game.to_play)}'s turn.")
            try:
                self._carry_out(move)
            except IllegalMove as error:
                raise IllegalMove(explained(error)) from None

    def pass_turn(self) -> None:
        """Pass. Raises Refused as ``play`` does."""
        self.play(pass_move(self._game.rules.size))

    def resign(self) -> None:
        """Give up: for the side to move where a person plays it, else for the person. Raises Refused after the end."""
        with self._changing():
            if self._phase is Phase.OVER:
                raise Refused("The game is over.")
            people = self._kifu.people
            loser = self._game.to_play if self._game.to_play in people else people[0]
            self._end(Outcome(loser.opponent, Ending.RESIGN))

    def undo(self) -> None:
        """Take back the person's last move and what was played since, also while the bot thinks and after the end; a
        resignation alone, where that was last.

        The game is unrated then, and clocks aren't set back. Raises Refused when there is nothing to take back, or
        time is over.
        """
        self.tick()
        with self._changing():
            if self._outcome is not None and self._outcome.ending is Ending.TIME:
                raise Refused("Time is over; begin a new game.")
            if self._has_resigned:
                self._note(Help.UNDO)
                self._go_back(len(self._turns))
                return
            own = [turn.number for turn in self._turns if turn.colour in self._kifu.people]
            if not own:
                raise Refused("There is no move of yours to take back.")
            self._note(Help.UNDO)
            self._go_back(own[-1] - 1)

    def hint(self, limits: Limits = HINT) -> None:
        """Ask the analyst about the present position; ``advice`` comes later, and asked again it knows more.

        The game is unrated then. Raises Refused when nobody can be asked, or the game isn't being played.
        """
        with self._changing():
            self._require(Phase.PLAY)
            if self._analyst is None:
                raise Refused("There is no bot here that could give a hint.")
            self._note(Help.HINT)
            self._advising += 1
            self._write()
            ticket = self._ticket
            self._adviser.do(lambda: self._advise(ticket, limits))

    def score(self, playouts: int = PLAYOUTS) -> None:
        """Ask what the position comes to; ``estimate`` comes later.

        The game is unrated then, but for an estimate after its end. Raises Refused while dead stones are marked.
        """
        with self._changing():
            if self._phase is Phase.COUNT:
                raise Refused("The count is shown already.")
            if self._phase is Phase.PLAY:
                self._note(Help.SCORE)
                self._write()
            self._estimating += 1
            game, ticket = self._game.copy(), self._ticket
            self._adviser.do(lambda: self._judge(game, ticket, playouts))

    def pause(self) -> None:
        """Stop the clocks, and hold the bot's answer back until ``go_on``."""
        with self._changing():
            if not self._paused and self._since is not None:
                self._spent, self._since = self._elapsed, None
            self._paused = True

    def go_on(self) -> None:
        """The opposite of ``pause``."""
        with self._changing():
            if self._paused and self._phase is Phase.PLAY:
                self._since = self._now()
            self._paused = False

    def tick(self) -> None:
        """Look at the clock: a person whose time is over has lost."""
        with self._changed:
            if not self._is_late:
                return
        with self._changing():
            if self._is_late:
                loser = self._game.to_play
                self._reason = f"{self._name(loser)}: out of time"
                self._end(Outcome(loser.opponent, Ending.TIME))

    # --- The count ---

    def toggle(self, move: Move) -> None:
        """Have the group at a point count as dead, or as alive again. Raises Refused when no stone lies there, or no
        stones are being marked."""
        with self._changing():
            dead = set(self._require_marks())
            if move == pass_move(self._game.rules.size) or not self._game.board.stone(move):
                raise Refused("No stone lies there.")
            group = group_at(self._game.board, move)
            self._dead = tuple(sorted(dead - group if move in dead else dead | group))
            self._write()

    def accept(self) -> None:
        """Agree on the dead stones and count. If they aren't those that the program proposed, a game against a bot is
        unrated: nobody has agreed but the person.

        Raises Refused when no stones are being marked.
        """
        with self._changing():
            dead = self._require_marks()
            if dead != self._proposed and self._opponents:  # two people have agreed on it
                self._note(Help.DEAD)
            self._end(Outcome.scored(self._game.margin(dead)))

    def play_on(self) -> None:
        """Take the passes back and go on: what the program takes for dead can be captured, or shown to live.

        Raises Refused when no stones are being marked.
        """
        with self._changing():
            self._require(Phase.COUNT)
            kept = len(self._turns) - 1
            if self._turns[kept].colour not in self._kifu.people:
                kept -= 1
            self._go_back(kept)

    @property
    def has_ended(self) -> bool:
        """Whether nothing is at work any more: a bot that thinks for long may go on for a while after ``close``."""
        return not (self._player.is_alive or self._adviser.is_alive)

    def close(self) -> None:
        """End the sitting as it stands, and its bots."""
        with self._changing():
            self._ticket += 1
            self._write()  # what the clocks show
        for opponent in self._opponents.values():
            self._player.do(opponent.bot.close)
        self._adviser.do(lambda: None if self._built is None else self._built.close())
        self._player.close(GRACE)
        self._adviser.close(GRACE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Turns ---

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """The lock, and the news of a change when nothing was raised."""
        with self._changed:
            yield
            self._version += 1
            self._changed.notify_all()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    @property
    def _phase(self) -> Phase:
        if self._outcome is not None:
            return Phase.OVER
        return Phase.COUNT if self._game.is_over else Phase.PLAY

    def _require(self, phase: Phase) -> None:
        if self._phase is phase:
            return
        match self._phase:
            case Phase.OVER:
                raise Refused("The game is over.")
            case Phase.COUNT:
                raise Refused("Both sides have passed; mark the dead stones and accept the count, or play on.")
            case Phase.PLAY:
                raise Refused("Dead stones are marked when both sides have passed.")

    def _require_marks(self) -> tuple[Move, ...]:
        self._require(Phase.COUNT)
        if self._dead is None:
            raise Refused("The program is still looking for dead stones; in a moment.")
        return self._dead

    def _name(self, colour: Colour) -> str:
        return self._kifu.record.black if colour is BLACK else self._kifu.record.white

    @property
    def _has_resigned(self) -> bool:
        """Whether a person has given the game up."""
        outcome = self._outcome
        return (
            outcome is not None
            and outcome.ending is Ending.RESIGN
            and outcome.winner is not None
            and outcome.winner.opponent in self._kifu.people
        )

    def _note(self, help: Help) -> None:
        if help not in self._helps:
            self._helps = (*self._helps, help)

    def _replayed(self, moves: tuple[Move, ...]) -> tuple[Game, list[Turn]]:
        record = self._kifu.record
        game = replace(record, moves=(), outcome=None).replay()
        turns: list[Turn] = []
        known = {turn.number: turn for turn in self._turns}
        for number, move in enumerate(moves, 1):
            colour = game.to_play
            turns.append(known.get(number) or Turn(number, colour, move))
            turns[-1] = replace(turns[-1], captured=_play(game, move))
        return game, turns

    def _carry_out(self, move: Move, win_rate: float | None = None) -> None:
        """Play for the side to move. Raises IllegalMove, and then has changed nothing."""
        colour = self._game.to_play
        captured = _play(self._game, move)
        self._seconds[colour] += self._elapsed
        if colour in self._clocks:
            self._clocks[colour].spend(self._elapsed)
        self._turns.append(Turn(len(self._game.moves), colour, move, captured, win_rate))
        self._begin_turn()

    def _go_back(self, kept: int) -> None:
        """Take back all but so many moves. The seconds of the running turn stay spent."""
        self._stop_clock()
        self._outcome, self._reason, self._dossier = None, "", ""
        self._dead = self._proposed = None
        self._game, self._turns = self._replayed(tuple(self._game.moves[:kept]))
        self._begin_turn()

    def _begin_turn(self) -> None:
        """There is a new position: nothing asked about the one before counts any more."""
        self._ticket += 1
        self._thinking = None
        self._advice = self._estimate = None
        self._advising = self._estimating = 0
        self._spent, self._since = 0.0, None
        if self._phase is Phase.COUNT and (
            self._game.rules.name not in AGREED or not self._game.is_passed_out  # a game at its limit counts as it is
        ):
            self._dead = self._proposed = ()
            self._outcome = self._game.outcome
        self._write()
        match self._phase:
            case Phase.PLAY:
                if not self._paused:
                    self._since = self._now()
                if self._game.to_play in self._opponents:
                    self._thinking = self._game.to_play
                    game, ticket = self._game, self._ticket
                    self._player.do(lambda: self._answer(game, ticket))
            case Phase.COUNT if self._dead is None:
                game, ticket = self._game.copy(), self._ticket
                self._adviser.do(lambda: self._propose(game, ticket))

    def _stop_clock(self) -> None:
        """Leave the clock of the running turn where it stands, and count its seconds."""
        colour = self._game.to_play
        if left := self._shown(colour):
            self._clocks[colour].set(left.seconds, left.stones)
        self._seconds[colour] += self._elapsed
        self._spent, self._since = 0.0, None

    def _end(self, outcome: Outcome) -> None:
        self._stop_clock()
        self._outcome = outcome
        self._ticket += 1
        self._thinking = None
        self._advising = self._estimating = 0
        self._write()

    # --- The bot's thread ---

    def _answer(self, game: Game, ticket: int) -> None:
        """Have the bot decide, and play that unless the game has gone another way meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: not self._paused or ticket != self._ticket)
            if ticket != self._ticket:
                return
            self._spent, self._since = 0.0, None  # it may have waited for another call to end
            colour = game.to_play
            opponent, clock = self._opponents[colour], self._clocks.get(colour)
            limits = opponent.limits
            if clock is not None:
                limits = limits.at(clock, game.rules.size, len(game.moves))
            elif limits.deadline is None:
                limits = replace(limits, deadline=PATIENCE)
        decision, fault = Decision(None), None
        start = self._now()
        try:
            opponent.bot.prepare(game, limits)
            start = self._now()
            self._start_clock(ticket)
            decision = opponent.bot.choose(game, limits)
            check_decision(decision, game.rules.size)
        except Exception as error:  # a bot's fault, whatever it is, is that bot's forfeit
            fault = error
        seconds = self._now() - start
        with self._changing():
            self._changed.wait_for(lambda: not self._paused or ticket != self._ticket)
            if ticket != self._ticket:
                return
            self._spent, self._since = seconds, None
            lag = LAG if limits.lag is None else limits.lag
            if fault is None and clock is not None and seconds > clock.available + lag:
                fault = BotTimeout(f"out of time: {clock.overrun(seconds)}")
            if fault is not None:
                self._forfeit(colour, fault)
            elif decision.move is None:
                self._end(Outcome(colour.opponent, Ending.RESIGN))
            else:
                try:
                    self._carry_out(int(decision.move), decision.win_rate)
                except IllegalMove as error:
                    self._forfeit(colour, error)

    def _start_clock(self, ticket: int) -> None:
        """The bot is ready: its clock runs, unless the game has gone another way meanwhile."""
        with self._changed:
            if ticket == self._ticket and not self._paused:
                self._since = self._now()

    def _forfeit(self, colour: Colour, error: Exception) -> None:
        text = " ".join(str(error).split()) or type(error).__name__
        ending = Ending.CRASH
        if isinstance(error, IllegalMove):
            ending, text = Ending.ILLEGAL, f"illegal move {len(self._turns) + 1}: {text}"
        elif isinstance(error, BotTimeout):
            ending = Ending.TIME
        elif not isinstance(error, BotFault):
            text = f"{type(error).__name__}: {text}"
        self._reason = f"{self._name(colour)}: {text}"
        self._dossier = "".join(traceback.format_exception(error))
        self._end(Outcome(colour.opponent, ending))

    # --- The analyst's thread ---

    def _studied_now(self) -> Game:
        """The analyst's copy of the game, brought to the present position."""
        moves, studied = self._game.moves, self._studied
        if studied is None or studied.moves != moves[: len(studied.moves)]:
            self._studied = self._game.copy()
            return self._studied
        for move in moves[len(studied.moves) :]:
            studied.play(move)
        return studied

    def _advise(self, ticket: int, limits: Limits) -> None:
        with self._changed:
            if ticket != self._ticket or self._analyst is None:
                return
            game = self._studied_now()  # nobody but this thread has it
        candidates: list[Candidate] = []
        fault = ""
        try:
            if self._built is None:
                self._built = self._analyst.build()
            for _ in range(ATTEMPTS):
                candidates = self._built.analyse(game, replace(limits, deadline=PATIENCE))
                if candidates or ticket != self._ticket:
                    break
            else:
                fault = f"{self._analyst.name} has nothing to say here"
        except Exception as error:  # as of a bot's choice of a move: whatever it raises is told
            text = " ".join(str(error).split())
            fault = text if isinstance(error, ArenaError) else f"{type(error).__name__}: {text}"
        with self._changing():
            if ticket != self._ticket:
                return
            self._advising -= 1
            self._advice = Advice(self._analyst.name, game.to_play, tuple(candidates), fault)

    def _judge(self, game: Game, ticket: int, playouts: int) -> None:
        if ticket != self._ticket:
            return
        estimate, trouble = None, ""
        try:
            estimate = estimated(game, playouts)
        except UserError as error:
            trouble = f"the score can't be estimated: {error}"
        with self._changing():
            if ticket == self._ticket:
                self._estimating -= 1
                self._estimate, self._trouble = estimate, trouble or self._trouble

    def _propose(self, game: Game, ticket: int) -> None:
        dead: tuple[Move, ...] = ()
        trouble = ""
        try:
            dead = dead_stones(game.board)
        except UserError as error:
            trouble = f"no dead stones can be proposed: {error}"
        with self._changing():
            if ticket == self._ticket:
                self._dead = self._proposed = dead
                self._write()
                self._trouble = self._trouble or trouble

    # --- Clocks and files ---

    @property
    def _is_late(self) -> bool:
        """Whether it is a person's turn, and time is over."""
        clock = self._clocks.get(self._game.to_play)
        is_persons = self._phase is Phase.PLAY and self._game.to_play in self._kifu.people
        return clock is not None and is_persons and self._elapsed > clock.available

    def _make_clocks(self) -> dict[Colour, Clock]:
        clocks = {}
        for colour, left in zip(Colour, self._kifu.left, strict=True):
            limits = self._opponents[colour].limits if colour in self._opponents else self._kifu.time
            if limits.time is not None:
                clocks[colour] = Clock(limits.time)
                if left is not None:
                    clocks[colour].set(left.seconds, left.stones)
        return clocks

    @property
    def _elapsed(self) -> float:
        """Seconds of the running turn."""
        return self._spent + (0.0 if self._since is None else self._now() - self._since)

    def _shown(self, colour: Colour) -> TimeLeft | None:
        """What a side's clock shows now."""
        clock = self._clocks.get(colour)
        if clock is None or self._phase is not Phase.PLAY or colour is not self._game.to_play:
            return None if clock is None else clock.left
        left, elapsed = clock.left, self._elapsed
        if elapsed > left.seconds and not left.stones and clock.available > left.seconds:  # it runs into byo-yomi
            limits = self._opponents[colour].limits if colour in self._opponents else self._kifu.time
            return TimeLeft(max(0.0, clock.available - elapsed), limits.stones)
        return TimeLeft(max(0.0, left.seconds - elapsed), left.stones)

    @property
    def _unrated(self) -> str:
        """Why the game won't count, in a few words."""
        record, rules, words = self._kifu.record, self._game.rules, []
        if not (record.black_player and record.white_player):
            words.append("a player without a name")
        if self._game.setup != ((), ()):
            words.append(f"handicap {self._game.handicap}" if self._game.handicap else "stones set up")
        if rules.komi != Rules.preset(rules.name, rules.size).komi:
            words.append(f"komi {rules.komi:g}")
        return ", ".join([*words, *(help.value for help in self._helps)])

    def _as_kifu(self) -> Kifu:
        record = replace(
            self._kifu.record,
            moves=tuple(self._game.moves),
            outcome=self._outcome,
            reason=self._reason,
            dossier=self._dossier,
            black_seconds=round(self._seconds[BLACK], 3),
            white_seconds=round(self._seconds[WHITE], 3),
            unrated=self._unrated,
        )
        return replace(
            self._kifu,
            record=record,
            left=(self._shown(BLACK), self._shown(WHITE)),
            helps=self._helps,
            dead=self._dead,
            proposed=self._proposed,
        )

    def _write(self) -> None:
        try:
            self._keep(self._as_kifu())
            self._trouble = ""
        except UserError as error:
            self._trouble = str(error)


class _Worker:
    """A thread that does jobs one after the other; a program that ends doesn't wait for it."""

    def __init__(self, name: str):
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def do(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def close(self, patience: float) -> None:
        self._jobs.put(None)
        self._thread.join(patience)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


# --- Rules of the board ---


def _play(game: Game, move: Move) -> tuple[Move, ...]:
    """Play, and tell which points were taken off. Raises IllegalMove, and then has changed nothing."""
    before = game.board.stones.reshape(-1)
    colour = game.to_play
    game.play(move)
    after = game.board.stones.reshape(-1)
    if move < len(before):
        before[move] = int(colour)
    return tuple(np.flatnonzero((before > 0) & (after == 0)).tolist())


_WHY = {
    "is taken": ": a stone lies there already",
    "is suicide": ": your own stones there would have no liberty left",
    "retakes the ko at once": ": play elsewhere first",
    "(superko)": ": play elsewhere first",
}
"""What a person may want to know besides, by how the game's own words end."""


def explained(error: IllegalMove) -> str:
    """Why a move is illegal, as one sentence."""
    text = str(error)
    more = next((more for words, more in _WHY.items() if text.endswith(words)), "")
    return f"{text}{more}."
