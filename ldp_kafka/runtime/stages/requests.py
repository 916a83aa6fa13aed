"""What a coordinator asks of the edge, on its way into the edge's own log.

Requests lie in a topic at the collector. At the edge they are read there, checked, and appended to
every partition of the raw log as *control records*: so what is asked and the values that it is
asked of are in one order, which is folded again after a crash with the same result.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from ldp_kafka.errors import BadRecord, Dropped, Reason
from ldp_kafka.methods.protocols.request import SECOND
from ldp_kafka.records import Request
from ldp_kafka.runtime.wire.arrow import check_size
from ldp_kafka.runtime.wire.parsing import LATEST, parse_json, whole
from ldp_kafka.runtime.wire.records import decode_json, encode_json

__all__ = ["LONGEST_ID", "Forwarding", "is_request", "read_request"]

LONGEST_ID = 200  # characters

_SAID = encode_json(Request("", 0, SECOND, 0, 0))
BEGINS = _SAID[: _SAID.index(b',"id"')]
"""What each control record begins with."""


def is_request(value: bytes | None) -> bool:
    """Whether a message of the raw log is a control record: one of ours, by its own bytes.

    Examples
    --------
    >>> is_request(encode_json(Request("7/1", 7, 1, 500_000, 9)))
    True
    >>> is_request(b'{"user":"m1","time":0,"value":1}'), is_request(None)
    (False, False)
    """
    return value is not None and value.startswith(BEGINS)


def read_request(value: bytes | None) -> Request:
    """The request in a message. BadRecord where it is none, or where a field holds what no request
    can: its slot and phase, an epsilon below 0, a share that is not in (0, 1].

    Examples
    --------
    >>> read_request(encode_json(Request("7/1", 7, 1, 500_000, 9, share=2, of=5))).share
    2
    """
    return _checked(_record(value))


def _record(value: bytes | None) -> object:
    """What a message says; None for a header record."""
    check_size(value)
    assert value is not None  # checked with its size
    return decode_json(parse_json(value))


def _checked(found: object) -> Request:
    if not isinstance(found, Request):
        raise BadRecord(Reason.NOT_A_RECORD)
    if not (
        whole(found.slot, 0, LATEST)
        and whole(found.phase, 0, 2**16)
        and found.epsilon >= 0
        and 0 < found.share <= found.of
        and len(found.id) <= LONGEST_ID
    ):
        raise BadRecord(Reason.WRONG_FIELDS)
    return found


@dataclass
class Forwarding:
    """Which requests of a topic become control records: in the order of their slots, one a slot.

    Parameters
    ----------
    slot_ms : length of a slot
    max_ahead_ms : how far a slot may begin ahead of the moment at which it was asked for
    last : the last slot that was forwarded; -1: none yet

    Notes
    -----
    A coordinator is not trusted. What it can have appended to the edge's log is at most one record
    a slot and partition, of some 150 bytes that are written here, and none of a slot that begins
    more than ``max_ahead_ms`` after the moment that it is compared with. That moment is a bound
    only as far as it is the edge's own: the timestamp of a record is its sender's word, or its
    broker's, so whoever forwards gives the earlier of it and of the edge's clock.

    Not bounded: a coordinator may skip slots, so that all before the one it names can no longer be
    asked for (their values are let go at their deadline, as without any request), and may ask for
    slots long past (nothing is held of them, nobody answers). What users spend, whatever it asks,
    is bounded by their ledgers alone, and not here.
    """

    slot_ms: int
    max_ahead_ms: int
    last: int = -1
    counts: Counter[str] = field(default_factory=Counter)
    """What was forwarded and dropped, in the names of `ldp_kafka.metrics.Metrics.add`."""

    def take(self, value: bytes | None, timestamp_ms: int) -> bytes | None:
        """The control record to append for a message; None for a header record, and where it is
        dropped.

        Parameters
        ----------
        timestamp_ms : when it was asked, in milliseconds
        """
        try:
            found = _record(value)
            if found is None:
                return None
            request = _checked(found)
        except BadRecord:
            self.counts[f"requests_dropped:{Dropped.NOT_A_REQUEST}"] += 1
            return None
        why = self._undue(request, timestamp_ms)
        if why is not None:
            self.counts[f"requests_dropped:{why}"] += 1
            return None
        self.last = request.slot
        self.counts["requests_forwarded"] += 1
        # nothing passes but the fields that were checked: an id could carry anything
        return encode_json(replace(request, id=f"{request.slot}/{request.phase}"))

    def _undue(self, request: Request, timestamp_ms: int) -> Dropped | None:
        """Why it may not be forwarded now."""
        if request.phase != SECOND:
            return Dropped.PHASE
        if request.slot <= self.last:
            return Dropped.REPEATED
        ahead = request.slot * self.slot_ms - timestamp_ms
        return Dropped.AHEAD if ahead > self.max_ahead_ms else None

    def counted(self) -> dict[str, int]:
        """What was counted since the last call."""
        counts = dict(self.counts)
        self.counts.clear()
        return counts
