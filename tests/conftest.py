"""What holds for all tests: a Ctrl-C that a test sends to a process of its own is heard there.

A shell starts what runs in its background with Ctrl-C ignored, and every process below would inherit that.
"""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
