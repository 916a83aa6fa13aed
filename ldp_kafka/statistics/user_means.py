"""How the users' means over a segment are spread."""

from __future__ import annotations

from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.mechanisms.window import Window
from ldp_kafka.methods import Method
from ldp_kafka.methods.perslot import PerSlot
from ldp_kafka.methods.priors import Prior, Scale, matched, prior_of
from ldp_kafka.methods.response_curve import ResponseCurve, affine
from ldp_kafka.methods.unstated import NOISY_SPREAD
from ldp_kafka.randomness import seeded
from ldp_kafka.statistics.base import CrowdStatistic
from ldp_kafka.statistics.prediction import EvenPrediction, Prediction, reporting

__all__ = ["UserMeans"]

CELLS = 256  # of what can be reported, at most: how finely reports are counted
_USERS, _REPEATS = 4096, 4  # of the simulation of an error


class UserMeans(CrowdStatistic):
    """The share of users whose mean over a segment lies in each of some equal bins of the domain, a
    list that sums to 1: of methods that report one mean a segment.

    Notes
    -----
    CAPP's statistic of a crowd (section IV-C): how the users' means are spread over users. The
    paper takes reported means as they are. Here they are moved and stretched to be spread as the
    users' are, as far as reports tell, and else are the paper's: `ldp_kafka.methods.priors.matched`
    has the proof. Each report is counted in one of `CELLS` equal cells of what can be reported:
    nobody's reports are linked. No error is stated, since the shape is that of noise, too.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> method = lk.method("sampling", epsilon=60.0, window=4, segment=4, domain=(0.0, 10.0))
    >>> spread = UserMeans(method, bins=4)
    >>> reports = method.mechanism.perturb(np.repeat([0.1, 0.4], 1000), lk.randomness.seeded(7))
    >>> spread.estimate(spread.sums(reports, 0)).value.round(1).tolist()
    [0.5, 0.5, 0.0, 0.0]
    >>> spread.edges
    (0.0, 2.5, 5.0, 7.5, 10.0)
    """

    name = "user_means"
    kind = "numeric"
    needs = "user_means"
    binned = True
    normal = False

    @classmethod
    def unfit(cls, method: Method) -> str | None:
        wrong = super().unfit(method)
        if wrong is None and not isinstance(method.mechanism, Window):
            return (
                f"{cls.name} needs a mechanism that keeps the order of values, such as square_wave:"
                f" {method.name} has {type(method.mechanism).__name__}"
            )
        return wrong

    def sums(self, reports: NDArray[np.generic], phase: int) -> NDArray[np.int64]:
        """The number of reports, and how many there are in each cell."""
        del phase
        low, high = self.method.index_range
        units = np.rint(np.asarray(reports, np.float64) / self.method.scale)
        cell = (units.astype(np.int64) - low) // self._width
        counts = np.bincount(cell, minlength=(high - low) // self._width + 1)
        return np.concatenate([[len(reports)], counts])

    @cached_property
    def _width(self) -> int:
        """Of a cell, in units of the method's scale."""
        low, high = self.method.index_range
        return -(-(high - low + 1) // CELLS)

    @cached_property
    def _scale(self) -> Scale:
        """How the number of a cell reads."""
        lo, hi = self.method.domain
        origin, unit = (each / (hi - lo) for each in affine(self.method))
        step = unit * self.method.scale
        middle = self.method.index_range[0] + (self._width - 1) / 2
        return Scale(origin - lo / (hi - lo) + middle * step, self._width * step)

    @cached_property
    def curve(self) -> ResponseCurve:
        """How one report reads; simulated once."""
        assert isinstance(self.method, PerSlot), "others are unfit"
        return self.method.curve

    def estimate(self, sums: NDArray[np.int64]) -> Estimate:
        n, counts = int(sums[0]), sums[1:]
        cells = np.arange(len(counts))
        total, squares = int(counts @ cells), int(counts @ (cells * cells))
        mean, step = total / n, self._scale.step
        variance = (squares * n - total * total) / (n * max(n - 1, 1)) * (step * step)
        found = prior_of(self.curve, self._scale, [(n, total, squares)])
        prior = Prior(*(float(each[0]) for each in found))
        seen = self._scale.low + mean * step
        centre, gain = matched(prior, seen, variance, self.curve.kurtosis)
        ends = centre + gain * step * (np.arange(len(counts) + 1) - 0.5 - mean)
        inner = np.arange(1, self.bins) / self.bins
        below = np.interp(inner, ends, np.concatenate([[0], np.cumsum(counts)]) / n)
        if not gain > 0:  # all of them are where the crowd is
            below = (inner >= centre).astype(np.float64)
        shares = np.diff(np.concatenate([[0.0], below, [1.0]]))
        return Estimate(shares, None, n, reason=NOISY_SPREAD)

    def error(self, reports: int) -> float:
        """Root mean square error of a share, where values are spread evenly and stay; simulated."""
        users = min(reports, _USERS)
        lo, hi = self.method.domain
        values = lo + (hi - lo) * (np.arange(users) + 0.5) / users
        truth = np.histogram(values, self.edges)[0] / users
        source, single = seeded(0), self.method.single
        origin, unit = affine(single)
        square = 0.0
        for _ in range(_REPEATS):
            answers = (single.release(values[:, None], source)[:, 0] - origin) / unit
            off = self.estimate(self.sums(answers, 0)).value - truth
            square += float(np.mean(off * off)) / _REPEATS
        return sqrt(square)

    def predict(self, users: int) -> Prediction:
        reports = reporting(self.method, users)
        return EvenPrediction(
            self.name, self.error(reports), None, reports, error_reason=NOISY_SPREAD
        )

    @property
    def edges(self) -> tuple[float, ...]:
        return tuple(np.linspace(*self.method.domain, self.bins + 1).tolist())

    @property
    def bounds(self) -> tuple[float, float]:
        return 0.0, 1.0
