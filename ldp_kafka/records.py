"""What moves between rooms: one record of each kind, or a batch of them as columns.

All are frozen, and no repr shows a value of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.randomness import Digests, Ids

__all__ = ["Event", "Events", "Ids", "Partial", "Release", "Report", "Reports", "Request", "Tick"]

HIDDEN = "..."


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
    """The reports of one raw message as columns, sorted by id; ``offset`` and ``chunk`` are what
    the collector counts once by.
    """

    ids: Digests
    slots: NDArray[np.int64]
    values: NDArray[Any]
    """(n,) int64 output indices: the mechanism's outputs in units of ``scale``; or (n, width) uint8
    packed bits; or (n, dimension) int64 indices of vectors.
    """
    scale: float
    fingerprint: str
    offset: int
    """Of the raw message that they answer."""
    closed: int | None
    """Last slot that the edge's watermark has closed; None before any."""
    chunk: int = 0
    phase: int = 0
    series: Digests | None = None

    def __len__(self) -> int:
        return len(self.slots)

    def __repr__(self) -> str:
        return f"Reports({len(self)} rows, offset={self.offset}, closed={self.closed})"

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
    """What one source (a raw partition) has to say of a slot, or that it has nothing for slots up
    to and including it.
    """

    source: int
    slot: int
    first: int | None
    """The first slot in which the source had a report; None so far."""
    support: tuple[int, ...] | None
    """Additive integer sums; None: the source is empty from its last partial through ``slot``."""
    sample: tuple[str, ...] = ()
    """The first of its report ids in the slot, see `ldp_kafka.runtime.stages.sample`."""


@dataclass(frozen=True, slots=True)
class Request:
    """A collector's wish for reports; the edge's ledger decides."""

    id: str
    slot: int
    phase: int
    epsilon: int
    """Whole micro-epsilon."""
    deadline: int
    """Last slot in which it may be answered."""


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
    confidence_interval: Any
    """[low, high], 95 %; lists of them for lists."""
    reports: int
    strategy: str
    guarantee: dict[str, Any]
    user: str | None = None
    reliability: float | None = None


def hexadecimal(digests: Digests) -> list[str]:
    """Each 128-bit digest as 32 digits."""
    whole = np.ascontiguousarray(digests).tobytes().hex()
    return [whole[i : i + 32] for i in range(0, len(whole), 32)]
