"""How far each protocol's releases will be off, before anything runs: closed forms where it decides
nothing, a small simulation of its rule where it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log, sqrt
from statistics import NormalDist

import numpy as np

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Law
from ldp_kafka.methods.protocols.base import Protocol
from ldp_kafka.methods.protocols.coordinator import Adaptive
from ldp_kafka.methods.protocols.distributions import Binned
from ldp_kafka.methods.protocols.oracle import INPUTS, Oracle
from ldp_kafka.methods.values import Numbers
from ldp_kafka.randomness import seeded

__all__ = ["LONGEST", "Crowd", "Expected", "Variances", "predict"]

LONGEST = 1024
"""Slots in the longest window that a protocol which adapts is simulated with."""
SEED = 12
NODES = 6  # costs at which variances are computed; between them they are interpolated
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Crowd:
    """Users whose values are spread evenly over the domain, or over the categories, and a statistic
    of them that moves.

    Parameters
    ----------
    users : at least 1, all with a value in every slot
    drift : standard deviation of the statistic's move in a slot, at least 0: on the scale of the
        values, or of one frequency

    Raises
    ------
    ConfigurationError : a parameter is none of these

    Notes
    -----
    The statistic wanders as far as a uniform one does: over k slots it moves by the variance 2 S (1
    - (1 - drift^2 / 2 S)^k), with S that of a mean that is uniform over the domain, or of
    frequencies that are uniform among all there can be. For few slots this is a random walk, k
    drift^2.
    """

    users: int
    drift: float

    def __post_init__(self) -> None:
        if not self.users >= 1:
            raise ConfigurationError("users must be at least 1")
        if not 0 <= self.drift < float("inf"):
            raise ConfigurationError("drift must be a finite number, at least 0")


@dataclass(frozen=True)
class Expected:
    """What one protocol is expected to do for a crowd."""

    protocol: str
    error: float
    """Root mean square error of a release, over slots and categories."""
    publications: float
    """Of all slots, the share in which something is published."""
    reports: float
    """Of a user in a slot, on average."""


class Variances:
    """What one report's estimate varies by, by its cost: interpolated, since a rule can ask for
    any.

    Parameters
    ----------
    oracle : whose mechanisms report
    least, most : micro-epsilon between which costs lie; less says as much less as noise grows with
        the inverse square of epsilon
    """

    def __init__(self, oracle: Oracle, least: int, most: int) -> None:
        self.oracle = oracle
        costs = np.unique(np.geomspace(max(least, 1), max(most, 1), NODES).astype(int)).tolist()
        known = [cost for cost in costs if oracle.has(cost)]
        if not known:
            raise ConfigurationError("epsilon must be large enough for a report of this window")
        found = [self._at(cost) for cost in known]
        self._costs = [log(cost) for cost in known]
        self._worst, self._mean = (
            [each[at] * cost * cost for each, cost in zip(found, known, strict=True)]
            for at in (0, 1)
        )

    def _at(self, cost: int) -> tuple[float, float]:
        """At the noisiest value, and where values are spread evenly."""
        oracle = self.oracle
        if not isinstance(oracle.values, Numbers):
            found = oracle.variance(cost)
            return found, found
        laws = [Law.of(oracle.at(cost).law(x)) for x in INPUTS]
        lo, hi = oracle.values.domain
        scale = ((hi - lo) / (laws[-1].mean() - laws[0].mean())) ** 2
        known = [law.variance() * scale for law in laws]
        # the two ends stand for half as many values as the others
        return max(known), (sum(known) - (known[0] + known[-1]) / 2) / (len(known) - 1)

    def worst(self, cost: float) -> float:
        """Of the noisiest value; of categories the mean over all of them."""
        return float(np.interp(log(cost), self._costs, self._worst)) / cost**2

    def mean(self, cost: float) -> float:
        """Where values are spread evenly."""
        return float(np.interp(log(cost), self._costs, self._mean)) / cost**2

    @cached_property
    def spread(self) -> float:
        """Variance of the values: of categories that of one's frequency among one user."""
        values = self.oracle.values
        if isinstance(values, Numbers):
            lo, hi = values.domain
            return (hi - lo) ** 2 / 12
        return (1 - 1 / values.categories) / values.categories

    @cached_property
    def wander(self) -> float:
        """Variance of a statistic that is uniform among all that it can be."""
        values = self.oracle.values
        return self.spread if isinstance(values, Numbers) else self.spread / (values.categories + 1)

    @property
    def cells(self) -> int:
        """Numbers in a release."""
        values = self.oracle.values
        return 1 if isinstance(values, Numbers) else values.categories

    @property
    def free(self) -> int:
        """Numbers of a release that the others do not fix: frequencies sum to one."""
        return max(self.cells - 1, 1)


