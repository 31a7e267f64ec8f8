"""What the process that all workers are forked from does once for them: the imports, and the compiler's start.

It is imported there and nowhere else. No kernel is loaded or compiled: that may take long, and a Ctrl-C would wait.
"""

import arena.events.worker  # noqa: F401  # its imports are what workers need
from arena.go.jit import wake

wake()
