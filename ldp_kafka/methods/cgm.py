"""CGM: normal noise that is reused from report to report, because streams change slowly."""

from __future__ import annotations

from functools import cached_property
from math import exp, log
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Estimate, Z
from ldp_kafka.mechanisms.elementary import natural_log
from ldp_kafka.mechanisms.intervals import quantile
from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.chain import RATIO, Chain, check_bound
from ldp_kafka.methods.chain_stream import ChainStream
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.gaussian_stream import GaussianStream
from ldp_kafka.methods.noisy_mean import followed
from ldp_kafka.methods.user_level import check_positive

__all__ = ["Correlated", "CorrelatedGaussian", "reuse_ratios"]

STILL = 2**16  # reports after which ratios are held


def reuse_ratios(bound: float) -> list[int]:
    """r_1 = 0, r_2, ... in units of 2**-24 for a bound of C: CGM, Algorithm 3, lines 6 and 9, until
    they no longer change; only + - * / of floats, the same on every CPU.

    Examples
    --------
    >>> ratios = [round(r / 2**24, 4) for r in reuse_ratios(0.25)]
    >>> ratios[:4], ratios[-1]
    ([0.0, 0.4, 0.4762, 0.4941], 0.5)
    """
    keep, v, ratios = 1 - 2 * bound, 1.0, [0]
    while len(ratios) < STILL:
        below = keep * keep + v
        ratio, v = round(keep / below * RATIO), v / below
        if ratio == ratios[-1]:
            break
        ratios.append(ratio)
    return ratios


