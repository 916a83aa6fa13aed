"""Recorded or generated values as the raw log of a topology: pure up to the messages, then sent to
Kafka.
"""

from __future__ import annotations

from ldp_kafka.runtime.partitioning import murmur2, partitions_of
from ldp_kafka.runtime.replay.files import read_file
from ldp_kafka.runtime.replay.messages import Raw, as_log, last_tick, messages
from ldp_kafka.runtime.replay.send import UNREAD_BYTES, Unread, send
from ldp_kafka.runtime.replay.source import (
    SlotEvents,
    Source,
    from_arrays,
    from_slots,
    from_table,
    recent_start,
)

__all__ = [
    "UNREAD_BYTES",
    "Raw",
    "SlotEvents",
    "Source",
    "Unread",
    "as_log",
    "from_arrays",
    "from_slots",
    "from_table",
    "last_tick",
    "messages",
    "murmur2",
    "partitions_of",
    "read_file",
    "recent_start",
    "send",
]
