"""What is made of a protocol's publications before they are released: it only reads what has been
estimated, so it costs no privacy, and no request depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Estimate

__all__ = ["GAIN", "SMOOTHING", "Merging", "Processing"]

SMOOTHING = ("exponential", "kalman")
GAIN = 0.5  # of a new release in exponential smoothing


@dataclass(frozen=True, slots=True)
class Processing:
    """The switches; each is off unless told otherwise.

    Notes
    -----
    The mean squared error over all slots, as a share of that without the switch, at the same
    epsilon: medians and ranges over still, drifting, stepping and jumping shares of 2 and of 30
    categories, GRR, 30,000 users at epsilon 2 and window 8, and 200,000 at 1 and 20.

    ========= ============= ============= ============= ============= =============
    protocol  norm_sub,     merge         kalman        exponential   norm_sub and
              30 categories                                           kalman, 30
    ========= ============= ============= ============= ============= =============
    lbu       .13 .. .25                  .12 .01 - .55 .35 .33 - 6.6 .01
    lsp       .91 .. .93                  .94 .36 - 1.1 1.0 .90 - 21  .54 .. .58
    lpu       .52 .. .72                  .15 .04 - .61 .45 .33 - 31  .03 .. .08
    lbd       .13 .. .25    .83 .39 - 1.1 .15 .01 - .71 .69 .61 - 4.7 .01 .. .02
    lba       .17 .. .32    .95 .81 - 1.1 .16 .03 - .67 .77 .58 - 1.3 .02 .. .03
    lpd       .52 .. .69    .72 .66 - 1.1 .15 .05 - .56 .81 .50 - 40  .04 .. .07
    lpa       .57 .. .76    .81 .69 - 1.0 .10 .01 - .56 .94 .61 - 1.6 .10 .. .12
    ========= ============= ============= ============= ============= =============

    Of two categories norm_sub only cuts off what lies outside of 0..1.
    """

    norm_sub: bool = False
    """Project released frequencies on what frequencies can be (`ldp_kafka.mechanisms.norm_sub`)."""
    merge: bool = False
    """Merge the first phase's estimate into a publication, by inverse variance."""
    smooth: str | None = None
    """``kalman``: release where the truth is expected; ``exponential``: the mean of the release and
    of the smoothed one before.
    """

    @property
    def on(self) -> dict[str, bool | str]:
        """The switches that are on."""
        given = {"norm_sub": self.norm_sub, "merge": self.merge, "smooth": self.smooth}
        return {name: value for name, value in given.items() if value}

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

    and at least 1. Weights are inverse to k s1^2 and s2^2. Both k and the weights of a publication
    are those of the publications before: begin with as much as one of k = 2.
    """

    def __init__(self) -> None:
        self._weight, self._total = 1.0, 2.0

    @property
    def inflation(self) -> float:
        """The ratio k."""
        return max(self._total / self._weight, 1.0)

    def merge(self, first: Estimate, second: Estimate) -> NDArray[np.float64]:
        """Both phases' estimates (d,) of one slot in one. The mean over coordinates decides the
        weights, so that frequencies go on to sum to what they do.
        """
        mine, fresh = (float(np.mean(each.square)) for each in (first, second))
        k = self.inflation
        both = k * mine + fresh
        share = fresh / both if both > 0 else 0.0
        if mine > 0:
            weight = (mine / (mine + fresh)) ** 2
            apart = float(np.mean((first.value - second.value) ** 2))
            self._weight += weight
            self._total += weight * (apart - fresh) / mine
        return np.asarray(share * first.value + (1 - share) * second.value)

    def saved(self) -> list[float]:
        """Its state in plain numbers."""
        return [self._weight, self._total]

    def restore(self, saved: list[float]) -> None:
        """Take the state of another one."""
        self._weight, self._total = saved
