"""Our own records as bytes: one as JSON, a batch as an Arrow IPC stream.

=====================  ===========================================================================
how a message begins   what it is
=====================  ===========================================================================
``{"ldp_kafka":1,``    one record as JSON; ``"type"`` says which: event, report, request, release,
                       tick, partial, sums, dead_letter, header
``ff ff ff ff``        a batch as an Arrow IPC stream; the schema's metadata hold ``ldp_kafka``
                       (version), ``type``, and what the rows share
=====================  ===========================================================================

A report batch (`ldp_kafka.runtime.wire.reports`) has the columns ``id`` (16 bytes), ``slot``
(int64), what the mechanism emitted, and, only for releases per user, ``series`` (16 bytes). What it
emitted is ``index`` (a whole number of ``scale``, or lists of so many for vectors; int32, or int64
where one does not fit) or ``bits`` (packed, of fixed length; hexadecimal in JSON). The metadata:
fingerprint, scale, phase, bound (its number), chunk, closed; where a request was answered
``cost``, and where slots have several phases ``settled``. Decoding is strict: `BadRecord` with a
reason, never a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import (
    KEPT,
    DeadLetter,
    Event,
    Partial,
    Release,
    Report,
    Reports,
    Request,
    Sums,
    Tick,
)
from ldp_kafka.runtime.wire.arrow import MARK, VERSION, check_version
from ldp_kafka.runtime.wire.parsing import (
    HEX,
    LATEST,
    check_user,
    dump_json,
    numeric,
    parse_json,
    whole,
)
from ldp_kafka.runtime.wire.single_reports import Stamps, report_of, reports_of, write_singles

__all__ = [
    "NAMES",
    "SINGLE",
    "decode_json",
    "encode_json",
    "event_of",
    "header",
    "header_of",
    "single_of",
]

SINGLE = {
    "event": Event,
    "request": Request,
    "release": Release,
    "tick": Tick,
    "partial": Partial,
    "sums": Sums,
    "dead_letter": DeadLetter,
}
_OPTIONAL: dict[Any, dict[str, Any]] = {
    Release: dict.fromkeys(
        ("user", "reliability", "round", "event", "categories", "edges", "error_reason")
    ),
    Request: {"share": 1, "of": 1},
    Partial: {"cost": 0},
    Sums: {"twice": False},
}
"""Fields that are written where they say something: not at these values."""
NAMES = {kind: name for name, kind in SINGLE.items()}
_REASONS = frozenset(Reason)


def header(topology: str, fingerprint: str, layout: str) -> bytes:
    """The record at offset 0 of a topic of ours."""
    return dump_json(
        {
            MARK: VERSION,
            "type": "header",
            "topology": topology,
            "fingerprint": fingerprint,
            "layout": layout,
        }
    )


def header_of(value: bytes) -> Mapping[str, Any] | None:
    """What a header record says; None where this is none."""
    try:
        record = parse_json(value)
    except BadRecord:
        return None
    is_one = isinstance(record, dict) and MARK in record and record.get("type") == "header"
    return record if is_one else None


def encode_json(
    record: Event | Report | Request | Release | Tick | Partial | Sums | DeadLetter | Reports,
) -> bytes:
    """One record; a `Reports` must have one row."""
    if isinstance(record, Reports):
        return write_singles(record, Stamps.of(record))[0]
    if isinstance(record, Report):
        return encode_json(reports_of([record]))
    body = {name: getattr(record, name) for name in record.__slots__}  # asdict copies deep
    for name, unsaid in _OPTIONAL.get(type(record), {}).items():
        if body[name] == unsaid:
            del body[name]
    return dump_json({MARK: VERSION, "type": NAMES[type(record)], **body})


def decode_json(
    record: Any,
) -> Event | Reports | Request | Release | Tick | Partial | Sums | DeadLetter | None:
    """The record in a parsed JSON object of ours; None for a header record. BadRecord otherwise."""
    if not isinstance(record, dict) or MARK not in record:
        raise BadRecord(Reason.NOT_A_RECORD)
    body = dict(record)
    check_version(body.pop(MARK))
    kind = body.pop("type", None)
    if kind == "header":
        return None
    if kind == "report":
        return report_of(body)
    made = SINGLE.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise BadRecord(Reason.WRONG_FIELDS)
    return single_of(made, body)


def single_of(
    kind: Any, body: Mapping[str, Any]
) -> Event | Request | Release | Tick | Partial | Sums | DeadLetter:
    """The record of that kind with these fields and no others, their types checked."""
    needed = set(kind.__slots__)
    if not needed - _OPTIONAL.get(kind, {}).keys() <= body.keys() <= needed:
        raise BadRecord(Reason.WRONG_FIELDS)
    if kind is Event:
        return event_of(body["user"], body["time"], body["value"])
    made: Any = kind(**body)
    if kind is Tick:
        if not whole(made.time, 0, LATEST):
            raise BadRecord(Reason.TIME)
    elif kind is Partial:
        return _partial(made)
    elif kind is Sums:
        return _sums(made)
    elif kind is DeadLetter:
        return _dead_letter(made)
    elif kind is Request:
        numbers = (made.slot, made.phase, made.epsilon, made.deadline, made.share, made.of)
        if not (type(made.id) is str and all(map(whole, numbers))):
            raise BadRecord(Reason.WRONG_FIELDS)
    else:
        texts = (
            made.topology,
            made.start,
            made.end,
            made.statistic,
            made.strategy,
            *(text for text in (made.user, made.error_reason) if text is not None),
        )
        values = [made.value, made.standard_error, made.confidence_interval, made.reliability]
        if not (
            all(type(text) is str for text in texts)
            and all(map(numeric, values))
            and whole(made.slot)
            and whole(made.reports, 0)
            and type(made.guarantee) is dict
            and (made.round is None or type(made.round) is dict)
            and (made.event is None or type(made.event) is dict)
            and (made.categories is None or _texts(made.categories))
            and (made.edges is None or _numbers(made.edges))
        ):
            raise BadRecord(Reason.WRONG_FIELDS)
    checked: Request | Release | Tick = made
    return checked


def _texts(found: Any) -> bool:
    """Whether it is a list of texts."""
    return type(found) is list and all(type(each) is str for each in found)


def _numbers(found: Any) -> bool:
    """Whether it is a list of finite numbers."""
    return type(found) is list and None not in found and numeric(found, 1)


def _partial(made: Any) -> Partial:
    """The same with tuples for the lists of JSON, its types checked."""
    support, sample = made.support, made.sample
    numbers = [
        made.source,
        made.slot,
        *(support if isinstance(support, list) else ()),
        *(() if made.first is None else (made.first,)),
    ]
    if not (
        all(map(whole, numbers))
        and (support is None or isinstance(support, list))
        and whole(made.phase, 0, 2**16)
        and whole(made.cost, 0, 2**31)
        and type(made.last) is bool
    ):
        raise BadRecord(Reason.WRONG_FIELDS)
    if not (
        isinstance(sample, list)
        and len(sample) <= KEPT
        and all(type(name) is str and HEX.fullmatch(name) for name in sample)
    ):
        raise BadRecord(Reason.WRONG_FIELDS)
    checked: Partial = replace(
        made, support=None if support is None else tuple(support), sample=tuple(sample)
    )
    return checked


def _sums(made: Any) -> Sums:
    """The same with a tuple for the list of JSON, its types checked."""
    support = made.support
    if not (
        whole(made.slot)
        and whole(made.phase, 0, 2**16)
        and whole(made.cost, 0, 2**31)
        and (support is None or (type(support) is list and all(map(whole, support))))
        and type(made.twice) is bool
    ):
        raise BadRecord(Reason.WRONG_FIELDS)
    checked: Sums = replace(made, support=None if support is None else tuple(support))
    return checked


def _dead_letter(made: Any) -> DeadLetter:
    """The same with a `Reason`, its types checked."""
    if not (
        type(made.topic) is str
        and all(whole(each, 0) for each in (made.partition, made.offset, made.row))
        and type(made.reason) is str
        and made.reason in _REASONS
    ):
        raise BadRecord(Reason.WRONG_FIELDS)
    checked: DeadLetter = replace(made, reason=Reason(made.reason))
    return checked


def event_of(user: Any, time: Any, value: Any) -> Event:
    """The event that these fields say. BadRecord otherwise."""
    check_user(user)
    if not whole(time, 0, LATEST):
        raise BadRecord(Reason.TIME)
    for each in value if type(value) is list and value else [value]:
        if type(each) is float and not -inf < each < inf:
            raise BadRecord(Reason.NOT_FINITE)
        if not (type(each) is float or (type(each) is str and each is value) or whole(each)):
            raise BadRecord(Reason.VALUE)
    return Event(user, time, tuple(value) if type(value) is list else value)
