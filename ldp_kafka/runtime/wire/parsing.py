"""Strict parts of what is read as JSON: what none of our records may hold is refused here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.randomness import Digests

__all__ = [
    "DEEPEST",
    "HEX",
    "LATEST",
    "LONGEST",
    "check_user",
    "digest",
    "dump_json",
    "maybe_deep",
    "numeric",
    "parse_json",
    "surely_flat",
    "whole",
]

LATEST = 2**47  # milliseconds: the year 6429; no time, and no number of a slot, reaches it
LONGEST = 256  # bytes of a user id
DEEPEST = 128
"""Levels of arrays and objects in a message. Without a limit of ours Python's would hold, which
depends on who calls: two workers could read one message in two ways.
"""
DIGITS = 640  # of a whole number, which Python reads whatever its settings are
HEX = re.compile(r"[0-9a-f]{32}")


def _refuse(_: str) -> Any:
    raise BadRecord(Reason.NOT_FINITE)


def _integer(text: str) -> int | float:
    """A whole number of JSON; one of more than 640 digits is beyond all floats, an infinity. How
    many digits Python reads depends on its settings: two workers could read one message in two
    ways, and one such number would take its neighbours along.
    """
    return int(text) if len(text) <= DIGITS else float(text)


_STRICT = json.JSONDecoder(parse_constant=_refuse, parse_int=_integer)
_LENIENT = json.JSONDecoder(parse_int=_integer)


def parse_json(value: bytes, *, constants: bool = False) -> Any:
    """JSON, strictly: UTF-8, no NaN or infinities, at most 128 levels. BadRecord otherwise.

    Parameters
    ----------
    constants : whether ``NaN``, ``Infinity`` and ``-Infinity`` are read, as pandas and Python's
        json write them: they matter in a field that is read, and in no other
    """
    try:
        found = (_LENIENT if constants else _STRICT).decode(value.decode())
    except BadRecord:
        raise
    except (
        ValueError,
        RecursionError,
    ):  # UnicodeDecodeError and JSONDecodeError are ValueErrors; their texts show the data
        raise BadRecord(Reason.NOT_JSON) from None
    if maybe_deep(value) and _levels(found)[0] > DEEPEST:
        raise BadRecord(Reason.NOT_JSON)
    return found


def maybe_deep(value: bytes) -> bool:
    """Whether there are so many brackets that what is said may have too many levels."""
    return _brackets(value) > DEEPEST


def surely_flat(value: bytes, found: Any) -> bool:
    """Whether JSON has no more levels than it may, as far as what is left of it tells: where a name
    occurs twice, or a text holds brackets, nothing is sure.
    """
    levels, containers = _levels(found)
    return levels <= DEEPEST and containers == _brackets(value)


def _brackets(value: bytes) -> int:
    return value.count(b"[") + value.count(b"{")


def _levels(found: Any) -> tuple[int, int]:
    """Levels of arrays and objects, and how many there are; of names that occur twice the last one
    counts.
    """
    levels, containers, inner = 0, 0, [found]
    while inner := [each for each in inner if type(each) is dict or type(each) is list]:
        levels, containers = levels + 1, containers + len(inner)
        inner = [
            each for outer in inner for each in (outer.values() if type(outer) is dict else outer)
        ]
    return levels, containers


def dump_json(record: Mapping[str, Any]) -> bytes:
    """Compact, without NaN and infinities."""
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode()


def check_user(found: Any) -> None:
    """BadRecord unless it is text of 1 to 256 bytes."""
    try:
        if not (type(found) is str and 0 < len(found.encode()) <= LONGEST):
            raise BadRecord(Reason.USER)
    except UnicodeEncodeError:  # a lone surrogate: JSON can say it, UTF-8 cannot
        raise BadRecord(Reason.USER) from None


def whole(found: Any, low: int = -(2**62), high: int = 2**62) -> bool:
    """Whether it is an integer in [low, high)."""
    return type(found) is int and low <= found < high


def numeric(found: Any, depth: int = 3) -> bool:
    """Whether it is nothing, a finite number, or a list of such."""
    if type(found) is list:
        return depth > 0 and all(numeric(each, depth - 1) for each in found)
    return found is None or (type(found) in (int, float) and -inf < found < inf)


def digest(text: Any) -> Digests:
    """32 hexadecimal digits as (1, 2). BadRecord otherwise."""
    if type(text) is not str or not HEX.fullmatch(text):
        raise BadRecord(Reason.WRONG_FIELDS)
    return np.frombuffer(bytes.fromhex(text), np.uint64).reshape(1, 2)
