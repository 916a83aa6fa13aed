"""What one core does without Kafka: mechanisms, noise, methods, beside plain numpy and beside the
words alone.
"""

from __future__ import annotations

from math import exp

import numpy as np

import ldp_kafka as lk
from ldp_kafka.mechanisms.base import CHUNK
from ldp_kafka.mechanisms.reconstruction import reconstruct
from tests.bench.measure import Figure, cores, interleave, pin, ratio, say
from tests.keys import KEY

CATEGORIES = 100
SLOTS = 50


def numpy_square_wave(values, rng, epsilon=1.0):
    """The textbook sampler (Li et al. 2020) in floating point with numpy's generator: neither
    secure nor exact.
    """
    e = exp(epsilon)
    b = (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))
    near = rng.random(len(values)) < 2 * b * e / (2 * b * e + 1)
    u = rng.random(len(values))
    return np.where(near, values - b + 2 * b * u, np.where(u < values, u - b, u + b))


def numpy_grr(values, rng, epsilon=1.0):
    p = exp(epsilon) / (exp(epsilon) + CATEGORIES - 1)
    other = rng.integers(0, CATEGORIES - 1, len(values))
    other += other >= values
    return np.where(rng.random(len(values)) < p, values, other)


def pieces(n):
    return [(first, min(CHUNK, n - first)) for first in range(0, n, CHUNK)]


def measure(*, quick: bool = False) -> list[Figure]:
    pin(cores()[0])
    n, rounds, least = (2**14, 2, 0.005) if quick else (2**20, 9, 0.15)
    say(f"core: {rounds} rounds of {n} values")
    rng = np.random.default_rng(1)
    values, codes, streams = (
        rng.random(n),
        rng.integers(0, CATEGORIES, n),
        rng.random((n // SLOTS, SLOTS)),
    )
    square_wave, grr = (
        lk.mechanism("square_wave", epsilon=1.0, domain=(0.0, 1.0)),
        lk.mechanism("grr", epsilon=1.0, categories=CATEGORIES),
    )
    numeric = {
        name: lk.mechanism(name, epsilon=1.0, domain=(0.0, 1.0))
        for name in ("piecewise", "duchi", "hybrid", "laplace")
    }
    numeric["gaussian"] = lk.mechanism("gaussian", epsilon=1.0, delta=1e-5, domain=(0.0, 1.0))
    categorical = {
        name: lk.mechanism(name, epsilon=1.0, categories=CATEGORIES)
        for name in ("oue", "sue", "olh", "subset_selection", "hadamard")
    }
    hashed, histogram = (
        categorical["olh"].perturb(codes, lk.randomness.system()),
        square_wave.histogram(square_wave.perturb(values, lk.randomness.system())),
    )
    direct, capp = (
        lk.method(name, epsilon=1.0, window=10, domain=(0.0, 1.0)) for name in ("sw_direct", "capp")
    )
    system, keyed = lk.randomness.system(), lk.randomness.keyed(KEY)
    ids = [str(i) for i in range(len(streams))]
    users, none, pair = (
        keyed.digests([str(u) for u in range(n)]),
        np.empty((n, 0), np.int64),
        np.zeros((n, 2), np.int64),
    )

    def noise(bound, k):
        for first, size in pieces(n):
            rows = slice(first, first + size)
            keyed.at(users[rows], 7, 0, bound[rows]).words(size, k)

    work = {
        "words, 1 a value": lambda: [system.words(size, 1) for _, size in pieces(n)],
        "words, 2 a value": lambda: [system.words(size, 2) for _, size in pieces(n)],
        "square_wave": lambda: square_wave.perturb(values, system),
        "numpy square_wave": lambda: numpy_square_wave(values, rng),
        "grr": lambda: grr.perturb(codes, system),
        "numpy grr": lambda: numpy_grr(codes, rng),
        **{name: lambda m=m: m.perturb(values, system) for name, m in numeric.items()},
        **{name: lambda m=m: m.perturb(codes, system) for name, m in categorical.items()},
        "olh aggregation": lambda: categorical["olh"].estimate(hashed),
        "em": lambda: reconstruct(square_wave, histogram, bins=1024, smooth=False),
        "ems": lambda: reconstruct(square_wave, histogram, bins=1024),
        "keyed noise": lambda: noise(none, 2),
        "keyed noise, bound": lambda: noise(pair, 2),
        "sw_direct": lambda: direct.release(streams, system),
        "capp": lambda: capp.release(streams, system),
        "capp keyed": lambda: capp.release(streams, keyed, users=ids, first_slot=0),
    }
    speed = {
        name: [
            (streams.size if name.startswith(("sw_direct", "capp")) else n) / s / 1e6
            for s in seconds
        ]
        for name, seconds in interleave(work, rounds, least).items()
    }

    targets = {
        "laplace": ">= 20",
        "oue": ">= 10",
        **dict.fromkeys(("piecewise", "duchi", "hybrid"), ">= 40"),
    }

    def line(key, name, unit="M values/s", target="", note=""):
        return Figure("core", name, unit, tuple(speed[key]), target, note)

    return [
        line("square_wave", "square_wave, secure, float64 in and out", target=">= 40"),
        line("numpy square_wave", "square_wave in plain numpy", note="PCG64, floating point"),
        ratio(
            "core", "square_wave / plain numpy", speed["square_wave"], speed["numpy square_wave"]
        ),
        line("words, 2 a value", "its secure words alone", note="2 a value, AES-CTR"),
        line("grr", f"grr, {CATEGORIES} categories, secure", target=">= 150"),
        line("numpy grr", "grr in plain numpy", note="PCG64"),
        ratio("core", "grr / plain numpy", speed["grr"], speed["numpy grr"]),
        *(
            line(name, f"{name}, secure, float64 in and out", target=targets.get(name, ""))
            for name in numeric
        ),
        *(
            line(
                name,
                f"{name}, {CATEGORIES} categories, secure",
                "M reports/s",
                targets.get(name, ""),
                "packed" if m.width else "",
            )
            for name, m in categorical.items()
        ),
        line(
            "olh aggregation", f"olh, aggregation, {CATEGORIES} categories", "M reports/s", ">= 3"
        ),
        *(
            Figure(
                "core",
                f"{name}, 1,024 bins from {n:,} reports",
                "s",
                tuple(n / 1e6 / each for each in speed[name]),
                "<= 1" if name == "em" else "",
            )
            for name in ("em", "ems")
        ),
        line("words, 1 a value", "its secure words alone", note="1 a value, AES-CTR"),
        line("keyed noise", "keyed noise of (user, slot)", "M rows/s", ">= 20", "4 words a row"),
        line(
            "keyed noise, bound",
            "keyed noise of (user, slot) tied to 2 integers",
            "M rows/s",
            note="as capp draws",
        ),
        line("sw_direct", "release, sw_direct, system", note=f"{n // SLOTS} users x {SLOTS} slots"),
        line("capp", "release, capp, system"),
        line("capp keyed", "release, capp, keyed"),
    ]
