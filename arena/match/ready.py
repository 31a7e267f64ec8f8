"""What the process that all workers are forked from does once for them: the imports, and the compiler's start.

It is imported there and nowhere else. No kernel is loaded or compiled: that may take long, and a Ctrl-C would wait.
"""

import os
import signal
from contextlib import suppress
from functools import partial

from arena.go.jit import wake
from arena.match.worker import go_on_without_parent, leave_to_the_parent  # its imports are what workers need


def _wake_workers(parent: int, *_: object) -> None:
    """Have workers that are stopped go on when the parent is gone: then they end by themselves."""
    if os.getppid() != parent:
        with suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
            for worker in file.read().split():
                with suppress(OSError):
                    os.kill(int(worker), signal.SIGCONT)


signal.signal(signal.SIGCONT, partial(_wake_workers, os.getppid()))
go_on_without_parent()
leave_to_the_parent()
wake()
