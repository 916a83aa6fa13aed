"""Small JSON messages parsed many at a time, for whoever reads what is plain of them as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from ldp_kafka.runtime.wire.arrow import MAX_BYTES
from ldp_kafka.runtime.wire.parsing import DEEPEST, maybe_deep, surely_flat

__all__ = ["parse_plain"]

SHORT = 2 * DEEPEST  # bytes: too few to be nested too deeply


def parse_plain(messages: Sequence[bytes]) -> list[Any]:
    """What JSON says in each message; None for one that is to be read by itself.

    What orjson reads as plain the strict parser reads as the same; the converse is not so, and what
    orjson refuses is nothing but not plain. Integers beyond 64 bits are floats here.
    """
    try:
        records = list(map(orjson.loads, messages))
    except ValueError:
        records = [_loaded(message) for message in messages]
    if max(map(len, messages), default=0) > SHORT:
        for at, message in enumerate(messages):
            if len(message) > SHORT and (
                len(message) > MAX_BYTES
                or (maybe_deep(message) and not surely_flat(message, records[at]))
            ):
                records[at] = None
    return records


def _loaded(message: bytes) -> Any:
    try:
        return orjson.loads(message)
    except ValueError:
        return None
