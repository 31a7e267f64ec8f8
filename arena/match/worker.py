"""A worker process: builds the players of an event, plays the games it is sent, sends back the records."""

import faulthandler
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple, Self

from arena import BotFault, ConfigError, UserError
from arena.contract.adjudication import Adjudication
from arena.contract.bot import Bot, Limits, describe_error
from arena.go.coords import Move
from arena.go.game import Ending, Game, Rules
from arena.go.jit import while_compiling
from arena.go.record import UNKNOWN
from arena.match.bot_process import BotProcess, BotStarter
from arena.match.game_loop import GameLoop, LiveGame
from arena.match.journal import RESIGNATION, Assignment, Journal, Players, game_key
from arena.match.process import SAFE_PATH, end_with_parent, ignore_terminal_signals
from arena.match.schedule import Pairing
from arena.players.player import Player
from arena.system import running_clock

SNAPSHOT_SECONDS = 0.25  # seconds between two snapshots of a game
WARM_UP = 10.0  # the least seconds that a bot may take for its first decision, in which it loads what it needs
CARDS = "CUDA_VISIBLE_DEVICES"  # the variable that says which GPUs a process sees, with commas between them
READY = "ready"  # the message of a worker whose players are built and whose kernels are compiled


@dataclass(frozen=True, slots=True)
class BoardSnapshot:
    """One game under way. ``win_rates`` are those of the side that made each move, where it reported one;
    ``ownership`` is size² int8 in per cent, positive for Black, the last that a bot reported."""

    pairing: Pairing
    moves: tuple[int, ...]
    win_rates: tuple[float | None, ...]
    ownership: bytes | None = None

    @classmethod
    def at(cls, live: LiveGame) -> Self:
        return cls(live.pairing, tuple(live.game.moves), tuple(live.win_rates), live.ownership)


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker plays. ``card`` is the only GPU that it may use; empty for any. ``isolated`` players run in
    processes of their own: those that don't ship, and those in whose calls workers died or hung. If the event
    ``has_started``, all players were built before: one that is killed while it is built again forfeits its games."""

    players: Players
    rules: Rules
    adjudication: Adjudication
    boards: int
    referee: Player | None = None
    card: str = ""
    isolated: frozenset[str] = frozenset()
    has_started: bool = False


Message = Assignment | bool | None
"""What a worker is sent: a game; whether to pause, which lets calls that have begun finish; None to exit."""


class Call(NamedTuple):
    """The last call of a bot: its seconds so far (0 once it is over), the seconds allowed, the index of the player."""

    seconds: float
    allowed: float
    player: int


class SharedState:
    """Shared memory that a worker writes and its parent reads, also after the worker's death: the last call of a bot.
    The doubles are those of ``Call``, with the time when it began (0 between calls) in place of its seconds."""

    SIZE = 3

    def __init__(self, memory: Any):
        """``memory`` is a ctypes array of ``SIZE`` doubles."""
        self._memory = memoryview(memory).cast("B").cast("d")

    def start_call(self, player: int, allowed: float) -> None:
        self.end_call()
        self._memory[1], self._memory[2] = allowed, player
        self._memory[0] = monotonic()

    def end_call(self) -> None:
        self._memory[0] = 0.0

    def skip(self, seconds: float) -> None:
        """Don't count these seconds as part of the call."""
        self._memory[0] = self._memory[0] and self._memory[0] + seconds

    @contextmanager
    def stop_clock(self) -> Iterator[None]:
        """Don't count the time of this block as part of the call."""
        start, now = self._memory[0], monotonic()
        self._memory[0] = 0.0
        yield
        self._memory[0] = start and start + monotonic() - now

    @property
    def call(self) -> Call:
        start, allowed, player = self._memory
        is_one = start and start == self._memory[0]  # else another began meanwhile, and the rest may be of that one
        return Call(max(0.0, monotonic() - start) if is_one else 0.0, allowed, int(player))


def work(connection: Connection, shared: Any, spec: WorkerSpec, journal: Path, stderr: str, number: int) -> None:
    """Run a worker until it is sent None, its parent ends, or SIGTERM; its output goes to the file ``stderr``. It
    builds player ``number`` first, so that workers that start together compile different kernels."""
    ignore_terminal_signals()
    if os.environ.get(SAFE_PATH[0]) == SAFE_PATH[1]:
        del os.environ[SAFE_PATH[0]]  # an engine in Python looks beside its own file
    if spec.card:
        os.environ[CARDS] = spec.card
    starter = BotStarter() if spec.isolated else None
    end_with_parent()
    with open(stderr, "ab") as log:  # the terminal is the screen's: what a bot prints goes with its errors
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
    faulthandler.enable()
    is_ended = False

    def end(*_: object) -> None:
        nonlocal is_ended
        is_ended = True
        sys.exit(0)  # unwinds, so that the bots are closed

    signal.signal(signal.SIGTERM, end)
    state = SharedState(shared)
    running_clock.start(state.skip)
    bots: dict[str, Bot] = {}
    referee: Bot | None = None
    try:
        referee = spec.referee.build() if spec.referee else None
        for place in range(number, number + len(spec.players)):
            place %= len(spec.players)
            name, player = [*spec.players.items()][place]
            state.start_call(place, inf)  # it is to blame when the process ends now
            if starter is not None and name in spec.isolated:
                output = Path(f"{stderr}-{place}")
                own = bots[name] = BotProcess(starter, player, output, may_be_killed=spec.has_started)
                if spec.boards > 1:
                    own.warm_up(spec.rules, max(player.limits.allowed, WARM_UP))
            else:
                bots[name] = _build(spec, player, state)
        state.end_call()
        connection.send(READY)
        _play(connection, state, bots, spec, Journal(journal), referee)
    except UserError as error:
        if not is_ended:  # else loading a bot failed by that
            connection.send(error)
    except ConnectionError:
        pass  # the parent is gone
    finally:
        for bot in filter(None, (*bots.values(), referee)):
            bot.close()


