"""Requests in a raw log: what a coordinator asks of one slot's users, beside their values."""

from __future__ import annotations

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.records import Request
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json

__all__ = ["Forwarding", "is_request", "read_request"]

_BEGINS = b'{"ldp_kafka":1,"type":"request",'


def is_request(value: bytes | None) -> bool:
    """Whether a message of a raw log is one of our requests, which its bytes tell."""
    return value is not None and value.startswith(_BEGINS)


def read_request(value: bytes) -> Request:
    """The request that a message holds. BadRecord otherwise."""
    found = decode_json(parse_json(value))
    if not isinstance(found, Request):
        raise BadRecord(Reason.NOT_A_RECORD)
    return found


class Forwarding:
    """stub of the lead, to be replaced."""

    def __init__(self, topology: object) -> None:
        del topology

    def take(self, value: bytes, timestamp: int) -> bytes | None:
        """Stub"""
        del timestamp
        return value
