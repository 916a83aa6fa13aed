"""The collector's side of a protocol: what is asked and released, slot by slot, as a function of
merged integer sums of reports and of its own state alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate, Z
from ldp_kafka.mechanisms.chances import chance_above
from ldp_kafka.mechanisms.projection import norm_sub
from ldp_kafka.methods.protocols.distributions import Binned
from ldp_kafka.methods.protocols.oracle import Told
from ldp_kafka.methods.protocols.processing import GAIN, Merging, Processing
from ldp_kafka.methods.protocols.request import Request
from ldp_kafka.methods.protocols.rules import Rule
from ldp_kafka.methods.protocols.terms import Terms
from ldp_kafka.methods.protocols.tracker import Tracker
from ldp_kafka.methods.unstated import NO_REPORTS

__all__ = [
    "APPROXIMATE",
    "PUBLISH",
    "Adaptive",
    "Coordinator",
    "Fixed",
    "Released",
    "Verdict",
]

Reports = tuple[int, NDArray[np.int64]]
"""The cost of a report, and the sums of at least one."""

PUBLISH, APPROXIMATE = "publish", "approximate"


class Verdict(NamedTuple):
    """What the first phase of a slot has led to."""

    request: Request | None
    """None: nothing is asked, the last release stands."""
    dissimilarity: float = nan
    """How far the truth is from the last release, squared, estimated without bias; NaN where the
    first phase does not tell.
    """
    error: float = nan
    """The squared error that a publication is expected to have; NaN as above."""


class Released(NamedTuple):
    """What one slot releases."""

    estimate: Estimate
    """Values, errors and limits (d,); `reports` are those of both phases."""
    strategy: str
    """``publish`` or ``approximate``."""


class Coordinator(ABC):
    """One protocol's decisions. For each slot, in their order: `decide` on the sums of the first
    phase, then `release` with those of the second where one was asked.

    Parameters
    ----------
    terms : the protocol's
    processing : what is made of publications before they are released

    Notes
    -----
    A publication that is released as it is has the error of its reports. Whatever else is released,
    what is held, merged, smoothed or projected, has an interval from itself to the limits that the
    slot's own reports give: those of its publication, else of its first phase. Earlier slots are
    not in it, since a stream may have moved in this one. Where nobody has reported in a slot
    nothing is known of it, and no error is stated.
    """

    def __init__(self, terms: Terms, processing: Processing) -> None:
        oracle = terms.oracle
        self.terms, self.processing = terms, processing
        self.value = oracle.prior
        """What was published last, as its own reports tell: what dissimilarity is measured from."""
        self.slot: int | None = None
        self.tracker = Tracker(self.value, oracle.bounds)
        self._merging, self._held = Merging(), self.value
        self._smoothed: NDArray[np.float64] | None = None
        self._first: Told | None = None
        self._sums: NDArray[np.int64] | None = None
        self._counts: deque[int] = deque(maxlen=terms.window)

    @property
    def prior(self) -> NDArray[np.float64]:
        """(d,) what is released before the first publication."""
        return self.terms.oracle.prior

    def decide(self, slot: int, sums: NDArray[np.int64] | None, *, asks: bool = True) -> Verdict:
        """What to ask, given the merged sums of the slot's first phase (the number of reports
        first), None without reports; nothing where ``asks`` is False, since nobody could answer any
        more, and nothing of the budget is used up. ValueError unless slots increase.
        """
        if self.slot is not None and not slot > self.slot:
            raise ValueError("slots must increase")
        self.slot, self._first, self._sums = slot, None, None
        if sums is not None or self._counts:  # what was before the first report tells of nobody
            self._counts.append(0 if sums is None else int(sums[0]))
        if sums is not None and sums[0]:
            self._first, self._sums = self._told(self.terms.first, sums), sums
            self._observe(self._first)
        return self._decide(slot, None if self._first is None else self._first.found, asks=asks)

    def release(self, sums: NDArray[np.int64] | None) -> Released:
        """What the slot that was decided last releases, given the merged sums of its second phase,
        None without reports: then what was released last stands, with an interval to phase one's
        limits, or no error where nobody reported.
        """
        if self.slot is None:
            raise ValueError("a slot must be decided before it is released")
        first, sums = self._first, sums if sums is not None and sums[0] else None
        reports = self._publication(sums)
        number = sum(int(each[0]) for each in (self._sums, sums) if each is not None)
        made = first
        if reports is not None:
            if first is None or reports[1] is not self._sums:
                made = self._told(*reports)
                self._observe(made)
            assert made is not None
            self.value, self._held = made.found.value, made.stated.value
            if self.processing.merge and first is not None:
                self._held = self._merging.merge(first.found, made.found)
        value = self._held
        if self.processing.smooth is not None:
            value = self._smooth(value)
        if self.processing.norm_sub:
            value = norm_sub(value)
        bounds = self.terms.oracle.bounds
        if made is None:
            stated = Estimate(value, None, 0, reason=NO_REPORTS)
        elif np.array_equal(value, made.stated.value):
            stated = within_bounds(made.stated, bounds)
        else:
            stated = within_bounds(reaching(value, made.stated, bounds), bounds)
        strategy = APPROXIMATE if reports is None else PUBLISH
        return Released(stated._replace(reports=number), strategy)

    def saved(self) -> dict[str, Any]:
        """Its state in plain lists and numbers, which JSON keeps to the bit; between two slots, or
        where a second phase is waited for.
        """
        return {
            "slot": self.slot,
            "value": self.value.tolist(),
            "held": self._held.tolist(),
            "smoothed": None if self._smoothed is None else self._smoothed.tolist(),
            "counts": list(self._counts),
            "tracker": self.tracker.saved(),
            "merging": self._merging.saved(),
            "sums": None if self._sums is None else self._sums.tolist(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take the state of one of the same protocol: it goes on as that one would have, unless
        that one's publications were processed otherwise. What was published, merged or not, is held
        until the next one; exponential smoothing begins with what is released first, where that one
        had none, and is forgotten where this one has none: it would stand still meanwhile.
        """
        self.slot = saved["slot"]
        held = (saved.get("shares") or {}).get("value", saved["held"])  # of bins, by older versions
        self.value, self._held = np.array(saved["value"]), np.array(held)
        smoothed = saved["smoothed"]
        if smoothed is not None and self.processing.smooth == "exponential":
            self._smoothed = np.array(smoothed)
        self._counts = deque(saved["counts"], maxlen=self.terms.window)
        self.tracker.restore(saved["tracker"])
        self._merging.restore(saved["merging"])
        self._sums = None if saved["sums"] is None else np.array(saved["sums"], np.int64)
        self._first = None if self._sums is None else self._told(self.terms.first, self._sums)

    def _told(self, cost: int, sums: NDArray[np.int64]) -> Told:
        """What at least one report tells."""
        return self.terms.oracle.told(cost, sums, population=self.terms.population)

    def _observe(self, told: Told) -> None:
        """Tell the tracker; not of bins, which are not smoothed."""
        if self.slot is not None and not isinstance(self.terms.oracle, Binned):
            self.tracker.observe(self.slot, told.stated.value, told.stated.standard_error)

    @abstractmethod
    def _decide(self, slot: int, found: Estimate | None, *, asks: bool) -> Verdict:
        """`decide`, of a later slot; None where nobody has reported."""

    @abstractmethod
    def _publication(self, sums: NDArray[np.int64] | None) -> Reports | None:
        """What is published, given the sums of the second phase; None where nothing is."""

    def _smooth(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """What smoothing makes of a release."""
        if self.processing.smooth == "kalman":
            return self.tracker.value
        before = value if self._smoothed is None else self._smoothed
        smoothed = before + GAIN * (value - before)
        if self.tracker.begun:
            self._smoothed = smoothed
        return smoothed


class Fixed(Coordinator):
    """Publishes whatever the first phase tells; there is no second one (LBU, LSP, LPU)."""

    def _decide(self, slot: int, found: Estimate | None, *, asks: bool) -> Verdict:
        del slot, found, asks  # it never does
        return Verdict(None)

    def _publication(self, sums: NDArray[np.int64] | None) -> Reports | None:
        del sums
        return None if self._sums is None else (self.terms.first, self._sums)


class Adaptive(Coordinator):
    """Asks for a second phase where the truth is farther from the last release than a publication
    would be (LBD, LBA, LPD, LPA).

    Notes
    -----
    LDP-IDS, Algorithms 1 to 4. The dissimilarity is that of eq. 5, the squared distance of the
    first phase's estimate from the last release without what its noise explains. For categories
    that noise is the mechanism's, mean over the categories, and so is the error of a publication;
    the paper's print of it lacks 1 / d before (d - 2) / (n (e^epsilon - 1)). For numbers it is the
    standard error found, and the publication's is the law's largest, or, where users are divided,
    that of the first phase for as many reports as are expected.

    How many users there are is estimated as 2 window times the reports of a slot's first phase,
    over a window, and enters that error only: requests are fractions.
    """

    def __init__(self, terms: Terms, processing: Processing, rule: Rule) -> None:
        super().__init__(terms, processing)
        self.rule = rule
        self._cost = 0

    def _decide(self, slot: int, found: Estimate | None, *, asks: bool) -> Verdict:
        terms, self._cost = self.terms, 0
        if found is None:
            return Verdict(None)
        noise = self._noise(found)
        away = float(np.mean((found.value - self.value) ** 2)) - noise
        offer = self.rule.offer(slot)
        if not (asks and offer.amount > 0):
            return Verdict(None, away)
        cost, reports = self._use(offer.amount, found.reports)
        error = self._expected(cost, reports, noise * found.reports)
        if not away > error:
            return Verdict(None, away, error)
        self.rule.take(slot, offer.amount)
        self._cost = cost
        fraction = (offer.share, offer.of) if terms.population else (1, 1)
        return Verdict(Request(slot, cost, *fraction), away, error)

    def _noise(self, found: Estimate) -> float:
        """The mean variance of the first phase's estimate."""
        if self.terms.oracle.empirical:
            return float(np.mean(found.square))
        return self.terms.oracle.variance(self.terms.first) / found.reports

    def _use(self, amount: int, reports: int) -> tuple[int, float]:
        """What so much of the rule's total is: the cost of a report and how many are expected, with
        so many in this slot's first phase.
        """
        terms, total = self.terms, self.rule.total
        if not terms.population:
            return amount * (terms.second // total), float(reports)
        half = terms.window * sum(self._counts) / len(self._counts)
        return terms.budget, half * amount / total

    def _expected(self, cost: int, reports: float, one: float) -> float:
        """The mean variance of a publication from so many reports; ``one`` is that of a report of
        the first phase.
        """
        if self.terms.population and self.terms.oracle.empirical:
            return one / reports
        return self.terms.oracle.variance(cost) / reports

    def _publication(self, sums: NDArray[np.int64] | None) -> Reports | None:
        return (self._cost, sums) if sums is not None and self._cost else None

    def saved(self) -> dict[str, Any]:
        return {**super().saved(), "cost": self._cost, "rule": self.rule.saved()}

    def restore(self, saved: dict[str, Any]) -> None:
        super().restore(saved)
        self._cost = saved["cost"]
        self.rule.restore(saved["rule"])


def reaching(value: NDArray[np.float64], stated: Estimate, bounds: tuple[float, float]) -> Estimate:
    """A value (d,) that is not what the reports of its slot state, with an interval from it to
    their limits; how likely the truth is above a threshold is what they say.
    """
    low, high = stated.interval()
    low, high = np.minimum(low, value), np.maximum(high, value)
    return stated._replace(
        value=value,
        # limits may be cut to where the value lies, and noise is not
        standard_error=np.maximum((high - low) / (2 * Z), stated.standard_error),
        limits=(low, high),
        chance_above=partial(chance_above, stated, bounds=bounds),
        variance=None,
    )


def within_bounds(found: Estimate, bounds: tuple[float, float]) -> Estimate:
    """The same with limits cut to where the truth must lie."""
    low, high = (np.clip(end, *bounds) for end in found.interval())
    return found._replace(limits=(low, high))
