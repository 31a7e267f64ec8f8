"""A game of a person against a bot, or of two people: turns, undo, clocks, hints, the count of dead stones.

A front calls the methods from any thread and draws ``snapshot()``. What can't be done raises ``Refused`` or
``IllegalMove`` with a sentence to show. ``subscribe`` or ``wait`` tell of changes that come by themselves: the bot's
moves, advice, the end. ``tick`` is to be called a few times a second where there are clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from math import inf
from threading import Condition, RLock
from time import monotonic
from typing import Any, Self

import numpy as np

from arena import ArenaError, IllegalMove, UserError
from arena.contract.bot import Bot, Limits
from arena.go.coords import BLACK, WHITE, Colour, Move, pass_move
from arena.go.game import Ending, Game, Outcome
from arena.go.record import UNKNOWN, GameRecord, MoveStats
from arena.match.game_loop import GameLoop, LiveGame, worth_keeping
from arena.match.schedule import Pairing
from arena.people.adviser import PATIENCE, Adviser, Worker, catch_up
from arena.people.clocks import Clocks
from arena.people.counting import count, dead_stones, estimate_score, group_at
from arena.people.saved_game import Help, Phase, SavedGame, Snapshot, Turn

TICK = 0.1
"""Seconds between two looks at the clocks while something is waited for."""

GRACE = 2.0
"""Seconds that a bot has to finish when the session closes."""

_REFUSALS = {
    Phase.OVER: "The game is over.",
    Phase.COUNT: "Both sides have passed; mark the dead stones and accept the count, or play on.",
    Phase.PLAY: "Dead stones are marked when both sides have passed.",
}
"""Why what is for another phase can't be done."""


class Refused(ArenaError):
    """What can't be done now; the text is a sentence for the person."""


@dataclass(frozen=True, slots=True)
class Opponent:
    """A bot that plays a colour, within its own limits."""

    bot: Bot
    limits: Limits = field(default_factory=Limits)


