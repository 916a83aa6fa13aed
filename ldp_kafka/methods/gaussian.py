"""The baselines of CGM: normal noise on each value, or on how much it differs from the last."""

from __future__ import annotations

from typing import Any, ClassVar

from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.chain import RATIO, Chain, check_bound
from ldp_kafka.methods.gaussian_stream import GaussianStream

__all__ = ["GaussianDifferential", "GaussianDirect"]


class GaussianDirect(GaussianStream):
    """Perturb each value by itself, by normal noise.

    Parameters
    ----------
    epsilon, delta : nats above 0 (words of 64 bits tell up to about 13 at delta 1e-5), and (0, 1):
        of all reports of a user
    horizon : reports in a user's life, 1..65536
    refresh : reports after which epsilon and delta are granted anew, 1..horizon; default: never.
        The guarantee states what the horizon loses in all
    sigma : standard deviation of one report's noise, a share of the domain's length, instead of
        ``horizon``: reports then end when epsilon and delta are used up
    domain, calibration, mechanism : see `SlotMethod`; both calibrations are the same

    Notes
    -----
    CGM, Algorithm 1: the baseline. sigma = sqrt(horizon) / mu where mu is the loss that epsilon and
    delta allow (eq. 7). Guarantee: see `GaussianBudget`.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.method("gaussian_direct", epsilon=1.0, delta=1e-5, horizon=100, domain=(0.0, 1.0))
    >>> round(m.sigma, 2), m.release(np.full(3, 0.5), lk.randomness.seeded(7)).round(2).tolist()
    (37.31, [21.0, 3.75, 2.75])
    """

    name = "gaussian_direct"

    def _chain(self) -> Chain:
        return Chain([0], None, "sound", 1)


class GaussianDifferential(GaussianStream):
    """Perturb by how much each value differs from the last, and add up.

    Parameters
    ----------
    epsilon, delta, horizon, refresh, sigma, domain, calibration, mechanism : see `GaussianDirect`
    differential_bound : C, the most that a stream moves from one report to the next, a share of the
        domain's length in (0, 0.5); faster changes are followed at that speed
    calibration : ``published`` clips as CGM's eq. 23 does, with the noise that it thinks enough;
        the guarantee states what then holds

    Notes
    -----
    CGM, Algorithm 2: a chain with r = 1 and V = 2 C. Never better than `GaussianDirect` over a long
    stream: the noise adds up, sigma^2 (1 + 4 C^2 (i - 1)) in report i (the text before eq. 8).
    Guarantee: see `GaussianBudget`.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> budget = {"epsilon": 1.0, "delta": 1e-5, "horizon": 100}
    >>> m = lk.method("gaussian_differential", domain=(0.0, 1.0), **budget)
    >>> round(m.variance(51) / m.variance(1), 3)
    1.5
    >>> m.release(np.full(3, 0.5), lk.randomness.seeded(7)).round(1).tolist()
    [21.0, 14.0, 9.5]
    """

    name = "gaussian_differential"
    parameters: ClassVar[dict[str, str]] = {
        **GaussianStream.parameters,
        "differential_bound": (
            "the most that a stream moves from one report to the next, a share of the domain's"
            " length in (0, 0.5)"
        ),
    }

    def __init__(self, *, differential_bound: float = 0.05, **parameters: Any) -> None:
        self.differential_bound = check_bound(differential_bound)
        super().__init__(**parameters)

    def _chain(self) -> Chain:
        return Chain([0, RATIO], int(self.differential_bound * FIXED), self.calibration, 1)

    def variance(self, report: int) -> float:
        return (1 + (report - 1) * (self.chain.variances[1] - 1)) * self.sigma**2
