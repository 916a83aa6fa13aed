"""Events that are late by another one alone, which was far ahead of its own record's timestamp: one
device whose clock is hours fast closes the slots of all others, and `input.lateness` is no cure.

Only figures, logs and advice rest on it, and nothing that crosses the trust line.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER

__all__ = ["CURE", "Timely", "late_by_clocks"]

CURE = (
    "set that sender's clock, or let a smaller input.max_ahead make such events dead letters (that"
    " needs another name for the topology); a greater input.lateness does not help"
)


class Timely:
    """How far the messages of a partition come without what is far ahead.

    An event, or a tick, is far ahead where slots and lateness do not explain how much later it is
    than its message's own timestamp.

    Parameters
    ----------
    slot_ms, lateness : as in the topology; lateness in slots
    ticked : whether ticks alone bring a partition further

    Examples
    --------
    >>> timely = Timely(slot_ms=1000, lateness=1)
    >>> none = np.empty(0, np.int64)
    >>> stamps = np.array([7_000, 7_000, -1])
    >>> timely.before(6, none, none, np.array([9_999, 10_000, 10_000]), stamps).tolist()
    [6, 9, 9, 10]
    """

    def __init__(self, *, slot_ms: int, lateness: int, ticked: bool = False) -> None:
        self._slot_ms, self._lateness, self._ticked = slot_ms, lateness, ticked

    def before(
        self,
        come: int,
        slots: NDArray[np.int64],
        message: NDArray[np.intp],
        latest: NDArray[np.int64],
        timestamps: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """The last slot (m + 1,) that has come before each message, and with the last one.

        Parameters
        ----------
        come : the last one before all of them
        slots, message : (n,) of each event, and which message it came with
        latest : (m,) the greatest time of each message, milliseconds; -1: none
        timestamps : (m,) milliseconds; -1: none
        """
        found = np.where(latest < 0, NEVER, latest // self._slot_ms)
        most = np.where(timestamps < 0, np.iinfo(np.int64).max, timestamps // self._slot_ms)
        most[timestamps >= 0] += self._lateness + 1
        far = found > most
        if far.any():
            found[far] = NEVER
            near = (slots <= most[message]) & (not self._ticked)
            np.maximum.at(found, message[near], slots[near])
        return np.maximum.accumulate(np.concatenate([(come,), found]))


def late_by_clocks(
    slots: NDArray[np.int64], come: NDArray[np.int64], late: NDArray[np.bool_], lateness: int
) -> NDArray[np.bool_]:
    """Which of the late events (n,) would be in time without what was far ahead.

    Parameters
    ----------
    come : (n,) the last slot that had come before each one's message, see `Timely`
    late : (n,) whether its slot was closed before its message
    """
    found: NDArray[np.bool_] = late & (slots > come - lateness - 1)
    return found
