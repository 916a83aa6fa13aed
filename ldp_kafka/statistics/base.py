"""The contract of a statistic: what can be released of the reports of a method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods import Method
from ldp_kafka.methods.estimates import Slot
from ldp_kafka.methods.protocols.coordinator import reaching, within_bounds
from ldp_kafka.records import Reports
from ldp_kafka.statistics.prediction import Prediction, reporting

__all__ = ["CrowdStatistic", "SingleStatistic", "Singles", "Statistic"]

_VALUES = {"numeric": "numbers", "categorical": "categories"}


class Singles(NamedTuple):
    """Releases of single reports: a value and a standard error for each report of a batch."""

    values: NDArray[np.float64]
    """(n,) or (n, dimension); NaN where a coordinate was not reported."""
    standard_errors: NDArray[np.float64]
    """Of the same shape; looked at where there is no ``reason`` alone."""
    reliability: float | NDArray[np.float64]
    """Share of a release that is signal, 0..1: of all, or (n,) of each."""
    limits: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    """The 95 % intervals (low, high), where they are not the normal ones of the errors."""
    reason: str | None = None
    """Why no error is said, of any of them: a word of `ldp_kafka.methods.unstated.UNSTATED`."""

    def interval(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The 95 % confidence intervals."""
        low, high = Estimate(self.values, self.standard_errors, 1, self.limits).interval()
        return low, high

    def around(self, values: NDArray[np.float64], bounds: tuple[float, float]) -> Singles:
        """Other values (n,) in place of these, with intervals that reach from them to the limits of
        these, inside the bounds.
        """
        if self.reason is not None:
            return self._replace(values=values)
        own = Estimate(self.values, self.standard_errors, 1, self.limits)
        found = within_bounds(reaching(values, own, bounds), bounds)
        return self._replace(
            values=values, standard_errors=found.standard_error, limits=found.limits
        )

    @classmethod
    def joined(cls, parts: list[Singles]) -> Singles:
        """One after the other, at least one report, all with one reason."""
        values, errors, low, high = (
            np.concatenate(each)
            for each in zip(
                *((one.values, one.standard_errors, *one.interval()) for one in parts), strict=True
            )
        )
        shares = [np.broadcast_to(one.reliability, len(one.values)) for one in parts]
        return cls(values, errors, np.concatenate(shares), (low, high), parts[0].reason)


class Statistic(ABC):
    """One statistic of what one method reports.

    Parameters
    ----------
    method : whose reports it is made of
    shrinkage : whether what is released of single users is drawn to the crowd's as far as noise
        hides it
    moving_average : over how many releases, the slot's own and those before it, means and releases
        of single users are averaged; 1: the slot's own alone
    bins : of the domain, where it is ``binned`` and the method has none of its own

    Notes
    -----
    A statistic is a file with one class, and its line in `ldp_kafka.statistics.STATISTICS`. It
    derives from `CrowdStatistic`, one release a slot, or `SingleStatistic`, one release a report.
    All that a collector keeps for it is integers that add up: `sums` of a slot, and `totals` of all
    reports that have counted. Whoever calls it asks nothing of its kind: what a statistic has no
    use for is empty.
    """

    name: ClassVar[str]
    kind: ClassVar[str] = ""
    """The kind of method that it is made of, as `Method.kind`; empty: any."""
    needs: ClassVar[str] = ""
    """What the method's reports must tell, one of `Method.statistics`; empty: nothing."""
    binned: ClassVar[bool] = False
    """Whether it is over bins of the domain, which are public."""
    linkable: ClassVar[bool] = False
    """Whether reports must carry a pseudonym for it, which links those of a user."""
    curated: ClassVar[bool] = False
    """Whether it is of streams that a curator sees, and not of reports."""
    by_category: ClassVar[bool] = False
    """Whether its value is a list with one number a category."""
    averaged: ClassVar[bool] = False
    """Whether it looks at its `moving_average`."""

    def __init__(
        self,
        method: Method,
        *,
        shrinkage: bool = True,
        moving_average: int = 1,
        bins: int | None = None,
    ) -> None:
        self.method, self.shrinkage, self.moving_average = method, shrinkage, moving_average
        self.bins = bins or 1

    @classmethod
    def unfit(cls, method: Method) -> str | None:
        """Why it cannot be made of what ``method`` reports; None where it can."""
        if cls.kind not in ("", method.kind):
            return (
                f"{cls.name} must come from a method for {_VALUES[cls.kind]};"
                f" {method.name} is for {_VALUES[method.kind]}"
            )
        if cls.needs not in ("", *method.statistics):
            why = method.untold.get(cls.needs)
            because = f": {why}" if why else ""
            return (
                f"{cls.name} cannot be made of what {method.name} reports{because}; it has"
                f" {', '.join(method.statistics)}"
            )
        return None

    @property
    def edges(self) -> tuple[float, ...] | None:
        """Where its value is a list with one number a bin: the edges of the bins, one more than
        there are bins. None elsewhere.
        """
        return None

    def takes(self, phase: int) -> bool:
        """Whether reports of this phase of a slot count: all that the method has, unless a
        statistic says otherwise. Sums of the phases that it takes add up.
        """
        del phase
        return True

    def sums(self, reports: NDArray[np.generic], phase: int) -> NDArray[np.int64]:
        """Additive integer sums of the reports of one slot and phase, as many whatever the phase:
        their number first.
        """
        del reports, phase
        return np.empty(0, np.int64)

    @property
    def looks_back(self) -> int:
        """Slots before its own whose sums a release is made of, or its error."""
        return 0

    def of_slot(self, sums: NDArray[np.int64], slot: Slot | None = None) -> list[Estimate]:
        """The releases of one slot, from its merged sums; their value is None where nobody
        reported.
        """
        del sums, slot
        return []

    @property
    def start(self) -> tuple[int, ...]:
        """`totals` before the first report."""
        return ()

    def totals(self, index: NDArray[np.int64]) -> tuple[int, ...]:
        """Additive sums over all slots, of reports (n, ...) in units of the method's scale, at
        least one.
        """
        del index
        return ()

    def of_reports(self, batch: Reports, totals: tuple[int, ...]) -> list[Singles]:
        """The releases of single reports, given the totals with theirs in them."""
        del batch, totals
        return []

    def of_singles(self, batch: Reports, totals: tuple[int, ...]) -> list[Singles]:
        """The releases of reports that come one after the other, given the totals before the first:
        each as `of_reports` of it alone makes it, beside those before it.
        """
        del batch, totals
        return []

    @abstractmethod
    def predict(self, users: int) -> Prediction:
        """How far one release will be off, among so many users."""

    def warnings(self) -> list[str]:
        """What speaks against releasing it of this method, whatever the crowd."""
        return []


