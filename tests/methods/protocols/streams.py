"""Protocols and streams that the tests of this folder run."""

from __future__ import annotations

import numpy as np

import ldp_kafka as lk
from ldp_kafka.methods.protocols import PROTOCOLS

__all__ = [
    "ADAPTIVE",
    "ALL",
    "IDS",
    "NUMERIC",
    "POPULATION",
    "made",
    "mean_of",
    "run",
    "same",
    "stepping",
]

ALL = sorted(PROTOCOLS)
ADAPTIVE = ["lba", "lbd", "lpa", "lpd"]
POPULATION = ["lpa", "lpd", "lpu"]
NUMERIC = ["duchi", "hybrid", "laplace", "piecewise", "square_wave"]
IDS = [f"u{i}" for i in range(300)]
WORDS = ("strategy", "error_reason")


def made(name, epsilon=1.0, window=4, categories=3, **parameters):
    given = {"epsilon": epsilon, "window": window, "categories": categories, "oracle": "grr"}
    return lk.protocol(name, **{**given, **parameters})


def mean_of(name, epsilon=2.0, window=4, oracle="hybrid"):
    return lk.protocol(name, epsilon=epsilon, window=window, domain=(-5.0, 15.0), oracle=oracle)


def stepping(users=300, slots=16, categories=3, seed=1):
    """Categories whose shares jump, with gaps."""
    rng = np.random.default_rng(seed)
    shares = np.repeat(rng.dirichlet(np.ones(categories), slots // 4), 4, axis=0)
    x = np.stack([rng.choice(categories, users, p=p) for p in shares], axis=1)
    x[rng.random(x.shape) < 0.2] = -1
    return x


def run(name, x, seed=3, **parameters):
    return made(name, **parameters).run(x, lk.randomness.seeded(seed))


def same(a, b):
    return all(
        np.array_equal(getattr(a, each), getattr(b, each), equal_nan=each not in WORDS)
        for each in ("values", "standard_error", "confidence_interval", "error", "reports", *WORDS)
    )
