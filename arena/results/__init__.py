"""Results: the store, tallies, leagues, reports, gates, replays. Nothing is printed here."""
