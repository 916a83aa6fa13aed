"""What a changelog holds, and how a table's keys are written in it."""

from __future__ import annotations

import json

from ldp_kafka.runtime.kafka.admin import Config
from ldp_kafka.runtime.kafka.reader import Spans, read_records
from ldp_kafka.runtime.recovery.checkpoints import META

__all__ = ["compacted", "key_bytes", "newest_metas"]

# records at the end of a changelog that are looked at first: a snapshot ends with its meta, unless
# it has tombstones to write
TAIL = 8
DEEPER = 16  # times as many are looked at next, where no meta was among them


def compacted(config: Config, topic: str) -> dict[str, bytes]:
    """What a changelog holds: the last value of each key, without those that were deleted."""
    held: dict[str, bytes] = {}
    for record in read_records(config, topic):
        if record.key is None:
            continue
        name = _name(record.key)
        if record.value is None:
            held.pop(name, None)
        else:
            held[name] = record.value
    return held


def newest_metas(config: Config, topic: str, within: Spans) -> dict[int, dict[str, bytes]]:
    """The ``meta`` that was written last in each of these partitions, by its key; a partition that
    has none is not there. Read from the end of the log backwards.
    """
    found: dict[int, dict[str, bytes]] = {}
    tail = TAIL
    left = {number: span for number, span in within.items() if span[1] > span[0]}
    while left:
        ends = {n: (max(first, end - tail), end) for n, (first, end) in left.items()}
        metas: dict[int, dict[str, bytes]] = {number: {} for number in left}
        for record in read_records(config, topic, ends):
            name = "" if record.key is None else _name(record.key)
            metas[record.partition].pop(name, None)
            if f"/{META}/" in name and record.value is not None:
                metas[record.partition][name] = record.value
        for number, (first, _) in list(left.items()):
            if metas[number]:
                name = next(reversed(metas[number]))
                found[number] = {name: metas[number][name]}
            if metas[number] or ends[number][0] == first:
                del left[number]
        tail *= DEEPER
    return found


def key_bytes(name: str) -> bytes:
    """A table's key as a record of its changelog has it: Faust writes JSON."""
    return json.dumps(name).encode()


def _name(key: bytes) -> str:
    """What `key_bytes` was given; the text itself where it is not ours, for `inspect` to say so."""
    try:
        found = json.loads(key)
    except ValueError:
        found = None
    return found if isinstance(found, str) else key.decode(errors="replace")
