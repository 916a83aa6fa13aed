"""Empirical-Bayes shrinkage of releases per user: each is drawn towards the mean of all users, or
towards the domain's midpoint, as far as noise hides it. Post-processing: it costs no privacy.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.contract import Method, check_slots
from ldp_kafka.methods.priors import Prior, Scale, Shrunk, matched, posterior, prior_of
from ldp_kafka.methods.response_curve import ResponseCurve, affine, law_of

__all__ = ["Prior", "ResponseCurve", "Shrinkage", "Shrunk", "debias", "shrink"]


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
        found = prior_of(self.curve, self._scale, [(self._n, self._sum, self._squares)])
        return Prior(*(float(each[0]) for each in found))

    def apply(self, index: NDArray[np.integer]) -> Shrunk:
        """Shrink releases (n,), given in units of the method's scale (sums of ``length`` of them),
        by the prior of the reports counted so far.
        """
        values, reliability, error = self._apply(self.prior, index)
        return Shrunk(values, float(reliability), float(error))

    def spread(self, index: NDArray[np.integer]) -> NDArray[np.float64]:
        """The same releases (n,), of all reports counted so far, spread over users as their values
        are, as far as reports tell: see `ldp_kafka.methods.priors.matched`. Of each user they say
        less than `apply`.
        """
        n, total, squares = self._n, self._sum, self._squares
        if n < 2:
            return self.apply(index).values
        scale, (lo, hi) = self._scale, self.method.domain
        variance = (squares * n - total * total) / (n * (n - 1)) * (scale.step * scale.step)
        seen = scale.low + total / n * scale.step
        mean, gain = matched(self.prior, seen, variance, self.curve.kurtosis)
        values = mean + gain * (np.asarray(index) - total / n) * scale.step
        return np.asarray(np.clip(lo + values * (hi - lo), lo, hi))

    def apply_each(self, index: NDArray[np.integer]) -> Shrunk:
        """Shrink releases (n,) that come one after the other: each by the prior of the reports
        counted so far and of those up to it. None of them is counted.
        """
        n, total, squares = self._n, self._sum, self._squares
        sums = []
        for value in np.asarray(index).tolist():
            n, total, squares = n + 1, total + value, squares + value * value
            sums.append((n, total, squares))
        return self._apply(prior_of(self.curve, self._scale, sums), index)

    def _apply(self, prior: Prior, index: NDArray[np.integer]) -> Shrunk:
        whole = np.asarray(index, np.int64)
        return posterior(self.curve, self._scale, self.method.domain, prior, whole)

    @cached_property
    def _origin(self) -> float:
        """What a report of 0 is released as."""
        return affine(self.method)[0]

    @cached_property
    def _unit(self) -> float:
        """What a release grows by for one unit of the method's scale."""
        return affine(self.method)[1] * self.method.scale

    @cached_property
    def _scale(self) -> Scale:
        """How what is given is read: a sum, as the mean of so many."""
        lo, hi = self.method.domain
        return Scale((self._origin - lo) / (hi - lo), self._unit / (hi - lo) / self.length)


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
