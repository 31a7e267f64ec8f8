"""The registry of players, and reading and changing arena.toml."""