class CrowdStatistic(Statistic):
    """A statistic of all who reported in a slot: one release a slot, from its sums."""

    @abstractmethod
    def sums(self, reports: NDArray[np.generic], phase: int) -> NDArray[np.int64]:
        """Additive integer sums of the reports of one slot and phase: their number first."""

    @abstractmethod
    def estimate(self, sums: NDArray[np.int64]) -> Estimate:
        """The statistic and its standard error, from the sums of at least one report."""

    @abstractmethod
    def error(self, reports: int) -> float:
        """The standard error that a release of so many reports will carry, at the input where it
        is largest.
        """

    normal: ClassVar[bool] = True
    """Whether its error is normal, as that of a sum of many reports: events are judged by that."""
    of_protocols: ClassVar[bool] = False
    """Whether it is what the protocols release of reports such as the method's."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest that it can truly be, each number of it."""
        return -inf, inf

    guess: ClassVar[str] = "the domain's midpoint"
    """The best constant, in words."""

    @property
    def constant(self) -> float | None:
        """What the best constant, published without looking at any value, is off by at most; None
        where there is no such constant.
        """
        return None

    def of_slot(self, sums: NDArray[np.int64], slot: Slot | None = None) -> list[Estimate]:
        del slot
        return [self.estimate(sums) if sums[0] else Estimate(None, None, 0)]

    def predict(self, users: int) -> Prediction:
        reports = reporting(self.method, users)
        return Prediction(
            self.name,
            self.error(reports),
            self.constant,
            reports,
            guess=self.guess,
            course=self.method.course(reports),
            clipping=self.method.clipping,
        )


class SingleStatistic(Statistic):
    """A statistic of every single report: one release a report."""

    linkable = True

    @abstractmethod
    def read(self, batch: Reports, totals: tuple[int, ...]) -> Singles:
        """What the reports of a batch say, each by itself, beside all that have counted."""

    def of_reports(self, batch: Reports, totals: tuple[int, ...]) -> list[Singles]:
        return [self.read(batch, totals)]

    def read_singles(self, batch: Reports, totals: tuple[int, ...]) -> Singles:
        """The same of reports (n, ...), at least one, that come one after the other: each beside
        itself and all that have counted before it; ``totals`` are those before the first.
        """
        found = []
        for at in range(len(batch)):
            one = batch.take(slice(at, at + 1))
            more = self.totals(one.values)
            totals = tuple(a + b for a, b in zip(totals, more, strict=True))
            found.append(self.read(one, totals))
        return Singles.joined(found)

    def of_singles(self, batch: Reports, totals: tuple[int, ...]) -> list[Singles]:
        return [self.read_singles(batch, totals)]
