"""Methods that protect a user's whole stream: a fixed number of reports, and then silence."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import ceil, exp, inf, sqrt
from typing import Any, ClassVar

from ldp_kafka.accounting import MICRO, LifetimeLedger, micro
from ldp_kafka.accounting.composition import gaussian_delta, gaussian_epsilon
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.alias import WORD
from ldp_kafka.mechanisms.base import check_epsilon, check_number
from ldp_kafka.mechanisms.gaussian import analytic_delta, analytic_sigma, check_delta
from ldp_kafka.methods.base import SlotMethod
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.made import checked_factory

__all__ = ["GaussianBudget", "LifeBudget", "UserLevel", "check_positive"]

WORDS_SHARE = 2.0**-10  # of delta: kept for the rounding of weights to words
MOST = 1e6  # nats: what a ledger shows where there is no bound
SLACK = 2.0**-19  # of the diameter: more than the rounding errors of the projection to the ball
LARGEST = 700.0  # nats: e to more than this is no float
CAP = 50.0  # nats: to the mechanism a larger epsilon counts as this


class UserLevel(SlotMethod):
    """A method whose neighbours are any two streams of one user with events in the same slots.

    Its ledger counts reports and never refills: beyond the last one every event is refused, so that
    what is guaranteed holds over the endless stream. ``window`` and ``influence`` are that number
    of reports.
    """

    level: ClassVar[str] = "user"
    ledger: LifetimeLedger

    def _limit(self, reports: int) -> None:
        """Take in how many reports a user makes in all."""
        self.window, self.spend = reports, 1

    @property
    def influence(self) -> float:
        return self.window

    @property
    def price(self) -> float:
        return self.ledger.lost(1) / MICRO

    @property
    def run(self) -> int:
        """Reports that the ledger allows."""
        return self.window


class LifeBudget:
    """How many reports a user makes, with how much noise, and what they lose together."""

    epsilon: float
    """What ``refresh`` reports may lose together."""
    delta: float = 0.0
    horizon: int
    """Reports in a user's life."""
    refresh: int
    """Reports after which the budget is granted anew."""
    mechanism: Any
    total: float
    """Epsilon of all reports of a life."""

    @property
    def given(self) -> str:
        """The names of what was given, in words."""
        return "epsilon or delta" if self.delta else "epsilon"

    @property
    def sigma(self) -> float:
        """Standard deviation of the mechanism's noise."""
        raise NotImplementedError

    def ledger(self) -> LifetimeLedger:
        """The ledger of it."""
        raise NotImplementedError

    def _last(
        self,
        horizon: int | None,
        refresh: int | None,
        sigma: float | None,
        lasts: Callable[[float], float],
    ) -> None:
        """Take in how many reports there are; ``lasts``: of noise of so much."""
        if sigma is None:
            if horizon is None:
                raise ConfigurationError("horizon must be given, or sigma")
            self.horizon = check_slots(horizon, "horizon")
            self.refresh = self.horizon if refresh is None else check_slots(refresh, "refresh")
            if not self.refresh <= self.horizon:
                raise ConfigurationError("refresh must not be more than the horizon")
            return
        if horizon is not None or refresh is not None:
            raise ConfigurationError(
                "sigma says how long the budget lasts: horizon and refresh must not be given with"
                " it"
            )
        found = lasts(check_positive(sigma, "sigma"))
        if not found >= 1:
            raise ConfigurationError(
                "sigma must be large enough for one report at this"
                f" {self.given.replace(' or ', ' and ')}"
            )
        self.horizon = self.refresh = min(int(found), 2**16)


