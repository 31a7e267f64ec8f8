"""Positions with known answers: ``python -m benchmarks tactics``."""
