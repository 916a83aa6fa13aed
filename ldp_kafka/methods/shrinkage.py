"""Empirical-Bayes shrinkage of releases per user: each is drawn towards the mean of all users, or
towards the domain's midpoint, as far as noise hides it. Post-processing: it costs no privacy.
"""

from __future__ import annotations

from functools import cached_property
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.base import Method, check_slots
from ldp_kafka.methods.response_curve import ResponseCurve, affine, law_of

__all__ = ["Prior", "ResponseCurve", "Shrinkage", "Shrunk", "debias", "shrink"]

# of the domain: how far from the midpoint a crowd's mean is taken to be before its reports say
# otherwise
SPREAD = 0.08
# squared lengths of the domain: variance of values spread evenly over it, beyond which three
# standard errors are asked for
EVEN = 1 / 12
SURE = 16.0  # squared standard errors beyond which they do: in error once in 16,000 crowds


class Shrunk(NamedTuple):
    """Releases per user after shrinkage."""

    values: NDArray[np.float64]
    """(n,) on the domain's scale, within the domain."""
    reliability: float
    """Share of a release's variance over users that is signal, 0..1: the prior's variance over the
    total. 0: every value is the crowd's mean.
    """
    standard_error: float
    """Root mean square error of a value over users, on the domain's scale; too large rather than
    too small where the prior is uncertain.
    """


class Prior(NamedTuple):
    """What is taken of the true values of a crowd, in lengths of the domain from its lower end."""

    mean: float
    mean_error: float
    """Root mean square error of the mean."""
    variance: float
    """Over users; what is significant of it."""
    most: float
    """Two standard errors above its estimate, and at most what values in the domain with this mean
    can have.
    """


