"""Offsets of somebody else's log that hold no record: what transactions and compaction leave.

The end of a transaction has an offset, and no reader is given it: tried on 4.3.1, with either
``isolation.level``. Nor does a reader's position pass it before the log ends there. So nobody can
tell it from a record that is lost, and a worker goes on behind it only where its topology says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka.admin import Config, settings_of
from ldp_kafka.runtime.kafka.reader import Spans, read_records, spans
from ldp_kafka.runtime.recovery.start import no_record

__all__ = ["UNCOMMITTED", "check_ends", "check_offset", "first_hole", "is_compacted"]

UNCOMMITTED = {"isolation.level": "read_uncommitted"}


def first_hole(offsets: Iterable[int], end: int) -> int | None:
    """The first offset that is missing among these, from their least one on; up to ``end``.

    Examples
    --------
    >>> first_hole([4, 5, 7], 8), first_hole([4, 5], 7), first_hole([4, 5], 6), first_hole([], 6)
    (6, 6, None, 5)
    """
    there = {*offsets}
    return min({*range(min(there, default=end - 1), end)} - there, default=None)


def check_ends(config: Config, topic: str) -> None:
    """See that the last offset of each partition holds a record: behind a transaction it does not.

    Raises
    ------
    ConfigurationError : it does not, or there is no such topic
    BrokerError : the broker did not answer
    """
    ends = spans(config, topic)
    _check(config, topic, {n: (end - 1, end) for n, (first, end) in ends.items() if end > first})


def check_offset(config: Config, topic: str, partition: int, offset: int) -> None:
    """See that an offset before a log's end holds a record; raises as `check_ends`."""
    _check(config, topic, {partition: (offset, offset + 1)})


def _check(config: Config, topic: str, wanted: Spans) -> None:
    # a strict reader is given what a transaction took back, too
    records = read_records({**config, **UNCOMMITTED}, topic, wanted)
    held = {each.partition for each in records}
    for partition in sorted(wanted.keys() - held):
        raise no_record(topic, partition, wanted[partition][0]).exception()


def is_compacted(config: Config, topic: str) -> bool:
    """Whether a topic is, as far as this login may know. BrokerError as `check_ends`."""
    try:
        return "compact" in settings_of(config, topic).get("cleanup.policy", "")
    except ConfigurationError:
        return False
