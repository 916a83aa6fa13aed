"""FAST with the noise of CGM: each sample carries on some of the last one's noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field, Guarantee, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.cgm import reuse_ratios
from ldp_kafka.methods.chain import RATIO, Chain, check_bound
from ldp_kafka.methods.fast import Fast
from ldp_kafka.methods.kalman import Observed, Sampled, variance_units
from ldp_kafka.methods.noisy_mean import NoisyMean, followed
from ldp_kafka.methods.user_level import GaussianBudget

__all__ = ["FastCorrelated"]


class FastCorrelated(NoisyMean, Sampled):
    """Sample at most M slots with the noise of CGM, filter, and hold.

    Parameters
    ----------
    epsilon, delta : nats above 0 (words of 64 bits tell up to about 13 at delta 1e-5), and (0, 1):
        of all samples of a user
    differential_bound : C, the most that a stream moves from one sample to the next, a share of the
        domain's length in (0, 0.5)
    horizon, samples, drift, interval, domain, calibration, mechanism : see `Fast`; ``published``
        clips as CGM's eq. 23 does
    filtered : see `Fast`; false with an ``interval`` alone: else which users report in a slot would
        depend on noise that these reports carry on

    Notes
    -----
    FAST + CGM (section 7 of CGM): the samples are the stream that `CorrelatedGaussian` reports,
    with M reports in a life, whose noise the filter knows to carry on; one that took it for fresh
    each time, with the variance of eq. 15, would trust it far too much. Guarantee: that of
    `CorrelatedGaussian`: filter and controller see its reports only.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("fast_cgm", epsilon=1.0, delta=1e-5, horizon=100, domain=(0.0, 1.0))
    >>> m.samples, m.guarantee.epsilon
    (15, 1.0)
    >>> m.release(np.full(3, 0.5), lk.randomness.seeded(7)).round(2).tolist()
    [0.51, 0.51, 0.51]
    """

    name = "fast_cgm"
    default_mechanism = "gaussian"
    parameters: ClassVar[dict[str, str]] = {
        **Fast.parameters,
        "delta": "probability that the loss exceeds epsilon, in (0, 1)",
        "differential_bound": (
            "the most that a stream moves from one sample to the next, a share of the domain's"
            " length in (0, 0.5)"
        ),
    }

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        horizon: int,
        mechanism: Callable[..., Any],
        domain: tuple[float, float] | None = None,
        samples: int | None = None,
        differential_bound: float = 0.05,
        drift: float = 0.01,
        interval: int | None = None,
        filtered: bool = True,
        calibration: str = "sound",
        categories: int | None = None,
    ) -> None:
        self._shape(domain, categories, calibration)
        self.differential_bound = check_bound(differential_bound)
        most = self._plan(horizon, samples, drift, interval, filtered)
        if not self.filtered and self.interval is None:
            raise ConfigurationError(
                "interval must be given where filtered is false: else when a user reports depends"
                " on noise that its report carries on, and a crowd's mean is biased"
            )
        units = int(self.differential_bound * FIXED)
        self.chain = Chain(reuse_ratios(units / FIXED), units, self.calibration, 1)
        self.budget = GaussianBudget(
            epsilon,
            delta,
            horizon=most,
            refresh=None,
            sigma=None,
            widest=self.chain.widest,
            mechanism=mechanism,
        )
        self.epsilon, self.delta, self.mechanism = (
            self.budget.epsilon,
            self.budget.delta,
            self.budget.mechanism,
        )
        self._limit(most)
        self.ledger = self.budget.ledger()
        self._sigma = float(self.mechanism.sigma) * self.chain.widest
        self._fresh = np.array(
            [variance_units((length * self._sigma) ** 2) for length in self.chain.lengths]
        )

    @property
    def guarantee(self) -> Guarantee:
        """What truly holds of all samples of a user."""
        return Guarantee(
            "user",
            self.budget.total,
            self.delta,
            self.window,
            self.influence,
            "values",
            self.calibration,
        )

    @property
    def clipping(self) -> str:
        lo, hi = self.domain
        return followed(f"{self.differential_bound * (hi - lo):.4g}", self.calibration, "sample")

    @property
    def fields(self) -> dict[str, Field]:
        return {**super().fields, **self.chain.fields}

    def _observe(self, state: State, batch: Batch) -> Observed:
        last = state.columns["reported"][0][batch.rows]
        inputs, aimed = self.chain.aim(state, batch)
        answers = self.draw(state, batch, inputs, aimed)
        noisy = self.chain.report(state, batch, aimed, answers)
        k = np.minimum(aimed.turn, len(self._fresh) - 1)
        reuse: NDArray[np.int64] = self.chain.ratios[k]
        return Observed(
            noisy - np.rint(last * (reuse / RATIO)).astype(np.int64), self._fresh[k], reuse, noisy
        )

    def _worst(self) -> int:
        return int(self._fresh.max())

    @property
    def _every(self) -> int:
        return self.interval or 0

    @property
    def _clips(self) -> float:
        return (self.chain.bound or 0) / FIXED

    @cached_property
    def _noise(self) -> tuple[float, float]:
        found = [self._error(turn) for turn in range(1, self.samples + 1)]
        return min(found), max(found)

    def _error(self, turn: int) -> float:
        """Standard deviation of the noise of a user's n-th sample, in lengths of the domain."""
        known = self.chain.variances
        return self._sigma * sqrt(known[min(turn, len(known)) - 1])

    def course(self, reports: int) -> tuple[tuple[int, float], ...]:
        """In the slots of some samples of a life."""
        lo, hi = self.domain
        turns = sorted({1, min(2, self.samples), (self.samples + 1) // 2, self.samples})
        return tuple(
            (1 + (turn - 1) * self._every, (hi - lo) * self._error(turn) / sqrt(reports))
            for turn in turns
        )

    @cached_property
    def single_error(self) -> float:
        """Of the noisiest sample."""
        lo, hi = self.domain
        return (hi - lo) * self._noise[1]

    def _farthest(self) -> float:
        low, high = (float(edge * self.mechanism.scale) for edge in self.mechanism.index_range)
        # an estimate lies between the last one and w / (1 - r)
        return float((self.chain.fresh(low, high) / (1 - self.chain.ratios / RATIO)).max())

    def tables(self) -> list[int]:
        return [*super().tables(), *self.chain.tables()]