class Correlated(ChainStream):
    """CGM with noise of any law: `CorrelatedGaussian` and `CorrelatedLaplace` say which."""

    parameters: ClassVar[dict[str, str]] = {
        **ChainStream.parameters,
        "differential_bound": (
            "the most that a stream moves from one report to the next, a share of the domain's"
            " length in (0, 0.5), or a relative change (see change)"
        ),
        "lag": "a value is close to the one of so many slots before; default: 1",
        "change": "additive or multiplicative: what differential_bound bounds; default: additive",
    }

    def __init__(
        self,
        *,
        differential_bound: float = 0.05,
        lag: int = 1,
        change: str = "additive",
        **parameters: Any,
    ) -> None:
        if change not in ("additive", "multiplicative"):
            raise ConfigurationError("change must be 'additive' or 'multiplicative'")
        self.lag, self.change, self.differential_bound = (
            check_slots(lag, "lag"),
            change,
            differential_bound,
        )
        super().__init__(**parameters)

    def _chain(self) -> Chain:
        bound = self.differential_bound
        if self.change == "multiplicative":
            lo, hi = self.domain
            if not lo > 0:
                raise ConfigurationError("domain must be above 0 where changes are multiplicative")
            bound = check_positive(bound, "differential_bound")
            self._logs = (
                float(natural_log(np.array([lo]))[0]),
                float(natural_log(np.array([hi]))[0]),
            )
            bound = log(1 + bound) / (self._logs[1] - self._logs[0])
        units = int(check_bound(bound) * FIXED)
        return Chain(reuse_ratios(units / FIXED), units, self.calibration, self.lag)

    def bound(self, values: NDArray[Any]) -> NDArray[np.int64]:
        if self.change == "additive":
            return super().bound(values)
        low, high = self._logs
        numbers = np.clip(self.values.checked(values), *self.domain)
        shares = (natural_log(numbers) - low) / (high - low)
        return (np.clip(shares, 0.0, 1.0) * FIXED).astype(np.int64)

    def released(self, answers: NDArray[Any]) -> NDArray[Any]:
        """On the scale of the values; where changes are multiplicative that is e to the power of
        what was reported, which is not unbiased, held within 2**1000 of 1.
        """
        if self.change == "additive":
            return super().released(answers)
        low, high = self._logs
        return np.exp(np.clip(low + answers * (high - low), -693.0, 693.0))

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        """The mean of the clipped values behind the reports; where changes are multiplicative, the
        geometric mean, with the interval that e makes of that of the logarithms' mean.
        """
        estimate = super().crowd(support)
        if self.change == "additive" or not estimate.reports:
            return estimate
        lo, hi = self.domain
        share, (low, high) = (estimate.value - lo) / (hi - lo), self._logs
        value = exp(min(max(low + share * (high - low), -693.0), 693.0))
        away = min(Z * estimate.standard_error / (hi - lo) * (high - low), 693.0)
        ends = value / exp(away), min(value * exp(away), 2.0**1000)
        low, high = (min(max(end, lo), hi) for end in ends)
        return Estimate(value, (ends[1] - ends[0]) / (2 * Z), estimate.reports, (low, high))

    def single_limits(
        self, released: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Where changes are multiplicative, as of a geometric mean."""
        if self.change == "additive":
            return super().single_limits(released)
        (lo, hi), (low, high) = self.domain, self._logs
        half = quantile(self.kurtosis, 1) * self._noise[1]
        factor = exp(min(half * (high - low), 693.0))
        inside = np.clip(released, lo, hi)
        return np.maximum(inside / factor, lo), np.minimum(inside * factor, hi)

    @cached_property
    def single_error(self) -> float:
        """Where changes are multiplicative, that of a power at the domain's upper end."""
        if self.change == "additive":
            return float(super().single_error)
        return self.domain[1] * self._power_error(self._logs[1] - self._logs[0])

    @property
    def clipping(self) -> str:
        if self.change == "additive":
            return super().clipping
        of = followed(f"a factor of {1 + self.differential_bound:.4g}", self.calibration)
        return f"{of}; a mean of users is their geometric mean"

    @property
    def _unit(self) -> float:
        if self.change == "additive":
            return super()._unit
        return (self._logs[1] - self._logs[0]) * self.domain[1]

    def tables(self) -> list[int]:
        return [*super().tables(), int(self.change == "multiplicative")]


class CorrelatedGaussian(Correlated, GaussianStream):
    """Report each value with noise that carries on that of the last report, so that less has to be
    added.

    Parameters
    ----------
    epsilon, delta, horizon, refresh, sigma, domain, mechanism : see `GaussianDirect`
    differential_bound : C, the most that a stream moves from one report to the next, a share of the
        domain's length in (0, 0.5); faster changes are followed at that speed. Where ``change`` is
        ``multiplicative``: the largest relative change, 0.1 for a factor of 1.1 up or down; its
        logarithm must be below half of the domain's
    lag : a value is compared with the one of ``lag`` slots before (7 for days of the week),
        1..65536: as many chains, interleaved
    change : ``additive`` or ``multiplicative``: the logarithm of the values is what is reported,
        and the domain must be above 0
    calibration : ``published`` clips as eq. 23 does, with the noise that the paper thinks enough;
        the guarantee states what then holds

    Notes
    -----
    CGM, Algorithm 3: y_i = x~_i + n_i, n_i = r_i n_(i-1) + N(0, V_i^2 sigma_1^2), V_i = (1 - r_i) +
    2 C r_i, r_i = (1 - 2C) / ((1 - 2C)^2 + v_(i-1)). The noise of report i of a chain has variance
    (4C - 4C^2) / (1 - (1 - 2C)^(2i)) sigma_1^2 (eq. 15): 0.19 of the baseline's at C = 0.05.

    Guarantee: y_i - r_i y_(i-1) is a call of the Gaussian mechanism on x~_i - r_i x~_(i-1), which
    for any two streams differs by at most (1 - r_i) + 2 C r_i = V_i, since the clipped values are
    within C of each other. In lengths of that the sensitivity of each of the l calls is 1 and the
    noise sigma_1, and y is a function of the calls: `GaussianBudget`. A missing slot changes
    nothing in this: the next value is clipped around the last one that was reported. The paper's
    own clipping (eq. 23, around the last raw value) leaves steps of nearly 1 - 2 C, which its noise
    does not cover.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("cgm", epsilon=1.0, delta=1e-5, horizon=100, domain=(0.0, 1.0))
    >>> round(m.variance(100) / m.variance(1), 3)
    0.19
    >>> m.release(np.full(3, 0.5), lk.randomness.seeded(7)).round(2).tolist()
    [21.0, -27.75, -36.62]
    >>> m.guarantee.describe()[:87]
    'user, epsilon 1 and delta 1e-05 over the first 100 reports of a user, after which it is'
    """

    name = "cgm"
    parameters: ClassVar[dict[str, str]] = {**GaussianStream.parameters, **Correlated.parameters}
