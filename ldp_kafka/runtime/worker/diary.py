"""What a worker says of its life: what it was given, what it has recovered, what is wrong."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.recovery.policies import Place
from ldp_kafka.runtime.recovery.snapshot import Snapshot
from ldp_kafka.runtime.stages import clocks
from ldp_kafka.runtime.worker import logs
from ldp_kafka.runtime.worker.events import Event
from ldp_kafka.runtime.worker.logs import Log
from ldp_kafka.runtime.worker.rates import Tally

__all__ = ["Diary"]

_LETTERS = "dead_letters:"
AHEAD = (
    "an event that was far ahead of its record's timestamp closed the slots of all others:"
    f" {clocks.CURE}"
)
TWICE = (
    "users are in several partitions (ldp-kafka validate --from-topic counts them), or an edge or a"
    " device has lost its state, or was copied: mend it, and give the topology a new name"
)
"""What second reports may come of, and what to do."""


class Diary:
    """What a worker says of its life, in the order in which it happens.

    Parameters
    ----------
    topology, role : their names
    clock : seconds, never going back
    """

    def __init__(
        self, topology: str, role: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.log, self._clock = Log(topology, role), clock
        self._begun, self._given = clock(), clock()
        self._has: list[Place] = []
        self._tables = 0.0
        """Seconds that the tables of the newest assignment took."""
        self._released = False
        self._letters, self._late = Tally(clock=clock), Tally(clock=clock)
        self._clocks, self._second = Tally(clock=clock), Tally(clock=clock)
        self._idle: dict[str, tuple[int, ...]] = {}
        self._away: float | None = None

    def assigned(self, places: Iterable[Place]) -> None:
        """The worker has these partitions, and no others."""
        self._given, self._has = self._clock(), sorted(places)
        self._idle.clear()
        self.log.say(Event.ASSIGNED, partitions=_by_topic(self._has))

    def revoked(self) -> None:
        """The worker has no partitions any more. Every agent says so: it is said once."""
        if self._has:
            self.log.say(Event.REVOKED, partitions=_by_topic(self._has))
        self._has = []

    def ready(self, records: int) -> None:
        """The tables of its partitions are there, with so many records."""
        self._tables = self._clock() - self._given
        self.log.say(Event.READY, seconds=_seconds(self._tables), records=records)

    def recovered(
        self, topic: str, partition: int, users: int | None, offset: int, seconds: float
    ) -> None:
        """A partition's state is in memory; to load it took so long."""
        self.log.say(
            Event.RECOVERED,
            partition=partition,
            topic=topic,
            seconds=_seconds(self._tables + seconds),
            users=users,
            offset=offset,
        )

    def read_again(self, topic: str, partition: int, offset: int) -> None:
        """A partition is read again from this offset, which did not come."""
        self.log.say(Event.READ_AGAIN, partition=partition, topic=topic, offset=offset)

    def folded(self, partition: int, folded: Output) -> None:
        """A fold gave this, which is on its way."""
        counts = folded.counts
        if not self._released and counts.get("releases"):
            self._released = True
            slot = folded.gauges.get("released")
            self.log.say(
                Event.FIRST_RELEASE,
                partition=partition,
                slot=None if slot is None else int(slot),
                seconds=_seconds(self._clock() - self._begun),
            )
        self._late.add({"events": counts.get("late", 0)})
        self._clocks.add({"events": counts.get("late_by_clocks", 0)})
        self._second.add({"reports": counts.get("second_reports", 0)})
        letters = {name: n for name, n in counts.items() if name.startswith(_LETTERS)}
        self._letters.add({name.removeprefix(_LETTERS): n for name, n in letters.items()})

    def saved(self, topic: str, snapshot: Snapshot, seconds: float) -> None:
        """A snapshot was written."""
        self.log.say(
            Event.SNAPSHOT,
            partition=snapshot.partition,
            topic=topic,
            records=len(snapshot.records),
            bytes=snapshot.bytes,
            seconds=_seconds(seconds),
        )

    def idle(self, topic: str, partitions: Collection[int], seconds: float) -> None:
        """These partitions of a log, of those that it has, had no event for so long: said where
        they are others than before.
        """
        found = tuple(sorted(partitions))
        if found == self._idle.get(topic, ()):
            return
        self._idle[topic] = found
        if found:
            self.log.say(Event.IDLE, topic=topic, partitions=list(found), seconds=_seconds(seconds))
        else:
            self.log.say(Event.BUSY, topic=topic)

    def away(self, reason: str) -> None:
        """A broker gave no answer: an outage begins, unless one goes on."""
        if self._away is None:
            self._away = self._clock()
            self.log.say(Event.OUTAGE, reason=reason)

    def back(self) -> None:
        """A broker has answered: the outage is over, where there is one."""
        if self._away is not None:
            passed, self._away = self._clock() - self._away, None
            self.log.say(Event.OUTAGE_OVER, seconds=_seconds(passed))

    def look(self, *, everything: bool = False) -> None:
        """Say what is said once a minute; ``everything``: all that there is, as at the end."""
        if (late := self._late.due(everything=everything)) is not None:
            self._counted(Event.LATE, late.seconds, late.counts)
        if (fast := self._clocks.due(everything=everything)) is not None:
            told = {**fast.counts, "message": AHEAD}
            self._counted(Event.CLOCK, fast.seconds, told)
        if (letters := self._letters.due(everything=everything)) is not None:
            self._counted(Event.DEAD_LETTERS, letters.seconds, {"reasons": letters.counts})
        if (second := self._second.due(everything=everything)) is not None:
            told = {**second.counts, "message": TWICE}
            self._counted(Event.SECOND_REPORTS, second.seconds, told)
        logs.catch_up()

    def _counted(self, event: Event, seconds: float, more: Mapping[str, Any]) -> None:
        self.log.say(event, **more, seconds=_seconds(seconds))


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for topic, number in places:
        found[topic].append(number)
    return dict(found)


def _seconds(exact: float) -> float:
    return round(exact, 3)
