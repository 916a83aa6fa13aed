"""Each stream's own value, as a curator releases it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.methods.delay import Matrix, StreamMethod
from ldp_kafka.methods.delay.walks import walks
from ldp_kafka.randomness import seeded
from ldp_kafka.statistics.base import Statistic
from ldp_kafka.statistics.prediction import AggregatePrediction, Prediction, StreamPrediction

__all__ = ["DRIFT", "PerStream"]

DRIFT = 0.01  # of the simulated streams, a standard deviation a slot in lengths of the domain
_STREAMS, _SLOTS, _CELLS = (64, 48, 2**15)


class PerStream(Statistic):
    """One release a stream and slot, which the curator makes: nothing is left to collect.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> method = lk.method("segment_mean", epsilon=1.0, delay=10, domain=(0.0, 100.0))
    >>> PerStream(method).predict(1000).useful
    True
    """

    name = "per_stream"
    kind = "numeric"
    needs = "per_stream"
    curated = True

    def predict(self, users: int) -> Prediction:
        """The root mean square error of a release, and of the midpoint, of streams that begin
        anywhere in the domain and move by `DRIFT` a slot: simulated, of public parameters alone.
        Of sums and means the standard errors, which need no stream.
        """
        del users
        lo, hi = self.method.domain
        if isinstance(self.method, Matrix):
            return self._of_values(self.method)
        error, constant = self._errors
        return StreamPrediction(
            self.name,
            error * (hi - lo),
            constant * (hi - lo),
            1,
            error_reason=self._made.unstated,
            drift=DRIFT * (hi - lo),
        )

    def _of_values(self, made: Matrix) -> AggregatePrediction:
        lo, hi = made.domain
        course = made.course(1)
        values, error = course[-1]
        return AggregatePrediction(
            self.name,
            error,
            (hi - lo) / 2 * (1 if made.moving_mean else values),
            1,
            course=course,
            told=made.told,
            alone=tuple((n, made.alone.variance(n) ** 0.5) for n, _ in course),
        )

    @property
    def _made(self) -> StreamMethod:
        assert isinstance(self.method, StreamMethod)
        return self.method

    @cached_property
    def _errors(self) -> tuple[float, float]:
        """Of a release and of the midpoint, in lengths of the domain."""
        made = self._made
        slots = max(_SLOTS, 3 * made.windows.span)
        streams = max(4, min(_STREAMS, _CELLS // slots))
        made_up = walks(np.random.default_rng(7).normal(0, DRIFT, (streams, slots)))
        lo, hi = made.domain
        released = made.release(lo + made_up * (hi - lo), seeded(7))
        found = (released - lo) / (hi - lo)
        return _rms(found - made_up), _rms(made_up - 0.5)


def _rms(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
