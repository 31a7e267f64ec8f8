"""What holds for all tests: a Ctrl-C that a test sends to a process of its own is heard there, and sources of bots that
are kept as they play go to a folder that goes when the tests end.

A shell starts what runs in its background with Ctrl-C ignored, and every process below would inherit that.
"""

import os
import signal
from tempfile import TemporaryDirectory

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

KEPT = TemporaryDirectory(prefix="arena-tests-")
os.environ["XDG_DATA_HOME"] = KEPT.name
