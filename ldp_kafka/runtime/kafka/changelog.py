"""What a changelog holds, and how a table's keys are written in it."""

from __future__ import annotations

import json

from ldp_kafka.runtime.kafka.admin import Config
from ldp_kafka.runtime.kafka.reader import read_records

__all__ = ["compacted", "key_bytes"]


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
