"""What a worker does by the clock, beside folding: it tells idle partitions how far event time has
come.

Wall clock decides only when to append a tick; no fold sees it. Nothing here asks a broker or reads
a clock: what they say is given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

__all__ = ["ClockTicks", "Place", "Ticks"]

HEAR = 5.0  # seconds at least between two looks at what other workers have kept

Place = tuple[str, int]
"""Topic and partition."""


class ClockTicks:
    """Ticks at the beginning of each slot, by the clock, for logs whose slots ticks alone close.

    Parameters
    ----------
    slot_ms : length of a slot
    """

    def __init__(self, slot_ms: int) -> None:
        self._slot_ms = slot_ms
        self._told: dict[int, int] = {}

    def due(self, marks: Mapping[int, int], now_ms: int) -> tuple[int, list[int]]:
        """The time of the tick that is due, and the partitions to which it is news, noted as told.

        Parameters
        ----------
        marks : of each partition that is folded, the greatest time of a tick in it
        now_ms : by the clock
        """
        time = now_ms // self._slot_ms * self._slot_ms
        behind = [n for n, mark in sorted(marks.items()) if max(mark, self._told.get(n, -1)) < time]
        self._told |= dict.fromkeys(behind, time)
        return time, behind


class Ticks:
    """Ticks for idle partitions of one log, where its topology asks for them.

    Parameters
    ----------
    seconds : without an event after which a partition is idle
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ticked: dict[int, float] = {}
        self._heard = float("-inf")

    def idle(
        self, assigned: Collection[int], seen: Mapping[int, float], now: float
    ) -> Collection[int]:
        """Partitions that are idle.

        Parameters
        ----------
        assigned : partitions of this worker
        seen : when each of them last had an event; one that never had is not in it
        """
        never = float("-inf")
        for number in assigned:
            if number not in seen:
                self._ticked.setdefault(number, now)
        return [
            number
            for number in assigned
            if now - max(seen.get(number, never), self._ticked.get(number, never)) > self.seconds
        ]

    def asks(self, idle: Collection[int], watermarks: Mapping[int, int], now: float) -> bool:
        """Whether to ask how far other workers have come: this one's partitions have nothing newer
        for an idle one, and it has not asked for a while.
        """
        latest = max(watermarks.values(), default=-1)
        if not any(latest <= watermarks.get(number, -1) for number in idle):
            return False
        if not now - self._heard > max(self.seconds, HEAR):
            return False
        self._heard = now
        return True

    def due(
        self, idle: Collection[int], watermarks: Mapping[int, int], latest: int, now: float
    ) -> list[int]:
        """Partitions to which a tick of event time ``latest`` is news, noted as told."""
        behind = [number for number in idle if latest > watermarks.get(number, -1)]
        self._ticked |= dict.fromkeys(behind, now)
        return behind
