"""Samplers that spend as much as they are told to: told 1.2, where 1 is claimed, each is a plant
that an audit must find; told 1, each is one that an audit must not accuse.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import ldp_kafka as lk

SYSTEM = lk.randomness.system()


def choice(rng, weights, n):
    """Indices by weight."""
    return np.searchsorted(np.cumsum(weights) / np.sum(weights), rng.random(n), side="right")


def ours(name, epsilon, **parameters):
    """A mechanism of the library, as a function: its law is not known to the audit."""
    return partial(lk.mechanism(name, epsilon=epsilon, **parameters).perturb, randomness=SYSTEM)


def grr(categories):
    return lambda epsilon, rng: (ours("grr", epsilon, categories=categories), 0, categories - 1)


def oue(categories, *, packed):
    """Optimized unary encoding, as packed bits or as a column for each bit."""

    def made(epsilon, rng):
        def report(values):
            likely = np.where(
                np.arange(categories) == values[:, None], 0.5, 1 / (np.exp(epsilon) + 1)
            )
            bits = rng.random(likely.shape, np.float32) < likely
            return np.packbits(bits, axis=1) if packed else bits.astype(np.int8)

        return report, 0, 1

    return made


def additive(noise, far=1.0):
    """Noise of scale 1 / epsilon on inputs `far` apart; on a grid, so that no last bit tells."""

    def made(epsilon, rng):
        return lambda x: np.round(1024 * (x + noise(rng, 1 / epsilon, len(x)))) / 1024, 0.0, far

    return made


def unclamped(epsilon, rng):
    """Laplace of scale 1 for [0, 1], and a value of epsilon that is not clamped to it."""
    return additive(lambda rng, _, n: rng.laplace(0, 1, n), epsilon)(epsilon, rng)


def geometric(epsilon, rng):
    """Two-sided geometric noise on counts."""
    stop = 1 - np.exp(-epsilon)
    return lambda x: x + rng.geometric(stop, len(x)) - rng.geometric(stop, len(x)), 0, 1


def square_wave(epsilon, rng):
    return ours("square_wave", epsilon, domain=(0.0, 1.0)), 0.0, 1.0


def piecewise(epsilon, rng):
    return ours("piecewise", epsilon, domain=(-1.0, 1.0)), -1.0, 1.0


def stream(slot, slots, low=0.0, high=1.0):
    """The same sampler in each slot, with a part of epsilon."""

    def made(epsilon, rng):
        report = slot(epsilon / slots, rng)[0]
        return (
            lambda rows: np.column_stack([report(column) for column in rows.T]),
            np.full(slots, low),
            np.full(slots, high),
        )

    return made


def responses(epsilon, rng):
    return ours("grr", epsilon, categories=2), 0, 1


def laplace(epsilon, rng):
    return additive(lambda rng, scale, n: rng.laplace(0, scale, n))(epsilon, rng)


def rare(probability):
    """Randomized response at 1 on three outputs; a fourth, of this probability for the less likely
    input, loses epsilon.
    """

    def made(epsilon, rng):
        odds = np.exp([1.0, 0.0, 0.0]), np.exp([0.0, 1.0, 0.0])
        special = probability * np.exp(epsilon), probability
        laws = [
            np.append(odd / odd.sum() * (1 - part), part)
            for odd, part in zip(odds, special, strict=True)
        ]
        return lambda x: choice(rng, laws[int(x[0])], len(x)), 0, 1

    return made


def hashing(bits, cells, *, rows):
    """Local hashing by a random function out of 2**bits; the report is the seed and the cell."""

    def made(epsilon, rng):
        table = rng.integers(0, cells, (2**bits, 2))
        odds = np.ones(cells)
        odds[0] = np.exp(epsilon)

        def report(x):
            seeds = rng.integers(0, 2**bits, len(x))
            said = (table[seeds, x] + choice(rng, odds, len(x))) % cells
            return np.column_stack([seeds, said]) if rows else seeds * cells + said

        return report, 0, 1

    return made


def encoded(name):
    return lambda epsilon, rng: (ours(name, epsilon, categories=10), 0, 9)


PLANTS = {
    **{f"grr of {d}": grr(d) for d in (2, 10, 100, 1000)},
    "oue, bits": oue(32, packed=True),
    "oue, columns": oue(32, packed=False),
    "laplace": laplace,
    "geometric": geometric,
    "square wave": square_wave,
    "piecewise": piecewise,
    "4 slots of responses": stream(responses, 4, 0, 1),
    "10 slots of responses": stream(responses, 10, 0, 1),
    "4 slots of laplace": stream(laplace, 4),
    "10 slots of laplace": stream(laplace, 10),
    "4 slots of square wave": stream(square_wave, 4),
    "not clamped": unclamped,
    "outputs of 1e-2": rare(1e-2),
    "outputs of 1e-3": rare(1e-3),
    "8-bit seeds": hashing(8, 4, rows=True),
    "16-bit seeds": hashing(16, 4, rows=True),
    "16-bit seeds, two cells": hashing(16, 2, rows=True),
    "16-bit seeds, one number": hashing(16, 4, rows=False),
    "olh": encoded("olh"),
    "hadamard": encoded("hadamard"),
    "subset selection": encoded("subset_selection"),
}
