"""The messages that a file holds, each with the bytes that it has there: the verdict on them is
that of the reader of events, and of nothing before it.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.sample.parts import Part
from ldp_kafka.runtime.wire.arrow import ARROW

__all__ = ["STDIN", "read_part", "split"]

STDIN = Path("-")
_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(r"[ \t\r\n]*")
_decoder = json.JSONDecoder()


def read_part(path: Path) -> Part:
    """The messages of a file, or of standard input (``-``); see `split`.

    Raises
    ------
    ConfigurationError : it cannot be read, or holds no message
    """
    if path == STDIN:
        return split(sys.stdin.buffer.read(), "standard input")
    try:
        return split(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}") from None
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None


def split(data: bytes, name: str) -> Part:
    r"""Bytes as messages: an Arrow IPC stream is one; each element of a JSON array is one; so is
    each of several JSON values that stretch over lines; else each line is one. Blank lines are
    none, nor is a byte order mark.

    Parameters
    ----------
    name : of the file, for errors

    Raises
    ------
    ConfigurationError : there is no message

    Examples
    --------
    >>> split(b'{"user": 1}\n\n{"user": 2}\n', "x").messages
    [Message(offset=1), Message(offset=3)]
    >>> part = split(b'[{"user": 1}, {"user": 2}]', "x")
    >>> part.place(part.messages[1].offset)
    'element 2'
    """
    if data.startswith(ARROW):
        return Part([Message(0, -1, data)], lambda _: "the file")
    data = data.removeprefix(_BOM)
    if not data.strip():
        raise ConfigurationError(f"{name} is empty: there is no message to try")
    lines = data.split(b"\n")
    if (values := _values(data)) is not None:
        elements, starts = values
        messages = [Message(at, -1, text) for at, text in enumerate(elements, 1)]
        if starts is None:
            return Part(messages, lambda at: f"element {at}")
        ends = _ends(lines)
        return Part(messages, lambda at: f"line {bisect_right(ends, starts[at - 1]) + 1}")
    return Part(
        [Message(at, -1, line.rstrip(b"\r")) for at, line in enumerate(lines, 1) if line.strip()],
        lambda at: f"line {at}",
    )


def _ends(lines: list[bytes]) -> list[int]:
    """Where each line ends."""
    ends, at = [], 0
    for line in lines:
        at += len(line) + 1
        ends.append(at)
    return ends


def _values(data: bytes) -> tuple[list[bytes], list[int] | None] | None:
    """The elements of one JSON array; or JSON values of which the first has more than a line, and
    where (in bytes) each begins. None for lines of JSON, and where it is no JSON.
    """
    try:
        text = data.decode()
        start = _skip(text, 0)
        _, end = _decoder.raw_decode(text, start)
        if text[start] == "[" and _skip(text, end) == len(text):
            return [text[a:b].encode() for a, b in _elements(text, start)], None
        if "\n" not in text[start:end]:
            return None
        spans = list(_stretch(text, start))
    except (ValueError, RecursionError):
        return None
    begins, at = [], 0
    for before, (a, _) in zip([(0, 0), *spans], spans, strict=False):
        at += len(text[before[0] : a].encode())
        begins.append(at)
    return [text[a:b].encode() for a, b in spans], begins


def _elements(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Where the elements of the array that begins there lie."""
    at = _skip(text, start + 1)
    while text[at] != "]":
        _, end = _decoder.raw_decode(text, at)
        yield at, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _stretch(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Where values lie of which one follows the other. ValueError where something else does."""
    while start < len(text):
        _, end = _decoder.raw_decode(text, start)
        yield start, end
        start = _skip(text, end)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None  # it matches nothing, too
    return found.end()
