"""Checks of the matrix mechanism, by its own step code: what goes into each draw, what is released
of scripted draws, and the exact joint law of all draws that neighbours can change.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import exp, sqrt
from unittest import mock

import numpy as np

from ldp_kafka.checks.delay.trial import DelayTrial
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.methods import METHOD_CHECKS
from ldp_kafka.checks.sources import KEY, Recorder
from ldp_kafka.mechanisms.gaussian import PARTS, analytic_delta
from ldp_kafka.mechanisms.gaussian_sums import GaussianSums
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.values import FIXED
from ldp_kafka.randomness import keyed, seeded
from ldp_kafka.runtime.coverage.told import told as told_of

__all__ = ["MATRIX_CHECKS", "SHARED", "Sums", "dense", "hockey_stick", "rows_of"]

LENGTH = 5
LEVELS = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Sums:
    """One method under test."""

    make: object

    @property
    def small(self):
        return self.make()


class Spy:
    """Stands for the noise: it notes what it is given, and says what is scripted, or the truth."""

    def __init__(self, real, script=None):
        self._real, self._script, self.given = real, script, []

    def __getattr__(self, name):
        return getattr(self._real, name)

    def perturb(self, sums, randomness):
        self.given.append(np.array(sums))
        if self._script is None:
            return self._real.perturb(sums, randomness)
        return np.full(len(sums), self._script[len(self.given) - 1])


def root_of(bands):
    """The first coefficients of (1 - x)^(-1/2) by their recursion, in whole 2**-20."""
    exact = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, bands))])
    return np.rint(exact * 2**20).astype(np.int64)


def dense(method, values):
    """R and what is released of its noisy rows, as dense matrices over this number of values."""
    r = root_of(method.bands) / 2**20
    lag = np.subtract.outer(np.arange(values), np.arange(values))
    root = np.where((lag >= 0) & (lag < method.bands), r[np.clip(lag, 0, method.bands - 1)], 0.0)
    most = values if method.moving_mean is None else method.moving_mean
    sums = ((lag >= 0) & (lag < most)).astype(float)
    if method.moving_mean is not None:
        sums /= sums.sum(axis=1, keepdims=True)
    return root, sums @ np.linalg.inv(root)


def rows_of(method, streams, **how):
    """What is given to the noise, a row a slot; and what is released of the streams (n, T)."""
    method.adder = Spy(method.adder)
    released = method.trace(streams, seeded(5), **how)
    return np.array(method.adder.given), released


def neighbours(method, length=LENGTH):
    """All streams of a few values, shares of the domain, and pairs that differ in one window, by a
    contribution at most.
    """
    lo, hi = method.domain
    streams = lo + (hi - lo) * np.array(list(product(LEVELS, repeat=length)))
    apart = np.abs(streams[:, None] - streams[None])
    differs = apart > 0
    first, last = differs.argmax(2), length - 1 - differs[..., ::-1].argmax(2)
    near = differs.any(2) & (last - first < method.window)
    near &= apart.max(2) <= (method.contribution or hi - lo)
    return streams, np.argwhere(np.tril(near))


def hockey_stick(noise, one, other, epsilon):
    """The least delta for two columns of whole numbers, of the joint law of all draws: by floats,
    without what lies beyond 6 standard deviations (2e-9).
    """
    laws = [np.ones(1), np.ones(1)]
    half = np.array(noise._noise.half[: 6 * noise._parts // PARTS], float) / 2**64
    full = np.concatenate([half[:0:-1], half])
    for pair in zip(one, other, strict=True):
        lowest = min(pair) // noise.unit
        for at, number in enumerate(pair):
            step, part = divmod(number, noise.unit)
            law = np.zeros(max(pair) // noise.unit - lowest + len(full) + 1)
            up = part / noise.unit
            for where, share in ((step - lowest, 1 - up), (step - lowest + 1, up)):
                law[where : where + len(full)] += share * full
            laws[at] = np.multiply.outer(laws[at], law).ravel()
    return np.maximum(laws[0] - exp(epsilon) * laws[1], 0).sum()


def loss_within_budget(life):
    """On a grid of a few steps: the joint law of all draws that differ, of all streams of four
    values, for the neighbours whose draws lie farthest apart.
    """
    window = min(life.small.window, 2)
    with mock.patch.object(GaussianSums, "_default_cells", return_value=12):
        method = life.make(epsilon=1.0, delta=0.05, bands=2, window=window)
    streams, pairs = neighbours(method, 4)
    noise = method.adder
    given, _ = rows_of(method, streams)
    norms = {}
    for one, other in pairs:
        a, b = given[:, one], given[:, other]
        key = tuple(map(tuple, np.column_stack([a, b])[a != b].tolist()))
        norms[key] = sum((x - y) ** 2 for x, y in key)
    for key in sorted(norms, key=norms.__getitem__)[-4:]:
        for one, other in (zip(*key, strict=True), zip(*(each[::-1] for each in key), strict=True)):
            lost = hockey_stick(noise, one, other, method.epsilon)
            require(lost <= method.delta, f"all draws must lose no more than delta ({lost:.3f})")


def moves_are_as_proved(life):
    """Over all neighbours, with gaps and from a call that begins anew too: what is drawn moves by
    no more than the noise is made for, in no more numbers; the worst of them by all of it.
    """
    method = life.small
    streams, pairs = neighbours(method)
    far = 0.0
    for cut, gap in ((0, None), (0, 2), (2, None)):
        whole = np.delete(streams, gap, axis=1) if gap is not None else streams
        tail = np.full((len(whole), method.bands), method.domain[0])
        long = np.concatenate([whole, tail], axis=1)
        parts = [long[:, :cut], long[:, cut:]] if cut else [long]
        given = np.concatenate([rows_of(life.make(), part)[0] for part in parts])
        moved = (given[:, pairs[:, 0]] - given[:, pairs[:, 1]]).astype(object)
        norm = np.sqrt((moved**2).sum(axis=0).astype(float))
        require(
            norm.max() <= method.adder.reach * (1 + 1e-12),
            "what is drawn must not move by more than the noise is made for",
        )
        require(
            (moved != 0).sum(axis=0).max() <= min(method.adder.dimension, method.influence),
            "no more numbers may change than the noise is made for",
        )
        far = max(far, norm.max())
    require(far >= 0.999 * method.adder.reach, "the worst stream must need all of the noise")


def guarantee_is_what_was_asked(life):
    """(epsilon, delta) as given, for the level and window as given; the noise keeps it for the
    largest move that the dense matrix knows.
    """
    method = life.small
    stated = method.guarantee
    require(
        (stated.epsilon, stated.delta, stated.window, stated.subject)
        == (method.epsilon, method.delta, method.window, "stream")
        and stated.level == ("event" if method.window == 1 else "w-event"),
        "the guarantee must state what was asked for",
    )
    run = np.convolve(root_of(method.bands), np.ones(method.window))
    move = sqrt((run**2).sum()) * method.reach
    sigma = sqrt(method.adder.variance - method.adder.unit**2 / 3)
    require(
        analytic_delta(method.epsilon, sigma / move) <= method.delta
        and 0 < method.adder.certificate().delta <= method.delta,
        "the noise must keep delta for the columns of a window together",
    )


def outputs_tell_all(life):
    """With scripted draws, of releases inside the domain, all streams release the same."""
    method = life.small
    streams, _ = neighbours(method)
    streams = np.concatenate([streams, streams + 1e-4], axis=0).clip(*method.domain)
    rows = dense(method, LENGTH)[0] @ np.random.default_rng(3).uniform(0.2, 0.8, LENGTH)
    script = np.rint(rows * (2**20 * FIXED / method.adder.unit)).astype(np.int64)
    method.adder = Spy(method.adder, script)
    told = method.trace(streams, seeded(5))
    for numbers in told.numbers:
        require(
            (numbers == numbers[:, :1]).all(),
            "all that is released must follow from draws and public parameters",
        )


def noise_is_bound_to_its_input(life):
    """One context has one input."""
    method = life.small
    source = Recorder(keyed(KEY))
    streams, _ = neighbours(method)
    state = method.state(source.digests(["one"] * len(streams)))
    method.adder = spy = Spy(method.adder)
    bound = method.bound(streams)
    for slot in range(LENGTH):
        method.close(state, Batch(np.arange(len(streams)), slot, bound[None, :, slot], source))
    seen = {}
    for context, given in zip(source.draws, np.concatenate(spy.given).tolist(), strict=True):
        require(
            seen.setdefault(context, given) == given,
            "noise must be bound to its input: one context had several",
        )


def releases_are_the_matrix(life):
    """Rows, releases and errors are those of dense matrices, with gaps too: a slot without a value
    is no value.
    """
    method = life.small
    lo, hi = method.domain
    rng = np.random.default_rng(4)
    streams = lo + (hi - lo) * rng.random((6, 40))
    there = rng.random(40) < 0.8
    given, told = rows_of(method, streams, present=np.broadcast_to(there, streams.shape))
    values = method.bound(streams[:, there]).T
    root, released = dense(method, len(values))
    require(
        np.array_equal(given, np.rint(root * 2**20).astype(np.int64) @ values),
        "what is drawn must be the rows of the matrix",
    )
    count = np.arange(len(values)) + 1
    held = np.ones(len(count)) if method.moving_mean else count
    noise = method.adder.variance / (2**20 * FIXED) ** 2
    errors = np.sqrt((released**2).sum(axis=1) * noise) * (hi - lo)
    require(
        np.allclose(told.standard_error[there], errors[:, None], rtol=1e-12),
        "errors must be those of the matrix",
    )
    quiet = life.small
    quiet.adder = Exact(quiet.adder)
    exact = quiet.trace(streams, seeded(5), present=np.broadcast_to(there, streams.shape))
    want = told_of(quiet, np.where(there, streams, np.nan), 0).T
    step = held.max() * (hi - lo) * quiet.adder.unit / (2**20 * FIXED)
    require(
        np.allclose(exact.values, want, atol=40 * step, rtol=0, equal_nan=True),
        "without noise the sums or means of the values must be released",
    )
    require(
        bool((told.low <= told.values)[there].all() and (told.values <= told.high)[there].all()),
        "an interval must hold its release",
    )


class Exact(Spy):
    """No noise: rounded to the nearest step."""

    def perturb(self, sums, randomness):
        return np.rint(sums / self._real.unit).astype(np.int64)


MATRIX_CHECKS = {
    check.__name__: check
    for check in (
        loss_within_budget,
        moves_are_as_proved,
        guarantee_is_what_was_asked,
        outputs_tell_all,
        noise_is_bound_to_its_input,
        releases_are_the_matrix,
    )
}
SHARED = (
    "release_is_step",
    "users_are_apart",
    "noise_is_keyed",
    "noise_is_its_own",
    "slots_must_increase",
    "no_stream_is_left_waiting",
    "values_are_checked",
)
for name in SHARED:
    MATRIX_CHECKS[name] = lambda life, check=METHOD_CHECKS[name]: check(DelayTrial(life.make))
