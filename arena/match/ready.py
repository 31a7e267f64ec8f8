"""What the process that all workers are forked from does once for them: the imports, and the compiler's start.

It is imported there and nowhere else. No kernel is loaded or compiled: that may take long, and a Ctrl-C would wait.
"""

import os
import signal
from functools import partial

from arena.go.jit import wake
from arena.match.worker import go_on_without_parent, leave_to_the_parent  # its imports are what workers need


def _end_without_parent(parent: int, *_: object) -> None:
    """End when this process goes on, because its parent is gone: then workers that are stopped go on and end, too."""
    if os.getppid() != parent:
        os._exit(0)


signal.signal(signal.SIGCONT, partial(_end_without_parent, os.getppid()))
go_on_without_parent()
leave_to_the_parent()
wake()
