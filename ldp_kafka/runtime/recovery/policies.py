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
    most : slots that one tick may pass over; None: any number. A partition that nothing was folded
        of is then told nothing but the time 0, which begins its fold: how far it was shows then
    """

    def __init__(self, slot_ms: int, most: int | None = None) -> None:
        self._slot_ms, self._most = slot_ms, most
        self._told: dict[int, int] = {}
        self._begun: dict[int, int] = {}

    def due(self, marks: Mapping[int, int | None], now_ms: int) -> dict[int, int]:
        """By partition the time of the tick that is due, noted as told.

        Parameters
        ----------
        marks : of each partition the greatest time of a tick in it, -1: there was none; None:
            nothing was folded of it yet
        now_ms : by the clock
        """
        slot, most, due = self._slot_ms, self._most, dict[int, int]()
        time = now_ms // slot * slot
        for number, mark in sorted(marks.items()):
            last = max(-1 if mark is None else mark, self._told.get(number, -1))
            if mark is None and most is not None:
                if self._begun.get(number) != time:
                    self._begun[number], due[number] = time, 0
            elif last < time:
                through = time if most is None or last <= 0 else (last // slot + most) * slot
                self._told[number] = due[number] = min(time, through)
        return due


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
