"""FAST: report some slots with noise, smooth these samples by a Kalman filter, and sample more
often where the stream changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ldp_kafka.accounting import MICRO, Guarantee, LifetimeLedger, State, micro
from ldp_kafka.mechanisms.base import Law, check_epsilon
from ldp_kafka.methods.base import FIXED, part_of
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.inversion import Inversion, law_ranges
from ldp_kafka.methods.kalman import Observed, Sampled, variance_units
from ldp_kafka.methods.made import checked_factory

__all__ = ["Fast"]


class Fast(Sampled):
    """Sample at most M slots with Laplace noise at epsilon / M, filter, and hold.

    Parameters
    ----------
    epsilon : nats, of all samples of a user
    horizon : slots that the samples are meant for, 1..65536: sets how many there are, and nothing
        else; a user who goes on after it is sampled until none is left
    samples : M, the most samples of a user, 1..horizon; default: 15 % of the horizon, at least one
    drift : how far a stream moves in a slot, as a standard deviation in lengths of the domain,
        2**-14..1: the filter's idea of it
    interval : slots between samples; default: chosen by the controller as the stream moves
    filtered : whether what the filter makes of a sample is reported, or the noisy sample itself, of
        which a crowd's mean has an error
    domain, calibration, mechanism : see `SlotMethod`; both calibrations are the same

    Notes
    -----
    FAST of Fan and Xiong (CIKM 2012; TKDE 26, 2014), there of a curator, here of each user's
    device; `Sampled` has filter and controller. Guarantee: at most M reports in a user's life, each
    a call of the mechanism at epsilon / M on one value; when they are made is a function of earlier
    reports. Any two streams: M (epsilon / M) = epsilon (adaptive composition), delta 0.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("fast", epsilon=400.0, horizon=20, samples=10, interval=2, domain=(0.0, 10.0))
    >>> m.release(np.repeat([2.0, 8.0], 4), lk.randomness.seeded(7)).round(1).tolist()
    [2.4, 2.4, 2.2, 2.2, 4.6, 4.6, 6.0, 6.0]
    """

    name = "fast"
    default_mechanism = "laplace"
    parameters: ClassVar[dict[str, str]] = {
        "horizon": "slots that the samples of a user are meant for",
        "samples": (
            "the most samples of a user, after which it is silent; default: 15 % of the horizon"
        ),
        "drift": (
            "how far a stream moves in a slot, a standard deviation as a share of the domain's"
            " length; default: 0.01"
        ),
        "interval": "slots between samples; default: as the stream moves",
        "filtered": "report what a filter makes of the samples, or the samples; default: true",
    }

    def __init__(
        self,
        *,
        epsilon: float,
        horizon: int,
        mechanism: Callable[..., Any],
        domain: tuple[float, float] | None = None,
        samples: int | None = None,
        drift: float = 0.01,
        interval: int | None = None,
        filtered: bool = True,
        calibration: str = "sound",
        categories: int | None = None,
    ) -> None:
        self._shape(domain, categories, calibration)
        self.epsilon = check_epsilon(epsilon)
        make = checked_factory(mechanism, "mechanism")
        most = self._plan(horizon, samples, drift, interval, filtered)
        self._limit(most)
        budget = micro(self.epsilon)
        part = part_of(budget, most)
        self.mechanism = make(part / MICRO, (0.0, 1.0))
        self.ledger = LifetimeLedger(most, budget, lambda n: n * part)
        _ = self._variance  # refuses what does not fit

    @property
    def guarantee(self) -> Guarantee:
        """Pure, over all samples of a user."""
        return Guarantee(
            "user", self.epsilon, 0.0, self.window, self.influence, "values", self.calibration
        )

    def _observe(self, state: State, batch: Batch) -> Observed:
        answers = self.draw(state, batch, batch.values / FIXED, (batch.values,))
        noisy, count = np.rint(answers * FIXED).astype(np.int64), len(batch.rows)
        return Observed(noisy, np.full(count, self._variance), np.zeros(count, np.int64), noisy)

    @cached_property
    def _variance(self) -> int:
        return variance_units(Law.of(self.mechanism.law(0.5)).variance())

    def _worst(self) -> int:
        return self._variance

    @cached_property
    def inversion(self) -> Inversion | None:
        """Of a sample, by its law."""
        return None if self.filtered else law_ranges(self.mechanism, self.in_lengths)

    def _farthest(self) -> float:
        return float(max(abs(edge) for edge in self.mechanism.index_range) * self.mechanism.scale)
