"""Events as JSON: one object a message, or an array of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Events, Ids, Tick
from ldp_kafka.runtime.wire.arrow import MARK, check_version
from ldp_kafka.runtime.wire.decoded_run import PlainRun
from ldp_kafka.runtime.wire.event_columns import MOST, plain_runs
from ldp_kafka.runtime.wire.fields import Decoded, Fields, at
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.plain_json import parse_plain
from ldp_kafka.runtime.wire.records import decode_json

__all__ = ["read", "read_plain"]


def read(message: bytes, fields: Fields) -> Decoded:
    """One event, an array of them, or a record of ours. BadRecord for what is none of these."""
    record = parse_json(message, constants=True)
    if isinstance(record, dict) and MARK in record and record.get("type") != "event":
        control = decode_json(parse_json(message))  # what is ours has none of these constants
        if control is None:
            return Decoded()  # a header
        if isinstance(control, Tick):
            return Decoded(tick=control.time)
        raise BadRecord(Reason.NOT_A_RECORD)
    if isinstance(record, dict) and MARK in record:
        check_version(record[MARK])
    if fields.events is not None:
        return _elements(record, at(record, fields.events), fields)
    if not isinstance(record, dict):
        raise BadRecord(Reason.NOT_A_RECORD)
    user, time, value = fields.of(record)
    return Decoded(Events(Ids.of([user]), np.array([time]), np.array([value], fields.dtype)))


def _elements(message: Any, found: Any, fields: Fields) -> Decoded:
    """A row an element; neighbours of a bad one do not suffer."""
    if not isinstance(found, list):
        raise BadRecord(Reason.EVENTS)
    if len(found) > MOST:
        raise BadRecord(Reason.TOO_LARGE)
    rows, good, bad = [], [], []
    for row, element in enumerate(found):
        try:
            if not isinstance(element, dict):
                raise BadRecord(Reason.NOT_A_RECORD)
            good.append(fields.of(element, message))
            rows.append(row)
        except BadRecord as error:
            bad.append((row, error.reason))
    if not good:
        return Decoded(bad=bad)
    users, times, values = zip(*good, strict=True)
    events = Events(Ids.of(users), np.array(times), np.array(values, fields.dtype))
    return Decoded(events, np.array(rows), bad) if bad else Decoded(events)


def read_plain(messages: Sequence[bytes], fields: Fields) -> list[PlainRun]:
    """The plain events among these messages, as `read` reads them one by one."""
    return plain_runs(parse_plain(messages), fields)
