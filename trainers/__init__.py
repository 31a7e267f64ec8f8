"""The trainers: one algorithm a file, each from records or self-play to a checkpoint that can be played at once."""