class GameSession:
    """A game with people in it, from its first move or from where it was left.

    All methods may be called from any thread, and return at once but for ``wait`` and ``close``. The bots are closed
    with the session.
    """

    def __init__(
        self,
        saved: SavedGame,
        opponents: Mapping[Colour, Opponent],
        adviser: Adviser | None = None,
        keep: Callable[[SavedGame], None] = lambda saved: None,
        now: Callable[[], float] = monotonic,
    ):
        """``opponents`` play the colours that aren't the game's people. ``keep`` is called with the game after every
        change; a UserError that it raises is shown as ``trouble``. Raises RecordError when the saved's moves aren't
        legal."""
        self._opponents = dict(opponents)
        self._keep = keep
        self._changed = Condition(RLock())
        self._listeners: list[Callable[[], object]] = []
        self._ticket = 0  # of the position: what was asked about another one is thrown away
        self._player, self._helper = Worker("bot"), Worker("adviser")
        self._adviser = adviser
        limits = {colour: opponents[colour].limits if colour in opponents else saved.time for colour in Colour}
        self._clocks = Clocks(limits, saved.clocks, now)
        names = {colour: saved.name(colour) for colour in opponents}
        self._loop = GameLoop(
            {names[colour]: opponent.bot for colour, opponent in opponents.items()},
            saved.rules,
            {names[colour]: _with_deadline(opponent.limits) for colour, opponent in opponents.items()},
            on_call=self._start_bots_clock,
            now=now,
        )
        self._now = Snapshot(**{field.name: getattr(saved, field.name) for field in fields(SavedGame)})
        with self._change():
            self._replay(saved.record.moves)
            self._live = LiveGame(Pairing(saved.id, 0, *saved.names, (), saved.record.seed), self._game.copy())
            self._begin_turn()

    def snapshot(self) -> Snapshot:
        """How things stand now."""
        with self._changed:
            running = self._now.to_play if self._now.phase is Phase.PLAY else None
            black, white = (self._clocks.left(colour, colour is running) for colour in Colour)
            return replace(self._now, clocks=(black, white))

    def record(self) -> GameRecord:
        return self.snapshot().record

    def subscribe(self, listener: Callable[[], object]) -> None:
        """Have ``listener`` called after every change, from whichever thread made it; it had better be quick."""
        with self._changed:
            self._listeners.append(listener)

    def wait(self, until: Callable[[Snapshot], bool], timeout: float | None = None) -> bool:
        """Wait until a snapshot is as asked for; tells whether it is. With clocks, the end of time is noticed."""
        end = inf if timeout is None else monotonic() + timeout
        while True:
            self.tick()
            with self._changed:
                if until(self.snapshot()):
                    return True
                if monotonic() >= end:
                    return False
                self._changed.wait(min(TICK, end - monotonic()))

    # --- What a person can do ---

    def play(self, move: Move) -> None:
        """Play for the person whose turn it is. Raises IllegalMove with a sentence, Refused when it is nobody's turn;
        then nothing has changed."""
        self.tick()
        with self._change():
            self._require(Phase.PLAY)
            if self._now.to_play not in self._now.people:
                raise Refused(f"It is {self._now.name(self._now.to_play)}'s turn.")
            try:
                self._carry_out(move)
            except IllegalMove as error:
                raise IllegalMove(f"{error}.") from None

    def pass_turn(self) -> None:
        self.play(pass_move(self._now.size))

    def resign(self) -> None:
        """Resign: for the side to move where a person plays it, else for the person. Raises Refused after the end."""
        with self._change():
            self._require(Phase.PLAY, Phase.COUNT)
            people = self._now.people
            loser = self._now.to_play if self._now.to_play in people else people[0]
            self._end(Outcome(loser.opponent, Ending.RESIGN))

    def undo(self) -> None:
        """Take back the person's last move and what was played since, also while the bot thinks.

        The game is unrated then, and clocks aren't set back. Raises Refused when there is nothing to take back, and
        after the end.
        """
        self.tick()
        with self._change():
            self._require(Phase.PLAY, Phase.COUNT)
            own = [turn.number - 1 for turn in self._now.turns if turn.colour in self._now.people]
            if not own:
                raise Refused("There is no move of yours to take back.")
            self._note_help(Help.UNDO)
            self._go_back(own[-1])

    def hint(self) -> None:
        """Ask the adviser about the present position; ``advice`` comes later, and asked again it knows more. The game
        is unrated then. Raises Refused when nobody can be asked, or the game isn't being played."""
        with self._change():
            self._require(Phase.PLAY)
            if (adviser := self._adviser) is None:
                raise Refused("No bot here can give a hint.")
            self._note_help(Help.HINT)
            ticket = self._ticket
            self._update(advising=True)
            self._compute(
                lambda game: {"advice": adviser.hint(game, lambda: ticket == self._ticket), "advising": False}
            )

    def score(self) -> None:
        """Ask for an estimate of the score by playouts; ``estimate`` is set later. The game is unrated then. Raises
        Refused when the game isn't being played."""
        with self._change():
            self._require(Phase.PLAY)
            self._note_help(Help.SCORE)
            self._update(estimating=True)
            self._compute(lambda game: {"estimate": estimate_score(game), "estimating": False})

    def pause(self) -> None:
        """Stop the clocks, and hold the bot's answer back until ``go_on``."""
        with self._change():
            self._clocks.pause()
            self._update(is_paused=True)

    def go_on(self) -> None:
        """The opposite of ``pause``."""
        with self._change():
            if self._now.is_paused and self._now.phase is Phase.PLAY:
                self._clocks.go_on()
            self._update(is_paused=False)

    def tick(self) -> None:
        """Look at the clock: a person whose time is over has lost."""
        with self._changed:
            loser = self._now.to_play
            if not (self._now.is_persons_turn and self._clocks.is_late(loser)):
                return
            with self._change():
                self._end(Outcome(loser.opponent, Ending.TIME), f"{self._now.name(loser)}: out of time")

    # --- The count ---

    def toggle(self, move: Move) -> None:
        """Have the group at a point count as dead, or as alive again. Raises Refused when no stone lies there, or no
        stones are being marked."""
        with self._change():
            dead = set(self._require_marks())
            if move == pass_move(self._now.size) or not self._game.board.stone(move):
                raise Refused("No stone lies there; done counts, continue plays on.")
            group = group_at(self._game.board, move)
            self._mark(tuple(sorted(dead - group if move in dead else dead | group)))

    def accept(self) -> None:
        """Agree on the dead stones and count. If they aren't those that the program proposed, a game against a bot is
        unrated: nobody has agreed but the person. Raises Refused when no stones are being marked."""
        with self._change():
            dead = self._require_marks()
            if dead != self._now.proposed and self._opponents:  # two people have agreed on it
                self._note_help(Help.DEAD)
            self._end(Outcome.scored(self._game.margin(dead)))

    def play_on(self) -> None:
        """Take the passes back and go on: what the program takes for dead can be captured, or shown to live. Raises
        Refused when no stones are being marked."""
        with self._change():
            self._require(Phase.COUNT)
            kept = len(self._now.turns) - 1
            if self._now.turns[kept].colour not in self._now.people:
                kept -= 1
            self._go_back(kept)

    # --- The end ---

    @property
    def has_ended(self) -> bool:
        """Whether nothing is at work any more: a bot that thinks for long may go on for a while after ``close``."""
        return not (self._player.is_alive or self._helper.is_alive)

    def close(self) -> None:
        """End the session as it stands, and its bots."""
        with self._change():
            self._ticket += 1
            self._save()  # what the clocks show
        for opponent in self._opponents.values():
            self._player.do(opponent.bot.close)
        if self._adviser is not None:
            self._helper.do(self._adviser.close)
        self._player.close(GRACE)
        self._helper.close(GRACE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """The lock, and the news of a change when nothing was raised."""
        with self._changed:
            yield
            self._update(version=self._now.version + 1)
            self._changed.notify_all()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def _update(self, **changes: Any) -> None:
        self._now = replace(self._now, **changes)

    def _update_record(self, **changes: Any) -> None:
        self._update(record=replace(self._now.record, **changes))

    def _save(self) -> None:
        """Have the game kept as it stands."""
        self._update_record(unrated=self._now.unrated)
        try:
            self._keep(self.snapshot())
            self._update(trouble="")
        except UserError as error:
            self._update(trouble=str(error))

    def _require(self, *phases: Phase) -> None:
        if self._now.phase not in phases:
            raise Refused(_REFUSALS[self._now.phase])

    def _require_marks(self) -> tuple[Move, ...]:
        self._require(Phase.COUNT)
        if self._now.dead is None:
            raise Refused("The program is still looking for dead stones. Try again in a moment.")
        return self._now.dead

    def _note_help(self, help: Help) -> None:
        """The person has had help. Raises Refused in a game of an event."""
        if self._now.is_of_event:
            raise Refused("There is no help in a match or a tournament; play on, or resign.")
        if help not in self._now.helps:
            self._update(helps=(*self._now.helps, help))
            self._save()

    def _replay(self, moves: tuple[Move, ...]) -> None:
        """Have exactly these moves on the board."""
        self._game = replace(self._now.record, moves=(), outcome=None).replay()
        facts = self._now.record.facts or (UNKNOWN,) * len(moves)
        turns = []
        for number, (move, fact) in enumerate(zip(moves, facts, strict=False), 1):
            colour = self._game.to_play
            turns.append(Turn(number, colour, move, _play(self._game, move), fact))
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

    def _carry_out(self, move: Move, fact: MoveStats | None = None) -> None:
        """Play for the side to move: a person, or a bot whose time is counted already. Raises IllegalMove, and then has
        changed nothing."""
        colour = self._game.to_play
        captured = _play(self._game, move)
        if fact is None:
            fact = MoveStats(seconds=self._clocks.end(colour, has_moved=True))
            self._spend(colour, fact.seconds or 0.0)
        self._place((*self._now.turns, Turn(len(self._game.moves), colour, move, captured, fact.rounded)))
        self._begin_turn()

    def _spend(self, colour: Colour, seconds: float) -> None:
        key = "black_seconds" if colour is BLACK else "white_seconds"
        self._update_record(**{key: round(getattr(self._now.record, key) + seconds, 3)})

    def _go_back(self, kept: int) -> None:
        """Take back all but the first ``kept`` moves. The clock of the running turn is not restored."""
        self._stop_clock()
        self._update(dead=None, proposed=None, count=None)
        self._replay(self._now.record.moves[:kept])
        self._begin_turn()

    def _begin_turn(self) -> None:
        """There is a new position: nothing asked about the one before counts any more."""
        self._ticket += 1
        self._update(thinking=None, advice=None, estimate=None, advising=False, estimating=False)
        self._clocks.begin(running=False)
        game = self._game
        if self._now.phase is not Phase.OVER and game.is_over:
            agreed = game.rules.agrees_on_dead and game.is_passed_out and not self._now.is_of_event
            if not agreed:  # a game at its limit counts as it is, too
                self._update_record(outcome=game.outcome)
                self._update(dead=(), proposed=())
        if self._now.dead is not None:
            self._update(count=count(game, self._now.dead))
        match self._now.phase:
            case Phase.PLAY:
                if not self._now.is_paused:
                    self._clocks.begin()
                if self._now.to_play in self._opponents:
                    self._update(thinking=self._now.to_play)
                    ticket = self._ticket
                    self._player.do(lambda: self._answer(ticket))
            case Phase.COUNT if self._now.dead is None:
                self._compute(lambda game: {"proposed": dead_stones(game.board)})
        self._save()

    def _mark(self, dead: tuple[Move, ...]) -> None:
        self._update(dead=dead, count=count(self._game, dead))
        self._save()

    def _stop_clock(self) -> None:
        """Leave the clock of the running turn where it stands, and count its seconds."""
        self._spend(self._now.to_play, self._clocks.end(self._now.to_play, has_moved=False))

    def _end(self, outcome: Outcome, reason: str = "", fault_details: str = "") -> None:
        self._stop_clock()
        if outcome.ending is Ending.TIME and outcome.winner is not None:
            self._clocks.run_out(outcome.winner.opponent)
        self._ticket += 1
        self._update_record(outcome=outcome, reason=reason, fault_details=fault_details)
        self._update(thinking=None, advising=False, estimating=False)
        self._save()

    # --- Other threads ---

    def _is_due(self, ticket: int) -> bool:
        """Wait while the game is paused; whether the position is still that of the ticket then."""
        self._changed.wait_for(lambda: not self._now.is_paused or ticket != self._ticket)
        return ticket == self._ticket

    def _answer(self, ticket: int) -> None:
        """Have the bot decide, as in a match, and do that unless the game has gone another way meanwhile."""
        live = self._live
        with self._changed:
            if not self._is_due(ticket):
                return
            self._clocks.begin(running=False)  # it may have waited for another call to end
            colour = self._now.to_play
            if (game := catch_up(live.game, self._game)) is not live.game:
                live.game, live.copies = game, {}  # the bot's own copy is of the game before
            clock = self._clocks.of(colour)
            live.clocks = {} if clock is None else {colour: clock}
            before = live.seconds[colour]
        self._loop.live_games = [live]
        for _ in self._loop.play_round():
            pass
        with self._change():
            if not self._is_due(ticket):
                return
            self._clocks.take(colour, live.clocks.get(colour))
            self._spend(colour, live.seconds[colour] - before)
            game = live.game
            if len(game.moves) > len(self._game.moves):
                self._carry_out(game.moves[-1], live.facts[-1])
            elif game.outcome is not None:
                self._end(game.outcome, live.reason, live.fault_details)

    def _start_bots_clock(self, *_: object) -> None:
        """The bot's clock runs from its call on; making ready comes before, in a call of its own."""
        with self._changed:
            if self._now.thinking is not None and not self._now.is_paused:
                self._clocks.begin()

    def _compute(self, find: Callable[[Game], dict[str, Any]]) -> None:
        """Have something found out about the present position, and show it unless the position is another by then."""
        game, ticket = self._game.copy(), self._ticket

        def job() -> None:
            if ticket != self._ticket:
                return
            try:
                found = find(game)
            except UserError as error:
                found = {"trouble": f"the playouts can't run: {error}", "estimating": False}
            with self._change():
                if ticket == self._ticket:
                    if self._now.phase is Phase.COUNT and self._now.dead is None:
                        self._update(proposed=found.get("proposed", ()))
                        self._mark(found.get("proposed", ()))  # which saves the game, and sets its own trouble
                    self._update(**found)

        self._helper.do(job)


def _with_deadline(limits: Limits) -> Limits:
    """A person can stop waiting at any time, so no bot is given up where nobody set a time."""
    return limits if limits.time is not None or limits.deadline is not None else replace(limits, deadline=PATIENCE)


def _play(game: Game, move: Move) -> tuple[Move, ...]:
    """Play, and tell which points were taken off. Raises IllegalMove, and then has changed nothing."""
    before = game.board.stones.reshape(-1)
    colour = game.to_play
    game.play(move)
    after = game.board.stones.reshape(-1)
    if move < len(before):
        before[move] = int(colour)
    return tuple(np.flatnonzero((before > 0) & (after == 0)).tolist())
