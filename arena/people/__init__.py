"""A person's game: turns, clocks, advice, saved games, counting, handicap, the tutorial. Nothing is drawn here."""
