"""The nets that bots play with: what they are, how they are stored, how they are asked."""
