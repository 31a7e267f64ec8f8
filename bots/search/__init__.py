"""Tree search in Numba: one tree type; UCT and PUCT differ in how they choose, evaluate and expand nodes."""
