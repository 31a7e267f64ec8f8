"""Serves any bot over the Go Text Protocol, version 2. ``bots/gtp.py`` is the other end of the line."""
