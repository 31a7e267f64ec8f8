"""The game of Go. Nothing here knows of bots, matches or files other than SGF."""