def predict(protocol: Protocol, crowd: Crowd, variances: Variances | None = None) -> Expected:
    """What ``protocol`` is expected to do for ``crowd``, in the long run: of what it publishes as
    it is, neither merged nor smoothed.

    Parameters
    ----------
    variances : of its oracle, where several protocols share one; default: computed

    Raises
    ------
    ConfigurationError : it adapts, and its window is longer than `LONGEST`; it releases
        distributions

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> meters = {"epsilon": 2.0, "window": 4, "domain": (0, 8000), "oracle": "piecewise"}
    >>> still = Crowd(users=3000, drift=0.0)
    >>> for name in ("lbu", "lpu", "lpa"):
    ...     print(name, round(predict(lk.protocol(name, **meters), still).error))
    lbu 318
    lpu 153
    lpa 129
    """
    terms = protocol.terms
    if isinstance(terms.oracle, Binned):
        raise ConfigurationError(
            f"{protocol.name} is predicted for means and frequencies, not bins"
        )
    if variances is None:
        variances = Variances(terms.oracle, min(terms.first, terms.budget // 2), terms.budget)
    if protocol.adaptive:
        return _Simulation(protocol, crowd, variances).run()
    users, window = crowd.users, protocol.window
    if terms.population:
        square = _sampled(variances.mean(terms.first), variances.spread, users / window, users)
        return Expected(protocol.name, sqrt(square), 1.0, 1 / window)
    square = variances.mean(terms.first) / users
    if protocol.influence > 1 or window == 1:
        return Expected(protocol.name, sqrt(square), 1.0, 1.0)
    held = sum(_moved(slots, crowd.drift, variances.wander) for slots in range(window)) / window
    return Expected(protocol.name, sqrt(square + held), 1 / window, 1 / window)


def _sampled(law: float, spread: float, reports: float, users: int) -> float:
    """Variance of an estimate from so many of all users."""
    some = max(reports, 1.0)
    return (law + spread * max(1 - some / users, 0.0)) / some


def _moved(slots: int, drift: float, wander: float) -> float:
    """Mean square of a statistic's move in so many slots; see `Crowd`."""
    return 2 * wander * (1 - _stays(drift, wander) ** slots)


def _stays(drift: float, wander: float) -> float:
    """What part of where the statistic is is there in the next slot."""
    return float(max(1 - drift * drift / (2 * wander), 0.0))


class _Simulation:
    """A coordinator that adapts, over numbers in place of users: what it has released last is off
    by a normal error, and so is what the first phase tells it.

    Errors have the same variance in all free directions, so that only the length of the error of
    what was released last matters, and not where it points.
    """

    def __init__(self, protocol: Protocol, crowd: Crowd, variances: Variances) -> None:
        if not protocol.window <= LONGEST:
            raise ConfigurationError(
                f"window must be at most {LONGEST} slots where {protocol.name} is predicted"
            )
        coordinator = protocol.coordinator()
        assert isinstance(coordinator, Adaptive)
        self.protocol, self.terms, self.rule = protocol, protocol.terms, coordinator.rule
        self.variances, self.users = variances, crowd.users
        self.stays = _stays(crowd.drift, variances.wander)
        terms, window = self.terms, protocol.window
        self.reports = max(crowd.users / (2 * window), 1.0) if terms.population else crowd.users
        law = variances.mean(terms.first)
        self.told = self._square(law, self.reports)
        numeric = isinstance(variances.oracle.values, Numbers)
        # sampling is known of numbers alone
        self.explained = self.told if numeric else law / self.reports
        self.at_most = law + variances.spread if numeric else law

    def _square(self, law: float, reports: float) -> float:
        if not self.terms.population:
            return law / reports
        return _sampled(law, self.variances.spread, reports, self.users)

    def _offered(self, slot: int) -> tuple[int, int, float, float]:
        """What a publication could have: the rule's amount, a report's cost, how many reports, and
        the error that it is expected to have.
        """
        terms, amount = self.terms, self.rule.offer(slot).amount
        if terms.population:
            reports = self.users / 2 * amount / self.rule.total
            error = self.at_most / reports if amount else 0.0
            return amount, terms.budget, reports, error
        cost = amount * (terms.second // self.rule.total)
        error = self.variances.worst(cost) / self.users if cost else 0.0
        return amount if cost else 0, cost, self.users, error

    def run(self) -> Expected:
        """Over many windows, the first ones left out."""
        window = self.protocol.window
        settle, slots = 2 * window, 400 + 24 * window
        cells, free = self.variances.cells, self.variances.free
        each = cells / free  # of what a number varies by, in one free direction
        away, since = sqrt(2 * self.variances.wander * cells), 0
        squares = publications = reports = 0.0
        for slot, z in enumerate(_normal(settle + slots)):
            step = 2 * self.variances.wander * (1 - self.stays) * self.stays**since * each
            away = _longer(away, step, free, z[0], z[1])
            found = _longer(away, self.told * each, free, z[2], z[3]) ** 2 / cells - self.explained
            amount, cost, asked, error = self._offered(slot)
            since += 1
            published = amount > 0 and found > error
            if published:
                self.rule.take(slot, amount)
                square = self._square(self.variances.mean(cost), asked)
                away, since = _longer(0.0, square * each, free, z[4], z[5]), 0
            if slot >= settle:
                squares += away * away / cells
                publications += published
                reports += (self.reports + published * asked) / self.users
        error = sqrt(squares / slots)
        return Expected(self.protocol.name, error, publications / slots, reports / slots)


@lru_cache(maxsize=8)
def _normal(slots: int) -> list[list[float]]:
    """Six standard normal numbers a slot, the same each time."""
    words = seeded(SEED).words(slots, 6).tolist()
    return [[_NORMAL.inv_cdf((word + 0.5) / 2**32) for word in row] for row in words]


def _longer(length: float, variance: float, free: int, along: float, across: float) -> float:
    """The length of a vector of so many directions with a normal one added, from two standard
    normal numbers: its part along the vector, and the length of the rest.
    """
    rest, scale = free - 1, sqrt(variance)
    if rest > 1:  # Wilson and Hilferty's approximation of chi squared
        part = 2 / (9 * rest)
        square = rest * max(1 - part + across * sqrt(part), 0.0) ** 3
    else:
        square = rest * across * across
    return sqrt((length + scale * along) ** 2 + variance * square)