class Shrinkage:
    """The prior of a crowd, from integer sums of its reports, and what it makes of single releases.

    Parameters
    ----------
    method : numeric
    length : consecutive reports of a user in one release (their mean)
    slots : see `ResponseCurve.of`
    curve : one that is known, of this method and these lengths: saves simulating it again

    Notes
    -----
    Linear empirical Bayes (Robbins 1956; Efron and Morris, JASA 1973): of all linear functions of a
    release y, m + rho (y - E[y | m]) / slope has the least mean square error over users whose
    values have mean m and variance V, with rho = slope^2 V / (slope^2 V + noise). The law of y is
    the method's `ResponseCurve`. m and V are estimated from all reports counted so far:

    - m: the curve's inverse of the mean report, with standard error s; it is drawn to the
      midpoint by t^2 / (t^2 + s^2), where t^2 is SPREAD^2 or, if that is more, the squared distance
      of the estimate from the midpoint less SURE s^2. A crowd that says nothing is given the
      midpoint.
    - V: the reports' variance less the noise, over slope^2; less its own standard error (three of
      them beyond EVEN), at least 0, at most m (1 - m) (Bhatia and Davis 2000).

    Caution has its price: a crowd whose values lie within a few hundredths of the midpoint, all of
    them, is better served by the midpoint itself; what that can cost is about SPREAD^2 / 4, 0.0016
    squared lengths of the domain, and nothing once the reports tell.

    Only reports and public configuration go in, so no budget is spent. Sums are integers and
    additive; what follows from them is computed with one rounding an operation, so a replay gives
    the same bytes.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("sw_direct", epsilon=30.0, window=10, domain=(0.0, 10.0))
    >>> crowd = Shrinkage(m)
    >>> float(crowd.apply(np.array([1000])).values[0])
    5.0
    >>> values = np.repeat([2.0, 4.0], 2000)
    >>> answers = m.release(values[:, None], lk.randomness.seeded(7))[:, 0]
    >>> crowd.update(crowd.index(answers))
    >>> 0.01 < crowd.apply(crowd.index(answers[:1])).reliability < 0.9
    True
    """

    def __init__(
        self,
        method: Method,
        length: int = 1,
        slots: int | None = None,
        *,
        curve: ResponseCurve | None = None,
    ) -> None:
        if method.kind != "numeric":
            raise ConfigurationError(f"{method.name} has no numbers to shrink")
        self.method, self.length = method, check_slots(length, "length")
        self._asked, self._given = slots, curve
        self._n = self._sum = self._squares = 0

    def index(self, released: ArrayLike) -> NDArray[np.int64]:
        """Releases (n,) or (n, length) on the domain's scale as whole units of the method's scale,
        (n,): the sum of each row.
        """
        values = np.asarray(released, np.float64)
        if not np.isfinite(values).all():
            raise ValueError("releases must be finite")
        whole = np.rint((values - self._origin) / self._unit).astype(np.int64)
        return whole.sum(axis=1) if whole.ndim == 2 else whole

    def update(self, index: NDArray[np.integer]) -> None:
        """Count reports (n,) in units of the method's scale, or sums of ``length`` of them."""
        whole = np.asarray(index, np.int64)
        self.add([len(whole), int(whole.sum()), int((whole * whole).sum())])

    def add(self, sums: list[int]) -> None:
        """Count sums of reports: their number, their sum, the sum of their squares; those of two
        parts of a crowd add up.
        """
        n, total, squares = (int(part) for part in sums)
        if not (n >= 0 and squares >= 0 and total * total <= n * squares):
            raise ValueError(
                "sums must be the number of reports, their sum, and the sum of their squares"
            )
        self._n, self._sum, self._squares = self._n + n, self._sum + total, self._squares + squares
        self.__dict__.pop("prior", None)

    @property
    def sums(self) -> list[int]:
        """What it knows: JSON-able, and taken back by `add`."""
        return [self._n, self._sum, self._squares]

    @cached_property
    def curve(self) -> ResponseCurve:
        """How a release responds to the value behind it."""
        return self._given or ResponseCurve.of(self.method, self.length, self._asked)

    @cached_property
    def prior(self) -> Prior:
        """Of the crowd, from the reports counted so far."""
        n = self._n
        if n < 2:
            return Prior(0.5, 0.5, 0.0, 0.25)
        read, step = self.curve, self._step
        if not read.slope(0.5) > 0:
            return Prior(0.5, 0.5, 0.0, 0.25)
        y = self._low + self._sum / n * step
        # integers up to the quotient
        total = (self._squares * n - self._sum * self._sum) / (n * (n - 1)) * (step * step)
        raw = read.inverse(y)
        away = raw - 0.5
        # of the chord: a curve may be flat where it ends
        slope = (y - read.at(0.5)) / away if abs(away) > 0.25 else read.slope(0.5)
        doubt = read.doubt_at(raw)
        square = (total / n + doubt * doubt) / (slope * slope)
        spread = max(SPREAD * SPREAD, away * away - SURE * square)
        share = spread / (spread + square)
        mean = 0.5 + share * away
        wrong = share * share * square + (1 - share) * (1 - share) * min(0.25, away * away + square)
        slope, bound = read.slope(mean), mean * (1 - mean)
        if not slope > 0:  # a curve that is flat there says nothing of how far values lie apart
            return Prior(mean, sqrt(wrong), 0.0, bound)
        scale = slope * slope + read.curve
        variance = (total - read.noise(mean)) / scale
        unsure = (
            sqrt((read.kurtosis - 1) / n * (total * total) + read.middle_doubt * read.middle_doubt)
            / scale
        )
        likely = min(max(variance - unsure, 0.0), max(EVEN, variance - 3 * unsure), bound)
        return Prior(mean, sqrt(wrong), likely, min(max(variance, 0.0) + 2 * unsure, bound))

    def apply(self, index: NDArray[np.integer], *, keep_spread: bool = False) -> Shrunk:
        """Shrink releases (n,), given in units of the method's scale (sums of ``length`` of them),
        by the prior of the reports counted so far.

        ``keep_spread``: by the root of the reliability, so that the values are spread over users as
        the prior is; of each user they say less.
        """
        whole, lo, hi = np.asarray(index, np.int64), self.method.domain[0], self.method.domain[1]
        prior, read = self.prior, self.curve
        slope = read.slope(prior.mean)
        noise = read.noise(prior.mean) + read.curve * prior.variance
        signal = slope * slope * prior.variance
        reliability = signal / (signal + noise) if signal > 0 else 0.0
        gain = (
            (sqrt(reliability) if keep_spread else reliability) / slope if reliability > 0 else 0.0
        )
        values = np.asarray(
            prior.mean + gain * ((self._low + whole * self._step) - read.at(prior.mean))
        )
        left = 1 - gain * slope
        error = left * left * (prior.most + prior.mean_error * prior.mean_error) + gain * gain * (
            read.noise(prior.mean) + 2 * read.middle_doubt + read.curve * prior.most
        )
        return Shrunk(
            np.clip(lo + values * (hi - lo), lo, hi),
            reliability,
            min(sqrt(error), max(prior.mean, 1 - prior.mean)) * (hi - lo),
        )

    @cached_property
    def _origin(self) -> float:
        """What a report of 0 is released as."""
        return affine(self.method)[0]

    @cached_property
    def _unit(self) -> float:
        """What a release grows by for one unit of the method's scale."""
        return affine(self.method)[1] * self.method.scale

    @property
    def _step(self) -> float:
        """The same of a mean, in lengths of the domain."""
        lo, hi = self.method.domain
        return self._unit / (hi - lo) / self.length

    @property
    def _low(self) -> float:
        lo, hi = self.method.domain
        return (self._origin - lo) / (hi - lo)


