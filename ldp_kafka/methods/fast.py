"""FAST: report some slots with noise, smooth these samples by a Kalman filter, and sample more
often where the stream changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import ceil
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, NEVER, Field, Guarantee, LifetimeLedger, State, micro
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Law, check_epsilon, check_number
from ldp_kafka.methods.base import FIXED, REFUSED, SENT, SILENT, Step, check_factory, check_slots
from ldp_kafka.methods.cgm import reuse_ratios
from ldp_kafka.methods.gaussian import RATIO, Chain, check_bound
from ldp_kafka.methods.user_level import GaussianBudget, UserLevel
from ldp_kafka.randomness import Randomness

__all__ = ["Fast", "FastCorrelated", "Sampled", "natural_exp"]

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
    """

    # a filtered value is drawn to the ones before it: no mean of a crowd
    statistics = ("per_user",)
    holds = True
    drift: float
    interval: int | None

    def _plan(self, horizon: int, samples: int | None, drift: float, interval: int | None) -> int:
        """Take in when to sample; how often at most."""
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

    def _observe(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        values: NDArray[np.int64],
        randomness: Randomness,
    ) -> Observed:
        """One noisy sample a row."""
        raise NotImplementedError

    def _noise(self) -> int:
        """The largest variance of a sample, in units of 2**-32."""
        raise NotImplementedError

    def _farthest(self) -> float:
        """How far from 0 a noisy value can lie, in lengths of the domain."""
        raise NotImplementedError

    def _step(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        values: NDArray[np.int64],
        randomness: Randomness,
    ) -> Step:
        due = state.columns["due"].take(rows) <= slot
        allowed = self.ledger.charge(state, rows, slot, due.astype(np.int32))
        sent = due & allowed
        answers = np.zeros(len(rows))
        answers[sent] = (
            np.rint(
                self._sample(state, rows[sent], slot, values[sent], randomness) / (FIXED * GRID)
            )
            * GRID
        )
        return Step(
            answers, np.where(allowed, np.where(due, SENT, SILENT), REFUSED).astype(np.uint8)
        )

    def _sample(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        values: NDArray[np.int64],
        randomness: Randomness,
    ) -> NDArray[np.int64]:
        """The new estimates; updates the rows."""
        new, noise, reuse = self._observe(state, rows, slot, values, randomness)
        columns = state.columns
        before, spread, sampled = (
            columns[name].take(rows) for name in ("estimate", "spread", "sampled")
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
        estimate: NDArray[np.int64] = columns["estimate"].take(rows)
        return estimate

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
            intervals.take(rows) + np.rint(growth * TICK).astype(np.int64), TICK, 2**16 * TICK
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

    @cached_property
    def single_error(self) -> float:
        """Root mean square error of the first release at the worst value, on the domain's scale."""
        lo, hi = self.domain
        noise = self._noise() / FIXED
        gain = 1 / (1 + 12 * noise)
        return float((hi - lo) * ((1 - gain) ** 2 / 4 + gain * gain * noise) ** 0.5)

    @cached_property
    def reliability(self) -> float:
        return 1 / (1 + 12 * self._noise() / FIXED)

    def tables(self) -> list[int]:
        return [
            self.window,
            self.horizon,
            self._growth,
            self.interval or 0,
            self._noise(),
            *self.mechanism.tables(),
        ]


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
    domain, calibration, mechanism : see `Method`; both calibrations are the same

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
        calibration: str = "sound",
        categories: int | None = None,
    ) -> None:
        self._shape(domain, categories, calibration)
        self.epsilon = check_epsilon(epsilon)
        check_factory(mechanism, "mechanism")
        most = self._plan(horizon, samples, drift, interval)
        self._limit(most)
        budget = micro(self.epsilon)
        part = self._part(budget, most)
        self.mechanism = mechanism(part / MICRO, (0.0, 1.0))
        self.ledger = LifetimeLedger(most, budget, lambda n: n * part)
        _ = self._variance  # refuses what does not fit

    @property
    def guarantee(self) -> Guarantee:
        """Pure, over all samples of a user."""
        return Guarantee(
            "user", self.epsilon, 0.0, self.window, self.influence, "values", self.calibration
        )

    def _observe(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        values: NDArray[np.int64],
        randomness: Randomness,
    ) -> Observed:
        noisy = np.rint(
            self._draw(state, rows, slot, values / FIXED, (values,), randomness) * FIXED
        ).astype(np.int64)
        return Observed(noisy, np.full(len(rows), self._variance), np.zeros(len(rows), np.int64))

    @cached_property
    def _variance(self) -> int:
        return _units(Law.of(self.mechanism.law(0.5)).variance())

    def _noise(self) -> int:
        return self._variance

    def _farthest(self) -> float:
        return float(max(abs(edge) for edge in self.mechanism.index_range) * self.mechanism.scale)


