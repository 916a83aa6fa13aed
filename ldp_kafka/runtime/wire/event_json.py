"""Events as JSON: one object a message."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Events, Ids, Tick
from ldp_kafka.runtime.wire.arrow import MARK, check_version
from ldp_kafka.runtime.wire.decoded_run import PlainRun
from ldp_kafka.runtime.wire.event_columns import plain_runs
from ldp_kafka.runtime.wire.fields import Decoded, Fields
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.plain_json import parse_plain
from ldp_kafka.runtime.wire.records import decode_json

__all__ = ["read", "read_plain"]


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
    """The plain events among these messages, as `read` reads them one by one."""
    return plain_runs(parse_plain(messages), fields)
