"""What the process that all workers are forked from does once for them: the imports, and the compiler's start.

It is imported there and nowhere else. No kernel is loaded or compiled: that may take long, and a Ctrl-C would wait.
"""

import os
import signal

from arena.go.jit import init_compiler
from arena.match import worker as worker  # its imports are what workers need
from arena.match.process import ignore_terminal_signals, set_parent_death_signal

PARENT = os.getppid()  # once it is gone, this process ends: then workers that are stopped go on and end, too
signal.signal(signal.SIGCONT, lambda *_: None if os.getppid() == PARENT else os._exit(0))
set_parent_death_signal()
ignore_terminal_signals()
init_compiler()
