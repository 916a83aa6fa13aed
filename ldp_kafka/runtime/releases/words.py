"""What is said beside releases: where there are none, and what was not shown."""

from __future__ import annotations

from collections.abc import Iterator

from ldp_kafka.accounting.words import span
from ldp_kafka.runtime.releases.stream import Releases
from ldp_kafka.topology import Topology

__all__ = ["notes", "nothing"]


def nothing(topology: Topology, found: Releases) -> Iterator[str]:
    """Why there may be no release, and what to look at."""
    topic, left_out = topology.releases_topic, found.counts.left_out
    if left_out:
        yield (
            f"none of the {_many(left_out, 'release')} in {topic} is of the slots and statistics"
            " that were asked for"
        )
        return
    yield f"{topic} holds no release yet"
    source = topology.input
    late = f", by {_many(source.lateness, 'slot')} more (input.lateness)" if source.lateness else ""
    every = "its partition" if source.partitions == 1 else f"each of {source.partitions} partitions"
    what = "ticks" if source.by_ticks else "events or ticks"
    yield (
        f"a slot of {span(source.slot_ms)} is released, at the earliest, when {what} in"
        f" {every} are later than its end{late}"
    )
    yield f"`ldp-kafka status {topology.file}` says what the next release waits for"


def notes(topology: Topology, found: Releases) -> Iterator[str]:
    """What was in the topic and is not among the releases."""
    topic, counts = topology.releases_topic, found.counts
    if counts.changed:
        yield (
            f"{_many(counts.changed, 'release')} came again with other numbers: the first of each"
            " is shown"
        )
    if counts.unreadable:
        strange = _many(counts.unreadable, "record")
        yield f"no release in {strange} of {topic}: somebody else wrote there"


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
