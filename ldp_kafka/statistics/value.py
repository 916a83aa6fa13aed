"""Each stream's own value, as a curator releases it."""

from __future__ import annotations

from ldp_kafka.statistics.base import Statistic
from ldp_kafka.statistics.prediction import Prediction, SinglePrediction

__all__ = ["Value"]


class Value(Statistic):
    """One release a stream and slot, which the curator makes: nothing is left to collect.

    Examples
    --------
    >>> from ldp_kafka.methods.windowed import WINDOWED
    >>> method = WINDOWED["naive"](epsilon=1.0, delay=10, domain=(0.0, 100.0), mechanism=float)
    >>> round(Value(method).predict(1000).error)
    141
    """

    name = "value"
    kind = "numeric"
    needs = "value"

    def predict(self, users: int) -> Prediction:
        """The noise of one value that is released by itself, at most the domain's length: what
        grouping, segments and smoothing gain on it depends on the streams.
        """
        del users
        lo, hi = self.method.domain
        error = 2**0.5 * (hi - lo) / self.method.epsilon
        return SinglePrediction(self.name, error, (hi - lo) / 2, 1)
