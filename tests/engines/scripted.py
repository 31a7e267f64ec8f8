"""A GTP engine for the tests, well behaved or bad in the way that its argument names. It knows no rules of Go.

It plays the first point that was never played on, and writes to stderr its process id and each command it gets. A
second argument is the seconds that it takes to start, and to clear the board; or the GB on stderr when it is loud.
"""

import os
import signal
import subprocess
import sys
import time

WELL_BEHAVED = (
    *("good", "bare", "small", "strict", "timeless", "komi"),
    *("loud", "daemons"),
    *("kata", "garbled", "judge"),
)
REPORTS = {  # what it says with a move; the last line counts
    "kata": "info move A9 visits 1 winrate 0.1 prior 0.1 order 0 pv A9\n"
    "info move {0} visits 30 edgeVisits 30 utility 0.2 winrate 0.625 scoreMean 2.5 scoreLead 2.25 prior 0.4"
    " order 0 pv {0} pass J9 pvVisits 30 9 1 info move J9 visits 12 winrate 0.5 scoreLead -1 prior 0.25 order 1 pv J9"
    " ownership {1}",
    "garbled": "info move {0} visits many winrate 0.5 pv {0} info move winrate info move D4 visits 3 winrate nan"
    " order 1 pv D4 info move Z9 visits 1 winrate 2 pv ownership 0.5 -7",
}
COLUMNS = "ABCDEFGHJKLMNOPQRST"
COMMANDS = "name version protocol_version list_commands boardsize clear_board komi play genmove quit"
EXTRAS = "set_free_handicap time_settings time_left set_random_seed kata-set-rules"
SETTINGS = ("komi", "time_settings", "time_left", "set_random_seed", "kata-set-rules", "kata-set-param")
GENMOVE_ANSWERS = {
    "refuse": "? I don't feel\n like it\n\n",
    "nonsense": "= Z99\n\n",
    "empty": "=\n\n",
    "talkative": "= I think that D4\nis a good move\n\n",
    "resign": "= resign\n\n",
    "pass": "= PASS\n\n",
    "illegal": "= A1\n\n",
    "unfinished": "= D4\n",
    "comment": "= D4 # a good move\n# and a big one\n\n",
    "noise": "\n\n=== Engine 7 ===\r\nthinking \xff\xfe\x07\r\n" + "x" * 300_000 + "\n=12\tD4\r\n \r\n\r\n\r\n",
}


def write(text: str) -> None:
    sys.stdout.buffer.write(text.encode("latin-1"))
    sys.stdout.buffer.flush()


def hang() -> None:
    while True:
        time.sleep(60)


def misbehave(mode: str) -> None:
    """What it does instead of answering genmove."""
    if mode in GENMOVE_ANSWERS:
        write(GENMOVE_ANSWERS[mode])
    elif mode == "crash":
        sys.stderr.write("loading the opening book\nout of cheese\n\n")
        sys.exit(3)
    elif mode in ("signal", "killed"):
        os.kill(os.getpid(), signal.SIGSEGV if mode == "signal" else signal.SIGKILL)
    elif mode == "closed":
        os.close(1)
        hang()
    elif mode == "flood":
        while True:
            write("thinking\n" * 1000)
    elif mode == "endless":
        while True:
            write("x" * 10_000)
    else:
        hang()


def spawn(daemon: bool) -> None:
    """Start a process that sleeps; a daemon leaves this one's session, and isn't its child."""
    leave = "if os.fork(): os._exit(0)\nos.setsid()\n" if daemon else ""
    program = f"import os, time\n{leave}print('pid', os.getpid(), flush=True)\ntime.sleep(600)"
    child = subprocess.Popen([sys.executable, "-S", "-c", program], stdout=subprocess.PIPE, text=True)
    sys.stderr.write(child.stdout.readline())
    sys.stderr.flush()


def main(mode: str, delay: str = "0") -> None:
    sys.stderr.write(f"pid {os.getpid()}\n")
    sys.stderr.flush()
    pause = 0.0 if mode == "loud" else float(delay)
    time.sleep(pause)
    if mode in ("deaf", "family"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode in ("family", "daemons"):
        spawn(daemon=False)
    if mode == "daemons":
        spawn(daemon=True)
    if mode == "mute":
        hang()
    size, taken = 19, set[str]()

    def reply(text: str = "", sign: str = "=") -> None:
        write(f"{sign} {text}\n\n")

    while True:
        line = sys.stdin.readline()
        if not line and mode == "deaf":
            hang()
        words = line.split()
        sys.stderr.write(f"> {' '.join(words)}\n")
        sys.stderr.flush()
        match words:
            case ["genmove", _] if mode not in WELL_BEHAVED:
                misbehave(mode)
            case ["quit"] if mode == "deaf":
                hang()
            case [] | ["quit"]:
                return reply()
            case ["time_settings" | "time_left", *_] if mode == "timeless":
                reply("I have no clock", "?")
            case ["boardsize", side] if mode == "small" and side != "9":
                reply("unacceptable size", "?")
            case ["komi", _] if mode == "komi":
                reply("komi not an integer", "?")
            case ["play", _, "J9"] if mode == "strict":
                reply("illegal move", "?")
            case ["boardsize", side]:
                size = int(side)
                reply()
            case ["clear_board"]:
                time.sleep(pause)
                taken.clear()
                reply()
            case ["play", _, *points] | ["set_free_handicap", *points]:
                taken.update(points)
                reply()
            case ["genmove", _]:
                for _ in range(int(float(delay) * 1024) if mode == "loud" else 0):
                    sys.stderr.write("x" * (1 << 20))
                points = [f"{column}{row + 1}" for row in range(size) for column in COLUMNS[:size]]
                point = next((point for point in points if point not in taken), "pass")
                taken.add(point)
                reply(point)
            case ["kata-genmove_analyze", *_]:
                point = next(f"{column}{row}" for row in (1, 2) for column in COLUMNS if f"{column}{row}" not in taken)
                taken.add(point)
                report = REPORTS[mode].format(point, " ".join(["0.5"] * (size * size - 1) + ["-1e-05"]))
                reply(f"\n{report}\nplay {point}")
            case ["final_status_list", "dead"] if mode == "judge":
                reply("A1")
            case ["protocol_version"]:
                reply("2")
            case ["list_commands"] if mode != "bare":
                more = "kata-genmove_analyze kata-set-param" if mode in REPORTS else ""
                reply("\n".join(f"{COMMANDS} {EXTRAS} {more}".split()))
            case ["name" | "version" as asked] if mode != "bare":
                reply({"name": "Scripted", "version": "1.0"}[asked])
            case [command, *_] if command in SETTINGS:
                reply()
            case _:
                reply("unknown command", "?")


main(*sys.argv[1:])
