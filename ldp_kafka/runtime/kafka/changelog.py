"""What a changelog holds, and how a table's keys are written in it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ldp_kafka.runtime.kafka.admin import Config, extents
from ldp_kafka.runtime.kafka.reader import Spans, read_records
from ldp_kafka.runtime.recovery.keys import Key, is_meta, pane_range

__all__ = ["compacted", "key_bytes", "newest_metas", "read_key", "since"]

# records at the end of a changelog that are looked at first: a snapshot ends with its meta, unless
# it has tombstones to write
TAIL = 8
DEEPER = 16  # times as many are looked at next, where no meta was among them


def compacted(config: Config, topic: str) -> dict[Key, bytes]:
    """What a changelog holds: the last value of each key, without those that were deleted."""
    held = _newest(config, topic, None)
    return {name: value for name, value in held.items() if value is not None}


def since(
    config: Config, topic: str, begins: Mapping[int, int]
) -> tuple[dict[Key, bytes | None], dict[int, int]]:
    """What was written into these partitions from these offsets on: the last value of each key,
    None where it was deleted; and where each partition ends.
    """
    held = extents(config, topic, sorted(begins))
    within = {number: (max(first, begins[number]), end) for number, (first, end) in held.items()}
    return _newest(config, topic, within), {number: end for number, (_, end) in held.items()}


def _newest(config: Config, topic: str, within: Spans | None) -> dict[Key, bytes | None]:
    records = read_records(config, topic, within)
    return {read_key(each.key): each.value for each in records if each.key is not None}


def newest_metas(config: Config, topic: str, within: Spans) -> dict[int, dict[Key, bytes]]:
    """The ``meta`` that was written last in each of these partitions, by its key; a partition that
    has none is not there. Read from the end of the log backwards.
    """
    found: dict[int, dict[Key, bytes]] = {}
    tail = TAIL
    left = {number: span for number, span in within.items() if span[1] > span[0]}
    while left:
        ends = {n: (max(first, end - tail), end) for n, (first, end) in left.items()}
        metas: dict[int, dict[Key, bytes]] = {number: {} for number in left}
        for record in read_records(config, topic, ends):
            name = "" if record.key is None else read_key(record.key)
            metas[record.partition].pop(name, None)
            if is_meta(name) and record.value is not None:
                metas[record.partition][name] = record.value
        for number, (first, _) in list(left.items()):
            if metas[number]:
                name = next(reversed(metas[number]))
                found[number] = {name: metas[number][name]}
            if metas[number] or ends[number][0] == first:
                del left[number]
        tail *= DEEPER
    return found


def key_bytes(name: Key) -> bytes:
    """A table's key as a record of its changelog has it: Faust writes JSON."""
    return json.dumps(name).encode()


def read_key(key: bytes) -> Key:
    """What `key_bytes` was given; the text itself where it is not ours, for `inspect` to say so."""
    try:
        found = json.loads(key)
    except ValueError:
        found = None
    match found:
        case str():
            return found
        case [str(name), [float(slot), float(end)]] if slot.is_integer():
            if (slot, end) == pane_range(int(slot)):
                return name, (slot, end)
    return key.decode(errors="replace")
