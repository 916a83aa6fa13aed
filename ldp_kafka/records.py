"""The record types that stages exchange: single records, and batches of them as columns.

All are frozen, and no repr shows a value of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import Reason
from ldp_kafka.randomness import Digests, Ids, take16

__all__ = [
    "DeadLetter",
    "Event",
    "Events",
    "Ids",
    "Partial",
    "Record",
    "Release",
    "Report",
    "Reports",
    "Request",
    "Sums",
    "Tick",
]

HIDDEN = "..."
RADIX = 2**10  # keys from which on a sort by radix is faster
TWO_PASSES = 2**15  # keys that 32 bits tell apart, all but once in ten times
KEPT = 32  # report ids that are sampled of a slot, a phase and a source


@dataclass(frozen=True, repr=False, slots=True)
class Event:
    """One value of one user: what never leaves the edge."""

    user: str
    time: int
    """Milliseconds since 1970-01-01 UTC."""
    value: float | int | str | tuple[float, ...]
    """A number, a tuple of them (a vector), or a category by number or name."""

    def __repr__(self) -> str:
        return f"Event(user={HIDDEN}, time={HIDDEN}, value={HIDDEN})"


@dataclass(frozen=True, repr=False, slots=True)
class Events:
    """A batch of events as columns of one length."""

    users: Ids
    times: NDArray[np.int64]
    values: NDArray[Any]
    """float64 (numeric; (n, dimension) for vectors), int64 (category numbers)."""

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        return f"Events({len(self)} rows)"

    def take(self, rows: NDArray[np.intp]) -> Events:
        """Those at ``rows``, in that order."""
        return Events(self.users.take(rows), self.times[rows], self.values[rows])

    @staticmethod
    def join(parts: Sequence[Events]) -> Events:
        """All of them, at least one batch, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return Events(
            Ids.join([part.users for part in parts]),
            np.concatenate([part.times for part in parts]),
            np.concatenate([part.values for part in parts]),
        )


@dataclass(frozen=True, slots=True)
class Tick:
    """Event time has come this far: closes the slots of a partition that has no events
    of its own.
    """

    time: int
    """Milliseconds since 1970-01-01 UTC."""


@dataclass(frozen=True, repr=False, slots=True)
class Report:
    """What a user's edge says about one slot: perturbed, and all that crosses the trust line."""

    id: str
    """32 hexadecimal digits: a keyed hash of (user, slot, phase)."""
    slot: int
    phase: int
    value: float | int | bytes | tuple[float, ...]
    """What the mechanism emitted, on its own scale; packed bits as bytes; a tuple for vectors whose
    coordinates are reported together.
    """
    fingerprint: str
    """Of the topology: 32 hexadecimal digits."""
    series: str | None = None
    """A pseudonym that links a user's reports; only where releases per user are asked for."""

    def __repr__(self) -> str:
        return f"Report(id={self.id}, slot={self.slot}, phase={self.phase}, value={HIDDEN})"


@dataclass(frozen=True, repr=False, slots=True)
class Reports:
    """The reports of one message as columns, sorted by id; the collector drops repeats by
    ``bound`` and ``chunk``.
    """

    ids: Digests
    slots: NDArray[np.int64]
    values: NDArray[Any]
    """(n,) int64 output indices: the mechanism's outputs in units of ``scale``; or (n, width) uint8
    packed bits; or (n, dimension) int64 indices of vectors.
    """
    scale: float
    fingerprint: str
    bound: int
    """The number of the bound at which the edge sent them, see `runtime.stages.bounds`; -1 of a
    device, which numbers nothing."""
    closed: int | None
    """Last slot that the edge's watermark has closed; None before any."""
    chunk: int = 0
    phase: int = 0
    series: Digests | None = None
    cost: int = 0
    """Whole micro-epsilon of each report, where a request said it; 0: the method's own."""
    settled: int | None = None
    """Last slot that no report of any phase can come for; None before any, and where there is one
    phase, whose slots are ``closed``.
    """

    def __len__(self) -> int:
        return len(self.slots)

    def __repr__(self) -> str:
        return f"Reports({len(self)} rows, bound={self.bound}, closed={self.closed})"

    def take(self, rows: slice | NDArray[np.intp]) -> Reports:
        """Those at ``rows``, in that order; all else is the batch's."""
        if isinstance(rows, slice) and (rows.start, rows.stop) == (0, len(self)):
            return self
        return self._with(
            self.ids[rows],
            self.slots[rows],
            self.values[rows],
            None if self.series is None else self.series[rows],
        )

    def gather(self, order: NDArray[np.intp]) -> Reports:
        """The same rows in another order."""
        if len(self) < 2:
            return self
        return self._with(
            take16(self.ids, order),
            self.slots.take(order),
            self.values.take(order, axis=0),
            None if self.series is None else take16(self.series, order),
        )

    def stamp(
        self,
        bound: int,
        chunk: int,
        phase: int,
        closed: int | None,
        settled: int | None = None,
    ) -> Reports:
        """With what the collector counts once by, the phase and what the edge has closed."""
        return Reports(
            self.ids,
            self.slots,
            self.values,
            self.scale,
            self.fingerprint,
            bound,
            closed,
            chunk,
            phase,
            self.series,
            self.cost,
            settled,
        )

    def _with(
        self, ids: Digests, slots: NDArray[np.int64], values: NDArray[Any], series: Digests | None
    ) -> Reports:
        """Other rows, all else the batch's; `dataclasses.replace` takes as long as the rest of what
        is done to a single report.
        """
        return Reports(
            ids,
            slots,
            values,
            self.scale,
            self.fingerprint,
            self.bound,
            self.closed,
            self.chunk,
            self.phase,
            series,
            self.cost,
            self.settled,
        )

    def singles(self) -> list[Report]:
        """One `Report` a row."""
        whole = self.scale == int(self.scale)
        scale: float | int = int(self.scale) if whole else self.scale
        ids, series = (
            hexadecimal(self.ids),
            ([None] * len(self) if self.series is None else hexadecimal(self.series)),
        )
        if self.values.dtype == np.uint8:
            values: list[Any] = [bits.tobytes() for bits in self.values]
        elif self.values.ndim == 2:
            values = [tuple(each * scale for each in vector) for vector in self.values.tolist()]
        else:
            values = [value * scale for value in self.values.tolist()]
        rows = zip(ids, self.slots.tolist(), values, series, strict=True)
        return [
            Report(i, slot, self.phase, value, self.fingerprint, link)
            for i, slot, value, link in rows
        ]


