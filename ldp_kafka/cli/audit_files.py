"""Reports as they lie in a topic, or were dumped from one."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, ConfigurationError

__all__ = ["read", "reports"]

_ARROW = b"\xff\xff\xff\xff"  # begins each message of an Arrow IPC stream; no UTF-8 holds it


def read(file: Path) -> NDArray[Any]:
    """The reports in a file: output indices (n,), packed bits (n, bytes), or whatever plain JSON
    lines hold.

    Messages stand one after the other: Arrow IPC streams, or JSON up to the end of its line; header
    records are passed over.

    Raises
    ------
    ConfigurationError : the file cannot be read, holds something else, or reports of several kinds;
        no content is shown
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from None
    return reports(_messages(data), str(file))


def reports(messages: Iterable[bytes], name: str) -> NDArray[Any]:
    """The reports in the messages of one topic or file of this ``name``, as `read` gives them."""
    try:
        batches, singles = [], []
        for message in messages:
            found = _batch(message) if message.startswith(_ARROW) else _line(message)
            if isinstance(found, np.ndarray):
                batches.append(found)
            elif found is not None:
                singles.append(found)
        if singles:
            batches.append(_together(singles))
        if not batches:
            raise ConfigurationError(f"{name}: no reports")
        return np.concatenate(batches)
    except (BadRecord, ValueError, TypeError, KeyError, IndexError, struct.error) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(
            f"{name}: not a dump of reports of one kind, as Arrow messages or JSON lines"
        ) from None


def _messages(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        stream = data.find(_ARROW, at)  # text up to the next stream, if any
        text_ends = len(data) if stream < 0 else stream
        yield from filter(None, map(bytes.strip, data[at:text_ends].split(b"\n")))
        if stream < 0:
            return
        at = _end_of_stream(data, stream)
        yield data[stream:at]


def _end_of_stream(data: bytes, at: int) -> int:
    """Where an Arrow IPC stream ends: after its message of length 0, past the bodies
    of the others.
    """
    while True:
        mark, size = struct.unpack_from("<4si", data, at)
        if mark != _ARROW or size < 0:
            raise ValueError("not an Arrow IPC stream")
        at += 8
        if not size:
            return at
        root = at + struct.unpack_from("<I", data, at)[0]
        entries = root - struct.unpack_from("<i", data, root)[0]
        length, step = struct.unpack_from("<H", data, entries)[0], 0
        if length > 10:
            # Message.bodyLength, the fourth field
            step = struct.unpack_from("<H", data, entries + 10)[0]
        body = struct.unpack_from("<q", data, root + step)[0] if step else 0
        if body < 0:
            raise ValueError("not an Arrow IPC stream")
        at += size + body


def _batch(message: bytes) -> NDArray[Any] | None:
    from ldp_kafka.runtime.wire.reports import read_reports

    found = read_reports(message)
    return None if found is None else found.values


def _line(text: bytes) -> Any:
    """What one line reports: a number, a list, or packed bits; None for a header record."""
    record = json.loads(text)
    if not isinstance(record, dict):
        return record
    if record.get("type") == "header":
        return None
    if "bits" in record:
        return bytes.fromhex(record["bits"])
    return record["index"] if "index" in record else record["value"]


def _together(singles: list[Any]) -> NDArray[Any]:
    if all(isinstance(each, bytes) for each in singles):
        (width,) = {len(each) for each in singles}
        return np.frombuffer(b"".join(singles), np.uint8).reshape(-1, width)
    found = np.asarray(singles)
    if found.dtype.kind not in "iufbU":
        raise ValueError("neither numbers nor labels")
    return found
