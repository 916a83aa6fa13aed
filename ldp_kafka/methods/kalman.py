"""Samples of some slots, smoothed by a Kalman filter; a controller decides when the next is due."""

from __future__ import annotations

from functools import cached_property
from math import ceil
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import check_number
from ldp_kafka.mechanisms.elementary import natural_exp
from ldp_kafka.methods.base import FIXED, REFUSED, SENT, SILENT, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.chain import RATIO
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.unstated import MIXED_SLOTS
from ldp_kafka.methods.user_level import UserLevel

__all__ = ["Observed", "Sampled", "variance_units"]

SHARE = 0.15  # of the slots of a horizon are sampled
GAINS = (0.9, 0.1, 0.0)  # of the controller: proportional, integral, derivative
PAST = 5  # feedback errors in the integral
GOAL = 0.1  # feedback error at which the interval is kept, in lengths of the domain
STRIDE = 1.0  # slots by which the interval may grow at a time
TICK = 2**16  # units of a slot in which the interval is kept
GRID = 2.0**-16  # of a release, in lengths of the domain
# variance of a value of which nothing is known: spread evenly over the domain
UNKNOWN = FIXED // 12


class Observed(NamedTuple):
    """Samples of some rows."""

    new: NDArray[np.int64]
    """(n,) the noisy value less what it carries on of the last one, in units of 2**-32 of the
    domain.
    """
    noise: NDArray[np.int64]
    """(n,) variance of the fresh noise in it, in units of 2**-32 of the domain's square."""
    reuse: NDArray[np.int64]
    """(n,) share of the last noisy value that was carried on, in units of 2**-24."""
    noisy: NDArray[np.int64]
    """(n,) the noisy value itself, in the units of ``new``."""

    def __repr__(self) -> str:
        return f"Observed({len(self.new)} rows)"  # never a value


