"""Beside whatever runs a topology or writes to it: while no release comes, what the next one waits
for, said now and then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ldp_kafka.errors import LdpKafkaError
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.status.facts import Facts
from ldp_kafka.runtime.status.reading import read_facts
from ldp_kafka.runtime.status.view import age
from ldp_kafka.runtime.status.waits import BROKEN, waits_for
from ldp_kafka.topology import Topology

__all__ = ["Silence", "watching"]

LOOK = 5.0  # seconds between two looks at whether a release has come
FIRST = 30.0  # seconds without one after which anything is said
LAST = 600.0  # seconds: the longest pause between two questions why
SLOTS = 2  # without a release
_AT_ONCE = {"empty"}  # rules: no slot's time makes it better
_JOIN = 2.0  # seconds


class Silence:
    """When to say what a release waits for, and what: never twice the same in a row.

    Parameters
    ----------
    expected : seconds in which some release is expected where all is well
    """

    def __init__(self, expected: float, now: float) -> None:
        self._expected = max(FIRST, expected)
        self._begin(None, now)

    def _begin(self, total: int | None, now: float) -> None:
        self._total, self._since = total, now
        self._said = ""
        self._pause, self._next = FIRST, now + FIRST

    def wonders(self, total: int, now: float) -> bool:
        """Whether to ask why no release has come; ``total`` are there."""
        if self._total is None:
            self._total = total
        elif total != self._total:
            self._begin(total, now)
        return now >= self._next

    def says(self, facts: Facts, now: float) -> str | None:
        """What to say of these facts; None: nothing, or nothing new."""
        self._next = now + self._pause
        self._pause = min(2 * self._pause, LAST)
        verdict = waits_for(facts)
        early = now - self._since < self._expected
        if early and verdict.state != BROKEN and verdict.rule not in _AT_ONCE:
            return None
        if verdict.rule in ("unknown", self._said):
            return None
        self._said = verdict.rule
        return f"no release for {age(int((now - self._since) * 1000))}: {verdict.line}"


@contextmanager
def watching(
    topology: Topology, say: Callable[[str], None], *, speed: float = 1.0
) -> Iterator[None]:
    """While in here, say what the next release waits for where none has come for two slots' time,
    and for `FIRST` seconds: in a thread of its own, which nothing waits for and whose errors nobody
    sees. Where a side cannot be asked from here, or the topic of releases not be looked at, nothing
    is said.

    Parameters
    ----------
    say : is given a line
    speed : of event time; inf where it goes as fast as it can
    """
    stop = threading.Event()

    def look() -> None:
        silence = Silence(SLOTS * topology.input.slot_ms / 1000 / speed, time.monotonic())
        while not stop.wait(LOOK):
            try:
                line = _line(topology, silence)
            except LdpKafkaError:  # workers and commands say themselves that a broker is away
                continue
            except Exception:  # noqa: BLE001 - what is said beside the work must not disturb it
                return
            if line is not None and not stop.is_set():
                say(f"{topology.name}: {line}")

    thread = threading.Thread(target=look, daemon=True, name="status")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_JOIN)


def _line(topology: Topology, silence: Silence) -> str | None:
    topic = topology.flow.releases
    ends = admin.extents(
        client_config(topology, topic.side), topic.name, range(topic.partitions), timeout=LOOK
    )
    if not silence.wonders(sum(end for _, end in ends.values()), time.monotonic()):
        return None
    facts = read_facts(topology)
    if any(each.not_asked is not None for each in facts.sides):
        return None
    return silence.says(facts, time.monotonic())
