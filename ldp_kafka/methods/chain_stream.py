"""A noisy report in every slot, with fresh noise or with noise reused from the slot before: what
CGM and its baselines share.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import ceil, frexp, log2, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field, Guarantee, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.base import FIXED, REFUSED, SENT, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.chain import Aimed, Chain
from ldp_kafka.methods.noisy_mean import NoisyMean, followed
from ldp_kafka.methods.user_level import LifeBudget, UserLevel

__all__ = ["ChainStream"]

# least standard deviation of a release, in units of its grid: the grid then adds less than 1e-5 to
# a variance
STEPS = 2**7


class ChainStream(NoisyMean, UserLevel):
    """Reports of a `Chain` over noise that is the same whatever the value, one in every slot.

    Guarantee: the budget has the proof; all that it needs is that each report is a function of
    earlier reports and of one call of the mechanism, which clamps its input to the unit domain.
    """

    _dimension: int | None = None
    chain: Chain
    """The recursion."""
    budget: LifeBudget
    """What a user's reports lose together."""
    parameters: ClassVar[dict[str, str]] = {
        "horizon": "reports in a user's life, after which it is silent",
        "refresh": (
            "reports after which the budget is granted anew; the guarantee states what the whole"
            " horizon loses; default: never"
        ),
        "sigma": (
            "standard deviation of the first report's noise, a share of the domain's length;"
            " reports end when the budget is used up; instead of horizon"
        ),
    }

    def _chain(self) -> Chain:
        """The recursion, from public parameters alone."""
        raise NotImplementedError

    def _live(self, budget: LifeBudget) -> None:
        """Take in the budget, of the mechanism that it has made."""
        self.budget = budget
        self.epsilon, self.delta, self.mechanism = budget.epsilon, budget.delta, budget.mechanism
        self.horizon, self.refresh = budget.horizon, budget.refresh
        self._limit(self.horizon)
        self.ledger = budget.ledger()
        low, high = (edge * self.mechanism.scale for edge in self.mechanism.index_range)
        # for vectors: of a coordinate
        self._reach = self.chain.reach(float(low), float(high), self.horizon)
        if not self._reach < 2.0**30:
            raise ConfigurationError(
                f"horizon is too long, or {self.budget.given} too small: reports would not fit into"
                " 64 bits"
            )

    @property
    def sigma(self) -> float:
        """Standard deviation of the first report's noise, a share of the domain's length:
        sigma_1.
        """
        return self.budget.sigma * self.chain.widest

    @property
    def guarantee(self) -> Guarantee:
        """What truly holds of all reports of a user; for ``published`` and with ``refresh`` that is
        more than the epsilon given.
        """
        return Guarantee(
            "user",
            self.budget.total,
            self.delta,
            self.horizon,
            self.influence,
            "values",
            self.calibration,
        )

    @property
    def fields(self) -> dict[str, Field]:
        return {**super().fields, **self.chain.fields}

    def variance(self, report: int) -> float:
        """Of a user's report number ``report`` (from 1) in its chain, in squared lengths of the
        domain.
        """
        return self.chain.variances[min(report, len(self.chain.variances)) - 1] * self.sigma**2

    @cached_property
    def scale(self) -> float:
        """Every report is a whole multiple of it: a power of two that is small against the least
        noise, the mechanism's own where that is.
        """
        least: float = min(self.chain.variances) ** 0.5 * self.sigma
        return min(float(2.0 ** max(frexp(least / STEPS)[1] - 1, -32)), float(self.mechanism.scale))

    @cached_property
    def index_range(self) -> tuple[int, int]:
        most = ceil(self._reach / self.scale) + 1
        return -most, most

    def report(self, state: State, batch: Batch) -> Step:
        allowed = self.ledger.charge(state, batch.rows, batch.slot, 1)
        answers, paid = self._nothing(len(batch.rows)), batch.part(allowed)
        inputs, aimed = self.chain.aim(state, paid)
        fresh = self.draw(state, paid, inputs, self._bind(aimed))
        reported = self.chain.report(state, paid, aimed, fresh)
        answers[allowed] = np.rint(reported / (FIXED * self.scale)) * self.scale
        return Step(answers, np.where(allowed, SENT, REFUSED).astype(np.uint8))

    def _nothing(self, n: int) -> NDArray[np.float64]:
        """Answers of ``n`` rows before anything is sent."""
        return np.zeros(n)

    def _bind(self, aimed: Aimed) -> Sequence[NDArray[np.int64]]:
        """The integers that a draw is bound to, a column each."""
        return aimed

    def course(self, reports: int) -> tuple[tuple[int, float], ...]:
        least, most = self._noise
        if least == most:
            return ()
        slots = sorted({1, 2, (self.horizon + 1) // 2, self.horizon})
        return tuple((slot, self._error(slot) / sqrt(reports)) for slot in slots)

    def _error(self, slot: int) -> float:
        """Root mean square error of a user's report in the n-th slot of its life, on the domain's
        scale, at the worst value, which was not clipped.
        """
        return self._unit * sqrt(self.variance((slot - 1) // self.chain.lag + 1))

    @property
    def _unit(self) -> float:
        """What a release is off by, to first order, for noise of one length of the domain."""
        lo, hi = self.domain
        return hi - lo

    @property
    def _every(self) -> int:
        """With a ``lag`` a crowd that moves is not told."""
        return 1 if self.chain.lag == 1 else 0

    @property
    def _clips(self) -> float:
        bound = self.chain.bound
        return 0.0 if bound is None else bound / FIXED

    @property
    def clipping(self) -> str:
        lo, hi = self.domain
        return followed(f"{self._clips * (hi - lo):.4g}", self.calibration) if self._clips else ""

    @cached_property
    def single_error(self) -> float:
        """Root mean square error of the noisiest release of a value that was not clipped, on the
        domain's scale.
        """
        lo, hi = self.domain
        return (hi - lo) * sqrt(max(self._variances))

    def _power_error(self, length: float) -> float:
        """Root mean square of e^(noise) - 1, where one length of the domain is so much in the
        power: of the noisiest report.
        """
        raise NotImplementedError

    @cached_property
    def reliability(self) -> float:
        return 1 / (1 + 12 * max(self._variances))

    @cached_property
    def _variances(self) -> list[float]:
        """Of all reports of a life that differ, and of the last one."""
        differing = min(self.horizon, len(self.chain.variances))
        return [self.variance(report) for report in (*range(1, differing + 1), self.horizon)]

    @cached_property
    def _noise(self) -> tuple[float, float]:
        return sqrt(min(self._variances)), sqrt(max(self._variances))

    def tables(self) -> list[int]:
        return [
            self.horizon,
            self.refresh,
            *self.chain.tables(),
            round(-log2(self.scale)),
            *self.mechanism.tables(),
        ]
