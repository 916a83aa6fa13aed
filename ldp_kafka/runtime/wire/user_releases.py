"""Releases of single reports, and of streams, written many at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.methods.delay import Closed
from ldp_kafka.records import Release
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.statistics import Singles

__all__ = ["DIGITS", "write_stream_releases", "write_user_releases"]

DIGITS = 15  # of a published float: what every platform computes alike
_NUMBERS = '"value":null,"standard_error":null,"confidence_interval":null'
NOT_FINITE = "a release must be finite"
_quoted = json.JSONEncoder().encode  # a text, as `dump_json` writes it


def write_user_releases(
    common: Callable[[int], Release],
    slots: Sequence[int],
    found: Singles,
    users: Sequence[str | None],
) -> list[bytes]:
    """The release of each single report in JSON.

    Parameters
    ----------
    common : the release of a slot, without its numbers and its user
    slots : (n,)
    found : numbers of n reports
    users : (n,) pseudonyms, hexadecimal; None: no word of the user
    """
    around = {slot: _around(common(slot)) for slot in set(slots)}
    low, high = found.interval()
    shares = np.broadcast_to(found.reliability, len(slots))
    unstated = found.reason is not None
    why = _why(found.reason)
    columns = (
        ["null"] * len(slots) if unstated and each is not found.values else _texts(each)
        for each in (found.values, found.standard_errors, low, high)
    )
    written = []
    for slot, user, value, error, least, most, share in zip(
        slots, users, *columns, _texts(shares), strict=True
    ):
        head, tail = around[slot]
        of_user = "" if user is None else f',"user":"{user}"'
        interval = "null" if unstated else f"[{least},{most}]"
        written.append(
            f'{head}"value":{value},"standard_error":{error},"confidence_interval":{interval}'
            f'{tail}{of_user},"reliability":{share}{why}}}'.encode()
        )
    return written


def write_stream_releases(common: Release, closed: Closed, streams: Sequence[str]) -> list[bytes]:
    """The releases of one slot in JSON, one a stream.

    Parameters
    ----------
    common : the slot's release, without its numbers and its stream
    closed : of that slot alone, its values (1, n) finite; an error may be NaN: it cannot be said
    streams : (n,) ids
    """
    values, *others = (part[0] for part in closed.numbers)
    if any(np.isinf(each).any() for each in others):
        raise ValueError(NOT_FINITE)
    head, tail = _around(common)
    columns = (map(_or_null, each.tolist()) for each in others)
    why = _why(closed.reason)
    written = []
    for stream, value, error, least, most in zip(streams, _texts(values), *columns, strict=True):
        interval = "null" if error == "null" else f"[{least},{most}]"
        written.append(
            f'{head}"value":{value},"standard_error":{error},"confidence_interval":{interval}'
            f'{tail},"user":{_quoted(stream)}{why if error == "null" else ""}}}'.encode()
        )
    return written


def _why(reason: str | None) -> str:
    """What stands at the end of a release that states no error."""
    return "" if reason is None else f',"error_reason":{_quoted(reason)}'


def _around(common: Release) -> tuple[str, str]:
    """What stands in a release before its numbers, and between them and its user."""
    head, tail = encode_json(common).decode().split(_NUMBERS)
    return head, tail[:-1]


def _texts(column: NDArray[np.float64]) -> list[str]:
    """Each number, or each vector with null for what it lacks."""
    if column.ndim > 1:
        return [f"[{','.join(map(_or_null, vector))}]" for vector in column.tolist()]
    if not np.isfinite(column).all():
        raise ValueError(NOT_FINITE)
    bits = np.ascontiguousarray(column, np.float64).view(np.int64)
    if (bits == bits[0]).all():
        return [_text(float(column[0]))] * len(column)
    return list(map(_text, column.tolist()))


def _text(number: float) -> str:
    """What Python writes for the float that these digits are nearest to."""
    text = f"{number:.{DIGITS}g}"
    # No two numbers of 15 digits are one float, so the float is written with the same digits; with
    # an exponent, or none, it may be written in another way
    return text if "." in text and "e" not in text else repr(float(text))


def _or_null(number: float) -> str:
    return _text(number) if isfinite(number) else "null"
