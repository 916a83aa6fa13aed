"""The mean of a crowd whose reports have different noise, and do not say how much: its error; and
whether the crowd has moved faster than its clipped values can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate, Z
from ldp_kafka.methods.estimates import Estimates, Slot
from ldp_kafka.methods.spread import error_of_mean
from ldp_kafka.methods.unstated import CLIPPED

__all__ = ["LOOKED_BACK", "NoisyMean", "followed"]

# see `NoisyMean._saturated`: of the noise of users who stay it is so once in 15,000 slots, where it
# is normal; of Laplace noise of single reports once in 1,300
TELLING = 6
LOOKED_BACK = 32  # reports of a user whose means are looked at
KEPT = 1024  # slots before its own in which they are looked for, at most
FEWEST = 10  # differences of means that tell how far noise moves them
QUARTILE = 0.6744897501960817  # of the normal: the median of its absolute values


class NoisyMean(Estimates):
    """How a collector reads the mean of reports whose noise lies between two bounds."""

    @property
    def _noise(self) -> tuple[float, float]:
        """The standard deviations of the least and of the noisiest report, in lengths of the
        domain.
        """
        raise NotImplementedError

    few: int = 3
    """Reports below which their spread tells less than the noisiest report's noise."""

    @property
    def _clips(self) -> float:
        """How far a value is followed from one report to the next, as a share of the domain (of its
        logarithm, where changes are multiplicative); 0: wherever it goes.
        """
        return 0.0

    @property
    def _every(self) -> int:
        """Slots from one report of a user to the next; 0: that is not told."""
        return 0

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        """The mean of the values behind the reports, *clipped* where they are; its error is of
        these reports, by how far they lie apart, between that of the least and of the noisiest
        report (`spread.error_of_mean`). So it falls, or rises, with the users' reports, and neither
        side has to say how many reports a user has made.
        """
        mean, error, reports, *_ = self._mean(support)
        lo, hi = self.domain
        value, error = lo + mean * (hi - lo), error * (hi - lo)
        low, high = (min(max(value + away, lo), hi) for away in (-Z * error, Z * error))
        return Estimate(value, error, reports, (low, high))

    def _mean(self, support: NDArray[np.int64]) -> Estimate:
        """The same in lengths of the domain, not cut to it."""
        found = self.mechanism.estimate_support(support, population=True)
        n = found.reports
        if not n:
            return Estimate(found.value, inf, 0)
        spread = sqrt(found.square * n)
        error = error_of_mean(n, spread, *self._noise, few=self.few, kurtosis=self.kurtosis)
        return Estimate(found.value, error, n)

    @property
    def looks_back(self) -> int:
        """Where values are clipped around clipped ones: a crowd that moves as fast as it can is
        seen so.
        """
        seen = self._clips and self._every and self.calibration == "sound"
        return self._every * min(LOOKED_BACK, KEPT // self._every) if seen else 0

    def crowd_of_slot(self, support: NDArray[np.int64], slot: Slot) -> Estimate:
        """The same; without an error where the crowd seems to move as fast as its clipped values
        can, so that its true mean may be anywhere further on.
        """
        found = self.crowd(support)
        if self.looks_back:
            kept, every = slot.earlier or {}, self._every
            backs = range(every, self.looks_back + 1, every)
            if self._saturated(support, [kept.get(slot.number - back) for back in backs]):
                return Estimate(found.value, None, found.reports, reason=CLIPPED)
        return found

    def _saturated(
        self, support: NDArray[np.int64], past: Sequence[NDArray[np.int64] | None]
    ) -> bool:
        """Whether a crowd moves as fast as its clipped values can, given the supports of the slots
        before, the latest first, None where nobody reported. Part of a crowd, or one user, cannot
        be told from noise.

        It is told by how far the mean has come from that of k slots before, k the least for which k
        steps of ``differential_bound`` are `TELLING` errors of the difference: from two errors
        below k steps to three above, so at least two thirds of them.

        The error of a difference is that of two means whose noise is independent, as it is where
        other users report each time. The same users' noise carries on: that shows in the
        differences of neighbouring slots, whose median gives the error of one step, and of k steps
        at most sqrt(k) times as much (1 - r^k <= k (1 - r)). `FEWEST` differences tell it: in the
        first slots of a crowd the error is that of independent noise. Where other users take the
        place of all at once, their noise is new: for some slots that can be taken for a crowd that
        moves, since a collector is told no users.
        """
        every = [
            None if sums is None else _once(self._mean, sums.tobytes()) for sums in (support, *past)
        ]
        now, *before = [each if each and each.reports else None for each in every]
        if now is None:
            return False
        one = _step_error(before)
        for back, then in enumerate(before, 1):
            if then is None:
                continue
            apart, noise = self._apart(now, then, one * sqrt(back))
            steps = back * self._clips
            if TELLING * noise <= steps:
                return bool(-2 * noise <= apart - steps <= 3 * noise)
        return False

    def _apart(self, now: Estimate, then: Estimate, most: float) -> tuple[float, float]:
        """How far two means lie apart, in lengths of the domain, and the error of that, which is
        ``most`` at most.
        """
        noise = sqrt(now.standard_error**2 + then.standard_error**2)
        return abs(now.value - then.value), min(noise, most)


@lru_cache(maxsize=KEPT)
def _once(mean: Callable[[NDArray[np.int64]], Estimate], sums: bytes) -> Estimate:
    """`NoisyMean._mean` of sums that each slot which looks back asks for again."""
    return mean(np.frombuffer(sums, np.int64))


def _step_error(means: Sequence[Estimate | None]) -> float:
    """The standard deviation of the differences of neighbouring means, of a coordinate where they
    are vectors, from their median; infinite where there are fewer than `FEWEST`.
    """
    found = [one.value - other.value for one, other in pairwise(means) if one and other]
    moves = np.sort(np.abs(found), axis=None).tolist()
    return float(moves[len(moves) // 2]) / QUARTILE if len(found) >= FEWEST else inf


def followed(step: str, calibration: str, each: str = "report") -> str:
    """What a statistic is of where values are clipped to a step from report to report, in words."""
    then = (
        "is followed at that speed, and the error is not of how far it is behind"
        if calibration == "sound"  # else clipped around the last value, not the last clipped one
        else f"is off by the rest of that move in the later {each}, and the error is not of that"
    )
    moves = f"one that moves by more than {step} from one {each} to the next"
    return f"of clipped values: {moves} {then}"
