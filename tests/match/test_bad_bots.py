"""117 kinds of bad Python bots beside honest ones: the honest bots' games stay the same, the bad ones are charged."""

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.games import fresh

from arena.contract.adjudication import OFF
from arena.go.game import Ending, Rules
from arena.match.runner import play_event
from arena.match.schedule import Style, Terms, Tournament
from arena.players.player import Player
from arena.players.registry import Registry
from arena.results.store import Store

FILE = """
import atexit, builtins, ctypes, decimal, faulthandler, gc, io, json, logging, math, multiprocessing, os, pickle, random
import resource, signal, socket, subprocess, sys, tempfile, threading, time, types, warnings, weakref
import msgspec
import numpy as np
import arena
from arena import BotFault, BotKilled, BotTimeout, ConfigError, UserError
from arena.contract import limits as limits_module
from arena.contract.bot import Bot, BotKind, Decision, Limits
from arena.go import board, coords, game as game_module
from arena.go.game import Game, Outcome, Rules
from bots.random import Config, RandomBot

class Bad(RandomBot):
    def choose(self, game, limits):
        n, usual, here = game.rules.size, super().choose, game.moves
        if len(here) >= 6:
            {code}
        return usual(game, limits)

BOT = BotKind("bad", Config, Bad)
"""

CHARGED = [
    line.strip()
    for line in """
return None
return 7
return "pass"
return Decision
return [Decision(0)]
return Decision(2.5)
return Decision("A1")
return Decision(-1)
return Decision(-10**30)
return Decision(10**30)
return Decision(n * n + 1)
return Decision(here[-1])
return Decision(float("nan"))
return Decision(True and here[0])
return Decision(0, "high")
return Decision(0, float("nan"))
return Decision(0, 1.5)
return Decision(0, -1.5)
return Decision(0, 1j)
return Decision(0, 0.5, "many")
return Decision(0, 0.5, 1, [0.0])
return Decision(0, 0.5, 1, np.zeros(3))
return Decision(0, 0.5, 1, np.full(n * n, np.nan))
return Decision(0, 0.5, 1, np.full(n * n, 7.0))
return Decision(0, 0.5, 1, np.zeros(n * n, complex))
return Decision(0, 0.5, 1, np.array(["x"] * n * n))
return Decision(0, 0.5, 1, None, "ahead")
return types.SimpleNamespace(move=0, win_rate=None, visits=None, ownership=None, score=None)
raise RuntimeError("no idea")
raise ValueError("x" * 1_000_000)
raise RuntimeError("two\\nlines\\x1b[2J")
raise MemoryError
raise RecursionError
raise StopIteration
raise KeyboardInterrupt
raise SystemExit
raise GeneratorExit
raise BaseException("base")
raise BotFault("gone")
raise BotTimeout("late")
raise BotKilled("killed")
raise UserError("not an event's")
raise ConfigError("settings")
raise AssertionError
raise ExceptionGroup("many", [ValueError()])
raise type("Own", (Exception,), {"__str__": lambda self: 1 / 0})()
raise type("Dumb", (Exception,), {"__reduce__": lambda self: 1 / 0})()
assert False
1 / 0
{}["missing"]
np.zeros(3)[5]
f = lambda: f(); f()
sys.setrecursionlimit(10**6); f = lambda: f(); f()
sys.exit(0)
sys.exit(3)
sys.exit("words")
exit()
os._exit(0)
os._exit(3)
os.abort()
os.kill(os.getpid(), signal.SIGKILL)
os.kill(os.getpid(), signal.SIGTERM)
os.kill(os.getpid(), signal.SIGSEGV)
os.kill(os.getpid(), signal.SIGSTOP)
os.kill(os.getppid(), signal.SIGKILL)
os.kill(os.getppid(), signal.SIGSTOP); time.sleep(60)
os.killpg(0, signal.SIGKILL)
signal.alarm(1); time.sleep(60)
ctypes.string_at(0)
ctypes.memset(id(game), 255, 64); str(game)
time.sleep(60)
threading.Event().wait()
while True: pass
[1 for _ in iter(int, 1)]
lock = threading.Lock(); lock.acquire(); lock.acquire()
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); time.sleep(60)
sys.stdin.readline(); raise RuntimeError
input()
subprocess.run(["sleep", "60"])
os.execv("/bin/true", ["true"])
os.execv("/bin/sleep", ["sleep", "60"])
os.closerange(3, 1000)
os.closerange(0, 1000)
[os.write(each, b"x" * 4096) for each in range(3, 30)]
[os.dup2(1, each) for each in range(3, 30)]
resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20)); bytearray(1 << 28)
resource.setrlimit(resource.RLIMIT_CPU, (0, 0)); time.sleep(0.1); [1 for _ in iter(int, 1)]
builtins.len = None; return usual(game, limits) if len(here) else None
del builtins.__import__; import queue
""".strip().splitlines()
]
"""The bot forfeits each game that gets so far."""

