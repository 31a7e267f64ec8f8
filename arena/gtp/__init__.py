"""Serves bots over GTP 2 and KataGo's analysis protocol. ``bots/gtp.py`` plays outside engines over GTP."""
