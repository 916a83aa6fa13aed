"""Events that are late by another one alone, which was far ahead of its own record's timestamp: one
device whose clock is hours fast closes the slots of all others, and `input.lateness` is no cure.

Only figures, logs and advice rest on it, and nothing that crosses the trust line.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["CURE", "late_by_clocks", "timely"]

CURE = (
    "set that sender's clock, or let a smaller input.max_ahead make such events dead letters (that"
    " needs another name for the topology); a greater input.lateness does not help"
)


def timely(
    latest: NDArray[np.int64], timestamps: NDArray[np.int64], *, slot_ms: int, lateness: int
) -> NDArray[np.int64]:
    """The greatest time (n,) of each message, milliseconds (-1: none); where slots and lateness do
    not explain how far that is ahead of the message's own timestamp, the timestamp.

    Examples
    --------
    >>> stamps = np.array([7_000, 7_000, -1])
    >>> timely(np.array([9_999, 10_000, 10_000]), stamps, slot_ms=1000, lateness=1).tolist()
    [9999, 7000, 10000]
    """
    far = (timestamps >= 0) & (latest // slot_ms > timestamps // slot_ms + lateness + 1)
    return np.where(far, timestamps, latest)


def late_by_clocks(
    slots: NDArray[np.int64],
    before: NDArray[np.int64],
    late: NDArray[np.bool_],
    *,
    slot_ms: int,
    lateness: int,
) -> NDArray[np.bool_]:
    """Which of the late events (n,) would be in time without what was far ahead.

    Parameters
    ----------
    slots, late : (n,) of each event, and whether it was closed before its message
    before : (n,) the greatest `timely` time of the messages before its own, milliseconds
    """
    found: NDArray[np.bool_] = late & (slots > before // slot_ms - lateness - 1)
    return found