def _dead_stones(referee: Bot, name: str, game: Game) -> Sequence[Move]:
    """Those of a finished game. Raises ConfigError where the engine fails twice: that ends the event, whose games so
    far are kept, and no bot forfeits."""
    with suppress(BotFault):
        return referee.dead_stones(game)
    try:
        return referee.dead_stones(game)
    except BotFault as fault:
        words = "the games so far are stored, and the same command plays the rest"
        raise ConfigError(f"the referee {name} failed: {fault}; {words}") from fault


def _build(spec: WorkerSpec, player: Player, state: SharedState) -> Bot:
    """Build and warm up the bot of a player. Raises UserError where that fails."""
    try:
        bot = player.build()
    except UserError:
        raise
    except Exception as error:  # the bot's own fault, whatever it is
        raise UserError(f"{player.name} can't be built: {describe_error(error)}") from error
    if player.bot_kind.boards > 1:
        longest = max(player.limits.allowed, WARM_UP)  # without the time in which kernels are compiled
        state.start_call(state.call.player, min(bot.startup, longest))
        with while_compiling(state.stop_clock):
            warm_up(bot, spec.rules)
    return bot


def warm_up(bot: Bot, rules: Rules) -> None:
    """Have the bot compile or load its kernels before any clock runs. Raises the UserError of one that can't play."""
    try:
        bot.choose_all([Game(rules)], Limits(simulations=2))
    except UserError:
        raise
    except Exception:  # such a fault is charged in a game, and this isn't one
        pass


def _play(
    pipe: Connection, state: SharedState, bots: dict[str, Bot], spec: WorkerSpec, journal: Journal, referee: Bot | None
) -> None:
    """Play the games that arrive until the parent sends None or ends."""
    indexes = {name: index for index, name in enumerate(spec.players)}
    slots: dict[str, int] = {}  # of the journal, by the ids of the games
    free = deque(range(journal.slots))  # in turn: so games that are over stay there until they are stored

    def note_call(player: str, live_games: Sequence[LiveGame], allowed: float) -> None:
        live = live_games[0]
        state.end_call()  # the one before, while the parent is waited for
        if not inbox.empty():
            receive_messages()
        if spec.boards == 1:
            pipe.send(BoardSnapshot.at(live))
        if live.spent:
            journal.spend(slots[live.pairing.id], live.spent)
        state.start_call(indexes[player], allowed)

    def note_move(live: LiveGame) -> None:
        pairing, moves, outcome = live.pairing, live.game.moves, live.game.outcome
        number = len(moves) - len(pairing.opening)
        if outcome is not None and outcome.ending is Ending.RESIGN:
            journal.write_move(slots[pairing.id], number + 1, RESIGNATION, UNKNOWN)
        else:
            journal.write_move(slots[pairing.id], number, moves[-1], live.facts[-1])

    def judge(game: Game) -> Sequence[Move]:
        state.end_call()  # that of the bot is over
        return _dead_stones(referee, spec.referee.name, game) if referee and spec.referee else ()

    limits = {name: player.limits for name, player in spec.players.items()}
    loop = GameLoop(
        bots, spec.rules, limits, spec.adjudication, note_call, note_move, running_clock, judge if referee else None
    )
    inbox: SimpleQueue[Message] = SimpleQueue()
    Thread(target=_listen, args=(pipe, inbox), daemon=True).start()
    waiting: deque[Assignment] = deque()
    reported = monotonic()
    is_paused = False

    def receive_messages() -> None:
        """Take what has come, and wait as long as there is nothing to do. Raises SystemExit when told to exit."""
        nonlocal is_paused
        while is_paused or not inbox.empty() or not (waiting or loop.live_games):
            message = inbox.get()
            if message is None:
                sys.exit()
            if isinstance(message, bool):
                is_paused = message
            else:
                waiting.append(message)

    while True:
        receive_messages()
        while waiting and len(loop.live_games) < spec.boards:
            game = waiting.popleft()
            slot = slots[game.pairing.id] = free.popleft()
            key = game_key(game.pairing, spec.players, spec.rules)
            journal.start_game(slot, key, game.continued, game.restarted)
            loop.start_game(game.pairing, game.played, game.seconds, game.continued, game.restarted)
        for record in loop.play_round():
            state.end_call()  # while the parent is waited for
            pipe.send(record)
            free.append(slots.pop(record.id))
        state.end_call()
        if monotonic() - reported > SNAPSHOT_SECONDS:
            reported = monotonic()
            for live in loop.live_games:
                pipe.send(BoardSnapshot.at(live))


def _listen(connection: Connection, inbox: SimpleQueue[Message]) -> None:
    """Receive messages in a thread: if parent and worker both waited for the other one to read, neither would go on."""
    with suppress(EOFError, OSError):
        while (message := connection.recv()) is not None:
            inbox.put(message)
    inbox.put(None)
