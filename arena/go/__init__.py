"""The game of Go: the compiled board, games and their rules, records and SGF, feature planes."""
