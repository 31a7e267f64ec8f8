"""Who can play: the registry of bots, arena.toml read and rewritten."""