class GaussianBudget(LifeBudget):
    """How much normal noise, and how many reports, an (epsilon, delta) gives.

    Parameters
    ----------
    epsilon, delta : what ``refresh`` reports may lose together
    horizon : reports in a user's life, 1..65536; or None where ``sigma`` is given: then as many as
        epsilon and delta allow
    refresh : reports after which epsilon and delta are granted anew; default: never
    sigma : standard deviation of the noise of one report, in lengths of what it may move; not with
        ``horizon`` or ``refresh``
    widest : by how much more than one length the input of the mechanism may move (1 where clipping
        is sound)
    mechanism : factory ``(epsilon, delta, domain) -> Mechanism`` with ``sigma``
    dimension : of vectors in a ball of diameter 1; then the factory is ``(epsilon, delta,
        dimension, diameter)``, and the mechanism also has ``cells``

    Notes
    -----
    One report is one call of the mechanism on the unit domain, sensitivity 1, on whatever its input
    is. Up to the rounding of weights to words a call is a mixture (of the rounding of its input to
    the grid) of functions of normal noise of ``mechanism.sigma`` on points at most 1 apart, hence 1
    / sigma-Gaussian DP (joint convexity), whatever the outputs before were. So l reports are
    sqrt(l) / sigma-Gaussian DP (Dong, Roth and Su 2022, corollary 3.3): exactly Balle and Wang's
    analytic mechanism at sensitivity sqrt(l). No grid step has to be added: both ends of the domain
    are grid points, and the input is clamped to it before it is rounded. The weights of one call
    are within TV = 2 R / 2**64 of the true ones (R the reach of the table), which costs at most l
    (1 + e^epsilon) TV of delta; `delta_of` has it in.

    Vectors: the mechanism shortens its input to the ball and rounds each coordinate by words of its
    own; two grid vectors that were rounded with the same words are less than 1 + sqrt(d) / cells
    diameters apart, which is the sensitivity here, and TV is d times that of a coordinate.

    One report by itself is told to the mechanism as the (epsilon_1, delta / l) that normal noise of
    that sigma keeps, since mechanisms are made from an epsilon and a delta.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        horizon: int | None,
        refresh: int | None,
        sigma: float | None,
        widest: float,
        mechanism: Callable[..., Any],
        dimension: int | None = None,
    ) -> None:
        self.epsilon, self.delta = check_epsilon(epsilon), check_delta(delta)
        left = self.delta * (1 - WORDS_SHARE)
        unit = analytic_sigma(min(self.epsilon, CAP), left)
        self._last(horizon, refresh, sigma, lambda wanted: (wanted / unit) ** 2)
        wanted = sqrt(self.refresh) * unit if sigma is None else float(sigma)
        self._dimension = dimension
        self._make = checked_factory(mechanism, "mechanism")
        self._build(wanted / widest)
        if sigma is not None:  # what the grid costs is paid in reports
            while (
                self.horizon > 1 and self.delta_of(self.horizon, self.epsilon, widest) > self.delta
            ):
                self.horizon = self.refresh = self.horizon - 1
        elif (
            self.delta_of(self.refresh, self.epsilon, widest) > self.delta
        ):  # a vector's grid costs noise, a number's does not
            wanted *= self._grid
            self._build(wanted / widest)
        if not self.delta_of(self.refresh, self.epsilon, widest) <= self.delta:
            raise ConfigurationError(
                "delta is too small, or epsilon too large, for words of 64 bits over so many"
                " reports"
            )
        if not self.mechanism.sigma * widest <= 1.01 * wanted * self._grid or self.epsilon > CAP:
            raise ConfigurationError(
                "epsilon is too large, or the differential bound too small to be published: no"
                " mechanism has so little noise"
            )

    def _build(self, sigma: float) -> None:
        """Make the mechanism with noise of at least ``sigma``."""
        shape: tuple[Any, ...] = (
            ((0.0, 1.0),) if self._dimension is None else (self._dimension, 1.0)
        )
        self.mechanism = self._make(*self._one(sigma), *shape)
        if not hasattr(self.mechanism, "sigma"):
            raise ConfigurationError(
                "the mechanism must be one of normal noise:"
                f" {'gaussian' if self._dimension is None else 'gaussian_vector'}, or one with"
                " sigma"
            )
        self._grid = (
            1.0
            if self._dimension is None
            else (1 + sqrt(self._dimension) / self.mechanism.cells) * (1 + SLACK)
        )

    def _one(self, sigma: float) -> tuple[float, float]:
        """(epsilon, delta) of one report with noise of ``sigma``: the largest epsilon that asks for
        no less noise.
        """
        delta = self.delta / self.refresh
        low, high = 0.0, CAP
        if analytic_delta(high, sigma) > delta:
            return high, delta
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if analytic_delta(middle, sigma) > delta else (low, middle)
        if not low > 0:
            raise ConfigurationError("epsilon is too small for its table")
        return low, delta

    def delta_of(self, reports: int, epsilon: float, widest: float = 1.0) -> float:
        """Delta of so many reports at ``epsilon``; ``widest``: had the mechanism's noise been so
        many times as large.
        """
        return gaussian_delta(
            epsilon, sqrt(reports) * self._grid / (self.mechanism.sigma * widest)
        ) + self._words(reports, epsilon)

    def _words(self, reports: int, epsilon: float) -> float:
        """What the rounding of weights may cost of delta: it grows with epsilon."""
        # vectors are counted from the middle
        reach = int(self.mechanism.index_range[1]) + (
            self.mechanism.cells // 2 if self._dimension else 0
        )
        return (
            reports * (self._dimension or 1) * (2 + exp(min(epsilon, LARGEST))) * 2 * reach / WORD
        )

    def lost(self, reports: int) -> float:
        """Epsilon of so many reports at ``delta``, rounded up; infinite where words of 64 bits
        leave nothing to prove it with: from about 19 nats on at delta 1e-5 and 100 reports.
        """
        found = gaussian_epsilon(
            sqrt(reports) * self._grid / self.mechanism.sigma, self.delta * (1 - WORDS_SHARE)
        )
        while self.delta_of(reports, found) > self.delta:
            found = found * (1 + 2**-10) + 2**-20
            if self._words(reports, found) > self.delta:
                return inf
        return found

    @property
    def sigma(self) -> float:
        return float(self.mechanism.sigma)

    @cached_property
    def total(self) -> float:  # type: ignore[override]
        return (
            self.epsilon
            if self.delta_of(self.horizon, self.epsilon) <= self.delta
            else self.lost(self.horizon)
        )

    def ledger(self) -> LifetimeLedger:
        return LifetimeLedger(
            self.horizon,
            max(micro(min(self.total, MOST)), 1),
            lambda n: ceil(min(self.lost(n), MOST) * MICRO),
        )


def check_positive(value: float, name: str) -> float:
    """``value`` as a positive finite float; TypeError or ConfigurationError otherwise."""
    number = check_number(value, name)
    if not 0 < number < 2.0**60:
        raise ConfigurationError(f"{name} must be positive and finite, below 2**60")
    return number
