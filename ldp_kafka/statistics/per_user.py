"""Each user's own value, under a pseudonym."""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.methods import Method
from ldp_kafka.methods.base import SENT, Step
from ldp_kafka.methods.perslot import PerSlot
from ldp_kafka.methods.priors import Shrunk
from ldp_kafka.methods.response_curve import ResponseCurve
from ldp_kafka.methods.shrinkage import Shrinkage
from ldp_kafka.randomness import seeded
from ldp_kafka.records import Reports
from ldp_kafka.statistics.base import Singles, SingleStatistic
from ldp_kafka.statistics.prediction import Prediction, ShrunkPrediction, SinglePrediction

__all__ = ["PerUser", "power_sums", "release_error"]

# of the simulation: its own error is about 1 %
_LEVELS, _USERS, _SLOTS = (np.linspace(0, 1, 5), 400, 64)


class PerUser(SingleStatistic):
    """Each user's own value, one release a report: drawn to the crowd's mean as far as noise hides
    it, or as it was reported.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> method = lk.method("sw_direct", epsilon=1.0, window=1, domain=(0.0, 10.0))
    >>> PerUser(method).start, PerUser(method, shrinkage=False).start
    ((0, 0, 0), ())
    >>> round(PerUser(method).predict(1000).error, 1)
    2.8
    """

    name = "per_user"
    kind = "numeric"
    needs = "per_user"
    averaged = True

    @property
    def shrinks(self) -> bool:
        """Whether releases are drawn to the crowd's mean: only where the method's can be."""
        return self.shrinkage and self.method.shrinks

    @cached_property
    def curve(self) -> ResponseCurve:
        """How one report reads; simulated once."""
        if isinstance(self.method, PerSlot):
            return self.method.curve
        return ResponseCurve.of(self.method.single)

    @property
    def start(self) -> tuple[int, ...]:
        return (0, 0, 0) if self.shrinks else ()

    def totals(self, index: NDArray[np.int64]) -> tuple[int, ...]:
        """Of what the crowd's mean and spread follow from, where they are asked for."""
        return power_sums(index) if self.shrinks else ()

    def read(self, batch: Reports, totals: tuple[int, ...]) -> Singles:
        if not self.shrinks:
            return self._as_reported(batch)
        return self._drawn(batch, self._crowd(totals).apply(batch.values))

    def read_singles(self, batch: Reports, totals: tuple[int, ...]) -> Singles:
        if not self.shrinks:
            return self._as_reported(batch)
        return self._drawn(batch, self._crowd(totals).apply_each(batch.values))

    def _drawn(self, batch: Reports, shrunk: Shrunk) -> Singles:
        """The error is that of users as a whole, and the interval each user's own: what its report
        alone says of it, and at least up to the value.
        """
        reported = self._as_reported(batch)
        if reported.reason is not None:
            return reported._replace(values=shrunk.values, reliability=shrunk.reliability)
        low, high = reported.interval()
        return Singles(
            shrunk.values,
            np.broadcast_to(shrunk.standard_error, shrunk.values.shape),
            shrunk.reliability,
            (np.minimum(low, shrunk.values), np.maximum(high, shrunk.values)),
        )

    def _crowd(self, totals: tuple[int, ...]) -> Shrinkage:
        """Of all reports that these are the totals of."""
        crowd = Shrinkage(self.method, curve=self.curve)
        crowd.add(list(totals))
        return crowd

    def _as_reported(self, batch: Reports) -> Singles:
        """Vectors whole, NaN in the coordinates that are not reported."""
        sent = np.full(len(batch), SENT, np.uint8)
        values = self.method.published(Step(batch.values * batch.scale, sent, phase=batch.phase))
        shares, reason = self.method.reliability, self.method.single_reason
        if reason is not None:
            return Singles(values, np.full(values.shape, np.nan), shares, None, reason)
        errors = np.where(np.isnan(values), np.nan, self.method.single_error)
        limits = None if self.method.ball else self.method.single_limits(values)
        return Singles(values, errors, shares, limits)

    def predict(self, users: int) -> Prediction:
        """Shrunk: where values are spread evenly over the domain and the crowd is large enough to
        know that. Else at the worst of some values.
        """
        del users
        lo, hi = self.method.domain
        reason = self.method.single_reason
        if not self.shrinks:
            return SinglePrediction(
                self.name,
                release_error(self.method),
                (hi - lo) / 2,
                1,
                clipping=self.method.clipping,
                error_reason=reason,
            )
        read = self.curve
        slope = float(read.mean[-1] - read.mean[0])
        signal, noise = slope * slope / 12, read.noise(0.5) + read.curve / 12
        reliability = signal / (signal + noise)
        return ShrunkPrediction(
            self.name,
            (hi - lo) * ((1 - reliability) / 12) ** 0.5,
            (hi - lo) / 12**0.5,
            1,
            reliability,
            error_reason=reason,
        )


def power_sums(values: NDArray[np.int64]) -> tuple[int, int, int]:
    """Number, sum and sum of squares of at least one; in Python integers where 64 bits would not
    hold it.

    Examples
    --------
    >>> power_sums(np.array([2**40, -1]))
    (2, 1099511627775, 1208925819614629174706177)
    """
    most = max(-int(values.min()), int(values.max()))
    if most * most * values.size < 2**63:
        return len(values), int(values.sum()), int((values * values).sum())
    whole = values.ravel().tolist()
    return len(values), sum(whole), sum(value * value for value in whole)


def release_error(method: Method) -> float:
    """The root mean square error of one release of one user whose value (every coordinate of it)
    stays the same, at the worst of five values of the domain; by simulation, to about 1 %.
    """
    levels = np.repeat(_LEVELS, max(1, _USERS // max(1, method.dimension)))
    streams = method.constant(levels, min(2 * method.window, _SLOTS))
    reporting = copy(method)
    reporting.holds = False  # between reports nothing is released
    square = (reporting.release(streams, seeded(0)) - streams) ** 2
    return float(np.sqrt(np.nanmean(square.reshape(len(_LEVELS), -1), axis=1).max()))
