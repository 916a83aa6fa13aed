"""Events as JSON: one object a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Events, Ids, Tick
from ldp_kafka.runtime.wire.arrow import MARK, MAX_BYTES, check_version
from ldp_kafka.runtime.wire.decoded_run import PlainRun
from ldp_kafka.runtime.wire.event_columns import plain_runs
from ldp_kafka.runtime.wire.fields import Decoded, Fields
from ldp_kafka.runtime.wire.parsing import DEEPEST, maybe_deep, parse_json
from ldp_kafka.runtime.wire.records import decode_json

__all__ = ["read", "read_plain"]

SHORT = 2 * DEEPEST  # bytes: too few to be nested too deeply


def read(message: bytes, fields: Fields) -> Decoded:
    """One event, or a record of ours. BadRecord for what is neither."""
    record = parse_json(message)
    if isinstance(record, dict) and MARK in record and record.get("type") != "event":
        control = decode_json(record)
        if control is None:
            return Decoded()  # a header
        if isinstance(control, Tick):
            return Decoded(tick=control.time)
        raise BadRecord(Reason.NOT_A_RECORD)
    if not isinstance(record, dict):
        raise BadRecord(Reason.NOT_A_RECORD)
    if MARK in record:
        check_version(record[MARK])
    user, time, value = fields.of(record)
    return Decoded(Events(Ids.of([user]), np.array([time]), np.array([value], fields.dtype)))


def read_plain(messages: Sequence[bytes], fields: Fields) -> list[PlainRun]:
    """The plain events among these messages, as `read` reads them one by one.

    What orjson reads as plain the strict parser reads as the same; the converse is not so, and what
    orjson refuses is nothing but not plain.
    """
    try:
        records = list(map(orjson.loads, messages))
    except ValueError:
        records = [_loaded(message) for message in messages]
    careful = [
        at
        for at, message in enumerate(messages)
        if len(message) > SHORT and (len(message) > MAX_BYTES or maybe_deep(message))
    ]
    for at in careful:
        records[at] = None
    return plain_runs(records, fields)


def _loaded(message: bytes) -> Any:
    try:
        return orjson.loads(message)
    except ValueError:
        return None
