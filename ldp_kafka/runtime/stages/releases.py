"""Releases: what is published of sums of reports, with its error, as the records of a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.records import Release, Reports, release_key
from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.runtime.wire.user_releases import DIGITS, write_user_releases
from ldp_kafka.statistics import ABOVE, CrowdStatistic, Selection, Singles, above
from ldp_kafka.topology import Topology

__all__ = ["DIGITS", "Publisher", "iso", "publisher"]

Average = Callable[[Singles], tuple[Singles, NDArray[np.bool_]]]
"""Of the releases of single reports (n,) to their moving averages, and which of them are sent."""
CYCLE = 146_097 * 86_400_000  # milliseconds of 400 years, after which the calendar repeats


@dataclass(frozen=True)
class Publisher:
    """Makes the release records of one topology.

    Parameters
    ----------
    statistics : of the topology, of the reports of its method
    slot_ms : length of a slot, milliseconds
    partitions : of the topic: releases of a slot go to the first, in the order of their slots,
        those of a user always to the same
    above : threshold of the events that are released beside each statistic of a crowd; None: none
    categories : names of the categories, in their order; None where they have none
    twice : whether users were seen to report twice in a slot: nothing is guaranteed then
    shards : that the state of releases per user is spread over, where they are averaged
    """

    topology: str
    topic: str
    method: str
    guarantee: dict[str, Any]
    statistics: Selection
    slot_ms: int
    partitions: int = 1
    above: float | None = None
    categories: tuple[str, ...] | None = None
    twice: bool = False
    shards: int = 1

    def of_slot(
        self,
        slot: int,
        sums: Sequence[int] | None,
        earlier: Mapping[int, Sequence[int]] = {},
    ) -> list[Record]:
        """The releases of a slot from its merged sums; null values where nobody reported.
        ``earlier``: the sums of slots before it, of as many as its statistics look back.
        """
        return [
            self._record(release)
            for statistic, estimate in self.statistics.of_slot(sums, slot, earlier)
            for release in self._both(slot, statistic, estimate, {})
        ]

    def of_reports(
        self,
        batch: Reports,
        series: Sequence[str | None],
        totals: Sequence[int],
        *,
        singles: bool = False,
        average: Average | None = None,
    ) -> list[Record]:
        """One release a report, keyed by the user's pseudonym where it has one; ``totals`` are
        those of all reports so far, or (``singles``, reports that come one after the other) of
        those before the first. ``average`` makes moving averages of those that are to be averaged.
        """
        slots, made = batch.slots.tolist(), []
        for statistic, found in self.statistics.of_reports(batch, totals, singles=singles):
            shown, sent = found, np.ones(len(slots), np.bool_)
            if average is not None and statistic in self.averaged:
                shown, sent = average(found)
            records = self._of_reports(statistic, slots, shown, series)
            made.append([one if new else None for one, new in zip(records, sent, strict=True)])
        if singles:
            made = [list(each) for each in zip(*made, strict=True)]
        return [record for each in made for record in each if record is not None]

    def of_round(
        self, slot: int, found: Estimate, strategy: str, told: dict[str, Any]
    ) -> list[Record]:
        """The release of a slot that a coordinator has decided; ``told``: what it decided by."""
        [statistic] = self.statistics.statistics
        made = self._both(slot, statistic.name, found, {"round": _told(told)}, strategy=strategy)
        return [self._record(release) for release in made]

    def _both(
        self, slot: int, statistic: str, found: Estimate, own: dict[str, Any], **told: Any
    ) -> list[Release]:
        """The release of a statistic and its event, both with what the numbers of a list are of."""
        told |= self.labels[statistic]
        return [
            self._of_slot(slot, statistic, found, **told, **own),
            *self._events(slot, statistic, found, **told),
        ]

    @cached_property
    def labels(self) -> dict[str, dict[str, Any]]:
        """By statistic, what the numbers of its lists are of, as `Release` has it: names of
        categories, or edges of bins. Whoever reads the topic has no topology.
        """
        found: dict[str, dict[str, Any]] = {}
        for one in self.statistics.statistics:
            found[one.name] = {}
            if one.by_category and self.categories is not None:
                found[one.name]["categories"] = list(self.categories)
            if one.edges is not None:
                found[one.name]["edges"] = [_plain(edge) for edge in one.edges]
        return found

    @cached_property
    def averaged(self) -> dict[str, dict[str, Any]]:
        """By those statistics whose releases are moving averages, what says so in each of them."""
        return {
            one.name: {"postprocess": {"moving_average": one.moving_average}}
            for one in self.statistics.statistics
            if one.averaged and one.moving_average > 1
        }

    @cached_property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """By statistic, what each number of it can truly be."""
        return {
            one.name: one.bounds
            for one in self.statistics.statistics
            if isinstance(one, CrowdStatistic)
        }

    def _events(self, slot: int, statistic: str, found: Estimate, **told: Any) -> list[Release]:
        """The event of an estimate of the crowd's statistic, where events are released."""
        if self.above is None:
            return []
        value, error = above(found, self.above, self.bounds[statistic])
        reports = 0 if value is None else found.reports
        wrong = [_told(each) for each in error] if isinstance(error, list) else _told(error)
        told |= {"event": {ABOVE: self.above, "error": wrong}, "error_reason": found.reason}
        return [self._release(slot, ABOVE, value, reports, **told)]

    def _of_slot(self, slot: int, statistic: str, found: Estimate, **told: Any) -> Release:
        if found.value is None:
            return self._release(slot, statistic, None, 0, **told)
        told = {"round": self.averaged.get(statistic), **told}
        if found.standard_error is None:
            told["error_reason"] = found.reason
        else:
            told["standard_error"] = _plain(found.standard_error)
            told["confidence_interval"] = [_plain(end) for end in found.interval()]
        return self._release(slot, statistic, _plain(found.value), found.reports, **told)

    def _of_reports(
        self, statistic: str, slots: list[int], found: Singles, users: Sequence[str | None]
    ) -> Iterator[Record]:
        def common(slot: int) -> Release:
            return self._release(slot, statistic, None, 1, round=self.averaged.get(statistic))

        written = write_user_releases(common, slots, found, users)
        for slot, user, value in zip(slots, users, written, strict=True):
            yield self._keyed(statistic, slot, user, value)

    def _release(self, slot: int, statistic: str, value: Any, reports: int, **told: Any) -> Release:
        """Of which no error is stated, unless it is ``told`` with what else is."""
        start, end = (iso(at * self.slot_ms) for at in (slot, slot + 1))
        guarantee = {**self.guarantee, "epsilon": None} if self.twice else self.guarantee
        unsaid = dict.fromkeys(("standard_error", "confidence_interval"))
        return Release(
            self.topology,
            slot,
            start,
            end,
            statistic,
            value,
            reports=reports,
            guarantee=guarantee,
            **{**unsaid, "strategy": self.method, **told},
        )

    def _record(self, release: Release) -> Record:
        return self._keyed(release.statistic, release.slot, release.user, encode_json(release))

    def _keyed(self, statistic: str, slot: int, user: str | None, value: bytes) -> Record:
        key = release_key(statistic, slot, user)
        partition = int(user[:8], 16) % self.partitions if user else 0
        return Record(self.topic, partition, key.encode(), value)