@dataclass(frozen=True, slots=True)
class Partial:
    """What one source (a raw partition) has to say of one phase of a slot, or that it has nothing
    for slots up to and including it.
    """

    source: int
    slot: int
    first: int | None
    """The first slot in which the source had a report; None so far."""
    support: tuple[int, ...] | None
    """Additive integer sums; None: the source is empty from its last partial through ``slot``."""
    sample: tuple[str, ...] = ()
    """The first of its report ids in the slot, see `ldp_kafka.runtime.stages.sample`."""
    phase: int = 0
    """Of the reports that are summed; 0 where there are none."""
    last: bool = True
    """Whether the source has no further phase of the slot: with it the slot is closed."""
    cost: int = 0
    """Whole micro-epsilon of each report, where a request said it; 0: the method's own."""


@dataclass(frozen=True, slots=True)
class Sums:
    """What all sources have to say of one phase of a slot together."""

    slot: int
    phase: int
    cost: int
    """Whole micro-epsilon of each report, where a request said it; 0: the method's own."""
    support: tuple[int, ...] | None
    """Additive integer sums, the number of reports first; None: there are none, and none come any
    more for this slot and those before it.
    """
    twice: bool = False
    """Whether users were seen to report twice, in this slot or before it."""


@dataclass(frozen=True, slots=True)
class Request:
    """A collector's wish for reports; the edge's ledger decides."""

    id: str
    slot: int
    phase: int
    epsilon: int
    """Whole micro-epsilon; 0: nobody is asked, and the slot's values need not be held."""
    deadline: int
    """Last slot in which it may be answered."""
    share: int = 1
    """Each user who can be asked is selected with probability share / of."""
    of: int = 1


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Where a bad record lies and why it is no good; never what it holds."""

    topic: str
    partition: int
    offset: int
    row: int
    """In the message; 0 where it is one record, or no row can be told."""
    reason: Reason


@dataclass(frozen=True, slots=True)
class Release:
    """A published statistic with its error."""

    topology: str
    slot: int
    start: str
    """ISO 8601, UTC."""
    end: str
    statistic: str
    value: Any
    """A number or a list; None without reports."""
    standard_error: Any
    """What it covers depends on the statistic: see `deploy/docs/pages/reference/records.md`."""
    confidence_interval: Any
    """[low, high], 95 %; lists of them for lists."""
    reports: int
    strategy: str
    guarantee: dict[str, Any]
    user: str | None = None
    reliability: float | None = None
    round: dict[str, Any] | None = None
    """Where a coordinator decides what is released, what it decided by: see
    `ldp_kafka.runtime.stages.rounds`. Of a moving average, over how many releases.
    """
    event: dict[str, Any] | None = None
    """Of an event, whose value is 1 or 0: the threshold (``above``), and the probability that the
    truth is on the other side of it (``error``).
    """
    categories: list[str] | None = None
    """Of a list with a number a category: their names, where they have any."""
    edges: list[float] | None = None
    """Of a list with a number a bin: where the bins begin, and where the last one ends."""
    error_reason: str | None = None
    """Why a value has no standard error: a word of `ldp_kafka.methods.unstated.UNSTATED`."""

    @property
    def key(self) -> str:
        """Of its record in the releases topic: a release that is written again has the same."""
        return release_key(self.statistic, self.slot, self.user)


Record = Event | Report | Request | Release | Tick | Partial | Sums | DeadLetter
"""Whatever one message of our topics may hold."""


def release_key(statistic: str, slot: int, user: str | None) -> str:
    """The key of the record of one release.

    Examples
    --------
    >>> release_key("mean", 472222, None), release_key("per_user", 472222, "5f2a")
    ('mean/472222', 'per_user/472222/5f2a')
    """
    return f"{statistic}/{slot}" + (f"/{user}" if user else "")


def ascending(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """The order (n,) of keys that are as good as random: by their highest bits, which numpy sorts
    by radix, 16 at a time. Where these do not tell all of them apart it is numpy's own order.
    """
    if len(keys) < RADIX:
        return np.argsort(keys)
    parts = keys.view(np.uint16).reshape(-1, 4)  # the lowest bits first
    order = np.argsort(parts[:, 1 if len(keys) > TWO_PASSES else 2], kind="stable")
    for part in (2, 3) if len(keys) > TWO_PASSES else (3,):
        order = order[np.argsort(parts[order, part], kind="stable")]
    found = keys[order]
    return order if (found[1:] > found[:-1]).all() else np.argsort(keys)


def hexadecimal(digests: Digests) -> list[str]:
    """Each 128-bit digest as 32 digits."""
    whole = np.ascontiguousarray(digests).tobytes().hex()
    return [whole[i : i + 32] for i in range(0, len(whole), 32)]
