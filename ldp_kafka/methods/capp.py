"""CAPP: accumulated feedback within a clip range that fits the noise."""

from __future__ import annotations

from math import exp

from ldp_kafka.mechanisms.base import Law
from ldp_kafka.methods.feedback import AccumulatedPerturbation

__all__ = ["ClippedAccumulatedPerturbation"]

# of the domain's length, inwards and outwards: CAPP, section VI-G recommends -.25 <= delta <= .25
# whatever the data
WIDEST = 0.25


class ClippedAccumulatedPerturbation(AccumulatedPerturbation):
    """Report each value corrected for the noise of earlier reports, within a clip range chosen to
    fit the noise: perturb x + D clipped to [l, u], where D is the deviation accumulated since the
    block began.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`
    block : slots after which D starts at zero again, at absolute multiples of ``block``;
        ``published`` never resets

    Notes
    -----
    CAPP, Algorithm 2, with l = T, u = 1 - T, T = e_s - e_d (the paper's eq. 11 has the wrong sign;
    e_s and e_d are eq. 9 and 10 computed from the mechanism's own law at 1, for any mechanism). T
    is kept within the paper's recommended quarter of the domain: an unbiased mechanism has no e_s,
    and at a small epsilon its spread would ask for a range that is nearly all noise. Guarantee:
    that of `AccumulatedPerturbation`; the range is public, a function of epsilon alone.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("capp", epsilon=1.0, window=10, domain=(0.0, 1.0))
    >>> m.block, m.guarantee.influence
    (5, 14)
    """

    name = "capp"

    def _ends(self) -> tuple[float, float]:
        margin = self._margin()
        return margin, 1 - margin

    def _margin(self) -> float:
        """T: the mean shortfall of the mechanism at 1 less its spread there (CAPP, eq. 9-11, its
        sign as in the authors' code), to 2**-20 so that no CPU rounds it otherwise.
        """
        law = Law.of(self.mechanism.law(1.0))
        margin = round((exp(1 - law.mean()) - 1 - law.variance() ** 0.5) * 2**20) / 2**20
        return float(min(max(margin, -WIDEST), WIDEST))
