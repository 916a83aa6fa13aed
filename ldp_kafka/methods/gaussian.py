"""Normal noise in every slot, fresh or reused from the slot before: what CGM and its baselines
share, and the baselines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import chain, islice, repeat
from math import ceil, frexp, inf, log2
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field, Guarantee, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Estimate, check_number
from ldp_kafka.methods.base import FIXED, REFUSED, SENT, Step
from ldp_kafka.methods.user_level import GaussianBudget, UserLevel
from ldp_kafka.randomness import Randomness

__all__ = [
    "RATIO",
    "Aimed",
    "Chain",
    "GaussianDifferential",
    "GaussianDirect",
    "GaussianStream",
    "check_bound",
]

RATIO = 2**24  # units of a reuse ratio: products with values stay below 2**58
STEPS = (
    2**7
    # least standard deviation of a release, in units of its grid: the grid then adds less than 1e-5
    # to a variance
)


class Aimed(NamedTuple):
    """What an input of the mechanism is a function of."""

    turn: NDArray[np.int64]
    """(n,) reports before it in its chain."""
    kept: NDArray[np.int64]
    """The clipped values x~."""
    before: NDArray[np.int64]
    """Those of the reports before."""


class Chain:
    """The recursion of one user's reports: y_i = r_i y_(i-1) + (x~_i - r_i x~_(i-1)) + fresh noise.

    Parameters
    ----------
    ratios : r_1 = 0, r_2, ... in units of 2**-24; the last one stands for all later ones
    bound : C, the most that x~ moves from one report to the next, in units of 2**-32 of the domain;
        None: as far as it likes
    clip : ``sound`` moves x~ from the last x~ towards x by C at most, ``published`` from the last x
        (CGM, eq. 23)
    lag : interleaved chains, slot by slot

    Notes
    -----
    What is drawn is z = (x~_i - r_i x~_(i-1) + shift_i) / span_i in [0, 1] plus noise of the
    mechanism, so every step is a call of one mechanism with one table, and span_i says how much
    noise that is in lengths of the domain. All of z is a function of integers by single operations
    of IEEE floats: the same on every CPU.

    Sound: x~_i - r x~_(i-1) = (1 - r) x~_i + r (x~_i - x~_(i-1)) lies in [-C r, (1 - r) + C r] (the
    clipped value lies between the last one and x_i, so both in [0, 1] and within C of the last
    one): shift = C r, span = V = (1 - r) + 2 C r. That z stays within [0, 1] is for accuracy only:
    the mechanism clamps its input, so its sensitivity is 1 whatever is clipped how.

    Published: consecutive clipped values may differ by nearly 1 - 2 C, so x~_i - r x~_(i-1) lies in
    [-r, 1] only; noise is still V times that of the first report. There span is V * ``widest``,
    where widest = max (1 + r) / V makes room for all of it.
    """

    def __init__(self, ratios: Sequence[int], bound: int | None, clip: str, lag: int) -> None:
        self.lag, self._bound, self._raw = lag, bound, clip == "published"
        # how far below 0 the input may lie, in units of r
        far = FIXED if bound is None or self._raw else bound
        reach = FIXED if bound is None else bound
        self.ratios = np.array(ratios, np.int64)
        lengths = [(RATIO - r) * FIXED + 2 * reach * r for r in ratios]  # V, exactly
        rooms = [(RATIO + r) * FIXED for r in ratios] if self._raw else lengths
        self.widest = float(
            max(Fraction(room, length) for room, length in zip(rooms, lengths, strict=True))
        )
        self._shifts = np.array([r * far for r in ratios], np.float64)
        self._spans = np.array(lengths, np.float64) * self.widest
        self.lengths = [length / (RATIO * FIXED) for length in lengths]
        self.variances: list[float] = []
        for r, length in zip(ratios, self.lengths, strict=True):
            self.variances.append(
                (r / RATIO) ** 2 * (self.variances[-1] if self.variances else 0.0) + length * length
            )
        self.fields = {
            "count": Field("i4", lag),
            "kept": Field("i8", lag),
            "reported": Field("i8", lag),
        }
        if self._raw:
            self.fields["raw"] = Field("i8", lag)

    def reach(self, low: float, high: float, reports: int) -> float:
        """How far from 0 any of so many reports can lie, in lengths of the domain, where the
        mechanism's answers lie in [low, high].
        """
        fresh, most, before = self.fresh(low, high), 0.0, 0.0
        for ratio, new in islice(
            chain(
                zip(self.ratios.tolist(), fresh.tolist(), strict=True),
                repeat((int(self.ratios[-1]), float(fresh[-1]))),
            ),
            reports,
        ):
            before = before * ratio / RATIO + new
            most = max(most, before)
        return most * (1 + 2**-20)

    def fresh(self, low: float, high: float) -> NDArray[np.float64]:
        """How far from 0 the part of each report can lie that is not carried on, in lengths of the
        domain, where the mechanism's answers lie in [low, high].
        """
        return np.asarray(
            np.maximum(
                np.abs(low * self._spans - self._shifts), np.abs(high * self._spans - self._shifts)
            )
            / (RATIO * FIXED)
        )

    def aim(
        self, state: State, rows: NDArray[np.intp], slot: int, values: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], Aimed]:
        """The mechanism's inputs z (n,), and the integers that they are a function of."""
        turn = state.columns["count"][slot % self.lag].take(rows).astype(np.int64)
        before = self._get(state, "kept", rows, slot)
        kept = self._clipped(
            values, turn, self._get(state, "raw", rows, slot) if self._raw else before
        )
        k = np.minimum(turn, len(self.ratios) - 1)
        inputs = (RATIO * kept - self._spread(self.ratios[k]) * before).astype(np.float64)
        inputs += self._spread(self._shifts[k])
        inputs /= self._spread(self._spans[k])
        return inputs, Aimed(turn, kept, before)

    def report(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        values: NDArray[np.int64],
        aimed: Aimed,
        answers: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        """Y (n,) in units of 2**-32 of the domain, from the mechanism's answers to what `aim` gave;
        updates the rows.
        """
        k = np.minimum(aimed.turn, len(self.ratios) - 1)
        fresh = answers * self._spread(self._spans[k])
        fresh -= self._spread(self._shifts[k])
        reported = self._get(state, "reported", rows, slot) * self._spread(
            self.ratios[k].astype(np.float64)
        )
        reported += fresh
        reported /= RATIO
        whole: NDArray[np.int64] = np.rint(reported).astype(np.int64)
        state.columns["count"][slot % self.lag][rows] = aimed.turn + 1
        self._set(state, "reported", rows, slot, whole)
        if self._bound is not None:
            self._set(state, "kept", rows, slot, aimed.kept)
        if self._raw:
            self._set(state, "raw", rows, slot, values)
        return whole

    def _clipped(
        self, values: NDArray[np.int64], turn: NDArray[np.int64], around: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        if self._bound is None:
            return values
        clipped: NDArray[np.int64] = np.where(
            turn == 0, values, np.clip(values, around - self._bound, around + self._bound)
        )
        return clipped

    def _get(self, state: State, name: str, rows: NDArray[np.intp], slot: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = state.columns[name][slot % self.lag].take(rows)
        return found

    def _set(
        self, state: State, name: str, rows: NDArray[np.intp], slot: int, values: NDArray[np.int64]
    ) -> None:
        state.columns[name][slot % self.lag][rows] = values

    def _spread(self, of_rows: NDArray[Any]) -> NDArray[Any]:
        """One number a row, in the shape of the values."""
        return of_rows

    def tables(self) -> list[int]:
        """The integers of the recursion: the last ratios stand for what they converge to."""
        return [
            self.lag,
            -1 if self._bound is None else self._bound,
            int(self._raw),
            len(self.ratios),
            int(self.ratios.sum()),
            int(self.ratios[-1]),
        ]


class GaussianStream(UserLevel):
    """Reports of a `Chain` over normal noise, one in every slot.

    Guarantee: `GaussianBudget` has the proof; all that it needs is that each report is a function
    of earlier reports and of one call of the mechanism, which clamps its input to the unit domain.
    """

    default_mechanism = "gaussian"
    _dimension: int | None = None
    parameters: ClassVar[dict[str, str]] = {
        "delta": "probability that the loss exceeds epsilon, in (0, 1)",
        "horizon": "reports in a user's life, after which it is silent",
        "refresh": (
            "reports after which epsilon and delta are granted anew; the guarantee states what the"
            " whole horizon loses; default: never"
        ),
        "sigma": (
            "standard deviation of the first report's noise, a share of the domain's length;"
            " reports end when epsilon and delta are used up; instead of horizon"
        ),
    }

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        mechanism: Callable[..., Any],
        domain: tuple[float, float] | None = None,
        horizon: int | None = None,
        refresh: int | None = None,
        sigma: float | None = None,
        calibration: str = "sound",
        categories: int | None = None,
    ) -> None:
        self._shape(domain, categories, calibration)
        self.chain = self._chain()
        self.budget = GaussianBudget(
            epsilon,
            delta,
            horizon=horizon,
            refresh=refresh,
            sigma=sigma,
            widest=self.chain.widest,
            mechanism=mechanism,
            dimension=self._dimension,
        )
        self.epsilon, self.delta, self.mechanism, self.refresh = (
            self.budget.epsilon,
            self.budget.delta,
            self.budget.mechanism,
            self.budget.refresh,
        )
        self.horizon = self.budget.horizon
        self._limit(self.horizon)
        self.ledger = self.budget.ledger()
        low, high = (edge * self.mechanism.scale for edge in self.mechanism.index_range)
        # for vectors: of a coordinate
        self._reach = self.chain.reach(float(low), float(high), self.horizon)
        if not self._reach < 2.0**30:
            raise ConfigurationError(
                "horizon is too long, or epsilon or delta too small: reports would not fit into 64"
                " bits"
            )

    def _chain(self) -> Chain:
        """The recursion, from public parameters alone."""
        raise NotImplementedError

    @property
    def sigma(self) -> float:
        """Standard deviation of the first report's noise, a share of the domain's
        length: sigma_1.
        """
        return float(self.mechanism.sigma) * self.chain.widest

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

    def _step(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        values: NDArray[np.int64],
        randomness: Randomness,
    ) -> Step:
        allowed = self.ledger.charge(state, rows, slot, 1)
        answers = self._nothing(len(rows))
        sent, values = rows[allowed], values[allowed]
        inputs, aimed = self.chain.aim(state, sent, slot, values)
        fresh = self._draw(state, sent, slot, inputs, self._bind(aimed), randomness)
        answers[allowed] = (
            np.rint(
                self.chain.report(state, sent, slot, values, aimed, fresh) / (FIXED * self.scale)
            )
            * self.scale
        )
        return Step(answers, np.where(allowed, SENT, REFUSED).astype(np.uint8))

    def _nothing(self, n: int) -> NDArray[np.float64]:
        """Answers of ``n`` rows before anything is sent."""
        return np.zeros(n)

    def _bind(self, aimed: Aimed) -> Sequence[NDArray[np.int64]]:
        """The integers that a draw is bound to, a column each."""
        return aimed

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        """The mean of the clipped values behind the reports; its error is that of the noisiest
        report.
        """
        mean, _, reports = self.mechanism.estimate_support(support)
        lo, hi = self.domain
        return Estimate(
            lo + mean * (hi - lo), self.single_error / reports**0.5 if reports else inf, reports
        )

    @cached_property
    def single_error(self) -> float:
        """Root mean square error of the noisiest release of a value that was not clipped, on the
        domain's scale.
        """
        lo, hi = self.domain
        return float((hi - lo) * self._noisiest**0.5)

    @cached_property
    def reliability(self) -> float:
        return 1 / (1 + 12 * self._noisiest)

    @property
    def _noisiest(self) -> float:
        return max(self.chain.variances) * self.sigma**2

    def tables(self) -> list[int]:
        return [
            self.horizon,
            self.refresh,
            *self.chain.tables(),
            round(-log2(self.scale)),
            *self.mechanism.tables(),
        ]


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
    domain, calibration, mechanism : see `Method`; both calibrations are the same

    Notes
    -----
    CGM, Algorithm 1: the baseline. sigma = sqrt(horizon) / mu where mu is the loss that epsilon and
    delta allow (eq. 7). Guarantee: see `GaussianBudget`.

    Examples
    --------
    >>> import ldp_kafka as lk
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
    >>> import ldp_kafka as lk
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

    @property
    def _noisiest(self) -> float:
        return self.variance(self.horizon)


def check_bound(value: float) -> float:
    """``value`` as a share in (0, 0.5); TypeError or ConfigurationError otherwise."""
    number = check_number(value, "differential_bound")
    if not 2.0**-20 <= number < 0.5:
        raise ConfigurationError(
            "differential_bound must lie between 0 and 0.5, half of the domain, and not be below"
            " 2**-20"
        )
    return number
