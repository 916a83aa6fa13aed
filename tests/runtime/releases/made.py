"""Releases for tests, as records of their topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ldp_kafka.records import Release
from ldp_kafka.runtime.kafka.reader import Kept
from ldp_kafka.runtime.releases.choosing import Choosing
from ldp_kafka.runtime.releases.stream import Releases
from ldp_kafka.runtime.stages.releases import iso
from ldp_kafka.runtime.wire.codec import encode

HOUR = 3_600_000
GUARANTEE = {"level": "w-event", "epsilon": 2.0, "delta": 0.0, "window": 4}


def release(slot: int, value: Any = 10.0, statistic: str = "mean", **more: Any) -> Release:
    """One release of a slot of an hour, with an interval of 2 around its value."""
    given = {
        "standard_error": 1.0,
        "confidence_interval": [value - 2, value + 2] if isinstance(value, float) else None,
        "reports": 50,
        "strategy": "sw_direct",
        "guarantee": GUARANTEE,
        **more,
    }
    return Release(
        "meters", slot, iso(slot * HOUR), iso((slot + 1) * HOUR), statistic, value, **given
    )


def shares(slot: int, values: list[float] | None, **more: Any) -> Release:
    """One release of shares."""
    ends = None if values is None else [[v - 0.1 for v in values], [v + 0.1 for v in values]]
    errors = None if values is None else [0.05] * len(values)
    given = {"confidence_interval": ends, "standard_error": errors, **more}
    return release(slot, values, given.pop("statistic", "frequencies"), **given)


def above(slot: int, value: int, error: float) -> Release:
    """One event."""
    return release(slot, value, "above", standard_error=None, event={"above": 5.0, "error": error})


def kept(values: Iterable[Release | bytes | None], partition: int = 0) -> Iterator[Kept | None]:
    """Records of a partition; None stays None: nothing is there at the moment."""
    for offset, each in enumerate(values):
        if each is None:
            yield None
            continue
        value = each if isinstance(each, bytes) else encode(each)
        key = each.key.encode() if isinstance(each, Release) else None
        yield Kept(partition, offset, 0, key, value)


def read(values: Iterable[Release | bytes | None], later: Any = None, **more: Any) -> Releases:
    """The releases of a topic that holds these."""
    return Releases(
        kept(values),
        None if later is None else lambda: kept(later),
        Choosing(HOUR, **more),
    )
