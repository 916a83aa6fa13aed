"""The mechanisms as papers' code writes them in numpy: right on paper, and not private
in float64.
"""

from __future__ import annotations

import numpy as np


def laplace(values, rng, epsilon=1.0):
    """On [0, 1]."""
    return values + rng.laplace(0, 1 / epsilon, len(values))


def square_wave(values, rng, epsilon=1.0):
    """One uniform decides all (Li et al., SIGMOD 2020, the authors' code): on [0, 1]."""
    ee = np.exp(epsilon)
    w = ((epsilon * ee) - ee + 1) / (2 * ee * (ee - 1 - epsilon)) * 2
    p, q = ee / (w * ee + 1), 1 / (w * ee + 1)
    u = rng.uniform(0, 1, len(values))
    noisy = np.zeros_like(values)
    index = u <= (q * values)
    noisy[index] = u[index] / q - w / 2
    index = u > (q * values)
    noisy[index] = (u[index] - q * values[index]) / p + values[index] - w / 2
    index = u > q * values + p * w
    noisy[index] = (u[index] - q * values[index] - p * w) / q + values[index] + w / 2
    return noisy


def piecewise(values, rng, epsilon=1.0):
    """Wang et al., ICDE 2019, Algorithm 2: on [-1, 1]."""
    h = np.exp(epsilon / 2)
    c = (h + 1) / (h - 1)
    left = (c + 1) / 2 * values - (c - 1) / 2
    right = left + c - 1
    near = rng.random(len(values)) < h / (h + 1)
    below = rng.random(len(values)) < (left + c) / (c + 1)
    return np.where(
        near,
        rng.uniform(left, right),
        np.where(below, rng.uniform(-c, left), rng.uniform(right, c)),
    )


def unary(values, rng, epsilon=1.0, categories=8):
    """Symmetric unary encoding, bits packed: right, there are no floats in its reports."""
    p = np.exp(epsilon / 2) / (np.exp(epsilon / 2) + 1)
    own = np.arange(categories) == np.asarray(values)[:, None]
    return np.packbits(np.where(rng.random(own.shape) < p, own, ~own), axis=1)
