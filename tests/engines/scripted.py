"""A GTP engine for the tests, well behaved or bad in the way that its argument names. It knows no rules of Go.

It plays the first point that was never played on, and writes to stderr its process id and each command it gets. A
second argument is the seconds that it takes to start, and to clear the board.
"""

import os
import signal
import subprocess
import sys
import time

COLUMNS = "ABCDEFGHJKLMNOPQRST"
COMMANDS = "name version protocol_version list_commands boardsize clear_board komi play genmove quit"
EXTRAS = "set_free_handicap time_settings time_left set_random_seed kata-set-rules"
GENMOVE_ANSWERS = {
    "refuse": "? I don't feel\n like it\n\n",
    "nonsense": "= Z99\n\n",
    "empty": "=\n\n",
    "talkative": "= I think that D4\nis a good move\n\n",
    "resign": "= resign\n\n",
    "pass": "= PASS\n\n",
    "illegal": "= A1\n\n",
    "unfinished": "= D4\n",
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
    elif mode == "signal":
        os.kill(os.getpid(), signal.SIGSEGV)
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


def main(mode: str, delay: str = "0") -> None:
    sys.stderr.write(f"pid {os.getpid()}\n")
    sys.stderr.flush()
    time.sleep(float(delay))
    if mode in ("deaf", "family"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "family":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        sys.stderr.write(f"pid {child.pid}\n")
        sys.stderr.flush()
    if mode == "mute":
        hang()
    size = 19
    taken: set[str] = set()
    while True:
        line = sys.stdin.readline()
        if not line and mode == "deaf":
            hang()
        words = line.split()
        sys.stderr.write(f"> {line}")
        sys.stderr.flush()
        match words:
            case ["genmove", _] if mode not in ("good", "bare", "old", "small", "strict", "timeless", "komi"):
                misbehave(mode)
                continue
            case ["quit"] if mode == "deaf":
                hang()
            case [] | ["quit"]:
                write("= \n\n")
                return
            case ["time_settings" | "time_left", *_] if mode == "timeless":
                write("? I have no clock\n\n")
                continue
            case ["boardsize", number] if mode == "small" and number != "9":
                write("? unacceptable size\n\n")
                continue
            case ["komi", _] if mode == "komi":
                write("? komi not an integer\n\n")
                continue
            case ["play", _, point] if mode == "strict" and point == "J9":
                write("? illegal move\n\n")
                continue
            case ["boardsize", number]:
                size, answer = int(number), ""
            case ["clear_board"]:
                time.sleep(float(delay))
                taken, answer = set(), ""
            case ["play", _, point]:
                taken.add(point)
                answer = ""
            case ["set_free_handicap", *points]:
                taken.update(points)
                answer = ""
            case ["genmove", _]:
                points = [f"{COLUMNS[column]}{row + 1}" for row in range(size) for column in range(size)]
                answer = next((point for point in points if point not in taken), "pass")
                taken.add(answer)
            case ["protocol_version"]:
                answer = "1" if mode == "old" else "2"
            case ["list_commands"] if mode != "bare":
                answer = "\n".join(f"{COMMANDS} {EXTRAS}".split())
            case ["name"] if mode != "bare":
                answer = "Scripted"
            case ["version"] if mode != "bare":
                answer = "1.0"
            case ["komi" | "time_settings" | "time_left" | "set_random_seed" | "kata-set-rules", *_]:
                answer = ""
            case _:
                write("? unknown command\n\n")
                continue
        write(f"= {answer}\n\n")


main(*sys.argv[1:])
