"""What stored games add up to: tallies, leagues, whole events; frames and CSV of them. Nothing is printed."""
