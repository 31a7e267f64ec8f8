"""Simultaneous perturbation stochastic approximation: settings that win, found by matches between two opposite changes.

Spall 1998, "Implementation of the simultaneous perturbation algorithm for stochastic optimization", section III.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

ALPHA, GAMMA = 0.602, 0.101  # how fast steps and perturbations shrink (III.B)
STABILITY = 0.1  # the constant A, which makes the first steps smaller, as a share of all steps
PERTURBATION = 0.25  # of the first step, as a share of a setting's range
FIRST_STEP = 0.5  # how far the settings move after a first score of 62.5 %, as a share of the perturbation


def spsa(
    start: np.ndarray, steps: int, score: Callable[[int, np.ndarray, np.ndarray], float], seed: int = 1
) -> Iterator[np.ndarray]:
    """Where the settings are after each step, (settings,) in [0, 1] of their ranges.

    ``score`` plays step k between two of them and returns by how much the first won, from -1 to 1.
    """
    generator, now = np.random.default_rng(seed), np.clip(start, 0, 1)
    stability = STABILITY * steps
    gain = FIRST_STEP * PERTURBATION * (2 * PERTURBATION / 0.25) * (stability + 1) ** ALPHA
    for k in range(steps):
        signs = generator.choice([-1.0, 1.0], len(start))
        width = PERTURBATION / (k + 1) ** GAMMA
        won = score(k, np.clip(now + width * signs, 0, 1), np.clip(now - width * signs, 0, 1))
        now = np.clip(now + gain / (stability + k + 1) ** ALPHA * won / (2 * width) * signs, 0, 1)
        yield now


def proposal(course: Sequence[np.ndarray]) -> np.ndarray:
    """The mean of the later half of a course: the noise of single steps cancels out (Polyak and Juditsky 1992)."""
    return np.mean(course[len(course) // 2 :], axis=0)
