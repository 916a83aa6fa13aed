"""What the collector looks at of devices' reports before it counts them, of many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.records import Reports

__all__ = ["DeviceRows", "partition_of", "said"]

FARTHEST = 2**62  # slots: no report's is as late


def partition_of(name: bytes, partitions: int) -> int:
    r"""The partition of a report by its id (16 bytes): keyed hashes are uniform, and a report that
    is sent again must meet its first copy.

    Examples
    --------
    >>> partition_of(bytes(7) + b"\x05" + bytes(8), 3)
    2
    """
    return int.from_bytes(name[:8], "big") % partitions


class DeviceRows(NamedTuple):
    """Columns of single reports.

    Parameters
    ----------
    names : the ids
    at_home : which of them lie in their partition
    slots : of the reports
    latest : the last slot that the broker's clock allows each
    told : the slot to which each moves the watermark
    """

    names: list[bytes]
    at_home: NDArray[np.bool_]
    slots: NDArray[np.int64]
    latest: NDArray[np.int64]
    told: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"DeviceRows({len(self.names)} reports)"  # never a value

    @classmethod
    def of(
        cls,
        reports: Reports,
        timestamps: Sequence[int],
        partition: int,
        partitions: int,
        slot_ms: int,
        max_ahead_ms: int,
    ) -> DeviceRows:
        """Of a run of reports; ``timestamps``: of their records (ms), negative where unknown."""
        ids = np.ascontiguousarray(reports.ids)
        whole, slots = ids.tobytes(), reports.slots
        times = [FARTHEST if time < 0 else min(time // slot_ms, FARTHEST) for time in timestamps]
        latest = [
            FARTHEST if time < 0 else min((time + max_ahead_ms) // slot_ms, FARTHEST)
            for time in timestamps
        ]
        return cls(
            [whole[at : at + 16] for at in range(0, len(whole), 16)],
            ids.view(">u8")[:, 0] % np.uint64(partitions) == partition,
            slots,
            np.array(latest, np.int64),
            np.minimum(slots, np.array(times, np.int64)),
        )


def said(reports: Reports) -> list[bytes]:
    """A digest of what each report says."""
    values, n = np.ascontiguousarray(reports.values).tobytes(), len(reports)
    series = b"" if reports.series is None else np.ascontiguousarray(reports.series).tobytes()
    cost = reports.cost.to_bytes(4, "big") if reports.cost else b""
    wide, long = len(values) // n, len(series) // n
    return [
        blake2b(
            values[at * wide : (at + 1) * wide] + series[at * long : (at + 1) * long] + cost,
            digest_size=8,
        ).digest()
        for at in range(n)
    ]
