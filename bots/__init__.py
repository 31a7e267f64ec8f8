"""The kinds of bot that come with the arena: one file, one kind."""
