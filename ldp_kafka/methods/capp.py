"""CAPP: accumulated feedback within a clip range that fits the noise."""

from __future__ import annotations

from math import exp
from typing import Any, ClassVar

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Law, check_number
from ldp_kafka.methods.feedback import AccumulatedPerturbation

__all__ = ["ClippedAccumulatedPerturbation"]

# of the domain's length, inwards and outwards: CAPP, section VI-G recommends -.25 <= delta <= .25
# whatever the data
WIDEST = 0.25
# of a clip range that is given: a fiftieth of the domain, and three of it, the widest of figure 11
LEAST, MOST = -0.49, 1.0
CLIP = {
    "clip": (
        "the clip range in place of the automatic one: how far, in lengths of the domain, it goes"
        f" beyond either end of the domain, {LEAST}..{MOST:g}; below 0 it ends inside"
    )
}


class ClippedAccumulatedPerturbation(AccumulatedPerturbation):
    """Report each value corrected for the noise of earlier reports, within a clip range chosen to
    fit the noise: perturb x + D clipped to [l, u], where D is the deviation accumulated since the
    block began.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`
    block : slots after which D starts at zero again, at absolute multiples of ``block``;
        ``published`` never resets
    clip : delta, a public number in -0.49..1, in lengths of the domain: l = -delta, u = 1 + delta
        in place of the automatic range

    Notes
    -----
    CAPP, Algorithm 2, with l = T, u = 1 - T, T = e_s - e_d (the paper's eq. 11 has the wrong sign;
    e_s and e_d are eq. 9 and 10 computed from the mechanism's own law at 1, for any mechanism). T
    is kept within the paper's recommended quarter of the domain: an unbiased mechanism has no e_s,
    and at a small epsilon its spread would ask for a range that is nearly all noise. Guarantee:
    that of `AccumulatedPerturbation`, whatever the range: it is public, a function of epsilon or a
    number that is given (``clip``), and the mechanism is given x + D clipped to it and scaled to
    [0, 1], one input among those that its epsilon holds for. So neither what a report loses nor
    which reports a value reaches depends on it; only errors do.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("capp", epsilon=1.0, window=10, domain=(0.0, 1.0))
    >>> m.block, m.guarantee.influence
    (5, 14)
    """

    name = "capp"
    parameters: ClassVar[dict[str, str]] = AccumulatedPerturbation.parameters | CLIP

    def __init__(self, *, clip: float | None = None, **parameters: Any) -> None:
        self.clip = None if clip is None else check_number(clip, "clip")
        if self.clip is not None and not LEAST <= self.clip <= MOST:
            raise ConfigurationError(f"clip must lie between {LEAST} and {MOST:g}")
        super().__init__(**parameters)

    @property
    def resolved(self) -> dict[str, Any]:
        """Without a clip range that is not given: noise is bound to what it was before there was
        such a parameter.
        """
        found = super().resolved
        if self.clip is None:
            del found["clip"]
        return found

    def _ends(self) -> tuple[float, float]:
        margin = self._margin() if self.clip is None else -self.clip
        return margin, 1 - margin

    def _margin(self) -> float:
        """T: the mean shortfall of the mechanism at 1 less its spread there (CAPP, eq. 9-11, its
        sign as in the authors' code), to 2**-20 so that no CPU rounds it otherwise.
        """
        law = Law.of(self.mechanism.law(1.0))
        margin = round((exp(1 - law.mean()) - 1 - law.variance() ** 0.5) * 2**20) / 2**20
        return float(min(max(margin, -WIDEST), WIDEST))
