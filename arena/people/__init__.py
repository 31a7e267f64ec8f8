"""A person's game: turns, clocks, advice, saved games, counting, handicap. Nothing is drawn here."""
