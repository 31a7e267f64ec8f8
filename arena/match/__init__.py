"""What is played and how: openings, schedules, the loop that plays, workers, the runner. Nothing is stored here."""