def _told(found: Any) -> Any:
    """The same with floats as they are published, None for what is not known."""
    if isinstance(found, dict):
        return {name: _told(each) for name, each in found.items()}
    if isinstance(found, float):
        return _plain(found) if isfinite(found) else None
    return found


def _plain(value: Any) -> Any:
    """Python numbers of 15 digits; None for what a vector lacks."""
    if isinstance(value, np.ndarray):
        return [_plain(each) if isfinite(each) else None for each in value.tolist()]
    return float(f"{value:.{DIGITS}g}")


def iso(milliseconds: int) -> str:
    """ISO 8601, UTC; beyond the year 9999 as its 400-year twin, with a sign before the year."""
    cycles, within = divmod(milliseconds, CYCLE)
    moment = datetime.fromtimestamp(within // 1000, UTC).replace(microsecond=within % 1000 * 1000)
    text = moment.isoformat(timespec="milliseconds" if within % 1000 else "seconds").replace(
        "+00:00", "Z"
    )
    year = moment.year + 400 * cycles
    return f"{'+' if year > 9999 else ''}{year:04d}{text[4:]}"


def publisher(topology: Topology) -> Publisher:
    """Makes the topology's releases."""
    source = topology.input
    return Publisher(
        topology.name,
        topology.releases_topic,
        topology.method.name,
        topology.guarantee.as_json(),
        topology.statistics,
        source.slot_ms,
        source.partitions,
        topology.output.above,
        topology.privacy.category_names,
        shards=topology.runtime.shards,
    )