def shrink(method: Method, releases: ArrayLike, *, slots: int | None = None) -> Shrunk:
    """Each user's mean over consecutive releases, drawn to the crowd's as far as noise hides it.

    Parameters
    ----------
    releases : (users,) single releases, or (users, slots) the same slots of all users, on the
        domain's scale
    slots : see `ResponseCurve.of`

    Raises
    ------
    ValueError : a release is missing or not finite

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("capp", epsilon=20.0, window=5, domain=(0.0, 1.0))
    >>> values = np.random.default_rng(1).uniform(0.1, 0.3, (2000, 1)) * np.ones(5)
    >>> released = m.release(values, lk.randomness.seeded(7))
    >>> found = shrink(m, released)
    >>> error = lambda estimate: float(((estimate - values[:, 0]) ** 2).mean())
    >>> error(found.values) < error(released.mean(axis=1)) / 2
    True
    """
    table = np.asarray(releases, np.float64)
    if table.ndim not in (1, 2):
        raise ValueError("releases must be (users,) or (users, slots)")
    crowd = Shrinkage(method, table.shape[1] if table.ndim == 2 else 1, slots)
    index = crowd.index(table)
    crowd.update(index)
    return crowd.apply(index)


def debias(method: Method, released: ArrayLike) -> NDArray[np.float64]:
    """Releases without the mechanism's own shrinkage: the inverse of its exact affine mean,
    E[answer | x] = low + slope x.

    Parameters
    ----------
    released : any shape, on the domain's scale; NaN stays

    Returns
    -------
    The same shape, on the domain's scale, unbiased for the values that the mechanism was given and
    far outside the domain where epsilon is small: right for sums over users, not for showing. In a
    method with feedback the mechanism is given aims, not values.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("sw_direct", epsilon=1.0, window=1, domain=(0.0, 1.0))
    >>> released = m.release(np.full((40_000, 1), 0.9), lk.randomness.seeded(7))
    >>> round(float(released.mean()), 2), round(float(debias(m, released).mean()), 2)
    (0.65, 0.9)
    """
    law = law_of(method)
    if not law.slope > 0:
        raise ConfigurationError(f"{method.name} has a mechanism with no slope to invert")
    origin, unit = affine(method)
    return np.asarray(
        origin + unit * (((np.asarray(released, np.float64) - origin) / unit - law.low) / law.slope)
    )
