"""Releases: what is published of sums of reports, with its error, as the records of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods import Method
from ldp_kafka.methods.base import SENT, Step
from ldp_kafka.methods.response_curve import ResponseCurve
from ldp_kafka.methods.shrinkage import Shrinkage
from ldp_kafka.records import Release, Reports
from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import Topology

__all__ = ["Publisher", "publisher"]

CROWD = ("mean", "frequencies")
CYCLE = 146_097 * 86_400_000  # milliseconds of 400 years, after which the calendar repeats
DIGITS = 15  # of a published float: what every platform computes alike


@dataclass(frozen=True)
class Publisher:
    """Makes the release records of one topology.

    Parameters
    ----------
    statistics : of the topology: mean, frequencies, per_user
    slot_ms : length of a slot, milliseconds
    partitions : of the topic: crowd statistics go to the first, in the order of their slots, those
        of a user always to the same
    """

    topology: str
    topic: str
    method: Method
    statistics: Sequence[str]
    slot_ms: int
    partitions: int = 1
    shrinkage: bool = True
    """Whether releases per user are drawn to the crowd's mean as far as noise hides them."""

    def crowd(self, slot: int, sums: list[int] | None) -> list[Record]:
        """The crowd statistics of a slot from its merged support; null values where nobody
        reported.
        """
        return [
            self._record(self._crowd(slot, statistic, sums))
            for statistic in self.statistics
            if statistic in CROWD
        ]

    def per_user(self, batch: Reports, series: list[str], crowd: Sequence[int]) -> list[Record]:
        """One release a report, keyed by the user's pseudonym; ``crowd`` are the number, the sum
        and the sum of squares of all reports so far, by which it is shrunk.
        """
        if self.shrinkage and self.method.shrinks:
            prior = Shrinkage(self.method, curve=_curve(self.method))
            prior.add(list(crowd))
            shrunk = prior.apply(batch.values)
            values, error, reliability = shrunk.values, shrunk.standard_error, shrunk.reliability
        else:
            values, error, reliability = (
                self._unshrunk(batch),
                self.method.single_error,
                self.method.reliability,
            )
        rows = zip(
            batch.slots.tolist(),
            values if values.ndim > 1 else values.tolist(),
            series,
            strict=True,
        )
        return [
            self._record(self._single(slot, value, user, error, reliability))
            for slot, value, user in rows
        ]

    def _unshrunk(self, batch: Reports) -> NDArray[np.float64]:
        """What reports say; vectors whole, NaN in the coordinates that are not reported."""
        answers = batch.values * batch.scale
        if not self.method.dimension:
            return self.method.released(answers)
        return self.method.published(
            Step(answers, np.full(len(batch), SENT, np.uint8), phase=batch.phase)
        )

    def _crowd(self, slot: int, statistic: str, sums: list[int] | None) -> Release:
        if not sums or not sums[0]:
            return self._release(slot, statistic, value=None, error=None, interval=None, reports=0)
        estimate = self.method.crowd(np.array(sums, np.int64))
        low, high = estimate.interval()
        return self._release(
            slot,
            statistic,
            value=_plain(estimate.value),
            error=_plain(estimate.standard_error),
            interval=_pair(low, high),
            reports=estimate.reports,
        )

    def _single(
        self, slot: int, value: Any, user: str, error: float, reliability: float
    ) -> Release:
        low, high = Estimate(value, error, 1).interval()
        return self._release(
            slot,
            "per_user",
            value=_plain(value),
            error=_plain(
                np.where(np.isnan(value), np.nan, error) if self.method.dimension else error
            ),
            interval=_pair(low, high),
            reports=1,
            user=user,
            reliability=_plain(reliability),
        )

    def _release(
        self,
        slot: int,
        statistic: str,
        *,
        value: Any,
        error: Any,
        interval: Any,
        reports: int,
        user: str | None = None,
        reliability: Any = None,
    ) -> Release:
        start, end = (_iso(at * self.slot_ms) for at in (slot, slot + 1))
        return Release(
            self.topology,
            slot,
            start,
            end,
            statistic,
            value,
            error,
            interval,
            reports,
            self.method.name,
            self._guarantee,
            user,
            reliability,
        )

    @cached_property
    def _guarantee(self) -> dict[str, Any]:
        return self.method.guarantee.as_json()

    def _record(self, release: Release) -> Record:
        key = f"{release.statistic}/{release.slot}" + (f"/{release.user}" if release.user else "")
        partition = int(release.user[:8], 16) % self.partitions if release.user else 0
        return Record(self.topic, partition, key.encode(), encode_json(release))


@lru_cache(maxsize=16)
def _curve(method: Method) -> ResponseCurve:
    """Simulated once a method, whatever the number of sources that release by it."""
    return ResponseCurve.of(method.single)


def _plain(value: Any) -> Any:
    """Python numbers of 15 digits; None for what a vector lacks."""
    if isinstance(value, np.ndarray):
        return [_plain(each) if isfinite(each) else None for each in value.tolist()]
    return float(f"{value:.{DIGITS}g}")


def _pair(low: Any, high: Any) -> list[Any]:
    return [_plain(low), _plain(high)]


def _iso(milliseconds: int) -> str:
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
    output, source = topology.output, topology.input
    return Publisher(
        topology.name,
        topology.releases_topic,
        topology.method,
        output.statistics,
        source.slot_ms,
        source.partitions,
        output.shrinkage,
    )
