"""CGM without a delta: Laplace noise that is reused from report to report."""

from __future__ import annotations

from typing import ClassVar

from ldp_kafka.methods.cgm import Correlated
from ldp_kafka.methods.laplace_stream import LaplaceStream

__all__ = ["CorrelatedLaplace"]


class CorrelatedLaplace(Correlated, LaplaceStream):
    """Report each value with Laplace noise that carries on that of the last report: `cgm` for
    epsilon alone.

    Parameters
    ----------
    epsilon : nats above 0, below 2147: of all reports of a user; at least 1e-4 a report
    horizon, refresh, sigma, domain : see `GaussianDirect`
    differential_bound, lag, change : see `CorrelatedGaussian`
    calibration : ``published`` clips as CGM's eq. 23 does, with no more noise; the guarantee states
        what then holds
    mechanism : factory ``(epsilon, domain) -> Mechanism``: ``laplace``

    Notes
    -----
    CGM, Algorithm 3, with Laplace noise in place of normal noise: y_i = x~_i + n_i, n_i = r_i
    n_(i-1) + Lap(V_i l / epsilon), V_i = (1 - r_i) + 2 C r_i for l reports, r_i as in
    `CorrelatedGaussian`. Variances of one report's noise b_1 = l / epsilon follow from r and V
    alone: (4C - 4C^2) / (1 - (1 - 2C)^(2i)) 2 b_1^2 of report i (eq. 15 with that of Laplace
    noise).

    Guarantee: y_i - r_i y_(i-1) is one call of the mechanism on x~_i - r_i x~_(i-1) in lengths of
    V_i. That input is a function of the stream alone. For two streams whose clipped values lie D_i
    apart it differs by |D_i - r_i D_(i-1)| = |(1 - r_i) D_i + r_i (D_i - D_(i-1))| <= (1 - r_i) + 2
    C r_i = V_i, since |D_i| <= 1 and both streams move by C at most from report to report. So each
    call is on one length of the mechanism's domain, which holds its input in it in any case, and
    loses epsilon / l at most, whatever the outputs before were; y is a function of the l calls, and
    then there is silence: epsilon for any two streams and any set of outputs, delta 0
    (`LaplaceBudget`). A missing slot changes nothing in this, as in `CorrelatedGaussian`, nor does
    a ``lag``: each call has one chain's clipped values.

    Less noise would seem to do (V_i without 2 C r_i), since two streams cannot come apart in every
    report. That is computed for some C and l, and not proved: it is not used.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.method("cgm_pure", epsilon=1.0, horizon=20, domain=(0.0, 1.0))
    >>> round(m.variance(20) / m.variance(1), 3), round(m.variance(20))
    (0.193, 154)
    >>> m.release(np.full(3, 0.5), lk.randomness.seeded(7)).round(2).tolist()
    [22.0, -19.5, -27.94]
    >>> m.guarantee.describe()[:73]
    'user, epsilon 1 over the first 20 reports of a user, after which it is si'
    """

    name = "cgm_pure"
    parameters: ClassVar[dict[str, str]] = {**LaplaceStream.parameters, **Correlated.parameters}
