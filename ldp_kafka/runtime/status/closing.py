"""When a slot is released, as it follows from a topology alone."""

from __future__ import annotations

from dataclasses import dataclass

from ldp_kafka.methods import StreamMethod
from ldp_kafka.statistics import CrowdStatistic
from ldp_kafka.topology import Topology

__all__ = ["ALL", "NONE", "OWN", "Closing", "closing_of"]

ALL, OWN, NONE = "all", "own", "none"
"""What a release waits for: that its slot is closed in all partitions of the input; in its own; no
slot at all, where each report is released by itself.
"""


@dataclass(frozen=True)
class Closing:
    """When a slot is released.

    Parameters
    ----------
    waits : `ALL`, `OWN` or `NONE`
    slot_ms : length of a slot, milliseconds
    lateness : slots that stay open behind the latest event
    behind : slots that the method stays behind what is closed
    hold : slots in which a coordinator's request may be answered; 0 where none asks
    hop : slots that are released together

    Examples
    --------
    >>> hourly = Closing(ALL, 3_600_000, lateness=2)
    >>> hourly.through(10), hourly.closer(7)
    (7, 10)
    >>> weekly = Closing(OWN, 86_400_000, hop=7)
    >>> weekly.through(13), weekly.through(14), weekly.closer(7)
    (6, 13, 14)
    """

    waits: str
    slot_ms: int
    lateness: int = 0
    behind: int = 0
    hold: int = 0
    hop: int = 1

    def through(self, newest: int) -> int:
        """The last slot that is released, at the latest, once a partition has come to ``newest``:
        the slot of its latest event or tick.
        """
        ended = (newest - self.lateness) // self.hop * self.hop - 1
        return ended - self.behind - self.hold

    def closer(self, slot: int) -> int:
        """The least slot of an event or tick with which ``slot`` is released, at the latest."""
        last = ((slot + self.behind + self.hold) // self.hop + 1) * self.hop - 1
        return last + self.lateness + 1


def closing_of(topology: Topology) -> Closing:
    """That of a topology's releases; where there are several statistics, of the crowd's."""
    source, method = topology.input, topology.method
    hold = source.hold if method.phases > 1 else 0
    if any(isinstance(one, CrowdStatistic) for one in topology.statistics.statistics):
        return Closing(ALL, source.slot_ms, source.lateness, method.delay, hold)
    if isinstance(method, StreamMethod):
        windows = method.windows
        return Closing(OWN, source.slot_ms, source.lateness, windows.behind, hop=windows.hop)
    waits = OWN if topology.holds_slots else NONE
    return Closing(waits, source.slot_ms, source.lateness, method.delay, hold)