CONTROL_SIGNS = [
    line.strip()
    for line in """
Game.play = Game.legal_moves = None
Game.to_play = property(lambda self: 1 / 0)
object.__setattr__(game.rules, "komi", 500.0)
Rules.komi = 500.0
game.moves.clear()
game.moves.append(0); game.seed = 0
game.resign(game.to_play)
random.seed(1); np.random.seed(1)
np.random.default_rng = None
random.random = lambda: 0.5
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.raise_signal(signal.SIGINT)
signal.setitimer(signal.ITIMER_REAL, 100)
print("x" * 1_000_000); sys.stderr.write("\\x1b[2J" * 1000)
sys.stdout.close()
sys.stdout = sys.stderr = None
os.close(1); os.close(2)
os.environ.clear(); os.chdir("/")
threading.Thread(target=time.sleep, args=(60,)).start()
subprocess.Popen(["sleep", "60"], start_new_session=True)
os.fork() or os._exit(0)
os.fork() or time.sleep(60)
[open(os.devnull) for _ in range(200)]
gc.disable(); globals()["leak"] = bytearray(50 << 20)
os.nice(19); os.setpgid(0, 0) if os.getpgid(0) != os.getpid() else None
logging.disable(); warnings.simplefilter("error"); sys.settrace(None)
tempfile.tempdir = "/nowhere"; multiprocessing.set_start_method("spawn", force=True)
decimal.getcontext().prec = 1; np.seterr(all="raise"); socket.setdefaulttimeout(0)
""".strip().splitlines()
]
"""What the bot does to its own process stays there. It may lose by it."""


def test_there_are_117_kinds() -> None:
    assert len({*CHARGED, *CONTROL_SIGNS}) == 117


@pytest.mark.parametrize("part", [slice(0, None, 13), pytest.param(slice(None), marks=pytest.mark.slow)])
def test_a_bad_bot_changes_no_game_of_others_and_is_charged_alone(store: Store, tmp_path: Path, part: slice) -> None:
    registry, kinds = Registry(), [*CHARGED, *CONTROL_SIGNS][part]
    honest = [registry.resolve(f"uct:playouts={playouts},max_tree_mb=1") for playouts in (9, 10, 11, 12)]
    bad: dict[str, str] = {}
    entries = list[Player]()
    for number, code in enumerate(kinds):
        (path := tmp_path / f"bad{number}.py").write_text(FILE.format(code=code))
        entries.append(registry.resolve(f"{path}@deadline=1"))
        bad[entries[-1].name] = code
    terms = Terms(Rules.preset("cgos", 5, move_limit=60), adjudication=OFF)
    league = Tournament("league", (*honest, *entries), terms, games_each=2, style=Style.GAUNTLET)
    records = fresh(play_event(league, store, 1))
    with Store.open(tmp_path / "alone" / "arena.db", write=True) as other:
        alone = fresh(play_event(replace(league, entries=tuple(honest)), other, 1))
    assert len(records) == league.games
    moves = {record.id: record.moves for record in records}
    assert {record.id: moves[record.id] for record in alone} == {record.id: record.moves for record in alone}
    wrong = []
    for record in records:
        name = next((name for name in (record.black, record.white) if name in bad), "")
        code, is_forfeit = bad.get(name, ""), record.outcome.ending.is_forfeit
        print(f"{record.outcome.ending.value:12} {code:70} {record.reason.partition(': ')[2][:90]}")
        is_due = code in CHARGED and len(record.moves) >= 6
        if (is_forfeit and not (name and record.reason.startswith(f"{name}: "))) or is_due > is_forfeit:
            wrong.append((code, record.outcome, record.reason))
    assert not wrong
    assert {record.outcome.ending for record in records} >= {Ending.CRASH, Ending.TIME}
