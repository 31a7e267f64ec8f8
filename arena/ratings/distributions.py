"""Student's t and the beta distribution. SciPy has both, but takes longer to load than a report takes to compute."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_log_gamma = np.vectorize(math.lgamma, otypes=[float])


def student_cdf(values: FloatArray, freedom: FloatArray) -> FloatArray:
    """The probability that Student's t is below each value; degrees of freedom may be fractions."""
    squares = values**2
    tail = _incomplete_beta(freedom / (freedom + squares), squares / (freedom + squares), freedom / 2, 0.5) / 2
    return np.where(values < 0, tail, 1 - tail)


def student_quantile(probability: float, freedom: FloatArray) -> FloatArray:
    """The value that Student's t is below with this probability, above 1/2.

    Newton's method on the logarithm of the upper tail as a function of log t, which is concave: from the second step
    on, no step goes beyond the solution. It begins at the expansion for many degrees (Abramowitz and Stegun, 26.7.5).
    """
    z, half = NormalDist().inv_cdf(probability), (freedom + 1) / 2
    log_t = np.log(z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2))
    scale = np.exp(_log_gamma(half) - _log_gamma(freedom / 2)) / np.sqrt(freedom * math.pi)
    for _ in range(100):
        t = np.exp(log_t)
        tail, density = student_cdf(-t, freedom), scale * (1 + t * t / freedom) ** -half
        step = np.log(tail / (1 - probability)) * tail / (density * t)
        log_t = log_t + step
        if np.all(np.abs(step) < 1e-8):  # its square is left
            break
    return np.exp(log_t)


def beta_quantile(probability: float, a: float, b: float) -> float:
    """The value in [0, 1] that a beta distribution is below with this probability, by bisection."""
    low, high, shape = 0.0, 1.0, np.array([a, b])
    for _ in range(60):
        middle = (low + high) / 2
        below = _incomplete_beta(np.array(middle), np.array(1 - middle), *shape) < probability
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2


def _incomplete_beta(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray | float) -> FloatArray:
    """The regularised incomplete beta function I_x(a, b), y = 1 - x, by its continued fraction (NIST Digital Library of
    Mathematical Functions, 8.17.22) in Lentz's form. Where that converges slowly, 1 - I_y(b, a)."""
    x, y, a, b = np.broadcast_arrays(x, y, a, b)
    swap = x > (a + 1) / (a + b + 2)
    x, y, a, b = (np.where(swap, *both) for both in ((y, x), (x, y), (b, a), (a, b)))
    with np.errstate(divide="ignore"):
        logs = a * np.log(x) + b * np.log(y) + _log_gamma(a + b) - _log_gamma(a) - _log_gamma(b)
    numbers = (x.item(), a.item(), b.item()) if x.size == 1 else (x, a, b)  # plain numbers are ten times as fast
    beta = np.exp(logs) * _continued_fraction(*numbers) / a
    return np.where(swap, 1 - beta, beta)


def _continued_fraction(x: Any, a: Any, b: Any) -> Any:
    """That of I_x(a, b), of numbers or of arrays."""
    c, d = x * 0 + 1, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / (1 + term * d), 1 + term / c
            fraction = fraction * (d * c)
        if np.all(abs(d * c - 1) < 1e-13):
            break
    return fraction
