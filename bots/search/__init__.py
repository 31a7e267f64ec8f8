"""Tree search in Numba: one tree type; UCT and PUCT differ in the knowledge that they bring to it."""
