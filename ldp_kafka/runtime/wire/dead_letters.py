"""Dead letters: where a bad record lay and why, never what it held."""

from __future__ import annotations

import json

from ldp_kafka.runtime.log import Record

__all__ = ["dead_letter"]


def dead_letter(to: str, topic: str, partition: int, offset: int, row: int, reason: str) -> Record:
    """A record for one bad row.

    The body is JSON; the headers carry the same under the names that Kafka Connect gives them
    (``__connect.errors.*``), with ``ldp.reason`` a code of `ldp_kafka.runtime.wire.events.REASONS`.
    """
    body = {
        "ldp_kafka": 1,
        "type": "dead_letter",
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "row": row,
        "reason": reason,
    }
    headers = {
        "__connect.errors.topic": topic,
        "__connect.errors.partition": partition,
        "__connect.errors.offset": offset,
        "ldp.row": row,
        "ldp.reason": reason,
    }
    return Record(
        to,
        0,
        None,
        json.dumps(body, separators=(",", ":")).encode(),
        tuple((name, str(value).encode()) for name, value in headers.items()),
    )