class Sampled(UserLevel):
    """Samples some slots, filters the noisy samples, and lets what was released last stand in the
    others.

    Notes
    -----
    A Kalman filter of a random walk: between samples the estimate stands and its variance P grows
    by Q = ``drift``^2 a slot; a sample z of variance R moves it by K (z - estimate), K = P / (P +
    R), and P becomes (1 - K) P. Before the first sample the estimate is the domain's midpoint, P
    that of the uniform law. R is the mechanism's, so the gain is public.

    Where a sample's noise carries on a share r of the last one's, what is new in it is w = z - r
    z_last, of mean (1 - r) x where x has not moved, with fresh noise of variance R: then K = ((1 -
    r) P + Q) / S, S = (1 - r)^2 P + Q + R, P becomes P + Q - K^2 S, and the estimate moves by K (w
    - (1 - r) estimate). With r = 0 that is the filter above.

    The next interval is I' = max(1, I + theta (1 - e^((D - goal) / goal))), where D = Cp E_n + Ci
    mean(last E) + Cd (E_n - E_(n-1)) / (k_n - k_(n-1)) and the feedback error E is how far the
    sample moved the estimate, in lengths of the domain (the paper divides by the estimate, which
    has no meaning where the domain has a zero inside). It is a function of what was released: which
    slots are sampled tells nothing more. Everything is kept in integers, by single operations of
    IEEE floats.

    A filtered value is drawn to those before it, by how much nobody knows who does not know how the
    stream has moved: a crowd's mean of them has no error. With ``filtered`` false what is reported
    is the noisy samples themselves; the filter then decides when the next is due, and nothing else.
    """

    pauses = True
    statistics: tuple[str, ...] = ("per_user",)
    untold: ClassVar[dict[str, str]] = {
        "mean": "a filter draws each to earlier samples (`filtered: false` leaves it out)"
    }
    holds = True
    drift: float
    interval: int | None

    def _plan(
        self,
        horizon: int,
        samples: int | None,
        drift: float,
        interval: int | None,
        filtered: bool,
    ) -> int:
        """Take in when to sample, and what to report of a sample; how often at most."""
        if not isinstance(filtered, bool | np.bool):
            raise TypeError("filtered must be true or false")
        self.filtered = bool(filtered)
        if not self.filtered:
            self.statistics = ("per_user", "mean")
        self.horizon = check_slots(horizon, "horizon")
        self.samples = (
            max(1, round(SHARE * self.horizon))
            if samples is None
            else check_slots(samples, "samples")
        )
        if not self.samples <= self.horizon:
            raise ConfigurationError("samples must not be more than the horizon")
        self.drift = check_number(drift, "drift")
        if not 2.0**-14 <= self.drift <= 1:
            raise ConfigurationError("drift must lie between 2**-14 and 1")
        self.interval = None if interval is None else check_slots(interval, "interval")
        self._growth = round(self.drift * self.drift * FIXED)
        return self.samples

    @property
    def resolved(self) -> dict[str, Any]:
        """Without ``filtered`` where it is true: noise is bound to what it was before there was
        such a parameter.
        """
        found = super().resolved
        if self.filtered:
            del found["filtered"]
        return found

    @property
    def fields(self) -> dict[str, Field]:
        return {
            **super().fields,
            "estimate": Field("i8", initial=FIXED // 2),
            "spread": Field("i8", initial=UNKNOWN),
            "due": Field("i8", initial=NEVER),
            "sampled": Field("i8", initial=NEVER),
            "interval": Field("i8", initial=TICK),
            "errors": Field("i8", PAST),
        }

    def _observe(self, state: State, batch: Batch) -> Observed:
        """One noisy sample a row."""
        raise NotImplementedError

    def _worst(self) -> int:
        """The largest variance of a sample, in units of 2**-32."""
        raise NotImplementedError

    def _farthest(self) -> float:
        """How far from 0 a noisy value can lie, in lengths of the domain."""
        raise NotImplementedError

    def report(self, state: State, batch: Batch) -> Step:
        due = state.columns["due"][batch.rows] <= batch.slot
        allowed = self.ledger.charge(state, batch.rows, batch.slot, due.astype(np.int32))
        sent = due & allowed
        answers = np.zeros(len(batch.rows))
        reported = self._sample(state, batch.part(sent))
        answers[sent] = np.rint(reported / (FIXED * GRID)) * GRID
        return Step(
            answers, np.where(allowed, np.where(due, SENT, SILENT), REFUSED).astype(np.uint8)
        )

    def _sample(self, state: State, batch: Batch) -> NDArray[np.int64]:
        """What is reported: the new estimates, or the samples; updates the rows."""
        new, noise, reuse, noisy = self._observe(state, batch)
        columns, rows, slot = state.columns, batch.rows, batch.slot
        before, spread, sampled = (
            columns[name][rows] for name in ("estimate", "spread", "sampled")
        )
        gap = np.where(sampled == NEVER, 0, slot - sampled)
        drifted, kept = np.minimum(gap, 2**20) * self._growth, 1 - reuse / RATIO
        total = kept * kept * spread
        total += drifted + noise
        gain = (kept * spread + drifted) / total
        moved = np.rint(gain * (new - kept * before)).astype(np.int64)
        columns["estimate"][rows] = before + moved
        columns["spread"][rows] = np.maximum(
            spread + drifted - np.rint(gain * gain * total).astype(np.int64), 1
        )
        columns["sampled"][rows] = slot
        columns["due"][rows] = slot + self._wait(state, rows, np.abs(moved), gap)
        estimate: NDArray[np.int64] = columns["estimate"][rows]
        return estimate if self.filtered else noisy

    def _wait(
        self, state: State, rows: NDArray[np.intp], moved: NDArray[np.int64], gap: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Slots until the next sample: of outputs alone."""
        if self.interval is not None:
            return np.full(len(rows), self.interval)
        errors, intervals = state.columns["errors"], state.columns["interval"]
        past = errors[:, rows]
        latest = past[0].copy()
        past[1:] = past[:-1].copy()
        past[0] = moved
        errors[:, rows] = past
        proportional, integral, derivative = GAINS
        control = proportional * moved + integral * (past.sum(0) / PAST)
        control += derivative * ((moved - latest) / np.maximum(gap, 1))
        growth = STRIDE * (1 - natural_exp(control / (GOAL * FIXED) - 1))
        interval = np.clip(
            intervals[rows] + np.rint(growth * TICK).astype(np.int64), TICK, 2**16 * TICK
        )
        intervals[rows] = interval
        return np.asarray((interval + TICK // 2) // TICK)

    @property
    def scale(self) -> float:
        return GRID

    @cached_property
    def index_range(self) -> tuple[int, int]:
        most = ceil(max(self._farthest(), 1.0) * (1 + 2**-20) / GRID) + 1
        return -most, most

    @property
    def single_reason(self) -> str | None:
        """Why it states no error: an estimate is made of samples of several slots, and holds until
        the next one. A sample is of its own slot.
        """
        return MIXED_SLOTS if self.filtered else None

    @cached_property
    def reliability(self) -> float:
        return 1 / (1 + 12 * self._worst() / FIXED)

    def tables(self) -> list[int]:
        return [
            self.window,
            self.horizon,
            self._growth,
            self.interval or 0,
            self._worst(),
            *self.mechanism.tables(),
        ]


def variance_units(variance: float) -> int:
    """A variance in units of 2**-32, so coarse that no CPU rounds it otherwise."""
    if not variance < 2.0**29:
        raise ConfigurationError("epsilon or delta is too small for so many samples")
    return max(round(variance * 2**16) * 2**16, 1)
