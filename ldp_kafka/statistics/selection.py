"""The statistics that a topology releases: what a collector keeps for all of them together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods.estimates import Slot
from ldp_kafka.records import Reports
from ldp_kafka.statistics.base import Singles, Statistic
from ldp_kafka.statistics.prediction import Prediction

__all__ = ["Selection"]


@dataclass(frozen=True)
class Selection:
    """Some statistics of one method's reports, in the order in which they are released.

    The sums of a slot are those of each statistic one after the other. Where none has any, the
    number of reports stands for them: a slot with reports differs from one without.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> from ldp_kafka.statistics import STATISTICS
    >>> method = lk.method("capp", epsilon=20.0, window=5, domain=(0.0, 1.0))
    >>> both = Selection(tuple(STATISTICS[name](method) for name in ("per_user", "mean")))
    >>> both.linkable, both.start, both.sums(np.zeros(7), 0)
    (True, (0, 0, 0), [7, 0, 0])
    >>> [(name, found.reports) for name, found in both.of_slot([7, 0, 0])]
    [('mean', 7)]
    """

    statistics: tuple[Statistic, ...]

    @property
    def linkers(self) -> list[str]:
        """The names of those for which reports carry a pseudonym, which links those of a user."""
        return [one.name for one in self.statistics if one.linkable]

    @property
    def linkable(self) -> bool:
        """Whether reports must carry a pseudonym."""
        return bool(self.linkers)

    @cached_property
    def _widths(self) -> list[int]:
        """Integers in the sums of each."""
        return [len(one.sums(one.method.blank(0), 0)) for one in self.statistics]

    @property
    def width(self) -> int:
        """Integers in the sums of a slot."""
        return sum(self._widths) or 1

    def sums(self, reports: NDArray[np.generic], phase: int) -> list[int]:
        """Additive integer sums of the reports of one slot and phase. ValueError where they are no
        reports of the method.
        """
        found: list[int] = []
        for one, width in zip(self.statistics, self._widths, strict=True):
            found += one.sums(reports, phase).tolist() if one.takes(phase) else [0] * width
        return found or [len(reports)]

    @property
    def moving_average(self) -> int:
        """Over how many releases those of single users are averaged; 1: they are not."""
        return max((one.moving_average for one in self._of_users if one.averaged), default=1)

    @property
    def _of_users(self) -> list[Statistic]:
        return [one for one in self.statistics if one.linkable]

    @property
    def looks_back(self) -> int:
        """Slots before its own whose sums a release is made of, or its error."""
        return max((one.looks_back for one in self.statistics), default=0)

    def of_slot(
        self,
        sums: Sequence[int] | None,
        slot: int | None = None,
        earlier: Mapping[int, Sequence[int]] = {},
    ) -> Iterator[tuple[str, Estimate]]:
        """The releases of one slot by the names of their statistics, from its sums; None: nobody
        reported.

        Parameters
        ----------
        slot : its number, where it is known
        earlier : the sums of those of the `looks_back` slots before it that had reports
        """
        given = np.zeros(self.width, np.int64) if sums is None else np.array(sums, np.int64)
        at = 0
        for one, width in zip(self.statistics, self._widths, strict=True):
            part = slice(at, at + width)
            before = {t: np.array(each[part], np.int64) for t, each in earlier.items()}
            told = None if slot is None else Slot(slot, before)
            for found in one.of_slot(given[part], told):
                yield one.name, found
            at += width

    @property
    def start(self) -> tuple[int, ...]:
        """The totals before the first report."""
        return tuple(total for one in self.statistics for total in one.start)

    def count(self, totals: Sequence[int], index: NDArray[np.int64]) -> tuple[int, ...]:
        """The totals with these reports (n, ...), in units of the method's scale, in them."""
        if not len(index):
            return tuple(totals)
        more = (part for one in self.statistics for part in one.totals(index))
        return tuple(a + b for a, b in zip(totals, more, strict=True))

    def of_reports(
        self, batch: Reports, totals: Sequence[int], *, singles: bool = False
    ) -> Iterator[tuple[str, Singles]]:
        """The releases of single reports by the names of their statistics, given the totals with
        theirs in them; with ``singles`` of reports that come one after the other, given the totals
        before the first.
        """
        at = 0
        for one in self.statistics if len(batch) else ():
            end = at + len(one.start)
            released = one.of_singles if singles else one.of_reports
            for found in released(batch, tuple(totals[at:end])):
                yield one.name, found
            at = end

    def predict(self, users: int) -> tuple[Prediction, ...]:
        """How far a release of each will be off, among so many users."""
        return tuple(one.predict(users) for one in self.statistics)

    def warnings(self) -> Iterator[str]:
        """What speaks against releasing them of this method."""
        for one in self.statistics:
            yield from one.warnings()
