"""The collector's side of a protocol: what is asked and released, slot by slot, as a function of
merged integer sums of reports and of its own state alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods.protocols.drift import Drift
from ldp_kafka.methods.protocols.request import Request
from ldp_kafka.methods.protocols.rules import Rule
from ldp_kafka.methods.protocols.terms import Terms

__all__ = ["APPROXIMATE", "PUBLISH", "Adaptive", "Coordinator", "Fixed", "Released", "Verdict"]

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

    value: NDArray[np.float64]
    """(d,)"""
    standard_error: NDArray[np.float64]
    """(d,)"""
    strategy: str
    """``publish`` or ``approximate``."""


class Coordinator(ABC):
    """One protocol's decisions. For each slot, in their order: `decide` on the sums of the first
    phase, then `release` with those of the second where one was asked.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.value = terms.oracle.prior
        self.standard_error = terms.oracle.farthest(self.value)
        self.slot: int | None = None

    def decide(self, slot: int, sums: NDArray[np.int64] | None, *, asks: bool = True) -> Verdict:
        """What to ask, given the merged sums of the slot's first phase (the number of reports
        first), None without reports; nothing where ``asks`` is False, since nobody could answer any
        more, and nothing of the budget is used up. ValueError unless slots increase.
        """
        if self.slot is not None and not slot > self.slot:
            raise ValueError("slots must increase")
        self.slot = slot
        return self._decide(slot, sums if sums is not None and sums[0] else None, asks=asks)

    def release(self, sums: NDArray[np.int64] | None) -> Released:
        """What the slot that was decided last releases, given the merged sums of its second phase,
        None without reports: then what was released last stands, with an error of its own.
        """
        found = self._estimate(sums if sums is not None and sums[0] else None)
        if found is None:
            held = np.sqrt(self.standard_error**2 + self._away())
            most = self.terms.oracle.farthest(self.value)
            return Released(self.value, np.minimum(held, most), APPROXIMATE)
        self.value, self.standard_error = found.value, found.standard_error
        return Released(self.value, self.standard_error, PUBLISH)

    def saved(self) -> dict[str, Any]:
        """Its state in plain lists and numbers, which JSON keeps to the bit; between two slots, or
        where a second phase is waited for.
        """
        return {
            "slot": self.slot,
            "value": self.value.tolist(),
            "standard_error": self.standard_error.tolist(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take the state of one of the same protocol: it goes on as that one would have."""
        self.slot = saved["slot"]
        self.value = np.array(saved["value"])
        self.standard_error = np.array(saved["standard_error"])

    @abstractmethod
    def _decide(self, slot: int, sums: NDArray[np.int64] | None, *, asks: bool) -> Verdict:
        """`decide`, of a later slot; None where nobody has reported."""

    @abstractmethod
    def _estimate(self, sums: NDArray[np.int64] | None) -> Estimate | None:
        """What is published, None where nothing is."""

    @abstractmethod
    def _away(self) -> float:
        """The squared distance of the truth from the last publication; inf where nothing tells."""


class Fixed(Coordinator):
    """Publishes whatever the first phase tells; there is no second one (LBU, LSP, LPU)."""

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._drift = Drift()
        self._sums: NDArray[np.int64] | None = None
        self._slot = 0

    def _decide(self, slot: int, sums: NDArray[np.int64] | None, *, asks: bool) -> Verdict:
        del asks  # it never does
        self._slot, self._sums = slot, sums
        return Verdict(None)

    def _estimate(self, sums: NDArray[np.int64] | None) -> Estimate | None:
        del sums
        if self._sums is None:
            return None
        terms = self.terms
        found = terms.oracle.estimate(terms.first, self._sums, population=terms.population)
        self._drift.published(self._slot, found.value, found.standard_error)
        return found

    def _away(self) -> float:
        return self._drift.since(self._slot)

    def saved(self) -> dict[str, Any]:
        return {**super().saved(), "drift": self._drift.saved()}

    def restore(self, saved: dict[str, Any]) -> None:
        super().restore(saved)
        self._drift.restore(saved["drift"])


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

    def __init__(self, terms: Terms, rule: Rule) -> None:
        super().__init__(terms)
        self.rule = rule
        self._counts: deque[int] = deque(maxlen=terms.window)
        self._dissimilarity = inf
        self._cost = 0

    def _decide(self, slot: int, sums: NDArray[np.int64] | None, *, asks: bool) -> Verdict:
        terms, self._cost = self.terms, 0
        if sums is not None or self._counts:  # what was before the first report tells of nobody
            self._counts.append(0 if sums is None else int(sums[0]))
        if sums is None:
            return Verdict(None)
        found = terms.oracle.estimate(terms.first, sums, population=terms.population)
        noise = self._noise(found)
        away = float(np.mean((found.value - self.value) ** 2)) - noise
        self._dissimilarity = away
        offer = self.rule.offer(slot)
        if not (asks and offer.amount > 0):
            return Verdict(None, away)
        cost, reports = self._use(offer.amount, found.reports)
        error = self._error(cost, reports, noise * found.reports)
        if not away > error:
            return Verdict(None, away, error)
        self.rule.take(slot, offer.amount)
        self._cost = cost
        fraction = (offer.share, offer.of) if terms.population else (1, 1)
        return Verdict(Request(slot, cost, *fraction), away, error)

    def _noise(self, found: Estimate) -> float:
        """The mean variance of the first phase's estimate."""
        if self.terms.oracle.numeric:
            return float(found.standard_error[0]) ** 2
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

    def _error(self, cost: int, reports: float, one: float) -> float:
        """The mean variance of a publication from so many reports; ``one`` is that of a report of
        the first phase.
        """
        if self.terms.population and self.terms.oracle.numeric:
            return one / reports
        return self.terms.oracle.variance(cost) / reports

    def _estimate(self, sums: NDArray[np.int64] | None) -> Estimate | None:
        if sums is None or not self._cost:
            return None
        return self.terms.oracle.estimate(self._cost, sums, population=self.terms.population)

    def _away(self) -> float:
        return max(self._dissimilarity, 0.0)

    def saved(self) -> dict[str, Any]:
        return {
            **super().saved(),
            "counts": list(self._counts),
            "dissimilarity": None if self._dissimilarity == inf else self._dissimilarity,
            "cost": self._cost,
            "rule": self.rule.saved(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        super().restore(saved)
        self._counts = deque(saved["counts"], maxlen=self.terms.window)
        self._dissimilarity = inf if saved["dissimilarity"] is None else saved["dissimilarity"]
        self._cost = saved["cost"]
        self.rule.restore(saved["rule"])
