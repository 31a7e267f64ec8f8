"""The nets that bots play with: their architectures, checkpoints and evaluation."""