class FastCorrelated(Sampled):
    """Sample at most M slots with the noise of CGM, filter, and hold.

    Parameters
    ----------
    epsilon, delta : nats above 0 (words of 64 bits tell up to about 13 at delta 1e-5), and (0, 1):
        of all samples of a user
    differential_bound : C, the most that a stream moves from one sample to the next, a share of the
        domain's length in (0, 0.5)
    horizon, samples, drift, interval, domain, calibration, mechanism : see `Fast`; ``published``
        clips as CGM's eq. 23 does

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
        calibration: str = "sound",
        categories: int | None = None,
    ) -> None:
        self._shape(domain, categories, calibration)
        self.differential_bound = check_bound(differential_bound)
        most = self._plan(horizon, samples, drift, interval)
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
        sigma = float(self.mechanism.sigma) * self.chain.widest
        self._fresh = np.array([_units((length * sigma) ** 2) for length in self.chain.lengths])

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
    def fields(self) -> dict[str, Field]:
        return {**super().fields, **self.chain.fields}

    def _observe(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        values: NDArray[np.int64],
        randomness: Randomness,
    ) -> Observed:
        last = state.columns["reported"][0].take(rows)
        inputs, aimed = self.chain.aim(state, rows, slot, values)
        noisy = self.chain.report(
            state,
            rows,
            slot,
            values,
            aimed,
            self._draw(state, rows, slot, inputs, aimed, randomness),
        )
        k = np.minimum(aimed.turn, len(self._fresh) - 1)
        reuse: NDArray[np.int64] = self.chain.ratios[k]
        return Observed(
            noisy - np.rint(last * (reuse / RATIO)).astype(np.int64), self._fresh[k], reuse
        )

    def _noise(self) -> int:
        return int(self._fresh.max())

    def _farthest(self) -> float:
        low, high = (float(edge * self.mechanism.scale) for edge in self.mechanism.index_range)
        # an estimate lies between the last one and w / (1 - r)
        return float((self.chain.fresh(low, high) / (1 - self.chain.ratios / RATIO)).max())

    def tables(self) -> list[int]:
        return [*super().tables(), *self.chain.tables()]


def _units(variance: float) -> int:
    """A variance in units of 2**-32, so coarse that no CPU rounds it otherwise."""
    if not variance < 2.0**29:
        raise ConfigurationError("epsilon or delta is too small for so many samples")
    return max(round(variance * 2**16) * 2**16, 1)


def natural_exp(powers: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^x by + * / alone, so that every CPU finds the same bits; powers are held within -32 and 32.

    Examples
    --------
    >>> x = np.array([-1.0, 0.0, 3.0])
    >>> bool(np.abs(natural_exp(x) / np.exp(x) - 1).max() < 1e-13)
    True
    """
    x = np.clip(powers, -32.0, 32.0) / 64
    series = np.ones_like(x)
    for k in range(16, 0, -1):
        series = 1 + series * x / k
    for _ in range(6):
        series = series * series
    return series
