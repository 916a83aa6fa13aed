"""What is made of a protocol's publications before they are released: it only reads what has been
estimated, so it costs no privacy, and no request depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Estimate

__all__ = ["GAIN", "SMOOTHING", "Merging", "Processing"]

SMOOTHING = ("exponential", "kalman")
GAIN = 0.5  # of a new release in exponential smoothing


@dataclass(frozen=True, slots=True)
class Processing:
    """The switches; each is off unless told otherwise."""

    norm_sub: bool = False
    """Project released frequencies on what frequencies can be (`ldp_kafka.mechanisms.norm_sub`)."""
    merge: bool = False
    """Merge the first phase's estimate into a publication, by inverse variance."""
    smooth: str | None = None
    """``kalman``: release where the truth is expected; ``exponential``: the mean of the release and
    of the smoothed one before.
    """

    def __post_init__(self) -> None:
        for name in ("norm_sub", "merge"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False")
        if self.smooth is not None and self.smooth not in SMOOTHING:
            raise ConfigurationError(f"smooth must be one of {', '.join(SMOOTHING)}, or None")


class Merging:
    """The first phase's estimate merged into a publication, which it has triggered.

    Notes
    -----
    A publication is asked where the first phase's estimate c1 lies far from the last release: its
    error is larger in these slots than its standard error s1 says. The second phase's c2 has fresh
    noise, so, given that it was asked, E[(c1 - c2)^2] = E[e1^2] + s2^2 with e1 the error of c1: the
    ratio k of E[e1^2] to s1^2 is estimated without bias from publications,

        k = mean of ((c1 - c2)^2 - s2^2) / s1^2, weighted by (s1^2 / (s1^2 + s2^2))^2,

    and at least 1. Weights are inverse to k s1^2 and s2^2, and the standard error is sqrt(w1^2 k
    s1^2 + w2^2 s2^2): that of both terms, whose errors are independent. Both k and the weights of a
    publication are those of the publications before: begin with as much as one of k = 2.
    """

    def __init__(self) -> None:
        self._weight, self._total = 1.0, 2.0

    @property
    def inflation(self) -> float:
        """The ratio k."""
        return max(self._total / self._weight, 1.0)

    def merge(self, first: Estimate, second: Estimate) -> Estimate:
        """Both phases' estimates (d,) of one slot. The mean over coordinates decides the weights,
        so that frequencies go on to sum to what they do.
        """
        mine, fresh = (float(np.mean(each.standard_error**2)) for each in (first, second))
        k = self.inflation
        both = k * mine + fresh
        share = fresh / both if both > 0 else 0.0
        value = share * first.value + (1 - share) * second.value
        square = k * (share * first.standard_error) ** 2
        square += ((1 - share) * second.standard_error) ** 2
        if mine > 0:
            weight = (mine / (mine + fresh)) ** 2
            apart = float(np.mean((first.value - second.value) ** 2))
            self._weight += weight
            self._total += weight * (apart - fresh) / mine
        return Estimate(value, np.sqrt(square), first.reports + second.reports)

    def saved(self) -> list[float]:
        """Its state in plain numbers."""
        return [self._weight, self._total]

    def restore(self, saved: list[float]) -> None:
        """Take the state of another one."""
        self._weight, self._total = saved
