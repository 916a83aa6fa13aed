"""The mean of a crowd."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods.estimates import Slot
from ldp_kafka.methods.protocols.coordinator import reaching, within_bounds
from ldp_kafka.methods.smoothing import smooth
from ldp_kafka.statistics.base import CrowdStatistic
from ldp_kafka.statistics.prediction import law_error

__all__ = ["INPUTS", "Mean"]

# where the law is looked at: a mechanism is noisiest at an end or in the middle
INPUTS = tuple(np.linspace(0, 1, 9).tolist())


class Mean(CrowdStatistic):
    """The mean of the values of all who reported in a slot; of vectors, coordinate by coordinate.

    Notes
    -----
    With a ``moving_average`` the mean of as many such means, the slot's own and those before it
    (CAPP, section IV-A, has as many after it as before: that is the release of a later slot). It
    reads releases alone, so it costs no privacy. It states how far it is from the slot's own truth,
    as any release does: the crowd can have done in this slot what it has never done, so its
    interval reaches from it to the limits of the slot's own reports. That holds however the
    truth has moved, and however reports depend on those before them.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> mean = Mean(lk.method("sw_direct", epsilon=20.0, window=1, domain=(0.0, 10.0)))
    >>> reports = mean.method.mechanism.perturb(np.full(2000, 0.3), lk.randomness.seeded(7))
    >>> found = mean.estimate(mean.sums(reports, 0))
    >>> round(found.value, 1), found.reports
    (3.0, 2000)
    >>> bool(0.9 < mean.error(2000) / found.standard_error < 1.5)
    True
    """

    name = "mean"
    kind = "numeric"
    needs = "mean"
    of_protocols = True
    averaged = True

    def sums(self, reports: NDArray[np.generic], phase: int) -> NDArray[np.int64]:
        return self.method.support(reports, phase)

    def estimate(self, sums: NDArray[np.int64]) -> Estimate:
        return self.method.crowd(sums)

    @property
    def looks_back(self) -> int:
        return max(self.method.looks_back, (self.moving_average - 1) * self.method.stride)

    def of_slot(self, sums: NDArray[np.int64], slot: Slot | None = None) -> list[Estimate]:
        if slot is None or not sums[0]:
            return super().of_slot(sums)
        return [self._averaged(self.method.crowd_of_slot(sums, slot), slot)]

    def _averaged(self, found: Estimate, slot: Slot) -> Estimate:
        """The moving average that ends with this estimate, over those slots that had reports."""
        earlier = {} if slot.earlier is None else slot.earlier
        steps = range(self.moving_average - 1, 0, -1)
        past = [earlier.get(slot.number - back * self.method.stride) for back in steps]
        means = [self.method.crowd(sums).value for sums in past if sums is not None and sums[0]]
        if not means:
            return found
        value = smooth(np.array([*means, found.value]).T, len(means) + 1).T[-1]
        if found.standard_error is None:
            return found._replace(value=value)
        return within_bounds(reaching(value, found, self.bounds), self.bounds)

    def error(self, reports: int) -> float:
        """Of a vector: of a coordinate."""
        course = self.method.course(reports)
        if course:
            return max(error for _, error in course)
        of_one = self.method.coordinate
        return max(law_error(of_one, value, reports) for value in INPUTS)

    @property
    def bounds(self) -> tuple[float, float]:
        return self.method.domain

    @property
    def constant(self) -> float:
        """That of the domain's midpoint."""
        lo, hi = self.method.domain
        return (hi - lo) / 2

    def warnings(self) -> list[str]:
        """Feedback perturbs aims, and these are no values."""
        if not self.method.feedback_bias > 0:
            return []
        said = (
            f"{self.name} with {self.method.name}: its feedback biases the mean of a crowd of any"
            " size; use sw_direct for crowds"
        )
        return [said]
