"""Releases of single reports, written many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.records import Release
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.statistics import Singles

__all__ = ["DIGITS", "write_user_releases"]

DIGITS = 15  # of a published float: what every platform computes alike
_NUMBERS = '"value":null,"standard_error":null,"confidence_interval":null'


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
    around = {}
    for slot in set(slots):
        head, tail = encode_json(common(slot)).decode().split(_NUMBERS)
        around[slot] = head, tail[:-1]
    low, high = Estimate(found.values, found.standard_errors, 1).interval()
    shares = np.broadcast_to(found.reliability, len(slots))
    columns = (_texts(each) for each in (found.values, found.standard_errors, low, high, shares))
    written = []
    for slot, user, value, error, least, most, share in zip(slots, users, *columns, strict=True):
        head, tail = around[slot]
        of_user = "" if user is None else f',"user":"{user}"'
        written.append(
            f'{head}"value":{value},"standard_error":{error},"confidence_interval":[{least},{most}]'
            f'{tail}{of_user},"reliability":{share}}}'.encode()
        )
    return written


def _texts(column: NDArray[np.float64]) -> list[str]:
    """Each number, or each vector with null for what it lacks."""
    if column.ndim > 1:
        return [f"[{','.join(map(_or_null, vector))}]" for vector in column.tolist()]
    if not np.isfinite(column).all():
        raise ValueError("a release must be finite")
    bits = np.ascontiguousarray(column, np.float64).view(np.int64)
    if (bits == bits[0]).all():
        return [_text(float(column[0]))] * len(column)
    return list(map(_text, column.tolist()))


def _text(number: float) -> str:
    return repr(float(f"{number:.{DIGITS}g}"))


def _or_null(number: float) -> str:
    return _text(number) if isfinite(number) else "null"
