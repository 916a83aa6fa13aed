"""Rows of releases as JSON with a schema, as Kafka Connect's JSON converter reads them
(``schemas.enable=true``): what its JDBC sink writes into a database.
"""

from __future__ import annotations

import json
from typing import Any

from ldp_kafka.runtime.releases.rows import COLUMNS, Row

__all__ = ["SCHEMA", "envelope"]

_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "whole": {"type": "int64"},
    "number": {"type": "double"},
    "time": {
        "type": "int64",
        "name": "org.apache.kafka.connect.data.Timestamp",
        "version": 1,
    },
}
SCHEMA = {
    "type": "struct",
    "name": "ldp_kafka.release",
    "optional": False,
    "fields": [
        {"field": name, "optional": column.optional, **_TYPES[column.kind]}
        for name, column in COLUMNS.items()
    ],
}
"""Of every row."""
_HEAD = f'{{"schema":{json.dumps(SCHEMA, separators=(",", ":"))},"payload":'


def envelope(row: Row, slot_ms: int) -> str:
    """One row in one line; times are milliseconds since 1970-01-01 UTC.

    Parameters
    ----------
    slot_ms : length of a slot, milliseconds
    """
    start, end = (at * slot_ms for at in (row["slot"], row["slot"] + 1))
    payload = {**row, "slot_start": start, "slot_end": end}
    return f"{_HEAD}{json.dumps(payload, separators=(',', ':'), allow_nan=False)}}}"
